"""One room at one engine: a handle for each rank, and what their states amount to.

1. A page is free when no rank has lent it and the engine does not want it any more. Ranks give pages back one by one, each of
   them exactly once.
2. The room is what :func:`kvpoll.protocol.group.decide` makes of the ranks' votes. Over is over: a decided room does not change,
   and the first failed rank ends the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from demo.ranks import Rank
from demo.setting import Message
from kvpoll.protocol.errors import Failure
from kvpoll.protocol.group import Vote, decide
from kvpoll.runtime import KVReceiver, KVSender, PagePool
from kvpoll.spec import TERMINAL, KVPoll

__all__ = ["Hold", "Leg"]


class Hold:
    """Pages of one request: lent to kvpoll by some ranks, wanted by the engine, or both."""

    def __init__(self, pool: PagePool, pages: list[int], ranks: int = 1) -> None:
        self.pages = pages
        self._pool, self._ranks = pool, range(ranks)
        self._wanted = set(pages)
        self._lent: dict[int, set[int]] = defaultdict(set)  #: page: ranks that have lent it

    def lend(self, pages: Iterable[int]) -> None:
        """To kvpoll, by every rank."""
        for page in pages:
            self._lent[page].update(self._ranks)

    def back(self, pages: Iterable[int], rank: int = 0) -> None:
        """kvpoll gives these back at a rank. Raises ``KeyError`` for a page that this rank has not lent."""
        for page in pages:
            lenders = self._lent[page]
            lenders.remove(rank)
            if not lenders:
                del self._lent[page]
                if page not in self._wanted:
                    self._pool.free([page])

    def done(self) -> None:
        """The engine itself does not want them any more."""
        self._pool.free(self._wanted - self._lent.keys())
        self._wanted = set()

    @property
    def empty(self) -> bool:
        return not self._wanted and not self._lent


class Leg:
    """A room at an engine of these ranks. ``handles`` and ``slots``: by rank; a rank without aux data has no slot."""

    def __init__(self, command: Message, ranks: Sequence[Rank]) -> None:
        self.room: int = command["room"]
        self.prompt: list[int] = command["prompt"]
        self.ranks = ranks
        self.handles: Sequence[KVSender | KVReceiver] = ()
        self.hold: Hold | None = None  #: none until there are pages
        self.slots: list[int | None] = [None] * len(ranks)
        self.told = KVPoll.Bootstrapping  #: the last state that the router was told
        self.failure: Failure | None = None  #: once it has failed

    def take(self, pages: PagePool, count: int) -> Hold | None:
        """Pages, and an aux slot at every rank that has aux data; all of it or nothing."""
        found = pages.allocate(count)
        if found is None:
            return None
        slots = [rank.aux.allocate() if rank.has_aux else None for rank in self.ranks]
        if any(slot is None for rank, slot in zip(self.ranks, slots, strict=True) if rank.has_aux):
            pages.free(found)
            for rank, slot in zip(self.ranks, slots, strict=True):
                if slot is not None:
                    rank.aux.free(slot)
            return None
        self.slots, self.hold = slots, Hold(pages, found, len(self.ranks))
        return self.hold

    def free_slot(self, rank: int) -> None:
        slot = self.slots[rank]
        if slot is not None:
            self.slots[rank] = None
            self.ranks[rank].aux.free(slot)

    def state(self) -> KVPoll:
        """Of the room. Latched: once over, a rank that says something else is too late."""
        if self.told in TERMINAL:
            return self.told
        votes = {}
        for rank, handle in enumerate(self.handles):
            state, error = handle.poll(), handle.failure_exception()
            votes[rank] = Vote(state, None if error is None else error.failure)
        decision = decide(votes)
        self.failure = decision.failure
        return decision.state

    def abort(self, reason: str, status: int = 0) -> None:
        """At every rank that is not over."""
        for handle in self.handles:
            if handle.poll() not in TERMINAL:
                handle.abort(reason, status)

    @property
    def settled(self) -> bool:
        """Is nothing of it left, at any rank?"""
        over = self.told in TERMINAL and all(handle.poll() in TERMINAL for handle in self.handles)
        return over and (self.hold is None or self.hold.empty) and not any(slot is not None for slot in self.slots)
