"""The pair world: one prefill and one decode process (the real cores), a hostile network, and a model of memory.

What may happen, at any point: any message in flight is delivered, in any order; some are lost or delivered twice
(budgets); either engine aborts; either process crashes, or wrongly declares the other lost; a clock goes off; an
operation succeeds, fails, or stays unresolved until it is fenced. Memory is modelled hostile: an operation in flight can
touch both ends' memory until it is reported, and after a crash or a wrong declaration until *that* end has fenced.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from kvpoll.protocol.core import Core, CoreConfig, Snapshot
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import Changed, Dropped, FenceOp, FencePeer, HandBack, Ready, Send, Submit
from kvpoll.protocol.records import Deadline, Lease, LeaseKind, OpKey, SessionKey
from kvpoll.protocol.session import Timing
from kvpoll.spec import KVPoll, LinkEvent, LinkState
from kvpoll.spec.wire import Deadlines, Fingerprint, Hello, Message, Part, Registration, Welcome

from .explorer import Violation

__all__ = ["Budget", "PairWorld"]

_DEADLINES = Deadlines(pairing=0, silence=0, total=0, resend=0, lost=0, conclude=0)
_REQUEST = Fingerprint(tokens=2, digest=b"request")
_ROOM, _LINK = 7, 1
P, D = 0, 1  #: prefill, decode


class Budget(NamedTuple):
    """How often each fault may happen in one run."""

    losses: int = 0
    copies: int = 0
    aborts: int = 0
    crashes: int = 0
    wrong: int = 0  #: a live peer is declared lost
    failures: int = 0  #: an operation fails
    unresolved: int = 0  #: an operation stays unresolved until it is fenced
    clocks: int = 0  #: ASK, SILENCE, PAIRING
    attempts: int = 1


class Flight(NamedTuple):
    """An operation in flight: whose it is, and whose memory it can still touch."""

    owner: int
    op: OpKey
    gen: int
    touches: tuple[bool, bool]
    unresolved: bool = False


class Room(NamedTuple):
    """What an observer remembers of one session after its record is gone."""

    state: KVPoll
    in_doubt: bool
    gen: int


State: TypeAlias = tuple[
    tuple[Snapshot | None, Snapshot | None],
    tuple[int, ...],
    frozenset[Flight],
    Budget,
    tuple[int, int],
    tuple[tuple[tuple[int, SessionKey], Room], ...],
    frozenset[tuple[int, SessionKey, LeaseKind, int]],
    frozenset[tuple[int, int]],
    frozenset[SessionKey],
]


class PairWorld:
    """See the module text. ``chunks`` parts make the plan; ``push`` picks the kind of transport."""

    def __init__(self, push: bool, budget: Budget, chunks: int = 1) -> None:
        self.push = push
        self.chunks = chunks
        self.cores = [self._core(P), self._core(D)]
        self.alive = [True, True]
        # Messages in flight, as a set: any may arrive next. Each is known by a number, given at first sight.
        self.net: tuple[int, ...] = ()
        self._messages: list[Message] = []
        self._numbers: dict[Message, int] = {}
        self.flights: frozenset[Flight] = frozenset()
        self.budget = budget
        self.sent = 0  #: chunks handed over in this leg
        self.legs = 0
        self.rooms: dict[tuple[int, SessionKey], Room] = {}
        self.lent: frozenset[tuple[int, SessionKey, LeaseKind, int]] = frozenset()
        self.fences: frozenset[tuple[int, int]] = frozenset()  #: (side, link): fence asked for, not proved yet
        self.ready: frozenset[SessionKey] = frozenset()
        self._open_link()

    def _core(self, side: int) -> Core:
        config = CoreConfig(
            instance=10 + side, engine=20 + side, timing=Timing(0, 0, 0, 0, 0, 0, 0, 0), layers=(0, 1), direct=True,
            push=(("t", self.push),), max_parts=8, credits=2,
        )  # fmt: skip
        registration = Registration(
            version_min=(1, 0),
            version_max=(1, 0),
            role="pd"[side],
            engine=20 + side,
            model="",
            weights="",
            page_size=1,
            layers=1,
            layer_stop=1,
            kv_dtype="uint8",
            layout="",
            page_nbytes=1,
            kv_heads=1,
            head_dim=1,
            transports=(),
            deadlines=_DEADLINES,
        )
        core = Core(config, lambda: _LINK, lambda link: registration, lambda ours, theirs, first: Judgement((), "t"))
        core.env.arm = lambda key, deadline, due: None
        core.links.arm = lambda link, clock, due: None
        return core

    def _open_link(self) -> None:
        # The handshake has no part in these worlds: run it once, faithfully.
        self.cores[D].links.to("prefill")
        for side in (D, P, D):
            for out in self.cores[side].take():
                if isinstance(out, Send) and isinstance(out.message, Hello | Welcome):
                    self.cores[1 - side].receive(out.message)
        self.cores[P].take(), self.cores[D].take()

    # -- World -------------------------------------------------------------------------------------------------------------
    def actions(self) -> list[Hashable]:
        todo: list[Hashable] = []
        budget = self.budget
        for number in self.net:
            message = self._messages[number]
            todo.append(("deliver", message))
            if budget.losses:
                todo.append(("lose", message))
            if budget.copies:
                todo.append(("copy", message))
        for flight in sorted(self.flights):
            todo += self._flight_actions(flight)
        for side in (P, D):
            if self.alive[side]:
                todo += self._engine_actions(side) + self._clock_actions(side) + self._process_actions(side)
        return todo

    def _flight_actions(self, flight: Flight) -> list[Hashable]:
        if not self.alive[flight.owner]:
            return []
        if flight.unresolved:
            return [("fenced", flight)] if (flight.owner, flight.op) in self._fencing() else []
        todo: list[Hashable] = [("done", flight)]
        if self.budget.failures:
            todo.append(("failed", flight))
        if self.budget.unresolved:
            todo.append(("unresolved", flight))
        return todo

    def _fencing(self) -> set[tuple[int, OpKey]]:
        # FENCE is carried out at once by the core's output; what remains is that its proof arrives some time.
        return {(f.owner, f.op) for f in self.flights if f.unresolved}

    def _engine_actions(self, side: int) -> list[Hashable]:
        core, todo = self.cores[side], list[Hashable]()
        if side == P:
            if self.legs < self.budget.attempts and _ROOM not in core.legs.rooms:
                todo.append(("create", P))
            if (no := core.legs.rooms.get(_ROOM)) is not None:
                if self.sent < self.chunks:
                    todo.append(("send", no))
                if self.budget.aborts:
                    todo.append(("abort", P, SessionKey("sender", no)))
        else:
            if core.last_gen < self.budget.attempts and _ROOM not in core.rooms:
                todo.append(("create", D))
            if (gen := core.rooms.get(_ROOM)) is not None:
                key = SessionKey("receiver", gen)
                if core.receivers[gen].rec.meta is None:
                    todo.append(("metadata", key))
                if self.budget.aborts:
                    todo.append(("abort", D, key))
            for key in sorted(self.ready):
                session = core.receiver(key)
                if (
                    session is not None
                    and session.state is KVPoll.Transferring
                    and not self._busy(session.rec.node.values)
                ):
                    todo.append(("commit", key))
                elif session is not None and self._busy(session.rec.node.values):
                    todo.append(("committed", key))
        return todo

    @staticmethod
    def _busy(values: tuple[object, ...]) -> bool:
        return values[6] is True  # the field "busy" of the receiver table

    def _clock_actions(self, side: int) -> list[Hashable]:
        core, todo = self.cores[side], list[Hashable]()
        for session in core.sessions():
            for deadline, _ in session.rec.timers:
                # A re-send before anything in flight arrived is a copy. TOTAL goes off when nothing else can happen, so
                # that every room can end; before that a clock costs budget, like every fault.
                if (deadline in (Deadline.TOTAL, Deadline.RESEND) and self._quiet()) or self.budget.clocks:
                    todo.append(("clock", side, session.key, deadline))
        if not self.net:
            for ids in core.legs.half_open:
                todo.append(("no leg", side, ids))
            for link, record in core.links.table.items():
                peer = self.cores[1 - side].links.table.get(link)
                if (
                    record.state is LinkState.OPEN
                    and side == D
                    and peer is not None
                    and peer.low_water < core.low_water()
                ):
                    todo.append(("beat", side, link))
        return todo

    def _quiet(self) -> bool:
        return not self.net and not any(self.alive[f.owner] for f in self.flights) and not self.fences

    def _process_actions(self, side: int) -> list[Hashable]:
        todo: list[Hashable] = [("fence proved", side, link) for s, link in sorted(self.fences) if s == side]
        for link, record in self.cores[side].links.table.items():
            if record.state is LinkState.OPEN and (not self.alive[1 - side] or self.budget.wrong):
                todo.append(("lost", side, link))
        if self.budget.crashes:
            todo.append(("crash", side))
        return todo

    def do(self, action: Hashable) -> None:
        assert isinstance(action, tuple)
        match action:
            case ("deliver" | "copy", message):
                if action[0] == "deliver":
                    self._arrived(message)
                else:
                    self.budget = self.budget._replace(copies=self.budget.copies - 1)
                side = P if message.target == 10 else D
                if self.alive[side]:
                    self.cores[side].receive(message)
            case ("lose", message):
                self._arrived(message)
                self.budget = self.budget._replace(losses=self.budget.losses - 1)
            case ("done" | "failed" | "unresolved" | "fenced", flight):
                self._end_flight(action[0], flight)
            case ("create", side):
                self._create(side)
            case ("send", no):
                self._send(no)
            case ("metadata", key):
                self.cores[D].call(key, lambda s: s.send_metadata())  # type: ignore[union-attr]
            case ("commit", key):
                self.cores[D].call(key, lambda s: s.begin_commit())  # type: ignore[union-attr]
            case ("committed", key):
                self.cores[D].call(key, lambda s: s.end_commit())  # type: ignore[union-attr]
            case ("abort", side, key):
                self.budget = self.budget._replace(aborts=self.budget.aborts - 1)
                self.cores[side].call(key, lambda s: s.abort("by the engine"))
            case ("clock", side, key, deadline):
                if not (deadline in (Deadline.TOTAL, Deadline.RESEND) and self._quiet()):
                    self.budget = self.budget._replace(clocks=self.budget.clocks - 1)
                self.cores[side].fire(key, deadline)
            case ("no leg", side, ids):
                self.cores[side].legs.no_leg(ids, self.cores[side].legs.half_open[ids])
            case ("beat", side, link):
                self.cores[side].fire(link, LinkEvent.BEAT)
            case ("lost", side, link):
                if self.alive[1 - side]:
                    self.budget = self.budget._replace(wrong=self.budget.wrong - 1)
                self.cores[side].fire(link, LinkEvent.LOST)
            case ("fence proved", side, link):
                self.fences -= {(side, link)}
                self._untouch(side)
                self.cores[side].peer_fenced(link)
            case ("crash", side):
                self._crash(side)
            case _:
                raise AssertionError(action)
        self._settle()

    def _arrived(self, message: Message) -> None:
        number = self._numbers[message]
        self.net = tuple(n for n in self.net if n != number)

    def _create(self, side: int) -> None:
        if side == P:
            key = self.cores[P].create_sender(_ROOM, _REQUEST)
            self.legs += 1
            self.sent = 0
        else:
            key = self.cores[D].create_receiver(_ROOM, _REQUEST, [("prefill", 0)])
        self.rooms[side, key] = Room(KVPoll.Bootstrapping, False, key.no if side == D else 0)

    def _send(self, no: int) -> None:
        key, size = SessionKey("sender", no), _REQUEST.tokens // self.chunks
        part = Part(
            no=0, start=self.sent * size, stop=(self.sent + 1) * size, layer_start=0, layer_stop=1, shape=(size,)
        )
        self.sent += 1
        nos = self.cores[P].send(key, [part], last=self.sent == self.chunks)
        self.cores[P].call(key, lambda s: s.gathered(nos))  # type: ignore[union-attr]

    def _end_flight(self, how: str, flight: Flight) -> None:
        core = self.cores[flight.owner]
        self.flights -= {flight}
        if how == "unresolved":
            self.budget = self.budget._replace(unresolved=self.budget.unresolved - 1)
            self.flights |= {flight._replace(unresolved=True)}
            core.op_unresolved(flight.op)
        elif how == "failed":
            self.budget = self.budget._replace(failures=self.budget.failures - 1)
            core.op_failed(flight.op)
        elif how == "fenced":
            core.op_fenced(flight.op)
        else:
            core.op_done(flight.op)

    def _crash(self, side: int) -> None:
        self.budget = self.budget._replace(crashes=self.budget.crashes - 1)
        self.alive[side] = False
        self.fences = frozenset(f for f in self.fences if f[0] != side)
        self.lent = frozenset(entry for entry in self.lent if entry[0] != side)
        self.ready = self.ready if side == P else frozenset()
        self._untouch(side)  # its memory is gone with it; its operations may still touch the other's

    def _untouch(self, side: int) -> None:
        """Nothing of the peer can touch this side's memory any more, and its own operations towards the peer are over."""
        left = []
        for flight in self.flights:
            touches = (flight.touches[0] and side != P, flight.touches[1] and side != D)
            if any(touches):
                left.append(flight._replace(touches=touches))
        self.flights = frozenset(left)

    # -- outputs and invariants ----------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        for side in (P, D):
            if self.alive[side]:
                for out in self.cores[side].take():
                    self._output(side, out)
                self._lend(side)
        self._check()

    def _output(self, side: int, out: object) -> None:
        match out:
            case Send(message=message):
                number = self._numbers.setdefault(message, len(self._messages))
                if number == len(self._messages):
                    self._messages.append(message)
                if number not in self.net:
                    self.net = tuple(sorted((*self.net, number)))
            case Submit(op=op):
                gen = self._gen(side, op.session)
                self.flights |= {Flight(side, op, gen, (True, True))}
            case FencePeer(link=link):
                self.fences |= {(side, link)}
            case HandBack(session=session, lease=lease):
                self._handed(side, session, lease)
            case Changed(session=session, state=state, failure=failure):
                before = self.rooms[side, session]
                if before.state in (KVPoll.Failed, KVPoll.Success):
                    raise Violation("TerminalAbsorbing", f"{session} left {before.state.name} for {state.name}")
                doubt = failure is not None and failure.in_doubt
                self.rooms[side, session] = Room(state, doubt, self._gen(side, session))
                if failure is not None and failure.cause.name == "INTERNAL":
                    raise Violation(
                        "TotalHandlers", f"{session} reached a row that is called impossible: {failure.details}"
                    )
            case Ready(session=session):
                self.ready |= {session}
            case Dropped(session=session):
                self.ready -= {session}
                if any(entry[:2] == (side, session) for entry in self.lent):
                    raise Violation("ExactlyOnceFree", f"{session} was dropped with a lease still out")
            case FenceOp() | _:
                pass

    def _gen(self, side: int, key: SessionKey) -> int:
        if side == D:
            return key.no
        session = self.cores[P].sender(key)
        return session.rec.gen if session is not None else self.rooms[side, key].gen

    def _lend(self, side: int) -> None:
        core = self.cores[side]
        for session in core.sessions():
            for lease in session.rec.leases:
                self.lent |= {(side, session.key, lease.kind, lease.no)}

    def _handed(self, side: int, key: SessionKey, lease: Lease) -> None:
        # A lease may be lent and handed back within one step; what must not happen is a second hand-back.
        self.lent -= {(side, key, lease.kind, lease.no)}
        gen = self._gen(side, key)
        for flight in self.flights:
            if flight.gen == gen and flight.touches[side] and (side == D or lease.kind is LeaseKind.COPY):
                raise Violation(
                    "NoFreeInFlight", f"{lease.kind.value} of {key} went back while {flight.op} can touch it"
                )

    def _check(self) -> None:
        for side in (P, D):
            if not self.alive[side]:
                continue
            core = self.cores[side]
            for session in core.sessions():
                for index, peer in enumerate(session.rec.peers):
                    counted = peer.started - peer.quiescent
                    real = sum(
                        1
                        for f in self.flights
                        if f.owner == side and f.op.session == session.key and f.op.peer == index
                    )
                    if not peer.gone and counted != real and not self._fenced_elsewhere(side):
                        raise Violation("CountExact", f"{session.key} counts {counted} in flight, there are {real}")
        self._check_order()

    def _fenced_elsewhere(self, side: int) -> bool:
        return not self.alive[1 - side] or not any(
            r.state is LinkState.OPEN for r in self.cores[1 - side].links.table.values()
        )

    def _check_order(self) -> None:
        by_gen = {room.gen: room for (side, _), room in self.rooms.items() if side == D}
        for (side, key), room in self.rooms.items():
            if side == D or not room.gen or room.gen not in by_gen:
                continue
            receiver = by_gen[room.gen]
            if room.state is KVPoll.Success and receiver.state is not KVPoll.Success:
                raise Violation("SuccessOrder", f"{key} is Success, its receiver is {receiver.state.name}")
            if room.state is KVPoll.Failed and receiver.state is KVPoll.Success and not room.in_doubt:
                raise Violation("SuccessOrder", f"{key} failed without doubt although its receiver succeeded")

    def snapshot(self) -> State:
        return (
            (self.cores[P].snapshot() if self.alive[P] else None, self.cores[D].snapshot() if self.alive[D] else None),
            self.net, self.flights, self.budget, (self.sent, self.legs),
            tuple(sorted(self.rooms.items())), self.lent, self.fences, self.ready,
        )  # fmt: skip

    def restore(self, snapshot: Hashable) -> None:
        state: State = snapshot  # type: ignore[assignment]
        (
            cores,
            self.net,
            self.flights,
            self.budget,
            (self.sent, self.legs),
            rooms,
            self.lent,
            self.fences,
            self.ready,
        ) = state
        for side in (P, D):
            core = cores[side]
            self.alive[side] = core is not None
            if core is not None:
                self.cores[side].restore(core)
        self.rooms = dict(rooms)

    def ended(self) -> bool:
        if self.net or self.lent or any(f.touches[s] and self.alive[s] for f in self.flights for s in (P, D)):
            return False
        for side in (P, D):
            idle = {name: size for name, size in self.cores[side].gauges().items() if size}
            if self.alive[side] and idle:
                return False
        return all(
            room.state in (KVPoll.Failed, KVPoll.Success) for (s, _), room in self.rooms.items() if self.alive[s]
        )

    def outcome(self) -> str:
        named = [
            f"{'PD'[side]}:{room.state.name}{'?' if room.in_doubt else ''}"
            for (side, _), room in sorted(self.rooms.items())
        ]
        return " ".join(named) or "nothing happened"
