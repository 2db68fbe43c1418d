"""How worlds of real cores are written down: one entry for a setting and a budget, which pushes, and again pulls.

An end names the state of every leg and attempt, in the order of processes: ``?`` is a failure that says it is in doubt, what
a crashed process had stays where it was, ``+`` stands between rooms.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement
from typing import NamedTuple

from .named import NamedWorld
from .pair import PairWorld
from .setting import NO_FAULTS, Budget, Setting, faults_of

__all__ = ["Entry", "both_ways", "ends", "one_way", "two_rooms"]

_LETTERS = {
    "B": "Bootstrapping",
    "W": "WaitingForInput",
    "T": "Transferring",
    "S": "Success",
    "F": "Failed",
    "?": "Failed?",
}


class Entry(NamedTuple):
    """One setting and budget, for push and pull, and the ends that each has."""

    name: str
    about: str
    setting: Setting
    ends: frozenset[str]
    budget: Budget = NO_FAULTS
    pull_ends: frozenset[str] = frozenset()  #: where they are other ones


def both_ways(entries: Iterable[Entry], deep: bool = False, limit: int = 400_000) -> tuple[NamedWorld, ...]:
    """The worlds of these entries, each pushing and pulling."""
    return tuple(_named(entry, push, deep, limit) for entry in entries for push in (True, False))


def one_way(entry: Entry, deep: bool = False, limit: int = 400_000) -> NamedWorld:
    """The one world of an entry, which says itself whether it pushes."""
    return _named(entry, entry.setting.push, deep, limit)


def ends(*short: str) -> frozenset[str]:
    """Ends in short: ``"PS P? DS"`` is a leg that succeeded, one that failed in doubt, and an attempt that succeeded;
    ``+`` stands between rooms, and ``""`` is a world in which nothing happened."""
    return frozenset(" ".join(map(_state, end.split())) or "nothing happened" for end in short)


def two_rooms(each: Iterable[str]) -> frozenset[str]:
    """Every pair of these ends of one room."""
    return frozenset(" + ".join(pair) for pair in combinations_with_replacement(sorted(each), 2))


def _state(short: str) -> str:
    if short == "+":
        return short
    return f"{short[0]}:{_LETTERS[short[1]]}"


def _named(entry: Entry, push: bool, deep: bool, limit: int) -> NamedWorld:
    setting = entry.setting._replace(push=push)
    return NamedWorld(
        name=f"{'push' if push else 'pull'}-{entry.name}",
        about=entry.about,
        make=lambda: PairWorld(setting, entry.budget),
        ends=entry.ends if push else entry.pull_ends or entry.ends,
        faults=faults_of(setting, entry.budget),
        deep=deep,
        limit=limit,
    )
