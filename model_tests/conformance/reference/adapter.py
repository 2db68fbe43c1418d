"""The plug of the reference: the suite's calls, word for word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll

from ..plug import DECODE, PREFILL, SIDES, About, Limits, Refused, Side, Unsupported, other
from .process import Handle, Process
from .world import Setting, World

__all__ = ["Reference", "make"]

#: Faults that wait for the next movement of a room's data, wherever it is started.
_MOVES = frozenset({"mover_error", "mover_raises", "mover_unresolved", "truncate"})
_MESSAGES = frozenset({"message_lost", "message_copied", "message_late"})
_FAULTS = _MOVES | _MESSAGES | {"mover_stalls", "peer_silent", "peer_killed"}
_CAN = frozenset(
    {
        "chunks",
        "abort",
        "clear",
        "memory",
        "released",
        "reuse",
        "early-send",
        "early-metadata",
        "refusals",
        "why",
        "cause",
    }
)


_PLAIN = Setting()


class Reference:
    """A pair of kvpoll cores. See :mod:`.world`."""

    def __init__(self, setting: Setting = _PLAIN) -> None:
        self.setting = setting
        self._start()

    def _start(self) -> None:
        self.world = World(self.setting)
        for side in SIDES:
            Process(self.world, side)
        self._handles: dict[tuple[Side, int], Handle | None] = {}
        self._old: dict[tuple[Side, int], Handle] = {}  #: cleared, of which memory may still be out
        self._times: Counter[tuple[Side, int]] = Counter()

    def about(self) -> About:
        timing, step = self.setting.timing, self.setting.latency / 1000
        limits = Limits(
            react=50 * step, transfer=0.05 + 60 * step, abort=0.03 + 20 * step, error=0.05 + 50 * step,
            resend=2.5 * timing.resend / 1000, pairing=timing.pairing / 1000, waiting=timing.total / 1000,
            silence=(timing.lost + timing.silence) / 1000, total=timing.total / 1000, release=0.1 + 50 * step, late=0.1,
        )  # fmt: skip
        return About(
            name="kvpoll reference", version="0.1.0", capabilities=_CAN | {"push" if self.setting.push else "pull"},
            faults=_FAULTS, limits=limits, pages=self.setting.pages, page_bytes=self.setting.page_bytes, clock="simulated",
            profiles=frozenset({"common", "kvpoll"}),
        )  # fmt: skip

    def begin(self, case: str, fresh: bool) -> None:
        self._start()

    def create(self, side: Side, room: int, pages: int) -> None:
        place = self._place(side)
        times = self._times[side, room]
        try:
            handle = place.create(room, pages, f"{room}/{times}".encode())
        except LocalProtocolError as error:
            raise Refused(str(error)) from None
        self._times[side, room] += 1
        self._handles[side, room] = handle

    def init(self, side: Side, room: int) -> None:
        self._handle(side, room).ready = True

    def metadata(self, room: int, pages: Sequence[int]) -> None:
        handle = self._handle(DECODE, room)
        if not handle.ready:
            raise Refused("metadata() comes after init()")
        if len(pages) != handle.total:
            raise Refused(f"pages: expected {handle.total}, got {len(pages)}")
        if handle.pages:
            raise Refused("metadata() was called before")
        try:
            handle.process.metadata(handle, pages)
        except LocalProtocolError as error:
            raise Refused(str(error)) from None

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        handle = self._handle(PREFILL, room)
        if not handle.ready:
            raise Refused("send() comes after init()")
        try:
            handle.process.send(handle, pages, last)
        except LocalProtocolError as error:
            raise Refused(str(error)) from None

    def poll(self, side: Side, room: int) -> int:
        return int(self._handle(side, room).state)

    def abort(self, side: Side, room: int) -> None:
        handle = self._handle(side, room)
        handle.process.abort(handle)

    def clear(self, side: Side, room: int) -> None:
        handle = self._handle(side, room)
        if handle.state not in (KVPoll.Failed, KVPoll.Success):
            handle.process.abort(handle)  # nobody could end it any more
        self._cleared(side, room, handle)

    def _cleared(self, side: Side, room: int, handle: Handle) -> None:
        self._handles[side, room] = None
        self._old[side, room] = handle

    def advance(self, seconds: float) -> None:
        self.world.advance(max(1, round(seconds * 1000)))

    def fill(self, side: Side, pages: Sequence[int], data: bytes) -> None:
        self._place(side).write(pages, data)

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        return self._place(side).read(pages)

    def released(self, side: Side, room: int) -> bool:
        handle = self._handles.get((side, room)) or self._old.get((side, room))
        if handle is None:
            raise Refused(f"room {room} is unknown")
        kind = LeaseKind.SOURCE if side == PREFILL else LeaseKind.PAGES
        return not any(lent is kind for lent, _ in handle.lent)

    def fault(self, side: Side, room: int, name: str) -> None:
        if name not in _FAULTS:
            raise Unsupported(f"fault {name}")
        world = self.world
        if name == "mover_stalls":
            world.mover.stalls.add(room)
        elif name == "peer_silent":
            world.silent.add(side)
        elif name == "peer_killed":
            self._kill(side)
        elif name in _MESSAGES:
            world.faults[side][name, room] += 1
        else:
            world.faults[PREFILL if self.setting.push else DECODE][name, room] += 1

    def _kill(self, side: Side) -> None:
        self._place(side).crash()
        peer = self.world.places.get(other(side))
        if peer is not None:
            for link in list(peer.core.links.table):
                self.world.after(5, lambda link=link: peer.run(lambda: peer.core.disconnected(link)))  # type: ignore[misc]

    def heal(self) -> None:
        for side in SIDES:
            if side not in self.world.places:
                Process(self.world, side)
        self.world.heal()

    def why(self, side: Side, room: int) -> str:
        failure = self._handle(side, room).failure
        return "" if failure is None else f"{failure.cause.name}: {dict(failure.details)}"

    def close(self) -> None:
        """Nothing to end."""

    def outline(self) -> Hashable:
        """Where everything stands, times aside: two worlds with the same outline go on alike, but for when."""
        world = self.world
        sessions = tuple(
            (side, key, s.rec.node, s.rec.failure, s.rec.leases, s.rec.peers, tuple(each for each, _ in s.rec.timers))
            for side, place in sorted(world.places.items())
            for key, s in sorted((s.key, s) for s in place.core.sessions())
        )
        links = tuple(
            tuple(record.state for record in place.core.links.table.values())
            for _, place in sorted(world.places.items())
        )
        tombs = tuple(len(place.core.legs.tombs) + len(place.core.legs.half_open) for place in world.places.values())
        faults = tuple(tuple(sorted(each.items())) for each in world.faults.values())
        return (
            sessions,
            links,
            tombs,
            faults,
            frozenset(world.silent),
            len(world.held),
            world.mover.outline(),
            world.under_way(),
        )

    def _place(self, side: Side) -> Process:
        place = self.world.places.get(side)
        if place is None:
            raise Refused(f"the {side} process is gone")
        return place

    def _handle(self, side: Side, room: int) -> Handle:
        handle = self._handles.get((side, room))
        if handle is None:
            raise Refused(f"room {room} is unknown")
        if not handle.process.alive:
            raise Refused(f"the {side} process is gone")
        return handle


def make() -> Reference:
    """The reference: push, straight into the destination pages."""
    return Reference()
