"""A breadth-first explorer of worlds: enabled actions, do one, snapshot, restore.

It explores any object that is a :class:`World`. Every reachable state is visited once; an action that breaks an invariant
stops the search with the shortest trace to it. Afterwards the graph is walked backwards from the good ends, along *fair*
actions only: those that happen some time if they can (a message arrives, an operation reports), not those that may never
come (a fault, a call of the engine). A state from which no good end is met that way is a hang or a leak (EveryRoomEnds,
EventuallyReleased, IdleEmpty).

An incomplete search proves nothing: :attr:`Result.proved` is false for it, whatever it saw.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Result", "Violation", "World", "explore"]

#: The name of what a state without a way to a good end violates.
HANG = "EveryRoomEnds"


class Violation(Exception):
    """An invariant, by name, does not hold."""

    def __init__(self, invariant: str, sentence: str) -> None:
        super().__init__(f"{invariant}: {sentence}")
        self.invariant = invariant


class World(Protocol):
    """What can be explored. ``do`` changes it, ``restore`` takes it back; ``do`` may raise :class:`Violation`."""

    def actions(self) -> Sequence[Hashable]:
        """What can happen next, in a fixed order."""

    def fair(self, action: Hashable) -> bool:
        """Does this action happen some time, if it can happen again and again?"""

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
    outcomes: Counter[str] = field(default_factory=Counter)  #: good ends, by name
    violation: Violation | None = None
    trace: list[Hashable] = field(default_factory=list)  #: shortest way to the violation, or to a state without an end

    @property
    def proved(self) -> bool:
        """Everything was seen, and nothing was wrong with it."""
        return self.complete and self.violation is None

    @property
    def broken(self) -> str:
        """The name of the invariant that does not hold; empty when none was found to."""
        return "" if self.violation is None else self.violation.invariant


class _Graph:
    """The states in order of discovery, how each was reached first, and every fair edge."""

    def __init__(self, start: Hashable) -> None:
        self.index: dict[Hashable, int] = {start: 0}
        self.order: list[Hashable] = [start]
        self.parent, self.via = array("l", [-1]), array("l", [-1])
        self.sources, self.targets = array("l"), array("l")
        self.ends: list[int] = []

    def meet(self, state: Hashable, parent: int, via: int) -> int:
        """The number of a state; its first parent is the nearest one to the start."""
        number = self.index.setdefault(state, len(self.order))
        if number == len(self.order):
            self.order.append(state)
            self.parent.append(parent)
            self.via.append(via)
        return number

    def trace(self, world: World, at: int) -> list[Hashable]:
        steps: list[Hashable] = []
        while self.parent[at] >= 0:
            world.restore(self.order[self.parent[at]])
            steps.append(world.actions()[self.via[at]])
            at = self.parent[at]
        return steps[::-1]

    def stuck(self) -> int:
        """The first state from which no good end is reached along fair edges; -1 when there is none."""
        incoming: dict[int, list[int]] = {}
        for source, target in zip(self.sources, self.targets, strict=True):
            incoming.setdefault(target, []).append(source)
        good = bytearray(len(self.order))
        todo = list(self.ends)
        for end in todo:
            good[end] = 1
        while todo:
            for source in incoming.get(todo.pop(), ()):
                if not good[source]:
                    good[source] = 1
                    todo.append(source)
        return good.find(0)


def explore(world: World, limit: int = 2_000_000) -> Result:
    """Search everything that ``world`` can do, up to ``limit`` states."""
    graph, result, at = _Graph(world.snapshot()), Result(), 0
    while at < len(graph.order) and len(graph.order) <= limit:
        snapshot = graph.order[at]
        world.restore(snapshot)
        if world.ended():
            graph.ends.append(at)
            result.outcomes[world.outcome()] += 1
        for number, action in enumerate(world.actions()):
            world.restore(snapshot)
            try:
                world.do(action)
            except Violation as violation:
                result.violation, result.states = violation, len(graph.order)
                result.trace = [*graph.trace(world, at), action]
                return result
            target = graph.meet(world.snapshot(), at, number)
            result.edges += 1
            if target != at and world.fair(action):
                graph.sources.append(at)
                graph.targets.append(target)
        at += 1
    result.states, result.complete = len(graph.order), at == len(graph.order)
    if result.complete and (stuck := graph.stuck()) >= 0:
        result.violation = Violation(HANG, "from here no end is sure: a room, a lease or a table entry stays for ever")
        result.trace = graph.trace(world, stuck)
    return result
