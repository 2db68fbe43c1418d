"""The host pool of a sender: the gathered copies of its chunks lie in staging slots. :mod:`.receive_slots` is the other end.

Both are admission, and all or nothing: a chunk (at a sender) or an attempt (at a receiver) gets every slot that it needs, or the
engine's call is refused with LIMIT and may be made again when :meth:`~.manager.KVManager.wait` wakes. No thread waits for a slot.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kvpoll.protocol.errors import Failure, LocalProtocolError
from kvpoll.protocol.records import SessionKey

from .config import Limits
from .receive_slots import no_slots
from .staging import Loan, StagingPool
from .transports.memory import Bytes

__all__ = ["SendSlots", "Slots"]


class Slots:
    """Where the copies of one chunk are made, in order: a :class:`~.kv.Lender`."""

    def __init__(self, loans: Sequence[Loan]) -> None:
        self.loans = list(loans)
        self._next = 0

    def lend(self, nbytes: int) -> Bytes:
        """The memory of the next slot."""
        loan = self.loans[self._next]
        self._next += 1
        return loan.view[:nbytes]


class SendSlots:
    """The host pool of a sender's process. All methods from any thread."""

    def __init__(self, slots: int, nbytes: int) -> None:
        self._pool = StagingPool(slots, nbytes, queue=0)
        self._lock = threading.Lock()  #: two chunks do not take slots from each other half-way
        self._limit = slots
        self._open = set[SessionKey]()
        self._of: dict[tuple[SessionKey, int], Loan] = {}
        self.nbytes = nbytes

    @classmethod
    def of(cls, limits: Limits) -> SendSlots | None:
        """What a configuration asks for; ``None`` when it asks for none."""
        return cls(limits.staging_slots, limits.staging_nbytes) if limits.staging_slots else None

    def open(self, key: SessionKey) -> None:
        with self._lock:
            self._open.add(key)
        self._pool.open(key)

    def close(self, key: SessionKey) -> None:
        """The room's record is gone."""
        with self._lock:
            self._open.discard(key)
        self._pool.close(key)

    def take(self, key: SessionKey, sizes: Sequence[int]) -> Slots | None:
        """A slot for each of these sizes, in bytes; ``None`` for a room that is over. Raises :class:`LocalProtocolError`: LIMIT
        when there are not so many, or a size that fits in none; none is taken then."""
        largest = max(sizes, default=0)
        if largest > self.nbytes:
            raise LocalProtocolError(
                f"staging_nbytes: expected at least {largest}, got {self.nbytes}", field="staging_nbytes"
            )
        granted, refused = list[Loan](), list[Failure]()
        with self._lock:
            if key not in self._open:
                return None
            for nbytes in sizes:
                self._pool.request(key, nbytes, granted.append, refused.append)
                if refused:
                    break
            if not refused:
                return Slots(granted)
            for loan in granted:
                self._back(loan)
        raise no_slots(len(sizes), self._limit)

    def give_back(self, slots: Slots) -> None:
        """A chunk that was not taken after all."""
        for loan in slots.loans:
            self._back(loan)

    def bind(self, key: SessionKey, no: int, loan: Loan) -> None:
        """The copy of this part is made in this slot, and read there until :meth:`back`."""
        self._pool.start(loan.ticket)
        self._pool.filled(loan.ticket)
        self._of[key, no] = loan

    def back(self, key: SessionKey, no: int) -> None:
        """The lease of the copy came back: nothing reads it any more. Nothing for a copy that is in no slot."""
        loan = self._of.pop((key, no), None)
        if loan is not None:
            self._pool.quiet(loan.ticket)
            self._pool.freed(loan.ticket)

    def _back(self, loan: Loan) -> None:
        self._pool.filled(loan.ticket)
        self._pool.freed(loan.ticket)

    def gauges(self) -> dict[str, int]:
        """Zero when idle."""
        return {"staging.lent": self._pool.gauges()["lent"]}
