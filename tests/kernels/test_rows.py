"""The layout of a page is read from its string and sizes, or refused in words that name what is wrong."""

import re

import numpy as np
import pytest

from kvpoll.kernels import RowLayout
from kvpoll.kernels.rows import checked_ids


def parse(layout: str, page_size: int = 4, words_per_page: int = 256, heads: int = 1) -> RowLayout:
    return RowLayout.parse(layout, page_size=page_size, words_per_page=words_per_page, heads=heads)


def test_a_layout_knows_its_tokens_and_heads() -> None:
    layout = parse("kv,token,head,dim", heads=8, words_per_page=2 * 4 * 8 * 6)
    assert (layout.sizes, layout.page_size, layout.heads) == ((2, 4, 8, 6), 4, 8)
    assert (layout.words_per_token, layout.segments) == (96, 2)
    assert parse("token,kv,head,dim", heads=8).segments == 1
    assert parse("token,latent", words_per_page=12).sizes == (4, 3)
    assert parse("page,kv,token,head,dim", heads=8) == parse("kv, token, head, dim", heads=8)


def test_a_range_of_heads_is_the_layout_of_a_rank_with_fewer() -> None:
    layout = parse("kv,token,head,dim", heads=8)
    assert layout.head_range(2, 4) == parse("kv,token,head,dim", heads=2, words_per_page=64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": "kv,slot,head,dim"}, "layout: expected axes among"),
        ({"layout": "kv,head,dim"}, "layout: expected axes among"),
        ({"layout": "token,token,dim"}, "layout: expected axes among"),
        ({"layout": "token,dim,head"}, "layout: expected axes among"),
        ({"layout": "token,dim,word"}, "layout: expected one of dim, latent, word"),
        ({"layout": ""}, "layout: expected axes among"),
        ({"layout": "token,dim", "page_size": 0}, "page_size: expected at least 1, got 0"),
        ({"layout": "token,dim", "words_per_page": -1}, "words_per_page: expected at least 1, got -1"),
        ({"layout": "token,dim", "heads": 2}, "heads: expected 1, as layout 'token,dim' has no head axis, got 2"),
        ({"layout": "kv,token,head,dim", "heads": 3}, "words_per_page: expected a multiple of 24"),
    ],
)
def test_a_layout_that_is_none_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("lo", "hi"), [(-1, 2), (0, 0), (3, 2), (0, 9)])
def test_a_range_that_is_no_part_of_the_heads_is_refused(lo: int, hi: int) -> None:
    with pytest.raises(ValueError, match=re.escape(f"lo, hi: expected 0 <= lo < hi <= 8, got {lo}, {hi}")):
        parse("kv,token,head,dim", heads=8).head_range(lo, hi)


def test_pages_without_heads_cannot_be_cut_by_heads() -> None:
    with pytest.raises(ValueError, match="layout: expected a head axis, got token,latent"):
        parse("token,latent").head_range(0, 1)


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        ([0, 9], {}, "ids: id 9 at 1 is outside 0..8"),
        ([-1], {}, "ids: id -1 at 0 is outside 0..8"),
        ([3, -2], {"skip": True}, "ids: id -2 at 1 is outside 0..8, or -1 to skip,"),
        ([3, 1, 3], {}, "ids: id 3 is listed more than once"),
        ([3, 3], {"skip": True}, "ids: id 3 is listed more than once"),
        ([[1]], {}, "ids: expected a flat sequence of integers"),
        ([1.0], {}, "ids: expected a flat sequence of integers"),
    ],
)
def test_ids_that_a_kernel_would_wrap_or_write_twice_are_refused(
    ids: object, options: dict[str, bool], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        checked_ids("ids", ids, 9, **options)  # type: ignore[arg-type]


def test_ids_to_skip_may_repeat_and_unsigned_ids_are_not_wrapped() -> None:
    assert checked_ids("ids", [-1, 4, -1], 9, skip=True).tolist() == [-1, 4, -1]
    assert checked_ids("ids", [4, 4], 9, unique=False).tolist() == [4, 4]
    assert checked_ids("ids", [], 9).tolist() == []
    with pytest.raises(ValueError, match="is outside"):
        checked_ids("ids", np.array([2**63], np.uint64), 9)
