"""Effects: what a row asks for, by name. Sessions carry them out; a table never does."""

from __future__ import annotations

from enum import Enum

__all__ = ["Effect"]


class Effect(Enum):
    """The value is what it does, for people."""

    # towards the peer
    SEND_ANNOUNCE = "tell each sender rank that the attempt exists"
    SEND_META = "tell each sender rank where data goes"
    SEND_OFFER = "tell the receiver ranks under which key the started part can be read"
    SEND_PART_DONE = "tell the receiver rank that every operation of the part is quiescent"
    SEND_CLOSE = "tell the receiver ranks how many parts this rank's plan has"
    SEND_ABORT = "tell every peer rank that this rank failed, with the cause"
    SEND_CONCLUDE = "tell each sender rank that the data was committed"
    SEND_QUERY = "ask the silent peer ranks whether they hold the attempt"
    SEND_FACTS = "say again, to each peer rank, every fact that no answer has contained yet"
    REPLY = "answer the peer rank that spoke with STATUS"
    # towards the transport and memory
    START_PARTS = "admit the waiting parts to the transport, as credits allow"
    FETCH = "start one pull for each offered part not yet started (pull)"
    EXPOSE = "let the senders write under the attempt's key (push)"
    CLOSE = "close admission for good: cancel our operations, settle every lease"
    FENCE = "fence the unresolved operation"
    # towards the engine
    READY = "tell the engine that the data can be committed"
    # clocks
    ARM_SILENCE = "start the silence deadline anew"
    # leases
    HAND_BACK = "give the memory back, exactly once"
    NOTE_QUARANTINE = "tell the process that memory waits for a fence"
    # staging slots
    TAKE_SLOT = "lend the slot that was free longest"
    RETURN_SLOT = "put the slot back at the end of the ring, exactly once; the first in the queue has its turn"
    JOIN_QUEUE = "stand at the end of the queue for a slot"
    LEAVE_QUEUE = "leave the queue"
    SEND_GRANT = "tell whoever asked which slot it has"
    SEND_NO_SLOT = "tell whoever asked that there is no slot for it, with the numbers"
    SLOT_READY = "tell whoever reads the slot that all of it is there"
    # links
    SEND_HELLO = "send our registration"
    OPEN_PEER = "let transports reach the peer; deliver the rooms that wait for this link"
    DROP_PEER = "declare the peer lost: tell every room on the link, say LINK_OVER, fence the peer"
    FAIL_ROOMS = "fail the rooms that wait for this link, with the refusal"
    BEAT = "send a heartbeat"
    ARM_BEAT = "start the heartbeat interval"
    ARM_LOST = "start the peer-lost deadline anew"
    ARM_HELLO = "start the hello deadline"
