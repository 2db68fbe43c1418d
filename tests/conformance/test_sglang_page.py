"""The published page about SGLang: it is made of the committed runs, and every failure on it has a reading."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kvpoll.model_tests.conformance.cases import all_cases
from kvpoll.model_tests.conformance.known import Known
from kvpoll.model_tests.conformance.result import Verdict

FOLDER = Path(__file__).parents[2] / "examples" / "conformance" / "sglang"
MOVERS = ("copy", "nixl", "mooncake")


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The module that makes the page, under its own name for as long as these tests last."""
    kept = sys.modules.pop("page", None)
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("page")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("page", None)
        if kept is not None:
            sys.modules["page"] = kept


def test_the_page_is_what_the_committed_runs_make(page: ModuleType) -> None:
    runs = page.results()
    assert page.PAGE.read_text(encoding="utf-8") == page.page(runs), "run: page.py --write"
    assert page.MATRIX.read_text(encoding="utf-8") == page.matrix(runs), "run: page.py --write"


def test_every_broken_requirement_has_a_reading_and_no_reading_is_left_over(page: ModuleType) -> None:
    found = {id for run in page.results().values() for id in page.broken(run.cases)}
    assert found == set(page.readings()) - {"ABOUT"}


def test_the_runs_are_runs_and_say_what_they_ran_with(page: ModuleType) -> None:
    runs = page.results()
    assert {"copy", "wire"} <= set(runs)
    for name, run in runs.items():
        assert run.refused == ""
        assert run.cases
        assert run.implementation.version == "0.5.23"
        if name in MOVERS:
            assert run.environment["mover"] == name
            assert run.counts[Verdict.PASS] > 0


@pytest.mark.parametrize("mover", MOVERS)
def test_a_file_of_known_failures_speaks_for_cases_that_there_are(mover: str) -> None:
    path = FOLDER / f"known-failing-{mover}.txt"
    if not path.is_file():
        pytest.skip(f"no run with {mover} is published")
    known = Known(path.read_text(), path.name)
    spoken = [known.line_for(each.id) for each in all_cases()]
    assert known.lines
    assert [line.pattern for line in known.lines if not any(line is each for each in spoken)] == []


#: What was known of SGLang 0.5.23 before there was a suite, and how the suite has to say it: (case, requirement).
FACTS = {
    "a mover that raises ends the worker, and later rooms wait": ("isolation/after-mover-raises-prefill/", "KVX-ISO-2"),
    "after an error the next room fails without a try": ("isolation/after-mover-error-prefill/", "KVX-ISO-2"),
    "fewer destinations are a truncation": ("handoff/lengths/", "KVX-PAIR-6"),
    "late bytes land in pages that were given away": ("faults/mover-unresolved-prefill-", "KVX-MEM-2"),
    "an abort at the prefill is not told": ("abort/prefill-", "KVX-ABORT-2"),
    "a prefill whose peer is gone waits for ever": ("limits/peer-killed-decode/", "KVX-TIME-4"),
    "Success is not the end": ("calls/after-success/abort-", "KVX-STATE-2"),
}


@pytest.mark.parametrize("fact", FACTS)
def test_what_is_known_of_the_engine_comes_out_as_the_right_verdict(page: ModuleType, fact: str) -> None:
    start, requirement = FACTS[fact]
    cases = [case for case in page.results()["copy"].cases if case.id.startswith(start)]
    assert cases
    assert any(requirement in case.broken for case in cases)


def test_an_error_that_the_mover_returns_ends_the_room_at_both_sides(page: ModuleType) -> None:
    cases = [case for case in page.results()["copy"].cases if case.id.startswith("faults/mover-error-prefill-one/")]
    assert cases
    assert all("KVX-FAULT-1" not in case.broken and "KVX-END-1" not in case.broken for case in cases)
