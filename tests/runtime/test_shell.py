"""The shell: one lock, one control thread, and what happens when that thread dies. Turned by hand where time matters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import pytest

from kvpoll.protocol.core import Core
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import Changed
from kvpoll.runtime.control import ControlSockets
from kvpoll.runtime.dataplane import DataPlane
from kvpoll.runtime.shell import Listener, Shell
from kvpoll.runtime.transports.inproc import InprocTransport
from kvpoll.spec import Cause, KVPoll
from kvpoll.spec.wire import Hello, Message

from ..protocol.pair import TIMING, Pair, request
from .engines import LOSING, PATIENCE, Engine, Room, cause, detail, eventually


class Sockets:
    """Stands where control sockets do: gives what a test puts in, keeps what goes out."""

    def __init__(self) -> None:
        self.arriving: list[Message] = []
        self.sent: list[Message] = []
        self.links: dict[int, str] = {}
        self.waited: list[int | None] = []
        self.on_wait = lambda: None

    def wait(self, timeout_ms: int | None) -> Iterator[Message]:
        self.waited.append(timeout_ms)
        self.on_wait()
        arriving, self.arriving = self.arriving, []
        yield from arriving

    def send(self, link: int, message: Message) -> None:
        self.sent.append(message)

    def dial(self, link: int, address: str) -> None:
        self.links[link] = address

    def dialled(self, link: int) -> bool:
        return link in self.links

    def hang_up(self, link: int) -> None:
        self.links.pop(link, None)

    def wake(self) -> None:
        pass

    def close(self) -> None:
        pass


class Heard(Listener):
    """Keeps what a manager would hear."""

    def __init__(self) -> None:
        self.changes: list[Changed] = []
        self.deaths: list[str] = []

    def changed(self, out: Changed) -> None:
        self.changes.append(out)

    def died(self, error: str) -> None:
        self.deaths.append(error)


class Rig:
    """A shell around the decode core of a pair; the prefill core answers through the stub sockets."""

    def __init__(self) -> None:
        self.pair = Pair(push=True, judge=lambda ours, theirs, initiator: Judgement((), "inproc"))
        self.pair.p.core.env.push = {"inproc": True}
        self.now = 0.0
        self.sockets, self.heard = Sockets(), Heard()
        self.data = DataPlane([InprocTransport()], lambda: None)
        process = self.pair.d
        core = Core(process.config, lambda: next(self.pair.ids), lambda link: process.registration, self.pair.judge)
        core.env.push = {"inproc": True}
        self.core = core
        self.shell = Shell(
            core, self.data, cast(ControlSockets, self.sockets), self.heard, None, None, 100, clock=lambda: self.now
        )

    def turn(self) -> None:
        self.shell._turn()

    def answer(self) -> None:
        """Hand what was sent to the prefill core, and put what it says on the way back."""
        for message in self.sockets.sent:
            self.pair.p.core.receive(message)
        self.sockets.sent.clear()
        for out in self.pair.p.core.take():
            message = getattr(out, "message", None)
            if message is not None:
                self.sockets.arriving.append(message)

    def close(self) -> None:
        self.shell.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def linked(rig: Rig) -> None:
    rig.shell.call(lambda core: core.create_receiver(7, request(), [("tcp://prefill:1", 0)]))
    for _ in range(3):
        rig.turn()
        rig.turn()
        rig.answer()
    rig.turn()


def test_a_room_makes_its_link_and_the_hello_goes_out_once_there_is_a_socket(rig: Rig) -> None:
    rig.shell.call(lambda core: core.create_receiver(7, request(), [("tcp://prefill:1", 0)]))
    assert rig.sockets.links == {}, "sockets belong to the control thread"
    rig.turn()
    assert list(rig.sockets.links.values()) == ["tcp://prefill:1"]
    rig.turn()
    assert rig.sockets.sent
    assert all(isinstance(m, Hello) for m in rig.sockets.sent)


def test_a_frame_that_has_arrived_is_handled_before_a_deadline_that_is_due(rig: Rig) -> None:
    linked(rig)
    session = rig.core.receivers[1]
    rig.answer()
    assert session.rec.peers[0].bound is False
    due = dict(rig.core.links.table[next(iter(rig.core.links.table))].timers)
    lost = max(due.values())
    rig.pair.p.core.links.fire(next(iter(rig.core.links.table)), next(iter(due)))
    rig.answer()
    assert rig.sockets.arriving, "a heartbeat is there"
    rig.now = lost / 1000
    rig.turn()
    assert session.state is KVPoll.Bootstrapping, "the peer was heard in time"
    rig.now += TIMING.lost / 1000
    rig.turn()
    assert (session.state, session.failure and session.failure.cause) == (KVPoll.Failed, Cause.PEER_LOST)


def test_the_control_thread_sleeps_until_the_next_clock_and_not_when_there_is_work(rig: Rig) -> None:
    rig.turn()
    rig.turn()
    assert rig.sockets.waited[-1] == 100
    rig.shell.call(lambda core: core.create_receiver(7, request(), [("tcp://prefill:1", 0)]))
    rig.turn()
    rig.now = TIMING.beat / 1000 - 0.03
    rig.turn()
    rig.turn()
    assert 0 < (rig.sockets.waited[-1] or 0) <= 30


def test_what_waits_to_be_sent_is_bounded_and_the_newest_stays(rig: Rig) -> None:
    linked(rig)
    rig.sockets.sent.clear()
    for _ in range(3_000):
        rig.shell.call(lambda core: core.receivers[1].send_query())
    assert rig.shell.gauges()["outbox"] == 1_600
    rig.turn()
    assert len(rig.sockets.sent) == 1_600


def test_an_engines_mistake_leaves_the_lock_free_and_what_was_said_goes_out(rig: Rig) -> None:
    linked(rig)

    def wrong(core: Core) -> None:
        core.receivers[1].send_query()
        raise LocalProtocolError("no")

    with pytest.raises(LocalProtocolError):
        rig.shell.call(wrong)
    assert rig.shell.gauges()["outbox"] == 1
    taken = threading.Thread(target=lambda: rig.shell.call(lambda core: core.gauges()))
    taken.start()
    taken.join(PATIENCE)
    assert not taken.is_alive()


def test_a_change_is_told_once_and_in_order(rig: Rig) -> None:
    linked(rig)
    rig.shell.call(lambda core: core.receivers[1].send_metadata())
    rig.shell.call(lambda core: core.receivers[1].abort("enough"))
    assert [out.state for out in rig.heard.changes] == [KVPoll.WaitingForInput, KVPoll.Failed]


def test_a_control_thread_that_dies_is_reported_once_with_the_error(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise MemoryError("none left")

    rig.sockets.on_wait = fail
    rig.shell.start()
    rig.shell._thread.join(PATIENCE)
    assert rig.heard.deaths == ["MemoryError: none left"]
    assert rig.shell.dead == "MemoryError: none left"
    assert "the control thread of this process died" in caplog.text


def test_closing_twice_is_closing_once(rig: Rig) -> None:
    rig.shell.start()
    rig.shell.close()
    rig.shell.close()
    assert not rig.shell._thread.is_alive()


# -- the same with managers ----------------------------------------------------------------------------------------------------
class Broken(Exception):
    """What no code of ours catches."""


def kill(engine: Engine, monkeypatch: pytest.MonkeyPatch, where: str = "core") -> None:
    def fail(*_: object) -> None:
        raise Broken("on purpose")

    if where == "core":
        monkeypatch.setattr(engine.manager._shell.core, "receive", fail)
    else:
        monkeypatch.setattr(next(iter(engine.manager.data.transports.values())), "poll", fail)
    engine.manager._shell.notify()


@pytest.mark.parametrize(("who", "where"), [("prefill", "core"), ("decode", "transport")])
def test_when_the_core_dies_every_poll_reads_Failed_and_the_peer_ends_by_itself(
    who: str, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    p, d = Engine("prefill", durations=LOSING), Engine("decode", durations=LOSING)
    done = Room(p, d, 1)
    done.run()
    rooms = [Room(p, d, no) for no in range(2, 5)]
    for room in rooms:
        room.decode()
        room.prefill()
        room.arrives()
    victim, survivor = (p, d) if who == "prefill" else (d, p)
    kill(victim, monkeypatch, where)
    assert eventually(victim.manager, lambda: bool(victim.manager.unhealthy))
    for room in rooms:
        mine, other = (room.sender, room.receiver) if who == "prefill" else (room.receiver, room.sender)
        assert mine is not None
        assert other is not None
        assert victim.manager.wait(lambda mine=mine: mine.poll() is KVPoll.Failed, PATIENCE)  # type: ignore[misc]
        assert (cause(mine), detail(mine, "error")) == ("PROCESS_UNHEALTHY", "Broken: on purpose")
        if who == "decode":
            assert survivor.manager.wait(lambda other=other: other.poll() is KVPoll.Failed, PATIENCE)  # type: ignore[misc]
            assert cause(other) == "PEER_LOST"
        else:
            other.commit(d.pool)  # everything is here: a lost sender changes nothing
    assert (done.sender and done.sender.poll(), done.receiver.poll()) == (KVPoll.Success, KVPoll.Success)
    late = rooms[0].sender if who == "prefill" else rooms[0].receiver
    assert late is not None
    with pytest.raises(LocalProtocolError, match=r"core has stopped: Broken: on purpose") as caught:
        late.abort()
    assert caught.value.cause is Cause.PROCESS_UNHEALTHY
    late.clear()
    survivor.becomes_idle()
    victim.manager.close()
    assert survivor.manager.close() == {}
    assert "died" in caplog.text


def test_a_room_that_is_created_while_the_core_dies_is_not_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Engine("prefill", "inproc")
    room = Room(p, None, 1)
    create = p.manager._shell.core.create_sender

    def die_meanwhile(*args: object) -> object:
        key = create(*args)  # type: ignore[arg-type]
        p.manager.died("Broken: on purpose")
        return key

    monkeypatch.setattr(p.manager._shell.core, "create_sender", die_meanwhile)
    with suppress(LocalProtocolError):  # creating it may raise or not, by when exactly the core died
        room.prefill()
    (handle,) = p.manager._handles.values()
    assert (handle.poll(), cause(handle)) == (KVPoll.Failed, "PROCESS_UNHEALTHY")
    p.manager.close()
