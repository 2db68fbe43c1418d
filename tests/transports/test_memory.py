from __future__ import annotations

import gc
import platform

import numpy as np

from kvpoll.runtime.transports.memory import BufferPool, keep_freed_memory

MIB = 1 << 20


def test_a_buffer_goes_round_only_after_its_last_view_is_gone() -> None:
    pool = BufferPool(8 * MIB)
    loan = pool.lend(MIB)
    address = loan.ctypes.data
    view = loan[5:].view()[::2]
    del loan
    assert pool.lent() == 1
    other = pool.lend(MIB)
    assert other.ctypes.data != address
    del view
    gc.collect()
    assert pool.lent() == 1
    again = pool.lend(MIB)
    assert again.ctypes.data == address


def test_a_memoryview_of_a_loan_keeps_it_too() -> None:
    pool = BufferPool(8 * MIB)
    window = pool.lend(MIB).data[3:9]
    assert pool.lent() == 1
    del window
    assert pool.lent() == 0


def test_spare_bytes_are_bounded_and_can_be_given_back() -> None:
    pool = BufferPool(3 * MIB)
    loans = [pool.lend(MIB) for _ in range(6)]
    assert pool.lent() == 6
    loans.clear()
    assert pool.lent() == 0
    assert 0 < pool.spare() <= 3 * MIB
    pool.clear()
    assert pool.spare() == 0


def test_a_large_buffer_is_not_spent_on_a_small_loan() -> None:
    pool = BufferPool(64 * MIB)
    pool.lend(16 * MIB)
    small = pool.lend(MIB)
    assert pool.spare() >= 16 * MIB
    assert small.nbytes == MIB


def test_loans_are_writable_exact_and_aligned_for_accelerators() -> None:
    pool = BufferPool(8 * MIB)
    for nbytes in (1, 65_535, 65_536, MIB + 3):
        loan = pool.lend(nbytes)
        loan[:] = 1
        assert loan.shape == (nbytes,)
        assert loan.dtype == np.uint8
        assert nbytes < 65_536 or loan.ctypes.data % 64 == 0


def test_the_c_library_is_told_to_keep_freed_memory_where_it_can_be() -> None:
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")
    assert keep_freed_memory() is keep_freed_memory(), "it may be told twice"
