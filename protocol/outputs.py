"""What the core asks the outside world to do. Data only: the shell carries them out in order, the explorer models them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Message, Part, Registration

from .errors import Failure
from .records import Lease, OpKey, SessionKey

__all__ = [
    "Cancel",
    "Changed",
    "CloseLink",
    "ClosePeer",
    "Connect",
    "Dropped",
    "Expose",
    "FenceOp",
    "FencePeer",
    "HandBack",
    "OfferPart",
    "OpenPeer",
    "Output",
    "Ready",
    "Send",
    "Submit",
]  # fmt: skip


class Send(msgspec.Struct, frozen=True):
    """Put a message on a link. May be lost: the protocol re-sends."""

    link: int
    message: Message


class Connect(msgspec.Struct, frozen=True):
    """Open a control connection to ``address`` under this link id."""

    link: int
    address: str


class OpenPeer(msgspec.Struct, frozen=True):
    """The handshake agreed: let the chosen transport reach the peer."""

    link: int
    transport: str
    registration: Registration


class FencePeer(msgspec.Struct, frozen=True):
    """The peer was declared lost: fence everything of it; report with :meth:`Core.peer_fenced`."""

    link: int
    transport: str


class ClosePeer(msgspec.Struct, frozen=True):
    """Nothing of this link is left: the transport may forget the peer."""

    link: int
    transport: str


class CloseLink(msgspec.Struct, frozen=True):
    """The control connection may be closed."""

    link: int


class Expose(msgspec.Struct, frozen=True):
    """Push, receiver: take parts of this peer under ``key``."""

    session: SessionKey
    link: int
    key: int
    max_nbytes: int
    max_parts: int


class OfferPart(msgspec.Struct, frozen=True):
    """Pull, sender: let the peer read this part under ``key``. ``no``: our number of it; ``part`` has the peer's."""

    session: SessionKey
    link: int
    key: int
    part: Part
    no: int


class Submit(msgspec.Struct, frozen=True):
    """Start one operation. It counts as started from here on. ``part`` is as the receiver counts and shapes it."""

    op: OpKey
    link: int
    key: int
    part: Part


class Cancel(msgspec.Struct, frozen=True):
    """Ask an operation to end early."""

    op: OpKey


class FenceOp(msgspec.Struct, frozen=True):
    """Fence an unresolved operation; report with :meth:`Core.op_fenced`."""

    op: OpKey


class HandBack(msgspec.Struct, frozen=True):
    """A lease is released: exactly once for each. The process steps it by PICKED when its owner has read this."""

    session: SessionKey
    lease: Lease


class Quarantined(msgspec.Struct, frozen=True):
    """A lease waits for a fence: an operation on its memory is unresolved."""

    session: SessionKey
    lease: Lease


class Ready(msgspec.Struct, frozen=True):
    """Everything planned has arrived and every gate is open: the engine may commit."""

    session: SessionKey


class Changed(msgspec.Struct, frozen=True):
    """The state of a room, for ``poll()``."""

    session: SessionKey
    state: KVPoll
    failure: Failure | None


class Dropped(msgspec.Struct, frozen=True):
    """The record of a concluded attempt is gone: nothing of it is left in the core."""

    session: SessionKey


Output: TypeAlias = (
    Send | Connect | OpenPeer | FencePeer | ClosePeer | CloseLink | Expose | OfferPart | Submit | Cancel
    | FenceOp | HandBack | Quarantined | Ready | Changed | Dropped
)  # fmt: skip
