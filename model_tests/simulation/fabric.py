"""The data plane: operations that take time, fail, stay unresolved, are fenced, and touch real (shadowed) memory.

It is hostile: an operation can touch both ends' memory until it is reported, cancelled and over, or fenced. After a crash
of the process that started it, it still can touch the other end's, until *that* end has fenced the peer. An operation that
is unresolved may write at the last moment before its fence. What it reads and writes is what the memory holds then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kvpoll.protocol.outputs import Expose, OfferPart, Submit
from kvpoll.spec.wire import PartKind

from .chance import Chance, OpEnd
from .clockwork import Clockwork
from .ends import DecodeEnd, PrefillEnd
from .memory import Copy, Page, Shadow

if TYPE_CHECKING:
    from .process import Process

__all__ = ["Fabric", "Flight"]


@dataclass(slots=True, eq=False)
class Touch:
    """Memory of one process that an operation can touch."""

    process: Process
    piece: Shadow


@dataclass(slots=True, eq=False)
class Flight:
    """One operation. ``source`` or ``target`` is None when the other end does not (or no longer) let it."""

    process: Process
    owner: PrefillEnd | DecodeEnd
    submit: Submit
    lands: bool
    end: OpEnd
    source: Copy | None = None
    target: DecodeEnd | None = None
    touches: list[Touch] = field(default_factory=list)
    reported: bool = False  #: as unresolved
    fencing: bool = False
    over: bool = False

    def cut(self, process: Process) -> None:
        """It can no longer touch the memory of this process."""
        for touch in self.touches:
            if touch.process is process:
                touch.piece.untouch()
        self.touches = [touch for touch in self.touches if touch.process is not process]
        reached = [touch.piece for touch in self.touches]
        if self.source not in reached:
            self.source = None
        if self.target is not None and self.target.buffer not in reached:
            self.target = None

    def end_touching(self) -> None:
        for touch in self.touches:
            touch.piece.untouch()
        self.touches = []
        self.over = True


class Fabric:
    """Every operation in flight, what is exposed to pushes, and what is offered to pulls."""

    def __init__(self, clock: Clockwork, chance: Chance) -> None:
        self.clock = clock
        self.chance = chance
        self.flights: dict[int, dict[int, Flight]] = {}  #: by link, then by number
        self.exposed: dict[int, DecodeEnd] = {}  #: by key
        self.offered: dict[int, tuple[PrefillEnd, int, Copy]] = {}  #: by key: whose, over which link, what
        self.counts: Counter[str] = Counter()
        self._count = 0

    # -- what the other end may touch ------------------------------------------------------------------------------------------
    def expose(self, end: DecodeEnd, out: Expose) -> None:
        self.exposed[out.key] = end
        end.keys_of_buffer.append(out.key)
        end.buffer.links[out.link] = None

    def retract(self, key: int) -> None:
        self.exposed.pop(key, None)

    def offer(self, end: PrefillEnd, out: OfferPart) -> None:
        self.offered[out.key] = (end, out.link, end.copies[out.no])
        end.keys.setdefault(out.no, []).append(out.key)

    def withdraw(self, keys: Sequence[int]) -> None:
        for key in keys:
            self.offered.pop(key, None)

    # -- operations ------------------------------------------------------------------------------------------------------------
    def submit(self, process: Process, out: Submit) -> None:
        """Start one. It can touch from here on whatever it may touch at all."""
        fate = self.chance.operation()
        end = process.ends[out.op.session]
        self.counts["operations"] += 1
        if fate.end is OpEnd.REFUSED:
            self.counts["operations refused"] += 1
            process.report(fate.end, out.op)
            return
        flight = Flight(process, end, out, fate.lands, fate.end)
        if isinstance(end, PrefillEnd):
            self._push(flight, end)
        else:
            self._pull(flight, end)
        self._count += 1
        self.flights.setdefault(out.link, {})[self._count] = flight
        if fate.end is not OpEnd.STUCK:
            self.clock.after(fate.delay, partial(self._ends, self._count, flight))

    def _push(self, flight: Flight, end: PrefillEnd) -> None:
        out = flight.submit
        flight.source = end.copies[out.op.part]
        end.readable(flight.source)
        self._touch(flight, end, [flight.source])
        target = self.exposed.get(out.key)
        if target is not None and out.link in target.buffer.links:
            flight.target = target
            self._touch(flight, target, target.reached(out.part))

    def _pull(self, flight: Flight, end: DecodeEnd) -> None:
        out = flight.submit
        flight.target = end
        self._touch(flight, end, end.reached(out.part))
        whose, link, copy = self.offered.get(out.key, (None, 0, None))
        if whose is not None and copy is not None and link == out.link:
            whose.readable(copy)
            flight.source = copy
            self._touch(flight, whose, [copy])

    @staticmethod
    def _touch(flight: Flight, end: PrefillEnd | DecodeEnd, pieces: Sequence[Shadow]) -> None:
        for piece in pieces:
            piece.touch(end)
            flight.touches.append(Touch(end.process, piece))

    def _ends(self, number: int, flight: Flight) -> None:
        """Its time has come."""
        if flight.over or flight.reported:
            return
        how = flight.end
        if how is OpEnd.DONE and (flight.source is None or flight.target is None):
            how = OpEnd.FAILED  # there is nothing to read, or nowhere to write: refused at the other end
        if how is OpEnd.DONE:
            self._land(flight)
        self.clock.log(flight.process.address, f"op {how.value} {_name(flight)}", flight.owner.number)
        self.counts[f"operations {how.value}"] += 1
        if how is OpEnd.UNRESOLVED:
            flight.reported = True
            flight.process.soon(partial(flight.process.report, how, flight.submit.op))
            return
        self._over(number, flight)
        flight.process.soon(partial(flight.process.report, how, flight.submit.op))

    def _land(self, flight: Flight) -> None:
        """The bytes go where they belong, as they are now."""
        source, target, out = flight.source, flight.target, flight.submit
        if source is None or target is None:
            return
        part = out.part
        if target.direct and part.kind is PartKind.KV:
            pages: Sequence[Page] = target.pages_of(part)
            width = len(pages)
            for layer in range(part.layer_start, part.layer_stop):
                for at, page in enumerate(pages):
                    page.written(target)
                    page.values[layer] = source.values[(layer - part.layer_start) * width + at]
        target.buffer.put(target, out.link, part.no, source.values)

    def _over(self, number: int, flight: Flight) -> None:
        flight.end_touching()
        flights = self.flights[flight.submit.link]
        del flights[number]
        if not flights:
            del self.flights[flight.submit.link]

    # -- what a process asks for -------------------------------------------------------------------------------------------------
    def _mine(self, process: Process, link: int | None = None) -> list[tuple[int, Flight]]:
        links = self.flights if link is None else [link] if link in self.flights else []
        return [(no, f) for at in links for no, f in self.flights[at].items() if f.process is process]

    def cancel(self, process: Process, out: Submit) -> None:
        """It is asked to end early."""
        for number, flight in self._mine(process, out.link):
            if flight.submit is out and not flight.reported and flight.end in (OpEnd.STUCK, OpEnd.DONE):
                flight.end = OpEnd.FAILED if flight.end is OpEnd.STUCK else flight.end
                self.clock.after(self.chance.pause(20), partial(self._ends, number, flight))

    def fence_operation(self, process: Process, out: Submit) -> None:
        """It is unresolved: make sure that it can touch nothing any more."""
        for number, flight in self._mine(process, out.link):
            if flight.submit is out and not flight.fencing:
                flight.fencing = True
                self.clock.after(self.chance.pause(60), partial(self._fenced, number, flight))

    def _fenced(self, number: int, flight: Flight) -> None:
        if flight.over:
            return
        if flight.lands:
            self._land(flight)
        self._over(number, flight)
        self.clock.log(flight.process.address, f"op fenced {_name(flight)}", flight.owner.number)
        self.counts["operations fenced"] += 1
        flight.process.soon(partial(flight.process.report, None, flight.submit.op))

    def fence_peer(self, process: Process, link: int) -> None:
        """Nothing of the peer on this link can touch the memory of this process any more, and operations of this process
        towards that peer are over for it. They may have landed a moment before."""
        for number, flight in list(self.flights.get(link, {}).items()):
            if flight.lands and flight.end is not OpEnd.FAILED:
                self._land(flight)
            flight.lands = False
            if flight.process is not process:
                flight.cut(process)
            if flight.process is process or not (flight.touches or flight.process.alive):
                self._over(number, flight)
        for end in process.ends.values():
            if isinstance(end, DecodeEnd):
                end.buffer.links.pop(link, None)
        for key in [key for key, (end, on, _) in self.offered.items() if on == link and end.process is process]:
            del self.offered[key]

    def crash(self, process: Process) -> None:
        """The process is gone, with its memory. What it started goes on."""
        for flights in list(self.flights.values()):
            for number, flight in list(flights.items()):
                flight.cut(process)
                if not flight.touches and not flight.process.alive:
                    self._over(number, flight)
        self.exposed = {key: end for key, end in self.exposed.items() if end.process is not process}
        self.offered = {key: offer for key, offer in self.offered.items() if offer[0].process is not process}

    def in_flight(self, process: Process) -> list[Flight]:
        """Operations that this process started and has no end of."""
        return [flight for _, flight in self._mine(process)]

    def towards(self, process: Process, link: int, attempt: tuple[int, int]) -> list[Flight]:
        """Operations of this process that can touch the memory of the peer on ``link``, for one attempt."""
        return [f for _, f in self._mine(process, link) if f.owner.attempt == attempt and _theirs(f)]


def _theirs(flight: Flight) -> bool:
    return any(touch.process is not flight.process for touch in flight.touches)


def _name(flight: Flight) -> str:
    op = flight.submit.op
    return f"{op.session.role} {op.session.no} peer {op.peer} part {op.part}"
