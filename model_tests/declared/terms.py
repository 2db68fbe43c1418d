"""Terms of a declared world: whole numbers worked out of counters, machines and the fields of a message.

0 is false. Terms are data, as the guards of a table are: the same term is evaluated here and written in other notations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kvpoll.spec.table import Field, Value

__all__ = [
    "NO", "YES", "Arg", "Both", "Either", "Empty", "Has", "In", "Less", "No", "Num", "Pick", "Same", "Scaled", "Sum",
    "Term", "Var", "bind", "either", "every", "pick",
]  # fmt: skip


class Term:
    """A whole number; as a guard, 0 is false. Combine guards with ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __and__(self, other: Term) -> Term:
        return every((self, other))

    def __or__(self, other: Term) -> Term:
        return either((self, other))

    def __invert__(self) -> Term:
        return _no(self)

    def is_(self, value: int | Term) -> Term:
        return Same(self, _num(value))

    def below(self, value: int | Term) -> Term:
        return Less(self, _num(value))

    def plus(self, value: int) -> Term:
        return Sum((self, Num(value)))


@dataclass(frozen=True, slots=True)
class Num(Term):
    value: int


@dataclass(frozen=True, slots=True)
class Var(Term):
    """A counter of the world: 0 to ``top``."""

    name: str
    top: int = 1
    initial: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Arg(Term):
    """A field of the message that is being received."""

    name: str


@dataclass(frozen=True, slots=True)
class In(Term):
    """The machine is in one of these states."""

    machine: str
    states: tuple[Enum, ...]


@dataclass(frozen=True, slots=True)
class Has(Term):
    """The field of the machine has this value."""

    machine: str
    field: Field
    value: Value


@dataclass(frozen=True, slots=True)
class Same(Term):
    first: Term
    second: Term


@dataclass(frozen=True, slots=True)
class Less(Term):
    first: Term
    second: Term


@dataclass(frozen=True, slots=True)
class No(Term):
    term: Term


@dataclass(frozen=True, slots=True)
class Both(Term):
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Either(Term):
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Sum(Term):
    """Negative numbers subtract."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Scaled(Term):
    """``term`` times ``by``."""

    term: Term
    by: int


@dataclass(frozen=True, slots=True)
class Pick(Term):
    """``then`` where ``term`` holds, else ``other``."""

    term: Term
    then: Term
    other: Term


@dataclass(frozen=True, slots=True)
class Empty(Term):
    """Nothing is in flight on this channel."""

    channel: str


YES, NO = Num(1), Num(0)


# Building terms; what is already known is worked out at once, so that declarations may be general.
def every(terms: Iterable[Term]) -> Term:
    """All of them hold."""
    flat = [t for term in terms for t in (term.terms if isinstance(term, Both) else (term,))]
    if any(t == NO for t in flat):
        return NO
    left = tuple(t for t in flat if not isinstance(t, Num))
    return left[0] if len(left) == 1 else Both(left) if left else YES


def either(terms: Iterable[Term]) -> Term:
    """One of them holds."""
    flat = [t for term in terms for t in (term.terms if isinstance(term, Either) else (term,))]
    if any(isinstance(t, Num) and t.value for t in flat):
        return YES
    left = tuple(t for t in flat if not isinstance(t, Num))
    return left[0] if len(left) == 1 else Either(left) if left else NO


def pick(term: Term, then: Term, other: Term) -> Term:
    """``then`` where ``term`` holds, else ``other``."""
    if isinstance(term, Num):
        return then if term.value else other
    return Pick(term, then, other)


def _no(term: Term) -> Term:
    if isinstance(term, Num):
        return NO if term.value else YES
    return term.term if isinstance(term, No) else No(term)


def _num(value: int | Term) -> Term:
    return Num(value) if isinstance(value, int) else value


def bind(term: Term, fields: Mapping[str, int]) -> Term:
    """The term with the fields of a message put in, and what that decides worked out."""
    match term:
        case Arg(name=name):
            return Num(fields[name])
        case No(term=inner):
            return _no(bind(inner, fields))
        case Both(terms=terms):
            return every(bind(t, fields) for t in terms)
        case Either(terms=terms):
            return either(bind(t, fields) for t in terms)
        case Same(first=first, second=second):
            first, second = bind(first, fields), bind(second, fields)
            known = isinstance(first, Num) and isinstance(second, Num)
            return (YES if first == second else NO) if known else Same(first, second)
        case Less(first=first, second=second):
            first, second = bind(first, fields), bind(second, fields)
            if isinstance(first, Num) and isinstance(second, Num):
                return YES if first.value < second.value else NO
            return Less(first, second)
        case Sum(terms=terms):
            return Sum(tuple(bind(t, fields) for t in terms))
        case Scaled(term=inner, by=by):
            return Scaled(bind(inner, fields), by)
        case Pick(term=test, then=then, other=other):
            return pick(bind(test, fields), bind(then, fields), bind(other, fields))
        case _:
            return term
