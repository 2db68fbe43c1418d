"""The contract of a transport: it moves the bytes of parts and proves when it no longer touches memory.

Three rules hold for every transport, and the rest of kvpoll leans on them:

1. A transport never sees a room's state, and the protocol never sees a transport's types: they meet in keys, part
   numbers, operation ids and reports.
2. Every submitted operation is reported exactly once as DONE, FAILED (and quiescent) or UNRESOLVED; only an UNRESOLVED
   one is reported a second time, as FENCED. UNRESOLVED frees nothing.
3. A fence protects the memory of the process that calls it: after the report nothing of that operation, or of that
   peer, can write to (or read from) memory of ours, whatever the peer still does.

Push (``zmq``, ``inproc``): the receiver exposes a key, the sender submits operations that fill parts under it.
Pull (``jax``): the sender offers a payload under a key, the receiver submits operations that fetch it.
A key is 63 random bits, made for one attempt and never used again.

No method blocks on the peer, and none raises for something that the peer did: that is a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = [
    "Capabilities",
    "Descriptor",
    "Direction",
    "Exposure",
    "OpReport",
    "Operation",
    "Outcome",
    "Payload",
    "PayloadSpec",
    "PeerFenced",
    "Report",
    "Source",
    "Transport",
]

#: How a transport describes itself to the peer in the handshake: flat, small, comparable field by field.
Descriptor: TypeAlias = Mapping[str, str | int]


class Direction(Enum):
    """Who starts the operations."""

    PUSH = "push"  #: the sender writes into memory that the receiver exposed
    PULL = "pull"  #: the receiver reads what the sender offered


class Outcome(Enum):
    """What became of an operation."""

    DONE = "done"  #: every byte is where it belongs, and nothing is in flight any more
    FAILED = "failed"  #: it failed, and nothing of it is in flight any more (quiescent)
    UNRESOLVED = "unresolved"  #: it may still touch memory: only a fence ends that
    FENCED = "fenced"  #: was UNRESOLVED, can no longer touch memory of ours


@runtime_checkable
class Payload(Protocol):
    """What a part carries: a C-contiguous array, numpy's or jax's, of any shape and dtype."""

    @property
    def nbytes(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class PayloadSpec:
    """Shape and dtype of a payload, as both ends must agree on them: nothing below us compares them."""

    shape: tuple[int, ...]
    dtype: str  #: a numpy name of an unsigned integer type: "uint8", "uint16", "uint32"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Exposure:
    """The right to write up to ``max_bytes`` in up to ``max_parts`` parts under ``key``, each part once. ``memory`` lends what a
    part of so many bytes lands in, from any thread; where it has none (or there is no such thing) the transport uses its own."""

    link: str
    key: int
    max_bytes: int
    max_parts: int
    memory: Callable[[int], npt.NDArray[np.uint8] | None] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One transport action. ``payload`` is what a push sends; a pull has ``None`` and fetches ``spec``."""

    op: int  #: unique within the process
    link: str
    key: int  #: push: the receiver's exposed key; pull: the key of the sender's offer
    part: int
    spec: PayloadSpec
    payload: Payload | None = None


@dataclass(frozen=True, slots=True)
class OpReport:
    op: int
    outcome: Outcome
    detail: str = ""  #: for people, when it failed


@dataclass(frozen=True, slots=True)
class PeerFenced:
    """``fence_peer(link)`` took effect: nothing of that link touches memory of ours any more."""

    link: str


Report: TypeAlias = OpReport | PeerFenced


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a transport can do, asked once at start."""

    name: str
    direction: Direction
    fence_operation: bool
    fence_peer: bool
    max_in_flight: int = field(default=64)  #: operations it takes at a time; the core never submits more
    waits: bool = False  #: pull: a fetch that comes before its offer waits for it
    lead: float = 0.0  #: share of a large chunk that is best sent ahead, to be on its way while the rest is gathered


class Source(Protocol):
    """Whoever makes the memory that payloads are best gathered into."""

    def make(self, nbytes: int) -> npt.NDArray[np.uint8] | None:
        """Fresh memory of shape ``(nbytes,)``; ``None``: any will do."""

    def reusable(self, memory: npt.NDArray[np.uint8]) -> bool:
        """May this memory, to which nobody here refers any more, hold other bytes now?"""


class Transport(Protocol):
    """See the module text for the rules. All methods may be called from any one thread at a time."""

    @property
    def capabilities(self) -> Capabilities: ...

    def start(self, notify: Callable[[], None]) -> None:
        """Start; ``notify`` is called from any thread whenever :meth:`poll` has something to say."""

    def staging(self) -> Source | None:
        """Where payloads are best gathered into; ``None``: any memory will do."""

    def descriptor(self, link: str) -> Descriptor:
        """What the peer on ``link`` needs to know to reach us. May start a server for that link."""

    def mismatches(self, ours: Descriptor, theirs: Descriptor) -> Sequence[str]:
        """Names of descriptor fields that make the pair impossible (transfer size, count of transports...)."""

    def open_peer(self, link: str, theirs: Descriptor) -> None: ...

    def close_peer(self, link: str) -> None:
        """Forget a peer. Only after its last operation was reported, or after :class:`PeerFenced`."""

    # Memory of ours that the peer may touch.
    def expose(self, exposure: Exposure) -> None:
        """Push, receiver: accept parts under ``exposure.key`` from now on. ``exposure.link`` is the name that both ends
        give the link. Raises ``ValueError`` for a key in use or a fenced link: mistakes of ours."""

    def retract(self, key: int) -> None:
        """Push, receiver: drop the key and what arrived under it; late frames are refused and counted. When this
        returns nothing is written under the key any more: it is the receiver's fence for one attempt."""

    def offer(self, link: str, key: int, payload: Payload) -> None:
        """Pull, sender: let the peer fetch ``payload`` under ``key``. Raises ``ValueError`` when it can't be offered
        (deleted, empty): that is a mistake of ours, not of the peer."""

    def withdraw(self, key: int) -> None:
        """Pull, sender: give the memory up; a waiting or later fetch fails at once. Idempotent."""

    def forget(self, key: int) -> None:
        """Pull, sender: the key was fetched or withdrawn and the peer can't come back: drop the last trace of it."""

    # Operations that we start.
    def submit(self, operation: Operation) -> None:
        """Admit an operation to the queue; from here on it counts as started. Raises ``ValueError`` for a payload that
        cannot be sent, an id in use, or too many operations in flight; then nothing was started."""

    def cancel(self, op: int) -> None:
        """Ask an operation to end early. It is still reported; a cancelled one that can't be proved quiescent is
        UNRESOLVED."""

    def fence_operation(self, op: int) -> None:
        """UNRESOLVED now (unless it was before), FENCED once it is in effect. Without the capability it is a request
        that may wait for :meth:`fence_peer`."""

    def fence_peer(self, link: str) -> None:
        """The peer was declared lost: fence everything of it, operations of ours and of theirs. Reported by
        :class:`PeerFenced`, also for a link that was never opened. Follow it with :meth:`close_peer`."""

    def poll(self) -> list[Report]:
        """Everything that happened since the last call, oldest first. Never blocks."""

    def collect(self, key: int, part: int) -> npt.NDArray[np.generic] | Payload | None:
        """The payload that arrived for a part (pull: of the operation that fetched it), or ``None``. A second call
        returns the same object until :meth:`release`."""

    def release(self, key: int) -> None:
        """Receiver: drop what was collected under ``key``, and the key itself."""

    def tick(self) -> None:
        """Housekeeping, called a few times a second."""

    def probe(self, link: str) -> bool:
        """Is the data plane towards this peer usable, as far as we can tell without traffic?"""

    def gauges(self) -> dict[str, int]:
        """Sizes of every table and queue in here; all zero when idle. Keys are stable names."""

    def close(self) -> None:
        """Stop threads and sockets, in bounded time. Idempotent."""
