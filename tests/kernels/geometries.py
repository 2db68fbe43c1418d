"""Pools of every dtype with all bits, NaN payloads among them, and what the reference makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kvpoll.kernels import RowLayout, reference
from kvpoll.kernels.layout import PoolLayout, layout_of

Array = npt.NDArray[np.generic]
DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "uint16")


@dataclass(frozen=True)
class Geometry:
    """A pool and its layout string; `shape` is that of a page, as the engine has it."""

    axes: str
    shape: tuple[int, ...]
    page_size: int
    heads: int = 1
    pages: int = 6
    layers: int = 3

    def layout(self, dtype: str) -> RowLayout:
        words = int(np.prod(self.shape)) * max(1, dtype_of(dtype).itemsize // 4)
        return RowLayout.parse(self.axes, page_size=self.page_size, heads=self.heads, words_per_page=words)

    def pool(self, dtype: str, seed: int = 0) -> list[Array]:
        return [some(self.pages, self.shape, dtype, seed + i) for i in range(self.layers)]

    @property
    def token_axis(self) -> int:
        """Counted from the pages on, for the reference, in the array seen as `[pages, *layout.sizes]`."""
        return 1 + self.axes.split(",").index("token")

    @property
    def head_axis(self) -> int:
        return 1 + self.axes.split(",").index("head")

    def by_axes(self, layer: Array) -> Array:
        """A view whose axes are those of the layout string, whatever the engine's array looks like."""
        sizes = {"kv": 2, "token": self.page_size, "head": self.heads}
        return layer.reshape(len(layer), *(sizes.get(name, -1) for name in self.axes.split(",")))


#: What TPU kernels can do on tokens and heads alike, then what is possible for numpy and XLA only.
HEADS_LAST = Geometry("kv,token,head,dim", (2, 4, 4, 8), 4, 4)
TOKENS_FIRST = Geometry("token,kv,head,dim", (4, 2, 4, 8), 4, 4)
GROUPED = Geometry("kv,token,head,dim", (2, 4, 2, 2, 8), 4, 4)
LATENT = Geometry("token,latent", (4, 1, 24), 4)
FLAT = Geometry("token,kv,head,dim", (3 * 2 * 6 * 5,), 3, 6)
HEADS_FIRST = Geometry("head,token,dim", (6, 5, 7), 5, 6)
ON_TPU = (HEADS_LAST, TOKENS_FIRST, GROUPED, LATENT)
GEOMETRIES = (*ON_TPU, FLAT, HEADS_FIRST)


def dtype_of(name: str) -> np.dtype[np.generic]:
    return np.dtype(getattr(ml_dtypes, name, name))


def some(count: int, shape: Sequence[int], dtype: str, seed: int) -> Array:
    """Random bits; in about every second element of a float all exponent bits are set: an infinity or a NaN."""
    kind = dtype_of(dtype)
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (count, *shape, kind.itemsize), dtype=np.uint8)
    if kind.kind not in "iu":
        top = np.frombuffer(np.array(np.nan, kind).tobytes(), np.uint8)
        raw |= np.where(rng.integers(0, 2, (count, *shape, 1), dtype=np.uint8), top, np.uint8(0))
    return raw.view(kind)[..., 0]


def finite(array: Array) -> Array:
    """A copy with zeros for NaNs: XLA on the CPU, which runs `interpret=True`, rewrites those of some float dtypes."""
    copy = array.copy()
    if copy.dtype.kind not in "iu":
        copy[np.isnan(copy.astype(np.float32))] = 0
    return copy


def bits(arrays: Sequence[object]) -> npt.NDArray[np.uint8]:
    """The bytes of all layers, one row a layer."""
    each = [np.ascontiguousarray(np.asarray(array)) for array in arrays]
    return np.stack([array.reshape(-1).view(np.uint8) for array in each])


def as_words(blocks: Sequence[Array], pool: PoolLayout) -> npt.NDArray[np.unsignedinteger]:
    """Blocks `[n, ...]` of each layer as the rows that every path speaks, `[layers, n, words]`."""
    return np.stack([np.ascontiguousarray(block).reshape(len(block), -1).view(pool.word) for block in blocks])


def gathered(geometry: Geometry, pool: list[Array], what: str, ids: Sequence[int], lo: int, hi: int) -> Array:
    """What the reference gathers, as words. `what` is "pages", "rows" or "heads"."""
    found = layout_of(pool)
    if what == "pages":
        return as_words([reference.gather_pages(layer, ids) for layer in pool], found)
    views = [geometry.by_axes(layer) for layer in pool]
    if what == "rows":
        return as_words([reference.gather_rows(view, ids, geometry.token_axis) for view in views], found)
    return as_words([reference.gather_heads(view, ids, lo, hi, geometry.head_axis) for view in views], found)


def scattered(
    geometry: Geometry, pool: list[Array], what: str, ids: Sequence[int], rows: Array, lo: int, hi: int
) -> list[Array]:
    """A copy of the pool after the reference scattered these words."""
    copy = [layer.copy() for layer in pool]
    for layer, row in zip(copy, rows, strict=True):
        view = geometry.by_axes(layer)
        blocks = row.view(layer.dtype)
        if what == "pages":
            reference.scatter_pages(layer, ids, blocks.reshape(len(ids), *layer.shape[1:]))
        elif what == "rows":
            shape = np.moveaxis(view, geometry.token_axis, 1).shape[2:]
            reference.scatter_rows(view, ids, blocks.reshape(len(ids), *shape), geometry.token_axis)
        else:
            shape = view.take(range(lo, hi), axis=geometry.head_axis).shape[1:]
            reference.scatter_heads(view, ids, blocks.reshape(len(ids), *shape), lo, hi, geometry.head_axis)
    return copy
