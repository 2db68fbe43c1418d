"""Accepted breakage: one finding at one place, with a reason and a day on which it ends.

A gate that can only be switched off is switched off. A waiver names what it lets through and nothing else; one that lets
nothing through any more is an error, so that the file never outlives its reasons.
"""

from __future__ import annotations

import re
import tomllib
from calendar import monthrange

import msgspec
from msgspec import Struct

from .findings import Finding
from .rules import rules

__all__ = ["Waiver", "read_waivers"]


class Waiver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``at``: "Register.tp_rank", or "Register" for all of a message, group or enum; "version" for what the snapshots say of
    themselves. ``since``: only against baselines of this version."""

    rule: str
    at: str
    reason: str
    expires: str  #: the last day, as 2027-03-31
    issue: str = ""
    since: str = ""

    def covers(self, finding: Finding, baseline: str) -> bool:
        if finding.rule != self.rule or (self.since and self.since != baseline):
            return False
        place = f"{finding.spec}.{finding.field}" if finding.field else finding.spec
        return self.at in (place, finding.spec or "version")

    def over(self, today: str) -> bool:
        return bool(today) and self.expires < today


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    waiver: tuple[Waiver, ...] = ()


def read_waivers(text: str) -> tuple[Waiver, ...]:
    """The waivers of a TOML file. Raises ``ValueError`` naming the waiver and the field for one without a reason or an
    expiry, of a rule that there is not, or given twice."""
    try:
        found = msgspec.convert(tomllib.loads(text, parse_float=str), _File, strict=False, str_keys=True)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"waivers: {error}") from None
    for number, waiver in enumerate(found.waiver, 1):
        if waiver.rule not in rules():
            raise ValueError(f"waiver {number}: rule: expected one of `kvpoll schema explain`, got {waiver.rule!r}")
        if len(waiver.reason.split()) < 2:
            raise ValueError(f"waiver {number}: reason: expected a sentence, got {waiver.reason!r}")
        if not _is_day(waiver.expires):
            raise ValueError(f"waiver {number}: expires: expected a day like 2027-03-31, got {waiver.expires!r}")
    if len(set(found.waiver)) != len(found.waiver):
        raise ValueError("waivers: one is given twice")
    return found.waiver


def _is_day(text: str) -> bool:
    found = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    return year > 0 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
