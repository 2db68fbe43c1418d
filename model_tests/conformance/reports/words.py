"""What every form of a report says alike: the order of verdicts, their letters and meanings, and what a run adds up to.

A case may judge several requirements and break one of them. A report must not blame the others: :func:`verdict_for` is the
verdict of a case *for one requirement*, and everything that is told per requirement goes through it.

What an engine does not declare counts neither for it nor against it. So ``unsupported`` comes last, after ``pass``: it is
what a requirement is called only when no case judged it at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from ..result import BAD, CaseResult, RequirementText, Result, Verdict

__all__ = [
    "MEANINGS", "NOT_PASSED", "ORDER", "Finding", "Meaning", "Standing", "findings", "headline", "name_of", "plural",
    "sentence", "standing",
    "tally", "verdict_for", "worst",
]  # fmt: skip

#: From the one to look at first to the one to look at last.
ORDER = (
    Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.STALE, Verdict.FLAKY, Verdict.NON_STRICT, Verdict.KNOWN_FAILING,
    Verdict.BLOCKED, Verdict.PASS, Verdict.UNSUPPORTED,
)  # fmt: skip
NOT_PASSED = tuple(verdict for verdict in ORDER if verdict is not Verdict.PASS)
_RANK = {verdict: rank for rank, verdict in enumerate(ORDER)}
#: Verdicts that say that something was seen to go wrong, accepted or not.
_WRONG = frozenset({*BAD, Verdict.NON_STRICT, Verdict.KNOWN_FAILING}) - {Verdict.STALE}
#: Verdicts under which a case did not get to judge anything.
_UNJUDGED = frozenset({Verdict.UNSUPPORTED, Verdict.BLOCKED})


class Meaning(NamedTuple):
    letter: str  #: one letter, each its own
    says: str  #: what it means, for somebody who sees it for the first time


MEANINGS: dict[Verdict, Meaning] = {
    Verdict.PASS: Meaning("P", "No case saw the requirement broken. That is not a proof."),
    Verdict.FAIL: Meaning("F", "A MUST is broken, or a MAY that the engine declares: the trace shows how."),
    Verdict.CRASH: Meaning("C", "The testee went away, raised where it must not, or flooded its output."),
    Verdict.TIMEOUT: Meaning("T", "A call did not come back within the engine's own limits."),
    Verdict.STALE: Meaning("S", "The engine's known-failing file says that this fails, or how, and that is not so."),
    Verdict.FLAKY: Meaning("L", "Repeated, the case does not always end the same way."),
    Verdict.NON_STRICT: Meaning("N", "A SHOULD is broken, no MUST is."),
    Verdict.KNOWN_FAILING: Meaning("K", "It fails as the engine's own known-failing file says."),
    Verdict.BLOCKED: Meaning(
        "B", "Not judged: its prerequisite did not pass, or the case ended in a crash or timeout before."
    ),
    Verdict.UNSUPPORTED: Meaning("U", "Not judged: it needs what the engine does not declare."),
}


class Finding(NamedTuple):
    """Cases of one run that ended alike for the same reason: told once, so that one defect is one finding."""

    verdict: Verdict
    reason: str
    cases: tuple[CaseResult, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """The requirements that did not hold, each once; those that are judged when none is named."""
        named = dict.fromkeys(r for case in self.cases for r in case.broken)
        return tuple(named or dict.fromkeys(r for case in self.cases for r in case.requirements))


class Standing(NamedTuple):
    """How many requirements of one level stand how, in one run."""

    broken: int  #: some case saw it broken, and nobody accepted that
    accepted: int  #: broken as the engine's known-failing file says
    unjudged: int  #: every case of it was unsupported or blocked, or there was none
    held: int  #: judged by at least one case, and never seen broken


def name_of(result: Result) -> str:
    """The implementation of a run, as a column is headed."""
    return f"{result.implementation.name} {result.implementation.version}".strip()


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The one to look at first; ``None`` of none."""
    return min(verdicts, key=_RANK.__getitem__, default=None)


def verdict_for(case: CaseResult, requirement: RequirementText) -> Verdict:
    """The verdict of a case for one of the requirements that it judges.

    Where the case names what it broke, the other requirements count as held, and a broken SHOULD is non-strict even when
    the case also broke a MUST. (A MAY that an engine declares binds like a MUST.) A case that went wrong and broke nothing
    by name, as a crash does, is held against the requirement that it is about, the first one; the others it did not get to
    judge."""
    if case.verdict not in _WRONG:
        return case.verdict
    if not case.broken:
        return case.verdict if requirement.id == case.requirements[0] else Verdict.BLOCKED
    if requirement.id not in case.broken:
        return Verdict.PASS
    return Verdict.NON_STRICT if case.verdict is Verdict.FAIL and requirement.level == "SHOULD" else case.verdict


def standing(result: Result, level: str) -> Standing:
    """Of the requirements of this level."""
    broken = accepted = unjudged = held = 0
    for requirement in result.requirements:
        if requirement.level != level:
            continue
        verdicts = {verdict_for(_as_found(case), requirement) for case in result.of(requirement.id)}
        if verdicts <= _UNJUDGED:
            unjudged += 1
        elif verdicts & (_WRONG - {Verdict.KNOWN_FAILING}):
            broken += 1
        elif Verdict.KNOWN_FAILING in verdicts:
            accepted += 1
        else:
            held += 1
    return Standing(broken, accepted, unjudged, held)


def _as_found(case: CaseResult) -> CaseResult:
    """A stale line says something of a file; what the engine did is what was found."""
    return replace(case, verdict=case.found) if case.verdict is Verdict.STALE and case.found else case


def headline(result: Result) -> str:
    """The one sentence about a run. It claims no more than the cases can."""
    if result.refused:
        return "Not judged: the run was refused."
    if not result.cases:
        return "Not judged: no case was run."
    must = standing(result, "MUST")
    judged = must.broken + must.accepted + must.held
    if must.broken:
        return f"{must.broken} of {judged} judged MUST requirements did not hold."
    counts = result.counts
    others = [f"{counts[v]} {v.value}" for v in (Verdict.STALE, Verdict.FLAKY) if counts[v]]
    if may := standing(result, "MAY").broken:
        others.insert(0, f"{may} declared MAY did not hold")
    if result.problems:
        others.append(plural(len(result.problems), "problem") + " of its known-failing file")
    also = f", but {' and '.join(others)}" if others else ""
    if must.accepted:
        return (
            f"{must.accepted} of {judged} judged MUST requirements did not hold, as its known-failing file says{also}."
        )
    if not judged:
        return f"No MUST requirement was judged{also}."
    return f"All {judged} judged MUST requirements held in these cases{also}."


def sentence(result: Result) -> str:
    """The second sentence: what was not judged, and which SHOULD is broken. Empty when there is nothing to say."""
    must, should = standing(result, "MUST"), standing(result, "SHOULD")
    said = []
    if must.unjudged and result.cases:
        said.append(f"{must.unjudged} MUST not judged")
    if should.broken:
        said.append(f"{should.broken} SHOULD did not hold")
    return "; ".join(said)


def tally(counts: Counter[Verdict]) -> str:
    """ "3 fail, 12 unsupported, 585 pass", the worst first; "no cases" of none."""
    return ", ".join(f"{counts[v]} {v.value}" for v in ORDER if counts[v]) or "no cases"


def findings(result: Result, verdicts: Iterable[Verdict] = NOT_PASSED) -> list[Finding]:
    """The cases with one of these verdicts, grouped by verdict and reason, the worst and the most frequent first."""
    wanted = frozenset(verdicts)
    groups: dict[tuple[Verdict, str], list[CaseResult]] = {}
    for case in result.cases:
        if case.verdict in wanted:
            groups.setdefault((case.verdict, case.reason), []).append(case)
    found = [Finding(verdict, reason, tuple(cases)) for (verdict, reason), cases in groups.items()]
    return sorted(found, key=lambda f: (_RANK[f.verdict], -len(f.cases), f.cases[0].id))


def plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
