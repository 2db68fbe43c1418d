"""Gathering into staging buffers: aligned, used again, and never while somebody still looks at one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kvpoll.runtime.kv import gather
from kvpoll.runtime.transports.memory import BufferPool

PAGES = np.arange(8, dtype=np.int32)


@pytest.fixture
def pool() -> list[npt.NDArray[np.uint16]]:
    return [np.random.default_rng(i).integers(0, 1 << 16, (16, 8192), np.uint16) for i in range(2)]


def address(rows: object) -> int:
    return int(np.asarray(rows).ctypes.data)


def test_a_copy_on_the_host_starts_where_accelerators_read_it_in_place(pool: list[npt.NDArray[np.uint16]]) -> None:
    rows = gather(pool, PAGES, BufferPool(1 << 24))
    assert address(rows) % 64 == 0
    assert all((np.asarray(rows)[i] == layer[PAGES]).all() for i, layer in enumerate(pool))


def test_the_next_chunk_uses_the_buffer_of_one_that_nobody_looks_at_any_more(
    pool: list[npt.NDArray[np.uint16]],
) -> None:
    staging = BufferPool(1 << 24)
    first = gather(pool, PAGES, staging)
    at = address(first)
    part = np.asarray(first)[1:]
    del first
    second = gather(pool, PAGES[::-1], staging)
    assert address(second) != at, "a view of the first chunk is still alive"
    assert (part[0] == pool[1][PAGES]).all()
    del part
    assert address(gather(pool, PAGES, staging)) == at


def test_pages_that_cannot_be_gathered_are_refused_by_name_and_lend_nothing(
    pool: list[npt.NDArray[np.uint16]],
) -> None:
    staging = BufferPool(1 << 24)
    with pytest.raises(ValueError, match="page 99 is outside"):
        gather(pool, np.array([1, 99], np.int32), staging)
    with pytest.raises(ValueError, match="listed more than once"):
        gather(pool, np.zeros(17, np.int32), staging)
    assert staging.lent() == 0


def test_a_jax_pool_on_the_host_is_gathered_into_staging_too(pool: list[npt.NDArray[np.uint16]]) -> None:
    jax = pytest.importorskip("jax")
    staging = BufferPool(1 << 24)
    rows = gather([jax.numpy.asarray(layer) for layer in pool], PAGES, staging)
    if jax.default_backend() == "cpu":
        assert staging.lent() == 1
    assert (np.asarray(rows)[0] == pool[0][PAGES]).all()
