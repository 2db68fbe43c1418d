"""Aux slots that say whose they are: empty, right and wrong are three different answers (AuxSelfIdentifying).

A slot starts with the room, a digest of the request, the attempt and the length of its content; a slot that was never
written, or was given back, is empty. So a late or a misplaced write is seen for what it is, room 0 included (B02, B03, Q10).
The attempt is stamped when the slot is sent, by which time it is known; until then it is not stated, and not compared.

What is in a slot is bytes, the engine's own business; or, where the slots have a layout, a typed record of declared fields
(:mod:`kvpoll.protocol.aux`), in which a field that was not written is not there, and what a peer added is left out.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.aux import Array, Attempt, AuxLayout, AuxRecord
from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.protocol.plan import AUX_NBYTES
from kvpoll.spec import Cause
from kvpoll.spec.wire import Fingerprint

__all__ = ["AuxAnswer", "AuxSlots", "aux_content", "aux_fault", "aux_frame", "stamped"]

_HEAD = struct.Struct("<4sQ16sIQQ")  # magic, room, digest of the request, length of the content, engine, gen
_MAGIC = b"kvAX"
#: Not stated.
_NOBODY = Attempt()
Bytes = npt.NDArray[np.uint8]


class AuxAnswer(Enum):
    """Whose is the slot?"""

    EMPTY = "empty"
    RIGHT = "right"
    WRONG = "wrong"


class AuxSlots:
    """A pool of aux slots, ``nbytes`` of content each. ``layout``: they hold typed records; ``nbytes`` is then what a whole
    record takes, unless more is said."""

    def __init__(self, slots: int, nbytes: int = 0, *, layout: AuxLayout | None = None) -> None:
        if layout is not None and nbytes < layout.nbytes:
            if nbytes:
                raise LocalProtocolError(f"nbytes: expected at least {layout.nbytes}, got {nbytes}", field="nbytes")
            nbytes = layout.nbytes
        if not 0 < nbytes <= AUX_NBYTES - _HEAD.size:
            raise LocalProtocolError(f"nbytes: expected 1 to {AUX_NBYTES - _HEAD.size}, got {nbytes}", field="nbytes")
        self._memory = np.zeros((slots, _HEAD.size + nbytes), np.uint8)
        self._free = deque(range(slots))
        self._lent: set[int] = set()
        self.nbytes = nbytes
        self.layout = layout

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

    # -- what an engine writes and reads
    def write(self, slot: int, room: int, request: Fingerprint, content: bytes, attempt: Attempt = _NOBODY) -> None:
        """Fill a slot for a room's request. Of slots with a layout, ``content`` is a record of it; :meth:`fill` makes one."""
        self.check(slot)
        if len(content) > self.nbytes:
            raise LocalProtocolError(
                f"content: expected at most {self.nbytes} bytes, got {len(content)}", field="content"
            )
        self._set(slot, aux_frame(room, request, content, attempt))

    def fill(
        self, slot: int, room: int, request: Fingerprint, fields: Mapping[str, Array], attempt: Attempt = _NOBODY
    ) -> None:
        """Fill a slot with the fields that there are, by name. Raises :class:`LocalProtocolError` naming a field that the
        layout does not have, that has another dtype or shape, or that is missing although it is always written."""
        self.write(slot, room, request, self._typed().encode(fields), attempt)

    def read(self, slot: int, room: int, request: Fingerprint, attempt: Attempt = _NOBODY) -> tuple[AuxAnswer, bytes]:
        """Whose the slot is, and its content when it is this request's."""
        self.check(slot)
        return aux_content(self._memory[slot], room, request, attempt)

    def record(self, slot: int, room: int, request: Fingerprint, attempt: Attempt = _NOBODY) -> AuxRecord:
        """The fields in a slot. Raises :class:`LocalProtocolError`: DATA_MISSING for a slot that was never written,
        AUX_MISMATCH for one that is another's; and :class:`RemoteProtocolError` for what is no record of this layout."""
        answer, content = self.read(slot, room, request, attempt)
        if answer is not AuxAnswer.RIGHT:
            cause = Cause.DATA_MISSING if answer is AuxAnswer.EMPTY else Cause.AUX_MISMATCH
            raise LocalProtocolError(
                f"aux: expected a slot of room {room}, which is {answer.value}", cause, field="aux"
            )
        return self._typed().decode(content)

    # -- what is sent and what arrived
    def put(self, slot: int, frame: Bytes) -> None:
        """Fill a slot with a frame that arrived. Where there is a layout, what it does not know is left out. Raises
        :class:`RemoteProtocolError` naming a field that is not as agreed (:func:`aux_fault` sees that before)."""
        self.check(slot)
        if self.layout is not None:
            frame = _trimmed(frame, self.layout)
        if frame.size > self._memory.shape[1]:
            raise LocalProtocolError(
                f"aux: expected at most {self._memory.shape[1]} bytes, got {frame.size}", field="aux"
            )
        self._set(slot, frame)

    def frame(self, slot: int, attempt: Attempt = _NOBODY) -> Bytes:
        """What the slot holds, cut to its length: what is sent. ``attempt``, when it is known, is stamped on it."""
        self.check(slot)
        *_, length, _, _ = _HEAD.unpack(self._memory[slot, : _HEAD.size].tobytes())
        return stamped(self._memory[slot, : _HEAD.size + min(length, self.nbytes)], attempt)

    def _set(self, slot: int, frame: Bytes) -> None:
        self._memory[slot] = 0  # nothing of what was there before is behind a shorter content
        self._memory[slot, : frame.size] = frame

    def _typed(self) -> AuxLayout:
        if self.layout is None:
            raise LocalProtocolError("layout: these aux slots were made without one and hold bytes", field="layout")
        return self.layout

    @property
    def lent(self) -> int:
        return len(self._lent)


def aux_frame(room: int, request: Fingerprint, content: bytes, attempt: Attempt = _NOBODY) -> Bytes:
    """Content with its owner in front."""
    head = _HEAD.pack(_MAGIC, room, _digest(request), len(content), *attempt)
    return np.frombuffer(head + content, np.uint8)


def stamped(frame: Bytes, attempt: Attempt) -> Bytes:
    """A copy of a frame, which says of which attempt it is unless it did already."""
    copy = frame.copy()
    magic, room, digest, length, *said = _HEAD.unpack(frame[: _HEAD.size].tobytes().ljust(_HEAD.size, b"\0"))
    if magic == _MAGIC and attempt != _NOBODY and tuple(said) == _NOBODY:
        copy[: _HEAD.size] = np.frombuffer(_HEAD.pack(magic, room, digest, length, *attempt), np.uint8)
    return copy


def aux_content(frame: Bytes, room: int, request: Fingerprint, attempt: Attempt = _NOBODY) -> tuple[AuxAnswer, bytes]:
    """Whose a frame is, and its content when it is this request's. Attempts are compared when both ends state one."""
    if frame.size < _HEAD.size:
        return AuxAnswer.WRONG, b""
    magic, owner, digest, length, *said = _HEAD.unpack(frame[: _HEAD.size].tobytes())
    if magic == bytes(4):
        return AuxAnswer.EMPTY, b""
    if magic != _MAGIC or owner != room or digest != _digest(request) or _HEAD.size + length > frame.size:
        return AuxAnswer.WRONG, b""
    if _NOBODY not in (attempt, tuple(said)) and attempt != tuple(said):
        return AuxAnswer.WRONG, b""
    return AuxAnswer.RIGHT, frame[_HEAD.size : _HEAD.size + length].tobytes()


def aux_fault(
    frame: Bytes, room: int, request: Fingerprint, attempt: Attempt = _NOBODY, layout: AuxLayout | None = None
) -> tuple[str, str] | None:
    """What is wrong with a frame that arrived, as (expected, got): it is another's, says nothing, is no record, or lacks a
    field that is always written. Looked at before the engine may commit; a room fails with it (AUX_MISMATCH). Never raises."""
    answer, content = aux_content(frame, room, request, attempt)
    if answer is not AuxAnswer.RIGHT:
        return f"room {room}", answer.value
    if layout is None:
        return None
    if layout.attempt and _HEAD.unpack(frame[: _HEAD.size].tobytes())[-2:] == _NOBODY:
        return "aux.attempt: to be stated", "nothing"
    try:
        layout.decode(content)
    except RemoteProtocolError as error:
        return f"{error.tag}: {error.expected}", error.got
    return None


def _trimmed(frame: Bytes, layout: AuxLayout) -> Bytes:
    magic, room, digest, length, *said = _HEAD.unpack(frame[: _HEAD.size].tobytes().ljust(_HEAD.size, b"\0"))
    if magic != _MAGIC:
        return frame  # it says nothing, and will be read as that
    content = layout.known(frame[_HEAD.size : _HEAD.size + length].tobytes())
    return np.frombuffer(_HEAD.pack(magic, room, digest, len(content), *said) + content, np.uint8)


def _digest(request: Fingerprint) -> bytes:
    text = struct.pack("<II", request.tokens, request.prefix) + request.digest
    return blake2b(text, digest_size=16).digest()
