"""Pieces of Promela: what a table's row and a channel look like in it. See :mod:`.promela`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from kvpoll.spec.table import All, AnyOf, EventSpec, Expr, Field, Is, Not, Row, Table, Value

from .world import Channel, Machine

__all__ = [
    "WORD",
    "broken",
    "clear_lines",
    "comment_text",
    "ended",
    "fields_of",
    "guard_text",
    "indented",
    "next_up",
    "numbers_of",
    "place_of",
    "put_lines",
    "state_text",
    "take_lines",
    "update_texts",
    "value_text",
    "words_of",
]

#: Messages in one word of a set.
WORD = 31


# Tables.
def guard_text(guard: Expr, machine: Machine, spec: EventSpec) -> str:
    match guard:
        case Field():
            return f"{place_of(guard, machine, spec)} == {value_text(guard, True)}"
        case Is(field=field, value=value):
            return f"{place_of(field, machine, spec)} == {value_text(field, value)}"
        case Not(term=term):
            return f"!({guard_text(term, machine, spec)})"
        case All(terms=terms):
            return " && ".join(f"({guard_text(t, machine, spec)})" for t in terms) or "true"
        case AnyOf(terms=terms):
            return f"({' || '.join(f'({guard_text(t, machine, spec)})' for t in terms) or 'false'})"
    raise TypeError(f"not a guard: {guard!r}")


def update_texts(row: Row, machine: Machine, spec: EventSpec) -> Iterator[str]:
    """Updates are made all at once. An update that copies a field which the same row changes cannot be written so."""
    changed = {update.field.name for update in row.updates}
    for update in row.updates:
        value = update.value
        if isinstance(value, Field):
            place = place_of(value, machine, spec)
            if value.name in changed and place == f"{machine.name}_{value.name}":
                raise ValueError(f"{row.state.name} on {row.event.name}: {value.name} is copied and changed")
            yield f"{machine.name}_{update.field.name} = {place}"
        else:
            yield f"{machine.name}_{update.field.name} = {value_text(update.field, value)}"
    if row.next is not row.state:
        yield f"{machine.name}_state = {state_text(row.next)}"


def place_of(field: Field, machine: Machine, spec: EventSpec) -> str:
    return f"{machine.name}_{'arg_' if field in spec.args else ''}{field.name}"


def fields_of(table: Table) -> list[Field]:
    return [*table.fields, *(arg for spec in table.events for arg in spec.args)]


def value_text(field: Field, value: Value) -> str:
    return f"{field.name}_{value}" if isinstance(value, str) else str(int(value))


def state_text(state: Enum) -> str:
    return f"{type(state).__name__}_{state.name}"


# Channels.
def words_of(channel: Channel) -> int:
    return -(-channel.size // WORD)


def numbers_of(channel: Channel) -> str:
    return ", ".join(f"{channel.base(kind.name)[0]} {kind.name}" for kind in channel.kinds)


def next_up(channel: Channel, number: int) -> tuple[str, list[str]]:
    """When this message may be next, and how it is taken out."""
    name = channel.name
    if channel.is_set:
        word, bit = divmod(number, WORD)
        return f"({name}_{word} & {1 << bit})", [f"{name}_{word} = {name}_{word} - {1 << bit}"]
    return f"{name}[0] == {number + 1}", [f"take_{name}()"]


def take_lines(channel: Channel) -> Iterator[str]:
    name, last = channel.name, channel.capacity - 1
    yield from (f"{name}[{i}] = {name}[{i + 1}];" for i in range(last))
    yield f"{name}[{last}] = 0; {name}_n = {name}_n - 1"


def put_lines(channel: Channel) -> Iterator[str]:
    name = channel.name
    yield "if"
    if channel.is_set:
        for word in range(words_of(channel)):
            low, high = word * WORD, (word + 1) * WORD
            yield f":: msg >= {low} && msg < {high} -> {name}_{word} = {name}_{word} | (1 << (msg - {low}))"
    else:
        full = broken("Bounded", f"more than {channel.capacity} messages are in flight {name}")
        yield f":: {name}_n > 0 && {name}[{name}_n - 1] == msg + 1 -> skip /* the same twice in a row is one */"
        yield ":: else ->"
        yield f"   if :: {name}_n < {channel.capacity} -> skip :: else -> {full} fi;"
        yield f"   {name}[{name}_n] = msg + 1; {name}_n = {name}_n + 1"
    yield "fi"


def clear_lines(channel: Channel) -> list[str]:
    name = channel.name
    if channel.is_set:
        return [f"{name}_{word} = 0;" for word in range(words_of(channel))]
    return [f"{name}_n = 0;", *(f"{name}[{i}] = 0;" for i in range(channel.capacity))]


# Text.
def broken(name: str, sentence: str) -> str:
    return f'printf("BROKEN {name} {sentence}\\n"); assert(false)'


def comment_text(text: str) -> str:
    return text.replace("*/", "* /")


def indented(lines: Iterable[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]


def ended(lines: Iterable[str]) -> list[str]:
    """The last statement of a sequence; an empty one does nothing."""
    return list(lines) or ["   skip"]
