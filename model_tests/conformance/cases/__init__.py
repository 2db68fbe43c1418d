"""Every case there is, in the order in which they run: what others build on comes first.

Everything here is enumerated: the same cases, with the same ids, on every machine. ``CASES`` is what a run runs. The family
``faults/two`` has every pair of faults and every pair of places, not their product: :func:`.faults.every_two` has that.
"""

from __future__ import annotations

from functools import cache

from ..case import Case
from . import aborts, attempts, calls, faults, gates, handoff, hostile, limits, paths, ranks, rooms, stops

__all__ = ["all_cases", "find"]


@cache
def all_cases() -> tuple[Case, ...]:
    """The whole suite. Ids are unique."""
    found = [
        *handoff.cases(), *calls.cases(), *aborts.cases(), *limits.cases(), *faults.cases(), *rooms.cases(), *ranks.cases(),
        *gates.cases(), *stops.cases(), *hostile.cases(), *attempts.cases(), *paths.cases(),
    ]  # fmt: skip
    ids = [each.id for each in found]
    twice = sorted({id for id in ids if ids.count(id) > 1}) if len(set(ids)) != len(ids) else []
    if twice:
        raise ValueError(f"case ids are there twice: {', '.join(twice)}")
    return tuple(found)


def find(id: str) -> Case:
    """The case of this id. Raises ``KeyError`` naming those that begin alike."""
    for each in all_cases():
        if each.id == id:
            return each
    head = id.rsplit("/", 1)[0]
    near = [each.id for each in all_cases() if each.id.startswith(head)][:8]
    raise KeyError(f"no case is called {id!r}" + (f"; there are {', '.join(near)}" if near else ""))
