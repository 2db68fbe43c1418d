"""Where pushed bytes land: the receiver's table of exposed keys. Both push transports write through it.

1. Memory is written under the table's lock and only after the key was found in the table, so removing a key IS the
   fence: when :meth:`LandingTable.retract` returns, nothing of that key is written any more.
2. Every number that the peer sent is checked before anything is allocated, against the exposure that we made.
3. A part arrives once. From then on its place refuses data, whoever sends it (NoWriteAfterArrival).
4. Every piece is answered with what became of it; a refused piece changed nothing that was whole.
"""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np

from kvpoll.runtime.transports.base import Exposure
from kvpoll.runtime.transports.memory import BufferPool, Bytes

__all__ = ["Landed", "LandingTable", "Piece", "Refusal"]

_STRIDE = 4 << 20  #: bytes copied under the lock at a time, under a millisecond: nobody waits longer than that
_KEEP_BYTES = 1 << 16  #: smaller ones are copied: they may lie at an odd address inside a larger buffer


class Landed(Enum):
    PIECE = "piece"  #: the bytes are in place, the part is not whole yet
    WHOLE = "whole"  #: the part arrived


class Refusal(IntEnum):
    """Why bytes were refused. The numbers travel on the wire: never reuse one."""

    UNKNOWN_KEY = 1  #: never exposed, retracted, or released
    WRONG_LINK = 2  #: the key was exposed to another link
    PART_RANGE = 3  #: part >= max_parts
    PART_ARRIVED = 4  #: the part is whole already
    PART_TAKEN = 5  #: another operation is filling the part
    TOO_MANY_BYTES = 6  #: more than max_bytes over all parts of the key
    BAD_RANGE = 7  #: offset, length and total contradict each other or the pieces before
    NOT_STARTED = 8  #: a later piece of an operation that we hold no first piece of
    NOT_SHARED = 9  #: the bytes lie where this process cannot read them: nothing of the operation is kept, send them


class Piece(NamedTuple):
    """Which bytes of which part: what a frame claims, nothing of it believed yet."""

    source: bytes  #: who sent it, as the transport tells connections apart
    link: str
    key: int
    part: int
    op: int
    offset: int
    total: int


class LandingTable:
    """All methods from any thread."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._slots: dict[int, _Slot] = {}
        self._fenced: set[str] = set()
        self.refused: Counter[Refusal] = Counter()

    def expose(self, exposure: Exposure) -> None:
        """Raises ``ValueError`` for a key in use, a fenced link, or an exposure without room."""
        if exposure.max_bytes < 1 or exposure.max_parts < 1:
            raise ValueError(
                f"exposure: {exposure.max_bytes} bytes in {exposure.max_parts} parts, expected >= 1 of each"
            )
        with self._lock:
            if exposure.key in self._slots:
                raise ValueError(f"key: {exposure.key} is exposed already, expected a fresh one")
            if exposure.link in self._fenced:
                raise ValueError(f"link: {exposure.link!r} is fenced, expected an open one")
            self._slots[exposure.key] = _Slot(exposure)

    def retract(self, key: int) -> None:
        with self._lock:
            self._slots.pop(key, None)

    def fence_link(self, link: str) -> None:
        """Retract every key of the link, and refuse new ones until :meth:`forget_link`."""
        with self._lock:
            self._fenced.add(link)
            for key in [key for key, slot in self._slots.items() if slot.exposure.link == link]:
                del self._slots[key]

    def forget_link(self, link: str) -> None:
        with self._lock:
            self._fenced.discard(link)

    def land(self, piece: Piece, data: Bytes, *, ours: bool = False) -> Landed | Refusal:
        """Copy ``data`` to its place, or say why not. ``ours``: nobody else writes to ``data`` from now on, so it may
        become the place if it is a whole part."""
        with self._lock:
            whole = ours and piece.offset == 0 and data.nbytes == piece.total >= _KEEP_BYTES
            keep = data if whole and not self._has_memory(piece.key) else None
            filling = self._admit(piece, data.nbytes, keep)
            if isinstance(filling, Refusal):
                self.refused[filling] += 1
                return filling
            if filling.buffer is keep:
                slot = self._slots[piece.key]
                slot.arrived[piece.part] = slot.filling.pop(piece.part)
                return Landed.WHOLE
        for start in range(0, data.nbytes, _STRIDE):
            with self._lock:
                if not self._current(piece, filling):  # retracted between two strides
                    self.refused[Refusal.UNKNOWN_KEY] += 1
                    return Refusal.UNKNOWN_KEY
                stride = data[start : start + _STRIDE]
                at = piece.offset + start
                np.copyto(filling.buffer[at : at + stride.nbytes], stride)
                filling.received += stride.nbytes
                if filling.received == filling.total:
                    slot = self._slots[piece.key]
                    slot.arrived[piece.part] = slot.filling.pop(piece.part)
                    return Landed.WHOLE
        return Landed.PIECE

    def stop(self, piece: Piece) -> bool:
        """End an operation early. ``True``: its part had arrived; ``False``: nothing of it is kept or will land."""
        with self._lock:
            slot = self._slots.get(piece.key)
            if slot is None:
                return False
            arrived = slot.arrived.get(piece.part)
            if arrived is not None:
                return arrived.owner == (piece.source, piece.op)
            filling = slot.filling.get(piece.part)
            if filling is not None and filling.owner == (piece.source, piece.op):
                slot.drop(piece.part)
            return False

    def collect(self, key: int, part: int) -> Bytes | None:
        with self._lock:
            slot = self._slots.get(key)
            arrived = slot.arrived.get(part) if slot is not None else None
            return arrived.buffer if arrived is not None else None

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()
            self._fenced.clear()
        self._pool.clear()

    def gauges(self) -> dict[str, int]:
        with self._lock:
            return {
                "exposures": len(self._slots),
                "parts_filling": sum(len(slot.filling) for slot in self._slots.values()),
                "parts_arrived": sum(len(slot.arrived) for slot in self._slots.values()),
                "links_fenced": len(self._fenced),
                "buffers_lent": self._pool.lent(),
            }

    def _admit(self, piece: Piece, nbytes: int, keep: Bytes | None) -> _Filling | Refusal:
        slot = self._slots.get(piece.key)
        if slot is None:
            return Refusal.UNKNOWN_KEY
        exposure = slot.exposure
        if piece.link != exposure.link:
            return Refusal.WRONG_LINK
        if piece.part >= exposure.max_parts:
            return Refusal.PART_RANGE
        if piece.part in slot.arrived:
            return Refusal.PART_ARRIVED
        filling = slot.filling.get(piece.part)
        if filling is not None and filling.owner != (piece.source, piece.op):
            return Refusal.PART_TAKEN
        if nbytes == 0 or piece.offset + nbytes > piece.total:
            slot.drop(piece.part)
            return Refusal.BAD_RANGE
        if filling is not None:
            if piece.offset != filling.received or piece.total != filling.total:
                slot.drop(piece.part)
                return Refusal.BAD_RANGE
            return filling
        if piece.offset != 0:
            return Refusal.NOT_STARTED
        if slot.reserved + piece.total > exposure.max_bytes:
            return Refusal.TOO_MANY_BYTES
        slot.reserved += piece.total
        buffer = keep
        if buffer is None and exposure.memory is not None:
            buffer = exposure.memory(piece.total)
        if buffer is None:
            buffer = self._pool.lend(piece.total)
        slot.filling[piece.part] = _Filling((piece.source, piece.op), piece.total, buffer)
        return slot.filling[piece.part]

    def _has_memory(self, key: int) -> bool:
        slot = self._slots.get(key)
        return slot is not None and slot.exposure.memory is not None

    def _current(self, piece: Piece, filling: _Filling) -> bool:
        slot = self._slots.get(piece.key)
        return slot is not None and slot.filling.get(piece.part) is filling


class _Filling:
    """A part on its way; afterwards the part that arrived."""

    __slots__ = ("buffer", "owner", "received", "total")

    def __init__(self, owner: tuple[bytes, int], total: int, buffer: Bytes) -> None:
        self.owner, self.total, self.buffer = owner, total, buffer
        self.received = 0


class _Slot:
    __slots__ = ("arrived", "exposure", "filling", "reserved")

    def __init__(self, exposure: Exposure) -> None:
        self.exposure = exposure
        self.reserved = 0  # bytes promised to parts, whole or filling
        self.filling: dict[int, _Filling] = {}
        self.arrived: dict[int, _Filling] = {}

    def drop(self, part: int) -> None:
        dropped = self.filling.pop(part, None)
        if dropped is not None:
            self.reserved -= dropped.total
