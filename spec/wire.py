"""The wire, version 1.0: sixteen kinds of message, each a map from tag to value.

Rules of this file:

1. A tag is a number given once in its struct and never reused; deleted tags are listed in ``RESERVED``. It is written
   as a decimal string key. Tag "0" is the kind. A position means nothing, except in a row (a ``NamedTuple``): a few
   values that say something only together. A row never changes; what comes later gets a tag of its own.
2. Absent is not zero: an optional value is ``UNSET`` when it was not sent.
3. Optional features (aux, staging, DCP, speculative decoding) are structs or rows of their own under one tag, so that
   no feature can shift another.
4. Limits stand in the types and are enforced while decoding; every room message states facts that never become false
   within an attempt, so it may be lost, copied or reordered.

Tag ranges: 1-15 envelope, 16-99 body, 100-149 groups, 200-255 critical (a peer that does not know such a tag must
refuse), 900-999 grease (means nothing, sent now and then). Anything else unknown is skipped, counted and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from .rows import (
    ALONE,
    U16,
    U32,
    U64,
    AuxField,
    Axis,
    Deadlines,
    Digest,
    Heads,
    Layers,
    Millis,
    Name,
    Nbytes,
    OpenCause,
    OpenReason,
    Page,
    Shape,
    Speculative,
    Text,
    Tokens,
    TransportOffer,
    Versions,
)
from .states import KVPoll

__all__ = [
    "ALONE", "CRITICAL", "GREASE", "KINDS", "MAX_FRAME", "MAX_PARTS", "RESERVED", "VERSION", "Abort", "AbortAck",
    "Announce", "AuxField", "AuxSchema", "Axis", "Close", "Conclude", "Dcp", "Deadlines", "Drain", "Facts",
    "FailureGroup", "Fingerprint", "Heads", "Heartbeat", "Hello", "Layers", "LinkOver", "Message", "MetaGroup",
    "Metadata", "Offer", "Page", "Part", "PartDone", "PartKind", "Query", "Reason", "Refusal", "Registration",
    "RoomMessage", "Seen", "Speculative", "Staging", "Status", "TransportOffer", "Versions", "Welcome",
]  # fmt: skip

#: major, minor. Peers speak the highest minor that both know; majors must overlap.
VERSION = (1, 0)
#: Largest control message, in bytes; checked before anything is decoded.
MAX_FRAME = 1 << 20
#: Parts of one plan of one sender rank.
MAX_PARTS = 4096
CRITICAL = range(200, 256)
GREASE = range(900, 1000)


class PartKind(IntEnum):
    """What a part holds."""

    KV = 0
    STATE = 1
    AUX = 2


class Reason(IntEnum):
    """Why a message was refused."""

    HANDSHAKE = 1  #: the registrations do not fit; ``fields`` names them
    NO_LEG = 2  #: no equal leg for this room and fingerprint
    ROOM_BUSY = 3  #: the room is bound to another engine or instance
    WRONG_INSTANCE = 4  #: the message was for another instance; ours stands in the envelope
    DRAINING = 5  #: no new rooms
    LIMIT = 6  #: a table is full
    VERSION = 7  #: no common version, or an unknown critical tag


# Groups ---------------------------------------------------------------------------------------------------------------
class Group(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of everything under one tag. No garbage collection: values hold values, so no cycle can form."""


class Fingerprint(Group, frozen=True, kw_only=True):
    """Which request this is. Two legs pair only when all of it is equal."""

    tokens: Tokens = field(name="1")  #: N, prompt tokens
    prefix: Tokens = field(name="2", default=0)  #: tokens the receiver already holds; data covers [prefix, N)
    digest: Digest = field(name="3", default=b"")  #: digest of the token ids, or the router's attempt key


class Part(Group, frozen=True, kw_only=True):
    """What has to arrive: kind, layers, absolute token range; and how its bytes look."""

    no: U32 = field(name="1")  #: 0, 1, 2, ... within the plan of this sender rank
    kind: PartKind = field(name="2", default=PartKind.KV)
    start: Tokens = field(name="3", default=0)  #: first token, absolute
    stop: Tokens = field(name="4", default=0)  #: one past the last token, absolute
    layer_start: U16 = field(name="5", default=0)
    layer_stop: U16 = field(name="6", default=0)
    shape: Shape = field(name="7", default=())
    dtype: Name = field(name="8", default="uint8")
    key: U64 | UnsetType = field(name="9", default=UNSET)  #: pull: under which key it can be read


class FailureGroup(Group, frozen=True, kw_only=True):
    """A failure as the peer hears it."""

    cause: OpenCause = field(name="1")
    details: Annotated[tuple[tuple[Name, Text | int], ...], Meta(max_length=16)] = field(name="2", default=())
    in_doubt: bool = field(name="3", default=False)


class AuxSchema(Group, frozen=True, kw_only=True):
    """What travels beside the KV data: the first token, log-probabilities, ..., by name. In columns of one length."""

    names: Annotated[tuple[Name, ...], Meta(max_length=64)] = field(name="1")
    dtypes: Annotated[tuple[Name, ...], Meta(max_length=64)] = field(name="2")
    shapes: Annotated[tuple[Shape, ...], Meta(max_length=64)] = field(name="3")

    @classmethod
    def of(cls, fields: Iterable[AuxField]) -> AuxSchema:
        rows = tuple(fields)
        return cls(
            names=tuple(f.name for f in rows), dtypes=tuple(f.dtype for f in rows), shapes=tuple(f.shape for f in rows)
        )

    @property
    def fields(self) -> tuple[AuxField, ...]:
        """The rows; of columns that differ in length (the handshake refuses them) those that are whole."""
        return tuple(map(AuxField, self.names, self.dtypes, self.shapes))


class Staging(Group, frozen=True, kw_only=True):
    """Staged scatter at the receiver (heterogeneous TP)."""

    buffer_nbytes: Nbytes = field(name="1")
    grid_tokens: Tokens = field(name="2")


class Dcp(Group, frozen=True, kw_only=True):
    """Decode context parallel: which tokens this rank holds."""

    size: U16 = field(name="1")
    rank: U16 = field(name="2")
    interleave: Tokens = field(name="3", default=1)


class Registration(Group, frozen=True, kw_only=True):
    """Who an end is and what it can do. Compared field by field: equal, converted or refused."""

    versions: Versions = field(name="1")  #: lowest and highest that it speaks, as major and minor
    capabilities: Annotated[tuple[Name, ...], Meta(max_length=64)] = field(name="2", default=())
    role: Name = field(name="3")
    engine: U64 = field(name="4")
    model: Text = field(name="5")
    weights: Text = field(name="6")  #: revision; empty: not stated
    layers: Layers = field(name="7")  #: of the whole model; this rank owns [start, stop)
    page: Page = field(name="8")  #: tokens of a page; bytes of one page of one layer at this rank
    kv_dtype: Name = field(name="9")
    layout: Name = field(name="10")  #: order of axes within a page row
    heads: Heads = field(name="11")  #: KV heads of this rank; values of one head
    mla: bool = field(name="12", default=False)
    tp: Axis = field(name="13", default=ALONE)  #: tensor parallelism
    pp: Axis = field(name="14", default=ALONE)  #: pipeline parallelism
    cp: Axis = field(name="15", default=ALONE)  #: context parallelism
    dp: Axis = field(name="16", default=ALONE)  #: data parallelism
    ep_size: U16 = field(name="17", default=1)
    digests: bool = field(name="18", default=True)  #: requests carry a digest or an attempt key
    transports: Annotated[tuple[TransportOffer, ...], Meta(max_length=16)] = field(name="19")
    deadlines: Deadlines = field(name="20")
    max_parts: U32 = field(name="21", default=MAX_PARTS)
    aux: AuxSchema | UnsetType = field(name="100", default=UNSET)
    staging: Staging | UnsetType = field(name="101", default=UNSET)
    dcp: Dcp | UnsetType = field(name="102", default=UNSET)
    speculative: Speculative | UnsetType = field(name="103", default=UNSET)


class MetaGroup(Group, frozen=True, kw_only=True):
    """Where data goes: said once by each receiver rank when it owns pages."""

    key: U64 = field(name="1")  #: push: the key under which this rank takes parts
    pages: U32 = field(name="2")  #: destination pages; must be what [prefix, N) needs
    max_nbytes: Nbytes = field(name="3")  #: bytes this rank takes for the whole attempt
    aux: U32 | UnsetType = field(name="100", default=UNSET)  #: aux slot of the receiver; absent: no aux data wanted


class Seen(Group, frozen=True, kw_only=True):
    """Which facts of yours I hold, so that you can stop saying them."""

    announce: bool = field(name="1", default=False)
    meta: bool = field(name="2", default=False)
    parts: U32 = field(name="3", default=0)  #: parts heard of (offered, done)
    total: bool = field(name="4", default=False)
    over: bool = field(name="5", default=False)  #: your failure, or your conclusion


class Facts(Group, frozen=True, kw_only=True):
    """Everything that is true of one end of an attempt, for one peer rank. Join, never overwrite."""

    state: KVPoll = field(name="1")
    bound: bool = field(name="2", default=False)  #: sender: a leg is paired with the attempt
    fingerprint: Fingerprint | UnsetType = field(name="3", default=UNSET)  #: receiver
    transport: Name = field(name="4", default="")  #: receiver: the one it picked
    meta: MetaGroup | UnsetType = field(name="5", default=UNSET)  #: receiver
    parts: Annotated[tuple[Part, ...], Meta(max_length=MAX_PARTS)] = field(name="6", default=())  #: offered or done
    total: U32 | UnsetType = field(name="7", default=UNSET)  #: sender: the plan is closed with this many parts
    failed: FailureGroup | UnsetType = field(name="8", default=UNSET)
    concluded: bool = field(name="9", default=False)  #: receiver: committed
    drained: bool = field(name="10", default=False)  #: nothing of mine can touch your memory any more
    quarantined: bool = field(name="11", default=False)  #: over, but an operation of mine is unresolved


# Messages -------------------------------------------------------------------------------------------------------------
class Message(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False, tag_field="0", tag=0
):
    """The envelope that every kind has."""

    link: U64 = field(name="1")
    source: U64 = field(name="2")  #: instance that speaks
    target: U64 | UnsetType = field(name="3", default=UNSET)  #: instance spoken to; absent only at first contact
    source_rank: U16 = field(name="4", default=0)
    target_rank: U16 = field(name="5", default=0)


class Hello(Message, frozen=True, kw_only=True, tag=1):
    """First message on a link, by the receiver's process."""

    registration: Registration = field(name="16")


class Welcome(Message, frozen=True, kw_only=True, tag=2):
    """Answer to HELLO: the registrations were compared and agree."""

    registration: Registration = field(name="16")


class Refusal(Message, frozen=True, kw_only=True, tag=3):
    """No, and why: for a pair (no room) or for one room."""

    reason: OpenReason = field(name="16")
    fields: Annotated[tuple[Name, ...], Meta(max_length=64)] = field(name="17", default=())
    text: Text = field(name="18", default="")
    room: U64 | UnsetType = field(name="6", default=UNSET)
    engine: U64 | UnsetType = field(name="7", default=UNSET)
    gen: U64 | UnsetType = field(name="8", default=UNSET)


class Heartbeat(Message, frozen=True, kw_only=True, tag=14):
    """Alive. ``low_water`` as in room messages, so that idle links forget too."""

    engine: U64 | UnsetType = field(name="7", default=UNSET)
    low_water: U64 | UnsetType = field(name="9", default=UNSET)


class Drain(Message, frozen=True, kw_only=True, tag=15):
    """This process takes no new rooms and will be gone in about ``within`` milliseconds."""

    within: Millis = field(name="16")


class LinkOver(Message, frozen=True, kw_only=True, tag=16):
    """This link is over: treat its rooms as those of a lost peer."""

    text: Text = field(name="16", default="")


class RoomMessage(Message, frozen=True, kw_only=True):
    """The envelope of everything about one attempt."""

    room: U64 = field(name="6")
    engine: U64 = field(name="7")  #: receiver engine id
    gen: U64 = field(name="8")
    low_water: U64 | UnsetType = field(name="9", default=UNSET)  #: by receivers: smallest gen this rank still holds


class Announce(RoomMessage, frozen=True, kw_only=True, tag=4):
    """Receiver: this attempt exists. With ``meta`` when pages are already owned."""

    fingerprint: Fingerprint = field(name="16")
    transport: Name = field(name="17")


class Metadata(RoomMessage, frozen=True, kw_only=True, tag=5):
    """Receiver: where data goes. Carries what ANNOUNCE says, so that either may come first, or alone."""

    fingerprint: Fingerprint = field(name="16")
    transport: Name = field(name="17")
    meta: MetaGroup = field(name="18")


class Offer(RoomMessage, frozen=True, kw_only=True, tag=6):
    """Sender, pull: these parts can be read."""

    parts: Annotated[tuple[Part, ...], Meta(max_length=MAX_PARTS)] = field(name="16")


class PartDone(RoomMessage, frozen=True, kw_only=True, tag=7):
    """Sender, push: every operation ever started for these parts is quiescent, and their bytes are at the receiver."""

    parts: Annotated[tuple[Part, ...], Meta(max_length=MAX_PARTS)] = field(name="16")


class Close(RoomMessage, frozen=True, kw_only=True, tag=8):
    """Sender: the plan of this rank is closed and has ``total`` parts (0: it owns no rows)."""

    total: U32 = field(name="16")


class Conclude(RoomMessage, frozen=True, kw_only=True, tag=9):
    """Receiver: everything planned arrived and was committed."""


class Abort(RoomMessage, frozen=True, kw_only=True, tag=10):
    """This rank failed."""

    failed: FailureGroup = field(name="16")


class AbortAck(RoomMessage, frozen=True, kw_only=True, tag=11):
    """My admission is closed for good, and nothing of mine can touch your memory; unless ``quarantined``."""

    quarantined: bool = field(name="16", default=False)


class Status(RoomMessage, frozen=True, kw_only=True, tag=12):
    """All facts of its sender, and which facts of the other end it holds."""

    facts: Facts = field(name="16")
    seen: Seen = field(name="17")
    answer: bool = field(name="18", default=False)  #: please answer with yours


class Query(RoomMessage, frozen=True, kw_only=True, tag=13):
    """Do you hold this attempt? Always answered with STATUS, or with a refusal NO_LEG."""


KINDS: tuple[type[Message], ...] = (
    Hello, Welcome, Refusal, Announce, Metadata, Offer, PartDone, Close, Conclude, Abort, AbortAck, Status, Query,
    Heartbeat, Drain, LinkOver,
)  # fmt: skip

#: Tags that were deleted, by struct name: never to be given again.
RESERVED: dict[str, tuple[int, ...]] = {}
