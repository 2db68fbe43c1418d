"""The mutation gate: does some property of some small world find every wrong row?

Each mutant is tried in the worlds of :mod:`.mutation_worlds` in which one of its rows fires, from the smallest up. Only
properties count: an invariant that does not hold, a state without a way to a good end, an action that raises, a row that
fired although its table calls it impossible. What the table checker says does not. Where all of them hold everywhere, but the
world does not end in the ways in which it ends with the right table, that counts too, by its own name (``ENDS``), for the
ends of a world are its ``sometimes``.

A mutant that nothing finds is equivalent when it does the same in every world in which its row fires; see
:meth:`.replay.Again.does_the_same`. Else it survives: either a property is missing, or the row does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from .coverage import KNOWN_IDLE, row_name
from .explorer import Violation
from .machine_worlds import MACHINE_WORLDS
from .mutants import MUTATED, Mutant, mutants
from .mutation_venues import MachineVenue, PairVenue, Venue, rows_of
from .mutation_worlds import MUTATION_WORLDS, MutationWorld

__all__ = ["ENDS", "Finding", "Report", "Sight", "Verdict", "all_mutants", "run", "sample"]

#: What a mutant violates with which a world ends in other ways than it should.
ENDS = "Sometimes"


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "survived"
    UNDETERMINED = "undetermined"
    UNREACHED = "unreached"  #: its row fires in none of these worlds


@dataclass(frozen=True)
class Sight:
    """What one world saw of a mutant that no invariant found there."""

    world: str
    how: str  #: "the same steps", "the same graph", "states that cannot be told apart"; empty: it differs
    states: int
    complete: bool = True


@dataclass
class Finding:
    """What is known of one mutant."""

    mutant: Mutant
    verdict: Verdict
    broken: str = ""  #: killed: the invariant, by name
    sentence: str = ""  #: killed: what exactly was wrong
    world: str = ""  #: killed: in which world
    trace: list[str] = field(default_factory=list)  #: killed: the shortest way to it
    sights: list[Sight] = field(default_factory=list)
    idle: str = ""  #: unreached: why no world fires the row; empty: nobody knows


@dataclass
class Report:
    """What the gate found. ``finished``: every mutant was tried in every world that it needs."""

    findings: list[Finding]
    worlds: dict[str, tuple[str, int, int]]  #: name -> budgets, states, edges
    finished: bool = True

    def of(self, verdict: Verdict) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict is verdict]

    @property
    def counts(self) -> Counter[Verdict]:
        return Counter(finding.verdict for finding in self.findings)

    @property
    def rate(self) -> float:
        """Killed, of those that are not equivalent and whose rows fire."""
        counts = self.counts
        alive = counts[Verdict.KILLED] + counts[Verdict.SURVIVED] + counts[Verdict.UNDETERMINED]
        return counts[Verdict.KILLED] / alive if alive else 1.0

    @property
    def status(self) -> int:
        """The exit status: 0 when nothing survived and nothing is undetermined (a row that no world fires is, unless it is
        known why), 1 when something survived, else 3."""
        counts = self.counts
        if counts[Verdict.SURVIVED]:
            return 1
        unknown = counts[Verdict.UNDETERMINED] or any(not each.idle for each in self.of(Verdict.UNREACHED))
        return 3 if unknown or not self.finished else 0


def all_mutants(table: str = "") -> list[Mutant]:
    """Every mutant of a table, or of all. Raises ``KeyError`` naming the tables for one that there is not."""
    if table and table not in MUTATED:
        raise KeyError(f"no table is called {table!r}; there are {', '.join(MUTATED)}")
    return [mutant for name in ([table] if table else MUTATED) for mutant in mutants(MUTATED[name])]


def sample(found: Sequence[Mutant], much: int) -> list[Mutant]:
    """So many of them, always the same, spread evenly over tables and kinds."""
    groups: dict[tuple[str, Enum], list[Mutant]] = {}
    for mutant in found:
        groups.setdefault((mutant.table, mutant.kind), []).append(mutant)
    picked = [each for group in groups.values() for each in _spread(group, max(1, len(group) * much // len(found)))]
    rest = [mutant for mutant in found if mutant not in picked]
    return _spread(picked, much) + _spread(rest, max(0, much - len(picked)))


def _spread(each: Sequence[Mutant], much: int) -> list[Mutant]:
    much = min(much, len(each))
    return [each[i * len(each) // much] for i in range(much)]


def run(
    found: Iterable[Mutant],
    worlds: Sequence[MutationWorld] = MUTATION_WORLDS,
    *,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Try every mutant. On Ctrl-C it returns what is known so far, the rest undetermined."""
    findings = [Finding(mutant, Verdict.UNREACHED) for mutant in found]
    report = Report(findings, {})
    tables = {finding.mutant.table for finding in findings}
    venues: list[tuple[str, Callable[[], Venue]]] = [
        (name, partial(MachineVenue, name)) for name, (table, *_) in MACHINE_WORLDS.items() if table in tables
    ]
    venues += [(world.name, partial(PairVenue, world)) for world in worlds]
    todo, weak = findings, dict[str, Finding]()
    try:
        for number, (name, make) in enumerate(venues, 1):
            if progress is not None:
                killed = len(findings) - len(todo)
                progress(f"world {number} of {len(venues)}, {name}: {killed} of {len(findings)} killed so far")
            if todo:
                _visit(make(), todo, report, weak)
            todo = [finding for finding in todo if finding.verdict is not Verdict.KILLED]
    except KeyboardInterrupt:
        report.finished = False
    for finding in todo:
        _conclude(finding, weak.get(finding.mutant.name), report.finished)
    return report


def _visit(venue: Venue, todo: list[Finding], report: Report, weak: dict[str, Finding]) -> None:
    report.worlds[venue.name] = (venue.faults, venue.states, venue.edges)
    for finding in todo:
        mutant = finding.mutant
        trial = venue.attempt(mutant) if rows_of(mutant) & venue.fired else None
        if trial is None:
            continue
        if trial.violation is not None:
            _kill(finding, trial.violation, venue.name, trial.trace)
            continue
        finding.sights.append(Sight(venue.name, trial.how, trial.states, trial.complete))
        if trial.ends:
            weak.setdefault(mutant.name, Finding(mutant, Verdict.KILLED, ENDS, trial.ends, venue.name))


def _kill(finding: Finding, violation: Violation, world: str, trace: list[str]) -> None:
    finding.verdict, finding.world, finding.trace = Verdict.KILLED, world, trace
    finding.broken, finding.sentence = violation.invariant, violation.sentence


def _conclude(finding: Finding, weak: Finding | None, finished: bool) -> None:
    """What a mutant is that no invariant found."""
    if weak is not None:
        finding.verdict, finding.broken = Verdict.KILLED, weak.broken
        finding.sentence, finding.world = weak.sentence, weak.world
    elif not finished or any(not sight.complete for sight in finding.sights):
        finding.verdict = Verdict.UNDETERMINED
    elif any(not sight.how for sight in finding.sights):
        finding.verdict = Verdict.SURVIVED
    elif finding.sights:
        finding.verdict = Verdict.EQUIVALENT
    else:
        finding.idle = _idle(finding.mutant)


def _idle(mutant: Mutant) -> str:
    """Why no world fires the row of a mutant, as far as it is known."""
    row = MUTATED[mutant.table].rows[mutant.row]
    names = {row_name(mutant.table, row), row_name(mutant.table, row).rsplit(" ", 1)[0]}
    known = [why for why, each in KNOWN_IDLE.items() if names & {name.strip() for name in each.split(",")}]
    return known[0] if known else ""
