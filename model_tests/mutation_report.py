"""What the mutation gate found: as text for people, as JSON for programs, as a page of the documentation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from kvpoll.protocol.render.markdown import grid

from .mutants import MUTATED, Kind
from .mutation import ENDS, Finding, Report, Verdict

__all__ = ["counted", "mutants_json", "mutants_page", "mutants_text"]

#: Of the JSON form.
VERSION = 1
_LATER = (Verdict.SURVIVED, Verdict.UNDETERMINED, Verdict.UNREACHED, Verdict.EQUIVALENT)


def mutants_text(report: Report) -> str:
    """Numbers first, then everything that was not killed."""
    lines = []
    for verdict in reversed(_LATER):
        for finding in report.of(verdict):
            lines.append(f"{verdict.value:12}  {finding.mutant.name}\n    {why(finding)}")
    lines += ["", *_table([["", *_HEAD], *_by_kind(report), *_by_table(report)]), "", _summary(report)]
    return "\n".join([*lines, ""])


def _summary(report: Report) -> str:
    counts = report.counts
    each = ", ".join(f"{counts[v]} {v.value}" for v in Verdict)
    more = "" if report.finished else "; cut short: what was not tried everywhere is undetermined"
    rate = f"{100 * report.rate:.1f} % of those whose row fires and that are not equivalent"
    return f"{len(report.findings)} mutants: {each}. Rate: {rate}{more}"


def mutants_json(report: Report) -> str:
    """One object: the numbers, the worlds, and each mutant with what became of it."""
    counts = report.counts
    data = {
        "version": VERSION,
        "mutants": len(report.findings),
        **{verdict.value: counts[verdict] for verdict in Verdict},
        "rate": round(report.rate, 4),
        "finished": report.finished,
        "status": report.status,
        "worlds": [
            {"name": name, "budgets": faults, "states": states, "edges": edges}
            for name, (faults, states, edges) in report.worlds.items()
        ],
        "each": [_entry(finding) for finding in report.findings],
    }
    return json.dumps(data, indent=1) + "\n"


def _entry(finding: Finding) -> dict[str, object]:
    mutant = finding.mutant
    entry: dict[str, object] = {
        "name": mutant.name, "table": mutant.table, "row": mutant.row, "kind": mutant.kind.name.lower(),
        "verdict": finding.verdict.value,
    }  # fmt: skip
    if finding.verdict is Verdict.KILLED:
        entry |= {
            "invariant": finding.broken,
            "sentence": finding.sentence,
            "world": finding.world,
            "trace": finding.trace,
        }
    else:
        entry["why"] = why(finding)
    return entry


def why(finding: Finding) -> str:
    """Why a mutant was not killed, or how it was, in one line."""
    match finding.verdict:
        case Verdict.KILLED:
            return f"{finding.broken}, {len(finding.trace)} steps, {finding.world}"
        case Verdict.UNREACHED:
            return f"no world fires the row: {finding.idle or 'nobody says why'}"
        case Verdict.EQUIVALENT:
            hows = Counter(sight.how for sight in finding.sights)
            return "; ".join(f"{how} in {much} worlds" for how, much in hows.most_common())
        case Verdict.SURVIVED:
            return f"it differs in {', '.join(sight.world for sight in finding.sights if not sight.how)}"
        case _:
            cut = [sight.world for sight in finding.sights if not sight.complete]
            return f"cut short in {', '.join(cut)}" if cut else "not tried everywhere"


_HEAD = ("mutants", *(verdict.value for verdict in Verdict))


def _by_kind(report: Report) -> list[list[str]]:
    return [
        [kind.value, *_numbers([f for f in report.findings if f.mutant.kind is kind])]
        for kind in Kind
        if any(f.mutant.kind is kind for f in report.findings)
    ]


def _by_table(report: Report) -> list[list[str]]:
    rows = [
        [f"the {name}'s table", *_numbers([f for f in report.findings if f.mutant.table == name])]
        for name in MUTATED
        if any(f.mutant.table == name for f in report.findings)
    ]
    return [*rows, ["all", *_numbers(report.findings)]]


def _numbers(findings: Iterable[Finding]) -> list[str]:
    each = list(findings)
    counts = Counter(finding.verdict for finding in each)
    return [str(len(each)), *(str(counts[verdict]) for verdict in Verdict)]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *rest in rows:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        lines.append(f"{first:{widths[0]}}  {numbers}")
    return lines


_MADE_BY = "<!-- Made by `kvpoll check --mutants --write docs/mutants.md`. Do not edit. -->\n\n"
_COUNTED = "Mutants of all tables: "

_INTRO = """# Mutants

A check that never fails checks nothing. Here every row of the five tables is made wrong, in every way of the list below, one
at a time, and the small worlds of the explorer are searched again with the real objects. A mutant counts as killed only when
a property finds it: an invariant by its name, a state from which no good end is sure, an action that raises, a row that fired
although its table calls it impossible. What the table checker says does not count. Last of all, and by the name `{ends}`, a
world counts that no longer ends in each of the ways in which it should.

Where a row leads to another state, it is the most harmful one: what should move stays; what should stay or fail succeeds (a
room) or is forgotten (memory, a link); what is over is over in the other way, or begins anew. Deadlines are disarmed in two
ways: the effect that arms one is forgotten, or nothing happens when it is over.

Some worlds are of one machine alone, behind no first wall: one piece of memory, one link, a room that is over and any event.
The others are of whole processes; the peer may crash, lie once, or be silent while time passes. What a process must do or say
at once is looked at after each step (`model_tests/duties.py`, `model_tests/answers.py`).

Each world is searched once as it is. A mutant changes only the steps in which its row fires, so only those are run again, and
what follows from them; that this finds the same as a search from scratch is tested.

A mutant that nothing finds must be shown to be the same machine. In each world in which the row fires, both graphs are
walked side by side: the same actions with the same messages, the same memory lent, the same rooms over, the same ends.
Then it is equivalent there, and a larger world may still tell the two apart. What differs and is not found is a survivor, and
the gate fails.

To make this page again: `kvpoll check --mutants --write docs/mutants.md`.

"""


def mutants_page(report: Report) -> str:
    """The page. It is meant for the mutants of all tables."""
    killed = report.of(Verdict.KILLED)
    parts = [_MADE_BY, _INTRO.format(ends=ENDS), f"{_COUNTED}{len(report.findings)}\n\n", f"{_summary(report)}.\n\n"]
    parts += [_grid(["What is wrong", *_HEAD], _by_kind(report)), _grid(["Where", *_HEAD], _by_table(report))]
    parts += ["A row that refuses, or that is called impossible, is not made wrong: the explorer proves of those that they ",
              "change nothing, or never fire.\n\n"]  # fmt: skip
    names = Counter(finding.broken for finding in killed)
    parts += ["## What finds them\n\n", _grid(["Invariant", "kills"], [[k, str(n)] for k, n in names.most_common()])]
    parts.append(_section("Survivors", report.of(Verdict.SURVIVED), "There is none."))
    if found := report.of(Verdict.UNDETERMINED):
        parts.append(_section("Undetermined", found, ""))
    parts.append(_section("Equivalent", report.of(Verdict.EQUIVALENT), "There is none."))
    parts.append(_section("Rows that no world fires", report.of(Verdict.UNREACHED), "There is none."))
    kills = Counter(finding.world for finding in killed)
    worlds = [[name, faults, str(s), str(e), str(kills[name])] for name, (faults, s, e) in report.worlds.items()]
    parts += ["## The worlds\n\nIn the order in which they are tried.\n\n"]
    parts.append(_grid(["World", "budgets", "states", "edges", "kills"], worlds))
    rows = [[f.mutant.name, f.broken, str(len(f.trace)), f.world] for f in killed]
    parts += ["## Killed\n\nWith the length of the shortest way to the violation; 0: the world cannot even be set up, or an ",
              "end is missing. The ways themselves are printed by `kvpoll check --mutants --json`.\n\n"]  # fmt: skip
    parts.append(_grid(["Mutant", "killed by", "steps", "in"], rows))
    return "".join(parts).rstrip() + "\n"


def _section(title: str, findings: list[Finding], none: str) -> str:
    if not findings:
        return f"## {title}\n\n{none}\n\n"
    return f"## {title}\n\n" + _grid(["Mutant", "why"], [[f.mutant.name, why(f)] for f in findings])


def _grid(head: list[str], rows: list[list[str]]) -> str:
    return grid(head, rows).rstrip() + "\n\n"


def counted(page: str) -> int:
    """How many mutants a page is about; -1 when it does not say."""
    line = next((line for line in page.splitlines() if line.startswith(_COUNTED)), "")
    return int(line.removeprefix(_COUNTED)) if line else -1
