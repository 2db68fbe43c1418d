"""The few facts of the msgpack format that the slow path of the codec needs: headers, and depth without recursion."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ARRAY", "MAP", "Header", "Nested", "array_header", "header", "map_header", "name_of", "nesting"]

ARRAY = "list"
MAP = "map"


class Header(NamedTuple):
    """Of a container: what it is, its size in bytes, and how many elements (of a map: pairs) it announces."""

    kind: str
    size: int
    length: int


def header(raw: bytes) -> Header | None:
    """The header that ``raw`` starts with; ``None`` if that is no container, or cut off."""
    if not raw:
        return None
    first = raw[0]
    if first & 0xF0 in (0x80, 0x90):
        return Header(MAP if first < 0x90 else ARRAY, 1, first & 0x0F)
    if 0xDC <= first <= 0xDF:
        size = 3 if first in (0xDC, 0xDE) else 5
        if len(raw) >= size:
            return Header(ARRAY if first <= 0xDD else MAP, size, int.from_bytes(raw[1:size], "big"))
    return None


def map_header(count: int) -> bytes:
    return _header(count, 0x80, 0xDE)


def array_header(count: int) -> bytes:
    return _header(count, 0x90, 0xDC)


def _header(count: int, fix: int, wide: int) -> bytes:
    if count < 16:
        return bytes((fix | count,))
    return (
        bytes((wide,)) + count.to_bytes(2, "big") if count < 1 << 16 else bytes((wide + 1,)) + count.to_bytes(4, "big")
    )


def name_of(raw: bytes) -> str:
    """What a value is, for a sentence: its type, and the value itself if it is a small integer."""
    if not raw:
        return "nothing"
    first = raw[0]
    if first < 0x80 or first >= 0xE0:
        return f"the integer {first if first < 0x80 else first - 256}"
    found = header(raw)
    if found is not None:
        return f"a {found.kind} of {found.length}"
    if first < 0xC0:
        return f"text of {first & 0x1F} bytes"
    if 0xCC <= first <= 0xD3:
        return f"the integer {int.from_bytes(raw[1 : 1 + (1 << (first & 3))], 'big', signed=first >= 0xD0)}"
    return _NAMES.get(first, "something unreadable")


_NAMES = (
    {0xC0: "nil", 0xC2: "false", 0xC3: "true", 0xCA: "a float", 0xCB: "a float"}
    | dict.fromkeys((0xC4, 0xC5, 0xC6), "bytes")
    | dict.fromkeys((0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8), "an extension")
    | dict.fromkeys((0xD9, 0xDA, 0xDB), "text")
)

#: Bytes of a scalar of fixed size, by its first byte; 0 for the others.
_FIXED = bytearray(1 if b < 0x80 or b >= 0xE0 or b in (0xC0, 0xC2, 0xC3) else 0 for b in range(256))
for _first, _size in zip(range(0xCA, 0xD9), (5, 9, 2, 3, 5, 9, 2, 3, 5, 9, 3, 4, 6, 10, 18), strict=True):
    _FIXED[_first] = _size
for _first in range(0xA0, 0xC0):
    _FIXED[_first] = 1 + (_first & 0x1F)
#: Width of the length that follows the first byte of text, bytes and extensions (which have one more for their type).
_WIDTH = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4}
_CONTAINERS = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
_OTHERS = bytes(b for b in range(256) if b not in _CONTAINERS)


class Nested(NamedTuple):
    """``deep``: more containers inside each other than allowed. ``steps``: values looked at, for a budget."""

    deep: bool
    steps: int


def nesting(raw: bytes, most: int, budget: int) -> Nested:
    """Looks for more than ``most`` containers inside each other, and stops after ``budget`` values. ``raw`` is one
    well-formed value."""
    if len(raw.translate(None, _OTHERS)) <= most:
        return Nested(False, 1)  # not enough bytes that could start a container: the usual case, decided in C
    open_counts = [1]  # values still to come, per container that is open; the outermost holds ``raw`` itself
    at = steps = 0
    while open_counts and steps <= budget:
        if open_counts[-1] == 0:
            open_counts.pop()
            continue
        open_counts[-1] -= 1
        steps += 1
        first = raw[at]
        if _FIXED[first]:
            at += _FIXED[first]
        elif first in _WIDTH:
            width = _WIDTH[first]
            at += 1 + width + int.from_bytes(raw[at + 1 : at + 1 + width], "big") + (0xC7 <= first <= 0xC9)
        else:
            if first <= 0x9F:
                size, length = 1, first & 0x0F
            else:
                size = 3 if first in (0xDC, 0xDE) else 5
                length = int.from_bytes(raw[at + 1 : at + size], "big")
            at += size
            open_counts.append(2 * length if first <= 0x8F or first >= 0xDE else length)
            if len(open_counts) > most + 1:
                return Nested(True, steps)
    return Nested(False, steps)
