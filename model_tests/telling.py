"""How a world's actions are told: as data that survives the process, as lines, as arrows and notes between actors.

Every world can be told, by the ``str`` of its actions. One that wants more has a :class:`Teller`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from .explorer import World

__all__ = ["Arrow", "Data", "Note", "Picture", "Plain", "Teller", "Telling", "data_of", "teller_of"]

#: What JSON can hold.
Data: TypeAlias = "bool | int | float | str | list[Data] | dict[str, Data] | None"


class Arrow(NamedTuple):
    """Something goes from one actor to another."""

    source: str
    target: str
    text: str
    lost: bool = False


class Note(NamedTuple):
    """Something happens at an actor."""

    actor: str
    text: str


Picture: TypeAlias = Arrow | Note


class Teller(Protocol):
    """Tells what happens in one world, in the state in which that is now."""

    def actors(self) -> Sequence[str]:
        """Who takes part, in the order of their life lines."""

    def data(self, action: Hashable) -> Data:
        """The action as data: the same in every process, and different for two actions of one state."""

    def picture(self, action: Hashable) -> Picture:
        """The action as an arrow or a note."""

    def standing(self) -> Mapping[str, str]:
        """How each actor stands; told whenever it changes."""


@runtime_checkable
class Telling(Protocol):
    """A world that has a teller of its own."""

    def teller(self) -> Teller: ...


class Plain:
    """The teller of a world that has none: one actor, and actions by their text."""

    def actors(self) -> Sequence[str]:
        return ("world",)

    def data(self, action: Hashable) -> Data:
        return data_of(action)

    def picture(self, action: Hashable) -> Picture:
        return Note("world", str(action))

    def standing(self) -> Mapping[str, str]:
        return {}


def teller_of(world: World) -> Teller:
    """The world's own teller, or the plain one."""
    return world.teller() if isinstance(world, Telling) else Plain()


def data_of(value: object) -> Data:
    """A value as data. Fields of structures that have their default value are left out. What is no structure of ours is
    told by its ``repr``, so that must say the same in every process."""
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case frozenset() | set():
            return sorted((data_of(each) for each in value), key=repr)
        case Mapping():
            return {str(key): data_of(each) for key, each in value.items()}
    named = _fields(value)
    if named is not None:
        return {type(value).__name__: {name: data_of(each) for name, each in named.items()}}
    return [data_of(each) for each in value] if isinstance(value, tuple | list) else repr(value)


def _fields(value: object) -> dict[str, object] | None:
    """The fields of a structure that differ from their default; ``None`` for what is none."""
    if isinstance(value, msgspec.Struct):
        defaults: dict[str, object] = {f.name: f.default for f in msgspec.structs.fields(value)}
    elif isinstance(value, tuple) and isinstance(names := getattr(value, "_fields", None), tuple):
        defaults = dict.fromkeys(names, msgspec.NODEFAULT) | getattr(value, "_field_defaults", {})
    elif is_dataclass(value):
        defaults = {f.name: f.default for f in fields(value)}
    else:
        return None
    found = {name: getattr(value, name) for name in defaults}
    return {name: each for name, each in found.items() if each is not msgspec.UNSET and each != defaults[name]}
