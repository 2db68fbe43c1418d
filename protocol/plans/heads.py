"""TP head slicing: which local KV heads of one rank become which local KV heads of a rank at the other end.

Heads are split evenly over the TP ranks, in order; with fewer heads than ranks (GQA), neighbouring ranks hold copies of one
head. Every head of a destination rank comes from exactly one source rank: of copies, from the first that it meets. The
arithmetic knows no direction, so prefill to decode and back is one function with its ends exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from .checks import fault, whole
from .ranks import check_heads, head_copies, tp_sources

__all__ = ["HeadSlice", "heads_of", "slice_heads"]


@dataclass(frozen=True, slots=True)
class HeadSlice:
    """Heads ``[src_lo, src_hi)`` of the source rank are heads ``[dst_lo, dst_hi)`` of the destination rank, local to each."""

    src_lo: int
    src_hi: int
    dst_lo: int
    dst_hi: int

    @property
    def count(self) -> int:
        """How many heads; 0: this pair moves none."""
        return self.src_hi - self.src_lo


def heads_of(*, kv_heads: int, tp: int, rank: int) -> range:
    """The heads that a rank holds, by their number in the model. Raises ``LocalProtocolError`` as :func:`slice_heads`."""
    return _heads("tp", whole("kv_heads", kv_heads, 1), tp, rank)


def slice_heads(*, kv_heads: int, src_tp: int, src_rank: int, dst_tp: int, dst_rank: int) -> HeadSlice:
    """What ``src_rank`` of ``src_tp`` brings to ``dst_rank`` of ``dst_tp``; an empty slice if nothing.

    ``kv_heads``: of the model. Raises :class:`~kvpoll.protocol.errors.LocalProtocolError`, with the field, for sizes that do
    not divide each other or the heads (either way round), and for a rank that is not below its size.
    """
    whole("kv_heads", kv_heads, 1)
    mine, wanted = _heads("src_tp", kv_heads, src_tp, src_rank), _heads("dst_tp", kv_heads, dst_tp, dst_rank)
    if src_tp % dst_tp and dst_tp % src_tp:
        raise fault("tp", "sizes of which one divides the other", f"source {src_tp}, destination {dst_tp}")
    first, count = tp_sources(dst_rank, src_tp, dst_tp)
    copy = (src_rank - first) % head_copies(src_tp, kv_heads)
    lo, hi = max(mine.start, wanted.start), min(mine.stop, wanted.stop)
    if not first <= src_rank < first + count or copy or lo >= hi:
        return HeadSlice(0, 0, 0, 0)
    return HeadSlice(lo - mine.start, hi - mine.start, lo - wanted.start, hi - wanted.start)


def _heads(field: str, kv_heads: int, tp: int, rank: int) -> range:
    tp = whole(field, tp, 1)
    check_heads(field, tp, kv_heads)
    rank = whole(f"{field.removesuffix('tp')}rank", rank, 0, tp - 1)
    if tp > kv_heads:
        return range(rank // (tp // kv_heads), rank // (tp // kv_heads) + 1)
    each = kv_heads // tp
    return range(rank * each, (rank + 1) * each)
