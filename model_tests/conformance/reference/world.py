"""The world of the reference: a clock, a wire with faults, and whoever lives at the addresses: each rank of both sides.

Everything is an action on one heap, ordered by time; at one time what arrives comes before what a clock says. A message
takes ``latency`` ms. Who is silent neither sends nor hears: what is under way from or to it waits.
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
from .topology import ALONE, Address, Topology

if TYPE_CHECKING:
    from .process import Process

__all__ = ["Setting", "World"]

#: ms. Small, so that even the total deadline costs few events; in the order that the design asks for.
TIMING = Timing(
    pairing=2_000, silence=1_500, total=6_000, gate=600, resend=400, hello=1_000, beat=250, lost=1_000
)  # fmt: skip


class Setting(NamedTuple):
    """What a reference pair is like."""

    push: bool = True
    direct: bool = True  #: the mover writes destination pages itself, without a receive buffer
    latency: int = 1  #: ms of a message, a movement, a gather, a commit
    pages: int = 64
    page_bytes: int = 16
    timing: Timing = TIMING
    credits: int = 16  #: movements at one time, of all rooms of a process
    looks_late: bool = False  #: what arrived is looked at only a moment before it is written
    heads: bool = False  #: where there are several ranks, they share the heads


class World:
    """See the module text."""

    def __init__(self, setting: Setting, topology: Topology = ALONE) -> None:
        self.setting, self.topology = setting, topology
        self.now = 0
        self.ids = itertools.count(1000)
        self.ends: dict[int, tuple[Address, Address]] = {}  #: by link: who dialled, and whom
        self.places: dict[Address, Process] = {}
        self.silent: set[Address] = set()
        self.quiet: set[tuple[Side, int]] = set()  #: rooms of which a side says and hears nothing
        self.slow: set[tuple[Side, int]] = set()  #: rooms that a side does not finish writing
        self.mismatched = False
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
    def last(self, side: Side) -> Address:
        """The last rank of a side."""
        return Address(side, self.topology.count(side) - 1)

    def far(self, near: Address, link: int) -> Address:
        """Who is at the other end."""
        dialled, whom = self.ends[link]
        return whom if dialled == near else dialled

    def put(self, near: Address, link: int, message: Message) -> None:
        """A message leaves ``near``."""
        if link not in self.ends:
            return
        side = near.side
        arrives = partial(self._arrive, near, self.far(near, link), message)
        room = message.room if isinstance(message, RoomMessage) else -1
        if self.strikes(side, "message_lost", room):
            return
        if self.strikes(side, "message_late", room):
            self.held.append(arrives)
            return
        for _ in range(2 if self.strikes(side, "message_copied", room) else 1):
            self.after(self.setting.latency, arrives)

    def _arrive(self, source: Address, target: Address, message: Message) -> None:
        room = getattr(message, "room", -1)  # a refusal may be about one, too
        mute = self.quiet & {(source.side, room), (target.side, room)}
        if source in self.silent or target in self.silent or mute:
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
        self.quiet.clear()
        self.slow.clear()
        for each in self.faults.values():
            each.clear()
        held, self.held = self.held, deque()
        for action in held:
            self.after(self.setting.latency, action)
        self.mover.heal()
