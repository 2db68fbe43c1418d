"""Typed records in aux slots, and whose attempt they are of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.aux import Attempt, AuxLayout, speculative_fields, tag_of
from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.runtime.aux_slots import AuxAnswer, AuxSlots, aux_content, aux_fault, aux_frame
from kvpoll.spec import Cause
from kvpoll.spec.wire import AuxField, Fingerprint, Speculative

REQUEST = Fingerprint(tokens=9, prefix=2, digest=b"ids")
MINE, OLD = Attempt(engine=11, gen=4), Attempt(engine=11, gen=3)
IDS = AuxField("output_ids", "int32", (1,))
DRAFT = speculative_fields(Speculative(algorithm="EAGLE", draft_tokens=4, topk=2, hidden_size=8), "bfloat16")
LAYOUT = AuxLayout([IDS, *DRAFT])
FIELDS = {
    "output_ids": np.array([7], np.int32),
    "topk_p": np.array([[0.5, 0.25]], np.float32),
    "topk_index": np.array([[1, 2]], np.int64),
    "hidden_states": np.arange(8, dtype=np.uint16)[None],
}


def lent(slots: AuxSlots) -> int:
    slot = slots.allocate()
    assert slot is not None
    return slot


# -- records -------------------------------------------------------------------------------------------------------------
def test_a_record_travels_from_one_slot_to_another() -> None:
    here, there = AuxSlots(1, layout=LAYOUT), AuxSlots(1, layout=LAYOUT)
    a, b = lent(here), lent(there)
    here.fill(a, 7, REQUEST, FIELDS)
    there.put(b, here.frame(a, MINE))
    record = there.record(b, 7, REQUEST, MINE)
    assert {name: record[name].tolist() for name in record} == {name: a.tolist() for name, a in FIELDS.items()}


def test_a_slot_with_a_layout_is_as_large_as_a_whole_record() -> None:
    assert AuxSlots(1, layout=LAYOUT).nbytes == LAYOUT.nbytes
    assert AuxSlots(1, LAYOUT.nbytes + 5, layout=LAYOUT).nbytes == LAYOUT.nbytes + 5
    with pytest.raises(LocalProtocolError, match=f"nbytes: expected at least {LAYOUT.nbytes}"):
        AuxSlots(1, LAYOUT.nbytes - 1, layout=LAYOUT)


def test_a_layout_that_no_message_can_carry_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="nbytes: expected 1 to"):
        AuxSlots(1, layout=AuxLayout([AuxField("hidden_states", "float32", (1, 32_768))]))


def test_a_slot_that_was_never_written_has_no_fields_and_is_not_zeros() -> None:
    slots = AuxSlots(1, layout=LAYOUT)
    with pytest.raises(LocalProtocolError, match="aux: expected a slot of room 0, which is empty") as caught:
        slots.record(lent(slots), 0, REQUEST)
    assert caught.value.cause is Cause.DATA_MISSING


def test_a_slot_of_another_request_is_a_mismatch() -> None:
    slots = AuxSlots(1, layout=LAYOUT)
    slot = lent(slots)
    slots.fill(slot, 7, REQUEST, FIELDS)
    with pytest.raises(LocalProtocolError, match="aux: expected a slot of room 8, which is wrong") as caught:
        slots.record(slot, 8, REQUEST)
    assert caught.value.cause is Cause.AUX_MISMATCH


def test_slots_without_a_layout_hold_bytes_only() -> None:
    slots = AuxSlots(1, 64)
    slot = lent(slots)
    for call in (lambda: slots.fill(slot, 7, REQUEST, FIELDS), lambda: slots._typed().decode(b"")):
        with pytest.raises(LocalProtocolError, match="layout: these aux slots were made without one"):
            call()


def test_a_field_that_is_always_written_is_missed_before_anything_is_sent_and_the_slot_stays_empty() -> None:
    slots = AuxSlots(1, layout=LAYOUT)
    slot = lent(slots)
    with pytest.raises(LocalProtocolError, match=r"aux\.hidden_states: expected to be written"):
        slots.fill(slot, 7, REQUEST, {name: a for name, a in FIELDS.items() if name != "hidden_states"})
    assert slots.read(slot, 7, REQUEST)[0] is AuxAnswer.EMPTY


def test_what_a_peer_added_is_kept_out_of_the_slot_even_when_it_would_not_fit() -> None:
    newer = AuxLayout([AuxField("extra", "uint8", (4096,)), IDS, *DRAFT])
    sent = AuxSlots(1, layout=newer)
    a = lent(sent)
    sent.fill(a, 7, REQUEST, FIELDS | {"extra": np.full(4096, 0xEE, np.uint8)})
    slots = AuxSlots(1, layout=LAYOUT)
    slot = lent(slots)
    slots.put(slot, sent.frame(a, MINE))
    record = slots.record(slot, 7, REQUEST, MINE)
    assert set(record) == set(FIELDS)
    assert record.skipped == ()  # it was left out on the way in
    assert tag_of("extra").to_bytes(4, "little") not in slots.frame(slot).tobytes()
    assert b"\xee" * 8 not in slots.frame(slot).tobytes()


def test_nothing_of_a_longer_content_stays_behind_a_shorter_one() -> None:
    slots = AuxSlots(1, 64)
    slot = lent(slots)
    slots.write(slot, 7, REQUEST, b"a secret of the one before")
    slots.write(slot, 7, REQUEST, b"x")
    assert b"secret" not in slots._memory[slot].tobytes()


# -- attempts --------------------------------------------------------------------------------------------------------------
def test_a_slot_of_another_attempt_of_the_same_request_is_wrong() -> None:
    frame = aux_frame(7, REQUEST, b"x", OLD)
    assert aux_content(frame, 7, REQUEST, OLD) == (AuxAnswer.RIGHT, b"x")
    assert aux_content(frame, 7, REQUEST, MINE) == (AuxAnswer.WRONG, b"")
    assert aux_content(frame, 7, REQUEST, Attempt(12, 3)) == (AuxAnswer.WRONG, b"")


def test_an_attempt_that_one_end_does_not_state_is_not_compared() -> None:
    assert aux_content(aux_frame(7, REQUEST, b"x"), 7, REQUEST, MINE)[0] is AuxAnswer.RIGHT
    assert aux_content(aux_frame(7, REQUEST, b"x", MINE), 7, REQUEST)[0] is AuxAnswer.RIGHT


def test_the_attempt_is_stamped_on_what_is_sent_and_not_over_one_that_is_there() -> None:
    slots = AuxSlots(1, 16)
    slot = lent(slots)
    assert aux_content(slots.frame(slot, MINE), 7, REQUEST)[0] is AuxAnswer.EMPTY
    slots.write(slot, 7, REQUEST, b"x")
    assert aux_content(slots.frame(slot, MINE), 7, REQUEST, OLD)[0] is AuxAnswer.WRONG
    assert slots.read(slot, 7, REQUEST, OLD)[0] is AuxAnswer.RIGHT  # the slot itself says what it said
    slots.write(slot, 7, REQUEST, b"x", OLD)
    assert aux_content(slots.frame(slot, MINE), 7, REQUEST, OLD)[0] is AuxAnswer.RIGHT


# -- what is looked at before the engine may commit -------------------------------------------------------------------------
def frame_of(
    layout: AuxLayout, *without: str, attempt: Attempt = MINE
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    have = {name: FIELDS[name] for name in layout.names if name in FIELDS and name not in without}
    return aux_frame(7, REQUEST, layout.encode(have), attempt)


def test_a_frame_that_is_as_agreed_has_no_fault() -> None:
    assert aux_fault(frame_of(LAYOUT), 7, REQUEST, MINE, LAYOUT) is None
    assert aux_fault(aux_frame(7, REQUEST, b"any bytes"), 7, REQUEST, MINE) is None


@pytest.mark.parametrize("name", [field.name for field in DRAFT])
def test_speculative_data_that_was_not_written_is_a_fault_by_name(name: str) -> None:
    older = AuxLayout([field for field in (IDS, *DRAFT) if field.name != name])
    assert aux_fault(frame_of(older), 7, REQUEST, MINE, LAYOUT) == (f"aux.{name}: to be written", "nothing")


def test_a_frame_of_somebody_else_or_of_nobody_is_a_fault() -> None:
    assert aux_fault(frame_of(LAYOUT, attempt=OLD), 7, REQUEST, MINE, LAYOUT) == ("room 7", "wrong")
    assert aux_fault(np.zeros(80, np.uint8), 0, REQUEST, MINE, LAYOUT) == ("room 0", "empty")


def test_a_schema_with_the_attempt_wants_it_stated() -> None:
    layout = AuxLayout([AuxField("attempt", "uint64", (3,)), IDS])
    assert aux_fault(frame_of(layout), 7, REQUEST, MINE, layout) is None
    fault = aux_fault(frame_of(layout, attempt=Attempt()), 7, REQUEST, MINE, layout)
    assert fault == ("aux.attempt: to be stated", "nothing")


@given(st.binary(max_size=120), st.integers(0, 60))
def test_noise_is_a_fault_and_never_an_exception(noise: bytes, keep: int) -> None:
    frame = np.frombuffer(frame_of(LAYOUT).tobytes()[:keep] + noise, np.uint8)
    assert aux_fault(frame, 7, REQUEST, MINE, LAYOUT) is not None


@given(st.binary(max_size=64))
def test_noise_that_is_put_is_refused_or_reads_as_wrong(noise: bytes) -> None:
    slots = AuxSlots(1, layout=LAYOUT)
    slot = lent(slots)
    try:
        slots.put(slot, np.frombuffer(noise, np.uint8))
    except RemoteProtocolError:
        assert slots.read(slot, 7, REQUEST)[0] is AuxAnswer.EMPTY
        return
    assert slots.read(slot, 7, REQUEST)[0] is not AuxAnswer.RIGHT
