"""A snapshot in other languages: JSON Schema for tools, .proto for whoever thinks in it, Markdown for people.

JSON Schema and .proto say less than the snapshot (units, byte order, critical tags have no place there); what is lost stands
in comments and descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kvpoll.spec.schema import (
    Boolean,
    Bytes,
    Encoded,
    Enumerated,
    EnumSpec,
    FieldSpec,
    Float,
    GroupRef,
    Integer,
    ListOf,
    Literally,
    MapOf,
    MessageSpec,
    Packed,
    Snapshot,
    Text,
    TupleOf,
    Type,
    UnionOf,
)

from .types import said

__all__ = ["EXPORTS", "as_json_schema", "as_markdown_page", "as_proto"]


# JSON Schema ------------------------------------------------------------------------------------------------------------
def as_json_schema(snapshot: Snapshot) -> str:
    """Of the JSON form of messages, by field names; draft 2020-12."""
    defs: dict[str, object] = {g.name: _object(g) for g in snapshot.groups}
    defs |= {m.name: _object(m) for m in snapshot.messages}
    defs |= {
        f"enum {e.name}": {
            "enum": sorted(e.values.values()),
            "description": ", ".join(f"{n}={v}" for n, v in e.values.items()),
        }
        for e in snapshot.enums
    }
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{snapshot.schema}:{snapshot.version}",
        "title": f"{snapshot.schema} {snapshot.version}",
        "oneOf": [{"$ref": f"#/$defs/{m.name}"} for m in snapshot.messages],
        "$defs": defs,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _object(spec: MessageSpec) -> dict[str, object]:
    return {
        "type": "object",
        "title": spec.name,
        "properties": {f.name: {**_json(f.type), "description": _about(spec, f)} for f in spec.fields},
        "required": [f.name for f in spec.fields if f.presence == "required"],
    }


def _json(kind: Type) -> dict[str, object]:
    match kind:
        case Boolean():
            return {"type": "boolean"}
        case Integer(min=low, max=high):
            return {"type": "integer", "minimum": low, "maximum": high}
        case Float():
            return {"type": "number"}
        case Text(max_length=most):
            return {"type": "string", **({} if most is None else {"maxLength": most})}
        case Bytes():
            return {"type": "string", "contentEncoding": "base64"}
        case Literally(value=value):
            return {"const": value}
        case Enumerated(enum=name, open=is_open):
            return {"type": "integer"} if is_open else {"$ref": f"#/$defs/enum {name}"}
        case GroupRef(group=name):
            return {"$ref": f"#/$defs/{name}"}
        case ListOf(items=inner, max_length=most):
            return {"type": "array", "items": _json(inner), **({} if most is None else {"maxItems": most})}
        case TupleOf(items=many):
            return {
                "type": "array",
                "prefixItems": [_json(i) for i in many],
                "minItems": len(many),
                "maxItems": len(many),
            }
        case MapOf(values=held):
            return {"type": "object", "additionalProperties": _json(held)}
        case UnionOf(options=options):
            return {"anyOf": [_json(o) for o in options]}
        case Packed(nested=nested):
            numbers: dict[str, object] = {"type": "array", "items": {"type": "number"}}
            return {"type": "array", "items": numbers} if nested else numbers
        case Encoded():
            return {}
    raise TypeError(f"no JSON Schema for {kind!r}")


def _about(spec: MessageSpec, field: FieldSpec) -> str:
    place = "slot" if spec.framing == "slots" else "tag"
    parts = [f"{place} {field.tag}", said(field.type), field.presence]
    if field.presence == "default":
        parts.append(f"default {field.default!r}")
    parts += [f"since {field.since}"] + (["critical"] if field.critical else [])
    return ", ".join(parts + ([f"deprecated in {field.deprecated}"] if field.deprecated else []))


# .proto -----------------------------------------------------------------------------------------------------------------
def as_proto(snapshot: Snapshot) -> str:
    """The tagged messages as proto3; slot messages have no tags and are left out, with a comment. Tags keep their numbers,
    but for 0 and 19000 to 19999, which protobuf keeps to itself: these are moved by 100000."""
    package = "".join(c if c.isalnum() else "_" for c in snapshot.schema)
    lines = ['syntax = "proto3";', f"package {package};", f"// version {snapshot.version}", ""]
    for enum in snapshot.enums:
        lines += _proto_enum(enum)
    for spec in (*snapshot.groups, *snapshot.messages):
        lines += _proto_message(spec) if spec.framing == "tags" else [f"// {spec.name} is positional", ""]
    return "\n".join(lines)


def _proto_enum(enum: EnumSpec) -> list[str]:
    # proto3 wants a zero first, and names that are unique in the package.
    values = dict(sorted(enum.values.items(), key=lambda item: (item[1] != 0, item[1])))
    if 0 not in values.values():
        values = {"UNSPECIFIED_0": 0, **values}
    lines = [f"enum {enum.name} {{"]
    lines += [f"  {enum.name}_{_word(name)} = {number};" for name, number in values.items()]
    return [
        *lines,
        *_proto_reserved(enum.reserved.tags, tuple(f"{enum.name}_{n}" for n in enum.reserved.names)),
        "}",
        "",
    ]


def _proto_message(spec: MessageSpec) -> list[str]:
    number = "" if spec.number is None else f" // number {spec.number}, sent by {' and '.join(spec.sent_by)}"
    lines, helpers = [f"message {spec.name} {{{number}"], list[str]()
    for field in spec.fields:
        kind, label = _proto_type(field, spec, helpers)
        lines.append(f"  {label}{kind} {field.name} = {_proto_tag(field.tag)}; // {_about(spec, field)}")
    return [
        *lines,
        *helpers,
        *_proto_reserved(tuple(map(_proto_tag, spec.reserved.tags)), spec.reserved.names),
        "}",
        "",
    ]


def _proto_reserved(tags: tuple[int, ...], names: tuple[str, ...]) -> list[str]:
    lines = [f"  reserved {', '.join(map(str, tags))};"] if tags else []
    return lines + ([f"  reserved {', '.join(f'{chr(34)}{n}{chr(34)}' for n in names)};"] if names else [])


def _proto_tag(tag: int) -> int:
    return tag + 100_000 if tag == 0 or 19_000 <= tag <= 19_999 else tag


def _proto_type(field: FieldSpec, spec: MessageSpec, helpers: list[str]) -> tuple[str, str]:
    """Type and label of a field; what protobuf has no type for becomes bytes, with the comment saying what it is."""
    match field.type:
        case ListOf(items=ListOf() | TupleOf() | MapOf() | UnionOf()):
            return "bytes", "repeated "
        case ListOf(items=inner):
            return _proto_scalar(inner), "repeated "
        case MapOf(keys=Text() | Integer() as keys, values=held) if not isinstance(
            held, ListOf | MapOf | TupleOf | UnionOf
        ):
            return f"map<{_proto_scalar(keys)}, {_proto_scalar(held)}>", ""
        case TupleOf(items=many) if len({_proto_scalar(i) for i in many}) == 1:
            return _proto_scalar(many[0]), "repeated "
    return _proto_scalar(field.type), "optional " if field.presence == "optional" else ""


def _proto_scalar(kind: Type) -> str:
    match kind:
        case Boolean():
            return "bool"
        case Integer(min=low, max=high):
            wide = high >= 1 << 32 or low < -(1 << 31)
            return ("int64" if wide else "int32") if low < 0 else ("uint64" if wide else "uint32")
        case Float(bits=bits):
            return "float" if bits == 32 else "double"
        case Text() | Literally():
            return "string"
        case Enumerated(enum=name):
            return name
        case GroupRef(group=name):
            return name
    return "bytes"


def _word(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


# Markdown ---------------------------------------------------------------------------------------------------------------
def as_markdown_page(snapshot: Snapshot) -> str:
    """Every message, group and enum as a table."""
    lines = [f"# {snapshot.schema} {snapshot.version}", ""]
    for spec in (*snapshot.messages, *snapshot.groups):
        number = "" if spec.number is None else f" (number {spec.number}, sent by {' and '.join(spec.sent_by)})"
        place = "slot" if spec.framing == "slots" else "tag"
        lines += [
            f"## {spec.name}{number}",
            "",
            f"| {place} | field | type | presence | since |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {f.tag}{' critical' if f.critical else ''} | {f.name} | {said(f.type)} | {f.presence} | {f.since} |"
            for f in spec.fields
        ]
        if spec.reserved.tags or spec.reserved.names:
            lines += ["", f"Reserved: {', '.join([*map(str, spec.reserved.tags), *spec.reserved.names])}."]
        lines.append("")
    for enum in snapshot.enums:
        lines += [f"## enum {enum.name}", "", "| number | name |", "| --- | --- |"]
        lines += [f"| {number} | {name} |" for name, number in sorted(enum.values.items(), key=lambda item: item[1])]
        lines.append("")
    return "\n".join(lines)


EXPORTS: Mapping[str, Callable[[Snapshot], str]] = {
    "jsonschema": as_json_schema, "proto": as_proto, "markdown": as_markdown_page,
}  # fmt: skip
