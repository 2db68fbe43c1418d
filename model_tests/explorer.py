"""A breadth-first explorer of worlds: enabled actions, do one, snapshot, restore.

It explores any object that is a :class:`World`. Every reachable state is visited once; an action that breaks an invariant
stops the search with the shortest trace to it. Afterwards the graph is walked backwards from the good ends: a state from
which none can be reached any more is a hang or a leak (EveryRoomEnds, EventuallyReleased, IdleEmpty).

An incomplete search proves nothing: :attr:`Result.complete` says whether everything was seen.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Result", "Violation", "World", "explore"]


class Violation(Exception):
    """An invariant, by name, does not hold."""

    def __init__(self, invariant: str, sentence: str) -> None:
        super().__init__(f"{invariant}: {sentence}")
        self.invariant = invariant


class World(Protocol):
    """What can be explored. ``do`` changes it, ``restore`` takes it back; both may raise :class:`Violation`."""

    def actions(self) -> Sequence[Hashable]:
        """What can happen next, in a fixed order."""

    def do(self, action: Hashable) -> None: ...

    def snapshot(self) -> Hashable:
        """Everything that the future depends on, canonical."""

    def restore(self, snapshot: Hashable) -> None: ...

    def ended(self) -> bool:
        """Is this a good end: nothing held, nothing in flight, every table empty?"""

    def outcome(self) -> str:
        """The name of an end, so that a proof can be shown not to be vacuous."""


@dataclass
class Result:
    """What a search found."""

    states: int = 0
    edges: int = 0
    complete: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)
    violation: Violation | None = None
    trace: list[Hashable] = field(
        default_factory=list
    )  #: shortest way to the violation, or to a state without a good end

    @property
    def proved(self) -> bool:
        return self.complete and self.violation is None


def explore(world: World, limit: int = 2_000_000) -> Result:
    """Search everything that ``world`` can do, up to ``limit`` states."""
    start = world.snapshot()
    index: dict[Hashable, int] = {start: 0}
    order: list[Hashable] = [start]
    parent, via = array("l", [-1]), array("l", [-1])
    sources, targets = array("l"), array("l")
    ends: list[int] = []
    result = Result()
    at = 0
    while at < len(order) and len(order) <= limit:
        snapshot = order[at]
        world.restore(snapshot)
        if world.ended():
            ends.append(at)
            result.outcomes[world.outcome()] += 1
        for number, action in enumerate(world.actions()):
            world.restore(snapshot)
            try:
                world.do(action)
            except Violation as violation:
                result.violation = violation
                result.trace = [*_trace(world, order, parent, via, at), action]
                result.states, result.edges = len(order), len(sources)
                return result
            after = world.snapshot()
            target = index.get(after)
            if target is None:
                target = index[after] = len(order)
                order.append(after)
                parent.append(at)
                via.append(number)
            sources.append(at)
            targets.append(target)
        at += 1
    result.states, result.edges, result.complete = len(order), len(sources), at == len(order)
    if result.complete:
        _check_ends(world, result, order, parent, via, sources, targets, ends)
    return result


def _check_ends(
    world: World, result: Result, order: list[Hashable], parent: array[int], via: array[int], sources: array[int],
    targets: array[int], ends: list[int],
) -> None:  # fmt: skip
    """Walk backwards from the good ends; the first state that is not met has none."""
    incoming: list[list[int]] = [[] for _ in order]
    for source, target in zip(sources, targets, strict=True):
        incoming[target].append(source)
    good = bytearray(len(order))
    todo = list(ends)
    for end in ends:
        good[end] = 1
    while todo:
        for source in incoming[todo.pop()]:
            if not good[source]:
                good[source] = 1
                todo.append(source)
    if (stuck := good.find(0)) >= 0:
        result.violation = Violation(
            "EveryRoomEnds", "from here no end is reached with every lease back and every table empty"
        )
        result.trace = _trace(world, order, parent, via, stuck)


def _trace(world: World, order: list[Hashable], parent: array[int], via: array[int], at: int) -> list[Hashable]:
    steps: list[Hashable] = []
    while parent[at] >= 0:
        world.restore(order[parent[at]])
        steps.append(world.actions()[via[at]])
        at = parent[at]
    return steps[::-1]
