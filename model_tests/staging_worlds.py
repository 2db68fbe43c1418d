"""The worlds of staging slots, by name."""

from __future__ import annotations

from .named import NamedWorld
from .staging_world import PoolWorld, RingWorld, Shape, StagingWorld

__all__ = ["STAGING_REACH", "STAGING_WORLDS"]

_Row = tuple[str, str, type[StagingWorld], Shape, str]

# fmt: off
#: name, what is in it, kind, shape, its ends ("served" and so on for each room; ends are divided by commas)
_QUICK: tuple[_Row, ...] = (
    ("staging-pool", "Two rooms want the one slot of a host pool; either fails at any moment, and a call comes late.",
     PoolWorld, Shape(strays=1), "failed served, served served"),
    ("staging-pool-chunks", "Two rooms of two chunks each, one slot, a queue of two: what does not fit into it is refused.",
     PoolWorld, Shape(tickets=2, queue=2), "failed refused, failed served, refused served, served served"),
    ("staging-pool-rooms", "Three rooms, one slot, a queue of one.",
     PoolWorld, Shape(rooms=3), "failed refused served, failed served served, refused served served, served served served"),
    ("staging-ring", "Two rooms want the one slot of a receiver's ring; a message is lost, and either end fails.",
     RingWorld, Shape(losses=1), "failed served, served served"),
    ("staging-ring-copies", "Two rooms, and a message that comes twice or late.",
     RingWorld, Shape(fails=0, strays=1), "served served"),
    ("staging-ring-refused", "Nobody may wait, and the answer is lost: it is said again.",
     RingWorld, Shape(queue=0, fails=0, losses=1), "refused served, served served"),
    ("staging-ring-too-large", "A chunk that fits into no slot is refused with the size of one, whatever is lost or copied.",
     RingWorld, Shape(large=True, fails=0, losses=1, strays=1), "refused served"),
    ("staging-ring-chunks", "One room of two chunks waits for itself; it fails with one chunk in its slot and one waiting.",
     RingWorld, Shape(rooms=1, tickets=2), "failed, served"),
    ("staging-ring-rooms", "Three rooms, and a queue for all of them: each is served, in the order of asking.",
     RingWorld, Shape(rooms=3, queue=2, fails=0), "served served served"),
)
_DEEP: tuple[_Row, ...] = (
    ("staging-pool-two-slots", "Two rooms of two chunks each, two slots, a queue of one.",
     PoolWorld, Shape(tickets=2, slots=2), "failed refused, failed served, refused served, served served"),
    ("staging-ring-faults", "Two rooms; either end fails, a message is lost, another copied.",
     RingWorld, Shape(losses=1, strays=1), "failed served, served served"),
    ("staging-ring-two-slots", "Three rooms, two slots, a queue of one; a room fails at either end.",
     RingWorld, Shape(rooms=3, slots=2), "failed served served, served served served"),
    ("staging-ring-two-chunks", "Two rooms of two chunks each, two slots, a queue of one.",
     RingWorld, Shape(tickets=2, slots=2, fails=0), "refused served, served served"),
)
# fmt: on


def _named(row: _Row, deep: bool) -> NamedWorld:
    name, about, kind, shape, ends = row
    return NamedWorld(name, about, lambda: kind(shape), frozenset(ends.split(", ")), shape.faults, deep=deep)


STAGING_WORLDS: tuple[NamedWorld, ...] = (
    *(_named(row, False) for row in _QUICK),
    *(_named(row, True) for row in _DEEP),
)
#: For the rows of the table only: small, and searched whole.
STAGING_REACH: tuple[NamedWorld, ...] = tuple(
    NamedWorld(f"reach-{w.name}", w.about, w.make, w.ends, w.faults)
    for w in STAGING_WORLDS
    if w.name in ("staging-pool", "staging-ring-too-large", "staging-ring-refused", "staging-ring-chunks")
)
