"""Runs many cases and keeps the books: what applies, what is blocked, what is known, and who has to be started again."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime

from msgspec.structs import replace

from kvpoll.spec.requirement import Level
from kvpoll.spec.requirements import REQUIREMENTS

from .calls import Gone, ask
from .case import Case
from .driver import Outcome, run_case
from .honesty import dishonest
from .known import Known
from .plug import About, Adapter, Make, Unsupported
from .result import CaseResult, Implementation, RequirementText, Result, Suite, Verdict, text_of
from .watch import declared

__all__ = ["VERSION", "Runner", "must", "requirement_texts", "run_suite", "sample"]

#: Of the suite: what is asked. Requirements and case ids that are new, renamed or gone are told in the change log.
VERSION = "0.1"
#: Room numbers of one case, and where they begin.
_ROOMS, _FIRST = 16, 1_000
_GOOD = frozenset({Verdict.PASS, Verdict.NON_STRICT})


class Runner:
    """One implementation under test. Starts it again whenever it is gone. Use it as a context."""

    def __init__(self, make: Make, profiles: frozenset[str] | None = None, first_room: int = _FIRST) -> None:
        self.make = make
        self.adapter: Adapter = make()
        self.about: About = self.adapter.about()
        self.profiles = self.about.profiles if profiles is None else profiles & self.about.profiles
        self.tags = declared(self.about)
        self.verdicts: dict[str, Verdict] = {}
        self._room = first_room
        self._fresh = True
        self._down = False

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        with suppress(Gone, Unsupported):  # it may be gone already
            ask(self.adapter.close)

    def _start(self) -> str:
        """Start another one, where the last is gone. Why that cannot be; empty when it can."""
        if self._down:
            try:
                self.adapter = self.make()
            except Gone as gone:
                return f"it does not start again: {gone.reason}"
            self._down, self._fresh = False, True
        return ""

    def rooms(self) -> int:
        """The first of some numbers that no case had."""
        self._room += _ROOMS
        return self._room

    def refused(self) -> str:
        """Why this plug cannot be believed; empty when it can."""
        try:
            return dishonest(self.adapter, self.about, self.rooms())
        except (Gone, Unsupported) as error:
            return f"the plug fails before the first case: {error}"

    def lacks(self, case: Case) -> str:
        """Why a case does not apply; empty when it does."""
        missing = [need for need in case.needs if need not in self.tags]
        if missing:
            return f"not declared: {', '.join(missing)}"
        return "" if case.profile in self.profiles else f"profile {case.profile} is not claimed"

    def run(self, case: Case, repeat: int = 1, traces: bool = True) -> CaseResult:
        """Run a case, so many times, and say what was found."""
        started = time.perf_counter()
        lacks = self.lacks(case)
        before = self.verdicts.get(case.prerequisite, Verdict.PASS)
        if lacks:
            outcome = Outcome(Verdict.UNSUPPORTED, lacks, (), ())
        elif before not in _GOOD:
            outcome = Outcome(Verdict.BLOCKED, f"{case.prerequisite} is {before.value}", (), ())
        else:
            outcome = self._repeated(case, repeat)
        self.verdicts[case.id] = outcome.verdict
        applies = [id for id in case.requirements if self._applies(id)]
        ids = tuple(dict.fromkeys([*applies, *outcome.broken])) or case.requirements
        return CaseResult(
            id=case.id, title=case.title, requirements=ids, level=case.level.value, role=case.role, verdict=outcome.verdict,
            reason=outcome.reason, seconds=round(time.perf_counter() - started, 6), trace=outcome.trace if traces else (),
            prerequisite=case.prerequisite, broken=outcome.broken,
        )  # fmt: skip

    def _applies(self, id: str) -> bool:
        wanted = REQUIREMENTS[id]
        return wanted.profile in self.profiles and set(wanted.needs) <= self.tags

    def _repeated(self, case: Case, repeat: int) -> Outcome:
        first = self._once(case)
        for turn in range(2, repeat + 1):
            again = self._once(case)
            if (again.verdict, again.broken) != (first.verdict, first.broken):
                said = f"{first.verdict.value} at first, {again.verdict.value} the time number {turn}"
                reason = next(each for each in (again.reason, first.reason) if each)
                return Outcome(Verdict.FLAKY, f"{said}: {reason}", again.broken or first.broken, again.trace)
        return first

    def _once(self, case: Case) -> Outcome:
        if down := self._start():
            return Outcome(Verdict.CRASH, down, (), ())
        outcome = run_case(self.adapter, self.about, case, self.rooms(), self.profiles, self._fresh)
        if outcome.verdict in (Verdict.CRASH, Verdict.TIMEOUT):
            self._close()
            self._down = True
            return outcome
        self._fresh = outcome.verdict is not Verdict.PASS or any(step.verb == "fault" for step in case.script)
        return outcome


def run_suite(
    make: Make, cases: Sequence[Case], *, every: Iterable[str] | None = None, profiles: frozenset[str] | None = None,
    known: Known | None = None, today: date | None = None, repeat: int = 1, traces: bool = True,
    progress: Callable[[CaseResult], None] | None = None, environment: dict[str, str] | None = None,
) -> Result:  # fmt: skip
    """Run cases against what ``make`` makes. ``every``: ids of all cases there are (lines of ``known`` may speak for cases
    that are not run); ``repeat``: run each so many times, and call flaky what does not always end the same way.

    Raises :class:`Gone` when the implementation cannot be started at all."""
    started, clock = datetime.now(UTC), time.perf_counter()
    results: list[CaseResult] = []
    with Runner(make, profiles) as runner:
        about = runner.about
        refused = runner.refused()
        if not refused:
            for each in cases:
                found = _known(runner.run(each, repeat, traces), known)
                results.append(found)
                if progress is not None:
                    progress(found)
        tested = sorted(runner.profiles)
    problems: tuple[str, ...] = ()
    if known is not None:
        ids = [each.id for each in cases] if every is None else every
        problems = known.problems(ids, today or started.date())
    return Result(
        suite=Suite("kvpoll conformance", VERSION),
        implementation=Implementation(about.name, about.version, tuple(sorted(about.capabilities)), tuple(sorted(about.faults))),
        profile="+".join(tested), started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 3), environment=_environment() | about.environment | (environment or {}),
        requirements=requirement_texts(tested), cases=tuple(results), problems=problems, refused=refused,
    )  # fmt: skip


def requirement_texts(profiles: Iterable[str]) -> tuple[RequirementText, ...]:
    """The requirements of these profiles, for reports."""
    return tuple(text_of(each) for each in REQUIREMENTS.values() if each.profile in set(profiles))


def must(cases: Iterable[Case]) -> list[Case]:
    """Those that are about a MUST."""
    return [each for each in cases if each.level is Level.MUST]


def sample(cases: Iterable[Case], most: int) -> list[Case]:
    """At most so many of each subject (an id without its last part), the first ones: for slow engines, and a first look."""
    count: Counter[str] = Counter()
    picked = []
    for each in cases:
        subject = each.id.rpartition("/")[0]
        count[subject] += 1
        if count[subject] <= most:
            picked.append(each)
    return picked


def _known(found: CaseResult, known: Known | None) -> CaseResult:
    if known is None:
        return found
    verdict, reason, link = known.judge(found.id, found.verdict, found.reason)
    if verdict is found.verdict:
        return found
    return replace(found, verdict=verdict, reason=reason, link=link, found=found.verdict)


def _environment() -> dict[str, str]:
    return {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
