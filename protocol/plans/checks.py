"""The numbers of a plan, checked before any work: each refusal names the field, what was expected, and what was got.

Numpy's integers are taken like Python's, because page tables are made of them. ``True`` is not 1 and ``4.0`` is not 4: both
come from a mixed-up argument. This file needs no numpy, so that the rank arithmetic needs none either.
"""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from kvpoll.spec import Cause

from ..errors import LocalProtocolError

__all__ = ["ROWS_MAX", "fault", "whole"]

#: Rows, pages and tokens are int64 everywhere.
ROWS_MAX = 2**63 - 1


def fault(field: str, expected: str, got: object) -> LocalProtocolError:
    """The refusal of one field, to be raised."""
    return LocalProtocolError(f"{field}: expected {expected}, got {got}", Cause.PLAN_REFUSED, field=field)


def whole(field: str, value: SupportsIndex, least: int = 0, most: int = ROWS_MAX) -> int:
    """``value`` as an ``int`` from ``least`` to ``most``; raises :class:`LocalProtocolError` for anything else."""
    try:
        if type(value) is not int:
            if "bool" in type(value).__name__:
                raise TypeError
            value = index(value)
    except TypeError:
        raise fault(field, "an integer", f"{type(value).__name__} {value!r:.40}") from None
    if not least <= value <= most:
        raise fault(field, _span(least, most), value)
    return value


def _span(least: int, most: int) -> str:
    if most < least:
        return f"no value at all (between {least} and {most})"
    return f"at least {least}" if most == ROWS_MAX and least >= 0 else f"{least} to {most}"
