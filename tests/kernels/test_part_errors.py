"""What parts of pages are refused for, before anything is written or launched; and which path "auto" takes where."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from kvpoll.kernels import (
    Layer,
    Path,
    RowLayout,
    choose,
    gather_heads,
    gather_pages,
    gather_rows,
    limits,
    relayout_dcp,
    scatter_heads,
    scatter_pages,
    scatter_rows,
    slice_heads,
    take_rows,
)
from kvpoll.kernels.layout import PoolLayout, layout_of

from .geometries import HEADS_LAST, Geometry, dtype_of

jax = pytest.importorskip("jax")
LAYOUT = HEADS_LAST.layout("uint16")


def pool() -> list[Layer]:
    return [np.zeros((6, 2, 4, 4, 8), np.uint16) for _ in range(2)]


def rows(n: int, words: int = 64) -> np.ndarray:
    return np.ones((2, n, words), np.uint16)


def read_only() -> list[Layer]:
    layers = pool()
    layers[1].flags.writeable = False  # type: ignore[union-attr]
    return layers


CALLS: list[tuple[Callable[[list[Layer]], object], str]] = [
    (lambda p: gather_rows(p, [24], LAYOUT), "token_rows: id 24 at 0 is outside 0..23"),
    (lambda p: gather_rows(p, [0, -1], LAYOUT), "token_rows: id -1 at 1 is outside 0..23"),
    (lambda p: scatter_rows(p, [-1], rows(1), LAYOUT), "token_rows: id -1 at 0 is outside 0..23"),
    (lambda p: scatter_rows(p, [-2], rows(1), LAYOUT, skip=True), "token_rows: id -2 at 0 is outside 0..23, or -1"),
    (lambda p: scatter_rows(p, [3, 3], rows(2), LAYOUT), "token_rows: id 3 is listed more than once"),
    (lambda p: scatter_rows(p, [3], rows(2), LAYOUT), "rows: expected shape (2, 1, 64) of uint16"),
    (lambda p: scatter_rows(p, [3], rows(1).astype("i2"), LAYOUT), "rows: expected shape (2, 1, 64) of uint16"),
    (lambda p: scatter_rows(read_only(), [3], rows(1), LAYOUT), "pool[1]: expected a writable array"),
    (lambda p: scatter_rows([p[0], p[0]], [3], rows(1), LAYOUT), "pool: expected a different array for each layer"),
    (lambda p: gather_rows(p, [3], LAYOUT.with_heads(8)), "pool: expected 512 words a page, as layout says, got 256"),
    (lambda p: gather_rows(p, [3], LAYOUT, path="tpu"), "path: 'tpu' needs a jax pool, got a numpy one"),
    (lambda p: gather_rows(p, [3], LAYOUT, out=rows(2)), "out: expected shape (2, 1, 64) of uint16"),
    (lambda p: gather_rows(p, [3], LAYOUT, out=rows(1, 128)[..., ::2]), "out: expected a writable, C-contiguous"),
    (lambda p: take_rows(rows(3, 256), [12], LAYOUT), "token_rows: id 12 at 0 is outside 0..11"),
    (lambda p: take_rows(rows(3, 256)[0], [1], LAYOUT), "rows: expected contiguous unsigned words"),
    (lambda p: take_rows(rows(3, 256).astype("f4"), [1], LAYOUT), "rows: expected contiguous unsigned words"),
    (lambda p: take_rows(rows(3, 64), [1], LAYOUT), "rows: expected 256 words a page, as layout says, got 64"),
    (lambda p: slice_heads(rows(3, 256), 3, 5, LAYOUT), "lo, hi: expected 0 <= lo < hi <= 4, got 3, 5"),
    (lambda p: gather_heads(p, [6], 0, 2, LAYOUT), "pages: page 6 is outside 0..5"),
    (lambda p: gather_heads(p, [1], 2, 2, LAYOUT), "lo, hi: expected 0 <= lo < hi <= 4, got 2, 2"),
    (lambda p: scatter_heads(p, [1, 1], rows(2, 128), 0, 2, LAYOUT), "pages: page 1 is listed more than once"),
    (lambda p: scatter_heads(p, [1], rows(1, 64), 0, 2, LAYOUT), "rows: expected shape (2, 1, 128) of uint16"),
    (lambda p: scatter_pages(p, [-2], rows(1, 256), skip=True), "pages: id -2 at 0 is outside 0..5, or -1 to skip"),
    (lambda p: scatter_pages(p, [-1], rows(1, 256)), "pages: page -1 is outside 0..5"),
    (lambda p: relayout_dcp(pool(), p, [0, 1], [2, 2], LAYOUT), "dst_rows: id 2 is listed more than once"),
    (lambda p: relayout_dcp(pool(), p, [0, 1], [2], LAYOUT), "dst_rows: expected 2 ids, as many as src_rows, got 1"),
    (lambda p: relayout_dcp(pool(), p, [-1], [2], LAYOUT), "src_rows: id -1 at 0 is outside 0..23"),
    (lambda p: relayout_dcp(p, p, [0], [2], LAYOUT), "target: expected other arrays than the source's"),
    (lambda p: relayout_dcp(pool()[:1], p, [0], [2], LAYOUT), "target: expected layers, words a token, runs a token"),
    (lambda p: relayout_dcp(pool(), p, [0], [2], LAYOUT, path="tpu"), "path: 'tpu' needs a jax pool, got a numpy one"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message for _, message in CALLS])
def test_a_bad_argument_is_named_and_nothing_is_written(call: Callable[[list[Layer]], object], message: str) -> None:
    held = pool()
    with pytest.raises(ValueError, match=re.escape(message)):
        call(held)
    assert not any(np.asarray(layer).any() for layer in held)


def test_a_jax_pool_is_refused_by_paths_of_other_platforms() -> None:
    held = [jax.numpy.asarray(layer) for layer in pool()]
    calls: list[Callable[[Path], object]] = [
        lambda path: gather_pages(held, [1], path=path),
        lambda path: gather_rows(held, [1], LAYOUT, path=path),
        lambda path: scatter_rows(held, [1], rows(1), LAYOUT, path=path),
        lambda path: gather_heads(held, [1], 0, 2, LAYOUT, path=path),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="path: 'tpu' needs a pool on tpu, got one on cpu"):
            call("tpu")
        with pytest.raises(ValueError, match="path: 'triton' needs a pool on gpu or cuda or rocm, got one on cpu"):
            call("triton")
    with pytest.raises(ValueError, match="path: 'numpy' cannot write this jax pool"):
        scatter_rows(held, [1], rows(1), LAYOUT, path="numpy")
    with pytest.raises(ValueError, match="out: expected None on path 'xla'"):
        gather_rows(held, [1], LAYOUT, out=rows(1), path="xla")


def found(geometry: Geometry, dtype: str) -> PoolLayout:
    return PoolLayout(1, geometry.shape, 1024, dtype_of(dtype), True)


KV_FIRST = Geometry("kv,token,head,dim", (2, 16, 8, 128), 16, 8)
IN_GROUPS = Geometry("kv,token,head,dim", (2, 16, 4, 2, 128), 16, 8)
WIDE = Geometry("token,head,dim", (16, 16, 128), 16, 16)


@pytest.mark.parametrize(
    ("geometry", "dtype", "refusal"),
    [
        (KV_FIRST, "bfloat16", None),
        (IN_GROUPS, "bfloat16", None),
        (IN_GROUPS, "int8", "needs last axes that fill tiles, got 2, 128 of int8"),
        (Geometry("token,latent", (16, 2, 384), 16), "bfloat16", None),
        (Geometry("token,latent", (16, 1, 576), 16), "bfloat16", "needs last axes that fill tiles, got 1, 576"),
        (Geometry("token,latent", (16, 640), 16), "float32", None),
        (Geometry("token,latent", (16, 640), 16), "bfloat16", "only with the token axis outside the last two"),
        (Geometry("kv,token,head,dim", (2, 16, 1024), 16, 8), "int8", "only with the token axis outside the last two"),
        (Geometry("token,latent", (8192,), 16), "bfloat16", "needs at least two axes in a page"),
        (Geometry("token,latent", (), 1), "float32", "needs last axes that fill tiles"),
        (Geometry("token,kv,head,dim", (24, 128), 4, 4), "bfloat16", "needs an axis of 4 tokens in the page"),
        (KV_FIRST, "float64", "needs a dtype of at most 4 bytes"),
    ],
)
def test_tokens_that_tiles_would_cut_are_refused(geometry: Geometry, dtype: str, refusal: str | None) -> None:
    said = limits.tpu_tokens(found(geometry, dtype), geometry.layout(dtype))
    assert (said is None) == (refusal is None), said
    assert refusal is None or refusal in str(said)


@pytest.mark.parametrize(
    ("geometry", "dtype", "range_", "refusal"),
    [
        (KV_FIRST, "bfloat16", (0, 2), None),
        (KV_FIRST, "bfloat16", (4, 8), None),
        (KV_FIRST, "bfloat16", (1, 2), "lo, hi: path 'tpu' needs a range that fills tiles, got 1 heads of bfloat16"),
        (KV_FIRST, "bfloat16", (1, 3), "lo, hi: path 'tpu' needs multiples of 2 for heads of bfloat16, got 1, 3"),
        (KV_FIRST, "bfloat16", (0, 6), "lo, hi: path 'tpu' needs a range that fills tiles, got 6 heads of bfloat16"),
        (KV_FIRST, "float32", (1, 2), None),
        (KV_FIRST, "int8", (2, 6), "lo, hi: path 'tpu' needs multiples of 4 for heads of int8, got 2, 6"),
        (IN_GROUPS, "bfloat16", (2, 4), None),
        (IN_GROUPS, "bfloat16", (1, 2), "lo, hi: path 'tpu' needs multiples of 2 for pages of (2, 16, 4, 2, 128)"),
        (WIDE, "bfloat16", (4, 12), "lo, hi: path 'tpu' needs a range within 8 heads, or between multiples of 8"),
        (WIDE, "bfloat16", (8, 16), None),
        (Geometry("kv,token,head,dim", (2, 16, 1024), 16, 8), "bfloat16", (0, 2), "needs an axis of heads in the page"),
    ],
)
def test_ranges_of_heads_that_tiles_would_cut_are_refused(
    geometry: Geometry, dtype: str, range_: tuple[int, int], refusal: str | None
) -> None:
    said = limits.tpu_heads(found(geometry, dtype), geometry.layout(dtype), *range_)
    assert (said is None) == (refusal is None), said
    assert refusal is None or refusal in str(said)


@pytest.mark.parametrize(
    ("width", "block"), [(1024, 1024), (576, 64), (8, 8), (1 << 15, 4096), (1000, None), (24, None)]
)
def test_triton_takes_widths_that_blocks_of_a_power_of_two_divide(width: int, block: int | None) -> None:
    geometry = Geometry("token,latent", (4, width), 4)
    said = limits.triton_runs(found(geometry, "bfloat16"), geometry.layout("bfloat16"))
    assert (said is None) == (block is not None), said
    if block is None:
        assert f"a power of two, or a multiple of 32, got {width}" in str(said)
    else:
        assert limits.triton_block(width) == block


@pytest.mark.parametrize(
    ("platform", "host_can", "tpu", "path"),
    [
        ("cpu", "read", None, "numpy"),
        ("cpu", "write", None, "xla"),
        ("tpu", "read", None, "tpu"),
        ("tpu", "write", "layout: no", "xla"),
        ("gpu", "read", None, "xla"),
    ],
)
def test_auto_takes_what_the_platform_and_the_layout_allow(
    monkeypatch: pytest.MonkeyPatch, platform: str, host_can: str, tpu: str | None, path: str
) -> None:
    monkeypatch.setattr(choose, "platform_of", lambda _: platform)
    held = [jax.numpy.asarray(layer) for layer in pool()]
    assert choose.choose(held, layout_of(held), "auto", host_can, tpu=tpu) == path  # type: ignore[arg-type]


def test_a_path_that_was_asked_for_is_refused_with_the_reason_of_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [jax.numpy.asarray(layer) for layer in pool()]
    monkeypatch.setattr(choose, "platform_of", lambda _: "tpu")
    flat = [layer.reshape(6, -1) for layer in held]
    for call in (
        lambda: gather_rows(flat, [1], LAYOUT, path="tpu"),
        lambda: scatter_rows(flat, [1], rows(1), LAYOUT, path="tpu"),
        lambda: gather_pages(flat, [1], path="tpu"),
        lambda: gather_heads(flat, [1], 0, 2, LAYOUT, path="tpu"),
    ):
        with pytest.raises(ValueError, match="pool: path 'tpu' needs"):
            call()
    wide, layout = (
        [jax.numpy.zeros((6, 2, 4, 4, 128), "uint16")],
        RowLayout.parse("kv,token,head,dim", page_size=4, heads=4, words_per_page=4096),
    )
    with pytest.raises(ValueError, match="lo, hi: path 'tpu' needs multiples of 2"):
        gather_heads(wide, [1], 1, 3, layout, path="tpu")
    monkeypatch.setattr(choose, "platform_of", lambda _: "cuda")
    odd = [jax.numpy.zeros((6, 2, 12), "uint16")]
    latent = RowLayout.parse("token,latent", page_size=2, words_per_page=24)
    with pytest.raises(ValueError, match="layout: path 'triton' needs runs of words whose number is a power of two"):
        gather_rows(odd, [1], latent, path="triton")
    with pytest.raises(ValueError, match="path: 'triton' moves rows and pages only"):
        gather_heads(held, [1], 0, 2, LAYOUT, path="triton")
