"""For a terminal: a few lines a finding, the bytes included."""

from __future__ import annotations

from kvpoll.protocol.evolution.findings import Finding
from kvpoll.protocol.evolution.report import Report

from .words import frame_of, orders_sentence, readers, summary, who_breaks

__all__ = ["as_text", "finding_text"]


def as_text(report: Report) -> str:
    lines: list[str] = []
    for pair in report.pairs:
        lines.append(f"{pair.old.label} -> {pair.new.snapshot.version}")
        for finding in pair.findings:
            lines += [f"  {line}" for line in finding_text(finding, report.counts(finding))]
        lines += [f"  waived until {w.expires}: {w.finding.rule} {w.finding.says} ({w.reason})" for w in pair.waived]
        if not pair.findings and not pair.waived:
            lines.append("  nothing")
    lines += [f"problem: {problem}" for problem in report.problems]
    return "\n".join([*lines, "", f"{report.verdict}: {summary(report)}. {orders_sentence(report)}", ""])


def finding_text(finding: Finding, fails: bool) -> list[str]:
    """The lines of one finding."""
    lines = [
        f"{'error' if fails else finding.severity}: {finding.rule}: {finding.says}",
        f"  breaks {readers(finding)}",
        f"  old: {finding.old or '-'}   new: {finding.new or '-'}",
        f"  fix: {finding.fix}",
    ]
    for witness in finding.witnesses:
        lines += [
            f"  {who_breaks(witness)} ({witness.kind}):",
            f"    wrote {witness.wrote}",
            *([f"    bytes {frame_of(witness)}"] if witness.frame else []),
            f"    made of it: {witness.made}",
        ]
    return lines
