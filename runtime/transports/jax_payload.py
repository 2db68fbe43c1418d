"""What goes through the native layer, checked by us, since nothing below compares anything.

The native layer reinterprets other dtypes of the same size, truncates a longer source without a word when chunks happen
to line up, and crashes on deleted arrays. So each payload travels with a 128-byte label (key, dtype, shape) as a second
leaf of the same pull, and a pull is good only when the label says what the receiver expected.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence

import jax
import numpy as np
import numpy.typing as npt

from kvpoll.runtime.transports.base import Payload, PayloadSpec

__all__ = [
    "LABEL_WORDS",
    "LAYOUT",
    "MAX_KEY",
    "MAX_NDIM",
    "aligned_empty",
    "check_key",
    "check_result",
    "check_spec",
    "make_label",
    "pull_specs",
    "put_on_device",
    "spec_of",
]

LAYOUT = 1  #: version of the label, part of the descriptor
LABEL_WORDS = 32  #: uint32 words
MAX_NDIM = 8
MAX_KEY = (1 << 63) - 1

_leaf: Callable[..., jax.ShapeDtypeStruct] = jax.ShapeDtypeStruct  # its constructor has no types
_MAGIC = 0x4B56504C  # "KVPL"
_ALIGNMENT = 64  # bytes: what the CPU client needs to use host memory in place
_DTYPES = ("uint8", "uint16", "uint32")


class _Lent:
    """Lends an array's memory to the native layer and dies when the native layer lets go of it.

    Plain views won't do: numpy replaces a view's base by the owner of the memory, and the weak reference would die at
    once.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_owner")

    def __init__(self, array: npt.NDArray[np.generic]) -> None:
        self._owner = array
        self.__array_interface__ = array.__array_interface__


def aligned_empty(shape: Sequence[int], dtype: str) -> npt.NDArray[np.generic]:
    """An uninitialised C-contiguous array at a 64-byte boundary: :func:`put_on_device` uses such memory in place on
    CPU (50 us instead of a copy of every byte)."""
    nbytes = PayloadSpec(tuple(shape), dtype).nbytes
    block = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + nbytes].view(dtype).reshape(tuple(shape))


def put_on_device(payload: Payload, device: jax.Device) -> tuple[jax.Array, weakref.ref[object] | None]:
    """The payload as a device array, and for host memory a weak reference that is dead once nothing reads it any more.

    Raises ``ValueError`` for what must never be registered: deleted (it ends the process), empty (it never completes),
    sharded, or of another kind. A jax array may still be computing; nothing here waits.
    """
    if isinstance(payload, jax.Array):
        if payload.is_deleted():
            raise ValueError("payload: expected a live array, got a deleted or donated one")
        spec_of(payload)
        if len(payload.devices()) != 1:
            raise ValueError("payload: expected one device; offer shards as arrays of their own")
        return payload, None
    if not isinstance(payload, np.ndarray):
        raise ValueError(f"payload: expected a numpy or jax array, got {type(payload).__name__}")
    spec_of(payload)
    if not payload.flags.c_contiguous:
        raise ValueError("payload: expected a C-contiguous array")
    lent = _Lent(payload)
    trace: weakref.ref[object] = weakref.ref(lent)
    view = np.asarray(lent)
    del lent
    return jax.device_put(view, device, may_alias=True), trace


def spec_of(payload: Payload) -> PayloadSpec:
    """Shape and dtype of a payload; ``ValueError`` when they can't be offered."""
    spec = PayloadSpec(tuple(payload.shape), str(getattr(payload, "dtype", "unknown")))
    check_spec(spec)
    return spec


def check_spec(spec: PayloadSpec) -> None:
    """Raises ``ValueError`` with the name of the field and what was expected of it."""
    if spec.dtype not in _DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, got {spec.dtype!r}")
    if len(spec.shape) > MAX_NDIM:
        raise ValueError(f"shape: expected at most {MAX_NDIM} dimensions, got {len(spec.shape)}")
    if any(size <= 0 for size in spec.shape):
        raise ValueError(f"shape: expected no empty dimension, got {spec.shape}")


def check_key(key: int) -> None:
    if not 0 < key <= MAX_KEY:
        raise ValueError(f"key: expected 1 to 2**63-1, got {key}")


def make_label(key: int, spec: PayloadSpec) -> npt.NDArray[np.uint32]:
    """Magic, layout, dtype, count of dimensions, key, bytes and dimensions (low word first)."""
    words = [_MAGIC, LAYOUT, _DTYPES.index(spec.dtype), len(spec.shape)]
    for number in (key, spec.nbytes, *spec.shape):
        words += [number & 0xFFFFFFFF, number >> 32]
    label = np.zeros(LABEL_WORDS, np.uint32)
    label[: len(words)] = words
    return label


@functools.lru_cache(maxsize=256)
def pull_specs(spec: PayloadSpec, device: jax.Device) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """The two leaves of a pull: payload, label."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    return (
        _leaf(spec.shape, np.dtype(spec.dtype), sharding=sharding),
        _leaf((LABEL_WORDS,), np.dtype("uint32"), sharding=sharding),
    )


def check_result(spec: PayloadSpec, payload: jax.Array, label: jax.Array, expected: npt.NDArray[np.uint32]) -> None:
    """Raises ``ValueError`` unless both arrays are what the receiver asked for: ``expected`` is the label that such a payload
    has. Both must be ready."""
    if np.asarray(label).tobytes() != expected.tobytes():
        raise ValueError("label: the sender offered another shape, dtype or key than the receiver expected")
    if payload.shape != spec.shape or str(payload.dtype) != spec.dtype or payload.nbytes != spec.nbytes:
        raise ValueError(f"result: expected {spec.dtype}{spec.shape}, got {payload.dtype}{payload.shape}")
