"""The Pallas path for GPU: pages and token rows, one program instance per run of words, through Triton.

A layer is seen as runs `[n, width]`, which costs nothing where arrays are row-major; an instance moves `limits.triton_block`
elements of one run. Pools keep their dtype. Ids are trusted, -1 is skipped where rows are written. The path has to be asked
for by name: it is lowered for CUDA and ROCm and run by Pallas' interpreter in the tests, and was never timed on a GPU.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from kvpoll.kernels.host import run_ids
from kvpoll.kernels.layout import PoolLayout, Rows
from kvpoll.kernels.limits import triton_block
from kvpoll.kernels.rows import RowLayout

_Ids = npt.NDArray[np.intp]
_Layers = Sequence[jax.Array]


def gather_pages(layers: _Layers, ids: _Ids, pool: PoolLayout, *, interpret: bool = False) -> jax.Array:
    """Whole pages as words, `[layers, n, words_per_page]`."""
    return _gather(layers, ids[:, None], pool, pool.words_per_page, interpret)


def scatter_pages(
    layers: _Layers, ids: _Ids, rows: Rows, pool: PoolLayout, *, interpret: bool = False
) -> list[jax.Array]:
    """Write whole pages; -1 is skipped. The layers are donated."""
    return _scatter(layers, ids[:, None], rows, interpret)


def gather_rows(
    layers: _Layers, ids: _Ids, pool: PoolLayout, layout: RowLayout, *, interpret: bool = False
) -> jax.Array:
    """Token rows as words, `[layers, n, words_per_token]`."""
    return _gather(layers, run_ids(ids, layout), pool, layout.words_per_token // layout.segments, interpret)


def scatter_rows(
    layers: _Layers, ids: _Ids, rows: Rows, pool: PoolLayout, layout: RowLayout, *, interpret: bool = False
) -> list[jax.Array]:
    """Write token rows; -1 is skipped. The layers are donated."""
    runs = np.where(ids[:, None] < 0, -1, run_ids(np.maximum(ids, 0), layout))
    return _scatter(layers, runs, rows, interpret)


@partial(jax.jit, static_argnums=(2, 3))
def gather_runs(layer: jax.Array, runs: jax.Array, width: int, interpret: bool = False) -> jax.Array:
    """The runs of `width` elements with these ids, `[len(runs), width]`."""
    block = triton_block(width)

    def kernel(ids: jax.Ref, source: jax.Ref, out: jax.Ref) -> None:
        i, piece = pl.program_id(0), pl.ds(pl.program_id(1) * block, block)
        out[i, piece] = source[ids[i], piece]

    out = jax.ShapeDtypeStruct((len(runs), width), layer.dtype)  # type: ignore[no-untyped-call]
    gathered: jax.Array = pl.pallas_call(
        kernel,
        out_shape=out,
        grid=(len(runs), width // block),
        compiler_params=plt.CompilerParams(num_warps=_warps(block)),
        interpret=interpret,
    )(runs, layer.reshape(-1, width))
    return gathered


@partial(jax.jit, static_argnums=3, donate_argnums=0)
def scatter_runs(layer: jax.Array, rows: jax.Array, runs: jax.Array, interpret: bool = False) -> jax.Array:
    """Write `rows` `[n, width]` to the runs with these ids (at least n, -1 skipped). The layer is donated and aliased."""
    width = rows.shape[1]
    block = triton_block(width)

    def kernel(ids: jax.Ref, source: jax.Ref, aliased: jax.Ref, out: jax.Ref) -> None:
        i, piece = pl.program_id(0), pl.ds(pl.program_id(1) * block, block)
        run = ids[i]

        @pl.when(run >= 0)
        def _() -> None:
            out[run, piece] = source[i, piece]

    flat = layer.reshape(-1, width)
    written = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(flat.shape, flat.dtype),  # type: ignore[no-untyped-call]
        grid=(len(rows), width // block),
        input_output_aliases={2: 0},
        compiler_params=plt.CompilerParams(num_warps=_warps(block)),
        interpret=interpret,
    )(runs, rows, flat)
    return jnp.reshape(written, layer.shape)


def _gather(layers: _Layers, runs: _Ids, pool: PoolLayout, width: int, interpret: bool) -> jax.Array:
    ids = _padded(runs.reshape(-1), int(runs[-1, -1]))
    blocks = [gather_runs(layer, ids, width, interpret) for layer in layers]
    words: jax.Array = _to_words(blocks, runs.shape, pool.word.name)
    return words


def _scatter(layers: _Layers, runs: _Ids, rows: Rows, interpret: bool) -> list[jax.Array]:
    ids = _padded(runs.reshape(-1), -1)
    blocks = _from_words(jax.device_put(rows), layers[0].dtype, runs.size)
    written = [scatter_runs(layer, block, ids, interpret) for layer, block in zip(layers, blocks, strict=True)]
    if isinstance(rows, np.ndarray):
        # The programs may still be reading the caller's memory, which the caller is free to reuse once we return.
        jax.block_until_ready(written)  # type: ignore[no-untyped-call]
    return written


@partial(jax.jit, static_argnums=(1, 2))
def _to_words(blocks: list[jax.Array], shape: tuple[int, int], word: str) -> jax.Array:
    words = [lax.bitcast_convert_type(block[: shape[0] * shape[1]], word) for block in blocks]
    return jnp.stack([each.reshape(shape[0], -1) for each in words])


@partial(jax.jit, static_argnums=(1, 2))
def _from_words(rows: jax.Array, dtype: np.dtype[np.generic], count: int) -> list[jax.Array]:
    return [lax.bitcast_convert_type(row.reshape(count, -1), dtype) for row in rows]


def _padded(ids: _Ids, fill: int) -> npt.NDArray[np.int32]:
    bucket = 1 << (len(ids) - 1).bit_length()
    return np.concatenate([ids, np.full(bucket - len(ids), fill)]).astype(np.int32)


def _warps(block: int) -> int:
    """At most 16 elements a thread of 32 in a warp."""
    return max(1, min(8, block // 512))
