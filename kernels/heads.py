"""Ranges of heads: out of gathered pages or straight out of a pool, and into the pages of a pool.

For tensor parallelism of unequal sizes: a rank with fewer heads takes a range of each page of a wider rank, or fills a
range from each of several narrower ones. A gathered range is a page of `layout.head_range(lo, hi)`: see `rows.py`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import host, limits
from kvpoll.kernels.choose import Path, check_writable, choose, platform_of
from kvpoll.kernels.layout import Layer, Pool, Rows, layout_of, page_ids
from kvpoll.kernels.pages import rewrite_pages
from kvpoll.kernels.rows import Ids, RowLayout, Words, check_row_shape, dense_rows, out_rows

if TYPE_CHECKING:
    import jax


def slice_heads(rows: Rows, lo: int, hi: int, layout: RowLayout, *, out: Words | None = None) -> Words:
    """Heads `lo:hi` of gathered pages: `rows` [layers, pages, words_per_page] -> [layers, pages, words of the range].

    `layout` describes the rows; the result is laid out as `layout.head_range(lo, hi)`, contiguous. `out`: an array of that
    shape to fill. On the host: numpy rows, or jax rows on the CPU. Raises ValueError naming `rows`, `lo, hi` or `out`.
    """
    dense = dense_rows("rows", rows, layout)
    narrow = layout.head_range(lo, hi)
    taken = out_rows(out, (dense.shape[0], dense.shape[1], narrow.words_per_page), dense.dtype)
    for pages, into in zip(dense, taken, strict=True):
        np.copyto(host.heads_of(into, narrow), host.heads_of(pages, layout)[:, :, lo:hi])
    return taken


def gather_heads(
    pool: Pool, pages: Ids, lo: int, hi: int, layout: RowLayout, *, out: Words | None = None, path: Path = "auto"
) -> Rows:
    """Heads `lo:hi` of those pages, straight out of a pool; the result is what slice_heads makes of gather_pages.

    `pool`, `pages`, `out` and paths as for gather_pages; the range is compiled in, so few different ones are best.
    Raises ValueError and TypeError as gather_pages, and ValueError naming `layout` or `lo, hi`.
    """
    found = layout_of(pool)
    layout.check_words("pool", found.words_per_page)
    narrow = layout.head_range(lo, hi)
    ids = page_ids(pages, found.num_pages)
    chosen = choose(pool, found, path, "read", tpu=limits.tpu_heads(found, layout, lo, hi))
    if chosen == "numpy":
        taken = out_rows(out, (found.num_layers, len(ids), narrow.words_per_page), found.word)
        runs = host.head_runs(ids, lo, hi, layout)
        for layer, into in zip(pool, taken, strict=True):
            host.take_heads(host.words_of(np.asarray(layer), found), runs, into)
        return taken
    if out is not None:
        raise ValueError(f"out: expected None on path {chosen!r}, whose arrays are immutable")
    layers = cast("Sequence[jax.Array]", pool)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        return tpu.gather_heads(layers, ids, lo, hi, found, layout)
    from kvpoll.kernels import xla_parts

    return xla_parts.gather_heads(layers, ids, lo, hi, found, layout)


def scatter_heads(
    pool: Pool, pages: Ids, rows: Rows, lo: int, hi: int, layout: RowLayout, *, path: Path = "auto"
) -> list[Layer]:
    """Write `rows` (pages of `layout.head_range(lo, hi)`) into heads `lo:hi` of those pages; returns the new layers.

    `layout` describes the pool. Other heads stay. numpy pools are written in place, jax pools are donated, as by
    scatter_pages. Raises ValueError and TypeError as scatter_pages, and ValueError naming `layout` or `lo, hi`.
    """
    found = layout_of(pool)
    layout.check_words("pool", found.words_per_page)
    narrow = layout.head_range(lo, hi)
    ids = page_ids(pages, found.num_pages)
    check_row_shape("rows", rows, (found.num_layers, len(ids), narrow.words_per_page), found.word)
    check_writable("pool", pool, found)
    chosen = choose(pool, found, path, "write", tpu=limits.tpu_heads(found, layout, lo, hi))
    layers = cast("Sequence[jax.Array]", pool)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        return list(tpu.scatter_heads(layers, ids, rows, lo, hi, found, layout))
    if chosen == "xla" and platform_of(pool) != "cpu":
        from kvpoll.kernels import xla_parts

        return list(xla_parts.scatter_heads(layers, ids, rows, lo, hi, found, layout))
    given = np.asarray(rows)
    if chosen == "xla":
        every = np.arange(len(ids))
        return rewrite_pages(
            layers, ids, found, lambda i, words: host.put_heads(words, every, given[i], lo, hi, layout)
        )
    for layer, row in zip(cast("Sequence[npt.NDArray[np.generic]]", pool), given, strict=True):
        host.put_heads(host.words_of(layer, found), ids, row, lo, hi, layout)
    return list(pool)
