"""Peers that do not keep the protocol, do not fit, or have no place: what the reference can do to itself on request.

Lies are real messages of the wire, put onto it in the name of one side; the core of the other side deals with them like with
any. Another decode engine that has a room already is only a link, a handshake and an announcement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from kvpoll.protocol.operations import Session
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import PeerRecord, ReceiverPeer, SenderPeer
from kvpoll.protocol.session import Envelope
from kvpoll.spec import Cause
from kvpoll.spec.wire import (
    Abort,
    Announce,
    Close,
    Conclude,
    FailureGroup,
    Fingerprint,
    Heartbeat,
    Hello,
    LinkOver,
    Message,
    Metadata,
    MetaGroup,
    Offer,
    Part,
    PartDone,
    Reason,
    Refusal,
)  # fmt: skip

from ..plug import DECODE, PREFILL, Refused, Side, other
from .process import Process
from .ranks import Group, GroupHandle
from .topology import Address
from .world import World

__all__ = ["LIES", "fill_up", "forge", "make_room", "stop", "take_room"]

#: ms between two looks whether a process that stops has anything left.
_LOOK = 10
#: Rooms from here on are nobody's.
_NOBODYS = 1 << 40


class _Lie:
    """Everything that a lie is made of. ``session`` is the victim's, where it has one, else the liar's own."""

    def __init__(self, session: Session, index: int, swapped: bool, world: World, victim: Process) -> None:
        self.session, self.index, self.world, self.victim = session, index, world, victim
        own = session.to(index)
        ours, theirs = ("target", "source") if swapped else ("source", "target")
        self.envelope = Envelope(
            link=own["link"], source=own[ours], target=own[theirs],  # type: ignore[literal-required]
            source_rank=own[f"{ours}_rank"], target_rank=own[f"{theirs}_rank"],  # type: ignore[literal-required]
            room=own["room"], engine=own["engine"], gen=own["gen"],
        )  # fmt: skip

    @property
    def link(self) -> int:
        return self.envelope["link"]

    def part(self, no: int, start: int, stop: int) -> Part:
        low, high = self.victim.config.layers
        shape = (high - low, stop - start, self.victim.config.page_nbytes)
        part = Part(no=no, start=start, stop=stop, layer_start=low, layer_stop=high, shape=shape)
        return part if self.world.setting.push else replace(part, key=next(self.world.ids))

    def tell(self, *parts: Part) -> Message:
        """These are there; or can be read, where data is pulled."""
        kind = PartDone if self.world.setting.push else Offer
        return kind(parts=parts, **self.envelope)

    def refusal(self, reason: Reason) -> Message:
        e = self.envelope
        return Refusal(
            reason=reason, link=e["link"], source=e["source"], target=e["target"], source_rank=e["source_rank"],
            target_rank=e["target_rank"], room=e["room"], engine=e["engine"], gen=e["gen"],
        )  # fmt: skip


Made: TypeAlias = Iterator[Message]


def _conclude(lie: _Lie) -> Made:
    yield Conclude(**lie.envelope)


def _passed(lie: _Lie) -> Made:
    e = lie.envelope
    yield Heartbeat(link=e["link"], source=e["source"], target=e["target"], engine=e["engine"], low_water=e["gen"] + 1)


def _destinations(lie: _Lie) -> Made:
    want = lie.session.rec.fingerprint
    meta = MetaGroup(key=next(lie.world.ids), pages=want.tokens + 1, max_nbytes=1 << 30)
    yield Metadata(fingerprint=want, transport="reference", meta=meta, **lie.envelope)


def _abort(lie: _Lie) -> Made:
    yield Abort(failed=FailureGroup(cause=Cause.ABORTED), **lie.envelope)


def _done(lie: _Lie) -> Made:
    """All that is not there yet is said to be there."""
    session = lie.session
    known = session.rec.peers[lie.index].parts if isinstance(session, ReceiverSession) else ()
    at, stop = max((part.stop for part in known), default=0), session.rec.fingerprint.tokens
    if at < stop:
        yield lie.tell(lie.part(len(known), at, stop))
    yield Close(total=len(known) + (at < stop), **lie.envelope)


def _plan(lie: _Lie) -> Made:
    end = lie.session.rec.fingerprint.tokens
    yield lie.tell(lie.part(0, end, end + 1))


def _close(lie: _Lie) -> Made:
    yield Close(total=0, **lie.envelope)


def _unknown(lie: _Lie) -> Made:
    yield lie.refusal(Reason.NO_LEG)


def _busy(lie: _Lie) -> Made:
    yield lie.refusal(Reason.ROOM_BUSY)


#: By name: who can tell it, and what is said.
LIES: dict[str, tuple[tuple[Side, ...], Callable[[_Lie], Made]]] = {
    "forged_conclude": ((DECODE,), _conclude),
    "forged_passed": ((DECODE,), _passed),
    "forged_destinations": ((DECODE,), _destinations),
    "forged_abort": ((PREFILL, DECODE), _abort),
    "forged_done": ((PREFILL,), _done),
    "forged_plan": ((PREFILL,), _plan),
    "forged_close": ((PREFILL,), _close),
    "forged_unknown": ((PREFILL,), _unknown),
    "forged_busy": ((PREFILL,), _busy),
}


def forge(world: World, groups: dict[Side, Group], side: Side, room: int, name: str) -> None:
    """``side`` says what is not so. Raises :class:`Refused`: it cannot say that, or there is nobody to hear it."""
    who, lie = LIES[name]
    if side not in who:
        raise Refused(f"{name} is nothing that {side} can say")
    told = False
    for victim in groups[other(side)].ranks.values():
        for each in _of(world, groups[side], victim, room):
            for message in lie(each):
                world.put(world.far(victim.address, each.link), each.link, message)
                told = True
    if not told:
        raise Refused(f"nobody at the other side has met room {room}")


def _of(world: World, liars: Group, victim: Process, room: int) -> Iterator[_Lie]:
    """One for each rank of the liar that this victim has met."""
    held = _newest(victim, room)
    if held is not None and held.rec.gen and held.rec.peers:
        for index, peer in enumerate(held.rec.peers):
            if peer.link in world.ends and _linked(peer):
                yield _Lie(held, index, True, world, victim)
        return
    for liar in liars.ranks.values():
        own = _newest(liar, room)
        for index, peer in enumerate(() if own is None else own.rec.peers):
            met = peer.link in world.ends and world.far(liar.address, peer.link) == victim.address
            if own is not None and met and _linked(peer):
                yield _Lie(own, index, False, world, victim)


def _newest(process: Process, room: int) -> Session | None:
    found = [session for session in process.core.sessions() if session.rec.room == room]
    live = [session for session in found if not session.terminal]
    return next(reversed(live or found), None)


def _linked(peer: PeerRecord) -> bool:
    return isinstance(peer, SenderPeer) or (isinstance(peer, ReceiverPeer) and peer.linked)


class _Stranger:
    """Another decode engine, as far as a prefill rank hears of it. It is gone when its link is lost."""

    def __init__(self, process: Process) -> None:
        world = process.world
        self.process, self.gen = process, 0
        self.engine, self.link, self.instance = (next(world.ids) for _ in range(3))
        there = world.topology.registration(Address(DECODE), self.engine, world.setting.page_bytes)
        self.say(Hello(registration=there, link=self.link, source=self.instance))

    def say(self, message: Message) -> None:
        self.process.run(partial(self.process.core.receive, message))

    def announce(self, room: int, want: Fingerprint) -> None:
        self.gen += 1
        self.say(
            Announce(
                room=room, engine=self.engine, gen=self.gen, link=self.link, source=self.instance, fingerprint=want,
                transport="reference",
            )
        )  # fmt: skip


def take_room(handle: GroupHandle, digest: bytes) -> None:
    """Another decode engine announces this room to every prefill rank, and says no more."""
    for member in handle.members.values():
        _Stranger(member.process).announce(handle.room, Fingerprint(tokens=handle.total, digest=digest))


def fill_up(group: Group) -> None:
    """No place for another room, whoever asks: every place is taken by announcements that nobody waits for."""
    for process in group.ranks.values():
        process.core.config = replace(process.config, max_rooms=0)
        legs = process.core.legs
        if group.side == PREFILL and len(legs.half_open) < legs.limit:
            stranger = _Stranger(process)
            for room in range(_NOBODYS, _NOBODYS + legs.limit - len(legs.half_open)):
                stranger.announce(room, Fingerprint(tokens=1))


def make_room(group: Group) -> None:
    """There is place again."""
    for process in group.ranks.values():
        process.core.config = process.config
        half_open = process.core.legs.half_open
        for ids, half in [each for each in half_open.items() if each[1].room >= _NOBODYS]:
            over = LinkOver(link=ids[2], source=half.instance)
            process.run(partial(process.core.receive, over))


def stop(group: Group, how: str) -> None:
    """Every rank takes no new rooms; a shutdown ends the live ones, and the process leaves when nothing of it is left."""
    for process in group.ranks.values():
        if how == "drain":
            process.run(partial(process.core.drain, 1_000))
        else:
            process.run(process.core.shutdown)
            _leave(process)


def _leave(process: Process) -> None:
    if not process.alive:
        return
    if process.core.sessions():
        process.world.after(_LOOK, partial(_leave, process))
    else:
        process.run(process.core.close_links)
