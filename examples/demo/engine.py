"""The loop of an engine: one thread that takes commands, computes, and asks kvpoll what has changed. It never sleeps.

Two rules that every integration has:

1. Memory that was lent to kvpoll is free when ``manager.released()`` says so, and at no other time.
2. Memory that kvpoll gave back may still be wanted by the engine itself: a prefill reads its earlier pages until the
   prompt is computed, a decode reads what it received until its last token. :class:`~demo.legs.Hold` keeps both accounts.

The ranks of an engine are computed together here, in one process. As far as kvpoll is concerned they are strangers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import pairwise
from queue import Empty, Queue
from time import monotonic

from sharded_model import Pools, ShardedModel

from demo.legs import Leg
from demo.ranks import Rank, make_ranks
from demo.setting import EngineSetting, Message
from kvpoll.runtime import PagePool, Released
from kvpoll.spec import TERMINAL, KVPoll

__all__ = ["Engine"]

_IDLE_S = 10.0  #: how long the end of a run waits for the last leases, clocks and tombstones


class Engine:
    """What both kinds have. ``emit`` takes an event for the router, from the engine's thread."""

    def __init__(self, setting: EngineSetting, emit: Callable[[Message], None]) -> None:
        self.setting = setting
        self.emit = emit
        self.model = ShardedModel(setting.model, setting.sizes, seed=0)
        self.pools: Pools = self.model.empty_pools(setting.pages)
        self.pages = PagePool(setting.pages)  #: one account for all ranks: page ids are the same on all of them
        self.legs: dict[int, Leg] = {}
        self.inbox: Queue[Message] = Queue(maxsize=256)
        self._idle_by: float | None = None  #: the router asks whether we are idle, and waits until then
        self.warm_up()  # a process that compiles must not look like one that is gone
        self.ranks: list[Rank] = make_ranks(setting, secrets.randbits(62) + 1)
        self._manager = self.ranks[0].manager  #: the one to wait at
        for rank in self.ranks[1:]:
            rank.watch(self._manager.poke)

    def push(self, command: Message) -> None:
        """A command from the router; from any thread. Waits while the inbox is full."""
        self.inbox.put(command)
        self._manager.poke()

    def run(self) -> None:
        """Until the router says ``close``."""
        registered = all(rank.manager.wait_registered(30.0) for rank in self.ranks)
        self.emit({"event": "ready" if registered else "unregistered"})
        while True:
            for command in self._commands():
                if command["do"] == "close":
                    left: Message = {}
                    for rank in self.ranks[::-1]:
                        _add(left, rank.close())
                    self.emit({"event": "closed", "left": left})
                    return
                if command["do"] == "idle":
                    self._idle_by = monotonic() + _IDLE_S
                else:
                    self.obey(command)
            self._look()
            if not self.compute():
                self._say_whether_idle()
                self._manager.wait(self._news, 0.5 if self._idle_by is None else 0.05)

    # -- what a prefill or a decode engine does itself -----------------------------------------------------------------
    def warm_up(self) -> None:
        """Compile the programs that a run needs."""
        raise NotImplementedError

    def obey(self, command: Message) -> None:
        """A room for this engine."""
        raise NotImplementedError

    def moved(self, leg: Leg, state: KVPoll) -> None:
        """A room has another state."""
        raise NotImplementedError

    def released(self, leg: Leg, rank: int, released: Released) -> None:
        """kvpoll gives memory of a room back at a rank."""
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
            or any(leg.state() is not leg.told or leg.settled or self.eager(leg) for leg in self.legs.values())
            or any(rank.manager.gauges()["released"] > 0 for rank in self.ranks)
        )

    def eager(self, leg: Leg) -> bool:
        """Has a room something to do that its state does not show?"""
        return False

    def _say_whether_idle(self) -> None:
        """Answer the router's question as soon as nothing is lent and every table is empty, or when time is up."""
        if self._idle_by is None:
            return
        sizes: Message = {"pages lent": self.pages.pages - self.pages.available, "legs": len(self.legs)}
        for rank in self.ranks:
            _add(sizes, rank.busy())
        left = {name: size for name, size in sizes.items() if size}
        if not left or monotonic() > self._idle_by:
            self._idle_by = None
            self.emit({"event": "idle", "left": left})

    def _look(self) -> None:
        """Tell the router what has changed, take memory back, and forget rooms of which nothing is left."""
        for leg in self.legs.values():
            state = leg.state()
            if state is not leg.told:
                leg.told = state
                self._report(leg, state)
                self.moved(leg, state)
                if state is KVPoll.Failed:
                    cause = "" if leg.failure is None else f": {leg.failure.cause.name}"
                    leg.abort(
                        f"another rank of this engine has failed{cause}", leg.failure.status if leg.failure else 0
                    )
        for rank in self.ranks:
            for released in rank.manager.released():
                self.released(self.legs[released.room], rank.index, released)
        for room in [room for room, leg in self.legs.items() if leg.settled]:
            del self.legs[room]

    def _report(self, leg: Leg, state: KVPoll) -> None:
        event: Message = {"event": "state", "room": leg.room, "state": state.name}
        if state in TERMINAL:
            slowest = max((handle.times for handle in leg.handles), key=lambda times: times[-1][1])
            event |= {"phases": _phases(slowest)}
            failure = leg.failure
            if failure is not None:
                event["failure"] = {
                    "cause": failure.cause.name, "sentence": failure.sentence(), "status": failure.status,
                    "retry": failure.retry.value, "in_doubt": failure.in_doubt, "details": dict(failure.details),
                }  # fmt: skip
        self.emit(event)


def _phases(times: list[tuple[KVPoll, float]]) -> dict[str, float]:
    """Milliseconds that a room spent in each state that it has left."""
    return {a.name: (then - now) * 1000 for (a, now), (_, then) in pairwise(times)}


def _add(sizes: Message, more: Message) -> None:
    """Of several ranks: how much of each there is."""
    for name, size in more.items():
        sizes[name] = sizes.get(name, 0) + size
