"""The TPU kernels compiled for five generations of TPU, without one: no temporaries, and pools written in place.

Needs libtpu, which is large and under Google's terms, so it is not among the requirements: `make aot` makes an environment
with it. What is compiled has the size of a real pool, because XLA lays small arrays out otherwise.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvpoll.kernels.limits import SMEM_IDS

ROOT = Path(__file__).parents[3]
TOPOLOGIES = ("v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
#: jax, jaxlib and libtpu have to be in step: this is the series that jax 0.10.2 names.
SERIES = "0.0.42."
LIMIT_S = 600
Rows = dict[str, dict[str, object]]


def _installed() -> str:
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return ""


pytestmark = [
    pytest.mark.skipif(not _installed().startswith(SERIES), reason=f"libtpu {SERIES}* is not installed: make aot"),
    pytest.mark.timeout(LIMIT_S + 30),
]


def compiled(topology: str, *what: str) -> Rows:
    command = [sys.executable, "-m", "tests.kernels.aot.compile_for", topology, *what]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return {row["name"]: row for row in json.loads(run.stdout.splitlines()[-1])}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_kernels_need_no_temporary_and_write_pools_in_place(topology: str) -> None:
    rows = compiled(topology, "kernels")
    assert len(rows) > 100
    for name, row in rows.items():
        assert not row["error"], row
        assert (name, row["temporary"], row["aliased"]) == (name, 0, row["pool"])


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_our_limits_refuse_what_the_compiler_refuses_or_copies_and_nothing_else(topology: str) -> None:
    for row in compiled(topology, "limits").values():
        assert (not row["error"] and row["temporary"] == 0) is row["allowed"], row


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_ids_fit_the_scalar_memory_and_the_host_copy_is_one_transfer(topology: str) -> None:
    rows = compiled(topology, "memory")
    for name in (f"{SMEM_IDS} ids", "two lists", "three lists", "to the host"):
        assert (rows[name]["error"], rows[name]["temporary"]) == ("", 0), rows[name]
    assert rows["to the host"]["host_aliased"] == 4096 * 32768 * 2
    if topology.startswith(("v5e", "v6e", "tpu7x")):
        assert "smem" in str(rows[f"{2 * SMEM_IDS} ids"]["error"])
    # The reason why "auto" takes the kernel on a TPU: XLA needs a copy of the pool to write some pages of floats.
    assert int(str(rows["xla bfloat16"]["temporary"])) >= 4096 * 32768 * 2
    assert int(str(rows["xla uint16"]["temporary"])) <= 64 * 32768 * 2
