"""Positional messages, old and new. What goes wrong is found by :mod:`.slots`; this file says why."""

from __future__ import annotations

from collections.abc import Iterator

from kvpoll.spec.schema import Encoded, FieldSpec, Literally, MessageSpec

from .cause import Cause
from .encodings import ENCODINGS
from .findings import BOTH, NEW_READS_OLD, Direction, Witness
from .slots import Layout, Prediction, Slot, Variant, Verdict, frames_of, predict

__all__ = ["layout_of", "slot_causes"]


def layout_of(message: MessageSpec) -> Layout:
    """A slot message as a layout. Raises ``ValueError`` naming a field whose type no slot can have."""
    return Layout(
        id=message.name,
        backend="",
        message=message.name,
        frames=tuple(_slot(message, field) for field in message.fields),
        receiver_min_frames=message.min_slots,
        receiver_max_frames=message.max_slots,
    )


def _slot(message: MessageSpec, field: FieldSpec) -> Slot:
    if isinstance(field.type, Literally):
        return Slot(slot=field.tag, name=field.name, enc="literal", note=f"literal '{field.type.value}'")
    if isinstance(field.type, Encoded) and field.type.encoding in ENCODINGS:
        note = f"literal '{field.type.value}'" if field.type.encoding == "literal" and field.type.value else ""
        return Slot(
            slot=field.tag, name=field.name, enc=field.type.encoding, optional=field.presence != "required", note=note
        )
    known = ", ".join(ENCODINGS)
    raise ValueError(f"{message.name}.{field.name}: type: a slot takes one of the encodings {known}, got {field.type}")


def slot_causes(a: MessageSpec, b: MessageSpec) -> Iterator[Cause]:
    """One cause for a pair of layouts: the first thing that explains what goes wrong; with a witness a direction. And a
    receiver that does not guard its optional tail."""
    old, new = layout_of(a), layout_of(b)
    proofs: list[Witness] = []
    for direction in BOTH:
        writer, reader = (old, new) if direction == NEW_READS_OLD else (new, old)
        tried = (predict(writer, reader, variant) for variant in Variant)
        if (bad := next((p for p in tried if p.verdict is not Verdict.OK), None)) is not None:
            proofs.append(_witness(direction, a.name, writer, bad))
    if proofs:
        rule, says, fix = _why(old, new)
        yield Cause(rule, f"{a.name}: {says}", a.name, b.name, fix, a.name, sent_by=a.sent_by, proofs=tuple(proofs))
    unguarded = [
        f.name for f in b.fields if f.presence == "required" and b.min_slots is not None and f.tag >= b.min_slots
    ]
    if unguarded and not proofs:
        says = f"{', '.join(unguarded)} {'is' if len(unguarded) == 1 else 'are'} read although {b.min_slots} frames are enough"
        yield Cause("SLOT_COUNT_GUARD_MISSING", f"{b.name}: {says}", a.name, b.name, spec=b.name, sent_by=b.sent_by,
                    proofs=_short_message(b, new))  # fmt: skip


def _why(old: Layout, new: Layout) -> tuple[str, str, str]:
    """Rule, what happened, what to do."""
    before, after = {s.name: s for s in old.frames}, {s.name: s for s in new.frames}
    moved = [(s, after[n]) for n, s in before.items() if n in after and after[n].slot != s.slot]
    if moved:
        come = [s for n, s in after.items() if n not in before and s.slot < len(old.frames)]
        gone = [s for n, s in before.items() if n not in after]
        why = [f"{s.name} was inserted at {s.slot}" for s in come] + [
            f"{s.name} was removed from {s.slot}" for s in gone
        ]
        names = ", ".join(f"{s.name} {s.slot}->{t.slot}" for s, t in moved)
        return (
            "SLOT_MOVED",
            f"{'; '.join(why) or 'slots were reordered'}: {names}",
            (f"append at {len(old.frames)} and leave the others where they are, or give fields tags"),
        )
    changed = [(s, after[n]) for n, s in before.items() if n in after and after[n].enc != s.enc]
    if changed:
        names = ", ".join(f"{s.name} {s.enc}->{t.enc}" for s, t in changed)
        return (
            "SLOT_ENCODING_CHANGED",
            f"the same slot is written in another way: {names}",
            "append a slot in the new encoding",
        )
    replaced = [(s, t) for s in old.frames for t in new.frames if s.slot == t.slot and s.name != t.name]
    if replaced:
        names = ", ".join(f"{s.slot} was {s.name}, is {t.name}" for s, t in replaced)
        return (
            "SLOT_REUSED",
            f"a slot has another meaning: {names}",
            "append the new field, and keep sending the old one",
        )
    more = [s.name for s in new.frames if s.slot >= len(old.frames) and not s.optional]
    says = f"{', '.join(more)} must be there now" if more else "another count of frames is insisted on"
    return "SLOT_COUNT_GUARD_MISSING", says, "read an appended slot only when the message has that many frames"


def _witness(direction: Direction, message: str, writer: Layout, bad: Prediction) -> Witness:
    frames, values = frames_of(writer, bad.variant)
    made = bad.detail if bad.verdict is Verdict.RAISES else "; ".join(bad.wrong)
    wrote = ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return Witness(
        direction=direction, message=message, wrote=wrote[:300], frame=_hex(frames), made=made,
        kind="refused" if bad.verdict is Verdict.RAISES else "misread",
    )  # fmt: skip


def _short_message(message: MessageSpec, layout: Layout) -> tuple[Witness, ...]:
    """The shortest message that the receiver lets in."""
    frames, _ = frames_of(layout, Variant.FULL)
    short = frames[: message.min_slots]
    missing = next(f for f in message.fields if f.presence == "required" and f.tag >= len(short))
    made = f"{missing.name}: no frame {missing.tag}"
    return (Witness(direction=NEW_READS_OLD, message=message.name, wrote=f"{len(short)} frames", frame=_hex(short), made=made, kind="refused"),)  # fmt: skip  # noqa: E501


def _hex(frames: list[bytes]) -> str:
    return " ".join(frame.hex() or "-" for frame in frames)
