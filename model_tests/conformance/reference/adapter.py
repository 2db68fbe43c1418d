"""The plug of the reference: the suite's calls, word for word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.spec import KVPoll

from ..plug import DECODE, PREFILL, SIDES, About, Gate, How, Limits, Refused, Side, Unsupported, other
from .hostile import LIES, fill_up, forge, make_room, stop, take_room
from .ranks import Group, GroupHandle
from .topology import ALONE, Address, topology_of
from .world import Setting, World

__all__ = ["Reference", "make"]

#: Faults that wait for the next movement of a room's data, wherever it is started.
_MOVES = frozenset({"mover_error", "mover_raises", "mover_unresolved", "truncate"})
_MESSAGES = frozenset({"message_lost", "message_copied", "message_late"})
_RANKS = frozenset({"rank_error", "rank_killed", "rank_late", "rank_silent"})
_COMMITS = frozenset({"commit_fails", "aux_wrong"})
_PEERS = frozenset({"mismatched", "peer_full", "room_taken", "room_silent"})
_FAULTS = _MOVES | _MESSAGES | _RANKS | _COMMITS | _PEERS | LIES.keys()
_FAULTS |= {"mover_stalls", "commit_stalls", "peer_silent", "peer_killed"}
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
        "gates",
        "drain",
        "shutdown",
        "left",
        "retry",
        "empty",
    }
)


_PLAIN = Setting()


class Reference:
    """A pair of kvpoll cores. See :mod:`.world`."""

    def __init__(self, setting: Setting = _PLAIN) -> None:
        self.setting, self.topology = setting, ALONE
        self._start()

    def _start(self) -> None:
        self.world = World(self.setting, self.topology)
        self.groups: dict[Side, Group] = {side: Group(self.world, side) for side in SIDES}
        self._handles: dict[tuple[Side, int], GroupHandle | None] = {}
        self._old: dict[tuple[Side, int], GroupHandle] = {}  #: cleared, of which memory may still be out
        self._times: Counter[tuple[Side, int]] = Counter()

    def about(self) -> About:
        timing, step = self.setting.timing, self.setting.latency / 1000
        limits = Limits(
            react=50 * step, transfer=0.05 + 60 * step, abort=0.03 + 20 * step, error=0.05 + 50 * step,
            resend=2.5 * timing.resend / 1000, pairing=timing.pairing / 1000, waiting=timing.total / 1000,
            silence=(timing.lost + timing.silence) / 1000, total=timing.total / 1000, release=0.1 + 50 * step, late=0.1,
            gate=timing.gate / 1000,
        )  # fmt: skip
        can = {"push" if self.setting.push else "pull", *(("ranks",) if self.setting.page_bytes % 8 == 0 else ())}
        return About(
            name="kvpoll reference", version="0.1.0", capabilities=_CAN | can,
            faults=_FAULTS, limits=limits, pages=self.setting.pages, page_bytes=self.setting.page_bytes, clock="simulated",
            profiles=frozenset({"common", "kvpoll"}),
        )  # fmt: skip

    def begin(self, case: str, fresh: bool) -> None:
        self.topology = ALONE
        self._start()

    def ranks(self, prefill: int, decode: int) -> None:
        self.topology = topology_of(prefill, decode, self.setting.heads)
        self._start()

    def create(self, side: Side, room: int, pages: int) -> None:
        place = self._place(side)
        # The router gives both sides one key for a request; a side that starts over gets the newest.
        times = max(self._times[side, room], self._times[other(side), room] - 1)
        try:
            handle = place.create(room, pages, f"{room}/{times}".encode())
        except LocalProtocolError as error:
            raise Refused(str(error)) from None
        self._times[side, room] = times + 1
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
            handle.group.metadata(handle, pages)
        except LocalProtocolError as error:
            raise Refused(str(error)) from None

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        handle = self._handle(PREFILL, room)
        if not handle.ready:
            raise Refused("send() comes after init()")
        try:
            handle.group.send(handle, pages, last)
        except LocalProtocolError as error:
            raise Refused(str(error)) from None

    def poll(self, side: Side, room: int) -> int:
        return int(self._handle(side, room).state)

    def abort(self, side: Side, room: int) -> None:
        handle = self._handle(side, room)
        handle.group.abort(handle)

    def clear(self, side: Side, room: int) -> None:
        handle = self._handle(side, room)
        if handle.state not in (KVPoll.Failed, KVPoll.Success):
            handle.group.abort(handle)  # nobody could end it any more
        self._cleared(side, room, handle)

    def _cleared(self, side: Side, room: int, handle: GroupHandle) -> None:
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
        return handle.released

    def fault(self, side: Side, room: int, name: str) -> None:
        if name not in _FAULTS:
            raise Unsupported(f"fault {name}")
        world = self.world
        if name == "mover_stalls":
            world.mover.stalls.add(room)
        elif name == "peer_silent":
            world.silent.update(Address(side, rank) for rank in range(self.groups[side].size))
        elif name == "peer_killed":
            self._place(side).kill(range(self.groups[side].size))
        elif name in LIES:
            forge(world, self.groups, side, room, name)
        elif name in _PEERS:
            self._peer_fault(side, room, name)
        elif name == "commit_stalls":
            world.slow.add((side, room))
        elif name in _RANKS:
            self._rank_fault(side, room, name)
        elif name in _MESSAGES or name in _COMMITS:
            world.faults[side][name, room] += 1
        else:
            world.faults[PREFILL if self.setting.push else DECODE][name, room] += 1

    def _rank_fault(self, side: Side, room: int, name: str) -> None:
        """Something happens to the last rank of a side."""
        group = self.groups[side]
        last = group.size - 1
        match name:
            case "rank_killed":
                group.kill([last])
            case "rank_silent":
                group.silent(last)
            case "rank_late":
                group.late(last)
            case _:
                self.world.faults[side][name, room] += 1

    def _peer_fault(self, side: Side, room: int, name: str) -> None:
        """Something between the two sides."""
        match name:
            case "mismatched":
                self.world.mismatched = True
            case "peer_full":
                fill_up(self.groups[side])
            case "room_silent":
                self.world.quiet.add((side, room))
            case _:
                taken = self._handle(PREFILL, room)
                take_room(taken, f"{room}/{self._times[PREFILL, room] - 1}".encode())

    def heal(self) -> None:
        self.world.mismatched = False
        for group in self.groups.values():
            make_room(group)
        for group in self.groups.values():
            group.heal()
        self.world.heal()

    def why(self, side: Side, room: int) -> str:
        failure = self._handle(side, room).failure
        return "" if failure is None else f"{failure.cause.name}: {dict(failure.details)}"

    def gate(self, room: int, name: str, what: Gate) -> None:
        handle = self._handle(DECODE, room)
        if what == "close" and handle.pages:
            raise Refused("gates are named before metadata()")
        for member in handle.members.values():
            process, key = member.process, member.key
            match what:
                case "close":
                    member.gates.append(name)
                case "open":
                    process.run(lambda p=process, k=key: p.core.on_receiver(k, lambda session: session.open_gate(name)))  # type: ignore[misc]
                case _:
                    process.run(lambda p=process, k=key: p.core.on_receiver(k, lambda session: session.fail_gate(name)))  # type: ignore[misc]

    def stop(self, side: Side, how: How) -> None:
        self._place(side)
        stop(self.groups[side], how)

    def left(self, side: Side) -> int:
        self._place(side)
        processes = self.groups[side].ranks.values()
        return sum(sum(each.core.gauges().values()) + len(each.ops) + len(each.handles) for each in processes)

    def close(self) -> None:
        """Nothing to end."""

    def outline(self) -> Hashable:
        """Where everything stands, times aside: two worlds with the same outline go on alike, but for when."""
        world = self.world
        sessions = tuple(
            (
                side,
                key,
                s.rec.node,
                s.rec.failure,
                s.rec.leases,
                s.rec.peers,
                tuple(each for each, _ in s.rec.timers),
                getattr(s.rec, "gates", ()),
            )
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
            frozenset(world.quiet | world.slow),
            world.mismatched,
            tuple((place.core.draining, place.core.legs.limit) for place in world.places.values()),
            len(world.held),
            world.mover.outline(),
            world.under_way(),
        )

    def _place(self, side: Side) -> Group:
        group = self.groups[side]
        if not group.ranks:
            raise Refused(f"the {side} process is gone")
        return group

    def _handle(self, side: Side, room: int) -> GroupHandle:
        handle = self._handles.get((side, room))
        if handle is None:
            raise Refused(f"room {room} is unknown")
        if not handle.alive:
            raise Refused(f"the {side} process is gone")
        return handle


def make() -> Reference:
    """The reference: push, straight into the destination pages."""
    return Reference()
