"""The explorer itself, on worlds small enough to see through."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest

from kvpoll.model_tests.explorer import Progress, Violation, explore


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
    assert (result.broken, result.trace, result.doomed) == ("EveryRoomEnds", [2, 3], 1)


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


class Forgetful(Walk):
    """It notes the odd numbers that it sees, and raises at 8."""

    def __init__(self, edges: dict[int, tuple[int, ...]], good: set[int]) -> None:
        super().__init__(edges, good)
        self.seen: set[str] = set()

    def do(self, action: Hashable) -> None:
        super().do(action)
        if self.at % 2:
            self.seen.add(f"odd {self.at}")
        if self.at == 8:
            raise KeyError("eight")


def test_what_an_action_raises_is_a_finding_with_its_trace() -> None:
    result = explore(Forgetful({0: (2,), 2: (8,)}, good={8}))
    assert (result.broken, result.trace) == ("TotalHandlers", [2, 8])
    assert "KeyError: 'eight'" in str(result.violation)


def test_situations_are_kept_with_the_shortest_way_to_each() -> None:
    result = explore(Forgetful({0: (2, 4), 2: (4,), 4: (5,), 5: (7,)}, good={7}))
    assert result.marks == {"odd 5": [4, 5], "odd 7": [4, 5, 7]}


def test_a_hang_is_told_to_where_all_stays_as_it_is() -> None:
    result = explore(Walk({0: (1, 2), 2: (3, 5), 3: (4,), 5: (3,)}, good={1}))
    assert (result.trace, result.doomed) == ([2, 3, 4], 1)


def test_a_hang_that_goes_round_is_told_to_the_circle() -> None:
    result = explore(Walk({0: (1, 2), 2: (3,), 3: (4,), 4: (3,)}, good={1}))
    assert result.trace[: result.doomed] == [2]
    assert result.trace[-1] in (3, 4)


class Named(Walk):
    def lacks(self) -> list[Violation]:
        return [Violation("Left", f"{self.at} is left"), Violation("Right", "and so is this")]


def test_a_world_names_what_is_broken_where_it_stays() -> None:
    result = explore(Named({0: (1, 2), 2: (3,)}, good={1}))
    assert result.broken == "Left"
    assert "3 is left; nor does Right hold here" in str(result.violation)


LINE = {n: (n + 1,) for n in range(5000)}


def test_progress_is_told_and_grows() -> None:
    seen: list[Progress] = []
    assert explore(Walk(LINE, good={5000}), progress=seen.append).proved
    assert len(seen) > 3
    assert [p.states for p in seen] == sorted({p.states for p in seen})
    assert all(p.frontier == 1 for p in seen)


def test_a_search_that_is_told_to_stop_says_what_it_saw_and_proves_nothing() -> None:
    asked: list[int] = []
    result = explore(Walk(LINE, good={5000}), stop=lambda: len(asked) > 2 or asked.append(1) is not None)
    assert (result.complete, result.proved, result.stopped, result.violation) == (False, False, "asked to", None)
    assert 1000 < result.states < 5000
    assert result.frontier == 1


class Interrupted(Walk):
    def do(self, action: Hashable) -> None:
        if action == 1000:
            raise KeyboardInterrupt
        super().do(action)


def test_an_interrupted_search_returns_what_it_saw() -> None:
    result = explore(Interrupted(LINE, good={5000}))
    assert (result.complete, result.stopped, result.states) == (False, "interrupted", 1000)


def test_a_limit_is_named_and_the_frontier_counted() -> None:
    result = explore(Walk({0: (1, 2, 3), 1: (4,), 4: (5,)}, good={5}), limit=3)
    assert (result.stopped, result.states, result.frontier) == ("limit", 4, 3)
