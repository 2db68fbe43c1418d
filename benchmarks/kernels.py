"""Copies of KV on the host, against one `memcpy` of as many bytes: page-sized moves, parts of pages, relayout for DCP.

Each move and its memcpy take turns within one run; buffers are warm on both sides, and aligned as those of the runtime. The
ratio is the memcpy's median time divided by ours: 1 is as fast as a memcpy. Page-sized moves are measured at several sizes,
and the worst one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from timeit import Timer
from typing import cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import (
    Layer,
    RowLayout,
    gather_heads,
    gather_pages,
    gather_rows,
    relayout_dcp,
    scatter_heads,
    scatter_pages,
    scatter_rows,
)  # fmt: skip

from .result import Bare, Result, Timed, interleave

__all__ = ["PAGE_MOVES", "Moves", "run"]

#: At least so much of memcpy's speed, for page-sized moves into and out of a pool owned by numpy, and by jax.
NUMPY_TARGET, JAX_TARGET = 0.8, 0.6
Words = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Moves:
    """So many pages of this size, out of a pool twice as large; in each of `layers`."""

    page_kib: int
    pages: int
    layers: int

    @property
    def name(self) -> str:
        return f"{self.pages} x {self.page_kib} KiB"

    def pool(self) -> list[Words]:
        words = self.page_kib << 9
        return [np.full((2 * self.pages, 16, words // 16), i, np.uint16) for i in range(self.layers)]

    def ids(self) -> npt.NDArray[np.int32]:
        return np.random.default_rng(0).permutation(2 * self.pages)[: self.pages].astype(np.int32)


PAGE_MOVES = (Moves(64, 16, 64), Moves(64, 64, 16), Moves(256, 32, 8), Moves(1024, 16, 4), Moves(1024, 64, 1))
#: For parts of pages: 16 tokens, 8 heads of 128 words, keys and values: pages of 64 KiB.
PARTS = Moves(64, 64, 8)
QUICK = Moves(64, 4, 4)
LAYOUTS = {
    "kv,token,head,dim": (RowLayout.parse("kv,token,head,dim", page_size=16, heads=8, words_per_page=32768), 8),
    "token,latent": (RowLayout.parse("token,latent", page_size=16, words_per_page=32768), 1),
}


def run(quick: bool = False) -> list[Result]:
    """Half a minute, a second when `quick`. Raises `RuntimeError` when a move brings wrong bytes."""
    rounds, moves, parts = (2, (QUICK,), QUICK) if quick else (31, PAGE_MOVES, PARTS)
    found: dict[str, dict[str, tuple[Timed, Timed]]] = {}
    for each in moves:
        for name, timed in _page_moves(each, rounds).items():
            found.setdefault(name, {})[each.name] = timed
    results = []
    for name, by_size in found.items():
        ratios = {size: memcpy.middle / ours.middle for size, (memcpy, ours) in by_size.items()}
        target = NUMPY_TARGET if "numpy" in name else JAX_TARGET
        bare = tuple(Bare(size, ratio, "x") for size, ratio in ratios.items())
        says = "memcpy of the same bytes / ours, the worst of the sizes"
        results.append(Result(f"{name}, pages", min(ratios.values()), target, at_least=True, says=says, bare=bare))
    for layout in LAYOUTS:
        results += _part_moves(layout, parts, rounds)
    return results


def _page_moves(moves: Moves, rounds: int) -> dict[str, tuple[Timed, Timed]]:
    """Gather and scatter for a numpy pool, and for jax pools of integers and of bfloat16."""
    import jax

    pool, ids = moves.pool(), moves.ids()
    out = gather_pages(pool, ids)
    assert isinstance(out, np.ndarray)
    # What memcpy reads is not what the move before it read: that would still be in the cache.
    source, spare, rows, out = (_aligned(out) for _ in range(4))
    owned = {dtype: _owned_by_jax(pool, dtype) for dtype in ("uint16", "bfloat16")}

    def scatter(dtype: str) -> None:
        owned[dtype] = cast("list[jax.Array]", scatter_pages(owned[dtype], ids, rows))
        jax.block_until_ready(owned[dtype])  # type: ignore[no-untyped-call]

    calls: dict[str, Callable[[], object]] = {
        "memcpy": lambda: np.copyto(spare, source),
        "gather, numpy pool": lambda: gather_pages(pool, ids, out=out),
        "scatter, numpy pool": lambda: scatter_pages(pool, ids, rows),
        "gather, jax pool": lambda: gather_pages(owned["bfloat16"], ids, out=out),
        "scatter, jax pool of integers": lambda: scatter("uint16"),
        "scatter, jax pool of bfloat16": lambda: scatter("bfloat16"),
    }
    timed = _timed(calls, rounds)
    for layers in (pool, *owned.values()):
        if not np.array_equal(gather_pages(layers, ids), rows):
            raise RuntimeError(f"{moves.name}: wrong bytes after scatter")
    return {name: (timed["memcpy"], of) for name, of in timed.items() if name != "memcpy"}


def _part_moves(axes: str, moves: Moves, rounds: int) -> list[Result]:
    """Token rows of one of two DCP ranks, the relayout itself, and half of the heads: bytes moved are those of the part."""
    layout, heads = LAYOUTS[axes]
    pool: list[Layer] = list(moves.pool())
    target: list[Layer] = [np.zeros_like(layer) for layer in pool]
    ids = moves.ids()
    tokens = (ids[:, None] * 16 + np.arange(16)).reshape(-1)[::2]
    local = (ids[: len(ids) // 2, None] * 16 + np.arange(16)).reshape(-1)
    source, spare, rows, out = (_aligned(np.asarray(gather_rows(pool, tokens, layout))) for _ in range(4))
    calls: dict[str, Callable[[], object]] = {
        "memcpy": lambda: np.copyto(spare, source),
        "gather, every second token row": lambda: gather_rows(pool, tokens, layout, out=out),
        "scatter, token rows": lambda: scatter_rows(target, local, rows, layout),
        "relayout for DCP 1:2": lambda: relayout_dcp(pool, target, tokens, local, layout),
    }
    if heads > 1:
        half, into = (_aligned(np.asarray(gather_heads(pool, ids, 4, 8, layout))) for _ in range(2))
        calls["gather, half of the heads"] = lambda: gather_heads(pool, ids, 4, 8, layout, out=into)
        calls["scatter, half of the heads"] = lambda: scatter_heads(pool, ids, half, 4, 8, layout)
    timed = _timed(calls, rounds)
    if not np.array_equal(np.asarray(gather_rows(target, local, layout)), rows):
        raise RuntimeError(f"{axes}: wrong bytes after the relayout")
    says = "memcpy of the same bytes / ours"
    return [
        Result(f"{name}, {axes}", timed["memcpy"].middle / of.middle, says=says, bare=(of.bare("ours", "ms"),))
        for name, of in timed.items()
        if name != "memcpy"
    ]


def _timed(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timed]:
    for call in calls.values():  # the first one compiles, and touches memory
        call()
    return interleave({name: Timer(call) for name, call in calls.items()}, dict.fromkeys(calls, 1), rounds, 1)


def _owned_by_jax(pool: list[Words], dtype: str) -> list[Layer]:
    """Copies in memory that jax allocated: what it adopted from numpy would not be updated in place."""
    import jax

    as_float = jax.jit(lambda layer: jax.lax.bitcast_convert_type(layer, dtype))
    return [jax.numpy.copy(as_float(layer)) for layer in pool]


def _aligned(rows: npt.NDArray[np.generic]) -> Words:
    """A copy at a multiple of 64 bytes, which jax on the CPU reads where it is."""
    memory = np.zeros(rows.nbytes + 64, np.uint8)
    copy = memory[-memory.ctypes.data % 64 :][: rows.nbytes].view(np.uint16).reshape(rows.shape)
    copy[...] = rows
    return copy
