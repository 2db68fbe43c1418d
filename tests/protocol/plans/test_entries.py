"""Which entry goes where, whether rows are spread, and how wide a row is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import dcp_token_nbytes, needs_dcp_relayout, pair_entries


def pair(src: list[int], dst: list[int], n_src: int | None = None, n_dst: int | None = None) -> tuple[int, ...]:
    return pair_entries(
        src_layer_ids=src,
        dst_layer_ids=dst,
        n_src=len(src) if n_src is None else n_src,
        n_dst=len(dst) if n_dst is None else n_dst,
    )


@pytest.mark.parametrize(
    ("src", "dst", "entries"),
    [
        ([], [], ()),
        ([3, 7], [3, 7, 11, 15], (0, 1)),
        ([11, 15], [3, 7, 11, 15], (2, 3)),
        ([7, 3], [3, 7], (1, 0)),
        ([3, 7, 27, 28], [3, 7, 11, 27, 28], (0, 1, 3, 4)),
        ([2, 3, 2, 3], [0, 1, 2, 3, 0, 1, 2, 3], (2, 3, 6, 7)),
        ([5, 5, 5], [5, 5, 5], (0, 1, 2)),
    ],
)
def test_entries_pair_by_global_layer_and_repeated_ids_occurrence_by_occurrence(
    src: list[int], dst: list[int], entries: tuple[int, ...]
) -> None:
    assert pair(src, dst) == entries


def test_without_ids_equal_counts_pair_in_order() -> None:
    assert pair([], [], 4, 4) == (0, 1, 2, 3)
    assert pair([], [], 0, 4) == ()


@pytest.mark.parametrize(
    ("src", "dst", "n_src", "n_dst", "field", "says"),
    [
        ([], [], 2, 4, "src_layer_ids", "2 entries meet 4"),
        ([], [], 4, 2, "src_layer_ids", "4 entries meet 2"),
        ([], [3, 7], 2, 2, "src_layer_ids", "each of 2 entries, got 0"),
        ([3, 7], [], 2, 2, "dst_layer_ids", "each of 2 entries, got 0"),
        ([3], [3, 7], 2, 2, "src_layer_ids", "each of 2 entries, got 1"),
        ([3, 7], [3, 7], 2, 3, "dst_layer_ids", "each of 3 entries, got 2"),
        ([3, 19], [3, 7, 11], 2, 3, "dst_layer_ids", "1 entries of layer 19, got 0"),
        ([3, 3], [3, 7], 2, 2, "dst_layer_ids", "2 entries of layer 3, got 1"),
        ([3], [3, 3], 1, 2, "dst_layer_ids", "1 entries of layer 3, got 2"),
        ([-1], [-1], 1, 1, "src_layer_ids[0]", "got -1"),
        ([], [], -1, 1, "n_src", "got -1"),
        ([True], [1], 1, 1, "src_layer_ids[0]", "bool"),
    ],
)
def test_entries_that_would_meet_the_wrong_layer_are_refused(
    src: list[int], dst: list[int], n_src: int, n_dst: int, field: str, says: str
) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        pair(src, dst, n_src, n_dst)
    assert refusal.value.details["field"] == field
    assert says in str(refusal.value)


@given(st.lists(st.integers(0, 9), max_size=10))
def test_stages_together_fill_every_entry_once_with_its_own_layer(layers: list[int]) -> None:
    stages = [[layer for layer in layers if layer % 3 == stage] for stage in range(3)]
    filled = {
        entry: layer for stage in stages for entry, layer in zip(pair(stage, layers), stage, strict=True) if stage
    }
    assert filled == dict(enumerate(layers))


@pytest.mark.parametrize(
    ("src", "dst", "mla", "spread"),
    [
        ((1, 0), (1, 0), True, False),
        ((1, 0), (1, 0), False, False),
        ((1, 0), (4, 3), True, True),
        ((4, 2), (4, 2), True, False),
    ],
)
def test_rows_are_spread_from_dense_to_any_size_and_go_rank_to_rank_between_equal_ones(
    src: tuple[int, int], dst: tuple[int, int], mla: bool, spread: bool
) -> None:
    assert relayout(src, dst, mla) is spread


@pytest.mark.parametrize(
    ("src", "dst", "mla", "field"),
    [
        ((2, 1), (2, 0), True, "dst_dcp_rank"),
        ((2, 0), (4, 0), True, "dst_dcp_size"),
        ((2, 0), (1, 0), True, "dst_dcp_size"),
        ((1, 0), (2, 0), False, "dst_dcp_size"),
        ((1, 0), (0, 0), True, "dst_dcp_size"),
        ((1, 0), (2, 9), True, "dst_dcp_rank"),
        ((1, 0), (1, 1), True, "dst_dcp_rank"),
        ((2, -1), (2, 0), True, "src_dcp_rank"),
    ],
)
def test_other_pairs_of_dcp_are_refused(src: tuple[int, int], dst: tuple[int, int], mla: bool, field: str) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        relayout(src, dst, mla)
    assert refusal.value.details["field"] == field


def relayout(src: tuple[int, int], dst: tuple[int, int], mla: bool) -> bool:
    return needs_dcp_relayout(
        src_dcp_size=src[0], src_dcp_rank=src[1], dst_dcp_size=dst[0], dst_dcp_rank=dst[1], mla=mla
    )


@pytest.mark.parametrize(
    ("src", "dst", "n_draft", "widths"),
    [
        ([], [], 0, ()),
        ([400, 400], [400, 400], 0, (100, 100)),
        ([400, 400, 80], [400, 400, None], 1, (100, 100, 20)),
        ([400, 80], [400, 160], 1, (100, 20)),
    ],
)
def test_a_token_row_is_as_wide_at_both_ends(
    src: list[int], dst: list[int | None], n_draft: int, widths: tuple[int, ...]
) -> None:
    assert token_nbytes(src, dst, n_draft) == widths


@pytest.mark.parametrize(
    ("src", "dst", "n_draft", "says"),
    [
        ([400, 400], [400, 408], 0, r"dst_page_nbytes\[1\]: expected 400 \(4 rows of 100 bytes\), got 408"),
        ([400], [403], 0, r"dst_page_nbytes\[0\]: expected a multiple of 4 rows, got 403"),
        ([403], [403], 0, r"src_page_nbytes\[0\]: expected a multiple of 4 rows, got 403"),
        ([400, 80], [400, 80], 1, r"dst_page_nbytes\[1\]: expected 160 \(8 rows of 20 bytes\), got 80"),
        ([400], [400, 400], 0, "dst_page_nbytes: expected 1 entries, as the source has, got 2"),
        ([0], [0], 0, r"src_page_nbytes\[0\]: expected at least 1, got 0"),
        ([400], [400], 2, "n_draft: expected 0 to 1, got 2"),
    ],
)
def test_rows_of_other_widths_are_refused_even_when_a_division_would_hide_it(
    src: list[int], dst: list[int | None], n_draft: int, says: str
) -> None:
    with pytest.raises(LocalProtocolError, match=says):
        token_nbytes(src, dst, n_draft)


def token_nbytes(src: list[int], dst: list[int | None], n_draft: int) -> tuple[int, ...]:
    return dcp_token_nbytes(physical_page_size=4, dcp_size=2, src_page_nbytes=src, dst_page_nbytes=dst, n_draft=n_draft)
