"""How the type of a field can change, and which reader each change can hurt.

:func:`relate` names suspicions; whether one is true is the trial's business (a number that gained a unit is another number,
but a list that may be longer hurts only whoever still has the old limit).
"""

from __future__ import annotations

from typing import NamedTuple

from kvpoll.spec.schema import (
    Bytes,
    Enumerated,
    Float,
    GroupRef,
    Integer,
    ListOf,
    Literally,
    MapOf,
    Packed,
    Snapshot,
    Text,
    TupleOf,
    Type,
    UnionOf,
)

from .findings import BOTH, NEW_READS_OLD, OLD_READS_NEW, Direction

__all__ = ["Change", "relate", "said"]


class Change(NamedTuple):
    """A suspicion: the rule, which readers it could hurt, what changed in words."""

    rule: str
    directions: tuple[Direction, ...]
    says: str


def said(kind: Type) -> str:
    """A type in a few words."""
    match kind:
        case Integer(min=low, max=high, unit=unit):
            return f"integer {low}..{high}{f' {unit}' if unit else ''}"
        case Enumerated(enum=name, open=is_open):
            return f"{'open' if is_open else 'closed'} enum {name}"
        case GroupRef(group=name):
            return f"group {name}"
        case ListOf(items=inner, max_length=most):
            return f"list of {said(inner)}{f', at most {most}' if most is not None else ''}"
        case MapOf(keys=keys, values=held):
            return f"map from {said(keys)} to {said(held)}"
        case TupleOf(items=many):
            return f"tuple of ({', '.join(map(said, many))})"
        case UnionOf(options=options):
            return " or ".join(map(said, options))
        case Packed(item=item, order=order, nested=nested, unit=unit):
            return f"packed {'lists of ' if nested else ''}{item} ({order} endian){f' {unit}' if unit else ''}"
        case Text(max_length=most):
            return f"text{f' of at most {most}' if most is not None else ''}"
        case Bytes(max_length=most):
            return f"bytes{f', at most {most}' if most is not None else ''}"
        case Float(bits=bits):
            return f"float of {bits} bits"
        case Literally(value=value):
            return f"literally {value!r}"
    return type(kind).__name__.lower()


def relate(a: Type, b: Type, old: Snapshot, new: Snapshot) -> list[Change]:
    """Every way in which ``a`` (old) and ``b`` (new) are not the same type; empty when they are."""
    if a == b:
        return []
    if isinstance(a, UnionOf) or isinstance(b, UnionOf):
        return _unions(a, b)
    words = f"{said(a)} became {said(b)}"
    match a, b:
        case Integer(), Integer():
            return _integers(a, b, words)
        case Float(), Float():
            return _units(a.unit, b.unit, words) + ([Change("TYPE_CHANGED", BOTH, words)] if a.bits != b.bits else [])
        case Text(max_length=before), Text(max_length=now):
            return _lengths(before, now, words)
        case Bytes(max_length=before), Bytes(max_length=now):
            return _lengths(before, now, words)
        case Literally(), Literally():
            return [Change("LITERAL_CHANGED", BOTH, words)]
        case Packed(), Packed():
            return _packed(a, b, words)
        case Enumerated(), Enumerated():
            return _enums(a, b, old, new, words)
        case GroupRef(), GroupRef():
            return [] if _same_group(a.group, b.group, old, new) else [Change("TYPE_CHANGED", BOTH, words)]
        case ListOf(), ListOf():
            return _lengths(a.max_length, b.max_length, words) + _elements(relate(a.items, b.items, old, new))
        case MapOf(), MapOf():
            inner = relate(a.keys, b.keys, old, new) + relate(a.values, b.values, old, new)
            return _lengths(a.max_length, b.max_length, words) + _elements(inner)
        case TupleOf(), TupleOf():
            return _tuples(a, b, old, new, words)
        case (ListOf() | TupleOf(), _) | (_, ListOf() | TupleOf()):
            return [Change("CARDINALITY_CHANGED", BOTH, words)]
    return [Change("TYPE_CHANGED", BOTH, words)]


def _elements(inner: list[Change]) -> list[Change]:
    """A change of what a list holds keeps its own name, unless it is another type altogether."""
    return [c._replace(rule="ELEMENT_CHANGED") if c.rule == "TYPE_CHANGED" else c for c in inner]


def _integers(a: Integer, b: Integer, words: str) -> list[Change]:
    narrower, wider = b.min > a.min or b.max < a.max, b.min < a.min or b.max > a.max
    found: list[Change] = _units(a.unit, b.unit, words)
    if a.text != b.text:
        found.append(Change("TYPE_CHANGED", BOTH, words))
    if narrower or wider:
        hurt = (*((NEW_READS_OLD,) if narrower else ()), *((OLD_READS_NEW,) if wider else ()))
        signed = (a.min < 0) != (b.min < 0)
        rule = "SIGN_CHANGED" if signed else "INT_NARROWED" if narrower else "INT_WIDENED"
        found.append(Change(rule, hurt, words))
    return found


def _units(a: str, b: str, words: str) -> list[Change]:
    return [Change("UNIT_CHANGED", BOTH, words)] if a != b else []


def _lengths(a: int | None, b: int | None, words: str) -> list[Change]:
    if a == b:
        return []
    shorter = b is not None and (a is None or b < a)
    return [Change("LENGTH_CHANGED", (NEW_READS_OLD,) if shorter else (OLD_READS_NEW,), words)]


def _packed(a: Packed, b: Packed, words: str) -> list[Change]:
    found = _units(a.unit, b.unit, words)
    if a.nested != b.nested:
        found.append(Change("CARDINALITY_CHANGED", BOTH, words))
    elif a.item != b.item:
        signed = a.item[1:] == b.item[1:] and {a.item[0], b.item[0]} == {"u", "i"}
        found.append(Change("SIGN_CHANGED" if signed else "ELEMENT_CHANGED", BOTH, words))
    elif a.order != b.order:
        found.append(Change("ENDIAN_CHANGED", BOTH, words))
    return found


def _enums(a: Enumerated, b: Enumerated, old: Snapshot, new: Snapshot, words: str) -> list[Change]:
    found: list[Change] = []
    if a.enum != b.enum:
        ours = next((e.values for e in old.enums if e.name == a.enum), None)
        theirs = next((e.values for e in new.enums if e.name == b.enum), None)
        if ours != theirs:
            found.append(Change("TYPE_CHANGED", BOTH, words))
    if a.open != b.open:
        found.append(Change("ENUM_OPENNESS_CHANGED", (OLD_READS_NEW,) if b.open else (NEW_READS_OLD,), words))
    return found


def _same_group(a: str, b: str, old: Snapshot, new: Snapshot) -> bool:
    ours = next((g.fields for g in old.groups if g.name == a), None)
    theirs = next((g.fields for g in new.groups if g.name == b), None)
    return a == b or ours == theirs


def _tuples(a: TupleOf, b: TupleOf, old: Snapshot, new: Snapshot, words: str) -> list[Change]:
    if len(a.items) != len(b.items):
        return [Change("CARDINALITY_CHANGED", BOTH, words)]
    if a.names and b.names and a.names != b.names and sorted(a.names) == sorted(b.names):
        return [Change("FIELD_SWAPPED", BOTH, f"the places ({', '.join(a.names)}) became ({', '.join(b.names)})")]
    return _elements([c for x, y in zip(a.items, b.items, strict=True) for c in relate(x, y, old, new)])


def _unions(a: Type, b: Type) -> list[Change]:
    ours = a.options if isinstance(a, UnionOf) else (a,)
    theirs = b.options if isinstance(b, UnionOf) else (b,)
    gone, come = [o for o in ours if o not in theirs], [o for o in theirs if o not in ours]
    if not gone and not come:
        return []  # the order of options decides nothing that a reader could see
    hurt = (*((NEW_READS_OLD,) if gone else ()), *((OLD_READS_NEW,) if come else ()))
    return [Change("VARIANT_MOVED", hurt, f"{said(a)} became {said(b)}")]
