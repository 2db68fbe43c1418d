"""What a comparison says: findings, each with the bytes that prove it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from kvpoll.spec.schema import End

__all__ = [
    "BOTH",
    "NEW_READS_OLD",
    "OLD_READS_NEW",
    "Direction",
    "Finding",
    "Order",
    "Severity",
    "Witness",
    "orders_left",
]

#: Which reader meets which writer.
Direction: TypeAlias = Literal["new-reads-old", "old-reads-new"]
NEW_READS_OLD: Direction = "new-reads-old"
OLD_READS_NEW: Direction = "old-reads-new"
BOTH: tuple[Direction, Direction] = (NEW_READS_OLD, OLD_READS_NEW)

Severity: TypeAlias = Literal["error", "warning", "info"]
#: Which side of the hand-off is upgraded first.
Order: TypeAlias = Literal["sender-first", "receiver-first"]


class Witness(Struct, frozen=True, kw_only=True):
    """Bytes that one side writes, and what the other makes of them: executed, not described."""

    direction: Direction
    message: str
    wrote: str  #: the values concerned, in words
    frame: str  #: hex; frames of a slot message are joined by spaces
    made: str  #: what the reader made of it
    #: "refused", "misread", or how a policy was tried ("if the tag is given again")
    kind: str


class Finding(Struct, frozen=True, kw_only=True):
    """One cause. ``old`` and ``new`` are locations: "Register.tp_rank (tag 7)", empty where there is none."""

    rule: str
    severity: Severity
    directions: tuple[Direction, ...]
    says: str
    old: str
    new: str
    fix: str
    witnesses: tuple[Witness, ...] = ()
    sent_by: tuple[End, ...] = ()  #: who sends the message concerned; empty: either end
    spec: str = ""  #: message, group or enum
    field: str = ""

    @property
    def breaking(self) -> bool:
        return self.severity == "error"


def orders_left(findings: list[Finding]) -> tuple[Order, ...]:
    """Upgrade orders that no error forbids. While the senders are new and the receivers old, a message of a sender is
    written new and read old, one of a receiver written old and read new; and the other way round."""
    left: list[Order] = ["sender-first", "receiver-first"]
    for finding in findings:
        if not finding.breaking:
            continue
        for end in finding.sent_by or ("sender", "receiver"):
            for direction in finding.directions:
                writer_is_new = direction == OLD_READS_NEW
                broken: Order = "sender-first" if (end == "sender") == writer_is_new else "receiver-first"
                if broken in left:
                    left.remove(broken)
    return tuple(left)
