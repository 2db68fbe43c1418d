"""Contiguous runs: pages or rows that follow each other at both ends become one descriptor (start, start, length).

A transport pays per descriptor, so their number is a plan's price. A run goes on only while source and destination both
advance by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .checks import ROWS_MAX, fault
from .pages import Ids, Int64, distinct, frozen, ids_of, within

__all__ = ["Runs", "merge_rows", "page_runs"]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Descriptors in the order of the plan; three read-only int64 arrays of one length. Units are those of the input."""

    src_starts: Int64
    dst_starts: Int64
    lengths: Int64

    def __len__(self) -> int:
        """How many descriptors."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """``(src_start, dst_start, length)``."""
        return zip(self.src_starts.tolist(), self.dst_starts.tolist(), self.lengths.tolist(), strict=True)

    @property
    def total(self) -> int:
        """How many pages or rows."""
        return int(self.lengths.sum())


def page_runs(src_page_indices: Ids, dst_page_indices: Ids) -> Runs:
    """Page ``i`` of the source goes to page ``i`` of the destination; what follows at both ends is merged.

    Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` for lists of different lengths, for negative ids, and for a
    destination page that stands twice.
    """
    src, dst = ids_of("src_page_indices", src_page_indices), ids_of("dst_page_indices", dst_page_indices)
    if len(src) != len(dst):
        raise fault("dst_page_indices", f"{len(src)} pages, as the source has", len(dst))
    within("src_page_indices", src, 0, ROWS_MAX)
    within("dst_page_indices", dst, 0, ROWS_MAX)
    distinct("dst_page_indices", dst)
    return merge_rows(src, dst)


def merge_rows(src: Int64, dst: Int64) -> Runs:
    """The runs of arrays that a plan has checked already: one length, int64."""
    if not src.size:
        empty = frozen(np.empty(0, np.int64))
        return Runs(empty, empty, empty)
    breaks = (src[1:] - src[:-1] != 1) | (dst[1:] - dst[:-1] != 1)
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(breaks) + 1))
    ends = np.append(starts[1:], src.size)
    return Runs(frozen(src[starts]), frozen(dst[starts]), frozen(ends - starts))
