"""`kvpoll demo` with engines of several ranks: KV exact row by row, tokens exact, whatever the sizes at both ends.

Lengths stand around the borders of a page of one rank (64 = 4 pages), of pages that four ranks share (64 = 1 page), and of
chunks; 1,025 tokens are 17 chunks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .run import check_idle, check_parity, check_traces, run

pytest.importorskip("jax")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.usefixtures("compiled_once")

BORDERS = "63,64,65"
LENGTHS = "63,64,65,255,256,257,1023,1024,1025"
EVERYTHING = ("--mla", "--tp", "2:1", "--dcp", "1:4", "--pp", "2:1")
#: Options, and how many times every row of a token arrives: once for each decode rank that has to have it.
SIZES = {
    ("--tp", "2:1"): 1, ("--tp", "1:2"): 2, ("--tp", "4:2"): 2, ("--tp", "3:6"): 6, ("--pp", "2:1"): 1, ("--pp", "2:2"): 1,
    ("--pp", "3:1", "--tp", "2:4"): 4, ("--cp", "2:1"): 1, ("--cp", "2:2", "--tp", "1:2"): 2,
    ("--mla", "--tp", "2:1"): 1, ("--mla", "--tp", "1:2"): 2, ("--mla", "--tp", "4:2", "--pp", "2:2"): 2,
    ("--mla", "--dcp", "1:2"): 1, ("--mla", "--dcp", "1:4"): 1, ("--mla", "--dcp", "1:2", "--tp", "2:4"): 2,
    ("--mla", "--dcp", "2:2"): 1, EVERYTHING: 1,
}  # fmt: skip
#: Over every transport: heads cut and joined, stages, token rows, and all of it.
WORLDLY = [("--tp", "1:2"), ("--tp", "4:2"), ("--pp", "3:1", "--tp", "2:4"), ("--mla", "--dcp", "1:4"), EVERYTHING]


def check_all_arrived(arguments: tuple[str, ...], transport: str, lengths: str, trace: Path | None = None) -> None:
    traced = ("--trace", str(trace)) if trace is not None else ()
    summary = run(*arguments, "--transport", transport, "--tokens", lengths, *traced)
    wanted = [int(length) for length in lengths.split(",")]
    assert summary["rooms"]["lengths"] == wanted
    assert summary["rooms"]["answered"] == len(wanted)
    assert summary["parity"]["rows"] == 4 * sum(wanted) * SIZES[arguments]  # four layers
    assert summary["causes"] == []
    check_parity(summary)
    check_idle(summary)


def test_tensor_pipeline_and_decode_context_parallel_engines_hand_latent_rows_over_exactly(tmp_path: Path) -> None:
    check_all_arrived(EVERYTHING, "inproc", BORDERS, tmp_path)
    check_traces(tmp_path)
    ranks = {file.name.rpartition("-")[0] for file in tmp_path.iterdir()}
    assert {"prefill-0", "prefill-0.tp1", "prefill-0.pp1", "prefill-0.tp1.pp1", "decode-0", "decode-0.tp3"} <= ranks
    assert len(ranks) == 8


def test_heads_are_split_between_processes_of_other_sizes_exactly() -> None:
    check_all_arrived(("--tp", "1:2"), "zmq", BORDERS)


def refused(arguments: tuple[str, ...], field: str, transport: str, prompts: int) -> None:
    summary = run(*arguments, "--transport", transport, "--prompts", str(prompts))
    (entry,) = (entry for entry in summary["causes"] if entry["side"] == "decode")
    assert entry["cause"] == "HANDSHAKE_REFUSED"
    assert f"fields={field}" in entry["example"]
    assert entry["rooms"] == summary["fault"]["touched"] > 0
    assert summary["rooms"]["answered"] == summary["rooms"]["untouched"] == prompts - entry["rooms"]
    check_parity(summary)
    check_idle(summary)


def test_a_pair_that_does_not_fit_is_refused_by_name_while_another_decode_engine_is_served() -> None:
    refused(("--tp", "2:3"), "tp.size", "inproc", 4)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("sizes", "transport"),
    [(sizes, "zmq") for sizes in SIZES] + [(sizes, other) for sizes in WORLDLY for other in ("jax", "inproc")],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_all_sizes_hand_over_exactly_at_every_length(sizes: tuple[str, ...], transport: str) -> None:
    check_all_arrived(sizes, transport, LENGTHS)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("sizes", "field"),
    [(("--tp", "3:2"), "tp.size"), (("--pp", "1:2"), "pp.size"), (("--cp", "2:3"), "cp.size"),
     (("--mla", "--dcp", "2:4"), "dcp"), (("--mla", "--dcp", "2:1"), "dcp"), (("--mla", "--dcp", "1:2", "--cp", "2:1"), "dcp")],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)  # fmt: skip
def test_every_kind_of_pair_that_does_not_fit_is_refused_by_name(sizes: tuple[str, ...], field: str) -> None:
    refused(sizes, field, "zmq", 12)


@pytest.mark.deep
@pytest.mark.parametrize(
    "fault", ["abort", "kill-prefill", "kill-decode", "restart-prefill", "stop-decode", "mismatch"]
)
@pytest.mark.parametrize("sizes", [("--tp", "2:1"), ("--tp", "1:2"), EVERYTHING], ids=" ".join)
def test_every_fault_ends_well_with_several_ranks(sizes: tuple[str, ...], fault: str, tmp_path: Path) -> None:
    summary = run(*sizes, "--transport", "zmq", "--fault", fault, "--prompts", "24", "--trace", str(tmp_path))
    assert summary["fault"]["touched"] > 0
    check_parity(summary)
    lost = {
        "kill-prefill": "prefill-0",
        "restart-prefill": "prefill-0",
        "kill-decode": "decode-0",
        "stop-decode": "decode-0",
    }
    check_idle(summary, (lost[fault],) if fault in lost else ())
    check_traces(tmp_path, cut=fault in lost)
