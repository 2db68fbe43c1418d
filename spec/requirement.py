"""What a requirement is: one sentence that any engine can be held to, and where it comes from. Data and types only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Level", "Requirement", "RequirementRole"]


class Level(StrEnum):
    """How binding it is."""

    MUST = "MUST"  #: broken: the case fails
    SHOULD = "SHOULD"  #: broken: the case passes, but is not strict
    MAY = "MAY"  #: a choice that an engine declares; once it is declared it binds like a MUST


class RequirementRole(StrEnum):
    """Whom it is about."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement. ``id`` is ``KVX-<section>-<n>``, given once and never reused."""

    id: str
    level: Level
    role: RequirementRole
    needs: tuple[str, ...]  #: what an engine must declare for it to apply: capabilities, faults, "limit:NAME"
    since: str  #: the version of the suite that asked for it first
    text: str  #: one sentence
    rows: tuple[str, ...]  #: "table STATE EVENT" of the tables that it comes from
    invariants: tuple[str, ...]  #: by name
    profile: str = "common"  #: "common": any engine with a five-state hand-off; "kvpoll": what only kvpoll promises

    @property
    def section(self) -> str:
        return self.id.split("-")[1]
