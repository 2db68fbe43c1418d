"""The numpy path: page copies between host arrays, at the speed of memcpy and bit for bit.

One `take` or indexed assignment per layer over a view in words. Wider views were measured and gain nothing (8-bit to
64-bit words: 1.5-1.6 ms for 32 MiB); `mode="clip"` does (the default mode copies `out` through a buffer).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvpoll.kernels.layout import Layer, PoolLayout

_Array = npt.NDArray[np.generic]


def gather(
    layers: Sequence[Layer], ids: npt.NDArray[np.intp], layout: PoolLayout, out: npt.NDArray[np.unsignedinteger] | None
) -> npt.NDArray[np.unsignedinteger]:
    """Copy the pages into `out` (allocated if None). jax layers must be on the CPU: `np.asarray` views them, no copy.

    No view of a jax layer outlives this call. While one lives, jax keeps the layer on donation and copies it instead,
    silently, so a view left behind would turn each later in-place update into a copy of the pool.
    """
    rows = np.empty(layout.rows_shape(len(ids)), layout.word) if out is None else out
    for layer, row in zip(layers, rows, strict=True):
        np.take(_words(np.asarray(layer), layout), ids, axis=0, out=row, mode="clip")
    return rows


def scatter(layers: Sequence[_Array], ids: npt.NDArray[np.intp], rows: _Array, layout: PoolLayout) -> None:
    """Copy the rows into their pages, in place."""
    for layer, row in zip(layers, rows, strict=True):
        _words(layer, layout)[ids] = row


def _words(layer: _Array, layout: PoolLayout) -> _Array:
    """The layer as `[num_pages, words_per_page]`, without a copy (layers are contiguous)."""
    return layer.reshape(layout.num_pages, -1).view(layout.word)
