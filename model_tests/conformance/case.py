"""What a case is: a script, the requirements that it judges, and what must have passed before it makes sense."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from kvpoll.spec.requirement import Level, Requirement
from kvpoll.spec.requirements import REQUIREMENTS

from .book import FORGED
from .step import Step, needs_of, steps, text_of

__all__ = ["Case", "case", "strictest"]

_FIRST = "handoff/plain/001"
_RANK = {Level.MUST: 0, Level.SHOULD: 1, Level.MAY: 2}


@dataclass(frozen=True)
class Case:
    """One case. ``requirements`` names what it is about first; the laws that its script touches follow."""

    id: str  #: "family/subject/index": stable
    title: str
    script: tuple[Step, ...]
    requirements: tuple[str, ...]
    prerequisite: str = _FIRST
    profile: str = "common"  #: "kvpoll": only for implementations that claim that profile
    covers: tuple[str, ...] = field(default=(), compare=False)  #: rows and pairs of rows that it was generated for

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """What an engine must declare: what the script does, and what the requirements it is about ask for."""
        own = {need for id in self.about for need in REQUIREMENTS[id].needs}
        return tuple(sorted({*needs_of(self.script), *own}))

    @cached_property
    def about(self) -> tuple[str, ...]:
        """The requirements that it was written for; without any, the laws."""
        laws = set(_laws(self.script))
        return tuple(id for id in self.requirements if id not in laws)

    @cached_property
    def level(self) -> Level:
        return strictest(self.about or self.requirements).level

    @property
    def role(self) -> str:
        return strictest(self.about or self.requirements).role.value

    def lines(self) -> list[str]:
        return [text_of(step) for step in self.script]


def case(
    id: str, title: str, script: str | Iterable[str], about: str = "", *, prerequisite: str = _FIRST,
    profile: str = "common", covers: Iterable[str] = (),
) -> Case:  # fmt: skip
    """Make a case. ``about``: requirement ids it was written for; the laws of its script are added. Raises ``KeyError`` for
    an id that no requirement has, ``ValueError`` for a line that is no step."""
    script_ = steps(script)
    ids = [f"KVX-{each}" for each in about.split()]
    for each in ids:
        REQUIREMENTS[each]
    every = tuple(dict.fromkeys([*ids, *_laws(script_)]))
    return Case(id, title, script_, every, "" if id == prerequisite else prerequisite, profile, tuple(covers))


def strictest(ids: Iterable[str]) -> Requirement:
    """The first of the strictest."""
    return min((REQUIREMENTS[id] for id in ids), key=lambda each: _RANK[each.level])


def _laws(script: tuple[Step, ...]) -> list[str]:
    """What is judged in every case, as far as its script touches it. The driver does."""
    verbs = {step.verb for step in script if not step.mark}
    faults = {step.word for step in script if step.verb == "fault"}
    count = sum(step.verb == "fault" for step in script)
    laws = ["STATE-1", "STATE-2", "STATE-3", "STATE-4", "CALL-1", "CALL-4", "CALL-6", "END-1"]
    if "meta" in verbs:
        laws += ["MEM-1", "MEM-5", "MEM-6", "MEM-8"]
    if "send" in verbs:
        laws += ["MEM-4", "DATA-1", "DATA-2", "DATA-3", "KV-1"]
    if {"meta", "send"} <= verbs:
        laws += ["MEM-3", "MEM-7"]
        if not faults and "abort" not in verbs and "clear" not in verbs:
            laws += ["PAIR-1"]
    if "abort" in verbs:
        laws += ["ABORT-1"]
        if not faults:
            laws += ["ABORT-2", "ABORT-3", "KV-5"]
    if faults or "abort" in verbs:
        laws += ["END-3", *(["MEM-2"] if "meta" in verbs else [])]
    if faults:
        laws += ["END-2", *(["KV-3"] if faults == {"message_lost"} and count == 1 else [])]
        laws += ["KV-6"] if "mover_stalls" in faults and any(step.verb == "abort" for step in script) else []
    if any(step.mark == "!" for step in script):
        laws += ["CALL-2"]
    if "ranks" in verbs:
        laws += ["RANK-1"] if {"meta", "send"} <= verbs else []
        laws += ["RANK-5"] if any(fault.startswith("rank_") for fault in faults) and {"meta", "send"} & verbs else []
    if "gate" in verbs:
        laws += ["GATE-1"]
    if any(step.verb == "stop" and step.word == "shutdown" for step in script):
        laws += ["STOP-2", "STOP-3", *(["STOP-4"] if {"meta", "send"} & verbs else [])]
    laws += [FORGED[fault].removeprefix("KVX-") for fault in sorted(faults & FORGED.keys())]
    if "tables" in verbs:
        laws += ["KV-2"]
    return [f"KVX-{law}" for law in laws]
