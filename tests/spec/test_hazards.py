"""The list of hazards is whole: each of the numbered ones, once, with something that stands against it and tests that hold
it; and replays of those that nothing else holds."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kvpoll.cli.docs import GENERATED
from kvpoll.protocol.outputs import Expose, OfferPart
from kvpoll.spec import KVPoll
from kvpoll.spec.hazard_tests import HELD, OUTSIDE
from kvpoll.spec.hazards import HAZARDS

from ..protocol.pair import Pair

ROOT = Path(__file__).parents[2]


def test_every_numbered_hazard_is_listed_once() -> None:
    expected = [f"Q{n:02d}" for n in range(1, 57)] + [f"J{n:02d}" for n in range(1, 29)]
    assert [h.id for h in HAZARDS] == expected


def test_each_says_what_stands_against_it_and_why() -> None:
    assert all(h.what and h.by and h.why for h in HAZARDS)


def test_each_is_held_by_tests_or_outside_for_a_reason() -> None:
    ids = {h.id for h in HAZARDS}
    assert HELD.keys() | OUTSIDE.keys() == ids
    assert not HELD.keys() & OUTSIDE.keys()
    assert all(OUTSIDE.values())
    assert all(tests and len(set(tests)) == len(tests) for tests in HELD.values())


def test_every_test_that_holds_a_hazard_exists() -> None:
    named: dict[str, set[str]] = {}
    for test in {test for tests in HELD.values() for test in tests}:
        file, _, name = test.partition("::")
        named.setdefault(file, set()).add(name)
    for file, names in named.items():
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert names <= there, f"{file} has no {sorted(names - there)}"


def test_the_page_names_what_holds_each() -> None:
    lines = GENERATED["docs/hazards.md"]().splitlines()
    for hazard in HAZARDS:
        line = next(line for line in lines if line.startswith(f"| {hazard.id} |"))
        for test in HELD.get(hazard.id, ()):
            assert test.partition("::test_")[2].replace("_", " ") in line
        assert OUTSIDE.get(hazard.id, "") in line


# -- hazards that are held here ------------------------------------------------------------------------------------------
SOURCES = [path for room in ("spec", "protocol", "runtime", "kernels") for path in sorted((ROOT / room).rglob("*.py"))]
#: Calls that only look. An assert that does something would do nothing under ``python -O`` (Q49).
LOOKS = {"isinstance", "all", "any", "len", "set", "sorted", "min", "max", "callable", "issubclass", "type", "is_alive"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_step_stands_inside_an_assert_and_no_deadline_goes_by_the_wall_clock(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assert):
            for call in [each for each in ast.walk(node.test) if isinstance(each, ast.Call)]:
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "?")
                assert name in LOOKS, f"{path.name}:{node.lineno}: {name}() in an assert"
        wall = isinstance(node, ast.Attribute) and node.attr == "time" and getattr(node.value, "id", "") == "time"
        assert not wall or path.name == "trace.py", f"{path.name}:{getattr(node, 'lineno', 0)} reads the wall clock"


@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_an_abort_ends_the_room_of_its_handle_and_none_whose_number_begins_alike(push: bool, end: str) -> None:
    """Rooms 1, 12 and 123, and room 0, which is a room like any other (Q50)."""
    pair = Pair(push).linked()
    rooms = {number: pair.both(number) for number in (1, 12, 123, 0)}
    for _, r in rooms.values():
        r.metadata()
    pair.run()
    rooms[1][end == "receiver"].abort()
    pair.run()
    for number, (s, r) in rooms.items():
        if number != 1:
            s.send_all(2)
        pair.run()
        assert s.state is r.state is (KVPoll.Failed if number == 1 else KVPoll.Success)


@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_no_attempt_uses_a_key_again_whatever_became_of_the_last_one(push: bool) -> None:
    """A request that is tried again under the same room: a pull or a push that is left over finds nothing (J15, J25)."""
    pair = Pair(push).linked()
    for number in range(6):
        s, r = pair.both()
        r.metadata()
        s.send_all(2)
        if number % 2:
            r.abort("preempted")
        pair.run()
    keys = [out.key for process in (pair.p, pair.d) for out in process.outputs if isinstance(out, Expose | OfferPart)]
    assert len(keys) >= 6
    assert len(set(keys)) == len(keys)
