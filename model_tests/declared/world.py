"""What a declared world is: machines of the production tables, counters, channels and steps, all of it data.

A pair world (:mod:`kvpoll.model_tests.pair`) runs whole sessions, so no other tool can read it. A declared world says the
same in expressions over finite counters. So it can be run over the production interpreter (:mod:`.run`) *and* compiled
(:mod:`.promela`, :mod:`.tla`) from one declaration, and two checkers that share no code must agree about it.

Rules of this file:

1. A step is one transition: its guard holds, then its body is done from top to bottom, then every claim must hold.
2. A message in flight is a number: its kind and fields in mixed radix. Where messages overtake each other a channel is a
   set of them; where they do not it is a queue, in which the same message twice in a row is one. (As :mod:`..network`.)
3. Feeding a machine follows one row of its table, then carries out the row's effects, each of which the world must
   have declared. A row that is called impossible breaks TotalHandlers, a refused call breaks EngineObeys.
4. Procedures and effects never call themselves, so everything can be written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product
from math import prod
from typing import TypeAlias

from kvpoll.model_tests.network import Network
from kvpoll.spec.effects import Effect
from kvpoll.spec.table import Table

from .terms import Num, Scaled, Sum, Term, Var

__all__ = [
    "Body", "Call", "Channel", "Claim", "Clear", "DeclaredWorld", "Feed", "Kind", "Machine", "Must", "Put", "Receive", "Say",
    "Statement", "Step", "When", "walk", "with_table",
]  # fmt: skip


# What a step does.
@dataclass(frozen=True, slots=True)
class Put:
    var: Var
    value: Term


@dataclass(frozen=True, slots=True)
class Feed:
    """Feed ``event`` to the machine. ``part`` is handed to the effects: an effect may be declared for each part."""

    machine: str
    event: Enum
    args: tuple[tuple[str, Term], ...] = ()
    part: int = -1


@dataclass(frozen=True, slots=True)
class Say:
    """Put a message on a channel. Fields that are left out are 0."""

    channel: str
    kind: str
    fields: tuple[tuple[str, Term], ...] = ()


@dataclass(frozen=True, slots=True)
class Clear:
    """Everything in flight on this channel is gone."""

    channel: str


@dataclass(frozen=True, slots=True)
class When:
    term: Term
    then: Body
    other: Body = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Do what the procedure of this name does."""

    name: str


@dataclass(frozen=True, slots=True)
class Must:
    """The invariant ``name`` is broken here unless ``term`` holds."""

    name: str
    term: Term
    sentence: str


Statement: TypeAlias = Put | Feed | Say | Clear | When | Call | Must
Body: TypeAlias = tuple[Statement, ...]


# What a world consists of.
@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a production table; ``start`` is the state it starts in when that is not the table's own."""

    name: str
    table: Table
    start: Enum | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of message; each field with the greatest value it can have."""

    name: str
    fields: tuple[tuple[str, int], ...] = ()

    @property
    def size(self) -> int:
        """How many different messages of this kind there are."""
        return prod(top + 1 for _, top in self.fields)


@dataclass(frozen=True, slots=True)
class Channel:
    """One direction of a link. ``losses`` and ``copies`` are the budgets of a network that loses or copies; ``capacity``
    bounds a queue (a set is bounded by its messages): exceeding it breaks Bounded."""

    name: str
    network: Network
    kinds: tuple[Kind, ...]
    capacity: int = 6
    losses: Var | None = None
    copies: Var | None = None

    @property
    def is_set(self) -> bool:
        return Network.REORDERING in self.network

    @property
    def size(self) -> int:
        """How many different messages there are."""
        return sum(kind.size for kind in self.kinds)

    def base(self, name: str) -> tuple[int, Kind]:
        """The number of the first message of a kind. Raises ``KeyError`` for a kind that is not declared."""
        at = 0
        for kind in self.kinds:
            if kind.name == name:
                return at, kind
            at += kind.size
        raise KeyError(f"channel {self.name} has no kind {name}")

    def messages(self, name: str) -> Iterator[tuple[int, dict[str, int]]]:
        """Number and fields of every message of a kind."""
        at, kind = self.base(name)
        values = product(*(range(top + 1) for _, top in kind.fields))
        for offset, each in enumerate(values):
            yield at + offset, dict(zip((f for f, _ in kind.fields), each, strict=True))

    def number(self, say: Say) -> Term:
        """The number of the message that ``say`` sends."""
        at, kind = self.base(say.kind)
        given = dict(say.fields)
        if unknown := given.keys() - {f for f, _ in kind.fields}:
            raise KeyError(f"{say.kind} on {self.name} has no field {', '.join(unknown)}")
        terms: list[Term] = [Num(at)]
        stride = kind.size
        for name, top in kind.fields:
            stride //= top + 1
            if name in given:
                terms.append(given[name] if stride == 1 else Scaled(given[name], stride))
        return Sum(tuple(terms))


@dataclass(frozen=True, slots=True)
class Step:
    """Something that can happen. ``fair``: it happens some time if it can happen again and again. ``budget``: it costs one,
    and cannot happen at zero."""

    name: str
    guard: Term
    body: Body
    fair: bool = False
    budget: Var | None = None


@dataclass(frozen=True, slots=True)
class Receive:
    """What the receiving end does with a message; its fields are :class:`Arg`."""

    channel: str
    kind: str
    body: Body


@dataclass(frozen=True, slots=True)
class Claim:
    """What holds in every state, under the name of its invariant."""

    name: str
    term: Term
    sentence: str


@dataclass(frozen=True)
class DeclaredWorld:
    """All of it. ``control`` names the two machines whose states are compared between checkers; ``sides`` names machines and
    counters that change together, which says nothing about the world: it makes running it faster."""

    name: str
    about: str
    faults: str
    machines: tuple[Machine, ...]
    variables: tuple[Var, ...]
    channels: tuple[Channel, ...]
    procedures: Mapping[str, Body]
    effects: Mapping[tuple[str, Effect, int], Body]  #: by machine, effect and part; -1: any part
    receives: tuple[Receive, ...]
    steps: tuple[Step, ...]
    claims: tuple[Claim, ...]
    ended: Term
    control: tuple[str, str]
    sides: tuple[tuple[str, ...], ...] = ()
    by_name: Mapping[str, Machine] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {machine.name: machine for machine in self.machines})

    def channel(self, name: str) -> Channel:
        return next(channel for channel in self.channels if channel.name == name)

    def effect(self, machine: str, effect: Effect, part: int) -> Body:
        """What carries an effect out. Raises ``KeyError`` for one that the world did not declare."""
        body = self.effects.get((machine, effect, part), self.effects.get((machine, effect, -1)))
        if body is None:
            raise KeyError(f"world {self.name} does not say what {effect.name} of {machine} does")
        return body


def with_table(world: DeclaredWorld, table: Table) -> DeclaredWorld:
    """The world with every machine of this table's name following ``table`` instead."""
    return replace(
        world, machines=tuple(replace(m, table=table) if m.table.name == table.name else m for m in world.machines)
    )


def walk(body: Body) -> Iterator[Statement]:
    """Every statement of a body, those inside :class:`When` too."""
    for statement in body:
        yield statement
        if isinstance(statement, When):
            yield from walk(statement.then)
            yield from walk(statement.other)
