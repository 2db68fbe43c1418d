"""The bodies: what is refused and under which name, and what is ignored."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kvpoll.runtime.bootstrap.models import H5Put, RankEntry

BASE: dict[str, object] = {
    "engine_id": "engineA",
    "instance": "inst0",
    "control": "tcp://10.0.0.1:7000",
    "attn_tp_size": 1,
    "attn_tp_rank": 0,
    "page_size": 16,
    "kv_cache_dtype": "bfloat16",
}
H5: dict[str, object] = {
    "attn_tp_size": 2,
    "attn_tp_rank": 0,
    "attn_cp_size": 1,
    "attn_cp_rank": 0,
    "attn_dp_size": 1,
    "attn_dp_rank": 0,
    "pp_size": 1,
    "pp_rank": 0,
    "system_dp_size": 1,
    "system_dp_rank": 0,
    "rank_ip": "10.0.0.1",
    "rank_port": 7000,
    "page_size": 16,
    "kv_cache_dtype": "auto",
}


def rank(**changes: object) -> RankEntry:
    return RankEntry.model_validate(BASE | changes)


def h5(**changes: object) -> RankEntry:
    return H5Put.model_validate(H5 | changes).to_entry()


@pytest.mark.parametrize(
    "control",
    ["", "tcp://", "tcp://h", "tcp://:1", "tcp://h:0", "tcp://h:65536", "udp://h:1", "tcp://a b:1", "tcp://::1:5",
     "tcp://*:1", "tcp://h:1/x", "tcp://h:٣"],
)  # fmt: skip
def test_an_address_that_nobody_could_connect_to_is_refused(control: str) -> None:
    with pytest.raises(ValidationError, match="control"):
        rank(control=control)


@pytest.mark.parametrize(
    ("control", "address"),
    [("tcp://h-1.x:5", ("h-1.x", 5)), ("tcp://[::1]:65535", ("::1", 65535)), ("tcp://10.0.0.1:1", ("10.0.0.1", 1))],
)
def test_an_address_is_split_into_host_and_port(control: str, address: tuple[str, int]) -> None:
    assert rank(control=control).address() == address


@pytest.mark.parametrize("spelt", ["fd00::1", "[fd00::1]", "10.0.0.1", "host-7.cluster"])
def test_the_dialect_gives_a_host_back_as_the_engine_spelt_it(spelt: str) -> None:
    assert h5(rank_ip=spelt).address() == (spelt, 7000)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"attn_tp_rank": 1}, "attn_tp_rank"),
        ({"pp_size": 2, "pp_rank": 2}, "pp_rank"),
        ({"attn_dp_size": 2, "system_dp_size": 2}, "attn_dp_size"),
        ({"attn_tp_size": True}, "attn_tp_size"),
        ({"attn_tp_size": "1"}, "attn_tp_size"),
        ({"page_size": 0}, "page_size"),
        ({"attn_cp_size": 4097}, "attn_cp_size"),
        ({"kv_cache_dtype": "x" * 65}, "kv_cache_dtype"),
        ({"engine_id": ""}, "engine_id"),
        ({"role": "decode"}, "role"),
        ({"bootstrap": "n" * 65}, "bootstrap"),
        ({"transports": ["t"] * 17}, "transports"),
        ({"dsv41_spec_layout": {"x": float("nan")}}, "dsv41_spec_layout"),
        ({"dsv41_spec_layout": {"x": "y" * 4096}}, "dsv41_spec_layout"),
        ({"dsv41_spec_layout": {"x": [[]] * 70}}, "dsv41_spec_layout"),
    ],
)
def test_a_value_out_of_range_is_refused_and_the_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        rank(**changes)


def test_unknown_keys_are_ignored() -> None:
    assert rank(added_in_2030={"a": [1]}) == rank()
