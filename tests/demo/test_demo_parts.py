"""Parts of the demonstration by themselves: that it would notice, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

if TYPE_CHECKING:
    from demo.router import Room, Router

from kvpoll.cli.app import cli
from kvpoll.cli.demo import read_sizes, read_tokens, refused_field
from kvpoll.protocol.errors import Failure, KVTransferError
from kvpoll.protocol.handshake import compare
from kvpoll.protocol.plans.ranks import Place, Shape
from kvpoll.spec import Cause, KVPoll
from kvpoll.spec.wire import Registration, TransportOffer

pytest.importorskip("jax")
pytest.importorskip("uvicorn")

ROOT = Path(__file__).parents[2]
RUN = CliRunner()


@pytest.fixture(scope="module")
def demo() -> Iterator[SimpleNamespace]:
    """Its modules. Importing it sets variables for jax, which are put back."""
    before = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        names = ("faults", "legs", "proof", "ranks", "report", "router", "setting")
        yield SimpleNamespace(**{name: import_module(f"demo.{name}") for name in names})
    os.environ.clear()
    os.environ.update(before)


class _Peer:
    def __init__(self, name: str) -> None:
        self.name, self.pid, self.told = name, 1, list[dict[str, Any]]()

    def start(self, setting: object) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...

    def end(self, timeout: float) -> int:
        return 0

    def tell(self, command: dict[str, Any]) -> None:
        self.told.append(command)

    def last_words(self) -> str:
        return "out of memory"


def service(demo: SimpleNamespace, prompts: int = 4) -> Router:
    """A router with two engines that only write down what they are told."""
    router: Router = demo.router.Router(demo.router.make_rooms([[1, 2, 3]] * prompts, seed=0), demo.setting.Options())
    for side in ("prefill", "decode"):
        router.engines[f"{side}-0"] = demo.router.EngineView(_Peer(f"{side}-0"), side, f"{side}-0", "ready")
    return router


def answer(router: Router, room: Room, tokens: list[int], digests: list[list[str]]) -> None:
    for side in ("prefill", "decode"):
        router.on(f"{side}-0", {"event": "leg", "room": room.room})
        router.on(
            f"{side}-0", {"event": "state", "room": room.room, "state": "Success", "phases": {"Transferring": 2.0}}
        )
    router.on("decode-0", {"event": "arrived", "room": room.room, "digests": digests, "nbytes": 100})
    router.on("decode-0", {"event": "tokens", "room": room.room, "tokens": tokens})


def summary_of(demo: SimpleNamespace, router: Router) -> dict[str, Any]:
    expected = {room.index: demo.proof.Expected([5, 6], RIGHT, alone=[5, 6]) for room in router.rooms}
    for view in router.engines.values():
        if view.status == "ready":
            view.status, view.left, view.exit_status = "closed", view.left or {}, 0
    fault = demo.faults.make_fault(demo.setting.Options(), router, lambda name: None)
    seconds = {"setup": 1.0, "run": 1.0, "end": 1.0}
    found: dict[str, Any] = demo.report.summarise(demo.setting.Options(), router, fault, expected, seconds, [])
    return found


#: By pool and layer: two rows each.
RIGHT = [["a" * 12 + "b" * 12, "c" * 12 + "d" * 12]]


def answered(demo: SimpleNamespace) -> Router:
    router = service(demo)
    router.give_out()
    for room in router.rooms:
        answer(router, room, [5, 6], RIGHT)
    return router


def test_a_run_without_a_flaw_is_good(demo: SimpleNamespace) -> None:
    router = answered(demo)
    assert router.done
    assert summary_of(demo, router)["problems"] == []


def test_a_wrong_row_is_named_by_room_token_and_layer(demo: SimpleNamespace) -> None:
    router = answered(demo)
    router.rooms[2].digests = [[RIGHT[0][0], "c" * 12 + "x" * 12]]
    (problem,) = summary_of(demo, router)["problems"]
    who = f"room {router.rooms[2].room} (prompt 2, 3 tokens)"
    assert problem == f"{who}: token 1 of layer 1 arrived with other bytes; 1 rows did"


def test_a_wrong_row_of_a_rank_is_named_by_its_place_in_the_whole(demo: SimpleNamespace) -> None:
    """The second row of rank 3 of 4, in the second stage, is token 7 of its layers."""
    row = "a" * 12
    expected = demo.proof.Expected([5], [[row * 2], [row * 2]], ["tp3 pp0", "tp3 pp1"], [0, 2], [(3, 4), (3, 4)])
    assert expected.rows == 4
    assert expected.difference([5], [[row * 2], [row * 2]]) == ""
    got = expected.difference([5], [[row * 2], [row + "b" * 12]])
    assert got == "token 7 of layer 2 arrived with other bytes at tp3 pp1; 1 rows did"
    assert "rows arrived instead of" in expected.difference([5], [[row * 2], [row]])


def test_tokens_that_differ_from_an_engine_on_its_own_are_counted(demo: SimpleNamespace) -> None:
    router = answered(demo)
    assert summary_of(demo, router)["parity"]["alone"] == len(router.rooms)
    router.rooms[0].tokens = [5, 7]
    assert summary_of(demo, router)["parity"]["alone"] == len(router.rooms) - 1


def test_a_wrong_token_over_right_pages_is_named(demo: SimpleNamespace) -> None:
    router = answered(demo)
    router.rooms[1].tokens = [5, 7]
    (problem,) = summary_of(demo, router)["problems"]
    assert "every row is right, but new token 1 is 7 instead of 6" in problem


def test_missing_tokens_are_a_difference(demo: SimpleNamespace) -> None:
    assert "1 new tokens instead of 2" in demo.proof.Expected([5, 6], RIGHT).difference([5], RIGHT)
    assert demo.proof.Expected([5, 6], RIGHT).difference([5, 6], [[RIGHT[0][0], "c" * 12]])


def test_an_engine_that_keeps_something_makes_the_run_bad(demo: SimpleNamespace) -> None:
    router = answered(demo)
    router.engines["decode-0"].left = {"pages lent": 3}
    assert summary_of(demo, router)["problems"] == ["decode-0 was not idle at the end: pages lent 3"]


def test_a_room_that_failed_for_no_reason_of_the_fault_makes_the_run_bad(demo: SimpleNamespace) -> None:
    router = service(demo)
    router.give_out()
    for room in router.rooms[1:]:
        answer(router, room, [5, 6], RIGHT)
    failure = {"cause": "SILENCE", "sentence": "SILENCE: no word", "status": 504, "in_doubt": False}
    for side in ("prefill", "decode"):
        router.on(f"{side}-0", {"event": "leg", "room": 0})
        router.on(f"{side}-0", {"event": "state", "room": 0, "state": "Failed", "phases": {}, "failure": failure})
    summary = summary_of(demo, router)
    assert not summary["ok"]
    assert [(c["side"], c["cause"], c["rooms"]) for c in summary["causes"]] == [
        ("decode", "SILENCE", 1), ("prefill", "SILENCE", 1),
    ]  # fmt: skip


def test_an_engine_that_ends_by_itself_is_a_problem_and_its_last_words_are_shown(demo: SimpleNamespace) -> None:
    router = service(demo)
    router.give_out()
    router.on("decode-0", {"event": "gone"})
    assert len(router.live) == len(router.rooms)  # their prefill legs have not said how they ended
    assert any("decode-0 is gone, not closed: out of memory" in p for p in summary_of(demo, router)["problems"])


def test_the_legs_of_a_room_hear_of_it_in_all_three_orders(demo: SimpleNamespace) -> None:
    router = service(demo)
    router.give_out()

    def told(side: str) -> list[int]:
        peer = router.engines[f"{side}-0"].peer
        assert isinstance(peer, _Peer)
        return [command["room"] for command in peer.told]

    both, prefill_first, decode_first, *_ = (room.room for room in router.rooms)
    assert both in told("prefill")
    assert both in told("decode")
    assert prefill_first in told("prefill")
    assert prefill_first not in told("decode")
    assert decode_first not in told("prefill")
    router.on("prefill-0", {"event": "leg", "room": prefill_first})
    router.on("decode-0", {"event": "leg", "room": decode_first})
    assert prefill_first in told("decode")
    assert decode_first in told("prefill")


def test_pages_are_free_when_neither_kvpoll_nor_the_engine_wants_them(demo: SimpleNamespace) -> None:
    from kvpoll.runtime import PagePool

    pool = PagePool(4)
    pages = pool.allocate(3)
    assert pages is not None
    hold = demo.legs.Hold(pool, pages)
    hold.lend(pages[:2])
    hold.back((pages[0],))  # kvpoll gives it back, the engine still reads it
    assert pool.available == 1
    hold.done()  # page 1 is still lent
    assert pool.available == 3
    assert not hold.empty
    hold.back((pages[1],))
    assert pool.idle
    assert hold.empty


def test_a_page_that_several_ranks_lent_is_free_when_the_last_one_gives_it_back(demo: SimpleNamespace) -> None:
    from kvpoll.runtime import PagePool

    pool = PagePool(2)
    pages = pool.allocate(2)
    assert pages is not None
    hold = demo.legs.Hold(pool, pages, 2)
    hold.lend(pages)
    hold.done()
    hold.back(pages, 1)
    assert pool.available == 0
    with pytest.raises(KeyError):
        hold.back(pages, 1)  # each rank once
    hold.back(pages, 0)
    assert pool.idle
    assert hold.empty


class _Handle:
    def __init__(self, state: KVPoll, failure: Failure | None = None) -> None:
        self.state, self.failure, self.aborted = state, failure, ""

    def poll(self) -> KVPoll:
        return self.state

    def failure_exception(self) -> KVTransferError | None:
        return None if self.failure is None else KVTransferError(1, self.failure)

    def abort(self, reason: str, status: int) -> None:
        self.aborted = reason


def leg_of(demo: SimpleNamespace, *handles: _Handle) -> Any:  # noqa: ANN401
    leg = demo.legs.Leg({"room": 1, "prompt": [1]}, [None] * len(handles))
    leg.handles = list(handles)
    return leg


def test_a_room_has_succeeded_when_all_its_ranks_have(demo: SimpleNamespace) -> None:
    late = _Handle(KVPoll.Transferring)
    leg = leg_of(demo, _Handle(KVPoll.Success), late)
    assert leg.state() is KVPoll.Transferring
    late.state = KVPoll.Success
    assert leg.state() is KVPoll.Success


def test_one_failed_rank_fails_the_room_with_its_own_cause_and_ends_the_others(demo: SimpleNamespace) -> None:
    echo, own = Failure(Cause.PEER_ABORTED), Failure(Cause.SILENCE)
    live, over = _Handle(KVPoll.WaitingForInput), _Handle(KVPoll.Success)
    leg = leg_of(demo, over, live, _Handle(KVPoll.Failed, echo), _Handle(KVPoll.Failed, own))
    assert leg.state() is KVPoll.Failed
    assert leg.failure is own
    leg.abort("another rank has failed")
    assert (live.aborted, over.aborted) == ("another rank has failed", "")


def test_what_is_decided_does_not_change(demo: SimpleNamespace) -> None:
    rank = _Handle(KVPoll.Success)
    leg = leg_of(demo, rank)
    leg.told = leg.state()
    rank.state = KVPoll.Failed
    assert leg.state() is KVPoll.Success


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--transport", "inproc", "--fault", "kill-decode"], "one process"),
        (["--prefill", "1", "--fault", "kill-prefill"], "two engines"),
        (["--decode", "1", "--fault", "abort"], "two engines"),
        (["--prompts", "3", "--fault", "abort"], "12 prompts"),
        (["--fault", "earthquake"], "earthquake"),
        (["--tp", "2"], "expected PREFILL:DECODE, for example 2:1, got '2'"),
        (["--tp", "2:0"], "expected PREFILL:DECODE"),
        (["--pp", "x:1"], "expected PREFILL:DECODE"),
        (["--tp", "5:1"], "5:1 divide neither"),
        (["--pp", "5:1"], "4 layers, got 5 stages"),
        (["--tp", "12:1", "--pp", "2:1"], "at most 16 ranks in an engine, got 24"),
        (["--dcp", "1:4"], "add --mla"),
        (["--mla", "--dcp", "1:2", "--tp", "1:3"], "expected a divisor of --tp (3), got 2"),
        (["--tokens", "63,,65"], "expected lengths of 1 to 1088, got ''"),
        (["--tokens", "1089"], "expected lengths of 1 to 1088, got '1089'"),
        (["--tp", "2:3", "--decode", "1"], "another decode engine has to serve on"),
        (["--tp", "2:3", "--fault", "abort"], "the refusal is the fault to see"),
        (["--tp", "2:3", "--tokens", "64"], "one is refused"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_status_two(args: list[str], said: str) -> None:
    result = RUN.invoke(cli, ["demo", *args], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert said in result.output


def test_sizes_are_read_as_prefill_and_decode_and_dcp_ranks_are_tp_ranks() -> None:
    assert read_sizes("2:1", "2:1", "", "", False) == (Shape(tp=2, pp=2), Shape())
    assert read_sizes("2:1", "2:1", "", "1:4", True) == (Shape(tp=2, pp=2), Shape(tp=4, dcp=4))
    assert read_sizes("1:4", "", "2:1", "1:2", True) == (Shape(cp=2), Shape(tp=4, dcp=2))
    assert read_tokens("63, 64") == (63, 64)
    assert read_tokens("") == ()


@pytest.mark.parametrize("mla", [False, True])
def test_what_the_demonstration_takes_for_a_pair_that_does_not_fit_is_what_the_handshake_refuses(
    demo: SimpleNamespace, mla: bool
) -> None:
    sizes = [Shape(tp, pp, cp, 1, dcp) for tp in (1, 2, 3, 4) for pp in (1, 2) for cp in (1, 2)
             for dcp in ((1, 2, 4) if mla and cp == 1 else (1,)) if tp % dcp == 0]  # fmt: skip
    ends = {(role, shape): _registration(demo, role, shape, mla) for role in ("prefill", "decode") for shape in sizes}
    for prefill, decode in product(sizes, sizes):
        refused = compare(ends["prefill", prefill], ends["decode", decode], role="prefill").refused
        field = refused_field(prefill, decode)
        assert field in refused if field else not refused, (prefill, decode, refused)


def _registration(demo: SimpleNamespace, role: str, shape: Shape, mla: bool) -> Registration:
    """Of the first rank of such an engine."""
    setting = demo.setting.Options(mla=mla, prefill_shape=Shape(tp=12)).setting("", role, shape)
    config = setting.config(Place(), 1)
    offer = TransportOffer(name="inproc", descriptor={})
    return config.engine.describe(config.role, 1, [offer], config.durations.deadlines(config.role), 100)


def _command() -> ModuleType:
    return import_module("kvpoll.cli.demo")


def test_without_a_checkout_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_command(), "__file__", str(tmp_path / "kvpoll" / "cli" / "demo.py"))
    result = RUN.invoke(cli, ["demo"])
    assert result.exit_code == 2
    assert "needs a checkout of kvpoll" in result.output
    assert result.output.count("\n") == 1


def test_without_an_extra_one_sentence_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_command(), "find_spec", lambda name: None if name == "jax" else object())
    result = RUN.invoke(cli, ["demo"])
    assert result.exit_code == 2
    assert "pip install 'kvpoll[jax]'" in result.output


def test_the_bootstrap_service_prints_where_it_is_and_ends_with_its_stdin() -> None:
    command = [sys.executable, "-m", "kvpoll", "bootstrap", "--until-eof", "--ttl", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            said = json.loads(child.stdout.readline())
            assert said["pid"] == child.pid
            with urllib.request.urlopen(f"{said['url']}/health", timeout=10) as response:
                assert response.read() == b"OK"
            child.stdin.close()
            child.wait(20)
        finally:
            child.kill()


def test_the_bootstrap_service_refuses_an_address_that_is_not_its_own() -> None:
    result = RUN.invoke(cli, ["bootstrap", "--host", "203.0.113.1"])
    assert result.exit_code == 2
    assert "cannot listen on 203.0.113.1" in result.output


def test_a_change_at_any_rank_wakes_the_engine_and_its_watch_ends_with_the_rank(demo: SimpleNamespace) -> None:
    setting = demo.setting.EngineSetting("", "decode", shape=Shape(tp=2))
    one, other = demo.ranks.make_ranks(setting, 7)
    assert (one.manager.engine, other.manager.engine) == (7, 7)
    told = threading.Event()
    other.watch(told.set)
    assert told.wait(10)  # it looks once at the start
    told.clear()
    other.manager.poke()
    assert told.wait(10)
    assert other.close() == one.close() == {}
    assert not other._watch.is_alive()


def test_only_the_last_stage_has_aux_data_and_copies_share_a_pool(demo: SimpleNamespace) -> None:
    ranks = demo.ranks.make_ranks(demo.setting.EngineSetting("", "decode", shape=Shape(tp=2, pp=2, cp=2)), 7)
    try:
        assert [rank.has_aux for rank in ranks] == [False] * 4 + [True] * 4
        assert [rank.shard for rank in ranks] == [0, 0, 1, 1, 2, 2, 3, 3]
        leg = demo.legs.Leg({"room": 1, "prompt": [1]}, ranks)
        pool = demo.legs.PagePool(3)
        assert leg.take(pool, 4) is None
        assert sum(rank.aux.lent for rank in ranks) == 0
        assert leg.take(pool, 3) is not None
        assert [slot is not None for slot in leg.slots] == [rank.has_aux for rank in ranks]
    finally:
        for rank in ranks:
            rank.close()
