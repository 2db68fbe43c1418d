"""Bytes that two processes of one host share: the sender gathers into them, the receiver copies out of them.

A *segment* is an anonymous file (``memfd``) that backs the sender's staging buffers. Instead of the bytes a message then
carries a *place*: which segment, from where, how many. The receiver maps the segment read-only, through the sender's
entry in ``/proc``, and keeps the mapping for the next message. Four rules make that as safe as sending the bytes:

1. Memory of the receiver is written by the receiver alone, through its landing table: its fences stay what they are.
2. A segment is sealed: it can't shrink, so that reading it never faults. The receiver looks before it maps.
3. A buffer goes to another payload only when every reader has answered. Otherwise it is *spoiled*: whoever still reads it
   (a peer that was declared lost) reads what it was sent, and never another request's rows.
4. A place is believed only if the file is a sealed ``memfd`` of this user and begins with the segment's random id; a process
   number that means somebody else here (containers) fails that, and the bytes go through the socket.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import stat
import struct
import weakref
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from kvpoll.runtime.transports.memory import Bytes

__all__ = ["AVAILABLE", "LEAST_NBYTES", "Mappings", "Place", "Segments"]

#: Only Linux has files without a name that can be sealed.
AVAILABLE = hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")
LEAST_NBYTES = 1 << 18  #: less than that is sent as fast as it is described
MAX_SEGMENTS = 64  #: of one sender; each costs a file descriptor. Further buffers are not shared
MAX_MAPPINGS = 128  #: of one receiver, the least recently read goes first
_HEAD = 4096  #: a page before the data, for the id and for alignment
_MAX_NBYTES = 1 << 31  #: a segment of more is nobody's staging buffer
_ID = struct.Struct("!8sQ")
_MAGIC = b"KVPSHARE"
_PLACE = struct.Struct("!QIQQQ")


class Place(NamedTuple):
    """Where the bytes of a piece lie."""

    pid: int
    fd: int
    segment: int
    offset: int
    nbytes: int

    def piece(self, start: int, nbytes: int) -> Place:
        return self._replace(offset=self.offset + start, nbytes=nbytes)

    def pack(self) -> bytes:
        return _PLACE.pack(*self)

    @staticmethod
    def unpack(frame: bytes) -> Place | None:
        """``None`` for what is no place."""
        return Place(*_PLACE.unpack(frame)) if len(frame) == _PLACE.size else None


class Segments:
    """Sender: memory for staging buffers that peers on this host may read. All methods from any thread."""

    def __init__(self) -> None:
        # Each entry goes when nothing refers to its memory any more, at any time, under any lock: dict operations are atomic.
        self._live: dict[int, _Segment] = {}

    def make(self, nbytes: int) -> Bytes | None:
        """Fresh memory of shape ``(nbytes,)``, every page of it present; ``None`` where it can't be shared."""
        if not AVAILABLE or not LEAST_NBYTES <= nbytes < _MAX_NBYTES or len(self._live) >= MAX_SEGMENTS:
            return None
        size, number = _HEAD + nbytes, secrets.randbits(63)
        try:
            fd = os.memfd_create("kvpoll", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:  # out of descriptors
            return None
        try:
            os.ftruncate(fd, size)
            view = mmap.mmap(fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
            view[: _ID.size] = _ID.pack(_MAGIC, number)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError:  # out of memory
            os.close(fd)
            return None
        memory = np.frombuffer(view, np.uint8, offset=_HEAD)
        self._live[number] = _Segment(number, fd, _address(memory), nbytes)
        weakref.finalize(memory, _drop, self._live, number)
        return memory

    def place(self, data: Bytes) -> Place | None:
        """Where ``data`` lies, if it lies in a segment."""
        segment = self._find(data)
        if segment is None:
            return None
        return Place(os.getpid(), segment.fd, segment.number, _HEAD + _address(data) - segment.start, data.nbytes)

    def spoil(self, data: Bytes) -> None:
        """Somebody may read ``data`` after it came back: its segment is never used for anything else."""
        if (segment := self._find(data)) is not None:
            self._live[segment.number] = segment._replace(spoiled=True)

    def reusable(self, memory: Bytes) -> bool:
        """May ``memory``, which :meth:`make` may have made, hold another payload?"""
        segment = self._find(memory)
        return segment is None or not segment.spoiled

    def _find(self, data: Bytes) -> _Segment | None:
        start = _address(data)
        for segment in list(self._live.values()):
            if segment.start <= start and start + data.nbytes <= segment.start + segment.nbytes:
                return segment
        return None

    def __len__(self) -> int:
        return len(self._live)


class Mappings:
    """Receiver: segments of peers, as read-only arrays. One thread at a time."""

    def __init__(self) -> None:
        self._maps: OrderedDict[tuple[int, int], tuple[str, Bytes]] = OrderedDict()

    def read(self, link: str, place: Place) -> Bytes | None:
        """The bytes at ``place``, where they lie; ``None`` when it is no place that we can read."""
        key = place.pid, place.segment
        entry = self._maps.get(key)
        if entry is None:
            memory = _open(place)
            if memory is None:
                return None
            entry = self._maps[key] = link, memory
            while len(self._maps) > MAX_MAPPINGS:
                self._maps.popitem(last=False)
        self._maps.move_to_end(key)
        start, stop = place.offset - _HEAD, place.offset - _HEAD + place.nbytes
        if start < 0 or place.nbytes < 1 or stop > entry[1].nbytes:
            return None
        return entry[1][start:stop]

    def forget(self, link: str) -> None:
        """The peer on ``link`` is gone: let go of its memory."""
        for key in [key for key, (of, _) in self._maps.items() if of == link]:
            del self._maps[key]

    def clear(self) -> None:
        self._maps.clear()

    def __len__(self) -> int:
        return len(self._maps)


class _Segment(NamedTuple):
    number: int
    fd: int
    start: int
    nbytes: int
    spoiled: bool = False


_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL if AVAILABLE else 0


def _drop(live: dict[int, _Segment], number: int) -> None:
    segment = live.pop(number, None)
    if segment is not None:
        os.close(segment.fd)


def _address(data: Bytes) -> int:
    address: int = data.__array_interface__["data"][0]
    return address


def _open(place: Place) -> Bytes | None:
    path = f"/proc/{place.pid}/fd/{place.fd}"
    try:
        if not AVAILABLE or not _is_ours(os.stat(path)):  # before it is opened: some files do things when they are
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # no such process or file, or not ours to read
        return None
    try:
        about = os.fstat(fd)
        if not _is_ours(about) or not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            return None
        view = mmap.mmap(fd, about.st_size, mmap.MAP_SHARED, mmap.PROT_READ)
    except OSError:  # not a file that can be sealed, or no room to map it
        return None
    finally:
        os.close(fd)
    if view[: _ID.size] != _ID.pack(_MAGIC, place.segment):
        return None
    return np.frombuffer(view, np.uint8, offset=_HEAD)


def _is_ours(about: os.stat_result) -> bool:
    return stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and _HEAD < about.st_size < _MAX_NBYTES + _HEAD
