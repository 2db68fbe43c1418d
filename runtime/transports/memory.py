"""Memory of the push transports: a payload seen as bytes, and receive buffers that are used again.

A fresh 64 MiB buffer costs more than filling it, because every page of it faults; so buffers go round. A buffer that
goes round while somebody still looks at it would hand one request's rows to another, therefore a loan ends only when
Python proves that nobody refers to it: no view, no memoryview, no accelerator array that aliases it.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections import deque
from functools import partial

import numpy as np
import numpy.typing as npt

from kvpoll.runtime.transports.base import Operation, Source

__all__ = ["ALIGN", "BufferPool", "Bytes", "aligned_slots", "byte_view", "keep_freed_memory"]

#: A one-dimensional array of bytes.
Bytes = npt.NDArray[np.uint8]

ALIGN = 64  #: what accelerator runtimes ask of host memory before they alias it instead of copying
_GRAIN = 1 << 16  #: smaller buffers come cheap from the allocator; larger ones are rounded up to it
_PAGE = 4096


def byte_view(operation: Operation) -> Bytes:
    """The payload of a push operation as bytes, shape ``(nbytes,)``, without copying host memory.

    The payload must be ready: an accelerator array that is still being computed is waited for.
    Raises ``ValueError`` when there is nothing to send or when the bytes are not the announced ones.
    """
    if operation.payload is None:
        raise ValueError("payload: None; a push carries the array to send")
    try:
        array = np.asarray(operation.payload)
    except RuntimeError as error:  # a deleted or donated accelerator array
        raise ValueError(f"payload: cannot be read, expected a live array ({error})") from error
    if array.nbytes == 0:
        raise ValueError(f"payload: shape {array.shape} has no bytes, expected at least one")
    if not array.flags.c_contiguous:
        raise ValueError(f"payload: strides {array.strides}, expected a C-contiguous array")
    if array.nbytes != operation.spec.nbytes:
        raise ValueError(f"payload: {array.nbytes} bytes, expected {operation.spec.nbytes} as in spec")
    return array.reshape(-1).view(np.uint8)


def aligned_slots(slots: int, nbytes: int) -> Bytes:
    """One allocation for ``slots`` slots of at least ``nbytes`` bytes each, at equal distances, each aligned to 64 bytes. Every
    page of it exists now, not in the middle of a transfer."""
    stride = -(-nbytes // ALIGN) * ALIGN
    memory = np.empty(slots * stride + ALIGN, np.uint8)
    memory[::_PAGE] = 0
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + slots * stride]


#: What mallopt() of glibc calls them, and what they are set to: see :func:`keep_freed_memory`.
_MALLOC = {"M_MMAP_THRESHOLD": (-3, 32 << 20), "M_TRIM_THRESHOLD": (-1, 128 << 20), "M_TOP_PAD": (-2, 64 << 20)}


def keep_freed_memory() -> bool:
    """Tell the C library (glibc) to keep the memory of large payloads that were freed, for the next ones; ``False`` where
    there is no such thing to tell. By itself it gives a freed message back to the system, to fault in every page of the next
    one: 4096 faults and a third of the time at 16 MiB, now in one process and now not, as threads and their heaps fall.
    This is for the whole process: up to 128 MiB of freed memory stay with each heap."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and all(mallopt(option, value) == 1 for option, value in _MALLOC.values())


class BufferPool:
    """Lends byte buffers; keeps at most ``spare_bytes`` of returned ones warm. All methods from any thread."""

    def __init__(self, spare_bytes: int, source: Source | None = None) -> None:
        self._limit = spare_bytes
        self._source = source
        self._lock = threading.Lock()
        self._spare: list[Bytes] = []  # oldest first
        self._loans: dict[int, tuple[weakref.ref[Bytes], Bytes]] = {}
        self._next = 0
        # A loan may end inside the garbage collector, under any lock: it only appends here (atomic, no lock).
        self._returned: deque[Bytes] = deque()

    def lend(self, nbytes: int) -> Bytes:
        """A writable buffer of shape ``(nbytes,)`` with arbitrary content; its loan ends with its last reference."""
        if nbytes < _GRAIN:
            return np.empty(nbytes, np.uint8)
        with self._lock:
            self._settle()
            backing = self._take(nbytes)
            # Views of an array keep alive the last array before a foreign owner: through the memoryview that is `loan`.
            start = -backing.ctypes.data % ALIGN
            loan = np.frombuffer(backing.data[start : start + nbytes], np.uint8)
            self._next += 1
            self._loans[self._next] = (weakref.ref(loan, partial(self._back, self._next)), backing)
            return loan

    def lent(self) -> int:
        """How many pooled buffers somebody still refers to."""
        return len(self._loans)

    def spare(self) -> int:
        """Bytes kept warm: never more than ``spare_bytes``."""
        with self._lock:
            self._settle()
            return sum(buffer.nbytes for buffer in self._spare)

    def clear(self) -> None:
        """Give the warm bytes back to the system; loans go on."""
        with self._lock:
            self._settle()
            self._spare.clear()

    def _back(self, loan: int, _: weakref.ref[Bytes]) -> None:
        entry = self._loans.pop(loan, None)
        if entry is not None:
            self._returned.append(entry[1])

    def _settle(self) -> None:
        while self._returned:
            buffer = self._returned.popleft()
            if self._source is None or self._source.reusable(buffer):
                self._spare.append(buffer)
        total = sum(buffer.nbytes for buffer in self._spare)
        while total > self._limit:
            total -= self._spare.pop(0).nbytes

    def _take(self, nbytes: int) -> Bytes:
        need = nbytes + ALIGN
        fitting = [buffer for buffer in self._spare if need <= buffer.nbytes <= 2 * need + _GRAIN]
        if not fitting:
            size = -(-need // _GRAIN) * _GRAIN
            made = None if self._source is None else self._source.make(size)
            return np.empty(size, np.uint8) if made is None else made
        best = min(range(len(fitting)), key=lambda i: fitting[i].nbytes)
        self._spare = [buffer for buffer in self._spare if buffer is not fitting[best]]
        return fitting[best]
