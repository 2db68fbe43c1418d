"""The world of the reference: a clock, a wire with faults, and whoever lives at the two addresses.

Everything is an action on one heap, ordered by time; at one time what arrives comes before what a clock says. A message
takes ``latency`` ms. A side that is silent neither sends nor hears: what is under way from or to it waits.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvpoll.protocol.interpreter import Edge
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.session import Timing
from kvpoll.spec.wire import Message, RoomMessage

from ..plug import SIDES, Side
from .mover import Mover

if TYPE_CHECKING:
    from .process import Process

__all__ = ["Setting", "World"]

#: ms. Small, so that even the total deadline costs few events; in the order that the design asks for.
TIMING = Timing(
    pairing=2_000, silence=1_500, total=6_000, gate=1_000, resend=400, hello=1_000, beat=250, lost=1_000
)  # fmt: skip


class Setting(NamedTuple):
    """What a reference pair is like."""

    push: bool = True
    direct: bool = True  #: the mover writes destination pages itself, without a receive buffer
    latency: int = 1  #: ms of a message, a movement, a gather, a commit
    pages: int = 64
    page_bytes: int = 16
    timing: Timing = TIMING


class World:
    """See the module text."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.now = 0
        self.ids = itertools.count(1000)
        self.ends: dict[int, tuple[Side, Side]] = {}  #: by link: who dialled, and whom
        self.places: dict[Side, Process] = {}
        self.silent: set[Side] = set()
        self.mover = Mover(self)
        self.faults: dict[Side, Counter[tuple[str, int]]] = {side: Counter() for side in SIDES}
        self.held: deque[Callable[[], None]] = deque()  #: what waits for heal()
        self.rows: Callable[[SessionKey, Edge], None] | None = None  #: hears of every row that fires
        self._heap: list[tuple[int, bool, int, Callable[[], None]]] = []
        self._count = 0

    # -- time ----------------------------------------------------------------------------------------------------------
    def after(self, delay: int, action: Callable[[], None], late: bool = False) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, late, self._count, action))

    def advance(self, ms: int) -> None:
        """Everything that happens within ``ms`` from now, in order."""
        until = self.now + ms
        while self._heap and self._heap[0][0] <= until:
            at, _, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            action()
        self.now = until
        for process in self.places.values():
            process.core.env.now = until

    def under_way(self) -> tuple[tuple[int, str], ...]:
        """What is about to happen: how soon, and of which kind. For telling worlds apart."""
        soon = sorted(
            (at - self.now, count, action) for at, late, count, action in self._heap if not late and at - self.now < 50
        )
        return tuple((after, getattr(getattr(action, "func", action), "__qualname__", "")) for after, _, action in soon)

    # -- the wire ------------------------------------------------------------------------------------------------------
    def put(self, side: Side, link: int, message: Message) -> None:
        """A message leaves ``side``."""
        ends = self.ends.get(link)
        if ends is None:
            return
        to = ends[1] if ends[0] == side else ends[0]
        arrives = partial(self._arrive, side, to, message)
        room = message.room if isinstance(message, RoomMessage) else -1
        if self.strikes(side, "message_lost", room):
            return
        if self.strikes(side, "message_late", room):
            self.held.append(arrives)
            return
        for _ in range(2 if self.strikes(side, "message_copied", room) else 1):
            self.after(self.setting.latency, arrives)

    def _arrive(self, source: Side, target: Side, message: Message) -> None:
        if source in self.silent or target in self.silent:
            self.held.append(partial(self._arrive, source, target, message))
            return
        place = self.places.get(target)
        if place is not None:
            place.run(partial(place.core.receive, message))

    # -- faults --------------------------------------------------------------------------------------------------------
    def strikes(self, side: Side, name: str, room: int) -> bool:
        """A fault that was ordered for the next time: this is it."""
        if not self.faults[side][name, room]:
            return False
        self.faults[side][name, room] -= 1
        return True

    def heal(self) -> None:
        """Nothing goes wrong any more; what waited goes on, in the order in which it came."""
        self.silent.clear()
        for each in self.faults.values():
            each.clear()
        held, self.held = self.held, deque()
        for action in held:
            self.after(self.setting.latency, action)
        self.mover.heal()
