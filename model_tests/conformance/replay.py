"""The third plug, which is none: recorded traces, judged requirement by requirement.

A trace tells of every end of every room how its state moved and why. That is enough for what poll() would have told, for the
order of ends, and, line by line, for the tables; it says nothing of bytes or memory. See ``docs/traces.md`` for the format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from kvpoll.protocol.trace import Checker
from kvpoll.protocol.trace.lines import Line, TraceError, decode
from kvpoll.spec import KVPoll
from kvpoll.spec.requirements import REQUIREMENTS

from .result import CaseResult, Implementation, Result, Suite, TraceStep, Verdict
from .run import VERSION, requirement_texts

__all__ = ["judge_traces"]

#: Lines of a story that are shown, and ends that are followed.
_SHOWN, _ENDS = 60, 1_000_000
_STATES = {state.name: int(state) for state in KVPoll}


class _Step(NamedTuple):
    t: int
    event: str
    before: str
    after: str
    cause: str


class _End(NamedTuple):
    """One end of one attempt, as the trace tells it."""

    instance: str
    role: str
    no: int
    room: int | None
    pair: tuple[str, int | None]  #: engine and gen, once known
    steps: list[_Step]

    @property
    def state(self) -> str:
        return self.steps[-1].after

    @property
    def who(self) -> str:
        return f"{self.role} {self.no} of {self.instance} (room {self.room})"


def judge_traces(files: Iterable[tuple[str, bytes]], name: str = "recorded traces") -> Result:
    """Judge traces: names and contents of files, of all processes together. Each requirement that a trace can tell about is
    one case. Refused when no line tells of a room."""
    started, clock = datetime.now(UTC), time.perf_counter()
    checker, lines = Checker(), list[Line]()
    for file, data in files:
        checker.file(file)
        checker.feed(data, 1, True)
        lines += _read(data)
    ends, closed = _ends(lines), {line.instance for line in lines if line.end}
    cases = [_case(id, judge(ends)) for id, judge in _JUDGES.items()]
    cases.append(_case("KVX-END-1", _over([end for end in ends if end.instance in closed])))
    verdict = checker.verdict()
    table = [(f"{bad.file}:{bad.line}: {bad.says}", None) for bad in verdict.bad]
    cases.append(_case("KVX-KV-2", iter(table)))
    ids = {case.requirements[0] for case in cases}
    return Result(
        suite=Suite("kvpoll conformance", VERSION), implementation=Implementation(name, "", ("trace",)), profile="common+kvpoll",
        started=started.isoformat(timespec="seconds"), seconds=round(time.perf_counter() - clock, 3),
        environment={"lines": str(verdict.lines), "ends of rooms": str(len(ends)), "rooms": str(verdict.rooms)},
        requirements=tuple(each for each in requirement_texts(("common", "kvpoll")) if each.id in ids),
        cases=tuple(cases) if ends else (), refused="" if ends else "no line of these files tells of a room",
    )  # fmt: skip


def _read(data: bytes) -> Iterator[Line]:
    for raw in data.splitlines():
        if raw.strip():
            try:
                yield decode(raw)
            except TraceError:
                continue  # the checker has said so


def _ends(lines: Iterable[Line]) -> list[_End]:
    found: dict[tuple[str, str, int], _End] = {}
    for line in lines:
        if line.role not in ("sender", "receiver") or not line.event:
            continue
        key = (line.instance, line.role, line.no)
        if key not in found and len(found) >= _ENDS:
            continue
        end = found.setdefault(key, _End(*key, line.room, ("", None), []))
        end.steps.append(_Step(line.t, line.event, line.before, line.after, line.cause))
        if line.gen is not None and end.pair[1] is None:
            found[key] = end._replace(pair=(line.engine, line.gen))
    return list(found.values())


_Wrong = Iterator[tuple[str, _End | None]]


def _known_states(ends: list[_End]) -> _Wrong:
    for end in ends:
        for step in end.steps:
            if step.after not in _STATES:
                yield f"{end.who} went to {step.after!r}", end


def _absorbing(ends: list[_End]) -> _Wrong:
    for end in ends:
        for step in end.steps:
            if step.before in ("Success", "Failed") and step.after != step.before:
                yield f"{end.who} went from {step.before} to {step.after} on {step.event}", end


def _forward(ends: list[_End]) -> _Wrong:
    for end in ends:
        for step in end.steps:
            before, after = _STATES.get(step.before, 0), _STATES.get(step.after, 0)
            if step.before not in ("Success", "Failed") and 0 < after < before:
                yield f"{end.who} went back from {step.before} to {step.after} on {step.event}", end


def _order(ends: list[_End]) -> _Wrong:
    states = {end.pair: end.state for end in ends if end.role == "receiver"}
    own = {(end.instance, end.no): end for end in ends if end.role == "receiver"}
    for end in ends:
        if end.role == "sender" and end.state == "Success" and end.pair[1] is not None:
            heard = states.get(end.pair) or next(
                (e.state for (_, no), e in own.items() if (no, e.room) == (end.pair[1], end.room)), ""
            )
            if heard == "Failed":
                yield f"{end.who} is Success and its receiver is Failed", end


def _why(ends: list[_End]) -> _Wrong:
    for end in ends:
        failing = next((s for s in end.steps if s.after == "Failed" and s.before != "Failed"), None)
        if failing is not None and not failing.cause:
            yield f"{end.who} failed on {failing.event} without a cause", end


def _aborts(ends: list[_End]) -> _Wrong:
    for end in ends:
        for step in end.steps:
            if step.event.split()[0] == "ABORT" and step.before not in ("Success", "Failed") and step.after != "Failed":
                yield f"{end.who} is {step.after} after ABORT", end


def _over(ends: list[_End]) -> _Wrong:
    for end in ends:
        if end.state not in ("Success", "Failed"):
            yield f"{end.who} is {end.state} at the end of its process", end


_JUDGES: dict[str, Callable[[list[_End]], _Wrong]] = {
    "KVX-STATE-1": _known_states,
    "KVX-STATE-2": _absorbing,
    "KVX-STATE-3": _forward,
    "KVX-DATA-3": _order,
    "KVX-KV-1": _order,
    "KVX-END-3": _why,
    "KVX-ABORT-1": _aborts,
}


def _case(id: str, wrong: _Wrong) -> CaseResult:
    """One requirement, judged over everything. The first that breaks it is shown."""
    wanted = REQUIREMENTS[id]
    found = list(wrong)
    steps: tuple[TraceStep, ...] = ()
    if found and found[0][1] is not None:
        end = found[0][1]
        steps = tuple(TraceStep(end.role, f"{s.before} -> {s.after}", s.event, s.t / 1000) for s in end.steps[-_SHOWN:])
    bad = Verdict.NON_STRICT if wanted.level.value == "SHOULD" else Verdict.FAIL
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return CaseResult(
        id=f"trace/{id}/001", title=wanted.text, requirements=(id,), level=wanted.level.value, role=wanted.role.value,
        verdict=bad if found else Verdict.PASS, reason=f"{id}: {found[0][0]}{more}" if found else "", trace=steps,
        broken=(id,) if found else (),
    )  # fmt: skip
