"""The TPU kernels in both modes of Pallas' TPU interpreter: right data when copies come late, no races when they come early.

All of this runs in processes of their own with a time limit, because the interpreter can hang. Where a mode cannot run a
kernel, the test says which one stands in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest

from kvpoll.kernels import copy_layers, copy_to_host, gather_rows, relayout_dcp, scatter_rows, tpu
from kvpoll.kernels.layout import layout_of
from kvpoll.kernels.parts import Part

from .geometries import DTYPES, LATENT
from .tpu_modes import CHECKS, MODES, QUICK

ROOT = Path(__file__).parents[2]
#: Fourteen seconds of a core, for the quick ones; a machine may be busy.
LIMIT_S = 280
pytestmark = pytest.mark.timeout(LIMIT_S + 20)


class Report(TypedDict):
    """Of one run: `equal` to the reference, `raced` (None where the mode does not look), or the `error`."""

    check: str
    mode: str
    equal: bool
    raced: bool | None
    error: str


def reports(*arguments: str) -> dict[tuple[str, str], Report]:
    # With two cores the interpreter's threads can wait for each other; NPROC makes jax believe in more.
    environment = {**os.environ, "NPROC": "16", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.kernels.tpu_modes", *arguments]
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    rows: list[Report] = json.loads(run.stdout.splitlines()[-1])
    return {(row["check"], row["mode"]): row for row in rows}


@pytest.fixture(scope="module")
def quick() -> dict[tuple[str, str], Report]:
    return reports("quick")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("check", QUICK)
def test_a_kernel_gives_the_bits_of_the_reference_and_no_race(
    quick: dict[tuple[str, str], Report], check: str, mode: str
) -> None:
    report = quick[check, mode]
    assert report["equal"], report
    assert report["raced"] is (None if mode == "data" else False), report


@pytest.mark.deep
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kernel_does_so_for_every_dtype(dtype: str) -> None:
    found = reports("every", dtype)
    assert len(found) == len(CHECKS) * len(MODES)
    assert all(report["equal"] and not report["raced"] for report in found.values()), found


def test_a_missing_wait_is_seen_as_wrong_data_and_as_a_race(quick: dict[tuple[str, str], Report]) -> None:
    assert not quick["missing wait", "data"]["equal"]
    assert quick["missing wait", "order"]["raced"]


def test_a_read_before_the_wait_is_seen_as_wrong_data_and_as_a_race(quick: dict[tuple[str, str], Report]) -> None:
    assert not quick["read before wait", "data"]["equal"]
    assert quick["read before wait", "order"]["raced"]


def test_ids_past_the_end_are_seen_by_both_modes_and_refused_by_us(quick: dict[tuple[str, str], Report]) -> None:
    for mode in MODES:
        assert "IndexError" in quick["read past the end", mode]["error"]
        assert quick["write past the end", mode]["error"]
        assert quick["chunk past the end", mode]["error"]
    with pytest.raises(ValueError, match=r"token_rows: id 24 at 1 is outside 0..23"):
        gather_rows(LATENT.pool("uint16"), [1, 24], LATENT.layout("uint16"))
    with pytest.raises(ValueError, match="src_offsets: chunk 0 ends at page 7, past the end at 6"):
        copy_layers(LATENT.pool("uint16"), LATENT.pool("uint16"), [5], [0], [2])


def test_two_rows_to_one_place_are_seen_by_no_mode_so_we_refuse_them(quick: dict[tuple[str, str], Report]) -> None:
    for mode in MODES:
        assert not quick["one row twice", mode]["error"]
        assert not quick["one row twice", mode]["raced"]
    with pytest.raises(ValueError, match="token_rows: id 3 is listed more than once"):
        scatter_rows(LATENT.pool("uint16"), [3, 3], np.zeros((3, 2, 24), np.uint16), LATENT.layout("uint16"))


def test_overlapping_chunks_are_seen_by_no_mode_so_we_refuse_them(quick: dict[tuple[str, str], Report]) -> None:
    for mode in MODES:
        assert not quick["chunks that overlap", mode]["error"]
        assert not quick["chunks that overlap", mode]["raced"]
    with pytest.raises(ValueError, match="dst_offsets: chunks 0 and 1 overlap at page 1"):
        copy_layers(LATENT.pool("uint16"), LATENT.pool("uint16"), [0, 3], [0, 1], [2, 2])


def test_negative_ids_are_seen_by_no_mode_so_we_refuse_them(quick: dict[tuple[str, str], Report]) -> None:
    assert not quick["negative source", "data"]["error"]
    with pytest.raises(ValueError, match=r"src_rows: id -3 at 0 is outside 0..23"):
        relayout_dcp(LATENT.pool("uint16"), LATENT.pool("uint16"), [-3], [2], LATENT.layout("uint16"))


def test_dynamic_sizes_do_not_run_with_interpret_true_and_the_modes_above_stand_in() -> None:
    jax = pytest.importorskip("jax")
    source, target = ([jax.numpy.asarray(x) for x in LATENT.pool("uint16", seed)] for seed in (0, 9))
    one = np.array([1])
    with pytest.raises(TypeError):
        tpu.copy_layers(source, target, one, one, one, interpret=True)
    assert all(("chunks", mode) for mode in MODES), "chunks are checked by both"


def test_host_memory_runs_with_interpret_true_only_and_device_put_stands_in_on_the_cpu() -> None:
    jax = pytest.importorskip("jax")
    (layer, host) = (jax.numpy.asarray(LATENT.pool("bfloat16", seed)[0]) for seed in (0, 9))
    with pytest.raises(KeyError, match="HOST"):
        tpu.fill_host(host, layer, MODES["data"])
    filled = tpu.fill_host(jax.numpy.asarray(LATENT.pool("bfloat16", 9)[0]), layer, True)
    np.testing.assert_array_equal(np.asarray(filled).view(np.uint16), np.asarray(layer).view(np.uint16))
    (stand_in,) = copy_to_host([layer])
    assert stand_in.sharding.memory_kind == "pinned_host"  # type: ignore[union-attr]


def test_long_lists_of_ids_are_split_into_launches_that_fit_the_scalar_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(tpu, "SMEM_IDS", 8)
    pool, layout = LATENT.pool("uint16")[:1], LATENT.layout("uint16")
    found, launched = layout_of(pool), []
    for name in ("gather_units", "scatter_units", "move_units"):
        real = getattr(tpu, name)
        monkeypatch.setattr(tpu, name, lambda *a, real=real, name=name: (launched.append(name), real(*a))[1])
    ids = np.random.default_rng(0).permutation(24)[:16]
    words = tpu.gather_rows([jax.numpy.asarray(x) for x in pool], ids, found, layout, interpret=True)
    np.testing.assert_array_equal(words, gather_rows(pool, ids, layout))
    blank = [[jax.numpy.zeros(x.shape, x.dtype) for x in pool] for _ in range(2)]
    written = tpu.scatter_rows(blank[0], ids, np.asarray(words), found, layout, interpret=True)
    part = Part.tokens_of(found, layout)
    moved = tpu.relayout_rows(written, blank[1], ids, ids, part, part, interpret=True)
    np.testing.assert_array_equal(gather_rows(moved, ids, layout), words)
    assert launched == ["gather_units"] * 2 + ["scatter_units"] * 2 + ["move_units"] * 4
