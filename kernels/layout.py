"""What a paged pool is, and what its pages look like once they are gathered.

A pool is a sequence of per-layer arrays `[num_pages, ...]`, all alike. Gathered pages ("rows") are unsigned integers,
because a copy of KV must keep every bit, and XLA on CPU moves bfloat16 and float8 through float32, which rewrites NaN
payloads. A word has the width of the pool's dtype and at most 4 bytes (jax without x64 has no 64-bit integers), so the
rows of numpy pools, jax pools and pools that keep bfloat16 bits in uint16 are interchangeable.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import jax

Layer: TypeAlias = "npt.NDArray[np.generic] | jax.Array"
Pool: TypeAlias = Sequence[Layer]
Rows: TypeAlias = "npt.NDArray[np.unsignedinteger] | jax.Array"

_FLOAT8 = ("e3m4", "e4m3", "e4m3fn", "e4m3b11fnuz", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
# By name: the 8-bit and bfloat16 types belong to ml_dtypes, which need not be installed. Types below one byte are
# left out (jax packs them, numpy does not), and so are bool and complex, which XLA cannot bit-cast.
_DTYPES = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64) if (kind, bits) != ("float", 8)]
    + ["bfloat16"]
    + [f"float8_{variant}" for variant in _FLOAT8]
)


@dataclass(frozen=True, slots=True)
class PoolLayout:
    """The geometry that all layers of a pool share."""

    num_layers: int
    page_shape: tuple[int, ...]
    num_pages: int
    dtype: np.dtype[np.generic]
    is_jax: bool

    @property
    def page_nbytes(self) -> int:
        """Bytes of one page in one layer."""
        return int(np.prod(self.page_shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def word(self) -> np.dtype[np.unsignedinteger]:
        """The dtype of gathered rows."""
        return np.dtype(f"uint{8 * min(self.dtype.itemsize, 4)}")

    @property
    def words_per_page(self) -> int:
        return self.page_nbytes // self.word.itemsize

    def rows_shape(self, n_pages: int) -> tuple[int, int, int]:
        return (self.num_layers, n_pages, self.words_per_page)


def page_nbytes(pool: Pool) -> int:
    """Bytes of one page in ONE layer; over all layers it is `len(pool)` times as many. Errors: as gather_pages."""
    return layout_of(pool).page_nbytes


def rows_spec(pool: Pool, n_pages: int) -> tuple[tuple[int, int, int], str]:
    """Shape `(layers, n_pages, words_per_page)` and dtype name of what gather_pages yields for `n_pages` pages.

    It depends on geometry and dtype width only, so a receiver computes it from its own pool. Errors: as gather_pages,
    and ValueError if `n_pages` is not in 1..num_pages.
    """
    layout = layout_of(pool)
    if not 1 <= n_pages <= layout.num_pages:
        raise ValueError(f"n_pages: expected 1..{layout.num_pages}, got {n_pages}")
    return layout.rows_shape(n_pages), layout.word.name


def is_jax_array(value: object) -> bool:
    """True for a jax array. Imports nothing: where jax was never imported there are no jax arrays."""
    jax = sys.modules.get("jax")
    # A half-imported jax (another thread is importing it) has no `Array` yet, hence no arrays either.
    array_type = getattr(jax, "Array", None)
    return array_type is not None and isinstance(value, array_type)


def layout_of(pool: Pool) -> PoolLayout:
    """Check the pool and return its geometry; ValueError or TypeError names the layer and what was expected of it."""
    if isinstance(pool, np.ndarray) or is_jax_array(pool):
        raise TypeError("pool: expected a sequence with one array per layer, got a single array")
    if not pool:
        raise ValueError("pool: expected at least one layer, got none")
    first = pool[0]
    for index, layer in enumerate(pool):
        if not isinstance(layer, np.ndarray) and not is_jax_array(layer):
            raise TypeError(f"pool[{index}]: expected a numpy or jax array, got {type(layer).__name__}")
        if isinstance(layer, np.ndarray) != isinstance(first, np.ndarray):
            raise TypeError(f"pool[{index}]: expected {type(first).__name__} like layer 0, got {type(layer).__name__}")
        if (layer.shape, layer.dtype) != (first.shape, first.dtype):
            expected, got = f"{first.shape} {first.dtype}", f"{layer.shape} {layer.dtype}"
            raise ValueError(f"pool[{index}]: expected {expected} like layer 0, got {got}")
        if isinstance(layer, np.ndarray) and not layer.flags.c_contiguous:
            raise ValueError(f"pool[{index}]: expected a C-contiguous array, got strides {layer.strides}")
    dtype = np.dtype(first.dtype)
    if dtype.name not in _DTYPES or not dtype.isnative:
        raise TypeError(f"pool: expected a native integer or float dtype of 1, 2, 4 or 8 bytes, got {dtype}")
    if first.ndim < 1 or first.size == 0:
        raise ValueError(f"pool: expected layers of shape [num_pages, ...] with no empty axis, got {first.shape}")
    return PoolLayout(len(pool), tuple(first.shape[1:]), int(first.shape[0]), dtype, not isinstance(first, np.ndarray))


def page_ids(pages: Sequence[int] | npt.NDArray[np.integer], num_pages: int) -> npt.NDArray[np.intp]:
    """The ids as an array, once they are known to be unique and in range; ValueError names the first offending page.

    Everything below trusts them: the gathers clip and the scatters promise, so a bad id would move another page.
    """
    ids = np.asarray(pages)
    if ids.size == 0:
        raise ValueError("pages: expected at least one page id, got none")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"pages: expected a flat sequence of integers, got shape {ids.shape} of {ids.dtype}")
    outside = (ids < 0) | (ids >= num_pages)
    if outside.any():
        raise ValueError(f"pages: page {ids[outside][0]} is outside 0..{num_pages - 1}")
    ordered = np.sort(ids)
    repeated = ordered[1:] == ordered[:-1]
    if repeated.any():
        raise ValueError(f"pages: page {ordered[1:][repeated][0]} is listed more than once")
    return ids.astype(np.intp)


def check_rows(name: str, rows: Rows, layout: PoolLayout, n_pages: int) -> None:
    """ValueError unless `rows` has exactly the shape and dtype that gather_pages yields."""
    expected = layout.rows_shape(n_pages)
    if tuple(rows.shape) != expected or np.dtype(rows.dtype) != layout.word:
        raise ValueError(f"{name}: expected shape {expected} of {layout.word}, got {tuple(rows.shape)} of {rows.dtype}")
