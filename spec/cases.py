"""Failures of real engines, from public trackers: which test replays each of them here, and what rules it out.

The letter of an id groups them: A lifetime of memory, B data, C deadlines, D a leg that fails, E identity, F ranks and
compatibility, G peers and their resources, H speed, I trust, J stopping.
"""

from __future__ import annotations

from .case import Case
from .cases_abe import CASES_ABE
from .cases_cj import CASES_CJ

__all__ = ["CASES", "Case"]

#: Every case, once, by id.
CASES: tuple[Case, ...] = tuple(sorted(CASES_ABE + CASES_CJ))
