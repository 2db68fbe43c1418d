"""The states of the five machines. Numbers of KVPoll are the field's own and are never changed."""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["TERMINAL", "KVPoll", "LeaseState", "LinkState", "StagingState"]


class KVPoll(IntEnum):
    """State of one room at one rank. The minimum over ranks is the state of the group, so one failure fails it."""

    Failed = 0  #: over, with a cause; absorbing
    Bootstrapping = 1  #: the two legs have not met, or no destination is known yet
    WaitingForInput = 2  #: both ends know where data goes; nothing has been started or seen
    Transferring = 3  #: at least one part was started (sender) or heard of (receiver)
    Success = 4  #: the receiver committed every planned part; absorbing


#: States that are never left within an attempt (TerminalAbsorbing).
TERMINAL = frozenset({KVPoll.Failed, KVPoll.Success})


class LeaseState(Enum):
    """Who may touch a piece of memory: it outlives the five states of its room."""

    FREE = "free"  #: not lent
    HELD = "held"  #: lent to the room; nothing in flight can touch it
    IN_FLIGHT = "in flight"  #: an operation may be touching it
    DRAINING = "draining"  #: its room is over; what is in flight must end first
    QUARANTINED = "quarantined"  #: an operation is unresolved: only a fence ends that
    HANDED = "handed to the engine"  #: released, waiting for the engine to pick it up


class LinkState(Enum):
    """One connection between two instances. Never reopened: a lost peer is met again on a new link."""

    GREETING = "greeting"  #: our hello is out
    OPEN = "open"  #: the handshake agreed; rooms may be announced
    REFUSED = "refused"  #: the handshake named fields that cannot work; kept so that new rooms fail at once
    OVER = "over"  #: closed, or the peer was declared lost; its fence is under way or done


class StagingState(Enum):
    """One request for a staging slot."""

    UNASKED = "unasked"  #: nobody asked yet
    WAITING = "waiting"  #: in the queue, in the order of asking
    GRANTED = "granted"  #: it has a slot, which is being filled
    READY = "ready"  #: the whole chunk is in the slot
    DRAINING = "draining"  #: nobody needs the slot any more, but something can still touch it
    BACK = "back"  #: the slot is free again, or there was none
    REFUSED = "refused"  #: it never got a slot: too large, or the queue was full
