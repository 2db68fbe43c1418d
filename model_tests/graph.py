"""The graph that a search has seen: states by number, how each was met first, the fair edges, and who dooms whom."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable

import numpy as np

__all__ = ["Graph"]


class Graph:
    """States are numbered in order of discovery; 0 is the start."""

    def __init__(self, start: Hashable) -> None:
        self.index: dict[Hashable, int] = {start: 0}
        self.order: list[Hashable] = [start]
        #: How each state was met first: from which state, by which of its actions.
        self.parent, self.via = array("l", [-1]), array("l", [-1])
        #: The fair edges, without loops at one state.
        self.sources, self.targets = array("l"), array("l")
        self.ends: list[int] = []
        self.searched = 0  #: states whose actions were all done

    def meet(self, state: Hashable, parent: int, via: int) -> int:
        """The number of a state; its first parent is the nearest one to the start."""
        number = self.index.setdefault(state, len(self.order))
        if number == len(self.order):
            self.order.append(state)
            self.parent.append(parent)
            self.via.append(via)
        return number

    def way(self, at: int) -> list[tuple[int, int]]:
        """The shortest way from the start to a state: from which state, by which of its actions."""
        steps = []
        while self.parent[at] >= 0:
            steps.append((self.parent[at], self.via[at]))
            at = self.parent[at]
        return steps[::-1]

    def doomed(self) -> int:
        """The first state from which no good end is reached along fair edges; -1 when there is none."""
        good = np.zeros(len(self.order), dtype=bool)
        good[self.ends] = True
        sources, targets = (np.frombuffer(edges, dtype=np.dtype("l")) for edges in (self.sources, self.targets))
        while len(sources):  # all edges at once, as often as the longest way to an end
            found = good[targets]
            if not found.any():
                break
            good[sources[found]] = True
            sources, targets = sources[~found], targets[~found]
        bad = np.flatnonzero(~good)
        return int(bad[0]) if len(bad) else -1

    def settle(self, doomed: int) -> list[int]:
        """The states from a doomed one along fair edges to one where all stays as it is, or goes round for ever."""
        onward, backward = _edges(self.sources, self.targets), _edges(self.targets, self.sources)
        at, ahead = doomed, _reached([doomed], onward)
        dead = next((number for number in ahead if number not in onward), None)
        while dead is None:  # no dead end: go on to a circle that cannot be left
            behind = _reached([at], backward)
            out = next((number for number in ahead if number not in behind), None)
            if out is None:
                dead = at
            else:
                at, ahead = out, _reached([out], onward)
        steps, came = [dead], _reached([doomed], onward)
        while steps[-1] != doomed:
            steps.append(came[steps[-1]])
        return steps[::-1]


def _edges(sources: Iterable[int], targets: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for source, target in zip(sources, targets, strict=True):
        found.setdefault(source, []).append(target)
    return found


def _reached(starts: Iterable[int], edges: dict[int, list[int]]) -> dict[int, int]:
    """Everything that is reached, nearest first, each with the number that it was reached from."""
    came = {start: start for start in starts}
    todo = list(came)
    for number in todo:
        for other in edges.get(number, ()):
            if other not in came:
                came[other] = number
                todo.append(other)
    return came
