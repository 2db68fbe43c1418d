"""Peers of other releases: the judge is fair, a misread is told from a refusal, and a real parser can take part."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec
import pytest

from kvpoll.model_tests.conformance.result import Verdict, read_result, write_result
from kvpoll.model_tests.conformance.wire_profiles import (
    ReadError,
    meet,
    newest,
    reader_of,
    replay,
    same_words,
    wire_result,
)
from kvpoll.protocol.evolution.encodings import Value
from kvpoll.protocol.evolution.slots import Layout, LayoutFile, Slot, Variant, predict
from kvpoll.protocol.evolution.slots import Verdict as Fate

LAYOUTS = same_words(
    msgspec.json.decode(
        files("kvpoll.spec").joinpath("history", "slots.json").read_bytes(), type=LayoutFile
    ).layouts.values()
)
BY_ID = {layout.id: layout for layout in LAYOUTS}


def layout(name: str, *slots: tuple[str, str], release: str = "1") -> Layout:
    frames = tuple(Slot(slot=at, name=field, enc=enc) for at, (field, enc) in enumerate(slots))
    return Layout(
        id=name, backend="b", message="m", frames=frames, direction="decode->prefill", first_release=release,
        last_release=release,
    )  # fmt: skip


OLD = layout("old", ("rank", "ascii-int"), ("size", "ascii-int"))
SWAPPED = layout("swapped", ("size", "ascii-int"), ("rank", "ascii-int"), release="2")


def test_the_judge_agrees_with_what_is_predicted_for_every_pair_of_releases() -> None:
    pairs = [(a, b) for a in LAYOUTS for b in LAYOUTS if (a.backend, a.message) == (b.backend, b.message)]
    wrong = [
        (a.id, b.id, variant.value)
        for a, b in pairs
        for variant in Variant
        if meet(a, reader_of(b), b, variant).fate is not predict(a, b, variant).worst
    ]
    assert len(pairs) > 150
    assert wrong == []


def test_a_release_understands_itself() -> None:
    assert {case.verdict for case in replay(OLD, [OLD])} == {Verdict.PASS}


def test_two_fields_that_change_places_are_a_failure_in_both_directions() -> None:
    cases = list(replay(SWAPPED, [OLD, SWAPPED]))
    assert [case.verdict for case in cases if "old" in case.id] == [Verdict.FAIL] * 4
    assert {case.broken for case in cases if case.verdict is Verdict.FAIL} == {("KVX-WIRE-1",)}
    assert any("rank = " in case.reason and "was sent" in case.reason for case in cases)


def test_a_refusal_is_not_strict_and_no_failure() -> None:
    longer = layout("longer", ("rank", "ascii-int"), ("size", "ascii-int"), ("more", "ascii-int"), release="2")
    met = [case for case in replay(longer, [OLD]) if case.id.startswith("wire/b-m/old-to-longer")]
    assert {case.verdict for case in met} == {Verdict.NON_STRICT}
    assert {case.broken for case in met} == {("KVX-WIRE-2",)}


def test_a_real_parser_takes_the_place_of_the_layout_and_is_given_the_bytes() -> None:
    seen: list[tuple[str, list[bytes]]] = []

    def parser(message: str, frames: Sequence[bytes]) -> Mapping[str, Value]:
        seen.append((message, list(frames)))
        return {"rank": int(frames[0]), "size": int(frames[1])}

    (own, *_) = replay(OLD, [OLD], parser)
    assert own.verdict is Verdict.PASS
    assert seen[0][0] == "m"
    assert all(frame.isdigit() for frame in seen[0][1])


@pytest.mark.parametrize("error", [ReadError("no"), ValueError("no"), struct.error("no"), OverflowError("no")])
def test_what_parsers_raise_is_a_refusal(error: Exception) -> None:
    def parser(message: str, frames: Sequence[bytes]) -> Mapping[str, Value]:
        raise error

    assert meet(OLD, parser, OLD, Variant.FULL).fate is Fate.RAISES


def test_a_parser_that_makes_a_value_up_is_found_out() -> None:
    def parser(message: str, frames: Sequence[bytes]) -> Mapping[str, Value]:
        return {"rank": int(frames[0]), "size": 7_777}

    met = meet(OLD, parser, OLD, Variant.FULL)
    assert met.fate is Fate.SILENT
    assert "size = 7777" in met.said


def test_lists_past_the_end_of_a_frame_are_read_as_engines_do_cut_off() -> None:
    """Measured on the parser of SGLang 0.5.23: a flat list of eight 32-bit numbers is seven empty lists to it."""
    met = meet(BY_ID["MC-META-5"], reader_of(BY_ID["MC-META-7"]), BY_ID["MC-META-7"], Variant.FULL)
    assert met.fate is Fate.SILENT
    assert "dst_state_indices = []" in met.said


def test_a_run_is_a_document_like_any_other(tmp_path) -> None:  # type: ignore[no-untyped-def]
    result = wire_result("sglang", "0.5.23", newest(LAYOUTS), LAYOUTS)
    ids = [case.id for case in result.cases]
    assert len(ids) == len(set(ids)) > 80
    assert {case.verdict for case in result.cases} == {Verdict.PASS, Verdict.NON_STRICT, Verdict.FAIL}
    named = {each.id for each in result.requirements}
    assert all(set(case.requirements) <= named for case in result.cases)
    write_result(result, tmp_path / "wire.json")
    assert read_result(tmp_path / "wire.json") == result
