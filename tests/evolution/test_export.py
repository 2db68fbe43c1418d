"""A snapshot in other languages."""

from __future__ import annotations

import re

import msgspec

from kvpoll.protocol.evolution.export import EXPORTS, as_json_schema, as_markdown_page, as_proto
from kvpoll.protocol.evolution.rules import base
from kvpoll.protocol.schema_export import snapshot


def test_json_schema_has_every_message_group_and_enum() -> None:
    document = msgspec.json.decode(as_json_schema(snapshot()))
    ours = snapshot()
    names = {m.name for m in (*ours.messages, *ours.groups)} | {f"enum {e.name}" for e in ours.enums}
    assert set(document["$defs"]) == names
    refs = set(re.findall(r'"#/\$defs/([^"]+)"', as_json_schema(ours)))
    assert refs <= names


def test_proto_keeps_every_tag_and_reservation() -> None:
    text = as_proto(base())
    assert "  uint32 tp_rank = 16;" in text
    assert "  optional bool gathers = 22;" in text
    assert "  reserved 30;" in text
    assert "  Kind_AUX = 2;" in text
    assert "  repeated Part parts = 18;" in text
    assert "// Frames is positional" in text


def test_a_proto_enum_begins_with_zero() -> None:
    for block in re.findall(r"enum \w+ \{(.*?)\}", as_proto(base()), re.S):
        assert re.search(r"= (\d+);", block).group(1) == "0"  # type: ignore[union-attr]


def test_markdown_has_a_row_for_every_field() -> None:
    page = as_markdown_page(base())
    assert sum(line.startswith("| ") and "| --- " not in line for line in page.splitlines()) >= sum(
        len(m.fields) for m in base().messages
    )
    assert "| 30" not in page
    assert "Reserved: 30, rank." in page


def test_every_export_is_the_same_each_time() -> None:
    for make in EXPORTS.values():
        assert make(base()) == make(base())
