"""What KVSender and KVReceiver share: one room at one rank, as an engine holds it.

``poll()`` is a plain read. ``clear()`` drops the handle, never a lease nor the duty to answer the peer: what the room still
holds comes back through :meth:`KVManager.released`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.errors import Failure, KVTransferError, LocalProtocolError
from kvpoll.protocol.records import LeaseKind, SessionKey
from kvpoll.spec import KVPoll

from .relay import Arrived
from .request import Request

if TYPE_CHECKING:
    from .manager import KVManager, Released

__all__ = ["Handle", "PageIds"]

#: Page ids of an engine, in token order.
PageIds = Sequence[int] | npt.NDArray[np.integer]


class Handle:
    """What both ends have. Slotted: an engine polls all of its handles in turn, and a pass over many is as fast as memory."""

    __slots__ = ("_failure", "_key", "_state", "bootstrap_room", "manager", "request", "times")

    def __init__(self, manager: KVManager, room: int, request: Request) -> None:
        if not 0 <= room < 1 << 64:
            raise LocalProtocolError(f"bootstrap_room: expected a u64, got {room}", field="bootstrap_room")
        self.manager = manager
        self.bootstrap_room = room
        self.request = request
        self._state = KVPoll.Bootstrapping
        self._failure: Failure | None = None
        self._key: SessionKey | None = None
        self.times: list[tuple[KVPoll, float]] = [(KVPoll.Bootstrapping, monotonic())]  #: when each state was entered

    def poll(self) -> KVPoll:
        """The state of this rank. A plain read: no I/O, no lock."""
        return self._state

    def failure_exception(self) -> KVTransferError | None:
        """Why the room failed, as an exception to raise or to report; ``None`` when it has not. Clears nothing."""
        return None if self._failure is None else KVTransferError(self.bootstrap_room, self._failure)

    def abort(self, reason: str = "aborted by the engine", status: int = 0) -> None:
        """Give the request up: the peer is told at once. ``status`` is the HTTP status its client should get. Does nothing
        to a room that is over."""
        if self._key is not None:
            key = self._key
            self.manager.call(lambda core: core.call(key, lambda session: session.abort(reason, status)))

    def clear(self) -> None:
        """Drop the handle. A room that is still live is aborted first: nobody could end it any more."""
        if self._state not in (KVPoll.Success, KVPoll.Failed):
            self.abort("cleared by the engine while live")

    # Under the manager's lock.
    def moved(self, state: KVPoll, failure: Failure | None) -> None:
        if state is not self._state:
            self.times.append((state, monotonic()))
        self._failure = failure  # first: whoever reads Failed can ask why
        self._state = state

    def arrived(self, parts: list[Arrived]) -> None:
        raise AssertionError("only a receiver commits")

    def lent(self, kind: LeaseKind, no: int) -> Released:
        raise NotImplementedError

    def _check_aux(self, slot: int | None) -> None:
        if slot is None:
            return
        if self.manager.aux is None:
            raise LocalProtocolError("aux_index: the manager was made without aux slots", field="aux_index")
        self.manager.aux.check(slot, "aux_index")

    def _pages(self) -> int:
        """Pages of the whole hand-off: those that hold [prefix, N)."""
        return pages_for(self.request.prefix, self.request.tokens, self.manager.config.engine.page_tokens)
