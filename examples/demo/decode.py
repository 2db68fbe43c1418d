"""A decode engine: receives a prompt's KV and first token, and goes on from there. It never computes a prompt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import unpack
from urllib.parse import urlsplit

from tiny_model import greedy

from demo.engine import Engine, Leg
from demo.proof import digests
from demo.setting import EngineSetting, Message, page_nbytes
from kvpoll.protocol.errors import KVTransferError, LocalProtocolError
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import AuxAnswer, KVReceiver, Released, Request
from kvpoll.spec import Cause, KVPoll

__all__ = ["DecodeEngine"]


class _Leg(Leg):
    def __init__(self, engine: DecodeEngine, command: Message) -> None:
        super().__init__(command)
        self.request = Request.of(self.prompt)
        self.steps: int = command["new_tokens"]
        self.cancels: bool = command.get("cancel", False)  #: for the demonstration of an abort
        url = urlsplit(engine.setting.bootstrap)
        self.handle: KVReceiver = KVReceiver(
            engine.manager, url.hostname or "", url.port or 0, self.room, self.request, namespace=command["prefill"]
        )
        self.stalls: bool = command.get("stall", False)  #: for the demonstration of a lost engine
        self.tokens: list[int] = []
        self.slot_back = False  #: kvpoll has given the aux slot back


class DecodeEngine(Engine):
    def __init__(self, setting: EngineSetting, emit: Callable[[Message], None]) -> None:
        super().__init__(setting, emit)
        self._waiting: deque[_Leg] = deque()  #: for pages
        self._running: deque[_Leg] = deque()

    def obey(self, command: Message) -> None:
        if command["do"] == "room":
            leg = _Leg(self, command)
            leg.handle.init()
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
            if leg.cancels and leg.handle.poll() is KVPoll.Transferring:
                leg.handle.abort("the client has gone away", status=499)
            elif self.eager(leg):
                self._commit(leg)
        for leg in list(self._running):
            position = len(leg.prompt) + len(leg.tokens) - 1
            assert leg.hold is not None
            self.pool, logits = self.model.decode_step(self.pool, leg.tokens[-1], position, leg.hold.pages)
            leg.tokens.append(greedy(logits))
            if len(leg.tokens) == leg.steps:
                self._finish(leg)
        return bool(self._running)

    def eager(self, leg: Leg) -> bool:
        assert isinstance(leg, _Leg)
        return leg.handle.committable and not leg.stalls

    def _admit(self) -> None:
        while self._waiting:
            leg = self._waiting[0]
            if leg.handle.poll() is not KVPoll.Failed:
                model = self.setting.model
                hold = leg.take(self.pages, model.pages_for(len(leg.prompt) + leg.steps), self.aux)
                if hold is None:
                    return
                into = hold.pages[: model.pages_for(len(leg.prompt))]  # the others are for the tokens to come
                hold.lend(into)
                leg.handle.send_metadata(into, leg.slot)
            self._waiting.popleft()

    def _commit(self, leg: _Leg) -> None:
        try:
            self.pool = leg.handle.commit(self.pool)
        except KVTransferError:
            return  # it failed in this very moment; the state says so
        except LocalProtocolError as error:
            if error.cause is not Cause.ATTEMPT_OVER:
                raise

    def moved(self, leg: Leg, state: KVPoll) -> None:
        assert isinstance(leg, _Leg)
        if state is KVPoll.Failed and leg.hold is not None:
            leg.hold.done()
            self._slot_done(leg)
        elif state is KVPoll.Success:
            assert leg.slot is not None
            answer, content = self.aux.read(leg.slot, leg.room, leg.request.fingerprint())
            if answer is not AuxAnswer.RIGHT:
                raise AssertionError(f"room {leg.room}: Success, and the aux slot is {answer.value}")
            self._slot_done(leg)
            self._start(leg, unpack("<i", content)[0])

    def _start(self, leg: _Leg, first: int) -> None:
        """From here on there is only this engine: the first token came in the aux slot, the KV in the pages."""
        assert leg.hold is not None
        model = self.setting.model
        pages = leg.hold.pages[: model.pages_for(len(leg.prompt))]
        self.emit(
            {"event": "arrived", "room": leg.room, "nbytes": len(pages) * model.layers * page_nbytes(model) + 4,
             "digests": digests(self.pool, pages, len(leg.prompt), model)}
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

    def released(self, leg: Leg, released: Released) -> None:
        assert isinstance(leg, _Leg)
        if released.kind is LeaseKind.AUX:
            leg.slot_back = True
            if leg.told in (KVPoll.Failed, KVPoll.Success):
                self._slot_done(leg)
        else:
            assert leg.hold is not None
            leg.hold.back(released.pages)

    def _slot_done(self, leg: _Leg) -> None:
        """Free the aux slot once it was read (or never will be) and kvpoll has given it back."""
        if leg.slot is not None and leg.slot_back:
            self.aux.free(leg.slot)
            leg.slot = None
