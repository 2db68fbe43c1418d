"""The rows of the tables by name: which of them a case could fire, and which are second walls, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kvpoll.spec import LINK, RECEIVER, SENDER
from kvpoll.spec.table import Row, Verdict

from ..coverage import KNOWN_IDLE, row_name

__all__ = ["ROW_NAMES", "UNREACHED", "Standing", "reachable_rows", "second_walls", "standings"]

_TABLES = (SENDER, RECEIVER, LINK)
#: Reasons of KNOWN_IDLE that are about its searches only: here such peers are played, and there are ranks.
_PLAYED = ("a peer that breaks the protocol", "more ranks, parts or steps")
#: Rows that no session reaches, beside those of KNOWN_IDLE: its searches try clocks in every order, a run does not.
UNREACHED: dict[str, str] = {
    "sender Transferring SILENCE/2": "half of a silence comes before all of it, so that it was asked",
    "receiver Success PLAN_REFUSED/1": "the session reads no plan when it is over",
    "receiver Failed PLAN_REFUSED/1": "the session reads no plan when it is over",
}


def _names() -> Iterator[tuple[int, str]]:
    """Every row by its table, state and event, and its number among those: a new row elsewhere changes no name."""
    for table in _TABLES:
        count: Counter[tuple[str, str]] = Counter()
        for row in table.rows:
            place = row.state.name, row.event.name
            count[place] += 1
            yield id(row), f"{table.name} {place[0]} {place[1]}/{count[place]}"


#: By the row itself.
ROW_NAMES: dict[int, str] = dict(_names())


def reachable_rows() -> dict[str, Row]:
    """Rows that could fire at all: not those that refuse, or that are called impossible."""
    silent = (Verdict.NEVER, Verdict.REFUSE)
    return {ROW_NAMES[id(row)]: row for table in _TABLES for row in table.rows if row.verdict not in silent}


def second_walls() -> dict[str, str]:
    """Rows that no session lets it come to, and why."""
    known = {
        name.strip(): why
        for why, names in KNOWN_IDLE.items()
        if not why.startswith(_PLAYED)
        for name in names.split(",")
    }
    found = {}
    for name, row in reachable_rows().items():
        table = name.partition(" ")[0]
        why = known.get(row_name(table, row)) or known.get(name.partition("/")[0]) or UNREACHED.get(name)
        if why:
            found[name] = why
    return found


class Standing(NamedTuple):
    """How far the cases come in one table."""

    table: str
    fired: int
    reachable: int  #: by a session: those that fire, and those that are missing
    missing: tuple[str, ...]
    walls: dict[str, str]  #: that did not fire, and why


def standings(fired: Iterable[str]) -> list[Standing]:
    """Of each table, given the names of all rows that fire."""
    rows, walls = set(fired), second_walls()
    found = []
    for table in _TABLES:
        mine = [name for name in reachable_rows() if name.startswith(f"{table.name} ")]
        idle = {name: walls[name] for name in mine if name not in rows and name in walls}
        missing = tuple(name for name in mine if name not in rows and name not in walls)
        done = sum(name in rows for name in mine)
        found.append(Standing(table.name, done, done + len(missing), missing, idle))
    return found
