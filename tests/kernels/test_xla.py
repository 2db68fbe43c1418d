"""What the compiled path promises beyond right bytes: in place, bounded compilation, no hold on the caller's memory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from kvpoll.kernels import Layer, gather_pages, rows_spec, scatter_pages

jax = pytest.importorskip("jax")


def cpu_pool(dtype: str, shape: tuple[int, ...], layers: int = 2) -> list[Layer]:
    zeros = np.zeros(shape, jax.numpy.dtype(dtype))
    # A copy: jax may adopt the memory of a numpy array, and memory that it does not own is never updated in place.
    return [jax.numpy.copy(jax.device_put(zeros, jax.devices("cpu")[0])) for _ in range(layers)]


def rows_for(pool: list[Layer], n_pages: int) -> np.ndarray:
    shape, dtype = rows_spec(pool, n_pages)
    return np.full(shape, 7, dtype)


@contextmanager
def compilations() -> Iterator[list[str]]:
    seen: list[str] = []

    def listen(event: str, duration: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("dtype", ["uint16", "int8", "bfloat16", "float8_e5m2", "float32"])
def test_scatter_writes_the_buffers_of_the_pool_and_kills_the_old_arrays(dtype: str) -> None:
    pool = cpu_pool(dtype, (16, 2, 4, 8))
    where = [layer.unsafe_buffer_pointer() for layer in pool]  # type: ignore[union-attr]
    # Reading first: a numpy view that gather left behind would make jax copy the pool instead.
    gather_pages(pool, [1, 2])
    new = scatter_pages(pool, [3, 9, 4], rows_for(pool, 3))
    assert [layer.unsafe_buffer_pointer() for layer in new] == where  # type: ignore[union-attr]
    assert all(layer.is_deleted() for layer in pool)  # type: ignore[union-attr]


def test_numpy_rows_may_be_reused_after_scatter_although_the_pool_is_still_being_computed() -> None:
    long_step = jax.jit(lambda layer: jax.lax.fori_loop(0, 2000, lambda _, bits: bits * 3 + 1, layer))
    pool = cpu_pool("uint16", (64, 1 << 12))
    # 64-byte alignment and a power-of-two count: the case in which jax reads the caller's memory without a copy.
    shape, _ = rows_spec(pool, 32)
    memory = np.empty(2 * int(np.prod(shape)) + 64, np.uint8)
    rows = memory[-memory.ctypes.data % 64 :][: 2 * int(np.prod(shape))].view(np.uint16).reshape(shape)
    for value in (3, 7):  # the first round compiles, which would give the step the time to end
        rows[:] = value
        pool = scatter_pages([long_step(layer) for layer in pool], range(32), rows)
        rows[:] = 0
        assert all((np.asarray(layer)[:32] == value).all() for layer in pool)


def test_scatter_leaves_jax_rows_alive() -> None:
    pool = cpu_pool("uint16", (16, 4))
    rows = jax.numpy.asarray(rows_for(pool, 3))
    scatter_pages(pool, [0, 1, 2], rows)
    assert not rows.is_deleted()
    assert (np.asarray(rows) == 7).all()


def test_the_number_of_scatter_programs_grows_with_the_logarithm_of_the_page_count() -> None:
    for dtype in ("uint16", "bfloat16"):
        pool = cpu_pool(dtype, (40, 3, 13))
        with compilations() as seen:
            for n_pages in range(1, 33):
                pool = scatter_pages(pool, range(n_pages), rows_for(pool, n_pages))
        assert len(seen) == 6, "one program for each of 1, 2, 4, 8, 16 and 32 pages"


def test_the_numpy_path_compiles_nothing() -> None:
    pool = cpu_pool("bfloat16", (16, 3, 11))
    with compilations() as seen:
        for n_pages in range(1, 17):
            gather_pages(pool, range(n_pages))
    assert seen == []


def test_every_count_of_pages_is_gathered_exactly() -> None:
    pool = [jax.numpy.arange(10 * 3, dtype="uint16").reshape(10, 3) + layer for layer in range(2)]
    for n_pages in range(1, 11):
        pages = list(range(n_pages))[::-1]
        rows = np.asarray(gather_pages(pool, pages, path="xla"))
        np.testing.assert_array_equal(rows, np.stack([np.asarray(layer)[pages] for layer in pool]))


def test_numpy_pools_are_moved_without_importing_jax() -> None:
    script = """
import sys, numpy as np
from kvpoll.kernels import gather_pages, scatter_pages
pool = [np.arange(12, dtype=np.float32).reshape(4, 3)]
scatter_pages(pool, [0], gather_pages(pool, [3]))
assert pool[0][0].tolist() == [9, 10, 11], pool
print([name for name in sys.modules if name.split(".")[0] in ("jax", "jaxlib", "zmq")])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"
