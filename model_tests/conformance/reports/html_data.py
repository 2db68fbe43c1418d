"""What the script of the conformance page needs, as compact JSON: every case of every run, each text once, and the traces
of cases that did not pass, with one that did for each requirement. Traces have a budget, so that the page stays small; what
is left out is said there, and stands in the result file.

Numbers stand for places in the lists beside them: a verdict in ``verdicts``, a text in ``strings``, a case in ``cases``, a
requirement in ``requirements``, a trace in ``traces``. ``-1`` stands for none.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvpoll.protocol.render.page import data_json

from ..result import CaseResult, RequirementText, Result, TraceStep, Verdict
from .merge import Merged
from .words import MEANINGS, ORDER, name_of, verdict_for

__all__ = ["LEFT_OUT", "NO_TRACE", "Cells", "cells_of", "page_json"]

NO_TRACE = -1  #: there is none, or the case passed and another one is shown for its requirement
LEFT_OUT = -2  #: the budget was spent
#: Bytes of all traces of a page, about.
_BUDGET = 1_500_000
#: Steps of one trace: so many from its beginning and from its end.
_FIRST, _LAST = 40, 80
#: Characters of one text in a trace, and of one reason.
_DETAIL, _REASON = 240, 1200
_RANK = {verdict: rank for rank, verdict in enumerate(ORDER)}

#: By place of a requirement: the verdict of each of its cases, with the place of the case in ``Result.cases``.
Cells = list[list[tuple[Verdict, int]]]


def cells_of(result: Result, requirements: tuple[RequirementText, ...]) -> Cells:
    """A column of the matrix, the worst case of each cell first."""
    place = {requirement.id: number for number, requirement in enumerate(requirements)}
    cells: Cells = [[] for _ in requirements]
    for number, case in enumerate(result.cases):
        for name in case.requirements:
            cells[place[name]].append((verdict_for(case, requirements[place[name]]), number))
    for cell in cells:
        cell.sort(key=lambda entry: (_RANK[entry[0]], entry[1]))
    return cells


def page_json(merged: Merged, columns: list[Cells]) -> str:
    """JSON that cannot end its element: every sign that means something to HTML is escaped."""
    return data_json(_Packer(merged, columns).packed())


class _Packer:
    def __init__(self, merged: Merged, columns: list[Cells]) -> None:
        self._merged, self._columns, self._requirements = merged, columns, merged.requirements
        self._place = {requirement.id: number for number, requirement in enumerate(self._requirements)}
        self._strings: dict[str, int] = {"": 0}
        self._cases: dict[tuple[str, str, str, str, tuple[int, ...]], int] = {}
        self._traces: dict[tuple[int, ...], int] = {}
        self._spent = 0

    def packed(self) -> dict[str, object]:
        rows: list[list[list[object]]] = [
            [self._row(result, case) for case in result.cases] for result in self._merged.results
        ]
        for run, number in self._kept():
            rows[run][number][4] = self._trace(self._merged.results[run].cases[number].trace)
        runs = [
            {"name": name_of(result), "profile": result.profile, "rows": packed}
            for result, packed in zip(self._merged.results, rows, strict=True)
        ]
        return {
            "verdicts": [{"name": v.value, "letter": MEANINGS[v].letter, "says": MEANINGS[v].says} for v in ORDER],
            "requirements": [_requirement(requirement) for requirement in self._requirements],
            "cases": list(self._cases),
            "runs": runs,
            "traces": list(self._traces),
            "strings": list(self._strings),
        }

    def _kept(self) -> Iterator[tuple[int, int]]:
        """Whose trace is shown, (run, place of the case), the most telling first, for the budget may end."""
        wrong: list[tuple[int, int, int]] = []
        samples: dict[tuple[int, int], None] = {}
        for run, result in enumerate(self._merged.results):
            for number, case in enumerate(result.cases):
                if case.trace and case.verdict is not Verdict.PASS:
                    wrong.append((_RANK[case.verdict], number, run))
            for cell in self._columns[run]:
                shown = [n for verdict, n in cell if verdict is Verdict.PASS and result.cases[n].trace]
                if shown:
                    samples[(run, shown[0])] = None
        kept = dict.fromkeys((run, number) for _, number, run in sorted(wrong))
        yield from kept | samples

    def _row(self, result: Result, case: CaseResult) -> list[object]:
        requirements = tuple(self._place[name] for name in case.requirements)
        key = (case.id, case.title, case.level, case.role, requirements)
        own = [
            (self._place[name], _RANK[told])
            for name in case.requirements
            if (told := verdict_for(case, self._requirements[self._place[name]])) is not case.verdict
        ]
        row = [
            self._cases.setdefault(key, len(self._cases)), _RANK[case.verdict], self._string(case.reason, _REASON),
            round(case.seconds * 1000), NO_TRACE, self._string(case.prerequisite), [self._place[name] for name in case.broken],
            -1 if case.found is None else _RANK[case.found], self._string(case.link), own,
        ]  # fmt: skip
        rest: tuple[object, ...] = (0, [], -1, 0, [])  # left out from the end where they say nothing
        while len(row) > 5 and row[-1] == rest[len(row) - 6]:
            row.pop()
        return row

    def _trace(self, steps: tuple[TraceStep, ...]) -> int:
        if len(steps) > _FIRST + _LAST:
            left = TraceStep(who="", what=f"{len(steps) - _FIRST - _LAST} steps are left out here")
            steps = (*steps[:_FIRST], left, *steps[-_LAST:])
        size = sum(
            min(len(step.detail), _DETAIL) + len(step.what)
            for step in steps
            if step.detail[:_DETAIL] not in self._strings
        )
        if self._spent + size + 12 * len(steps) > _BUDGET:
            return LEFT_OUT
        flat: list[int] = []
        for step in steps:
            flat += [
                self._string(step.who),
                self._string(step.what, _DETAIL),
                self._string(step.detail, _DETAIL),
                round(step.at * 1000),
            ]
        key = tuple(flat)
        if key not in self._traces:
            self._spent += size + 12 * len(steps)
        return self._traces.setdefault(key, len(self._traces))

    def _string(self, text: str, most: int = 400) -> int:
        shown = text if len(text) <= most else text[: most - 1] + "…"
        return self._strings.setdefault(shown, len(self._strings))


def _requirement(requirement: RequirementText) -> dict[str, object]:
    return {
        "id": requirement.id, "level": requirement.level, "role": requirement.role, "section": requirement.section,
        "text": requirement.text, "profile": requirement.profile, "needs": requirement.needs,
    }  # fmt: skip
