"""Is the suite any good? Seeded mutants of the reference, through the public plug.

Two kinds. Wrong rows: :mod:`kvpoll.model_tests.mutants` makes tables with one row wrong, and the suite runs the cases in which
that row fires (some of every family, when there are many), with a push and with a pull transport. Wrong engines:
:mod:`.wrong`. A mutant is killed when a case does not pass that passes without it. It is equivalent at the plug when every one
of these cases sees exactly the same as without it: no black-box suite could tell. Else it survives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest

from kvpoll.protocol.errors import KvpollError
from kvpoll.spec.table import Table

from ..mutants import MUTATED, Mutant, mutated
from ..mutation import all_mutants, sample
from ..tables import RULES, instead, nodes_of
from .case import Case
from .cases import all_cases
from .driver import Outcome, run_case
from .plug import Adapter
from .reference import Reference, Setting
from .result import Verdict
from .run import Runner
from .wrong import WRONG
from .wrong_more import WRONG_MORE
from .wrong_ranks import WRONG_RANKS

__all__ = ["Fate", "Finding", "Gate", "wrong_engines"]

_SETTINGS = (Setting(), Setting(push=False))
_ROOM = 1000
#: Families about gates, stops, commits, meetings, lies and new attempts.
_LATER = ("gates/", "stop/", "commit/", "meet/", "quiet/", "forged/", "attempts/")


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"  #: at the plug
    SURVIVED = "survived"
    UNREACHED = "unreached"  #: no case fires its row


@dataclass(frozen=True)
class Finding:
    """One mutant. ``case`` and ``reason``: what killed it, or where it was seen to differ."""

    name: str
    fate: Fate
    case: str = ""
    reason: str = ""


@dataclass
class _Seen:
    """One case with the right tables: what it saw, and which rows it fires."""

    case: Case
    setting: Setting
    outcome: Outcome
    cost: int


@dataclass
class Gate:
    """The cases, run once with the tables as they are. ``most``: cases that are tried for one row and transport."""

    most: int = 200
    by_row: dict[tuple[str, int], list[_Seen]] = field(default_factory=dict)
    cases: int = 0

    def prepare(self, cases: Iterable[Case] | None = None, progress: Callable[[str], None] | None = None) -> None:
        """Run every case once per transport, and note the rows that it fires."""
        for setting in _SETTINGS:
            about = Reference(setting).about()
            for case in all_cases() if cases is None else cases:
                if not set(case.needs) <= about.capabilities | about.faults | {
                    need for need in case.needs if ":" in need
                }:
                    continue
                for table in MUTATED.values():
                    _forget(table)
                outcome = _run(case, setting)
                self.cases += 1
                if outcome.verdict is not Verdict.PASS:
                    raise ValueError(f"{case.id} must pass with the tables as they are: {outcome.reason}")
                seen = _Seen(case, setting, outcome, len(outcome.trace))
                for row in _fired():
                    self.by_row.setdefault(row, []).append(seen)
            if progress is not None:
                progress(f"{self.cases} cases, {len(self.by_row)} rows fire")
        for each in self.by_row.values():
            each.sort(key=lambda seen: seen.cost)

    def attempt(self, mutant: Mutant) -> Finding:
        """Try one."""
        tries: dict[int, _Seen] = {}
        for number, _ in mutant.rows:
            for seen in _spread(self.by_row.get((mutant.table, number), []), 2 * self.most):
                tries[id(seen)] = seen
        if not tries:
            return Finding(mutant.name, Fate.UNREACHED)
        differs = ""
        with instead(mutated(mutant)):
            for seen in tries.values():
                outcome = _run(seen.case, seen.setting)
                if outcome.verdict is not Verdict.PASS:
                    return Finding(mutant.name, Fate.KILLED, seen.case.id, outcome.reason)
                if not differs and outcome.trace != seen.outcome.trace:
                    differs = seen.case.id
        return Finding(mutant.name, Fate.SURVIVED if differs else Fate.EQUIVALENT, differs)

    def run(
        self, table: str = "", much: int | None = None, progress: Callable[[str], None] | None = None
    ) -> list[Finding]:
        """Try the mutants of a table (all of them, if empty), or so many, spread evenly."""
        mutants = all_mutants(table)
        chosen: Sequence[Mutant] = mutants if much is None else sample(mutants, much)
        found = []
        for at, mutant in enumerate(chosen, 1):
            found.append(self.attempt(mutant))
            if progress is not None and at % 50 == 0:
                progress(f"{at} of {len(chosen)}: {summary(found)}")
        return found


def wrong_engines(cases: Sequence[Case] | None = None) -> list[Finding]:
    """Run the suite against every wrong engine until it is found out."""
    every = all_cases() if cases is None else cases
    return [_engine(name, make, _likely(name, every)) for name, make in WRONG.items()]


def _likely(name: str, cases: Sequence[Case]) -> list[Case]:
    """The families first in which an engine is likely to be found out: all of them are run, as long as it is not."""
    first = ("ranks/",) if name in WRONG_RANKS else _LATER if name in WRONG_MORE else ()
    return sorted(cases, key=lambda case: not case.id.startswith(first)) if first else list(cases)


def _engine(name: str, make: Callable[[], Adapter], cases: Sequence[Case]) -> Finding:
    with Runner(make) as runner:
        refused = runner.refused()
        if refused:
            return Finding(name, Fate.KILLED, "probe", refused)
        for case in cases:
            found = runner.run(case)
            if found.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED):
                return Finding(name, Fate.KILLED, found.id, found.reason)
    return Finding(name, Fate.SURVIVED)


def rate(found: Iterable[Finding]) -> float:
    """Killed, of those that are reached and not equivalent."""
    counts = Counter(each.fate for each in found)
    alive = counts[Fate.KILLED] + counts[Fate.SURVIVED]
    return counts[Fate.KILLED] / alive if alive else 1.0


def summary(found: Sequence[Finding]) -> str:
    """One line."""
    counts = Counter(each.fate for each in found)
    told = ", ".join(f"{counts[fate]} {fate.value}" for fate in Fate)
    return f"{len(found)} mutants: {told}; kill rate {rate(found):.1%}"


def _run(case: Case, setting: Setting) -> Outcome:
    """One case. A core that raises is one that is found out."""
    adapter = Reference(setting)
    try:
        return run_case(adapter, adapter.about(), case, _ROOM, adapter.about().profiles)
    except (KvpollError, AssertionError, LookupError, ValueError, TypeError, AttributeError) as error:
        return Outcome(Verdict.CRASH, f"{type(error).__name__}: {error}", (), ())


def _forget(table: Table) -> None:
    """No row of this table has fired yet."""
    for node in nodes_of(RULES[table.name]):
        node.edges.clear()


def _fired() -> list[tuple[str, int]]:
    found = []
    for name, table in MUTATED.items():
        rows = {id(edge.row) for node in nodes_of(RULES[name]) for edge in node.edges.values()}
        found += [(name, number) for number, row in enumerate(table.rows) if id(row) in rows]
    return found


def _spread(each: Sequence[_Seen], most: int) -> list[_Seen]:
    """So many of them: one of every family in turn, the shortest first."""
    families: dict[str, list[_Seen]] = {}
    for seen in each:
        families.setdefault(seen.case.id.rpartition("/")[0], []).append(seen)
    picked = [seen for turn in zip_longest(*families.values()) for seen in turn if seen is not None]
    return picked[:most]
