"""A prefill engine: computes prompts chunk by chunk, those of several requests in turns, and hands each chunk over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import pack

from tiny_model import greedy

from demo.engine import Engine
from demo.legs import Leg
from demo.setting import CHUNK, EngineSetting, Message
from kvpoll.runtime import KVSender, Released, Request
from kvpoll.spec import KVPoll

__all__ = ["PrefillEngine"]

_BATCH = 4  #: requests whose chunks are interleaved


class _Leg(Leg):
    def __init__(self, engine: PrefillEngine, command: Message) -> None:
        super().__init__(command, engine.ranks)
        self.request = Request.of(self.prompt)
        self.handles: list[KVSender] = [KVSender(rank.manager, self.room, self.request) for rank in engine.ranks]
        self.gives_up_after: int | None = command.get("give_up_after")  #: chunks, for the demonstration of an abort
        self.stalls: bool = command.get("stall", False)  #: after a chunk, for the demonstration of a lost engine
        self.computed = 0  #: tokens
        self.given_up = False


class PrefillEngine(Engine):
    def __init__(self, setting: EngineSetting, emit: Callable[[Message], None]) -> None:
        super().__init__(setting, emit)
        self._waiting: deque[_Leg] = deque()
        self._running: deque[_Leg] = deque()

    def warm_up(self) -> None:
        pages = list(range(self.model.pages_for(CHUNK)))
        self.pools, _ = self.model.prefill_chunk(self.pools, [0] * CHUNK, 0, pages)

    def obey(self, command: Message) -> None:
        if command["do"] == "room":
            leg = _Leg(self, command)
            self.legs[leg.room] = leg
            self._waiting.append(leg)
            self.emit({"event": "leg", "room": leg.room})
        else:
            super().obey(command)

    def compute(self) -> bool:
        """One chunk of the request whose turn it is."""
        self._admit()
        if not self._running:
            return False
        leg = self._running.popleft()
        if leg.state() is KVPoll.Failed:
            self._stop(leg)
        elif leg.gives_up_after is not None and leg.computed >= leg.gives_up_after * CHUNK:
            leg.given_up = True
            self._give_up(leg)
        elif self._chunk(leg):
            self._stop(leg)
        elif not leg.stalls:
            self._running.append(leg)
        return True

    def _admit(self) -> None:
        while self._waiting and len(self._running) < _BATCH:
            leg = self._waiting[0]
            if leg.state() is not KVPoll.Failed:
                hold = leg.take(self.pages, self.model.pages_for(len(leg.prompt)))
                if hold is None:
                    return
                for handle, slot in zip(leg.handles, leg.slots, strict=True):
                    handle.init(len(hold.pages), slot)
                self._running.append(leg)
            self._waiting.popleft()

    def _chunk(self, leg: _Leg) -> bool:
        """Compute the next chunk and hand it over, every rank its own part; true after the last one. Its pages are ours and
        kvpoll's until then."""
        assert leg.hold is not None
        size, start = self.model.page_tokens, leg.computed
        tokens = leg.prompt[start : start + CHUNK]
        self.pools, logits = self.model.prefill_chunk(self.pools, tokens, start, leg.hold.pages)
        leg.computed += len(tokens)
        last = leg.computed == len(leg.prompt)
        if last:
            # The first token travels in the aux slot: the decode engine never sees these logits.
            for rank, slot in zip(self.ranks, leg.slots, strict=True):
                if slot is not None:
                    rank.aux.write(slot, leg.room, leg.request.fingerprint(), pack("<i", greedy(logits)))
        chunk = leg.hold.pages[start // size : -(-leg.computed // size)]
        leg.hold.lend(chunk)
        for rank, handle in zip(self.ranks, leg.handles, strict=True):
            handle.send(chunk, self.pools[rank.shard])
        return last

    def _give_up(self, leg: _Leg) -> None:
        """Abort half-way: once the legs have met, so that both engines are in the middle of it."""
        if leg.state() is not KVPoll.Bootstrapping:
            leg.abort("the prompt asks for a tool that this model does not have", status=400)
            self._stop(leg)

    def _stop(self, leg: _Leg) -> None:
        assert leg.hold is not None
        leg.hold.done()
        if leg.computed < len(leg.prompt):
            for rank in range(len(self.ranks)):
                leg.free_slot(rank)  # they go with the last chunk, and there won't be one

    def moved(self, leg: Leg, state: KVPoll) -> None:
        assert isinstance(leg, _Leg)
        if leg.given_up:
            self._give_up(leg)
        # A room that has failed is dropped when its turn comes.

    def released(self, leg: Leg, rank: int, released: Released) -> None:
        assert leg.hold is not None
        leg.hold.back(released.pages, rank)
        if released.slot is not None:
            leg.free_slot(rank)
