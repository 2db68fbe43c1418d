"""The suite holds itself to what it asks of others: nothing unjudged, nothing that depends on chance, no false alarms."""

from __future__ import annotations

from collections import Counter

import pytest

from kvpoll.model_tests.conformance.case import Case
from kvpoll.model_tests.conformance.cases import all_cases, find
from kvpoll.model_tests.conformance.cases.faults import every_two
from kvpoll.model_tests.conformance.cases.paths import read_paths
from kvpoll.model_tests.conformance.driver import Outcome, run_case
from kvpoll.model_tests.conformance.explore import covered, fired_by
from kvpoll.model_tests.conformance.plug import Make
from kvpoll.model_tests.conformance.reference import Reference, make
from kvpoll.model_tests.conformance.result import Verdict
from kvpoll.model_tests.conformance.rows import standings
from kvpoll.model_tests.conformance.run import Runner, run_suite
from kvpoll.model_tests.conformance.step import steps, text_of
from kvpoll.model_tests.conformance.variants import VARIANTS
from kvpoll.spec import TABLES
from kvpoll.spec.requirement import Level
from kvpoll.spec.requirements import REQUIREMENTS, SECTIONS

_FINE = {Verdict.PASS, Verdict.UNSUPPORTED}


def _bad(make: Make, cases: list[Case]) -> list[str]:
    result = run_suite(make, cases, traces=False)
    assert not result.refused
    assert result.counts[Verdict.PASS] > len(cases) // 10
    return [f"{each.id}: {each.reason}" for each in result.cases if each.verdict not in _FINE]


def _some(every: int, start: int = 0) -> list[Case]:
    first, *rest = all_cases()
    return [first, *rest[start::every]]


# -- what there is -----------------------------------------------------------------------------------------------------
def test_there_are_at_least_six_hundred_cases_with_different_ids() -> None:
    ids = [each.id for each in all_cases()]
    assert len(set(ids)) == len(ids) >= 600


def test_every_must_has_a_case_and_so_has_every_other_requirement() -> None:
    judged = {id for each in all_cases() for id in each.requirements}
    must = {id for id, wanted in REQUIREMENTS.items() if wanted.level is Level.MUST}
    assert must <= judged
    assert set(REQUIREMENTS) == judged


@pytest.mark.parametrize("id", REQUIREMENTS)
def test_a_requirement_comes_from_rows_that_there_are(id: str) -> None:
    wanted = REQUIREMENTS[id]
    assert wanted.id == id
    assert wanted.section in SECTIONS
    assert wanted.text.endswith((".", ")"))
    for row in wanted.rows:
        table, state, event = row.split()
        places = {(_short(table, r.state.name), r.event.name) for r in TABLES[table].rows}
        assert (state, event) in places, row


def _short(table: str, state: str) -> str:
    return state[0] if table in ("sender", "receiver") else state.replace(" ", "_").upper()


def test_a_case_says_in_words_what_it_is_read_from() -> None:
    for each in all_cases():
        assert steps(each.lines()) == each.script
        assert [text_of(step) for step in each.script] == each.lines()


def test_prerequisites_come_first() -> None:
    seen: set[str] = set()
    for each in all_cases():
        assert not each.prerequisite or each.prerequisite in seen
        seen.add(each.id)


def test_a_case_is_found_by_its_id_and_others_are_suggested() -> None:
    assert find("handoff/plain/001").prerequisite == ""
    with pytest.raises(KeyError, match="handoff/plain/001"):
        find("handoff/plain/2")


@pytest.mark.parametrize("line", ["jump prefill A", "create", "create left A 2"])
def test_a_line_that_is_no_step_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=r"expected"):
        steps([line])


# -- the reference, and other right engines ----------------------------------------------------------------------------
def test_the_reference_passes_everything() -> None:
    assert _bad(make, list(all_cases())) == []


@pytest.mark.parametrize("name", VARIANTS)
def test_an_engine_that_is_right_in_another_way_is_not_called_wrong(name: str) -> None:
    assert _bad(VARIANTS[name], _some(9)) == []


@pytest.mark.deep
@pytest.mark.parametrize("name", VARIANTS)
def test_an_engine_that_is_right_in_another_way_passes_everything(name: str) -> None:
    assert _bad(VARIANTS[name], list(all_cases())) == []


def test_a_case_ends_in_the_same_way_every_time() -> None:
    result = run_suite(make, _some(7, 3), repeat=3)
    assert result.counts[Verdict.FLAKY] == 0
    reference = Reference()
    for each in _some(60):
        assert _seen(reference, each, 1000) == _seen(reference, each, 1000)


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_no_case_is_flaky_in_two_hundred_runs() -> None:
    result = run_suite(make, list(all_cases()), repeat=200, traces=False)
    assert {each.id: each.reason for each in result.cases if each.verdict not in _FINE} == {}


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_every_two_faults_at_every_two_places_hold() -> None:
    assert _bad(make, [all_cases()[0], *every_two()]) == []


def _seen(reference: Reference, case: Case, room: int) -> Outcome:
    return run_case(reference, reference.about(), case, room, reference.about().profiles)


# -- coverage ----------------------------------------------------------------------------------------------------------
def test_every_path_fires_the_rows_that_it_is_there_for() -> None:
    for path in read_paths()[::5]:
        fired = fired_by(path.script.split("; "))
        assert set(path.rows) <= fired.rows, path.id
        assert set(path.pairs) <= fired.pairs, path.id


@pytest.mark.deep
def test_the_cases_together_fire_every_row_that_a_session_reaches_and_every_pair_that_the_searches_found() -> None:
    wanted = (*read_paths(), *read_paths("more"))
    found = covered([each.lines() for each in all_cases() if "mover_corrupts" not in each.needs], everywhere=True)
    assert [each.missing for each in standings(found.rows)] == [(), (), ()]
    assert {row for path in wanted for row in path.rows} <= found.rows
    assert {pair for path in wanted for pair in path.pairs} <= found.pairs


def test_every_call_and_every_state_comes_up() -> None:
    seen = Counter(step.what for each in _some(9) for step in _seen(Reference(), each, 1000).trace)
    told = {what.split("-> ")[1] for what in seen if what.startswith("poll")}
    assert told == {"0", "1", "2", "3", "4"}
    assert {"create", "init", "meta", "send", "abort", "clear", "released"} <= set(seen)


def test_a_blocked_case_names_what_blocks_it() -> None:
    class Broken(Reference):
        def send(self, room: int, pages: object, last: bool) -> None:
            """Nothing is ever sent."""

    result = run_suite(Broken, _some(40))
    assert result.cases[0].verdict is Verdict.FAIL
    assert {each.verdict for each in result.cases[1:]} <= {Verdict.BLOCKED, Verdict.UNSUPPORTED}
    assert "handoff/plain/001 is fail" in next(c.reason for c in result.cases if c.verdict is Verdict.BLOCKED)
    assert result.status == 1


def test_a_case_that_needs_what_is_not_declared_is_unsupported() -> None:
    with Runner(VARIANTS["an engine that can do less"]) as runner:
        found = runner.run(find("handoff/order/chunks-first-slowly"))
        assert found.verdict is Verdict.UNSUPPORTED
        assert "early-send" in found.reason
