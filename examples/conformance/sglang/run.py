"""Run the suite against SGLang in several pairs of processes at once, and write one document.

    python examples/conformance/sglang/run.py copy --write docs/conformance/sglang-0.5.23-copy.json

The same as ``kvpoll conformance run --impl examples/conformance/sglang/adapter.py:copy``, only sooner: most of such a run is
waiting for SGLang's own time limits, so the cases are dealt out to several pairs. Exit status: that of the suite.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import adapter
from msgspec.structs import replace

from kvpoll.model_tests.conformance.case import Case
from kvpoll.model_tests.conformance.cases import all_cases
from kvpoll.model_tests.conformance.known import Known, lines_for, matcher
from kvpoll.model_tests.conformance.plug import Make
from kvpoll.model_tests.conformance.result import BAD, CaseResult, Result, Verdict, write_result
from kvpoll.model_tests.conformance.run import run_suite

__all__ = ["dealt", "merged", "not_as_known", "races"]

HERE = Path(__file__).resolve().parent
#: Families of cases that depend on what moves the data; control messages are the same code with every mover.
MOVING = "handoff/,calls/,memory/,limits/,isolation/,reuse/,faults/mover-"
#: Where our reading of the failures is, and for how long a list of them is good.
LINK, LASTS_DAYS = "docs/conformance/sglang.md", 180


def dealt(cases: list[Case], hands: int) -> list[list[Case]]:
    """The cases in so many hands, each with what its cases ask to have passed before."""
    by_id = {each.id: each for each in cases}
    found = []
    for hand in range(hands):
        wanted: dict[str, Case] = {}
        for each in cases[hand::hands]:
            if (before := by_id.get(each.prerequisite)) is not None:
                wanted.setdefault(before.id, before)
            wanted.setdefault(each.id, each)
        found.append(list(wanted.values()))
    return found


def merged(cases: list[Case], parts: list[Result], seconds: float) -> Result:
    """One document, in the order of ``cases``. Of a case that several hands had, the first one's result; of one that passed, no
    trace."""
    refused = next((part.refused for part in parts if part.refused), "")
    by_id: dict[str, CaseResult] = {}
    for part in parts:
        for result in part.cases:
            good = result.verdict in (Verdict.PASS, Verdict.UNSUPPORTED)
            by_id.setdefault(result.id, replace(result, trace=()) if good else result)
    every = () if refused else tuple(by_id[each.id] for each in cases)
    return replace(parts[0], cases=every, seconds=round(seconds, 3), refused=refused)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("mover", choices=("copy", "nixl", "mooncake"))
    arguments.add_argument("--pairs", type=int, default=4, help="pairs of processes")
    arguments.add_argument("--write", type=Path, help="the document")
    arguments.add_argument("--known-failing", type=Path, help="the file to hold the run to")
    arguments.add_argument("--write-known-failing", type=Path, help="write what fails now")
    arguments.add_argument("--only", default="", help="cases whose id begins like this, with commas between several")
    arguments.add_argument(
        "--moving", action="store_true", help=f"only cases that depend on what moves the data: {MOVING}"
    )
    said = arguments.parse_args()
    only = MOVING if said.moving else said.only
    cases = [each for each in all_cases() if each.id.startswith(tuple(only.split(",")))]
    known = Known(said.known_failing.read_text(), said.known_failing.name) if said.known_failing else None
    make: Make = getattr(adapter, said.mover)
    clock, ran = time.perf_counter(), {"cases": only or "all", "pairs": str(said.pairs)}

    def play(hand: list[Case]) -> Result:
        return run_suite(make, hand, every=[each.id for each in all_cases()], progress=_tell, environment=ran)

    with ThreadPoolExecutor(said.pairs) as pool:
        parts = list(pool.map(play, dealt(cases, said.pairs)))
    result = merged(cases, parts, time.perf_counter() - clock)
    if said.write:
        write_result(result, said.write)
    if said.write_known_failing:
        settled = [case for case in result.cases if not races(case.id)]
        said.write_known_failing.write_text(lines_for(settled, LINK, date.today() + timedelta(days=LASTS_DAYS)))
    counts = ", ".join(f"{number} {verdict.value}" for verdict, number in result.counts.most_common())
    print(f"{said.mover}: {counts}; {result.seconds:.0f} s; {result.refused or 'ran'}")
    if known is None or result.refused:
        return result.status
    wrong = list(not_as_known(result, known))
    print("\n".join(wrong) or "all as the file of known failures says")
    return 1 if wrong else 0


def not_as_known(result: Result, known: Known) -> Iterator[str]:
    """What is bad and not known, or known and not so. The document keeps what was found; only the exit status knows better."""
    for case in result.cases:
        verdict, reason, _ = known.judge(case.id, case.verdict, case.reason)
        if verdict in BAD and not races(case.id):
            yield f"{verdict.value}  {case.id}  {reason[:200]}"
    yield from known.problems([each.id for each in all_cases()], date.today())


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    lines = (HERE / "races.txt").read_text(encoding="utf-8").splitlines()
    return tuple(matcher(line) for line in lines if line and not line.startswith("#"))


def races(id: str) -> bool:
    """May this case end in more than one way?"""
    return any(pattern.fullmatch(id) for pattern in _patterns())


def _tell(found: CaseResult) -> None:
    """What is not as it should be, as it is found."""
    if found.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED):
        print(f"{found.verdict.value}  {found.id}  {found.reason[:160]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
