"""What the worlds of staging slots share: the real :class:`Staging`, the side that owns the slots, and an observer.

The observer keeps its own books: which slots are free and in what order they came back, who asked when, what touches which
slot. It believes no word of :class:`Staging` and compares every one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.staging import Granted, Refused, Returned, SlotReady, Staging, StagingOutput, Ticket
from kvpoll.spec import Cause
from kvpoll.spec.table import Verdict

from .explorer import Violation
from .properties import mark

__all__ = ["Action", "Shape", "StagingWorld"]

#: What happens, and to which room or ticket: ("ask", 0, 1). A message is the same: ("FILLED", 0, 1).
Action: TypeAlias = tuple[str | int, ...]
#: What never has to happen: faults, and words that nobody needs.
_UNFAIR = ("fail", "lose", "copy", "late", "again")


class Shape(NamedTuple):
    """How large a world is, and its budget of faults."""

    rooms: int = 2
    tickets: int = 1  #: of each room
    slots: int = 1
    queue: int = 1
    large: bool = False  #: the last ticket of the first room fits into no slot
    fails: int = 1  #: rooms that fail, at any moment, at either end
    strays: int = 0  #: calls and messages that come twice or late
    losses: int = 0  #: ring: messages that are lost

    @property
    def faults(self) -> str:
        said = [
            f"{name}={value}"
            for name, value in (("fails", self.fails), ("strays", self.strays), ("losses", self.losses))
            if value
        ]
        return " ".join(said) or "none"  # fmt: skip


class Chunk(NamedTuple):
    """What is true of one ticket."""

    phase: str = "idle"  #: of who asks: idle, asked, has, filling, filled, no
    slot: int = -1  #: lent to it, by the observer's books
    served: bool = False  #: it has, or had, a slot
    refused: bool = False  #: it was told no
    ready: bool = False  #: its reader was told
    reading: bool = False  #: an operation of ours reads it
    taken: bool = False


class Truth(NamedTuple):
    """What the observer knows. ``over`` and ``gone``: the rooms that are over where the slots are, and where they are asked
    for. ``ring``: free slots as they came back. ``line``: who waits, in the order of asking."""

    chunks: tuple[tuple[Chunk, ...], ...]
    ring: tuple[int, ...]
    line: tuple[tuple[int, int], ...] = ()
    over: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    net: frozenset[Action] = frozenset()
    fails: int = 0
    strays: int = 0
    losses: int = 0


class StagingWorld:
    """What the two worlds share: the observer and the owner's side."""

    REMOTE = False

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.seen: set[str] = set()
        self.staging = Staging(shape.slots, 10, queue=shape.queue, remote=self.REMOTE)
        self.staging.trace = self._traced
        for room in range(shape.rooms):
            self.staging.open(self.key(room))
        chunks = tuple(tuple(Chunk() for _ in range(shape.tickets)) for _ in range(shape.rooms))
        self.true = Truth(
            chunks, tuple(range(shape.slots)), fails=shape.fails, strays=shape.strays, losses=shape.losses
        )

    # -- what the explorer wants
    def snapshot(self) -> Hashable:
        return self.staging.snapshot(), self.true

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, tuple)
        self.staging.restore(snapshot[0])
        self.true = snapshot[1]

    def fair(self, action: Hashable) -> bool:
        assert isinstance(action, tuple)
        return not str(action[0]).startswith(_UNFAIR)

    def ended(self) -> bool:
        every, true = frozenset(range(self.shape.rooms)), self.true
        touched = any(c.reading or c.phase == "filling" for chunks in true.chunks for c in chunks)
        idle = self.staging.gauges() == {"credits": self.shape.slots, "lent": 0, "waiting": 0, "rooms": 0}
        return true.over == true.gone == every and not true.net and not touched and idle

    def outcome(self) -> str:
        return " ".join(sorted(self._end(room) for room in range(self.shape.rooms)))

    def lacks(self) -> list[Violation]:
        gauges = self.staging.gauges()
        if gauges["waiting"]:
            return [Violation("CreditsConserved", f"{self.staging.waiting} wait for ever")]
        if gauges["lent"]:
            return [Violation("EventuallyReleased", f"{gauges['lent']} slots stay lent")]
        return [Violation("IdleEmpty", f"{gauges['rooms']} rooms are remembered")] if gauges["rooms"] else []

    def actions(self) -> Sequence[Action]:
        """Owner's side; the worlds add who asks."""
        true, todo = self.true, list[Action]()
        for room, chunks in enumerate(true.chunks):
            live = room not in true.over
            for no, chunk in enumerate(chunks):
                if live and chunk.ready and not chunk.reading and not chunk.taken:
                    todo.append(("read begins", room, no))
                if chunk.reading:
                    todo.append(("read ends", room, no))
                    todo += [("taken", room, no)] if not chunk.taken else []
                if true.strays:
                    todo += [("late quiet", room, no), ("late filled", room, no)]
                    todo += [("late taken", room, no)] if chunk.taken or (not live and chunk.ready) else []
            if live and all(chunk.taken and not chunk.reading for chunk in chunks):
                todo.append(("conclude", room))
            if live and true.fails:
                todo.append(("fail", room))
            if not live and true.strays:
                todo.append(("late close", room))
        return todo

    def do(self, action: Hashable) -> None:
        assert isinstance(action, tuple)
        name, room, no = (*action, 0)[:3]
        true = self.true
        ticket = self.ticket(room, no)
        match name:
            case "read begins":
                self._set(room, no, reading=True)
                if not self.staging.start(ticket):
                    raise Violation("TotalHandlers", "a slot that is ready cannot be read")
            case "read ends":
                freed = true.chunks[room][no].taken or room in true.over  # an engine whose room is over need not say it
                self._set(room, no, reading=False, taken=True)
                self.staging.quiet(ticket)
                if not freed:
                    self.staging.freed(ticket)
            case "taken":
                self._set(room, no, taken=True)
                self.staging.freed(ticket)
            case "conclude" | "fail" | "late close":
                self._over(room, name)
            case "late quiet" if not self._touching(room, no):
                self.true = true._replace(strays=true.strays - 1)
                self.staging.quiet(ticket)
            case "late filled" if true.chunks[room][no].slot < 0 or true.chunks[room][no].phase == "filled":
                self.true = true._replace(strays=true.strays - 1)
                self.staging.filled(ticket)
            case "late taken":
                self.true = true._replace(strays=true.strays - 1)
                self.staging.freed(ticket)
            case _:
                self._ask_side(name, room, no)
        self._hear(self.staging.take())
        self._check()

    def tell(self, trace: Sequence[Hashable]) -> list[str]:
        return [" ".join(map(str, action)) for action in trace if isinstance(action, tuple)]

    def seen_from_outside(self) -> Hashable:
        return self.true

    # -- for the worlds
    def key(self, room: int) -> SessionKey:
        return SessionKey("receiver" if self.REMOTE else "sender", room + 1)

    def ticket(self, room: int, no: int) -> Ticket:
        return Ticket(self.key(room), 0, no)

    def nbytes(self, room: int, no: int) -> int:
        return 11 if self.shape.large and (room, no) == (0, self.shape.tickets - 1) else 10

    def _ask_side(self, name: str, room: int, no: int) -> None:
        raise NotImplementedError

    def _told(self, out: Granted | Refused, room: int, no: int) -> None:
        """Who asked is told."""
        raise NotImplementedError

    def _over(self, room: int, how: str) -> None:
        """The room is over where the slots are."""
        true = self.true
        failed = true.failed | {room} if how == "fail" else true.failed
        left = (true.fails - (how == "fail"), true.strays - (how == "late close"))
        line = tuple(each for each in true.line if each[0] != room)
        self.true = true._replace(over=true.over | {room}, failed=failed, fails=left[0], strays=left[1], line=line)
        self.staging.close(self.key(room))

    def _asks(self, room: int, no: int) -> None:
        """The owner hears that a slot is asked for. The observer says what must come of it."""
        true, before = self.true, self.true.chunks[room][no]
        new = not before.served and not before.refused and (room, no) not in true.line and room not in true.over
        fits = self.nbytes(room, no) <= 10
        self.staging.ask(self.ticket(room, no), self.nbytes(room, no))
        out = self.staging.take()
        if new and fits and not true.ring and len(true.line) < self.shape.queue:
            self.true = true._replace(line=(*true.line, (room, no)))
            self.seen.add(mark("CreditsConserved", "a request waits for a staging slot"))
        fair = not fits or (not true.ring and len(true.line) >= self.shape.queue)
        if new and fair is not any(isinstance(each, Refused) for each in out):
            raise Violation(
                "CreditsConserved", f"{(room, no)} is refused: {not fair}; free: {true.ring}, waiting: {true.line}"
            )
        self._hear(out)  # fmt: skip

    def _set(self, room: int, no: int, **what: object) -> None:
        chunks = [list(each) for each in self.true.chunks]
        chunks[room][no] = chunks[room][no]._replace(**what)  # type: ignore[arg-type]
        self.true = self.true._replace(chunks=tuple(tuple(each) for each in chunks))

    def _touching(self, room: int, no: int) -> bool:
        chunk = self.true.chunks[room][no]
        return chunk.reading or chunk.phase == "filling"

    # -- the observer
    def _hear(self, outs: Sequence[StagingOutput]) -> None:
        for out in outs:
            room, no = out.ticket.owner.no - 1, out.ticket.no
            chunk, true = self.true.chunks[room][no], self.true
            match out:
                case Returned(slot=slot):
                    if chunk.slot != slot:
                        raise Violation(
                            "ExactlyOnceFree", f"slot {slot} came back from {(room, no)}, which has {chunk.slot}"
                        )
                    if self._touching(room, no):
                        raise Violation("NoFreeInFlight", f"slot {slot} came back while something touches it")
                    if room not in true.over and not chunk.taken:
                        raise Violation("UniformRelease", f"slot {slot} came back, and {(room, no)} still needs it")
                    self._set(room, no, slot=-1)
                    self.true = self.true._replace(ring=(*true.ring, slot))
                    if room in true.failed:
                        self.seen.add(mark("CreditsConserved", "a staging slot comes back when a room fails"))
                case Granted(slot=slot):
                    self._granted(room, no, slot)
                    self._told(out, room, no)
                case SlotReady(slot=slot):
                    if chunk.ready or chunk.phase != "filled" or chunk.slot != slot or room in true.over:
                        raise Violation("NoDoneWithoutData", f"{(room, no)} is called ready: {chunk}")
                    self._set(room, no, ready=True)
                case Refused(failure=failure):
                    if chunk.slot >= 0 or failure.cause is not Cause.LIMIT or "limit" not in dict(failure.details):
                        raise Violation("CreditsConserved", f"{(room, no)} is refused: {failure}")
                    self._set(room, no, refused=True)
                    self._told(out, room, no)  # fmt: skip

    def _granted(self, room: int, no: int, slot: int) -> None:
        chunk, true = self.true.chunks[room][no], self.true
        if chunk.slot >= 0:
            if chunk.slot != slot:
                raise Violation("CreditsConserved", f"{(room, no)} has slot {chunk.slot}, and is told {slot}")
            return
        if chunk.served or room in true.over:
            raise Violation("CreditsConserved", f"{(room, no)} is over and gets slot {slot}")
        if not true.ring or true.ring[0] != slot:
            raise Violation("CreditsConserved", f"slot {slot} is lent; free are, in order, {true.ring}")
        if true.line and true.line[0] != (room, no):
            raise Violation("CreditsConserved", f"{(room, no)} gets a slot before {true.line[0]}")
        self.true = true._replace(ring=true.ring[1:], line=true.line[1:])
        self._set(room, no, slot=slot, served=True)

    def _check(self) -> None:
        true, staging = self.true, self.staging
        lent = [chunk.slot for chunks in true.chunks for chunk in chunks if chunk.slot >= 0]
        if sorted((*true.ring, *lent)) != list(range(self.shape.slots)):
            raise Violation("CreditsConserved", f"free {true.ring} and lent {lent} are not all slots, each once")
        if (staging.credits, staging.lent) != (len(true.ring), len(lent)):
            raise Violation(
                "CreditsConserved", f"credits {staging.credits}, lent {staging.lent}; true: {true.ring}, {lent}"
            )
        if staging.waiting != tuple(self.ticket(*each) for each in true.line):
            raise Violation("CreditsConserved", f"{staging.waiting} wait, and {true.line} asked")
        if true.line and true.ring:
            raise Violation("CreditsConserved", f"{true.line} wait while {true.ring} are free")  # fmt: skip

    def _end(self, room: int) -> str:
        if any(chunk.phase == "no" for chunk in self.true.chunks[room]):
            return "refused"
        return "failed" if room in self.true.failed else "served"

    def _traced(self, ticket: Ticket, edge: Edge, signal: Signal) -> None:
        if edge.verdict is Verdict.NEVER:
            raise Violation("TotalHandlers", f"{signal.name}: a row that is called impossible fired: {edge.row.why}")
