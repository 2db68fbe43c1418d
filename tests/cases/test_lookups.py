"""Cases G10 and G11: nothing that an engine calls ever waits for another process, least of all for a bootstrap service."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kvpoll.runtime import Durations, KVReceiver, Request
from kvpoll.runtime.bootstrap.client import BootstrapClient
from kvpoll.runtime.bootstrap.models import RankFilter, RankView
from kvpoll.spec import KVPoll

from ..runtime.engines import PATIENCE, SHORT, Engine, Room, cause, eventually
from .frame import case

#: A hello deadline within which a look-up that waited for another one's timeout would be too late.
BRIEF = Durations.model_validate(SHORT.model_dump() | {"hello": 2})


@contextmanager
def mute() -> Iterator[int]:
    """A bootstrap service that accepts connections and never answers. Gives its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening.getsockname()[1]


@case("G10", "G11")
@pytest.mark.parametrize("silent", [6])
def test_services_that_never_answer_hold_up_no_room_of_another_prefill(silent: int) -> None:
    """Rooms for prefills behind mute services come first, and are asked for again and again; new and running rooms of a healthy
    one go on, its look-up included."""
    with ExitStack() as stack:
        ports = [stack.enter_context(mute()) for _ in range(silent)]
        p = Engine("prefill", "inproc", bootstrap="embedded", durations=BRIEF)
        d = Engine("decode", "inproc", durations=BRIEF)
        assert p.manager.wait_registered(PATIENCE)
        stuck = []
        for n, port in enumerate(ports * 2):
            receiver = KVReceiver(d.manager, "127.0.0.1", port, 100 + n, Request.of([1]))
            receiver.init()
            stuck.append(receiver)
        for number in range(3):
            Room(p, d, number, bootstrap=p.manager.bootstrap).run(2)
        assert {receiver.poll() for receiver in stuck} == {KVPoll.Bootstrapping}, "and nobody waited for those"
        for receiver in stuck:
            assert d.manager.wait(lambda r=receiver: r.poll() is KVPoll.Failed, PATIENCE)  # type: ignore[misc]
            assert cause(receiver) == "UNREACHABLE"
        d.becomes_idle()
        p.becomes_idle()
        assert (d.manager.close(), p.manager.close()) == ({}, {})


@case("G10", "G11")
def test_no_look_up_runs_on_a_thread_of_the_engine_or_of_the_control_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    look_up = BootstrapClient.ranks

    def watched(self: BootstrapClient, where: RankFilter | None = None) -> list[RankView]:
        seen.add(threading.current_thread().name)
        return look_up(self, where)

    monkeypatch.setattr(BootstrapClient, "ranks", watched)
    with mute() as port:
        d = Engine("decode", "inproc", durations=BRIEF)
        receiver = KVReceiver(d.manager, "127.0.0.1", port, 1, Request.of([1]))
        receiver.init()
        assert eventually(d.manager, lambda: bool(seen))
        receiver.abort("never mind")
        assert receiver.poll() is KVPoll.Failed, "at once, while the look-up still waits"
        d.becomes_idle()
        assert d.manager.close() == {}
    assert seen
    assert all(name.startswith("kvpoll-resolve") for name in seen)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("kvpoll-resolve")]
