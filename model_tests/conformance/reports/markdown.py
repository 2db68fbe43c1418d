"""For a comment on a pull request: short, and what went wrong first."""

from __future__ import annotations

import re

from ..result import BAD, Result, Verdict
from .merge import Merged
from .words import MEANINGS, NOT_PASSED, ORDER, Finding, findings, headline, name_of, plural, sentence

__all__ = ["as_markdown"]

#: Rows of one implementation that stand open; the rest is counted.
_ROWS = 12
#: Characters of one reason.
_LONGEST = 300
_FIRST = [verdict for verdict in ORDER if verdict in BAD or verdict is Verdict.NON_STRICT]
_LATER = [verdict for verdict in NOT_PASSED if verdict not in _FIRST]
#: Whatever means something to Markdown, to HTML or to a forge (mentions, references to issues).
_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|<>~@&:$^=-]")


def as_markdown(merged: Merged) -> str:
    lines = [f"### {_text(merged.suite.name)} {_text(merged.suite.version)}: {_verdict(merged)}", ""]
    shown = [verdict for verdict in ORDER if any(result.counts[verdict] for result in merged.results)]
    lines.append(f"| implementation | {' | '.join(['what was seen', *(v.value for v in shown)])} |")
    lines.append(f"| --- | --- |{' ---: |' * len(shown)}")
    for result in merged.results:
        counts = [str(result.counts[verdict] or "") for verdict in shown]
        second = sentence(result)
        says = headline(result) + (f" {second}." if second else "")
        lines.append(
            f"| {' | '.join([f'**{_text(name_of(result))}** ({_text(result.profile)})', _text(says), *counts])} |"
        )
    for result in merged.results:
        lines += _run(result)
    return "\n".join(lines).rstrip() + "\n"


def _verdict(merged: Merged) -> str:
    wrong = sum(result.status == 1 for result in merged.results)
    refused = sum(result.status == 2 for result in merged.results)
    if len(merged.results) == 1:
        return ("nothing unexpected", "something is wrong", "could not be run")[merged.status]
    if not wrong + refused:
        return "nothing unexpected"
    parts = [f"something is wrong with {wrong}"] if wrong else []
    parts += [f"{refused} could not be run"] if refused else []
    return f"{', '.join(parts)} of {plural(len(merged.results), 'implementation')}"


def _run(result: Result) -> list[str]:
    lines = [] if not result.refused else ["", f"**{_text(name_of(result))}: refused.** {_text(result.refused)}"]
    first, later = findings(result, _FIRST), findings(result, _LATER)
    if first:
        lines += [
            "",
            f"**{_text(name_of(result))}**",
            "",
            "| | requirements | reason | cases |",
            "| --- | --- | --- | --- |",
        ]
        lines += [_row(finding) for finding in first[:_ROWS]]
        if len(first) > _ROWS:
            lines += ["", f"{len(first) - _ROWS} more findings are in the page and in the JSON."]
    lines += ["", *(f"- **problem:** {_text(problem)}" for problem in result.problems)] if result.problems else []
    if later:
        counted = ", ".join(f"{result.counts[v]} {v.value}" for v in _LATER if result.counts[v])
        lines += ["", f"<details><summary>{_text(name_of(result))}: {counted}</summary>", ""]
        lines += [
            f"- {f.verdict.value}, {plural(len(f.cases), 'case')}: {_text(f.reason) or 'no reason given'}"
            for f in later[:_ROWS]
        ]
        lines += [f"- {len(later) - _ROWS} more"] if len(later) > _ROWS else []
        lines += ["", "</details>"]
    return lines


def _row(finding: Finding) -> str:
    named, first = finding.broken, finding.cases[0].id
    requirements = ", ".join(f"`{_code(name)}`" for name in named[:3]) + (
        f" +{len(named) - 3}" if len(named) > 3 else ""
    )
    cases = f"`{_code(first)}`" + (f" +{len(finding.cases) - 1}" if len(finding.cases) > 1 else "")
    reason = _text(finding.reason) or _text(MEANINGS[finding.verdict].says)
    return f"| **{finding.verdict.value}** | {requirements} | {reason} | {cases} |"


def _text(text: str) -> str:
    """Text that stays text, on one line."""
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return _SIGNS.sub(lambda sign: f"&#{ord(sign[0])};" if sign[0] in "<>&@#|:`" else f"\\{sign[0]}", line)


def _code(text: str) -> str:
    """An id between backticks, inside a table."""
    return "".join(c if c.isprintable() and c not in "`|<>" else "?" for c in text)
