"""The bootstrap service over HTTP: native routes, the engines' H5 dialect, metrics, and a server to embed.

Rules of this file:

1. Everything is decided by the registry; a route translates. All routes run on the event loop's one thread, so the
   registry needs no lock.
2. Before a route sees a request the gate has checked the shared secret, then the size of the body. Only ``/health`` is
   open to everybody.
3. The dialect answers what released engines parse, to the key: a key that they do not know kills them (quirk Q33).
   They send no secret, so with a secret set only a patched engine, or a proxy that adds the header, can use it.

What the dialect decides where the engines' own service decides nothing: a rank's holder is its (rank_ip, rank_port).
The same holder may PUT again and change its entry; another address on a live key gets 409 with holder and remaining
lease (``Limits.legacy_ttl``; by default such a lease does not end). Ranks that were registered natively in the
namespace "" are visible in the dialect too.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Annotated, NoReturn, Self

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..hosts import host_port
from .models import (
    BootstrapError,
    EngineView,
    ErrorBody,
    H5DpRank,
    H5Put,
    H5Query,
    HolderRequest,
    Lease,
    NoteRequest,
    Problem,
    RankFilter,
    RankView,
    RegisterRequest,
)
from .registry import Conflict, Full, Held, Key, Limits, Registry, Unknown

__all__ = ["MAX_BODY_BYTES", "KVBootstrapServer", "create_app"]

MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 10.0  # a body that trickles in slower than this is cut off
_MAX_CONNECTIONS = 1024  # beyond it a request is answered 503
_MAX_ROOMS_ASKED = 1024
_log = logging.getLogger("kvpoll.bootstrap")


class KVBootstrapServer:
    """The bootstrap service on a thread of its own; also a context manager.

    ``port`` 0 takes a free one; ``port`` and ``url`` are known from construction on, because the socket is bound there
    (``OSError`` when the address is taken). With ``secret`` every request but ``/health`` needs
    ``Authorization: Bearer <secret>``. A server is started once; make a new one to start again.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        secret: str | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_body: int = MAX_BODY_BYTES,
    ) -> None:
        self.registry = Registry(limits)
        app = create_app(self.registry, secret=secret, clock=clock, max_body=max_body)
        self._socket = _listen(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="kvpoll-bootstrap", daemon=True)
        if secret is None and not _is_loopback(host):
            _log.warning(
                "the bootstrap service listens on %s without a shared secret: whoever reaches port %d can claim ranks",
                host,
                self.port,
            )

    @property
    def url(self) -> str:
        """The address for clients; of a wildcard bind, the one for clients on this host."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{host_port(host, self.port)}"

    def start(self, timeout: float = 10.0) -> Self:
        """Serve in the background. Returns when requests are answered; ``BootstrapError`` after ``timeout`` seconds."""
        self._thread.start()
        if not self._server.ready.wait(timeout) or not self._server.started:
            self.stop()
            raise BootstrapError("unreachable", f"the bootstrap service on {self.url} did not start in {timeout:g} s")
        return self

    def stop(self, timeout: float = 5.0) -> bool:
        """Finish the requests in progress and stop, within ``timeout`` seconds. False if the thread still runs then.
        Idempotent."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout / 2)
            self._server.force_exit = True
            self._thread.join(timeout / 2)
        self._socket.close()
        if self._thread.is_alive():
            _log.warning("the bootstrap service on %s did not stop in %g s", self.url, timeout)
            return False
        return True

    def run_forever(self) -> None:
        """Serve on the calling thread until SIGINT or SIGTERM, which are then delivered as if nobody had waited."""
        self._run()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.ready.set()


def create_app(
    registry: Registry,
    *,
    secret: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    max_body: int = MAX_BODY_BYTES,
) -> FastAPI:
    """The ASGI application, for those who bring their own server. One event loop only, see rule 1."""
    if secret is not None and not (secret.isascii() and secret.isprintable() and secret and " " not in secret):
        raise ValueError("secret must be printable ASCII without spaces and not empty; None serves without one")
    # The pages at /docs would load scripts from elsewhere; the schema itself is at /openapi.json.
    app = FastAPI(title="kvpoll bootstrap", version="1", docs_url=None, redoc_url=None, redirect_slashes=False)
    locked = [Security(HTTPBearer(auto_error=False))] if secret is not None else []  # for the schema; the gate checks
    for router in (_native(registry, clock), _dialect(registry, clock), _metrics(registry, clock)):
        app.include_router(router, dependencies=locked)

    @app.get("/health", response_class=PlainTextResponse)
    async def health() -> str:
        return "OK"

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_middleware(_Gate, secret=secret, max_body=max_body)
    return app


def _native(registry: Registry, clock: Callable[[], float]) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["native"], responses={s: {"model": ErrorBody} for s in (401, 409, 413, 507)})

    @router.put("/ranks")
    async def register(body: RegisterRequest) -> Lease:
        held = _accepted(registry.register(body.entry(), clock(), token=body.token))
        return Lease(ttl_s=held.ttl or 0.0, ranks=held.ranks, token=held.token)

    @router.post("/ranks/heartbeat")
    async def heartbeat(body: HolderRequest) -> Lease:
        held = _accepted(registry.heartbeat(body.instance, body.token, clock()))
        return Lease(ttl_s=held.ttl or 0.0, ranks=held.ranks)

    @router.delete("/ranks")
    async def unregister(body: HolderRequest) -> Lease:
        held = _accepted(registry.unregister(body.instance, body.token, clock()))
        return Lease(ttl_s=0.0, ranks=held.ranks)

    @router.get("/ranks")
    async def ranks(where: Annotated[RankFilter, Query()]) -> list[RankView]:
        return registry.lookup(clock(), where)

    @router.get("/engines")
    async def engines(bootstrap: str | None = None) -> list[EngineView]:
        return registry.engines(clock(), bootstrap=bootstrap)

    @router.post("/notes")
    async def note(body: NoteRequest) -> Response:
        done = registry.note_by(body.instance, body.token, body.room, body.dp_rank, clock(), bootstrap=body.bootstrap)
        return Response(status_code=204) if done is None else _refuse(done)

    @router.get("/notes")
    async def notes(
        room: Annotated[list[int], Query(max_length=_MAX_ROOMS_ASKED)], bootstrap: str = ""
    ) -> dict[str, int]:
        return {str(number): rank for number, rank in registry.notes(room, clock(), bootstrap=bootstrap).items()}

    return router


def _dialect(registry: Registry, clock: Callable[[], float]) -> APIRouter:
    router = APIRouter(tags=["dialect of released engines (H5)"])

    @router.put("/route", response_class=PlainTextResponse)
    async def put_route(body: H5Put) -> str:
        _accepted(registry.register_by_address(body.to_entry(), clock()))
        return "OK"

    @router.get("/route")
    async def get_route(
        prefill_dp_rank: int | None = None,
        prefill_cp_rank: int | None = None,
        target_tp_rank: int | None = None,
        target_pp_rank: int | None = None,
    ) -> Response:
        dp, cp, tp, pp = prefill_dp_rank, prefill_cp_rank, target_tp_rank, target_pp_rank
        if dp is None or cp is None or tp is None or pp is None:
            return PlainTextResponse("Missing inputs for bootstrap server.", status_code=400)
        now = clock()
        origin = registry.ready_rank(now, Key("", "prefill", 0, 0, 0, 0))
        if origin is None:
            return PlainTextResponse("Not ready: not every prefill rank is registered.", status_code=503)
        if (dp, cp, tp, pp) == (-1, -1, -1, -1):
            return JSONResponse(origin.h5_topology())
        entry = registry.ready_rank(now, Key("", "prefill", dp, cp, tp, pp))
        if entry is None:
            return PlainTextResponse(f"No prefill rank dp={dp} cp={cp} tp={tp} pp={pp}.", status_code=404)
        rank_ip, rank_port = entry.address()
        return JSONResponse({"rank_ip": rank_ip, "rank_port": rank_port})

    @router.post("/register_dp_rank", response_class=PlainTextResponse)
    async def register_dp_rank(body: H5DpRank) -> Response:
        done = registry.note(body.bootstrap_room, body.dp_rank, clock())
        return PlainTextResponse("OK") if done is None else _refuse(done)

    @router.post("/query_dp_ranks")
    async def query_dp_ranks(body: H5Query) -> dict[str, int]:
        return {str(room): rank for room, rank in registry.notes(body.bootstrap_rooms, clock()).items()}

    return router


def _metrics(registry: Registry, clock: Callable[[], float]) -> APIRouter:
    router = APIRouter(tags=["metrics"])
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(_Tables(registry, clock))

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(collectors), media_type=CONTENT_TYPE_LATEST)

    return router


class _Tables(Collector):
    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._registry, self._clock = registry, clock

    def collect(self) -> Iterator[Metric]:
        for name, value in self._registry.gauges(self._clock()).items():
            yield GaugeMetricFamily(f"kvpoll_bootstrap_{name}", f"live entries: {name}", value=value)
        for name, value in self._registry.counters().items():
            yield CounterMetricFamily(f"kvpoll_bootstrap_{name}", f"since the start: {name}", value=value)


class _Gate:
    """ASGI middleware: the shared secret first, then at most ``max_body`` bytes of body, handed on in one piece."""

    def __init__(self, app: ASGIApp, *, secret: str | None, max_body: int) -> None:
        self._app, self._max_body = app, max_body
        self._expected = None if secret is None else b"Bearer " + secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"")
        if self._expected is not None and scope["path"] != "/health" and not hmac.compare_digest(given, self._expected):
            sentence = "this bootstrap service needs its shared secret in the header 'Authorization: Bearer ...'"
            await _answer(401, Problem(kind="unauthorised", sentence=sentence))(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._read(headers.get(b"content-length", b"0"), receive)
        except TimeoutError:
            slow = Problem(kind="refused", sentence=f"the body did not arrive in {_BODY_SECONDS:g} s", field="body")
            await _answer(408, slow)(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            if len(body) > self._max_body:
                large = Problem(kind="refused", sentence=f"a body has at most {self._max_body} bytes", field="body")
                await _answer(413, large)(scope, receive, send)
                return
            await self._app(scope, _replay(body, receive), send)

    async def _read(self, announced: bytes, receive: Receive) -> bytes:
        """The body; more than ``max_body`` bytes as soon as it is, or is announced to be, too long."""
        if not (announced.isdigit() and len(announced) < 20 and int(announced) <= self._max_body):
            return bytes(self._max_body + 1)
        body, more = bytearray(), True
        while more and len(body) <= self._max_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return bytes(body)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _accepted(result: Held | Conflict | Full | Unknown) -> Held:
    return result if isinstance(result, Held) else _refuse(result)


def _refuse(result: Conflict | Full | Unknown) -> NoReturn:
    status = 409 if isinstance(result, Conflict) else 507 if isinstance(result, Full) else 404
    raise HTTPException(status, result.problem().model_dump())


async def _invalid(_: Request, error: Exception) -> Response:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    context, got = first.get("ctx", {}), first.get("input")
    field = context.get("field") or ".".join(str(step) for step in first.get("loc", ())[1:]) or "body"
    expected = context.get("expected") or first.get("msg", "a valid request")
    shown = repr(got)[:100] if isinstance(got, (str, int, float)) and field != "token" else None
    sentence = f"{field}: {first.get('msg')}"
    return _answer(422, Problem(kind="refused", sentence=sentence, field=field, expected=str(expected), got=shown))


async def _http_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, StarletteHTTPException):
        raise error
    if isinstance(error, HTTPException) and isinstance(error.detail, dict):
        return JSONResponse({"error": error.detail}, status_code=error.status_code)
    return _answer(error.status_code, Problem(kind="refused", sentence=str(error.detail)))


def _answer(status: int, problem: Problem) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": problem.model_dump()}, status_code=status, headers=headers)


def _listen(host: str, port: int) -> socket.socket:
    # Listening from here on makes the port ours: bound sockets with SO_REUSEADDR exclude nobody before they listen.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=256)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
