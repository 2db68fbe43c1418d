"""The registry alone: every refusal, every expiry, every bound. ``now`` is a number that the test chooses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pydantic import ValidationError

from kvpoll.runtime.bootstrap.models import TOPOLOGY_FIELDS, H5Put, RankEntry, RankFilter, RegisterRequest
from kvpoll.runtime.bootstrap.registry import Conflict, Full, Held, Key, Limits, Registry, Unknown

TOKEN = "t" * 16
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


def held(result: object) -> Held:
    assert isinstance(result, Held), result
    return result


def conflict(result: object) -> Conflict:
    assert isinstance(result, Conflict), result
    return result


def ready(registry: Registry, now: float = 0.0) -> list[bool]:
    return [engine.ready for engine in registry.engines(now)]


def test_a_registry_that_nobody_uses_is_empty() -> None:
    registry = Registry()
    assert set(registry.gauges(0.0).values()) == {0}
    assert registry.lookup(0.0) == []
    assert registry.engines(0.0) == []


def test_the_first_registration_gets_a_token_that_the_registry_made() -> None:
    registry = Registry(Limits(ttl=15.0), new_token=lambda: "made-here")
    assert registry.register(rank(), 0.0) == Held("made-here", 15.0, 1)


def test_a_token_that_the_client_chose_is_kept() -> None:
    registry = Registry()
    assert held(registry.register(rank(), 0.0, token=TOKEN)).token == TOKEN
    assert held(registry.register(rank(), 1.0, token=TOKEN)).token == TOKEN


def test_two_registries_hand_out_different_tokens() -> None:
    tokens = {held(Registry().register(rank(), 0.0)).token for _ in range(3)}
    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 16


def test_a_second_instance_on_a_live_key_is_told_holder_and_remaining_time_and_changes_nothing() -> None:
    registry = Registry(Limits(ttl=15.0))
    registry.register(rank(), 0.0, token=TOKEN)
    before = registry.lookup(4.0)
    answer = conflict(registry.register(rank(instance="thief", control="tcp://6.6.6.6:1"), 4.0))
    assert (answer.field, answer.holder, answer.remaining) == ("rank", "inst0", 11.0)
    assert registry.lookup(4.0) == before
    assert registry.gauges(4.0)["instances"] == 1
    assert registry.counters()["conflicts"] == 1


@pytest.mark.parametrize("token", [None, "", "wrong-wrong-wrong"])
def test_knowing_the_instance_id_is_not_enough_to_change_its_entry(token: str | None) -> None:
    registry = Registry()
    registry.register(rank(), 0.0, token=TOKEN)
    answer = conflict(registry.register(rank(control="tcp://6.6.6.6:1"), 1.0, token=token))
    assert answer.field == "token"
    assert TOKEN not in str(answer)
    assert registry.lookup(1.0)[0].control == "tcp://10.0.0.1:7000"


def test_the_holder_may_change_its_own_entry() -> None:
    registry = Registry()
    registry.register(rank(), 0.0, token=TOKEN)
    held(registry.register(rank(control="tcp://10.0.0.2:7000", page_size=32, engine_id="B"), 1.0, token=TOKEN))
    (seen,) = registry.lookup(1.0)
    assert (seen.control, seen.page_size, seen.engine_id) == ("tcp://10.0.0.2:7000", 32, "B")
    assert registry.gauges(1.0)["engines"] == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"attn_tp_size": 4}, "attn_tp_size"),
        ({"attn_cp_size": 2}, "attn_cp_size"),
        ({"attn_dp_size": 2}, "attn_dp_size"),
        ({"pp_size": 2}, "pp_size"),
        ({"system_dp_size": 2}, "system_dp_size"),
        ({"page_size": 32}, "page_size"),
        ({"kv_cache_dtype": "fp8_e4m3"}, "kv_cache_dtype"),
        ({"load_balance_method": "round_robin"}, "load_balance_method"),
        ({"enable_dsa_cache_layer_split": True}, "enable_dsa_cache_layer_split"),
        ({"dsv41_spec_layout": {"a": 1}}, "dsv41_spec_layout"),
        ({"decode_allocation_policy": "early"}, "decode_allocation_policy"),
        ({"kv_layout": "HND"}, "kv_layout"),
        ({"enable_kv_cache_sharding": False}, "enable_kv_cache_sharding"),
    ],
)
def test_a_rank_that_disagrees_with_its_engine_is_told_the_field(changes: dict[str, Any], field: str) -> None:
    registry = Registry()
    registry.register(rank(attn_tp_size=2), 0.0)
    answer = conflict(
        registry.register(rank(**{"attn_tp_size": 2, "attn_tp_rank": 1, "instance": "inst1"} | changes), 0.0)
    )
    assert (answer.field, answer.holder) == (field, "inst0")
    assert answer.expected != answer.got
    assert registry.gauges(0.0)["ranks"] == 1


def test_the_disagreements_above_are_all_there_can_be() -> None:
    (mark,) = test_a_rank_that_disagrees_with_its_engine_is_told_the_field.pytestmark  # type: ignore[attr-defined]
    assert {field for _, field in mark.args[1]} == set(TOPOLOGY_FIELDS)


def test_one_rank_of_several_cannot_change_the_topology_under_the_others() -> None:
    registry = Registry()
    for tp in range(2):
        registry.register(rank(attn_tp_size=2, attn_tp_rank=tp, instance=f"inst{tp}"), 0.0, token=TOKEN)
    answer = conflict(registry.register(rank(attn_tp_size=2, page_size=32), 0.0, token=TOKEN))
    assert (answer.field, answer.holder) == ("page_size", "inst1")
    assert ready(registry) == [True]


def test_registering_again_never_counts_twice() -> None:
    registry = Registry()
    for _ in range(5):
        held(registry.register(rank(attn_tp_size=2), 0.0, token=TOKEN))
    assert ready(registry) == [False]
    (engine,) = registry.engines(0.0)
    assert (engine.live_ranks, engine.needed_ranks, engine.missing) == (1, 2, ("dp0 cp0 tp1 pp0",))
    assert registry.counters()["registered"] == 1


@pytest.mark.parametrize("dp", ["attn_dp", "system_dp"])
def test_an_engine_is_ready_exactly_when_its_last_rank_is_live(dp: str) -> None:
    registry = Registry()
    sizes = {f"{dp}_size": 2, "attn_cp_size": 2, "attn_tp_size": 2, "pp_size": 2}
    for number, place in enumerate(itertools.product(range(2), repeat=4)):
        assert ready(registry) in ([], [False]), number
        names = (f"{dp}_rank", "attn_cp_rank", "attn_tp_rank", "pp_rank")
        held(registry.register(rank(instance=f"i{number}", **sizes, **dict(zip(names, place, strict=True))), 0.0))
    assert ready(registry) == [True]
    assert registry.gauges(0.0)["ready_engines"] == 1


def test_one_lost_rank_makes_the_engine_unready() -> None:
    registry = Registry()
    for tp in range(2):
        registry.register(rank(attn_tp_size=2, attn_tp_rank=tp, instance=f"inst{tp}"), 0.0, token=TOKEN)
    assert ready(registry) == [True]
    registry.unregister("inst1", TOKEN, 1.0)
    assert ready(registry, 1.0) == [False]
    assert registry.ready_rank(1.0, Key("", "prefill", 0, 0, 0, 0)) is None


def test_ranks_of_two_engines_do_not_add_up_to_a_ready_one() -> None:
    registry = Registry()
    registry.register(rank(attn_tp_size=2), 0.0)
    held(registry.register(rank(attn_tp_size=2, attn_tp_rank=1, instance="inst1", engine_id="engineB"), 0.0))
    assert ready(registry) == [False, False]
    assert registry.ready_rank(0.0, Key("", "prefill", 0, 0, 0, 0)) is None


def test_a_stray_rank_of_another_engine_is_not_served_as_part_of_the_ready_one() -> None:
    registry = Registry()
    registry.register(rank(), 0.0)
    held(registry.register(rank(attn_tp_size=2, attn_tp_rank=1, instance="inst1", engine_id="engineB"), 0.0))
    assert registry.ready_rank(0.0, Key("", "prefill", 0, 0, 0, 0)) is not None
    assert registry.ready_rank(0.0, Key("", "prefill", 0, 0, 1, 0)) is None


def test_namespaces_never_meet() -> None:
    registry = Registry()
    registry.register(rank(bootstrap="blue"), 0.0)
    held(registry.register(rank(bootstrap="green", instance="inst1"), 0.0))
    assert [engine.bootstrap for engine in registry.engines(0.0)] == ["blue", "green"]
    assert registry.ready_rank(0.0, Key("", "prefill", 0, 0, 0, 0)) is None


def test_a_lease_lives_until_just_before_its_last_tick_and_is_gone_at_it() -> None:
    registry = Registry(Limits(ttl=15.0))
    registry.register(rank(), 0.0, token=TOKEN)
    assert registry.lookup(14.999)[0].remaining_s == pytest.approx(0.001)
    conflict(registry.register(rank(instance="next"), 14.999))
    assert registry.lookup(15.0) == []
    assert set(registry.gauges(15.0).values()) == {0}
    held(registry.register(rank(instance="next"), 15.0))
    assert registry.heartbeat("inst0", TOKEN, 15.0) == Unknown("inst0")
    assert registry.counters()["expired_instances"] == 1


def test_a_heartbeat_renews_all_ranks_of_the_instance_and_no_other() -> None:
    registry = Registry(Limits(ttl=15.0))
    for tp in range(2):
        registry.register(rank(attn_tp_size=3, attn_tp_rank=tp), 0.0, token=TOKEN)
    registry.register(rank(attn_tp_size=3, attn_tp_rank=2, instance="inst1"), 0.0)
    assert registry.heartbeat("inst0", TOKEN, 10.0) == Held(TOKEN, 15.0, 2)
    assert [seen.attn_tp_rank for seen in registry.lookup(20.0)] == [0, 1]
    assert registry.lookup(25.0) == []


def test_expiry_follows_the_order_of_renewals() -> None:
    registry = Registry(Limits(ttl=10.0))
    for tp in range(3):
        registry.register(rank(attn_tp_size=3, attn_tp_rank=tp, instance=f"inst{tp}"), 0.0, token=TOKEN)
    registry.heartbeat("inst0", TOKEN, 5.0)
    registry.heartbeat("inst2", TOKEN, 6.0)
    assert [seen.instance for seen in registry.lookup(10.0)] == ["inst0", "inst2"]
    assert [seen.instance for seen in registry.lookup(15.0)] == ["inst2"]


def test_after_unregistering_the_key_is_free_at_once() -> None:
    registry = Registry()
    registry.register(rank(), 0.0, token=TOKEN)
    assert conflict(registry.unregister("inst0", "x" * 16, 0.0)).field == "token"
    assert held(registry.unregister("inst0", TOKEN, 0.0)).ranks == 1
    assert registry.unregister("inst0", TOKEN, 0.0) == Unknown("inst0")
    held(registry.register(rank(instance="next"), 0.0))


def test_a_heartbeat_with_a_wrong_token_renews_nothing() -> None:
    registry = Registry(Limits(ttl=15.0))
    registry.register(rank(), 0.0, token=TOKEN)
    assert conflict(registry.heartbeat("inst0", "x" * 16, 10.0)).field == "token"
    assert registry.lookup(15.0) == []


def test_a_restarted_registry_knows_nobody_and_takes_the_same_token_again() -> None:
    Registry().register(rank(), 0.0, token=TOKEN)
    restarted = Registry()
    assert restarted.heartbeat("inst0", TOKEN, 1.0) == Unknown("inst0")
    assert held(restarted.register(rank(), 1.0, token=TOKEN)).token == TOKEN


def test_a_full_table_refuses_newcomers_and_serves_those_who_are_in() -> None:
    registry = Registry(Limits(max_ranks=2))
    for number in range(2):
        registry.register(rank(bootstrap=f"ns{number}", instance=f"inst{number}"), 0.0, token=TOKEN)
    assert registry.register(rank(bootstrap="ns2", instance="inst2"), 0.0) == Full("ranks", 2, 3)
    assert registry.gauges(0.0)["instances"] == 2
    held(registry.register(rank(bootstrap="ns0"), 1.0, token=TOKEN))
    held(registry.register(rank(bootstrap="ns2", instance="inst2"), 15.0))


def test_an_engine_that_could_never_become_ready_is_refused_at_its_first_rank() -> None:
    assert Registry(Limits(max_ranks=4)).register(rank(attn_tp_size=8), 0.0) == Full("ranks", 4, 8)


@pytest.mark.parametrize(
    ("where", "found"),
    [({"tp": 1}, ["i1", "i3"]), ({"pp": 1, "tp": 0}, ["i2"]), ({"instance": "i3"}, ["i3"]), ({"engine_id": "x"}, [])],
)
def test_a_lookup_is_narrowed_by_every_field_of_the_filter(where: dict[str, Any], found: list[str]) -> None:
    registry = Registry()
    for number in range(4):
        place = {"attn_tp_rank": number % 2, "pp_rank": number // 2}
        registry.register(rank(attn_tp_size=2, pp_size=2, instance=f"i{number}", **place), 0.0)
    assert sorted(seen.instance for seen in registry.lookup(0.0, RankFilter(**where))) == found


def test_the_dialects_holder_is_its_address_and_may_update() -> None:
    registry = Registry()
    assert held(registry.register_by_address(h5(attn_tp_size=1), 0.0)).ttl is None
    held(registry.register_by_address(h5(attn_tp_size=1, page_size=64), 1.0))
    answer = conflict(registry.register_by_address(h5(attn_tp_size=1, rank_port=7001), 2.0))
    assert (answer.field, answer.holder, answer.remaining) == ("rank", "addr:10.0.0.1:7000", None)
    assert "does not end by itself" in answer.problem().sentence
    assert registry.lookup(1e9)[0].page_size == 64


def test_a_lease_of_the_dialect_ends_when_it_was_given_a_length() -> None:
    registry = Registry(Limits(legacy_ttl=60.0, ttl=15.0))
    registry.register_by_address(h5(attn_tp_size=1), 0.0)
    assert conflict(registry.register_by_address(h5(attn_tp_size=1, rank_port=7001), 59.0)).remaining == 1.0
    held(registry.register_by_address(h5(attn_tp_size=1, rank_port=7001), 60.0))


def test_a_native_instance_cannot_speak_for_a_rank_of_the_dialect() -> None:
    with pytest.raises(ValidationError, match="instance"):
        RegisterRequest.model_validate(BASE | {"instance": "addr:10.0.0.1:7000"})
    with pytest.raises(ValidationError, match="engine_id"):
        RegisterRequest.model_validate(BASE | {"engine_id": "sglang:h5"})
    registry = Registry()
    registry.register_by_address(h5(attn_tp_size=1), 0.0)
    assert conflict(registry.register(rank(), 0.0)).field == "rank"


def test_a_note_lives_for_its_time_and_is_renewed_by_saying_it_again() -> None:
    registry = Registry(Limits(note_ttl=120.0))
    assert registry.note(7, 1, 0.0) is None
    assert registry.note(8, 0, 0.0) is None
    assert registry.note(7, 2, 60.0) is None
    assert registry.notes([7, 8, 9], 119.9) == {7: 2, 8: 0}
    assert registry.notes([7, 8, 9], 120.0) == {7: 2}
    assert registry.gauges(180.0)["notes"] == 0
    assert registry.counters()["expired_notes"] == 2


def test_a_full_table_of_notes_refuses_new_rooms_and_still_renews_old_ones() -> None:
    registry = Registry(Limits(max_notes=2))
    registry.note(1, 0, 0.0)
    registry.note(2, 0, 0.0)
    assert registry.note(3, 0, 0.0) == Full("notes", 2, 3)
    assert registry.note(1, 1, 0.0) is None
    assert registry.notes([1, 2, 3], 0.0) == {1: 1, 2: 0}


def test_a_signed_note_is_replaced_only_by_its_own_engine_while_that_lives() -> None:
    registry = Registry(Limits(ttl=15.0))
    registry.register(rank(attn_dp_size=2), 0.0, token=TOKEN)
    registry.register(rank(attn_dp_size=2, attn_dp_rank=1, instance="inst1"), 0.0, token=TOKEN)
    assert registry.note_by("inst0", TOKEN, 7, 0, 0.0) is None
    answer = conflict(registry.note(7, 1, 1.0))
    assert (answer.field, answer.holder) == ("room", "engineA")
    assert registry.note_by("inst1", TOKEN, 7, 1, 1.0) is None
    assert registry.notes([7], 1.0) == {7: 1}
    assert registry.note(7, 0, 15.0) is None


def test_signing_a_note_needs_a_live_instance_its_token_and_a_dp_rank_that_exists() -> None:
    registry = Registry()
    registry.register(rank(), 0.0, token=TOKEN)
    assert registry.note_by("nobody", TOKEN, 7, 0, 0.0) == Unknown("nobody")
    assert registry.note_by("inst0", TOKEN, 7, 0, 0.0, bootstrap="elsewhere") == Unknown("inst0")
    assert conflict(registry.note_by("inst0", "x" * 16, 7, 0, 0.0)).field == "token"
    assert conflict(registry.note_by("inst0", TOKEN, 7, 1, 0.0)).field == "dp_rank"
    assert registry.gauges(0.0)["notes"] == 0


def test_notes_of_two_namespaces_do_not_meet() -> None:
    registry = Registry()
    registry.note(7, 1, 0.0, bootstrap="blue")
    assert registry.notes([7], 0.0) == {}
    assert registry.notes([7], 0.0, bootstrap="blue") == {7: 1}


@pytest.mark.parametrize("name", ["max_ranks", "max_notes", "ttl", "note_ttl", "legacy_ttl"])
def test_a_limit_of_zero_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})
