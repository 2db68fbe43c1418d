"""Chunks of pages over all layers, and copies to the host, against the reference; overlaps and ends are checked by us."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.kernels import copy_layers, copy_to_host, reference
from kvpoll.kernels.layers import checked_chunks

from .geometries import DTYPES, HEADS_LAST, bits

jax = pytest.importorskip("jax")
CHUNKS = ([4, 0, 2, 5], [0, 4, 3, 1], [2, 2, 0, 1])


def on_cpu(pool: list[object]) -> list[object]:
    return [jax.numpy.copy(layer) for layer in pool]


@pytest.mark.parametrize("kinds", [("numpy", "numpy"), ("jax", "jax"), ("numpy", "jax"), ("jax", "numpy")], ids=str)
def test_chunks_are_copied_between_pools_of_any_kind(kinds: tuple[str, str]) -> None:
    for dtype in DTYPES if kinds == ("numpy", "numpy") else ("bfloat16", "uint8"):
        source, target = HEADS_LAST.pool(dtype), HEADS_LAST.pool(dtype, seed=30)
        expected = [layer.copy() for layer in target]
        chunks = ([4, 0, 2, 4], [0, 4, 3, 2], [2, 2, 0, 1])  # a page that is read twice, a size of nothing
        reference.copy_layers(source, expected, *chunks)
        held = [pool if kind == "numpy" else on_cpu(pool) for kind, pool in zip(kinds, (source, target), strict=True)]
        np.testing.assert_array_equal(bits(copy_layers(*held, *chunks)), bits(expected))


@given(data=st.data(), src_pages=st.integers(1, 9), dst_pages=st.integers(1, 9))
def test_chunks_that_are_accepted_are_copied_as_the_reference_does(
    data: st.DataObject, src_pages: int, dst_pages: int
) -> None:
    count = data.draw(st.integers(0, 4), label="count")
    numbers = st.lists(st.integers(-1, 9), min_size=count, max_size=count)
    src, dst, size = (data.draw(numbers, label=name) for name in ("src", "dst", "size"))
    source = [np.arange(src_pages, dtype=np.uint8).reshape(-1, 1) + 1]
    target = [np.zeros((dst_pages, 1), np.uint8)]
    places = [page for begin, n in zip(dst, size, strict=True) for page in range(begin, begin + n)]
    good = min([0, *src, *dst, *size]) == 0 and len(set(places)) == len(places)
    good &= all(a + n <= src_pages and b + n <= dst_pages for a, b, n in zip(src, dst, size, strict=True))
    if not good:
        with pytest.raises(ValueError, match=r"src_offsets|dst_offsets|sizes"):
            copy_layers(source, target, src, dst, size)
        assert not target[0].any()
        return
    expected = [layer.copy() for layer in target]
    reference.copy_layers(source, expected, src, dst, size)
    np.testing.assert_array_equal(bits(copy_layers(source, target, src, dst, size)), bits(expected))


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        (([0, 3], [0, 1], [2, 2]), "dst_offsets: chunks 0 and 1 overlap at page 1"),
        (([0, 0], [5, 5], [1, 1]), "dst_offsets: chunks 0 and 1 overlap at page 5"),
        (([0, 0, 0], [4, 0, 1], [1, 2, 1]), "dst_offsets: chunks 1 and 2 overlap at page 1"),
        (([5], [0], [2]), "src_offsets: chunk 0 ends at page 7, past the end at 6"),
        (([0, 0], [0, 5], [1, 3]), "dst_offsets: chunk 1 ends at page 8, past the end at 6"),
        (([-1], [0], [1]), "src_offsets: id -1 at 0 is outside 0..6"),
        (([0], [-2], [1]), "dst_offsets: id -2 at 0 is outside 0..6"),
        (([0], [0], [-1]), "sizes: id -1 at 0 is outside 0..6"),
        (([0], [0, 1], [1]), "sizes: expected three lists of one length, got 1, 2 and 1"),
    ],
)
def test_overlapping_chunks_and_chunks_past_an_end_are_refused(chunks: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        checked_chunks(*chunks, 6, 6)  # type: ignore[arg-type]


def test_pools_that_do_not_match_or_share_an_array_are_refused() -> None:
    pool = HEADS_LAST.pool("uint16")
    other = HEADS_LAST.pool("uint16", seed=1)
    with pytest.raises(ValueError, match="target: expected layers, page shape and dtype"):
        copy_layers(pool, HEADS_LAST.pool("int16"), [0], [0], [1])
    with pytest.raises(ValueError, match="target: expected other arrays than the source's"):
        copy_layers(pool, [*other[:2], pool[2]], [0], [1], [1])
    with pytest.raises(ValueError, match="path: 'xla' needs jax pools on both sides"):
        copy_layers(pool, on_cpu(other), [0], [1], [1], path="xla")
    with pytest.raises(ValueError, match="path: 'tpu' needs a pool on tpu, got one on cpu"):
        copy_layers(on_cpu(pool), on_cpu(other), [0], [1], [1], path="tpu")


def test_whole_layers_are_copied_to_the_host_in_pinned_memory() -> None:
    for dtype in DTYPES:
        pool = HEADS_LAST.pool(dtype)
        copies = copy_to_host(on_cpu(pool))
        assert {copy.sharding.memory_kind for copy in copies} == {"pinned_host"}
        np.testing.assert_array_equal(bits(copies), bits(pool))
        plain = copy_to_host(pool)
        assert not any(np.shares_memory(old, new) for old, new in zip(pool, plain, strict=True))
        np.testing.assert_array_equal(bits(plain), bits(reference.copy_to_host(pool)))


def test_host_copies_fill_numpy_arrays_and_refuse_others() -> None:
    pool, into = HEADS_LAST.pool("bfloat16"), HEADS_LAST.pool("bfloat16", seed=8)
    assert copy_to_host(pool, into=into)[1] is into[1]
    np.testing.assert_array_equal(bits(into), bits(pool))
    with pytest.raises(ValueError, match="into: expected layers like the pool's"):
        copy_to_host(pool, into=into[:2])
    into[2].flags.writeable = False
    with pytest.raises(ValueError, match=re.escape("into[2]: expected a writable array")):
        copy_to_host(pool, into=into)
    with pytest.raises(ValueError, match="into: expected None on path 'xla'"):
        copy_to_host(on_cpu(pool), into=on_cpu(pool))
    with pytest.raises(ValueError, match="path: 'tpu' needs a pool on tpu"):
        copy_to_host(on_cpu(pool), path="tpu")
