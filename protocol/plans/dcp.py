"""Dense pages to decode-context-parallel ranks: which token rows of a chunk one rank gets, and where it puts them.

A decode engine of DCP size n spreads the tokens of a request over n ranks, token by token: absolute position t belongs to
rank t mod n, and is row t div n of what that rank holds of the request. Its pages are *virtual*: V = P * n tokens in a row,
of which every rank holds P physical rows under the same page id. Prefill holds dense pages of P rows.

A chunk is the absolute token range [c, c + N) with c = L + o * P: L tokens are at the decode side already (its prefix), and
o source pages were sent before. The destination list is that of the whole suffix, so it is the same for every chunk and
every rank. L is a multiple of V, so that positions of the suffix and absolute ones agree mod n.

What this file does not know is how many pages the two pools have. Page ids are labels to this arithmetic, as they are to the
released planners that it must agree with (their recorded plans use negative ids too). Refused is -1, which page tables use
for "no page". Who knows the pools calls :meth:`RowPlan.check_pools`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from .checks import ROWS_MAX, fault, whole
from .pages import Ids, Int64, distinct, frozen, ids_of, page_rows, within
from .runs import Runs, merge_rows

__all__ = ["TOKENS_MAX", "RowPlan", "plan_dcp_draft", "plan_dcp_relayout"]

#: Tokens of one chunk: 16 GiB of row numbers, far above any context and far below what would hang a machine.
TOKENS_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class RowPlan:
    """Row ``src_rows[i]`` of the source pool goes to row ``dst_rows[i]`` of the destination pool; in token order.

    Both are read-only int64 arrays of one length. A row is one token of one layer entry: its address is the entry's base plus
    the row times the entry's bytes per token.
    """

    src_rows: Int64
    dst_rows: Int64

    def __len__(self) -> int:
        """How many token rows."""
        return len(self.src_rows)

    def runs(self) -> Runs:
        """Descriptors when the rows are read where they lie."""
        return merge_rows(self.src_rows, self.dst_rows)

    def packed_runs(self) -> Runs:
        """Descriptors when the source rows were gathered in plan order first: row ``i`` of the pack goes to ``dst_rows[i]``."""
        return merge_rows(np.arange(len(self), dtype=np.int64), self.dst_rows)

    def check_pools(self, *, src_rows: int, dst_rows: int) -> None:
        """Raises ``LocalProtocolError`` for a row outside a pool of that many rows; both ends of the range count."""
        within("src_rows", self.src_rows, 0, whole("src_rows", src_rows) - 1)
        within("dst_rows", self.dst_rows, 0, whole("dst_rows", dst_rows) - 1)


def plan_dcp_relayout(
    *,
    src_page_indices: Ids,
    dst_page_indices: Ids,
    physical_page_size: int,
    dcp_size: int,
    dcp_rank: int,
    src_page_offset: int,
    decode_prefix_len: int,
    num_kv_tokens: int | None = None,
) -> RowPlan:
    """The rows of one chunk that DCP rank ``dcp_rank`` of ``dcp_size`` gets.

    ``src_page_indices``: dense pages of the chunk (the last may be partly filled, more than needed are ignored).
    ``dst_page_indices``: virtual pages of the whole suffix (more than needed are ignored).
    ``physical_page_size``: P, rows of a page at both ends. ``src_page_offset``: o, source pages sent in earlier chunks.
    ``decode_prefix_len``: L, tokens, a multiple of P * n. ``num_kv_tokens``: N, tokens in the chunk; None: all rows of the
    source pages. A rank that owns none of them gets an empty plan, and needs no destination.

    Raises :class:`~kvpoll.protocol.errors.LocalProtocolError`, naming the field and the number: sizes below 1, a rank that
    is not below its size, a negative offset, prefix or count, a prefix that is no multiple of P * n, more tokens than the
    source pages hold, fewer destination pages than this rank's last row needs, a destination page that stands twice, a
    page -1, and anything that is not an integer. A source page may stand twice: to read twice does no harm.
    """
    chunk = _checked(
        src_page_indices,
        dst_page_indices,
        physical_page_size,
        dcp_size,
        src_page_offset,
        decode_prefix_len,
        num_kv_tokens,
    )
    rank = whole("dcp_rank", dcp_rank, 0, chunk.ranks - 1)
    first = (rank - chunk.start) % chunk.ranks  # offset in the chunk of the first token that this rank owns
    count = max(0, -((first - chunk.tokens) // chunk.ranks))
    local = (chunk.start + first) // chunk.ranks  # its row of the suffix at this rank; those after it follow one by one
    chunk.needs_pages(local, count, chunk.size)
    src = _every_nth(chunk.src, chunk.size, chunk.ranks, first, count)
    return RowPlan(frozen(src), frozen(page_rows(chunk.dst, chunk.size, local, count)))


def plan_dcp_draft(
    *,
    src_page_indices: Ids,
    dst_page_indices: Ids,
    physical_page_size: int,
    dcp_size: int,
    src_page_offset: int,
    decode_prefix_len: int,
    num_kv_tokens: int | None = None,
) -> RowPlan:
    """The rows of one chunk for the draft model's entries, which every rank holds in full: V = P * n rows a page.

    Arguments, and what is raised, as for :func:`plan_dcp_relayout`; no rank, because the plan is the same for all.
    """
    chunk = _checked(
        src_page_indices,
        dst_page_indices,
        physical_page_size,
        dcp_size,
        src_page_offset,
        decode_prefix_len,
        num_kv_tokens,
    )
    virtual = chunk.size * chunk.ranks
    chunk.needs_pages(chunk.start, chunk.tokens, virtual)
    src = page_rows(chunk.src, chunk.size, 0, chunk.tokens)
    return RowPlan(frozen(src), frozen(page_rows(chunk.dst, virtual, chunk.start, chunk.tokens)))


class _Chunk(NamedTuple):
    src: Int64
    dst: Int64
    size: int  #: P
    ranks: int  #: n
    prefix: int  #: L
    start: int  #: o * P: the chunk's first token, relative to the suffix
    tokens: int  #: N

    def needs_pages(self, first: int, count: int, rows: int) -> None:
        """Refuse a destination list that ends before position ``first + count - 1``, with ``rows`` positions to a page."""
        needed = (first + count - 1) // rows + 1 if count else 0
        if needed > len(self.dst):
            start = self.prefix + self.start
            tokens = f"tokens [{start}, {start + self.tokens})"
            raise fault("dst_page_indices", f"at least {needed} pages for {tokens}", len(self.dst))


def _checked(
    src_page_indices: Ids,
    dst_page_indices: Ids,
    physical_page_size: int,
    dcp_size: int,
    src_page_offset: int,
    decode_prefix_len: int,
    num_kv_tokens: int | None,
) -> _Chunk:
    size = whole("physical_page_size", physical_page_size, 1)
    ranks = whole("dcp_size", dcp_size, 1)
    offset = whole("src_page_offset", src_page_offset)
    prefix = whole("decode_prefix_len", decode_prefix_len)
    virtual = size * ranks
    if virtual > ROWS_MAX:
        raise fault("dcp_size", f"a virtual page of at most {ROWS_MAX} rows", f"{size} * {ranks}")
    if prefix % virtual:
        raise fault("decode_prefix_len", f"a multiple of the virtual page size {virtual}", prefix)
    src, dst = ids_of("src_page_indices", src_page_indices), ids_of("dst_page_indices", dst_page_indices)
    _labels("src_page_indices", src, size)
    _labels("dst_page_indices", dst, virtual)
    distinct("dst_page_indices", dst)
    capacity = len(src) * size
    tokens = capacity if num_kv_tokens is None else whole("num_kv_tokens", num_kv_tokens, 0)
    if tokens > capacity:
        raise fault("num_kv_tokens", f"at most {capacity}, what {len(src)} source pages of {size} hold", tokens)
    if tokens > TOKENS_MAX:
        raise fault("num_kv_tokens", f"at most {TOKENS_MAX} in one plan", tokens)
    return _Chunk(src, dst, size, ranks, prefix, offset * size, tokens)


def _labels(field: str, ids: Int64, rows: int) -> None:
    """No "no page" in the list, and every row number fits into 64 bits."""
    if not ids.size:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 and bool((ids == -1).any()):
        raise fault(field, "pages", f"-1, no page, at index {int(np.argmax(ids == -1))}")
    if low < -(ROWS_MAX // rows) or high >= ROWS_MAX // rows:
        within(field, ids, -(ROWS_MAX // rows), ROWS_MAX // rows - 1)


def _every_nth(ids: Int64, size: int, step: int, first: int, count: int) -> Int64:
    """Rows of the positions ``first, first + step, ...`` in pages of ``size`` rows.

    The pattern of rows inside pages repeats every lcm(size, step) positions, so it is computed once and laid over all such
    blocks; no division per row. What is left of a block at the end is computed row by row.
    """
    rows = np.empty(count, np.int64)
    pages, each = step // gcd(size, step), size // gcd(size, step)  # of one block: pages, rows
    blocks = min(count // each, len(ids) // pages)
    done = blocks * each
    if blocks:
        page, inside = _split(first, step, each, size)
        out = rows[:done].reshape(blocks, each)
        if pages == 1:
            np.add(ids[:blocks, None] * size, inside, out=out)
        else:
            np.take(ids[: blocks * pages].reshape(blocks, pages), page, axis=1, out=out)
            out *= size
            out += inside
    if done < count:
        page, inside = _split(first + done * step, step, count - done, size)
        rows[done:] = ids[page] * size + inside
    return rows


def _split(first: int, step: int, count: int, size: int) -> tuple[Int64, Int64]:
    """Page and row inside the page of ``count`` positions."""
    positions = np.arange(count, dtype=np.int64) * step + first
    page = positions // size
    return page, positions - page * size
