"""Engines of several ranks with one fault each: what goes wrong between ranks that are all right, seen from outside."""

from __future__ import annotations

from collections.abc import Callable

from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll

from .plug import DECODE, PREFILL, Adapter, Side
from .reference import Reference
from .reference.mover import Flight
from .reference.ranks import GroupHandle

__all__ = ["WRONG_RANKS"]


class _OneIsEnough(Reference):
    """The side is Success as soon as one of its ranks is."""

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        votes = self._handle(side, room).votes.values()
        return 4 if any(vote is not None and vote.state is KVPoll.Success for vote in votes) else told


class _FirstSpeaks(Reference):
    """The state of the first rank is told as that of the side."""

    def poll(self, side: Side, room: int) -> int:
        told, first = super().poll(side, room), self._handle(side, room).votes.get(0)
        return told if first is None else int(first.state)


class _LeavesOthers(Reference):
    """When one rank has failed, nobody tells the others."""

    def _start(self) -> None:
        super()._start()
        for group in self.groups.values():
            group._give_up = _nothing  # type: ignore[method-assign]


def _nothing(handle: GroupHandle) -> None:
    """Nobody is told."""


class _FreeWithOne(Reference):
    """Memory is free as soon as the first rank has let go of it."""

    def released(self, side: Side, room: int) -> bool:
        handle = self._handles.get((side, room)) or self._old.get((side, room))
        first = None if handle is None or handle.group.size == 1 else handle.members.get(0)
        if first is None:
            return super().released(side, room)
        kind = LeaseKind.SOURCE if side == PREFILL else LeaseKind.PAGES
        return not any(lent is kind for lent, _ in first.lent)


class _ForgetsLast(Reference):
    """The last rank is not waited for: gone or silent, the side does not find out."""

    def _start(self) -> None:
        super()._start()
        for group in self.groups.values():
            group._lose = lambda rank, process: None  # type: ignore[method-assign]


class _Swaps(Reference):
    """What is for one decode rank goes to another one."""

    def _start(self) -> None:
        super()._start()
        right = self.world.mover.land

        def land(flight: Flight) -> None:
            ranks = self.groups[DECODE].ranks
            if flight.target is not None and len(ranks) > 1:
                handle = flight.target
                wrong = ranks[(handle.process.address.rank + 1) % len(ranks)]
                if flight.source is not None:
                    wrong.write(flight.pages, bytes(self.setting.page_bytes * len(flight.pages)))
            right(flight)

        self.world.mover.land = land  # type: ignore[method-assign]


#: By name: what makes one.
WRONG_RANKS: dict[str, Callable[[], Adapter]] = {
    "Success when one rank is": _OneIsEnough,
    "the first rank speaks for all": _FirstSpeaks,
    "the other ranks are not told of a failure": _LeavesOthers,
    "memory is free when one rank says so": _FreeWithOne,
    "a rank that is gone is not noticed": _ForgetsLast,
    "one rank writes into another one": _Swaps,
}
