"""Staging slots in host memory: one allocation, cut into slots, lent by :mod:`kvpoll.protocol.staging`.

An engine that copies a chunk out of its device has its pages back before the peer has read a byte; what that may cost is
said once, in ``Limits.staging_slots`` and ``staging_nbytes``, and allocated at the start. A request never blocks: it is
granted now, or when a slot comes back, or refused with the numbers, each by a call of a function that the asker gave.

Those functions run without the pool's lock, one after the other, on the thread whose call caused them: they may call the
pool. After :meth:`StagingPool.close` nothing is called for that room any more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kvpoll.protocol.errors import Failure, LocalProtocolError
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.staging import Granted, Refused, SlotReady, Staging, StagingOutput, Ticket

from .config import Limits
from .transports.memory import Bytes, aligned_slots

__all__ = ["Asker", "Loan", "StagingPool"]


class Loan(NamedTuple):
    """A slot that was granted. ``view``: its memory, shape ``(nbytes,)`` as asked for, aligned to 64 bytes, with arbitrary
    content. It must not be touched any more once the ticket was freed or its room closed."""

    ticket: Ticket
    slot: int
    view: Bytes


class Asker(NamedTuple):
    """Whom to tell. ``granted`` comes again when a peer asks again (a ring); ``ready`` when the slot was filled."""

    granted: Callable[[Loan], None]
    refused: Callable[[Failure], None]
    ready: Callable[[Loan], None] | None = None


_Call: TypeAlias = Callable[[], None]


class StagingPool:
    """``slots`` slots of ``nbytes`` bytes; ``queue`` requests may wait. All methods from any thread, none of them waits.

    ``remote``: the slots are filled by peers (a receiver's ring); else by us (a sender's host pool).
    """

    def __init__(self, slots: int, nbytes: int, *, queue: int = 1024, remote: bool = False) -> None:
        self._lock = threading.Lock()
        self._staging = Staging(slots, nbytes, queue=queue, remote=remote)
        self._memory = aligned_slots(slots, nbytes)
        self._stride = self._memory.nbytes // slots
        self._askers: dict[SessionKey, dict[Ticket, tuple[Asker, int]]] = {}
        self._calls: deque[_Call] = deque()
        self._calling = False

    @classmethod
    def of(cls, limits: Limits, *, remote: bool = False) -> StagingPool | None:
        """The pool that a configuration asks for; ``None`` when it asks for none."""
        if not limits.staging_slots:
            return None
        return cls(limits.staging_slots, limits.staging_nbytes, queue=limits.staging_queue, remote=remote)

    # -- rooms
    def open(self, owner: SessionKey) -> None:
        """A room may ask from here on. Raises :class:`LocalProtocolError` for one that is known already."""
        with self._lock:
            self._staging.open(owner)
            self._askers[owner] = {}

    def close(self, owner: SessionKey) -> None:
        """The room is over, whatever ended it. Its waiting requests are forgotten, its slots come back as soon as nothing can
        touch them. Harmless for a room that is not open."""
        with self._lock:
            self._askers.pop(owner, None)
            self._staging.close(owner)
            self._note()
        self._tell()

    # -- requests
    def request(
        self,
        owner: SessionKey,
        nbytes: int,
        granted: Callable[[Loan], None],
        refused: Callable[[Failure], None],
        ready: Callable[[Loan], None] | None = None,
    ) -> Ticket:
        """Ask for a slot of ``nbytes`` bytes; exactly one of ``granted`` and ``refused`` follows, now or later, unless the
        room is closed before. Raises :class:`LocalProtocolError` when the room is not open."""
        with self._lock:
            if owner not in self._askers:
                raise LocalProtocolError(f"owner: expected a room that is open, got {owner}", field="owner")
            ticket = Ticket(owner, 0, self._staging.asked(owner))
            self._ask(ticket, nbytes, Asker(granted, refused, ready))
        self._tell()
        return ticket

    def heard(self, ticket: Ticket, nbytes: int, asker: Asker) -> None:
        """Ring: a peer asks, perhaps not for the first time. Late ones change nothing. Raises :class:`LocalProtocolError`
        for a number of bytes that means nothing."""
        with self._lock:
            self._ask(ticket, nbytes, asker)
        self._tell()

    def start(self, ticket: Ticket) -> bool:
        """An operation of ours on the slot is about to begin. ``False``: the room is over, it must not."""
        with self._lock:
            return self._staging.start(ticket)

    def quiet(self, ticket: Ticket) -> None:
        """One such operation can touch nothing any more: it ended, or it is fenced."""
        self._do(lambda staging: staging.quiet(ticket))

    def filled(self, ticket: Ticket) -> None:
        """All of it is in the slot (a ring: the peer's word for that)."""
        self._do(lambda staging: staging.filled(ticket))

    def freed(self, ticket: Ticket) -> None:
        """What was in the slot was taken out of it. Raises :class:`LocalProtocolError` while nothing is in it."""
        self._do(lambda staging: staging.freed(ticket))

    def drained(self, owner: SessionKey, peer: int) -> None:
        """Ring: nothing of this peer rank can touch slots of the room any more: its drain word, or its fence."""
        self._do(lambda staging: staging.drained(owner, peer))

    # -- looking
    @property
    def nbytes(self) -> int:
        """Of one slot: what a request may ask for."""
        return self._staging.nbytes

    def gauges(self) -> dict[str, int]:
        """``credits`` (free slots), ``lent``, ``waiting``, ``rooms``; all but credits are zero when idle."""
        with self._lock:
            return self._staging.gauges()

    # -- with the lock held
    def _ask(self, ticket: Ticket, nbytes: int, asker: Asker) -> None:
        self._staging.ask(ticket, nbytes)
        if ticket.owner in self._askers:
            first = self._askers[ticket.owner].setdefault(ticket, (asker, nbytes))
            self._askers[ticket.owner][ticket] = (asker, first[1])
        self._note()

    def _note(self) -> None:
        for out in self._staging.take():
            found = self._askers.get(out.ticket.owner, {}).get(out.ticket)
            if found is not None:
                self._calls.extend(self._call(out, *found))

    def _call(self, out: StagingOutput, asker: Asker, nbytes: int) -> list[_Call]:
        match out:
            case Refused(failure=failure):
                return [lambda: asker.refused(failure)]
            case Granted(ticket=ticket, slot=slot):
                loan = Loan(ticket, slot, self._view(slot, nbytes))
                return [lambda: asker.granted(loan)]
            case SlotReady(ticket=ticket, slot=slot) if asker.ready is not None:
                ready, full = asker.ready, Loan(ticket, slot, self._view(slot, nbytes))
                return [lambda: ready(full)]
        return []

    def _view(self, slot: int, nbytes: int) -> Bytes:
        return self._memory[slot * self._stride : slot * self._stride + nbytes]

    # -- without the lock
    def _do(self, what: Callable[[Staging], None]) -> None:
        with self._lock:
            what(self._staging)
            self._note()
        self._tell()

    def _tell(self) -> None:
        """Make the calls that are due, in order, unless another thread (or a caller of ours) is doing that."""
        while True:
            with self._lock:
                if self._calling or not self._calls:
                    return
                self._calling, call = True, self._calls.popleft()
            try:
                try:
                    call()
                finally:
                    with self._lock:
                        self._calling = False
            except Exception:
                self._tell()  # the other askers are told all the same
                raise
