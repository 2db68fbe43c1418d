"""The demonstration allocator: a page is free or lent, never both, never neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.runtime import PagePool


def test_every_page_is_lent_before_one_is_lent_again() -> None:
    pool = PagePool(4)
    first = pool.allocate(2)
    assert first == [0, 1]
    pool.free(first)
    assert pool.allocate(4) == [2, 3, 0, 1]


def test_more_than_there_is_allocates_nothing() -> None:
    pool = PagePool(4)
    pool.allocate(3)
    assert pool.allocate(2) is None
    assert pool.available == 1
    assert pool.allocate(1) == [3]


def test_no_pages_can_always_be_had() -> None:
    assert PagePool(0).allocate(0) == []


@pytest.mark.parametrize("wrong", [[5], [0, 0], [0, 3], [-1], [99]])
def test_a_page_that_is_not_lent_is_refused_and_nothing_is_freed(wrong: list[int]) -> None:
    pool = PagePool(6)
    assert pool.allocate(2) == [0, 1]
    with pytest.raises(LocalProtocolError, match="pages: expected lent pages, each once") as caught:
        pool.free(wrong)
    assert caught.value.details["field"] == "pages"
    assert pool.available == 4
    pool.free([1, 0])
    assert pool.idle


@given(st.lists(st.integers(0, 5), max_size=30))
def test_every_page_is_accounted_for_after_any_history(sizes: list[int]) -> None:
    pool, lent = PagePool(12), list[list[int]]()
    for size in sizes:
        pages = pool.allocate(size)
        if pages is None:
            pool.free(lent.pop(0))
        else:
            lent.append(pages)
        out = [page for pages in lent for page in pages]
        assert len(out) == len(set(out))
        assert pool.available == 12 - len(out)
        assert pool.idle == (not out)
