"""The XLA path: compiled page copies on whatever device the pool lives on, bit for bit.

How a write is compiled decides everything on CPU (measured with jax 0.10.2, 16 layers):

* A donated `.at[ids].set` of bfloat16 or float8 converts the whole pool and back, 12-37 ms for 4 pages of a 128 MiB pool,
  and rewrites NaN payloads of bfloat16 and float8_e5m2. Bit-casting to integers around it keeps the bits, but copies the
  pool twice, 8-40 ms. Integers are written in place, at 0.1 (pages of 1 MiB) to 0.7 of memcpy's speed.
* So pages are written by `where(page is written, row, page)` over the bit-cast pool: exact by construction, at the speed
  of memcpy, and for 4 pages 0.4-0.9 ms whatever the pool's size. LLVM splits the loop on the condition, which is the same
  for a whole page, and drops the store that would put an unwritten page back where it is (seen in the optimised IR). Were
  that lost, it would be a pass over the pool: slower, never wrong. A reshape of the pool inside the program does lose it
  (8-12 ms), and so does a smaller condition than a page (see `pages.rewrite_pages`).
* A call for each layer costs 0.05-0.1 ms, as much as copying a megabyte; a program for all layers would be compiled for
  seconds. So a program writes `GROUP` layers.

On other devices nothing was measured. Floats there use the bit-cast `.at.set`: exact too, but it may copy the pool, and
`where` would pass over all of it. A pool of unsigned integers needs neither and is the choice to make everywhere.

Page counts are rounded up to powers of two by repeating the last page, so the programs that address the pool number
about log2(num_pages) per geometry. Cutting gathered rows to their exact size is one small program more per distinct
count, and so is padding rows on a device: XLA shapes are static. On CPU rows are padded without a program.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from kvpoll.kernels.layout import PoolLayout, Rows

#: Layers that one program writes on the CPU.
GROUP = 8


def device_of(layers: Sequence[jax.Array]) -> jax.Device:
    """The one device of the pool; ValueError for deleted layers and for pools spread over devices."""
    devices: set[jax.Device] = set()
    for index, layer in enumerate(layers):
        if layer.is_deleted():
            raise ValueError(f"pool[{index}]: expected a live array, got one that was donated or deleted")
        devices |= layer.devices()
    if len(devices) != 1:
        # Flattening a sharded page would make XLA gather it from all devices first.
        raise ValueError(f"pool: expected all layers on one device, got {len(devices)}: pass the shards of one device")
    return devices.pop()


def gather(layers: Sequence[jax.Array], ids: npt.NDArray[np.intp], layout: PoolLayout) -> jax.Array:
    """Copy the pages to a new array on the pool's device; dispatched, not waited for."""
    padded = _pad_ids(ids)
    rows: jax.Array = _gather(list(layers), padded, layout.word.name)
    return rows if len(padded) == len(ids) else _trim(rows, len(ids))


def scatter(layers: Sequence[jax.Array], ids: npt.NDArray[np.intp], rows: Rows, layout: PoolLayout) -> list[jax.Array]:
    """Write the rows into their pages. The layers are donated: the caller goes on with the returned ones."""
    # device_put, because jnp.asarray compiles a program per shape; naming no device, because that would commit the
    # pool to it, and the engine's own programs would be compiled again.
    written: list[jax.Array] = []
    if device_of(layers).platform == "cpu":
        source = np.full(layout.num_pages, -1, np.int32)
        source[ids] = np.arange(len(ids), dtype=np.int32)
        index = jax.device_put(source)
        given = np.asarray(rows)
        for group in (slice(begin, begin + GROUP) for begin in range(0, len(layers), GROUP)):
            written += _select(list(layers[group]), index, _host_block(given[group], _bucket(len(ids))))
    else:
        padded = jax.device_put(_pad_ids(ids))
        each = _blocks(jax.device_put(rows), len(padded))
        written = [_set(layer, padded, block) for layer, block in zip(layers, each, strict=True)]
    if isinstance(rows, np.ndarray):
        # The programs may still be reading the caller's memory, which the caller is free to reuse once we return.
        jax.block_until_ready(written)  # type: ignore[no-untyped-call]
    return written


def _pad_ids(ids: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """Repeat the last id up to a power of two. Writing one page twice is harmless where both rows are the same."""
    return np.concatenate([ids, np.repeat(ids[-1:], _bucket(len(ids)) - len(ids))]).astype(np.int32)


def _bucket(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _host_block(rows: npt.NDArray[np.generic], bucket: int) -> npt.NDArray[np.generic]:
    """Rows `[layers, n, words]` padded on the host: this costs a copy where it pads, and never a compilation."""
    missing = bucket - rows.shape[1]
    return np.concatenate([rows, np.repeat(rows[:, -1:], missing, axis=1)], axis=1) if missing else rows


@partial(jax.jit, static_argnums=1)
def _blocks(rows: jax.Array, bucket: int) -> list[jax.Array]:
    missing = bucket - rows.shape[1]
    return [jnp.concatenate([row, jnp.repeat(row[-1:], missing, axis=0)]) for row in rows]


@partial(jax.jit, static_argnums=2)
def _gather(layers: list[jax.Array], ids: jax.Array, word: str) -> jax.Array:
    # Written layer by layer: stacking would first build every layer's rows and then copy them (twice the time on CPU).
    n_pages, page_words = len(ids), layers[0].nbytes // layers[0].shape[0] // np.dtype(word).itemsize
    rows = jnp.zeros((len(layers), n_pages, page_words), word)
    for index, layer in enumerate(layers):
        words = lax.bitcast_convert_type(layer, word).at[ids].get(mode="promise_in_bounds")
        rows = rows.at[index].set(words.reshape(n_pages, page_words))
    return rows


@partial(jax.jit, static_argnums=1)
def _trim(rows: jax.Array, n_pages: int) -> jax.Array:
    return rows[:, :n_pages]


@partial(jax.jit, donate_argnums=0)
def _set(layer: jax.Array, ids: jax.Array, block: jax.Array) -> jax.Array:
    if jnp.issubdtype(layer.dtype, jnp.integer) and layer.dtype.itemsize == block.dtype.itemsize:
        rows = lax.bitcast_convert_type(block.reshape(len(ids), *layer.shape[1:]), layer.dtype)
        return layer.at[ids].set(rows, mode="promise_in_bounds")
    words = lax.bitcast_convert_type(layer, block.dtype)
    rows = block.reshape(len(ids), *words.shape[1:])
    return lax.bitcast_convert_type(words.at[ids].set(rows, mode="promise_in_bounds"), layer.dtype)


@partial(jax.jit, donate_argnums=0)
def _select(layers: list[jax.Array], source: jax.Array, blocks: jax.Array) -> list[jax.Array]:
    """`source[page]` is the row of `blocks` [layers, n, words] for the page, or -1 for a page that stays as it is."""
    return [_selected(layer, source, block) for layer, block in zip(layers, blocks, strict=True)]


def _selected(layer: jax.Array, source: jax.Array, block: jax.Array) -> jax.Array:
    words = lax.bitcast_convert_type(layer, block.dtype)
    rows = block.reshape(len(block), *words.shape[1:])
    written = (source >= 0).reshape(-1, *[1] * (words.ndim - 1))
    row = rows.at[jnp.maximum(source, 0)].get(mode="promise_in_bounds")
    return lax.bitcast_convert_type(jnp.where(written, row, words), layer.dtype)
