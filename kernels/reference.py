"""What every path has to do, written for the reader: byte arrays, indexing and loops, nothing clever and nothing fast.

Pools and rows are here whatever numpy holds; pages come first. Nothing is checked. Tests hold each path against this, bit
for bit, and nothing else uses it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.generic]


def gather_pages(layer: _Array, pages: Sequence[int]) -> _Array:
    """Pages of one layer, in the order asked for."""
    return np.stack([layer[page] for page in pages])


def scatter_pages(layer: _Array, pages: Sequence[int], blocks: _Array) -> None:
    """Write blocks to pages; -1 is skipped."""
    for page, block in zip(pages, blocks, strict=True):
        if page != -1:
            layer[page] = block


def gather_rows(layer: _Array, token_rows: Sequence[int], token_axis: int) -> _Array:
    """Token rows of one layer `[pages, ...]`; `token_axis` counts from the pages on, so pages are axis 0."""
    size = layer.shape[token_axis]
    return np.stack([layer[row // size].take(row % size, axis=token_axis - 1) for row in token_rows])


def scatter_rows(layer: _Array, token_rows: Sequence[int], blocks: _Array, token_axis: int) -> None:
    """Write blocks to token rows; -1 is skipped."""
    size = layer.shape[token_axis]
    by_token = np.moveaxis(layer, token_axis, 1)  # a view: [pages, tokens, ...]
    for row, block in zip(token_rows, blocks, strict=True):
        if row != -1:
            by_token[row // size, row % size] = block


def relayout_dcp(
    source: _Array, target: _Array, src_rows: Sequence[int], dst_rows: Sequence[int], token_axis: int
) -> None:
    """Token row to token row, between two pools."""
    for src, dst in zip(src_rows, dst_rows, strict=True):
        scatter_rows(target, [dst], gather_rows(source, [src], token_axis), token_axis)


def gather_heads(layer: _Array, pages: Sequence[int], lo: int, hi: int, head_axis: int) -> _Array:
    """Heads `lo:hi` of pages of one layer; `head_axis` counts from the pages on."""
    return gather_pages(layer, pages).take(range(lo, hi), axis=head_axis)


def scatter_heads(layer: _Array, pages: Sequence[int], blocks: _Array, lo: int, hi: int, head_axis: int) -> None:
    """Write heads `lo:hi` of pages; other heads stay."""
    by_head = np.moveaxis(layer, head_axis, 1)  # a view: [pages, heads, ...]
    new = np.moveaxis(blocks, head_axis, 1)
    for page, block in zip(pages, new, strict=True):
        by_head[page, lo:hi] = block


def copy_layers(
    source: Sequence[_Array],
    target: Sequence[_Array],
    src_offsets: Sequence[int],
    dst_offsets: Sequence[int],
    sizes: Sequence[int],
) -> None:
    """Chunks of blocks (axis 0), the same in each layer."""
    for old, new in zip(source, target, strict=True):
        for src, dst, size in zip(src_offsets, dst_offsets, sizes, strict=True):
            for block in range(size):
                new[dst + block] = old[src + block]


def copy_to_host(layers: Sequence[_Array]) -> list[_Array]:
    """The layers, somewhere else."""
    return [layer.copy() for layer in layers]
