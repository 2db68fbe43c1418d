"""Token rows: out of gathered pages or straight out of a pool, and into the pages of a pool.

For decode context parallelism: a rank owns some tokens of each page only. What a token row is, and its id: `rows.py`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import host, limits
from kvpoll.kernels.choose import Path, apart, check_writable, choose, on_host, platform_of
from kvpoll.kernels.layout import Layer, Pool, Rows, layout_of
from kvpoll.kernels.pages import rewrite_pages, without_skipped
from kvpoll.kernels.parts import Part
from kvpoll.kernels.rows import Ids, RowLayout, Words, check_row_shape, checked_ids, dense_rows, out_rows

if TYPE_CHECKING:
    import jax


def take_rows(rows: Rows, token_rows: Ids, layout: RowLayout, *, out: Words | None = None) -> Words:
    """Token rows out of gathered pages: `rows` [layers, pages, words_per_page] -> [layers, len(token_rows), words_per_token].

    `token_rows` count within `rows` (`page * page_size + slot`, page the index in `rows`), in the order wanted, repeats
    allowed, none is fine. `out`: a C-contiguous array of that shape to fill. On the host: numpy rows, or jax rows on CPU.

    Raises ValueError naming `rows`, `token_rows` (an id outside, negative ones too) or `out`.
    """
    dense = dense_rows("rows", rows, layout)
    ids = checked_ids("token_rows", token_rows, dense.shape[1] * layout.page_size, unique=False)
    taken = out_rows(out, (len(dense), len(ids), layout.words_per_token), dense.dtype)
    runs = host.run_ids(ids, layout)
    for pages, into in zip(dense, taken, strict=True):
        host.take_token_rows(pages, runs, into, layout)
    return taken


def gather_rows(
    pool: Pool, token_rows: Ids, layout: RowLayout, *, out: Words | None = None, path: Path = "auto"
) -> Rows:
    """Token rows straight out of a pool: [layers, len(token_rows), words_per_token], unsigned words, every bit kept.

    `pool` as for gather_pages; `token_rows` count over the whole pool. Paths and `out` as for gather_pages.
    Raises ValueError and TypeError as gather_pages, and ValueError naming `layout` or `token_rows`.
    """
    found = layout_of(pool)
    layout.check_words("pool", found.words_per_page)
    ids = checked_ids("token_rows", token_rows, found.num_pages * layout.page_size, unique=False)
    chosen = choose(
        pool, found, path, "read", tpu=limits.tpu_tokens(found, layout), triton=limits.triton_runs(found, layout)
    )
    if out is not None and chosen != "numpy":
        raise ValueError(f"out: expected None on path {chosen!r}, whose arrays are immutable")
    if chosen == "numpy":
        taken = out_rows(out, (found.num_layers, len(ids), layout.words_per_token), found.word)
        runs = host.run_ids(ids, layout)
        for layer, into in zip(pool, taken, strict=True):
            host.take_token_rows(host.words_of(np.asarray(layer), found), runs, into, layout)
        return taken
    layers = cast("Sequence[jax.Array]", pool)
    if not len(ids):
        return np.empty((found.num_layers, 0, layout.words_per_token), found.word)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        return tpu.gather_rows(layers, ids, found, layout)
    if chosen == "triton":
        from kvpoll.kernels import triton

        return triton.gather_rows(layers, ids, found, layout)
    from kvpoll.kernels import xla_parts

    return xla_parts.gather_rows(layers, ids, found, layout)


def scatter_rows(
    pool: Pool, token_rows: Ids, rows: Rows, layout: RowLayout, *, skip: bool = False, path: Path = "auto"
) -> list[Layer]:
    """Write `rows` (what gather_rows yields) at those token rows; returns the layers of the new pool.

    With `skip`, rows whose id is -1 are left out; any other negative id is refused, and so are ids listed twice. Other
    tokens of the same pages stay. numpy pools are written in place, jax pools are donated, as by scatter_pages.

    Raises ValueError and TypeError as scatter_pages, and ValueError naming `layout` or `token_rows`; nothing is written then.
    """
    found = layout_of(pool)
    layout.check_words("pool", found.words_per_page)
    ids = checked_ids("token_rows", token_rows, found.num_pages * layout.page_size, skip=skip)
    check_row_shape("rows", rows, (found.num_layers, len(ids), layout.words_per_token), found.word)
    check_writable("pool", pool, found)
    chosen = choose(
        pool, found, path, "write", tpu=limits.tpu_tokens(found, layout), triton=limits.triton_runs(found, layout)
    )
    if not (ids >= 0).any():
        return list(pool)
    layers = cast("Sequence[jax.Array]", pool)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        return list(tpu.scatter_rows(layers, ids, rows, found, layout))
    if chosen == "triton":
        from kvpoll.kernels import triton

        return list(triton.scatter_rows(layers, ids, rows, found, layout))
    if chosen == "xla" and platform_of(pool) != "cpu":
        from kvpoll.kernels import xla_parts

        return list(xla_parts.scatter_rows(layers, ids, rows, found, layout))
    given, ids = without_skipped(np.asarray(rows), ids)
    kept: Words = np.asarray(given)
    if chosen == "xla":
        pages, page = np.unique(ids // layout.page_size, return_inverse=True)
        inside = host.run_ids(page * layout.page_size + ids % layout.page_size, layout)
        return rewrite_pages(layers, pages, found, lambda i, words: host.put_token_rows(words, inside, kept[i], layout))
    runs = host.run_ids(ids, layout)
    for layer, row in zip(cast("Sequence[npt.NDArray[np.generic]]", pool), kept, strict=True):
        host.put_token_rows(host.words_of(layer, found), runs, row, layout)
    return list(pool)


def relayout_dcp(
    source: Pool,
    target: Pool,
    src_rows: Ids,
    dst_rows: Ids,
    layout: RowLayout,
    *,
    source_layout: RowLayout | None = None,
    path: Path = "auto",
) -> list[Layer]:
    """Copy token row `src_rows[i]` of `source` to row `dst_rows[i]` of `target`; returns the layers of the new target.

    The rows are those of a DCP plan: plain flat ids, equally many, none is fine. `layout` describes the target's pages,
    `source_layout` the source's (default: the same); tokens must be equally wide. The target is written as by
    scatter_rows. Raises ValueError naming `source`, `target`, `src_rows` or `dst_rows`, before anything is written.
    """
    of_source = source_layout or layout
    found, into = layout_of(source), layout_of(target)
    of_source.check_words("source", found.words_per_page)
    layout.check_words("target", into.words_per_page)
    narrow = (found.num_layers, of_source.words_per_token, of_source.segments, found.dtype)
    wide = (into.num_layers, layout.words_per_token, layout.segments, into.dtype)
    if narrow != wide:
        raise ValueError(f"target: expected layers, words a token, runs a token and dtype {narrow}, got {wide}")
    src = checked_ids("src_rows", src_rows, found.num_pages * of_source.page_size, unique=False)
    dst = checked_ids("dst_rows", dst_rows, into.num_pages * layout.page_size)
    if len(src) != len(dst):
        raise ValueError(f"dst_rows: expected {len(src)} ids, as many as src_rows, got {len(dst)}")
    if {id(layer) for layer in source} & {id(layer) for layer in target}:
        raise ValueError("target: expected other arrays than the source's: rows could be read after they were written")
    check_writable("target", target, into)
    refused = apart(source, target, path) or limits.tpu_tokens(found, of_source) or limits.tpu_tokens(into, layout)
    if refused is None and Part.tokens_of(found, of_source).unit != Part.tokens_of(into, layout).unit:
        refused = f"target: path 'tpu' needs pages like {found.page_shape}, got {into.page_shape}"
    chosen = choose(target, into, path, "write", tpu=refused, triton="path: 'triton' has no relayout, only its halves")
    if not len(src):
        return list(target)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        parts = Part.tokens_of(found, of_source), Part.tokens_of(into, layout)
        layers = cast("Sequence[jax.Array]", source), cast("Sequence[jax.Array]", target)
        return list(tpu.relayout_rows(*layers, src, dst, *parts))
    if chosen == "numpy" and on_host(source):
        from_, to = host.run_ids(src, of_source), host.run_ids(dst, layout)
        row = np.empty(
            (len(src), layout.words_per_token), into.word
        )  # for each layer in turn, so that it stays in the cache
        for old, new in zip(source, cast("Sequence[npt.NDArray[np.generic]]", target), strict=True):
            host.take_token_rows(host.words_of(np.asarray(old), found), from_, row, of_source)
            host.put_token_rows(host.words_of(new, into), to, row, layout)
        return list(target)
    return scatter_rows(target, dst, gather_rows(source, src, of_source), layout)
