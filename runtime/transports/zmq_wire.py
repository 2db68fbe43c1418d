"""The frames of the zmq transport: one header of fixed size plus the link's name, then the bytes of a piece.

Sender to receiver: DATA (header, bytes), SHARED (header, where the bytes lie: see ``shared``) and CANCEL (header).
Receiver to sender: one header each. Two rules make losses harmless: every DATA or SHARED frame gets exactly one answer
(LANDED, DONE or REFUSED), and CANCEL, which travels behind the data of its operation, is answered with DONE or CANCELLED;
after either nothing of the operation is on its way. SHARED is sent only to who said in the handshake that it reads it.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

__all__ = ["MAX_LINK_BYTES", "VERSION", "Head", "Kind", "pack", "unpack"]

VERSION = 1
MAX_LINK_BYTES = 255
_MAGIC = b"KVPZ"
#: magic, version, kind, reason, length of the link's name, part, token, key, op, offset, total
_HEADER = struct.Struct("!4sBBBBIQQQQQ")


class Kind(IntEnum):
    DATA = 1
    CANCEL = 2
    LANDED = 3  #: the piece is in place
    DONE = 4  #: the part is whole
    REFUSED = 5  #: ``reason`` is a :class:`kvpoll.runtime.transports.landing.Refusal`
    CANCELLED = 6  #: nothing of the operation is kept, nothing of it will land
    SHARED = 7  #: as DATA, but the bytes lie in memory that both ends can read


_KINDS = {int(kind): kind for kind in Kind}


class Head(NamedTuple):
    """``token`` names the receiving instance in both directions: an address is not an identity."""

    kind: Kind
    token: int
    key: int
    part: int
    op: int
    offset: int = 0
    total: int = 0
    reason: int = 0
    link: str = ""


def pack(head: Head) -> bytes:
    link = head.link.encode()
    kind, token, key, part, op, offset, total, reason, _ = head
    return _HEADER.pack(_MAGIC, VERSION, kind, reason, len(link), part, token, key, op, offset, total) + link


def unpack(frame: bytes) -> Head | None:
    """``None`` for anything that :func:`pack` could not have made."""
    if not _HEADER.size <= len(frame) <= _HEADER.size + MAX_LINK_BYTES:
        return None
    magic, version, kind, reason, length, part, token, key, op, offset, total = _HEADER.unpack_from(frame)
    if magic != _MAGIC or version != VERSION or kind not in _KINDS or len(frame) != _HEADER.size + length:
        return None
    try:
        link = frame[_HEADER.size :].decode()
    except UnicodeDecodeError:
        return None
    return Head(_KINDS[kind], token, key, part, op, offset, total, reason, link)
