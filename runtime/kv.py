"""The only door from the runtime to :mod:`kvpoll.kernels`: gather pages of a pool, scatter rows into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import gather_pages, scatter_pages

from .transports.base import Payload
from .views import Rows

if TYPE_CHECKING:
    import jax

__all__ = ["Layers", "gather", "rows_of", "scatter"]

#: A paged pool: one array a layer, pages first.
Layers: TypeAlias = "Sequence[npt.NDArray[np.generic]] | Sequence[jax.Array]"
Pool = TypeVar("Pool", bound=Layers)


def gather(pool: Layers, pages: npt.NDArray[np.int32]) -> Payload:
    """One contiguous copy of these pages, [layers, pages, words]. Raises ``ValueError`` naming a page outside the pool."""
    return cast(Payload, gather_pages(pool, pages))


def scatter(pool: Pool, pages: npt.NDArray[np.int32], rows: Rows) -> Pool:
    """The pool with ``rows`` at ``pages``. numpy pools are written in place, jax pools are donated."""
    return cast(Pool, scatter_pages(pool, pages, rows))


def rows_of(rows: Payload) -> tuple[tuple[int, ...], str]:
    """Shape and dtype name of gathered rows."""
    return tuple(rows.shape), str(np.asarray(rows).dtype) if isinstance(rows, np.ndarray) else str(rows.dtype)  # type: ignore[attr-defined]
