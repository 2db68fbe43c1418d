"""Sealed control frames: with a shared secret, every frame is authenticated and counts once.

The first two frames of a link exchange salts under the secret; from then on each direction has its own key, made from the
secret and both salts, and a counter that only rises. A frame that was recorded, on this link or another, opens nothing.
Without a secret frames go as they are. Keys are HMAC-SHA256; what is sealed is authenticated, not encrypted.
"""

from __future__ import annotations

import hmac
import struct
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

__all__ = ["Channel", "SaltMemory"]

_HEAD = struct.Struct(">B16sQ")  # kind, salt of the speaker, counter
_MAC = 32
_HELLO, _WELCOME, _DATA = 1, 2, 3
_EMPTY = bytes(16)


class SaltMemory:
    """Salts of first frames that opened a link, so that a recorded one opens no other, and not the same one again after it
    was over. Bounded."""

    def __init__(self, limit: int = 65_536) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._limit = limit

    def claim(self, salt: bytes) -> bool:
        """True for a salt that was never claimed."""
        if salt in self._seen:
            return False
        self._seen[salt] = None
        if len(self._seen) > self._limit:
            self._seen.popitem(last=False)
        return True


class Channel:
    """One end of one link. ``random(n)`` gives ``n`` random bytes."""

    def __init__(self, secret: bytes | None, link: int, initiator: bool, random: Callable[[int], bytes]) -> None:
        self._secret = secret
        self._link = link.to_bytes(8, "big")
        self._initiator = initiator
        self._ours = random(16) if secret is not None else _EMPTY
        self._theirs = _EMPTY
        self._out = 0
        self._in = 0

    def seal(self, payload: bytes) -> bytes:
        """The frame that carries ``payload``."""
        if self._secret is None:
            return payload
        if self._theirs == _EMPTY:
            kind, key, count = _HELLO, self._secret, 0
        else:
            self._out += 1
            kind, key, count = _DATA if self._initiator else _WELCOME, self._key(self._initiator), self._out
        head = _HEAD.pack(kind, self._ours, count)
        return head + self._mac(key, head, payload) + payload

    def open(self, frame: bytes, salts: SaltMemory | None = None) -> bytes | None:
        """The payload; ``None`` for a frame that is not genuine, or was opened before."""
        if self._secret is None:
            return frame
        if len(frame) < _HEAD.size + _MAC:
            return None
        head, mac, payload = frame[: _HEAD.size], frame[_HEAD.size : _HEAD.size + _MAC], frame[_HEAD.size + _MAC :]
        kind, salt, count = _HEAD.unpack(head)
        if kind == _HELLO and not self._initiator:
            if not hmac.compare_digest(mac, self._mac(self._secret, head, payload)):
                return None
            # The first of them opens the link, once ever; a copy is opened while the link lives.
            if self._theirs == _EMPTY and (salts is None or salts.claim(salt)):
                self._theirs = salt
            return payload if self._theirs == salt else None
        if kind == (_WELCOME if self._initiator else _DATA):
            theirs = salt if self._theirs == _EMPTY else self._theirs
            if salt != theirs or count <= self._in:
                return None
            if not hmac.compare_digest(mac, self._mac(self._key(not self._initiator, theirs), head, payload)):
                return None
            self._theirs, self._in = theirs, count
            return payload
        return None

    def _key(self, of_initiator: bool, theirs: bytes | None = None) -> bytes:
        assert self._secret is not None
        theirs = self._theirs if theirs is None else theirs
        first, second = (self._ours, theirs) if self._initiator else (theirs, self._ours)
        side = b"initiator" if of_initiator else b"acceptor"
        return hmac.new(self._secret, side + first + second, sha256).digest()

    def _mac(self, key: bytes, head: bytes, payload: bytes) -> bytes:
        return hmac.new(key, self._link + head + payload, sha256).digest()
