"""A line of positional layouts, told again with tags: the same fields, each with a tag that it keeps.

What a project does that has tags, and nothing cleverer: a name gets a tag once; a field that comes later is optional; one that
goes leaves its tag and name reserved; a list of numbers is a list of numbers. A field that only got another name (same
encoding, same neighbours) keeps its tag. How often a field must be there, and what it holds, is as the layouts say, so that
a real change of meaning is one here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvpoll.spec.schema import (
    Boolean,
    Bytes,
    FieldSpec,
    Integer,
    ListOf,
    MessageSpec,
    Reserved,
    Snapshot,
    Text,
    Type,
)

from .agree import differs
from .dialect import Dialect, Refused
from .dialect import Value as Tagged
from .encodings import Value
from .slots import Layout, Slot, Variant, Verdict, frames_of
from .snapshots import sealed

__all__ = ["met", "retold"]

_FIRST_TAG = 16
_SIZES = {
    "ascii-int": (0, 2**64 - 1), "u64": (0, 2**64 - 1), "u64[]": (0, 2**64 - 1), "nested<u64>": (0, 2**64 - 1),
    "u32be": (0, 2**32 - 1), "u32[]": (0, 2**32 - 1), "u32le[]": (0, 2**32 - 1), "nested<u32>": (0, 2**32 - 1),
    "i64np[]": (-(2**63), 2**63 - 1), "i32np[]": (-(2**31), 2**31 - 1), "nested<i32>": (-(2**31), 2**31 - 1),
}  # fmt: skip
_OTHERS: Mapping[str, Type] = {
    "ascii-str": Text(), "utf8-str": Text(), "bool01": Boolean(), "csv-ascii": ListOf(items=Text()), "opaque": Bytes(),
    "bytes": Bytes(), "msgpack-bin[]": ListOf(items=Bytes()), "nested-msgpack": ListOf(items=ListOf(items=Bytes())),
}  # fmt: skip


def retold(layouts: Sequence[Layout]) -> list[Snapshot]:
    """One snapshot for each layout of one message, oldest first. Raises ``LookupError`` for an encoding that is not known."""
    tags: dict[str, int] = {}
    needed = {slot.name for slot in layouts[0].frames} if layouts else set()
    found, gone = list[Snapshot](), dict[str, int]()
    for at, layout in enumerate(layouts):
        before = layouts[at - 1] if at else layout
        for old, new in _renamed(before, layout).items():
            tags[new] = tags.pop(old)
            needed |= {new} if old in needed else set()
        slots = [
            slot for slot in layout.frames if slot.enc != "literal"
        ]  # it says which message this is: the kind does
        needed &= {slot.name for slot in slots if not slot.optional}
        for slot in slots:
            tags.setdefault(slot.name, _FIRST_TAG + len(tags) + len(gone))
        gone |= {name: tag for name, tag in tags.items() if name not in {slot.name for slot in slots}}
        fields = tuple(sorted((_field(slot, tags[slot.name], slot.name in needed) for slot in slots), key=_tag))
        reserved = Reserved(tags=tuple(sorted(gone.values())), names=tuple(sorted(gone)))
        message = MessageSpec(name=layout.message, number=1, fields=fields, reserved=reserved)
        schema, version = f"{layout.backend} {layout.message}", layout.first_release
        found.append(sealed(Snapshot(schema=schema, version=version, messages=(message,))))
    return found


def met(sender: Layout, writes: Snapshot, reads: Snapshot, variant: Variant) -> tuple[Verdict, str]:
    """What a reader makes of the usual message of a layout when it is written with tags; and of which field that is so."""
    writer, reader = Dialect(writes), Dialect(reads)
    (message,) = writes.messages
    _, values = frames_of(sender, variant)
    sent = {f.name: _held(values[f.name]) for f in message.fields if values.get(f.name) is not None}
    try:
        name, got = reader.read(writer.write(message.name, sent))
    except Refused as refusal:
        return Verdict.RAISES, refusal.where
    wrong = differs(writer, message, sent, reader, reader.messages[name], got)
    return (Verdict.OK, "") if wrong is None else (Verdict.SILENT, wrong.partition(":")[0])


def _tag(field: FieldSpec) -> int:
    return field.tag


def _field(slot: Slot, tag: int, needed: bool) -> FieldSpec:
    return FieldSpec(name=slot.name, tag=tag, type=_type(slot.enc), presence="required" if needed else "optional")


def _type(encoding: str) -> Type:
    if encoding in _OTHERS:
        return _OTHERS[encoding]
    low, high = _SIZES[encoding]
    number = Integer(min=low, max=high)
    if encoding.startswith("nested"):
        return ListOf(items=ListOf(items=number))
    return ListOf(items=number) if encoding.endswith("[]") else number


def _held(value: Value) -> Tagged:
    """A value of a slot as a dialect holds it."""
    if value is None:
        return b""
    return [_held(item) for item in value] if isinstance(value, list | tuple) else value  # type: ignore[return-value]


def _renamed(old: Layout, new: Layout) -> dict[str, str]:
    """Old name -> new name."""
    ours, theirs = _neighbours(old), _neighbours(new)
    encodings = {slot.name: slot.enc for slot in (*old.frames, *new.frames)}
    return {
        a: b
        for a, around in ours.items()
        for b, beside in theirs.items()
        if a not in theirs and b not in ours and around == beside and encodings[a] == encodings[b]
    }


def _neighbours(layout: Layout) -> dict[str, tuple[str, str]]:
    names = ["", *(slot.name for slot in layout.frames), ""]
    return {name: (names[at], names[at + 2]) for at, name in enumerate(names[1:-1])}
