"""The receive memory of a process: a ring of staging slots that attempts take whole, and whose credits are conserved.

What the words of :mod:`kvpoll.spec.staging_table` mean here. *Request*: the engine hands its pages over
(``send_metadata``), and with them asks for as many slots as the data of the attempt needs. *Grant*: the announcement goes to
the sender ranks; from here on they may write. *Ready*: every part is here. *Freed*: the engine wrote the rows into its
pages, or the room failed and nothing in flight can touch the slots any more (the lease of the receive buffer came back).
Admission is all or nothing, so two attempts never hold half of what both need, and no sender waits for a slot.

Where a transport lets us say where its bytes land (push), they land in the slots; a transport that makes the memory itself
(``jax`` pulls into arrays of its own) is counted by the same credits, and no memory is set aside for it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.staging import Granted, Staging, Ticket
from kvpoll.spec import Cause

from .config import Limits
from .transports.memory import ALIGN, Bytes, aligned_slots

__all__ = ["Landing", "ReceiveSlots", "no_slots"]


class Landing:
    """The slots of one attempt: parts are laid into them one after the other, wherever the next one fits whole. Adjacent slots
    are one piece of memory. All methods from any thread."""

    def __init__(self, spans: list[Bytes], over: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._spans, self._used = spans, [0] * len(spans)
        self._live: dict[int, weakref.ref[Bytes]] = {}  # a view may end inside the garbage collector: it only pops here
        self._next = 0
        self._over = over

    def lend(self, nbytes: int) -> Bytes | None:
        """Memory of shape ``(nbytes,)``, aligned to 64 bytes, with arbitrary content; ``None`` when no slot has so much left
        (a part of another size than was planned for): it lands elsewhere then."""
        with self._lock:
            for at, span in enumerate(self._spans):
                start = self._used[at]
                if start + nbytes <= span.nbytes:
                    self._used[at] = -(-(start + nbytes) // ALIGN) * ALIGN
                    # Views keep alive the last array before a foreign owner: through the memoryview that is ``loan``.
                    loan = np.frombuffer(span.data[start : start + nbytes], np.uint8)
                    self._next += 1
                    self._live[self._next] = weakref.ref(loan, partial(self._ended, self._next))
                    return loan
        return None

    def quiet(self) -> bool:
        """Does nobody here look at the slots any more: no view, no accelerator array that aliases one?"""
        return not self._live

    def _ended(self, number: int, _: weakref.ref[Bytes]) -> None:
        self._live.pop(number, None)
        self._over()


class ReceiveSlots:
    """``slots`` slots of ``nbytes`` bytes; ``memory``: allocate them now. Used under the process's lock, but for
    :meth:`Landing.lend`. ``back``: called when slots came back after their lease did, because somebody still read them."""

    def __init__(
        self, slots: int, nbytes: int, *, memory: bool = True, back: Callable[[], None] = lambda: None
    ) -> None:
        self._staging = Staging(slots, nbytes, queue=0, remote=True)
        self._memory = aligned_slots(slots, nbytes) if memory else None
        self._limit, self.nbytes, self._told = slots, nbytes, back
        self._landings: dict[SessionKey, Landing] = {}
        self._tickets: dict[SessionKey, list[Ticket]] = {}
        self._read: set[SessionKey] = set()  #: their lease is back, and somebody still looks at their slots
        self._ends = deque[None](maxlen=1)  #: a view ended: there may be something to do

    @classmethod
    def of(cls, limits: Limits, *, memory: bool, back: Callable[[], None]) -> ReceiveSlots | None:
        """What a configuration asks for; ``None`` when it asks for none."""
        if not limits.staging_slots:
            return None
        return cls(limits.staging_slots, limits.staging_nbytes, memory=memory, back=back)

    def take(self, key: SessionKey, nbytes: int) -> None:
        """As many slots as an attempt's data needs. Raises :class:`LocalProtocolError` (LIMIT) when there are not so many; none
        is taken then."""
        self.tick()
        count = max(1, -(-nbytes // self.nbytes))
        tickets = [Ticket(key, 0, no) for no in range(count)]
        self._staging.open(key)
        for ticket in tickets:
            self._staging.ask(ticket, min(nbytes, self.nbytes))
        granted = [out.slot for out in self._staging.take() if isinstance(out, Granted)]
        self._tickets[key] = tickets
        if len(granted) < count:
            self._free(key)
            raise no_slots(count, self._limit)
        if self._memory is not None:
            self._landings[key] = Landing(list(self._spans(granted)), partial(self._ends.append, None))

    def landing(self, key: SessionKey) -> Landing | None:
        """Where the parts of this attempt land; ``None``: anywhere."""
        return self._landings.get(key)

    def ready(self, key: SessionKey) -> None:
        """Every part of the attempt is here: whoever wrote it writes no more."""
        for ticket in self._tickets.get(key, ()):
            self._staging.filled(ticket)
        self._staging.take()

    def back(self, key: SessionKey) -> None:
        """The lease of the receive buffer came back: no peer can write any more. Nothing for an attempt that has no slots."""
        if key not in self._tickets:
            return
        landing = self._landings.get(key)
        if landing is None or landing.quiet():
            self._free(key)
        else:
            self._read.add(key)

    def tick(self) -> None:
        """Slots that somebody still read when their lease came back."""
        if not self._ends:
            return
        self._ends.clear()
        over = [key for key in self._read if self._landings[key].quiet()]
        for key in over:
            self._read.discard(key)
            self._free(key)
        if over:
            self._told()

    def gauges(self) -> dict[str, int]:
        """Zero when idle."""
        self.tick()
        return {"staging.lent": self._staging.gauges()["lent"]}

    def _free(self, key: SessionKey) -> None:
        """Close first: what ends here must not be granted what it just gave back."""
        self._landings.pop(key, None)
        del self._tickets[key]
        self._staging.close(key)
        self._staging.drained(key, 0)
        self._staging.take()

    def _spans(self, slots: list[int]) -> list[Bytes]:
        """Their memory, runs of adjacent slots as one."""
        assert self._memory is not None
        stride, spans = self._memory.nbytes // self._limit, list[Bytes]()
        ordered = sorted(slots)
        starts = [at for at, slot in enumerate(ordered) if at == 0 or ordered[at - 1] != slot - 1]
        for first, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
            spans.append(self._memory[ordered[first] * stride : (ordered[end - 1] + 1) * stride])
        return spans


def no_slots(wanted: int, limit: int) -> LocalProtocolError:
    """So many slots are not free now."""
    return LocalProtocolError(
        f"staging_slots: expected {wanted} free ones of {limit}; try again when some came back", Cause.LIMIT,
        table="staging slots", limit=limit, field="staging_slots",
    )  # fmt: skip
