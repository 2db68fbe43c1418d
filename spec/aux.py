"""The aux plane: what travels beside the KV data, as data. One slot of fixed size for each hand-off.

Rules of this file:

1. A field has a tag, given once and never reused, like a tag of the wire: a deleted one goes to :data:`AUX_RESERVED`. Its
   name goes with it and is not changed either, for the handshake compares names, and the slot has tags.
2. Absent is not zero. A field that nobody wrote is not in the slot; who needs it is told so by name (B02).
3. Speculative decoding starts from data that must have been sent: its fields are written whenever they are agreed.

Fields that an engine adds for itself have tags above :data:`OWN_TAGS`, made from their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "AUX_DTYPES",
    "AUX_FIELDS",
    "AUX_LIMITS",
    "AUX_RESERVED",
    "MAX_TOPK",
    "OWN_TAGS",
    "AuxDtype",
    "AuxSpec",
    "Written",
]


class Written(Enum):
    """When a field is in a slot."""

    HEAD = "in the head of every slot"  #: by the runtime, not by the engine
    ALWAYS = "in every slot of a pair that agreed on it"
    ASKED = "when the request asks for it"


@dataclass(frozen=True, slots=True)
class AuxDtype:
    """A dtype in a slot. ``carrier``: the numpy dtype of its arrays; for what numpy has no type for, unsigned integers of
    the same width, bit for bit."""

    name: str
    number: int  #: in the slot; given once
    nbytes: int
    carrier: str


@dataclass(frozen=True, slots=True)
class AuxSpec:
    """One declared field. ``shape`` names its axes, ``limits`` how long one may be. ``speculative``: the draft model of the
    decode side starts from it."""

    tag: int
    name: str
    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    written: Written
    speculative: bool
    why: str


#: Probabilities that one draft step keeps.
MAX_TOPK = 16
#: Longest axes, by name; 0: no limit but the size of a slot.
AUX_LIMITS = {"one": 1, "attempt": 3, "tokens": 0, "top": 128, "topk": MAX_TOPK, "hidden": 0}
#: Tags from here on are made from the names of fields that are not declared here.
OWN_TAGS = 1 << 31

_DTYPES = (
    AuxDtype("bool", 1, 1, "uint8"), AuxDtype("uint8", 2, 1, "uint8"), AuxDtype("int8", 3, 1, "int8"),
    AuxDtype("uint16", 4, 2, "uint16"), AuxDtype("int16", 5, 2, "int16"), AuxDtype("uint32", 6, 4, "uint32"),
    AuxDtype("int32", 7, 4, "int32"), AuxDtype("uint64", 8, 8, "uint64"), AuxDtype("int64", 9, 8, "int64"),
    AuxDtype("float16", 10, 2, "float16"), AuxDtype("bfloat16", 11, 2, "uint16"), AuxDtype("float32", 12, 4, "float32"),
    AuxDtype("float64", 13, 8, "float64"), AuxDtype("float8_e4m3fn", 14, 1, "uint8"),
    AuxDtype("float8_e5m2", 15, 1, "uint8"),
)  # fmt: skip
#: By name.
AUX_DTYPES: dict[str, AuxDtype] = {dtype.name: dtype for dtype in _DTYPES}

_INT, _ID, _REAL = ("int32",), ("int32", "int64"), ("float32",)
_HIDDEN = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")
_H, _A, _Q = Written.HEAD, Written.ALWAYS, Written.ASKED

# fmt: off
_FIELDS = (
    # tag, name, dtypes, axes, when it is written, speculative; why
    AuxSpec(1, "attempt",             ("uint64",), ("attempt",), _H, False,
            "room, engine id and gen: whose the slot is, so that a late write is seen for what it is (B02, B03)"),
    AuxSpec(2, "output_ids",          _ID, ("tokens",), _A, False,
            "the first token, which prefill sampled: decode goes on from it"),
    AuxSpec(3, "cached_tokens",       _INT, ("one",), _Q, False,
            "prompt tokens that prefill found in its cache, for the usage report"),
    AuxSpec(4, "token_logprobs",      _REAL, ("tokens",), _Q, False,
            "log-probability of each output token"),
    AuxSpec(5, "token_logprob_ids",   _ID, ("tokens",), _Q, False,
            "the tokens that these are of"),
    AuxSpec(6, "top_logprobs",        _REAL, ("tokens", "top"), _Q, False,
            "the best log-probabilities at each output token"),
    AuxSpec(7, "top_logprob_ids",     _ID, ("tokens", "top"), _Q, False,
            "the tokens that these are of"),
    AuxSpec(8, "topk_p",              _REAL, ("tokens", "topk"), _A, True,
            "probabilities of the first draft step"),
    AuxSpec(9, "topk_index",          _ID, ("tokens", "topk"), _A, True,
            "the tokens that these are of"),
    AuxSpec(10, "hidden_states",      _HIDDEN, ("tokens", "hidden"), _A, True,
            "what the draft model starts from; only the last pipeline stage has it (Q29)"),
)
# fmt: on
#: By name.
AUX_FIELDS: dict[str, AuxSpec] = {spec.name: spec for spec in _FIELDS}
#: Tags of fields that were deleted: never to be given again.
AUX_RESERVED: tuple[int, ...] = ()
