"""One declared world in two checkers that share no code: our explorer over the interpreter, and Spin over the export.

They agree when both proved it, with equal numbers of states and of edges, and when equal sets of control pairs (a state of
the sender with one of the receiver) are reachable.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvpoll.model_tests.explorer import Result, explore

from .run import Running
from .spin import Limits, SpinResult, SpinVerdict, run_spin
from .world import DeclaredWorld

__all__ = ["Agreement", "Pairs", "compare", "explored"]


class Pairs(Running):
    """A world that remembers the control pairs of the states that the explorer visits."""

    def __init__(self, world: DeclaredWorld) -> None:
        super().__init__(world)
        self.pairs: set[tuple[int, int]] = set()
        self._of_state = [
            {state: number for number, state in enumerate(world.by_name[name].table.states)} for name in world.control
        ]

    def ended(self) -> bool:
        """Asked once for each state."""
        first, second = (numbers[state] for numbers, state in zip(self._of_state, self.control(), strict=True))
        self.pairs.add((first, second))
        return super().ended()


@dataclass(frozen=True)
class Agreement:
    """What both say about one world."""

    world: DeclaredWorld
    ours: Result
    pairs: frozenset[tuple[int, int]]
    spin: SpinResult

    @property
    def differences(self) -> tuple[str, ...]:
        """Empty when both proved it and agree in everything."""
        ours, spin, found = self.ours, self.spin, []
        if not ours.proved:
            found.append(f"the explorer: {ours.violation or 'not everything was searched'}")
        if spin.verdict is not SpinVerdict.PROVED:
            found.append(f"Spin: {spin.verdict.value} {spin.broken or spin.why}")
        if not found:
            if (ours.states, ours.edges) != (spin.states, spin.edges):
                found.append(f"{ours.states} states and {ours.edges} edges, Spin {spin.states} and {spin.edges}")
            if not spin.exact:
                found.append("Spin has rounded its numbers")
            for pair in sorted(self.pairs ^ spin.pairs):
                found.append(
                    f"the pair {self.name_of(pair)} is reached by {'us' if pair in self.pairs else 'Spin'} only"
                )
        return tuple(found)

    def name_of(self, pair: tuple[int, int]) -> str:
        names = (
            list(self.world.by_name[name].table.states)[at].name
            for name, at in zip(self.world.control, pair, strict=True)
        )
        return " ".join(names)


def explored(world: DeclaredWorld, limit: int = 2_000_000) -> tuple[Result, frozenset[tuple[int, int]]]:
    """Our own result, and the control pairs that were reached."""
    running = Pairs(world)
    result = explore(running, limit)
    return result, frozenset(running.pairs)


def compare(world: DeclaredWorld, limits: Limits = Limits()) -> Agreement:  # noqa: B008 - frozen
    """Check a world twice. Raises as :func:`.spin.run_spin` does."""
    ours, pairs = explored(world)
    return Agreement(world, ours, pairs, run_spin(world, limits))
