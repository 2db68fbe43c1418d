"""What a check says: of each world, of each invariant over all of them, of each row, and in one word.

PROVED means that everything was seen and nothing was wrong with it, in these worlds and within their budgets. REFUTED comes
with a counterexample, or with an end that should not be, or is missing. UNDETERMINED is all else: a search that was cut
short proves nothing. An invariant of which some situation was never met is VACUOUS, which fails a whole selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from .counterexample import Counterexample
from .coverage import Fired, RowReport, Standing, judge_rows
from .explorer import Result
from .named import NamedWorld
from .properties import PROPERTIES, Kind, Property, mark

__all__ = ["PropertyReport", "Report", "Verdict", "WorldReport"]


class Verdict(Enum):
    """Of a world, an invariant, or a whole check."""

    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNDETERMINED = "UNDETERMINED"
    VACUOUS = "VACUOUS"  #: of an invariant only
    TESTED = "TESTED"  #: of an invariant only: these worlds cannot express it, tests hold it


@dataclass(frozen=True)
class WorldReport:
    """One world, searched. ``partial``: it was searched for rows, and claims nothing."""

    world: NamedWorld
    result: Result
    seconds: float
    fired: Fired
    counterexample: Counterexample | None = None
    partial: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.result.violation is not None:
            return Verdict.REFUTED
        if not self.result.complete:
            return Verdict.UNDETERMINED
        return Verdict.PROVED if set(self.result.outcomes) == self.world.ends else Verdict.REFUTED

    @property
    def reason(self) -> str:
        """Why it is not PROVED."""
        result, ends = self.result, set(self.result.outcomes)
        if result.violation is not None:
            return f"{result.violation.invariant}: {result.violation.sentence}"
        if not result.complete:
            return f"{result.stopped}: {result.frontier} of {result.states} states were not searched"
        said = [f"never ends as {end!r}" for end in sorted(self.world.ends - ends)]
        said += [f"ends as {end!r}, which nobody expected" for end in sorted(ends - self.world.ends)]
        return "; ".join(said)


@dataclass(frozen=True)
class PropertyReport:
    """One invariant over all worlds. ``met``: its situations, with the world and the number of steps that met each first;
    ``missing``: those that no world met."""

    property: Property
    verdict: Verdict
    worlds: int  #: that were searched to the end without it being broken
    met: dict[str, tuple[str, int]]
    missing: tuple[str, ...]
    broken_in: tuple[str, ...] = ()


@dataclass
class Report:
    """A whole check. ``whole``: of a selection of which rows and situations are judged; of single worlds they are not."""

    whole: bool
    mutant: str = ""
    worlds: list[WorldReport] = field(default_factory=list)
    reach: list[WorldReport] = field(default_factory=list)
    unsearched: list[NamedWorld] = field(default_factory=list)  #: the check was interrupted before them

    @property
    def complete(self) -> bool:
        """Was everything searched that should be?"""
        return not self.unsearched and all(w.result.complete for w in self.worlds)

    def properties(self) -> list[PropertyReport]:
        """Every invariant, and every other name that a world gave to what broke it."""
        names = {w.result.broken for w in (*self.worlds, *self.reach)} - {"", *PROPERTIES}
        others = [Property(name, Kind.ALWAYS, "a claim of a world's own") for name in sorted(names)]
        return [self._judge(each) for each in (*PROPERTIES.values(), *others)]

    def _judge(self, each: Property) -> PropertyReport:
        met: dict[str, tuple[str, int]] = {}
        for situation in each.sometimes:
            name = mark(each.name, situation)
            ways = [(len(w.result.marks[name]), w.world.name) for w in self.worlds if name in w.result.marks]
            if ways:
                steps, world = min(ways)
                met[situation] = (world, steps)
        missing = tuple(situation for situation in each.sometimes if situation not in met)
        broken_in = tuple(w.world.name for w in self._all() if w.result.broken == each.name)
        complete = sum(w.result.complete and w.result.broken != each.name for w in self.worlds)
        if broken_in:
            verdict = Verdict.REFUTED
        elif each.kind is Kind.TESTS:
            verdict = Verdict.TESTED
        elif not self.complete:
            verdict = Verdict.UNDETERMINED
        else:
            verdict = Verdict.VACUOUS if missing else Verdict.PROVED
        return PropertyReport(each, verdict, complete, met, missing, broken_in)

    def rows(self) -> list[RowReport]:
        """Every row of every table."""
        return judge_rows((w.world.name, w.fired) for w in self._all())

    def _all(self) -> Sequence[WorldReport]:
        return [*self.worlds, *self.reach]

    @property
    def failures(self) -> list[str]:
        """Everything that makes it REFUTED, in words."""
        found = [
            f"{w.world.name}: {w.reason}" for w in self._all() if w.verdict is Verdict.REFUTED and not self._cut(w)
        ]
        if self.whole and self.complete:
            found += [
                f"{p.property.name} is vacuous: it never happens that {situation}"
                for p in self.properties()
                for situation in p.missing
            ]
            found += [
                f"row {r.table} {r.row.state.name} {r.row.event.name} is {r.standing.value}: {r.why}"
                for r in self.rows()
                if r.bad or (r.standing is Standing.WALL and not r.alone)
            ]
        return found

    @staticmethod
    def _cut(report: WorldReport) -> bool:
        """A partial search has no ends to compare."""
        return report.partial and report.result.violation is None

    @property
    def verdict(self) -> Verdict:
        if self.failures:
            return Verdict.REFUTED
        return Verdict.PROVED if self.complete and self.worlds else Verdict.UNDETERMINED

    @property
    def exit_code(self) -> int:
        """0 PROVED, 1 REFUTED, 3 UNDETERMINED; 2 is for what cannot be checked at all."""
        return {Verdict.PROVED: 0, Verdict.REFUTED: 1}.get(self.verdict, 3)
