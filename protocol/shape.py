"""The message structs read as a tree of tagged fields: one introspection for codec, snapshot and documentation."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kvpoll.spec import schema
from kvpoll.spec.schema import Default, Presence, Type
from kvpoll.spec.wire import Message

__all__ = ["FieldShape", "StructShape", "expects", "shape_of"]

U64_MAX = 2**64 - 1
I64_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field. ``child`` is the struct under its tag, directly or (``many``) as elements of a list of at most
    ``most``."""

    owner: type[Struct]
    name: str
    tag: int
    annotation: object  #: without UNSET; what a decoder for this field alone takes
    takes: Type
    presence: Presence
    default: Default
    child: type[Struct] | None
    many: bool
    most: int


@dataclass(frozen=True, slots=True)
class StructShape:
    """A message (``number`` is its kind) or a group."""

    name: str
    cls: type[Struct]
    number: int | None
    fields: Mapping[int, FieldShape]


@cache
def shape_of(cls: type[Struct]) -> StructShape:
    """The fields of a struct by tag. Raises ``TypeError`` for an annotation that the snapshot language lacks."""
    hints = get_type_hints(cls, include_extras=True)
    fields = {}
    for info in msgspec.structs.fields(cls):
        annotation = _without_unset(hints[info.name])
        child, many, most = _child(annotation)
        presence: Presence = "required" if info.required else "optional" if info.default is UNSET else "default"
        default = _default(info.default) if presence == "default" else None
        tag = int(info.encode_name)
        fields[tag] = FieldShape(
            cls, info.name, tag, annotation, _type(annotation), presence, default, child, many, most
        )
    number = cls.__struct_config__.tag if issubclass(cls, Message) else None
    return StructShape(cls.__name__, cls, number if isinstance(number, int) else None, dict(sorted(fields.items())))


def expects(kind: Type) -> str:
    """What a type takes, as the end of the sentence "expected ..."."""
    match kind:
        case schema.Integer(min=low, max=high, unit=unit):
            return f"an integer from {low} to {high}{f' ({unit})' if unit else ''}"
        case schema.Text(max_length=most):
            return f"UTF-8 text{f' of at most {most} characters' if most is not None else ''}"
        case schema.Bytes(max_length=most):
            return f"bytes{f', at most {most}' if most is not None else ''}"
        case schema.Boolean():
            return "true or false"
        case schema.Enumerated(enum=name):
            return f"a number of {name}"
        case schema.GroupRef(group=name):
            return f"a map of the tags of {name}"
        case schema.ListOf(items=items, max_length=most):
            return f"a list{f' of at most {most}' if most is not None else ''}, each {expects(items)}"
        case schema.TupleOf(items=items, names=names):
            told = [f"{name} ({expects(item)})" for name, item in zip(names, items, strict=True)] if names else None
            return f"a list of exactly {len(items)}: {', '.join(told or map(expects, items))}"
        case schema.MapOf(keys=keys, values=values, max_length=most):
            bound = f" of at most {most}" if most is not None else ""
            return f"a map{bound} from {expects(keys)} to {expects(values)}"
        case schema.UnionOf(options=options):
            return " or ".join(map(expects, options))
    return str(kind.__struct_config__.tag)


def _without_unset(annotation: object) -> object:
    """``X | UnsetType`` as ``X``."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    rest = tuple(a for a in get_args(annotation) if a is not UnsetType)
    return rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007  (built at run time)


def _child(annotation: object) -> tuple[type[Struct] | None, bool, int]:
    base, meta = _split(annotation)
    if isinstance(base, type) and issubclass(base, Struct):
        return base, False, 1
    items = get_args(base)
    if get_origin(base) is tuple and isinstance(items[0], type) and issubclass(items[0], Struct):
        return items[0], True, meta.max_length if meta is not None and meta.max_length is not None else 0
    return None, False, 0


def _split(annotation: object) -> tuple[object, Meta | None]:
    if get_origin(annotation) is not Annotated:
        return annotation, None
    base, *metas = get_args(annotation)
    return base, next((m for m in metas if isinstance(m, Meta)), None)


def _type(annotation: object) -> Type:
    base, meta = _split(annotation)
    most = meta.max_length if meta is not None else None
    extra = (meta.extra or {}) if meta is not None else {}
    origin, args = get_origin(base), get_args(base)
    if "enum" in extra:
        return schema.Enumerated(enum=str(extra["enum"]), open=True)
    if base is bool:
        return schema.Boolean()
    if base is int:
        low, high = (meta.ge, meta.le) if meta is not None else (None, None)
        unit = str(extra.get("unit", ""))
        return schema.Integer(
            min=I64_MIN if low is None else int(low), max=U64_MAX if high is None else int(high), unit=unit
        )
    if base is str:
        return schema.Text(max_length=most)
    if base is bytes:
        return schema.Bytes(max_length=most)
    if isinstance(base, type) and issubclass(base, Enum):
        return schema.Enumerated(enum=base.__name__)
    if isinstance(base, type) and issubclass(base, Struct):
        return schema.GroupRef(group=base.__name__)
    if isinstance(base, type) and issubclass(base, tuple) and base is not tuple:
        row = get_type_hints(base, include_extras=True)
        return schema.TupleOf(items=tuple(map(_type, row.values())), names=tuple(row))
    if origin is tuple and args[-1] is Ellipsis:
        return schema.ListOf(items=_type(args[0]), max_length=most)
    if origin is tuple:
        return schema.TupleOf(items=tuple(map(_type, args)))
    if origin is dict:
        return schema.MapOf(keys=_type(args[0]), values=_type(args[1]), max_length=most)
    if origin in (Union, types.UnionType):
        return schema.UnionOf(options=tuple(map(_type, args)))
    raise TypeError(f"the snapshot language has no word for {annotation!r}")


def _default(value: object) -> Default:
    match value:
        case Enum():
            return int(value.value)
        case bool() | int() | str():
            return value
        case bytes():
            return value.hex()
        case tuple():
            return [v for v in map(_default, value) if isinstance(v, bool | int | str)]
    raise TypeError(f"the snapshot language has no word for the default {value!r}")
