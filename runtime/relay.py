"""Payloads between ranks that are shaped differently: what one receiver rank gets of a part, and where it puts it.

A part is gathered once, as whole pages of the sender's pool. For a receiver rank with other heads, or with some of the
tokens, its :class:`~kvpoll.protocol.cut.Cut` says what to take out; the receiver puts that into a range of heads, or into
token rows, of its own pages. Sharded pools come rank by rank: every rank's own arrays, never one global array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.cut import Cut
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import plan_dcp_relayout
from kvpoll.spec.wire import Fingerprint, Part

from .config import EngineSpec
from .kv import Layers, RowLayout, scatter, scatter_heads, scatter_rows, slice_heads, take_rows
from .transports.base import Payload
from .transports.memory import BufferPool
from .views import Rows, as_rows

__all__ = ["Arrived", "check_layout", "place", "portion"]

Pool = TypeVar("Pool", bound=Layers)


class Arrived(NamedTuple):
    """One part as it arrived from one sender rank."""

    part: Part
    payload: Payload | None  #: ``None``: it was called done and is not here
    cut: Cut | None


def portion(payload: Payload, part: Part, cut: Cut, engine: EngineSpec, staging: BufferPool) -> Payload:
    """What the receiver rank of ``cut`` gets of a gathered part of this engine's; ``part`` is as the sender counts it. The
    payload itself when that is everything."""
    if cut.heads is None and cut.owner.size == 1:
        return payload
    words = np.asarray(payload)
    layout = _layout(engine, words.shape[2])
    layers, pages, _ = words.shape
    if cut.owner.size > 1:
        first = part.start // cut.page_size * cut.page_size
        rows = np.arange(cut.owner.first(part.start), part.stop, cut.owner.size) - first
        out = _lend(staging, (layers, len(rows), layout.words_per_token), words.dtype)
        return take_rows(words, rows, layout, out=out)
    assert cut.heads is not None
    low, high = cut.heads
    out = _lend(staging, (layers, pages, layout.head_range(low, high).words_per_page), words.dtype)
    return slice_heads(words, low, high, layout, out=out)


def place(pool: Pool, pages: Sequence[int], arrived: Arrived, request: Fingerprint, engine: EngineSpec) -> Pool:
    """Write one part that arrived into this rank's pool; ``pages`` are those of the whole attempt. Pools as in
    :func:`~.kv.scatter`. Returns the new pool."""
    part, cut = arrived.part, arrived.cut
    assert arrived.payload is not None
    rows = as_rows(arrived.payload, part)
    low = part.layer_start - engine.layer_range[0]
    high = low + part.layer_stop - part.layer_start
    if (low, high) == (0, len(pool)):
        return cast(Pool, _write(pool, pages, part, cut, rows, request, engine))
    layers = list(pool)  # a stage of the sender's has some of our layers
    layers[low:high] = _write(cast(Layers, layers[low:high]), pages, part, cut, rows, request, engine)
    return cast(Pool, layers)


def check_layout(engine: EngineSpec, cut: Cut | None) -> None:
    """Raises :class:`LocalProtocolError` when this engine's layout does not say where the heads or tokens are that ``cut``
    asks for. Called in the handshake: nobody finds out later."""
    if cut is None or (cut.heads is None and cut.into is None and cut.owner.size == 1):
        return
    try:
        layout = _layout(engine, engine.page_nbytes)
        if cut.owner.size == 1:
            layout.head_axis()
    except ValueError as error:
        raise LocalProtocolError(str(error), field="layout") from error


def _write(
    pool: Layers, pages: Sequence[int], part: Part, cut: Cut | None, rows: Rows, request: Fingerprint, engine: EngineSpec
) -> Layers:  # fmt: skip
    size = engine.page_size
    if cut is not None and cut.owner.size > 1:
        plan = plan_dcp_relayout(
            src_page_indices=np.arange(pages_for(part.start, part.stop, size)), dst_page_indices=np.asarray(pages, np.int64),
            physical_page_size=size, dcp_size=cut.owner.size, dcp_rank=cut.owner.rank,
            src_page_offset=(part.start - request.prefix) // size, decode_prefix_len=request.prefix,
            num_kv_tokens=part.stop - part.start,
        )  # fmt: skip
        layout = _layout(engine, rows.shape[2] * size)
        return cast(Layers, scatter_rows(pool, plan.dst_rows, rows, layout))
    tokens = size * engine.dcp_size if cut is None else size
    at = part.start // tokens - request.prefix // tokens
    ids: npt.NDArray[np.int32] = np.asarray(pages[at : at + pages_for(part.start, part.stop, tokens)], np.int32)
    if cut is not None and cut.into is not None:
        low, high = cut.into
        return cast(
            Layers, scatter_heads(pool, ids, rows, low, high, _layout(engine, _page_words(rows, low, high, engine)))
        )
    return scatter(pool, ids, rows)


def _page_words(rows: Rows, low: int, high: int, engine: EngineSpec) -> int:
    return int(rows.shape[2]) * engine.kv_heads // (high - low)


def _layout(engine: EngineSpec, words: int) -> RowLayout:
    heads = engine.kv_heads if "head" in engine.layout.split(",") else 1
    return RowLayout.parse(engine.layout, page_size=engine.page_size, words_per_page=words, heads=heads)


def _lend(
    staging: BufferPool, shape: tuple[int, int, int], dtype: np.dtype[np.unsignedinteger]
) -> npt.NDArray[np.unsignedinteger]:
    nbytes = int(np.prod(shape)) * dtype.itemsize
    return staging.lend(nbytes).view(dtype).reshape(shape)
