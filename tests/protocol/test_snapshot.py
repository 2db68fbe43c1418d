"""The frozen schema of version 1.0, and the language it is written in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta, Struct, field

from kvpoll.protocol.schema_export import canonical, digest_of, load, problems, released, snapshot, to_json
from kvpoll.protocol.shape import shape_of
from kvpoll.protocol.wire_doc import wire_markdown
from kvpoll.spec import schema, wire
from kvpoll.spec.schema import FieldSpec, Integer, MessageSpec, Packed, Snapshot
from kvpoll.spec.wire import KINDS, Fingerprint

ROOT = Path(__file__).resolve().parents[2]
replace = msgspec.structs.replace


def test_the_wire_of_version_1_0_is_the_frozen_one() -> None:
    frozen, current = released("1.0"), snapshot()
    assert frozen.version == "1.0"
    for name in ("limits", "ranges", "enums", "groups", "messages"):
        assert getattr(current, name) == getattr(frozen, name), (
            f"{name} of the wire changed: raise VERSION and freeze a new snapshot (to_json(snapshot())), keep this one"
        )
    assert current.digest == frozen.digest
    assert to_json(frozen) == (ROOT / "spec" / "snapshots" / "v1_0.json").read_text()


def test_the_wire_page_is_made_from_the_schema() -> None:
    assert (ROOT / "docs" / "wire.md").read_text() == wire_markdown(), "regenerate the docs"


def test_the_current_schema_is_sound() -> None:
    assert problems(snapshot()) == []


def test_every_kind_and_every_field_is_in_the_snapshot() -> None:
    taken = snapshot()
    assert [m.name for m in taken.messages] == [
        k.__name__ for k in sorted(KINDS, key=lambda k: shape_of(k).number or 0)
    ]
    groups = {name for name, cls in vars(wire).items() if isinstance(cls, type) and issubclass(cls, wire.Group)} - {
        "Group"
    }
    assert {g.name for g in taken.groups} == groups
    for spec in (*taken.messages, *taken.groups):
        declared = {f.name: int(f.encode_name) for f in msgspec.structs.fields(getattr(wire, spec.name))}
        assert {f.name: f.tag for f in spec.fields} == declared


def test_tags_are_decimal_names_without_leading_zeros() -> None:
    for spec in (*snapshot().messages, *snapshot().groups):
        for info in msgspec.structs.fields(getattr(wire, spec.name)):
            assert info.encode_name == str(int(info.encode_name))


def test_a_snapshot_survives_its_file_form() -> None:
    taken = snapshot()
    assert load(to_json(taken)) == taken
    assert load(canonical(taken)) == replace(taken, digest="")
    assert digest_of(replace(taken, digest="anything")) == taken.digest


# Each problem is found ------------------------------------------------------------------------------------------------
def edited(change: Callable[[MessageSpec], MessageSpec], name: str = "Close") -> Snapshot:
    taken = snapshot()
    return replace(taken, messages=tuple(change(m) if m.name == name else m for m in taken.messages))


def with_field(**changes: object) -> Snapshot:
    """CLOSE with a second field after ``total``."""
    spare = FieldSpec(name="spare", tag=17, type=Integer(min=0, max=1), presence="required")
    return edited(lambda m: replace(m, fields=(*m.fields, replace(spare, **changes))))


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (with_field(tag=16), "Close: tag 16 is given twice"),
        (with_field(name="total"), "Close: name total is given twice"),
        (with_field(tag=160), "Close.spare: tag 160 is in no declared range"),
        (with_field(tag=900), "Close.spare: tag 900 is in no declared range"),
        (with_field(tag=200), "Close.spare: tag 200 and critical=False contradict each other"),
        (with_field(critical=True), "Close.spare: tag 17 and critical=True contradict each other"),
        (with_field(type=schema.ListOf(items=schema.GroupRef(group="Gone"))), "Close.spare: no group Gone"),
        (with_field(type=schema.Enumerated(enum="Gone")), "Close.spare: no enum Gone"),
        (edited(lambda m: replace(m, number=9)), "kind 9 is given twice"),
        (edited(lambda m: replace(m, number=None)), "Close has no number"),
        (edited(lambda m: replace(m, sent_by=())), "nobody sends Close"),
        (
            edited(lambda m: replace(m, reserved=schema.Reserved(tags=(16,)))),
            "Close.total: tag 16 or its name is reserved",
        ),
        (
            edited(lambda m: replace(m, reserved=schema.Reserved(names=("total",)))),
            "Close.total: tag 16 or its name is reserved",
        ),
    ],
)
def test_an_unsound_schema_is_described(document: Snapshot, sentence: str) -> None:
    assert problems(document) == [sentence]


def test_a_sound_addition_has_no_problem() -> None:
    assert problems(with_field()) == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["messages"][0]["fields"][0].update(tag=2),
        lambda d: d["limits"].update(max_frame=1),
        lambda d: d["enums"][0]["values"].update(NEW=99),
        lambda d: d.update(version="1.1"),
        lambda d: d.update(format="kvpoll-schema/2"),
        lambda d: d.update(surprise=1),
        lambda d: d["messages"][0]["fields"][0]["type"].update(type="quaternion"),
        lambda d: d.pop("messages"),
    ],
)
def test_an_edited_snapshot_is_not_loaded(edit: Callable[[dict[str, object]], object]) -> None:
    document = json.loads(to_json(released("1.0")))
    edit(document)
    with pytest.raises(ValueError, match=r".+"):
        load(json.dumps(document))


def test_what_a_peer_can_notice_changes_the_digest() -> None:
    digests = {snapshot().digest}
    changes = [
        with_field(),
        with_field(presence="optional"),
        with_field(presence="default", default=0),
        with_field(type=Integer(min=0, max=2)),
        with_field(type=Integer(min=0, max=1, unit="ms")),
        edited(lambda m: replace(m, sent_by=("receiver",))),
        replace(snapshot(), limits={**snapshot().limits, "max_frame": 1}),
    ]
    digests |= {digest_of(change) for change in changes}
    assert len(digests) == len(changes) + 1


def test_order_of_declaration_is_not_in_the_digest() -> None:
    class Mirror(Struct, kw_only=True):
        digest: Annotated[bytes, Meta(max_length=64)] = field(name="3", default=b"")
        prefix: wire.Tokens = field(name="2", default=0)
        tokens: wire.Tokens = field(name="1")

    strip = [(f.tag, f.name, f.takes, f.presence, f.default) for f in shape_of(Mirror).fields.values()]
    assert strip == [(f.tag, f.name, f.takes, f.presence, f.default) for f in shape_of(Fingerprint).fields.values()]


# The language beyond our own wire -------------------------------------------------------------------------------------
def test_a_positional_message_can_be_written_down() -> None:
    """A multipart frame as engines send it: a literal first, decimal text, packed words; min_slots guards the tail."""
    slots = (
        FieldSpec(name="marker", tag=0, type=schema.Literally(value="None"), presence="required"),
        FieldSpec(name="port", tag=1, type=Integer(min=0, max=65535, text=True), presence="required"),
        FieldSpec(name="pointers", tag=2, type=Packed(item="u64", order="native", unit="byte"), presence="required"),
        FieldSpec(
            name="scale", tag=3, type=schema.Float(bits=32), presence="optional", since="0.5.4", deprecated="0.5.9"
        ),
    )
    message = MessageSpec(name="register", sent_by=("receiver",), framing="slots", min_slots=3, fields=slots)
    document = Snapshot(schema="an-engine", version="0.5.4", messages=(message,))
    document = replace(document, digest=digest_of(document))
    assert load(to_json(document)) == document


def test_an_annotation_that_the_language_lacks_is_refused() -> None:
    class Odd(Struct):
        x: float = field(name="1")

    with pytest.raises(TypeError, match="no word for"):
        shape_of(Odd)
