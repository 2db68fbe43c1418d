"""The slow path of the codec: frames with tags that this version does not know, and frames that are wrong.

A frame is taken apart along the schema, each map into its (tag, bytes) pairs. Unknown tags are set aside; what is left
is decoded as usual. If that fails, the same walk decodes each field by itself and so finds the one to name.

Work is bounded: values are skipped in C, maps and lists are refused by their announced length, unknown tags by count,
what they hold by depth. Depth is counted here and not left to the recursion limit, so that the verdict on a frame does
not depend on who called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.protocol.msgpack import ARRAY, MAP, array_header, header, map_header, name_of, nesting
from kvpoll.protocol.shape import FieldShape, StructShape, expects, shape_of
from kvpoll.spec.schema import ListOf, MapOf, TupleOf, Type
from kvpoll.spec.wire import CRITICAL, KINDS, MAX_PARTS, VERSION, Message, Reason

__all__ = [
    "MAX_DEPTH",
    "MAX_TAG",
    "MAX_UNKNOWN",
    "MAX_UNKNOWN_PER_MAP",
    "Unknown",
    "VersionError",
    "decode_slowly",
    "splice",
]

#: Nesting of containers inside one unknown value.
MAX_DEPTH = 16
#: Largest tag that can ever be given.
MAX_TAG = 65535
#: Unknown tags of one map; and of one frame: a newer peer may add two to each part.
MAX_UNKNOWN_PER_MAP = 64
MAX_UNKNOWN = 2 * MAX_PARTS
#: Values inside the unknown tags of one frame: to look at them takes time, which a frame must not take without end.
MAX_VALUES = 32 * MAX_PARTS

_KINDS: dict[int, type[Message]] = {n: kind for kind in KINDS if (n := shape_of(kind).number) is not None}
_VERSION = f"{VERSION[0]}.{VERSION[1]}"
_list_of_raw = msgspec.msgpack.Decoder(list[Raw]).decode
_text = msgspec.msgpack.Decoder(str).decode
_number = msgspec.msgpack.Decoder(int).decode


class Unknown(NamedTuple):
    """A tag that this version does not know. ``path``: tags, and indexes of list elements, that lead to its map;
    ``raw``: its value, as it was written."""

    path: tuple[int, ...]
    tag: int
    raw: bytes


class VersionError(RemoteProtocolError):
    """The peer speaks of something that it must not send to our version: answer with ``reason``."""

    reason = Reason.VERSION


def decode_slowly(
    frame: bytes, fast: Callable[[bytes], Message], hint: str, strict: bool
) -> tuple[Message, tuple[Unknown, ...]]:
    """``fast`` decodes a frame without unknown tags; ``hint`` is what it said about this one. ``strict``: refuse what is
    given twice. Raises ``RemoteProtocolError`` only."""
    kind = _kind(frame, hint)
    walk = _Walk(strict=strict)
    clean = walk.struct(frame, shape_of(kind), kind.__name__, ())
    try:
        message = fast(clean)
    except msgspec.DecodeError as error:
        _Walk(thorough=True, strict=strict).struct(clean, shape_of(kind), kind.__name__, ())  # raises, naming the field
        raise RemoteProtocolError(kind.__name__, "a well-formed message", str(error)) from None
    return message, tuple(sorted(walk.unknown))


def splice(frame: bytes, unknown: Sequence[Unknown], name: str) -> bytes:
    """``frame`` with unknown tags put back into their maps. Raises ``LocalProtocolError`` if a map is not there."""
    try:
        return _splice(frame, unknown, 0)
    except (LookupError, RemoteProtocolError):
        raise LocalProtocolError(f"{name} has no place for the unknown tags of another message") from None


def _kind(frame: bytes, hint: str) -> type[Message]:
    """The struct that tag 0 names."""
    for tag, value in _pairs(frame, _suspect(frame, hint), 4 * MAX_UNKNOWN_PER_MAP):
        if tag != 0:
            continue
        try:
            number = _number(value)
        except msgspec.DecodeError:
            raise RemoteProtocolError("frame.kind", "the number of a kind", name_of(value)) from None
        if number not in _KINDS:
            raise VersionError(
                "frame.kind", f"a kind of version {_VERSION} ({min(_KINDS)} to {max(_KINDS)})", str(number)
            )
        return _KINDS[number]
    raise RemoteProtocolError("frame.kind", "the number of a kind under tag 0", "nothing")


def _suspect(frame: bytes, hint: str) -> str:
    """Where a frame broke that cannot even be taken apart: the path in msgspec's words ("$.16[0].2") as names, if it
    gave one and the kind comes first, as it does in frames of ours."""
    kind = _KINDS.get(frame[3]) if len(frame) > 3 and frame[1:3] == b"\xa10" else None
    place = re.search(r"at `\$([.\d\[\]]+)`", hint)
    if kind is None or place is None:
        return "frame"
    shape: StructShape | None = shape_of(kind)
    name = kind.__name__
    for step in re.findall(r"\.\d+|\[\d+\]", place[1]):
        field = shape.fields.get(int(step[1:])) if step[0] == "." and shape is not None else None
        name += f".{field.name}" if field is not None else step
        if field is not None:
            shape = shape_of(field.child) if field.child is not None else None
    return name


class _Walk:
    """One walk over a frame. ``thorough``: decode every field by itself, to name the one that is wrong. ``strict``:
    refuse a known tag, or a key of a map, that is given twice; otherwise the last one counts, as it does in C."""

    def __init__(self, *, thorough: bool = False, strict: bool = False) -> None:
        self.thorough = thorough
        self.strict = strict
        self.unknown: list[Unknown] = []
        self.budget = MAX_VALUES

    def struct(self, raw: bytes, shape: StructShape, name: str, path: tuple[int, ...]) -> bytes:
        """The map without its unknown tags, at every level."""
        known = []
        missing = {f.name: f for f in shape.fields.values() if f.presence == "required"} if self.thorough else {}
        again = frozenset() if self.strict else frozenset(shape.fields)
        seen = set()
        for tag, value in _pairs(raw, name, len(shape.fields) + 1 + MAX_UNKNOWN_PER_MAP, shape, again):
            field = shape.fields.get(tag)
            if field is not None:
                missing.pop(field.name, None)
                if tag in seen and field.child is not None:  # what was set aside inside the earlier one is void with it
                    inside = (*path, tag)
                    self.unknown = [u for u in self.unknown if u.path[: len(inside)] != inside]
                seen.add(tag)
                value = self._field(value, field, f"{name}.{field.name}", (*path, tag))
            elif tag != 0 or shape.number is None:
                self._set_aside(Unknown(path, tag, value), name)
                continue
            known.append(_key(tag) + value)
        for field_name, field in missing.items():
            raise RemoteProtocolError(f"{name}.{field_name}", expects(field.takes), "nothing")
        return map_header(len(known)) + b"".join(known)

    def _field(self, raw: bytes, field: FieldShape, name: str, path: tuple[int, ...]) -> bytes:
        if field.child is None:
            if self.thorough:
                _check(raw, field, name)
            elif self.strict:
                _refuse_repeats(raw, field.takes, name)
            return raw
        child = shape_of(field.child)
        if not field.many:
            return self.struct(raw, child, name, path)
        found = header(raw)
        if found is None or found.kind is not ARRAY or found.length > field.most:
            raise RemoteProtocolError(name, expects(field.takes), name_of(raw))
        items = _raws(raw, name)
        walked = [self.struct(item, child, f"{name}[{i}]", (*path, i)) for i, item in enumerate(items)]
        return array_header(len(walked)) + b"".join(walked)

    def _set_aside(self, unknown: Unknown, name: str) -> None:
        if unknown.tag in CRITICAL:
            raise VersionError(
                f"{name}.#{unknown.tag}", f"no critical tag unknown to version {_VERSION}", f"tag {unknown.tag}"
            )
        deep, steps = nesting(unknown.raw, MAX_DEPTH, self.budget)
        self.budget -= steps
        if deep:
            raise RemoteProtocolError(f"{name}.#{unknown.tag}", f"at most {MAX_DEPTH} levels", "more")
        if self.budget < 0:
            raise RemoteProtocolError(f"{name}.#{unknown.tag}", f"at most {MAX_VALUES} values in unknown tags", "more")
        if len(self.unknown) == MAX_UNKNOWN:
            raise RemoteProtocolError(
                f"{name}.#{unknown.tag}", f"at most {MAX_UNKNOWN} unknown tags in a frame", "more"
            )
        self.unknown.append(unknown)


def _pairs(
    raw: bytes, name: str, most: int, shape: StructShape | None = None, again: frozenset[int] = frozenset()
) -> Iterator[tuple[int, bytes]]:
    """The entries of a map, each tag once, except those that may come ``again``. Keys and values are read as one list
    of twice the length: a map read as a dict would hide a repeated key."""
    found = header(raw)
    if found is None or found.kind is not MAP:
        raise RemoteProtocolError(name, "a map of tags", name_of(raw))
    if found.length > most:
        raise RemoteProtocolError(name, f"at most {most} tags", str(found.length))
    items = _raws(array_header(2 * found.length) + raw[found.size :], name)
    seen = set()
    for key, value in zip(items[::2], items[1::2], strict=True):
        tag = _tag(key, name)
        if tag in seen and tag not in again:
            field = shape.fields.get(tag) if shape is not None else None
            raise RemoteProtocolError(
                f"{name}.{field.name if field is not None else f'#{tag}'}", "each tag once", "two"
            )
        seen.add(tag)
        yield tag, value


def _raws(raw: bytes, name: str) -> list[bytes]:
    try:
        return [bytes(item) for item in _list_of_raw(raw)]
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(name, "well-formed msgpack", str(error)) from None
    except RecursionError:
        raise RemoteProtocolError(name, f"at most {MAX_DEPTH} levels", "more") from None


def _tag(key: bytes, name: str) -> int:
    try:
        text = _text(key)
    except msgspec.DecodeError:
        raise RemoteProtocolError(name, "tags as decimal text", name_of(key)) from None
    # One spelling only, or two keys could mean one tag. isdecimal() alone would take other scripts' digits.
    if (
        text.isascii()
        and text.isdecimal()
        and len(text) <= 5
        and (text == "0" or text[0] != "0")
        and int(text) <= MAX_TAG
    ):
        return int(text)
    raise RemoteProtocolError(name, f"tags as decimal text, 0 to {MAX_TAG}", repr(text[:32]))


def _key(tag: int) -> bytes:
    text = str(tag).encode()
    return bytes((0xA0 | len(text),)) + text


@cache
def _decoder(field: type[Struct], tag: int) -> msgspec.msgpack.Decoder[object]:
    annotation: type[object] = shape_of(field).fields[tag].annotation  # type: ignore[assignment]
    return msgspec.msgpack.Decoder(annotation)


def _check(raw: bytes, field: FieldShape, name: str) -> None:
    try:
        _decoder(field.owner, field.tag).decode(raw)
    except msgspec.DecodeError as error:
        place = re.search(r"at `\$((?:\[\d+\])+)", str(error))
        name += _path(field.takes, re.findall(r"\d+", place[1])) if place else ""
        raise RemoteProtocolError(name, expects(field.takes), name_of(raw)) from None


def _path(takes: Type, places: Sequence[str]) -> str:
    """Indexes inside a value, as names where they are places in a row."""
    path = ""
    for place in places:
        names = takes.names if isinstance(takes, TupleOf) else ()
        path += f".{names[int(place)]}" if names else f"[{place}]"
        takes = _inside(takes, int(place))
    return path


def _inside(takes: Type, place: int) -> Type:
    if isinstance(takes, ListOf):
        return takes.items
    return takes.items[place] if isinstance(takes, TupleOf) and place < len(takes.items) else takes


def _refuse_repeats(raw: bytes, takes: Type, name: str) -> None:
    """A map inside a field (a transport's descriptor) must not repeat a key either."""
    found = header(raw)
    if found is None or not _has_map(takes):
        return
    most = len(takes.items) if isinstance(takes, TupleOf) else getattr(takes, "max_length", None)
    if most is not None and found.length > most:
        raise RemoteProtocolError(name, expects(takes), name_of(raw))
    if isinstance(takes, MapOf) and found.kind is MAP:
        keys = _raws(array_header(2 * found.length) + raw[found.size :], name)[::2]
        if len(set(keys)) < len(keys):
            raise RemoteProtocolError(name, "each key once", "two")
    elif found.kind is ARRAY:
        for i, item in enumerate(_raws(raw, name)):
            _refuse_repeats(item, _inside(takes, i), name + _path(takes, [str(i)]))


def _has_map(takes: Type) -> bool:
    inner = takes.items if isinstance(takes, TupleOf) else (takes.items,) if isinstance(takes, ListOf) else ()
    return isinstance(takes, MapOf) or any(map(_has_map, inner))


def _splice(raw: bytes, unknown: Sequence[Unknown], level: int) -> bytes:
    here = [u for u in unknown if len(u.path) == level]
    below: dict[int, list[Unknown]] = {}
    for u in unknown:
        if len(u.path) > level:
            below.setdefault(u.path[level], []).append(u)
    found = header(raw)
    if found is not None and found.kind is ARRAY and not here:
        items = _raws(raw, "")
        for index, inner in below.items():
            items[index] = _splice(items[index], inner, level + 1)
        return array_header(len(items)) + b"".join(items)
    entries = dict(_pairs(raw, "", MAX_TAG))
    for tag, inner in below.items():
        entries[tag] = _splice(entries[tag], inner, level + 1)
    for u in here:
        if u.tag in entries:
            raise LookupError(u.tag)
        entries[u.tag] = u.raw
    return map_header(len(entries)) + b"".join(_key(tag) + value for tag, value in entries.items())
