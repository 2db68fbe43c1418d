"""What a run found, as one JSON document. STABLE: fields are only added, with a default; see ``SCHEMA``.

Reports in other formats are made from this document and from nothing else, so it carries the texts that they need: the
requirements that were judged, and of each case what it does and what was seen step by step.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path

import msgspec

from kvpoll.spec.requirement import Requirement

__all__ = [
    "BAD", "SCHEMA", "CaseResult", "Implementation", "RequirementText", "Result", "ResultError", "Suite", "TraceStep",
    "Verdict", "read_result", "text_of", "write_result",
]  # fmt: skip

#: Name and version of this document. The number changes only when a reader of the old form would misunderstand the new one.
SCHEMA = "kvpoll-conformance-result/1"
#: Bytes of the largest document that is read.
_MOST = 256 * 1024 * 1024


class Verdict(StrEnum):
    """What became of a case."""

    PASS = "pass"
    FAIL = "fail"  #: a MUST is broken
    NON_STRICT = "non-strict"  #: a SHOULD is broken, no MUST is
    UNSUPPORTED = "unsupported"  #: it needs what the implementation does not declare
    BLOCKED = "blocked"  #: its prerequisite did not pass: that one says why
    CRASH = "crash"  #: the testee is gone, raised where it must not, or flooded its output
    TIMEOUT = "timeout"  #: a call did not return
    KNOWN_FAILING = "known-failing"  #: it fails as the implementer's file says
    STALE = "stale"  #: the implementer's file says that it fails, or how, and that is not so (any more)
    FLAKY = "flaky"  #: repeated, it does not always end the same way


#: Verdicts that make a run fail (exit status 1).
BAD = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.STALE, Verdict.FLAKY})


class TraceStep(msgspec.Struct, frozen=True):
    """One line of what happened. ``who``: "prefill", "decode" or "suite" (it did or judged something)."""

    who: str
    what: str  #: short: "create", "poll 1 -> 2", "expect Success", "broken KVX-..."
    detail: str = ""
    at: float = 0.0  #: seconds since the case began, on the clock of the implementation


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """One case. ``level`` and ``role`` are those of the strictest requirement it judges."""

    id: str  #: stable, "section/subject/index"
    title: str
    requirements: tuple[str, ...]  #: ids that it judges
    level: str  #: MUST, SHOULD or MAY
    role: str  #: prefill, decode or both
    verdict: Verdict
    reason: str = ""  #: one sentence; empty when it passed
    seconds: float = 0.0  #: wall time
    trace: tuple[TraceStep, ...] = ()
    prerequisite: str = ""  #: a case id
    broken: tuple[str, ...] = ()  #: of ``requirements``, those that did not hold
    found: Verdict | None = None  #: known-failing, stale, flaky: what was found this time
    link: str = ""  #: known-failing, stale: from the implementer's file


class RequirementText(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement that this run is about, for reports."""

    id: str
    level: str
    role: str
    section: str
    text: str
    profile: str = "common"
    needs: tuple[str, ...] = ()


def text_of(requirement: Requirement) -> RequirementText:
    """A requirement, as a result carries it."""
    return RequirementText(
        id=requirement.id, level=requirement.level.value, role=requirement.role.value, section=requirement.section,
        text=requirement.text, profile=requirement.profile, needs=requirement.needs,
    )  # fmt: skip


class Suite(msgspec.Struct, frozen=True):
    name: str
    version: str


class Implementation(msgspec.Struct, frozen=True):
    name: str
    version: str
    capabilities: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    schema: str = SCHEMA
    suite: Suite
    implementation: Implementation
    profile: str  #: the profiles of requirements that were judged, joined by "+"
    started: str  #: ISO 8601, UTC
    seconds: float  #: wall time of the whole run
    environment: dict[str, str]
    requirements: tuple[RequirementText, ...]
    cases: tuple[CaseResult, ...]
    problems: tuple[str, ...] = ()  #: of the known-failing file: unmatched or expired lines; each is an error
    refused: str = ""  #: why the run was refused: the plug is not honest, or did not start. Then there are no cases

    @property
    def counts(self) -> Counter[Verdict]:
        return Counter(case.verdict for case in self.cases)

    @property
    def status(self) -> int:
        """The exit status: 0 nothing is wrong, 1 something is, 2 it could not be found out."""
        if self.refused:
            return 2
        return 1 if self.problems or BAD & set(self.counts) else 0

    def of(self, requirement: str) -> list[CaseResult]:
        """The cases that judge a requirement."""
        return [case for case in self.cases if requirement in case.requirements]


class ResultError(ValueError):
    """A file is not a result of this schema. Says which file, which field and what was expected."""


def write_result(result: Result, path: Path) -> None:
    """Write the document, indented, for people and machines. Raises ``OSError``."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def read_result(path: Path) -> Result:
    """Read it again. Raises :class:`ResultError`, also for a schema of another number."""
    try:
        size = path.stat().st_size
        if size > _MOST:
            raise ResultError(f"{path}: expected at most {_MOST} bytes, got {size}")
        text = path.read_bytes()
        name = msgspec.json.decode(text, type=_Head).schema
        if name != SCHEMA:
            raise ResultError(f"{path}: schema: expected {SCHEMA}, got {name}")
        return msgspec.json.decode(text, type=Result)
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ResultError(f"{path}: {error}") from None


class _Head(msgspec.Struct):
    schema: str
