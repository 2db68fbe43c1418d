"""The two functions the runtime uses: pages of a pool to rows, and rows to pages of a pool."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import host, limits
from kvpoll.kernels.choose import Path, check_writable, choose
from kvpoll.kernels.layout import Layer, Pool, PoolLayout, Rows, check_rows, layout_of, page_ids
from kvpoll.kernels.rows import checked_ids

if TYPE_CHECKING:
    import jax

_Words: TypeAlias = "npt.NDArray[np.unsignedinteger]"


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
    Any other: a jax array on the pool's device, dispatched but not waited for; needs a jax pool, and no `out`.
    path "auto": numpy where it is possible; the others and the choice among them: `choose.py`.

    Raises ValueError (bad page ids: names the page; bad geometry: names the layer; bad `out` or `path`) and TypeError
    (arrays or dtypes that are not supported).
    """
    layout = layout_of(pool)
    ids = page_ids(pages, layout.num_pages)
    if out is not None:
        check_rows("out", out, layout, len(ids))
        if not (isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out: expected a writable, C-contiguous numpy array")
    chosen = choose(pool, layout, path, "read", tpu=limits.tpu_pages(layout), triton=limits.triton_pages(layout))
    if chosen == "numpy":
        return host.gather(pool, ids, layout, out)
    if out is not None:
        raise ValueError(f"out: expected None on path {chosen!r}, whose arrays are immutable")
    layers = cast("Sequence[jax.Array]", pool)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        return tpu.gather_pages(layers, ids, layout)
    if chosen == "triton":
        from kvpoll.kernels import triton

        return triton.gather_pages(layers, ids, layout)
    from kvpoll.kernels import xla  # jax is an extra: it is imported when the first jax pool arrives, not before

    return xla.gather(layers, ids, layout)


def scatter_pages(
    pool: Pool,
    pages: Sequence[int] | npt.NDArray[np.integer],
    rows: Rows,
    *,
    skip: bool = False,
    path: Path = "auto",
) -> list[Layer]:
    """Write `rows` (what gather_pages yields) into the pages and return the layers of the new pool.

    With `skip`, the rows of pages -1 are left out; any other negative id is refused.
    A numpy pool is written in place and its own arrays are returned. A jax pool is donated: its arrays are dead
    afterwards, use the returned ones; a numpy view of a layer that is still alive makes jax copy that layer instead.
    numpy `rows` may be reused after the call, jax `rows` are only read. path "numpy" needs a numpy, others a jax pool.

    Raises as gather_pages, and ValueError if `rows` has another shape or dtype, before anything is written.
    """
    layout = layout_of(pool)
    ids = checked_ids("pages", pages, layout.num_pages, skip=True) if skip else page_ids(pages, layout.num_pages)
    check_rows("rows", rows, layout, len(ids))
    check_writable("pool", pool, layout)
    chosen = choose(pool, layout, path, "write", tpu=limits.tpu_pages(layout), triton=limits.triton_pages(layout))
    if not (ids >= 0).any():
        return list(pool)
    layers = cast("Sequence[jax.Array]", pool)
    if chosen == "tpu":
        from kvpoll.kernels import tpu

        return list(tpu.scatter_pages(layers, ids, rows, layout))
    if chosen == "triton":
        from kvpoll.kernels import triton

        return list(triton.scatter_pages(layers, ids, rows, layout))
    kept, ids = without_skipped(rows, ids)
    if chosen == "numpy":
        host.scatter(cast("Sequence[npt.NDArray[np.generic]]", pool), ids, np.asarray(kept), layout)
        return list(pool)
    from kvpoll.kernels import xla

    return list(xla.scatter(layers, ids, kept, layout))


def rewrite_pages(
    layers: "Sequence[jax.Array]",
    pages: npt.NDArray[np.intp],
    layout: PoolLayout,
    change: Callable[[int, npt.NDArray[np.unsignedinteger]], None],
) -> list[Layer]:
    """For a jax pool on the CPU: read the pages, let `change(layer, words)` alter them, write them back whole.

    Where only a part of a page is written, XLA on the CPU would go through the whole pool for a 16-bit float (see `xla`).
    """
    rows = host.gather(layers, pages, layout, None)
    for index, words in enumerate(rows):
        change(index, words)
    from kvpoll.kernels import xla

    return list(xla.scatter(layers, pages, rows, layout))


def without_skipped(rows: Rows, ids: npt.NDArray[np.intp]) -> tuple[Rows, npt.NDArray[np.intp]]:
    """Rows `[layers, n, words]` and ids without the ids that are -1; the same arrays where there are none."""
    keep = ids >= 0
    return (rows, ids) if keep.all() else (rows[:, np.flatnonzero(keep)], ids[keep])
