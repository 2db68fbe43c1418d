"""The sender session: one leg, and the attempt it is paired with, at one rank.

Theory of operation. Every message of a receiver rank is a set of facts about it; :meth:`SenderSession.heard` joins them
into that rank's :class:`SenderPeer` and feeds the table the event that the new facts amount to. What this end has said
and no answer has contained yet is *pending*; while something is, the re-send clock runs. Memory is not decided here: the
lease table decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kvpoll.spec import SENDER, Effect, KVPoll, LeaseEvent, LeaseState, SenderEvent
from kvpoll.spec.sender_table import doubt, plan, push
from kvpoll.spec.wire import (
    Abort,
    AbortAck,
    Announce,
    Close,
    Conclude,
    Facts,
    FailureGroup,
    Fingerprint,
    Message,
    Metadata,
    MetaGroup,
    Offer,
    Part,
    PartDone,
    Query,
    Seen,
    Status,
)  # fmt: skip

from .attempt import Attempt, Details
from .coverage import pages_for
from .cut import Cut
from .errors import LocalProtocolError
from .interpreter import Rules
from .outputs import Cancel, OfferPart, Submit
from .plan import check_chunk
from .records import Deadline, Lease, LeaseKind, OpKey, PartRecord, SenderPeer, SenderRecord, SessionKey
from .session import Env, Envelope

__all__ = ["SenderSession"]

RULES = Rules(SENDER)
E = SenderEvent
_BIND = {(p, a): RULES.signal(E.BIND, is_push=p, all=a) for p in (False, True) for a in (False, True)}
_META = {a: RULES.signal(E.META, all=a) for a in (False, True)}
_CONCLUDED = {a: RULES.signal(E.CONCLUDED, all=a) for a in (False, True)}
_STARTED = {f: RULES.signal(E.STARTED, final=f) for f in (False, True)}
_SKIPPED = {f: RULES.signal(E.SKIPPED, final=f) for f in (False, True)}


class SenderSession(Attempt[SenderRecord]):
    """One leg of a sender engine."""

    __slots__ = ()
    SIGNALS = {e.name: RULES.signal(e) for e in SenderEvent if not RULES.specs[e].args}
    EXPOSED = (LeaseKind.COPY,)

    @classmethod
    def create(cls, env: Env, key: SessionKey, room: int, request: Fingerprint, ranks: int = 1) -> SenderSession:
        """A leg that waits to be paired; ``ranks`` receiver ranks must say where data goes (0: as many as the shape of the
        receiver engine says, once it is known)."""
        self = cls(env, key, SenderRecord(node=RULES.initial, room=room, fingerprint=request, ranks=ranks))
        self._arm((Deadline.PAIRING, env.timing.pairing), (Deadline.TOTAL, env.timing.total))
        return self

    # -- the engine ----------------------------------------------------------------------------------------------------
    def send(self, parts: Sequence[Part], last: bool) -> tuple[int, ...]:
        """Hand one chunk over. Returns the numbers that its parts got; each must be :meth:`gathered` later.

        Raises :class:`LocalProtocolError` naming the field for ranges outside the request, an overlap, or a last chunk
        that leaves tokens out; nothing is changed then. In Failed nothing is kept and no number is returned."""
        before = self.rec
        known = [p.part for p in before.parts]
        parts = [replace(p, no=len(known) + i) for i, p in enumerate(parts)]
        if not self.terminal:
            check_chunk(parts, known, last, self.rec.fingerprint, self.env)
        idle = not parts and bool(before.peers) and all(len(p.started) == len(before.peers) for p in before.parts)
        chunk = 1 + max((p.chunk for p in before.parts), default=-1)
        self.rec = replace(before, parts=(*before.parts, *(PartRecord(p, chunk) for p in parts)))
        try:
            self.feed(RULES.signal(E.SEND, last=last, rows=bool(known or parts), idle=idle))
        except LocalProtocolError:
            self.rec = before
            raise
        if self.terminal:
            self.rec = before
            return ()
        if parts:
            self._lend(LeaseKind.SOURCE, chunk)
            self._lease(LeaseEvent.START, (LeaseKind.SOURCE,), chunk)
            for part in parts:
                self._lend(LeaseKind.COPY, part.no)
                self._lease(LeaseEvent.START, (LeaseKind.COPY,), part.no)  # the gather writes it
        self._after()
        return tuple(p.no for p in parts)

    def gathered(self, nos: Sequence[int]) -> None:
        """The device work that reads the source pages of these parts is finished: their copies may be read."""
        fresh = [p for p in self.rec.parts if p.part.no in nos and not p.gathered]
        marked = tuple(replace(p, gathered=True) if p in fresh else p for p in self.rec.parts)
        self.rec = replace(self.rec, parts=marked)
        for record in fresh:
            self._lease(LeaseEvent.QUIET, (LeaseKind.COPY,), record.part.no)
        for chunk in {p.chunk for p in fresh}:
            if all(p.gathered for p in marked if p.chunk == chunk):
                self._lease(LeaseEvent.QUIET, (LeaseKind.SOURCE,), chunk)
                self._lease(LeaseEvent.CLOSE, (LeaseKind.SOURCE,), chunk)  # only the copies are read from here on
        self._on("STARTABLE")

    def dispatched(self, nos: Sequence[int]) -> None:
        """The copies of these parts are being made, and a pull that comes before they exist waits for them: over such a
        transport they are offered now. Their source pages stay lent until :meth:`gathered`. Over a push transport this changes
        nothing: what is pushed is read here and now."""
        marked = tuple(replace(p, dispatched=True) if p.part.no in nos else p for p in self.rec.parts)
        self.rec = replace(self.rec, parts=marked)
        self._on("STARTABLE")

    def startable(self) -> None:
        """A credit came back."""
        self.rec = replace(self.rec, waits=False)
        self._on("STARTABLE")

    # -- the core: pairing and what it knows of the receiver engine ---------------------------------------------------------
    def bind(self, message: Announce | Metadata | Status, link: int) -> None:
        """Pair this leg with the attempt of ``message``, or meet one more rank (or a copy) of it."""
        if isinstance(message, Status):
            transport = message.facts.transport
            meta = None if isinstance(message.facts.meta, UnsetType) else message.facts.meta
        else:
            transport = message.transport
            meta = message.meta if isinstance(message, Metadata) else None
        if not self.rec.gen:
            self.rec = replace(self.rec, engine=message.engine, gen=message.gen, transport=transport)
        index = self._meet(link, message.source, message.source_rank)
        cut = self.rec.peers[index].cut
        if cut is not None and cut.readers != self.rec.ranks:
            details = (("field", "ranks"), ("expected", cut.readers), ("got", self.rec.ranks))
            self.feed(self.SIGNALS["PLAN_REFUSED"], index, details=details)
        if meta is not None:
            self._hear_meta(index, meta)
        self._after()

    def met_failed(self, link: int, instance: int, rank: int, failed: FailureGroup) -> None:
        """One more rank of the attempt, of which the first that is heard is that it failed: the leg ends with it, instead of
        waiting for it until the pairing deadline."""
        self._hear_failed(self._meet(link, instance, rank), failed)
        self._after()

    def _meet(self, link: int, instance: int, rank: int) -> int:
        """The index of a receiver rank, met now if it was not before."""
        index = self.peer_of(link, rank)
        if index is None:
            access, _ = Lease(LeaseKind.ACCESS).step(LeaseEvent.TAKE)
            cut = self.env.cut(link)
            peer = SenderPeer(link, instance, rank, access, cut)
            ranks = self.rec.ranks or (1 if cut is None else cut.readers)
            self.rec = replace(self.rec, peers=(*self.rec.peers, peer), ranks=ranks)
            index = len(self.rec.peers) - 1
            if self.terminal:
                if self._all_met():
                    self._disarm(Deadline.PAIRING)
                self._step_access(index, LeaseEvent.CLOSE)
        self.feed(_BIND[self.env.push[self.rec.transport], self._all_met()], index)
        return index

    def superseded(self, gen: int) -> None:
        """A higher gen of the same engine was announced for this room."""
        self._on("SUPERSEDED", details=(("gen", gen),))

    def passed(self, link: int, low_water: int) -> None:
        """A receiver rank no longer holds this attempt, so it starts nothing for it any more."""
        for index, peer in enumerate(self.rec.peers):
            if peer.link == link and not peer.passed:
                self.set_peer(index, passed=True, drained=True)
                if not peer.concluded:
                    self.feed(self.SIGNALS["PASSED"], index, details=(("low_water", low_water),))
                self._drained()
        self._after()

    def _clock_details(self, deadline: Deadline) -> Details:
        if deadline is Deadline.PAIRING and self.rec.mismatch:
            return (("fields", " ".join(self.rec.mismatch)),)
        return ()

    # -- the transport ----------------------------------------------------------------------------------------------------
    def op_done(self, peer: int, part: int) -> None:
        """The part's operation is done and quiescent, its bytes are at the receiver rank."""
        self._part(part, done=(*self.rec.parts[part].done, peer))
        self._resolved(peer, part)
        self._on("OP_DONE", peer, part)

    def op_failed(self, peer: int, part: int, detail: str = "") -> None:
        """Failed and quiescent; pull: the transport would not take the offer."""
        if self.rec.node[push]:
            self._resolved(peer, part)
        self._on("OP_FAILED", peer, part, (("part", part), ("detail", detail)))

    def _memory_unresolved(self, part: int) -> None:
        self._lease(LeaseEvent.UNRESOLVED, (LeaseKind.COPY,), part)

    def _memory_quiet(self, peer: int, part: int) -> None:
        record = self.rec.parts[part]
        self._part(part, over=(*record.over, peer))
        if len(record.started) == len(record.over) + 1:
            self._lease(LeaseEvent.QUIET, (LeaseKind.COPY,), part)
            self._spare(part)

    def _all_quiet(self, peer: int) -> None:
        for record in self.rec.parts:
            if self.rec.node[push] and peer in record.started and peer not in record.over:
                self._memory_quiet(peer, record.part.no)

    def _part(self, no: int, **changes: object) -> None:
        parts = list(self.rec.parts)
        parts[no] = replace(parts[no], **changes)
        self.rec = replace(self.rec, parts=tuple(parts))

    # -- facts of a receiver rank -------------------------------------------------------------------------------------------
    def heard(self, index: int, message: Message) -> None:
        """Join the facts of a message of receiver rank ``index``. Never raises for what came from the wire."""
        match message:
            case Metadata():
                self._hear_meta(index, message.meta)
            case Conclude():
                self._hear_concluded(index)
            case Abort():
                self._hear_failed(index, message.failed)
            case AbortAck():
                self._hear_ack(index, message.quarantined)
            case Status():
                facts = message.facts
                if not isinstance(facts.meta, UnsetType) and self.rec.peers[index].meta is None:
                    self._hear_meta(index, facts.meta)
                if facts.concluded and not self.rec.peers[index].concluded:
                    self._hear_concluded(index)
                self._hear_status(index, message)
            case Query():
                self.feed(self.SIGNALS["QUERIED"], index)
            case _:
                pass  # a kind that only senders send: no fact of a receiver
        self._after()

    def _hear_meta(self, index: int, meta: MetaGroup) -> None:
        held = self.rec.peers[index].meta
        fault: tuple[str, str, str] | None = None
        if held is None:
            fault = self._meta_fault(meta, self.rec.peers[index].cut)
        elif held != meta:
            fault = ("meta", "the same as before", "another")
        if fault is not None:
            details = (("field", fault[0]), ("expected", fault[1]), ("got", fault[2]))
            self.feed(self.SIGNALS["PLAN_REFUSED"], index, details=details)
            return
        self.set_peer(index, meta=meta)
        every = len(self.rec.peers) == self.rec.ranks and all(p.meta is not None for p in self.rec.peers)
        self.feed(_META[every], index)

    def _meta_fault(self, meta: MetaGroup, cut: Cut | None) -> tuple[str, str, str] | None:
        request, env = self.rec.fingerprint, self.env
        if cut is None:
            pages = pages_for(request.prefix, request.tokens, env.page_tokens)
            needed = pages * env.page_nbytes * (env.layers[1] - env.layers[0])
        else:
            pages, needed = cut.pages(request), cut.needs(request, env.layers)
        if meta.pages != pages:
            return ("meta.pages", f"{pages} for tokens [{request.prefix}, {request.tokens})", str(meta.pages))
        if meta.max_nbytes < needed:
            return ("meta.max_nbytes", f"at least {needed}", str(meta.max_nbytes))
        return None

    def _hear_concluded(self, index: int) -> None:
        self.set_peer(index, concluded=True, drained=True)  # its word is its drain word too: it reads nothing any more
        self._drained()
        every = len(self.rec.peers) == self.rec.ranks and all(p.concluded for p in self.rec.peers)
        self.feed(_CONCLUDED[every], index)

    # -- effects ------------------------------------------------------------------------------------------------------------
    def start_parts(self, peer: int = -1, part: int = -1) -> None:
        """Start what may be read, towards every receiver rank, in order, as credits allow."""
        pushes = self.rec.node[push]
        for no in range(len(self.rec.parts)):
            for index in range(len(self.rec.peers)):
                record, cut = self.rec.parts[no], self.rec.peers[index].cut
                readable = record.gathered or (record.dispatched and not pushes)
                if self.terminal or not readable or index in record.started:
                    continue
                if cut is not None and not cut.takes(record.part):
                    self._skip(index, no)
                    continue
                if pushes:
                    if self.env.credits <= 0:
                        if not self.rec.waits:
                            self.rec = replace(self.rec, waits=True)
                            self.env.want_credit(self.key)
                        return
                    self.env.credits -= 1
                self._start(index, record.part)

    def _skip(self, index: int, no: int) -> None:
        """This receiver rank gets nothing of the part: towards it, nothing of it was ever in flight."""
        record = self.rec.parts[no]
        self._part(no, started=(*record.started, index), done=(*record.done, index), over=(*record.over, index))
        self._spare(no)
        self.feed(_SKIPPED[self._all_started()], index, no)

    def _spare(self, no: int) -> None:
        """Perhaps every receiver rank has the part: the copy is not needed any more, however long the prompt goes on."""
        record = self.rec.parts[no]
        if len(record.done) == self.rec.ranks and len(record.over) == len(record.started):
            self._lease(LeaseEvent.CLOSE, (LeaseKind.COPY,), no)

    def _all_started(self) -> bool:
        everywhere = all(len(p.started) == len(self.rec.peers) for p in self.rec.parts)
        return self.rec.node[plan] != "open" and everywhere

    def _start(self, index: int, part: Part) -> None:
        peer = self.rec.peers[index]
        assert peer.meta is not None  # START_PARTS follows META of every rank
        self._part(part.no, started=(*self.rec.parts[part.no].started, index))
        if self.rec.node[push]:
            self.set_peer(index, started=peer.started + 1)
            self._step_access(index, LeaseEvent.START)
            self._lease(LeaseEvent.START, (LeaseKind.COPY,), part.no)
            told = self._as_told(self.rec.parts[part.no], index)
            self.env.out.append(Submit(OpKey(self.key, index, part.no), peer.link, peer.meta.key, told))
        else:
            key = self.env.ids()  # one for each reader: a native registration is consumed by whoever reads it first
            self._part(part.no, keys=(*self.rec.parts[part.no].keys, (index, key)))
            self._lease(LeaseEvent.EXPOSE, (LeaseKind.COPY,), part.no)
            told = self._as_told(self.rec.parts[part.no], index)
            self.env.out.append(OfferPart(self.key, peer.link, key, told, part.no))
        self.feed(_STARTED[self._all_started()], index, part.no)

    def send_offer(self, peer: int, part: int) -> None:
        self.env.out.append(
            self.to_send(peer, Offer(parts=(self._as_told(self.rec.parts[part], peer),), **self.to(peer)))
        )

    def send_part_done(self, peer: int, part: int) -> None:
        told = self._as_told(self.rec.parts[part], peer)
        self.env.out.append(self.to_send(peer, PartDone(parts=(told,), **self.to(peer))))

    def send_close(self, peer: int = -1, part: int = -1) -> None:
        for index in range(len(self.rec.peers)):
            self.env.out.append(self.to_send(index, Close(total=len(self._plan(index)), **self.to(index))))

    def close(self, peer: int = -1, part: int = -1) -> None:
        """Admission is closed for good: every lease hears that the room is over. What was offered stays readable until the
        receiver ranks have drained: taken away at once it would look like a failed pull to them, before they hear why."""
        for record in self.rec.parts:
            for index in record.started:
                if self.rec.node[push] and index not in record.over:
                    self.env.out.append(Cancel(OpKey(self.key, index, record.part.no)))
        self._close_leases()

    EFFECTS = {
        **Attempt.SHARED_EFFECTS, Effect.START_PARTS: start_parts, Effect.SEND_OFFER: send_offer,
        Effect.SEND_PART_DONE: send_part_done, Effect.SEND_CLOSE: send_close, Effect.CLOSE: close,
    }  # fmt: skip

    # -- what this end says ---------------------------------------------------------------------------------------------------
    def to(self, index: int) -> Envelope:
        peer, rec = self.rec.peers[index], self.rec
        return Envelope(
            link=peer.link, source=self.env.instance, target=peer.instance, source_rank=self.env.rank,
            target_rank=peer.rank, room=rec.room, engine=rec.engine, gen=rec.gen,
        )  # fmt: skip

    def _plan(self, index: int) -> tuple[PartRecord, ...]:
        """The parts of which this rank gets something: its own plan."""
        cut = self.rec.peers[index].cut
        return self.rec.parts if cut is None else tuple(p for p in self.rec.parts if cut.takes(p.part))

    def _known(self, index: int) -> tuple[PartRecord, ...]:
        """Parts that this rank knows of: offered to it, or done at it."""
        pushes = self.rec.node[push]
        return tuple(p for p in self._plan(index) if index in (p.done if pushes else p.started))

    def _told(self, index: int) -> tuple[Part, ...]:
        return tuple(self._as_told(p, index) for p in self._known(index))

    def _as_told(self, record: PartRecord, index: int) -> Part:
        """A part as this rank hears of it. What it gets nothing of is not counted, so that its numbers have no gaps."""
        cut, part = self.rec.peers[index].cut, record.part
        if cut is not None:
            part = cut.told(part, sum(cut.takes(p.part) for p in self.rec.parts[: part.no]))
        key = dict(record.keys).get(index)
        return part if key is None else replace(part, key=key)

    def _closed(self) -> bool:
        return self.rec.node[plan] != "open" and self.state in (KVPoll.WaitingForInput, KVPoll.Transferring)

    def _facts(self, index: int) -> Facts:
        access = self.rec.peers[index].access
        return Facts(
            state=self.state,
            bound=True,
            parts=() if self.terminal else self._told(index),
            total=len(self._plan(index)) if self._closed() else UNSET,
            failed=self._failed_or_unset(),
            drained=self.terminal and access.back,
            quarantined=self.terminal and access.state is LeaseState.QUARANTINED,
        )

    def _seen(self, index: int) -> Seen:
        peer = self.rec.peers[index]
        return Seen(announce=True, meta=peer.meta is not None, over=peer.concluded or peer.failed is not None)

    def _all_met(self) -> bool:
        return 0 < self.rec.ranks <= len(self.rec.peers)

    def lacks(self, rank: int) -> bool:
        """This leg is over, and a receiver rank of its attempt, which it never met, has to hear of that (G06)."""
        return self.state is KVPoll.Failed and self.expects(rank)

    def expects(self, rank: int) -> bool:
        """Is this a receiver rank of its attempt that it has not met yet?"""
        return not self._all_met() and all(p.rank != rank for p in self.rec.peers)

    def _reachable(self, index: int) -> bool:
        return not (self.rec.peers[index].gone or self.rec.peers[index].passed)

    def _pending(self, index: int) -> bool:
        peer = self.rec.peers[index]
        if not self._reachable(index) or self.state is KVPoll.Success:
            return False
        if self.state is KVPoll.Failed:
            return not peer.acked
        told = len(self._known(index))
        return peer.meta is not None and (told > peer.seen.parts or (self._closed() and not peer.seen.total))

    def _peer_over(self, index: int) -> bool:
        return self.rec.peers[index].passed or self.rec.peers[index].gone

    def _in_doubt(self) -> bool:
        return bool(self.rec.node[doubt])
