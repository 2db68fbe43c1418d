"""The only door from the runtime to :mod:`kvpoll.kernels`: gather pages of a pool, scatter rows into it; and what
:mod:`.relay` needs of them, by name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import (
    RowLayout,
    gather_pages,
    rows_spec,
    scatter_heads,
    scatter_pages,
    scatter_rows,
    slice_heads,
    take_rows,
)
from kvpoll.kernels.layout import page_ids

from .transports.base import Payload
from .views import Rows

if TYPE_CHECKING:
    import jax

__all__ = [
    "EARLY_NBYTES", "EARLY_PARTS", "PART_NBYTES", "Layers", "Lender", "RowLayout", "cut", "gather", "on_host", "scatter",
    "scatter_heads", "scatter_rows", "slice_heads", "spec", "take_rows",
]  # fmt: skip

#: A paged pool: one array a layer, pages first.
Layers: TypeAlias = "Sequence[npt.NDArray[np.generic]] | Sequence[jax.Array]"
Pool = TypeVar("Pool", bound=Layers)


#: A chunk travels in parts of at most this many bytes: while one is on its way, the next is gathered.
PART_NBYTES = 16 << 20
#: A chunk of one part above this is worth a part that goes ahead, where the transport says so.
LEAD_NBYTES = 8 << 20
#: The first parts of a chunk are announced before they are gathered, where the first has so many bytes: less is gathered in the
#: time that takes. More parts would only stand in the way of other rooms.
EARLY_NBYTES, EARLY_PARTS = 1 << 20, 2


class Lender(Protocol):
    """Where copies on the host are made."""

    def lend(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """A writable buffer of shape ``(nbytes,)``."""


def cut(
    pool: Layers, pages: npt.NDArray[np.int32], limit: int | None = None, lead: float = 0.0
) -> list[npt.NDArray[np.int32]]:
    """The pages of each part of a chunk, in order, of at most ``limit`` and :data:`PART_NBYTES` bytes (of more if one page is
    more). ``lead``: of a chunk of one part that is worth it, this share goes ahead as a part of its own. Raises ``ValueError``
    naming a page outside the pool, or listed twice."""
    page_ids(pages, pool[0].shape[0])
    shape, dtype = rows_spec(pool, len(pages))
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    most = PART_NBYTES if limit is None else min(limit, PART_NBYTES)
    count = -(-len(pages) // max(1, most * len(pages) // nbytes))
    if count == 1 and lead and nbytes > LEAD_NBYTES and len(pages) > 1:
        return np.split(pages, [max(1, int(len(pages) * lead))])
    return np.array_split(pages, count)


def gather(pool: Layers, pages: npt.NDArray[np.int32], staging: Lender) -> Payload:
    """One contiguous copy of these pages, [layers, pages, words]. Raises ``ValueError`` naming a page outside the pool.

    On the host it is made in a buffer of ``staging``, which takes it back when nobody refers to it any more: a fresh one
    would be faulted in page by page (longer than the copy takes), and a transport might copy one that is not aligned."""
    if not on_host(pool) or not 0 < len(pages) <= pool[0].shape[0]:
        return cast(Payload, gather_pages(pool, pages))
    shape, dtype = rows_spec(pool, len(pages))
    buffer = staging.lend(prod(shape) * np.dtype(dtype).itemsize)
    return cast(Payload, gather_pages(pool, pages, out=buffer.view(dtype).reshape(shape)))


def scatter(pool: Pool, pages: npt.NDArray[np.int32], rows: Rows) -> Pool:
    """The pool with ``rows`` at ``pages``. numpy pools are written in place, jax pools are donated."""
    return cast(Pool, scatter_pages(pool, pages, rows))


def on_host(pool: Layers) -> bool:
    """Are gathered copies made on the host?"""
    first = pool[0] if len(pool) else None
    return isinstance(first, np.ndarray) or (first is not None and all(d.platform == "cpu" for d in first.devices()))


def spec(pool: Layers, pages: int) -> tuple[tuple[int, ...], str]:
    """Shape and dtype name of what :func:`gather` makes of so many pages."""
    return rows_spec(pool, pages)
