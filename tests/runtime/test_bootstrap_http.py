"""The HTTP face of the registry, called in-process: routes, refusals, the dialect, metrics."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from kvpoll.runtime.bootstrap.registry import Limits, Registry
from kvpoll.runtime.bootstrap.server import create_app

TOKEN = "t" * 16
RANK: dict[str, Any] = {
    "engine_id": "engineA",
    "instance": "inst0",
    "control": "tcp://10.0.0.1:7000",
    "attn_tp_size": 2,
    "attn_tp_rank": 0,
    "page_size": 16,
    "kv_cache_dtype": "bfloat16",
    "token": TOKEN,
}
H5: dict[str, Any] = {
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
    "load_balance_method": "follow_bootstrap_room",
}
TOPOLOGY = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"


@dataclass
class Api:
    """One application and a clock that stands still until the test moves it."""

    limits: Limits = field(default_factory=Limits)
    secret: str | None = None
    now: float = 0.0

    def __post_init__(self) -> None:
        self.app = create_app(Registry(self.limits), secret=self.secret, clock=lambda: self.now)

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://bootstrap") as client:
                if content is not None:
                    return await client.request(method, path, content=content, headers=headers)
                return await client.request(method, path, json=body, headers=headers)

        return asyncio.run(go())

    def error(
        self,
        status: int,
        method: str,
        path: str,
        body: object = None,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """The problem in an error answer, after checking its status."""
        answer = self(method, path, body, content=content, headers=headers)
        assert answer.status_code == status, answer.text
        problem: dict[str, Any] = answer.json()["error"]
        assert problem["sentence"]
        return problem


@pytest.fixture
def api() -> Api:
    return Api()


def route(dp: int, cp: int, tp: int, pp: int) -> str:
    return f"/route?prefill_dp_rank={dp}&prefill_cp_rank={cp}&target_tp_rank={tp}&target_pp_rank={pp}"


def test_a_registration_is_answered_with_lease_and_token_and_then_found(api: Api) -> None:
    assert api("PUT", "/v1/ranks", RANK).json() == {"ttl_s": 15.0, "ranks": 1, "token": TOKEN}
    api.now = 5.0
    (seen,) = api("GET", "/v1/ranks").json()
    assert (seen["instance"], seen["control"], seen["remaining_s"]) == ("inst0", "tcp://10.0.0.1:7000", 10.0)


def test_a_token_is_never_shown_to_others(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK)
    texts = [api("GET", path).text for path in ("/v1/ranks", "/v1/engines", "/metrics")]
    texts.append(api("PUT", "/v1/ranks", RANK | {"token": "x" * 16}).text)
    assert not [text for text in texts if TOKEN in text]


def test_a_registry_that_hands_out_the_token_accepts_it_for_heartbeats(api: Api) -> None:
    token = api("PUT", "/v1/ranks", {k: v for k, v in RANK.items() if k != "token"}).json()["token"]
    api.now = 14.0
    assert api("POST", "/v1/ranks/heartbeat", {"instance": "inst0", "token": token}).json()["ttl_s"] == 15.0
    api.now = 20.0
    assert len(api("GET", "/v1/ranks").json()) == 1


def test_a_claim_on_a_live_key_is_409_with_holder_and_remaining_time(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK)
    api.now = 5.0
    problem = api.error(409, "PUT", "/v1/ranks", RANK | {"instance": "thief", "token": "x" * 16})
    assert (problem["kind"], problem["field"], problem["holder"]) == ("conflict", "rank", "inst0")
    assert problem["remaining_s"] == 10.0


def test_a_topology_conflict_names_field_and_both_values(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK)
    body = RANK | {"instance": "inst1", "attn_tp_rank": 1, "page_size": 64}
    problem = api.error(409, "PUT", "/v1/ranks", body)
    assert (problem["field"], problem["expected"], problem["got"]) == ("page_size", "16", "64")


def test_a_heartbeat_of_a_stranger_is_404_and_with_a_wrong_token_409(api: Api) -> None:
    assert api.error(404, "POST", "/v1/ranks/heartbeat", {"instance": "inst0", "token": TOKEN})["kind"] == "unknown"
    api("PUT", "/v1/ranks", RANK)
    problem = api.error(409, "POST", "/v1/ranks/heartbeat", {"instance": "inst0", "token": "x" * 16})
    assert (problem["kind"], problem["field"]) == ("conflict", "token")


def test_unregistering_frees_the_key(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK)
    assert api("DELETE", "/v1/ranks", {"instance": "inst0", "token": TOKEN}).status_code == 200
    assert api("GET", "/v1/ranks").json() == []
    assert api("PUT", "/v1/ranks", RANK | {"instance": "next"}).status_code == 200


def test_ranks_are_filtered_by_query(api: Api) -> None:
    for tp in range(2):
        api("PUT", "/v1/ranks", RANK | {"instance": f"inst{tp}", "attn_tp_rank": tp})
    assert [r["instance"] for r in api("GET", "/v1/ranks?tp=1&engine_id=engineA").json()] == ["inst1"]
    assert api("GET", "/v1/ranks?bootstrap=other").json() == []
    assert api.error(422, "GET", "/v1/ranks?tp=one")["field"] == "tp"


def test_engines_show_topology_readiness_and_what_is_missing(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK)
    (engine,) = api("GET", "/v1/engines").json()
    assert (engine["ready"], engine["live_ranks"], engine["needed_ranks"]) == (False, 1, 2)
    assert engine["missing"] == ["dp0 cp0 tp1 pp0"]
    api("PUT", "/v1/ranks", RANK | {"instance": "inst1", "attn_tp_rank": 1})
    (engine,) = api("GET", "/v1/engines").json()
    assert (engine["ready"], engine["missing"], engine["attn_tp_size"]) == (True, [], 2)


def test_a_signed_note_is_found_by_its_room(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK)
    room = 2**64 - 1
    signed = {"instance": "inst0", "token": TOKEN, "room": room, "dp_rank": 0}
    assert api("POST", "/v1/notes", signed).status_code == 204
    assert api("GET", f"/v1/notes?room={room}&room=8").json() == {str(room): 0}
    assert api.error(409, "POST", "/v1/notes", signed | {"dp_rank": 1})["field"] == "dp_rank"
    assert api.error(422, "POST", "/v1/notes", signed | {"room": 2**64})["field"] == "room"
    assert api.error(422, "GET", "/v1/notes")["field"] == "room"


def test_a_full_table_is_507_and_says_how_much_it_holds() -> None:
    api = Api(Limits(max_ranks=2, max_notes=1))
    problem = api.error(507, "PUT", "/v1/ranks", RANK | {"attn_tp_size": 3})
    assert (problem["kind"], problem["field"], problem["expected"]) == ("refused", "ranks", "at most 2")
    api("POST", "/register_dp_rank", {"bootstrap_room": 1, "dp_rank": 0})
    assert api.error(507, "POST", "/register_dp_rank", {"bootstrap_room": 2, "dp_rank": 0})["field"] == "notes"


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"3",
    b'"x"',
    b"\xff\xfe",
    b"[" * 60_000,
    b'{"engine_id":' * 4000,
    b'{"engine_id": NaN}',
    b'{"engine_id": "\\ud800"}',
    b'{"attn_tp_size": ' + b"9" * 10_000 + b"}",
    json.dumps(RANK | {"attn_tp_size": 2.5}).encode(),
    json.dumps(RANK | {"token": "short"}).encode(),
    json.dumps(RANK | {"control": "tcp://0.0.0.0:1"}).encode(),
    json.dumps(RANK | {"dsv41_spec_layout": {"x": "\ud800"}}).encode(),
    json.dumps(RANK)[:-1].encode() + b', "dsv41_spec_layout": {"x": ' + b"[" * 900 + b"]" * 900 + b"}}",
]


@pytest.mark.parametrize("path", ["/v1/ranks", "/route"])
@pytest.mark.parametrize("raw", GARBAGE, ids=lambda raw: repr(raw[:24]))
def test_a_garbage_body_is_refused_with_a_sentence_and_changes_nothing(api: Api, path: str, raw: bytes) -> None:
    answer = api("PUT", path, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["kind"] == "refused"
    assert api("GET", "/v1/ranks").json() == []


def test_a_refused_value_is_named_with_what_was_expected(api: Api) -> None:
    problem = api.error(422, "PUT", "/v1/ranks", RANK | {"attn_tp_rank": 2})
    assert (problem["field"], problem["expected"]) == ("attn_tp_rank", "below attn_tp_size, which is 2")
    problem = api.error(422, "PUT", "/v1/ranks", RANK | {"page_size": "sixteen"})
    assert (problem["field"], problem["got"]) == ("page_size", "'sixteen'")
    assert api.error(422, "PUT", "/route", {k: v for k, v in H5.items() if k != "page_size"})["field"] == "page_size"


def test_a_refused_token_is_not_repeated_in_the_answer(api: Api) -> None:
    answer = api("PUT", "/v1/ranks", RANK | {"token": "has spaces, so refused"})
    assert answer.json()["error"]["field"] == "token"
    assert "has spaces" not in answer.text


def test_a_native_rank_cannot_give_the_dialect_another_host_than_its_own(api: Api) -> None:
    api("PUT", "/v1/ranks", RANK | {"attn_tp_size": 1, "rank_ip": "6.6.6.6"})
    assert api("GET", route(0, 0, 0, 0)).json()["rank_ip"] == "10.0.0.1"


def test_unknown_keys_are_accepted_in_every_body(api: Api) -> None:
    new = {"added_in_2030": {"x": 1}}
    assert api("PUT", "/v1/ranks", RANK | new).status_code == 200
    assert api("POST", "/v1/ranks/heartbeat", {"instance": "inst0", "token": TOKEN} | new).status_code == 200
    assert api("DELETE", "/v1/ranks", {"instance": "inst0", "token": TOKEN} | new).status_code == 200
    assert api("PUT", "/route", H5 | new).status_code == 200
    assert api("POST", "/register_dp_rank", {"bootstrap_room": 1, "dp_rank": 0} | new).status_code == 200
    assert api("POST", "/query_dp_ranks", {"bootstrap_rooms": [1]} | new).status_code == 200


def test_the_schema_is_served_and_describes_every_route(api: Api) -> None:
    paths = api("GET", "/openapi.json").json()["paths"]
    native = {"/v1/ranks", "/v1/ranks/heartbeat", "/v1/engines", "/v1/notes", "/metrics", "/health"}
    assert native | {"/route", "/register_dp_rank", "/query_dp_ranks"} == set(paths)
    assert set(paths["/v1/ranks"]) == {"put", "delete", "get"}


def test_an_unknown_path_or_method_is_an_error_in_the_same_shape(api: Api) -> None:
    assert api.error(404, "GET", "/nothing")["kind"] == "refused"
    assert api.error(405, "POST", "/route")["kind"] == "refused"


# The dialect of released engines.


def test_the_dialect_is_503_until_every_rank_is_there_however_often_one_registers(api: Api) -> None:
    for _ in range(3):
        assert api("PUT", "/route", H5).text == "OK"
        assert api("GET", TOPOLOGY).status_code == 503
        assert api("GET", route(0, 0, 0, 0)).status_code == 503
    api("PUT", "/route", H5 | {"attn_tp_rank": 1, "rank_port": 7001})
    assert api("GET", TOPOLOGY).status_code == 200


@pytest.fixture
def complete(api: Api) -> Api:
    for tp in range(2):
        assert api("PUT", "/route", H5 | {"attn_tp_rank": tp, "rank_port": 7000 + tp}).status_code == 200
    return api


def test_the_topology_answer_has_exactly_the_keys_that_the_oldest_decode_knows(complete: Api) -> None:
    assert complete("GET", TOPOLOGY).json() == {
        "attn_tp_size": 2,
        "attn_cp_size": 1,
        "dp_size": 1,
        "pp_size": 1,
        "page_size": 16,
        "kv_cache_dtype": "auto",
        "follow_bootstrap_room": True,
    }


def test_a_later_key_is_given_back_when_the_ranks_sent_it(api: Api) -> None:
    later = {
        "enable_dsa_cache_layer_split": False,
        "prefill_http_port": 30000,
        "dsv41_spec_layout": {"heads": [1, 2]},
        "decode_allocation_policy": "early",
        "kv_layout": "HND",
        "enable_kv_cache_sharding": True,
    }
    changes = {"attn_tp_size": 1, "load_balance_method": "round_robin", "system_dp_size": 1, "attn_dp_size": 1}
    api("PUT", "/route", H5 | changes | later)
    answer = api("GET", TOPOLOGY).json()
    assert {name: answer[name] for name in later} == later
    assert answer["follow_bootstrap_room"] is False


def test_the_coordinates_answer_is_the_ranks_address(complete: Api) -> None:
    assert complete("GET", route(0, 0, 1, 0)).json() == {"rank_ip": "10.0.0.1", "rank_port": 7001}


def test_the_dialect_keys_ranks_by_the_systems_dp_where_there_is_one(api: Api) -> None:
    for dp in range(2):
        api(
            "PUT", "/route", H5 | {"attn_tp_size": 1, "system_dp_size": 2, "system_dp_rank": dp, "rank_port": 7000 + dp}
        )
    assert api("GET", TOPOLOGY).json()["dp_size"] == 2
    assert api("GET", route(1, 0, 0, 0)).json()["rank_port"] == 7001


def test_a_rank_that_does_not_exist_is_404_and_a_missing_coordinate_400(complete: Api) -> None:
    assert complete("GET", route(0, 0, 2, 0)).status_code == 404
    assert complete("GET", route(-1, 0, 0, 0)).status_code == 404
    assert complete("GET", "/route").status_code == 400
    assert complete("GET", "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0").status_code == 400


def test_another_address_cannot_take_a_live_key_of_the_dialect(complete: Api) -> None:
    problem = complete.error(409, "PUT", "/route", H5 | {"rank_ip": "6.6.6.6"})
    assert (problem["field"], problem["holder"]) == ("rank", "addr:10.0.0.1:7000")
    assert complete("GET", route(0, 0, 0, 0)).json()["rank_ip"] == "10.0.0.1"


def test_a_rank_of_the_dialect_that_disagrees_is_told_the_field(api: Api) -> None:
    api("PUT", "/route", H5)
    problem = api.error(409, "PUT", "/route", H5 | {"attn_tp_rank": 1, "rank_port": 7001, "kv_cache_dtype": "fp8"})
    assert problem["field"] == "kv_cache_dtype"


def test_natively_registered_ranks_are_visible_in_the_dialect(api: Api) -> None:
    for tp in range(2):
        api("PUT", "/v1/ranks", RANK | {"instance": f"i{tp}", "attn_tp_rank": tp, "control": f"tcp://h{tp}:70"})
    assert api("GET", TOPOLOGY).json()["attn_tp_size"] == 2
    assert api("GET", route(0, 0, 1, 0)).json() == {"rank_ip": "h1", "rank_port": 70}


def test_notes_of_the_dialect_are_found_by_room_and_expire(api: Api) -> None:
    assert api("POST", "/register_dp_rank", {"bootstrap_room": 7, "dp_rank": 3}).status_code == 200
    query = {"bootstrap_rooms": [7, 8]}
    api.now = 119.0
    assert api("POST", "/query_dp_ranks", query).json() == {"7": 3}
    api.now = 120.0
    assert api("POST", "/query_dp_ranks", query).json() == {}
    assert api.error(422, "POST", "/query_dp_ranks", {"bootstrap_rooms": [0] * 4097})["field"] == "bootstrap_rooms"


def test_metrics_show_every_table_and_return_to_zero(api: Api) -> None:
    def gauges() -> dict[str, float]:
        lines = [line.split() for line in api("GET", "/metrics").text.splitlines() if not line.startswith("#")]
        return {name.removeprefix("kvpoll_bootstrap_"): float(value) for name, value in lines}

    tables = ("ranks", "instances", "engines", "ready_engines", "notes")
    api("PUT", "/v1/ranks", RANK | {"attn_tp_size": 1})
    api("PUT", "/v1/ranks", RANK | {"attn_tp_size": 1, "instance": "thief"})
    api("POST", "/register_dp_rank", {"bootstrap_room": 7, "dp_rank": 3})
    busy = gauges()
    assert [busy[name] for name in tables] == [1, 1, 1, 1, 1]
    assert (busy["registered_total"], busy["conflicts_total"]) == (1, 1)
    api.now = 1000.0
    idle = gauges()
    assert [idle[name] for name in tables] == [0, 0, 0, 0, 0]
    assert (idle["expired_instances_total"], idle["expired_notes_total"]) == (1, 1)


def test_two_applications_do_not_share_their_metrics() -> None:
    first, second = Api(), Api()
    first("PUT", "/v1/ranks", RANK)
    assert "kvpoll_bootstrap_ranks 1.0" in first("GET", "/metrics").text
    assert "kvpoll_bootstrap_ranks 0.0" in second("GET", "/metrics").text
