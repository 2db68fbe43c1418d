"""The loop of an engine: one thread that takes commands, computes, and asks kvpoll what has changed. It never sleeps.

Two rules that every integration has:

1. Memory that was lent to kvpoll is free when ``manager.released()`` says so, and at no other time.
2. Memory that kvpoll gave back may still be wanted by the engine itself: a prefill reads its earlier pages until the
   prompt is computed, a decode reads what it received until its last token. :class:`Hold` keeps both accounts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from queue import Empty, Queue
from time import monotonic

import numpy as np
from tiny_model import TinyModel

from demo.setting import CHUNK, EngineSetting, Message
from kvpoll.kernels import gather_pages, scatter_pages
from kvpoll.runtime import AuxSlots, KVManager, KVReceiver, KVSender, PagePool, Released
from kvpoll.spec import TERMINAL, KVPoll

__all__ = ["Engine", "Hold", "Leg"]

_SLOTS = 32
_IDLE_S = 10.0  #: how long the end of a run waits for the last leases, clocks and tombstones


class Hold:
    """Pages of one request: lent to kvpoll, wanted by the engine, or both. Free as soon as they are neither."""

    def __init__(self, pool: PagePool, pages: list[int]) -> None:
        self.pages = pages
        self._pool = pool
        self._wanted, self._lent = set(pages), set[int]()

    def lend(self, pages: list[int]) -> None:
        self._lent.update(pages)

    def back(self, pages: tuple[int, ...]) -> None:
        """kvpoll gives these back."""
        self._lent.difference_update(pages)
        self._pool.free(page for page in pages if page not in self._wanted)

    def done(self) -> None:
        """The engine itself does not want them any more."""
        self._pool.free(self._wanted - self._lent)
        self._wanted = set()

    @property
    def empty(self) -> bool:
        return not self._wanted and not self._lent


class Leg:
    """One room at one engine."""

    handle: KVSender | KVReceiver

    def __init__(self, command: Message) -> None:
        self.room: int = command["room"]
        self.prompt: list[int] = command["prompt"]
        self.hold: Hold | None = None  #: none until there are pages
        self.slot: int | None = None
        self.told = KVPoll.Bootstrapping  #: the last state that the router was told

    def take(self, pages: PagePool, count: int, aux: AuxSlots) -> Hold | None:
        """Pages and an aux slot, both or neither."""
        slot = aux.allocate()
        found = None if slot is None else pages.allocate(count)
        if found is None:
            if slot is not None:
                aux.free(slot)
            return None
        self.slot, self.hold = slot, Hold(pages, found)
        return self.hold

    @property
    def settled(self) -> bool:
        """Is nothing of it left?"""
        return self.told in TERMINAL and (self.hold is None or self.hold.empty) and self.slot is None


class Engine:
    """What both kinds have. ``emit`` takes an event for the router, from the engine's thread."""

    def __init__(self, setting: EngineSetting, emit: Callable[[Message], None]) -> None:
        self.setting = setting
        self.emit = emit
        self.model = TinyModel(setting.model, seed=0)
        self.pool = self.model.empty_pool(setting.pages)
        self.pages = PagePool(setting.pages)
        self.aux = AuxSlots(_SLOTS, 64)
        self.legs: dict[int, Leg] = {}
        self.inbox: Queue[Message] = Queue(maxsize=256)
        self._idle_by: float | None = None  #: the router asks whether we are idle, and waits until then
        self._warm_up()  # a process that compiles must not look like one that is gone
        self.manager = KVManager(setting.config(), aux=self.aux)

    def push(self, command: Message) -> None:
        """A command from the router; from any thread. Waits while the inbox is full."""
        self.inbox.put(command)
        self.manager.poke()

    def run(self) -> None:
        """Until the router says ``close``."""
        registered = self.manager.wait_registered(30.0)
        self.emit({"event": "ready" if registered else "unregistered"})
        while True:
            for command in self._commands():
                if command["do"] == "close":
                    self.emit({"event": "closed", "left": self.manager.close()})
                    return
                if command["do"] == "idle":
                    self._idle_by = monotonic() + _IDLE_S
                else:
                    self.obey(command)
            self._look()
            if not self.compute():
                self._say_whether_idle()
                self.manager.wait(self._news, 0.5 if self._idle_by is None else 0.05)

    # -- what a prefill or a decode engine does itself -----------------------------------------------------------------
    def obey(self, command: Message) -> None:
        """A room for this engine."""
        raise NotImplementedError

    def moved(self, leg: Leg, state: KVPoll) -> None:
        """A room has another state."""
        raise NotImplementedError

    def released(self, leg: Leg, released: Released) -> None:
        """kvpoll gives memory of a room back."""
        raise NotImplementedError

    def compute(self) -> bool:
        """A little work; ``False`` when there is none."""
        raise NotImplementedError

    # -- the loop's senses ---------------------------------------------------------------------------------------------
    def _commands(self) -> list[Message]:
        taken: list[Message] = []
        while True:
            try:
                taken.append(self.inbox.get_nowait())
            except Empty:
                return taken

    def _news(self) -> bool:
        return (
            not self.inbox.empty()
            or any(leg.handle.poll() is not leg.told or self.eager(leg) for leg in self.legs.values())
            or self.manager.gauges()["released"] > 0
        )

    def eager(self, leg: Leg) -> bool:
        """Has a room something to do that its state does not show?"""
        return False

    def _say_whether_idle(self) -> None:
        """Answer the router's question as soon as nothing is lent and every table is empty, or when time is up."""
        if self._idle_by is None:
            return
        sizes = self.manager.busy() | {
            "pages lent": self.pages.pages - self.pages.available, "aux slots lent": self.aux.lent, "legs": len(self.legs)
        }  # fmt: skip
        left = {name: size for name, size in sizes.items() if size}
        if not left or monotonic() > self._idle_by:
            self._idle_by = None
            self.emit({"event": "idle", "left": left})

    def _look(self) -> None:
        """Tell the router what has changed, take memory back, and forget rooms of which nothing is left."""
        for leg in self.legs.values():
            state = leg.handle.poll()
            if state is not leg.told:
                leg.told = state
                self._report(leg, state)
                self.moved(leg, state)
        for released in self.manager.released():
            self.released(self.legs[released.room], released)
        for room in [room for room, leg in self.legs.items() if leg.settled]:
            del self.legs[room]

    def _report(self, leg: Leg, state: KVPoll) -> None:
        event: Message = {"event": "state", "room": leg.room, "state": state.name}
        if state in TERMINAL:
            event |= {"phases": _phases(leg.handle.times)}
            error = leg.handle.failure_exception()
            if error is not None:
                failure = error.failure
                event["failure"] = {
                    "cause": failure.cause.name, "sentence": failure.sentence(), "status": failure.status,
                    "retry": failure.retry.value, "in_doubt": failure.in_doubt, "details": dict(failure.details),
                }  # fmt: skip
        self.emit(event)

    def _warm_up(self) -> None:
        """Compile every program that a run needs: the two of the model, and page copies of every size."""
        pages = list(range(self.setting.model.pages_for(CHUNK)))
        self.pool, _ = self.model.prefill_chunk(self.pool, [0] * CHUNK, 0, pages)
        self.pool, _ = self.model.decode_step(self.pool, 0, 0, pages)
        for count in range(1, len(pages) + 1):
            ids = np.arange(count, dtype=np.int32)
            self.pool = scatter_pages(self.pool, ids, gather_pages(self.pool, ids))  # type: ignore[assignment]


def _phases(times: list[tuple[KVPoll, float]]) -> dict[str, float]:
    """Milliseconds that a room spent in each state that it has left."""
    return {a.name: (then - now) * 1000 for (a, now), (_, then) in pairwise(times)}
