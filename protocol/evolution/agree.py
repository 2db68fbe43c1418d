"""Does the reader understand what the writer meant? Two values agree when they *mean* the same.

The bits are not enough: 8192 bytes are not 8192 tokens, and state 2 is another state once the enum was renumbered. So an
enum compares by the name of its value, a number together with its unit, a tuple by the names of its places, and a group by
the names of the fields that both ends have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvpoll.spec.schema import (
    Enumerated,
    Float,
    GroupRef,
    Integer,
    ListOf,
    MapOf,
    MessageSpec,
    Packed,
    TupleOf,
    Type,
    UnionOf,
)

from .dialect import ABSENT, Absent, Dialect, Pairs, Value, Values

__all__ = ["differs"]


def differs(writer: Dialect, w: MessageSpec, sent: Values, reader: Dialect, r: MessageSpec, got: Values) -> str | None:
    """The first field of both messages whose meaning did not arrive: "where: sent this, read that". ``None``: all did."""
    return _fields(writer, w, sent, reader, r, got, r.name)


def _fields(
    writer: Dialect, w: MessageSpec, sent: Values, reader: Dialect, r: MessageSpec, got: Values, where: str
) -> str | None:
    theirs = {field.name: field for field in r.fields}
    for field in w.fields:
        other = theirs.get(field.name)
        if other is None:
            continue
        value = sent.get(field.name, ABSENT)
        if isinstance(value, Absent) and field.presence == "default":
            value = writer.default(field)
        here = f"{where}.{field.name}"
        if (
            found := _value(writer, field.type, value, reader, other.type, got.get(field.name, ABSENT), here)
        ) is not None:
            return found
    return None


def _value(writer: Dialect, a: Type, sent: Value, reader: Dialect, b: Type, got: Value, where: str) -> str | None:
    if isinstance(sent, Absent) or isinstance(got, Absent):
        return None if isinstance(sent, Absent) and isinstance(got, Absent) else _said(where, sent, got)
    a, b = _option(writer, a, sent), _option(reader, b, got)
    match a, b, sent, got:
        case GroupRef(group=one), GroupRef(group=other), Mapping(), Mapping():
            return _fields(writer, writer.groups[one], sent, reader, reader.groups[other], got, where)
        case ListOf(items=one), ListOf(items=other), list() | tuple(), list() | tuple():
            if len(sent) != len(got):
                return _said(where, sent, got)
            pairs = zip(sent, got, strict=True)
            return next((f for i, (x, y) in enumerate(pairs) if (f := _value(writer, one, x, reader, other, y, f"{where}[{i}]"))), None)  # fmt: skip  # noqa: E501
        case MapOf(), MapOf(), Pairs(), Pairs():
            return (
                None
                if len(sent) == len(got) and _same_pairs(writer, a, sent, reader, b, got)
                else _said(where, sent, got)
            )
        case TupleOf(), TupleOf(), list() | tuple(), list() | tuple():
            return _tuple(writer, a, sent, reader, b, got, where)
    if isinstance(b, Enumerated) and b.open and sent == got and got not in reader.enums[b.enum].values.values():
        return None  # an open enum keeps the numbers that it does not know
    meant, understood = _meaning(writer, a, sent), _meaning(reader, b, got)
    return None if meant == understood else _said(where, meant, understood)


def _same_pairs(writer: Dialect, a: MapOf, sent: Pairs, reader: Dialect, b: MapOf, got: Pairs) -> bool:
    pairs = zip(sent.pairs, got.pairs, strict=True)
    return all(
        _value(writer, a.keys, x[0], reader, b.keys, y[0], "") is None
        and _value(writer, a.values, x[1], reader, b.values, y[1], "") is None
        for x, y in pairs
    )


def _tuple(
    writer: Dialect, a: TupleOf, sent: Sequence[Value], reader: Dialect, b: TupleOf, got: Sequence[Value], where: str
) -> str | None:
    """By the names of the places that both know, wherever they are; without names, place by place."""
    named = bool(a.names and b.names)
    ours = dict(zip(a.names if named else range(len(sent)), zip(a.items, sent, strict=True), strict=True))
    theirs = dict(zip(b.names if named else range(len(got)), zip(b.items, got, strict=True), strict=True))
    if not named and len(ours) != len(theirs):
        return _said(where, sent, got)
    for name, (kind, value) in ours.items():
        if name in theirs:
            other, read = theirs[name]
            if (found := _value(writer, kind, value, reader, other, read, f"{where}.{name}")) is not None:
                return found
    return None


def _option(dialect: Dialect, kind: Type, value: Value) -> Type:
    if isinstance(kind, UnionOf):
        return next((o for o in kind.options if dialect.takes(o, value)), kind)
    return kind


def _meaning(dialect: Dialect, kind: Type, value: Value) -> object:
    """What a plain value says, so that equal means the same."""
    match kind:
        case Enumerated(enum=name):
            names = {number: said for said, number in dialect.enums[name].values.items()}
            return names.get(value, ("number", value)) if isinstance(value, int) else value
        case Integer(unit=unit) | Float(unit=unit):
            return (value, unit) if unit else value
        case Packed(unit=unit):
            listed = (
                [list(i) if isinstance(i, list | tuple) else i for i in value]
                if isinstance(value, list | tuple)
                else value
            )
            return (listed, unit) if unit else listed
        case ListOf(items=inner) if isinstance(value, list | tuple):
            return [_meaning(dialect, inner, item) for item in value]
    return type(value).__name__, value


def _said(where: str, sent: object, got: object) -> str:
    return f"{where}: sent {sent!r}, read {got!r}"[:300]
