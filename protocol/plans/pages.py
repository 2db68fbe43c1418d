"""Page tables as arrays: what may be one, whether its pages are distinct, and the rows of consecutive positions in it.

A page table is a list of page ids; position ``q`` of it is row ``ids[q // size] * size + q % size`` of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .checks import ROWS_MAX, fault

__all__ = ["Ids", "Int64", "distinct", "frozen", "ids_of", "page_rows", "within"]

Int64: TypeAlias = NDArray[np.int64]
#: What is taken as a page table: one dimension, integers of any width, no bools and no floats.
Ids: TypeAlias = Sequence[int] | NDArray[np.integer]


def ids_of(field: str, ids: Ids) -> Int64:
    """A page table as int64, maybe the caller's own array. Raises ``LocalProtocolError`` for what is not a list of integers."""
    try:
        array = _listed(field, ids) if isinstance(ids, list | tuple | range) else np.asarray(ids)
    except OverflowError:
        raise fault(field, f"integers up to {ROWS_MAX}", "a larger one") from None
    except (TypeError, ValueError) as error:
        raise fault(field, "a list of integers", f"{type(ids).__name__} ({error})") from None
    if array.ndim != 1:
        raise fault(field, "one dimension", f"{type(ids).__name__} of {array.ndim} dimensions")
    if not array.size:
        return np.empty(0, np.int64)  # numpy calls an empty list one of floats
    if array.dtype.kind not in "iu":
        raise fault(field, "integers", f"{array.dtype} numbers")
    if array.dtype == np.uint64 and int(array.max()) > ROWS_MAX:
        raise fault(field, f"integers up to {ROWS_MAX}", int(array.max()))
    return array.astype(np.int64, copy=False)


def within(field: str, ids: Int64, least: int, most: int) -> None:
    """Raises ``LocalProtocolError`` that names the first id that is not from ``least`` to ``most``."""
    if ids.size and (int(ids.min()) < least or int(ids.max()) > most):
        at = int(np.argmax((ids < least) | (ids > most)))
        raise fault(field, f"ids from {least} to {most}", f"{ids[at]} at index {at}")


def distinct(field: str, ids: Int64) -> None:
    """Raises ``LocalProtocolError`` that names the first id that stands twice: two of the pages would be one."""
    if _is_distinct(ids):
        return
    order = np.argsort(ids, kind="stable")
    twice = order[1:][ids[order][1:] == ids[order][:-1]]
    at = int(twice.min())
    raise fault(field, "every page once", f"{ids[at]} again at index {at}")


def page_rows(ids: Int64, size: int, start: int, count: int) -> Int64:
    """Rows of the positions ``[start, start + count)`` in pages of ``size`` rows. No division per row: part of a page, whole
    pages, part of a page."""
    rows = np.empty(count, np.int64)
    if not count:
        return rows
    page, inside = divmod(start, size)
    head = min(-start % size, count)
    if head:
        rows[:head] = np.arange(inside, inside + head, dtype=np.int64)
        rows[:head] += ids[page] * size
        page += 1
    whole = (count - head) // size
    if whole:
        blocks = rows[head : head + whole * size].reshape(whole, size)
        np.add(ids[page : page + whole, None] * size, np.arange(size, dtype=np.int64), out=blocks)
    tail = count - head - whole * size
    if tail:
        rows[count - tail :] = np.arange(tail, dtype=np.int64)
        rows[count - tail :] += ids[page + whole] * size
    return rows


def frozen(rows: Int64) -> Int64:
    """The array, from now on read-only."""
    rows.setflags(write=False)
    return rows


def _listed(field: str, ids: Sequence[int]) -> Int64:
    """Element by element, because numpy takes ``[1, True]`` for two integers."""
    for kind in set(map(type, ids)) - {int}:
        if not issubclass(kind, np.integer):
            raise fault(field, "integers", kind.__name__)
    return np.fromiter(ids, np.int64, len(ids))


def _is_distinct(ids: Int64) -> bool:
    if ids.size < 2:
        return True
    if bool((ids[1:] > ids[:-1]).all()) or bool((ids[1:] < ids[:-1]).all()):
        return True
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    if span < ids.size:
        return False
    if span <= 16 * ids.size:
        seen = np.zeros(span, np.bool_)
        seen[ids - low] = True
        return int(np.count_nonzero(seen)) == ids.size
    ordered = np.sort(ids)
    return bool((ordered[1:] != ordered[:-1]).all())
