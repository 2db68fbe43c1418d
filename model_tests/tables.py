"""The tables that the sessions run on: which rows fired, and what happens with another table instead.

Both hold for a ``with`` block and for this process only. A guard that nobody tested guards nothing: a mutant is a table in
which one row is wrong, and some property of some small world must find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from itertools import product

from kvpoll.protocol import links, receiver, sender, staging
from kvpoll.protocol.interpreter import Node, Rules
from kvpoll.protocol.records import Lease, LeaseKind
from kvpoll.spec import Effect
from kvpoll.spec.table import Row, Table, Value, Verdict, evaluate

__all__ = [
    "RULES", "Watch", "changed", "ignored", "instead", "negated", "nodes_of", "row_of", "to", "unstated", "watch", "without",
]  # fmt: skip

#: Every machine's rules, by the name of its table.
RULES: dict[str, Rules] = {
    "sender": sender.RULES,
    "receiver": receiver.RULES,
    "link": links.RULES,
    "lease": Lease(LeaseKind.COPY).node.rules,
    "staging": staging.RULES,
}


# What a row can be turned into.
def ignored(row: Row) -> Row:
    """Nothing happens."""
    return replace(row, verdict=Verdict.IGNORE, next=row.state, updates=(), effects=(), cause=None)


def without(*effects: Effect) -> Callable[[Row], Row]:
    """These effects are forgotten."""
    return lambda row: replace(row, effects=tuple(e for e in row.effects if e not in effects))


def unstated(row: Row) -> Row:
    """The updates are forgotten."""
    return replace(row, updates=())


def to(state: Enum) -> Callable[[Row], Row]:
    """It leads elsewhere."""
    return lambda row: replace(row, next=state)


def row_of(table: Table, state: Enum, event: Enum, **where: Value) -> Row:
    """The one row of (state, event) that holds where the fields and arguments have these values; initial ones if left
    out. Raises ``LookupError`` for none or several."""
    spec = next(s for s in table.events if s.event is event)
    env = {f.name: f.initial for f in (*table.fields, *spec.args)} | where
    rows = [r for r in table.rows if r.state is state and r.event is event and evaluate(r.guard, env)]
    if len(rows) != 1:
        raise LookupError(f"{len(rows)} rows of {table.name} for {state.name} {event.name} {where}")
    return rows[0]


def negated(row: Row, other: Row) -> Callable[[Table], Table]:
    """Two rows of one (state, event) swap their guards: each applies where the other should."""
    mine, theirs = replace(row, guard=other.guard), replace(other, guard=row.guard)
    return lambda table: changed(changed(table, row, lambda _: mine), other, lambda _: theirs)


def changed(table: Table, row: Row, how: Callable[[Row], Row]) -> Table:
    """The table with one row changed."""
    return replace(table, rows=tuple(how(r) if r is row else r for r in table.rows))


@contextmanager
def instead(table: Table) -> Iterator[None]:
    """The machines of this name follow ``table``, which has the same states, fields and events."""
    rules = RULES[table.name]
    before = rules.table
    _follow(rules, table)
    try:
        yield
    finally:
        _follow(rules, before)


class Watch:
    """Which rows fired since it began. Refused calls are not counted: they change nothing."""

    def fired(self, name: str) -> set[Row]:
        return {edge.row for node in nodes_of(RULES[name]) for edge in node.edges.values()}

    def idle(self, name: str) -> list[Row]:
        """The rows that did not fire, but are not called impossible, and do not refuse."""
        fired, silent = self.fired(name), (Verdict.NEVER, Verdict.REFUSE)
        return [r for r in RULES[name].table.rows if r.verdict not in silent and r not in fired]


@contextmanager
def watch() -> Iterator[Watch]:
    """Watch every table."""
    for rules in RULES.values():
        _follow(rules, rules.table)
    yield Watch()


def nodes_of(rules: Rules) -> list[Node]:
    """Every node that a machine with these rules can be at."""
    table = rules.table
    values = list(product(*(f.domain for f in table.fields)))
    return [rules.node(state, v) for state in table.states for v in values]


def _follow(rules: Rules, table: Table) -> None:
    """Nodes and signals stay as they are, for sessions and records hold them; what rows say is looked up again."""
    fresh = Rules(table)
    rules.table, rules._rows = table, fresh._rows
    for node in nodes_of(rules):
        node.edges.clear()
