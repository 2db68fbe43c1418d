"""The numpy path: copies between host arrays, at the speed of memcpy where runs are long, and bit for bit.

One `take` or indexed assignment per layer over a view in words. Wider views were measured and gain nothing (8-bit to
64-bit words: 1.5-1.6 ms for 32 MiB); `mode="clip"` does (the default mode copies `out` through a buffer).

No view of a jax layer outlives a call. While one lives, jax keeps the layer on donation and copies it instead, silently,
so a view left behind would turn each later in-place update into a copy of the pool.

All ids are trusted here: who calls has checked them.
"""

from collections.abc import Sequence
from math import gcd, prod

import numpy as np
import numpy.typing as npt

from kvpoll.kernels.layout import Layer, PoolLayout
from kvpoll.kernels.rows import RowLayout, Words

_Array = npt.NDArray[np.generic]
_Ids = npt.NDArray[np.intp]


def gather(layers: Sequence[Layer], ids: _Ids, layout: PoolLayout, out: Words | None) -> Words:
    """Copy the pages into `out` (allocated if None). jax layers must be on the CPU: `np.asarray` views them, no copy."""
    rows = np.empty(layout.rows_shape(len(ids)), layout.word) if out is None else out
    num_pages, word = layout.num_pages, layout.word
    for layer, row in zip(layers, rows, strict=True):
        np.asarray(layer).reshape(num_pages, -1).view(word).take(ids, axis=0, out=row, mode="clip")
    return rows


def scatter(layers: Sequence[_Array], ids: _Ids, rows: _Array, layout: PoolLayout) -> None:
    """Copy the rows into their pages, in place."""
    num_pages, word = layout.num_pages, layout.word
    for layer, row in zip(layers, rows, strict=True):
        layer.reshape(num_pages, -1).view(word)[ids] = row


def words_of(layer: _Array, layout: PoolLayout) -> Words:
    """The layer as `[num_pages, words_per_page]`, without a copy (layers are contiguous)."""
    words: Words = layer.reshape(layout.num_pages, -1).view(layout.word)
    return words


def take_token_rows(pages: Words, runs: _Ids, out: Words, layout: RowLayout) -> None:
    """One layer: `pages` [pages, words_per_page], `runs` of `run_ids`, `out` [n, words_per_token]. Contiguous arrays both."""
    width = layout.words_per_token // layout.segments
    np.take(pages.reshape(-1, width), runs, axis=0, out=out.reshape(*runs.shape, width), mode="clip")


def put_token_rows(pages: Words, runs: _Ids, rows: Words, layout: RowLayout) -> None:
    """The inverse of take_token_rows: write into `pages`, in place."""
    width = layout.words_per_token // layout.segments
    into = pages.reshape(-1, width)
    into[runs] = rows.reshape(*runs.shape, width)


def take_heads(pages: Words, runs: _Ids, out: Words) -> None:
    """One layer: `pages` [pages, words_per_page], `runs` of `head_runs`, `out` [n, words of the range]."""
    width = out.size // runs.size
    np.take(pages.reshape(-1, width), runs, axis=0, out=out.reshape(*runs.shape, width), mode="clip")


def put_heads(pages: Words, ids: _Ids, rows: Words, lo: int, hi: int, layout: RowLayout) -> None:
    """The inverse of take_heads: write the range of those pages, in place; other heads stay."""
    window = heads_of(pages, layout)[:, :, lo:hi]
    window[ids] = rows.reshape(len(ids), *window.shape[1:])


def heads_of(pages: Words, layout: RowLayout) -> Words:
    """View `[pages, words]` as `[pages, before, heads, after]` around the head axis."""
    axis = layout.head_axis()
    return pages.reshape(len(pages), prod(layout.sizes[:axis]), layout.heads, -1)


def run_ids(token_rows: _Ids, layout: RowLayout) -> _Ids:
    """The runs of words of each token row, `[n, segments]`, over a pool seen as one list of runs."""
    page, slot = np.divmod(token_rows, layout.page_size)
    first = page * (layout.segments * layout.page_size) + slot
    ids: _Ids = first[:, None] + np.arange(layout.segments) * layout.page_size
    return ids


def head_runs(ids: _Ids, lo: int, hi: int, layout: RowLayout) -> _Ids:
    """The runs of words of heads `lo:hi` of each page, as long as divide the range and the axis.

    Taking those is 1.5-3 times as fast as indexing pages and slicing heads.
    """
    axis = layout.head_axis()
    before, run = prod(layout.sizes[:axis]), gcd(lo, hi, layout.heads)
    start = (ids[:, None] * before + np.arange(before)) * (layout.heads // run)
    runs: _Ids = start[..., None] + np.arange(lo // run, hi // run)
    return runs
