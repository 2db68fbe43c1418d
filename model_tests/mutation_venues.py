"""Where a mutant is tried: one world, searched once with the tables as they are, and again for each mutant."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from .explorer import RAISED, Result, Violation, explore
from .machine_worlds import MACHINE_WORLDS, Alone
from .mutants import MUTATED, Mutant, mutated
from .mutation_worlds import MutationWorld
from .replay import Again, Fired, Recording
from .setting import faults_of
from .tables import RULES, instead, nodes_of

__all__ = ["LIMIT", "MachineVenue", "PairVenue", "Trial", "Venue"]

#: States of a world with the right tables. A wrong one may have GROWTH times as many.
LIMIT, GROWTH, MORE = 80_000, 3, 2_000
#: What comes out of a core that is broken; anything else is an error of ours.
_BROKEN = (AssertionError, LookupError, ValueError, TypeError, AttributeError)


@dataclass(frozen=True)
class Trial:
    """What a world saw of a mutant."""

    violation: Violation | None = None
    trace: list[str] = field(default_factory=list)
    how: str = ""  #: not violated: how it does the same as the right table; empty: it does not
    states: int = 0
    complete: bool = True
    ends: str = ""  #: not violated: which ends it has more, or has not


class Venue(Protocol):
    """One world. ``fired``: the rows that fire in it."""

    name: str
    faults: str
    states: int
    edges: int
    fired: frozenset[Fired]

    def attempt(self, mutant: Mutant) -> Trial | None:
        """Explore it with a mutant; ``None``: this world says nothing about such a mutant."""


class PairVenue:
    """A world of whole processes. Raises ``ValueError`` when it does not hold with the tables as they are."""

    def __init__(self, world: MutationWorld) -> None:
        self.name, self.faults = world.name, faults_of(world.setting, world.budget)
        try:
            self.first = Recording(world, LIMIT)
        except Violation as violation:
            raise ValueError(f"{self.name} must hold with the tables as they are: {violation}") from None
        self.states, self.edges, self.fired = len(self.first.order), self.first.edges, self.first.fired
        with self.first.plain() as again:
            _hold(self.name, again)

    def attempt(self, mutant: Mutant) -> Trial | None:
        try:
            with self.first.follow(mutated(mutant), rows_of(mutant)) as again:
                if again is None:
                    return Trial(how="the same steps", states=self.states)
                return self._search(again)
        except Violation as violation:
            return Trial(violation)  # while the world was set up
        except _BROKEN as error:
            return Trial(Violation(RAISED, f"{type(error).__name__}: {error}"))

    def _search(self, again: Again) -> Trial:
        result = _explore(again, GROWTH * self.states + MORE)
        if result.violation is not None:
            return Trial(result.violation, again.tell(result.trace))
        if not result.complete:
            return Trial(states=result.states, complete=False)
        ends = _ends(set(self.first.ends.values()), set(result.outcomes))
        return Trial(how=again.does_the_same(), states=result.states, ends=ends)


#: A whole graph: what can be seen in each state, whether it is a good end, and where each action leads.
_Graph: TypeAlias = tuple[Hashable, Mapping[Hashable, tuple[Hashable, bool, Mapping[Hashable, Hashable]]]]


class MachineVenue:
    """A world of one machine alone."""

    def __init__(self, name: str) -> None:
        self.name, self.faults = name, "none: whatever can happen to it does"
        self.table, self.make, self.terminal = MACHINE_WORLDS[name]
        with instead(MUTATED[self.table]):  # forget what other searches looked up
            result = _hold(name, self.make())
            self.states, self.edges = result
            rows = MUTATED[self.table].rows
            looked = {id(edge.row) for node in nodes_of(RULES[self.table]) for edge in node.edges.values()}
            self.fired = frozenset((self.table, number) for number, row in enumerate(rows) if id(row) in looked)
            self.graph = None if self.terminal else _graph_of(self.make())

    def attempt(self, mutant: Mutant) -> Trial | None:
        table = MUTATED[self.table]
        if self.terminal and table.rows[mutant.row].state not in table.terminal:
            return None  # a wall says nothing about rooms that are not over
        with instead(mutated(mutant)):
            world = self.make()
            result = _explore(world, GROWTH * self.states + MORE)
            if result.violation is not None:
                return Trial(result.violation, world.tell(result.trace), states=result.states)
            if self.graph is None:
                return None
            how = _alike(self.graph, _graph_of(self.make()))
            return Trial(how=how, states=result.states, complete=result.complete)


def rows_of(mutant: Mutant) -> frozenset[Fired]:
    """The rows that it changes."""
    return frozenset((mutant.table, number) for number, _ in mutant.rows)


def _hold(name: str, world: Again | Alone) -> tuple[int, int]:
    """States and edges of a world in which everything holds."""
    result = _explore(world, LIMIT)
    if not result.proved:
        raise ValueError(f"{name} must hold with the tables as they are: {result.violation or result.stopped}")
    return result.states, result.edges


def _explore(world: Again | Alone, limit: int) -> Result:
    """The explorer ends on Ctrl-C and tells what it has; here that ends everything."""
    result = explore(world, limit)
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    return result


def _ends(wanted: set[str], found: set[str]) -> str:
    said = (("never ends in", sorted(wanted - found)), ("ends in", sorted(found - wanted)))
    return "; ".join(f"{what} {', '.join(each)}" for what, each in said if each)


def _graph_of(world: Alone) -> _Graph:
    start = world.snapshot()
    graph: dict[Hashable, tuple[Hashable, bool, Mapping[Hashable, Hashable]]] = {}
    todo = [start]
    for state in todo:
        if state in graph:
            continue
        world.restore(state)
        seen, ended, out = world.seen_from_outside(), world.ended(), {}
        for action in world.actions():
            world.restore(state)
            world.do(action)
            out[action] = world.snapshot()
        graph[state] = seen, ended, out
        todo += out.values()
    return start, graph


def _alike(one: _Graph, two: _Graph) -> str:
    """As :meth:`.replay.Again.does_the_same`, of two graphs that are there."""
    (a, first), (b, second) = one, two
    pairs, todo = {(a, b)}, [(a, b)]
    for a, b in todo:
        (seen, ended, out), (seen2, ended2, out2) = first[a], second[b]
        if (seen, ended, list(out)) != (seen2, ended2, list(out2)):
            return ""
        fresh = [pair for pair in zip(out.values(), out2.values(), strict=True) if pair not in pairs]
        pairs.update(fresh)
        todo += fresh
    whole = len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    return "the same graph" if whole else "states that cannot be told apart"
