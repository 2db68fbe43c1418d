"""The cases, for pytest. Active only with ``--kvpoll-impl`` or ``--kvpoll-process``: see :mod:`.pytest_plugin`."""

from __future__ import annotations

import warnings
from datetime import date

import pytest

from kvpoll.model_tests.conformance.case import Case
from kvpoll.model_tests.conformance.cases import all_cases
from kvpoll.model_tests.conformance.known import Known
from kvpoll.model_tests.conformance.pytest_plugin import known_failing, make_of, selected
from kvpoll.model_tests.conformance.result import TraceStep, Verdict
from kvpoll.model_tests.conformance.run import Runner

_SHOWN = 40


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        cases = selected(metafunc.config)
        metafunc.parametrize("case", cases, ids=[each.id for each in cases])


def test_case(case: Case, kvpoll_runner: Runner, kvpoll_known: Known | None) -> None:
    found = kvpoll_runner.run(case)
    verdict, reason, link = found.verdict, found.reason, ""
    if kvpoll_known is not None:
        verdict, reason, link = kvpoll_known.judge(case.id, found.verdict, found.reason)
    if verdict in (Verdict.UNSUPPORTED, Verdict.BLOCKED):
        pytest.skip(f"{verdict.value}: {reason}")
    if verdict is Verdict.KNOWN_FAILING:
        pytest.xfail(f"{reason} ({link})")
    if verdict is Verdict.NON_STRICT:
        warnings.warn(f"{case.id} is not strict: {reason}", stacklevel=1)
    elif verdict is not Verdict.PASS:
        pytest.fail(f"{verdict.value}: {reason}\n{_story(found.trace)}", pytrace=False)


def test_every_line_of_the_known_failing_file_speaks_for_a_case(pytestconfig: pytest.Config) -> None:
    known = known_failing(pytestconfig) if make_of(pytestconfig) is not None else None
    if known is None:
        pytest.skip("no file of known failures")
    problems = known.problems([each.id for each in all_cases()], date.today())
    assert not problems, "\n".join(problems)


def _story(trace: tuple[TraceStep, ...]) -> str:
    return "\n".join(f"{step.at:9.4f} s  {step.who:<8} {step.what}  {step.detail}" for step in trace[-_SHOWN:])
