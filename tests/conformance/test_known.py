"""The file of known failures: every line must be true, and nothing in it hides what is new."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from kvpoll.model_tests.conformance.cases import all_cases
from kvpoll.model_tests.conformance.known import Known, KnownError, lines_for, pruned
from kvpoll.model_tests.conformance.result import (
    Result,
    ResultError,
    Verdict,
    read_result,
    write_result,
)
from kvpoll.model_tests.conformance.run import run_suite
from kvpoll.model_tests.conformance.wrong import WRONG

TODAY = date(2026, 6, 1)
LINE = "handoff/lengths/*  fail  KVX-DATA-1  https://tracker.example/1  until=2026-12-31\n"
IDS = [each.id for each in all_cases()]


def _run(text: str = "", today: date = TODAY) -> Result:
    known = Known(text) if text else None
    cases = [each for each in all_cases() if each.id.startswith(("handoff/plain", "handoff/lengths"))]
    return run_suite(WRONG["too few destinations are a Success"], cases, every=IDS, known=known, today=today)


def test_a_failure_that_is_known_does_not_fail_the_run() -> None:
    assert _run().status == 1
    result = _run(LINE)
    assert result.counts[Verdict.KNOWN_FAILING] == 5 - result.counts[Verdict.STALE]
    known = next(each for each in result.cases if each.verdict is Verdict.KNOWN_FAILING)
    assert (known.found, known.link) == (Verdict.FAIL, "https://tracker.example/1")


def test_what_is_said_to_fail_and_passes_is_stale() -> None:
    result = _run("handoff/plain/001  fail  KVX-DATA-1  -  until=2026-12-31\n")
    assert result.cases[0].verdict is Verdict.STALE
    assert "and it passes" in result.cases[0].reason
    assert result.status == 1


def test_another_reason_is_stale() -> None:
    result = _run(LINE.replace("KVX-DATA-1", "KVX-MEM-1"))
    assert Verdict.STALE in result.counts
    assert any("fails otherwise" in each.reason for each in result.cases)


def test_another_verdict_is_stale() -> None:
    result = _run(LINE.replace("fail ", "crash "))
    assert any("says crash, and it is fail" in each.reason for each in result.cases)


def test_a_line_for_no_case_and_a_line_past_its_date_are_problems() -> None:
    text = "nothing/here/*  fail  KVX-DATA-1  -  until=2026-12-31\n" + LINE
    problems = _run(text, date(2027, 1, 1)).problems
    assert any("speaks for no case" in each for each in problems)
    assert any("expired on 2026-12-31" in each for each in problems)
    assert _run(text).status == 1


def test_one_star_is_one_part_and_two_are_many() -> None:
    known = Known("a/*/1  fail  x  -  until=2026-12-31\nb/**  fail  x  -  until=2026-12-31\n")
    assert known.line_for("a/z/1") is not None
    assert known.line_for("a/z/y/1") is None
    assert known.line_for("b/z/y/1") is not None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a/*  fail  x  until=2026-12-31", "5 columns"),
        ("a/*  pass  x  -  until=2026-12-31", "verdict"),
        ("a/*  fail  x  -  soon", "until=YYYY-MM-DD"),
        ("a/*  fail  x  -  until=2026-13-31", "until=YYYY-MM-DD"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, says: str) -> None:
    with pytest.raises(KnownError, match=f"known-failing:1.*{says}"):
        Known(line)


def test_a_hash_within_a_line_is_no_comment() -> None:
    known = Known("# a comment\na/*  fail  reason #1 of 2  -  until=2026-12-31\n")
    assert known.lines[0].reason == "reason #1 of 2"
    assert known.lines[0].number == 2


def test_what_is_written_down_is_what_is_found_again() -> None:
    first = _run()
    text = lines_for(first.cases, "https://tracker.example/2", date(2026, 12, 31))
    again = _run(text)
    assert again.status == 0
    assert again.counts[Verdict.KNOWN_FAILING] == first.counts[Verdict.FAIL] + first.counts[Verdict.NON_STRICT]


def test_lines_that_are_not_needed_any_more_are_taken_out() -> None:
    text = "# mine\n" + LINE + "handoff/plain/001  fail  KVX-DATA-1  -  until=2026-12-31\n"
    assert pruned(text, _run().cases) == "# mine\n" + LINE


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    result = _run(LINE)
    write_result(result, tmp_path / "result.json")
    assert read_result(tmp_path / "result.json") == result


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema": "kvpoll-conformance-result/9"}', "schema: expected"),
        ("{", "result.json"),
        ('{"schema": "kvpoll-conformance-result/1"}', "missing required field"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ResultError, match=says):
        read_result(tmp_path / "result.json")
