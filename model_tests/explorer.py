"""A breadth-first explorer of worlds: enabled actions, do one, snapshot, restore. Its guide is ``docs/explorer.md``.

It explores any object that is a :class:`World`. Every reachable state is visited once; an action that breaks an invariant,
or raises what nobody expected, stops the search with the shortest trace to it. Afterwards the graph is walked backwards from
the good ends, along *fair* actions only: those that happen some time if they can (a message arrives, an operation reports),
not those that may never come (a fault, a call of the engine). A state from which no good end is met that way is a hang or a
leak; the world may say which, see :class:`Lacking`.

An incomplete search proves nothing: :attr:`Result.proved` is false for it, whatever it saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

from .graph import Graph

__all__ = [
    "HANG",
    "RAISED",
    "Lacking",
    "Marked",
    "Progress",
    "Result",
    "Violation",
    "World",
    "explore",
    "stays",
    "step",
]

#: What a state without a way to a good end violates, where the world has no better name for it.
HANG = "EveryRoomEnds"
#: What an action violates that raises anything but a :class:`Violation`.
RAISED = "TotalHandlers"
#: States between two looks at the clock, the callbacks and the keyboard.
STRIDE = 512


class Violation(Exception):
    """An invariant, by name, does not hold."""

    def __init__(self, invariant: str, sentence: str) -> None:
        super().__init__(f"{invariant}: {sentence}")
        self.invariant = invariant
        self.sentence = sentence


class World(Protocol):
    """What can be explored. ``do`` changes it, ``restore`` takes it back; ``do`` may raise :class:`Violation`."""

    def actions(self) -> Sequence[Hashable]:
        """What can happen next, in a fixed order."""

    def fair(self, action: Hashable) -> bool:
        """Does this action happen some time, if it can happen again and again? Asked right after it was done."""

    def do(self, action: Hashable) -> None: ...

    def snapshot(self) -> Hashable:
        """Everything that the future depends on, canonical."""

    def restore(self, snapshot: Hashable) -> None: ...

    def ended(self) -> bool:
        """Is this a good end: nothing held, nothing in flight, every table empty?"""

    def outcome(self) -> str:
        """The name of an end, so that a proof can be shown not to be vacuous."""


@runtime_checkable
class Marked(Protocol):
    """A world that notes situations as it meets them: ``sometimes`` properties. The set only grows, whatever is restored."""

    @property
    def seen(self) -> set[str]: ...


@runtime_checkable
class Lacking(Protocol):
    """A world that knows which invariant a state violates in which everything stays as it is."""

    def lacks(self) -> Sequence[Violation]:
        """What a good end has and this state has not, the most telling first; none: it has no name."""


class Progress(NamedTuple):
    """How far a search is."""

    states: int  #: that were seen
    edges: int
    frontier: int  #: states that were seen and not searched yet


@dataclass
class Result:
    """What a search found."""

    states: int = 0
    edges: int = 0
    complete: bool = False
    frontier: int = 0  #: states that were seen and not searched: 0 when complete
    stopped: str = ""  #: why it is not complete: "limit", "interrupted", "asked to"; empty when a violation ended it
    outcomes: Counter[str] = field(default_factory=Counter)  #: good ends, by name
    marks: dict[str, list[Hashable]] = field(default_factory=dict)  #: what the world noted, with the shortest way to it
    start: Hashable = None  #: the snapshot that the traces begin with
    violation: Violation | None = None
    trace: list[Hashable] = field(
        default_factory=list
    )  #: shortest way to the violation, or to where all stays as it is
    doomed: int = -1  #: a hang: after so many actions of the trace no end is sure any more; -1: an action broke it

    @property
    def proved(self) -> bool:
        """Everything was seen, and nothing was wrong with it."""
        return self.complete and self.violation is None

    @property
    def broken(self) -> str:
        """The name of the invariant that does not hold; empty when none was found to."""
        return "" if self.violation is None else self.violation.invariant


def explore(
    world: World,
    limit: int = 2_000_000,
    *,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Result:
    """Search everything that ``world`` can do, up to ``limit`` states.

    ``progress`` and ``stop`` are called every few hundred states; the search ends when ``stop`` says so. It ends on Ctrl-C,
    too; both times it returns what it found so far, incomplete. What ``world.do`` raises is a finding, not an error.
    """
    return _Search(world, limit, progress, stop).run()


class _Search:
    def __init__(
        self, world: World, limit: int, progress: Callable[[Progress], None] | None, stop: Callable[[], bool] | None
    ) -> None:
        self.world, self.limit, self.progress, self.stop = world, limit, progress, stop
        self.graph, self.result = Graph(world.snapshot()), Result(start=world.snapshot())
        self.seen: set[str] = world.seen if isinstance(world, Marked) else set()
        self.noted: dict[str, tuple[int, int]] = {}  #: mark -> the state and the action at which it was met first

    def run(self) -> Result:
        result, graph = self.result, self.graph
        try:
            self._note(0, -1)
            self._walk()
            if result.complete and (doomed := graph.doomed()) >= 0:
                self._tell_hang(doomed)
        except KeyboardInterrupt:
            result.complete, result.stopped = False, "interrupted"
        result.states, result.frontier = len(graph.order), len(graph.order) - graph.searched
        result.marks = {mark: self._trace(*at) for mark, at in self.noted.items()}
        return result

    def _walk(self) -> None:
        world, graph, result, limit, seen, noted = (
            self.world, self.graph, self.result, self.limit, self.seen, self.noted,
        )  # fmt: skip
        order, restore, fair, now, meet = graph.order, world.restore, world.fair, world.snapshot, graph.meet
        source, target_of, marked = graph.sources.append, graph.targets.append, isinstance(world, Marked)
        at = 0
        while at < len(order):
            if len(order) > limit:
                result.stopped = "limit"
                return
            if at % STRIDE == 0 and self._halt(at):
                result.stopped = "asked to"
                return
            snapshot = order[at]
            restore(snapshot)
            if world.ended():
                graph.ends.append(at)
                result.outcomes[world.outcome()] += 1
                if len(seen) != len(noted):
                    self._note(at, -1)
            actions = world.actions()
            for number, action in enumerate(actions):
                restore(snapshot)
                try:
                    step(world, action)
                except Violation as violation:
                    result.edges += number
                    result.violation, result.trace = violation, self._trace(at, number)
                    return
                target = meet(now(), at, number)
                if target != at and fair(action):
                    source(at)
                    target_of(target)
                if marked and len(seen) != len(noted):
                    self._note(at, number)
            result.edges += len(actions)
            at += 1
            graph.searched = at
        result.complete = True

    def _halt(self, at: int) -> bool:
        if self.progress is not None:
            self.progress(Progress(len(self.graph.order), self.result.edges, len(self.graph.order) - at))
        return self.stop is not None and self.stop()

    def _note(self, at: int, number: int) -> None:
        for mark in sorted(self.seen - self.noted.keys()):
            self.noted[mark] = (at, number)

    def _trace(self, at: int, number: int) -> list[Hashable]:
        """The shortest way to a state, and one more action of it; -1: none."""
        steps = [*self.graph.way(at), *([(at, number)] if number >= 0 else [])]
        trace = []
        for state, via in steps:
            self.world.restore(self.graph.order[state])
            trace.append(self.world.actions()[via])
        return trace

    def _tell_hang(self, doomed: int) -> None:
        world, graph, result = self.world, self.graph, self.result
        result.trace, path = self._trace(doomed, -1), graph.settle(doomed)
        result.doomed = len(result.trace)
        result.trace += [self._between(a, b) for a, b in pairwise(path)]
        world.restore(graph.order[path[-1]])
        result.violation = stays(world)

    def _between(self, source: int, target: int) -> Hashable:
        """The fair action that leads from one state to the other."""
        world, order = self.world, self.graph.order
        world.restore(order[source])
        for action in world.actions():
            world.restore(order[source])
            world.do(action)
            if world.fair(action) and world.snapshot() == order[target]:
                return action
        raise LookupError("a world that does not do the same twice: no action leads where it led before")


def stays(world: World) -> Violation:
    """What a world violates that stays as it is now."""
    lacks = world.lacks() if isinstance(world, Lacking) else ()
    if not lacks:
        return Violation(HANG, "from here no end is sure: a room, a lease or a table entry stays for ever")
    more = ", ".join(dict.fromkeys(v.invariant for v in lacks if v.invariant != lacks[0].invariant))
    return Violation(lacks[0].invariant, f"{lacks[0].sentence}{f'; nor does {more} hold here' * bool(more)}")


def step(world: World, action: Hashable) -> None:
    """Do an action. Whatever it raises becomes a :class:`Violation`."""
    try:
        world.do(action)
    except (Violation, MemoryError):
        raise
    except Exception as error:
        raise Violation(RAISED, f"{type(error).__name__}: {error}") from error
