"""The Pallas path for TPU: direct memory access between places in HBM, one launch for all layers.

A kernel here moves **blocks**: arrays `[layers, n, *unit]` of the pool's own dtype, where a unit is a page, a token, or the
heads `lo:hi` of a page (`parts.Part`). Nothing passes through the core, nothing is converted, no temporary is made, and
pools that are written are aliased: tests/kernels/aot asks the compiler. The words that the other paths speak are made from
blocks, and blocks from words, by a program of XLA beside the kernel; that is a copy, as tiles lie differently.

All starts and waits of a launch are in one kernel. (A semaphore that is handed from a starting to a waiting kernel runs in
no interpret mode, so nothing of such a pair can be tested without the hardware.) `_stream` keeps up to `RING` copies of a
layer under way, and begins a layer before it waits for the last copies of the one before: two layers overlap.

Ids are in scalar memory, which bounds a launch (`limits.SMEM_IDS`); longer lists are split here. Id counts are rounded up to
powers of two with -1, which every kernel skips, so that few programs are compiled. Ids are trusted: Pallas wraps negative
ones, and neither hardware nor interpreter reports two copies to one place.

`interpret` runs a kernel on the CPU: True, or an `InterpretParams` of jax.experimental.pallas.tpu.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kvpoll.kernels.layout import PoolLayout, Rows
from kvpoll.kernels.limits import SMEM_IDS
from kvpoll.kernels.parts import Part
from kvpoll.kernels.rows import RowLayout

#: True and False are for `pl.pallas_call`; parameters choose the interpreter that models copies and semaphores.
Interpret: TypeAlias = "bool | pltpu.InterpretParams"
#: Copies of one layer that are under way at a time.
RING = 8


class _Copy(Protocol):
    """What `make_async_copy` returns."""

    def start(self) -> None: ...
    def wait(self) -> None: ...


_Ids = npt.NDArray[np.intp]
_Layers = Sequence[jax.Array]
_ANY = pl.BlockSpec(memory_space=pl.ANY)
_SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


def gather_pages(layers: _Layers, ids: _Ids, pool: PoolLayout, *, interpret: Interpret = False) -> jax.Array:
    """Whole pages as words, `[layers, n, words_per_page]`."""
    return _gather_words(layers, ids, pool, Part.pages(pool), interpret)


def scatter_pages(
    layers: _Layers, ids: _Ids, rows: Rows, pool: PoolLayout, *, interpret: Interpret = False
) -> list[jax.Array]:
    """Write whole pages; -1 is skipped. The layers are donated."""
    return _scatter_words(layers, ids, rows, pool, Part.pages(pool), interpret)


def gather_rows(
    layers: _Layers, ids: _Ids, pool: PoolLayout, layout: RowLayout, *, interpret: Interpret = False
) -> jax.Array:
    """Token rows as words, `[layers, n, words_per_token]`."""
    return _gather_words(layers, ids, pool, Part.tokens_of(pool, layout), interpret)


def scatter_rows(
    layers: _Layers, ids: _Ids, rows: Rows, pool: PoolLayout, layout: RowLayout, *, interpret: Interpret = False
) -> list[jax.Array]:
    """Write token rows; -1 is skipped. The layers are donated."""
    return _scatter_words(layers, ids, rows, pool, Part.tokens_of(pool, layout), interpret)


def gather_heads(
    layers: _Layers, ids: _Ids, lo: int, hi: int, pool: PoolLayout, layout: RowLayout, *, interpret: Interpret = False
) -> jax.Array:
    """Heads `lo:hi` of pages as words, `[layers, n, words of the range]`."""
    return _gather_words(layers, ids, pool, Part.heads_of(pool, layout, lo, hi), interpret)


def scatter_heads(
    layers: _Layers,
    ids: _Ids,
    rows: Rows,
    lo: int,
    hi: int,
    pool: PoolLayout,
    layout: RowLayout,
    *,
    interpret: Interpret = False,
) -> list[jax.Array]:
    """Write heads `lo:hi` of pages. The layers are donated."""
    return _scatter_words(layers, ids, rows, pool, Part.heads_of(pool, layout, lo, hi), interpret)


def relayout_rows(
    source: _Layers, target: _Layers, src: _Ids, dst: _Ids, of: Part, into: Part, *, interpret: Interpret = False
) -> list[jax.Array]:
    """Token row `src[i]` of the source to row `dst[i]` of the target, one copy each. The target is donated."""
    written = list(target)
    for part in _launches(len(src), SMEM_IDS // 2):
        written = move_units(written, list(source), _padded(src[part]), _padded(dst[part]), of, into, interpret)
    return written


def copy_layers(
    source: _Layers, target: _Layers, src: _Ids, dst: _Ids, sizes: _Ids, *, interpret: Interpret = False
) -> list[jax.Array]:
    """Chunks of pages, one copy each, however long: sizes are data. The target is donated."""
    written = list(target)
    for part in _launches(len(src), SMEM_IDS // 4):
        chunks = (_padded(src[part]), _padded(dst[part]), _padded(sizes[part]))
        count = np.array([len(src[part])], np.int32)
        written = move_chunks(written, list(source), *chunks, count, interpret)
    return written


@partial(jax.jit, static_argnums=(2, 3))
def gather_units(layers: list[jax.Array], ids: jax.Array, part: Part, interpret: Interpret = False) -> jax.Array:
    """Blocks `[layers, len(ids), *unit]`; blocks of ids -1 are left as they come."""

    def kernel(ids_ref: jax.Ref, *refs: jax.Ref) -> None:
        *pools, out, sems = refs

        def copy(layer: int, i: jax.Array, sem: jax.Ref) -> _Copy:
            return pltpu.make_async_copy(pools[layer].at[part.at(ids_ref[i])], out.at[layer, i], sem)

        _stream(len(pools), len(ids), sems, copy, lambda i: ids_ref[i] >= 0)

    out = _like((len(layers), len(ids), *part.unit), layers[0])
    call = _call(kernel, out, [_SMEM] + [_ANY] * len(layers), _ANY, {}, interpret)
    return cast(jax.Array, call(ids, *layers))


@partial(jax.jit, static_argnums=(3, 4), donate_argnums=0)
def scatter_units(
    layers: list[jax.Array], blocks: jax.Array, ids: jax.Array, part: Part, interpret: Interpret = False
) -> list[jax.Array]:
    """Write blocks `[layers, n, *unit]` to `ids` (at least n of them, -1 skipped). The layers are donated and aliased."""

    def kernel(ids_ref: jax.Ref, rows: jax.Ref, *refs: jax.Ref) -> None:
        pools, sems = refs[len(layers) : -1], refs[-1]

        def copy(layer: int, i: jax.Array, sem: jax.Ref) -> _Copy:
            return pltpu.make_async_copy(rows.at[layer, i], pools[layer].at[part.at(ids_ref[i])], sem)

        _stream(len(pools), blocks.shape[1], sems, copy, lambda i: ids_ref[i] >= 0)

    return _into(layers, kernel, [_SMEM, _ANY], interpret)(ids, blocks, *layers)


@partial(jax.jit, static_argnums=(4, 5, 6), donate_argnums=0)
def move_units(
    target: list[jax.Array],
    source: list[jax.Array],
    src: jax.Array,
    dst: jax.Array,
    of: Part,
    into: Part,
    interpret: Interpret = False,
) -> list[jax.Array]:
    """Unit `src[i]` of the source to place `dst[i]` of the target (-1 skipped). The target is donated and aliased."""

    def kernel(src_ref: jax.Ref, dst_ref: jax.Ref, *refs: jax.Ref) -> None:
        old, new, sems = refs[: len(source)], refs[2 * len(source) : -1], refs[-1]

        def copy(layer: int, i: jax.Array, sem: jax.Ref) -> _Copy:
            place = new[layer].at[into.at(dst_ref[i])]
            return pltpu.make_async_copy(old[layer].at[of.at(src_ref[i])], place, sem)

        _stream(len(source), len(dst), sems, copy, lambda i: dst_ref[i] >= 0)

    specs = [_SMEM, _SMEM] + [_ANY] * len(source)
    return _into(target, kernel, specs, interpret)(src, dst, *source, *target)


@partial(jax.jit, static_argnums=6, donate_argnums=0)
def move_chunks(
    target: list[jax.Array],
    source: list[jax.Array],
    src: jax.Array,
    dst: jax.Array,
    sizes: jax.Array,
    count: jax.Array,
    interpret: Interpret = False,
) -> list[jax.Array]:
    """The first `count[0]` chunks: `sizes[i]` pages from `src[i]` on to `dst[i]` on. The target is donated and aliased.

    Sizes are dynamic, so `interpret=True` cannot run this; `InterpretParams` can.
    """

    def kernel(src_ref: jax.Ref, dst_ref: jax.Ref, size_ref: jax.Ref, count_ref: jax.Ref, *refs: jax.Ref) -> None:
        old, new, sems = refs[: len(source)], refs[2 * len(source) : -1], refs[-1]

        def copy(layer: int, i: jax.Array, sem: jax.Ref) -> _Copy:
            chunk = old[layer].at[pl.ds(src_ref[i], size_ref[i])]
            return pltpu.make_async_copy(chunk, new[layer].at[pl.ds(dst_ref[i], size_ref[i])], sem)

        _stream(len(source), count_ref[0], sems, copy, lambda i: size_ref[i] > 0)

    specs = [_SMEM] * 4 + [_ANY] * len(source)
    return _into(target, kernel, specs, interpret)(src, dst, sizes, count, *source, *target)


@partial(jax.jit, static_argnums=2, donate_argnums=0)
def fill_host(host: jax.Array, layer: jax.Array, interpret: Interpret = False) -> jax.Array:
    """Copy a layer into a pinned host array, which is donated and aliased.

    The host array has to be given: without one to alias, libtpu 0.0.42 aborts the process while it compiles.
    """

    def kernel(device_ref: jax.Ref, _: jax.Ref, host_ref: jax.Ref, sem: jax.Ref) -> None:
        copy: _Copy = pltpu.make_async_copy(device_ref, host_ref, sem)
        copy.start()
        copy.wait()

    on_host = pl.BlockSpec(memory_space=pl.HOST)
    filled: jax.Array = pl.pallas_call(
        kernel,
        out_shape=_like(host.shape, host),
        in_specs=[_ANY, on_host],
        out_specs=on_host,
        input_output_aliases={1: 0},
        scratch_shapes=[pltpu.SemaphoreType.DMA],
        interpret=interpret,
    )(layer, host)
    return filled


def _stream(
    layers: int,
    count: int | jax.Array,
    sems: jax.Ref,
    copy: Callable[[int, jax.Array, jax.Ref], _Copy],
    wanted: Callable[[jax.Array], jax.Array],
) -> None:
    """Make the wanted ones of `count` copies in each layer, at most RING of a layer and two layers under way."""

    def semaphore(layer: int, i: jax.Array) -> jax.Ref:
        return cast(jax.Ref, sems.at[layer % 2, lax.rem(i, jnp.int32(RING))])

    def finish(layer: int, i: jax.Array) -> None:
        @pl.when(wanted(i))
        def _() -> None:
            copy(layer, i, semaphore(layer, i)).wait()

    def step(layer: int, i: jax.Array) -> None:
        # The copy that used this semaphore before, RING copies ago.
        pl.when(i >= RING)(lambda: finish(layer, jnp.maximum(i - RING, 0)))

        @pl.when(wanted(i))
        def _() -> None:
            copy(layer, i, semaphore(layer, i)).start()

    def drain(layer: int) -> None:
        first = max(0, count - RING) if isinstance(count, int) else jnp.maximum(count - RING, 0)
        lax.fori_loop(first, count, lambda i, _: finish(layer, i), None)

    for layer in range(layers):
        lax.fori_loop(0, count, partial(lambda layer, i, _: step(layer, i), layer), None)
        if layer:
            drain(layer - 1)
    drain(layers - 1)


def _like(shape: tuple[int, ...], array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, array.dtype)  # type: ignore[no-untyped-call]


def _call(
    kernel: Callable[..., None],
    out: object,
    in_specs: list[pl.BlockSpec],
    out_specs: object,
    aliases: dict[int, int],
    interpret: Interpret,
) -> Callable[..., object]:
    return pl.pallas_call(
        kernel,
        out_shape=out,
        in_specs=in_specs,
        out_specs=out_specs,
        input_output_aliases=aliases,
        scratch_shapes=[pltpu.SemaphoreType.DMA((2, RING))],
        compiler_params=pltpu.CompilerParams(has_side_effects=True),
        interpret=interpret,
    )


def _into(
    layers: list[jax.Array], kernel: Callable[..., None], specs: list[pl.BlockSpec], interpret: Interpret
) -> Callable[..., list[jax.Array]]:
    """The call of a kernel whose last operands are these layers, written in place."""
    out = [_like(layer.shape, layer) for layer in layers]
    places = [_ANY] * len(layers)
    aliases = {len(specs) + index: index for index in range(len(layers))}
    return _call(kernel, out, specs + places, places, aliases, interpret)  # type: ignore[return-value]


def _gather_words(layers: _Layers, ids: _Ids, pool: PoolLayout, part: Part, interpret: Interpret) -> jax.Array:
    words = []
    for chosen in _launches(len(ids), SMEM_IDS):
        blocks = gather_units(list(layers), _padded(ids[chosen]), part, interpret)
        words.append(_to_words(blocks, len(ids[chosen]), pool.word.name))
    return words[0] if len(words) == 1 else jnp.concatenate(words, axis=1)


def _scatter_words(
    layers: _Layers, ids: _Ids, rows: Rows, pool: PoolLayout, part: Part, interpret: Interpret
) -> list[jax.Array]:
    written, given = list(layers), jax.device_put(rows)
    for chosen in _launches(len(ids), SMEM_IDS):
        blocks = _from_words(given[:, chosen], layers[0].dtype, part.unit)
        written = scatter_units(written, blocks, _padded(ids[chosen]), part, interpret)
    if isinstance(rows, np.ndarray):
        # The programs may still be reading the caller's memory, which the caller is free to reuse once we return.
        jax.block_until_ready(written)  # type: ignore[no-untyped-call]
    return written


@partial(jax.jit, static_argnums=(1, 2))
def _to_words(blocks: jax.Array, count: int, word: str) -> jax.Array:
    return lax.bitcast_convert_type(blocks[:, :count], word).reshape(blocks.shape[0], count, -1)


@partial(jax.jit, static_argnums=(1, 2))
def _from_words(rows: jax.Array, dtype: np.dtype[np.generic], unit: tuple[int, ...]) -> jax.Array:
    return lax.bitcast_convert_type(rows.reshape(*rows.shape[:2], *unit), dtype)


def _launches(count: int, most: int) -> Iterator[slice]:
    """The ids of each launch."""
    return (slice(begin, min(begin + most, count)) for begin in range(0, count, most))


def _padded(ids: _Ids) -> npt.NDArray[np.int32]:
    """Rounded up to a power of two with -1, which the kernels skip."""
    bucket = 1 << (len(ids) - 1).bit_length()
    return np.concatenate([ids, np.full(bucket - len(ids), -1)]).astype(np.int32)
