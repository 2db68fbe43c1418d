"""Aux slots say whose they are: empty, right and wrong are three different answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.runtime.aux_slots import AuxAnswer, AuxSlots, aux_content, aux_frame
from kvpoll.spec.wire import Fingerprint

REQUEST = Fingerprint(tokens=9, prefix=2, digest=b"ids")
OTHERS = [
    (8, REQUEST),
    (7, Fingerprint(tokens=8, prefix=2, digest=b"ids")),
    (7, Fingerprint(tokens=9, prefix=1, digest=b"ids")),
    (7, Fingerprint(tokens=9, prefix=2, digest=b"idz")),
]


def slot_of(slots: AuxSlots) -> int:
    slot = slots.allocate()
    assert slot is not None
    return slot


def test_a_slot_that_was_never_written_is_empty() -> None:
    slots = AuxSlots(1, 16)
    assert slots.read(slot_of(slots), 7, REQUEST) == (AuxAnswer.EMPTY, b"")


@pytest.mark.parametrize("content", [b"", b"x", b"exactly sixteen."])
@pytest.mark.parametrize("room", [0, 7, 2**64 - 1])
def test_a_slot_is_right_for_its_own_request(room: int, content: bytes) -> None:
    slots = AuxSlots(2, 16)
    slot = slot_of(slots)
    slots.write(slot, room, REQUEST, content)
    assert slots.read(slot, room, REQUEST) == (AuxAnswer.RIGHT, content)


@pytest.mark.parametrize(("room", "request_"), OTHERS)
def test_a_slot_is_wrong_for_any_other_request(room: int, request_: Fingerprint) -> None:
    slots = AuxSlots(1, 16)
    slot = slot_of(slots)
    slots.write(slot, 7, REQUEST, b"mine")
    assert slots.read(slot, room, request_) == (AuxAnswer.WRONG, b"")


def test_a_slot_that_was_given_back_is_empty_for_the_next_owner() -> None:
    slots = AuxSlots(1, 16)
    slot = slot_of(slots)
    slots.write(slot, 7, REQUEST, b"mine")
    slots.free(slot)
    assert slots.read(slot_of(slots), 7, REQUEST)[0] is AuxAnswer.EMPTY


def test_what_one_slot_sends_another_can_take_in() -> None:
    slots = AuxSlots(2, 16)
    a, b = slot_of(slots), slot_of(slots)
    slots.write(a, 7, REQUEST, b"first token")
    slots.put(b, slots.frame(a))
    assert slots.read(b, 7, REQUEST) == (AuxAnswer.RIGHT, b"first token")


def test_a_frame_of_an_unwritten_slot_says_that_it_is_empty() -> None:
    slots = AuxSlots(1, 16)
    assert aux_content(slots.frame(slot_of(slots)), 7, REQUEST)[0] is AuxAnswer.EMPTY


@given(st.integers(0, 100))
def test_a_frame_that_was_cut_is_wrong(length: int) -> None:
    frame = aux_frame(7, REQUEST, b"content")
    if length < frame.size:
        assert aux_content(frame[:length], 7, REQUEST)[0] is AuxAnswer.WRONG


@given(st.binary(max_size=80))
def test_noise_is_never_right(noise: bytes) -> None:
    assert aux_content(np.frombuffer(noise, np.uint8), 7, REQUEST)[0] is not AuxAnswer.RIGHT


def test_a_length_that_points_past_the_frame_is_wrong() -> None:
    frame = aux_frame(7, REQUEST, b"content").copy()
    frame[28:32] = 255
    assert aux_content(frame, 7, REQUEST)[0] is AuxAnswer.WRONG


def test_slots_run_out_and_come_back() -> None:
    slots = AuxSlots(2, 16)
    a, b = slot_of(slots), slot_of(slots)
    assert slots.allocate() is None
    assert slots.lent == 2
    slots.free(a)
    assert slots.allocate() == a
    slots.free(b)
    assert slots.lent == 1


@pytest.mark.parametrize("slot", [-1, 1, 2, 99])
def test_a_slot_that_is_not_lent_is_refused_by_name(slot: int) -> None:
    slots = AuxSlots(2, 16)
    slot_of(slots)
    frame = aux_frame(7, REQUEST, b"")
    for call in (
        lambda: slots.free(slot),
        lambda: slots.write(slot, 7, REQUEST, b""),
        lambda: slots.put(slot, frame),
        lambda: slots.read(slot, 7, REQUEST),
        lambda: slots.frame(slot),
    ):
        with pytest.raises(LocalProtocolError, match=f"slot: expected a slot that is lent, got {slot}") as caught:
            call()
        assert caught.value.details["field"] == "slot"


def test_content_that_does_not_fit_is_refused_and_the_slot_stays_as_it_was() -> None:
    slots = AuxSlots(1, 4)
    slot = slot_of(slots)
    slots.write(slot, 7, REQUEST, b"1234")
    with pytest.raises(LocalProtocolError, match="content: expected at most 4 bytes, got 5"):
        slots.write(slot, 8, REQUEST, b"12345")
    with pytest.raises(LocalProtocolError, match="aux: expected at most"):
        slots.put(slot, aux_frame(8, REQUEST, b"12345"))
    assert slots.read(slot, 7, REQUEST) == (AuxAnswer.RIGHT, b"1234")


@pytest.mark.parametrize("nbytes", [0, -1, 65_536])
def test_a_slot_size_that_no_message_can_carry_is_refused(nbytes: int) -> None:
    with pytest.raises(LocalProtocolError, match="nbytes: expected 1 to 65488"):
        AuxSlots(1, nbytes)
