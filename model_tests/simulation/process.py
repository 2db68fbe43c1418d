"""One simulated process: a real core, what its shell does with the core's outputs, and its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.errors import KvpollError
from kvpoll.protocol.handshake import compare
from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import (
    Cancel,
    Changed,
    CloseLink,
    ClosePeer,
    Connect,
    Dropped,
    Expose,
    FenceOp,
    FencePeer,
    HandBack,
    OfferPart,
    OpenPeer,
    Output,
    Quarantined,
    Ready,
    Send,
    Submit,
)  # fmt: skip
from kvpoll.protocol.records import OpKey, SessionKey
from kvpoll.spec import KVPoll, LeaseEvent, LeaseState
from kvpoll.spec.table import Verdict
from kvpoll.spec.wire import (
    VERSION,
    AbortAck,
    Conclude,
    Deadlines,
    Heads,
    Layers,
    Message,
    Page,
    Registration,
    RoomMessage,
    Status,
    TransportOffer,
    Versions,
)  # fmt: skip

from .chance import Chance, OpEnd
from .clockwork import Clockwork
from .ends import DecodeEnd, PrefillEnd
from .fabric import Fabric
from .memory import Pool
from .network import Network
from .rooms import End, Ledger, give_up
from .settings import Setting

__all__ = ["Process", "Site"]

#: What a core must never raise, whatever it is told.
_SURPRISES = (KvpollError, AssertionError, LookupError, TypeError, ValueError, AttributeError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Site:
    """What every process of a run shares."""

    clock: Clockwork
    chance: Chance
    setting: Setting
    network: Network
    fabric: Fabric
    ledger: Ledger
    ids: Iterator[int]
    counts: Counter[str]


class Process:
    """See the module text. ``address`` is its place; whoever is started there later is another process."""

    def __init__(self, site: Site, address: str, config: CoreConfig, prefill: bool) -> None:
        self.site = site
        self.clock, self.setting, self.fabric, self.ledger = site.clock, site.setting, site.fabric, site.ledger
        self.address = self.name = address
        self.config = config
        self.prefill = prefill
        self.alive = True
        self.frozen = 0  #: until then; 0: it runs
        self.ends: dict[SessionKey, PrefillEnd | DecodeEnd] = {}
        self.ops: dict[OpKey, Submit] = {}  #: operations that the core has no end of
        layers = config.layers[1] - config.layers[0]
        self.pool = Pool(site.clock, f"page of {address}", site.setting.pages, layers)
        self.slots = Pool(site.clock, f"aux slot of {address}", site.setting.slots, 1)
        self.core = Core(config, lambda: next(site.ids), lambda link: self._registration(), self._judge)
        self.core.env.trace = self._stepped
        self._inbox: list[Callable[[], None]] = []
        self._reported: list[OpKey] = []  #: operations that a transport said something of in this step
        self._tick_at: int | None = None
        site.network.places[address] = self
        self.log(f"starts as {config.instance}")

    @property
    def instance(self) -> int:
        return self.config.instance

    def _registration(self) -> Registration:
        config, timing, setting = self.config, self.config.timing, self.setting
        deadlines = Deadlines(timing.pairing, timing.silence, timing.total, timing.resend, timing.lost, setting.margin)
        return Registration(
            versions=Versions(VERSION, VERSION), role="prefill" if self.prefill else "decode", engine=config.engine,
            model="simulated", weights="", layers=Layers(setting.all_layers, 0, setting.all_layers),
            page=Page(config.page_size, config.page_nbytes), kv_dtype="uint8", layout="", heads=Heads(1, 1),
            transports=tuple(TransportOffer(name, {}) for name, _ in config.push), deadlines=deadlines,
        )  # fmt: skip

    def _judge(self, ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
        verdict = compare(ours, theirs, role="prefill" if self.prefill else "decode")
        fields, text = verdict.refusal()
        return Judgement(fields, verdict.transport or "", text)

    # -- time --------------------------------------------------------------------------------------------------------------
    def run(self, action: Callable[[], None]) -> None:
        """Do something with the core, now, and carry out what follows."""
        if not self.alive:
            return
        self.core.env.now = self.clock.now
        try:
            action()
            while outputs := self.core.take():
                for out in outputs:
                    self._carry_out(out)
        except _SURPRISES as error:
            sentence = f"{self.address}: raised {type(error).__name__}: {error}"
            raise self.clock.violation("TotalHandlers", sentence, None, self.instance) from error
        self._check_counts()
        self._rearm()

    def soon(self, action: Callable[[], None]) -> None:
        """Something arrives: handled now, or when the process goes on."""
        if self.frozen:
            self._inbox.append(action)
        else:
            self.run(action)

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """The engine does something ``delay`` ms from now, if it still lives."""
        self.clock.after(delay, partial(self._later, action))

    def _later(self, action: Callable[[], None]) -> None:
        if self.frozen:
            self.later(self.frozen - self.clock.now, action)
        else:
            self.run(action)

    def _rearm(self) -> None:
        due = self.core.clocks.next()
        if due is not None and (self._tick_at is None or due < self._tick_at):
            self._tick_at = due
            self.clock.after(due - self.clock.now, partial(self._tick, due), late=True)

    def _tick(self, due: int) -> None:
        if self._tick_at == due and not self.frozen:
            self._tick_at = None
            self.run(self._tock)

    def _tock(self) -> None:
        self.core.tick(self.clock.now)

    def freeze(self, ms: int) -> None:
        """Nothing happens here for so long; what arrives meanwhile waits, and is handled before any clock."""
        if self.alive and not self.frozen:
            self.frozen = self.clock.now + ms
            self.log(f"is frozen for {ms} ms")
            self.clock.after(ms, self._thaw)

    def _thaw(self) -> None:
        self.frozen = 0
        inbox, self._inbox = self._inbox, []
        for action in inbox:
            self.run(action)
        self._tick_at = None
        if self.alive:
            self._rearm()

    # -- ends of the process -----------------------------------------------------------------------------------------------
    def crash(self) -> None:
        """Gone without a word, with all its memory. What it started may go on."""
        if not self.alive:
            return
        self.log("crashes")
        self._leave()
        for end in list(self.ends.values()):
            self.ledger.lost(end)

    def leave(self) -> None:
        """Gone after a shutdown: nothing may be left."""
        self.log("leaves")
        self._leave()

    def _leave(self) -> None:
        self.alive = False
        del self.site.network.places[self.address]
        self.fabric.crash(self)

    # -- events for the core -----------------------------------------------------------------------------------------------
    def hear(self, message: Message) -> None:
        self.core.receive(message)

    def report(self, how: OpEnd | None, op: OpKey) -> None:
        """What a transport says of an operation; ``None``: it is fenced."""
        if how is not OpEnd.UNRESOLVED:
            self.ops.pop(op, None)
        match how:
            case None:
                self.core.op_fenced(op)
            case OpEnd.DONE:
                self.core.op_done(op)
            case OpEnd.UNRESOLVED:
                self.core.op_unresolved(op, "no answer")
            case _:
                self.core.op_failed(op, "on purpose")
        self._reported.append(op)

    def _check_counts(self) -> None:
        """CountExact, CreditsConserved: what the core counts is what is in flight."""
        gone = self.config.credits - self.core.env.credits
        if len(self.ops) != gone:
            self.broken("CreditsConserved", f"{gone} credits are out for {len(self.ops)} operations")
        while self._reported:
            op = self._reported.pop()
            session = self.core.session(op.session)
            if session is not None and not session.rec.peers[op.peer].gone:
                peer = session.rec.peers[op.peer]
                real = sum(other[:2] == op[:2] for other in self.ops)
                if peer.started - peer.quiescent != real:
                    counted = f"{peer.started} were started and {peer.quiescent} are quiescent"
                    self.broken("CountExact", f"{counted}, in flight are {real}", self.ends.get(op.session))

    def adopt(self, end: PrefillEnd | DecodeEnd) -> None:
        """The engine's end of a session that was created a moment ago."""
        self.ends[end.key] = end
        session = self.core.sender(end.key)
        if session is not None and session.rec.gen:
            self.ledger.paired(end, (session.rec.engine, session.rec.gen))

    def _stepped(self, key: SessionKey, edge: Edge, signal: Signal) -> None:
        """The interpreter followed a row."""
        end = self.ends.get(key)
        if edge.verdict is Verdict.NEVER:
            self.broken(
                "TotalHandlers", f"a row that is called impossible fired: {edge.row.state.name} {signal.name}", end
            )
        if end is not None and end.attempt is None:
            session = self.core.sender(key)
            if session is not None and session.rec.gen:
                self.ledger.paired(end, (session.rec.engine, session.rec.gen))

    # -- outputs of the core -----------------------------------------------------------------------------------------------
    def _carry_out(self, out: Output) -> None:
        match out:
            case Send(link=link, message=message):
                self._check_word(link, message)
                self.site.network.send(self, link, message)
            case Changed(session=key, state=state, failure=failure):
                end = self.ends[key]
                self.log(f"{key.role} {key.no} {state.name}{'' if failure is None else f' {failure.cause.name}'}", end)
                self.ledger.moved(end, state, failure)
                if state is KVPoll.Failed:
                    give_up(end.room, end.prefill, self.site.chance.pause(150))
            case HandBack():
                self._handed_back(out)
            case Submit(op=op):
                self.ops[op] = out
                self.fabric.submit(self, out)
            case OfferPart():
                self._offer(out)
            case Expose(session=key):
                end = self.ends[key]
                assert isinstance(end, DecodeEnd)
                self.fabric.expose(end, out)
            case Ready(session=key):
                end = self.ends[key]
                assert isinstance(end, DecodeEnd)
                end.ready()
            case Dropped(session=key):
                self.ledger.dropped(self.ends.pop(key))
            case Cancel(op=op) if op in self.ops:
                self.fabric.cancel(self, self.ops[op])
            case FenceOp(op=op) if op in self.ops:
                self.fabric.fence_operation(self, self.ops[op])
            case FencePeer(link=link):
                self.clock.after(self.site.chance.pause(80), partial(self._fenced, link))
            case Connect(link=link, address=address):
                self.site.network.connect(link, self, address)
            case CloseLink(link=link):
                self.site.network.hang_up(link, self)
            case Quarantined():
                self.site.counts["leases quarantined"] += 1
            case OpenPeer() | ClosePeer() | Cancel() | FenceOp():
                pass

    def _offer(self, out: OfferPart) -> None:
        end = self.ends[out.session]
        assert isinstance(end, PrefillEnd)
        if not self.site.chance.offer_refused():
            self.fabric.offer(end, out)
            return
        self.site.counts["offers refused"] += 1
        session = self.core.sender(out.session)
        assert session is not None
        peer = next(i for i, p in enumerate(session.rec.peers) if p.link == out.link)
        self.core.on_sender(out.session, lambda s: s.op_failed(peer, out.no, "a deleted array"))

    def _handed_back(self, out: HandBack) -> None:
        end, lease = self.ends[out.session], out.lease
        if (lease.kind, lease.no) not in end.lent:
            self.broken("ExactlyOnceFree", f"{lease.kind.value} {lease.no} came back and was not lent", end)
        del end.lent[lease.kind, lease.no]
        picked, _ = lease.step(LeaseEvent.PICKED)
        assert picked.state is LeaseState.FREE
        end.handed_back(lease)

    def _fenced(self, link: int) -> None:
        if self.alive:
            self.soon(partial(self._peer_fenced, link))

    def _peer_fenced(self, link: int) -> None:
        self.log(f"has fenced link {link}")
        self.fabric.fence_peer(self, link)
        self.ops = {op: out for op, out in self.ops.items() if out.link != link}
        self.core.peer_fenced(link)

    def _check_word(self, link: int, message: Message) -> None:
        """AckMeansQuiescent: whoever says that nothing of it can touch the peer's memory is right."""
        if not isinstance(message, RoomMessage):
            return
        match message:
            case AbortAck(quarantined=False) | Conclude():
                pass
            case Status(facts=facts) if facts.drained or facts.concluded:
                pass
            case _:
                return
        flights = self.fabric.towards(self, link, (message.engine, message.gen))
        if flights:
            what = f"{type(message).__name__} was sent with {len(flights)} operations in flight"
            self.broken("AckMeansQuiescent", what, flights[0].owner)

    # -- afterwards --------------------------------------------------------------------------------------------------------
    def busy(self) -> dict[str, int]:
        """What is not at its idle value."""
        sizes = dict(self.core.gauges())
        sizes |= {
            "operations": len(self.ops), "in flight": len(self.fabric.in_flight(self)), "pages lent": self.pool.lent,
            "aux slots lent": self.slots.lent, "ends": len(self.ends), "leases": sum(len(e.lent) for e in self.ends.values()),
            "inbox": len(self._inbox),
            "clocks": max(0, len(self.core.clocks) - 4 * len(self.core.links.table)),
        }  # fmt: skip
        return {name: size for name, size in sizes.items() if size}

    def log(self, what: str, end: End | None = None) -> None:
        self.clock.log(self.address, what, -1 if end is None else end.number)

    def broken(self, invariant: str, sentence: str, end: End | None = None) -> NoReturn:
        where = self.address if end is None else end.text
        self.clock.broken(invariant, f"{where}: {sentence}", None if end is None else end.number, self.instance)
