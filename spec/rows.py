"""The small values of the wire: numbers and texts with their limits, and rows.

A row is a ``NamedTuple``, written as a list: a few values that say something only together, all of them always there. To
name each by a tag costs more than it tells. A row never changes (a reader refuses one of another length); what comes later
gets a tag of its own.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

__all__ = [
    "ALONE", "U16", "U32", "U64", "AuxField", "Axis", "Deadlines", "Digest", "Heads", "Layers", "Millis", "Name",
    "Nbytes", "OpenCause", "OpenReason", "Page", "Shape", "Speculative", "Text", "Tokens", "TransportOffer", "Versions",
]  # fmt: skip

U64: TypeAlias = Annotated[int, Meta(ge=0)]  # msgpack itself ends at 2**64 - 1
U32: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
U16: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF)]
# ``extra`` is for the snapshot: a unit is part of a type, and an open enum takes numbers that it does not know yet.
Tokens: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFFFFFF, extra={"unit": "token"})]
Nbytes: TypeAlias = Annotated[int, Meta(ge=0, extra={"unit": "byte"})]
Millis: TypeAlias = Annotated[int, Meta(ge=0, le=86_400_000, extra={"unit": "ms"})]
OpenCause: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF, extra={"enum": "Cause"})]
OpenReason: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF, extra={"enum": "Reason"})]
Name: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=512)]
Digest: TypeAlias = Annotated[bytes, Meta(max_length=64)]
Shape: TypeAlias = Annotated[tuple[U32, ...], Meta(max_length=8)]


class Versions(NamedTuple):
    """Major and minor of the lowest and the highest version that an end speaks."""

    low: tuple[U16, U16]
    high: tuple[U16, U16]


class Layers(NamedTuple):
    """Layers of the whole model, and the range [start, stop) that this rank owns."""

    total: U16
    start: U16
    stop: U16


class Page(NamedTuple):
    """Tokens of a page, and the bytes of one page of one layer at this rank."""

    size: Tokens
    nbytes: Nbytes


class Heads(NamedTuple):
    """KV heads of this rank, and values of one head."""

    kv: U32
    dim: U32


class Axis(NamedTuple):
    """One axis of parallelism: how many ranks there are, and which one this is."""

    size: U16
    rank: U16


#: No parallelism along an axis. Say so with this very object: it is the default, and only then left out of a frame.
ALONE = Axis(1, 0)


class Deadlines(NamedTuple):
    """Durations in milliseconds; compared in the handshake."""

    pairing: Millis
    silence: Millis
    total: Millis
    resend: Millis
    lost: Millis
    conclude: Millis


class TransportOffer(NamedTuple):
    """A transport this end can use, and what the peer needs to reach it: a map, so that it can grow."""

    name: Name
    descriptor: Annotated[dict[Name, Text | int], Meta(max_length=32)]


class Speculative(NamedTuple):
    """Speculative decoding: must be equal at both ends. A setting that one end does not know must not be skipped."""

    algorithm: Name
    draft_tokens: U32
    topk: U32
    hidden_size: U32


class AuxField(NamedTuple):
    """One buffer of the aux data: a row of :class:`AuxSchema`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
