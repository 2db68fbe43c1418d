"""How fast the explorer is over the production interpreter's objects: against a tuple model of the same world, by hand.

All count the same states and edges, or the benchmark breaks. The model by hand is searched in ten lines that keep nothing;
the explorer also keeps the way to every state and every fair edge, and looks for states from which no end is sure. So the
same model inside the explorer stands beside it, and Spin, where it is installed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from time import process_time

from kvpoll.model_tests.declared.catalogue import pair
from kvpoll.model_tests.declared.run import Running
from kvpoll.model_tests.declared.shape import Shape
from kvpoll.model_tests.declared.spin import Limits, missing_tools, run_spin
from kvpoll.model_tests.explorer import World, explore
from kvpoll.model_tests.network import Network

from . import explore_by_hand as by_hand
from .result import Bare, Result

__all__ = ["WORLD", "run"]

#: Mark: of the edges a second that the model by hand makes.
MARK = 0.5
#: What :mod:`.explore_by_hand` models.
WORLD = pair(
    "by-hand",
    "Parts are pushed; messages overtake each other, and one is lost.",
    Shape(True, by_hand.PARTS, Network.REORDERING | Network.LOSSY, losses=1),
)


def run(quick: bool = False) -> list[Result]:
    """Some twenty seconds, a few when ``quick`` (one round, no Spin). Raises ``RuntimeError`` where the counts differ."""
    seconds: dict[str, list[float]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for _ in range(1 if quick else 7):
        ours = Running(WORLD)  # made anew, so that nothing is remembered from another round
        searches: dict[str, Callable[[], tuple[int, int]]] = {
            "hand": by_hand.search, "ours": partial(_explored, ours), "held": partial(_explored, _ByHand()),
        }  # fmt: skip
        for name, search in searches.items():
            seconds.setdefault(name, []).append(_timed(search, name, counts))
    spin: tuple[Bare, ...] = ()
    if not quick and not missing_tools():
        found = run_spin(WORLD, Limits(optimise=True))
        counts["spin"] = found.states, found.edges
        spin = Bare("Spin", found.edges / found.search_s, "edges/s"), Bare("built in", found.build_s, "s")
    if len(set(counts.values())) != 1:
        raise RuntimeError(f"states and edges: expected equal ones, got {counts}")
    states, edges = counts["ours"]
    best = {name: edges / min(times) for name, times in seconds.items()}
    return [
        Result(
            "edges over objects / by hand", best["ours"] / best["hand"], MARK, True, says="best over rounds, in turns",
            bare=(
                Bare("ours", best["ours"], "edges/s"), Bare("by hand", best["hand"], "edges/s"), *spin,
                Bare("states", states, "states"), Bare("edges", edges, "edges"),
            ),
        ),
        Result(
            "the same, by hand inside the explorer", best["ours"] / best["held"],
            bare=(Bare("by hand inside", best["held"], "edges/s"),),
        ),
    ]  # fmt: skip


def _timed(search: Callable[[], tuple[int, int]], name: str, counts: dict[str, tuple[int, int]]) -> float:
    gc.collect()
    gc.disable()
    try:
        began = process_time()
        counts[name] = search()
        return process_time() - began
    finally:
        gc.enable()


def _explored(world: World) -> tuple[int, int]:
    result = explore(world)
    if not result.proved:
        raise RuntimeError(f"the world of the benchmark: expected a proof, got {result.violation}")
    return result.states, result.edges


class _ByHand:
    """The model by hand as a world: an action is the state that it leads to."""

    def __init__(self) -> None:
        self.now: Hashable = by_hand.START

    def actions(self) -> Sequence[Hashable]:
        return by_hand.successors(self.now)  # type: ignore[arg-type]

    def fair(self, action: Hashable) -> bool:
        return True

    def do(self, action: Hashable) -> None:
        self.now = action

    def snapshot(self) -> Hashable:
        return self.now

    def restore(self, snapshot: Hashable) -> None:
        self.now = snapshot

    def ended(self) -> bool:
        return by_hand.over(self.now)  # type: ignore[arg-type]

    def outcome(self) -> str:
        return "over"
