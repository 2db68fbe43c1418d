"""gather_pages and scatter_pages against a reference that knows nothing but bytes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.kernels import Layer, Path, gather_pages, page_nbytes, rows_spec, scatter_pages

jax = pytest.importorskip("jax")
ml_dtypes = pytest.importorskip("ml_dtypes")

NUM_PAGES = 11
LAYERS = 3
DTYPES = [
    "uint8",
    "int16",
    "uint32",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
]
IN_JAX = [name for name in DTYPES if "64" not in name]  # jax has no 64-bit types by default
PAGE_SHAPES = [(), (7,), (2, 4, 3, 5)]
PAGES = [[4], [9, 0, 5, 2, 7], list(range(NUM_PAGES))[::-1]]
Bytes = npt.NDArray[np.uint8]


def dtype_of(name: str) -> np.dtype[np.generic]:
    return np.dtype(getattr(ml_dtypes, name, name))


def some_bytes(shape: tuple[int, ...], dtype: np.dtype[np.generic], seed: int) -> Bytes:
    """Random bits; about every second element of a float dtype is a NaN, quiet or signalling, with a random payload."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    if dtype.kind not in "iu":
        nan_like = np.array(np.inf, dtype) if dtype.name != "float8_e4m3fn" else np.array(np.nan, dtype)
        exponent = np.frombuffer(nan_like.tobytes(), np.uint8)
        raw |= np.where(rng.integers(0, 2, (*shape, 1), dtype=np.uint8), exponent, np.uint8(0))
    return raw


def pool_of(raw: Bytes, dtype: np.dtype[np.generic], kind: str) -> list[Layer]:
    """`raw` is [layers, pages, ..., itemsize]."""
    layers = [np.ascontiguousarray(layer).view(dtype)[..., 0].copy() for layer in raw]
    return [layer if kind == "numpy" else jax.device_put(layer, jax.devices("cpu")[0]) for layer in layers]


def bytes_of(arrays: object, *shape: int) -> Bytes:
    return np.stack([np.asarray(array).reshape(-1).view(np.uint8) for array in arrays]).reshape(*shape, -1)  # type: ignore[attr-defined]


def check_gather_and_scatter(
    kind: str, path: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...], pages: list[int]
) -> None:
    raw = some_bytes((LAYERS, NUM_PAGES, *shape), dtype, seed=1)
    expected = raw.reshape(LAYERS, NUM_PAGES, -1).copy()
    pool = pool_of(raw, dtype, kind)

    rows = gather_pages(pool, pages, path=path)
    spec = rows_spec(pool, len(pages))
    assert (tuple(rows.shape), np.dtype(rows.dtype).name) == spec
    assert isinstance(rows, np.ndarray) == (path != "xla")
    np.testing.assert_array_equal(bytes_of(rows, LAYERS, len(pages)), expected[:, pages])

    new = some_bytes((LAYERS, len(pages), *shape), dtype, seed=2).reshape(LAYERS, len(pages), -1)
    new_rows = new.view(spec[1])
    pool = scatter_pages(pool, pages, jax.numpy.asarray(new_rows) if path == "xla" else new_rows, path=path)
    expected[:, pages] = new
    np.testing.assert_array_equal(bytes_of(pool, LAYERS, NUM_PAGES), expected)
    assert all(layer.dtype == dtype and layer.shape == (NUM_PAGES, *shape) for layer in pool)


@pytest.mark.parametrize("pages", PAGES, ids=["one page", "scattered pages", "all pages"])
@pytest.mark.parametrize("shape", PAGE_SHAPES, ids=str)
@pytest.mark.parametrize("name", DTYPES)
def test_pages_of_numpy_pools_keep_every_bit(name: str, shape: tuple[int, ...], pages: list[int]) -> None:
    check_gather_and_scatter("numpy", "auto", dtype_of(name), shape, pages)


@pytest.mark.parametrize("path", ["auto", "xla"])
@pytest.mark.parametrize("name", IN_JAX)
def test_pages_of_jax_pools_keep_every_bit(name: str, path: Path) -> None:
    for pages in PAGES:
        check_gather_and_scatter("jax", path, dtype_of(name), (2, 4, 3, 5), pages)


@pytest.mark.parametrize("shape", PAGE_SHAPES[:2], ids=str)
def test_jax_pages_may_be_single_elements_or_flat(shape: tuple[int, ...]) -> None:
    for name in ("bfloat16", "uint16"):
        check_gather_and_scatter("jax", "xla", dtype_of(name), shape, PAGES[1])


@pytest.mark.parametrize("name", ["int64", "float64"])
def test_eight_byte_jax_pools_are_moved_as_pairs_of_words(name: str) -> None:
    with jax.enable_x64(True):
        check_gather_and_scatter("jax", "xla", dtype_of(name), (3, 2), PAGES[1])


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_all_bit_patterns_of_two_byte_floats_survive(name: str) -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).reshape(1, 16, -1)
    pool = pool_of(patterns[..., None].view(np.uint8), dtype_of(name), "jax")
    blank = pool_of(np.zeros((1, 16, 4096, 2), np.uint8), dtype_of(name), "jax")
    copy = scatter_pages(blank, range(16), gather_pages(pool, range(16), path="xla"))
    np.testing.assert_array_equal(np.asarray(copy[0]).view(np.uint16), patterns[0])


@given(data=st.data(), name=st.sampled_from(DTYPES), n=st.integers(1, 9), shape=st.lists(st.integers(1, 4), max_size=3))
def test_a_gathered_page_lands_where_it_is_scattered(data: st.DataObject, name: str, n: int, shape: list[int]) -> None:
    source = data.draw(st.permutations(range(n)), label="source")[: data.draw(st.integers(1, n), label="count")]
    target = data.draw(st.permutations(range(n)), label="target")[: len(source)]
    raw = some_bytes((2, n, *shape), dtype_of(name), seed=n)
    expected = raw.reshape(2, n, -1).copy()
    pool = pool_of(raw, dtype_of(name), "numpy")
    expected[:, target] = expected[:, source]
    np.testing.assert_array_equal(bytes_of(scatter_pages(pool, target, gather_pages(pool, source)), 2, n), expected)


def test_rows_travel_between_pools_of_any_kind_with_pages_of_one_width() -> None:
    raw = some_bytes((LAYERS, NUM_PAGES, 4, 6), dtype_of("bfloat16"), seed=3)
    bits = raw.view(np.uint16)[..., 0]
    bfloat16_pool = pool_of(raw, dtype_of("bfloat16"), "jax")
    uint16_pool: list[Layer] = [np.zeros_like(layer) for layer in bits]
    assert rows_spec(bfloat16_pool, 2) == rows_spec(uint16_pool, 2) == ((LAYERS, 2, 24), "uint16")
    scatter_pages(uint16_pool, [1, 0], gather_pages(bfloat16_pool, [6, 3]))
    np.testing.assert_array_equal(np.stack(uint16_pool)[:, [1, 0]], bits[:, [6, 3]])


def test_the_sizes_of_a_page_are_told_beforehand() -> None:
    pool: list[Layer] = [np.zeros((5, 2, 16, 4), np.float64)] * 2
    assert page_nbytes(pool) == 2 * 16 * 4 * 8
    assert rows_spec(pool, 3) == ((2, 3, 256), "uint32")


def test_gather_fills_and_returns_the_array_that_it_is_given() -> None:
    for kind in ("numpy", "jax"):
        pool = pool_of(some_bytes((LAYERS, NUM_PAGES, 3, 5), dtype_of("bfloat16"), seed=4), dtype_of("bfloat16"), kind)
        shape, dtype = rows_spec(pool, 2)
        out = np.zeros(shape, dtype)
        assert gather_pages(pool, [8, 1], out=out) is out
        np.testing.assert_array_equal(out, gather_pages(pool, [8, 1]))


def test_page_ids_may_be_any_integer_sequence() -> None:
    pool = pool_of(some_bytes((LAYERS, NUM_PAGES, 3), dtype_of("uint8"), seed=5), dtype_of("uint8"), "numpy")
    makers: list[Callable[[list[int]], object]] = [tuple, np.array, lambda ids: np.array(ids, np.uint8)]
    for make in makers:
        np.testing.assert_array_equal(gather_pages(pool, make([2, 5])), gather_pages(pool, [2, 5]))  # type: ignore[arg-type]
