"""Mutants: the tables with one row wrong, as data. What finds them is :mod:`.mutation`.

Rows that refuse or that are called impossible are not changed: the explorer proves of those that they change nothing, or
never fire. A mutant whose row says the same as before (the same next state, updates, effects and cause) is left out, and so
is one that another kind has made already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations

from kvpoll.protocol.render.guard import guard_text, update_text
from kvpoll.spec import LEASE, LINK, RECEIVER, SENDER, STAGING, Effect, KVPoll, LeaseState, LinkState, StagingState
from kvpoll.spec.lease_table import over, own, theirs
from kvpoll.spec.table import ALWAYS, Row, Source, Table, Verdict

from .tables import ignored, to, unstated, without

__all__ = ["MUTATED", "Kind", "Mutant", "mutants", "mutated", "row_name"]

#: The tables that are mutated, by name.
MUTATED: dict[str, Table] = {table.name: table for table in (SENDER, RECEIVER, LEASE, LINK, STAGING)}

_SILENT = (Verdict.NEVER, Verdict.REFUSE)
_LENT = (StagingState.GRANTED, StagingState.READY, StagingState.DRAINING)
_ARMING = (Effect.ARM_SILENCE, Effect.ARM_BEAT, Effect.ARM_LOST, Effect.ARM_HELLO)


class Kind(Enum):
    """What is wrong. The value says it for people."""

    IGNORED = "the row does nothing"
    REDIRECTED = "the row leads to another state"  #: see :func:`_elsewhere`
    NEGATED = "two rows of one state and event have swapped their guards"
    UPDATE = "one update is forgotten"
    EFFECT = "one effect is forgotten"
    DISARMED = "a deadline is not armed, or nothing happens when it is over"
    WEAKENED = "memory goes back although something can touch it"


@dataclass(frozen=True)
class Mutant:
    """One wrong table. ``rows``: number of a row of the table, and what it says instead."""

    name: str  #: of the row, and what is wrong
    table: str
    kind: Kind
    rows: tuple[tuple[int, Row], ...]

    @property
    def row(self) -> int:
        """The number of the row that is wrong (the first, where two swap)."""
        return self.rows[0][0]


def mutated(mutant: Mutant) -> Table:
    """The wrong table."""
    table, wrong = MUTATED[mutant.table], dict(mutant.rows)
    return replace(table, rows=tuple(wrong.get(number, row) for number, row in enumerate(table.rows)))


def row_name(table: Table, row: Row) -> str:
    """A row for people: table, state and event, the guard where there is one."""
    guard = "" if row.guard == ALWAYS else f" [{guard_text(row.guard)}]"
    return f"{table.name} {row.state.name} {row.event.name}{guard}"


def mutants(table: Table) -> list[Mutant]:
    """Every mutant of a table, row by row."""
    found: dict[tuple[tuple[int, Row], ...], Mutant] = {}
    clocks = {spec.event for spec in table.events if spec.source is Source.CLOCK}
    for number, row in enumerate(table.rows):
        if row.verdict in _SILENT:
            continue
        for kind, what, wrong in _single(table, row, row.event in clocks):
            if _says(wrong) != _says(row):
                name = f"{row_name(table, row)}: {what}"
                found.setdefault(((number, _plain(wrong)),), Mutant(name, table.name, kind, ((number, wrong),)))
    each = list(found.values()) + _negated(table)
    return sorted(each, key=lambda mutant: mutant.row)  # the sort is stable: kinds keep their order


def _single(table: Table, row: Row, clock: bool) -> Iterator[tuple[Kind, str, Row]]:
    yield Kind.DISARMED if clock else Kind.IGNORED, "ignored", ignored(row)
    yield Kind.REDIRECTED, *_redirected(table, row)
    for update in row.updates:
        left = tuple(u for u in row.updates if u is not update)
        yield Kind.UPDATE, f"without {update_text(update)}", unstated(row) if not left else replace(row, updates=left)
    for effect in row.effects:
        kind = Kind.DISARMED if effect in _ARMING else Kind.EFFECT
        yield kind, f"without {effect.name}", without(effect)(row)
    if table is LEASE and row.state not in (LeaseState.FREE, LeaseState.HANDED) and row.next is not LeaseState.HANDED:
        clear = (own.to(False), theirs.to(False), over.to(False))
        back = replace(row, verdict=Verdict.GO, next=LeaseState.HANDED, updates=clear, effects=(Effect.HAND_BACK,))
        yield Kind.WEAKENED, "hands back", back
    if table is STAGING and row.state in _LENT and Effect.RETURN_SLOT not in row.effects:
        back = replace(row, verdict=Verdict.GO, next=StagingState.BACK, updates=(), effects=(Effect.RETURN_SLOT,))
        yield Kind.WEAKENED, "hands back", back


def _redirected(table: Table, row: Row) -> tuple[str, Row]:
    other = _elsewhere(table, row)
    return f"leads to {other.name}", _towards(other)(row)


def _elsewhere(table: Table, row: Row) -> Enum:
    """The rule for the most harmful other state. What moves stays, with its effects and updates; what stays, or fails,
    succeeds at once (a room), is forgotten (a lease, a link); what is over is over in the other way, or begins anew."""
    if row.verdict is Verdict.GO:
        return row.state
    if table is LEASE:
        return LeaseState.HELD if row.state in (LeaseState.FREE, LeaseState.HANDED) else LeaseState.HANDED
    if table is LINK:
        return LinkState.OPEN if row.state is LinkState.OVER else LinkState.OVER
    if table is STAGING:
        return StagingState.GRANTED if row.state in table.terminal else StagingState.BACK
    return KVPoll.Failed if row.state is KVPoll.Success else KVPoll.Success


def _towards(state: Enum) -> Callable[[Row], Row]:
    return lambda row: replace(
        to(state)(row), verdict=Verdict.GO if state is not row.state else Verdict.STAY, cause=None
    )


def _negated(table: Table) -> list[Mutant]:
    """Every two rows of one state and event, at least one of which does something, with their guards swapped."""
    places: dict[tuple[Enum, Enum], list[tuple[int, Row]]] = {}
    for number, row in enumerate(table.rows):
        places.setdefault((row.state, row.event), []).append((number, row))
    found = []
    for rows in places.values():
        for (one, a), (two, b) in combinations(rows, 2):
            if a.verdict in _SILENT and b.verdict in _SILENT:
                continue
            if b.verdict not in _SILENT and a.verdict in _SILENT:
                (one, a), (two, b) = (two, b), (one, a)
            if _says(a) == _says(b):
                continue
            swapped = ((one, replace(a, guard=b.guard)), (two, replace(b, guard=a.guard)))
            name = f"{row_name(table, a)}: swapped with [{guard_text(b.guard)}]"
            found.append(Mutant(name, table.name, Kind.NEGATED, swapped))
    return found


def _says(row: Row) -> tuple[object, ...]:
    """What a session can tell apart: a row that stays without effects is one that ignores."""
    fails = row.verdict in (Verdict.FAIL, *_SILENT)
    return row.next, row.updates, row.effects, row.cause, row.verdict if fails else None


def _plain(row: Row) -> Row:
    """Two mutants of one row are one if they say the same."""
    return replace(row, verdict=row.verdict if row.verdict in (Verdict.FAIL, *_SILENT) else Verdict.STAY)
