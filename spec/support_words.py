"""The words of the support matrix: outcomes, relations, kinds of attention, features, and what a cell is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

__all__ = [
    "ANY", "Attention", "Bound", "Cell", "Combination", "Entry", "Feature", "Kind", "Outcome", "Plan", "Relation", "Section",
    "convert", "fits", "refuse",
]  # fmt: skip


class Outcome(Enum):
    """What becomes of one field of a pair."""

    EQUAL = "equal"  #: fits as it is
    CONVERTED = "converted"  #: different, and a plan makes up for it
    REFUSED = "refused"  #: cannot work


class Relation(Enum):
    """How the two values of a field relate. Prefill is the sender, decode the receiver."""

    EQUAL = "the same at both ends"
    DIFFERENT = "not the same"
    WIDER = "decode has a multiple of prefill's"
    NARROWER = "prefill has a multiple of decode's"
    INDIVISIBLE = "neither divides the other"
    MANY_TO_ONE = "N at prefill, 1 at decode"
    ONE_TO_MANY = "1 at prefill, N at decode"
    MANY_TO_OTHER = "N at prefill, another M > 1 at decode"
    PARTNERS = "ranks that meet"
    STRANGERS = "ranks that do not meet"
    WITHIN = "prefill's range lies within decode's"
    SLICED = "in the inverse ratio of the TP sizes"
    PROPORTIONAL = "in the ratio of the heads"
    UNTILED = "not what one model gives to ranks of these TP sizes"
    UNEVEN = "not divisible where a plan cuts"
    COPIED = "fewer KV heads than ranks"
    REPLICATED = "the same, and decode ranks share out tokens"
    UNNAMED = "the same, and an axis that is cut has no name"
    UNDER_TP = "N at both ends, with other TP sizes"
    INTERLEAVED = "1 at prefill, N at decode, in turns of several tokens"
    UNDER_CP = "1 at prefill, N at decode, with CP at prefill"
    SENDER_ONLY = "only prefill states it"
    RECEIVER_ONLY = "only decode states it"
    NEITHER = "neither end states it"
    ELSEWHERE = "only decode states it, and another prefill rank brings it"
    HOLDS = "the rule between the ends holds"
    BROKEN = "the rule between the ends is broken"
    MOOT = "nothing to compare"


class Attention(Enum):
    """What the KV rows of a model are."""

    HEADS = "MHA or GQA"
    MLA = "MLA"
    HYBRID = "hybrid"  #: rows of heads or of latents, and state beside them


class Feature(Enum):
    """What an end can have switched on."""

    TP = "tensor parallelism"
    PP = "pipeline parallelism"
    CP = "context parallelism"
    DP = "data parallelism"
    EP = "expert parallelism"
    DCP = "decode context parallelism"
    SPECULATIVE = "speculative decoding"
    STAGING = "staged scatter"
    MLA = "latent attention (MLA)"
    HEADS = "attention with KV heads (not MLA)"


class Kind(Enum):
    """What a plan changes."""

    ROWS = "rows"  #: which bytes go from where to where
    ROUTE = "route"  #: which replica a room goes to
    TERMS = "terms"  #: what the ends make use of, or leave out


@dataclass(frozen=True, slots=True)
class Plan:
    """A way in which two different ends work together."""

    name: str
    kind: Kind
    about: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The decision of a cell. ``why``: the cause. ``plan``: by which one a difference works out, if it is converted.
    ``advice``: what a person can change, if it is refused."""

    outcome: Outcome
    why: str
    plan: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One decision: this field, this relation, these kinds of attention (prefill's)."""

    field: str
    relation: Relation
    entry: Entry
    attention: tuple[Attention, ...] = tuple(Attention)


@dataclass(frozen=True, slots=True)
class Section:
    """Cells that belong together, for people who read the matrix."""

    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """Two features at one end that exclude each other."""

    first: Feature
    second: Feature
    why: str
    advice: str

    @property
    def field(self) -> str:
        """What a refusal names."""
        return f"{self.first.name}+{self.second.name}".lower()


@dataclass(frozen=True, slots=True)
class Bound:
    """What a registration must keep by itself: ``field`` is ``how`` ``other``, a number or another field."""

    field: str
    how: Literal["at least", "at most", "below", "a divisor of", "tp.rank modulo"]
    other: str | int


ANY = tuple(Attention)


def fits(why: str = "the same at both ends") -> Entry:
    """Supported as it is."""
    return Entry(Outcome.EQUAL, why)


def convert(plan: str, why: str) -> Entry:
    """Supported by a plan."""
    return Entry(Outcome.CONVERTED, why, plan=plan)


def refuse(why: str, advice: str) -> Entry:
    """Not supported, and what to do about it."""
    return Entry(Outcome.REFUSED, why, advice=advice)
