"""For a comment on a pull request."""

from __future__ import annotations

from kvpoll.protocol.evolution.findings import Finding
from kvpoll.protocol.evolution.report import Pair, Report

from .text import finding_text
from .words import orders_sentence, readers, summary

__all__ = ["as_markdown"]


def as_markdown(report: Report) -> str:
    lines = [f"### Schema check: {report.verdict}", "", f"{summary(report)}. **{orders_sentence(report)}**", ""]
    rows = [_row(report, pair, finding) for pair in report.pairs for finding in pair.findings]
    if rows:
        lines += ["| | rule | what | against | breaks | fix |", "| --- | --- | --- | --- | --- | --- |", *rows, ""]
        lines += ["<details><summary>Bytes</summary>", "", "```"]
        for pair in report.pairs:
            for finding in pair.findings:
                lines += finding_text(finding, report.counts(finding))
        lines += ["```", "", "</details>", ""]
    waived = [(p, w) for p in report.pairs for w in p.waived]
    lines += [f"- waived until {w.expires}: `{w.finding.rule}` {w.finding.says}. {w.reason}" for _, w in waived]
    lines += [f"- **{problem}**" for problem in report.problems]
    return "\n".join(lines).rstrip() + "\n"


def _row(report: Report, pair: Pair, finding: Finding) -> str:
    severity = "**error**" if report.counts(finding) else finding.severity
    cells = (severity, f"`{finding.rule}`", finding.says, pair.old.snapshot.version, readers(finding), finding.fix)
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
