"""Cases A above the core: what the engine's handles and the transport's reports do to memory that is lent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime.transports.base import OpReport, Outcome, PeerFenced, Report
from kvpoll.runtime.transports.inproc import Fate, Faults, InprocHub, InprocTransport
from kvpoll.spec import KVPoll

from ..runtime.engines import PATIENCE, Engine, Room, eventually, kinds
from .frame import case

FAILED = (KVPoll.Failed, KVPoll.Failed)


class Doubling(InprocTransport):
    """Says everything twice, and things about operations and peers that nobody ever heard of."""

    def poll(self) -> list[Report]:
        reports = super().poll()
        strangers: list[Report] = [OpReport(10**9, outcome) for outcome in Outcome]
        return [*strangers, *(twice for report in reports for twice in (report, report)), PeerFenced("abcdef")]


class Stubborn(InprocTransport):
    """What was posted cannot be taken back."""

    def cancel(self, op: int) -> None:
        """Nothing."""


class Wire:
    """Two engines, and operations that stay on the wire until they are released."""

    def __init__(self, transport: type[InprocTransport] = Stubborn, fate: Fate = Fate.HOLD) -> None:
        self.hub = InprocHub(Faults(fate))
        self.p = Engine("prefill", "inproc", transports=[transport(self.hub)])
        self.d = Engine("decode", "inproc", transports=[transport(self.hub)])

    def room(self, no: int, *cuts: int) -> Room:
        """A room whose data is on the wire."""
        room = Room(self.p, self.d, no)
        room.decode()
        room.prefill(*cuts)
        assert eventually(self.p.manager, lambda: len(self.hub.on_wire()) == len(cuts) + 2)  # the aux part too
        return room

    def release(self, how: str) -> None:
        for op in self.hub.on_wire():
            self.hub.release(op) if how == "done" else self.hub.fail(op)

    def close(self) -> None:
        for engine in (self.p, self.d):
            engine.becomes_idle()
        assert self.d.manager.close() == {}
        assert self.p.manager.close() == {}


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


@case("A04", "A23")
@pytest.mark.parametrize("cleared", ["before the abort is heard", "before the transfer ends", "after"])
@pytest.mark.parametrize("how", ["done", "failed"])
@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_dropping_a_handle_loses_neither_the_memory_nor_the_answer(
    wire: Wire, cleared: str, how: str, who: str
) -> None:
    """The engine gives a request up and forgets it; the transfer ends when it likes, and its report still has an owner."""
    room = wire.room(5, 2)
    assert room.sender is not None
    sender, receiver = room.sender, room.receiver
    (sender if who == "sender" else receiver).abort("client went away")

    def clear() -> None:
        sender.clear()
        receiver.clear()

    if cleared == "before the abort is heard":
        clear()
    assert room.ends() == FAILED
    if cleared == "before the transfer ends":
        clear()
    assert wire.p.manager.busy(), "operations are in flight"
    assert wire.d.manager.busy(), "into a buffer of this room"
    wire.release(how)
    for engine in (wire.p, wire.d):
        engine.becomes_idle()
    clear()
    assert kinds(wire.d.returned) == {LeaseKind.PAGES: 1, LeaseKind.AUX: 1}
    assert set(kinds(wire.p.returned)) == {LeaseKind.SOURCE}
    wire.hub.faults.default = Fate.DELIVER
    Room(wire.p, wire.d, 5).run(1)  # the room is free again


@case("A14")
@pytest.mark.parametrize("ending", ["success", "abort"])
def test_reports_that_come_twice_or_are_nobodys_are_dropped(ending: str) -> None:
    wire = Wire(Doubling)
    room, other = wire.room(6, 2), None
    if ending == "abort":
        room.receiver.abort("client went away")
        assert room.ends() == FAILED
    wire.release("done")
    if ending == "success":
        room.arrives()
        room.commit()
        assert room.ends() == (KVPoll.Success, KVPoll.Success)
        room.check()
    wire.hub.faults.default = Fate.DELIVER
    other = Room(wire.p, wire.d, 7)
    other.run(1, 3)
    assert wire.d.manager.wait(lambda: other.receiver.poll() is KVPoll.Success, PATIENCE)
    wire.close()
