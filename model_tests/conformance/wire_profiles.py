"""Peers of other releases, without any engine: what a reader of today makes of the frames of every release, and they of its.

An engine with positional messages describes each release's layout (``kvpoll schema import-slots`` reads such files). Here the
layouts are replayed as peers: an old sender is what its layout writes, an old receiver is what its layout reads, and the
candidate in the middle is either a layout too or the engine's real parser, behind :data:`Reader`. Nothing is argued: frames
with recognisable values go in, and what comes out is compared by the names of the fields.

Three things can happen to a message, and they are not alike. It is understood: pass. It is refused, aloud: the peer cannot
take part, which a fleet that upgrades must plan for, and nothing else is harmed: non-strict. It is *misread*: the receiver
goes on with a value that nobody sent it, for instance an address: fail.

What a receiver makes of foreign bytes depends on how many there are, so every message is sent with several counts, and the
worst counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from kvpoll.protocol.evolution.encodings import ENCODINGS, READ_ERRORS, Value, flat
from kvpoll.protocol.evolution.slots import Layout, Slot, Variant, frames_of, frames_taken, literal_of, quoted
from kvpoll.protocol.evolution.slots import Verdict as Fate
from kvpoll.spec.requirements_wire import WIRE

from .result import CaseResult, Implementation, Result, Suite, TraceStep, Verdict, text_of

__all__ = [
    "REQUIREMENTS", "Met", "ReadError", "Reader", "meet", "newest", "reader_of", "replay", "same_words", "wire_result",
]  # fmt: skip

#: Reads one message, given as frames, into the values that it took from them, by the names of its layout. Leaves out what it
#: had to assume. Raises :class:`ReadError`, or what parsers raise (``ValueError``, ``struct.error`` and the like), to refuse.
Reader: TypeAlias = Callable[[str, Sequence[bytes]], Mapping[str, Value]]

#: What every replay is about. That others go on (KVX-WIRE-3) only an engine's real parser can be asked.
REQUIREMENTS = tuple(text_of(each) for each in WIRE if each.id != "KVX-WIRE-3")

#: How long lists are: (page indices, other lists). The first is the usual message.
_COUNTS = ((3, 2), (4, 2), (2, 1), (8, 8))
_BAD = {Fate.OK: 0, Fate.RAISES: 1, Fate.SILENT: 2}
_VERDICTS = {Fate.OK: Verdict.PASS, Fate.RAISES: Verdict.NON_STRICT, Fate.SILENT: Verdict.FAIL}


class ReadError(ValueError):
    """A reader does not take this message."""


class Met(NamedTuple):
    """What became of a message. ``frames``: those that went worst."""

    fate: Fate
    said: str = ""
    frames: tuple[bytes, ...] = ()


def reader_of(layout: Layout) -> Reader:
    """A receiver of this layout: as strict and as blind as its release was."""

    def read(message: str, frames: Sequence[bytes]) -> Mapping[str, Value]:
        least, most = frames_taken(layout)
        if len(frames) < least or (most is not None and len(frames) > most):
            raise ReadError(f"expected {least} to {most or 'any number of'} frames, got {len(frames)}")
        found: dict[str, Value] = {}
        for slot in layout.frames:
            frame = frames[slot.slot] if slot.slot < len(frames) else None
            if slot.optional and (
                not frame or (slot.enc == "u64" and len(frame) != 8)
            ):  # such slots guard their length
                continue
            if frame is None:
                raise ReadError(f"{slot.name}: no frame {slot.slot}")
            found[slot.name] = _value(slot, frame)
        return found

    return read


def meet(sender: Layout, reader: Reader, ours: Layout, variant: Variant) -> Met:
    """A message of ``sender`` at a reader whose names are those of ``ours``: the worst that can become of it."""
    return max((_meet(sender, reader, ours, variant, *counts) for counts in _COUNTS), key=lambda met: _BAD[met.fate])


def same_words(layouts: Iterable[Layout]) -> list[Layout]:
    """The layouts, where one that leaves out the text of its discriminator has that of its relatives."""
    each = list(layouts)
    text = {
        (m.backend, m.message, s.name): quoted(s) for m in each for s in m.frames if s.enc == "literal" and quoted(s)
    }

    def told(layout: Layout, slot: Slot) -> Slot:
        word = text.get((layout.backend, layout.message, slot.name))
        return replace(slot, note=f"'{word}'") if slot.enc == "literal" and word and not quoted(slot) else slot

    return [replace(layout, frames=tuple(told(layout, slot) for slot in layout.frames)) for layout in each]


def newest(layouts: Iterable[Layout]) -> list[Layout]:
    """The last layout of each message, as the file has them in order."""
    return list({(layout.backend, layout.message): layout for layout in layouts}.values())


def replay(ours: Layout, layouts: Iterable[Layout], reader: Reader | None = None) -> Iterator[CaseResult]:
    """The candidate, whose layout is ``ours``, between the releases of its message: it reads theirs, and they read its.
    ``reader``: its real parser; without one, its layout reads."""
    for layout in layouts:
        if (layout.backend, layout.message) != (ours.backend, ours.message):
            continue
        for variant in Variant:
            yield _case(
                layout, ours, reader or reader_of(ours), ours, variant, "old" if layout.id != ours.id else "own"
            )
            if layout.id != ours.id:
                yield _case(ours, layout, reader_of(layout), layout, variant, "new")


def wire_result(
    name: str, version: str, ours: Iterable[Layout], layouts: Sequence[Layout], *,
    reader: Reader | None = None, suite: str = "", environment: Mapping[str, str] | None = None,
) -> Result:  # fmt: skip
    """A run, as the reports take it. Raises ``ValueError`` for a layout that cannot be written."""
    began, clock = datetime.now(UTC), time.perf_counter()
    cases = tuple(case for layout in ours for case in replay(layout, layouts, reader))
    return Result(
        suite=Suite("kvpoll wire profiles", suite),
        implementation=Implementation(name, version),
        profile="wire",
        started=began.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 3),
        environment=dict(environment or {}),
        requirements=REQUIREMENTS,
        cases=cases,
    )


# One message ------------------------------------------------------------------------------------------------------------
def _meet(sender: Layout, reader: Reader, ours: Layout, variant: Variant, indices: int, others: int) -> Met:
    frames, sent = frames_of(sender, variant, indices, others)
    try:
        got = reader(ours.message, frames)
    except READ_ERRORS as error:  # ReadError is one of them
        return Met(Fate.RAISES, f"{type(error).__name__}: {error}"[:200], tuple(frames))
    wrong = [what for slot in ours.frames if (what := _wrong(sender, ours, slot, got, sent)) is not None]
    return Met(Fate.SILENT if wrong else Fate.OK, "; ".join(wrong)[:400], tuple(frames))


def _wrong(
    sender: Layout, ours: Layout, slot: Slot, got: Mapping[str, Value], sent: Mapping[str, Value]
) -> str | None:  # fmt: skip
    """What is wrong with what was read of a field, if anything."""
    if slot.enc == "literal":
        return None  # it was compared when it was read, or the reader asked nobody
    read, there = got.get(slot.name), slot.name in got
    if slot.name in sent:
        wrote = sent[slot.name]
        if flat(read) == flat(wrote) or (_nothing(read) and _nothing(wrote)):
            return None
        return f"{slot.name} = {flat(read) if there else 'its default'}, and {flat(wrote)} was sent"
    if not there or _nothing(read) or _only_renamed(sender, ours, slot):
        return None
    place = next((s.name for s in sender.frames if s.slot == slot.slot), "nothing")
    return f"{slot.name} = {flat(read)}, which was sent as {place}"


def _only_renamed(sender: Layout, ours: Layout, slot: Slot) -> bool:
    """Same place, same encoding, and neither end knows the other's name."""
    mine = {s.name for s in ours.frames}
    return any(s.slot == slot.slot and s.enc == slot.enc and s.name not in mine for s in sender.frames)


def _nothing(value: Value) -> bool:
    """What a field holds that is not used. (Zero is a value.)"""
    return value is None or (isinstance(value, list | tuple | str | bytes) and not flat(value))


def _value(slot: Slot, frame: bytes) -> Value:
    value = ENCODINGS[slot.enc].read(frame)
    if slot.enc == "literal" and quoted(slot) and value != literal_of(slot):
        raise ReadError(f"{slot.name}: expected {literal_of(slot)!r}, got {frame!r}")
    return value


# One case ---------------------------------------------------------------------------------------------------------------
def _case(sender: Layout, receiver: Layout, reader: Reader, ours: Layout, variant: Variant, peer: str) -> CaseResult:
    """``peer``: the candidate reads an ``old`` peer or its ``own`` message, or the old peer reads the ``new`` candidate."""
    clock = time.perf_counter()
    met = meet(sender, reader, ours, variant)
    verdict = _VERDICTS[met.fate]
    writes, reads = _ends(sender)
    span = f"{sender.first_release}-{sender.last_release}"
    title = f"{sender.message} of {span}, {variant.value}, read by {receiver.first_release}-{receiver.last_release}"
    trace = (
        TraceStep(writes, f"writes {len(met.frames)} frames as {sender.id}", " ".join(f.hex() or "-" for f in met.frames)[:600]),
        TraceStep(reads if reads != "both" else "suite", f"reads as {receiver.id}: {met.fate.value}", met.said),
    )  # fmt: skip
    return CaseResult(
        id=f"wire/{sender.backend}-{sender.message}/{sender.id}-to-{receiver.id}-{variant.value}".lower(),
        title=f"{'Its own message' if peer == 'own' else 'An old peer' if peer == 'old' else 'A new peer'}: {title}",
        requirements=("KVX-WIRE-1", "KVX-WIRE-2"),
        level="MUST",
        role=reads,
        verdict=verdict,
        reason="" if verdict is Verdict.PASS else f"{met.fate.value}: {met.said}",
        seconds=round(time.perf_counter() - clock, 4),
        trace=trace,
        broken={Fate.OK: (), Fate.RAISES: ("KVX-WIRE-2",), Fate.SILENT: ("KVX-WIRE-1",)}[met.fate],
    )


def _ends(layout: Layout) -> tuple[str, str]:
    """Who writes and who reads, as the layout says; else the suite writes to nobody in particular."""
    if layout.direction.startswith("decode"):
        return "decode", "prefill"
    return ("prefill", "decode") if layout.direction.startswith("prefill") else ("suite", "both")
