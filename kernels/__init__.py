"""Moving the KV of a paged pool: whole pages, token rows, ranges of heads, all layers, to one contiguous buffer and back.

No protocol in here, and no jax until a jax pool is met. `rows.py` lists the functions for parts of pages; `choose.py` says
which of the four paths makes a copy.
"""

if __name__ != "kvpoll.kernels":
    raise ImportError(
        f"import this room as 'kvpoll.kernels', not as {__name__!r}: a second copy would have a second KVPoll"
    )

from kvpoll.kernels.choose import Path
from kvpoll.kernels.heads import gather_heads, scatter_heads, slice_heads
from kvpoll.kernels.layers import copy_layers, copy_to_host
from kvpoll.kernels.layout import Layer, Pool, Rows, page_nbytes, rows_spec
from kvpoll.kernels.pages import gather_pages, scatter_pages
from kvpoll.kernels.rows import RowLayout
from kvpoll.kernels.tokens import gather_rows, relayout_dcp, scatter_rows, take_rows

__all__ = [
    "Layer",
    "Path",
    "Pool",
    "RowLayout",
    "Rows",
    "copy_layers",
    "copy_to_host",
    "gather_heads",
    "gather_pages",
    "gather_rows",
    "page_nbytes",
    "relayout_dcp",
    "rows_spec",
    "scatter_heads",
    "scatter_pages",
    "scatter_rows",
    "slice_heads",
    "take_rows",
]
