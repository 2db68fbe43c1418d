"""The clocks of a process, in real time: what is due next.

A clock that is re-armed for later leaves its old entry in the heap; found early, the entry is put back. So each clock has
one entry, however often a message re-arms it, and arming costs nothing but a look-up. A clock that is disarmed leaves
its entry too; when entries have doubled, those are swept out, so that there are never more than live clocks twice over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["Clocks"]

Name = TypeVar("Name")
#: Fewer entries are not worth sweeping.
_SMALL = 64


class Clocks(Generic[Name]):
    """``due_of(name)`` says when a clock is really due; ``None``: it was disarmed."""

    __slots__ = ("_armed", "_due_of", "_heap", "_sweep_at", "_ticket")

    def __init__(self, due_of: Callable[[Name], int | None]) -> None:
        self._heap: list[tuple[int, int, Name]] = []
        self._armed: dict[Name, int] = {}
        self._due_of = due_of
        self._ticket = 0
        self._sweep_at = _SMALL

    def arm(self, name: Name, due: int) -> None:
        """A clock is due at ``due`` (ms), unless it is disarmed or re-armed before."""
        known = self._armed.get(name)
        if known is None or due < known:
            self._armed[name] = due
            self._ticket += 1
            heapq.heappush(self._heap, (due, self._ticket, name))

    def expired(self, now: int) -> Iterator[Name]:
        """Every clock that is due, each taken out before it is yielded."""
        if len(self._heap) > self._sweep_at:
            self._sweep()
        while self._heap and self._heap[0][0] <= now:
            entry, _, name = heapq.heappop(self._heap)
            if self._armed.get(name) != entry:
                continue  # it was armed for sooner since, and that entry has been seen
            del self._armed[name]
            due = self._due_of(name)
            if due is None:
                continue
            if due > now:
                self.arm(name, due)
            else:
                yield name

    def _sweep(self) -> None:
        # Never while a clock is armed: its owner may not say yet when it is due.
        dues = {name: self._due_of(name) for name in self._armed}
        self._armed = {name: due for name, due in dues.items() if due is not None}
        self._heap = [(due, i, name) for i, (name, due) in enumerate(self._armed.items(), self._ticket + 1)]
        self._ticket += len(self._heap)
        heapq.heapify(self._heap)
        self._sweep_at = max(_SMALL, 2 * len(self._heap))

    def next(self) -> int | None:
        """When to look again."""
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._armed)
