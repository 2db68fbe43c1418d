"""Descriptors: pages that follow each other at both ends become one, and nothing is lost or invented."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import page_runs
from kvpoll.protocol.plans.pages import Ids


@pytest.mark.parametrize(
    ("src", "dst", "runs"),
    [
        ([], [], []),
        ([5], [0], [(5, 0, 1)]),
        ([1, 2, 3], [7, 8, 9], [(1, 7, 3)]),
        ([1, 2, 3], [7, 9, 10], [(1, 7, 1), (2, 9, 2)]),
        ([1, 3, 4], [7, 8, 9], [(1, 7, 1), (3, 8, 2)]),
        ([3, 2, 1], [9, 8, 7], [(3, 9, 1), (2, 8, 1), (1, 7, 1)]),
        ([1, 1, 2], [4, 5, 6], [(1, 4, 1), (1, 5, 2)]),
        ([10, 11, 20, 21], [30, 31, 32, 33], [(10, 30, 2), (20, 32, 2)]),
    ],
)
def test_a_run_goes_on_while_both_ends_advance_by_one(
    src: list[int], dst: list[int], runs: list[tuple[int, int, int]]
) -> None:
    found = page_runs(src, dst)
    assert list(found) == runs
    assert (len(found), found.total) == (len(runs), len(src))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30, unique_by=lambda pair: pair[1]))
def test_runs_written_out_are_the_pages_and_no_two_neighbours_could_be_one(pages: list[tuple[int, int]]) -> None:
    runs = list(page_runs([s for s, _ in pages], [d for _, d in pages]))
    assert [(s + i, d + i) for s, d, length in runs for i in range(length)] == pages
    assert all(length > 0 for _, _, length in runs)
    for (s, d, length), (s2, d2, _) in pairwise(runs):
        assert (s + length, d + length) != (s2, d2)


def test_runs_are_read_only() -> None:
    runs = page_runs([1, 5], [2, 3])
    for array in (runs.src_starts, runs.dst_starts, runs.lengths):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("src", "dst", "field", "says"),
    [
        ([1, 2], [3], "dst_page_indices", "expected 2 pages, as the source has, got 1"),
        ([1, -2], [3, 4], "src_page_indices", "got -2 at index 1"),
        ([1, 2], [-1, 4], "dst_page_indices", "got -1 at index 0"),
        ([1, 2, 3], [3, 4, 3], "dst_page_indices", "expected every page once, got 3 again at index 2"),
        ([1.0], [1], "src_page_indices", "float"),
        ([True], [1], "src_page_indices", "bool"),
        (np.array([True]), [1], "src_page_indices", "bool"),
        (np.array([1.5]), [1], "src_page_indices", "float64"),
        (np.zeros((1, 1), np.int32), [1], "src_page_indices", "2 dimensions"),
        ([2**63], [1], "src_page_indices", "a larger one"),
        (np.array([2**63], np.uint64), [1], "src_page_indices", str(2**63)),
        ("12", [1], "src_page_indices", "0 dimensions"),
        ([[1], [2, 3]], [1, 2], "src_page_indices", "list"),
    ],
)
def test_lists_that_cannot_be_page_tables_are_refused(src: Ids, dst: Ids, field: str, says: str) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        page_runs(src, dst)
    assert refusal.value.details["field"] == field
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    "dst",
    [
        pytest.param([*range(100), 50], id="nearly rising"),
        pytest.param([9, 7, 7, 1], id="falling"),
        pytest.param([10**12, 5, 10**15, 5], id="far apart"),
        pytest.param([3, 3], id="all the same"),
    ],
)
def test_a_page_that_stands_twice_is_found_however_the_list_is_ordered(dst: list[int]) -> None:
    with pytest.raises(LocalProtocolError, match="every page once"):
        page_runs([*range(len(dst))], dst)


@given(st.lists(st.integers(0, 60), max_size=40))
def test_distinct_pages_and_only_those_pass(dst: list[int]) -> None:
    if len(set(dst)) == len(dst):
        assert page_runs([*range(len(dst))], dst).total == len(dst)
    else:
        with pytest.raises(LocalProtocolError, match="every page once"):
            page_runs([*range(len(dst))], dst)
