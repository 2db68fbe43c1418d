"""Token rows and ranges of heads against the reference, bit for bit: numpy pools, jax pools, and the programs for devices."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.kernels import (
    gather_heads,
    gather_pages,
    gather_rows,
    relayout_dcp,
    scatter_heads,
    scatter_pages,
    scatter_rows,
    slice_heads,
    take_rows,
)
from kvpoll.kernels.layout import layout_of

from .geometries import DTYPES, FLAT, GEOMETRIES, HEADS_LAST, LATENT, Array, Geometry, bits, gathered, scattered, some

jax = pytest.importorskip("jax")
WITH_HEADS = [g for g in GEOMETRIES if "head" in g.axes]


def on_cpu(pool: Sequence[Array]) -> list[object]:
    return [jax.numpy.copy(jax.device_put(layer, jax.devices("cpu")[0])) for layer in pool]


def new_rows(like: Array, seed: int) -> Array:
    return some(like.shape[0], like.shape[1:], like.dtype.name, seed)


def rows_of(geometry: Geometry, seed: int = 0) -> list[int]:
    tokens = geometry.pages * geometry.page_size
    return np.random.default_rng(seed).permutation(tokens)[: tokens // 2].tolist()


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: f"{g.axes} {g.shape}")
def test_token_rows_of_every_layout_keep_every_bit(geometry: Geometry, kind: str) -> None:
    for dtype in DTYPES if geometry is HEADS_LAST else ("bfloat16", "int8"):
        pool, layout, ids = geometry.pool(dtype), geometry.layout(dtype), rows_of(geometry)
        expected = gathered(geometry, pool, "rows", ids, 0, 0)
        held = pool if kind == "numpy" else on_cpu(pool)
        np.testing.assert_array_equal(gather_rows(held, ids, layout), expected)
        dense = gather_pages(held, range(geometry.pages))
        np.testing.assert_array_equal(take_rows(dense, ids, layout), expected)

        new, skipping = new_rows(expected, 7), [-1 if i % 3 == 1 else row for i, row in enumerate(ids)]
        after = scattered(geometry, pool, "rows", skipping, new, 0, 0)
        np.testing.assert_array_equal(bits(scatter_rows(held, skipping, new, layout, skip=True)), bits(after))


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("geometry", WITH_HEADS, ids=lambda g: f"{g.axes} {g.shape}")
def test_ranges_of_heads_of_every_layout_keep_every_bit(geometry: Geometry, kind: str) -> None:
    pages = [4, 0, 5]
    for lo, hi in [(0, 1), (1, geometry.heads), (2, 4), (0, geometry.heads)]:
        for dtype in DTYPES if geometry is HEADS_LAST and lo == 2 else ("bfloat16", "float32"):
            pool, layout = geometry.pool(dtype), geometry.layout(dtype)
            expected = gathered(geometry, pool, "heads", pages, lo, hi)
            held = pool if kind == "numpy" else on_cpu(pool)
            np.testing.assert_array_equal(gather_heads(held, pages, lo, hi, layout), expected)
            np.testing.assert_array_equal(slice_heads(gather_pages(held, pages), lo, hi, layout), expected)

            new = new_rows(expected, 3)
            after = scattered(geometry, pool, "heads", pages, new, lo, hi)
            np.testing.assert_array_equal(bits(scatter_heads(held, pages, new, lo, hi, layout)), bits(after))


@pytest.mark.parametrize("geometry", [HEADS_LAST, FLAT], ids=lambda g: f"{g.axes} {g.shape}")
def test_the_programs_for_other_devices_keep_every_bit_too(geometry: Geometry) -> None:
    from kvpoll.kernels import xla_parts

    for dtype in ("bfloat16", "float8_e5m2", "uint16"):
        pool, layout, found = geometry.pool(dtype), geometry.layout(dtype), layout_of(geometry.pool(dtype))
        ids, pages = np.array(rows_of(geometry)), np.array([5, 2, 3])
        expected = gathered(geometry, pool, "rows", ids, 0, 0)
        np.testing.assert_array_equal(gather_rows(on_cpu(pool), ids, layout, path="xla"), expected)
        new = new_rows(expected, 5)
        ids[2] = -1
        after = scattered(geometry, pool, "rows", ids, new, 0, 0)
        np.testing.assert_array_equal(bits(xla_parts.scatter_rows(on_cpu(pool), ids, new, found, layout)), bits(after))

        expected = gathered(geometry, pool, "heads", pages, 1, 3)
        np.testing.assert_array_equal(gather_heads(on_cpu(pool), pages, 1, 3, layout, path="xla"), expected)
        new = new_rows(expected, 6)
        after = scattered(geometry, pool, "heads", pages, new, 1, 3)
        written = xla_parts.scatter_heads(on_cpu(pool), pages, new, 1, 3, found, layout)
        np.testing.assert_array_equal(bits(written), bits(after))


@pytest.mark.parametrize("kind", ["numpy", "jax"])
def test_pages_to_skip_are_not_written(kind: str) -> None:
    for dtype in ("bfloat16", "uint16"):
        pool, pages = HEADS_LAST.pool(dtype), [3, -1, 0, -1]
        new = new_rows(np.asarray(gather_pages(pool, range(4))), 2)
        after = scattered(HEADS_LAST, pool, "pages", pages, new, 0, 0)
        held = pool if kind == "numpy" else on_cpu(pool)
        for rows in (new,) if kind == "numpy" else (new, jax.numpy.asarray(new)):
            held = scatter_pages(held, pages, rows, skip=True)
            np.testing.assert_array_equal(bits(held), bits(after))


def test_a_rank_that_owns_nothing_gathers_nothing_and_writes_nothing() -> None:
    for held in (LATENT.pool("uint16"), on_cpu(LATENT.pool("uint16"))):
        layout = LATENT.layout("uint16")
        rows = gather_rows(held, [], layout)
        assert rows.shape == (3, 0, 24)
        assert take_rows(gather_pages(held, [1]), [], layout).shape == (3, 0, 24)
        assert bits(scatter_rows(held, [], rows, layout)).tolist() == bits(LATENT.pool("uint16")).tolist()
        unwritten = scatter_rows(held, [-1, -1], np.zeros((3, 2, 24), np.uint16), layout, skip=True)
        assert bits(unwritten).tolist() == bits(LATENT.pool("uint16")).tolist()
        assert scatter_pages(held, [-1], np.zeros((3, 1, 96), np.uint16), skip=True)[0] is held[0]
        other = LATENT.pool("uint16", seed=9)
        assert relayout_dcp(held, other, [], [], layout)[0] is other[0]


@pytest.mark.parametrize("kinds", [("numpy", "numpy"), ("jax", "jax"), ("numpy", "jax"), ("jax", "numpy")], ids=str)
def test_a_relayout_moves_token_rows_between_pools_of_any_kind(kinds: tuple[str, str]) -> None:
    from kvpoll.kernels import reference

    for geometry in (HEADS_LAST, LATENT):
        source, target, layout = (
            geometry.pool("bfloat16"),
            geometry.pool("bfloat16", seed=50),
            geometry.layout("bfloat16"),
        )
        src, dst = rows_of(geometry, 1), rows_of(geometry, 2)
        expected = [layer.copy() for layer in target]
        for old, new in zip(source, expected, strict=True):
            reference.relayout_dcp(geometry.by_axes(old), geometry.by_axes(new), src, dst, geometry.token_axis)
        held = [pool if kind == "numpy" else on_cpu(pool) for kind, pool in zip(kinds, (source, target), strict=True)]
        np.testing.assert_array_equal(bits(relayout_dcp(held[0], held[1], src, dst, layout)), bits(expected))


def test_a_relayout_may_go_between_pages_of_different_sizes() -> None:
    from kvpoll.kernels import reference

    wide = Geometry("kv,token,head,dim", (2, 8, 4, 8), 8, 4, pages=3)
    source, target = wide.pool("bfloat16"), HEADS_LAST.pool("bfloat16", seed=50)
    expected = [layer.copy() for layer in target]
    src, dst = [0, 9, 23], [23, 4, 1]
    for old, new in zip(source, expected, strict=True):
        reference.scatter_rows(new, dst, reference.gather_rows(old, src, 2), 2)
    layouts = {"layout": HEADS_LAST.layout("bfloat16"), "source_layout": wide.layout("bfloat16")}
    np.testing.assert_array_equal(bits(relayout_dcp(source, target, src, dst, **layouts)), bits(expected))


def test_rows_and_heads_fill_the_array_that_they_are_given() -> None:
    pool, layout = HEADS_LAST.pool("bfloat16"), HEADS_LAST.layout("bfloat16")
    for held in (pool, on_cpu(pool)):
        rows, heads = np.zeros((3, 2, 64), np.uint16), np.zeros((3, 2, 128), np.uint16)
        assert gather_rows(held, [5, 1], layout, out=rows) is rows
        np.testing.assert_array_equal(rows, gather_rows(pool, [5, 1], layout))
        assert gather_heads(held, [5, 1], 1, 3, layout, out=heads) is heads
        np.testing.assert_array_equal(heads, gather_heads(pool, [5, 1], 1, 3, layout))
        dense = gather_pages(held, [5, 1])
        assert slice_heads(dense, 1, 3, layout, out=heads) is heads
        assert take_rows(dense, [5, 1], layout, out=rows) is rows


@given(data=st.data(), dtype=st.sampled_from(DTYPES), sizes=st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_gathered_parts_land_where_they_are_scattered(data: st.DataObject, dtype: str, sizes: list[int]) -> None:
    """Any order of axes, any sizes, odd ones too: scatter(gather) between two pools is the reference's copy."""
    pages, tokens, heads, dim = sizes
    names = data.draw(st.permutations(["kv", "token", "head"]), label="axes")
    named = {"kv": 2, "token": tokens, "head": heads}
    shape = (*(named[name] for name in names), dim)
    geometry = Geometry(",".join([*names, "dim"]), shape, tokens, heads, pages=pages, layers=2)
    layout, source, target = geometry.layout(dtype), geometry.pool(dtype), geometry.pool(dtype, seed=20)

    rows = data.draw(st.lists(st.integers(0, pages * tokens - 1), min_size=1, unique=True), label="rows")
    places = data.draw(st.permutations(range(pages * tokens)), label="places")[: len(rows)]
    expected = scattered(geometry, target, "rows", places, gathered(geometry, source, "rows", rows, 0, 0), 0, 0)
    written = scatter_rows([layer.copy() for layer in target], places, gather_rows(source, rows, layout), layout)
    np.testing.assert_array_equal(bits(written), bits(expected))

    lo = data.draw(st.integers(0, heads - 1), label="lo")
    hi = data.draw(st.integers(lo + 1, heads), label="hi")
    some_pages = data.draw(st.permutations(range(pages)), label="pages")
    expected = scattered(
        geometry, target, "heads", some_pages, gathered(geometry, source, "heads", range(pages), lo, hi), lo, hi
    )
    taken = gather_heads(source, range(pages), lo, hi, layout)
    np.testing.assert_array_equal(bits(scatter_heads(target, some_pages, taken, lo, hi, layout)), bits(expected))


@given(heads=st.sampled_from([2, 4, 6, 8]), ranks=st.sampled_from([1, 2]), seed=st.integers(0, 99))
def test_the_slices_of_all_ranks_put_together_are_the_page(heads: int, ranks: int, seed: int) -> None:
    geometry = Geometry("kv,token,head,dim", (2, 3, heads, 5), 3, heads)
    layout, pool = geometry.layout("bfloat16"), geometry.pool("bfloat16", seed)
    again = [np.zeros_like(layer) for layer in pool]
    share = heads // ranks
    for lo in range(0, heads, share):
        narrow = gather_heads(pool, range(geometry.pages), lo, lo + share, layout)
        again = scatter_heads(again, range(geometry.pages), narrow, lo, lo + share, layout)
    np.testing.assert_array_equal(bits(again), bits(pool))
