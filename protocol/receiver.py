"""The receiver session: one attempt at one rank.

Theory of operation. As in :mod:`.sender`: facts of each sender rank are joined into its :class:`ReceiverPeer`, and the
table is fed what they amount to. ``whole`` is worked out here and nowhere else: every sender rank closed its plan, every
planned part arrived, and the ranges cover [prefix, N) for each layer. The engine then commits on its own thread between
:meth:`~ReceiverSession.begin_commit` and :meth:`~ReceiverSession.end_commit`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kvpoll.spec import RECEIVER, Effect, KVPoll, LeaseEvent, LeaseState, ReceiverEvent
from kvpoll.spec.receiver_table import busy, linked, push, whole
from kvpoll.spec.wire import (
    Abort,
    AbortAck,
    Announce,
    Close,
    Conclude,
    Facts,
    Fingerprint,
    Message,
    Metadata,
    MetaGroup,
    Offer,
    Part,
    PartDone,
    Query,
    Reason,
    Refusal,
    Seen,
    Status,
)  # fmt: skip

from .attempt import Attempt, Details
from .coverage import pages_for
from .errors import LocalProtocolError
from .interpreter import Rules
from .links import reason_name
from .outputs import Cancel, Expose, Ready, Submit
from .plan import AUX_NBYTES, DTYPES, all_here, plan_fault
from .records import Deadline, Lease, LeaseKind, OpKey, ReceiverPeer, ReceiverRecord, SessionKey
from .session import Env, Envelope

__all__ = ["AUX_NBYTES", "DTYPES", "ReceiverSession"]

RULES = Rules(RECEIVER)
E = ReceiverEvent
_META = {g: RULES.signal(E.META, gates=g) for g in (False, True)}
_GATE_OPEN = {a: RULES.signal(E.GATE_OPEN, all=a) for a in (False, True)}
_BOUND = {a: RULES.signal(E.BOUND, all=a) for a in (False, True)}
_PARTS = {w: RULES.signal(E.PARTS, whole_now=w) for w in (False, True)}
_OP_DONE = {w: RULES.signal(E.OP_DONE, whole_now=w) for w in (False, True)}
_LINKED = {(a, p): RULES.signal(E.LINKED, all=a, is_push=p) for a in (False, True) for p in (False, True)}
_MINE = (LeaseKind.PAGES, LeaseKind.AUX)
#: A commit reads the one and writes the others.
_COMMIT = (LeaseKind.BUFFER, *_MINE)


class ReceiverSession(Attempt[ReceiverRecord]):
    """One attempt of a receiver engine."""

    __slots__ = ()
    SIGNALS = {e.name: RULES.signal(e) for e in ReceiverEvent if not RULES.specs[e].args}
    EXPOSED = (LeaseKind.BUFFER, LeaseKind.PAGES, LeaseKind.AUX)

    @classmethod
    def create(
        cls, env: Env, key: SessionKey, room: int, request: Fingerprint, senders: Sequence[tuple[int, int]]
    ) -> ReceiverSession:
        """An attempt of gen ``key.no``; ``senders`` are (link, rank) of the sender ranks, whose links may not be open."""
        access, _ = Lease(LeaseKind.ACCESS).step(LeaseEvent.TAKE)
        peers = tuple(ReceiverPeer(link, 0, rank, access) for link, rank in senders)
        rec = ReceiverRecord(
            node=RULES.initial, room=room, fingerprint=request, engine=env.engine, gen=key.no, peers=peers
        )
        self = cls(env, key, rec)
        self._arm((Deadline.PAIRING, env.timing.pairing), (Deadline.TOTAL, env.timing.total))
        return self

    # -- the engine ----------------------------------------------------------------------------------------------------
    def send_metadata(self, aux: int | None = None, gates: Sequence[str] = ()) -> None:
        """The engine owns pages for [prefix, N) now (and an aux slot): the senders may be told. ``gates`` are local steps
        that Success waits for. In Failed the pages are handed back at once. Raises when called twice."""
        request, env = self.rec.fingerprint, self.env
        pages = pages_for(request.prefix, request.tokens, env.page_tokens)
        # With room for aux data, wanted or not: the sender may have planned it before it heard of us.
        nbytes = pages * env.page_nbytes * (env.layers[1] - env.layers[0]) + AUX_NBYTES
        before, leases = self.rec, self.rec.leases
        meta = MetaGroup(key=env.ids(), pages=pages, max_nbytes=nbytes, aux=UNSET if aux is None else aux)
        # A key each: two sender ranks number their parts alike.
        first, *others = before.peers
        peers = (replace(first, key=meta.key), *(replace(peer, key=env.ids()) for peer in others))
        self.rec = replace(before, meta=meta, gates=tuple(gates), peers=peers)
        for kind in (LeaseKind.PAGES, LeaseKind.BUFFER, *((LeaseKind.AUX,) if aux is not None else ())):
            self._lend(kind)
        try:
            self.feed(_META[bool(gates)])
        except LocalProtocolError:
            self.rec = replace(before, leases=leases)
            raise
        if self.terminal:
            self._lease(LeaseEvent.CLOSE)
        elif gates:
            self._arm((Deadline.GATE, env.timing.gate))
        self._after()

    def open_gate(self, gate: str) -> None:
        """A local step that Success waits for is done. A gate that was not named, or is open, changes nothing."""
        if gate in self.rec.gates:
            self.rec = replace(self.rec, gates=tuple(g for g in self.rec.gates if g != gate))
            self.feed(_GATE_OPEN[not self.rec.gates])
            self._after()

    def fail_gate(self, gate: str, reason: str = "") -> None:
        """A local step that Success waits for has failed."""
        self._on("GATE_FAILED", details=(("gate", gate), ("reason", reason)))

    def begin_commit(self) -> None:
        """The engine is about to write what arrived into its pages. Raises unless everything is here, and ready."""
        self.feed(self.SIGNALS["COMMIT"])
        self._lease(LeaseEvent.START, _COMMIT)

    def end_commit(self, error: str = "") -> None:
        """The engine has written its pages, or failed to (``error``)."""
        self._lease(LeaseEvent.QUIET, _COMMIT)
        if error:
            self._on("COMMIT_FAILED", details=(("gate", "commit"), ("reason", error)))
        else:
            self._on("COMMITTED")

    def data_missing(self, part: int, expected: int, got: int) -> None:
        """A part was called done, but its bytes are not here."""
        self._on("DATA_MISSING", part=part, details=(("part", part), ("expected", expected), ("got", got)))

    def aux_mismatch(self, expected: str, got: str) -> None:
        """The aux data says that it belongs to another request."""
        self._on("AUX_MISMATCH", details=(("expected", expected), ("got", got)))

    # -- the core ---------------------------------------------------------------------------------------------------------
    def linked(self, link: int, instance: int, transport: str) -> None:
        """The link to a sender rank is open."""
        for index, peer in enumerate(self.rec.peers):
            if peer.link == link and not peer.linked:
                cut = self.env.cut(link)
                self.set_peer(index, linked=True, instance=instance, cut=cut)
                if cut is not None and cut.senders != len(self.rec.peers) and not self.terminal:
                    self._wrong_ranks(cut.senders)
                    return
                if self.terminal and self._all_met():
                    self._disarm(Deadline.PAIRING)
                self.rec = replace(self.rec, transport=transport)
                every = all(p.linked for p in self.rec.peers)
                self.feed(_LINKED[every, self.env.push[transport]], index)
        self._after()

    def _wrong_ranks(self, senders: int) -> None:
        """The attempt was made for another shape of the sender engine than it has."""
        why = f"{senders} sender ranks have data for this rank, the attempt was made for {len(self.rec.peers)}"
        self.refused(("senders",), why)

    def unlinked(self, link: int) -> None:
        """There will be no link to this sender rank: whatever happens here, it cannot be told."""
        for index, peer in enumerate(self.rec.peers):
            if peer.link == link and not peer.linked:
                self.set_peer(index, over=True)
        if self.terminal and self._all_met():
            self._disarm(Deadline.PAIRING)

    def _all_met(self) -> bool:
        """Every sender rank was announced to, or cannot be."""
        return all(peer.linked or peer.over for peer in self.rec.peers)

    def refused(self, fields: Sequence[str], why: str = "") -> None:
        """The handshake with a sender rank was refused."""
        self._on("REFUSED", details=(("fields", " ".join(fields)), ("why", why)))

    def unreachable(self, address: str, reason: str) -> None:
        """A sender rank could not be found, or does not answer."""
        self._on("UNREACHABLE", details=(("address", address), ("reason", reason)))

    def startable(self) -> None:
        """A credit came back."""
        self.rec = replace(self.rec, waits=False)
        self._on("CREDIT")

    def _clock_details(self, deadline: Deadline) -> Details:
        return (("gate", " ".join(self.rec.gates)),) if deadline is Deadline.GATE else ()

    # -- the transport (pull) ---------------------------------------------------------------------------------------------
    def op_done(self, peer: int, part: int) -> None:
        self.set_peer(peer, arrived=(*self.rec.peers[peer].arrived, part))
        self._resolved(peer, part)
        now = all_here(self.rec, self.env) is True
        self.feed(_OP_DONE[now], peer, part)
        self._after()

    def op_failed(self, peer: int, part: int, detail: str = "") -> None:
        self._resolved(peer, part)
        self._on("OP_FAILED", peer, part, (("part", part), ("detail", detail)))

    def _memory_unresolved(self, part: int) -> None:
        self._lease(LeaseEvent.UNRESOLVED, self._touched())

    def _memory_quiet(self, peer: int, part: int) -> None:
        # While the engine commits, the same memory is its own: a fence of the peer says nothing about that.
        if all(p.started == p.quiescent for p in self.rec.peers) and not self.rec.node[busy]:
            self._lease(LeaseEvent.QUIET, self._touched())

    def _all_quiet(self, peer: int) -> None:
        self._memory_quiet(peer, -1)

    def _touched(self) -> tuple[LeaseKind, ...]:
        """Memory that a transfer writes: the receive buffer, unless the transport writes pages itself."""
        return (LeaseKind.BUFFER, *_MINE) if self.env.direct else (LeaseKind.BUFFER,)

    # -- facts of a sender rank -------------------------------------------------------------------------------------------
    def heard(self, index: int, message: Message) -> None:
        """Join the facts of a message of sender rank ``index``. Never raises for what came from the wire."""
        match message:
            case Offer() | PartDone():
                self._hear_bound(index)
                self._hear_plan(index, message.parts, None)
            case Close():
                self._hear_bound(index)
                self._hear_plan(index, (), message.total)
            case Abort():
                self._hear_failed(index, message.failed)
            case AbortAck():
                self._hear_ack(index, message.quarantined)
            case Status():
                self._hear_sender_status(index, message)
            case Query():
                self.feed(self.SIGNALS["QUERIED"], index)
            case Refusal():
                self._hear_refusal(index, message)
            case _:
                pass  # a kind that only receivers send: no fact of a sender
        self._after()

    def _hear_sender_status(self, index: int, message: Status) -> None:
        facts = message.facts
        if facts.bound:
            self._hear_bound(index)
        if facts.parts or not isinstance(facts.total, UnsetType):
            self._hear_plan(index, facts.parts, None if isinstance(facts.total, UnsetType) else facts.total)
        if facts.state in (KVPoll.Failed, KVPoll.Success):
            self.set_peer(index, over=True)
        self._hear_status(index, message)

    def _hear_bound(self, index: int) -> None:
        if not self.rec.peers[index].bound:
            self.set_peer(index, bound=True)
            self.feed(_BOUND[all(p.bound for p in self.rec.peers)], index)

    def _hear_refusal(self, index: int, message: Refusal) -> None:
        details: Details = (("fields", " ".join(message.fields)), ("why", reason_name(message.reason)))
        match message.reason:
            case Reason.ROOM_BUSY:
                # The leg is another attempt's: for this one nothing was bound, nothing was started.
                self.set_peer(index, acked=True, drained=True, over=True)
                self._drained()
                self.feed(self.SIGNALS["BUSY"], index, details=(("holder", message.text),))
            case Reason.NO_LEG | Reason.LIMIT | Reason.DRAINING:
                # On the attempt's own link, unknown means quiescent: a record with operations in flight is never dropped.
                self.set_peer(index, acked=True, drained=True, over=True)
                self._drained()
                self.feed(self.SIGNALS["NO_LEG"], index, details=details)
            case _:
                pass  # handled by the link

    def _hear_plan(self, index: int, parts: Sequence[Part], total: int | None) -> None:
        peer = self.rec.peers[index]
        if (
            not self.terminal
            and self.state is not KVPoll.Bootstrapping
            and (fault := plan_fault(self.rec, self.env, index, parts, total))
        ):
            details = (("field", fault[0]), ("expected", fault[1]), ("got", fault[2]))
            self.feed(self.SIGNALS["PLAN_REFUSED"], index, details=details)
            return
        known = {p.no for p in peer.parts}
        fresh = tuple(p for p in parts if p.no not in known)
        news = bool(fresh) or (total is not None and peer.total is None)
        if self.terminal or not news:
            return
        arrived = peer.arrived + tuple(p.no for p in fresh) if self.rec.node[push] else peer.arrived
        self.set_peer(index, parts=(*peer.parts, *fresh), arrived=arrived, total=peer.total if total is None else total)
        verdict = all_here(self.rec, self.env)
        if isinstance(verdict, str):
            details = (("field", "plan"), ("expected", "every token of every layer"), ("got", f"nothing for {verdict}"))
            self.feed(self.SIGNALS["PLAN_REFUSED"], index, details=details)
            return
        self._drained()
        self.feed(_PARTS[verdict], index)

    def _peer_drained(self, index: int) -> bool:
        peer = self.rec.peers[index]
        if peer.drained or not peer.linked:
            return True
        # PART_DONE means quiescent, and a closed plan starts nothing more.
        return bool(self.rec.node[push]) and peer.total is not None and len(peer.arrived) == peer.total

    # -- effects ------------------------------------------------------------------------------------------------------------
    def send_announce(self, peer: int, part: int = -1) -> None:
        rec = self.rec
        message = Announce(fingerprint=rec.fingerprint, transport=rec.transport, **self.to(peer))
        self.env.out.append(self.to_send(peer, message))

    def send_meta(self, peer: int = -1, part: int = -1) -> None:
        rec = self.rec
        assert rec.meta is not None
        for index in range(len(rec.peers)):
            meta = replace(rec.meta, key=rec.peers[index].key)
            message = Metadata(fingerprint=rec.fingerprint, transport=rec.transport, meta=meta, **self.to(index))
            self.env.out.append(self.to_send(index, message))

    def expose(self, peer: int = -1, part: int = -1) -> None:
        meta = self.rec.meta
        assert meta is not None
        self._lease(LeaseEvent.EXPOSE, self._touched())
        for record in self.rec.peers:
            self.env.out.append(Expose(self.key, record.link, record.key, meta.max_nbytes, self.env.max_parts))

    def fetch(self, peer: int = -1, part: int = -1) -> None:
        """Start a pull for each part that was offered and not fetched, as credits allow. A part is fetched once."""
        for index in range(len(self.rec.peers)):
            for offered in self.rec.peers[index].parts:
                record = self.rec.peers[index]
                if offered.no in record.fetched:
                    continue
                if self.env.credits <= 0:
                    if not self.rec.waits:
                        self.rec = replace(self.rec, waits=True)
                        self.env.want_credit(self.key)
                    return
                self.env.credits -= 1
                self.set_peer(index, fetched=(*record.fetched, offered.no), started=record.started + 1)
                self._step_access(index, LeaseEvent.START)
                self._lease(LeaseEvent.START, self._touched())
                assert not isinstance(offered.key, UnsetType)  # checked when the part was heard of
                self.env.out.append(Submit(OpKey(self.key, index, offered.no), record.link, offered.key, offered))

    def ready(self, peer: int = -1, part: int = -1) -> None:
        self.env.out.append(Ready(self.key))

    def send_conclude(self, peer: int = -1, part: int = -1) -> None:
        for index in range(len(self.rec.peers)):
            if self._reachable(index):
                self.tell(index, Conclude)

    def close(self, peer: int = -1, part: int = -1) -> None:
        """Admission is closed for good: every lease hears that the room is over. What the senders may still write goes into
        a buffer that stays leased until they have drained: a key that was taken away at once would look like a failed
        transport to them, before they hear why."""
        for index, record in enumerate(self.rec.peers):
            for no in record.fetched:
                if no not in record.arrived:
                    self.env.out.append(Cancel(OpKey(self.key, index, no)))
        self._close_leases()

    EFFECTS = {
        **Attempt.SHARED_EFFECTS, Effect.SEND_ANNOUNCE: send_announce, Effect.SEND_META: send_meta, Effect.EXPOSE: expose,
        Effect.FETCH: fetch, Effect.READY: ready, Effect.SEND_CONCLUDE: send_conclude, Effect.CLOSE: close,
    }  # fmt: skip

    # -- what this end says ---------------------------------------------------------------------------------------------------
    def to(self, index: int) -> Envelope:
        peer, rec = self.rec.peers[index], self.rec
        return Envelope(
            link=peer.link, source=self.env.instance, target=peer.instance, source_rank=self.env.rank,
            target_rank=peer.rank, room=rec.room, engine=rec.engine, gen=rec.gen, low_water=self.env.low_water(),
        )  # fmt: skip

    def _told_meta(self) -> bool:
        return self.rec.meta is not None and bool(self.rec.node[linked])

    def _facts(self, index: int) -> Facts:
        peer, meta = self.rec.peers[index], self.rec.meta
        access = peer.access
        return Facts(
            state=self.state,
            fingerprint=self.rec.fingerprint,
            transport=self.rec.transport,
            meta=UNSET if meta is None or self.terminal or not self._told_meta() else replace(meta, key=peer.key),
            failed=self._failed_or_unset(),
            concluded=self.state is KVPoll.Success,
            drained=self.terminal and access.back,
            quarantined=self.terminal and access.state is LeaseState.QUARANTINED,
        )

    def _seen(self, index: int) -> Seen:
        peer = self.rec.peers[index]
        return Seen(parts=len(peer.parts), total=peer.total is not None, over=peer.over or peer.failed is not None)

    def _reachable(self, index: int) -> bool:
        return self.rec.peers[index].linked and not self.rec.peers[index].gone

    def _pending(self, index: int) -> bool:
        peer = self.rec.peers[index]
        if not self._reachable(index):
            return False
        if self.terminal:
            return not self._heard_us(peer) or self._waits_for_drain(peer)
        if self.rec.node[whole]:
            return False
        return (not peer.seen.announce and not peer.bound) or (
            self._told_meta() and not (peer.seen.meta or peer.parts or peer.total is not None)
        )

    def _peer_over(self, index: int) -> bool:
        peer = self.rec.peers[index]
        return not peer.linked or peer.gone or self._heard_us(peer)

    def _waits_for_drain(self, peer: ReceiverPeer) -> bool:
        """It said ABORT_ACK(quarantined). Its drain word follows the fence, unasked and once: ask again until it is here."""
        return peer.acked and not peer.drained and any(x.state is LeaseState.QUARANTINED for x in self.rec.leases)

    def _heard_us(self, peer: ReceiverPeer) -> bool:
        """It needs no more of us: it acknowledged our failure; it holds our conclusion, or needs none."""
        return peer.acked if self.state is KVPoll.Failed else peer.over or peer.seen.over
