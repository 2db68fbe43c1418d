"""Two real cores and a fake wire: what most tests of the protocol stand on.

A :class:`Pair` is a prefill process ``p`` and a decode process ``d`` (more can join) on a simulated clock. Nothing moves
by itself: messages stand in ``pair.wire`` until they are delivered, dropped or copied, operations in ``process.ops`` until
they are ended, fences until they are proved. :meth:`Pair.run` does all of that, oldest first, until nothing is left to do.
Every message goes through the real codec.

An oracle watches: memory that goes back while an operation may still touch it, a lease that comes back twice, a terminal
state that is left, an unproved ABORT_ACK, and Success of a sender whose receiver has not succeeded raise ``Broken``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.errors import Failure
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
    Ready,
    Send,
    Submit,
)  # fmt: skip
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import LeaseKind, OpKey, SessionKey
from kvpoll.protocol.sender import SenderSession
from kvpoll.protocol.session import Timing
from kvpoll.spec import KVPoll, LinkEvent, LinkState
from kvpoll.spec.wire import (
    VERSION,
    AbortAck,
    Deadlines,
    Fingerprint,
    Heads,
    Layers,
    Message,
    Page,
    Part,
    Registration,
    Versions,
)  # fmt: skip

ROOM = 7
TIMING = Timing(
    pairing=30_000, silence=20_000, total=120_000, gate=10_000, resend=500, hello=5_000, beat=1_000, lost=5_000
)
TERMINAL = (KVPoll.Failed, KVPoll.Success)


class Broken(AssertionError):
    """An invariant of ``facts/invariants.md`` does not hold."""


def request(tokens: int = 4, prefix: int = 0, digest: bytes = b"request") -> Fingerprint:
    return Fingerprint(tokens=tokens, prefix=prefix, digest=digest)


def part(start: int, stop: int, layers: tuple[int, int] = (0, 1), **changes: object) -> Part:
    """A part of pages of one token, one byte a token and layer."""
    shape = (layers[1] - layers[0], stop - start)
    values: dict[str, object] = {
        "no": 0,
        "start": start,
        "stop": stop,
        "layer_start": layers[0],
        "layer_stop": layers[1],
    }
    return Part(**{**values, "shape": shape, **changes})  # type: ignore[arg-type]


@dataclass
class Flight:
    """A message on the wire."""

    source: str
    target: str
    message: Message

    @property
    def kind(self) -> str:
        return type(self.message).__name__


@dataclass
class Operation:
    """An operation that was submitted and not reported yet, and the processes whose memory it may touch."""

    submit: Submit
    attempt: tuple[int, int]
    touches: set[str] = field(default_factory=set)
    unresolved: bool = False


@dataclass
class Leg:
    """The engine's end of one session: what a handle of the runtime is."""

    process: Process
    key: SessionKey
    room: int
    request: Fingerprint
    states: list[KVPoll] = field(default_factory=lambda: [KVPoll.Bootstrapping])
    failure: Failure | None = None
    ready: bool = False
    dropped: bool = False

    @property
    def state(self) -> KVPoll:
        return self.states[-1]

    @property
    def cause(self) -> str:
        return "" if self.failure is None else self.failure.cause.name

    @property
    def details(self) -> dict[str, str | int]:
        return {} if self.failure is None else dict(self.failure.details)

    @property
    def session(self) -> SenderSession | ReceiverSession:
        session = self.process.core.session(self.key)
        assert session is not None, f"{self.key} was dropped"
        return session

    @property
    def rec(self) -> object:
        return self.session.rec

    def _call(self, action: Callable[..., None]) -> None:
        try:
            self.process.core.call(self.key, action)
        finally:
            self.process.settle()

    # Sender.
    def send(self, *parts: Part, last: bool = False, gathered: bool = True) -> tuple[int, ...]:
        try:
            nos = self.process.core.send(self.key, parts, last)
        finally:
            self.process.settle()
        if gathered and nos:
            self.gathered(*nos)
        return nos

    def send_all(self, *cuts: int) -> None:
        """The whole plan, in chunks that end at ``cuts``."""
        stops = [*cuts, self.request.tokens]
        starts = [self.request.prefix, *cuts]
        for start, stop in zip(starts, stops, strict=True):
            chunk = [part(start, stop, self.process.core.env.layers)] if stop > start else []
            self.send(*chunk, last=stop == self.request.tokens)

    def gathered(self, *nos: int) -> None:
        self._call(lambda s: s.gathered(nos))

    def dispatched(self, *nos: int) -> None:
        self._call(lambda s: s.dispatched(nos))

    # Receiver.
    def metadata(self, aux: int | None = None, gates: Sequence[str] = ()) -> None:
        self._call(lambda s: s.send_metadata(aux, gates))

    def begin_commit(self) -> None:
        self._call(lambda s: s.begin_commit())

    def end_commit(self, error: str = "") -> None:
        self._call(lambda s: s.end_commit(error))

    def commit(self) -> None:
        self.begin_commit()
        self.end_commit()

    def open_gate(self, gate: str) -> None:
        self._call(lambda s: s.open_gate(gate))

    def fail_gate(self, gate: str, reason: str = "") -> None:
        self._call(lambda s: s.fail_gate(gate, reason))

    # Both.
    def abort(self, reason: str = "", status: int = 0) -> None:
        self._call(lambda s: s.abort(reason, status))


class Process:
    """One core and the fake world around it: transport, engine, memory."""

    def __init__(self, pair: Pair, name: str, **config: object) -> None:
        self.pair = pair
        self.name = name
        self.instance = next(pair.ids)
        self.config = CoreConfig(
            **{  # type: ignore[arg-type]
                "instance": self.instance, "engine": next(pair.ids), "timing": pair.timing,
                "push": (("fake", pair.push),), **config,
            }
        )  # fmt: skip
        self.core = self._core()
        self.alive = True
        self.auto_commit = True
        self.hold_ops = False
        self.hold_fences = False
        self.legs: dict[SessionKey, Leg] = {}
        self.ops: dict[OpKey, Operation] = {}
        self.fences: list[int] = []  #: links whose fence is asked for and not proved
        self.op_fences: list[OpKey] = []
        self.exposed: set[int] = set()
        self.offered: set[int] = set()
        self.lent: Counter[tuple[SessionKey, LeaseKind, int]] = Counter()
        self.back: Counter[tuple[SessionKey, LeaseKind, int]] = Counter()
        self._to_commit: list[Leg] = []
        self.outputs: list[Output] = []  #: everything ever asked for, sends apart
        self.said: list[Message] = []

    def _core(self) -> Core:
        return Core(self.config, lambda: next(self.pair.ids), lambda link: self.registration, self.pair.judge)

    @property
    def registration(self) -> Registration:
        config = self.config
        return Registration(
            versions=Versions(VERSION, VERSION), role="any", engine=config.engine, model="", weights="",
            layers=Layers(config.layers[1], *config.layers), page=Page(config.page_size, config.page_nbytes),
            kv_dtype="uint8", layout="", heads=Heads(1, 1), transports=(), deadlines=Deadlines(1, 1, 1, 1, 1, 1),
        )  # fmt: skip

    # -- the engine --------------------------------------------------------------------------------------------------------
    def sender(self, room: int = ROOM, want: Fingerprint | None = None, ranks: int = 1) -> Leg:
        want = want or request()
        return self._adopt(self.core.create_sender(room, want, ranks), room, want)

    def receiver(
        self, room: int = ROOM, want: Fingerprint | None = None, senders: Sequence[tuple[str, int]] = (("p", 0),),
        gen: int | None = None,
    ) -> Leg:  # fmt: skip
        want = want or request()
        return self._adopt(self.core.create_receiver(room, want, senders, gen), room, want)

    def _adopt(self, key: SessionKey, room: int, want: Fingerprint) -> Leg:
        leg = self.legs[key] = Leg(self, key, room, want)
        self.settle()
        return leg

    # -- the transport -----------------------------------------------------------------------------------------------------
    def end_op(self, how: str = "done", op: OpKey | None = None, detail: str = "") -> OpKey:
        """End an operation: "done", "failed", "unresolved" or "fenced"; the oldest one when none is named."""
        op = next(iter(self.ops)) if op is None else op
        if how == "unresolved":
            self.ops[op].unresolved = True
        else:
            del self.ops[op]
        match how:
            case "done":
                self.core.op_done(op)
            case "failed":
                self.core.op_failed(op, detail)
            case "unresolved":
                self.core.op_unresolved(op, detail)
            case "fenced":
                self.core.op_fenced(op)
        self.settle()
        return op

    def prove_fence(self, link: int | None = None) -> None:
        """The transport says that nothing of the link can touch our memory any more."""
        link = self.fences[0] if link is None else link
        self.fences.remove(link)
        for process in self.pair.everybody():
            for op, operation in list(process.ops.items()):
                if operation.submit.link == link:
                    operation.touches.discard(self.name)
                    if process is self:
                        del self.ops[op]  # a fence covers our own operations too
        self.core.peer_fenced(link)
        self.settle()

    # -- links ---------------------------------------------------------------------------------------------------------------
    @property
    def link(self) -> int:
        """The only link."""
        (link,) = self.core.links.table
        return link

    def link_state(self) -> LinkState:
        return self.core.links.table[self.link].state

    def declare_lost(self, link: int | None = None) -> None:
        self.core.fire(self.link if link is None else link, LinkEvent.LOST)
        self.settle()

    def beat(self) -> None:
        """A heartbeat on every open link."""
        for link, record in list(self.core.links.table.items()):
            if record.state is LinkState.OPEN:
                self.core.fire(link, LinkEvent.BEAT)
        self.settle()

    # -- outputs -------------------------------------------------------------------------------------------------------------
    def settle(self) -> None:
        """Carry out what the core asks for, then let the oracle look."""
        self._lend()
        for out in self.core.take():
            if not isinstance(out, Send):
                self.outputs.append(out)
            self._output(out)
        self._lend()
        while self.auto_commit and self._to_commit:
            leg = self._to_commit.pop()
            if leg.state is KVPoll.Transferring:
                leg.commit()

    def _lend(self) -> None:
        for session in self.core.sessions():
            for lease in session.rec.leases:
                self.lent[session.key, lease.kind, lease.no] = 1

    def _output(self, out: Output) -> None:
        match out:
            case Send(link=link, message=message):
                self._check_said(message)
                self.said.append(message)
                self.pair.put(self, link, message)
            case Connect(link=link, address=address):
                self.pair.ends[link] = (self.name, address)
            case Submit(op=op):
                session = self.core.session(op.session)
                assert session is not None
                attempt = (session.rec.engine, session.rec.gen)
                peer = self.pair.other(out.link, self.name)
                self.ops[op] = Operation(out, attempt, {self.name, peer})
            case Expose(key=key):
                self.exposed.add(key)
            case OfferPart(key=key):
                self.offered.add(key)
            case FencePeer(link=link):
                self.fences.append(link)
            case FenceOp(op=op):
                self.op_fences.append(op)
            case HandBack(session=session_key, lease=lease):
                self._handed_back(session_key, lease.kind, lease.no)
            case Ready(session=session_key):
                self.legs[session_key].ready = True
                self._to_commit.append(self.legs[session_key])
            case Changed(session=session_key, state=state, failure=failure):
                self._changed(self.legs.get(session_key), state, failure)
            case Dropped(session=session_key):
                self.legs[session_key].dropped = True
                left = [lease for lease in self.lent if lease[0] == session_key and not self.back[lease]]
                if left:
                    raise Broken(f"ExactlyOnceFree: {session_key} was dropped with {left} still out")
            case CloseLink() | ClosePeer() | OpenPeer() | Cancel():
                pass

    def _changed(self, leg: Leg | None, state: KVPoll, failure: Failure | None) -> None:
        if leg is None:
            return  # it ended while it was created: the caller reads it from the session
        if leg.state in TERMINAL and state is not leg.state:
            raise Broken(f"TerminalAbsorbing: {leg.key} left {leg.state.name} for {state.name}")
        if state is not leg.state:
            leg.states.append(state)
        leg.failure = failure
        if leg.cause == "INTERNAL":
            raise Broken(f"TotalHandlers: {leg.key} reached a row called impossible: {leg.details}")
        if leg.key.role == "sender" and state is KVPoll.Success:
            self.pair.check_order(self, leg)

    def _handed_back(self, key: SessionKey, kind: LeaseKind, no: int) -> None:
        lease = (key, kind, no)
        self.lent[lease] = 1
        self.back[lease] += 1
        if self.back[lease] > 1:
            raise Broken(f"ExactlyOnceFree: {kind.value} {no} of {key} came back twice")
        session = self.core.session(key)
        attempt = (session.rec.engine, session.rec.gen) if session is not None else (self.config.engine, key.no)
        for process in self.pair.everybody():
            for op, operation in process.ops.items():
                mine = operation.attempt == attempt and self.name in operation.touches
                if mine and (kind is not LeaseKind.COPY or op.part == no) and kind is not LeaseKind.SOURCE:
                    if kind in (LeaseKind.PAGES, LeaseKind.AUX) and not self.config.direct:
                        continue  # the transport writes the receive buffer only
                    raise Broken(f"NoFreeInFlight: {kind.value} {no} of {key} came back while {op} can touch it")

    def _check_said(self, message: Message) -> None:
        if isinstance(message, AbortAck) and not message.quarantined:
            for op, operation in self.ops.items():
                session = self.core.session(op.session)
                to = operation.submit.link == message.link
                if to and session is not None and operation.attempt == (message.engine, message.gen):
                    raise Broken(f"AckMeansQuiescent: acknowledged while {op} is in flight")

    # -- afterwards ----------------------------------------------------------------------------------------------------------
    def idle(self) -> dict[str, int]:
        """What is not at its idle value: tables, leases that are out, operations, exposed keys."""
        sizes = {name: size for name, size in self.core.gauges().items() if size}
        out = [lease for lease in self.lent if not self.back[lease]]
        left = {"leases": len(out), "ops": len(self.ops), "fences": len(self.fences)}
        return sizes | {name: size for name, size in left.items() if size}

    def rebuild(self) -> None:
        """Replace the core by a new one that was restored from its snapshot."""
        snapshot, clocks = self.core.snapshot(), self.core.clocks
        self.core = self._core()
        self.core.restore(snapshot)
        self.core.env.now = self.pair.now
        for name in list(clocks._armed):
            if (due := self.core._due(name)) is not None:
                self.core.clocks.arm(name, due)
        assert self.core.snapshot() == snapshot


class Pair:
    """See the module text. ``config`` goes to both cores (see :class:`CoreConfig`)."""

    def __init__(
        self, push: bool = True, timing: Timing = TIMING, judge: Callable[..., Judgement] | None = None, **config: object
    ) -> None:  # fmt: skip
        self.push = push
        self.timing = timing
        self.now = 0
        self.ids = itertools.count(1000)
        self._config = config
        self.judge = judge or (lambda ours, theirs, initiator: Judgement((), "fake"))
        self.wire: list[Flight] = []
        self.ends: dict[int, tuple[str, str]] = {}  #: by link: names of the initiator and of the address dialled
        self.processes: dict[str, Process] = {}
        self.gone: list[Process] = []  #: crashed, with operations that may still touch others' memory
        self.p = self.join("p")
        self.d = self.join("d")

    def join(self, name: str, **config: object) -> Process:
        """A new process at the address ``name``; one that lived there is forgotten."""
        process = self.processes[name] = Process(self, name, **{**self._config, **config})
        process.core.tick(self.now)
        return process

    def everybody(self) -> list[Process]:
        return [*self.processes.values(), *self.gone]

    def crash(self, name: str) -> None:
        """The process is gone, without a word. What it started may still touch the memory of others."""
        process = self.processes.pop(name)
        process.alive = False
        for each in self.everybody():
            for operation in each.ops.values():
                operation.touches.discard(name)
        for operation in process.ops.values():
            operation.touches.discard(name)
        self.gone.append(process)

    def other(self, link: int, name: str) -> str:
        initiator, acceptor = self.ends[link]
        return acceptor if name == initiator else initiator

    def linked(self) -> Pair:
        """Make the link between ``d`` and ``p``; nothing of it stays on the wire."""
        self.d.core.links.to("p")
        self.d.settle()
        self.run()
        assert self.d.link_state() is LinkState.OPEN
        self.forget()
        return self

    def forget(self) -> None:
        """Start the books of what was said and done anew."""
        for process in self.everybody():
            process.outputs.clear()
            process.said.clear()

    def both(self, room: int = ROOM, want: Fingerprint | None = None) -> tuple[Leg, Leg]:
        """Both legs of a room, created and nothing else."""
        return self.p.sender(room, want), self.d.receiver(room, want)

    def check_order(self, process: Process, leg: Leg) -> None:
        session = process.core.sender(leg.key)
        assert session is not None
        for each in self.everybody():
            if each.config.engine == session.rec.engine:
                twin = each.legs.get(SessionKey("receiver", session.rec.gen))
                if twin is not None and twin.state is not KVPoll.Success:
                    raise Broken(f"SuccessOrder: {leg.key} is Success, {twin.key} is {twin.state.name}")

    # -- the wire ------------------------------------------------------------------------------------------------------------
    def put(self, source: Process, link: int, message: Message) -> None:
        if link not in self.ends:
            return
        decoded = decode(encode(message))
        assert decoded.message == message
        assert not decoded.unknown
        self.wire.append(Flight(source.name, self.other(link, source.name), decoded.message))

    def kinds(self) -> list[str]:
        return [flight.kind for flight in self.wire]

    def find(self, kind: str | None = None, to: str | None = None) -> Flight:
        """The oldest message of a kind (and a target)."""
        for flight in self.wire:
            if kind in (None, flight.kind) and to in (None, flight.target):
                return flight
        raise LookupError(f"no {kind} on the wire, only {self.kinds()}")

    def deliver(self, kind: str | None = None, to: str | None = None) -> Message:
        flight = self.find(kind, to)
        self.wire.remove(flight)
        self.arrive(flight)
        return flight.message

    def arrive(self, flight: Flight) -> None:
        process = self.processes.get(flight.target)
        if process is not None:
            process.core.receive(flight.message)
            process.settle()

    def drop(self, kind: str | None = None, to: str | None = None) -> Message:
        flight = self.find(kind, to)
        self.wire.remove(flight)
        return flight.message

    def copy(self, kind: str | None = None, to: str | None = None) -> Message:
        """Deliver a message and leave it on the wire."""
        flight = self.find(kind, to)
        self.arrive(flight)
        return flight.message

    def inject(self, target: Process, message: Message) -> None:
        """A message out of nowhere."""
        target.core.receive(message)
        target.settle()

    # -- everything ------------------------------------------------------------------------------------------------------------
    def step(self) -> bool:
        """Do the oldest thing there is to do; False when there is none."""
        if self.wire:
            self.deliver()
            return True
        for process in self.processes.values():
            if not process.hold_fences:
                if process.fences:
                    process.prove_fence()
                    return True
                for op in process.op_fences:
                    process.op_fences.remove(op)
                    if op in process.ops:
                        process.end_op("fenced", op)
                    return True
            if not process.hold_ops:
                op = next((key for key, operation in process.ops.items() if not operation.unresolved), None)
                if op is not None:
                    process.end_op("done", op)
                    return True
        return False

    def run(self, limit: int = 100_000) -> Pair:
        for _ in range(limit):
            if not self.step():
                return self
        raise Broken(f"no end after {limit} steps; on the wire: {Counter(self.kinds())}")

    def advance(self, ms: int, run: bool = True) -> Pair:
        """Let time pass; clocks go off when they are due, and what follows is done at once (unless ``run`` is False)."""
        until = self.now + ms
        if run:
            self.run()
        while True:
            due = [p.core.clocks.next() for p in self.processes.values()]
            nearest = min((d for d in due if d is not None and d > self.now), default=until + 1)
            self.now = min(nearest, until)
            for process in list(self.processes.values()):
                process.core.tick(self.now)
                process.settle()
            if run:
                self.run()
            if self.now >= until and nearest > until:
                return self

    def ends_idle(self, within: int = 10_000) -> None:
        """After some heartbeats every table of every live process is empty, and every lease came back exactly once."""
        self.advance(within)
        for name, process in self.processes.items():
            assert process.idle() == {}, f"{name} is not idle"
            assert all(leg.dropped for leg in process.legs.values())
