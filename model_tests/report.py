"""A report as text for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter

from .coverage import RowReport, Standing, row_name
from .named import NamedWorld
from .properties import FAIRNESS
from .verdicts import PropertyReport, Report, Verdict, WorldReport

__all__ = ["VERSION", "list_text", "report_json", "report_text", "world_line"]

#: Of the JSON form.
VERSION = 1


def list_text(worlds: list[NamedWorld]) -> str:
    """Names, budgets and sentences."""
    width = max((len(w.name) for w in worlds), default=0)
    return "".join(f"{w.name:{width}}  {'deep ' if w.deep else ''}{w.faults}: {w.about}\n" for w in worlds)


def world_line(report: WorldReport, width: int = 0) -> str:
    """One world in one line, and a second one with the reason why it is not PROVED."""
    result = report.result
    verdict = "searched in part" if report.partial and result.violation is None else report.verdict.value
    reason = "" if report.partial or report.verdict is Verdict.PROVED else f"\n    {report.reason}"
    return (
        f"{verdict:12}  {report.world.name:{width}}  {result.states:>9,} states {result.edges:>10,} edges "
        f"{report.seconds:7.1f} s  {len(result.outcomes):2} ends  {report.world.faults}{reason}"
    )


def report_text(report: Report) -> str:
    """Invariants, rows, and the verdict; the worlds were told as they ended."""
    lines = ["", "Invariants, in these worlds and within their budgets:"]
    lines += [_property_line(each, report.whole) for each in report.properties()]
    lines += ["", f"Leads-to is claimed under fairness: {FAIRNESS}"]
    if report.whole:
        lines += ["", "Rows of the tables:", *_rows_lines(report.rows())]
    states, seconds = sum(w.result.states for w in report.worlds), sum(w.seconds for w in report.worlds)
    if report.reach:
        partial = sum(w.result.states for w in report.reach)
        lines += [
            "",
            f"{len(report.reach)} more worlds were searched in part, {partial:,} states, for rows.",
        ]
    lines += ["", *(f"not searched: {world.name}" for world in report.unsearched), *report.failures]
    lines.append(
        f"{report.verdict.value}: {len(report.worlds)} worlds, {states:,} states, {seconds:.0f} s{_more(report)}"
    )
    return "\n".join([*lines, ""])


def _more(report: Report) -> str:
    if report.mutant:
        return f", with {report.mutant!r}"
    return "" if report.whole else "; of single worlds neither rows nor vacuity are judged"


def _property_line(each: PropertyReport, whole: bool) -> str:
    name, kind = each.property.name, each.property.kind.value
    verdict = each.verdict.value
    if each.verdict is Verdict.VACUOUS and not whole:
        verdict = "NOT MET" if not each.met else "PROVED"
    if each.verdict is Verdict.TESTED:
        return f"{verdict:12}  {name:23} {kind:8}  {', '.join(dict.fromkeys(w.partition('::')[0] for w in each.property.where))}"
    line = f"{verdict:12}  {name:23} {kind:8}  {each.property.sentence}"
    if each.broken_in:
        return f"{line}\n    broken in {', '.join(each.broken_in)}"
    if each.missing and whole:
        return f"{line}\n    it never happens that {', or that '.join(each.missing)}"
    return line


def _rows_lines(rows: list[RowReport]) -> list[str]:
    lines = []
    for table in dict.fromkeys(r.table for r in rows):
        count = Counter(r.standing for r in rows if r.table == table)
        said = ", ".join(f"{count[s]} {s.value}" for s in Standing if count[s])
        lines.append(f"  {table:9} {sum(count.values()):4} rows: {said}")
    walls = [r for r in rows if r.standing is Standing.WALL]
    lines.append(
        f"  second walls fire in the world of their machine alone ({sum(bool(r.alone) for r in walls)} of {len(walls)}):"
    )
    return lines + [f"    {much:3} {why}" for why, much in Counter(r.why for r in walls).items()]


def report_json(report: Report) -> str:
    """Version 1. Sentences may change, names and fields stay."""
    body = {
        "version": VERSION,
        "verdict": report.verdict.value,
        "whole": report.whole,
        "mutant": report.mutant,
        "failures": report.failures,
        "unsearched": [world.name for world in report.unsearched],
        "worlds": [_world_json(each) for each in (*report.worlds, *report.reach)],
        "invariants": [_property_json(each) for each in report.properties()],
        "rows": [{"row": row_name(r.table, r.row), "standing": r.standing.value, "why": r.why} for r in report.rows()],
    }
    return json.dumps(body, indent=1) + "\n"


def _world_json(each: WorldReport) -> dict[str, object]:
    result = each.result
    return {
        "name": each.world.name,
        "verdict": each.verdict.value,
        "reason": each.reason if not each.partial or result.violation is not None else "",
        "partial": each.partial,
        "faults": each.world.faults,
        "states": result.states,
        "edges": result.edges,
        "frontier": result.frontier,
        "seconds": round(each.seconds, 3),
        "ends": dict(sorted(result.outcomes.items())),
    }


def _property_json(each: PropertyReport) -> dict[str, object]:
    return {
        "name": each.property.name,
        "kind": each.property.kind.value,
        "verdict": each.verdict.value,
        "sentence": each.property.sentence,
        "worlds": each.worlds,
        "met": {situation: {"world": world, "steps": steps} for situation, (world, steps) in each.met.items()},
        "missing": list(each.missing),
        "broken_in": list(each.broken_in),
        "tests": list(each.property.where),
    }
