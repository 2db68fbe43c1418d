"""The frozen records that a session consists of: a snapshot is the record itself, restoring is an assignment."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

from kvpoll.spec import LEASE, LeaseEvent, LeaseState
from kvpoll.spec.wire import FailureGroup, Fingerprint, MetaGroup, Part, Reason, Seen

from .cut import Cut
from .errors import Failure
from .interpreter import Node, Rules

__all__ = [
    "AttemptRecord",
    "Deadline",
    "HalfOpen",
    "Lease",
    "LeaseKind",
    "OpKey",
    "PartRecord",
    "PeerRecord",
    "ReceiverPeer",
    "ReceiverRecord",
    "SenderPeer",
    "SenderRecord",
    "SessionKey",
    "Timers",
    "Tomb",
]

_LEASE = Rules(LEASE)
_SIGNAL = {event: _LEASE.signal(event) for event in LeaseEvent}


class SessionKey(NamedTuple):
    """Names one attempt (or leg) within a process."""

    role: str  #: "sender" or "receiver"
    no: int  #: receiver: the gen; sender: a counter of legs


class OpKey(NamedTuple):
    """Names one operation: there is at most one for each part and peer rank in an attempt, ever."""

    session: SessionKey
    peer: int
    part: int


class Deadline(Enum):
    """Clocks of a room. Armed ones are a set in exploration and times in production."""

    PAIRING = "pairing"
    ASK = "ask"
    SILENCE = "silence"
    TOTAL = "total"
    GATE = "gate"
    RESEND = "resend"


#: deadline, due time in ms; sorted by name, at most one each.
Timers = tuple[tuple[Deadline, int], ...]


class LeaseKind(Enum):
    """Which memory of an attempt."""

    SOURCE = "source pages"  #: of one chunk, the engine's
    COPY = "gathered copy"  #: of one part, ours (pull: also its native registration)
    PAGES = "destination pages"  #: the engine's
    AUX = "aux slot"  #: the engine's
    BUFFER = "receive buffer"  #: ours
    ACCESS = "access"  #: the right to touch one peer rank's memory


class Lease(msgspec.Struct, frozen=True):
    """One lease and where it stands in its table."""

    kind: LeaseKind
    no: int = 0
    node: Node = _LEASE.initial

    @property
    def state(self) -> LeaseState:
        state = self.node.state
        assert isinstance(state, LeaseState)
        return state

    @property
    def back(self) -> bool:
        """Handed back: nothing can touch the memory any more."""
        return self.node.state is LeaseState.HANDED

    def step(self, event: LeaseEvent) -> tuple[Lease, bool]:
        """The lease after ``event``, and whether this step handed it back."""
        node = self.node
        signal = _SIGNAL[event]
        edge = node.edges.get(signal) or _LEASE.expand(node, signal)
        if edge.node is node:
            return self, False
        return Lease(self.kind, self.no, edge.node), edge.node.state is LeaseState.HANDED


class PartRecord(msgspec.Struct, frozen=True):
    """Sender: one part of the plan."""

    part: Part
    chunk: int
    gathered: bool = False
    dispatched: bool = False  #: its gather is under way, and a pull that comes too early waits for it
    started: tuple[int, ...] = ()  #: peers it was started (push) or offered (pull) to
    done: tuple[int, ...] = ()  #: push: peers that have it
    keys: tuple[tuple[int, int], ...] = ()  #: pull: (peer, key under which it can read the part)
    over: tuple[int, ...] = ()  #: push: peers whose operation is quiescent (done, failed or fenced)


class PeerRecord(msgspec.Struct, frozen=True):
    """What either end knows of one peer rank. Facts only ever become true."""

    link: int
    instance: int
    rank: int
    access: Lease
    cut: Cut | None = None  #: what of the sender rank's data goes to the receiver rank; ``None``: all of it
    failed: FailureGroup | None = None  #: it said so (ABORT)
    acked: bool = False  #: it answered our ABORT
    drained: bool = False  #: its drain word: nothing of it can touch our memory
    gone: bool = False  #: declared lost and fenced
    seen: Seen = Seen()  #: which facts of ours it holds
    started: int = 0  #: operations of ours towards its memory, admitted to a queue
    quiescent: int = 0  #: ... of which so many can touch nothing any more
    unresolved: tuple[int, ...] = ()  #: parts whose operation is unresolved


class SenderPeer(PeerRecord, frozen=True):
    """What a sender knows of one receiver rank."""

    meta: MetaGroup | None = None
    concluded: bool = False
    passed: bool = False  #: its low_water is above this attempt


class ReceiverPeer(PeerRecord, frozen=True):
    """What a receiver knows of one sender rank."""

    key: int = 0  #: push: the key under which this rank's parts land
    linked: bool = False
    bound: bool = False
    parts: tuple[Part, ...] = ()  #: heard of, in order of arrival
    fetched: tuple[int, ...] = ()  #: pull: parts whose pull was started
    arrived: tuple[int, ...] = ()
    total: int | None = None
    over: bool = False  #: it is over itself, so it needs no conclusion any more


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What both roles have."""

    node: Node
    room: int
    fingerprint: Fingerprint
    engine: int = 0  #: receiver engine id (sender: when bound)
    gen: int = 0
    transport: str = ""
    peers: tuple[PeerRecord, ...] = ()
    leases: tuple[Lease, ...] = ()
    timers: Timers = ()
    failure: Failure | None = None
    waits: bool = False  #: stands in the process's queue for credits


class SenderRecord(AttemptRecord, frozen=True, kw_only=True):
    """All of a sender session."""

    ranks: int = 1  #: receiver ranks that must say META; 0: as many as the first one's shape says
    peers: tuple[SenderPeer, ...] = ()
    parts: tuple[PartRecord, ...] = ()
    mismatch: tuple[str, ...] = ()  #: fields of an ANNOUNCE for this room that did not equal ours


class ReceiverRecord(AttemptRecord, frozen=True, kw_only=True):
    """All of a receiver session."""

    peers: tuple[ReceiverPeer, ...] = ()
    meta: MetaGroup | None = None
    gates: tuple[str, ...] = ()  #: still closed


class HalfOpen(msgspec.Struct, frozen=True):
    """Sender process: an announced attempt that no leg is paired with yet."""

    room: int
    link: int
    instance: int
    rank: int
    fingerprint: Fingerprint
    transport: str
    due: int
    meta: MetaGroup | None = None
    mismatch: tuple[str, ...] = ()


class Tomb(NamedTuple):
    """Sender process: an attempt of a receiver rank that is over here, while that rank may still speak of it."""

    reason: Reason  #: how what still comes is refused
    instance: int = 0
    failed: FailureGroup | None = None  #: what the rank said of its own failure
