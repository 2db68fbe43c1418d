"""What a snapshot says, put into practice: write a message as its writer would, read bytes as its reader would.

The codec of kvpoll is generated from structs of one version. This one follows any snapshot, ours or an engine's, old or not
yet released, so that a finding can be shown instead of argued: these bytes, this answer. It is slow and strict. The rules of
reading are those of :mod:`kvpoll.protocol.codec`: unknown tags are skipped, unknown critical ones and unknown kinds refused,
required fields must be there, limits hold, closed enums refuse numbers they do not know.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from kvpoll.spec.schema import (
    Boolean,
    Bytes,
    Encoded,
    End,
    Enumerated,
    EnumSpec,
    FieldSpec,
    Float,
    GroupRef,
    Integer,
    ListOf,
    Literally,
    MapOf,
    MessageSpec,
    Packed,
    Snapshot,
    Text,
    TupleOf,
    Type,
    UnionOf,
)

__all__ = ["ABSENT", "Absent", "Dialect", "Pairs", "Refused", "Value", "Values"]


class Absent:
    """A field that was not there, of a kind for which that means something."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()

#: A value as a dialect holds it: a group is a mapping from names, packed numbers are a list, an enum is its number.
Value: TypeAlias = "bool | int | float | str | bytes | Absent | Sequence[Value] | Mapping[str, Value] | Pairs"
Values: TypeAlias = "Mapping[str, Value]"


class Pairs(NamedTuple):
    """The value of a map, in order."""

    pairs: tuple[tuple[Value, Value], ...]


class Refused(Exception):
    """The reader does not take this: where, what it expected, what it got."""

    def __init__(self, where: str, expected: str, got: object) -> None:
        super().__init__(f"{where}: expected {expected}, got {got!r}"[:300])
        self.where = where


_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q", "f32": "f", "f64": "d"}


class Dialect:
    """One snapshot, tagged messages. ``big_endian``: the host that speaks it, which packed numbers in native order show."""

    def __init__(self, snapshot: Snapshot, big_endian: bool = False) -> None:
        self.snapshot = snapshot
        self.kinds = {m.number: m for m in snapshot.messages if m.number is not None and m.framing == "tags"}
        self.messages = {m.name: m for m in snapshot.messages}
        self.groups = {g.name: g for g in snapshot.groups}
        self.enums: dict[str, EnumSpec] = {e.name: e for e in snapshot.enums}
        low, high = snapshot.ranges.get("critical", (1, 0))
        self.critical = range(low, high + 1)
        self.max_frame = snapshot.limits.get("max_frame")
        self._native = ">" if big_endian else "<"

    # -- writing -------------------------------------------------------------------------------------------------------------
    def write(self, message: str, values: Values) -> bytes:
        """The frame of a message. Nothing is checked: a writer is not its own reader."""
        spec = self.messages[message]
        body = self._write_fields(spec, values)
        kind = {} if spec.number is None else {"0": spec.number}
        return msgspec.msgpack.encode(kind | body)

    def _write_fields(self, spec: MessageSpec, values: Values) -> dict[str, object]:
        return {
            str(field.tag): self._raw(field.type, values[field.name])
            for field in spec.fields
            if field.name in values and not isinstance(values[field.name], Absent)
        }

    def _raw(self, kind: Type, value: Value) -> object:
        match kind, value:
            case GroupRef(group=name), Mapping():
                return self._write_fields(self.groups[name], value)
            case (ListOf(items=inner), list() | tuple()) if not isinstance(value, Pairs):
                return [self._raw(inner, item) for item in value]
            case TupleOf(items=many), list() | tuple():
                return [self._raw(inner, item) for inner, item in zip(many, value, strict=True)]
            case MapOf(keys=keys, values=held), Pairs(pairs=pairs):
                return {self._raw(keys, key): self._raw(held, item) for key, item in pairs}
            case Packed(), list() | tuple():
                return self._pack(kind, value)
            case UnionOf(options=options), _:
                return self._raw(next((o for o in options if self.takes(o, value)), options[0]), value)
        return value

    def _pack(self, kind: Packed, value: Sequence[Value]) -> bytes:
        code, order = _CODES[kind.item], self._order(kind)
        if not kind.nested:
            return struct.pack(f"{order}{len(value)}{code}", *value)
        inner = [struct.pack(f"{order}{len(i)}{code}", *i) for i in value if isinstance(i, list | tuple)]
        return struct.pack(f"<{1 + len(inner)}I", len(inner), *map(len, inner)) + b"".join(inner)

    def _order(self, kind: Packed) -> str:
        return {"little": "<", "big": ">", "native": self._native}[kind.order]

    def takes(self, kind: Type, value: Value) -> bool:
        """Would a reader of this dialect take the value as this type?"""
        try:
            self._value(kind, msgspec.msgpack.decode(msgspec.msgpack.encode(self._raw(kind, value))), "")
        except (Refused, TypeError, ValueError, struct.error, OverflowError):
            return False
        return True

    # -- reading -------------------------------------------------------------------------------------------------------------
    def read(self, frame: bytes, sent_by: End | None = None) -> tuple[str, dict[str, Value]]:
        """Name and values of a message. Raises :class:`Refused`, as the reader would."""
        if self.max_frame is not None and len(frame) > self.max_frame:
            raise Refused("frame", f"at most {self.max_frame} bytes", len(frame))
        try:
            raw = msgspec.msgpack.decode(frame)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refused("frame", "a msgpack map", str(error)) from None
        if not isinstance(raw, dict):
            raise Refused("frame", "a msgpack map", type(raw).__name__)
        spec = self.kinds.get(raw.pop("0", None))
        if spec is None:
            raise Refused("frame.kind", "a kind that this version knows", frame[:8].hex())
        if sent_by is not None and spec.sent_by and sent_by not in spec.sent_by:
            raise Refused(spec.name, f"a message of {' or '.join(spec.sent_by)}", sent_by)
        return spec.name, self._read_fields(spec, raw, spec.name)

    def _read_fields(self, spec: MessageSpec, raw: Mapping[object, object], where: str) -> dict[str, Value]:
        known = {str(field.tag): field for field in spec.fields}
        for tag in raw:
            if tag not in known and isinstance(tag, str) and tag.isdigit() and int(tag) in self.critical:
                raise Refused(where, "no critical tag that this version does not know", int(tag))
        return {
            field.name: self._value(field.type, raw[tag], f"{where}.{field.name}") if tag in raw else self._missing(field, where)
            for tag, field in known.items()
        }  # fmt: skip

    def _missing(self, field: FieldSpec, where: str) -> Value:
        if field.presence == "required":
            raise Refused(f"{where}.{field.name}", f"tag {field.tag}", "nothing")
        return ABSENT if field.presence == "optional" else self.default(field)

    def default(self, field: FieldSpec) -> Value:
        """What an absent field of presence "default" means."""
        value = field.default
        if value is None:
            return ABSENT
        if isinstance(field.type, Bytes | Packed) and isinstance(value, str):
            raw = bytes.fromhex(value)
            return self._value(field.type, raw, field.name) if isinstance(field.type, Packed) else raw
        return value

    def _value(self, kind: Type, raw: object, where: str) -> Value:
        match kind:
            case Boolean() if isinstance(raw, bool):
                return raw
            case Integer(min=low, max=high):
                if isinstance(raw, int) and not isinstance(raw, bool) and low <= raw <= high:
                    return raw
                raise Refused(where, f"an integer from {low} to {high}", raw)
            case Float(bits=bits) if isinstance(raw, int | float) and not isinstance(raw, bool):
                return _rounded(float(raw), bits)
            case Text(max_length=most) if isinstance(raw, str):
                return _fits(raw, most, where, "characters")
            case Bytes(max_length=most) if isinstance(raw, bytes):
                return _fits(raw, most, where, "bytes")
            case Literally(value=value):
                if raw == value:
                    return value
                raise Refused(where, f"{value!r}", raw)
            case Packed() if isinstance(raw, bytes):
                return self._unpack(kind, raw, where)
            case Enumerated(enum=name, open=is_open) if isinstance(raw, int) and not isinstance(raw, bool):
                if is_open or raw in self.enums[name].values.values():
                    return raw
                raise Refused(where, f"a number of {name}", raw)
            case GroupRef(group=name) if isinstance(raw, dict):
                return self._read_fields(self.groups[name], raw, where)
            case ListOf(items=inner, max_length=most) if isinstance(raw, list):
                _fits(raw, most, where, "elements")
                return [self._value(inner, item, f"{where}[{at}]") for at, item in enumerate(raw)]
            case TupleOf(items=many) if isinstance(raw, list) and len(raw) == len(many):
                return [self._value(inner, item, f"{where}[{at}]") for at, (inner, item) in enumerate(zip(many, raw, strict=True))]  # fmt: skip  # noqa: E501
            case MapOf(keys=keys, values=held, max_length=most) if isinstance(raw, dict):
                _fits(raw, most, where, "entries")
                return Pairs(tuple((self._value(keys, k, where), self._value(held, v, where)) for k, v in raw.items()))
            case UnionOf(options=options):
                for option in options:
                    try:
                        return self._value(option, raw, where)
                    except Refused:
                        continue
            case Encoded():
                raise Refused(where, "a slot message", "a tag")
        raise Refused(where, _words(kind), raw)

    def _unpack(self, kind: Packed, raw: bytes, where: str) -> Value:
        code, order = _CODES[kind.item], self._order(kind)
        size = struct.calcsize(code)
        if not kind.nested:
            if len(raw) % size:
                raise Refused(where, f"whole words of {size} bytes", len(raw))
            return list(struct.unpack(f"{order}{len(raw) // size}{code}", raw))
        try:
            (count,) = struct.unpack("<I", raw[:4])
            if 4 + 4 * count > len(raw):
                raise Refused(where, "the lengths of its lists", count)
            lengths, at, lists = struct.unpack(f"<{count}I", raw[4 : 4 + 4 * count]), 4 + 4 * count, list[Value]()
            for length in lengths:
                lists.append(list(struct.unpack(f"{order}{length // size}{code}", raw[at : at + length])))
                at += length
        except struct.error as error:
            raise Refused(where, "lists of numbers with their lengths", str(error)) from None
        return lists


def _fits(value: str | bytes | list[object] | dict[object, object], most: int | None, where: str, of: str) -> Value:
    if most is not None and len(value) > most:
        raise Refused(where, f"at most {most} {of}", len(value))
    return value if isinstance(value, str | bytes) else ABSENT


def _rounded(value: float, bits: int) -> float:
    if bits == 64:
        return value
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def _words(kind: Type) -> str:
    return type(kind).__name__.lower()
