"""The wire schema as a snapshot: taken from the structs, written as canonical JSON, read back and checked.

A released snapshot is never edited: :func:`load` refuses one whose digest does not fit its content. After an intended
change of the wire, a new version gets a new file; the old one stays as a baseline for the evolution rules.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from importlib.resources import files

import msgspec
from msgspec import Struct

from kvpoll.protocol import tags
from kvpoll.protocol.shape import FieldShape, StructShape, shape_of
from kvpoll.spec import Cause, KVPoll, wire
from kvpoll.spec.schema import (
    BODY,
    DEPRECATED,
    ENVELOPE,
    FORMAT,
    GROUPS,
    RESERVED_NAMES,
    SENT_BY,
    SINCE,
    Enumerated,
    EnumSpec,
    FieldSpec,
    ListOf,
    MapOf,
    MessageSpec,
    Reserved,
    Snapshot,
    TupleOf,
    Type,
    UnionOf,
)

__all__ = ["canonical", "digest_of", "load", "problems", "released", "snapshot", "to_json"]

_ENUMS: dict[str, tuple[type[IntEnum], str]] = {
    "Cause": (Cause, ""),
    "KVPoll": (KVPoll, "room"),
    "PartKind": (wire.PartKind, ""),
    "Reason": (wire.Reason, ""),
}


def snapshot() -> Snapshot:
    """What this version of the code speaks."""
    groups: dict[str, StructShape] = {}
    for kind in wire.KINDS:
        _collect(shape_of(kind), groups)
    messages = [_message(shape_of(kind)) for kind in sorted(wire.KINDS, key=lambda k: shape_of(k).number or 0)]
    used = {name for shape in (*groups.values(), *map(shape_of, wire.KINDS)) for name in _enums(shape)}
    ranges = {"envelope": ENVELOPE, "body": BODY, "groups": GROUPS, "critical": wire.CRITICAL, "grease": wire.GREASE}
    taken = Snapshot(
        schema="kvpoll",
        version=f"{wire.VERSION[0]}.{wire.VERSION[1]}",
        limits={
            "max_frame": wire.MAX_FRAME,
            "max_tag": tags.MAX_TAG,
            "max_unknown": tags.MAX_UNKNOWN,
            "max_unknown_depth": tags.MAX_DEPTH,
            "max_unknown_per_map": tags.MAX_UNKNOWN_PER_MAP,
            "max_unknown_values": tags.MAX_VALUES,
        },
        ranges={name: (r[0], r[-1]) for name, r in ranges.items()},
        enums=tuple(_enum(name) for name in sorted(used)),
        groups=tuple(_message(groups[name]) for name in sorted(groups)),
        messages=tuple(messages),
    )
    return msgspec.structs.replace(taken, digest=digest_of(taken))


def canonical(document: Snapshot) -> bytes:
    """The bytes that the digest covers: JSON without ``digest``, keys sorted, no spaces."""
    return msgspec.json.encode(msgspec.structs.replace(document, digest=""), order="sorted")


def digest_of(document: Snapshot) -> str:
    """SHA-256 of :func:`canonical`, in hex."""
    return hashlib.sha256(canonical(document)).hexdigest()


def to_json(document: Snapshot) -> str:
    """The file form: as canonical, but indented so that a review shows one line per change."""
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=1).decode() + "\n"


def load(text: str | bytes, *, edited: bool = False) -> Snapshot:
    """Read a snapshot file; with ``edited`` also one whose digest is wrong. Raises ``ValueError`` (as all of msgspec's errors
    are) for what is no snapshot, is written in another language than :data:`FORMAT`, or was edited after its digest was
    made."""
    document = msgspec.json.decode(text, type=Snapshot)
    if document.format != FORMAT:
        raise ValueError(f"format: expected {FORMAT}, got {document.format!r}")
    if not edited and document.digest and document.digest != digest_of(document):
        raise ValueError(f"digest: {document.schema} {document.version} was edited after it was frozen")
    return document


def released(version: str) -> Snapshot:
    """The frozen snapshot of a released version of ours ("1.0"). Raises ``FileNotFoundError`` for one that is not."""
    name = f"v{version.replace('.', '_')}.json"
    return load(files("kvpoll.spec").joinpath("snapshots", name).read_bytes())


def problems(document: Snapshot) -> list[str]:
    """What is wrong with a tagged snapshot by itself, as sentences: tags and numbers given twice, out of their declared
    range, or reserved; references to nothing. Empty when it is sound."""
    found = []
    numbers = [m.number for m in document.messages]
    found += [
        f"kind {n} is given twice" for n in sorted({n for n in numbers if n is not None and numbers.count(n) > 1})
    ]
    found += [f"{m.name} has no number" for m in document.messages if m.number is None]
    found += [f"nobody sends {m.name}" for m in document.messages if not m.sent_by]
    groups, enums = {g.name for g in document.groups}, {e.name for e in document.enums}
    spans = {name: range(low, high + 1) for name, (low, high) in document.ranges.items()}
    for spec in (*document.messages, *document.groups):
        in_range = ("envelope", "body", "groups", "critical")
        labels = [label for f in spec.fields for label in (f"tag {f.tag}", f"name {f.name}")]
        found += [f"{spec.name}: {v} is given twice" for v in dict.fromkeys(labels) if labels.count(v) > 1]
        for field in spec.fields:
            where = f"{spec.name}.{field.name}"
            if not any(field.tag in spans[name] for name in in_range):
                found.append(f"{where}: tag {field.tag} is in no declared range")
            if field.critical != (field.tag in spans["critical"]):
                found.append(f"{where}: tag {field.tag} and critical={field.critical} contradict each other")
            if field.tag in spec.reserved.tags or field.name in spec.reserved.names:
                found.append(f"{where}: tag {field.tag} or its name is reserved")
            found += [f"{where}: no group {g}" for g in _mentions(field.type, "group") if g not in groups]
            found += [f"{where}: no enum {e}" for e in _mentions(field.type, "enum") if e not in enums]
    return found


def _collect(shape: StructShape, groups: dict[str, StructShape]) -> None:
    for field in shape.fields.values():
        if field.child is not None and field.child.__name__ not in groups:
            groups[field.child.__name__] = child = shape_of(field.child)
            _collect(child, groups)


def _message(shape: StructShape) -> MessageSpec:
    return MessageSpec(
        name=shape.name,
        number=shape.number,
        sent_by=SENT_BY[shape.name] if shape.number is not None else (),
        fields=tuple(_field(shape.cls, field) for field in shape.fields.values()),
        reserved=Reserved(tags=wire.RESERVED.get(shape.name, ()), names=RESERVED_NAMES.get(shape.name, ())),
        since=SINCE.get(shape.name, "1.0"),
        deprecated=DEPRECATED.get(shape.name, ""),
    )


def _field(owner: type[Struct], field: FieldShape) -> FieldSpec:
    full = f"{owner.__name__}.{field.name}"
    return FieldSpec(
        name=field.name,
        tag=field.tag,
        type=field.takes,
        presence=field.presence,
        default=field.default,
        critical=field.tag in wire.CRITICAL,
        since=SINCE.get(full, "1.0"),
        deprecated=DEPRECATED.get(full, ""),
    )


def _enum(name: str) -> EnumSpec:
    cls, machine = _ENUMS[name]
    return EnumSpec(name=name, values={member.name: int(member) for member in cls}, machine=machine)


def _enums(shape: StructShape) -> list[str]:
    return [name for field in shape.fields.values() for name in _mentions(field.takes, "enum")]


def _mentions(kind: Type, what: str) -> list[str]:
    """Names of the groups or enums in a type."""
    match kind:
        case ListOf(items=inner):
            return _mentions(inner, what)
        case MapOf(keys=keys, values=values):
            return _mentions(keys, what) + _mentions(values, what)
        case TupleOf(items=many) | UnionOf(options=many):
            return [name for inner in many for name in _mentions(inner, what)]
        case Enumerated(enum=name):
            return [name] if what == "enum" else []
    return [kind.group] if what == "group" and hasattr(kind, "group") else []
