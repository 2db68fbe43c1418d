"""Moving the KV pages of a paged pool to one contiguous buffer and back.

No protocol in here, and no jax until a jax pool is met.
"""

if __name__ != "kvpoll.kernels":
    raise ImportError(
        f"import this room as 'kvpoll.kernels', not as {__name__!r}: a second copy would have a second KVPoll"
    )

from kvpoll.kernels.layout import Layer, Pool, Rows, page_nbytes, rows_spec
from kvpoll.kernels.pages import Path, gather_pages, scatter_pages

__all__ = ["Layer", "Path", "Pool", "Rows", "gather_pages", "page_nbytes", "rows_spec", "scatter_pages"]
