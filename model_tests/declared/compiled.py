"""Terms and statements of a declared world as functions of a list of slots: machines' nodes, counters, channels.

A machine is the production interpreter's :class:`~kvpoll.protocol.interpreter.Node`, and it moves as in a session: by the
edge that the node keeps for a signal, worked out by :meth:`Rules.expand` from the rows the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

from kvpoll.model_tests.explorer import Violation
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Edge, Node, Rules
from kvpoll.spec.table import Row, Table, Verdict

from .terms import Both, Either, Empty, Has, In, Less, No, Num, Pick, Same, Scaled, Sum, Term, Var, bind
from .world import Body, Call, Clear, DeclaredWorld, Feed, Must, Put, Say, Statement, When

__all__ = ["Compiler", "Do", "Slots", "Worth"]

#: The state of a world while a step is done: ``Node``, ``int``, and for a queue a tuple of numbers.
Slots: TypeAlias = list[Any]
Worth: TypeAlias = Callable[[Slots], int]
Do: TypeAlias = Callable[[Slots], None]


class Compiler:
    """Of one world. ``slot`` numbers its machines and counters, those of one side after each other, then its channels;
    ``cells`` are the slots of each side, then those of no side."""

    def __init__(self, world: DeclaredWorld) -> None:
        self.world = world
        initial = {m.name: m for m in world.machines} | {v.name: v for v in world.variables}
        sided = [name for side in world.sides for name in side]
        rest = tuple(name for name in initial if name not in sided)
        names = [*sided, *rest, *(channel.name for channel in world.channels)]
        self.slot = {name: i for i, name in enumerate(names)}
        if len(self.slot) != len(names) or len(initial) != len(world.machines) + len(world.variables):
            raise ValueError(f"world {world.name}: two machines, counters or channels have one name")
        rules = {id(m.table): Rules(m.table) for m in world.machines}
        self.rules = {m.name: rules[id(m.table)] for m in world.machines}
        self.cells = [tuple(self.slot[name] for name in side) for side in (*world.sides, rest)]
        self.tops = {v.name: v.top for v in world.variables}
        self._effects: dict[tuple[str, object, int], Do] = {}
        self._calls: dict[str, Do] = {}

    def start(self) -> tuple[object, ...]:
        """The slots at the start."""
        slots: list[object] = [0] * len(self.slot)
        for machine in self.world.machines:
            node = self.rules[machine.name].initial
            if machine.start is not None:
                node = node.rules.node(machine.start, node.values)
            slots[self.slot[machine.name]] = node
        for var in self.world.variables:
            slots[self.slot[var.name]] = var.initial
        for channel in self.world.channels:
            slots[self.slot[channel.name]] = 0 if channel.is_set else ()
        return tuple(slots)

    # -- terms ---------------------------------------------------------------------------------------------------------
    def worth(self, term: Term) -> Worth:
        """What a term is worth. Raises ``KeyError`` for a name that the world does not declare."""
        match term:
            case Num(value=value):
                return lambda v: value
            case Var(name=name):
                return itemgetter(self.slot[name])
            case In(machine=machine, states=states):
                return self._in(self.slot[machine], frozenset(states))
            case Has(machine=machine, field=field, value=wanted):
                return self._has(self.slot[machine], self.rules[machine].position[field.name], wanted)
            case Same(first=first, second=second):
                a, b = self.worth(first), self.worth(second)
                return lambda v: a(v) == b(v)
            case Less(first=first, second=second):
                a, b = self.worth(first), self.worth(second)
                return lambda v: a(v) < b(v)
            case No(term=inner):
                a = self.worth(inner)
                return lambda v: not a(v)
            case Both(terms=terms):
                return _all([self.worth(t) for t in terms])
            case Either(terms=terms):
                return _any([self.worth(t) for t in terms])
            case Sum(terms=terms):
                each = [self.worth(t) for t in terms]
                return lambda v: sum(one(v) for one in each)
            case Scaled(term=inner, by=by):
                a = self.worth(inner)
                return lambda v: a(v) * by
            case Pick(term=test, then=then, other=other):
                a, b, c = self.worth(test), self.worth(then), self.worth(other)
                return lambda v: b(v) if a(v) else c(v)
            case Empty(channel=channel):
                at = self.slot[channel]
                return lambda v: not v[at]
        raise TypeError(f"not a term without fields of a message: {term!r}")

    @staticmethod
    def _in(at: int, states: frozenset[object]) -> Worth:
        known: dict[Node, bool] = {}

        def worth(v: Slots) -> int:
            node = v[at]
            found = known.get(node)
            if found is None:
                found = known[node] = node.state in states
            return found

        return worth

    @staticmethod
    def _has(at: int, position: int, value: object) -> Worth:
        return lambda v: v[at].values[position] == value

    # -- statements ----------------------------------------------------------------------------------------------------
    def body(self, body: Body, fields: dict[str, int]) -> Do:
        """Do every statement, with these fields of the message that is received."""
        each = [self._statement(s, fields) for s in body]
        if len(each) == 1:
            return each[0]

        def do(v: Slots) -> None:
            for one in each:
                one(v)

        return do

    def _statement(self, statement: Statement, fields: dict[str, int]) -> Do:
        match statement:
            case Put(var=var, value=value):
                return self._put(var.name, self.worth(bind(value, fields)))
            case When(term=term, then=then, other=other):
                return self._when(self.worth(bind(term, fields)), self.body(then, fields), self.body(other, fields))
            case Feed():
                return self._feed(statement, fields)
            case Say():
                return self._say(statement, fields)
            case Clear(channel=channel):
                at, empty = self.slot[channel], 0 if self.world.channel(channel).is_set else ()
                return lambda v: v.__setitem__(at, empty)
            case Call(name=name):
                return self._call(name)
            case Must(name=name, term=term, sentence=sentence):
                return self._must(self.worth(bind(term, fields)), name, sentence)

    def _put(self, name: str, worth: Worth) -> Do:
        at, top = self.slot[name], self.tops[name]

        def do(v: Slots) -> None:
            value = int(worth(v))
            if not 0 <= value <= top:
                raise Violation("Bounded", f"{name} became {value}, expected 0 to {top}")
            v[at] = value

        return do

    @staticmethod
    def _when(test: Worth, then: Do, other: Do) -> Do:
        def do(v: Slots) -> None:
            if test(v):
                then(v)
            else:
                other(v)

        return do

    @staticmethod
    def _must(test: Worth, name: str, sentence: str) -> Do:
        def do(v: Slots) -> None:
            if not test(v):
                raise Violation(name, sentence)

        return do

    def _call(self, name: str) -> Do:
        if name not in self._calls:
            self._calls[name] = self.body(self.world.procedures[name], {})
        return self._calls[name]

    def _say(self, say: Say, fields: dict[str, int]) -> Do:
        channel, at = self.world.channel(say.channel), self.slot[say.channel]
        number = self.worth(bind(channel.number(say), fields))

        def add(v: Slots) -> None:
            v[at] |= 1 << number(v)

        def append(v: Slots) -> None:
            v[at] = queued(v[at], number(v), channel.name, channel.capacity)

        return add if channel.is_set else append

    def _feed(self, feed: Feed, fields: dict[str, int]) -> Do:
        name, rules, at = feed.machine, self.rules[feed.machine], self.slot[feed.machine]
        given = [(arg, self.worth(bind(term, fields))) for arg, term in feed.args]
        signals = {
            tuple(bool(signal.args[arg]) for arg, _ in given): signal
            for signal in rules.signals()
            if signal.event is feed.event
        }
        worths = [worth for _, worth in given]
        effects: dict[Edge, tuple[Do, ...]] = {}

        def do(v: Slots) -> None:
            signal = signals[tuple([bool(worth(v)) for worth in worths])]
            node = v[at]
            try:
                edge = node.edges.get(signal) or rules.expand(node, signal)
            except LocalProtocolError as refused:
                raise Violation("EngineObeys", f"{name}: {refused}") from None
            if edge.verdict is Verdict.NEVER:
                raise Violation(
                    "TotalHandlers", f"a row of {name} that is called impossible fired: {text_of(edge.row)}"
                )
            v[at] = edge.node
            found = effects.get(edge)
            if found is None:
                found = effects[edge] = tuple(self._effect(name, effect, feed.part) for effect in edge.effects)
            for one in found:
                one(v)

        return do

    def _effect(self, machine: str, effect: Any, part: int) -> Do:  # noqa: ANN401 - an Effect
        key = (machine, effect, part)
        if key not in self._effects:
            self._effects[key] = self.body(self.world.effect(machine, effect, part), {})
        return self._effects[key]

    # -- what a step depends on ----------------------------------------------------------------------------------------
    def reads(self, term: Term, fields: dict[str, int]) -> set[str]:
        """The names of the slots that a term depends on."""
        return set(_reads(bind(term, fields)))

    def touches(self, body: Body, fields: dict[str, int], seen: set[object]) -> set[str]:
        """The names of the slots that a body reads or writes, whatever happens. Messages that it sends do not count: what
        is said never depends on what else is in flight. ``seen``: procedures and effects that were looked at already."""
        found: set[str] = set()
        for statement in body:
            match statement:
                case Put(var=var, value=value):
                    found |= {var.name} | self.reads(value, fields)
                case When(term=term, then=then, other=other):
                    found |= (
                        self.reads(term, fields) | self.touches(then, fields, seen) | self.touches(other, fields, seen)
                    )
                case Say():
                    found |= self.reads(self.world.channel(statement.channel).number(statement), fields)
                case Clear(channel=channel):
                    found.add(channel)
                case Must(term=term):
                    found |= self.reads(term, fields)
                case Call(name=name) if name not in seen:
                    seen.add(name)
                    found |= self.touches(self.world.procedures[name], {}, seen)
                case Feed(machine=machine, event=event, args=args, part=part):
                    found |= {machine}.union(*(self.reads(term, fields) for _, term in args))
                    for effect in {e for row in self._rows(machine) if row.event is event for e in row.effects}:
                        if (machine, effect, part) not in seen:
                            seen.add((machine, effect, part))
                            found |= self.touches(self.world.effect(machine, effect, part), {}, seen)
                case _:
                    pass
        return found

    def _rows(self, machine: str) -> Iterable[Row]:
        table: Table = self.rules[machine].table
        return (row for row in table.rows if row.verdict not in (Verdict.NEVER, Verdict.REFUSE))


def _all(each: list[Worth]) -> Worth:
    def worth(v: Slots) -> int:
        for one in each:  # noqa: SIM110 - a generator costs more than the terms
            if not one(v):
                return False
        return True

    return worth


def _any(each: list[Worth]) -> Worth:
    def worth(v: Slots) -> int:
        for one in each:  # noqa: SIM110
            if one(v):
                return True
        return False

    return worth


def queued(queue: tuple[int, ...], number: int, channel: str, capacity: int) -> tuple[int, ...]:
    """The queue with one more message: the same one twice in a row is one. Raises :class:`Violation` when it is full."""
    if queue and queue[-1] == number:
        return queue
    if len(queue) == capacity:
        raise Violation("Bounded", f"more than {capacity} messages are in flight on {channel}")
    return (*queue, number)


def text_of(row: Row) -> str:
    return f"{row.state.name} on {row.event.name} ({row.why})"


def _reads(term: Term) -> Iterable[str]:
    match term:
        case Var(name=name) | Empty(channel=name):
            yield name
        case In(machine=machine) | Has(machine=machine):
            yield machine
        case No(term=inner) | Scaled(term=inner):
            yield from _reads(inner)
        case Same(first=first, second=second) | Less(first=first, second=second):
            yield from _reads(first)
            yield from _reads(second)
        case Both(terms=terms) | Either(terms=terms) | Sum(terms=terms):
            for each in terms:
                yield from _reads(each)
        case Pick(term=test, then=then, other=other):
            for each in (test, then, other):
                yield from _reads(each)
        case _:
            pass
