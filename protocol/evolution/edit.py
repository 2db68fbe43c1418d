"""Small changes to a snapshot, as data: what fixtures are made of, and what random tests draw.

An edit names a place ("Register", "Register.tp_rank", "enum PartKind", "snapshot") and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kvpoll.spec.schema import EnumSpec, FieldSpec, MessageSpec, Reserved, Snapshot

from .snapshots import sealed

__all__ = ["Edit", "edited"]

S = TypeVar("S", bound=Struct)

Op: TypeAlias = Literal[
    "add-field", "drop-field", "set-field", "insert-field", "swap-tags", "add-message", "drop-message", "set-message",
    "reserve", "unreserve", "set-enum", "set-type", "set-snapshot", "add-group", "add-enum", "rename-field",
]  # fmt: skip


class Edit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``at``: the place. ``to``: what :class:`~kvpoll.spec.schema.FieldSpec` and its like say, in their JSON form."""

    op: Op
    at: str = ""
    other: str = ""  #: swap-tags: the second field; rename-field: the new name
    to: dict[str, object] = {}


def edited(snapshot: Snapshot, edits: Iterable[Edit]) -> Snapshot:
    """A snapshot with these edits made, in order, and its digest made anew. Raises ``ValueError`` naming the edit for a
    place that is not there."""
    for edit in edits:
        try:
            snapshot = _OPS[edit.op](snapshot, edit)
        except (LookupError, TypeError, msgspec.ValidationError) as error:
            raise ValueError(f"{edit.op} {edit.at}: {error}") from None
    return sealed(snapshot)


def _spec(snapshot: Snapshot, name: str) -> MessageSpec:
    for spec in (*snapshot.messages, *snapshot.groups):
        if spec.name == name:
            return spec
    raise LookupError(f"no message or group {name}")


def _put(snapshot: Snapshot, old: str, spec: MessageSpec) -> Snapshot:
    return replace(
        snapshot,
        messages=tuple(spec if m.name == old else m for m in snapshot.messages),
        groups=tuple(spec if g.name == old else g for g in snapshot.groups),
    )


def _field(spec: MessageSpec, name: str) -> FieldSpec:
    for field in spec.fields:
        if field.name == name:
            return field
    raise LookupError(f"{spec.name} has no field {name}")


def _with(spec: MessageSpec, fields: Iterable[FieldSpec]) -> MessageSpec:
    return replace(spec, fields=tuple(sorted(fields, key=lambda f: f.tag)))


def _split(at: str) -> tuple[str, str]:
    spec, dot, field = at.partition(".")
    if not dot:
        raise LookupError(f"expected a place like Register.tp_rank, got {at!r}")
    return spec, field


def _merged(thing: S, to: dict[str, object]) -> S:
    raw = msgspec.to_builtins(thing)
    return msgspec.convert({**raw, **to}, type(thing))


def _add_field(snapshot: Snapshot, edit: Edit) -> Snapshot:
    spec = _spec(snapshot, edit.at)
    return _put(snapshot, spec.name, _with(spec, (*spec.fields, msgspec.convert(edit.to, FieldSpec))))


def _drop_field(snapshot: Snapshot, edit: Edit) -> Snapshot:
    name, field = _split(edit.at)
    spec = _spec(snapshot, name)
    _field(spec, field)
    return _put(snapshot, name, _with(spec, (f for f in spec.fields if f.name != field)))


def _set_field(snapshot: Snapshot, edit: Edit) -> Snapshot:
    name, field = _split(edit.at)
    spec = _spec(snapshot, name)
    changed = _merged(_field(spec, field), edit.to)
    return _put(snapshot, name, _with(spec, (changed if f.name == field else f for f in spec.fields)))


def _rename_field(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return _set_field(snapshot, Edit(op="set-field", at=edit.at, to={"name": edit.other}))


def _set_type(snapshot: Snapshot, edit: Edit) -> Snapshot:
    """Change attributes of a field's type, or all of it when ``to`` has a ``type``."""
    name, field = _split(edit.at)
    held = msgspec.to_builtins(_field(_spec(snapshot, name), field).type)
    kind = edit.to if "type" in edit.to else {**held, **edit.to}
    return _set_field(snapshot, Edit(op="set-field", at=edit.at, to={"type": kind}))


def _insert_field(snapshot: Snapshot, edit: Edit) -> Snapshot:
    """A field at a tag in use: it and all after it move up by one, which nobody should do."""
    spec, fresh = _spec(snapshot, edit.at), msgspec.convert(edit.to, FieldSpec)
    moved = [replace(f, tag=f.tag + 1) if f.tag >= fresh.tag else f for f in spec.fields]
    return _put(snapshot, spec.name, _with(spec, (*moved, fresh)))


def _swap_tags(snapshot: Snapshot, edit: Edit) -> Snapshot:
    name, field = _split(edit.at)
    spec = _spec(snapshot, name)
    a, b = _field(spec, field), _field(spec, edit.other)
    new = {a.name: replace(a, tag=b.tag), b.name: replace(b, tag=a.tag)}
    return _put(snapshot, name, _with(spec, (new.get(f.name, f) for f in spec.fields)))


def _add_message(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return replace(snapshot, messages=(*snapshot.messages, msgspec.convert(edit.to, MessageSpec)))


def _add_group(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return replace(snapshot, groups=(*snapshot.groups, msgspec.convert(edit.to, MessageSpec)))


def _drop_message(snapshot: Snapshot, edit: Edit) -> Snapshot:
    _spec(snapshot, edit.at)
    return replace(
        snapshot,
        messages=tuple(m for m in snapshot.messages if m.name != edit.at),
        groups=tuple(g for g in snapshot.groups if g.name != edit.at),
    )


def _set_message(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return _put(snapshot, edit.at, _merged(_spec(snapshot, edit.at), edit.to))


def _reserve(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return _reserved(snapshot, edit, drop=False)


def _unreserve(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return _reserved(snapshot, edit, drop=True)


def _reserved(snapshot: Snapshot, edit: Edit, drop: bool) -> Snapshot:
    fresh = msgspec.convert(edit.to, Reserved)
    if edit.at.startswith("enum "):
        enum = _enum(snapshot, edit.at)
        return _put_enum(snapshot, enum.name, replace(enum, reserved=_joined(enum.reserved, fresh, drop)))
    spec = _spec(snapshot, edit.at)
    return _put(snapshot, spec.name, replace(spec, reserved=_joined(spec.reserved, fresh, drop)))


def _joined(held: Reserved, given: Reserved, drop: bool) -> Reserved:
    tags = {*held.tags} - {*given.tags} if drop else {*held.tags, *given.tags}
    names = {*held.names} - {*given.names} if drop else {*held.names, *given.names}
    return Reserved(tags=tuple(sorted(tags)), names=tuple(sorted(names)))


def _enum(snapshot: Snapshot, at: str) -> EnumSpec:
    name = at.removeprefix("enum ")
    for enum in snapshot.enums:
        if enum.name == name:
            return enum
    raise LookupError(f"no enum {name}")


def _put_enum(snapshot: Snapshot, old: str, enum: EnumSpec) -> Snapshot:
    return replace(snapshot, enums=tuple(enum if e.name == old else e for e in snapshot.enums))


def _set_enum(snapshot: Snapshot, edit: Edit) -> Snapshot:
    enum = _enum(snapshot, edit.at)
    return _put_enum(snapshot, enum.name, _merged(enum, edit.to))


def _add_enum(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return replace(snapshot, enums=(*snapshot.enums, msgspec.convert(edit.to, EnumSpec)))


def _set_snapshot(snapshot: Snapshot, edit: Edit) -> Snapshot:
    return _merged(snapshot, edit.to)


_OPS: dict[Op, Callable[[Snapshot, Edit], Snapshot]] = {
    "add-field": _add_field, "drop-field": _drop_field, "set-field": _set_field, "insert-field": _insert_field,
    "swap-tags": _swap_tags, "add-message": _add_message, "drop-message": _drop_message, "set-message": _set_message,
    "reserve": _reserve, "unreserve": _unreserve, "set-enum": _set_enum, "set-type": _set_type, "set-snapshot": _set_snapshot,
    "add-group": _add_group, "add-enum": _add_enum, "rename-field": _rename_field,
}  # fmt: skip
