"""Configuration: what a person can get wrong is refused, naming the field and what was expected."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from pydantic import ValidationError

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.runtime import Durations, EngineSpec, KVManager, ManagerConfig, Request, Role
from kvpoll.runtime.config import is_loopback
from kvpoll.runtime.register import registration_of
from kvpoll.runtime.resolve import RankAddress
from kvpoll.spec.support import COMBINATIONS
from kvpoll.spec.wire import ALONE, Dcp, Registration, Speculative

from .engines import SPEC, Engine, config


def engine(**changes: object) -> EngineSpec:
    return EngineSpec.model_validate(SPEC.model_dump() | changes)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"lost": 1, "beat": 0.5}, "lost", "at least three heartbeats"),
        ({"silence": 1}, "silence", "at least four re-sends"),
        ({"pairing": 1}, "pairing", "at least four re-sends"),
        ({"total": 1}, "total", "at least four re-sends"),
        ({"beat": 0}, "beat", "greater than 0"),
        ({"hello": -1}, "hello", "greater than 0"),
        ({"drain": 10**9}, "drain", "less than or equal to 86400"),
        ({"silense": 1}, "silense", "Extra inputs"),
    ],
)
def test_durations_that_cannot_work_are_refused(changes: dict[str, float], field: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        Durations(**changes)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"page_size": 0}, "page_size"),
        ({"layers": 0}, "layers"),
        ({"page_nbytes": 0}, "page_nbytes"),
        ({"tp_size": 2, "tp_rank": 2}, "tp_rank"),
        ({"dp_rank": 1}, "dp_rank"),
        ({"pp_rank": -1}, "pp_rank"),
        ({"layer_start": 2}, "layer_start"),
        ({"layer_stop": 3}, "layer_stop"),
        ({"layer_start": 1, "layer_stop": 1}, "layer_start"),
        ({"aux": [{"name": "a", "dtype": "int32", "shape": [1]}] * 2}, "aux"),
        ({"kv_dtyp": "x"}, "kv_dtyp"),
        ({"tp_size": 1 << 16}, "tp_size"),
        ({"dcp_size": 0}, "dcp_size"),
        ({"dcp_size": 3, "tp_size": 4, "mla": True}, "dcp_size: expected a divisor of tp_size (4), got 3"),
        ({"layer_start": 2, "layer_stop": 2}, "layer_start: expected below layer_stop (2), got 2"),
        ({"speculative": {"algorithm": "EAGLE", "draft_tokens": 0, "hidden_size": 1}}, "speculative.draft_tokens"),
        ({"cache": "tree"}, "cache"),
        ({"dp_routing": "guess"}, "dp_routing"),
    ],
)
def test_an_engine_that_cannot_be_is_refused_naming_the_field(changes: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        engine(**changes)
    assert field in str(caught.value)


DRAFT = {"algorithm": "EAGLE", "draft_tokens": 4, "hidden_size": 64}
#: What that draft starts from.
SEEDS = [
    {"name": "topk_p", "dtype": "float32", "shape": [1, 1]}, {"name": "topk_index", "dtype": "int64", "shape": [1, 1]},
    {"name": "hidden_states", "dtype": "bfloat16", "shape": [1, 64]},
]  # fmt: skip
#: By what a refusal of the pair would name: two settings that exclude each other, each fine alone.
EXCLUDED: dict[str, tuple[dict[str, object], dict[str, object], str]] = {
    "dcp+heads": ({"tp_size": 2, "dcp_size": 2, "mla": True}, {"mla": False}, "dcp_size, mla"),
    "dcp+cp": ({"tp_size": 2, "dcp_size": 2, "mla": True}, {"cp_size": 2}, "dcp_size, cp_size"),
    "pp+speculative": ({"pp_size": 2}, {"speculative": DRAFT, "aux": SEEDS}, "pp_size, speculative"),
}


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.field)
def test_an_engine_does_not_start_with_what_the_support_matrix_excludes(combination: object) -> None:
    first, second, fields = EXCLUDED[combination.field]  # type: ignore[attr-defined]
    assert engine(**first)
    assert engine(**second)
    with pytest.raises(ValidationError) as caught:
        engine(**{**first, **second})
    said = str(caught.value)
    assert f"{fields}: expected one of the two only" in said
    assert combination.advice in said  # type: ignore[attr-defined]


@pytest.mark.parametrize("left", range(3))
def test_an_engine_that_drafts_names_what_the_draft_starts_from_in_its_aux_data(left: int) -> None:
    seeds = [seed for at, seed in enumerate(SEEDS) if at != left]
    with pytest.raises(ValidationError, match=f"aux: expected {SEEDS[left]['name']} of the size in speculative"):
        engine(speculative=DRAFT, aux=seeds)
    with pytest.raises(ValidationError, match="aux: expected hidden_states of the size in speculative"):
        engine(speculative=DRAFT | {"hidden_size": 65}, aux=SEEDS)


def test_an_aux_buffer_that_is_not_what_is_declared_of_it_is_refused_by_its_name() -> None:
    with pytest.raises(ValidationError, match=r"aux\.topk_p: expected topk of at most 16, got 17"):
        engine(aux=[{"name": "topk_p", "dtype": "float32", "shape": [1, 17]}])
    with pytest.raises(ValidationError, match=r"aux\.mine: expected a dtype of"):
        engine(aux=[{"name": "mine", "dtype": "object", "shape": [1]}])


def registered(**changes: object) -> Registration:
    return registration_of(config("prefill", engine=engine(**changes)), 7, ())


def test_what_an_engine_is_stands_in_its_registration() -> None:
    plain = registered()
    assert (plain.dcp, plain.speculative, plain.capabilities, plain.ep_size) == (UNSET, UNSET, (), 1)
    assert plain.tp is ALONE, "left out of a frame"
    told = registered(
        mla=True, tp_size=8, tp_rank=6, dcp_size=4, dcp_interleave=2, ep_size=16, speculative=DRAFT, cache="radix",
        hybrid=True, dp_size=2, dp_routing="room", aux=SEEDS,
    )  # fmt: skip
    assert told.dcp == Dcp(size=4, rank=2, interleave=2)
    assert told.speculative == Speculative("EAGLE", 4, 1, 64)
    assert (told.ep_size, set(told.capabilities)) == (16, {"radix", "hybrid", "dp-room"})
    assert registered(cache="chunk").capabilities == ()


def test_a_sender_has_more_time_in_total_than_a_receiver() -> None:
    durations = Durations()
    spare = durations.timing(Role.PREFILL).total - durations.timing(Role.DECODE).total
    assert spare == durations.deadlines(Role.PREFILL).conclude == 30_000


def test_no_duration_becomes_zero_milliseconds() -> None:
    assert Durations(beat=0.0001, lost=1, resend=0.0001).timing(Role.DECODE).beat == 1


def test_a_null_role_hands_nothing_over() -> None:
    with pytest.raises(LocalProtocolError, match="role: expected prefill or decode") as caught:
        KVManager(config("null"))
    assert caught.value.details["field"] == "role"


@pytest.mark.parametrize(("field", "value"), [("port", 65_536), ("role", "both"), ("prot", 1)])
def test_a_process_that_cannot_be_is_refused_naming_the_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        ManagerConfig.model_validate({"role": "decode", "engine": SPEC, field: value})
    assert field in str(caught.value)


def test_an_unknown_transport_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LocalProtocolError, match="transports: expected one of inproc, jax, zmq, got pigeon"):
        KVManager(config("decode", "pigeon"))


def test_a_secret_is_not_shown() -> None:
    assert "hunter2" not in repr(config("decode", secret="hunter2"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_only_this_machine_reaches_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_request_is_its_token_ids() -> None:
    a, b = Request.of([1, 2, 3]), Request.of([1, 2, 4])
    assert (a.tokens, a.prefix) == (3, 0)
    assert a.digest != b.digest
    assert Request.of([1, 2, 3], prefix=1).digest == a.digest
    assert Request.of(range(3)) == Request.of([0, 1, 2])


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request(0), "tokens"),
        (Request(1 << 32), "tokens"),
        (Request(4, 5), "prefix"),
        (Request(4, -1), "prefix"),
        (Request(4, 0, b"x" * 65), "digest"),
    ],
)
def test_a_request_that_cannot_be_is_refused_naming_the_field(request_: Request, field: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"{field}: expected") as caught:
        request_.fingerprint()
    assert caught.value.details["field"] == field


@pytest.mark.parametrize(
    "address",
    [
        RankAddress("prefill-0.svc.local", 8998, 0, 1, 2, 3),
        RankAddress("10.0.0.1", 1, 7, 0, 0, 0, "a name / with ? & # % in it"),
        RankAddress("fe80::1%eth0", 65_535, 0, 0, 0, 0, "ns"),
        RankAddress("Mixed.Case", 80, 0, 0, 0, 0),
    ],
)
def test_the_address_of_a_rank_survives_as_text(address: RankAddress) -> None:
    parsed = RankAddress.parse(address.text())
    assert parsed._replace(host=parsed.host.lower()) == address._replace(host=address.host.lower())


@pytest.mark.parametrize(
    ("host", "port", "field"),
    [
        ("", 80, "bootstrap_host"),
        ("two words", 80, "bootstrap_host"),
        ("[::1", 80, "bootstrap_host"),
        ("host/path", 80, "bootstrap_host"),
        ("user@host", 80, "bootstrap_host"),
        ("x" * 300, 80, "bootstrap_host"),
        ("nul\0", 80, "bootstrap_host"),
        ("host", 0, "bootstrap_port"),
        ("host", 65_536, "bootstrap_port"),
        ("host", -1, "bootstrap_port"),
    ],
)
def test_a_bootstrap_address_that_cannot_be_is_refused_naming_the_field(host: str, port: int, field: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"{field}: expected") as caught:
        RankAddress(host, port, 0, 0, 0, 0).text()
    assert caught.value.details["field"] == field


@pytest.mark.parametrize("wrong", [0, -1, 1 << 63])
def test_an_engine_id_out_of_range_is_named(wrong: int) -> None:
    with pytest.raises(ValidationError, match="engine_id"):
        config("decode", engine_id=wrong)


def test_ranks_of_one_engine_can_share_its_id() -> None:
    one, two = (Engine("decode", engine_id=77) for _ in range(2))
    try:
        assert one.manager.engine == two.manager.engine == 77
        assert one.manager.instance != two.manager.instance
    finally:
        one.manager.close()
        two.manager.close()
