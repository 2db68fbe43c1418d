"""The client side of the bootstrap service: typed calls, and what keeps a registration alive.

* :class:`BootstrapClient`: one blocking HTTP call per method. Never call it on an engine's thread or on the thread of
  the control sockets (quirk Q44): a dead address costs the whole timeout.
* :class:`Keeper`: the state machine of a registration. It has no clock and no I/O: it is given ``now``, names the next
  action, and is told how the action ended.
* :class:`RegistrationThread`: the few lines that connect the two.

A keeper chooses its owner token itself, so that a registration whose answer was lost can be repeated, and so that the
same token is good after the registry was restarted and has forgotten everything.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

import httpx
from pydantic import JsonValue, TypeAdapter, ValidationError

from .models import (
    BootstrapError,
    EngineView,
    ErrorBody,
    ErrorKind,
    Lease,
    NoteRequest,
    RankFilter,
    RankView,
    RegisterRequest,
)

__all__ = [
    "Action",
    "BootstrapClient",
    "BootstrapError",
    "Finished",
    "Heartbeat",
    "Keeper",
    "KeeperState",
    "Register",
    "RegistrationThread",
    "Unregister",
    "Wait",
]

_MAX_ANSWER_BYTES = 16 << 20
_KINDS: Mapping[int, ErrorKind] = {401: "unauthorised", 404: "unknown", 409: "conflict", 503: "not_ready"}
_RANKS = TypeAdapter(list[RankView])
_ENGINES = TypeAdapter(list[EngineView])
_NOTES = TypeAdapter(dict[int, int])
_LEASE = TypeAdapter(Lease)
_NOTHING = TypeAdapter(None)
T = TypeVar("T")
_Json: TypeAlias = Mapping[str, JsonValue]
_Query: TypeAlias = Mapping[str, str | int | list[int]]


class BootstrapClient:
    """Blocking calls to the service at ``url``; ``timeout`` seconds at most each for connecting, sending and the whole
    answer. Whatever the service or the network does is a :class:`BootstrapError`. Proxies of the environment are not
    used: these are addresses inside a cluster."""

    def __init__(self, url: str, secret: str | None = None, timeout: float = 5.0) -> None:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        self.url = url
        self._timeout = timeout
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        except (httpx.InvalidURL, ValueError) as error:  # ValueError: a secret that is no header value
            raise BootstrapError("refused", f"bad url or secret for the bootstrap service: {error}") from error

    def register(self, request: RegisterRequest) -> Lease:
        """Claim a rank, or renew it."""
        return self._call(_LEASE, "PUT", "/v1/ranks", request.model_dump(mode="json"))

    def heartbeat(self, instance: str, token: str) -> Lease:
        """Renew all ranks of ``instance``; kind ``unknown`` when the registry does not know it (any more)."""
        return self._call(_LEASE, "POST", "/v1/ranks/heartbeat", {"instance": instance, "token": token})

    def unregister(self, instance: str, token: str) -> Lease:
        """Drop all ranks of ``instance``."""
        return self._call(_LEASE, "DELETE", "/v1/ranks", {"instance": instance, "token": token})

    def ranks(self, where: RankFilter | None = None) -> list[RankView]:
        """Live ranks, of whichever engines."""
        query = where.model_dump(exclude_none=True) if where is not None else {}
        return self._call(_RANKS, "GET", "/v1/ranks", query=query)

    def engines(self, bootstrap: str | None = None) -> list[EngineView]:
        """Engines with at least one live rank, ready or not."""
        return self._call(_ENGINES, "GET", "/v1/engines", query={} if bootstrap is None else {"bootstrap": bootstrap})

    def resolve(self, bootstrap: str = "") -> tuple[EngineView, list[RankView]]:
        """The engine that serves ``bootstrap`` and all its ranks, in two calls however many ranks there are. Kind
        ``not_ready`` while ranks are missing."""
        views = self.engines(bootstrap)
        engine = next((view for view in views if view.ready), None)
        if engine is not None:
            ranks = self.ranks(RankFilter(bootstrap=bootstrap, engine_id=engine.engine_id))
            if len(ranks) == engine.needed_ranks:
                return engine, ranks
        state = ", ".join(f"{v.engine_id} has {v.live_ranks} of {v.needed_ranks} ranks" for v in views[:4])
        raise BootstrapError("not_ready", f"no complete prefill engine at {self.url}: {state or 'none registered'}")

    def note(self, request: NoteRequest) -> None:
        """Say which dp rank serves a room."""
        self._call(_NOTHING, "POST", "/v1/notes", request.model_dump())

    def notes(self, rooms: Sequence[int], bootstrap: str = "") -> dict[int, int]:
        """room -> dp rank, for those of ``rooms`` (1024 at most) that have a note."""
        if not rooms:
            return {}
        return self._call(_NOTES, "GET", "/v1/notes", query={"room": list(rooms), "bootstrap": bootstrap})

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _call(
        self, answer: TypeAdapter[T], method: str, path: str, body: _Json | None = None, query: _Query | None = None
    ) -> T:
        try:
            status, raw = self._exchange(method, path, body, query)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise BootstrapError("unreachable", f"bootstrap service {self.url}: {reason}") from error
        if status >= 300:
            raise self._error(status, raw)
        try:
            return answer.validate_json(raw or b"null")
        except ValidationError as error:
            sentence = (
                f"{self.url} does not answer {method} {path} like a bootstrap service: {error.error_count()} errors"
            )
            raise BootstrapError("refused", sentence) from error

    def _exchange(self, method: str, path: str, body: _Json | None, query: _Query | None) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._timeout
        raw = bytearray()
        with self._http.stream(method, path, json=body, params=query) as response:
            for block in response.iter_bytes():
                raw += block
                if len(raw) > _MAX_ANSWER_BYTES:
                    raise BootstrapError("refused", f"{self.url} answered with more than {_MAX_ANSWER_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer trickles in too slowly")
            return response.status_code, bytes(raw)

    def _error(self, status: int, raw: bytes) -> BootstrapError:
        try:
            problem = ErrorBody.model_validate_json(raw).error
        except ValidationError:
            kind: ErrorKind = _KINDS.get(status, "unreachable" if status >= 500 else "refused")
            return BootstrapError(kind, f"{self.url} answered {status}: {raw[:200].decode(errors='replace')}")
        return BootstrapError(problem.kind, f"{self.url}: {problem.sentence}", problem)


@dataclass(frozen=True, slots=True)
class Register:
    """Call ``register`` with this request."""

    request: RegisterRequest


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Call ``heartbeat``."""

    instance: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unregister:
    """Call ``unregister``, once; how it ends does not matter, the lease ends by itself."""

    instance: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before ``until``."""

    until: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing to do any more."""


Action: TypeAlias = Register | Heartbeat | Unregister | Wait | Finished


class KeeperState(Enum):
    REGISTERING = "registering"  #: not every rank is known to be registered
    HELD = "held"  #: every rank was registered when last heard
    STOPPING = "stopping"  #: told to stop, has not unregistered yet
    FINISHED = "finished"


class Keeper:
    """Keeps all ranks of one instance registered: ``next(now)`` says what to do, ``done`` and ``failed`` how it went.

    Heartbeats every third of the lease. When the registry answers that it does not know the instance, or fewer ranks
    than there are, it was restarted: everything is registered again. Any other failure is tried again after a delay
    that doubles from ``min_delay`` to ``max_delay`` seconds, times ``jitter()`` (in 0..1]. A keeper never gives up,
    since an operator can repair whatever it waits for; ``last_error`` says what that is. One keeper per instance.
    """

    def __init__(
        self,
        requests: Sequence[RegisterRequest],
        *,
        token: str,
        min_delay: float = 0.25,
        max_delay: float = 5.0,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        if len({request.instance for request in requests}) != 1:
            raise ValueError("a keeper needs the ranks of exactly one instance")
        if not 0 < min_delay <= max_delay:
            raise ValueError(f"0 < min_delay <= max_delay expected, got {min_delay!r} and {max_delay!r}")
        self.instance = requests[0].instance
        self.last_error: BootstrapError | None = None
        self._requests = [
            RegisterRequest.model_validate(request.model_dump() | {"token": token}) for request in requests
        ]
        self._token = token
        self._min_delay, self._max_delay, self._jitter = min_delay, max_delay, jitter
        self._state = KeeperState.REGISTERING
        self._registered = 0  # how many of the requests are done, in this round
        self._ever = False  # a registration was sent, so there may be something to take back
        self._delay = min_delay
        self._due = float("-inf")
        self._sent = 0.0
        self._held_until = float("-inf")

    @property
    def state(self) -> KeeperState:
        return self._state

    def is_held(self, now: float) -> bool:
        """True while the registry surely keeps all ranks: counted from when the last good call was sent."""
        return self._state is KeeperState.HELD and now < self._held_until

    def next(self, now: float) -> Action:
        """What to do now. Asking again without reporting repeats the answer."""
        if self._state is KeeperState.FINISHED:
            return Finished()
        if self._state is KeeperState.STOPPING:
            return Unregister(self.instance, self._token)
        if now < self._due:
            return Wait(self._due)
        self._sent = now
        if self._state is KeeperState.HELD:
            return Heartbeat(self.instance, self._token)
        self._ever = True
        return Register(self._requests[self._registered])

    def done(self, action: Action, lease: Lease, now: float) -> None:
        """``action`` was answered with ``lease``."""
        if self._over(action):
            return
        if isinstance(action, Register):
            self._registered += 1
            if self._registered < len(self._requests):
                return
        if lease.ranks < len(self._requests):
            self._state, self._registered, self._due = KeeperState.REGISTERING, 0, now + self._back_off()
            return
        self._state, self.last_error, self._delay = KeeperState.HELD, None, self._min_delay
        self._held_until = self._sent + lease.ttl_s
        self._due = self._sent + max(lease.ttl_s / 3, self._min_delay)

    def failed(self, action: Action, error: BootstrapError, now: float) -> None:
        """``action`` failed."""
        if self._over(action):
            return
        self.last_error = error
        self._registered = 0  # a round starts over: that renews the ranks which it got before it failed
        if error.kind == "unknown" and isinstance(action, Heartbeat):
            self._state, self._due = KeeperState.REGISTERING, now
        elif error.kind == "conflict" and error.problem.remaining_s is not None:
            # Probably a predecessor that died without a word: its lease says when to come back.
            self._due = now + min(max(error.problem.remaining_s, self._min_delay), self._max_delay)
        else:
            self._due = now + self._back_off()

    def stop(self) -> None:
        """From now on: take back what may be registered, then finish."""
        if self._state is not KeeperState.FINISHED:
            self._state = KeeperState.STOPPING if self._ever else KeeperState.FINISHED

    def _over(self, action: Action) -> bool:
        """Is it the last action, or the late end of one that no longer matters?"""
        if isinstance(action, Unregister):
            self._state = KeeperState.FINISHED
        return self._state in (KeeperState.STOPPING, KeeperState.FINISHED)

    def _back_off(self) -> float:
        delay, self._delay = self._delay * self._jitter(), min(self._delay * 2, self._max_delay)
        return delay


class RegistrationThread:
    """Runs a keeper against ``client`` on a thread of its own, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        client: BootstrapClient,
        requests: Sequence[RegisterRequest],
        *,
        clock: Callable[[], float] = time.monotonic,
        min_delay: float = 0.25,
        max_delay: float = 5.0,
    ) -> None:
        self._client, self._clock = client, clock
        self._keeper = Keeper(
            requests,
            token=secrets.token_urlsafe(32),
            min_delay=min_delay,
            max_delay=max_delay,
            jitter=lambda: random.uniform(0.75, 1.0),
        )
        self._stopping = threading.Event()
        self._held = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvpoll-registration", daemon=True)

    @property
    def last_error(self) -> BootstrapError | None:
        """Why the ranks are not registered, or not renewed, at the moment."""
        return self._keeper.last_error

    def start(self) -> Self:
        self._thread.start()
        return self

    def is_registered(self) -> bool:
        """True while the registry surely keeps all ranks. No I/O."""
        return self._keeper.is_held(self._clock())

    def wait_registered(self, timeout: float) -> bool:
        """Wait until all ranks are registered, ``timeout`` seconds at most."""
        return self._held.wait(timeout)

    def stop(self, timeout: float = 10.0) -> bool:
        """Unregister and end. False if the thread still hangs in a call after ``timeout`` seconds. Idempotent."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            if self._stopping.is_set():
                self._keeper.stop()
            now = self._clock()
            action = self._keeper.next(now)
            if isinstance(action, Finished):
                self._held.clear()
                return
            if isinstance(action, Wait):
                self._stopping.wait(action.until - now)
                continue
            try:
                lease = self._perform(action)
            except BootstrapError as error:
                self._keeper.failed(action, error, self._clock())
            else:
                self._keeper.done(action, lease, self._clock())
            if self._keeper.is_held(self._clock()):
                self._held.set()
            else:
                self._held.clear()

    def _perform(self, action: Register | Heartbeat | Unregister) -> Lease:
        if isinstance(action, Register):
            return self._client.register(action.request)
        if isinstance(action, Heartbeat):
            return self._client.heartbeat(action.instance, action.token)
        return self._client.unregister(action.instance, action.token)
