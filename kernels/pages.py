"""The two functions the runtime uses: pages of a pool to rows, and rows to pages of a pool."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import host
from kvpoll.kernels.layout import Layer, Pool, PoolLayout, Rows, check_rows, layout_of, page_ids

if TYPE_CHECKING:
    import jax

Path: TypeAlias = Literal["auto", "numpy", "xla"]
"""How the copy is made: "numpy" on the host, "xla" compiled on the pool's device, "auto" whichever is faster there."""


def gather_pages(
    pool: Pool,
    pages: Sequence[int] | npt.NDArray[np.integer],
    *,
    out: npt.NDArray[np.unsignedinteger] | None = None,
    path: Path = "auto",
) -> Rows:
    """Copy pages of every layer into one contiguous array `[layers, len(pages), words_per_page]` of unsigned integers.

    `pool`: one array `[num_pages, ...]` per layer, all numpy or all jax on one device. `pages`: unique page ids, in the
    order in which their rows are wanted. `rows_spec` tells shape and dtype beforehand. All bits are kept, also of NaNs.

    path "numpy": a numpy array (`out` if given), complete on return; needs a numpy pool, or a jax pool on the CPU.
    path "xla": a jax array on the pool's device, dispatched but not waited for; needs a jax pool, and no `out`.
    path "auto": numpy where it is possible, else xla.

    Raises ValueError (bad page ids: names the page; bad geometry: names the layer; bad `out` or `path`) and TypeError
    (arrays or dtypes that are not supported).
    """
    layout = layout_of(pool)
    ids = page_ids(pages, layout.num_pages)
    if out is not None:
        check_rows("out", out, layout, len(ids))
        if not (isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out: expected a writable, C-contiguous numpy array")
    if _choose(pool, layout, path, host_can="read") == "numpy":
        return host.gather(pool, ids, layout, out)
    if out is not None:
        raise ValueError("out: expected None on path 'xla', whose arrays are immutable")
    from kvpoll.kernels import xla  # jax is an extra: it is imported when the first jax pool arrives, not before

    return xla.gather(cast("Sequence[jax.Array]", pool), ids, layout)


def scatter_pages(
    pool: Pool, pages: Sequence[int] | npt.NDArray[np.integer], rows: Rows, *, path: Path = "auto"
) -> list[Layer]:
    """Write `rows` (what gather_pages yields) into the pages and return the layers of the new pool.

    A numpy pool is written in place and its own arrays are returned. A jax pool is donated: its arrays are dead
    afterwards, use the returned ones; a numpy view of a layer that is still alive makes jax copy that layer instead.
    numpy `rows` may be reused after the call, jax `rows` are only read. path "numpy" needs a numpy, "xla" a jax pool.

    Raises as gather_pages, and ValueError if `rows` has another shape or dtype, before anything is written.
    """
    layout = layout_of(pool)
    ids = page_ids(pages, layout.num_pages)
    check_rows("rows", rows, layout, len(ids))
    if len({id(layer) for layer in pool}) != len(pool):
        raise ValueError("pool: expected a different array for each layer, got one array twice")
    if _choose(pool, layout, path, host_can="write") == "numpy":
        layers = cast("Sequence[npt.NDArray[np.generic]]", pool)
        for index, layer in enumerate(layers):
            if not layer.flags.writeable:
                raise ValueError(f"pool[{index}]: expected a writable array, got a read-only one")
        host.scatter(layers, ids, np.asarray(rows), layout)
        return list(pool)
    from kvpoll.kernels import xla

    return list(xla.scatter(cast("Sequence[jax.Array]", pool), ids, rows, layout))


def _choose(pool: Pool, layout: PoolLayout, path: Path, host_can: Literal["read", "write"]) -> Literal["numpy", "xla"]:
    """The host can read a jax pool that lives on the CPU, but never write one: jax arrays are immutable."""
    if path not in ("auto", "numpy", "xla"):
        raise ValueError(f"path: expected 'auto', 'numpy' or 'xla', got {path!r}")
    if not layout.is_jax:
        if path == "xla":
            raise ValueError("path: 'xla' needs a jax pool, got a numpy one")
        return "numpy"
    from kvpoll.kernels import xla

    on_host = xla.device_of(cast("Sequence[jax.Array]", pool)).platform == "cpu" and host_can == "read"
    if path == "numpy" and not on_host:
        raise ValueError(
            f"path: 'numpy' cannot {host_can} this jax pool; it writes numpy pools, and reads jax pools on CPU"
        )
    return "numpy" if on_host and path != "xla" else "xla"
