"""Links: the handshake, heartbeats, and declaring a peer lost. One record a link, moved by the link table only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kvpoll.spec import LINK, Effect, LinkEvent, LinkState
from kvpoll.spec.wire import Heartbeat, Hello, LinkOver, Message, Reason, Refusal, Registration, Welcome

from .cut import Cut
from .interpreter import Node, Rules
from .outputs import CloseLink, ClosePeer, Connect, FencePeer, OpenPeer, Send
from .records import SessionKey
from .session import Env

__all__ = ["Judgement", "LinkRecord", "Links", "Rooms"]

RULES = Rules(LINK)
_SIGNALS = {e: RULES.signal(e) for e in LinkEvent}
#: The clocks of a link.
CLOCKS = (LinkEvent.BEAT, LinkEvent.HELLO_LATE, LinkEvent.LOST)


class Judgement(NamedTuple):
    """What comparing two registrations says: the fields that cannot work (none: it fits), the transport picked, and what of
    the sender rank's data goes to the receiver rank."""

    fields: tuple[str, ...]
    transport: str
    text: str = ""
    cut: Cut | None = None


class LinkRecord(msgspec.Struct, frozen=True):
    """All of one link."""

    node: Node
    link: int
    initiator: bool
    address: str = ""
    instance: int = 0  #: of the peer
    engine: int = 0
    transport: str = ""
    cut: Cut | None = None  #: see :class:`Judgement`
    registration: Registration | None = None  #: the peer's
    fields: tuple[str, ...] = ()  #: why it was refused
    timers: tuple[tuple[LinkEvent, int], ...] = ()
    low_water: int = 0  #: the largest that this peer said
    draining: bool = False  #: the peer takes no new rooms
    note: str = ""  #: why it is not open yet, for people

    @property
    def state(self) -> LinkState:
        state = self.node.state
        assert isinstance(state, LinkState)
        return state


class Rooms(Protocol):
    """What links tell the rooms of their process."""

    def link_open(self, record: LinkRecord) -> None: ...
    def link_refused(self, record: LinkRecord) -> None: ...
    def link_lost(self, record: LinkRecord) -> None: ...
    def low_water(self) -> int: ...


class Links:
    """Every link of a process."""

    def __init__(
        self,
        env: Env,
        rooms: Rooms,
        registration: Callable[[int], Registration],
        judge: Callable[[Registration, Registration, bool], Judgement],
        limit: int = 1024,
    ) -> None:
        self.env = env
        self.rooms = rooms
        self.registration = registration
        self.judge = judge
        self.limit = limit
        self.table: dict[int, LinkRecord] = {}
        self.by_address: dict[str, int] = {}
        self.arm: Callable[[int, LinkEvent, int], None] = lambda link, clock, due: None
        self.refusals = 0

    # -- ways in ---------------------------------------------------------------------------------------------------------
    def to(self, address: str) -> LinkRecord | None:
        """The link to ``address``, made if there is none; ``None`` when the table is full."""
        known = self.by_address.get(address)
        if known is not None and self.table[known].state is not LinkState.OVER:
            return self.table[known]
        if len(self.table) >= self.limit:
            return None
        link = self.env.ids()
        record = LinkRecord(RULES.initial, link, True, address)
        self.table[link] = record
        self.by_address[address] = link
        self.env.out.append(Connect(link, address))
        self._effects(link, (Effect.SEND_HELLO, Effect.ARM_BEAT, Effect.ARM_HELLO))
        return self.table[link]

    def hello(self, message: Hello) -> None:
        """The first message of a receiver's process, or a copy of it."""
        record = self.table.get(message.link)
        if record is None:
            if len(self.table) >= self.limit:
                self._refuse(message, Reason.LIMIT, ("links",), f"at most {self.limit} links")
                self.env.out.append(CloseLink(message.link))
                return
            record = LinkRecord(RULES.initial, message.link, False, "", message.source)
            self.table[message.link] = record
            self._judge(record, message.registration)
        elif record.initiator or record.instance != message.source:
            return  # somebody else's link id: not a link of theirs, and nothing of ours to disturb
        record = self.table[message.link]
        if record.state is LinkState.OPEN:
            ours = self.registration(record.link)
            self._send(
                record, Welcome(registration=ours, link=record.link, source=self.env.instance, target=record.instance)
            )
        elif record.state is LinkState.REFUSED:
            self._refuse(message, Reason.HANDSHAKE, record.fields, record.note)

    def greet(self, link: int) -> None:
        """The connection of a link of ours exists now, or leads to another process: say hello at once instead of at the next
        interval, and give it the time that a hello has."""
        record = self.table.get(link)
        if record is not None and record.initiator and record.state is LinkState.GREETING:
            self._effects(link, (Effect.SEND_HELLO, Effect.ARM_HELLO))

    def note(self, link: int, text: str) -> None:
        """Why a link of ours is not open yet (no such rank, connection refused), for the failure of its rooms."""
        record = self.table.get(link)
        if record is not None and record.state is LinkState.GREETING:
            self.table[link] = replace(record, note=text)

    def welcome(self, record: LinkRecord, message: Welcome) -> None:
        """The answer to our hello."""
        if record.initiator and record.state is LinkState.GREETING:
            self.table[record.link] = replace(record, instance=message.source)
            self._judge(self.table[record.link], message.registration)
            if self.table[record.link].state is LinkState.REFUSED:
                over = LinkOver(text="refused", link=record.link, source=self.env.instance, target=message.source)
                self._send(record, over)

    def refused(self, record: LinkRecord, message: Refusal) -> None:
        """The peer refuses the pair, or says that we speak to another instance."""
        if message.reason == Reason.WRONG_INSTANCE:
            self.feed(record.link, LinkEvent.LINK_OVER)
        elif record.state is LinkState.GREETING:
            fields = message.fields or (reason_name(message.reason),)
            self.table[record.link] = replace(record, fields=fields, note=message.text)
            self.feed(record.link, LinkEvent.MISMATCH)

    def unknown(self, message: Message) -> None:
        """A message on a link that is not open here: say so, unless it says the same."""
        record = self.table.get(message.link)
        if record is not None and record.state is LinkState.GREETING:
            return
        if record is not None or not isinstance(message, LinkOver | Refusal | Heartbeat):
            over = LinkOver(link=message.link, source=self.env.instance, target=message.source)
            self.env.out.append(Send(message.link, over))
        if record is None:
            self.env.out.append(CloseLink(message.link))  # nobody here remembers the connection that it came in on

    def foreign(self, record: LinkRecord, message: Message) -> None:
        """Another instance speaks on a link. Only where we dialled does it mean anything: another process answers at the
        address now, and does not know the link (G08)."""
        if record.initiator and isinstance(message, LinkOver):
            self.feed(record.link, LinkEvent.LINK_OVER)

    def _judge(self, record: LinkRecord, theirs: Registration) -> None:
        judgement = self.judge(self.registration(record.link), theirs, record.initiator)
        self.table[record.link] = replace(
            record,
            registration=theirs,
            engine=theirs.engine,
            fields=judgement.fields,
            transport=judgement.transport,
            cut=judgement.cut,
            note=judgement.text,
        )
        self.feed(record.link, LinkEvent.MISMATCH if judgement.fields else LinkEvent.WELCOME)
        if judgement.fields:
            self.refusals += 1

    def _refuse(self, message: Message, reason: Reason, fields: tuple[str, ...], text: str) -> None:
        refusal = Refusal(
            reason=reason, fields=fields, text=text, link=message.link, source=self.env.instance, target=message.source
        )
        self.env.out.append(Send(message.link, refusal))

    # -- the table ---------------------------------------------------------------------------------------------------------
    def feed(self, link: int, event: LinkEvent) -> None:
        """Follow the link table and carry its effects out."""
        record = self.table.get(link)
        if record is None:
            return
        edge = record.node.edges.get(_SIGNALS[event]) or RULES.expand(record.node, _SIGNALS[event])
        if edge.node is not record.node:
            self.table[link] = replace(record, node=edge.node)
            if self.env.trace is not None:  # only what moves: every message that arrives is a step that stays
                self.env.trace(SessionKey("link", link), edge, _SIGNALS[event])
        self._effects(link, edge.effects)
        record = self.table.get(link)
        if record is not None and record.state is LinkState.OVER and record.timers:
            self.table[link] = replace(record, timers=())
        if (
            record is not None
            and record.state is LinkState.OVER
            and Effect.DROP_PEER not in edge.effects
            and edge.node.state is not edge.row.state
        ):
            self.forget(link)

    def _effects(self, link: int, effects: tuple[Effect, ...]) -> None:
        timing = self.env.timing
        for effect in effects:
            record = self.table[link]
            match effect:
                case Effect.SEND_HELLO:
                    hello = Hello(registration=self.registration(link), link=link, source=self.env.instance)
                    self._send(record, hello)
                case Effect.OPEN_PEER:
                    assert record.registration is not None
                    self.env.out.append(OpenPeer(link, record.transport, record.registration))
                    self.rooms.link_open(record)
                case Effect.FAIL_ROOMS:
                    self._clock(link, LinkEvent.HELLO_LATE, timing.hello)
                    self.rooms.link_refused(record)
                case Effect.DROP_PEER:
                    over = LinkOver(link=link, source=self.env.instance, target=record.instance)
                    self._send(record, over)
                    self.rooms.link_lost(record)
                    self.env.out.append(FencePeer(link, record.transport))
                case Effect.BEAT:
                    beat = Heartbeat(
                        link=link, source=self.env.instance, target=record.instance, engine=self.env.engine,
                        low_water=self.rooms.low_water() if record.initiator else UNSET,
                    )  # fmt: skip
                    self._send(record, beat)
                case Effect.ARM_BEAT:
                    self._clock(link, LinkEvent.BEAT, timing.beat)
                case Effect.ARM_LOST:
                    self._clock(link, LinkEvent.LOST, timing.lost)
                case Effect.ARM_HELLO:
                    self._clock(link, LinkEvent.HELLO_LATE, timing.hello)
                case _:
                    raise AssertionError(f"the link table asks for {effect.name}, which no link carries out")

    def _clock(self, link: int, clock: LinkEvent, after: int) -> None:
        record, due = self.table[link], self.env.now + after
        timers = tuple(sorted((dict(record.timers) | {clock: due}).items(), key=lambda item: item[0].value))
        if timers != record.timers:
            self.table[link] = replace(record, timers=timers)
            self.arm(link, clock, due)

    def fire(self, link: int, clock: LinkEvent) -> None:
        """A clock of a link went off."""
        record = self.table.get(link)
        if record is not None:
            self.table[link] = replace(record, timers=tuple(t for t in record.timers if t[0] is not clock))
            self.feed(link, clock)

    def fenced(self, link: int) -> None:
        """The transport has fenced the peer: nothing of the link is left."""
        record = self.table.get(link)
        if record is not None and record.state is LinkState.OVER:
            self.env.out.append(ClosePeer(link, record.transport))
            self.forget(link)

    def forget(self, link: int) -> None:
        record = self.table.pop(link)
        if self.by_address.get(record.address) == link:
            del self.by_address[record.address]
        self.env.out.append(CloseLink(link))

    def _send(self, record: LinkRecord, message: Message) -> None:
        self.env.out.append(Send(record.link, message))


def reason_name(reason: int) -> str:
    """The name of a refusal's reason; its number when a newer peer uses one that we do not know."""
    return Reason(reason).name.lower() if reason in Reason.__members__.values() else f"reason {reason}"
