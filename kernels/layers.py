"""Whole layers: chunks of pages from one pool to another, and copies to the memory of the host."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import host, limits
from kvpoll.kernels.choose import Path, apart, check_writable, choose, on_host
from kvpoll.kernels.layout import Layer, Pool, PoolLayout, layout_of
from kvpoll.kernels.pages import gather_pages, scatter_pages
from kvpoll.kernels.rows import Ids, checked_ids

if TYPE_CHECKING:
    import jax

_Ids = npt.NDArray[np.intp]


def copy_layers(
    source: Pool, target: Pool, src_offsets: Ids, dst_offsets: Ids, sizes: Ids, *, path: Path = "auto"
) -> list[Layer]:
    """In every layer, copy `sizes[i]` pages from page `src_offsets[i]` of `source` on to page `dst_offsets[i]` of `target`.

    Offsets and sizes count pages (blocks along axis 0). A size of 0 copies nothing. The pools have equally many layers, of
    equal pages and dtype, and share no array. Returns the layers of the new target, which is written as by scatter_pages.

    Raises ValueError before anything is written: `src_offsets`, `dst_offsets`, `sizes` of other lengths, negative, or past
    the end (the chunk is named); chunks of the target that overlap (both are named); pools that do not match.
    """
    found, into = layout_of(source), layout_of(target)
    alike = (found.num_layers, found.page_shape, found.dtype)
    if alike != (into.num_layers, into.page_shape, into.dtype):
        got = (into.num_layers, into.page_shape, into.dtype)
        raise ValueError(f"target: expected layers, page shape and dtype {alike} of the source, got {got}")
    src, dst, size = checked_chunks(src_offsets, dst_offsets, sizes, found.num_pages, into.num_pages)
    check_writable("target", target, into)
    if {id(layer) for layer in source} & {id(layer) for layer in target}:
        raise ValueError("target: expected other arrays than the source's: pages could be read after they were written")
    refused = apart(source, target, path) or limits.tpu_pages(into)
    chosen = choose(target, into, path, "write", tpu=refused, triton="path: 'triton' moves rows and pages only")
    src, dst, size = src[size > 0], dst[size > 0], size[size > 0]
    if not len(size):
        return list(target)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        layers = cast("Sequence[jax.Array]", source), cast("Sequence[jax.Array]", target)
        return list(tpu.copy_layers(*layers, src, dst, size))
    if chosen == "numpy" and on_host(source):
        for old, new in zip(source, cast("Sequence[npt.NDArray[np.generic]]", target), strict=True):
            words, written = host.words_of(np.asarray(old), found), host.words_of(new, into)
            for begin, end, count in zip(src.tolist(), dst.tolist(), size.tolist(), strict=True):
                written[end : end + count] = words[begin : begin + count]
        return list(target)
    return _page_by_page(source, target, _pages(src, size), _pages(dst, size), found)


def copy_to_host(pool: Pool, *, into: Pool | None = None, path: Path = "auto") -> list[Layer]:
    """Copy whole layers to host memory: numpy layers to numpy arrays, jax layers to jax arrays in pinned memory.

    `into`: arrays to fill, one a layer, of equal shape and dtype; numpy ones are written in place, jax ones (in memory of
    kind "pinned_host") are donated. They are needed on path "tpu", whose copy is one transfer by the device, and refused on
    "xla", which allocates. Complete on return for numpy; dispatched for jax.

    Raises ValueError and TypeError as gather_pages, and ValueError naming `into`.
    """
    found = layout_of(pool)
    if into is not None and (other := layout_of(into)) != found:
        raise ValueError(f"into: expected layers like the pool's, {found}, got {other}")
    reason = "into: path 'tpu' needs pinned arrays to fill" if into is None else limits.tpu_pages(found)
    chosen = choose(pool, found, path if found.is_jax or path != "auto" else "numpy", "write", tpu=reason)
    if chosen == "numpy":
        filled: list[Layer] = [np.empty_like(layer) for layer in pool] if into is None else list(into)
        check_writable("into", filled, found)
        for layer, copy in zip(pool, filled, strict=True):
            host.words_of(cast("npt.NDArray[np.generic]", copy), found)[:] = host.words_of(np.asarray(layer), found)
        return filled
    layers = cast("Sequence[jax.Array]", pool)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        pinned = cast("Sequence[jax.Array]", into)
        for index, array in enumerate(pinned):
            if array.sharding.memory_kind != "pinned_host":
                kind = array.sharding.memory_kind
                raise ValueError(f"into[{index}]: expected an array in pinned_host memory, got {kind}")
        return [tpu.fill_host(old, layer) for old, layer in zip(pinned, layers, strict=True)]
    if into is not None:
        raise ValueError(f"into: expected None on path {chosen!r}, which allocates the copies")
    import jax

    return [jax.device_put(layer, layer.sharding.with_memory_kind("pinned_host")) for layer in layers]


def checked_chunks(
    src_offsets: Ids, dst_offsets: Ids, sizes: Ids, src_pages: int, dst_pages: int
) -> tuple[_Ids, _Ids, _Ids]:
    """The three lists as arrays, once chunks are known to be inside both pools and apart from each other in the target.

    No device reports two copies to one place, and no interpreter either.
    """
    size = checked_ids("sizes", sizes, min(src_pages, dst_pages) + 1, unique=False)
    src = checked_ids("src_offsets", src_offsets, src_pages + 1, unique=False)
    dst = checked_ids("dst_offsets", dst_offsets, dst_pages + 1, unique=False)
    if not len(src) == len(dst) == len(size):
        raise ValueError(f"sizes: expected three lists of one length, got {len(src)}, {len(dst)} and {len(size)}")
    for name, begin, pages in (("src_offsets", src, src_pages), ("dst_offsets", dst, dst_pages)):
        past = np.flatnonzero(begin + size > pages)
        if len(past):
            at = int(past[0])
            raise ValueError(f"{name}: chunk {at} ends at page {begin[at] + size[at]}, past the end at {pages}")
    used = np.flatnonzero(size)
    order = used[np.argsort(dst[used], kind="stable")]
    close = np.flatnonzero(dst[order[1:]] < (dst + size)[order[:-1]])
    if len(close):
        one, two = sorted((int(order[close[0]]), int(order[close[0] + 1])))
        raise ValueError(f"dst_offsets: chunks {one} and {two} overlap at page {dst[order[close[0] + 1]]}")
    return src, dst, size


def _pages(offsets: _Ids, sizes: _Ids) -> _Ids:
    """Every page of the chunks, in order."""
    first = np.repeat(offsets - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    pages: _Ids = first + np.arange(int(sizes.sum()))
    return pages


def _page_by_page(source: Pool, target: Pool, src: _Ids, dst: _Ids, found: PoolLayout) -> list[Layer]:
    """Through gathered rows. A page that is read more than once is gathered once and repeated."""
    pages, which = np.unique(src, return_inverse=True)
    rows = gather_pages(source, pages)
    if len(pages) != len(src) or not np.array_equal(pages, src):
        rows = rows[:, which]
    return scatter_pages(target, dst, rows)
