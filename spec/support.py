"""The support matrix of version 1.0: what may meet what, as data.

:data:`SUPPORT` is for a pair of ends: per field of the registration and per relation of the two values, the outcome
and why. :data:`COMBINATIONS` and :data:`BOUNDS` are for one end: features that exclude each other, and numbers that
cannot be. The handshake looks everything up here and decides nothing by itself, so an operator can rely on this page.

Outcomes: EQUAL (the same at both ends, or nothing to compare), CONVERTED (different, and ``why`` says how that works
out), REFUSED (``why`` says what to change). "Not supported yet" marks what a later version may turn into CONVERTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

__all__ = [
    "BOUNDS",
    "COMBINATIONS",
    "RESENDS",
    "SUPPORT",
    "UNCOMPARED",
    "Bound",
    "Combination",
    "Entry",
    "Feature",
    "Outcome",
    "Relation",
]


class Outcome(Enum):
    """What becomes of one field of a pair."""

    EQUAL = "equal"
    CONVERTED = "converted"
    REFUSED = "refused"


class Relation(Enum):
    """How the two values of a field relate. Counts use the first five, statements that may be missing the others."""

    EQUAL = "equal"
    DIFFERENT = "different"
    SENDER_MORE = "the sender has a multiple of the receiver's"
    RECEIVER_MORE = "the receiver has a multiple of the sender's"
    INDIVISIBLE = "neither divides the other"
    SENDER_ONLY = "only the sender states it"
    RECEIVER_ONLY = "only the receiver states it"
    NEITHER = "neither end states it"
    BROKEN = "the rule between the two ends is broken"


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


@dataclass(frozen=True, slots=True)
class Entry:
    """``why``: a sentence for the person who has to change something, or who wonders why it works."""

    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True)
class Combination:
    """Two features at one end that version 1.0 does not take together."""

    first: Feature
    second: Feature
    why: str


@dataclass(frozen=True, slots=True)
class Bound:
    """What a registration must keep by itself: ``field`` is ``how`` ``other``, a number or another field."""

    field: str
    how: Literal["at least", "at most", "below"]
    other: str | int


#: Re-sends in a row that a deadline must survive (k in "deadline >= (k + 1) re-send intervals").
RESENDS = 3

_E, _C, _R = Outcome.EQUAL, Outcome.CONVERTED, Outcome.REFUSED
_R_ = Relation
_SAME = Entry(_E, "the same at both ends")


def _must_equal(why: str) -> Mapping[Relation, Entry]:
    return {_R_.EQUAL: _SAME, _R_.DIFFERENT: Entry(_R, why)}


def _any(why: str) -> Mapping[Relation, Entry]:
    return {_R_.EQUAL: _SAME, _R_.DIFFERENT: Entry(_C, why)}


def _size(name: str, sender_more: Entry, receiver_more: Entry) -> Mapping[Relation, Entry]:
    indivisible = (
        f"{name} sizes must divide each other: otherwise some ranks have no partner, or one that does not exist"
    )
    return {
        _R_.EQUAL: _SAME,
        _R_.SENDER_MORE: sender_more,
        _R_.RECEIVER_MORE: receiver_more,
        _R_.INDIVISIBLE: Entry(_R, indivisible),
    }


def _optional(sender_only: Entry, receiver_only: Entry, neither: Entry, different: Entry) -> Mapping[Relation, Entry]:
    return {
        _R_.EQUAL: _SAME,
        _R_.SENDER_ONLY: sender_only,
        _R_.RECEIVER_ONLY: receiver_only,
        _R_.NEITHER: neither,
        _R_.DIFFERENT: different,
    }


def _rule(holds: str, broken: str) -> Mapping[Relation, Entry]:
    return {_R_.EQUAL: Entry(_E, holds), _R_.BROKEN: Entry(_R, broken)}


_RESENDS = _rule(
    "longer than the re-sends it must survive",
    f"must be at least {RESENDS + 1} re-send intervals of the slower end at both ends",
)
_YET = "not supported yet"
_HEADS = Entry(_R, f"{_YET}: heads would have to be split or joined between ranks; use equal tensor parallel sizes")
_STAGES = Entry(_R, f"{_YET}: layers would have to be gathered from several ranks; use equal pipeline sizes")
_CONTEXT = Entry(_R, f"{_YET}: token rows would have to be relaid; use equal context parallel sizes")
_REPLICAS = Entry(_R, f"{_YET}: which replica answers for a room is not decided; use equal data parallel sizes")
_PARTNER = "ranks meet one to one in version 1.0: connect the ranks with equal coordinates"
_GEOMETRY = "a page would land across other pages, or be read with other strides; start both ends with the same one"
_DCP_YET = Entry(_R, f"{_YET}: dense pages would have to be spread over the decode ranks; use equal dcp at both ends")
_SPEC = Entry(
    _R, "speculative decoding must be configured alike, or the draft starts from hidden states that were never sent"
)
_UNSTATED = Entry(_C, "taken on trust: a revision that is not stated cannot be compared; state it at both ends")

# fmt: off
#: By dotted field of the registration (or of a group in it), by relation.
SUPPORT: Mapping[str, Mapping[Relation, Entry]] = {
    "role": _rule("one end is prefill, the other decode", "one end must be prefill and the other decode"),
    "version": _rule("both speak it", "no version is spoken by both ends; upgrade the older one"),
    "capabilities": _any("both use only what both have"),
    "model": _must_equal("KV data of another model is meaningless; load the same model at both ends"),
    "weights": _optional(_UNSTATED, _UNSTATED, _UNSTATED,
                         Entry(_R, "KV data of other weights gives silently worse text; finish the rollout first")),
    "page.size": _must_equal(f"{_YET}: pages would have to be cut or joined; start both ends with the same page size"),
    "layers.total": _must_equal(_GEOMETRY),
    "layers.start": _must_equal(_PARTNER),
    "layers.stop": _must_equal(_PARTNER),
    "kv_dtype": _must_equal(f"{_YET}: KV data would have to be converted; start both ends with the same KV dtype"),
    "layout": _must_equal(f"{_YET}: axes would have to be transposed; use the same layout at both ends"),
    "page.nbytes": _must_equal(_GEOMETRY),
    "heads.kv": _must_equal(_GEOMETRY),
    "heads.dim": _must_equal(_GEOMETRY),
    "mla": _must_equal(_GEOMETRY),
    "tp.size": _size("tensor parallel", _HEADS, _HEADS),
    "tp.rank": _must_equal(_PARTNER),
    "pp.size": _size("pipeline", _STAGES, _STAGES),
    "pp.rank": _must_equal(_PARTNER),
    "cp.size": _size("context parallel", _CONTEXT, _CONTEXT),
    "cp.rank": _must_equal(_PARTNER),
    "dp.size": _size("data parallel", _REPLICAS, _REPLICAS),
    "dp.rank": _any("every replica holds whole requests, so any one can serve any other"),
    "ep_size": _any("experts hold no KV data"),
    "digests": {
        _R_.EQUAL: _SAME,
        _R_.SENDER_ONLY: Entry(_C, "requests of the receiver cannot be told apart by content: rooms are not reused"),
        _R_.RECEIVER_ONLY: Entry(_C, "requests of the sender cannot be told apart by content: rooms are not reused"),
        _R_.NEITHER: Entry(_C, "requests cannot be told apart by content: rooms are not reused"),
    },
    "max_parts": _any("the sender plans no more parts than the smaller limit"),
    "transports": _rule("at least one transport fits both ends", "no transport fits both ends"),
    "aux": _optional(
        Entry(_C, "the receiver takes no aux data; it is not sent"),
        Entry(_R, "the receiver waits for aux data that the sender does not have"),
        _SAME, Entry(_C, "paired by name")),
    "aux.field": _optional(
        Entry(_C, "the receiver does not know this field; it is not sent"),
        Entry(_R, "the receiver waits for this field and the sender does not have it"),
        _SAME, Entry(_R, "the two buffers differ in dtype or shape")),
    "staging": _optional(
        Entry(_C, "staging is for unequal tensor parallel sizes; it is not used"),
        Entry(_C, "staging is for unequal tensor parallel sizes; it is not used"),
        _SAME, Entry(_C, "staging is for unequal tensor parallel sizes; it is not used")),
    "dcp": _optional(_DCP_YET, _DCP_YET, _SAME,
                     Entry(_R, "decode context parallel ranks meet only ranks of the same size, rank and interleave")),
    "speculative": _optional(_SPEC, _SPEC, _SAME, _SPEC),
    "deadlines.total": _rule(
        "the sender outlives the receiver and its conclusion",
        "the sender's total must be at least the receiver's total plus the receiver's conclude span"),
    "deadlines.resend": _rule("messages are re-sent in time", "the re-send interval must be above zero"),
    "deadlines.pairing": _RESENDS,
    "deadlines.silence": _RESENDS,
    "deadlines.lost": _RESENDS,
    "deadlines.conclude": _RESENDS,
}
# fmt: on

#: Everything not named here combines: TP, PP, CP, DP and EP choose ranks, DCP chooses token rows, pages and chunks
#: choose token ranges, and none of them looks at another's choice.
COMBINATIONS: tuple[Combination, ...] = (
    Combination(
        Feature.DCP, Feature.HEADS, "decode context parallel pools hold latent rows; no engine shards heads so"
    ),
    Combination(Feature.DCP, Feature.CP, "token rows cannot be spread twice; use context parallel size 1"),
    Combination(Feature.DCP, Feature.SPECULATIVE, f"{_YET}: draft pools are not spread over the decode ranks"),
)

#: Checked for both registrations by both ends, so that both name the same field.
BOUNDS: tuple[Bound, ...] = (
    Bound("page.size", "at least", 1),
    Bound("page.nbytes", "at least", 1),
    Bound("heads.kv", "at least", 1),
    Bound("heads.dim", "at least", 1),
    Bound("max_parts", "at least", 1),
    Bound("layers.start", "below", "layers.stop"),
    Bound("layers.stop", "at most", "layers.total"),
    Bound("tp.size", "at least", 1),
    Bound("tp.rank", "below", "tp.size"),
    Bound("pp.size", "at least", 1),
    Bound("pp.rank", "below", "pp.size"),
    Bound("cp.size", "at least", 1),
    Bound("cp.rank", "below", "cp.size"),
    Bound("dp.size", "at least", 1),
    Bound("dp.rank", "below", "dp.size"),
    Bound("ep_size", "at least", 1),
    Bound("dcp.size", "at least", 1),
    Bound("dcp.rank", "below", "dcp.size"),
    Bound("dcp.interleave", "at least", 1),
)

#: Fields of a registration that are no property of the pair, and why; every other one is in :data:`SUPPORT`.
UNCOMPARED: Mapping[str, str] = {
    "engine": "an identity: two ends of one pair never share it",
    "versions": "compared as version",
    **dict.fromkeys(
        ("layers", "page", "heads", "tp", "pp", "cp", "dp", "deadlines"), "a row: its values are compared one by one"
    ),
}
