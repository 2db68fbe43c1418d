"""A prefill engine: computes prompts chunk by chunk, those of several requests in turns, and hands each chunk over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import pack

from tiny_model import greedy

from demo.engine import Engine, Leg
from demo.setting import CHUNK, EngineSetting, Message
from kvpoll.runtime import KVSender, Released, Request
from kvpoll.spec import KVPoll

__all__ = ["PrefillEngine"]

_BATCH = 4  #: requests whose chunks are interleaved


class _Leg(Leg):
    def __init__(self, engine: PrefillEngine, command: Message) -> None:
        super().__init__(command)
        self.request = Request.of(self.prompt)
        self.handle: KVSender = KVSender(engine.manager, self.room, self.request)
        self.gives_up_after: int | None = command.get("give_up_after")  #: chunks, for the demonstration of an abort
        self.stalls: bool = command.get("stall", False)  #: after a chunk, for the demonstration of a lost engine
        self.computed = 0  #: tokens
        self.given_up = False


class PrefillEngine(Engine):
    def __init__(self, setting: EngineSetting, emit: Callable[[Message], None]) -> None:
        super().__init__(setting, emit)
        self._waiting: deque[_Leg] = deque()
        self._running: deque[_Leg] = deque()

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
        if leg.handle.poll() is KVPoll.Failed:
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
            if leg.handle.poll() is not KVPoll.Failed:
                hold = leg.take(self.pages, self.setting.model.pages_for(len(leg.prompt)), self.aux)
                if hold is None:
                    return
                leg.handle.init(len(hold.pages), leg.slot)
                self._running.append(leg)
            self._waiting.popleft()

    def _chunk(self, leg: _Leg) -> bool:
        """Compute the next chunk and hand it over; true after the last one. Its pages are ours and kvpoll's until then."""
        assert leg.hold is not None
        assert leg.slot is not None
        size, start = self.setting.model.page_size, leg.computed
        tokens = leg.prompt[start : start + CHUNK]
        self.pool, logits = self.model.prefill_chunk(self.pool, tokens, start, leg.hold.pages)
        leg.computed += len(tokens)
        last = leg.computed == len(leg.prompt)
        if last:
            # The first token travels in the aux slot: the decode engine never sees these logits.
            self.aux.write(leg.slot, leg.room, leg.request.fingerprint(), pack("<i", greedy(logits)))
        chunk = leg.hold.pages[start // size : -(-leg.computed // size)]
        leg.hold.lend(chunk)
        leg.handle.send(chunk, self.pool)
        return last

    def _give_up(self, leg: _Leg) -> None:
        """Abort half-way: once the legs have met, so that both engines are in the middle of it."""
        if leg.handle.poll() is not KVPoll.Bootstrapping:
            leg.handle.abort("the prompt asks for a tool that this model does not have", status=400)
            self._stop(leg)

    def _stop(self, leg: _Leg) -> None:
        assert leg.hold is not None
        leg.hold.done()
        if leg.computed < len(leg.prompt) and leg.slot is not None:
            self.aux.free(leg.slot)  # it goes with the last chunk, and there won't be one
            leg.slot = None

    def moved(self, leg: Leg, state: KVPoll) -> None:
        assert isinstance(leg, _Leg)
        if leg.given_up:
            self._give_up(leg)
        # A room that has failed is dropped when its turn comes.

    def released(self, leg: Leg, released: Released) -> None:
        assert leg.hold is not None
        leg.hold.back(released.pages)
        if released.slot is not None:
            self.aux.free(released.slot)
            leg.slot = None
