"""Parts of the demonstration by themselves: that it would notice, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

if TYPE_CHECKING:
    from demo.router import Room, Router

from kvpoll.cli.app import cli

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
        names = ("engine", "faults", "proof", "report", "router", "setting")
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
    expected = {room.index: demo.proof.Expected([5, 6], [["a", "b"], ["c", "d"]]) for room in router.rooms}
    for view in router.engines.values():
        if view.status == "ready":
            view.status, view.left, view.exit_status = "closed", view.left or {}, 0
    fault = demo.faults.make_fault(demo.setting.Options(), router, lambda name: None)
    seconds = {"setup": 1.0, "run": 1.0, "end": 1.0}
    found: dict[str, Any] = demo.report.summarise(demo.setting.Options(), router, fault, expected, seconds, [])
    return found


RIGHT = [["a", "b"], ["c", "d"]]


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


def test_a_wrong_page_is_named_by_room_page_and_layer(demo: SimpleNamespace) -> None:
    router = answered(demo)
    router.rooms[2].digests = [["a", "b"], ["c", "x"]]
    (problem,) = summary_of(demo, router)["problems"]
    assert problem == f"room {router.rooms[2].room} (prompt 2, 3 tokens): page 1 of layer 1 arrived with other bytes"


def test_a_wrong_token_over_right_pages_is_named(demo: SimpleNamespace) -> None:
    router = answered(demo)
    router.rooms[1].tokens = [5, 7]
    (problem,) = summary_of(demo, router)["problems"]
    assert "every page is right, but new token 1 is 7 instead of 6" in problem


def test_missing_tokens_are_a_difference(demo: SimpleNamespace) -> None:
    assert "1 new tokens instead of 2" in demo.proof.Expected([5, 6], RIGHT).difference([5], RIGHT)
    assert demo.proof.Expected([5, 6], RIGHT).difference([5, 6], [["a"], ["c"]])


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
    hold = demo.engine.Hold(pool, pages)
    hold.lend(pages[:2])
    hold.back((pages[0],))  # kvpoll gives it back, the engine still reads it
    assert pool.available == 1
    hold.done()  # page 1 is still lent
    assert pool.available == 3
    assert not hold.empty
    hold.back((pages[1],))
    assert pool.idle
    assert hold.empty


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--transport", "inproc", "--fault", "kill-decode"], "one process"),
        (["--prefill", "1", "--fault", "kill-prefill"], "two engines"),
        (["--decode", "1", "--fault", "abort"], "two engines"),
        (["--prompts", "3", "--fault", "abort"], "12 prompts"),
        (["--fault", "earthquake"], "earthquake"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_status_two(args: list[str], said: str) -> None:
    result = RUN.invoke(cli, ["demo", *args], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert said in result.output


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
