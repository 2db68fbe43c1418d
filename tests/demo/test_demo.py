"""`kvpoll demo` as a person runs it: every token right and everybody idle, whatever goes wrong on purpose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .run import check_idle, check_parity, check_traces, run

pytest.importorskip("jax")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.usefixtures("compiled_once")

FEW = "12"
#: Engines that do not live to the end.
LOST = {
    "kill-prefill": ("prefill-0",), "restart-prefill": ("prefill-0",), "kill-decode": ("decode-0",),
    "stop-decode": ("decode-0",),
}  # fmt: skip
FAULTS = ("abort", "kill-prefill", "kill-decode", "restart-prefill", "stop-decode", "mismatch")


def causes(summary: dict[str, Any], side: str) -> dict[str, int]:
    return {entry["cause"]: entry["rooms"] for entry in summary["causes"] if entry["side"] == side}


def check_all_answered(summary: dict[str, Any], rooms: int) -> None:
    assert summary["rooms"]["given"] == summary["rooms"]["answered"] == rooms
    assert summary["causes"] == []
    assert summary["rooms"]["on_page_borders"] >= 2
    assert len(summary["rooms"]["orders"]) == 3
    for side in ("prefill", "decode"):
        assert set(summary["phases_ms"][side]) == {"bootstrap", "wait", "transfer"}
    check_parity(summary)
    assert summary["bytes"] > summary["parity"]["rows"] * 512  # a token of a layer; whole pages, and the aux data
    check_idle(summary)


def test_every_token_is_right_over_zmq_with_a_secret_and_traces_are_written(tmp_path: Path) -> None:
    summary = run("--transport", "zmq", "--prompts", FEW, "--secret", "a-shared-secret", "--trace", str(tmp_path))
    check_all_answered(summary, int(FEW))
    assert sorted(file.name.rpartition("-")[0] for file in tmp_path.iterdir()) == ["decode-0", "prefill-0"]
    check_traces(tmp_path)


def test_every_token_is_right_over_jax_which_is_the_default() -> None:
    summary = run("--prompts", FEW)
    assert summary["transport"] == "jax"
    check_all_answered(summary, int(FEW))


def test_every_token_is_right_within_one_process() -> None:
    summary = run("--transport", "inproc", "--prompts", FEW)
    check_all_answered(summary, int(FEW))
    assert {engine["pid"] for engine in summary["engines"]} != {os.getpid()}
    assert len({engine["pid"] for engine in summary["engines"]}) == 1


def check_fault(summary: dict[str, Any], fault: str) -> None:
    check_parity(summary)
    check_idle(summary, LOST.get(fault, ()))
    assert summary["fault"]["what"]
    assert summary["fault"]["touched"] > 0
    for entry in summary["causes"]:
        assert entry["example"].startswith(f"{entry['cause']}: ")
    prefill, decode = causes(summary, "prefill"), causes(summary, "decode")
    match fault:
        case "abort":
            assert prefill["ABORTED"] == decode["PEER_ABORTED"] > 0
            assert decode["ABORTED"] == prefill["PEER_ABORTED"] + prefill.get("TRANSPORT_FAILED", 0) > 0
            statuses = {(e["side"], e["cause"]): e["statuses"] for e in summary["causes"]}
            assert statuses["decode", "PEER_ABORTED"] == [400]
        case "kill-prefill" | "restart-prefill":
            assert prefill == {}
            assert set(decode) <= {"PEER_LOST", "TRANSPORT_FAILED", "TRANSPORT_UNRESOLVED", "UNREACHABLE", "NO_LEG"}
            assert decode
        case "kill-decode" | "stop-decode":
            assert decode == {}
            assert set(prefill) <= {"PEER_LOST", "NO_ANNOUNCE", "SILENCE", "TRANSPORT_FAILED", "TRANSPORT_UNRESOLVED"}
            assert prefill
        case "mismatch":
            assert decode == {"HANDSHAKE_REFUSED": summary["fault"]["touched"]}
            refused = next(e["example"] for e in summary["causes"] if e["cause"] == "HANDSHAKE_REFUSED")
            assert "page.size" in refused
        case _:
            raise AssertionError(fault)


# Not kill-prefill over jax: its native layer ends a process whose peer dies while the two connect (docs/operations.md).
@pytest.mark.parametrize(
    ("fault", "transport"),
    [("abort", "inproc"), ("kill-prefill", "zmq"), ("kill-decode", "zmq"), ("restart-prefill", "zmq"),
     ("stop-decode", "jax"), ("mismatch", "inproc")],
)  # fmt: skip
def test_rooms_that_a_fault_does_not_touch_are_answered_and_the_others_say_why_not(
    fault: str, transport: str, tmp_path: Path
) -> None:
    check_fault(run("--transport", transport, "--fault", fault, "--prompts", FEW, "--trace", str(tmp_path)), fault)
    check_traces(tmp_path, cut=len(LOST.get(fault, ())))


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["jax", "zmq", "inproc"])
def test_sixty_four_prompts_are_right(transport: str) -> None:
    check_all_answered(run("--transport", transport), 64)


@pytest.mark.deep
def test_several_engines_of_each_kind_share_the_bootstrap_service() -> None:
    summary = run("--prefill", "2", "--decode", "2")
    check_all_answered(summary, 64)
    assert len(summary["engines"]) == 4


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["jax", "zmq"])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_ends_well_with_sixty_four_prompts(fault: str, transport: str, tmp_path: Path) -> None:
    check_fault(run("--transport", transport, "--fault", fault, "--trace", str(tmp_path)), fault)
    check_traces(tmp_path, cut=len(LOST.get(fault, ())))
