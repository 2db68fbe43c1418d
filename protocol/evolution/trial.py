"""The trial of a suspicion: one side writes, the other reads, and only what really goes wrong becomes a finding."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from kvpoll.spec.schema import End, Enumerated, FieldSpec, GroupRef, MessageSpec, Snapshot, Type

from .agree import differs
from .dialect import ABSENT, Absent, Dialect, Refused, Value, Values
from .findings import NEW_READS_OLD, Direction, Witness
from .samples import Focus, message_with

__all__ = ["Judge", "Trial", "alike", "lost", "stranger"]

#: What is wrong with what was read, in words; ``None``: nothing. Arguments: writer, its spec, what was sent, reader, its
#: spec, what it read.
Judge = Callable[[Dialect, MessageSpec, Values, Dialect, MessageSpec, Values], "str | None"]

#: Stands for a group or an enum in a message of its own, so that each can be tried by itself.
_ALONE = "only "
_FIRST_KIND, _TAG = 1 << 40, 16
_CARRIER = re.compile(rf"{_ALONE}(\S+?)\.value")
_TRIES = 400  #: values for one suspicion; more never showed more


def lost(name: str) -> Judge:
    """The value of this field does not reach the reader."""

    def judge(
        writer: Dialect, w: MessageSpec, sent: Values, reader: Dialect, r: MessageSpec, got: Values
    ) -> str | None:
        wrote, read = _inside(writer, w, sent), _inside(reader, r, got)
        if name in wrote and not isinstance(wrote[name], Absent) and name not in read:
            return f"{name}: sent {wrote[name]!r}, nothing was read"
        return None

    return judge


def stranger(name: str) -> Judge:
    """The reader has a value in this field that nobody sent under its name."""

    def judge(
        writer: Dialect, w: MessageSpec, sent: Values, reader: Dialect, r: MessageSpec, got: Values
    ) -> str | None:
        wrote, read = _inside(writer, w, sent), _inside(reader, r, got)
        if name not in wrote and not isinstance(read.get(name, ABSENT), Absent):
            return f"{name}: read {read[name]!r}, which was sent as another field"
        return None

    return judge


def _inside(dialect: Dialect, spec: MessageSpec, values: Values) -> Values:
    """The values of the group that a message of its own carries, or the message's."""
    if spec.name.startswith(_ALONE):
        held = values.get("value")
        return held if isinstance(held, dict) else {}
    return values


class Trial:
    """Two snapshots that meet. Group and enum names of both get a message of their own."""

    def __init__(self, old: Snapshot, new: Snapshot) -> None:
        names = sorted(
            {n for side in (old, new) for n in (*(g.name for g in side.groups), *(e.name for e in side.enums))}
        )
        kinds = {name: _FIRST_KIND + at for at, name in enumerate(names)}
        self.old, self.new = Dialect(_with_each_alone(old, kinds)), Dialect(_with_each_alone(new, kinds))
        self._foreign = Dialect(self.old.snapshot, big_endian=True), Dialect(self.new.snapshot, big_endian=True)

    def sides(self, direction: Direction, foreign: bool = False) -> tuple[Dialect, Dialect]:
        """Writer and reader. ``foreign``: the writer's host has the other byte order."""
        old, new = self._foreign if foreign else (self.old, self.new)
        return (old, self.new) if direction == NEW_READS_OLD else (new, self.old)

    def prove(
        self, direction: Direction, spec: str, focuses: Iterable[Focus], judge: Judge | None = None, *,
        sent_by: End | None = None, foreign: bool = False,
    ) -> Witness | None:  # fmt: skip
        """A message of ``spec`` (or one that holds this group or enum) that goes wrong, if one of ``focuses`` does."""
        writer, reader = self.sides(direction, foreign)
        message = writer.messages.get(spec) or writer.messages.get(_ALONE + spec)
        if message is None or message.framing != "tags":
            return None
        for _, focus in zip(range(_TRIES), focuses, strict=False):
            sent = message_with(writer, message, focus)
            try:
                frame = writer.write(message.name, sent)
            except (TypeError, ValueError, OverflowError, struct.error):
                continue  # not a value that this writer can write
            if (wrong := self._meets(writer, message, sent, frame, reader, judge, sent_by)) is not None:
                kind, made = wrong
                return Witness(
                    direction=direction, message=message.name.removeprefix(_ALONE), wrote=_plain(_wrote(focus, sent)),
                    frame=frame.hex(), made=_plain(made), kind=kind,
                )  # fmt: skip
        return None

    def replays(self, witness: Witness) -> bool:
        """Does the frame of this witness go wrong again? What was sent is what the writer reads in it itself. (Witnesses
        about a later schema, and declared ones, have nothing to replay here.)"""
        for foreign in (False, True):
            writer, reader = self.sides(witness.direction, foreign)
            frame = bytes.fromhex(witness.frame)
            try:
                name, sent = writer.read(frame)
            except Refused:
                return True  # a value that only a writer of another mind can write: refused by both
            w = writer.messages[name]
            judges = [None, *(lost(f) for f in _names(writer, w)), *(stranger(f) for f in _names(reader, w))]
            ends: list[End | None] = [None, *w.sent_by]
            if any(self._meets(writer, w, sent, frame, reader, j, end) is not None for j in judges for end in ends):
                return True
        return False

    def _meets(
        self, writer: Dialect, w: MessageSpec, sent: Values, frame: bytes, reader: Dialect, judge: Judge | None,
        sent_by: End | None,
    ) -> tuple[str, str] | None:  # fmt: skip
        try:
            name, got = reader.read(frame, sent_by)
        except Refused as refusal:
            return "refused", str(refusal)
        r = reader.messages[name]
        if judge is not None:
            found = judge(writer, w, sent, reader, r, got)
        elif name != w.name and not alike(w, r):
            found = f"{w.name} was read as {name}"
        else:
            found = differs(writer, w, sent, reader, r, got)
        return None if found is None else ("misread", found)


def _names(dialect: Dialect, spec: MessageSpec) -> list[str]:
    """Fields of a message, or of the group that it carries for a trial, as this side knows it."""
    there = dialect.messages.get(spec.name)
    if there is None:
        return []
    kind = there.fields[0].type if there.name.startswith(_ALONE) else None
    return [f.name for f in (dialect.groups[kind.group] if isinstance(kind, GroupRef) else there).fields]


def alike(a: MessageSpec, b: MessageSpec) -> bool:
    """One message under two names: most of its fields are the same."""
    ours, theirs = ({(f.name, f.tag) for f in spec.fields} for spec in (a, b))
    return 2 * len(ours & theirs) >= max(len(ours), len(theirs))


def _with_each_alone(snapshot: Snapshot, kinds: dict[str, int]) -> Snapshot:
    alone: list[MessageSpec] = []
    types: Iterator[tuple[str, Type]] = iter(
        [
            *((g.name, GroupRef(group=g.name)) for g in snapshot.groups),
            *((e.name, Enumerated(enum=e.name)) for e in snapshot.enums),
        ]
    )
    for name, kind in types:
        field = FieldSpec(name="value", tag=_TAG, type=kind, presence="required")
        alone.append(MessageSpec(name=_ALONE + name, number=kinds[name], fields=(field,)))
    return replace(snapshot, messages=(*snapshot.messages, *alone))


def _wrote(focus: Focus, sent: Values) -> str:
    named = {f"{spec}.{field}": value for (spec, field), value in focus.items()} or dict(sent)
    return ", ".join(f"{name}={_short(value)}" for name, value in named.items())[:300]


def _short(value: Value) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:60]}... ({len(said)} characters)"


def _plain(text: str) -> str:
    """Without the message that carries a group or an enum for the trial."""
    return _CARRIER.sub(r"\1", text)
