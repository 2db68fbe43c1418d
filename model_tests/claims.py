"""What a pair world checks in every state, by the names of the invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvpoll.protocol.records import SessionKey
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import AbortAck, Conclude, Heartbeat, Message, Reason, Refusal, RoomMessage, Status

from .explorer import Violation
from .memory import ATTEMPTS, Flight, Memory, Work
from .process import View

__all__ = [
    "Room", "check_complete", "check_counts", "check_gathered", "check_order", "check_started", "check_word", "check_writes",
    "says_drained", "unfinished",
]  # fmt: skip

#: Refusals of a room that say, on the attempt's own link: nothing of it is here.
_NOTHING = (Reason.NO_LEG, Reason.ROOM_BUSY, Reason.LIMIT, Reason.DRAINING)


class Room(NamedTuple):
    """What an observer remembers of one session after its record is gone."""

    instance: int
    key: SessionKey
    attempt: int = 0
    state: KVPoll = KVPoll.Bootstrapping
    in_doubt: bool = False
    room: int = 0

    @property
    def sender(self) -> bool:
        return self.key.role == "sender"

    @property
    def over(self) -> bool:
        return self.state in (KVPoll.Failed, KVPoll.Success)

    @property
    def name(self) -> str:
        return f"{'P' if self.sender else 'D'}:{self.state.name}{'?' if self.in_doubt else ''}"


def check_word(message: Message, speaker: int, flights: Iterable[Flight]) -> None:
    """AckMeansQuiescent: whoever says that nothing of it can touch the other end's memory is right."""
    if not flights or message.target is None:
        return
    for f in flights:
        if f.owner == speaker and f.other == message.target and f.theirs and says_drained(message, f.attempt):
            raise Violation("AckMeansQuiescent", f"{type(message).__name__} was sent while {f.op} was in flight")


def says_drained(message: Message, attempt: int) -> bool:
    """Does the message say that nothing of this attempt can touch the other end's memory any more?"""
    engine, gen = divmod(attempt, ATTEMPTS)
    match message:
        case Refusal(reason=reason):
            return (message.engine, message.gen) == (engine, gen) and reason in _NOTHING
        case Heartbeat(low_water=int(low_water)):
            return message.engine == engine and gen < low_water
        case RoomMessage():
            if message.engine != engine:
                return False
            if isinstance(message.low_water, int) and gen < message.low_water:
                return True
            if message.gen != gen:
                return False
            if isinstance(message, Status):
                return message.facts.drained or message.facts.concluded
            return isinstance(message, Conclude) or (isinstance(message, AbortAck) and not message.quarantined)
    return False


def check_counts(instance: int, view: View, memory: Memory) -> None:
    """CountExact and CreditsConserved: what a process counts is what is in flight."""
    real = Counter((f.op.session, f.op.peer) for f in memory.flights if f.owner == instance and f.mine)
    if real != view.in_flight:
        raise Violation("CountExact", f"instance {instance} counts {view.in_flight}, in flight are {dict(real)}")
    if view.credits_out != sum(real.values()):
        raise Violation("CreditsConserved", f"{view.credits_out} credits are out for {sum(real.values())} operations")


def check_writes(instance: int, view: View, memory: Memory) -> None:
    """NoWriteAfterArrival: what arrived is not written again."""
    for session in view.sessions:
        if not session.arrived:
            continue
        for f in memory.flights:
            writes = (f.owner == instance and f.mine) or (f.other == instance and f.theirs)
            peer = f.other if f.owner == instance else f.owner
            if writes and f.attempt == session.attempt and (peer, f.place) in session.arrived:
                raise Violation("NoWriteAfterArrival", f"{f.op} can still write part {f.place}, which arrived")


def check_gathered(memory: Memory, sender_of: Mapping[tuple[int, int], SessionKey]) -> None:
    """ReadAfterCompute: what is still being gathered is not moved. ``sender_of``: the leg of (instance, attempt)."""
    for f in memory.flights:
        if unfinished(f, memory, sender_of):
            raise Violation("ReadAfterCompute", f"{f.op} moves part {f.copy}, which is still being gathered")


def unfinished(flight: Flight, memory: Memory, sender_of: Mapping[tuple[int, int], SessionKey]) -> bool:
    """Is the part of this operation still being gathered?"""
    if not memory.work:
        return False
    legs = ((instance, sender_of.get((instance, flight.attempt))) for instance in (flight.owner, flight.other))
    return any(leg is not None and Work(instance, leg, flight.copy) in memory.work for instance, leg in legs)


def check_complete(room: Room, memory: Memory, parts: int) -> None:
    """CompleteOrNotSuccess, NoDoneWithoutData: a receiver's Success has every part's bytes."""
    moved = sum(1 for _, decode, attempt, _ in memory.moved if (decode, attempt) == (room.instance, room.attempt))
    if room.state is KVPoll.Success and moved != parts:
        raise Violation("CompleteOrNotSuccess", f"{room.key} is Success with {moved} of {parts} parts")


def check_started(room: Room, memory: Memory, parts: int) -> None:
    """NoDoneWithoutData at a sender whose receiver lies: Success is believed only once everything was started."""
    started = {f.copy for f in memory.flights if f.attempt == room.attempt}
    started |= {part for _, _, attempt, part in memory.moved if attempt == room.attempt}
    if room.state is KVPoll.Success and len(started) < parts:
        raise Violation("NoDoneWithoutData", f"{room.key} is Success with {len(started)} of {parts} parts started")


def check_order(rooms: Sequence[Room], decodes: int) -> None:
    """SuccessOrder, and that a failure in doubt says so."""
    for room in rooms:
        if not room.sender or not room.attempt or not room.over:
            continue
        states = [r.state for r in rooms if not r.sender and r.attempt == room.attempt]
        succeeded = states == [KVPoll.Success] * decodes
        if room.state is KVPoll.Success and not succeeded:
            raise Violation("SuccessOrder", f"{room.key} is Success, its receivers are {[s.name for s in states]}")
        if room.state is KVPoll.Failed and succeeded and not room.in_doubt:
            raise Violation("SuccessOrder", f"{room.key} failed without doubt although its receivers succeeded")
