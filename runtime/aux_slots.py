"""Aux slots that say whose they are: empty, right and wrong are three different answers (AuxSelfIdentifying).

A slot starts with the room, a digest of the request and the length of its content; a slot that was never written, or was
given back, is empty. So a late or a misplaced write is seen for what it is, room 0 included (B02, B03, Q10).
"""

from __future__ import annotations

import struct
from collections import deque
from enum import Enum
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.receiver import AUX_NBYTES
from kvpoll.spec.wire import Fingerprint

__all__ = ["AuxAnswer", "AuxSlots", "aux_content", "aux_frame"]

_HEAD = struct.Struct("<4sQ16sI")
_MAGIC = b"kvAX"
Bytes = npt.NDArray[np.uint8]


class AuxAnswer(Enum):
    """Whose is the slot?"""

    EMPTY = "empty"
    RIGHT = "right"
    WRONG = "wrong"


class AuxSlots:
    """A pool of aux slots, ``nbytes`` of content each."""

    def __init__(self, slots: int, nbytes: int) -> None:
        if not 0 < nbytes <= AUX_NBYTES - _HEAD.size:
            raise LocalProtocolError(f"nbytes: expected 1 to {AUX_NBYTES - _HEAD.size}, got {nbytes}", field="nbytes")
        self._memory = np.zeros((slots, _HEAD.size + nbytes), np.uint8)
        self._free = deque(range(slots))
        self._lent: set[int] = set()
        self.nbytes = nbytes

    def allocate(self) -> int | None:
        """A free slot, emptied; ``None`` when there is none."""
        if not self._free:
            return None
        slot = self._free.popleft()
        self._lent.add(slot)
        self._memory[slot] = 0
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back, emptied. Raises for a slot that is not lent: a second free is a bug of the caller's."""
        self.check(slot)
        self._lent.remove(slot)
        self._memory[slot] = 0
        self._free.append(slot)

    def check(self, slot: int, field: str = "slot") -> None:
        """Raises :class:`LocalProtocolError` naming ``field`` for a slot that is not lent."""
        if slot not in self._lent:
            raise LocalProtocolError(f"{field}: expected a slot that is lent, got {slot}", field=field)

    def write(self, slot: int, room: int, request: Fingerprint, content: bytes) -> None:
        """Fill a slot for a room's request."""
        self.check(slot)
        if len(content) > self.nbytes:
            raise LocalProtocolError(
                f"content: expected at most {self.nbytes} bytes, got {len(content)}", field="content"
            )
        frame = aux_frame(room, request, content)
        self._memory[slot, : frame.size] = frame

    def put(self, slot: int, frame: Bytes) -> None:
        """Fill a slot with a frame that arrived."""
        self.check(slot)
        if frame.size > self._memory.shape[1]:
            raise LocalProtocolError(
                f"aux: expected at most {self._memory.shape[1]} bytes, got {frame.size}", field="aux"
            )
        self._memory[slot, : frame.size] = frame

    def read(self, slot: int, room: int, request: Fingerprint) -> tuple[AuxAnswer, bytes]:
        """Whose the slot is, and its content when it is this request's."""
        self.check(slot)
        return aux_content(self._memory[slot], room, request)

    def frame(self, slot: int) -> Bytes:
        """What the slot holds, cut to its length: what is sent."""
        self.check(slot)
        _, _, _, length = _HEAD.unpack(self._memory[slot, : _HEAD.size].tobytes())
        return self._memory[slot, : _HEAD.size + min(length, self.nbytes)].copy()

    @property
    def lent(self) -> int:
        return len(self._lent)


def aux_frame(room: int, request: Fingerprint, content: bytes) -> Bytes:
    """Content with its owner in front."""
    head = _HEAD.pack(_MAGIC, room, _digest(request), len(content))
    return np.frombuffer(head + content, np.uint8)


def aux_content(frame: Bytes, room: int, request: Fingerprint) -> tuple[AuxAnswer, bytes]:
    """Whose a frame is, and its content when it is this request's."""
    if frame.size < _HEAD.size:
        return AuxAnswer.WRONG, b""
    magic, owner, digest, length = _HEAD.unpack(frame[: _HEAD.size].tobytes())
    if magic == bytes(4):
        return AuxAnswer.EMPTY, b""
    if magic != _MAGIC or owner != room or digest != _digest(request) or _HEAD.size + length > frame.size:
        return AuxAnswer.WRONG, b""
    return AuxAnswer.RIGHT, frame[_HEAD.size : _HEAD.size + length].tobytes()


def _digest(request: Fingerprint) -> bytes:
    text = struct.pack("<II", request.tokens, request.prefix) + request.digest
    return blake2b(text, digest_size=16).digest()
