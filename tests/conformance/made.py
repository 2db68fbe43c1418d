"""Results as a run could have written them, made up: the same arguments make the same result."""

from __future__ import annotations

from random import Random

from kvpoll.model_tests.conformance.result import (
    CaseResult,
    Implementation,
    RequirementText,
    Result,
    Suite,
    TraceStep,
    Verdict,
)

__all__ = ["SUITE", "made", "one_case", "requirements"]

SUITE = Suite("kvpoll conformance", "2026.12")
_SECTIONS = ("States", "Ordering", "Memory", "Endings", "Chunks", "Faults", "Restarts", "Wire")
_TEXTS = (
    "A side that has told Success or Failed for a room tells it forever, until the room is cleared.",
    "Nothing is written into pages of a room after the decode side was told that they are free again, whatever became of the "
    "movement that was under way.",
    "Success at the decode side means that every byte of every page is there.",
    "A room that cannot go on ends as Failed within the time that the engine declares for it.",
    "A refused call changes nothing: the state before and after is the same.",
)
_FOUND = {Verdict.KNOWN_FAILING: Verdict.FAIL, Verdict.STALE: Verdict.PASS, Verdict.FLAKY: Verdict.FAIL}
_REASONS = {
    Verdict.FAIL: (
        "page 3 holds 64 bytes of the pattern of room 7 after released(decode, 7)",
        "Success was told, 2 of 4 pages arrived",
    ),
    Verdict.CRASH: ("the testee left with exit status 3 during poll(decode, 1)",),
    Verdict.TIMEOUT: ("poll(prefill, 1) did not come back within 2.0 s",),
    Verdict.STALE: ("listed as fail, and it passed: take the line out",),
    Verdict.FLAKY: ("3 of 20 times fail, else pass",),
    Verdict.NON_STRICT: ("why() says nothing for a failed room",),
    Verdict.KNOWN_FAILING: ("a decode that was never sent to ends by its timeout only",),
    Verdict.BLOCKED: ("its prerequisite states/life/0 did not pass",),
    Verdict.UNSUPPORTED: ("needs chunks", "needs mover_stalls"),
    Verdict.PASS: ("",),
}


def requirements(count: int) -> tuple[RequirementText, ...]:
    made = []
    for number in range(count):
        section = _SECTIONS[number * len(_SECTIONS) // max(count, len(_SECTIONS))]
        made.append(
            RequirementText(
                id=f"KVX-{section.lower()}-{number + 1}",
                level=("MUST", "MUST", "MUST", "SHOULD", "MAY")[number % 5],
                role=("both", "prefill", "decode")[number % 3],
                section=section,
                text=_TEXTS[number % len(_TEXTS)],
                profile="kvpoll" if number % 11 == 10 else "common",
                needs=("chunks",) if number % 7 == 6 else (),
            )
        )
    return tuple(made)


def trace(chance: Random, verdict: Verdict, broken: str, rooms: int) -> tuple[TraceStep, ...]:
    at, steps = 0.0, [TraceStep("suite", "begin", "", 0.0)]
    for room in range(1, rooms + 1):
        for who, what, detail in (
            ("decode", "create", f"room={room} pages=4"), ("prefill", "create", f"room={room} pages=4"), ("decode", "init", ""),
            ("decode", "metadata", f"room={room} pages=[{room * 4}, {room * 4 + 1}, {room * 4 + 2}, {room * 4 + 3}]"),
            ("prefill", "init", ""), ("prefill", "poll 1 -> 2", ""), ("prefill", "send", f"room={room} last=True"),
            ("prefill", "poll 2 -> 3", ""), ("decode", "poll 1 -> 3", ""), ("suite", "fault mover_error", "at prefill"),
            ("prefill", "poll 3 -> 4", ""), ("decode", "poll 3 -> 4", ""), ("suite", "expect Success", "at both sides"),
        ):  # fmt: skip
            at += chance.choice((0.001, 0.004, 0.12))
            steps.append(TraceStep(who, what, detail, round(at, 3)))
    if verdict is not Verdict.PASS and broken:
        steps.append(TraceStep("suite", f"broken {broken}", chance.choice(_REASONS[verdict]), round(at + 0.5, 3)))
    return tuple(steps)


def made(
    name: str, *, count: int = 30, cases: int = 60, seed: int = 1, bad: float = 0.2, version: str = "1.0"
) -> Result:
    """``bad``: about so many of the cases do not pass."""
    chance, texts = Random(f"{name}{seed}"), requirements(count)
    others = [v for v in Verdict if v is not Verdict.PASS]
    weights = [9 if v in (Verdict.FAIL, Verdict.UNSUPPORTED) else 5 if v is Verdict.NON_STRICT else 2 for v in others]
    found = []
    for number in range(cases):
        own = texts[number % count]
        judged = dict.fromkeys([own.id, *(r.id for r in chance.sample(texts, chance.choice((0, 0, 1))))])
        verdict = chance.choices(others, weights)[0] if chance.random() < bad else Verdict.PASS
        if verdict in (Verdict.FAIL, Verdict.NON_STRICT):
            verdict = Verdict.FAIL if own.level == "MUST" else Verdict.NON_STRICT
        wrong = verdict in (Verdict.FAIL, Verdict.NON_STRICT, Verdict.KNOWN_FAILING, Verdict.FLAKY)
        run = verdict not in (Verdict.UNSUPPORTED, Verdict.BLOCKED)
        found.append(
            CaseResult(
                id=f"{own.section.lower()}/{('life', 'abort', 'late-write', 'lost-metadata')[number % 4]}/{number}",
                title=f"{own.section}: the {('prefill', 'decode')[number % 2]} side goes through its life, variant {number}",
                requirements=tuple(judged), level=own.level, role=own.role, verdict=verdict,
                reason=chance.choice(_REASONS[verdict]), seconds=round(chance.random() / 3, 4),
                trace=trace(chance, verdict, own.id if wrong else "", chance.choice((1, 1, 2))) if run else (),
                prerequisite=f"{texts[0].section.lower()}/life/0" if verdict is Verdict.BLOCKED else "",
                broken=(own.id,) if wrong else (),
                found=_FOUND.get(verdict),
                link="https://example.org/issues/12" if verdict is Verdict.KNOWN_FAILING else "",
            )
        )  # fmt: skip
    return Result(
        suite=SUITE, implementation=Implementation(name, version, ("push", "abort", "memory"), ("mover_error",)),
        profile="common", started="2026-11-30T03:00:00Z", seconds=round(cases * 0.02, 2),
        environment={"python": "3.11.9", "machine": "x86_64"}, requirements=texts, cases=tuple(found),
    )  # fmt: skip


def one_case(verdict: Verdict, **changed: object) -> Result:
    """A run of one case of one requirement. ``changed``: fields of the case."""
    fields: dict[str, object] = {
        "id": "states/life/0", "title": "a whole life", "requirements": ("KVX-states-1",), "level": "MUST", "role": "both",
        "reason": "" if verdict is Verdict.PASS else "so it is", "trace": (TraceStep("prefill", "create"),), **changed,
    }  # fmt: skip
    case = CaseResult(verdict=verdict, **fields)  # type: ignore[arg-type]
    return Result(
        suite=SUITE, implementation=Implementation("one", "1"), profile="common", started="2026-11-30T03:00:00Z", seconds=0.1,
        environment={}, requirements=requirements(1), cases=(case,),
    )  # fmt: skip
