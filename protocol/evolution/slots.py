"""Positional messages: what a receiver of one layout makes of the frames of another.

Nothing is argued: a message with recognisable values is written as the sender's layout says, read as the receiver's says,
and what came out is compared by the names of the fields. Three things can happen: every field that the receiver reads is
what was sent under that name (``ok``; fields may fall back to their default or go unread), the receiver raises, or it goes
on with a value that nobody sent it (``silent-misread``).

What a receiver makes of foreign bytes depends on how many there are: three 32-bit numbers cannot be read as 64-bit ones,
four can. The verdict is that of a usual message (an odd count of page indices); ``worst`` is the worst over several counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from .encodings import ENCODINGS, READ_ERRORS, Value, flat

__all__ = [
    "Layout",
    "LayoutFile",
    "Prediction",
    "Slot",
    "Variant",
    "Verdict",
    "frames_of",
    "frames_taken",
    "literal_of",
    "predict",
    "quoted",
]


class Slot(Struct, frozen=True, kw_only=True):
    """One frame of a layout. ``default_when_absent_or_empty`` is a description; its presence marks the fallback."""

    slot: int
    name: str
    enc: str
    optional: bool = False
    default_when_absent_or_empty: str | int | UnsetType | None = UNSET
    note: str = ""


class Layout(Struct, frozen=True, kw_only=True):
    """One version of one positional message."""

    id: str
    backend: str
    message: str
    frames: tuple[Slot, ...]
    direction: str = ""
    first_release: str = ""
    last_release: str = ""
    receiver_min_frames: int | None = None
    receiver_max_frames: int | None = None
    receiver_frames: str = ""  #: in words: "exactly 3 ...", ">=3 ..."
    change: str = ""


class LayoutFile(Struct, frozen=True, kw_only=True):
    """A file of layouts, as ``kvpoll schema import-slots`` and ``predict`` read it; other keys are ignored."""

    layouts: dict[str, Layout]
    encodings: dict[str, str] = {}
    about: str = ""


class Variant(Enum):
    """What the message carries. ``PLAIN``: no state, no staging, no layer ids: these slots are sent empty."""

    FULL = "full"
    PLAIN = "plain"


class Verdict(Enum):
    OK = "ok"
    RAISES = "raises"
    SILENT = "silent-misread"


class Prediction(NamedTuple):
    """What the receiver makes of the sender's message."""

    sender: str
    receiver: str
    variant: Variant
    verdict: Verdict
    wrong: tuple[str, ...] = ()  #: "name=what was read (sent what)"
    defaulted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    detail: str = ""  #: of what raised
    worst: Verdict = Verdict.OK  #: over several list lengths


Message: TypeAlias = Mapping[str, Value]

_EXACTLY, _AT_LEAST = re.compile(r"exactly (\d+)"), re.compile(r">=\s*(\d+)")
_LITERAL = re.compile(r"b?'([^']*)'")
_OFF_IN_PLAIN = ("state", "staging", "layer_id")
_RANK = {Verdict.OK: 0, Verdict.RAISES: 1, Verdict.SILENT: 2}
#: How long the lists of a message are: (index lists, other lists). The first is the usual message.
_COUNTS = ((3, 2), (4, 2), (2, 1), (8, 8))


def predict(sender: Layout, receiver: Layout, variant: Variant) -> Prediction:
    """Write as ``sender``, read as ``receiver``. Raises ``ValueError`` naming the layout and slot for an encoding that is
    not known, or slots out of order."""
    tries = [_try(sender, receiver, variant, *counts) for counts in _COUNTS]
    return tries[0]._replace(worst=max((t.verdict for t in tries), key=lambda verdict: _RANK[verdict]))


def frames_of(layout: Layout, variant: Variant, indices: int = 3, others: int = 2) -> tuple[list[bytes], Message]:
    """A message of this layout, as frames, and the value of each field."""
    _check(layout)
    values = {slot.name: _sample(slot, variant, indices, others) for slot in layout.frames}
    frames = [b""] * (layout.frames[-1].slot + 1 if layout.frames else 0)  # a slot that nobody describes is sent empty
    for slot in layout.frames:
        frames[slot.slot] = _written(slot, values[slot.name])
    return frames, values


def _try(sender: Layout, receiver: Layout, variant: Variant, indices: int, others: int) -> Prediction:
    _check(receiver)
    frames, sent = frames_of(sender, variant, indices, others)
    start = Prediction(sender.id, receiver.id, variant, Verdict.OK)
    if fault := _count_fault(receiver, len(frames)):
        return start._replace(verdict=Verdict.RAISES, detail=fault)
    wrong, defaulted = list[str](), list[str]()
    written = {slot.slot: slot for slot in sender.frames}
    for slot in receiver.frames:
        if slot.slot >= len(frames) and not slot.optional:
            return start._replace(verdict=Verdict.RAISES, detail=f"{slot.name}: no frame {slot.slot}")
        frame = frames[slot.slot] if slot.slot < len(frames) else b""
        absent = slot.optional and (
            not frame or (slot.enc == "u64" and len(frame) != 8)
        )  # such slots guard their length
        try:
            read = None if absent else _read(slot, frame, written.get(slot.slot))
        except READ_ERRORS as error:
            return start._replace(verdict=Verdict.RAISES, detail=f"{slot.name}: {type(error).__name__}: {error}"[:200])
        if absent:
            defaulted.append(slot.name)
        if (what := _differs(sender, receiver, slot, read, absent, sent)) is not None:
            wrong.append(what)
    known = {slot.name for slot in receiver.frames} | set(_renamed(sender, receiver))
    ignored = tuple(slot.name for slot in sender.frames if slot.name not in known)
    quiet = [name for name in defaulted if name not in sent or not _means_nothing(sent[name])]
    return start._replace(
        verdict=Verdict.SILENT if wrong else Verdict.OK, wrong=tuple(wrong), defaulted=tuple(quiet), ignored=ignored
    )


def _differs(sender: Layout, receiver: Layout, slot: Slot, read: Value, absent: bool, sent: Message) -> str | None:
    """What is wrong with what was read, if anything."""
    if slot.enc == "literal":
        return None  # compared when it was read
    if slot.name in sent:
        expected = sent[slot.name]
        if absent:
            return None if _means_nothing(expected) else f"{slot.name}=its default (sent {_shown(expected)})"
        same = flat(read) == flat(expected) or (_means_nothing(read) and _means_nothing(expected))
        return None if same else f"{slot.name}={_shown(read)} (sent {_shown(expected)})"
    if absent or _means_nothing(read) or slot.name in _renamed(sender, receiver).values():
        return None
    there = next((s.name for s in sender.frames if s.slot == slot.slot), "nothing")
    return f"{slot.name}={_shown(read)} (it was sent as {there})"


def _renamed(sender: Layout, receiver: Layout) -> dict[str, str]:
    """Sender's name -> receiver's, of slots that only got another name: same place, same encoding, and neither end knows
    the other's name."""
    ours, theirs = {slot.name for slot in sender.frames}, {slot.name for slot in receiver.frames}
    at = {slot.slot: slot for slot in receiver.frames}
    return {
        a.name: b.name
        for a in sender.frames
        if (b := at.get(a.slot)) is not None and a.enc == b.enc and a.name not in theirs and b.name not in ours
    }


def frames_taken(layout: Layout) -> tuple[int, int | None]:
    """How many frames the receiver insists on, and how many it takes at most; said in numbers, in words, or both."""
    exactly, least = _EXACTLY.search(layout.receiver_frames), _AT_LEAST.search(layout.receiver_frames)
    said = int(exactly[1]) if exactly is not None else int(least[1]) if least is not None else 0
    most = layout.receiver_max_frames if exactly is None else int(exactly[1])
    return max(layout.receiver_min_frames or 0, said), most


def _count_fault(receiver: Layout, count: int) -> str:
    """Why a message of so many frames is refused; empty when it is not."""
    least, most = frames_taken(receiver)
    if least == most and count != least:
        return f"expected exactly {least} frames, got {count}"
    if count < least:
        return f"expected at least {least} frames, got {count}"
    return f"expected at most {most} frames, got {count}" if most is not None and count > most else ""


def _read(slot: Slot, frame: bytes, sent_as: Slot | None) -> Value:
    value = ENCODINGS[slot.enc].read(frame)
    if slot.enc == "literal" and value != literal_of(slot) and not _may_be_the_same(slot, sent_as):
        raise ValueError(f"expected {literal_of(slot)!r}, got {frame!r}")
    return value


def _written(slot: Slot, value: Value) -> bytes:
    return b"" if value is None else ENCODINGS[slot.enc].write(value)


def literal_of(slot: Slot) -> str:
    """The fixed text of a discriminator: the one that its note quotes, else its name."""
    return quoted(slot) or slot.name


def quoted(slot: Slot) -> str:
    """The text that the note of a discriminator quotes; empty if it quotes none."""
    found = _LITERAL.search(slot.note)
    return found[1] if found else ""


def _may_be_the_same(slot: Slot, sent_as: Slot | None) -> bool:
    """Two discriminators of which one does not say its text: files often give it only where it is new."""
    return sent_as is not None and sent_as.enc == "literal" and not (quoted(slot) and quoted(sent_as))


def _means_nothing(value: Value) -> bool:
    """What a field holds that is not used: nothing, or an empty list. (Zero is a value.)"""
    return value is None or (isinstance(value, list | tuple | str | bytes) and not flat(value))


def _shown(value: Value) -> str:
    return str(flat(value))


# Recognisable values ----------------------------------------------------------------------------------------------------
def _sample(slot: Slot, variant: Variant, indices: int, others: int) -> Value:
    """What a usual message has in this field: numbers of the size that the name promises, different in every field."""
    if variant is Variant.PLAIN and any(word in slot.name for word in _OFF_IN_PLAIN):
        return None
    name, holds, mark = slot.name, ENCODINGS[slot.enc].holds, _mark(slot.name)
    if slot.enc == "literal":
        return literal_of(slot)
    if slot.enc == "bool01":
        return False
    if holds == "int":
        return _number(name, mark)
    if holds == "text":
        return _string(name, mark)
    if holds == "words":
        return ["VRAM", "DRAM"]
    if holds == "bytes":
        return bytes([0xC1, 0xFE, mark, 0x00, 0xD7])
    if holds == "blobs":
        return [bytes([0xC1, mark, at]) for at in range(others)]
    if holds == "nested blobs":
        return [[bytes([0xC1, mark, at]) for at in range(others)]]
    count = indices if "indices" in name and "state" not in name else others
    numbers = [_element(name, mark, at) for at in range(count)]
    return [numbers] if holds == "lists" else numbers


def _mark(name: str) -> int:
    """A small number that is another one for most names; the same at every run."""
    return 3 + sum(ord(letter) * (at % 7 + 1) for at, letter in enumerate(name)) % 50


def _number(name: str, mark: int) -> int:
    if "ptr" in name or "addr" in name:
        return 139_000_000_000 + mark * 4096
    if "room" in name:
        return 8_446_744_073_709_551 + mark
    if "port" in name:
        return 30_000 + mark
    if "total_size" in name or "bytes" in name:
        return 1 << 32
    if "len" in name and "prefix" not in name:
        return 1_024 * mark
    return mark


def _string(name: str, mark: int) -> str:
    if "session" in name:
        return f"10.0.0.7:{16_000 + mark}"
    if "endpoint" in name or "ip" in name.split("_"):
        return "10.0.0.7"
    return f"{name}-{mark}"


def _element(name: str, mark: int, at: int) -> int:
    if "ptr" in name or "addr" in name:
        return 141_000_000_000 + mark * 65_536 + at * 4096
    if "len" in name or "size" in name:
        return 512 >> at % 8
    if "dim" in name:
        return 64 >> at % 6
    return 6 + mark % 7 + at * (at + 1) // 2


def _check(layout: Layout) -> None:
    places = [slot.slot for slot in layout.frames]
    if places != sorted(set(places)) or (places and places[0] < 0):
        raise ValueError(f"{layout.id}: slots: expected ascending numbers from 0, each once, got {places}")
    for slot in layout.frames:
        if slot.enc not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise ValueError(
                f"{layout.id}: slot {slot.slot} ({slot.name}): enc: expected one of {known}, got {slot.enc!r}"
            )
