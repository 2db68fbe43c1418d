"""The rigs of the push transports, for the contract and for their own tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from kvpoll.runtime.transports.inproc import Fate, InprocHub, InprocTransport
from kvpoll.runtime.transports.memory import BufferPool
from kvpoll.runtime.transports.zmq_push import ZmqPushTransport

from .contract import LIMIT_S, Array, PushRig


class InprocRig(PushRig):
    def __init__(self) -> None:
        self.hub = InprocHub()
        self.connect(InprocTransport(self.hub), InprocTransport(self.hub))

    @contextmanager
    def hold(self) -> Iterator[None]:
        self.hub.faults.default = Fate.HOLD
        yield
        self.hub.faults.default = Fate.DELIVER
        for op in self.hub.on_wire():
            self.hub.release(op)


class ZmqRig(PushRig):
    def __init__(self, *, use_ipc: bool = True) -> None:
        self.push = ZmqPushTransport(use_ipc=use_ipc)
        self.land = ZmqPushTransport(use_ipc=use_ipc)
        self.connect(self.push, self.land)

    def hold(self) -> AbstractContextManager[None]:
        return standing_still(self.land)


class SharedRig(ZmqRig):
    """Every payload is staged where the transport wants it: in memory that the receiver can read, if it is large enough."""

    def __init__(self) -> None:
        super().__init__()
        self.staging = BufferPool(64 << 20, self.push.staging())

    def begin(self, key: int, part: int, payload: Array, link: str | None = None) -> int:
        staged = self.staging.lend(payload.nbytes)
        np.copyto(staged, payload)
        return super().begin(key, part, staged, link)


@contextmanager
def standing_still(transport: ZmqPushTransport) -> Iterator[None]:
    """Its I/O thread does nothing meanwhile, like that of a stopped process."""
    assert transport._io is not None
    stands, go_on = threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        go_on.wait(LIMIT_S)

    transport._io.post(stand)
    assert stands.wait(LIMIT_S)
    try:
        yield
    finally:
        go_on.set()
