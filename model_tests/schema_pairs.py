"""Random pairs of schemas: does the comparison say what happens?

A pair is a small random schema and the same after a few random edits, sensible ones and mistakes alike. What the comparison
says of it is held against practice: a direction that it lets pass must carry random messages so that every shared field
arrives as it was meant; a finding's witness must go wrong when it is replayed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from kvpoll.protocol.evolution.agree import differs
from kvpoll.protocol.evolution.compare import compare
from kvpoll.protocol.evolution.dialect import ABSENT, Dialect, Refused, Value, Values
from kvpoll.protocol.evolution.edit import Edit, edited
from kvpoll.protocol.evolution.findings import BOTH, NEW_READS_OLD, Finding
from kvpoll.protocol.evolution.samples import variants
from kvpoll.protocol.evolution.snapshots import sealed
from kvpoll.protocol.evolution.trial import Trial
from kvpoll.spec.schema import (
    Boolean,
    Bytes,
    Enumerated,
    EnumSpec,
    FieldSpec,
    Float,
    GroupRef,
    Integer,
    ListOf,
    MapOf,
    MessageSpec,
    Packed,
    Presence,
    Reserved,
    Snapshot,
    Text,
    TupleOf,
    Type,
    UnionOf,
)

__all__ = ["random_edits", "random_schema", "wrong_with"]

_PRESENCES: tuple[Presence, ...] = ("required", "optional", "default")
_UNITS = ("", "", "", "token", "byte")
_MAX = (100, 255, 65_535, 2**32 - 1, 2**63 - 1)


def random_schema(rng: random.Random) -> Snapshot:
    """Two or three messages, a group or two, two enums, with every kind of type now and then."""
    enums = tuple(_enum(rng, f"Enum{n}") for n in range(2))
    groups: list[MessageSpec] = []
    for n in range(rng.randint(1, 2)):
        names = [g.name for g in groups]
        groups.append(MessageSpec(name=f"Group{n}", fields=_fields(rng, names), reserved=_reserved(rng)))
    names = [g.name for g in groups]
    messages = tuple(
        MessageSpec(
            name=f"Message{n}", number=n + 1, sent_by=rng.choice((("sender",), ("receiver",), ("sender", "receiver"))),
            fields=_fields(rng, names), reserved=_reserved(rng),
        )
        for n in range(rng.randint(2, 3))
    )  # fmt: skip
    ranges = {"body": (16, 99), "critical": (900, 999)}
    return sealed(
        Snapshot(schema="random", version="1.0", ranges=ranges, enums=enums, groups=tuple(groups), messages=messages)
    )


def random_edits(rng: random.Random, schema: Snapshot) -> tuple[Snapshot, list[Edit]]:
    """One to three edits that can be made, and the schema with them; its version is one higher."""
    made: list[Edit] = []
    current = edited(schema, [Edit(op="set-snapshot", to={"version": "1.1"})])
    wanted = rng.randint(1, 3)
    for _ in range(20):
        if len(made) == wanted:
            break
        edit = _edit(rng, current)
        try:
            current = edited(current, [edit])
        except ValueError:
            continue
        made.append(edit)
    return current, made


def wrong_with(old: Snapshot, new: Snapshot, rng: random.Random) -> str | None:
    """How practice contradicts the comparison; ``None`` when it does not."""
    findings = compare(old, new)
    trial = Trial(old, new)
    for finding in findings:
        if (problem := _unproved(finding, trial)) is not None:
            return problem
    for direction in BOTH:
        # That an enum value with another name is only renamed is what the author says; the comparison warns and believes it.
        if any((f.breaking and direction in f.directions) or f.rule == "ENUM_VALUE_RENAMED" for f in findings):
            continue
        writer, reader = (Dialect(old), Dialect(new)) if direction == NEW_READS_OLD else (Dialect(new), Dialect(old))
        for message in writer.kinds.values():
            if message.number not in reader.kinds:
                continue
            for values in _messages(rng, writer, message):
                if (problem := _arrives(writer, message, values, reader)) is not None:
                    return f"{direction} was let pass: {problem}"
    return None


def _unproved(finding: Finding, trial: Trial) -> str | None:
    if finding.breaking and not finding.witnesses:
        return f"{finding.rule} has no witness: {finding.says}"
    for witness in finding.witnesses:
        if witness.kind in ("refused", "misread") and not trial.replays(witness):
            return f"{finding.rule}: nothing goes wrong with {witness.frame}: {finding.says}"
    return None


def _arrives(writer: Dialect, message: MessageSpec, values: Values, reader: Dialect) -> str | None:
    frame = writer.write(message.name, values)
    try:
        name, got = reader.read(frame, message.sent_by[0])
    except Refused as refusal:
        return f"{refusal} ({values})"
    return differs(writer, message, values, reader, reader.messages[name], got)


def _messages(rng: random.Random, writer: Dialect, spec: MessageSpec) -> Iterator[Values]:
    for _ in range(6):
        yield _random_values(rng, writer, spec, 0)


def _random_values(rng: random.Random, writer: Dialect, spec: MessageSpec, depth: int) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in spec.fields:
        if field.presence != "required" and (rng.random() < 0.3 or depth > 2):
            values[field.name] = ABSENT
        else:
            values[field.name] = _random_value(rng, writer, field.type, depth)
    return values


def _random_value(rng: random.Random, writer: Dialect, kind: Type, depth: int) -> Value:
    match kind:
        case GroupRef(group=name):
            return _random_values(rng, writer, writer.groups[name], depth + 1)
        case ListOf(items=GroupRef() as inner):
            return [_random_value(rng, writer, inner, depth + 1) for _ in range(rng.randint(0, 2))]
    return rng.choice([*variants(writer, kind, None, rng.randint(1, 50))])


# Schemas --------------------------------------------------------------------------------------------------------------
def _enum(rng: random.Random, name: str) -> EnumSpec:
    numbers = rng.sample(range(8), rng.randint(2, 4))
    reserved = Reserved(tags=(9,)) if rng.random() < 0.3 else Reserved()
    machine = "room" if rng.random() < 0.2 else ""
    return EnumSpec(name=name, values={f"V{n}": n for n in numbers}, machine=machine, reserved=reserved)


def _reserved(rng: random.Random) -> Reserved:
    return Reserved(tags=(50,), names=("gone",)) if rng.random() < 0.4 else Reserved()


def _fields(rng: random.Random, groups: list[str]) -> tuple[FieldSpec, ...]:
    tags = sorted(rng.sample(range(16, 30), rng.randint(2, 5)))
    return tuple(_field(rng, f"field{tag}", tag, groups) for tag in tags)


def _field(rng: random.Random, name: str, tag: int, groups: list[str]) -> FieldSpec:
    presence = rng.choice(_PRESENCES)
    kind = _type(rng, groups) if presence != "default" else _plain(rng)
    default = _default(kind) if presence == "default" else None
    return FieldSpec(name=name, tag=tag, type=kind, presence=presence, default=default, critical=900 <= tag <= 999)


def _default(kind: Type) -> bool | int | str:
    match kind:
        case Boolean():
            return False
        case Text():
            return ""
    return 1


def _plain(rng: random.Random) -> Type:
    return rng.choice((Boolean(), Text(max_length=rng.choice((None, 8, 64))), _integer(rng)))


def _integer(rng: random.Random) -> Integer:
    return Integer(min=rng.choice((0, 0, -100, -(2**31))), max=rng.choice(_MAX), unit=rng.choice(_UNITS))


def _type(rng: random.Random, groups: list[str], depth: int = 0) -> Type:
    leaves: list[Type] = [
        _plain(rng), _integer(rng), _integer(rng), Bytes(max_length=rng.choice((None, 8, 32))), Float(bits=rng.choice((32, 64))),
        Enumerated(enum=f"Enum{rng.randint(0, 1)}", open=rng.random() < 0.4),
        Packed(item=rng.choice(("u16", "u32", "u64", "i32")), order=rng.choice(("little", "big")), nested=rng.random() < 0.3),
    ]  # fmt: skip
    if depth > 1 or rng.random() < 0.65:
        return rng.choice(leaves)
    inner = _type(rng, groups, depth + 1)
    if groups and rng.random() < 0.4:
        group = GroupRef(group=rng.choice(groups))
        return ListOf(items=group, max_length=8) if rng.random() < 0.5 else group
    return rng.choice((
        ListOf(items=inner, max_length=rng.choice((None, 4, 16))),
        TupleOf(items=(inner, _integer(rng)), names=rng.choice(((), ("left", "right")))),
        MapOf(keys=Text(max_length=16), values=inner, max_length=rng.choice((None, 4))),
        UnionOf(options=(Integer(min=0, max=255), Text(max_length=8))),
    ))  # fmt: skip


# Edits ----------------------------------------------------------------------------------------------------------------
def _edit(rng: random.Random, schema: Snapshot) -> Edit:
    spec = rng.choice((*schema.messages, *schema.groups))
    groups = [g.name for g in schema.groups if g.name < spec.name or spec.number is not None]
    enum = rng.choice(schema.enums)
    tags = {f.tag for f in spec.fields}
    free = rng.choice([t for t in (*range(16, 60), 901) if t not in tags])
    fresh = _raw(_field(rng, f"fresh{rng.randint(0, 99)}", free, groups))
    if not spec.fields:
        return Edit(op="add-field", at=spec.name, to=fresh)
    field, other = rng.choice(spec.fields), rng.choice(spec.fields)
    at = f"{spec.name}.{field.name}"
    numbers = list(enum.values.items())
    name, number = rng.choice(numbers) if numbers else ("", 0)
    choices = (
        Edit(op="add-field", at=spec.name, to=fresh),
        Edit(op="add-field", at=spec.name, to=fresh),
        Edit(op="drop-field", at=at),
        Edit(op="insert-field", at=spec.name, to={**fresh, "tag": field.tag}),
        Edit(op="swap-tags", at=at, other=other.name),
        Edit(op="rename-field", at=at, other=f"renamed{rng.randint(0, 9)}"),
        Edit(op="set-field", at=at, to={"type": _raw(_type(rng, groups))}),
        Edit(op="set-field", at=at, to={"presence": rng.choice(_PRESENCES[:2]), "default": None}),
        Edit(
            op="set-field", at=at, to={"default": 2} if isinstance(field.type, Integer) else {"default": field.default}
        ),
        Edit(op="set-field", at=at, to={"tag": free}),
        Edit(op="reserve", at=spec.name, to={"tags": [field.tag + 40], "names": ["former"]}),
        Edit(op="unreserve", at=spec.name, to={"tags": [50], "names": ["gone"]}),
        Edit(op="set-message", at=spec.name, to={"sent_by": ["sender"]} if spec.number is not None else {}),
        Edit(op="set-message", at=spec.name, to={"number": spec.number + 40} if spec.number is not None else {}),
        Edit(
            op="set-enum",
            at=f"enum {enum.name}",
            to={"values": {**enum.values, f"New{rng.randint(0, 9)}": rng.randint(8, 20)}},
        ),
        Edit(
            op="set-enum", at=f"enum {enum.name}", to={"values": {n: v for n, v in numbers if n != name} or {"Last": 0}}
        ),
        Edit(op="set-enum", at=f"enum {enum.name}", to={"values": {**enum.values, name: number + 30}}),
        Edit(op="drop-field", at=at)
        if field.presence == "required"
        else Edit(op="reserve", at=spec.name, to={"tags": [70]}),
        Edit(op="drop-message", at=spec.name) if spec.number is not None else Edit(op="reserve", at=spec.name),
    )
    return rng.choice(choices)


def _raw(thing: FieldSpec | Type) -> dict[str, object]:
    raw: dict[str, object] = msgspec.to_builtins(thing)
    return raw
