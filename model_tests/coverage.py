"""Which rows of the tables fire, and which do not, and why.

A row that nothing fires is a claim that nothing tests. So each row fires in some world of a selection, or refuses, or is
called impossible by its table and never fires; else the check fails. A row that only the world of its machine alone fires
is a second wall, and :data:`KNOWN_IDLE` has the reason why no session lets it come to that.

Worlds of :data:`REACH` are searched in part: they are about reach, and prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeAlias

from kvpoll.spec.table import Row, Verdict

from .machine_worlds import MACHINE_WORLDS
from .named import NamedWorld
from .pair import PairWorld
from .setting import Budget, Clocks, Setting, Shapes, faults_of
from .staging_worlds import STAGING_REACH
from .tables import RULES, Watch

__all__ = ["KNOWN_IDLE", "REACH", "Fired", "RowReport", "Standing", "fired_by", "judge_rows", "row_name", "stale"]

NONE = Clocks.NONE
_ALONE = frozenset(MACHINE_WORLDS)
#: The rows that fired, by table and number: small, and the same in every process.
Fired: TypeAlias = frozenset[tuple[str, int]]


class Standing(Enum):
    """What became of a row in a selection."""

    FIRED = "fired"
    REFUSES = "refuses"  #: a call at the wrong time; that it changes nothing is tested with the interpreter
    DEAD = "dead"  #: called impossible, and no world fired it
    WALL = "second walls"  #: only its machine alone fires it, and KNOWN_IDLE says why
    UNCOVERED = "uncovered"  #: nothing fired it, and nobody says why
    ALIVE = "alive"  #: called impossible, and it fired


class RowReport(NamedTuple):
    """One row of a table in a selection; ``why`` says where it fired first, or why it did not, and ``alone`` which world of
    its machine alone fires it."""

    table: str
    row: Row
    standing: Standing
    why: str
    alone: str = ""

    @property
    def bad(self) -> bool:
        return self.standing in (Standing.UNCOVERED, Standing.ALIVE)


def fired_by(rows: Watch) -> Fired:
    """What a watch has seen so far."""
    return frozenset(
        (name, number)
        for name, rules in RULES.items()
        for fired in [{id(row) for row in rows.fired(name)}]
        for number, row in enumerate(rules.table.rows)
        if id(row) in fired
    )


def judge_rows(worlds: Iterable[tuple[str, Fired]]) -> list[RowReport]:
    """Every row of every table, given which worlds fired which."""
    first: dict[tuple[str, int], str] = {}
    alone: dict[tuple[str, int], str] = {}
    for world, fired in worlds:
        for key in fired:
            (alone if world in _ALONE else first).setdefault(key, world)
    return [
        _judge(name, row, first.get((name, number)), alone.get((name, number), ""))
        for name, rules in RULES.items()
        for number, row in enumerate(rules.table.rows)
    ]


def _judge(table: str, row: Row, world: str | None, alone: str) -> RowReport:
    if row.verdict is Verdict.NEVER and (world or alone):
        return RowReport(table, row, Standing.ALIVE, f"in {world or alone}", alone)
    if world is not None:
        return RowReport(table, row, Standing.FIRED, f"in {world}", alone)
    if row.verdict in (Verdict.REFUSE, Verdict.NEVER):
        return RowReport(table, row, Standing.REFUSES if row.verdict is Verdict.REFUSE else Standing.DEAD, row.why)
    why = next((why for name in _names(table, row) for known, why in _known().items() if known == name), None)
    return RowReport(table, row, Standing.UNCOVERED if why is None else Standing.WALL, why or row.why, alone)


def stale(reports: Iterable[RowReport]) -> list[str]:
    """Names in KNOWN_IDLE of which every row fired, or that name no row."""
    idle = {name for r in reports if r.standing is Standing.WALL for name in _names(r.table, r.row)}
    return [name for name in _known() if name not in idle]


def row_name(table: str, row: Row) -> str:
    """As in KNOWN_IDLE, with the verdict."""
    return f"{table} {row.state.name} {row.event.name} {row.verdict.name}"


def _names(table: str, row: Row) -> tuple[str, str]:
    return row_name(table, row), f"{table} {row.state.name} {row.event.name}"


def _known() -> dict[str, str]:
    return {name.strip(): why for why, names in KNOWN_IDLE.items() for name in names.split(",")}


#: (push, pull): limits of the search; 0: not needed there.
_REACH: tuple[tuple[Setting, Budget, tuple[int, int]], ...] = (
    (Setting(True, eager=True, late=True), Budget(aborts=1, clocks=1), (13_000, 13_000)),
    (Setting(True, eager=True, chunks=0, late=True), Budget(aborts=1, clocks=1), (8_000, 0)),
    (Setting(True, eager=True, chunks=2, tail=True), Budget(aborts=1, clocks=1), (8_000, 8_000)),
    (Setting(True, handshake=True, gathers=True, late=True), Budget(aborts=1), (6_000, 0)),
    (Setting(True), Budget(aborts=1, clocks=1), (8_000, 0)),
    (Setting(True, eager=True, chunks=2), Budget(failures=1, unresolved=1), (8_000, 8_000)),
    (Setting(True, eager=True, gates=("g", "h"), late=True), Budget(failures=1), (8_000, 0)),
    (Setting(True, handshake=True, gates=("g", "h"), late=True), Budget(failures=1, clocks=1), (8_000, 0)),
    (Setting(True, eager=True, gates=("g",), late=True), Budget(clocks=1), (6_000, 0)),
    (Setting(True, handshake=True), Budget(shutdowns=1), (6_000, 0)),
    (Setting(True, handshake=True), Budget(crashes=1, clocks=1), (6_000, 0)),
    (Setting(True, handshake=True), Budget(crashes=1, aborts=1), (6_000, 0)),
    (Setting(True, handshake=True, fits=False, late=True), Budget(shutdowns=1, aborts=1, clocks=1), (1_000, 0)),
    (Setting(True, eager=True), Budget(shutdowns=1), (13_000, 0)),
    (Setting(True, eager=True), Budget(crashes=1, restarts=1), (15_000, 0)),
    (Setting(True), Budget(), (5_000, 5_000)),
    (Setting(True, eager=True, chunks=0), Budget(), (0, 1_000)),
    (Setting(True, eager=True), Budget(failures=1, aborts=1), (20_000, 0)),
    (Setting(True, eager=True), Budget(wrong=1), (6_000, 0)),
    (Setting(True, eager=True, chunks=2), Budget(attempts=2, aborts=1), (8_000, 0)),
    (Setting(True), Budget(attempts=2, clocks=1), (6_000, 0)),
    (Setting(True, eager=True, clocks=NONE, prefills=2), Budget(), (6_000, 0)),
    (Setting(True, eager=True, clocks=NONE, decodes=2), Budget(), (10_000, 6_000)),
    (Setting(True, handshake=True, prefills=2), Budget(crashes=1), (6_000, 0)),
    (Setting(True, eager=True, credits=1, chunks=2), Budget(aborts=1), (0, 6_000)),
    (Setting(True, eager=True), Budget(lies=1, unresolved=1), (13_000, 0)),
    (Setting(True, eager=True, gathers=True), Budget(), (2_000, 0)),
    (Setting(True, eager=True, clocks=NONE, prefills=2, shapes=Shapes.SPARE, tail=True), Budget(), (6_000, 0)),
    (Setting(True, eager=True, clocks=NONE, decodes=2, shapes=Shapes.ROWS, chunks=3), Budget(), (10_000, 0)),
)  # fmt: skip

#: Rows that none of these worlds reaches: the reason, then table, state and event; a verdict where rows share these.
KNOWN_IDLE: dict[str, str] = {
    "a peer that breaks the protocol; tests/protocol plays it": """
        sender Bootstrapping PLAN_REFUSED, sender WaitingForInput PLAN_REFUSED, sender Transferring PLAN_REFUSED,
        sender Success PLAN_REFUSED, sender Failed PLAN_REFUSED, sender Bootstrapping CONCLUDED,
        sender Transferring CONCLUDED FAIL, sender Bootstrapping PASSED, sender WaitingForInput PASSED,
        sender Transferring PASSED, receiver Bootstrapping PARTS, receiver Bootstrapping PLAN_REFUSED,
        receiver WaitingForInput PLAN_REFUSED, receiver Transferring PLAN_REFUSED, receiver Success PLAN_REFUSED,
        receiver Failed PLAN_REFUSED, receiver Transferring BUSY FAIL, receiver Transferring BUSY IGNORE,
        receiver Success BUSY, receiver Success NO_LEG, receiver Transferring NO_LEG IGNORE""",
    "the session sees that it is a copy, or late, and tells the table nothing": """
        sender Success PASSED, receiver Bootstrapping BOUND IGNORE, receiver WaitingForInput BOUND IGNORE,
        receiver Transferring BOUND IGNORE, receiver Success BOUND, receiver Transferring PARTS IGNORE,
        receiver Success PARTS, receiver Failed PARTS, receiver Transferring GATE_OPEN IGNORE,
        receiver Success GATE_OPEN, receiver Success GATE_FAILED, lease FREE QUIET, lease FREE DRAINED,
        lease FREE CLOSE, lease FREE PEER_UNRESOLVED, lease HANDED DRAINED, lease HANDED CLOSE,
        lease HANDED PEER_UNRESOLVED, lease DRAINING CLOSE, sender Failed STARTED""",
    "every clock is disarmed at the end: a second wall": """
        sender Success RESEND, sender Success ASK, sender Success SILENCE, sender Success PAIRING, sender Success TOTAL,
        sender Failed ASK, sender Failed SILENCE, sender Failed TOTAL, receiver Success ASK,
        receiver Success SILENCE, receiver Success PAIRING, receiver Success GATE, receiver Success TOTAL,
        receiver Failed ASK, receiver Failed SILENCE, receiver Failed GATE,
        receiver Failed TOTAL""",
    "the room is free, or its link is told of, once: a second wall": """
        sender Success SUPERSEDED, sender Failed SUPERSEDED, receiver Failed BUSY""",
    "nothing waits for a credit any more": "sender Success STARTABLE, receiver Success CREDIT",
    "no memory is both pushed into by a peer and touched by us": """
        lease IN_FLIGHT QUIET STAY, lease IN_FLIGHT QUIET IGNORE, lease IN_FLIGHT DRAINED STAY,
        lease DRAINING QUIET STAY, lease DRAINING DRAINED STAY, lease QUARANTINED QUIET STAY,
        lease QUARANTINED QUIET IGNORE, lease QUARANTINED DRAINED STAY""",
    "a failure closes the lease in the same step": """
        lease IN_FLIGHT PEER_UNRESOLVED GO, lease IN_FLIGHT PEER_UNRESOLVED IGNORE, lease HELD PEER_UNRESOLVED,
        lease QUARANTINED QUIET GO, lease QUARANTINED DRAINED GO""",
    "more ranks, parts or steps than these searches have": """
        sender Success META, receiver Transferring RESEND, receiver Transferring NO_LEG FAIL,
        lease DRAINING PEER_UNRESOLVED, lease QUARANTINED UNRESOLVED""",
    "a call that these engines do not make": "sender WaitingForInput SEND IGNORE, sender WaitingForInput OP_FAILED",
    "the runtime's": "lease HANDED PICKED",
    "tests/protocol/test_links.py plays every event in every state; no order of messages brings these": """
        link GREETING HEARD, link GREETING LINK_OVER, link GREETING DISCONNECTED, link GREETING CLOSE, link OPEN WELCOME,
        link OPEN MISMATCH, link OPEN HELLO_LATE, link OPEN DISCONNECTED, link OPEN CLOSE, link REFUSED WELCOME,
        link REFUSED MISMATCH, link REFUSED HEARD, link REFUSED LINK_OVER, link REFUSED BEAT, link REFUSED DISCONNECTED,
        link REFUSED CLOSE, link OVER WELCOME, link OVER MISMATCH, link OVER HEARD, link OVER BEAT, link OVER HELLO_LATE,
        link OVER LOST, link OVER DISCONNECTED, link OVER CLOSE""",
}


def _reach(number: int, setting: Setting, budget: Budget, limit: int) -> NamedWorld:
    own = Setting(setting.push)._asdict().items()
    differs = [f"{k}={v}" for (k, v), (_, usual) in zip(setting._asdict().items(), own, strict=True) if v != usual]
    name = f"reach-{number}-{'push' if setting.push else 'pull'}"
    about = f"Searched in part: {' '.join(differs) or 'as usual'}."
    return NamedWorld(
        name, about, lambda: PairWorld(setting, budget), frozenset(), faults_of(setting, budget), limit=limit
    )


REACH: tuple[NamedWorld, ...] = (
    tuple(
        _reach(number, setting._replace(push=push), budget, limit)
        for number, (setting, budget, limits) in enumerate(_REACH, 1)
        for push, limit in zip((True, False), limits, strict=True)
        if limit
    )
    + STAGING_REACH
)
