"""Two engines in one process, as far as hand-offs see them: a pool, its pages, aux slots, and a manager each.

Durations are short, so that what is to end by a clock ends within a test; nothing here waits for longer than ``PATIENCE``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import (
    AuxBuffer,
    AuxSlots,
    Durations,
    EngineSpec,
    KVManager,
    KVReceiver,
    KVSender,
    ManagerConfig,
    PagePool,
    Released,
    Request,
)
from kvpoll.runtime.transports.base import Transport
from kvpoll.spec import KVPoll

PAGE, LAYERS, WORDS, POOL, SLOTS = 4, 2, 8, 1024, 256
PATIENCE = 20.0
SPEC = EngineSpec(
    page_size=PAGE, layers=LAYERS, kv_dtype="uint16", layout="token,word", page_nbytes=PAGE * WORDS * 2, kv_heads=1,
    head_dim=WORDS, aux=(AuxBuffer(name="first_token", dtype="int32", shape=(1,)),),
)  # fmt: skip
SHORT = Durations(
    pairing=8, silence=8, total=30, sender_margin=5, gate=8, resend=0.05, hello=3, beat=0.05, lost=2, drain=3
)
#: For tests in which a peer really is lost.
LOSING = Durations.model_validate(SHORT.model_dump() | {"lost": 1})
Pool = list[npt.NDArray[np.uint16]]


def config(role: str, transport: str = "zmq", **changes: object) -> ManagerConfig:
    values: dict[str, object] = {"engine": SPEC, "transports": (transport,), "bootstrap": "none", "durations": SHORT}
    return ManagerConfig.model_validate({"role": role, **values, **changes})


class Engine:
    """One side. ``pool`` is filled with a pattern of its own (prefill) or zeros (decode)."""

    def __init__(
        self, role: str, transport: str = "zmq", *, transports: list[Transport] | None = None, **changes: object
    ) -> None:
        self.aux = AuxSlots(SLOTS, 64)
        self.manager = KVManager(config(role, transport, **changes), aux=self.aux, transports=transports)
        shape = (POOL, PAGE, WORDS)
        rng = np.random.default_rng(7)
        self.pool: Pool = [
            rng.integers(1, 1 << 16, shape, np.uint16) if role == "prefill" else np.zeros(shape, np.uint16)
            for _ in range(LAYERS)
        ]
        self.pages = PagePool(POOL)
        self.returned: list[Released] = []
        self._lock = threading.Lock()

    def collect(self) -> list[Released]:
        """What came back since the start, freed in our own tables."""
        with self._lock:
            for released in self.manager.released():
                self.returned.append(released)
                if released.pages:
                    self.pages.free(released.pages)
                if released.slot is not None:
                    self.aux.free(released.slot)
            return self.returned

    def allocate(self, request: Request) -> list[int]:
        with self._lock:
            pages = self.pages.allocate(pages_for(request.prefix, request.tokens, PAGE))
        assert pages is not None, "the pool is empty"
        return pages

    @property
    def idle(self) -> bool:
        """Nothing is lent and no table holds anything."""
        self.collect()
        return self.pages.idle and not self.aux.lent and not self.manager.busy()

    def becomes_idle(self) -> None:
        if not eventually(self.manager, lambda: self.idle):
            lent = POOL - self.pages.available
            raise AssertionError(f"not idle: {self.manager.busy()}, {self.aux.lent} slots, {lent} pages")


@contextmanager
def pair(transport: str = "zmq", **changes: object) -> Iterator[tuple[Engine, Engine]]:
    """A prefill and a decode engine; afterwards neither may have cut anything off."""
    p = Engine("prefill", transport, **changes)
    try:
        d = Engine("decode", transport, **changes)
        try:
            yield p, d
        finally:
            cut_d = d.manager.close()
    finally:
        cut_p = p.manager.close()
    assert (cut_p, cut_d) == ({}, {})


class Room:
    """Both ends of one hand-off, or one of them: ``p`` or ``d`` may live in another process (``None``), which is found at
    ``address`` (a control address) or through ``bootstrap``."""

    receiver: KVReceiver

    def __init__(
        self, p: Engine | None, d: Engine | None, room: int, tokens: int = 22, prefix: int = 0,
        aux: bytes | None = b"first token", bootstrap: tuple[str, int] | None = None, address: str | None = None,
    ) -> None:  # fmt: skip
        self.no = room
        self.request = Request.of(list(range(room, room + tokens)), prefix)
        self.content = aux
        if p is not None:
            self.p = p
            address = address or (p.manager.address if bootstrap is None else None)
        if d is not None:
            self.d = d
            self.receiver = KVReceiver(d.manager, *(bootstrap or ("", 0)), room, self.request, address=address)
        self.sender: KVSender | None = None
        self.source: list[int] = []
        self.target: list[int] = []
        self.slots: list[int | None] = [None, None]

    def prefill(self, *cuts: int, write_aux: bool = True) -> KVSender:
        """Create the sender and send everything, in chunks that end before the pages ``cuts``."""
        if self.sender is None:
            self.sender = KVSender(self.p.manager, self.no, self.request)
        self.source = self.p.allocate(self.request)
        if self.content is not None:
            slot = self.slots[0] = self.p.aux.allocate()
            assert slot is not None
            if write_aux:
                self.p.aux.write(slot, self.no, self.request.fingerprint(), self.content)
        self.sender.init(len(self.source), self.slots[0])
        stops = [*cuts, len(self.source)]
        for start, stop in zip([0, *cuts], stops, strict=True):
            self.sender.send(self.source[start:stop], self.p.pool)
        return self.sender

    def decode(self, gates: tuple[str, ...] = ()) -> KVReceiver:
        """Announce, and hand pages over."""
        self.receiver.init()
        self.target = self.d.allocate(self.request)
        if self.content is not None:
            self.slots[1] = self.d.aux.allocate()
        self.receiver.send_metadata(self.target, self.slots[1], gates=gates)
        return self.receiver

    def arrives(self) -> None:
        """Wait until everything is here."""
        r = self.receiver
        assert self.d.manager.wait(lambda: r.committable or r.poll() is KVPoll.Failed, PATIENCE), r.poll()
        assert r.poll() is not KVPoll.Failed, r.failure_exception()

    def commit(self) -> None:
        self.d.pool = self.receiver.commit(self.d.pool)

    def ends(self) -> tuple[KVPoll, KVPoll]:
        """Wait until both ends are over: (sender, receiver)."""
        over = (KVPoll.Success, KVPoll.Failed)
        assert self.sender is not None
        sender = self.sender
        assert self.d.manager.wait(lambda: self.receiver.poll() in over, PATIENCE), self.receiver.poll()
        assert self.p.manager.wait(lambda: sender.poll() in over, PATIENCE), sender.poll()
        return sender.poll(), self.receiver.poll()

    def check(self) -> None:
        """The bytes are the same at both ends, page by page, and the aux slot is this request's."""
        for mine, theirs in zip(self.p.pool, self.d.pool, strict=True):
            assert np.array_equal(np.asarray(mine)[self.source], np.asarray(theirs)[self.target])
        if self.slots[1] is not None:
            answer, content = self.d.aux.read(self.slots[1], self.no, self.request.fingerprint())
            assert (answer.value, content) == ("right", self.content)

    def run(self, *cuts: int) -> None:
        """The whole hand-off, checked."""
        self.decode()
        self.run_on(*cuts)

    def run_on(self, *cuts: int) -> None:
        """What is left of it once decode has said where the data goes, checked."""
        self.prefill(*cuts)
        self.arrives()
        self.commit()
        assert self.ends() == (KVPoll.Success, KVPoll.Success), (
            self.receiver.failure_exception(),
            self.sender and self.sender.failure_exception(),
        )
        self.check()


def eventually(manager: KVManager, true: Callable[[], bool]) -> bool:
    """Wait for something that changes without a word to the engine (a gauge, a thread of a test): look now and then."""
    return any(manager.wait(true, 0.02) for _ in range(int(PATIENCE / 0.02)))


def kinds(released: list[Released]) -> Counter[LeaseKind]:
    return Counter(each.kind for each in released)


def detail(handle: KVSender | KVReceiver, name: str) -> object:
    error = handle.failure_exception()
    return None if error is None else error.details.get(name)


def cause(handle: KVSender | KVReceiver) -> str:
    error = handle.failure_exception()
    return "" if error is None else error.cause.name
