"""Run as a process of its own: the TPU kernels in both modes of Pallas' TPU interpreter, and kernels with planted bugs.

``python -m tests.kernels.tpu_modes quick`` or ``... every [dtype ...]`` prints a JSON list. The interpreter models copies
and semaphores with host callbacks, a millisecond a copy, and can hang: who starts this sets a time limit. Two modes, because
each sees what the other does not: **data** makes a copy when it is waited for, so that what nobody waited for is missing;
**order** makes it at once and reports races between threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kvpoll.kernels import choose, copy_layers, gather_rows, reference, relayout_dcp, tpu
from kvpoll.kernels.layout import layout_of
from kvpoll.kernels.parts import Part
from kvpoll.kernels.tpu import _Copy

from .geometries import GROUPED, HEADS_LAST, LATENT, TOKENS_FIRST, Array, Geometry, bits, gathered, scattered, some

MODES = {
    "data": pltpu.InterpretParams(),
    "order": pltpu.InterpretParams(dma_execution_mode="eager", detect_races=True),
}
Mode: TypeAlias = pltpu.InterpretParams
Case: TypeAlias = Callable[[Mode, str], bool]


def on_device(pool: list[Array]) -> list[jax.Array]:
    return [jnp.copy(jnp.asarray(layer)) for layer in pool]


def parts(what: str, geometry: Geometry) -> Case:
    """Gather a part and scatter another, more of them than the ring holds, -1 among them."""

    def case(mode: Mode, dtype: str) -> bool:
        pool, layout = geometry.pool(dtype), geometry.layout(dtype)
        found, rng = layout_of(pool), np.random.default_rng(1)
        lo, hi = (0, 0) if what != "heads" else (0, geometry.heads) if dtype == "int8" else (2, 4)
        count = geometry.pages * (geometry.page_size if what == "rows" else 1)
        ids = rng.permutation(count)[: min(count, tpu.RING + 3)]
        part = {
            "pages": lambda: Part.pages(found),
            "rows": lambda: Part.tokens_of(found, layout),
            "heads": lambda: Part.heads_of(found, layout, lo, hi),
        }[what]()
        expected = gathered(geometry, pool, what, ids.tolist(), lo, hi)
        words = tpu._gather_words(on_device(pool), ids, found, part, mode)
        new = some(expected.shape[0], expected.shape[1:], expected.dtype.name, 5)
        ids[1] = -1
        after = scattered(geometry, pool, what, ids.tolist(), new, lo, hi)
        written = tpu._scatter_words(on_device(pool), ids, new, found, part, mode)
        return np.array_equal(words, expected) and np.array_equal(bits(written), bits(after))

    return case


def relayout(mode: Mode, dtype: str) -> bool:
    source, target = HEADS_LAST.pool(dtype), HEADS_LAST.pool(dtype, seed=9)
    part = Part.tokens_of(layout_of(source), HEADS_LAST.layout(dtype))
    src, dst = np.arange(1, 23, 2), np.arange(12, 23)
    expected = [layer.copy() for layer in target]
    for old, new in zip(source, expected, strict=True):
        reference.relayout_dcp(old, new, src, dst, HEADS_LAST.token_axis)
    written = tpu.relayout_rows(on_device(source), on_device(target), src, dst, part, part, interpret=mode)
    return np.array_equal(bits(written), bits(expected))


def chunks(mode: Mode, dtype: str) -> bool:
    geometry = Geometry("token,head,dim", (2, 2, 8), 2, 2, pages=24)
    source, target = geometry.pool(dtype), geometry.pool(dtype, seed=9)
    src, dst = np.arange(tpu.RING + 2)[::-1] * 2, np.arange(tpu.RING + 2) * 2
    sizes = np.array([1, 2] * (len(src) // 2))
    expected = [layer.copy() for layer in target]
    reference.copy_layers(source, expected, src, dst, sizes)
    written = tpu.copy_layers(on_device(source), on_device(target), src, dst, sizes, interpret=mode)
    return np.array_equal(bits(written), bits(expected))


def dispatcher(mode: Mode, dtype: str) -> bool:
    """From the public functions down, as on a TPU: only the platform is made up."""
    geometry = Geometry("kv,token,head,dim", (2, 4, 4, 128), 4, 4)  # fills tiles
    source, target = geometry.pool(dtype), geometry.pool(dtype, seed=9)
    layout, real = geometry.layout(dtype), choose.platform_of
    expected = [layer.copy() for layer in target]
    for old, new in zip(source, expected, strict=True):
        reference.relayout_dcp(old, new, [5, 2], [8, 0], geometry.token_axis)
    reference.copy_layers(source, expected, [1], [4], [2])
    choose.platform_of = lambda _: "tpu"  # type: ignore[assignment]
    try:
        with pltpu.force_tpu_interpret_mode(mode):
            written = relayout_dcp(on_device(source), on_device(target), [5, 2], [8, 0], layout)
            written = copy_layers(on_device(source), written, [1], [4], [2], path="tpu")
            rows = gather_rows(on_device(source), [7], layout, path="auto")
    finally:
        choose.platform_of = real
    same = np.array_equal(rows, gathered(geometry, source, "rows", [7], 0, 0))
    return same and isinstance(rows, jax.Array) and np.array_equal(bits(written), bits(expected))


#: Name -> what is run, and a dtype for the quick run.
CHECKS: dict[str, tuple[Case, str]] = {
    "pages": (parts("pages", HEADS_LAST), "bfloat16"),
    "rows, kv first": (parts("rows", HEADS_LAST), "float8_e4m3fn"),
    "rows, tokens first": (parts("rows", TOKENS_FIRST), "int8"),
    "rows, latent": (parts("rows", LATENT), "float16"),
    "heads": (parts("heads", HEADS_LAST), "uint16"),
    "heads, grouped": (parts("heads", GROUPED), "float32"),
    "relayout": (relayout, "bfloat16"),
    "chunks": (chunks, "uint8"),
    "dispatcher": (dispatcher, "bfloat16"),
}


def _report(name: str, mode: str, run: Callable[[], bool]) -> dict[str, object]:
    """What came of it: `equal` to the reference, `raced`, or the `error`."""
    equal, error = False, ""
    try:
        equal = run()
    except Exception as raised:  # noqa: BLE001 - what the interpreter raises is the result
        error = f"{type(raised).__name__}: {raised}"[-400:]
    races = interpreter.races
    raced = bool(races is not None and races.races_found) if mode == "order" else None
    pltpu.reset_tpu_interpret_mode_state()
    return {"check": name, "mode": mode, "equal": equal, "raced": raced, "error": error}


class _NeverWaits:
    """A copy that is begun and not waited for."""

    def __init__(self, copy: _Copy) -> None:
        self.start = copy.start

    def wait(self) -> None:
        """Planted: nothing."""


def missing_wait(mode: Mode) -> bool:
    real = pltpu.make_async_copy
    jax.clear_caches()  # type: ignore[no-untyped-call]
    pltpu.make_async_copy = lambda *operands: _NeverWaits(real(*operands))  # type: ignore[assignment]
    try:
        return parts("rows", HEADS_LAST)(mode, "bfloat16")
    finally:
        pltpu.make_async_copy = real  # type: ignore[assignment]
        jax.clear_caches()  # type: ignore[no-untyped-call]


def read_before_wait(mode: Mode) -> bool:
    def kernel(source: jax.Ref, out: jax.Ref, buffer: jax.Ref, sem: jax.Ref) -> None:
        copy = pltpu.make_async_copy(source, buffer, sem)
        copy.start()
        out[...] = buffer[...]  # planted: before the wait
        copy.wait()

    given = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)
    out = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(given.shape, given.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM(given.shape, given.dtype), pltpu.SemaphoreType.DMA],
        interpret=mode,
    )(given)
    return np.array_equal(out, given)


def _units(ids: list[int], write: bool) -> Callable[[Mode], bool]:
    """Rows at ids that no check of ours has seen."""

    def run(mode: Mode) -> bool:
        pool = LATENT.pool("uint16")
        found = layout_of(pool)
        part, chosen = Part.tokens_of(found, LATENT.layout("uint16")), np.array(ids, np.int32)
        if write:
            blocks = jnp.asarray(some(3, (len(ids), 1, 24), "uint16", 3))
            tpu.scatter_units(on_device(pool), blocks, chosen, part, mode)[0].block_until_ready()
        else:
            tpu.gather_units(on_device(pool), chosen, part, mode).block_until_ready()
        return True

    return run


def negative_source(mode: Mode) -> bool:
    source, target = LATENT.pool("uint16"), LATENT.pool("uint16", seed=9)
    part = Part.tokens_of(layout_of(source), LATENT.layout("uint16"))
    ids = np.array([-3], np.int32), np.array([2], np.int32)
    tpu.move_units(on_device(target), on_device(source), *ids, part, part, mode)[0].block_until_ready()
    return True


def _chunks(src: list[int], dst: list[int], sizes: list[int]) -> Callable[[Mode], bool]:
    def run(mode: Mode) -> bool:
        source, target = LATENT.pool("uint16"), LATENT.pool("uint16", seed=9)
        arrays = (np.array(each, np.int32) for each in (src, dst, sizes, [len(src)]))
        tpu.move_chunks(on_device(target), on_device(source), *arrays, mode)[0].block_until_ready()
        return True

    return run


PLANTED: dict[str, Callable[[Mode], bool]] = {
    "missing wait": missing_wait,
    "read before wait": read_before_wait,
    "read past the end": _units([1, 24], write=False),
    "write past the end": _units([1, 24], write=True),
    "chunk past the end": _chunks([5], [0], [2]),
    "one row twice": _units([3, 3], write=True),
    "chunks that overlap": _chunks([0, 3], [0, 1], [2, 2]),
    "negative source": negative_source,
}


#: What the quick run checks: both ways of a part, dynamic sizes, and the way from the public functions to the kernels.
QUICK = ("rows, kv first", "chunks", "dispatcher")


def main(what: str, *dtypes: str) -> None:
    """`quick`: the checks named so, and the planted bugs. `every`: all checks, with these dtypes."""
    checks = {name: CHECKS[name] for name in QUICK} if what == "quick" else CHECKS
    cases: list[tuple[str, str, Callable[[], bool]]] = []
    for mode, parameters in MODES.items():
        for name, (run, usual) in checks.items():
            for dtype in dtypes or (usual,):
                label = f"{name} {dtype}" if dtypes else name
                cases.append((label, mode, partial(run, parameters, dtype)))
        if what == "quick":
            cases += [(name, mode, partial(plant, parameters)) for name, plant in PLANTED.items()]
    print(json.dumps([_report(*case) for case in cases]))


if __name__ == "__main__":
    main(*sys.argv[1:])
