"""Typed aux records: found by tag, checked by name, and never zeros for what was not written."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kvpoll.protocol.aux import (
    AuxLayout,
    aux_duty,
    check_aux_duty,
    speculative_fields,
    speculative_lacks,
    tag_of,
)
from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.spec import Cause
from kvpoll.spec.aux import AUX_DTYPES, AUX_FIELDS, OWN_TAGS
from kvpoll.spec.wire import AuxField, AuxSchema, Registration, Speculative

from .wire_values import registration

IDS = AuxField("output_ids", "int32", (1,))
LOGPROBS = AuxField("token_logprobs", "float32", (1,))
EAGLE = Speculative(algorithm="EAGLE", draft_tokens=4, topk=8, hidden_size=64)
DRAFT = speculative_fields(EAGLE, "bfloat16")
FULL = AuxLayout([IDS, LOGPROBS, *DRAFT])


def values(tokens: int = 1) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    rng = np.random.default_rng(7)
    return {
        "output_ids": np.array([5] * tokens, np.int32),
        "token_logprobs": np.array([-0.5] * tokens, np.float32),
        "topk_p": rng.random((1, 8), np.float32),
        "topk_index": np.arange(8, dtype=np.int64)[None],
        "hidden_states": rng.integers(0, 65536, (1, 64)).astype(np.uint16),
    }


def refused(layout: AuxLayout, content: bytes) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        layout.decode(content)
    return caught.value


# -- what goes in comes out ------------------------------------------------------------------------------------------------
def test_a_record_comes_back_bit_for_bit_in_the_shape_that_was_agreed() -> None:
    given_, record = values(), FULL.decode(FULL.encode(values()))
    assert list(record) == list(given_)
    for name, array in given_.items():
        assert record[name].dtype == array.dtype
        assert record[name].shape == array.shape
        assert record[name].tobytes() == array.tobytes()
    assert record.skipped == ()


@pytest.mark.parametrize("dtype", AUX_DTYPES.values(), ids=AUX_DTYPES)
def test_every_dtype_of_a_field_of_the_engines_own_survives(dtype: object) -> None:
    name = dtype.name  # type: ignore[attr-defined]
    layout = AuxLayout([AuxField("mine", name, (2, 3))])
    bits = np.arange(6 * AUX_DTYPES[name].nbytes, dtype=np.uint8).view(AUX_DTYPES[name].carrier).reshape(2, 3)
    assert layout.decode(layout.encode({"mine": bits}))["mine"].tobytes() == bits.tobytes()


def test_an_array_whose_dtype_numpy_only_knows_from_elsewhere_is_taken_by_its_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    layout = AuxLayout([AuxField("hidden_states", "bfloat16", (1, 4))])
    array = np.array([[1.5, -2.0, 0.0, 3.25]], ml_dtypes.bfloat16)
    record = layout.decode(layout.encode({"hidden_states": array}))
    assert record["hidden_states"].dtype == np.uint16
    assert record["hidden_states"].view(ml_dtypes.bfloat16).tolist() == array.tolist()


def test_an_array_that_is_not_contiguous_or_of_the_other_byte_order_is_written_right() -> None:
    layout = AuxLayout([AuxField("mine", "int32", (2, 3))])
    array = np.arange(6, dtype=np.int32).reshape(3, 2).T
    for each in (array, array.astype(">i4")):
        assert layout.decode(layout.encode({"mine": each}))["mine"].tolist() == array.tolist()


def test_a_layout_says_how_many_bytes_a_whole_record_takes() -> None:
    assert len(FULL.encode(values())) == FULL.nbytes


# -- absent is not zero ----------------------------------------------------------------------------------------------------
def test_a_field_that_was_not_written_is_not_there_and_a_zero_is() -> None:
    given_ = values()
    given_.pop("token_logprobs")
    given_["output_ids"][:] = 0
    record = FULL.decode(FULL.encode(given_))
    assert "token_logprobs" not in record
    assert "output_ids" in record
    assert record["output_ids"].tolist() == [0]
    with pytest.raises(LocalProtocolError, match=r"aux\.token_logprobs: was not written") as caught:
        record["token_logprobs"]
    assert caught.value.cause is Cause.DATA_MISSING


@pytest.mark.parametrize("name", ["output_ids", "topk_p", "topk_index", "hidden_states"])
def test_what_is_always_written_is_missed_by_name_at_both_ends(name: str) -> None:
    given_ = values()
    given_.pop(name)
    with pytest.raises(LocalProtocolError, match=rf"aux\.{name}: expected to be written") as caught:
        FULL.encode(given_)
    assert caught.value.cause is Cause.DATA_MISSING
    less = AuxLayout([field for field in (IDS, LOGPROBS, *DRAFT) if field.name != name])  # a peer that does not have it
    error = refused(FULL, less.encode(given_))
    assert (error.tag, error.cause) == (f"aux.{name}", Cause.DATA_MISSING)


def test_a_field_of_the_engines_own_is_always_written_unless_it_says_that_it_need_not_be() -> None:
    mine = AuxField("mine", "int32", (1,))
    with pytest.raises(LocalProtocolError, match=r"aux\.mine: expected to be written"):
        AuxLayout([mine]).encode({})
    assert len(AuxLayout([mine], optional=["mine"]).decode(AuxLayout([mine], optional=["mine"]).encode({}))) == 0


# -- by tag ----------------------------------------------------------------------------------------------------------------
def test_the_order_of_the_fields_means_nothing() -> None:
    other = AuxLayout([*DRAFT, LOGPROBS, IDS])
    record = FULL.decode(other.encode(values()))
    assert record["output_ids"].tolist() == [5]
    assert list(record) == list(FULL.names)


def test_fields_that_this_end_does_not_know_are_skipped_told_and_kept_out() -> None:
    newer = AuxLayout([AuxField("accept_rate", "float64", (3,)), IDS, AuxField("notes", "uint8", (100,))])
    older = AuxLayout([IDS])
    content = newer.encode(
        {"accept_rate": np.ones(3), "output_ids": np.array([9], np.int32), "notes": np.full(100, 7, np.uint8)}
    )
    record = older.decode(content)
    assert list(record) == ["output_ids"]
    assert record.skipped == (tag_of("accept_rate"), tag_of("notes"))
    assert older.known(content) == older.encode({"output_ids": np.array([9], np.int32)})
    assert len(older.known(content)) == older.nbytes


def test_declared_fields_have_their_tags_and_others_get_one_from_their_name() -> None:
    assert {name: tag_of(name) for name in AUX_FIELDS} == {name: spec.tag for name, spec in AUX_FIELDS.items()}
    assert tag_of("first_token") == tag_of("first_token") >= OWN_TAGS
    assert tag_of("first_token") != tag_of("first_tokens")
    assert tag_of("x" * 64) < 1 << 32


# -- named refusals ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("field", "said"),
    [
        (AuxField("mine", "complex64", (1,)), r"aux\.mine: expected a dtype of bool"),
        (AuxField("mine", "int32", ()), r"aux\.mine: expected 1 to 8 axes"),
        (AuxField("mine", "int32", (2, 0)), r"aux\.mine: expected 1 to 8 axes"),
        (AuxField("output_ids", "float32", (1,)), r"aux\.output_ids: expected int32 or int64, got float32"),
        (AuxField("topk_p", "float32", (8,)), r"aux\.topk_p: expected axes \(tokens, topk\), got \(8,\)"),
        (AuxField("topk_index", "int64", (1, 17)), r"aux\.topk_index: expected topk of at most 16, got 17"),
        (AuxField("top_logprobs", "float32", (1, 129)), r"aux\.top_logprobs: expected top of at most 128, got 129"),
    ],
    ids=lambda value: f"{value.name}-{value.dtype}-{value.shape}" if isinstance(value, AuxField) else "",
)
def test_a_field_that_is_not_what_is_declared_of_it_is_refused_by_name(field: AuxField, said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said) as caught:
        AuxLayout([field])
    assert caught.value.details["field"] == f"aux.{field.name}"


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match=r"aux\.output_ids: expected one field of this name and tag"):
        AuxLayout([IDS, IDS])


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("output_ids", np.zeros(1, np.int64), "expected int32, got int64"),
        ("output_ids", np.zeros(2, np.int32), r"expected shape \(1,\), got \(2,\)"),
        ("topk_p", np.zeros((8, 1), np.float32), r"expected shape \(1, 8\), got \(8, 1\)"),
        ("hidden_states", np.zeros((1, 64), np.float16), "expected bfloat16, got float16"),
        ("draft", np.zeros(1, np.int32), "expected one of output_ids"),
    ],
)
def test_an_array_that_does_not_fit_its_field_is_refused_by_name(
    name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], said: str
) -> None:
    with pytest.raises(LocalProtocolError, match=rf"aux\.{name}: {said}") as caught:
        FULL.encode(values() | {name: array})
    assert caught.value.details["field"] == f"aux.{name}"


@pytest.mark.parametrize(
    ("field", "array"),
    [
        (AuxField("output_ids", "int64", (1,)), np.zeros(1, np.int64)),
        (AuxField("output_ids", "int32", (2,)), np.zeros(2, np.int32)),
    ],
)
def test_a_field_that_arrives_with_another_dtype_or_shape_is_a_mismatch(
    field: AuxField, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> None:
    """The handshake refuses such a pair; this is the second wall."""
    error = refused(AuxLayout([IDS]), AuxLayout([field]).encode({"output_ids": array}))
    assert (error.tag, error.cause) == ("aux.output_ids", Cause.AUX_MISMATCH)


# -- what a peer may send ----------------------------------------------------------------------------------------------------
@given(st.binary(max_size=200))
def test_noise_is_refused_and_does_no_harm(noise: bytes) -> None:
    assert refused(FULL, noise).cause is Cause.PROTOCOL


@given(st.integers(0, FULL.nbytes - 1))
def test_a_record_that_was_cut_is_refused_or_lacks_no_more_than_padding(length: int) -> None:
    content = FULL.encode(values())
    try:
        record = FULL.decode(content[:length])
    except RemoteProtocolError:
        return
    assert len(record) == len(values())
    assert length > len(content) - 8


@given(st.integers(0, FULL.nbytes - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_changes_one_field_only(at: int, byte: int) -> None:
    content = bytearray(FULL.encode(values()))
    content[at] = byte
    try:
        record = FULL.decode(bytes(content))
    except RemoteProtocolError:
        return
    assert sum(record[name].tobytes() != array.tobytes() for name, array in values().items() if name in record) <= 1


def test_a_tag_that_comes_twice_is_refused() -> None:
    layout = AuxLayout([IDS])
    content = layout.encode({"output_ids": np.zeros(1, np.int32)})
    twice = content[:6] + struct.pack("<H", 2) + content[8:] * 2
    assert refused(layout, twice).expected == "every tag once"


# -- speculative decoding and pipeline stages ----------------------------------------------------------------------------------
def end(aux: AuxSchema | None, speculative: Speculative | None = EAGLE) -> Registration:
    base = registration()
    found = replace(base, speculative=speculative) if speculative is not None else base
    return replace(found, aux=aux) if aux is not None else found


def test_the_fields_of_a_draft_follow_from_its_setting() -> None:
    assert [(field.name, field.shape) for field in DRAFT] == [
        ("topk_p", (1, 8)), ("topk_index", (1, 8)), ("hidden_states", (1, 64)),
    ]  # fmt: skip
    assert speculative_fields(replace_setting(topk=0, hidden_size=0), "bfloat16") == ()
    with pytest.raises(LocalProtocolError, match=r"aux\.topk_p: expected topk of at most 16, got 17"):
        speculative_fields(replace_setting(topk=17), "bfloat16")


def replace_setting(**changes: int) -> Speculative:
    return EAGLE._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("left", range(len(DRAFT)))
def test_an_end_that_drafts_without_a_field_that_the_draft_starts_from_is_told_which(left: int) -> None:
    fields = [field for at, field in enumerate(DRAFT) if at != left]
    assert speculative_lacks(end(AuxSchema.of(fields))) == (DRAFT[left].name,)


def test_an_end_lacks_nothing_when_its_schema_has_it_all_or_it_does_not_draft() -> None:
    assert speculative_lacks(end(AuxSchema.of(DRAFT))) == ()
    assert speculative_lacks(end(AuxSchema.of(DRAFT), replace_setting(hidden_size=65))) == ("hidden_states",)
    assert speculative_lacks(end(AuxSchema.of([IDS]), replace_setting(topk=0, hidden_size=0))) == ()


@pytest.mark.parametrize(
    ("pp_rank", "pp_size", "cp_rank", "duty"),
    [(0, 1, 0, True), (0, 2, 0, False), (1, 2, 0, True), (2, 4, 0, False), (3, 4, 0, True), (1, 2, 1, False)],
)
def test_only_the_last_pipeline_stage_sends_aux_data(pp_rank: int, pp_size: int, cp_rank: int, duty: bool) -> None:
    assert aux_duty(pp_rank=pp_rank, pp_size=pp_size, cp_rank=cp_rank) is duty
    check_aux_duty(None, pp_rank=pp_rank, pp_size=pp_size, cp_rank=cp_rank)
    if duty:
        check_aux_duty(3, pp_rank=pp_rank, pp_size=pp_size, cp_rank=cp_rank)
    else:
        with pytest.raises(LocalProtocolError, match="aux_index: expected at") as caught:
            check_aux_duty(3, pp_rank=pp_rank, pp_size=pp_size, cp_rank=cp_rank)
        assert caught.value.details["field"] == ("pp_rank" if pp_rank != pp_size - 1 else "cp_rank")
