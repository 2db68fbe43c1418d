"""JUnit XML for CI servers: a suite an implementation, a case a case.

========================  =====================================================================
verdict                   what JUnit says
========================  =====================================================================
pass                      passed
non-strict                passed, with ``verdict`` and ``broken`` as properties: JUnit has no warning
unsupported, blocked      skipped, with the reason
known-failing             skipped, its message begins with "known failing"
fail, stale, flaky        failure
crash, timeout            error
problem of the file       failure of a case of its own, in the class "known-failing file"
refused                   error of a case of its own: the run did not take place
========================  =====================================================================

The schema that CI servers check (junit-10.xsd) has no properties of a case. They are lines ``[[PROPERTY|name=value]]`` of
its ``system-out``, as several tools read them; a case that passed has none.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from ..result import CaseResult, Result, Verdict
from .merge import Merged
from .text import step_line
from .words import headline, name_of

__all__ = ["as_junit"]

_FAILURES = frozenset({Verdict.FAIL, Verdict.STALE, Verdict.FLAKY})
_ERRORS = frozenset({Verdict.CRASH, Verdict.TIMEOUT})
_SKIPPED = frozenset({Verdict.UNSUPPORTED, Verdict.BLOCKED, Verdict.KNOWN_FAILING})


def as_junit(merged: Merged) -> str:
    root = ET.Element("testsuites", name=_printable(f"{merged.suite.name} {merged.suite.version}"))
    totals = [_suite(root, result) for result in merged.results]
    for name, numbers in zip(("tests", "failures", "errors"), list(zip(*totals, strict=True))[:3], strict=True):
        root.set(name, str(sum(numbers)))
    root.set("time", _seconds(sum(result.seconds for result in merged.results)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, result: Result) -> tuple[int, int, int, int]:
    """Adds a run; returns how many tests, failures, errors and skipped ones it has."""
    counts = result.counts
    failures = sum(counts[v] for v in _FAILURES) + len(result.problems)
    errors = sum(counts[v] for v in _ERRORS) + bool(result.refused)
    numbers = (
        len(result.cases) + len(result.problems) + bool(result.refused),
        failures,
        errors,
        sum(counts[v] for v in _SKIPPED),
    )
    suite = ET.SubElement(root, "testsuite", name=_printable(name_of(result)))
    for name, number in zip(("tests", "failures", "errors", "skipped"), numbers, strict=True):
        suite.set(name, str(number))
    suite.set("time", _seconds(result.seconds))
    suite.set("timestamp", _printable(result.started))
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("profile", result.profile),
        ("headline", headline(result)),
        *sorted(result.environment.items()),
    ):
        ET.SubElement(properties, "property", name=_printable(name), value=_printable(value))
    for case in result.cases:
        _case(suite, case)
    for problem in result.problems:
        made = ET.SubElement(suite, "testcase", classname="known-failing file", name=_printable(problem), time="0")
        ET.SubElement(made, "failure", type="problem", message=_printable(problem))
    if result.refused:
        made = ET.SubElement(suite, "testcase", classname="plug", name="the run takes place", time="0")
        ET.SubElement(made, "error", type="refused", message=_printable(result.refused))
    return numbers


def _case(suite: ET.Element, case: CaseResult) -> None:
    made = ET.SubElement(
        suite, "testcase", classname=_printable(case.id.rpartition("/")[0] or "cases"), name=_printable(case.id)
    )
    made.set("time", _seconds(case.seconds))
    message, verdict = _printable(case.reason), case.verdict
    if verdict in _SKIPPED:
        prefix = "known failing" if verdict is Verdict.KNOWN_FAILING else verdict.value
        ET.SubElement(made, "skipped", type=verdict.value, message=f"{prefix}: {message}" if message else prefix)
    elif verdict in _FAILURES or verdict in _ERRORS:
        kind = "failure" if verdict in _FAILURES else "error"
        lines = [case.title, *(step_line(step) for step in case.trace)]
        ET.SubElement(made, kind, type=verdict.value, message=message or verdict.value).text = _printable(
            "\n".join(lines)
        )
    if verdict is not Verdict.PASS:
        told = [f"[[PROPERTY|verdict={verdict.value}]]", f"[[PROPERTY|requirements={' '.join(case.requirements)}]]"]
        told += [f"[[PROPERTY|broken={' '.join(case.broken)}]]"] if case.broken else []
        ET.SubElement(made, "system-out").text = _printable("\n".join([*told, case.reason]))


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _printable(text: str) -> str:
    """Without what XML 1.0 cannot hold."""
    return "".join(
        c if c in "\t\n" or " " <= c < "\ud800" or "\udfff" < c < "\ufffe" or c > "\uffff" else "?" for c in text
    )
