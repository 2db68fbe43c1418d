"""For a terminal: what was found, one defect once, and a line for each implementation."""

from __future__ import annotations

from ..result import BAD, Result, TraceStep, Verdict
from .merge import Merged
from .words import NOT_PASSED, ORDER, Finding, findings, headline, name_of, plural, sentence, tally

__all__ = ["as_text", "step_line"]

#: Case ids that a finding names.
_CASES = 4
#: Findings of one implementation that are told; more is what the page is for.
_FINDINGS = 40
#: Steps of its first trace, the last ones.
_STEPS = 24
#: Told in full, with the first trace; the others are a line each.
_TOLD = frozenset({*BAD, Verdict.NON_STRICT})


def as_text(merged: Merged) -> str:
    lines: list[str] = []
    for result in merged.results:
        lines += [*_run(result), ""]
    lines += [_one_line(f"{merged.suite.name} {merged.suite.version}"), *(_line(result) for result in merged.results)]
    return "\n".join(lines) + "\n"


def step_line(step: TraceStep) -> str:
    """One step of a trace on one line."""
    detail = f"  {_one_line(step.detail)}" if step.detail else ""
    return f"{step.at:9.3f} s  {_one_line(step.who):<8} {_one_line(step.what)}{detail}"


def _run(result: Result) -> list[str]:
    lines = [f"{_one_line(name_of(result))} ({_one_line(result.profile)})"]
    if result.refused:
        lines.append(f"  refused: {_one_line(result.refused)}")
    found = findings(result, [v for v in ORDER if v in _TOLD])
    for finding in found[:_FINDINGS]:
        lines += [f"  {line}" for line in _finding(finding)]
    if len(found) > _FINDINGS:
        lines.append(f"  {len(found) - _FINDINGS} more findings: make the HTML report")
    for finding in findings(result, [v for v in NOT_PASSED if v not in _TOLD])[:_FINDINGS]:
        lines.append(
            f"  {finding.verdict.value} ({len(finding.cases)}): {_one_line(finding.reason) or 'no reason given'}"
        )
    lines += [f"  problem: {_one_line(problem)}" for problem in result.problems]
    return lines


def _finding(finding: Finding) -> list[str]:
    shown, first = [case.id for case in finding.cases[:_CASES]], finding.cases[0]
    more = f" and {len(finding.cases) - _CASES} more" if len(finding.cases) > _CASES else ""
    steps = [step_line(step) for step in first.trace[-_STEPS:]]
    if left := len(first.trace) - len(steps):
        steps.insert(0, f"{plural(left, 'step')} before, then")
    return [
        f"{finding.verdict.value}: {_one_line(finding.reason) or 'no reason given'}",
        f"  requirements: {', '.join(map(_one_line, finding.broken))}",
        f"  {'case' if len(finding.cases) == 1 else 'cases'}: {', '.join(map(_one_line, shown))}{more}",
        *(f"    {step}" for step in steps),
    ]


def _line(result: Result) -> str:
    second = sentence(result)
    return (
        f"  {_one_line(name_of(result))}: {headline(result)}{f' {second}.' if second else ''} "
        f"{plural(len(result.cases), 'case')} in {result.seconds:.1f} s: {tally(result.counts)}"
    )


def _one_line(text: str) -> str:
    """Without signs that move a terminal's cursor or colour it."""
    return "".join(c if c.isprintable() else " " for c in text)
