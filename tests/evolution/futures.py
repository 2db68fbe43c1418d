"""What our wire may look like later: a line of releases, each a realistic edit of the one before; and one mistake.

The line starts at the frozen snapshot, so every pair of it is a pair of releases that could meet in a rolling upgrade. The
first steps are those that a careful project takes; the last ones are needed now and then, and break who does not know them.
"""

from __future__ import annotations

from typing import NamedTuple

from kvpoll.cli.schema_files import frozen_folder
from kvpoll.protocol.evolution.edit import Edit, edited
from kvpoll.protocol.schema_export import load, snapshot
from kvpoll.spec.schema import Snapshot

__all__ = ["ALONE", "LINE", "MISTAKE", "PROGRESS", "RELEASED", "STEPS", "Step"]

RELEASED = load((frozen_folder() / "v1_0.json").read_bytes())
assert snapshot() == RELEASED, "these futures are those of the version that this codec speaks"

#: The kind that a later version has, and the capability that says who understands it.
PROGRESS = "Progress"

_U32 = {"type": "int", "min": 0, "max": 2**32 - 1}
_U64 = {"type": "int", "min": 0, "max": 2**64 - 1}
_KINDS, _REASONS = (next(e.values for e in RELEASED.enums if e.name == name) for name in ("PartKind", "Reason"))


class Step(NamedTuple):
    """One release. ``safe``: every release of the line so far can meet it, in either order."""

    version: str
    window: tuple[str, str]
    edits: tuple[Edit, ...]
    safe: bool = True


def _field(name: str, tag: int, kind: dict[str, object], **more: object) -> dict[str, object]:
    return {"name": name, "tag": tag, "type": kind, "presence": "optional", **more}


def _envelope() -> list[dict[str, object]]:
    """Of a room message."""
    names = ("link", "source", "target", "source_rank", "target_rank", "room", "engine", "gen")
    required = ("link", "source", "room", "engine", "gen")
    return [
        _field(name, tag, _U64) | ({"presence": "required"} if name in required else {})
        for tag, name in enumerate(names, 1)
    ]


STEPS: dict[str, Step] = {
    "an optional field": Step("1.1", ("1.0", "1.1"), (
        Edit(op="add-field", at="Announce", to=_field("priority", 30, _U32, since="1.1")),
        Edit(op="add-field", at="Part", to=_field("checksum", 10, _U64, since="1.1")),
    )),
    "a group": Step("1.2", ("1.0", "1.2"), (
        Edit(op="add-group", to={"name": "Compression", "fields": [
            _field("codec", 1, {"type": "str", "max_length": 64}) | {"presence": "required"},
            _field("block_nbytes", 2, _U32),
        ]}),
        Edit(op="add-field", at="Registration", to=_field("compression", 104, {"type": "group", "group": "Compression"})),
    )),
    "a value of an open enum": Step("1.3", ("1.0", "1.3"), (
        Edit(op="set-enum", at="enum Reason", to={"values": {**_REASONS, "OVERLOADED": 8}}),
    )),
    "a message": Step("1.4", ("1.0", "1.4"), (
        Edit(op="add-message", to={
            "name": PROGRESS, "number": 17, "sent_by": ["sender"], "since": "1.4",
            "fields": [*_envelope(), _field("tokens", 16, _U32)],
        }),
        Edit(op="set-snapshot", to={"capabilities": ["progress"]}),
    )),
    "a field less": Step("1.5", ("1.0", "1.5"), (
        Edit(op="drop-field", at="LinkOver.text"),
        Edit(op="reserve", at="LinkOver", to={"tags": [16], "names": ["text"]}),
    )),
    "a value of a closed enum": Step("1.6", ("1.0", "1.6"), (
        Edit(op="set-enum", at="enum PartKind", to={"values": {**_KINDS, "INDEX": 3}}),
    ), safe=False),
    "a critical field": Step("1.7", ("1.0", "1.7"), (
        Edit(op="add-field", at="Hello", to=_field("sealed", 200, {"type": "bytes", "max_length": 64}, critical=True)),
    ), safe=False),
    "a closed window": Step("2.0", ("1.7", "2.0"), (), safe=False),
}  # fmt: skip


def _made(base: Snapshot, step: Step) -> Snapshot:
    bump = Edit(op="set-snapshot", to={"version": step.version, "window": step.window})
    return edited(base, (bump, *step.edits))


def _line() -> dict[str, Snapshot]:
    found = {RELEASED.version: RELEASED}
    for step in STEPS.values():
        found[step.version] = _made([*found.values()][-1], step)
    return found


#: Version -> its schema, oldest first.
LINE: dict[str, Snapshot] = _line()

#: Each step made to the released schema alone, by its name.
ALONE: dict[str, Snapshot] = {name: _made(RELEASED, step) for name, step in STEPS.items()}

#: What nobody should do: two numbers of a part change places.
MISTAKE = _made(RELEASED, Step("1.1", ("1.0", "1.1"), (Edit(op="swap-tags", at="Part.start", other="stop"),)))
