"""How engines write values into positional frames, and how their receivers read them: as strictly, or as blindly.

A reader here raises exactly where the engines' own parsing does: a word that is cut off, text that is no number. It does
not look at anything that they don't look at, because what they accept by accident is what a checker has to find.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

__all__ = ["ENCODINGS", "READ_ERRORS", "Encoding", "Value", "flat"]

#: A value of a slot: a number, text, bytes, or a list of numbers or byte strings, maybe nested.
Value: TypeAlias = "int | str | bytes | bool | Sequence[Value] | None"

#: What reading a frame may raise; each would reach the engine's receiving thread.
READ_ERRORS = (ValueError, struct.error, msgspec.DecodeError, OverflowError)

#: No engine's list is longer: a count beyond it is a misread length, which fails in the engines too (no such buffer).
_MAX_ITEMS = 1 << 28


class Encoding(NamedTuple):
    """One way to put a value into a frame."""

    name: str
    holds: str  #: "int", "text", "bytes", "ints", "lists" (of ints) or "blobs"
    write: Callable[[Value], bytes]
    read: Callable[[bytes], Value]
    says: str


def flat(value: Value) -> Value:
    """Lists of lists as one list: how an engine's two ways to say the same compare."""
    if isinstance(value, list | tuple):
        out: list[Value] = []
        for item in value:
            inner = flat(item)
            out += inner if isinstance(inner, list) else [inner]
        return out
    return value


# Text -----------------------------------------------------------------------------------------------------------------
def _text(value: Value) -> bytes:
    return str(value).encode()


def _read_int(frame: bytes) -> Value:
    return int(frame.decode("ascii"))


def _read_bool(frame: bytes) -> Value:
    return frame.decode("ascii") == "1"


def _csv(value: Value) -> bytes:
    assert isinstance(value, list | tuple)
    return ",".join(str(item) for item in value).encode()


def _read_csv(frame: bytes) -> Value:
    return list(frame.decode("ascii").split(","))


# Words ----------------------------------------------------------------------------------------------------------------
def _ints(value: Value) -> Sequence[int]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, int) for item in value):
        raise ValueError(f"expected a list of integers, got {value!r}")
    return [item for item in value if isinstance(item, int)]


def _array(code: str, exact: bool = False) -> tuple[Callable[[Value], bytes], Callable[[bytes], Value]]:
    """Numbers back to back. ``exact``: numpy's way, whose message differs but which raises for the same frames."""
    size = struct.calcsize(code)
    order, letter = (code[0], code[1:]) if code[0] in "<>" else ("", code)

    def write(value: Value) -> bytes:
        items = _ints(value)
        return struct.pack(f"{order}{len(items)}{letter}", *items)

    def read(frame: bytes) -> Value:
        if exact and len(frame) % size:
            raise ValueError("buffer size must be a multiple of element size")
        return list(struct.unpack(f"{order}{len(frame) // size}{letter}", frame))

    return write, read


def _word(code: str) -> tuple[Callable[[Value], bytes], Callable[[bytes], Value]]:
    def write(value: Value) -> bytes:
        return struct.pack(code, value)

    def read(frame: bytes) -> Value:
        found: int = struct.unpack(code, frame)[0]
        return found

    return write, read


def _nested(letter: str) -> tuple[Callable[[Value], bytes], Callable[[bytes], Value]]:
    """A count, so many byte lengths, then the payloads, all little endian; an empty outer list is an empty frame."""
    size = struct.calcsize(f"<{letter}")

    def write(value: Value) -> bytes:
        assert isinstance(value, list | tuple)
        if not value:
            return b""
        payloads = [struct.pack(f"<{len(_ints(inner))}{letter}", *_ints(inner)) for inner in value]
        lengths = struct.pack(f"<{len(payloads)}I", *map(len, payloads))
        return struct.pack("<I", len(payloads)) + lengths + b"".join(payloads)

    def read(frame: bytes) -> Value:
        if not frame:
            return []
        (count,) = struct.unpack("<I", frame[:4])
        if count > _MAX_ITEMS:
            raise struct.error(f"unpack requires a buffer of {4 * count} bytes")
        lengths = struct.unpack(f"<{count}I", frame[4 : 4 + 4 * count])
        at, lists = 4 + 4 * count, list[Value]()
        for length in lengths:
            if length > _MAX_ITEMS:
                raise struct.error(f"unpack requires a buffer of {length} bytes")
            piece = frame[at : at + length]  # past the end there is less, or nothing, and nobody complains
            lists.append(list(struct.unpack(f"<{len(piece) // size}{letter}", piece)))
            at += length
        return lists

    return write, read


# MessagePack and raw ----------------------------------------------------------------------------------------------------
_BLOBS = msgspec.msgpack.Decoder(list[bytes])
_NESTED_BLOBS = msgspec.msgpack.Decoder(list[list[bytes | None]])


def _pack(value: Value) -> bytes:
    return msgspec.msgpack.encode(value) if value else b""


def _read_blobs(frame: bytes) -> Value:
    return [*_BLOBS.decode(frame)] if frame else []


def _read_nested_blobs(frame: bytes) -> Value:
    return [[*inner] for inner in _NESTED_BLOBS.decode(frame)] if frame else []


def _raw(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value


def _utf8(frame: bytes) -> Value:
    return frame.decode(errors="replace")


def _ascii(frame: bytes) -> Value:
    return frame.decode("ascii")


_ALL = (
    Encoding("ascii-int", "int", _text, _read_int, "a decimal number as text"),
    Encoding("ascii-str", "text", _text, _ascii, "ASCII text"),
    Encoding("utf8-str", "text", _text, _utf8, "UTF-8 text; what is not is replaced"),
    Encoding("literal", "text", _text, _utf8, "a fixed byte string that tells messages apart"),
    Encoding("bool01", "int", lambda value: b"1" if value else b"0", _read_bool, "'0' or '1'"),
    Encoding("csv-ascii", "words", _csv, _read_csv, "words with commas between them"),
    Encoding("u64[]", "ints", *_array("Q"), "64-bit words in the host's order, without a count"),
    Encoding("u32[]", "ints", *_array("I"), "32-bit words in the host's order, without a count"),
    Encoding("u32le[]", "ints", *_array("<I"), "32-bit words, little endian, without a count"),
    Encoding("u64", "int", *_word("Q"), "one 64-bit word in the host's order"),
    Encoding("u32be", "int", *_word(">I"), "one 32-bit word, big endian"),
    Encoding("i64np[]", "ints", *_array("q", exact=True), "a numpy array of 64-bit integers"),
    Encoding("i32np[]", "ints", *_array("i", exact=True), "a numpy array of 32-bit integers"),
    Encoding("nested<i32>", "lists", *_nested("i"), "lists of 32-bit integers, with lengths"),
    Encoding("nested<u32>", "lists", *_nested("I"), "lists of unsigned 32-bit integers, with lengths"),
    Encoding("nested<u64>", "lists", *_nested("Q"), "lists of unsigned 64-bit integers, with lengths"),
    Encoding("nested-msgpack", "nested blobs", _pack, _read_nested_blobs, "MessagePack: lists of byte strings or nil"),
    Encoding("msgpack-bin[]", "blobs", _pack, _read_blobs, "MessagePack: a list of byte strings"),
    Encoding("opaque", "bytes", _raw, bytes, "bytes that only the transport reads"),
    Encoding("bytes", "bytes", _raw, bytes, "a raw payload"),
)

ENCODINGS: Mapping[str, Encoding] = {encoding.name: encoding for encoding in _ALL}
