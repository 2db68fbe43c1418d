"""The interpreter: the only place that changes a state.

A machine is at a *node*: one state with one value for each declared field. Both are finite, so an event is one look-up
from the node to an edge: next node, effects, cause. An edge is worked out from the table's rows the first time it is
asked for and kept, so guards and updates cost nothing afterwards, and a table is never compiled by hand.

* :class:`Rules` is a table made ready to run, shared by all machines of its kind.
* :class:`Signal` is an event with its arguments; there is one object for each combination, so it is hashed by identity.
* A refused event raises :class:`LocalProtocolError` and leaves the machine at its node.
* A row that the table calls impossible leads where ``Table.broken`` says, with cause INTERNAL: never an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import product

from kvpoll.spec.causes import Cause
from kvpoll.spec.effects import Effect
from kvpoll.spec.table import EventSpec, Field, Row, Table, Value, Verdict, evaluate

from .errors import LocalProtocolError

__all__ = ["Edge", "Machine", "Node", "Rules", "Signal"]


class Signal:
    """An event with a value for each of its arguments. Made by :meth:`Rules.signal` only."""

    __slots__ = ("args", "event", "name")

    def __init__(self, event: Enum, args: Mapping[str, Value]) -> None:
        self.event = event
        self.args = dict(args)
        self.name = event.name + "".join(f" {k}={v}" for k, v in sorted(args.items()))

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Edge:
    """What one signal does at one node."""

    __slots__ = ("cause", "effects", "node", "row", "verdict")

    def __init__(self, node: Node, row: Row, effects: tuple[Effect, ...]) -> None:
        self.node = node
        self.row = row
        self.verdict = row.verdict
        self.effects = effects
        self.cause: Cause | None = row.cause


class Node:
    """A state with a value for each field of its table."""

    __slots__ = ("edges", "rules", "state", "values")

    def __init__(self, rules: Rules, state: Enum, values: tuple[Value, ...]) -> None:
        self.rules = rules
        self.state = state
        self.values = values
        self.edges: dict[Signal, Edge] = {}

    def __getitem__(self, field: Field) -> Value:
        return self.values[self.rules.position[field.name]]

    def __repr__(self) -> str:
        named = (f"{f.name}={v}" for f, v in zip(self.rules.table.fields, self.values, strict=True))
        return f"<{self.rules.table.name} {self.state.name} {' '.join(named)}>"


class Rules:
    """A table made ready to run."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.position = {f.name: i for i, f in enumerate(table.fields)}
        self.specs: dict[Enum, EventSpec] = {spec.event: spec for spec in table.events}
        self._rows: dict[tuple[Enum, Enum], list[Row]] = {}
        for row in table.rows:
            self._rows.setdefault((row.state, row.event), []).append(row)
        self._signals = {
            (spec.event, values): Signal(spec.event, dict(zip((a.name for a in spec.args), values, strict=True)))
            for spec in table.events
            for values in product(*(a.domain for a in spec.args))
        }
        self._nodes: dict[tuple[Enum, tuple[Value, ...]], Node] = {}
        self.initial = self.node(table.initial, tuple(f.initial for f in table.fields))

    def signal(self, event: Enum, **args: Value) -> Signal:
        """The one object for this event and these arguments. Raises ``KeyError`` for what the table does not declare."""
        names = tuple(a.name for a in self.specs[event].args)
        if len(names) != len(args):
            raise KeyError(f"{event.name} takes {names}, got {tuple(args)}")
        return self._signals[event, tuple(args[name] for name in names)]

    def signals(self) -> Iterator[Signal]:
        return iter(self._signals.values())

    def node(self, state: Enum, values: tuple[Value, ...]) -> Node:
        """The one object for this state and these values."""
        return self._nodes.setdefault((state, values), Node(self, state, values))

    def match(self, node: Node, signal: Signal) -> list[Row]:
        """Every row that applies; exactly one in a table that its checker passes."""
        env = dict(zip(self.position, node.values, strict=True)) | signal.args
        return [r for r in self._rows.get((node.state, signal.event), ()) if evaluate(r.guard, env)]

    def expand(self, node: Node, signal: Signal) -> Edge:
        """Work out an edge and keep it. Raises :class:`LocalProtocolError` for a refused event, ``LookupError`` for a
        signal of another table or a hole in this one (which the checker finds)."""
        rows = self.match(node, signal)
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows of table {self.table.name} match {node!r} on {signal!r}")
        row = rows[0]
        if row.verdict is Verdict.REFUSE:
            raise LocalProtocolError(
                f"{signal.event.name} is refused in {node.state.name}: {row.why}",
                state=node.state.name,
                event=signal.event.name,
            )
        if row.verdict is Verdict.NEVER:
            broken = self.table.broken
            if broken is None or node.state in self.table.terminal:
                edge = Edge(node, row, ())
            else:
                edge = Edge(self.node(broken[0], node.values), row, broken[1])
        else:
            env = dict(zip(self.position, node.values, strict=True)) | signal.args
            values = list(node.values)
            for update in row.updates:
                value = update.value
                values[self.position[update.field.name]] = env[value.name] if isinstance(value, Field) else value
            edge = Edge(self.node(row.next, tuple(values)), row, row.effects)
        node.edges[signal] = edge
        return edge


class Machine:
    """One running machine. ``node`` is all there is of it: take it as a snapshot, assign it to restore."""

    __slots__ = ("node",)

    def __init__(self, rules: Rules, node: Node | None = None) -> None:
        self.node = rules.initial if node is None else node

    def feed(self, signal: Signal) -> Edge:
        """Follow the edge for ``signal`` and return it."""
        node = self.node
        try:
            edge = node.edges[signal]
        except KeyError:
            edge = node.rules.expand(node, signal)
        self.node = edge.node
        return edge
