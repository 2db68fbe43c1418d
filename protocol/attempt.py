"""The half of a session that sender and receiver share: peers, operations, aborts and their answers.

Facts about a peer rank only ever become true. ABORT is answered by the ``access`` lease of that rank: when it is handed
back, admission is closed and ``started - quiescent`` is zero, so ABORT_ACK says what is true (AckMeansQuiescent); it is
said again whenever it is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kvpoll.spec import Effect, KVPoll, LeaseEvent, LeaseState
from kvpoll.spec.wire import Abort, AbortAck, Facts, FailureGroup, Query, Seen, Status

from .errors import Detail
from .interpreter import Signal
from .outputs import FenceOp
from .records import Deadline, LeaseKind, OpKey, PeerRecord, ReceiverRecord, SenderRecord
from .session import Session, failure_of

__all__ = ["Attempt"]

Record = TypeVar("Record", SenderRecord, ReceiverRecord)
Details = tuple[tuple[str, Detail], ...]


def join_seen(a: Seen, b: Seen) -> Seen:
    """Both are true."""
    return Seen(
        announce=a.announce or b.announce,
        meta=a.meta or b.meta,
        parts=max(a.parts, b.parts),
        total=a.total or b.total,
        over=a.over or b.over,
    )


class Attempt(Session[Record]):
    """One rank's part in one attempt."""

    __slots__ = ()

    #: The signals without arguments, by event name.
    SIGNALS: ClassVar[dict[str, Signal]]
    #: Memory that the peer's operations may touch, and memory that ours may.
    EXPOSED: ClassVar[tuple[LeaseKind, ...]]

    # -- the engine, the process, the clock --------------------------------------------------------------------------------
    def abort(self, reason: str = "", status: int = 0) -> None:
        """The engine gives the request up; ``status`` is the HTTP status its client should get (0: the catalogue's)."""
        self._on("ABORT", details=(("reason", reason), *((("status", status),) if status else ())))

    def shutdown(self) -> None:
        """The process stops. A peer rank that was never met is not waited for."""
        self._on("SHUTDOWN")
        self._disarm(Deadline.PAIRING)

    def fire(self, deadline: Deadline) -> None:
        """A clock went off."""
        self._disarm(deadline)
        timing = self.env.timing
        waited = {Deadline.PAIRING: timing.pairing, Deadline.SILENCE: timing.silence, Deadline.GATE: timing.gate}
        self._on(
            deadline.name,
            details=(("waited_s", waited.get(deadline, timing.total) // 1000), *self._clock_details(deadline)),
        )

    def _clock_details(self, deadline: Deadline) -> Details:
        return ()

    def peer_of(self, link: int, rank: int) -> int | None:
        """The index of a peer rank of this attempt; ``None`` when it is none on that link."""
        for index, peer in enumerate(self.rec.peers):
            if peer.link == link and peer.rank == rank:
                return index
        return None

    def peer_lost(self, link: int) -> None:
        """The link is over; its fence is under way."""
        for index, peer in enumerate(self.rec.peers):
            if peer.link == link and not peer.gone:
                self._on("PEER_LOST", index, details=(("instance", f"{peer.instance:x}"),))

    def peer_fenced(self, link: int) -> None:
        """Proved: nothing of that link can touch our memory, and our operations towards it are quiescent."""
        for index, peer in enumerate(self.rec.peers):
            if peer.link == link and not peer.gone:
                self.env.credits += peer.started - peer.quiescent
                self.set_peer(index, gone=True, drained=True, quiescent=peer.started, unresolved=())
                self._all_quiet(index)
                self._quiet(index)
                self._drained()
        self._after()

    # -- the transport -----------------------------------------------------------------------------------------------------
    def op_unresolved(self, peer: int, part: int, detail: str = "") -> None:
        """An operation of ours may still touch memory: nothing is freed for it until it is fenced."""
        self.set_peer(peer, unresolved=(*self.rec.peers[peer].unresolved, part))
        self._step_access(peer, LeaseEvent.UNRESOLVED)
        self._memory_unresolved(part)
        self._on("OP_UNRESOLVED", peer, part, (("part", part), ("detail", detail)))

    def op_fenced(self, peer: int, part: int) -> None:
        """The unresolved operation can no longer touch anything."""
        unresolved = self.rec.peers[peer].unresolved
        if part in unresolved:
            self.set_peer(peer, unresolved=tuple(p for p in unresolved if p != part))
            self._resolved(peer, part)
        self._after()

    def _resolved(self, peer: int, part: int) -> None:
        """One operation became quiescent."""
        self.env.credits += 1
        self.set_peer(peer, quiescent=self.rec.peers[peer].quiescent + 1)
        self._memory_quiet(peer, part)
        self._quiet(peer)

    def _memory_unresolved(self, part: int) -> None:
        raise NotImplementedError

    def _memory_quiet(self, peer: int, part: int) -> None:
        raise NotImplementedError

    def _all_quiet(self, peer: int) -> None:
        raise NotImplementedError

    # -- facts of the peer ---------------------------------------------------------------------------------------------------
    def _hear_failed(self, index: int, group: FailureGroup) -> None:
        if self.rec.peers[index].failed is None:
            self.set_peer(index, failed=group)
        self.feed(self.SIGNALS["PEER_FAILED"], index, details=failure_of(group))
        self._answer_abort(index)

    def _hear_ack(self, index: int, quarantined: bool) -> None:
        self.set_peer(index, acked=True)
        if quarantined and not self.rec.peers[index].drained:
            self._lease(LeaseEvent.PEER_UNRESOLVED, self.EXPOSED)
        elif not quarantined:
            self.set_peer(index, drained=True)
            self._drained()

    def _hear_status(self, index: int, message: Status) -> None:
        """What both roles read in STATUS; the roles join their own facts first."""
        facts = message.facts
        self.set_peer(index, seen=join_seen(self.rec.peers[index].seen, message.seen))
        if not isinstance(facts.failed, UnsetType) and self.rec.peers[index].failed is None:
            self._hear_failed(index, facts.failed)
        if facts.drained or facts.quarantined:
            self._hear_ack(index, not facts.drained)
        if facts.state not in (KVPoll.Failed, KVPoll.Success):
            self.feed(self.SIGNALS["LIVE"], index)
        if message.answer:
            self.feed(self.SIGNALS["QUERIED"], index)

    # -- memory ----------------------------------------------------------------------------------------------------------------
    def _quiet(self, index: int) -> None:
        """Perhaps nothing of ours is in flight towards this rank's memory any more."""
        peer = self.rec.peers[index]
        if peer.started == peer.quiescent:
            self._step_access(index, LeaseEvent.QUIET)

    def _step_access(self, index: int, event: LeaseEvent) -> None:
        access, back = self.rec.peers[index].access.step(event)
        self.set_peer(index, access=access)
        if back or access.state is LeaseState.QUARANTINED:
            self._answer_abort(index)

    def _answer_abort(self, index: int) -> None:
        peer = self.rec.peers[index]
        if peer.failed is None or peer.gone or not self.terminal:
            return
        if peer.access.back:
            self.tell(index, AbortAck)
        elif peer.access.state is LeaseState.QUARANTINED:
            self.env.out.append(self.to_send(index, AbortAck(quarantined=True, **self.to(index))))

    def _drained(self) -> None:
        """Perhaps no peer can touch our memory any more."""
        if self.rec.peers and all(self._peer_drained(i) for i in range(len(self.rec.peers))):
            self._lease(LeaseEvent.DRAINED, self.EXPOSED)

    def _peer_drained(self, index: int) -> bool:
        return self.rec.peers[index].drained

    def _close_leases(self) -> None:
        # A leg that fails before it met every receiver rank waits out its pairing deadline: a rank that is announced hears why.
        self._disarm(*(d for d in Deadline if d is not Deadline.PAIRING or self._all_met()))
        self._lease(LeaseEvent.CLOSE)
        for index in range(len(self.rec.peers)):
            self._step_access(index, LeaseEvent.CLOSE)
        self._drained()

    # -- what this end says ---------------------------------------------------------------------------------------------------
    def _on(self, event: str, peer: int = -1, part: int = -1, details: Details = ()) -> None:
        self.feed(self.SIGNALS[event], peer, part, details)
        self._after()

    def _after(self) -> None:
        """After every input: while something said is unanswered, the re-send clock runs."""
        pending = any(self._pending(i) for i in range(len(self.rec.peers)))
        armed = any(d is Deadline.RESEND for d, _ in self.rec.timers)
        if pending and not armed:
            self._arm((Deadline.RESEND, self.env.timing.resend))
        elif armed and not pending:
            self._disarm(Deadline.RESEND)

    @property
    def settled(self) -> bool:
        """Nothing is left to do: terminal, every lease back, and no peer rank that still has to hear or say something."""
        return (
            self.terminal
            and not self.rec.leases
            and not self._waits_for_a_peer()
            and all(p.access.back and self._peer_over(i) for i, p in enumerate(self.rec.peers))
        )

    def _waits_for_a_peer(self) -> bool:
        return not self._all_met() and any(deadline is Deadline.PAIRING for deadline, _ in self.rec.timers)

    def _all_met(self) -> bool:
        """Every peer rank of the attempt is known."""
        return True

    def _pending(self, index: int) -> bool:
        raise NotImplementedError

    def _peer_over(self, index: int) -> bool:
        raise NotImplementedError

    def _facts(self, index: int) -> Facts:
        raise NotImplementedError

    def _seen(self, index: int) -> Seen:
        raise NotImplementedError

    def _reachable(self, index: int) -> bool:
        return not self.rec.peers[index].gone

    def _failed_or_unset(self) -> FailureGroup | UnsetType:
        return UNSET if self.rec.failure is None else self._failed_group()

    def status(self, index: int, answer: bool) -> Status:
        return Status(facts=self._facts(index), seen=self._seen(index), answer=answer, **self.to(index))

    # -- effects ------------------------------------------------------------------------------------------------------------
    def send_abort(self, peer: int = -1, part: int = -1) -> None:
        for index in range(len(self.rec.peers)):
            if self._reachable(index):
                self.env.out.append(self.to_send(index, Abort(failed=self._failed_group(), **self.to(index))))

    def send_query(self, peer: int = -1, part: int = -1) -> None:
        for index in range(len(self.rec.peers)):
            if self._reachable(index):
                self.tell(index, Query)

    def send_facts(self, peer: int = -1, part: int = -1) -> None:
        for index in range(len(self.rec.peers)):
            if self._pending(index):
                self.env.out.append(self.to_send(index, self.status(index, answer=True)))

    def reply(self, peer: int, part: int = -1) -> None:
        self.env.out.append(self.to_send(peer, self.status(peer, answer=False)))

    def fence(self, peer: int, part: int) -> None:
        self.env.out.append(FenceOp(OpKey(self.key, peer, part)))

    SHARED_EFFECTS: ClassVar[dict[Effect, Callable[..., None]]] = {
        Effect.SEND_ABORT: send_abort, Effect.SEND_QUERY: send_query, Effect.SEND_FACTS: send_facts, Effect.REPLY: reply,
        Effect.FENCE: fence, Effect.ARM_SILENCE: Session.arm_silence,
    }  # fmt: skip

    def set_peer(self, index: int, **changes: object) -> None:
        peers: list[PeerRecord] = list(self.rec.peers)
        peers[index] = replace(peers[index], **changes)
        self.rec = replace(self.rec, peers=tuple(peers))
