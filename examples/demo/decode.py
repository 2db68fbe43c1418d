"""A decode engine: receives a prompt's KV and first token, and goes on from there. It never computes a prompt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from struct import unpack
from urllib.parse import urlsplit

import numpy as np
from tiny_model import greedy

from demo.engine import Engine
from demo.legs import Leg
from demo.proof import digests
from demo.setting import CHUNK, EngineSetting, Message
from kvpoll.kernels import gather_pages, scatter_pages
from kvpoll.protocol.errors import KVTransferError, LocalProtocolError
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import AuxAnswer, KVReceiver, Released, Request
from kvpoll.spec import Cause, KVPoll

__all__ = ["DecodeEngine"]


class _Leg(Leg):
    handles: list[KVReceiver]

    def __init__(self, engine: DecodeEngine, command: Message) -> None:
        request = Request.of(command["prompt"])
        handles = _handles(engine, command, request)
        super().__init__(command, engine.ranks[: len(handles)])
        self.request, self.handles = request, handles
        self.steps: int = command["new_tokens"]
        self.cancels: bool = command.get("cancel", False)  #: for the demonstration of an abort
        self.stalls: bool = command.get("stall", False)  #: for the demonstration of a lost engine
        self.tokens: list[int] = []
        self.slots_back: set[int] = set()  #: ranks at which kvpoll has given the aux slot back


def _handles(engine: DecodeEngine, command: Message, request: Request) -> list[KVReceiver]:
    """One for each rank, told what sizes the prefill engine has. When they cannot meet, kvpoll says so here, and the prefill
    engine would wait for nothing: so the first ranks, which exist whatever the sizes, let the handshake say it to both."""
    url = urlsplit(engine.setting.bootstrap)
    where = url.hostname or "", url.port or 0, command["room"], request
    ours, theirs = engine.setting.shape, engine.setting.prefill
    try:
        return [
            KVReceiver(rank.manager, *where, namespace=command["prefill"], prefill=theirs if theirs != ours else None)
            for rank in engine.ranks
        ]
    except LocalProtocolError as error:
        if error.cause is not Cause.PLAN_REFUSED:
            raise
        return [KVReceiver(engine.ranks[0].manager, *where, namespace=command["prefill"])]


class DecodeEngine(Engine):
    def __init__(self, setting: EngineSetting, emit: Callable[[Message], None]) -> None:
        super().__init__(setting, emit)
        self._waiting: deque[_Leg] = deque()  #: for pages
        self._running: deque[_Leg] = deque()
        self._attempts = count(1)  #: the same number at all ranks: so that their peers know what belongs together

    def warm_up(self) -> None:
        """The model, and page copies of every size."""
        self.pools, _ = self.model.decode_step(self.pools, 0, 0, [0])
        for at, pool in enumerate(self.pools):
            if at == 0 or len(pool) != len(self.pools[0]):
                for some in range(1, self.model.pages_for(CHUNK) + 1):
                    ids = np.arange(some, dtype=np.int32)
                    pool = scatter_pages(pool, ids, gather_pages(pool, ids))  # type: ignore[assignment]
                self.pools[at] = pool

    def obey(self, command: Message) -> None:
        if command["do"] == "room":
            leg = _Leg(self, command)
            attempt = next(self._attempts)
            for handle in leg.handles:
                handle.init(gen=attempt)
            self.legs[leg.room] = leg
            self._waiting.append(leg)
            self.emit({"event": "leg", "room": leg.room})
        else:
            super().obey(command)

    def compute(self) -> bool:
        """Say where KV may go, write what has arrived, and one token of every running request."""
        self._admit()
        for leg in list(self.legs.values()):
            assert isinstance(leg, _Leg)
            if leg.cancels and leg.state() is KVPoll.Transferring:
                leg.abort("the client has gone away", status=499)
            elif self.eager(leg):
                self._commit(leg)
        for leg in list(self._running):
            position = len(leg.prompt) + len(leg.tokens) - 1
            assert leg.hold is not None
            self.pools, logits = self.model.decode_step(self.pools, leg.tokens[-1], position, leg.hold.pages)
            leg.tokens.append(greedy(logits))
            if len(leg.tokens) == leg.steps:
                self._finish(leg)
        return bool(self._running)

    def eager(self, leg: Leg) -> bool:
        assert isinstance(leg, _Leg)
        return not leg.stalls and any(handle.committable for handle in leg.handles)

    def _admit(self) -> None:
        while self._waiting:
            leg = self._waiting[0]
            if leg.state() is not KVPoll.Failed:
                hold = leg.take(self.pages, self.model.pages_for(len(leg.prompt) + leg.steps))
                if hold is None:
                    return
                into = hold.pages[: self.model.pages_for(len(leg.prompt))]  # the others are for the tokens to come
                hold.lend(into)
                for handle, slot in zip(leg.handles, leg.slots, strict=True):
                    handle.send_metadata(into, slot)
            self._waiting.popleft()

    def _commit(self, leg: _Leg) -> None:
        for rank, handle in zip(leg.ranks, leg.handles, strict=True):
            if handle.committable:
                try:
                    self.pools[rank.shard] = handle.commit(self.pools[rank.shard])
                except KVTransferError:
                    pass  # it failed in this very moment; the state says so
                except LocalProtocolError as error:
                    if error.cause is not Cause.ATTEMPT_OVER:
                        raise

    def moved(self, leg: Leg, state: KVPoll) -> None:
        assert isinstance(leg, _Leg)
        if state is KVPoll.Failed and leg.hold is not None:
            leg.hold.done()
            self._slots_done(leg)
        elif state is KVPoll.Success:
            firsts = {self._first_token(leg, rank) for rank in range(len(self.ranks)) if self.ranks[rank].has_aux}
            if len(firsts) != 1:
                raise AssertionError(f"room {leg.room}: the ranks were told {sorted(firsts)}, expected one first token")
            self._slots_done(leg)
            self._start(leg, firsts.pop())

    def _first_token(self, leg: _Leg, rank: int) -> int:
        slot = leg.slots[rank]
        assert slot is not None
        answer, content = self.ranks[rank].aux.read(slot, leg.room, leg.request.fingerprint())
        if answer is not AuxAnswer.RIGHT:
            raise AssertionError(
                f"room {leg.room}, {self.ranks[rank].name}: Success, and the aux slot is {answer.value}"
            )
        first: int = unpack("<i", content)[0]
        return first

    def _start(self, leg: _Leg, first: int) -> None:
        """From here on there is only this engine: the first token came in the aux slots, the KV in the pages."""
        assert leg.hold is not None
        pages = leg.hold.pages[: self.model.pages_for(len(leg.prompt))]
        page_nbytes = sum(layer.nbytes for pool in self.pools for layer in pool) // self.setting.pages
        self.emit(
            {"event": "arrived", "room": leg.room, "nbytes": len(pages) * page_nbytes + 4,
             "digests": digests(self.model, self.pools, pages, len(leg.prompt))}
        )  # fmt: skip
        leg.tokens = [first]
        if leg.steps == 1:
            self._finish(leg)
        else:
            self._running.append(leg)

    def _finish(self, leg: _Leg) -> None:
        if leg in self._running:
            self._running.remove(leg)
        assert leg.hold is not None
        leg.hold.done()
        self.emit({"event": "tokens", "room": leg.room, "tokens": leg.tokens})

    def released(self, leg: Leg, rank: int, released: Released) -> None:
        assert isinstance(leg, _Leg)
        if released.kind is LeaseKind.AUX:
            leg.slots_back.add(rank)
            if leg.told in (KVPoll.Failed, KVPoll.Success):
                self._slots_done(leg)
        else:
            assert leg.hold is not None
            leg.hold.back(released.pages, rank)

    def _slots_done(self, leg: _Leg) -> None:
        """Free the aux slots that were read (or never will be) and that kvpoll has given back."""
        for rank in leg.slots_back:
            leg.free_slot(rank)
