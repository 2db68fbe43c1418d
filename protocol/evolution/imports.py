"""Positional layouts of an engine's releases as snapshots, so that the same rules and commands work on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET

from kvpoll.spec.schema import Encoded, End, FieldSpec, MessageSpec, Snapshot

from .changed_version import version_of
from .slots import Layout, LayoutFile, Slot, frames_taken, quoted
from .snapshots import sealed

__all__ = ["read_layouts", "snapshots_of"]


def read_layouts(text: str | bytes) -> LayoutFile:
    """A file of layouts. Raises ``ValueError`` naming the place for what is none; other keys are ignored."""
    try:
        found = msgspec.json.decode(text, type=LayoutFile)
    except msgspec.DecodeError as error:
        raise ValueError(f"layouts: {error}") from None
    for key, layout in found.layouts.items():
        if layout.id != key:
            raise ValueError(f"layouts.{key}.id: expected {key!r}, got {layout.id!r}")
    return found


def snapshots_of(layouts: Iterable[Layout]) -> dict[tuple[str, str], Snapshot]:
    """(backend, release) -> the messages of that backend as of that release: one snapshot for each release that brought a
    new layout, oldest first. Raises ``ValueError`` for a layout without a first release."""
    by_backend: dict[str, list[Layout]] = {}
    for layout in layouts:
        if not layout.first_release:
            raise ValueError(f"{layout.id}: first_release: expected a version, got nothing")
        by_backend.setdefault(layout.backend, []).append(layout)
    found = {}
    for backend, several in sorted(by_backend.items()):
        releases = sorted({layout.first_release for layout in several}, key=_order)
        for release in releases:
            current = [m for m in several if _lives(m, release)]
            messages = tuple(_message(m) for m in sorted(current, key=lambda m: m.message))
            found[backend, release] = sealed(Snapshot(schema=backend, version=release, messages=messages))
    return found


def _order(release: str) -> tuple[tuple[int, ...], str]:
    return version_of(release), release


def _lives(layout: Layout, release: str) -> bool:
    last = layout.last_release
    return _order(layout.first_release) <= _order(release) and (not last or _order(release) <= _order(last))


def _message(layout: Layout) -> MessageSpec:
    least, most = frames_taken(layout)
    ends: Mapping[str, tuple[End, ...]] = {"decode": ("receiver",), "prefill": ("sender",)}
    return MessageSpec(
        name=layout.message,
        framing="slots",
        min_slots=least or None,
        max_slots=most,
        sent_by=ends.get(layout.direction.partition("->")[0].strip(), ()),
        fields=tuple(_field(slot) for slot in layout.frames),
        since=layout.first_release,
    )


def _field(slot: Slot) -> FieldSpec:
    default = slot.default_when_absent_or_empty
    return FieldSpec(
        name=slot.name,
        tag=slot.slot,
        type=Encoded(encoding=slot.enc, value=quoted(slot) if slot.enc == "literal" else ""),
        presence="optional" if slot.optional else "required",
        default=None if default is UNSET or default is None else default,
    )
