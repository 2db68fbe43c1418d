"""The explorer itself, on worlds small enough to see through."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest

from kvpoll.model_tests.explorer import Violation, explore


class Walk:
    """A number that walks along edges; ``bad`` is forbidden, ``good`` are the ends. An edge is fair unless marked."""

    def __init__(
        self,
        edges: dict[int, tuple[int, ...]],
        good: set[int],
        bad: int = -1,
        unfair: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.edges, self.good, self.bad, self.unfair = edges, good, bad, unfair
        self.at = self.at_before = 0

    def actions(self) -> Sequence[Hashable]:
        return self.edges.get(self.at, ())

    def fair(self, action: Hashable) -> bool:
        return (self.at_before, action) not in self.unfair

    def do(self, action: Hashable) -> None:
        assert isinstance(action, int)
        if action == self.bad:
            raise Violation("NotThere", f"{action} was reached")
        self.at_before, self.at = self.at, action

    def snapshot(self) -> Hashable:
        return self.at

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, int)
        self.at = snapshot

    def ended(self) -> bool:
        return self.at in self.good

    def outcome(self) -> str:
        return f"end {self.at}"


def test_everything_is_seen_once_and_every_end_is_named() -> None:
    result = explore(Walk({0: (1, 2), 1: (3,), 2: (3, 4)}, good={3, 4}))
    assert (result.states, result.edges, result.proved) == (5, 5, True)
    assert dict(result.outcomes) == {"end 3": 1, "end 4": 1}


def test_the_trace_to_a_violation_is_the_shortest_one() -> None:
    result = explore(Walk({0: (1, 5), 1: (2,), 2: (9,), 5: (9,)}, good={2}, bad=9))
    assert (result.broken, result.trace, result.proved) == ("NotThere", [5, 9], False)


def test_a_state_without_an_end_is_found_with_the_way_to_it() -> None:
    result = explore(Walk({0: (1, 2), 2: (3,)}, good={1}))
    assert (result.broken, result.trace) == ("EveryRoomEnds", [2])


def test_a_loop_that_can_be_left_is_no_hang() -> None:
    assert explore(Walk({0: (1,), 1: (0, 2)}, good={2})).proved


def test_a_loop_that_cannot_be_left_is_one() -> None:
    assert explore(Walk({0: (1, 3), 1: (2,), 2: (1,)}, good={3})).broken == "EveryRoomEnds"


def test_an_end_that_only_an_unfair_action_reaches_is_no_end() -> None:
    edges = {0: (1, 2), 1: (0,)}
    assert explore(Walk(edges, good={2})).proved
    assert explore(Walk(edges, good={2}, unfair=frozenset({(0, 2)}))).broken == "EveryRoomEnds"


def test_an_incomplete_search_proves_nothing() -> None:
    line = {n: (n + 1,) for n in range(100)}
    result = explore(Walk(line, good={100}), limit=50)
    assert (result.complete, result.proved, result.violation) == (False, False, None)
    assert explore(Walk(line, good={100}), limit=200).proved


def test_a_violation_behind_the_limit_is_not_claimed_to_be_absent() -> None:
    line = {n: (n + 1,) for n in range(100)}
    assert not explore(Walk(line, good={99}, bad=100), limit=10).proved
    assert explore(Walk(line, good={99}, bad=100)).broken == "NotThere"


def test_a_violation_names_its_invariant_and_says_what_happened() -> None:
    with pytest.raises(Violation, match="NotThere: 7 was reached"):
        Walk({0: (7,)}, good=set(), bad=7).do(7)
