"""Payloads as other shapes of the same bytes: no copy, and no bit changed."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.receiver import DTYPES
from kvpoll.spec.wire import Part

from .transports.base import Payload

if TYPE_CHECKING:
    import jax

__all__ = ["Rows", "as_bytes", "as_rows", "nbytes_of"]

Rows: TypeAlias = "npt.NDArray[np.unsignedinteger] | jax.Array"


def nbytes_of(part: Part) -> int:
    """Bytes of a part, as its sender described them."""
    return prod(part.shape) * DTYPES[part.dtype]


def as_bytes(payload: Payload) -> npt.NDArray[np.uint8]:
    """The bytes of a payload that fits in the host's memory."""
    return np.ascontiguousarray(payload).reshape(-1).view(np.uint8)


def as_rows(payload: Payload, part: Part) -> Rows:
    """A payload as the part's sender described it. Push transports deliver bytes, pull transports arrays."""
    if isinstance(payload, np.ndarray):
        flat: npt.NDArray[np.unsignedinteger] = payload.reshape(-1).view(np.uint8).view(part.dtype).reshape(part.shape)
        return flat
    return payload  # type: ignore[return-value] # an array of the spec's shape and dtype: checked by its transport
