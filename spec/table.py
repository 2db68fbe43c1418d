"""What a transition table is: rows of data, guards and updates as expressions over declared finite fields.

A row never holds a callable. So the same table is interpreted in production, proved total and unambiguous by
enumeration, compiled to other notations, and mutated to test the tests. Rules, enforced by
:mod:`kvpoll.protocol.table_check`:

1. For each (state, event) and each assignment of the fields and of the event's arguments exactly one row matches.
2. A row that fails carries a cause; a row that is ignored says which kind of message it ignores.
3. ``NEVER`` rows are claims that the explorer proves; if one fires in production it is a failure with cause INTERNAL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .causes import Cause
from .effects import Effect

__all__ = [
    "ALWAYS", "All", "AnyOf", "EventSpec", "Expr", "Field", "Is", "Not", "Row", "Source", "Table", "Update", "Value",
    "Verdict", "evaluate", "fail", "go", "ignore", "never", "refuse", "stay",
]  # fmt: skip

Value: TypeAlias = bool | str


class Source(Enum):
    """Where an event comes from; the tables keep the five apart."""

    ENGINE = "engine"
    PEER = "peer"
    TRANSPORT = "transport"
    CLOCK = "clock"
    PROCESS = "process"


class Verdict(Enum):
    """What a row decides."""

    GO = "go"  #: the state changes
    STAY = "stay"  #: handled, the state stays
    FAIL = "fail"  #: the state becomes Failed with the row's cause
    IGNORE = "ignore"  #: stale, duplicate or late: nothing happens but the row's effects
    REFUSE = "refuse"  #: the engine called at the wrong time: LocalProtocolError, nothing changes
    NEVER = "never"  #: cannot happen; the reason says why


class Expr:
    """A guard. Combine with ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __and__(self, other: Expr) -> Expr:
        return All((self, other))

    def __or__(self, other: Expr) -> Expr:
        return AnyOf((self, other))

    def __invert__(self) -> Expr:
        return Not(self)


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """A finite variable: of a machine (with its initial value) or an argument of an event. Bare, it is the guard
    "this field is true"."""

    name: str
    domain: tuple[Value, ...]
    initial: Value
    why: str

    def is_(self, value: Value) -> Expr:
        return Is(self, value)

    def to(self, value: Value | Field) -> Update:
        return Update(self, value)


@dataclass(frozen=True, slots=True)
class Is(Expr):
    field: Field
    value: Value


@dataclass(frozen=True, slots=True)
class Not(Expr):
    term: Expr


@dataclass(frozen=True, slots=True)
class All(Expr):
    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Expr):
    terms: tuple[Expr, ...]


#: The guard of a row that has none.
ALWAYS: Expr = All(())


def evaluate(expr: Expr, env: Mapping[str, Value]) -> bool:
    """The truth of a guard under an assignment of every field and argument it names."""
    match expr:
        case Field(name=name):
            return env[name] is True
        case Is(field=field, value=value):
            return env[field.name] == value
        case Not(term=term):
            return not evaluate(term, env)
        case All(terms=terms):
            return all(evaluate(t, env) for t in terms)
        case AnyOf(terms=terms):
            return any(evaluate(t, env) for t in terms)
    raise TypeError(f"not a guard: {expr!r}")


@dataclass(frozen=True, slots=True)
class Update:
    """``field`` becomes ``value``: a constant of its domain, or the value of another field or argument."""

    field: Field
    value: Value | Field


@dataclass(frozen=True, slots=True)
class EventSpec:
    """An event of one machine: who causes it, and its finite arguments."""

    event: Enum
    source: Source
    args: tuple[Field, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """One fact: in ``state``, on ``event``, when ``guard`` holds."""

    state: Enum
    event: Enum
    guard: Expr
    verdict: Verdict
    next: Enum
    updates: tuple[Update, ...]
    effects: tuple[Effect, ...]
    cause: Cause | None
    why: str


@dataclass(frozen=True, slots=True)
class Table:
    """A whole machine."""

    name: str
    states: type[Enum]
    initial: Enum
    terminal: frozenset[Enum]
    waiting: Mapping[Enum, tuple[Enum, ...]]  #: waiting state -> the clock or process events that end it for certain
    fields: tuple[Field, ...]
    events: tuple[EventSpec, ...]
    rows: tuple[Row, ...]
    broken: tuple[Enum, tuple[Effect, ...]] | None  #: where a NEVER row leads should one fire; None: it stays
    about: str


# Constructors, so that a table reads as aligned columns: state, event, guard, then what this kind of row needs.
def go(state: Enum, event: Enum, guard: Expr, next: Enum, updates: tuple[Update, ...], effects: tuple[Effect, ...], why: str) -> Row:  # fmt: skip  # noqa: E501
    return Row(state, event, guard, Verdict.GO, next, updates, effects, None, why)


def stay(state: Enum, event: Enum, guard: Expr, updates: tuple[Update, ...], effects: tuple[Effect, ...], why: str) -> Row:  # fmt: skip  # noqa: E501
    return Row(state, event, guard, Verdict.STAY, state, updates, effects, None, why)


def fail(state: Enum, event: Enum, guard: Expr, next: Enum, cause: Cause, updates: tuple[Update, ...], effects: tuple[Effect, ...], why: str) -> Row:  # fmt: skip  # noqa: E501
    return Row(state, event, guard, Verdict.FAIL, next, updates, effects, cause, why)


def ignore(state: Enum, event: Enum, guard: Expr, effects: tuple[Effect, ...], why: str) -> Row:
    return Row(state, event, guard, Verdict.IGNORE, state, (), effects, None, why)


def refuse(state: Enum, event: Enum, guard: Expr, why: str) -> Row:
    return Row(state, event, guard, Verdict.REFUSE, state, (), (), None, why)


def never(state: Enum, event: Enum, guard: Expr, why: str) -> Row:
    return Row(state, event, guard, Verdict.NEVER, state, (), (), Cause.INTERNAL, why)
