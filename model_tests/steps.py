"""What a pair world checks and notes on every step, by comparing the state before with the state after.

Checked are the invariants that are about a step. Noted are the situations of :mod:`.properties`: what is not met in any
world is claimed of nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeAlias

from kvpoll.protocol.records import Deadline, LeaseKind, SessionKey
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Message, Query, Refusal, RoomMessage

from .claims import Room, says_drained
from .explorer import Violation
from .memory import Flight, Loan
from .properties import PROPERTIES
from .setting import Clocks

if TYPE_CHECKING:
    from .pair import PairWorld
    from .stage import Stage, State

__all__ = ["check_step", "is_gentle"]

_KNOWN = frozenset(each for p in PROPERTIES.values() for each in p.marks)
Action: TypeAlias = tuple[Hashable, ...]


def _mark(text: str) -> str:
    assert text in _KNOWN, text
    return text


FLYING = _mark("NoFreeInFlight: an operation is in flight")
OVER_FLYING = _mark("NoFreeInFlight: a room is over while an operation can touch its memory")
DRAINED = _mark("AckMeansQuiescent: it is said when the last operation has ended")
COUNTED = _mark("CountExact: an operation is in flight")
COUNTED_UNRESOLVED = _mark("CountExact: an operation is unresolved")
CREDIT = _mark("CreditsConserved: an operation is in flight")
CREDIT_BACK = _mark("CreditsConserved: a credit comes back when a room fails")
ARRIVED = _mark("NoWriteAfterArrival: a part has arrived while another is in flight")
SENDER_SUCCESS = _mark("SuccessOrder: a sender succeeds")
DOUBT = _mark("SuccessOrder: a sender fails in doubt, and its receiver succeeds")
CERTAIN = _mark("SuccessOrder: a sender fails without doubt")
TWO_REQUESTS = _mark("SameRequest: legs of two requests stand at both ends")
ONE_REQUEST = _mark("SameRequest: legs of one request are paired")
SUCCESS_BACK = _mark("UniformRelease: a room that succeeded gets its memory back")
ENDED_BY = {
    "abort": _mark("UniformRelease: an abort ends a room while an operation can touch its memory"),
    "clock": _mark("UniformRelease: a deadline ends a room while an operation can touch its memory"),
    "lost": _mark("UniformRelease: the loss of its peer ends a room while an operation can touch its memory"),
    "shutdown": _mark("UniformRelease: a shutdown ends a room while an operation can touch its memory"),
}
UNRESOLVED = _mark("UnresolvedIsNotFree: an operation is unresolved")
FENCED_BACK = _mark("UnresolvedIsNotFree: a fence is proved, and memory comes back")
READ = _mark("LeaseCommit: a read ends")
BACK = _mark("ExactlyOnceFree: a lease comes back")
FORGOTTEN = _mark("ExactlyOnceFree: a room is forgotten")
LATE = _mark("TerminalAbsorbing: a message reaches an end that is over")
NOTHING = _mark("TotalHandlers: a message changes nothing")
ANOTHER_ROOM = _mark("Isolation: a message of one room reaches a process that has another")
BOTH_KNOW = _mark("AttemptUnique: both ends know one attempt")
AGAIN = _mark("AttemptUnique: a room is tried a second time")
SUCCESSOR = _mark("InstanceMatches: a message for a dead instance reaches its successor")
COMPLETE = _mark("CompleteOrNotSuccess: a receiver succeeds with everything")
INCOMPLETE = _mark("CompleteOrNotSuccess: a receiver fails with parts missing")
LIED = _mark("NoDoneWithoutData: a receiver lies before everything was started")
GATHERED = _mark("ReadAfterCompute: a gather ends, and its part is moved")
ENDS = {
    KVPoll.Success: _mark("EveryRoomEnds: a room succeeds"),
    KVPoll.Failed: _mark("EveryRoomEnds: a room fails"),
}
ONE_END = _mark("TerminalPropagates: one end is over and the other is not")
LOST = _mark("LossSurvivable: a message is lost")
COPIED = _mark("LossSurvivable: a message is copied")
BACK_LATER = _mark("EventuallyReleased: a room is over, and its memory comes back later")
IDLE = _mark("IdleEmpty: everything is idle after a room")
ASKED = _mark("EvidenceBeforeDeadline: a room is asked about")
HALF = _mark("HalfOpenEnds: the pairing deadline ends a leg")
HALF_ANNOUNCED = _mark("HalfOpenEnds: the pairing deadline ends an announced attempt")
SHUTDOWN = _mark("ShutdownEnds: a shutdown finds a live room")


def is_gentle(world: Stage) -> bool:
    """Does nothing happen in this world, from its start, but that messages are lost and copied?"""
    s, budget = world.setting, world.start
    faults = budget._replace(losses=0, copies=0, attempts=1)
    acts = s.clocks is not Clocks.ALL and s.fits and s.same and not s.only and not s.retries and not s.rivals
    return acts and not any(faults._replace(attempts=0))


def check_step(world: PairWorld, before: State, action: Action) -> None:
    """Raises :class:`Violation`; adds to ``world.seen``. This is on the path of every edge."""
    if world.rooms is not before.rooms:
        _rooms(world, before, action)
    if world.memory is not before.memory:
        _memory(world, before, action)
    name = action[0]
    if name == "deliver" or name == "copy":
        _heard(world, before, action)
    elif name in _NOTED:
        _noted(world, before, action)
    if FORGOTTEN not in world.seen and _is_forgotten(world, before):
        world.seen.add(FORGOTTEN)


_NOTED = {"lose", "done", "lie", "no leg", "shutdown"}


def _noted(world: PairWorld, before: State, action: Action) -> None:
    match action:
        case ("lose", _):
            if world.gentle:
                world.seen.add(LOST)
        case ("done", Flight() as flight, True):
            if not world.setting.push:
                _read(world, before, flight)
        case ("lie", _, _):
            if len(before.memory.moved) + len(before.memory.flights) < world.setting.chunks:
                world.seen.add(LIED)
        case ("no leg", *_):
            world.seen.add(HALF_ANNOUNCED)
        case ("shutdown", int(slot)):
            if any(r.instance == before.instances[slot] and not r.over for r in before.rooms):
                world.seen.add(SHUTDOWN)


def _is_forgotten(world: PairWorld, before: State) -> bool:
    for instance, was, now in zip(before.instances, before.cores, world.cores, strict=True):
        views = world.processes[instance].views
        if was != now and was >= 0 and now >= 0 and len(views[now].sessions) < len(views[was].sessions):
            return True
    return False


def _rooms(world: PairWorld, before: State, action: Action) -> None:
    rooms = world.rooms
    old = {(r.instance, r.key): r for r in before.rooms}
    if len(rooms) != len(old):
        _new_rooms(world, rooms)
    for room in rooms:
        was = old.get((room.instance, room.key))
        if was is None or was.attempt != room.attempt:
            _met(world, room)
        if room.over and (was is None or not was.over):
            _over(world, before, room, action)


def _new_rooms(world: PairWorld, rooms: tuple[Room, ...]) -> None:
    if not world.setting.same and len({r.sender for r in rooms}) > 1:
        world.seen.add(TWO_REQUESTS)
    if max(Counter((r.instance, r.room, r.sender) for r in rooms).values()) > 1:
        world.seen.add(AGAIN)


def _met(world: PairWorld, room: Room) -> None:
    """A session is bound to an attempt: AttemptUnique."""
    if not room.attempt:
        return
    others = [r for r in world.rooms if r.attempt == room.attempt and r is not room]
    for other in others:
        if other.sender == room.sender and other.instance % 100 == room.instance % 100:
            raise Violation("AttemptUnique", f"{room.key} and {other.key} at one place are both attempt {room.attempt}")
    if any(other.sender != room.sender for other in others):
        world.seen |= {BOTH_KNOW, ONE_REQUEST}


def _over(world: PairWorld, before: State, room: Room, action: Action) -> None:
    seen, name = world.seen, action[0]
    seen.add(ENDS[room.state])
    touched = any(_touches(f, room) for f in before.memory.flights) and any(
        _touches(f, room) for f in world.memory.flights
    )
    if touched:
        seen.add(OVER_FLYING)
        if name in ENDED_BY:
            seen.add(ENDED_BY[str(name)])
    if room.state is KVPoll.Failed and world.gentle:
        raise Violation("LossSurvivable", f"{room.key} failed although nothing happened but a loss or a copy")
    if name == "clock" and len(action) == 5 and action[3] is Deadline.PAIRING:
        seen.add(HALF)
    others = [r for r in world.rooms if room.attempt and r.attempt == room.attempt and r.sender != room.sender]
    if any(not other.over and world.lives(other.instance) for other in others):
        seen.add(ONE_END)
    if room.sender:
        _sender_over(seen, room, others)
    else:
        planned = world.planned(room.instance)
        moved = sum(m[1:3] == (room.instance, room.attempt) for m in before.memory.moved)
        if room.state is KVPoll.Success and planned:
            seen.add(COMPLETE)
        elif room.state is KVPoll.Failed and moved < planned:
            seen.add(INCOMPLETE)


def _sender_over(seen: set[str], room: Room, others: list[Room]) -> None:
    if room.state is KVPoll.Success:
        seen.add(SENDER_SUCCESS)
    elif not room.in_doubt:
        seen.add(CERTAIN)
    elif any(other.state is KVPoll.Success for other in others):
        seen.add(DOUBT)


def _touches(flight: Flight, room: Room) -> bool:
    ends = (flight.owner if flight.mine else -1, flight.other if flight.theirs else -1)
    return flight.attempt == room.attempt and room.instance in ends


def _memory(world: PairWorld, before: State, action: Action) -> None:
    seen, now, was = world.seen, world.memory, before.memory
    if now.flights is not was.flights:
        _flights(world, before)
    if now.lent is not was.lent:
        back = [loan for loan in was.lent - now.lent if world.lives(loan.instance)]
        if back:
            seen.add(BACK)
            _returned(world, before, action, back)


def _flights(world: PairWorld, before: State) -> None:
    seen, now, was = world.seen, world.memory.flights, before.memory.flights
    if now:
        seen |= {FLYING, COUNTED, CREDIT}
    if any(f.unresolved for f in now):
        seen |= {UNRESOLVED, COUNTED_UNRESOLVED}
    if any(f.attempt == m[2] and f.copy != m[3] for f in now for m in world.memory.moved):
        seen.add(ARRIVED)
    if len(now) < len(was) and any(r.state is KVPoll.Failed for r in world.rooms):
        seen.add(CREDIT_BACK)
    if world.setting.gathers and now and not world.memory.work:
        seen.add(GATHERED)
    if DRAINED not in seen and len(now) < len(was):
        gone = {(f.owner, f.attempt) for f in was - now}
        for number in set(world.net) - set(before.net):
            message = world.mail[number]
            if any(message.source == owner and says_drained(message, attempt) for owner, attempt in gone):
                seen.add(DRAINED)


def _returned(world: PairWorld, before: State, action: Action, back: list[Loan]) -> None:
    seen, old = world.seen, {(r.instance, r.key): r for r in before.rooms}
    if action[0] in ("fenced", "fence proved") and any(f.unresolved for f in before.memory.flights):
        seen.add(FENCED_BACK)
    for loan in back:
        was = old.get((loan.instance, loan.key))
        now = next((r for r in world.rooms if (r.instance, r.key) == (loan.instance, loan.key)), None)
        if now is not None and now.state is KVPoll.Success:
            seen.add(SUCCESS_BACK)
        if was is not None and was.over:
            seen.add(BACK_LATER)


def _heard(world: PairWorld, before: State, action: Action) -> None:
    """InstanceMatches, and what a message says to whom it says nothing any more."""
    seen, number = world.seen, action[1]
    assert isinstance(number, int)
    message = world.mail[number]
    target = message.target
    slot = target % 100 - 10 if isinstance(target, int) else world.target(number)
    was, now, instance = before.cores[slot], world.cores[slot], world.instances[slot]
    if was < 0:
        return
    if action[0] == "copy" and world.gentle:
        seen.add(COPIED)
    if was == now:
        seen.add(NOTHING)
    if isinstance(target, int) and target != instance:
        seen.add(SUCCESSOR)
        views = world.processes[instance].views
        if views[now].sessions != views[was].sessions:
            raise Violation("InstanceMatches", f"instance {instance} took a message for {target}")
    if isinstance(message, Query):
        seen.add(ASKED)
    if LATE in seen and world.setting.rooms == 1:
        return
    sessions = world.processes[instance].views[was].sessions
    if any(session.terminal for session in sessions):
        seen.add(LATE)
    room = _room(message)
    if room is not None and any(session.room != room for session in sessions):
        seen.add(ANOTHER_ROOM)


def _room(message: Message) -> int | None:
    room = message.room if isinstance(message, RoomMessage | Refusal) else None
    return room if isinstance(room, int) else None


def _read(world: PairWorld, before: State, flight: Flight) -> None:
    """LeaseCommit. The reader owns the operation; the source is at the other end."""
    if not flight.theirs:
        return
    leg = next(
        (r.key for r in before.rooms if (r.instance, r.attempt) == (flight.other, flight.attempt) and r.sender), None
    )
    source = Loan(flight.other, leg or SessionKey("sender", 0), LeaseKind.COPY, flight.copy)
    if source not in before.memory.lent:
        raise Violation("LeaseCommit", f"{flight.op} ended well although its source was handed back before")
    world.seen.add(READ)
