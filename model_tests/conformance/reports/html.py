"""One HTML file with everything in it: a matrix of requirements and implementations, and behind each cell its cases with
what happened, step by step. It fetches nothing.

What stands in a result may be anybody's text. What is written here is escaped; what the script shows reaches the page as
JSON in which no tag can begin, and from there as text nodes only; and a policy in the page allows this very script and style
and nothing else. Without the script the page still has its matrix and its findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape

from kvpoll.protocol.render.page import html_page
from kvpoll.spec.requirements import SECTIONS

from ..result import RequirementText, Verdict
from .html_data import Cells, cells_of, page_json
from .html_diagram import DIAGRAM
from .html_head import findings_of, head
from .html_script import SCRIPT
from .html_style import STYLE
from .merge import Merged
from .words import MEANINGS, ORDER, name_of, plural

__all__ = ["as_html"]

_SCRIPT = f'"use strict";\n(() => {{\n{DIAGRAM}\n{SCRIPT}\n}})();\n'


def as_html(merged: Merged) -> str:
    requirements = merged.requirements
    columns = [cells_of(result, requirements) for result in merged.results]
    style = f"{STYLE}:root {{ --n: {len(merged.results)}; }}\n"
    counts = sum((result.counts for result in merged.results), Counter[Verdict]())
    body = _BODY.format(
        head=head(merged), chips=_chips(counts),
        levels=_options(_each(r.level for r in requirements)), roles=_options(_each(r.role for r in requirements)),
        bar="" if requirements else " hidden", width="many" if len(columns) > 6 else "few",
        matrix=_matrix(merged, requirements, columns), meanings=_meanings(), findings=findings_of(merged, requirements),
    )  # fmt: skip
    return html_page(f"{merged.suite.name} {merged.suite.version}", style, _SCRIPT, body, page_json(merged, columns))


def _chips(counts: Counter[Verdict]) -> str:
    return "".join(
        f'<button type="button" class="chip" data-verdict="{rank}" aria-pressed="false" title="{escape(MEANINGS[verdict].says)}">'
        f'<span class="v {verdict.value}" aria-hidden="true">{MEANINGS[verdict].letter}</span>'
        f"{verdict.value} {counts[verdict]:,}</button>"
        for rank, verdict in enumerate(ORDER)
        if counts[verdict]
    )


def _options(values: list[str]) -> str:
    return "".join(f'<option value="{escape(value)}">{escape(value)}</option>' for value in values)


def _matrix(merged: Merged, requirements: tuple[RequirementText, ...], columns: list[Cells]) -> str:
    if not requirements:
        return '<p class="none">No requirement was judged.</p>'
    count = len(merged.results)
    cols = '<col class="cells">' * count
    names = "".join(
        f'<th scope="col">{escape(result.implementation.name)}<small>{escape(result.implementation.version)}</small></th>'
        for result in merged.results
    )
    body = []
    for section in _each(r.section for r in requirements):
        rows = [_row(merged, requirements, columns, n) for n, r in enumerate(requirements) if r.section == section]
        words = f' <span class="quiet">{escape(SECTIONS[section])}</span>' if section in SECTIONS else ""
        title = f'<tr class="section"><th scope="rowgroup" colspan="{count + 1}">{escape(section)}{words}</th></tr>'
        body.append(f"<tbody>{title}{''.join(rows)}</tbody>")
    return (
        f'<table class="matrix {f"n{count}" if count <= 6 else "many"}" id="matrix"><caption class="hide">'
        f"Requirements and what was seen of them. Arrow keys move, Enter opens.</caption><colgroup><col>{cols}</colgroup>"
        f'<thead><tr><th scope="col">Requirement<small id="count" role="status"></small></th>{names}</tr></thead>'
        f"{''.join(body)}</table>"
    )


def _row(merged: Merged, requirements: tuple[RequirementText, ...], columns: list[Cells], number: int) -> str:
    requirement = requirements[number]
    tags = " · ".join(
        each for each in (requirement.role, requirement.profile if requirement.profile != "common" else "") if each
    )
    cells = "".join(
        _cell(name_of(r), requirement.id, columns[run][number], run) for run, r in enumerate(merged.results)
    )
    return (
        f'<tr data-req="{number}"><th scope="row"><button type="button" class="req" aria-expanded="false">'
        f'<span class="id">{escape(requirement.id)}</span><span class="tags"><span class="level {escape(requirement.level)}">'
        f"{escape(requirement.level)}</span>{escape(tags)}</span>"
        f'<span class="text">{escape(requirement.text)}</span></button></th>{cells}</tr>'
    )


def _cell(name: str, requirement: str, cases: list[tuple[Verdict, int]], run: int) -> str:
    if not cases:
        return '<td><span class="nil" title="no case">–</span></td>'
    verdict, total = cases[0][0], len(cases)
    alike = sum(told is verdict for told, _ in cases)
    label = f"{name}, {requirement}: {verdict.value} in {alike} of {plural(total, 'case')}"
    shown = str(total) if alike == total else f"{alike}/{total}"
    return (
        f'<td><button type="button" class="cell {verdict.value}" data-run="{run}" aria-expanded="false" tabindex="-1" '
        f'aria-label="{escape(label)}"><b>{MEANINGS[verdict].letter}</b><small>{shown}</small></button></td>'
    )


def _meanings() -> str:
    return "".join(
        f'<dt><span class="v {verdict.value}">{MEANINGS[verdict].letter}</span></dt><dd><b>{verdict.value}</b> – '
        f"{escape(MEANINGS[verdict].says)}</dd>"
        for verdict in ORDER
    )


def _each(values: Iterable[str]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(values))


_BODY = """<header class="wide">{head}</header>
<div class="bar" id="bar"{bar}><div class="wide" role="search" aria-label="Filter the matrix">
<div class="chips" role="group" aria-label="Verdicts">{chips}</div>
<label>Level <select id="level"><option value="">any</option>{levels}</select></label>
<label>Role <select id="role"><option value="">any</option>{roles}</select></label>
<label class="find">Find <input id="find" type="search" placeholder="requirement, case, reason  ( / )" autocomplete="off"></label>
<button type="button" class="clear" id="clear" hidden>Clear</button>
</div></div>
<main class="wide">
<div class="split {width}">
<div>
{matrix}
<p class="none" id="nothing" hidden>No requirement is like that.</p>
{findings}
</div>
<section class="panel idle" id="panel" aria-label="Details" tabindex="-1">
<div class="top"><h2>How to read this</h2></div>
<div class="body">
<p>Each cell shows the worst verdict of its cases, and of how many; U only when no case judged it. Choose a
cell for its cases and what happened in them, or a requirement for its words.</p>
<h3>Verdicts</h3>
<dl class="meanings">{meanings}</dl>
</div>
</section>
</div>
<section class="legend"><h2>What the letters mean</h2><dl class="meanings">{meanings}</dl></section>
<noscript><p class="none">Cases and their traces are shown by a script in this page; it is switched off.</p></noscript>
</main>
"""
