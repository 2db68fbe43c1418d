"""Positional frames: what is predicted, and that the readers fail where engines do."""

from __future__ import annotations

import struct
from importlib.resources import files

import msgspec
import pytest

from kvpoll.protocol.evolution.encodings import ENCODINGS, READ_ERRORS, Value, flat
from kvpoll.protocol.evolution.slots import Layout, LayoutFile, Slot, Variant, Verdict, frames_of, predict


def layout(
    name: str, *slots: tuple[str, str] | tuple[str, str, bool], least: int | None = None, exactly: str = ""
) -> Layout:
    frames = tuple(
        Slot(slot=at, name=slot[0], enc=slot[1], optional=len(slot) > 2 and bool(slot[2]))
        for at, slot in enumerate(slots)
    )
    return Layout(
        id=name, backend="b", message="m", frames=frames, receiver_min_frames=least, receiver_frames=exactly
    )  # fmt: skip


ROOM, INDICES, AUX, STATE = (
    ("room", "ascii-int"),
    ("kv_indices", "i32np[]"),
    ("aux_index", "ascii-int"),
    ("state_indices", "i32np[]"),
)
OLD = layout("old", ROOM, INDICES, AUX, least=3)


def verdicts(sender: Layout, receiver: Layout) -> tuple[Verdict, Verdict]:
    return predict(sender, receiver, Variant.FULL).verdict, predict(sender, receiver, Variant.PLAIN).verdict


def test_a_layout_understands_itself() -> None:
    assert verdicts(OLD, OLD) == (Verdict.OK, Verdict.OK)


def test_an_inserted_slot_raises_when_it_is_used_and_is_misread_when_empty() -> None:
    new = layout("new", ROOM, INDICES, (*STATE, True), AUX)
    assert verdicts(new, OLD) == (Verdict.RAISES, Verdict.RAISES)
    swapped = layout("swapped", ROOM, AUX, INDICES)
    assert predict(swapped, OLD, Variant.FULL).verdict is Verdict.RAISES


def test_two_numbers_that_change_places_are_misread_in_silence() -> None:
    one, two = (
        layout("1", ("rank", "ascii-int"), ("size", "ascii-int")),
        layout("2", ("size", "ascii-int"), ("rank", "ascii-int")),
    )
    found = predict(one, two, Variant.FULL)
    assert found.verdict is Verdict.SILENT
    assert {what.partition("=")[0] for what in found.wrong} == {"rank", "size"}


def test_wider_words_are_misread_and_narrower_ones_only_with_an_odd_count() -> None:
    wide = layout("wide", ROOM, ("kv_indices", "i64np[]"), AUX)
    assert predict(wide, OLD, Variant.FULL).verdict is Verdict.SILENT
    back = predict(OLD, wide, Variant.FULL)
    assert (back.verdict, back.worst) == (Verdict.RAISES, Verdict.SILENT)


def test_an_appended_slot_is_ignored_by_the_old_and_defaulted_by_the_new_receiver() -> None:
    new = layout("new", ROOM, INDICES, AUX, ("prefix", "ascii-int", True))
    assert predict(new, OLD, Variant.FULL).ignored == ("prefix",)
    assert predict(OLD, new, Variant.FULL).defaulted == ("prefix",)


def test_a_slot_that_must_be_there_and_is_not_raises() -> None:
    new = layout("new", ROOM, INDICES, AUX, ("prefix", "ascii-int"))
    assert "prefix" in predict(OLD, new, Variant.FULL).detail


@pytest.mark.parametrize("said", ["exactly 2 (tuple unpack)", ">=4; malformed is dropped"])
def test_a_count_that_the_receiver_insists_on_is_held(said: str) -> None:
    picky = layout("picky", ROOM, INDICES, AUX, exactly=said)
    assert predict(OLD, picky, Variant.FULL).verdict is Verdict.RAISES


def test_a_slot_that_only_got_another_name_is_the_same_slot() -> None:
    renamed = layout("renamed", ROOM, INDICES, ("aux_slot", "ascii-int"))
    assert verdicts(OLD, renamed) == (Verdict.OK, Verdict.OK)


def test_a_discriminator_whose_text_is_not_given_is_the_one_that_is() -> None:
    def tagged(note: str) -> Layout:
        frames = (Slot(slot=0, name="tag", enc="literal", note=note), Slot(slot=1, name="room", enc="ascii-int"))
        return Layout(id=note or "none", backend="b", message="m", frames=frames)

    said, silent, another = tagged("literal 'ABORT'"), tagged(""), tagged("literal 'ACK'")
    assert verdicts(said, silent) == verdicts(silent, said) == (Verdict.OK, Verdict.OK)
    assert verdicts(said, another) == (Verdict.RAISES, Verdict.RAISES)
    assert verdicts(OLD, said)[0] is Verdict.RAISES


def test_state_and_staging_are_sent_empty_in_a_plain_message() -> None:
    frames, values = frames_of(layout("l", ROOM, STATE, ("staging_ptr", "u64"), ("layer_ids", "u32[]")), Variant.PLAIN)
    assert [bool(frame) for frame in frames] == [True, False, False, False]
    assert values["state_indices"] is None


def test_an_unknown_encoding_or_slots_out_of_order_are_named() -> None:
    with pytest.raises(ValueError, match=r"x: slot 0 \(a\): enc: expected one of"):
        predict(layout("x", ("a", "morse")), OLD, Variant.FULL)
    twice = Layout(
        id="t", backend="b", message="m", frames=(Slot(slot=1, name="a", enc="u64"), Slot(slot=1, name="b", enc="u64"))
    )
    with pytest.raises(ValueError, match="t: slots: expected ascending"):
        predict(twice, OLD, Variant.FULL)


SAMPLES: dict[str, Value] = {
    "int": 17, "text": "text", "words": ["VRAM", "DRAM"], "ints": [1, 2, 300], "lists": [[1, 2], [3]], "bytes": b"\xc1\x00",
    "blobs": [b"a", b"b"], "nested blobs": [[b"a", None], []],
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_reads_what_it_wrote(name: str) -> None:
    encoding = ENCODINGS[name]
    value: Value = True if name == "bool01" else SAMPLES[encoding.holds]
    assert flat(encoding.read(encoding.write(value))) == flat(value)


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("ascii-int", b""), ("ascii-int", b"1a"), ("ascii-int", b"\xff"), ("ascii-str", b"\x80"), ("u64[]", b"12345"),
        ("u32[]", b"1"), ("u64", b"1234"), ("u32be", b""), ("i64np[]", b"1234"), ("i32np[]", b"123"), ("nested<i32>", b"1"),
        ("nested<u64>", struct.pack("<I", 7)), ("nested<u32>", b"\xff\xff\xff\xff"), ("msgpack-bin[]", b"\x07"),
        ("nested-msgpack", b"\xc1"),
    ],
)  # fmt: skip
def test_an_encoding_raises_for_what_engines_choke_on(name: str, frame: bytes) -> None:
    with pytest.raises(READ_ERRORS):
        ENCODINGS[name].read(frame)


class History(LayoutFile, frozen=True, kw_only=True):
    """Layouts of one engine's releases, and what was measured with its real parsers: sender, receiver, variant, outcome."""

    measured: tuple[tuple[str, str, str, str], ...]


HISTORY = msgspec.json.decode(files("kvpoll.spec").joinpath("history", "slots.json").read_bytes(), type=History)


def test_what_was_measured_on_a_real_engine_is_predicted() -> None:
    wrong, missed = [], []
    for sender, receiver, variant, outcome in HISTORY.measured:
        said = predict(HISTORY.layouts[sender], HISTORY.layouts[receiver], Variant(variant)).verdict.value
        if said != outcome:
            wrong.append((sender, receiver, variant, outcome, said))
        if outcome == "silent-misread" and said == "ok":
            missed.append((sender, receiver, variant))
    assert len(HISTORY.measured) == 264
    assert missed == [], "silent corruption was called ok"
    assert wrong == []
