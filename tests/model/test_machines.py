"""The Hypothesis machines: they run, they succeed often enough to show something, and what they watch is watched."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kvpoll.model_tests.machines import DEEP, QUICK, run_rooms
from kvpoll.model_tests.machines.damage import corpus, decoded, edits, forge, hear, spliced
from kvpoll.model_tests.machines.plans import MISTAKES, PlanCase, cases, expected, verdict

_FEW = settings(QUICK, max_examples=25)
_SIDES = st.tuples(st.integers(0, 3), st.booleans())
_FIELDS = (
    "link",
    "source",
    "target",
    "source_rank",
    "room",
    "engine",
    "gen",
    "parts",
    "total",
    "facts",
    "meta",
    "failed",
    "fingerprint",
)


def test_only_the_machines_need_hypothesis() -> None:
    """So that the simulation runs where the test extra is not installed."""
    root = Path(__file__).parents[2]
    users = {
        p.relative_to(root).parent.as_posix()
        for room in ("spec", "protocol", "runtime", "model_tests", "kvpoll/cli")
        for p in (root / room).rglob("*.py")
        if re.search(r"^\s*(import|from) hypothesis", p.read_text("utf-8"), re.MULTILINE)
    }
    assert users == {"model_tests/machines"}


def test_rooms_survive_whatever_is_drawn_and_many_succeed() -> None:
    tally = run_rooms(QUICK)
    assert tally.runs >= QUICK.max_examples
    assert tally.successes > tally.runs // 3
    assert len(tally.causes) > 8, tally.causes
    assert set(tally.faults) >= {"messages", "operations", "aborts", "clocks", "crashes", "lost", "repeats"}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_receiver_judges_any_plan_as_counting_does(mistake: str) -> None:
    seen: Counter[str] = Counter()

    @settings(QUICK, max_examples=30)
    @given(case=cases(mistake))
    def compare(case: PlanCase) -> None:
        want = expected(case)
        seen[want] += 1
        assert verdict(case) == want

    compare()
    assert seen["ready"] if not mistake else sum(seen.values()) > seen["ready"], seen


@settings(_FEW)
@given(side=_SIDES, which=st.integers(0, 1 << 16), changes=edits)
def test_damaged_bytes_are_refused_or_harm_no_other_room(
    side: tuple[int, bool], which: int, changes: list[tuple[str, int, int]]
) -> None:
    at = corpus(*side)
    message = decoded(spliced(at.frames[which % len(at.frames)], changes))
    event("refused" if message is None else hear(at, message))


@settings(_FEW)
@given(
    side=_SIDES,
    which=st.tuples(st.integers(0, 1 << 16), st.integers(0, 1 << 16)),
    fields=st.lists(st.sampled_from(_FIELDS)),
)
def test_a_message_put_together_from_two_harms_no_room_that_it_does_not_name(
    side: tuple[int, bool], which: tuple[int, int], fields: list[str]
) -> None:
    at = corpus(*side)
    one, other = (decoded(at.frames[n % len(at.frames)]) for n in which)
    assert one is not None
    assert other is not None
    event(hear(at, forge(one, other, fields)))


# -- deep ------------------------------------------------------------------------------------------------------------------------
@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_rooms_survive_much_more_of_what_is_drawn() -> None:
    tally = run_rooms(DEEP)
    assert tally.successes > tally.runs
    assert {"prefill PEER_LOST in doubt", "decode GATE_TIMEOUT", "prefill TRANSPORT_UNRESOLVED"} <= set(tally.causes)


@pytest.mark.deep
@pytest.mark.timeout(900)
@settings(DEEP, max_examples=8_000)
@given(mistake=st.sampled_from(MISTAKES), data=st.data())
def test_a_receiver_judges_many_more_plans_as_counting_does(mistake: str, data: st.DataObject) -> None:
    case = data.draw(cases(mistake))
    assert verdict(case) == expected(case)


@pytest.mark.deep
@pytest.mark.timeout(900)
@settings(DEEP, max_examples=8_000)
@given(
    side=st.tuples(st.integers(0, 40), st.booleans()),
    which=st.tuples(st.integers(0, 1 << 16), st.integers(0, 1 << 16)),
    changes=edits,
    fields=st.lists(st.sampled_from(_FIELDS)),
    forged=st.booleans(),
)
def test_many_more_damaged_and_forged_messages_harm_no_other_room(
    side: tuple[int, bool], which: tuple[int, int], changes: list[tuple[str, int, int]], fields: list[str], forged: bool
) -> None:
    at = corpus(*side)
    one, other = (at.frames[n % len(at.frames)] for n in which)
    message = decoded(spliced(one, changes))
    if forged:
        first, second = decoded(one), decoded(other)
        assert first is not None
        assert second is not None
        message = forge(first, second, fields)
    event("refused" if message is None else hear(at, message))
