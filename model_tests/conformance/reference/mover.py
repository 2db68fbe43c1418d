"""The data plane of the reference, as hostile as a real one: what was started may land until it is over or fenced.

A movement resolves its memory when it starts, as a NIC does: taking a key away later stops no movement in flight. A copy
that went back is wiped, so that whoever reads it afterwards moves garbage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kvpoll.protocol.outputs import Expose, OfferPart, Submit
from kvpoll.spec.wire import Part

if TYPE_CHECKING:
    from .process import Handle, Process
    from .topology import Address
    from .world import World

__all__ = ["Copy", "Flight", "Mover"]

#: What memory holds that went back.
WIPED = 0xDD
#: ms that a fence takes.
FENCE = 20


@dataclass(slots=True, eq=False)
class Copy:
    """The gathered copy of one part."""

    data: bytearray

    def wipe(self) -> None:
        self.data[:] = bytes([WIPED]) * len(self.data)


@dataclass(slots=True, eq=False)
class Flight:
    """One movement, from one rank to one rank. Without a source or a target it fails."""

    process: Process
    room: int
    submit: Submit
    source: Copy | None
    source_process: Process | None
    target: Handle | None
    target_process: Process | None
    far: Address  #: of the end that did not start it
    pages: list[int] = field(default_factory=list)
    short: bool = False
    unresolved: bool = False
    over: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """What is written down of it at the target: the rank that it came from, and the part as the target numbers it."""
        return (0 if self.source_process is None else self.source_process.address.rank), self.submit.part.no


class Mover:
    """Every movement in flight, and what may be touched under which key."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exposed: dict[int, Handle] = {}
        self.offered: dict[int, tuple[Copy, Process]] = {}
        self.flights: list[Flight] = []
        self.stalled: list[Flight] = []
        self.stalls: set[int] = set()  #: rooms

    def expose(self, handle: Handle, out: Expose) -> None:
        self.exposed[out.key] = handle
        handle.keys.append(out.key)

    def offer(self, process: Process, copy: Copy, out: OfferPart) -> None:
        self.offered[out.key] = (copy, process)

    def submit(self, process: Process, handle: Handle, out: Submit) -> None:
        """Start one."""
        part, far = out.part, self.world.far(process.address, out.link)
        if self.world.setting.push:
            target = self.exposed.get(out.key)
            there = None if target is None else target.process
            copy = handle.copies.get(out.op.part)
            flight = Flight(process, handle.room, out, copy, process, target, there, far)
        else:
            source, owner = self.offered.get(out.key, (None, None))
            flight = Flight(process, handle.room, out, source, owner, handle, process, far)
        if flight.target is not None:
            flight.pages = flight.target.pages_of(part)
        self.flights.append(flight)
        strikes = partial(self.world.strikes, process.side, room=handle.room)
        if handle.room in self.stalls:
            self.stalled.append(flight)
            return
        how = "done"
        if strikes("mover_error") or strikes("mover_raises") or self._last(flight):
            how = "failed"
        elif strikes("mover_unresolved"):
            how = "unresolved"
        flight.short = strikes("truncate")
        self.world.after(self.world.setting.latency, partial(self._ends, flight, how))

    def _ends(self, flight: Flight, how: str) -> None:
        if flight.over or flight.unresolved:
            return
        if {flight.process.address, flight.far} & self.world.silent:
            self.world.held.append(partial(self._ends, flight, how))
            return
        if how == "done" and (flight.source is None or flight.target is None or self._gone(flight)):
            how = "failed"  # nothing to read, or nowhere to write
        if how == "unresolved":
            flight.unresolved = True
        else:
            if how == "done":
                self.land(flight)
            self._over(flight)
        flight.process.report(flight.submit.op, how)

    def _last(self, flight: Flight) -> bool:
        """A fault of the last rank's data, at either end of this movement."""
        world = self.world
        ends = (at for at in (flight.process.address, flight.far) if at == world.last(at.side))
        return any(world.strikes(at.side, "rank_error", flight.room) for at in ends)

    def _gone(self, flight: Flight) -> bool:
        return flight.far not in self.world.places

    def land(self, flight: Flight) -> None:
        """The bytes go where they belong."""
        source, target = flight.source, flight.target
        if source is None or target is None or flight.source_process is None or flight.target_process is None:
            return
        whole = _cut(bytes(source.data), flight.submit.part, flight.source_process, flight.target_process)
        data = whole[: len(whole) // 2 if flight.short else None]
        target.arrived[flight.key] = data
        if self.world.setting.direct:
            target.process.put(flight.pages, flight.source_process.address, data)

    def _over(self, flight: Flight) -> None:
        flight.over = True
        self.flights.remove(flight)

    def cancel_done(self, flight: Flight) -> None:
        """Fenced: it lands at the last moment, then never."""
        if not flight.over:
            self.land(flight)
            self._over(flight)
            flight.process.report(flight.submit.op, "fenced")

    # -- what a process asks for ---------------------------------------------------------------------------------------
    def fence_operation(self, process: Process, submit: Submit) -> None:
        for flight in self.flights:
            if flight.submit is submit:
                self.world.after(FENCE, partial(self.cancel_done, flight))

    def fence_peer(self, process: Process, link: int) -> None:
        """Nothing of this link can touch this process any more; its own movements there are over, too."""
        for flight in [f for f in self.flights if f.submit.link == link]:
            self.land(flight)
            if flight.process is process:
                self._over(flight)
                process.ops.pop(flight.submit.op, None)
            flight.target = flight.source = None

    def crash(self, process: Process) -> None:
        """Its memory is gone. What it started goes on, and tells nobody."""
        for flight in list(self.flights):
            if flight.target_process is process:
                flight.target = None
            if not self.world.setting.push and flight.source_process is process:
                flight.source = None

    def outline(self) -> tuple[int, int, bool]:
        """For telling worlds apart."""
        return len(self.flights), len(self.stalled), bool(self.stalls)

    def heal(self) -> None:
        """Stalled movements go on."""
        self.stalls.clear()
        stalled, self.stalled = self.stalled, []
        for flight in stalled:
            self.world.after(self.world.setting.latency, partial(self._ends, flight, "done"))


def _cut(data: bytes, part: Part, source: Process, target: Process) -> bytes:
    """What the target gets of a copy of whole pages."""
    shared = target.shared(source.address)
    if source.offsets == shared and target.owner.size == 1:
        return data
    size, picked = len(source.offsets), [source.offsets.index(at) for at in shared]
    return bytes(data[(token - part.start) * size + at] for token in target.tokens_of(part) for at in picked)
