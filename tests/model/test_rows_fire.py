"""Each row of the tables fires in some world, or stands here with the reason why none of these worlds reaches it.

A row that nothing fires is a claim that nothing tests. The searches are cut short: this is about reach, not about proof.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.setting import Budget, Clocks, Setting
from kvpoll.model_tests.tables import watch
from kvpoll.spec.table import Row, Verdict

pytestmark = pytest.mark.timeout(300)  # one fixture does all the work
NONE = Clocks.NONE
TABLES = ("sender", "receiver", "lease")
#: (push, pull): limits of the search; 0: not needed there.
WORLDS: tuple[tuple[Setting, Budget, tuple[int, int]], ...] = (
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
)  # fmt: skip

#: Rows that none of these worlds reaches: the reason, then table, state and event; a verdict where rows share these.
IDLE: dict[str, str] = {
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
        receiver Failed ASK, receiver Failed SILENCE, receiver Failed PAIRING, receiver Failed GATE,
        receiver Failed TOTAL""",
    "the room is free, or its link is told of, once: a second wall": """
        sender Success SUPERSEDED, sender Failed SUPERSEDED, receiver Failed BUSY, receiver Failed REFUSED,
        receiver Failed UNREACHABLE""",
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
}


@pytest.fixture(scope="module")
def seen() -> Iterator[tuple[dict[str, list[Row]], dict[str, list[Row]]]]:
    """The rows of each table that fired, and those that did not."""
    with watch() as rows:
        for setting, budget, limits in WORLDS:
            for push, limit in zip((True, False), limits, strict=True):
                world = PairWorld(setting._replace(push=push), budget)
                result = explore(world, limit)
                assert result.violation is None, f"{result.violation}\n{world.tell(result.trace)}"
        yield {name: list(rows.fired(name)) for name in TABLES}, {name: rows.idle(name) for name in TABLES}


def named(table: str, row: Row) -> str:
    return f"{table} {row.state.name} {row.event.name} {row.verdict.name}"


def test_every_row_fires_or_is_known_not_to(seen: tuple[dict[str, list[Row]], dict[str, list[Row]]]) -> None:
    _, idle = seen
    known = {name.strip() for names in IDLE.values() for name in names.split(",")}
    surprises = [
        f"{named(table, row)}: {row.why}"
        for table, rows in idle.items()
        for row in rows
        if not known & {named(table, row), named(table, row).rsplit(" ", 1)[0]}
    ]
    assert not surprises


def test_what_is_known_not_to_fire_does_not(seen: tuple[dict[str, list[Row]], dict[str, list[Row]]]) -> None:
    _, idle = seen
    silent = {named(table, row) for table, rows in idle.items() for row in rows}
    silent |= {name.rsplit(" ", 1)[0] for name in silent}
    assert not {name.strip() for names in IDLE.values() for name in names.split(",")} - silent


def test_no_row_fires_that_its_table_calls_impossible(seen: tuple[dict[str, list[Row]], dict[str, list[Row]]]) -> None:
    fired, _ = seen
    assert [named(t, r) for t, rows in fired.items() for r in rows if r.verdict is Verdict.NEVER] == []
