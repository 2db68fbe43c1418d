"""Values to try a schema with: a recognisable one for each field, and those at which two types part company.

Values are made, not drawn: the same pair of schemas always gives the same witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from kvpoll.spec.schema import (
    Boolean,
    Bytes,
    Encoded,
    Enumerated,
    Float,
    GroupRef,
    Integer,
    ListOf,
    Literally,
    MapOf,
    MessageSpec,
    Packed,
    Text,
    TupleOf,
    Type,
    UnionOf,
)

from .dialect import ABSENT, Dialect, Pairs, Value

__all__ = ["Focus", "message_with", "usual", "variants"]

#: Fields to set to something else than usual, wherever their message or group appears: (spec, field) -> value.
Focus: TypeAlias = Mapping[tuple[str, str], Value]

T = TypeVar("T")

_DEPTH = 4  #: of groups within groups; a group that holds itself ends there
_LONGEST = 70_000  #: no witness needs more
_ITEM_LIMITS = {
    "u8": (0, 255), "u16": (0, 65535), "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1),
    "i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1), "f32": (-2, 3), "f64": (-2, 3),
}  # fmt: skip


def message_with(dialect: Dialect, spec: MessageSpec, focus: Focus, depth: int = 0) -> dict[str, Value]:
    """Every field at its usual value, but for those in ``focus``. Nesting that never ends leaves fields out."""
    values: dict[str, Value] = {}
    for field in spec.fields:
        if (spec.name, field.name) in focus:
            values[field.name] = focus[spec.name, field.name]
        elif depth < _DEPTH or field.presence == "required":
            values[field.name] = usual(dialect, field.type, field.tag, focus, depth)
    return values


def usual(dialect: Dialect, kind: Type, mark: int, focus: Focus, depth: int = 0) -> Value:
    """A value of this type that is another one for most values of ``mark``."""
    match kind:
        case Boolean():
            return mark % 2 == 1
        case Integer(min=low, max=high):
            return min(high, max(low, 0) + mark % max(1, high - max(low, 0) + 1)) if high >= 0 else high
        case Float():
            return mark + 0.5
        case Text(max_length=most):
            return f"text-{mark}"[: most if most is not None else None]
        case Bytes(max_length=most):
            return bytes([0xC1, mark % 256, 0x00])[: most if most is not None else None]
        case Literally(value=value):
            return value
        case Packed(nested=nested):
            numbers: list[Value] = [1 + mark % 100, 2 + mark % 100, 3 + mark % 100]
            return [numbers] if nested else numbers
        case Enumerated(enum=name):
            known = sorted(dialect.enums[name].values.values())
            return known[mark % len(known)] if known else 0
        case GroupRef(group=name):
            return message_with(dialect, dialect.groups[name], focus, depth + 1) if depth < 3 * _DEPTH else {}
        case ListOf(items=inner, max_length=most):
            few = 0 if most == 0 or (depth >= _DEPTH and isinstance(inner, GroupRef)) else 1
            return [usual(dialect, inner, mark + at, focus, depth + 1) for at in range(few)]
        case TupleOf(items=many):
            return [usual(dialect, inner, mark + 3 * at, focus, depth + 1) for at, inner in enumerate(many)]
        case MapOf(keys=keys, values=held, max_length=most):
            pair = usual(dialect, keys, mark, focus, depth + 1), usual(dialect, held, mark, focus, depth + 1)
            return Pairs(() if most == 0 else (pair,))
        case UnionOf(options=options):
            return usual(dialect, options[0], mark, focus, depth)
        case Encoded():
            return ABSENT  # slot messages have samples of their own
    raise TypeError(f"no usual value of {kind!r}")


def variants(dialect: Dialect, kind: Type, other: Type | None, mark: int = 7) -> Iterator[Value]:
    """Values of ``kind`` at which a reader of type ``other`` could go wrong: ends of ranges, lengths, every enum value."""
    yield usual(dialect, kind, mark, {})
    match kind:
        case Boolean():
            yield from (True, False)
        case Integer(min=low, max=high):
            edges = [low, high, 0, 1, -1, 2, 2**53 + 1]
            if isinstance(other, Integer):
                edges += [other.max + 1, other.min - 1, other.max, other.min]
            yield from dict.fromkeys(edge for edge in edges if low <= edge <= high)
        case Float(bits=bits):
            yield from (1.5, -2.25, 3.0, 2.0**100, *((0.1, 1e300) if bits == 64 else ()))
        case Text(max_length=most):
            yield from ("", "7", "true", *_lengths(most, other, lambda n: "x" * n))
        case Bytes(max_length=most):
            yield from (b"", b"\x01\x02\x03\x04\x05\x06\x07\x08", b"\xff", *_lengths(most, other, bytes))
        case Packed(item=item, nested=nested):
            low, high = _ITEM_LIMITS[item]
            for numbers in ([], [low], [high], [1, 258], [low, 1, high], [1, 2, 3, 4, 5, 6, 7, 8]):
                yield [list(numbers)] if nested else list(numbers)
        case Enumerated(enum=name, open=is_open):
            yield from sorted(dialect.enums[name].values.values())
            if is_open:
                yield max(dialect.enums[name].values.values(), default=0) + 100
        case ListOf(items=inner, max_length=most):
            inside = other.items if isinstance(other, ListOf) else None
            yield []
            for value in variants(dialect, inner, inside, mark):
                yield [value]
            small = usual(dialect, inner, mark, {})
            yield [small, usual(dialect, inner, mark + 1, {})][: most if most is not None else 2]
            yield from _lengths(most, other, lambda n: [small] * n)
        case TupleOf(items=many):
            base = usual(dialect, kind, mark, {})
            assert isinstance(base, list)
            for at, inner in enumerate(many):
                same = isinstance(other, TupleOf) and len(other.items) == len(many)
                for value in variants(
                    dialect, inner, other.items[at] if same and isinstance(other, TupleOf) else None, mark
                ):
                    yield [*base[:at], value, *base[at + 1 :]]
        case MapOf(keys=keys, values=held, max_length=most):
            two = (other.keys, other.values) if isinstance(other, MapOf) else (None, None)
            key, value = usual(dialect, keys, mark, {}), usual(dialect, held, mark, {})
            yield Pairs(())
            for each in variants(dialect, keys, two[0], mark):
                yield Pairs(((each, value),))
            for each in variants(dialect, held, two[1], mark):
                yield Pairs(((key, each),))
            yield from _map_lengths(dialect, keys, value, most, other)
        case UnionOf(options=options):
            for option in options:
                yield from variants(dialect, option, other, mark)


def _lengths(most: int | None, other: Type | None, make: Callable[[int], T]) -> list[T]:
    """Values of the longest length that the writer may write, and of one more than the reader takes."""
    limit = getattr(other, "max_length", None)
    wanted = dict.fromkeys((None if limit is None else limit + 1, most))  # the shortest that shows something first
    return [make(n) for n in wanted if n is not None and n <= _LONGEST and (most is None or n <= most)]


def _map_lengths(dialect: Dialect, keys: Type, value: Value, most: int | None, other: Type | None) -> Iterator[Value]:
    def of(count: int) -> Value:
        found: dict[object, Value] = {}
        for mark in range(4 * count + 16):
            if len(found) < count:
                key = usual(dialect, keys, mark, {})
                found[repr(key)] = key
        return Pairs(tuple((key, value) for key in found.values()))

    yield from _lengths(most, other, of)
