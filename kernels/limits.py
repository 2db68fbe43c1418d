"""What the Pallas paths cannot do, told before launch: each function returns the refusal, or None.

The rules for TPU were found by compiling ahead of time for five generations (v4, v5e, v5p, v6e, v7x), with jax 0.10.2 and
libtpu 0.0.42.1; tests/kernels/aot holds them against the compiler again. The last two axes of an array are tiled, and a
copy must not begin inside a tile:

* a page, or a token, of a dtype below 4 bytes needs its axis outside the last two; 4-byte types may have it there;
* a range of heads within the last two axes has to begin and end at whole 4-byte words of the head axis (2 heads of a
  2-byte, 4 of a 1-byte type), and within one tile of 8 heads or at the borders of tiles. An axis of groups of heads
  outside the last two, `[..., heads / n, n, dim]`, may be cut anywhere between groups;
* the last two axes have to fill tiles: a multiple of 128 elements, in 1, 2, 4 or a multiple of 8 rows that are whole 4-byte
  words. XLA keeps other arrays in a layout of its own once they are large (from 64 MiB on), and would copy the whole pool
  before and after the kernel. So MLA pools have to be padded, as `[pages, tokens, 2, 384]` for 576 values of bfloat16.
"""

from math import prod

from kvpoll.kernels.layout import PoolLayout
from kvpoll.kernels.rows import RowLayout

#: Ids that fit into the scalar memory of a TPU (1 MiB on v5e, v6e, v7x) in one launch: twice as many do not compile.
SMEM_IDS = 131_072
#: Elements of the last axis in one tile.
TPU_LANES = 128
#: Words that one program instance of Triton moves at a time, at most and at least.
TRITON_BLOCK, TRITON_LEAST = 4096, 32


def tpu_pages(pool: PoolLayout) -> str | None:
    """Whole pages of one index."""
    if pool.dtype.itemsize == 8:
        return f"pool: path 'tpu' needs a dtype of at most 4 bytes, got {pool.dtype}"
    if pool.dtype.itemsize < 4 and len(pool.page_shape) < 2:
        return f"pool: path 'tpu' needs at least two axes in a page of {pool.dtype}, got {pool.page_shape}"
    rows, width = (pool.num_pages, *pool.page_shape)[-2:] if pool.page_shape else (1, 1)
    if not _fills_tiles(rows, width, pool.dtype.itemsize):
        return f"pool: path 'tpu' needs last axes that fill tiles, got {rows}, {width} of {pool.dtype}"
    return None


def tpu_tokens(pool: PoolLayout, layout: RowLayout) -> str | None:
    """Single tokens at computed places."""
    refused = tpu_pages(pool)
    if refused is not None:
        return refused
    axis = token_axis(pool, layout)
    if axis is None:
        return (
            f"pool: path 'tpu' needs an axis of {layout.page_size} tokens in the page, got pages of {pool.page_shape}"
        )
    if pool.dtype.itemsize < 4 and axis >= len(pool.page_shape) - 2:
        return (
            f"layout: path 'tpu' moves single tokens of {pool.dtype} only with the token axis outside the last two, "
            f"got pages of {pool.page_shape} with tokens on axis {axis}"
        )
    return None


def tpu_heads(pool: PoolLayout, layout: RowLayout, lo: int, hi: int) -> str | None:
    """The heads `lo:hi` of whole pages."""
    refused = tpu_pages(pool)
    if refused is not None:
        return refused
    place = head_axis(pool, layout)
    if place is None:
        return f"pool: path 'tpu' needs an axis of heads in the page, got pages of {pool.page_shape}"
    axis, group = place
    if lo % group or hi % group:
        return f"lo, hi: path 'tpu' needs multiples of {group} for pages of {pool.page_shape}, got {lo}, {hi}"
    if axis < len(pool.page_shape) - 2:
        return None
    if not _fills_tiles(hi - lo, pool.page_shape[-1], pool.dtype.itemsize):
        return f"lo, hi: path 'tpu' needs a range that fills tiles, got {hi - lo} heads of {pool.dtype}"
    if pool.dtype.itemsize == 4:
        return None
    packed = 4 // pool.dtype.itemsize
    tile, end = 8, layout.heads
    if lo % packed or (hi % packed and hi != end):
        return f"lo, hi: path 'tpu' needs multiples of {packed} for heads of {pool.dtype}, got {lo}, {hi}"
    if lo // tile != (hi - 1) // tile and (lo % tile or (hi % tile and hi != end)):
        return f"lo, hi: path 'tpu' needs a range within {tile} heads, or between multiples of {tile}, got {lo}, {hi}"
    return None


def triton_runs(pool: PoolLayout, layout: RowLayout) -> str | None:
    """Token rows: runs of words."""
    return _triton_width(pool, layout.words_per_token // layout.segments, "layout: path 'triton' needs runs of words")


def triton_pages(pool: PoolLayout) -> str | None:
    """Whole pages: one run each."""
    return _triton_width(pool, pool.words_per_page, "pool: path 'triton' needs pages of words")


def triton_block(width: int) -> int:
    """The words that an instance moves at a time: the greatest power of two that divides the width, bounded."""
    return min(width & -width, TRITON_BLOCK)


def token_axis(pool: PoolLayout, layout: RowLayout) -> int | None:
    """The axis of `pool.page_shape` that counts tokens, if there is one."""
    for axis, size in enumerate(pool.page_shape):
        if size == layout.page_size and prod(pool.page_shape[:axis]) == layout.segments:
            return axis
    return None


def head_axis(pool: PoolLayout, layout: RowLayout) -> tuple[int, int] | None:
    """The axis of `pool.page_shape` that counts heads, or groups of them, and how many heads a group has (1: single heads)."""
    at = layout.head_axis()
    for axis, size in enumerate(pool.page_shape):
        if prod(pool.page_shape[:axis]) == prod(layout.sizes[:at]):
            if size == layout.heads:
                return axis, 1
            if axis + 1 < len(pool.page_shape) and size * pool.page_shape[axis + 1] == layout.heads:
                return axis, pool.page_shape[axis + 1]
    return None


def _fills_tiles(rows: int, width: int, itemsize: int) -> bool:
    return width % TPU_LANES == 0 and rows % (4 // itemsize) == 0 and (rows % 8 == 0 or rows in (1, 2, 4))


def _triton_width(pool: PoolLayout, width: int, what: str) -> str | None:
    if pool.dtype.itemsize == 8:
        return f"pool: path 'triton' needs a dtype of at most 4 bytes, got {pool.dtype}"
    if triton_block(width) == width or triton_block(width) >= TRITON_LEAST:
        return None
    return f"{what} whose number is a power of two, or a multiple of {TRITON_LEAST}, got {width}"
