"""Staging slots: equal pieces of preallocated memory, lent to requests by credit. No I/O, no clock, no thread.

Two places use it. A receiver whose tensor parallel size differs keeps a *ring*: sender ranks ask for a slot for each
chunk, write into it, and the chunk is scattered from there. A sender keeps a *host pool*: a chunk is copied into a slot, and
the transport reads it there, so the engine has its pages back early. ``remote`` tells the two apart: in a ring, whoever has
the grant may touch the slot until its word (or a fence) says that it does not.

Each request is one machine of :data:`kvpoll.spec.STAGING`, named by a :class:`Ticket`. What has to be done about it comes out
of :meth:`Staging.take` in order: carry it out, and nothing else is needed. A call for a room that is not open, or for a
ticket that is over, is late: it changes nothing.

Always: free slots and lent slots are all slots; a slot is lent to one ticket; nobody waits while a slot is free; slots are
lent in the order in which they came back, and to requests in the order of asking.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from kvpoll.spec import STAGING, Cause, Effect, StagingEvent, StagingState
from kvpoll.spec.table import Verdict

from .errors import Failure, LocalProtocolError
from .interpreter import Edge, Node, Rules, Signal
from .records import SessionKey

__all__ = [
    "RULES", "Granted", "Refused", "Returned", "SlotReady", "Staging", "StagingOutput", "StagingSnapshot", "Ticket",
    "TicketRecord",
]  # fmt: skip

RULES = Rules(STAGING)
_ASK = {
    (fits, free, place): RULES.signal(StagingEvent.ASK, fits=fits, free=free, place=place)
    for fits in (False, True)
    for free in (False, True)
    for place in (False, True)
}
_TURN, _START, _FILLED, _QUIET, _FREED, _CLOSE = (
    RULES.signal(event)
    for event in (
        StagingEvent.TURN, StagingEvent.START, StagingEvent.FILLED, StagingEvent.QUIET, StagingEvent.FREED,
        StagingEvent.CLOSE,
    )
)  # fmt: skip
#: What a ticket of a room that is not open stands at: whatever is said of it is late.
_GONE = RULES.node(StagingState.BACK, (False,))


class Ticket(NamedTuple):
    """One request for a slot. A ticket is used once: the asker counts."""

    owner: SessionKey  #: the attempt, at the end that owns the slots
    peer: int  #: ring: which sender rank fills the slot, by its index in the attempt; pool: 0
    no: int  #: counted by who asks, 0 or above


class TicketRecord(msgspec.Struct, frozen=True):
    """Where a ticket stands."""

    node: Node
    slot: int | None = None
    nbytes: int = 0
    own: int = 0  #: operations of ours on the slot that are not quiescent
    theirs: bool = False  #: ring: the peer may write

    @property
    def state(self) -> StagingState:
        state = self.node.state
        assert isinstance(state, StagingState)
        return state

    @property
    def over(self) -> bool:
        return self.node.state in STAGING.terminal


class Granted(NamedTuple):
    """Tell whoever asked: the slot is yours. May come again for the same ticket, with the same slot."""

    ticket: Ticket
    slot: int


class Refused(NamedTuple):
    """Tell whoever asked: no. ``failure`` has cause LIMIT and names the table and its limit. May come again."""

    ticket: Ticket
    failure: Failure


class SlotReady(NamedTuple):
    """The whole chunk is in the slot: it may be read. Once for each ticket."""

    ticket: Ticket
    slot: int


class Returned(NamedTuple):
    """The slot is free again: nothing can touch it. Once for each grant."""

    ticket: Ticket
    slot: int


StagingOutput: TypeAlias = Granted | Refused | SlotReady | Returned
#: Free slots, the queue, tickets, and open rooms with "closing": canonical and hashable.
StagingSnapshot: TypeAlias = tuple[
    tuple[int, ...], tuple[Ticket, ...], tuple[tuple[Ticket, TicketRecord], ...], tuple[tuple[SessionKey, bool], ...]
]


class Staging:
    """The slots of one process, and who has them.

    ``slots`` of ``nbytes`` bytes each; at most ``queue`` requests wait; a room makes at most ``tickets`` requests.
    """

    def __init__(self, slots: int, nbytes: int, *, queue: int, remote: bool = False, tickets: int = 4096) -> None:
        for name, value, least in (
            ("slots", slots, 1),
            ("nbytes", nbytes, 1),
            ("queue", queue, 0),
            ("tickets", tickets, 1),
        ):
            if value < least:
                raise LocalProtocolError(f"{name}: expected {least} or above, got {value}", field=name)
        self.slots, self.nbytes, self.queue, self.remote, self.tickets = slots, nbytes, queue, remote, tickets
        self.late = 0  #: events of rooms that were not open
        self.broken = 0  #: rows that fired although the table calls them impossible: please report
        self.trace: Callable[[Ticket, Edge, Signal], None] | None = None
        self._free = deque(range(slots))  # first: free for the longest time
        self._waiting: deque[Ticket] = deque()
        self._table: dict[Ticket, TicketRecord] = {}
        self._rooms: dict[SessionKey, list[Ticket]] = {}
        self._closing: set[SessionKey] = set()
        self._out: list[StagingOutput] = []

    # -- rooms
    def open(self, owner: SessionKey) -> None:
        """A room may ask from here on. Raises :class:`LocalProtocolError` for one that is known already."""
        if owner in self._rooms:
            raise LocalProtocolError(f"owner: expected a new room, got {owner} again", field="owner")
        self._rooms[owner] = []

    def close(self, owner: SessionKey) -> None:
        """The room is over, whatever ended it: every slot of it comes back as soon as nothing can touch it."""
        if owner not in self._rooms:
            return
        self._closing.add(owner)
        # Those in the queue first: else a slot that comes back here would be granted to a room that is over.
        for ticket in sorted(self._rooms[owner], key=lambda each: each not in self._waiting):
            self._feed(ticket, _CLOSE)
        self._settle(owner)

    # -- requests
    def ask(self, ticket: Ticket, nbytes: int) -> None:
        """A slot for ``nbytes`` bytes is asked for: granted, queued or refused. Asking again is harmless, and repeats the
        answer if there is one. Raises :class:`LocalProtocolError` only for numbers that mean nothing."""
        if nbytes < 1:
            raise LocalProtocolError(f"nbytes: expected 1 or above, got {nbytes}", field="nbytes")
        if ticket not in self._table and self._lives(ticket.owner):
            if len(self._rooms[ticket.owner]) >= self.tickets:  # nothing is kept of it
                self._out.append(Refused(ticket, _limit("staging tickets of a room", self.tickets)))
                return
            self._record(ticket, TicketRecord(RULES.initial, nbytes=nbytes))
        fits, free, place = nbytes <= self.nbytes, bool(self._free), len(self._waiting) < self.queue
        self._feed(ticket, _ASK[fits, free, place])

    def start(self, ticket: Ticket) -> bool:
        """An operation of ours on the slot is about to be admitted. ``False``: admission is closed, it must not be."""
        record = self._at(ticket)
        if record.state not in (StagingState.GRANTED, StagingState.READY):
            return False
        self._put(ticket, own=record.own + 1)
        self._feed(ticket, _START)
        return True

    def quiet(self, ticket: Ticket) -> None:
        """One operation of ours on the slot can touch nothing any more: it ended, or it is fenced."""
        record = self._at(ticket)
        if record.own:
            self._put(ticket, own=record.own - 1)
        self._still(ticket)

    def filled(self, ticket: Ticket) -> None:
        """The whole chunk is in the slot. In a ring this is the peer's word that it writes no more, too."""
        self._feed(ticket, _FILLED)
        if self._at(ticket).theirs:
            self._put(ticket, theirs=False)
            self._still(ticket)

    def freed(self, ticket: Ticket) -> None:
        """What was in the slot was taken out. Raises :class:`LocalProtocolError` while there is nothing in it."""
        self._feed(ticket, _FREED)
        self._settle(ticket.owner)

    def drained(self, owner: SessionKey, peer: int) -> None:
        """Ring: the peer rank's word that nothing of it can touch slots of this room any more, or its fence."""
        for ticket in tuple(self._rooms.get(owner, ())):
            if ticket.peer == peer and self._at(ticket).theirs:
                self._put(ticket, theirs=False)
                self._still(ticket)

    # -- looking
    def take(self) -> list[StagingOutput]:
        """What is to be done since the last time, in order."""
        out, self._out = self._out, []
        return out

    def state(self, ticket: Ticket) -> StagingState:
        """Where a request stands; BACK for one of a room that is not open."""
        return self._at(ticket).state

    def slot(self, ticket: Ticket) -> int | None:
        """The slot that a request has now."""
        return self._at(ticket).slot

    def asked(self, owner: SessionKey) -> int:
        """How many requests the room made; raises ``KeyError`` for one that is not held."""
        return len(self._rooms[owner])

    def holds(self, owner: SessionKey) -> bool:
        """Is the room open, or does it still have slots?"""
        return owner in self._rooms

    @property
    def credits(self) -> int:
        """Slots that are free."""
        return len(self._free)

    @property
    def lent(self) -> int:
        """Slots that are not."""
        return sum(record.slot is not None for record in self._table.values())

    @property
    def waiting(self) -> tuple[Ticket, ...]:
        """Requests in the queue, the first one first."""
        return tuple(self._waiting)

    def gauges(self) -> dict[str, int]:
        """All zero but ``credits`` when idle."""
        return {"credits": self.credits, "lent": self.lent, "waiting": len(self._waiting), "rooms": len(self._rooms)}

    def snapshot(self) -> StagingSnapshot:
        """All there is, canonical and hashable. What is to be done must have been taken."""
        rooms = tuple(sorted((owner, owner in self._closing) for owner in self._rooms))
        return tuple(self._free), tuple(self._waiting), tuple(sorted(self._table.items(), key=_name)), rooms

    def restore(self, snapshot: StagingSnapshot) -> None:
        free, waiting, table, rooms = snapshot
        self._free, self._waiting, self._table = deque(free), deque(waiting), dict(table)
        self._rooms = {owner: [] for owner, _ in rooms}
        self._closing = {owner for owner, closing in rooms if closing}
        for ticket in self._table:
            self._rooms[ticket.owner].append(ticket)
        self._out = []

    # -- the machine
    def _feed(self, ticket: Ticket, signal: Signal) -> None:
        """Follow the table and carry the row's effects out. The only place where a node moves."""
        record = self._at(ticket)
        node = record.node
        edge = node.edges.get(signal) or node.rules.expand(node, signal)
        if self.trace is not None:
            self.trace(ticket, edge, signal)
        self.late += node is _GONE
        self.broken += edge.verdict is Verdict.NEVER
        if edge.node is not node:
            self._record(ticket, msgspec.structs.replace(record, node=edge.node))
        for effect in edge.effects:
            _EFFECTS[effect](self, ticket)

    def _still(self, ticket: Ticket) -> None:
        record = self._at(ticket)
        if not record.own and not record.theirs:
            self._feed(ticket, _QUIET)
            self._settle(ticket.owner)

    def _at(self, ticket: Ticket) -> TicketRecord:
        record = self._table.get(ticket)
        if record is not None:
            return record
        return TicketRecord(RULES.initial if self._lives(ticket.owner) else _GONE)

    def _lives(self, owner: SessionKey) -> bool:
        return owner in self._rooms and owner not in self._closing

    def _record(self, ticket: Ticket, record: TicketRecord) -> None:
        """Keep it, if its room is open: nothing is remembered of others."""
        if ticket in self._table or self._lives(ticket.owner):
            if ticket not in self._table:
                self._rooms[ticket.owner].append(ticket)
            self._table[ticket] = record

    def _put(self, ticket: Ticket, *, own: int | None = None, theirs: bool | None = None) -> None:
        record = self._table[ticket]
        own, theirs = record.own if own is None else own, record.theirs if theirs is None else theirs
        self._table[ticket] = msgspec.structs.replace(record, own=own, theirs=theirs)

    def _settle(self, owner: SessionKey) -> None:
        """Forget a room that is over when all its slots are back."""
        if owner in self._closing and all(self._table[ticket].over for ticket in self._rooms[owner]):
            for ticket in self._rooms.pop(owner):
                del self._table[ticket]
            self._closing.remove(owner)

    # -- effects
    def _take_slot(self, ticket: Ticket) -> None:
        slot = self._free.popleft()
        if self._waiting and self._waiting[0] == ticket:
            self._waiting.popleft()
        self._table[ticket] = msgspec.structs.replace(self._table[ticket], slot=slot, theirs=self.remote)
        if self.remote:
            self._feed(ticket, _START)  # with the grant the peer may write

    def _return_slot(self, ticket: Ticket) -> None:
        record = self._table[ticket]
        assert record.slot is not None
        self._table[ticket] = msgspec.structs.replace(record, slot=None)
        self._free.append(record.slot)
        self._out.append(Returned(ticket, record.slot))
        if self._waiting:
            self._feed(self._waiting[0], _TURN)

    def _join_queue(self, ticket: Ticket) -> None:
        self._waiting.append(ticket)

    def _leave_queue(self, ticket: Ticket) -> None:
        self._waiting.remove(ticket)

    def _send_grant(self, ticket: Ticket) -> None:
        record = self._table[ticket]
        assert record.slot is not None
        self._out.append(Granted(ticket, record.slot))

    def _send_no_slot(self, ticket: Ticket) -> None:
        large = self._table[ticket].nbytes > self.nbytes
        limit = _limit("staging slot in bytes", self.nbytes) if large else _limit("staging queue", self.queue)
        self._out.append(Refused(ticket, limit))

    def _slot_ready(self, ticket: Ticket) -> None:
        slot = self._table[ticket].slot
        assert slot is not None
        self._out.append(SlotReady(ticket, slot))


_EFFECTS: dict[Effect, Callable[[Staging, Ticket], None]] = {
    Effect.TAKE_SLOT: Staging._take_slot,
    Effect.RETURN_SLOT: Staging._return_slot,
    Effect.JOIN_QUEUE: Staging._join_queue,
    Effect.LEAVE_QUEUE: Staging._leave_queue,
    Effect.SEND_GRANT: Staging._send_grant,
    Effect.SEND_NO_SLOT: Staging._send_no_slot,
    Effect.SLOT_READY: Staging._slot_ready,
}


def _limit(table: str, limit: int) -> Failure:
    return Failure(Cause.LIMIT, (("table", table), ("limit", limit)))


def _name(entry: tuple[Ticket, TicketRecord]) -> Ticket:
    return entry[0]
