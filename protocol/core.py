"""The core of a process: all its rooms and links, without I/O, threads or a clock.

In: calls of the engine, messages, transport events, time. Out: a list of :mod:`outputs <.outputs>`, in order. The runtime
runs this object under one lock, the model checker runs the very same object.

Theory of operation. A message names its attempt by (receiver engine id, gen). If the engine is ours we are the receiver
of it; else it is an attempt of the peer's: paired with a leg of ours, half-open (announced, no equal leg yet), a tombstone
(over, and the peer may still speak of it), or unknown. Nothing that arrives creates more than one bounded entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from kvpoll.spec import Cause, LeaseState, LinkEvent, LinkState
from kvpoll.spec.wire import (
    Drain,
    Fingerprint,
    Heartbeat,
    Hello,
    LinkOver,
    Message,
    Part,
    Reason,
    Refusal,
    Registration,
    RoomMessage,
    Welcome,
)  # fmt: skip

from . import snapshot
from .clocks import Clocks
from .cut import Cut
from .errors import LocalProtocolError
from .legs import Legs, RankId
from .links import Judgement, LinkRecord, Links
from .operations import Operations, Session
from .outputs import Dropped, Output, Send
from .receiver import ReceiverSession
from .records import Deadline, SessionKey
from .sender import SenderSession
from .session import Env, Timing
from .snapshot import Snapshot

__all__ = ["Core", "CoreConfig"]


class CoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a core is told at start. Sizes in tokens and bytes, durations in ``timing``."""

    instance: int
    engine: int
    rank: int = 0
    timing: Timing = Timing()
    page_size: int = 1
    page_nbytes: int = 1  #: of one page of one layer
    layers: tuple[int, int] = (0, 1)
    owners: int = 1  #: receiver ranks that the tokens of one page are spread over (DCP)
    max_parts: int = 4096
    max_rooms: int = 65_536
    max_links: int = 1024
    max_half_open: int = 65_536
    credits: int = 64
    direct: bool = False
    push: tuple[tuple[str, bool], ...] = (("inproc", True),)  #: transports: name, does it push

    def __post_init__(self) -> None:
        for name in ("max_parts", "max_links", "max_half_open", "credits"):
            if getattr(self, name) < 1:
                raise LocalProtocolError(f"{name}: expected at least 1, got {getattr(self, name)}", field=name)


S = TypeVar("S", bound=Session)
#: Whose a clock is: a session's, a half-open attempt's, a link's.
Clocked: TypeAlias = SessionKey | RankId | int


class Core(Operations):
    """One process's rooms and links."""

    def __init__(
        self,
        config: CoreConfig,
        ids: Callable[[], int],
        registration: Callable[[int], Registration],
        judge: Callable[[Registration, Registration, bool], Judgement],
    ) -> None:
        env = Env(config.instance, config.engine, config.timing, ids)
        env.rank, env.page_size, env.page_nbytes, env.layers = (
            config.rank,
            config.page_size,
            config.page_nbytes,
            config.layers,
        )
        env.max_parts, env.direct, env.credits, env.push = (
            config.max_parts,
            config.direct,
            config.credits,
            dict(config.push),
        )
        env.low_water, env.want_credit, env.cut = self.low_water, self._want_credit, self._cut
        env.owners = config.owners
        env.arm = lambda key, clock, due: self.clocks.arm((key, clock), due)
        self.config = config
        self.env = env
        self.links = Links(env, self, registration, judge, config.max_links)
        self.links.arm = lambda link, clock, due: self.clocks.arm((link, clock), due)
        self.legs = Legs(env, config.max_half_open, lambda ids, due: self.clocks.arm((ids, Deadline.PAIRING), due))
        self.receivers: dict[int, ReceiverSession] = {}  #: by gen, in rising order
        self.rooms: dict[int, int] = {}  #: live receiver rooms: gen
        self.last_gen = 0
        self.draining = False
        self.stray = 0  #: messages that named nothing of ours
        self._waiting: deque[SessionKey] = deque()
        self.clocks: Clocks[tuple[Clocked, Deadline | LinkEvent]] = Clocks(self._due)

    def take(self) -> list[Output]:
        """Everything to do since the last call, in order."""
        out, self.env.out = self.env.out, []
        return out

    # -- the engine --------------------------------------------------------------------------------------------------------
    def create_sender(self, room: int, request: Fingerprint, ranks: int = 1) -> SessionKey:
        """A leg for ``room``. Raises :class:`LocalProtocolError`: ROOM_BUSY, DRAINING or LIMIT; the live one is left alone."""
        self._may_create()
        session = self.legs.create(room, request, ranks)
        self._touch(session)
        return session.key

    def create_receiver(
        self, room: int, request: Fingerprint, senders: Sequence[tuple[str, int]], gen: int | None = None
    ) -> SessionKey:
        """An attempt for ``room`` with sender ranks at (address, rank). ``gen`` must be above every earlier one; left
        out, it is counted. Raises :class:`LocalProtocolError`: ROOM_BUSY, DRAINING or LIMIT."""
        self._may_create()
        if room in self.rooms:
            raise LocalProtocolError(f"room {room} is live already", Cause.ROOM_BUSY, room=room)
        if gen is not None and gen <= self.last_gen:
            raise LocalProtocolError(f"gen: expected above {self.last_gen}, got {gen}", field="gen")
        records = [self.links.to(address) for address, _ in senders]
        if any(record is None for record in records):
            raise LocalProtocolError(
                f"links: at most {self.links.limit}", Cause.LIMIT, table="links", limit=self.links.limit
            )
        self.last_gen = self.last_gen + 1 if gen is None else gen
        key = SessionKey("receiver", self.last_gen)
        known = [record for record in records if record is not None]
        peers = [(record.link, rank) for record, (_, rank) in zip(known, senders, strict=True)]
        session = ReceiverSession.create(self.env, key, room, request, peers)
        self.receivers[key.no] = session
        self.rooms[room] = key.no
        for record in known:
            self._tell_link(session, record)
        self._touch(session)
        return key

    def _may_create(self) -> None:
        if self.draining:
            raise LocalProtocolError("the process is draining and takes no new rooms", Cause.DRAINING)
        if len(self.legs.sessions) + len(self.receivers) >= self.config.max_rooms:
            raise LocalProtocolError(
                f"rooms: at most {self.config.max_rooms}", Cause.LIMIT, table="rooms", limit=self.config.max_rooms
            )

    def session(self, key: SessionKey) -> Session | None:
        """The session of a key; ``None`` once its record was dropped."""
        return self.legs.sessions.get(key.no) if key.role == "sender" else self.receivers.get(key.no)

    def sender(self, key: SessionKey) -> SenderSession | None:
        return self.legs.sessions.get(key.no)

    def receiver(self, key: SessionKey) -> ReceiverSession | None:
        return self.receivers.get(key.no)

    def send(self, key: SessionKey, parts: Sequence[Part], last: bool) -> tuple[int, ...]:
        """See :meth:`SenderSession.send`. Nothing for a room that is over and dropped."""
        session = self.sender(key)
        return () if session is None else self._done(session, session.send(parts, last))

    def call(self, key: SessionKey, action: Callable[[Session], None]) -> bool:
        """Run an engine call on a session, with everything that must follow; ``False`` when its record was dropped."""
        return self._act(self.session(key), action)

    def on_sender(self, key: SessionKey, action: Callable[[SenderSession], None]) -> bool:
        """:meth:`call` for what only senders can do."""
        return self._act(self.sender(key), action)

    def on_receiver(self, key: SessionKey, action: Callable[[ReceiverSession], None]) -> bool:
        """:meth:`call` for what only receivers can do."""
        return self._act(self.receiver(key), action)

    def _act(self, session: S | None, action: Callable[[S], None]) -> bool:
        if session is None:
            return False
        action(session)
        self._touch(session)
        return True

    # -- messages ----------------------------------------------------------------------------------------------------------
    def receive(self, message: Message) -> None:
        """A message arrived on ``message.link``. Never raises for what it says."""
        if isinstance(message, Hello):
            self.links.hello(message)
            return
        record = self.links.table.get(message.link)
        if record is None:
            self.stray += 1
            self.links.unknown(message)
            return
        if record.instance and record.instance != message.source:
            self.stray += 1
            self.links.foreign(record, message)
            return
        if message.target is not msgspec.UNSET and message.target != self.env.instance:
            self.stray += 1
            self._refuse(message, Reason.WRONG_INSTANCE)
            return
        match message:
            case Welcome():
                self.links.welcome(record, message)
            case LinkOver():
                self.links.feed(record.link, LinkEvent.LINK_OVER)
            case Refusal(room=room) if room is msgspec.UNSET:
                self.links.refused(record, message)
            case _ if record.state is not LinkState.OPEN:
                self.links.unknown(message)
            case _:
                self.links.feed(record.link, LinkEvent.HEARD)
                self._room_message(self.links.table[record.link], message)
        self._credits()

    def _room_message(self, record: LinkRecord, message: Message) -> None:
        match message:
            case Heartbeat():
                if message.low_water is not msgspec.UNSET and message.engine is not msgspec.UNSET:
                    self._low_water(record, message.engine, message.low_water)
            case Drain():
                self.links.table[record.link] = msgspec.structs.replace(record, draining=True)
            case Refusal(engine=engine, gen=gen):
                if engine == self.env.engine and gen is not msgspec.UNSET:
                    self._to_receiver(record, message, gen)
            case RoomMessage(engine=engine, gen=gen) if engine == self.env.engine:
                self._to_receiver(record, message, gen)
            case RoomMessage():
                if message.low_water is not msgspec.UNSET:
                    self._low_water(record, message.engine, message.low_water)
                if message.engine != record.engine:
                    self.stray += 1  # an instance speaks for its own engine only
                    return
                for session in self.legs.heard(record, message, self.draining):
                    self._touch(session)
            case _:
                self.stray += 1

    def _to_receiver(self, record: LinkRecord, message: RoomMessage | Refusal, gen: int) -> None:
        session = self.receivers.get(gen)
        if session is not None:
            if session.rec.room != message.room:
                self.stray += 1  # an attempt has one room: this is about neither, and an answer would be about both
                return
            index = session.peer_of(record.link, message.source_rank)
            if index is not None:
                session.heard(index, message)
                self._touch(session)
                return
        if isinstance(message, RoomMessage) and gen <= self.last_gen:
            self.legs.over(record.link, message, self.low_water())
        else:
            self.stray += 1

    def _low_water(self, record: LinkRecord, engine: int, low_water: int) -> None:
        if engine == record.engine and low_water > record.low_water:
            self.links.table[record.link] = msgspec.structs.replace(record, low_water=low_water)
            for session in self.legs.passed(record.link, engine, record.low_water, low_water):
                self._touch(session)

    def _refuse(self, message: Message, reason: Reason) -> None:
        refusal = Refusal(reason=reason, link=message.link, source=self.env.instance, target=message.source)
        self.env.out.append(Send(message.link, refusal))

    # -- links, as the rooms hear of them ----------------------------------------------------------------------------------
    def low_water(self) -> int:
        """The smallest gen that this rank still holds for any peer; the next one when it holds none."""
        return next(iter(self.receivers), self.last_gen + 1)

    def link_open(self, record: LinkRecord) -> None:
        for session in list(self.receivers.values()):
            self._tell_link(session, record)

    def link_refused(self, record: LinkRecord) -> None:
        for session in list(self.receivers.values()):
            self._tell_link(session, record)

    def _tell_link(self, session: ReceiverSession, record: LinkRecord) -> None:
        if all(peer.link != record.link for peer in session.rec.peers):
            return
        newest = self.rooms.get(session.rec.room, session.key.no)
        if record.state is LinkState.OPEN and session.terminal and newest != session.key.no:
            session.unlinked(record.link)  # the leg that waits there is the newer attempt's
        elif record.state is LinkState.OPEN:
            session.linked(record.link, record.instance, record.transport)
        elif record.state is LinkState.REFUSED:
            session.unlinked(record.link)
            session.refused(record.fields, record.note)
        elif record.state is LinkState.OVER:
            session.unlinked(record.link)
            session.unreachable(record.address, record.note or "no answer to our hello")
        self._touch(session)

    def link_lost(self, record: LinkRecord) -> None:
        self.legs.forget_link(record.link)
        for session in self.sessions():
            session.peer_lost(record.link)
            self._touch(session)

    def disconnected(self, link: int) -> None:
        """The connection of a link is gone for good."""
        self.links.feed(link, LinkEvent.DISCONNECTED)
        self._credits()

    def peer_fenced(self, link: int) -> None:
        """The transport proved that nothing of this link can touch our memory."""
        self.links.fenced(link)
        for session in self.sessions():
            session.peer_fenced(link)
            self._touch(session)
        self._credits()

    def _cut(self, link: int) -> Cut | None:
        record = self.links.table.get(link)
        return None if record is None else record.cut

    # -- time --------------------------------------------------------------------------------------------------------------
    def tick(self, now: int) -> int | None:
        """Let every clock go off that is due at ``now`` (ms, monotonic). Returns when the next one is. Deliver what has
        arrived first: input is handled before a deadline is judged."""
        self.env.now = now
        for key, clock in self.clocks.expired(now):
            self.fire(key, clock)
        self._credits()
        return self.clocks.next()

    def fire(self, key: Clocked, clock: Deadline | LinkEvent) -> None:
        """One clock of a room, of a half-open attempt, or of a link goes off."""
        if isinstance(key, SessionKey):
            session = self.session(key)
            if session is not None and isinstance(clock, Deadline):
                session.fire(clock)
                self._touch(session)
        elif isinstance(key, tuple):
            self.legs.expire(key)
        elif isinstance(clock, LinkEvent):
            self.links.fire(key, clock)

    def _due(self, name: tuple[Clocked, Deadline | LinkEvent]) -> int | None:
        key, clock = name
        if isinstance(key, SessionKey):
            session = self.session(key)
            return None if session is None else next((due for d, due in session.rec.timers if d is clock), None)
        if isinstance(key, tuple):
            half = self.legs.half_open.get(key)
            return None if half is None else half.due
        record = self.links.table.get(key)
        return None if record is None else next((due for e, due in record.timers if e is clock), None)

    # -- the process -------------------------------------------------------------------------------------------------------
    def drain(self, within: int) -> None:
        """Take no new rooms, and tell every peer."""
        self.draining = True
        for record in self.links.table.values():
            if record.state is LinkState.OPEN:
                message = Drain(within=within, link=record.link, source=self.env.instance, target=record.instance)
                self.env.out.append(Send(record.link, message))
        self.legs.drain()

    def shutdown(self) -> None:
        """Fail every live room; their leases drain as always."""
        self.draining = True
        self.legs.drain()
        for session in self.sessions():
            session.shutdown()
            self._touch(session)

    def close_links(self) -> None:
        """End every link and say so. Rooms that are still live hear PEER_LOST; leases come back with the fences."""
        for link in list(self.links.table):
            self.links.feed(link, LinkEvent.CLOSE)
        self._credits()

    def sessions(self) -> list[Session]:
        """Every session that is not dropped."""
        return [*self.legs.sessions.values(), *self.receivers.values()]

    def _done(self, session: Session, result: tuple[int, ...]) -> tuple[int, ...]:
        self._touch(session)
        return result

    def _touch(self, session: Session) -> None:
        """After every step of a session: free its room when it is over, drop its record when nothing of it is left."""
        if not session.terminal:
            return
        room = session.rec.room
        if isinstance(session, ReceiverSession):
            if self.rooms.get(room) == session.key.no:
                del self.rooms[room]
            if session.settled and self.receivers.pop(session.key.no, None) is not None:
                self.env.out.append(Dropped(session.key))
        elif self.legs.ended(session):
            self.env.out.append(Dropped(session.key))

    def snapshot(self) -> Snapshot:
        """See :func:`.snapshot.of`."""
        return snapshot.of(self)

    def restore(self, state: Snapshot) -> None:
        """See :func:`.snapshot.into`."""
        snapshot.into(self, state)

    def gauges(self) -> dict[str, int]:
        """Sizes of every table; all zero when idle, links aside."""
        return {
            "senders": len(self.legs.sessions), "receivers": len(self.receivers), "rooms": len(self.rooms) + len(self.legs.rooms),
            "attempts": len(self.legs.attempts), "half_open": len(self.legs.half_open), "tombstones": len(self.legs.tombs),
            "quarantined": sum(lease.state is LeaseState.QUARANTINED for s in self.sessions() for lease in s.rec.leases),
            "waiting": len(self._waiting), "credits_out": self.config.credits - self.env.credits,
        }  # fmt: skip
