"""What many replays share: which memory is at stake, another room that would take it, and every way for a room to end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kvpoll.protocol.records import LeaseKind

from ..protocol.pair import TIMING, Leg
from .shadow import Act, Engine, Shadow

__all__ = ["DIRECT", "ENDINGS", "OTHER", "PATIENT", "PUSH", "another", "back", "hold_fences", "memory_of", "stop"]

PUSH = pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
DIRECT = pytest.mark.parametrize("direct", [False, True], ids=["buffer", "pages"])
OTHER = 8
#: Only rooms end by a clock here: no link is given up.
PATIENT = replace(TIMING, lost=10**9)


def memory_of(world: Shadow, leg: Leg) -> list[tuple[Engine, LeaseKind, int]]:
    """What operations of a room may touch at this leg's end."""
    if leg.key.role == "sender":
        return [(world.p, LeaseKind.COPY, no) for no in range(2)]
    return [(world.d, LeaseKind.PAGES if world.d.config.direct else LeaseKind.BUFFER, 0)]


def back(world: Shadow, leg: Leg) -> list[int]:
    return [engine.back[leg.key, kind, no] for engine, kind, no in memory_of(world, leg)]


def hold_fences(world: Shadow) -> None:
    """Fences stay unproved until the world is finished."""
    for process in world.processes.values():
        process.hold_fences = True


def stop(world: Shadow, name: str) -> None:
    process = world.processes[name]
    process.core.shutdown()
    process.settle()


def another(world: Shadow) -> tuple[Leg, Leg]:
    """One more room, with whoever still takes rooms at either end."""
    p = world.p if not world.p.core.draining else world.join("q")
    d = world.d if not world.d.core.draining else world.join("e")
    world.hold()
    s, r = p.sender(OTHER), d.receiver(OTHER, senders=[(p.name, 0)])
    r.metadata(aux=1)
    world.run()
    return s, r


ENDINGS: dict[str, Act] = {
    "the receiver aborts": lambda w, s, r: r.abort("client went away"),
    "the sender aborts": lambda w, s, r: s.abort("client went away"),
    "both abort": lambda w, s, r: (r.abort(), s.abort()),
    "a gate fails": lambda w, s, r: r.fail_gate("restore"),
    "an operation fails": lambda w, s, r: w.mover.end_op("failed"),
    "an operation is unresolved": lambda w, s, r: w.mover.end_op("unresolved"),
    "the total deadline": lambda w, s, r: w.advance(TIMING.total + 1),
    "the receiver's process stops": lambda w, s, r: stop(w, "d"),
    "the sender's process stops": lambda w, s, r: stop(w, "p"),
    "both are declared lost": lambda w, s, r: (w.p.declare_lost(), w.d.declare_lost()),
}
