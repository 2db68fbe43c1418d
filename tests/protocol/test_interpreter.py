"""The interpreter against the tables: what it refuses, where NEVER leads, what absorbs, and that memory equals rows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Machine, Node, Rules, Signal
from kvpoll.protocol.table_check import reachable
from kvpoll.spec import LEASE, LINK, SENDER, TABLES, Cause, Effect, KVPoll, LeaseEvent, LinkEvent, SenderEvent, Table
from kvpoll.spec.table import All, AnyOf, Expr, Field, Is, Not, Row, Value, Verdict

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def true_in(guard: Expr, env: Mapping[str, Value]) -> bool:
    """A second reading of a guard, written apart from the first."""
    if isinstance(guard, Field):
        return env[guard.name] is True
    if isinstance(guard, Is):
        return env[guard.field.name] is guard.value or env[guard.field.name] == guard.value
    if isinstance(guard, Not):
        return not true_in(guard.term, env)
    assert isinstance(guard, All | AnyOf), guard
    counted = sum(true_in(t, env) for t in guard.terms)
    return counted == len(guard.terms) if isinstance(guard, All) else counted > 0


def by_hand(
    table: Table, node: Node, signal: Signal
) -> tuple[Row, Enum, tuple[Value, ...], tuple[Effect, ...], Cause | None]:
    """The edge, worked out from the rows with nothing kept."""
    fields = {f.name: v for f, v in zip(table.fields, node.values, strict=True)}
    env = {**fields, **signal.args}
    (row,) = (r for r in table.rows if (r.state, r.event) == (node.state, signal.event) and true_in(r.guard, env))
    if row.verdict is Verdict.NEVER and table.broken is not None and node.state not in table.terminal:
        return row, table.broken[0], node.values, table.broken[1], row.cause
    for update in row.updates:
        fields[update.field.name] = env[update.value.name] if isinstance(update.value, Field) else update.value
    return row, row.next, tuple(fields.values()), row.effects, row.cause


@each_table
def test_each_edge_equals_an_independent_reading_of_the_rows_also_when_followed_again(table: Table) -> None:
    rules = Rules(table)
    compared = 0
    for node in reachable(rules):
        for signal in rules.signals():
            row, state, values, effects, cause = by_hand(table, node, signal)
            for _ in range(2):  # the second time from memory
                machine = Machine(rules, node)
                if row.verdict is Verdict.REFUSE:
                    with pytest.raises(LocalProtocolError):
                        machine.feed(signal)
                    continue
                edge = machine.feed(signal)
                assert (edge.row, edge.verdict, edge.effects, edge.cause) == (row, row.verdict, effects, cause)
                assert machine.node is edge.node
                assert (machine.node.state, machine.node.values) == (state, values), f"{node!r} on {signal!r}"
                compared += 1
    assert compared > len(table.events)


@each_table
def test_a_refused_event_raises_and_leaves_every_node_as_it_was(table: Table) -> None:
    rules = Rules(table)
    for node in reachable(rules):
        for signal in rules.signals():
            (row,) = rules.match(node, signal)
            if row.verdict is Verdict.REFUSE:
                machine, before = Machine(rules, node), (node.state, node.values)
                with pytest.raises(LocalProtocolError, match=signal.event.name) as caught:
                    machine.feed(signal)
                assert machine.node is node
                assert (node.state, node.values) == before
                assert caught.value.details == {"state": node.state.name, "event": signal.event.name}
                assert row.why in str(caught.value)


def test_a_call_after_the_last_chunk_is_refused() -> None:
    rules = Rules(SENDER)
    machine = Machine(rules)
    machine.feed(rules.signal(SenderEvent.SEND, last=True, rows=True, idle=False))
    with pytest.raises(LocalProtocolError):
        machine.feed(rules.signal(SenderEvent.SEND, last=False, rows=True, idle=False))


@each_table
def test_a_row_that_cannot_happen_is_a_failure_with_cause_internal_and_never_an_exception(table: Table) -> None:
    rules = Rules(table)
    fired = 0
    for node in reachable(rules):
        for signal in rules.signals():
            if rules.match(node, signal)[0].verdict is Verdict.NEVER:
                edge = Machine(rules, node).feed(signal)
                fired += 1
                assert (edge.verdict, edge.cause) == (Verdict.NEVER, Cause.INTERNAL)
                assert edge.node.values == node.values
                if table.broken is None or node.state in table.terminal:
                    assert (edge.node, edge.effects) == (node, ())
                else:
                    assert (edge.node.state, edge.effects) == table.broken
    assert fired > 0


@each_table
def test_a_terminal_state_absorbs_every_signal_at_every_node(table: Table) -> None:
    rules = Rules(table)
    terminal = [n for n in reachable(rules) if n.state in table.terminal]
    assert {n.state for n in terminal} == set(table.terminal)
    for node in terminal:
        for signal in rules.signals():
            machine = Machine(rules, node)
            if rules.match(node, signal)[0].verdict is Verdict.REFUSE:
                continue
            edge = machine.feed(signal)
            assert edge.verdict not in (Verdict.GO, Verdict.FAIL)
            assert machine.node.state is node.state


def test_a_broken_room_stays_broken_with_what_every_failure_does() -> None:
    rules = Rules(SENDER)
    machine = Machine(rules)
    edge = machine.feed(rules.signal(SenderEvent.OP_DONE))
    assert (machine.node.state, edge.effects) == (KVPoll.Failed, (Effect.SEND_ABORT, Effect.CLOSE))
    machine.feed(rules.signal(SenderEvent.BIND, is_push=True, all=True))
    assert machine.node.state is KVPoll.Failed


def test_a_node_is_a_snapshot_that_another_machine_can_go_on_from() -> None:
    rules = Rules(LEASE)
    first = Machine(rules)
    for event in (LeaseEvent.TAKE, LeaseEvent.START):
        first.feed(rules.signal(event))
    snapshot = first.node
    first.feed(rules.signal(LeaseEvent.CLOSE))
    second = Machine(rules, snapshot)
    assert second.node is snapshot
    assert second.feed(rules.signal(LeaseEvent.CLOSE)).node is first.node
    first.node = snapshot
    assert first.feed(rules.signal(LeaseEvent.QUIET)).node.state.name == "HELD"


def test_machines_of_one_table_share_nodes_and_edges() -> None:
    rules = Rules(LINK)
    signal = rules.signal(LinkEvent.WELCOME)
    assert Machine(rules).feed(signal) is Machine(rules).feed(signal)
    assert rules.node(LINK.initial, ()) is rules.initial


def test_a_signal_of_another_table_is_a_lookup_error_and_moves_nothing() -> None:
    rules = Rules(SENDER)
    for foreign in (Rules(LINK).signal(LinkEvent.WELCOME), Rules(LEASE).signal(LeaseEvent.CLOSE)):
        machine = Machine(rules)
        with pytest.raises(LookupError, match="sender"):
            machine.feed(foreign)
        assert machine.node is rules.initial


@pytest.mark.parametrize(
    ("event", "args"),
    [
        (LinkEvent.WELCOME, {}),
        (SenderEvent.BIND, {}),
        (SenderEvent.BIND, {"is_push": "maybe", "all": True}),
        (SenderEvent.META, {"is_push": True}),
    ],
    ids=["an event of another table", "no argument", "no such value", "another argument"],
)
def test_only_declared_signals_can_be_made(event: Enum, args: dict[str, Value]) -> None:
    with pytest.raises(KeyError):
        Rules(SENDER).signal(event, **args)


def test_a_field_of_a_node_is_read_by_its_declaration() -> None:
    rules = Rules(SENDER)
    plan = next(f for f in SENDER.fields if f.name == "plan")
    machine = Machine(rules)
    assert machine.node[plan] == "open"
    machine.feed(rules.signal(SenderEvent.SEND, last=True, rows=False, idle=True))
    assert machine.node[plan] == "empty"
