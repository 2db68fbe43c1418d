"""A world with a name: what ``kvpoll check`` lists, the tests run, and a counterexample builds again.

Modules that define worlds export a tuple of these; :mod:`.worlds` joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .explorer import World

__all__ = ["NamedWorld"]


@dataclass(frozen=True)
class NamedWorld:
    """``ends`` are the outcomes that the world must have, exactly: one that is missing makes the proof vacuous, one too
    many is a surprise. ``limit`` is in states. A ``deep`` world is not in the selection that CI runs."""

    name: str  #: a slug: "push-abort-loss"
    about: str  #: one sentence: what is in it, and what is claimed
    make: Callable[[], World]  #: a fresh world
    ends: frozenset[str]
    faults: str  #: the budgets, as printed with every result: "aborts=1 losses=1", or "none"
    deep: bool = False
    limit: int = 2_000_000
