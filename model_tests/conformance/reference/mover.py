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
    """One movement. Without a source or a target it fails."""

    process: Process
    room: int
    submit: Submit
    source: Copy | None
    target: Handle | None
    target_process: Process | None
    pages: list[int] = field(default_factory=list)
    short: bool = False
    unresolved: bool = False
    over: bool = False


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
        part = out.part
        if self.world.setting.push:
            target = self.exposed.get(out.key)
            there = None if target is None else target.process
            flight = Flight(process, handle.room, out, handle.copies.get(part.no), target, there)
        else:
            source, _ = self.offered.get(out.key, (None, None))
            flight = Flight(process, handle.room, out, source, handle, process)
        if flight.target is not None:
            flight.pages = flight.target.pages[part.start : part.stop]
        self.flights.append(flight)
        strikes = partial(self.world.strikes, process.side, room=handle.room)
        if handle.room in self.stalls:
            self.stalled.append(flight)
            return
        how = "done"
        if strikes("mover_error") or strikes("mover_raises"):
            how = "failed"
        elif strikes("mover_unresolved"):
            how = "unresolved"
        flight.short = strikes("truncate")
        self.world.after(self.world.setting.latency, partial(self._ends, flight, how))

    def _ends(self, flight: Flight, how: str) -> None:
        if flight.over or flight.unresolved:
            return
        sides = {flight.process.side, *([flight.target_process.side] if flight.target_process else ())}
        if sides & self.world.silent or self._other(flight) in self.world.silent:
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

    def _other(self, flight: Flight) -> str:
        return "decode" if flight.process.side == "prefill" else "prefill"

    def _gone(self, flight: Flight) -> bool:
        return self._other(flight) not in self.world.places

    def land(self, flight: Flight) -> None:
        """The bytes go where they belong."""
        source, target = flight.source, flight.target
        if source is None or target is None or flight.target_process is None:
            return
        data = bytes(source.data[: len(source.data) // 2 if flight.short else None])
        part: Part = flight.submit.part
        target.arrived[part.no] = data
        if self.world.setting.direct:
            target.process.write(flight.pages, data)

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
            if not self.world.setting.push and flight.process is not process:
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
