"""Which request a room carries: what both legs must agree on before anything moves (SameRequest)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.spec.wire import Fingerprint

__all__ = ["Request"]


class Request(NamedTuple):
    """``tokens`` of the prompt, of which the receiver holds ``prefix`` already; ``digest`` tells this request from another
    one of the same length: of the token ids, or an attempt key that the router gave to both legs."""

    tokens: int
    prefix: int = 0
    digest: bytes = b""

    @classmethod
    def of(cls, token_ids: Sequence[int], prefix: int = 0) -> Request:
        """The request of these token ids."""
        ids = np.asarray(token_ids, np.int64).astype("<i8")
        return cls(len(ids), prefix, blake2b(ids.tobytes(), digest_size=16).digest())

    def fingerprint(self) -> Fingerprint:
        """As it goes over the wire. Raises :class:`LocalProtocolError` naming the field for impossible numbers."""
        if not 0 < self.tokens < 1 << 32:
            raise LocalProtocolError(f"tokens: expected 1 to 2**32 - 1, got {self.tokens}", field="tokens")
        if not 0 <= self.prefix <= self.tokens:
            raise LocalProtocolError(f"prefix: expected 0 to {self.tokens}, got {self.prefix}", field="prefix")
        if len(self.digest) > 64:
            raise LocalProtocolError(f"digest: expected at most 64 bytes, got {len(self.digest)}", field="digest")
        return Fingerprint(tokens=self.tokens, prefix=self.prefix, digest=self.digest)
