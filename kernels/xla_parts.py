"""The XLA path for parts of pages: token rows and ranges of heads, on devices other than the CPU.

Everything is bit-cast to unsigned words first, so all bits are kept; a pool of unsigned integers needs no cast. Counts are
rounded up to powers of two, as in `xla`: a gather repeats its last id, a scatter drops ids past the end. On the CPU parts
of pages are written by reading, changing and writing whole pages (`pages.rewrite_pages`), so this is not used there; it
runs there all the same, which is how it is tested.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from kvpoll.kernels.host import run_ids
from kvpoll.kernels.layout import PoolLayout, Rows
from kvpoll.kernels.rows import RowLayout

_Ids = npt.NDArray[np.intp]


def gather_rows(layers: Sequence[jax.Array], ids: _Ids, pool: PoolLayout, layout: RowLayout) -> jax.Array:
    """Token rows, `[layers, n, words_per_token]`; dispatched, not waited for."""
    runs = run_ids(_padded(ids, int(ids[-1])), layout).astype(np.int32)
    rows: jax.Array = _gather_runs(list(layers), runs, pool.word.name, layout.words_per_token // layout.segments)
    return rows[:, : len(ids)]


def scatter_rows(
    layers: Sequence[jax.Array], ids: _Ids, rows: Rows, pool: PoolLayout, layout: RowLayout
) -> list[jax.Array]:
    """Write token rows; ids of -1 are skipped. The layers are donated."""
    past = pool.num_pages * layout.page_size
    # Ids past the end are dropped; a negative one would be counted from the end.
    runs = run_ids(_padded(np.where(ids < 0, past, ids), past), layout).astype(np.int32)
    blocks = _blocks(jax.device_put(rows), len(runs))
    return [_scatter_runs(layer, runs, block) for layer, block in zip(layers, blocks, strict=True)]


def gather_heads(
    layers: Sequence[jax.Array], ids: _Ids, lo: int, hi: int, pool: PoolLayout, layout: RowLayout
) -> jax.Array:
    """Heads `lo:hi` of those pages, `[layers, n, words of the range]`; dispatched, not waited for."""
    padded = _padded(ids, int(ids[-1])).astype(np.int32)
    rows: jax.Array = _gather_heads(list(layers), padded, pool.word.name, lo, hi, layout)
    return rows[:, : len(ids)]


def scatter_heads(
    layers: Sequence[jax.Array], ids: _Ids, rows: Rows, lo: int, hi: int, pool: PoolLayout, layout: RowLayout
) -> list[jax.Array]:
    """Write the range of heads of those pages. The layers are donated."""
    padded = _padded(ids, pool.num_pages).astype(np.int32)
    blocks = _blocks(jax.device_put(rows), len(padded))
    return [_scatter_heads(layer, padded, block, lo, hi, layout) for layer, block in zip(layers, blocks, strict=True)]


def _padded(ids: _Ids, fill: int) -> _Ids:
    bucket = 1 << (len(ids) - 1).bit_length()
    return np.concatenate([ids, np.full(bucket - len(ids), fill, np.intp)])


@partial(jax.jit, static_argnums=1)
def _blocks(rows: jax.Array, bucket: int) -> list[jax.Array]:
    """One block of rows a layer; what is added is dropped with its ids."""
    return list(jnp.pad(rows, ((0, 0), (0, bucket - rows.shape[1]), (0, 0))))


@partial(jax.jit, static_argnums=(2, 3))
def _gather_runs(layers: list[jax.Array], runs: jax.Array, word: str, width: int) -> jax.Array:
    words = [lax.bitcast_convert_type(layer, word).reshape(-1, width) for layer in layers]
    return jnp.stack([each.at[runs].get(mode="promise_in_bounds").reshape(len(runs), -1) for each in words])


@partial(jax.jit, donate_argnums=0)
def _scatter_runs(layer: jax.Array, runs: jax.Array, block: jax.Array) -> jax.Array:
    words = lax.bitcast_convert_type(layer, block.dtype)
    rows = block.reshape(*runs.shape, -1)
    written = words.reshape(-1, rows.shape[-1]).at[runs].set(rows, mode="drop")
    return lax.bitcast_convert_type(written.reshape(words.shape), layer.dtype)


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _gather_heads(layers: list[jax.Array], ids: jax.Array, word: str, lo: int, hi: int, layout: RowLayout) -> jax.Array:
    rows = []
    for layer in layers:
        pages = lax.bitcast_convert_type(layer, word).at[ids].get(mode="promise_in_bounds")
        rows.append(_around_heads(pages, layout)[:, :, lo:hi].reshape(len(ids), -1))
    return jnp.stack(rows)


@partial(jax.jit, donate_argnums=0, static_argnums=(3, 4, 5))
def _scatter_heads(
    layer: jax.Array, ids: jax.Array, block: jax.Array, lo: int, hi: int, layout: RowLayout
) -> jax.Array:
    words = lax.bitcast_convert_type(layer, block.dtype)
    around = _around_heads(words, layout)
    rows = block.reshape(len(ids), around.shape[1], hi - lo, around.shape[3])
    written = around.at[ids, :, lo:hi].set(rows, mode="drop")
    return lax.bitcast_convert_type(written.reshape(words.shape), layer.dtype)


def _around_heads(pages: jax.Array, layout: RowLayout) -> jax.Array:
    """`[pages, ...]` words as `[pages, before, heads, after]`."""
    before = int(np.prod(layout.sizes[: layout.head_axis()]))
    return pages.reshape(pages.shape[0], before, layout.heads, -1)
