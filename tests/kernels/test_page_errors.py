"""Bad arguments are refused before anything is written, in words that name what is wrong."""

import re
import subprocess
import sys

import numpy as np
import pytest

from kvpoll.kernels import Layer, gather_pages, rows_spec, scatter_pages

jax = pytest.importorskip("jax")


def numpy_pool(dtype: str = "uint16") -> list[Layer]:
    return [np.arange(6 * 4).astype(dtype).reshape(6, 4) + layer for layer in range(2)]


def jax_pool() -> list[Layer]:
    return [jax.device_put(layer, jax.devices("cpu")[0]) for layer in numpy_pool()]


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ([], "at least one page"),
        ([0, 6], "page 6 is outside 0..5"),
        ([0, -1], "page -1 is outside 0..5"),
        ([3, 0, 3], "page 3 is listed more than once"),
        ([0.0, 1.0], "flat sequence of integers"),
        ([True, False], "flat sequence of integers"),
        ([[0], [1]], "flat sequence of integers"),
    ],
)
@pytest.mark.parametrize("make", [numpy_pool, jax_pool])
def test_bad_page_ids_are_named(make: type, pages: list[int], message: str) -> None:
    pool = make()
    with pytest.raises(ValueError, match=re.escape(message)):
        gather_pages(pool, pages)
    with pytest.raises(ValueError, match=re.escape(message)):
        scatter_pages(pool, pages, np.zeros((2, len(pages), 4), np.uint16))
    np.testing.assert_array_equal(np.stack(pool), np.stack(numpy_pool()))


@pytest.mark.parametrize("make", [numpy_pool, jax_pool])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2, 1, 4), "uint16"), ((1, 2, 4), "uint16"), ((2, 2, 2), "uint16"), ((2, 2, 4), "int16"), ((2, 2, 4), "uint32")],
)
def test_rows_of_another_shape_or_dtype_change_nothing(make: type, shape: tuple[int, ...], dtype: str) -> None:
    pool = make()
    with pytest.raises(ValueError, match=re.escape("rows: expected shape (2, 2, 4) of uint16, got")):
        scatter_pages(pool, [1, 2], np.zeros(shape, dtype))
    np.testing.assert_array_equal(np.stack(pool), np.stack(numpy_pool()))


def read_only() -> list[Layer]:
    pool = numpy_pool()
    pool[1].flags.writeable = False  # type: ignore[union-attr]
    return pool


def donated() -> list[Layer]:
    pool = jax_pool()
    scatter_pages(pool, [0], np.zeros((2, 1, 4), np.uint16))
    return pool


@pytest.mark.parametrize(
    ("pool", "error", "message"),
    [
        (lambda: [], ValueError, "pool: expected at least one layer"),
        (lambda: np.zeros((2, 6, 4), np.uint16), TypeError, "pool: expected a sequence"),
        (lambda: jax.numpy.zeros((2, 6, 4), "uint16"), TypeError, "pool: expected a sequence"),
        (lambda: [[1, 2]], TypeError, "pool[0]: expected a numpy or jax array, got list"),
        (lambda: [numpy_pool()[0], jax_pool()[1]], TypeError, "pool[1]: expected ndarray like layer 0"),
        (lambda: [np.zeros((6, 4), "u2"), np.zeros((6, 5), "u2")], ValueError, "pool[1]: expected (6, 4) uint16"),
        (lambda: [np.zeros((6, 4), "u2"), np.zeros((6, 4), "i2")], ValueError, "pool[1]: expected (6, 4) uint16"),
        (lambda: [np.zeros((6, 8), "u2")[:, ::2]], ValueError, "pool[0]: expected a C-contiguous array"),
        (lambda: [np.zeros((6, 0), "u2")], ValueError, "no empty axis"),
        (lambda: [np.zeros((), "u2")], ValueError, "shape [num_pages, ...]"),
        (lambda: [np.zeros((6, 4), ">u2")], TypeError, "native integer or float"),
        (lambda: [np.zeros((6, 4), bool)], TypeError, "native integer or float"),
        (lambda: [np.zeros((6, 4), object)], TypeError, "native integer or float"),
        (lambda: [np.zeros((6, 4), "complex64")], TypeError, "native integer or float"),
        (lambda: [jax.numpy.zeros((6, 4), "int4")], TypeError, "native integer or float"),
        (donated, ValueError, "pool[0]: expected a live array"),
    ],
)
def test_bad_pools_are_refused_by_layer(pool: type, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        gather_pages(pool(), [0])
    with pytest.raises(error, match=re.escape(message)):
        scatter_pages(pool(), [0], np.zeros((2, 1, 4), np.uint16))


def test_a_pool_that_cannot_be_written_in_place_is_refused() -> None:
    pool = read_only()
    with pytest.raises(ValueError, match=re.escape("pool[1]: expected a writable array")):
        scatter_pages(pool, [0], np.zeros((2, 1, 4), np.uint16))
    np.testing.assert_array_equal(np.stack(pool), np.stack(numpy_pool()))


def test_one_array_for_two_layers_is_refused_when_writing() -> None:
    for pool in (numpy_pool(), jax_pool()):
        with pytest.raises(ValueError, match="one array twice"):
            scatter_pages([pool[0], pool[0]], [0], np.zeros((2, 1, 4), np.uint16))


@pytest.mark.parametrize(
    "out", [np.zeros((2, 2, 4), "u2"), np.zeros((2, 1, 4), "i2"), np.zeros((2, 1, 8), "u2")[..., ::2]]
)
def test_an_out_that_does_not_fit_is_refused(out: np.ndarray) -> None:
    with pytest.raises(ValueError, match="out: expected"):
        gather_pages(numpy_pool(), [3], out=out)


def test_paths_that_do_not_exist_for_a_pool_are_refused() -> None:
    rows = np.zeros((2, 1, 4), np.uint16)
    with pytest.raises(ValueError, match="path: 'xla' needs a jax pool"):
        gather_pages(numpy_pool(), [0], path="xla")
    with pytest.raises(ValueError, match="path: 'numpy' cannot write this jax pool"):
        scatter_pages(jax_pool(), [0], rows, path="numpy")
    with pytest.raises(ValueError, match="out: expected None on path 'xla'"):
        gather_pages(jax_pool(), [0], out=rows, path="xla")
    with pytest.raises(ValueError, match="path: expected one of 'auto', 'numpy', 'xla', 'tpu', 'triton', got 'pallas'"):
        gather_pages(numpy_pool(), [0], path="pallas")  # type: ignore[arg-type]


@pytest.mark.parametrize("n_pages", [0, 7, -1])
def test_rows_are_only_described_for_counts_that_exist(n_pages: int) -> None:
    with pytest.raises(ValueError, match=re.escape("n_pages: expected 1..6")):
        rows_spec(numpy_pool(), n_pages)


def test_a_pool_that_is_spread_over_devices_is_refused() -> None:
    script = """
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)
from kvpoll.kernels import gather_pages
pool = [jax.device_put(np.zeros((6, 4), np.uint16), device) for device in jax.devices()]
assert len(pool) == 2
try:
    gather_pages(pool, [0])
except ValueError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "pool: expected all layers on one device, got 2" in run.stdout
