"""Two snapshots side by side: every cause for which one end would not understand the other, once.

The order of work: messages are paired by number (a renamed message hides nothing), their fields by name *and* tag, so that
one inserted field is one finding and not one for each field that it moved. Each cause is then tried (:mod:`.trial`): what
does not really go wrong, and is no policy, is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain

from kvpoll.spec.schema import MessageSpec, Snapshot

from .cause import Cause, Try
from .changed_enums import enum_causes
from .changed_fields import field_causes
from .changed_slots import slot_causes
from .changed_version import edited_since, version_causes
from .findings import BOTH, NEW_READS_OLD, Direction, Finding
from .trial import Trial, alike

__all__ = ["compare", "edits_of"]


def compare(old: Snapshot, new: Snapshot, trusted: bool = False) -> list[Finding]:
    """Every finding, in the order of the schema. ``trusted``: the digests were looked at already. Raises ``ValueError`` for
    snapshots of two different schemas."""
    if old.schema != new.schema:
        raise ValueError(f"schema: expected two versions of one, got {old.schema!r} and {new.schema!r}")
    trial = cache(lambda: Trial(old, new))  # most pairs of releases have next to nothing to try
    causes = chain(_causes(old, new), () if trusted else chain(edited_since(old), edited_since(new)))
    return [finding for cause in causes if (finding := cause.proved(trial)) is not None]


def edits_of(snapshot: Snapshot) -> list[Finding]:
    """BASELINE_EDITED, if it was."""
    return [f for cause in edited_since(snapshot) if (f := cause.proved(lambda: Trial(snapshot, snapshot))) is not None]


def _causes(old: Snapshot, new: Snapshot) -> Iterator[Cause]:
    pairs, gone, come = _paired(old, new)
    for a, b in pairs:
        if a == b:
            continue
        if a.framing != b.framing:
            yield Cause("FRAMING_CHANGED", f"{a.name} went from {a.framing} to {b.framing}", a.name, b.name, spec=a.name,
                        sent_by=a.sent_by, tries=_both(a, b))  # fmt: skip
        elif a.framing == "slots":
            yield from slot_causes(a, b)
        else:
            yield from _message(a, b)
            yield from field_causes(old, new, a, b)
    for message in gone:
        if message.framing == "tags":
            yield from _gone(message, old, new)
    spoken_of = {message.number for message in gone if message.number is not None}
    for message in come:
        if message.number in spoken_of:
            continue
        yield Cause("MESSAGE_ADDED", f"{message.name} is new: send it only to peers of this version", "", _place(message),
                    spec=message.name, sent_by=message.sent_by)  # fmt: skip
    groups = {g.name: g for g in new.groups}
    for group in old.groups:
        if group.name in groups and groups[group.name] != group:
            yield from field_causes(old, new, group, groups[group.name])
    yield from enum_causes(old, new)
    yield from version_causes(old, new)


def _paired(
    old: Snapshot, new: Snapshot
) -> tuple[list[tuple[MessageSpec, MessageSpec]], list[MessageSpec], list[MessageSpec]]:
    """Messages of both, by number and else by name; those of the old one only, those of the new one only."""
    left = list(new.messages)
    pairs, gone = [], []
    for message in old.messages:
        same = [m for m in left if m.name == message.name] or [
            m for m in left if m.number is not None and m.number == message.number and alike(message, m)
        ]
        if same:
            pairs.append((message, same[0]))
            left.remove(same[0])
        else:
            gone.append(message)
    return pairs, gone, left


def _message(a: MessageSpec, b: MessageSpec) -> Iterator[Cause]:
    if a.name != b.name:
        yield Cause("MESSAGE_RENAMED", f"{a.name} is called {b.name} now", _place(a), _place(b), spec=b.name)
    if a.number != b.number:
        yield Cause("MESSAGE_ID_CHANGED", f"{a.name} had number {a.number}, now {b.number}", _place(a), _place(b),
                    f"give {b.name} its number {a.number} back", a.name, sent_by=a.sent_by, tries=_both(a, b))  # fmt: skip
    fewer, more = set(a.sent_by) - set(b.sent_by), set(b.sent_by) - set(a.sent_by)
    if fewer or more:
        tries: dict[Direction, list[Try]] = {
            direction: [Try(spec.name, lambda: [{}], sent_by=end) for end in sorted(ends)]
            for direction, spec, ends in ((NEW_READS_OLD, a, fewer), ("old-reads-new", b, more))
            if ends
        }
        before, now = (" and ".join(spec.sent_by) or "nobody" for spec in (a, b))
        says = f"{a.name} was sent by {before}, now by {now}"
        yield Cause("DIRECTION_CHANGED", says, _place(a), _place(b), spec=a.name, sent_by=tuple(sorted(fewer | more)),
                    tries=tries)  # fmt: skip


def _gone(message: MessageSpec, old: Snapshot, new: Snapshot) -> Iterator[Cause]:
    heir = next((m for m in new.messages if m.number is not None and m.number == message.number), None)
    tries: dict[Direction, list[Try]] = {NEW_READS_OLD: [Try(message.name, lambda: [{}])]}
    if heir is not None:
        yield Cause("MESSAGE_ID_REUSED", f"number {message.number} was {message.name}, now it is {heir.name}", _place(message),
                    _place(heir), fix=f"give {heir.name} a number that was never used: {_free_number(old, new)}",
                    spec=message.name, sent_by=message.sent_by, tries=tries)  # fmt: skip
    else:
        yield Cause("MESSAGE_DELETED", f"{message.name} is gone, an old peer still sends it", _place(message), "",
                    spec=message.name, sent_by=message.sent_by, tries=tries)  # fmt: skip


def _free_number(old: Snapshot, new: Snapshot) -> int:
    return 1 + max((m.number or 0 for m in (*old.messages, *new.messages)), default=0)


def _both(a: MessageSpec, b: MessageSpec) -> dict[Direction, list[Try]]:
    return {direction: [Try(spec.name, lambda: [{}])] for direction, spec in zip(BOTH, (a, b), strict=True)}


def _place(message: MessageSpec) -> str:
    return message.name if message.number is None else f"{message.name} (number {message.number})"
