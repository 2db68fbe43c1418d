"""The declared aux fields: tags and names are given once, and every field says why it is there."""

from __future__ import annotations

from kvpoll.spec.aux import AUX_DTYPES, AUX_FIELDS, AUX_LIMITS, AUX_RESERVED, MAX_TOPK, OWN_TAGS, Written


def test_tags_are_given_once_and_deleted_ones_are_not_given_again() -> None:
    tags = [spec.tag for spec in AUX_FIELDS.values()]
    assert len(set(tags)) == len(tags)
    assert not set(tags) & set(AUX_RESERVED)
    assert all(0 < tag < OWN_TAGS for tag in tags)


def test_tags_and_names_are_those_that_were_given() -> None:
    """A slot has tags, a handshake has names: neither may move to another field. Add to this list, never change it."""
    assert {name: spec.tag for name, spec in AUX_FIELDS.items()} == {
        "attempt": 1, "output_ids": 2, "cached_tokens": 3, "token_logprobs": 4, "token_logprob_ids": 5, "top_logprobs": 6,
        "top_logprob_ids": 7, "topk_p": 8, "topk_index": 9, "hidden_states": 10,
    }  # fmt: skip
    assert {name: dtype.number for name, dtype in AUX_DTYPES.items()} == {
        "bool": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "uint32": 6, "int32": 7, "uint64": 8, "int64": 9,
        "float16": 10, "bfloat16": 11, "float32": 12, "float64": 13, "float8_e4m3fn": 14, "float8_e5m2": 15,
    }  # fmt: skip


def test_every_field_has_dtypes_axes_and_a_reason() -> None:
    for name, spec in AUX_FIELDS.items():
        assert name == spec.name
        assert spec.dtypes
        assert set(spec.dtypes) <= set(AUX_DTYPES)
        assert spec.shape
        assert set(spec.shape) <= set(AUX_LIMITS)
        assert spec.why


def test_what_a_draft_starts_from_is_always_written_and_nothing_else_but_the_first_token_is() -> None:
    always = {name for name, spec in AUX_FIELDS.items() if spec.written is Written.ALWAYS}
    assert {name for name, spec in AUX_FIELDS.items() if spec.speculative} == always - {"output_ids"}
    assert (AUX_LIMITS["topk"], MAX_TOPK) == (16, 16)
