"""The snapshot language: what a wire schema is, as data that outlives the code it was taken from.

A snapshot is one JSON document per released version: every message, group and enum, each field with its tag, type,
presence and limits. Rules:

1. Only what a peer can notice is in it. Comments and the order of declarations are not, so the digest (SHA-256 of the
   canonical JSON without ``digest``) changes exactly when the wire does.
2. A type says everything that two ends must agree on: range, length, unit, byte order, open or closed.
3. The language is wider than our own wire. ``framing="slots"`` describes positional messages (``tag`` is then the
   index of the frame, ``min_slots`` the count that the receiver insists on) and the packed encodings that engines put
   into such frames, so that the same checker can read theirs.

Evolution fields: ``since`` is the version that brought a field, ``deprecated`` the one that stopped writing it;
``reserved`` holds tags and names never to be given again; ``critical`` says that a peer that does not know the tag must
refuse the message.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "BODY", "DEPRECATED", "ENVELOPE", "FORMAT", "GROUPS", "RESERVED_NAMES", "SENT_BY", "SINCE", "Boolean", "Bytes",
    "Default", "Encoded", "End", "EnumSpec", "Enumerated", "FieldSpec", "Float", "GroupRef", "Integer", "ListOf", "Literally",
    "MapOf", "MessageSpec", "Packed", "Presence", "Reserved", "Snapshot", "Text", "TupleOf", "Type", "UnionOf",
]  # fmt: skip

#: Names this language. A reader refuses a document of another major number.
FORMAT = "kvpoll-schema/1"

#: Declared tag ranges; those that mean something to a peer (CRITICAL, GREASE) stand in :mod:`kvpoll.spec.wire`.
ENVELOPE = range(1, 16)
BODY = range(16, 100)
GROUPS = range(100, 150)

End: TypeAlias = Literal["sender", "receiver"]
Presence: TypeAlias = Literal["required", "default", "optional"]
#: Of a default: bytes are written as hex, enums as their number, tuples as lists.
Default: TypeAlias = bool | int | str | list[bool | int | str] | None


# Types ----------------------------------------------------------------------------------------------------------------
class _Type(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of all types: told apart by ``type``."""


class Boolean(_Type, frozen=True, kw_only=True, tag="bool"):
    """True or false; a number is neither."""


class Integer(_Type, frozen=True, kw_only=True, tag="int"):
    """``min`` to ``max`` inclusive. ``text``: written as decimal digits, as some slot messages do."""

    min: int
    max: int
    unit: str = ""
    text: bool = False


class Float(_Type, frozen=True, kw_only=True, tag="float"):
    bits: Literal[32, 64] = 64
    unit: str = ""


class Text(_Type, frozen=True, kw_only=True, tag="str"):
    """UTF-8. ``max_length`` counts characters; ``None``: only the frame limits it."""

    max_length: int | None = None


class Bytes(_Type, frozen=True, kw_only=True, tag="bytes"):
    max_length: int | None = None


class Literally(_Type, frozen=True, kw_only=True, tag="literal"):
    """Always these bytes (as text): the discriminator of a slot message."""

    value: str


class Packed(_Type, frozen=True, kw_only=True, tag="packed"):
    """Numbers back to back in one byte string: ``u64`` in ``native`` order, for instance. ``nested``: a list of such
    lists with its own length prefixes."""

    item: Literal["u8", "u16", "u32", "u64", "i32", "i64", "f32", "f64"]
    order: Literal["little", "big", "native"] = "little"
    nested: bool = False
    unit: str = ""


class Encoded(_Type, frozen=True, kw_only=True, tag="encoded"):
    """A frame of a slot message, written as engines write it: ``encoding`` is a name that
    :mod:`kvpoll.protocol.evolution.encodings` knows. ``value``: of the fixed ones."""

    encoding: str
    value: str = ""
    unit: str = ""


class Enumerated(_Type, frozen=True, kw_only=True, tag="enum"):
    """A number of ``enum``. ``open``: numbers that the reader does not know are kept; otherwise they are refused."""

    enum: str
    open: bool = False


class GroupRef(_Type, frozen=True, kw_only=True, tag="group"):
    group: str


class ListOf(_Type, frozen=True, kw_only=True, tag="list"):
    items: Type
    max_length: int | None = None


class TupleOf(_Type, frozen=True, kw_only=True, tag="tuple"):
    """A fixed count of values: the one place where position means something. ``names``: of the values, in a row."""

    items: tuple[Type, ...]
    names: tuple[str, ...] = ()


class MapOf(_Type, frozen=True, kw_only=True, tag="map"):
    keys: Type
    values: Type
    max_length: int | None = None


class UnionOf(_Type, frozen=True, kw_only=True, tag="union"):
    options: tuple[Type, ...]


Type: TypeAlias = (
    Boolean
    | Integer
    | Float
    | Text
    | Bytes
    | Literally
    | Packed
    | Encoded
    | Enumerated
    | GroupRef
    | ListOf
    | TupleOf
    | MapOf
    | UnionOf
)


# Declarations ---------------------------------------------------------------------------------------------------------
class FieldSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``presence``: required (an absent one is refused), default (absent means ``default``), optional (absent is a
    value of its own)."""

    name: str
    tag: int
    type: Type
    presence: Presence
    default: Default = None
    critical: bool = False
    since: str = "1.0"
    deprecated: str = ""


class Reserved(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Never to be given again."""

    tags: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


class MessageSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message (it has a ``number`` and says who sends it), or a group under one tag (it has neither)."""

    name: str
    number: int | None = None
    sent_by: tuple[End, ...] = ()
    framing: Literal["tags", "slots"] = "tags"
    min_slots: int | None = None
    max_slots: int | None = None  #: of a slot message whose receiver takes no more frames than this
    fields: tuple[FieldSpec, ...]  #: by tag, ascending; envelope included
    reserved: Reserved = Reserved()
    since: str = "1.0"
    deprecated: str = ""


class EnumSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``machine``: the numbers are states of that machine, so their meaning is part of the wire too."""

    name: str
    values: dict[str, int]
    machine: str = ""
    reserved: Reserved = Reserved()


class Snapshot(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One version of one schema. ``limits`` and ``ranges`` (first and last tag) are part of it: to shrink a limit
    breaks a peer as surely as to drop a field."""

    format: str = FORMAT
    schema: str
    version: str
    digest: str = ""
    window: tuple[str, str] | None = None  #: oldest and newest version that this one talks to; None: itself only
    capabilities: tuple[str, ...] = ()
    limits: dict[str, int] = {}
    ranges: dict[str, tuple[int, int]] = {}
    enums: tuple[EnumSpec, ...] = ()
    groups: tuple[MessageSpec, ...] = ()
    messages: tuple[MessageSpec, ...]


_R: tuple[End, ...] = ("receiver",)
_S: tuple[End, ...] = ("sender",)
_BOTH: tuple[End, ...] = ("receiver", "sender")

#: Who sends which message. A message from the wrong end is refused by the machines, so this is part of the wire.
SENT_BY: dict[str, tuple[End, ...]] = {
    "Hello": _R, "Welcome": _S, "Refusal": _BOTH, "Announce": _R, "Metadata": _R, "Offer": _S, "PartDone": _S,
    "Close": _S, "Conclude": _R, "Abort": _BOTH, "AbortAck": _BOTH, "Status": _BOTH, "Query": _BOTH,
    "Heartbeat": _BOTH, "Drain": _BOTH, "LinkOver": _BOTH,
}  # fmt: skip

#: By "Struct.field": the version that brought it, if not 1.0; and the version that stopped writing it.
SINCE: dict[str, str] = {}
DEPRECATED: dict[str, str] = {}
#: Names that were deleted, by struct name; their tags stand in ``wire.RESERVED``.
RESERVED_NAMES: dict[str, tuple[str, ...]] = {}
