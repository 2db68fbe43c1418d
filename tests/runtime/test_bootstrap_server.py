"""Real servers and real clients on loopback: start and stop, races, restarts, and services that are not ours."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

import kvpoll.runtime.bootstrap as bootstrap
from kvpoll.runtime.bootstrap.client import BootstrapClient, BootstrapError, RegistrationThread
from kvpoll.runtime.bootstrap.models import NoteRequest, RankFilter, RankView, RegisterRequest
from kvpoll.runtime.bootstrap.registry import Limits
from kvpoll.runtime.bootstrap.server import KVBootstrapServer

TOKEN = "t" * 16


def request(tp: int = 0, **changes: object) -> RegisterRequest:
    fields: dict[str, object] = {
        "engine_id": "engineA",
        "instance": "inst0",
        "control": f"tcp://10.0.0.1:{7000 + tp}",
        "attn_tp_size": 2,
        "attn_tp_rank": tp,
        "page_size": 16,
        "kv_cache_dtype": "bfloat16",
        "token": TOKEN,
    }
    return RegisterRequest.model_validate(fields | changes)


@pytest.fixture(scope="module")
def server() -> Iterator[KVBootstrapServer]:
    with KVBootstrapServer() as running:
        yield running


@contextmanager
def answering(reply: bytes, *drops: bytes) -> Iterator[str]:
    """A socket that reads one request and says ``reply``, whatever was asked, then one of ``drops`` every 10 ms."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                connection.recv(65536)
                try:
                    connection.sendall(reply)
                    for drop in drops:
                        if over.wait(0.01):
                            return
                        connection.sendall(drop)
                except OSError:
                    return  # the client has had enough

        over = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join(10)


def error_of(url: str, **options: float) -> BootstrapError:
    with BootstrapClient(url, **options) as client, pytest.raises(BootstrapError) as caught:
        client.engines()
    return caught.value


def test_importing_the_package_loads_neither_http_library() -> None:
    code = (
        "import sys, kvpoll.runtime.bootstrap as b; b.Limits; b.Registry; b.BootstrapError;"
        "print([m for m in ('fastapi', 'uvicorn', 'httpx', 'starlette', 'prometheus_client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_no_other_does() -> None:
    assert [name for name in bootstrap.__all__ if getattr(bootstrap, name, None) is None] == []
    assert dir(bootstrap) == sorted(bootstrap.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bootstrap.nothing  # noqa: B018


def test_port_0_is_known_before_the_start_and_serves_after_it() -> None:
    server = KVBootstrapServer(port=0)
    assert server.port > 0
    assert server.url == f"http://127.0.0.1:{server.port}"
    with server:
        assert httpx.get(f"{server.url}/health", trust_env=False).text == "OK"
    assert error_of(server.url).kind == "unreachable"


def test_stopping_is_idempotent_and_a_server_that_never_started_frees_its_port() -> None:
    first = KVBootstrapServer()
    assert first.stop()
    assert first.stop()
    second = KVBootstrapServer(port=first.port)
    assert second.stop()


def test_a_port_that_is_taken_is_an_error_at_construction(server: KVBootstrapServer) -> None:
    with pytest.raises(OSError, match="in use"):
        KVBootstrapServer(port=server.port)


def test_a_server_stops_while_a_client_holds_its_connection_open() -> None:
    server = KVBootstrapServer().start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as idle:
        idle.sendall(b"PUT /v1/ranks HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        assert httpx.get(f"{server.url}/health", trust_env=False).text == "OK"
        assert server.stop(timeout=20)


def test_binding_to_every_interface_without_a_secret_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="kvpoll.bootstrap"):
        KVBootstrapServer("127.0.0.1").stop()
        KVBootstrapServer("localhost").stop()
        KVBootstrapServer("0.0.0.0", secret="s3cret").stop()
        assert caplog.records == []
        KVBootstrapServer("0.0.0.0").stop()
    (record,) = caplog.records
    assert "without a shared secret" in record.getMessage()


def test_a_wrong_secret_is_told_apart_from_everything_else() -> None:
    with KVBootstrapServer(secret="s3cret") as server:
        assert error_of(server.url).kind == "unauthorised"
        with BootstrapClient(server.url, "s3cret") as client:
            assert client.engines() == []


def test_an_oversized_body_is_refused_before_it_was_sent(server: KVBootstrapServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(b"PUT /v1/ranks HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 413"


def test_of_two_racing_claims_on_one_rank_exactly_one_wins(server: KVBootstrapServer) -> None:
    def claim(number: int) -> str:
        with BootstrapClient(server.url) as client:
            barrier.wait(10)
            try:
                client.register(request(bootstrap="race", instance=f"racer{number}", token=f"{number}" * 16))
            except BootstrapError as error:
                return error.kind
            return f"racer{number}"

    barrier = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        results = sorted(pool.map(claim, range(4)))
    assert results[:3] == ["conflict"] * 3
    with BootstrapClient(server.url) as client:
        assert [seen.instance for seen in client.ranks(RankFilter(bootstrap="race"))] == results[3:]


def test_a_client_registers_resolves_notes_and_unregisters(server: KVBootstrapServer) -> None:
    with BootstrapClient(server.url) as client:
        assert client.register(request(0, bootstrap="tour", transports=("zmq", "jax"))).token == TOKEN
        with pytest.raises(BootstrapError, match="1 of 2 ranks") as caught:
            client.resolve("tour")
        assert caught.value.kind == "not_ready"
        assert client.register(request(1, bootstrap="tour")).ranks == 2
        engine, ranks = client.resolve("tour")
        assert (engine.engine_id, engine.ready) == ("engineA", True)
        assert [rank.control for rank in ranks] == ["tcp://10.0.0.1:7000", "tcp://10.0.0.1:7001"]
        assert ranks[0].transports == ("zmq", "jax")
        client.note(NoteRequest(instance="inst0", token=TOKEN, bootstrap="tour", room=2**64 - 1, dp_rank=0))
        assert client.notes([2**64 - 1, 5], "tour") == {2**64 - 1: 0}
        assert client.notes([]) == {}
        assert client.heartbeat("inst0", TOKEN).ranks == 2
        assert client.unregister("inst0", TOKEN).ranks == 2
        with pytest.raises(BootstrapError, match="no live instance") as caught:
            client.heartbeat("inst0", TOKEN)
        assert caught.value.kind == "unknown"
        assert client.engines("tour") == []


def test_a_conflict_reaches_the_caller_with_its_details(server: KVBootstrapServer) -> None:
    with BootstrapClient(server.url) as client:
        client.register(request(bootstrap="held"))
        with pytest.raises(BootstrapError) as caught:
            client.register(request(bootstrap="held", instance="thief", token="x" * 16))
    problem = caught.value.problem
    assert (caught.value.kind, problem.field, problem.holder) == ("conflict", "rank", "inst0")
    assert problem.remaining_s is not None
    assert 0 < problem.remaining_s <= 15.0


def test_a_service_that_is_not_a_bootstrap_service_is_refused_not_believed(server: KVBootstrapServer) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as url:
        assert error_of(url).kind == "refused"
    with answering(b"HTTP/1.1 302 Found\r\nLocation: http://10.255.255.1/\r\nContent-Length: 0\r\n\r\n") as url:
        assert error_of(url).kind == "refused"
    with answering(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n") as url:
        assert error_of(url).kind == "unreachable"
    with answering(b"SSH-2.0-OpenSSH_9.6\r\n") as url:
        assert error_of(url).kind == "unreachable"
    with answering(b"") as url:
        assert error_of(url).kind == "unreachable"


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "nonsense", "ftp://127.0.0.1", "http://127.0.0.1:1"])
def test_a_bad_address_is_an_error_of_ours(url: str) -> None:
    with pytest.raises(BootstrapError) as caught, BootstrapClient(url) as client:
        client.engines()
    assert caught.value.kind in ("refused", "unreachable")


def test_a_secret_that_no_header_can_carry_is_refused_at_construction() -> None:
    with pytest.raises(BootstrapError, match="secret"):
        BootstrapClient("http://127.0.0.1:1", "ü")


def test_a_peer_that_never_answers_costs_no_more_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert error_of(f"http://127.0.0.1:{mute.getsockname()[1]}", timeout=0.05).kind == "unreachable"


def test_an_answer_that_trickles_or_does_not_end_is_cut_off() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[", *[b" "] * 300) as url:
        assert "too slowly" in error_of(url, timeout=0.1).sentence
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * 17_000_000) as url:
        assert "more than" in error_of(url).sentence


def test_an_engine_that_loses_ranks_between_the_two_calls_is_not_ready(server: KVBootstrapServer) -> None:
    class Late(BootstrapClient):
        def ranks(self, where: RankFilter | None = None) -> list[RankView]:
            self.unregister("late", TOKEN)
            return super().ranks(where)

    with Late(server.url) as client:
        client.register(request(bootstrap="late", instance="late", attn_tp_size=1))
        with pytest.raises(BootstrapError) as caught:
            client.resolve("late")
    assert caught.value.kind == "not_ready"


def test_a_registration_thread_registers_and_takes_it_back(server: KVBootstrapServer) -> None:
    requests = [request(tp, bootstrap="thread", instance="threaded", token=None) for tp in range(2)]
    with BootstrapClient(server.url) as client:
        thread = RegistrationThread(client, requests).start()
        assert thread.wait_registered(20)
        assert thread.is_registered()
        assert client.resolve("thread")[0].ready
        assert thread.stop(20)
        assert not thread.is_registered()
        assert client.engines("thread") == []


def test_a_registration_thread_outlives_a_registry_that_restarts_on_the_same_port() -> None:
    limits = Limits(ttl=0.3)  # a heartbeat every 0.1 s
    requests = [request(tp, token=None) for tp in range(2)]
    first = KVBootstrapServer(limits=limits).start()
    with BootstrapClient(first.url) as client:
        thread = RegistrationThread(client, requests, min_delay=0.05, max_delay=0.1).start()
        try:
            assert thread.wait_registered(20)
            assert first.stop()
            assert error_of(first.url).kind == "unreachable"
            with KVBootstrapServer(port=first.port, limits=limits) as second, Watch(second) as watch:
                assert watch.ready.wait(20)
                assert thread.stop(20)
                assert second.registry.counters()["registered"] >= 2
        finally:
            thread.stop(20)


class Watch:
    """Asks ``server`` on a thread of its own until an engine is ready."""

    def __init__(self, server: KVBootstrapServer) -> None:
        self.ready = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(server.url,))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)

    def _look(self, url: str) -> None:
        with BootstrapClient(url) as client:
            while not self._over.wait(0.02):
                if any(engine.ready for engine in client.engines()):
                    self.ready.set()
                    return
