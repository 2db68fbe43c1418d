"""GitHub workflow commands. A step shows ten annotations of a kind, so what is beyond is said in one."""

from __future__ import annotations

from kvpoll.protocol.evolution.report import Report

from .words import line_of, orders_sentence, readers, summary

__all__ = ["MOST", "as_github"]

MOST = 10


def as_github(report: Report) -> str:
    kinds: dict[str, list[tuple[str, str]]] = {"error": [], "warning": [], "notice": []}
    for pair in report.pairs:
        for finding in pair.findings:
            kind = "error" if report.counts(finding) else "notice" if finding.severity == "info" else "warning"
            file = _property(pair.new.path or pair.new.label)
            place = f"file={file},line={line_of(pair, finding)},title={_property(finding.rule)}"
            says = f"{finding.says}\nagainst {pair.old.snapshot.version}: breaks {readers(finding)}\nfix: {finding.fix}"
            kinds[kind].append((place, says))
    kinds["error"] += [("title=waivers", problem) for problem in report.problems]
    lines = []
    for kind, found in kinds.items():
        shown = found if len(found) <= MOST else found[: MOST - 1]
        lines += [f"::{kind} {place}::{_data(says)}" for place, says in shown]
        if len(found) > len(shown):
            lines.append(f"::{kind} title=kvpoll schema::{_data(f'{len(found) - len(shown)} more: see the log')}")
    return "\n".join([*lines, f"{report.verdict}: {summary(report)}. {orders_sentence(report)}", ""])


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
