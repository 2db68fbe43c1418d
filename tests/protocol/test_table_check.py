"""Each rule of the checker is tested by planting one fault into a copy of a real table: that rule fires, no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

import pytest

from kvpoll.protocol.interpreter import Rules
from kvpoll.protocol.table_check import Rule, check, reachable
from kvpoll.spec import (
    LEASE,
    LINK,
    SENDER,
    TABLES,
    Cause,
    Effect,
    KVPoll,
    LeaseEvent,
    LeaseState,
    LinkEvent,
    LinkState,
    Row,
    SenderEvent,
    Table,
)
from kvpoll.spec.table import All, AnyOf, Expr, Field, Is, Not, Update, Verdict

B, T = KVPoll.Bootstrapping, KVPoll.Transferring
GHOST = Field("ghost", (False, True), False, "declared nowhere")
FIELD = {f.name: f for t in TABLES.values() for f in t.fields if t is SENDER or t is LEASE}
ARG = {a.name: a for e in SENDER.events for a in e.args}


def at(table: Table, state: Enum, event: Enum, verdict: Verdict | None = None) -> int:
    """Where the first such row stands."""
    return next(
        i
        for i, r in enumerate(table.rows)
        if r.state is state and r.event is event and (verdict is None or r.verdict is verdict)
    )


def edit(table: Table, where: int, *rows: Row) -> Table:
    return replace(table, rows=(*table.rows[:where], *rows, *table.rows[where + 1 :]))


def with_row(
    table: Table, state: Enum, event: Enum, change: Callable[[Row], Row], verdict: Verdict | None = None
) -> Table:
    where = at(table, state, event, verdict)
    return edit(table, where, change(table.rows[where]))


def alter(
    table: Table, state: Enum, event: Enum, which: Verdict | None = None, /, **changes: object
) -> Callable[[], Table]:
    """The first such row with other values; made when asked for, so that a missing row fails one test only."""
    return lambda: with_row(table, state, event, lambda r: replace(r, **changes), which)  # type: ignore[arg-type]


def swap(table: Table, old: Field, new: Field) -> Table:
    """The same table with a field declared otherwise, everywhere."""

    def expr(guard: Expr) -> Expr:
        match guard:
            case Is(field=field, value=value) if field == old:
                return Is(new, value)
            case Not(term=term):
                return Not(expr(term))
            case All(terms=terms):
                return All(tuple(map(expr, terms)))
            case AnyOf(terms=terms):
                return AnyOf(tuple(map(expr, terms)))
        return new if guard == old else guard

    def row(r: Row) -> Row:
        updates = tuple(Update(new if u.field == old else u.field, u.value) for u in r.updates)
        return replace(r, guard=expr(r.guard), updates=updates)

    fields = tuple(new if f == old else f for f in table.fields)
    return replace(table, fields=fields, rows=tuple(map(row, table.rows)))


def quiet(r: Row) -> Row:
    return replace(r, verdict=Verdict.IGNORE, next=r.state, updates=(), effects=(), cause=None)


def split_by_a_node_that_is_not_reached() -> Table:
    """``push`` is only known once bound, so the first half never matches."""
    where = at(SENDER, B, SenderEvent.ABORT)
    row, half = SENDER.rows[where], ~FIELD["bound"] & FIELD["push"]
    return edit(SENDER, where, replace(row, guard=half), replace(row, guard=~half))


def with_arg(event: Enum, arg: Field) -> Table:
    return replace(
        SENDER, events=tuple(replace(e, args=(*e.args, arg)) if e.event is event else e for e in SENDER.events)
    )


def swapped_rows() -> Table:
    first, second = at(SENDER, B, SenderEvent.ABORT), at(SENDER, B, SenderEvent.BIND)
    return edit(edit(SENDER, first, SENDER.rows[second]), second, SENDER.rows[first])


S, L, K = SenderEvent, LeaseEvent, LinkEvent
HELD, FLIGHT, DRAIN = LeaseState.HELD, LeaseState.IN_FLIGHT, LeaseState.DRAINING
GREETING, OPEN, OVER = LinkState.GREETING, LinkState.OPEN, LinkState.OVER
bound, plan, asked, own = FIELD["bound"], FIELD["plan"], FIELD["asked"], FIELD["own"]
REFUSE, STAY, GO = Verdict.REFUSE, Verdict.STAY, Verdict.GO


def refuse_to_answer(table: Table, where: Callable[[Row], bool]) -> Table:
    """Rows that say NEVER instead of what they said."""
    never = [replace(quiet(r), verdict=Verdict.NEVER, cause=Cause.INTERNAL) if where(r) else r for r in table.rows]
    return replace(table, rows=tuple(never))


PLANTED: list[tuple[Rule, str, Callable[[], Table]]] = [
    (Rule.NAME_ONCE, "an argument hides a field", lambda: with_arg(S.BIND, bound)),
    (Rule.NAME_ONCE, "an event twice", lambda: replace(LINK, events=(*LINK.events, LINK.events[0]))),
    (Rule.INITIAL_IN_DOMAIN, "a field", lambda: swap(SENDER, plan, replace(plan, initial="ajar"))),
    (Rule.INITIAL_IN_DOMAIN, "1 for True", lambda: swap(LEASE, own, replace(own, initial=1))),  # type: ignore[arg-type]
    (Rule.STATE_DECLARED, "next", alter(SENDER, B, S.META, next=LeaseState.FREE)),
    (Rule.STATE_DECLARED, "initial", lambda: replace(SENDER, initial=OPEN)),
    (Rule.EVENT_DECLARED, "waiting", lambda: replace(SENDER, waiting={**SENDER.waiting, T: (L.CLOSE,)})),
    (Rule.EVENT_DECLARED, "a row", alter(LINK, OPEN, K.BEAT, event=L.TAKE)),
    (Rule.GUARD_NAMES, "a ghost", alter(SENDER, B, S.ABORT, guard=GHOST)),
    (Rule.GUARD_NAMES, "an argument of another event", alter(SENDER, B, S.ABORT, guard=~ARG["all"])),
    (Rule.GUARD_VALUES, "no such value", alter(SENDER, B, S.ABORT, guard=plan.is_("ajar"))),
    (Rule.GUARD_VALUES, "a word stands bare", alter(SENDER, B, S.ABORT, guard=plan)),
    (
        Rule.UPDATE_FIELDS,
        "an argument",
        alter(SENDER, B, S.BIND, updates=(ARG["is_push"].to(True), FIELD["push"].to(ARG["is_push"]))),
    ),
    (Rule.UPDATE_FIELDS, "twice", alter(SENDER, B, S.BIND, updates=(bound.to(True), bound.to(ARG["is_push"])))),
    (Rule.UPDATE_VALUES, "no such value", alter(SENDER, B, S.SEND, updates=(plan.to("ajar"),))),
    (Rule.UPDATE_VALUES, "a wider field", alter(SENDER, B, S.ASK, updates=(asked.to(plan),))),
    (Rule.UPDATE_VALUES, "an argument of another event", alter(SENDER, B, S.ASK, updates=(asked.to(ARG["all"]),))),
    (Rule.EFFECT_DECLARED, "twice", alter(LINK, OPEN, K.BEAT, effects=(Effect.BEAT, Effect.BEAT))),
    (Rule.EFFECT_DECLARED, "a word", lambda: replace(SENDER, broken=(KVPoll.Failed, ("CLOSE",)))),  # type: ignore[arg-type]
    (Rule.USED, "a field", lambda: replace(SENDER, fields=(*SENDER.fields, GHOST))),
    (Rule.USED, "an argument", lambda: with_arg(S.ABORT, GHOST)),
    (Rule.USED, "an event", lambda: refuse_to_answer(LINK, lambda r: r.event is K.MISMATCH)),
    (Rule.WHY, "a row", alter(SENDER, B, S.ABORT, why=" ")),
    (Rule.WHY, "an event", lambda: replace(LINK, events=(replace(LINK.events[0], why=""), *LINK.events[1:]))),
    (Rule.ORDER, "two events", swapped_rows),
    (Rule.ORDER, "a state in two blocks", lambda: replace(LINK, rows=(*LINK.rows[1:], LINK.rows[0]))),
    (Rule.TOTAL, "a row is missing", lambda: edit(SENDER, at(SENDER, T, S.SILENCE))),
    (Rule.TOTAL, "a pair is missing", lambda: edit(LINK, at(LINK, OVER, K.LOST))),
    (Rule.DISJOINT, "a guard is too wide", alter(LEASE, FLIGHT, L.QUIET, guard=own)),
    (Rule.DISJOINT, "a row stands twice", lambda: edit(LINK, 0, LINK.rows[0], LINK.rows[0])),
    (Rule.NEXT, "STAY moves", alter(SENDER, B, S.BIND, next=T)),
    (Rule.NEXT, "GO stays", alter(LEASE, HELD, L.START, next=HELD)),
    (Rule.NEXT, "IGNORE moves", alter(LEASE, HELD, L.QUIET, next=FLIGHT)),
    (Rule.UNTOUCHED, "IGNORE updates", alter(LEASE, HELD, L.QUIET, updates=(own.to(False),))),
    (Rule.UNTOUCHED, "REFUSE acts", alter(SENDER, B, S.SEND, REFUSE, effects=(Effect.REPLY,))),
    (Rule.REFUSE_ENGINE, "a peer", alter(LINK, OPEN, K.WELCOME, verdict=REFUSE)),
    (Rule.CAUSE, "FAIL without", alter(SENDER, B, S.ABORT, cause=None)),
    (Rule.CAUSE, "STAY with", alter(SENDER, B, S.BIND, cause=Cause.ABORTED)),
    (Rule.CAUSE, "NEVER with another", alter(SENDER, B, S.OP_DONE, cause=Cause.ABORTED)),
    (Rule.FAIL_TARGET, "Success", alter(SENDER, T, S.ABORT, next=KVPoll.Success)),
    (Rule.TERMINAL, "revoked", alter(SENDER, KVPoll.Success, S.ABORT, verdict=GO, next=T)),
    (Rule.TERMINAL, "broken", lambda: replace(SENDER, broken=(T, (Effect.CLOSE,)))),
    (Rule.WAITING, "a state is not listed", lambda: replace(LINK, waiting={GREETING: (K.HELLO_LATE,)})),
    (Rule.WAITING, "an empty list", lambda: replace(SENDER, waiting={**SENDER.waiting, T: ()})),
    (Rule.WAITING, "a terminal state", lambda: replace(SENDER, waiting={**SENDER.waiting, KVPoll.Failed: (S.TOTAL,)})),
    (Rule.REACHABLE_STATE, "no way in", lambda: with_row(LINK, GREETING, K.MISMATCH, quiet)),
    (Rule.REACHABLE_ROW, "a dead half", split_by_a_node_that_is_not_reached),
    (Rule.EXIT, "the deadline is ignored", lambda: with_row(SENDER, T, S.TOTAL, quiet)),
    (Rule.EXIT, "only in one order", lambda: with_row(LEASE, DRAIN, L.DRAINED, quiet, STAY)),
]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_of_the_project_is_clean(table: Table) -> None:
    assert [str(f) for f in check(table)] == []


@pytest.mark.parametrize(
    ("rule", "make"), [(r, m) for r, _, m in PLANTED], ids=[f"{r.name}: {w}" for r, w, _ in PLANTED]
)
def test_a_planted_fault_is_found_by_its_rule_and_by_no_other(rule: Rule, make: Callable[[], Table]) -> None:
    found = check(make())
    assert {f.rule for f in found} == {rule}, [str(f) for f in found]


def test_every_rule_has_a_planted_fault() -> None:
    assert {rule for rule, _, _ in PLANTED} == set(Rule)


def test_a_finding_names_the_table_the_state_the_event_and_the_assignment() -> None:
    (found,) = check(edit(SENDER, at(SENDER, T, SenderEvent.SILENCE, Verdict.STAY)))
    assert found.where == "sender Transferring on SILENCE"
    assert found.sentence == "no row matches asked=no doubt=yes"


def test_an_overlap_names_both_guards() -> None:
    bad = with_row(LEASE, FLIGHT, L.QUIET, lambda r: replace(r, guard=own))
    (found,) = check(bad)
    assert found.sentence == "own=yes theirs=yes, 2 rows match: own; own and theirs"


def test_totality_is_decided_over_every_value_of_a_field_that_is_no_truth_value() -> None:
    where = at(SENDER, B, SenderEvent.SEND, Verdict.REFUSE)
    narrow = edit(SENDER, where, replace(SENDER.rows[where], guard=FIELD["plan"].is_("closed")))
    assert any("plan=empty" in f.sentence for f in check(narrow))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_nodes_that_are_reached_are_closed_under_every_row_but_never(table: Table) -> None:
    rules = Rules(table)
    nodes = reachable(rules)
    assert nodes[0] is rules.initial
    assert len(set(nodes)) == len(nodes)
    for node in nodes:
        for signal in rules.signals():
            (row,) = rules.match(node, signal)
            if row.verdict not in (Verdict.NEVER, Verdict.REFUSE):
                assert rules.expand(node, signal).node in set(nodes)


def test_never_rows_are_not_followed() -> None:
    alone = replace(refuse_to_answer(LINK, lambda r: r.state is GREETING), broken=(OVER, ()))
    assert [n.state for n in reachable(Rules(alone))] == [GREETING]
