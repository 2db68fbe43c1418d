"""The head of the conformance page, what was run and what it adds up to, and its list of findings, one defect once."""

from __future__ import annotations

from html import escape

from ..result import RequirementText, Result
from .merge import Merged
from .words import MEANINGS, ORDER, Finding, findings, headline, name_of, plural, sentence, standing, verdict_for

__all__ = ["findings_of", "head"]

#: Findings of one implementation that are listed; the matrix has them all.
_FINDINGS = 60
#: Requirements and cases that a finding names.
_NAMED = 5
_CAUTION = (
    "A pass says that none of these cases saw the requirement broken, and nothing more. What an engine does not declare is "
    "not judged: that counts neither for it nor against it."
)


def head(merged: Merged) -> str:
    requirements = merged.requirements
    cases = len({case.id for result in merged.results for case in result.cases})
    levels = [(level, sum(r.level == level for r in requirements)) for level in ("MUST", "SHOULD", "MAY")]
    counted = ", ".join(f"{number} {level}" for level, number in levels if number)
    about = (
        f"{plural(cases, 'case')} for {plural(len(requirements), 'requirement')}{f' ({counted})' if counted else ''}"
    )
    if len(merged.results) > 1:
        about += f", {len(merged.results)} implementations"
    runs = "".join(_run(result) for result in merged.results)
    return (
        f"<h1>{escape(merged.suite.name)} {escape(merged.suite.version)}</h1>"
        f'<p class="lead">{escape(about)}.</p><p class="lead quiet">{escape(_CAUTION)}</p><ul class="runs">{runs}</ul>'
    )


def findings_of(merged: Merged, requirements: tuple[RequirementText, ...]) -> str:
    """What did not pass, for each implementation."""
    place = {requirement.id: number for number, requirement in enumerate(requirements)}
    parts = []
    for run, result in enumerate(merged.results):
        found = findings(result)
        if not found:
            continue
        rows = "".join(
            f'<li data-verdict="{ORDER.index(finding.verdict)}">{_finding(finding, run, result, place, requirements)}</li>'
            for finding in found[:_FINDINGS]
        )
        more = len(found) - _FINDINGS
        rest = f'<p class="quiet">{plural(more, "more finding")} in the matrix.</p>' if more > 0 else ""
        parts.append(f'<div class="of"><h3>{escape(name_of(result))}</h3><ul class="list">{rows}</ul>{rest}</div>')
    if not parts:
        return ""
    note = '<p class="quiet">Cases that ended alike for the same reason are one line.</p>'
    return f'<section class="findings"><h2>What did not pass</h2>{note}{"".join(parts)}</section>'


def _run(result: Result) -> str:
    counts, must = result.counts, standing(result, "MUST")
    mood = "bad" if result.status else "good" if must.held and not must.accepted else ""
    second = sentence(result)
    facts = [result.profile, _moment(result.started), f"{result.seconds:.1f} s"]
    told = "".join(
        f'<span title="{verdict.value}"><span class="v {verdict.value}">{MEANINGS[verdict].letter}</span> '
        f"<b>{counts[verdict]:,}</b>"
        f'<span class="hide"> {verdict.value}</span></span>'
        for verdict in ORDER
        if counts[verdict]
    )
    wrong = [f"Refused: {result.refused}"] if result.refused else []
    notes = "".join(
        f'<p class="about">{escape(note)}</p>' for note in (*wrong, *(f"Problem: {p}" for p in result.problems))
    )
    made = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in sorted(result.environment.items())
    )
    declares = ", ".join((*result.implementation.capabilities, *result.implementation.faults))
    made += f"<dt>declares</dt><dd>{escape(declares)}</dd>" if declares else ""
    fold = (
        f'<details class="fold"><summary>What was run</summary><dl class="facts">{made}</dl></details>' if made else ""
    )
    return (
        f'<li class="run"><h3>{escape(name_of(result))}</h3><p class="about">{escape(" · ".join(filter(None, facts)))}</p>'
        f'<p class="says {mood}">{escape(headline(result))}{f" {escape(second)}." if second else ""}</p>{_bar(result)}'
        f'<div class="tally">{told}</div>{notes}{fold}</li>'
    )


def _moment(started: str) -> str:
    """A moment in ISO 8601 as people write it; anything else as it is."""
    moment, zone = started[:19], started[19:]
    return f"{moment[:10]} {moment[11:16]} UTC" if moment[10:11] == "T" and zone in ("Z", "+00:00") else started


def _bar(result: Result) -> str:
    """The counts as one bar, the worst first."""
    total, at, parts = len(result.cases), 0.0, []
    for verdict in ORDER:
        width = 100 * result.counts[verdict] / total if total else 0
        if width:
            parts.append(f'<rect class="{verdict.value}" x="{at:.2f}" y="0" width="{width:.2f}" height="10"></rect>')
        at += width
    return (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
        if parts
        else ""
    )


def _finding(
    finding: Finding, run: int, result: Result, place: dict[str, int], requirements: tuple[RequirementText, ...]
) -> str:
    number = {case.id: row for row, case in enumerate(result.cases)}
    first = finding.cases[0]
    # Of the cell in which this case is seen as what it is: it may have broken a SHOULD, too.
    alike = [name for name in first.requirements if verdict_for(first, requirements[place[name]]) is first.verdict]
    target = next(iter(alike or first.requirements), "")
    opens = (
        f'<button type="button" class="link mono" data-run="{run}" data-req="{place[target]}" data-case="{number[first.id]}">'
        f"{escape(first.id)}</button>"
        if target
        else f'<span class="mono">{escape(first.id)}</span>'
    )
    more = f" and {plural(len(finding.cases) - 1, 'more case')}" if len(finding.cases) > 1 else ""
    named = ", ".join(finding.broken[:_NAMED]) + (
        f" and {len(finding.broken) - _NAMED} more" if len(finding.broken) > _NAMED else ""
    )
    reason = finding.reason or MEANINGS[finding.verdict].says
    return (
        f'<div class="finding"><span class="v {finding.verdict.value}" title="{finding.verdict.value}">'
        f'{MEANINGS[finding.verdict].letter}</span><p class="reason">{escape(reason)}</p>'
        f'<p class="where"><b>{finding.verdict.value}</b> · {escape(named)} · {opens}{more}</p></div>'
    )
