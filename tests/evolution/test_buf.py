"""Never weaker than ``buf breaking``: whenever its WIRE category speaks we do; where its FILE category is silent and we are
not, we say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvpoll.protocol.evolution.compare import compare
from kvpoll.protocol.evolution.edit import Edit, edited
from kvpoll.protocol.evolution.rules import base, rules

from .buf import BUF, fired

pytestmark = pytest.mark.skipif(BUF is None, reason="buf-bin is not installed")

#: Rules that speak although buf's FILE category is silent: what buf does not look at.
WE_KNOW_MORE = {
    "BASELINE_EDITED": "buf has no released snapshots",
    "CAPABILITY_REMOVED": "capabilities have no place in .proto",
    "CRITICAL_ADDED": "critical tags have no place in .proto: every unknown field is skipped there",
    "DEFAULT_CHANGED": "proto3 has no defaults",
    "DIRECTION_CHANGED": "who sends a message has no place in .proto",
    "ELEMENT_CHANGED": "packed words are bytes in .proto",
    "ENDIAN_CHANGED": "packed words are bytes in .proto",
    "ENUM_OPENNESS_CHANGED": "proto3 enums are open",
    "ENUM_VALUE_ADDED_CLOSED": "proto3 enums are open",
    "FIELD_SWAPPED": "a tuple is a repeated field in .proto, whose places have no names",
    "FRAMING_CHANGED": "a slot message has no .proto",
    "INT_NARROWED": "both ranges are one type in .proto",
    "INT_WIDENED": "both ranges are one type in .proto",
    "LENGTH_CHANGED": "lengths have no place in .proto",
    "LIMIT_CHANGED": "limits have no place in .proto",
    "LITERAL_CHANGED": "a fixed value is a string in .proto",
    "MESSAGE_ADDED": "an unknown message is no error there; it is only a note here",
    "MESSAGE_ID_CHANGED": "message numbers have no place in .proto",
    "RANGE_CHANGED": "tag ranges have no place in .proto",
    "CARDINALITY_CHANGED": "packed words are bytes in .proto, nested or not",
    "REQUIRED_ADDED": "proto3 has no required fields",
    "REQUIRED_REMOVED": "proto3 has no required fields",
    "SIGN_CHANGED": "packed words are bytes in .proto",
    "SLOT_COUNT_GUARD_MISSING": "a slot message has no .proto",
    "SLOT_ENCODING_CHANGED": "a slot message has no .proto",
    "SLOT_MOVED": "a slot message has no .proto",
    "SLOT_REUSED": "a slot message has no .proto",
    "TYPE_CHANGED": "some of our types are one type in .proto",
    "UNIT_CHANGED": "units have no place in .proto",
    "VARIANT_MOVED": "a union is bytes in .proto",
    "VERSION_NOT_BUMPED": "versions have no place in .proto",
    "WINDOW_CLOSED": "version windows have no place in .proto",
}
PAIRS = [(rule.id, fixture) for rule in rules().values() for fixture in (*rule.positive, *rule.negative)]


@pytest.mark.parametrize(("rule", "fixture"), PAIRS, ids=[f"{rule}-{n}" for n, (rule, _) in enumerate(PAIRS)])
def test_whenever_buf_speaks_of_the_wire_we_do(rule: str, fixture: object, tmp_path: Path) -> None:
    old, new = fixture.pair()  # type: ignore[attr-defined]
    theirs, ours = fired(old, new, tmp_path), {f.rule for f in compare(old, new)}
    if theirs["WIRE"]:
        assert any(rules()[found].severity != "info" for found in ours), (theirs, ours)
    if not theirs["FILE"]:
        assert ours <= set(WE_KNOW_MORE), (theirs, ours)


INT = {"type": "int", "min": 0, "max": 65535}
REGISTER = "Register.tp_rank"
U64, I64 = {"max": 2**64 - 1}, {"min": -(2**63), "max": 2**63 - 1}
DROP = Edit(op="drop-field", at="Register.layers")
#: The twenty changes: what is done, whether buf's FILE, WIRE_JSON and WIRE speak, and the rules that do here.
TWENTY: dict[str, tuple[list[Edit], list[Edit], tuple[bool, bool, bool], set[str]]] = {
    "insert in the middle, renumber the rest": (
        [], [Edit(op="insert-field", at="Register", to={"name": "pp_rank", "tag": 18, "type": INT, "presence": "optional"})],
        (True, True, True), {"TAG_SHIFTED"},
    ),
    "swap two of one type": ([], [Edit(op="swap-tags", at=REGISTER, other="tp_size")], (True, True, False), {"FIELD_SWAPPED"}),
    "delete, nothing reserved": ([], [DROP], (True, True, True), {"FIELD_DELETED_UNRESERVED"}),
    "delete, number and name reserved": (
        [], [DROP, Edit(op="reserve", at="Register", to={"tags": [21], "names": ["layers"]})],
        (True, False, False), set(),
    ),
    "delete, number reserved only": (
        [], [DROP, Edit(op="reserve", at="Register", to={"tags": [21]})],
        (True, True, False), set(),
    ),
    "rename a field": ([], [Edit(op="rename-field", at=REGISTER, other="rank_in_tp")], (True, True, False), {"FIELD_RENAMED"}),
    "rename a message": ([], [Edit(op="set-message", at="Query", to={"name": "Ask"})], (True, False, False), {"MESSAGE_RENAMED"}),
    "rename a message and change it": (
        [], [Edit(op="set-type", at="Part.start", to={"unit": "page"}), Edit(op="set-message", at="Query", to={"name": "Ask"}),
             Edit(op="set-type", at="Ask.room", to={"max": 7})],
        (True, False, False), {"MESSAGE_RENAMED", "INT_NARROWED", "UNIT_CHANGED"},
    ),
    "uint32 to uint64": ([], [Edit(op="set-type", at=REGISTER, to=U64)], (True, True, False), {"INT_WIDENED"}),
    "uint64 to int64": (
        [Edit(op="set-type", at=REGISTER, to=U64)], [Edit(op="set-type", at=REGISTER, to=I64)],
        (True, False, False), {"SIGN_CHANGED"},
    ),
    "uint32 to string": ([], [Edit(op="set-type", at=REGISTER, to={"type": "str"})], (True, True, True), {"TYPE_CHANGED"}),
    "string to bytes": (
        [], [Edit(op="set-type", at="Register.session", to={"type": "bytes"})], (True, True, False), {"TYPE_CHANGED"},
    ),
    "repeated to singular": (
        [], [Edit(op="set-type", at="Register.layers", to=INT)], (True, True, True), {"CARDINALITY_CHANGED"},
    ),
    "implicit to explicit presence": (
        [], [Edit(op="set-field", at="Register.dcp_size", to={"presence": "optional", "default": None})],
        (True, False, False), {"PRESENCE_CHANGED"},
    ),
    "another kind of value": (
        [], [Edit(op="set-type", at="Register.gathers", to={"type": "union", "options": [{"type": "bool"}, INT]})],
        (True, True, True), {"VARIANT_MOVED"},
    ),
    "delete an enum value": (
        [], [Edit(op="set-enum", at="enum Kind", to={"values": {"KV": 0, "STATE": 1}})],
        (True, True, True), {"ENUM_VALUE_DELETED"},
    ),
    "renumber an enum value": (
        [], [Edit(op="set-enum", at="enum Kind", to={"values": {"KV": 0, "STATE": 1, "AUX": 5}})],
        (True, True, True), {"ENUM_VALUE_RENUMBERED"},
    ),
    "add an enum value": (
        [], [Edit(op="set-enum", at="enum Kind", to={"values": {"KV": 0, "STATE": 1, "AUX": 2, "MORE": 3}})],
        (False, False, False), {"ENUM_VALUE_ADDED_CLOSED"},
    ),
    "append a field": (
        [], [Edit(op="add-field", at="Register", to={"name": "pp_rank", "tag": 40, "type": INT, "presence": "optional"})],
        (False, False, False), set(),
    ),
    "drop a reservation and use the tag": (
        [], [Edit(op="unreserve", at="Register", to={"tags": [30], "names": ["rank"]}),
             Edit(op="add-field", at="Register", to={"name": "pp_rank", "tag": 30, "type": INT, "presence": "optional"})],
        (True, True, True), {"RESERVED_REUSED"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", TWENTY)
def test_the_twenty_changes_beside_buf(change: str, tmp_path: Path) -> None:
    before, after, theirs, ours = TWENTY[change]
    old = edited(base(), before)
    new = edited(old, [Edit(op="set-snapshot", to={"version": "1.1"}), *after])
    found = fired(old, new, tmp_path)
    assert tuple(bool(found[c]) for c in ("FILE", "WIRE_JSON", "WIRE")) == theirs
    assert {f.rule for f in compare(old, new)} == ours
