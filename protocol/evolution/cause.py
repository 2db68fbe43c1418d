"""A suspicion of the comparison, and how it becomes a finding: by trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvpoll.spec.schema import End

from .findings import BOTH, Direction, Finding, Witness
from .rules import rule_of
from .samples import Focus
from .trial import Judge, Trial

__all__ = ["Cause", "Try"]


@dataclass(frozen=True)
class Try:
    """How to show it in one direction: a message of ``spec`` with these fields set."""

    spec: str
    focuses: Callable[[], Iterable[Focus]]
    judge: Judge | None = None
    sent_by: End | None = None
    foreign: bool = False


@dataclass(frozen=True)
class Cause:
    """``tries`` by direction; ``proofs`` are witnesses of another kind (a policy, a slot message), made already. A cause
    that neither shows is none: it is dropped."""

    rule: str
    says: str
    old: str = ""
    new: str = ""
    fix: str = ""
    spec: str = ""
    field: str = ""
    sent_by: tuple[End, ...] = ()
    tries: dict[Direction, list[Try]] = dataclasses.field(default_factory=dict)
    proofs: tuple[Witness, ...] = ()

    def proved(self, trial: Callable[[], Trial]) -> Finding | None:
        """The finding, with a witness for each direction that it claims; ``None`` when nothing goes wrong."""
        rule = rule_of(self.rule)
        found = list(self.proofs)
        for direction in BOTH:
            for attempt in self.tries.get(direction, ()):
                witness = trial().prove(
                    direction, attempt.spec, attempt.focuses(), attempt.judge, sent_by=attempt.sent_by,
                    foreign=attempt.foreign,
                )  # fmt: skip
                if witness is not None:
                    found.append(witness)
                    break
        if not found and rule.severity == "error":
            return None
        directions = tuple(d for d in BOTH if any(w.direction == d for w in found))
        return Finding(
            rule=self.rule, severity=rule.severity, directions=directions, says=self.says, old=self.old, new=self.new,
            fix=self.fix or rule.fix, witnesses=tuple(found), sent_by=self.sent_by, spec=self.spec, field=self.field,
        )  # fmt: skip
