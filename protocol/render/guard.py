"""Guards as text for people, and the shortest guard that says the same as several.

Negations are pushed down to single fields first, because "gated or not whole_now" is read faster than "not (not gated
and whole_now)". Nothing here decides anything: the interpreter evaluates the expressions of the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeAlias

from kvpoll.spec.table import ALWAYS, All, AnyOf, Expr, Field, Is, Not, Update, Value, evaluate

__all__ = ["NOWHERE", "guard_text", "normal", "shortest", "update_text", "value_text", "variables"]

#: The guard that never holds.
NOWHERE: Expr = AnyOf(())

_Cube: TypeAlias = tuple[frozenset[Value], ...]  # for each variable the values it may have


def guard_text(guard: Expr) -> str:
    """The guard in words: ``bound and not all and plan is open``; ``always`` for a row without a guard."""
    return _text(normal(guard), inside=False)


def value_text(value: Value) -> str:
    """``yes`` and ``no`` for truth values, the value itself otherwise."""
    return value if isinstance(value, str) else "yes" if value else "no"


def update_text(update: Update) -> str:
    """``plan := closed``, or ``push := is_push`` where the value is that of another field or argument."""
    value = update.value
    return f"{update.field.name} := {value.name if isinstance(value, Field) else value_text(value)}"


def variables(guard: Expr) -> tuple[Field, ...]:
    """Every field and argument that a guard names, in the order of first mention."""
    found: dict[Field, None] = {}
    _collect(guard, found)
    return tuple(found)


def normal(guard: Expr) -> Expr:
    """An equal guard in which ``Not`` stands only before a field or a comparison, and nested alike terms are one."""
    return _normal(guard, wanted=True)


def shortest(guards: Sequence[Expr]) -> Expr:
    """A short guard that holds exactly where one of ``guards`` holds: rows of one event become one label."""
    if len(guards) == 1:
        return guards[0]
    names = list(dict.fromkeys(f for g in guards for f in variables(g)))
    points = [
        tuple(frozenset((v,)) for v in values)
        for values in product(*(f.domain for f in names))
        if any(evaluate(g, {f.name: v for f, v in zip(names, values, strict=True)}) for g in guards)
    ]
    return _any([_cube_guard(names, cube) for cube in _cover(points, _primes(points))])


def _collect(guard: Expr, found: dict[Field, None]) -> None:
    match guard:
        case Field():
            found[guard] = None
        case Is(field=field):
            found[field] = None
        case Not(term=term):
            _collect(term, found)
        case All(terms=terms) | AnyOf(terms=terms):
            for term in terms:
                _collect(term, found)


def _normal(guard: Expr, wanted: bool) -> Expr:
    match guard:
        case Not(term=term):
            return _normal(term, not wanted)
        case All(terms=terms):
            parts = [_normal(t, wanted) for t in terms]
            return _all(parts) if wanted else _any(parts)
        case AnyOf(terms=terms):
            parts = [_normal(t, wanted) for t in terms]
            return _any(parts) if wanted else _all(parts)
    return guard if wanted else Not(guard)


def _all(parts: Iterable[Expr]) -> Expr:
    flat = [t for p in parts for t in (p.terms if isinstance(p, All) else (p,))]
    return flat[0] if len(flat) == 1 else All(tuple(flat))


def _any(parts: Iterable[Expr]) -> Expr:
    flat = [t for p in parts for t in (p.terms if isinstance(p, AnyOf) else (p,))]
    return flat[0] if len(flat) == 1 else AnyOf(tuple(flat))


def _text(guard: Expr, inside: bool) -> str:
    match guard:
        case Field(name=name):
            return name
        case Is(field=field, value=value):
            return f"{field.name} is {value_text(value)}"
        case Not(term=Is(field=field, value=value)):
            return f"{field.name} is not {value_text(value)}"
        case Not(term=term):
            return f"not {_text(term, inside=True)}"
        case All(terms=terms):
            words = " and ".join(_text(t, inside=True) for t in terms) or "always"
            return f"({words})" if inside and len(terms) > 1 else words
        case AnyOf(terms=terms):
            words = " or ".join(_text(t, inside=True) for t in terms) or "never"
            return f"({words})" if inside and len(terms) > 1 else words
    raise TypeError(f"not a guard: {guard!r}")


def _primes(points: list[_Cube]) -> list[_Cube]:
    """Every cube that holds no point outside ``points`` and is part of no larger one (merging until nothing is new)."""
    cubes, fresh = set(points), set(points)
    while fresh:
        made = {m for a in fresh for b in cubes if (m := _merge(a, b)) is not None}
        fresh = made - cubes
        cubes |= fresh
    return [c for c in cubes if not any(c != d and _within(c, d) for d in cubes)]


def _merge(a: _Cube, b: _Cube) -> _Cube | None:
    """The union of two cubes that differ in one variable only."""
    apart = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(apart) != 1:
        return None
    at = apart[0]
    return (*a[:at], a[at] | b[at], *a[at + 1 :])


def _within(a: _Cube, b: _Cube) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def _cover(points: list[_Cube], primes: list[_Cube]) -> list[_Cube]:
    """A few primes that together hold every point: the largest gain first, ties by name so that the text is stable."""
    left, chosen = list(points), list[_Cube]()
    order = sorted(primes, key=lambda c: [sorted(map(value_text, s)) for s in c])
    while left:
        best = max(order, key=lambda c: sum(_within(p, c) for p in left))
        chosen.append(best)
        left = [p for p in left if not _within(p, best)]
    return chosen


def _cube_guard(names: list[Field], cube: _Cube) -> Expr:
    return _all([t for f, values in zip(names, cube, strict=True) if (t := _literal(f, values)) != ALWAYS])


def _literal(field: Field, values: frozenset[Value]) -> Expr:
    if len(values) == len(field.domain):
        return ALWAYS
    if values <= {True, False}:
        return field if True in values else Not(field)
    missing = [v for v in field.domain if v not in values]
    if len(missing) == 1:
        return Not(Is(field, missing[0]))
    return _any([Is(field, v) for v in field.domain if v in values])
