"""Legs: the sender side's tables, where attempts of other engines meet the legs of ours.

* ``rooms``: live legs by room; ``attempts``: legs by (engine, gen) once paired.
* ``half_open``: announced attempts without an equal leg; each ends by pairing, ABORT, NO_LEG at its deadline, or a lost
  link.
* ``tombs``: attempts that are over here while the peer may still speak of them: a late message is recognised, answered,
  and creates nothing. They go when the peer's low_water is past them, or with the link. What was refused is over, too: a
  refusal is a drain word, and the receiver frees its memory on it, so no later message may pair that attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kvpoll.spec import Cause, KVPoll
from kvpoll.spec.wire import (
    Abort,
    AbortAck,
    Announce,
    Conclude,
    Facts,
    FailureGroup,
    Fingerprint,
    Metadata,
    MetaGroup,
    Query,
    Reason,
    Refusal,
    RoomMessage,
    Seen,
    Status,
)  # fmt: skip

from .errors import LocalProtocolError
from .links import LinkRecord
from .outputs import Send
from .records import HalfOpen, SessionKey, Tomb
from .sender import SenderSession
from .session import Env, Reply

__all__ = ["Legs", "RankId"]

AttemptId: TypeAlias = tuple[int, int]  #: receiver engine id, gen
RankId: TypeAlias = tuple[int, int, int, int]  #: engine, gen, link, rank


class Legs:
    """Every leg of a process, and what peers have announced to it."""

    def __init__(
        self, env: Env, max_half_open: int, arm: Callable[[RankId, int], None] = lambda ids, due: None
    ) -> None:
        self.env = env
        self.arm = arm
        self.limit = max_half_open
        self.sessions: dict[int, SenderSession] = {}
        self.rooms: dict[int, int] = {}
        self.failed: dict[int, int] = {}  #: legs that failed before they were paired: their attempt must hear why
        self.attempts: dict[AttemptId, int] = {}
        self.half_open: dict[RankId, HalfOpen] = {}
        self.tombs: dict[RankId, Tomb] = {}
        self.count = 0

    # -- the engine ----------------------------------------------------------------------------------------------------
    def create(self, room: int, request: Fingerprint, ranks: int) -> SenderSession:
        """A leg, paired at once with the newest equal attempt that waits for it."""
        if room in self.rooms:
            raise LocalProtocolError(f"room {room} is live already", Cause.ROOM_BUSY, room=room)
        self.count += 1
        session = SenderSession.create(self.env, SessionKey("sender", self.count), room, request, ranks)
        self.sessions[self.count] = session
        self.rooms[room] = self.count
        waiting = [(ids, half) for ids, half in self.half_open.items() if half.room == room]
        equal = [(ids, half) for ids, half in waiting if half.fingerprint == request]
        if equal:
            # Of the engine that announced last; gens compare only inside one engine.
            engine = equal[-1][0][0]
            newest = max(gen for (announced_by, gen, _, _), _ in equal if announced_by == engine)
            for ids, half in equal:
                if ids[:2] == (engine, newest):
                    del self.half_open[ids]
                    self._pair(session, self._announcement(ids, half), half.link)
        elif waiting:
            session.rec = replace(session.rec, mismatch=differing(waiting[-1][1].fingerprint, request))
            for ids, half in waiting:
                self.half_open[ids] = replace(half, mismatch=differing(half.fingerprint, request))
        return session

    def _announcement(self, ids: RankId, half: HalfOpen) -> Announce | Metadata:
        engine, gen, link, rank = ids
        if half.meta is None:
            return Announce(
                room=half.room, engine=engine, gen=gen, link=link, source=half.instance, source_rank=rank,
                fingerprint=half.fingerprint, transport=half.transport,
            )  # fmt: skip
        return Metadata(
            room=half.room, engine=engine, gen=gen, link=link, source=half.instance, source_rank=rank,
            fingerprint=half.fingerprint, transport=half.transport, meta=half.meta,
        )  # fmt: skip

    def _pair(self, session: SenderSession, message: Announce | Metadata | Status, link: int) -> None:
        self.attempts[message.engine, message.gen] = session.key.no
        session.bind(message, link)
        if session.rec.ranks > 1:
            attempt = (message.engine, message.gen)
            for ids, tomb in [each for each in self.tombs.items() if each[0][:2] == attempt]:
                if tomb.failed is not None and session.expects(ids[3]):
                    del self.tombs[ids]
                    session.met_failed(ids[2], tomb.instance, ids[3], tomb.failed)

    # -- messages ------------------------------------------------------------------------------------------------------
    def heard(self, record: LinkRecord, message: RoomMessage, draining: bool) -> list[SenderSession]:
        """A message about an attempt of the peer's engine. Returns the sessions that it touched."""
        ids = (message.engine, message.gen, record.link, message.source_rank)
        if ids in self.tombs:
            self._answer_tomb(record.link, message)
            return []
        no = self.attempts.get((message.engine, message.gen))
        session = None if no is None else self.sessions.get(no)
        half = self.half_open.get(ids)
        if message.room != (
            session.rec.room if session is not None else half.room if half is not None else message.room
        ):
            return []  # an attempt has one room: this is about neither (Isolation)
        if session is not None:
            index = session.peer_of(record.link, message.source_rank)
            if index is not None:
                if isinstance(message, Announce | Metadata):
                    if message.fingerprint == session.rec.fingerprint and message.transport == session.rec.transport:
                        session.bind(message, record.link)
                else:
                    session.heard(index, message)
                return [session]
        if message.gen < record.low_water:
            return []  # the peer itself said that it is past this attempt: an old copy
        match message:
            case Announce() | Metadata():
                meta = message.meta if isinstance(message, Metadata) else None
                return self._announced(record, message, message.fingerprint, message.transport, meta, draining)
            case Status(facts=facts) if facts.state in (KVPoll.Failed, KVPoll.Success):
                failed = None if isinstance(facts.failed, UnsetType) else facts.failed
                return self._first_words(session, record.link, message, failed)
            case Status(facts=facts) if not isinstance(facts.fingerprint, UnsetType):
                meta = None if isinstance(facts.meta, UnsetType) else facts.meta
                return self._announced(record, message, facts.fingerprint, facts.transport, meta, draining)
            case Abort(failed=failed):
                return self._first_words(session, record.link, message, failed)
            case Conclude():
                return self._first_words(session, record.link, message, None)
            case Query():
                if half is None:
                    self._refuse(record.link, message, Reason.NO_LEG)
                else:
                    self._half_status(record.link, message, half)
            case _:
                pass
        return []

    def _first_words(
        self, session: SenderSession | None, link: int, message: RoomMessage, failed: FailureGroup | None
    ) -> list[SenderSession]:
        """The first that is heard of a receiver rank's attempt is that it is over."""
        ids = (message.engine, message.gen, link, message.source_rank)
        if session is not None and failed is not None and session.expects(message.source_rank):
            self.half_open.pop(ids, None)
            session.met_failed(link, message.source, message.source_rank, failed)
            return [session]
        self._bury(ids, Tomb(Reason.NO_LEG, message.source, failed))
        self.over(link, message, None)
        return []

    def _announced(
        self, record: LinkRecord, message: Announce | Metadata | Status, request: Fingerprint, transport: str,
        meta: MetaGroup | None, draining: bool,
    ) -> list[SenderSession]:  # fmt: skip
        """ANNOUNCE, META, or a STATUS that carries the same facts: pair, supersede, wait, or refuse."""
        if transport not in self.env.push:
            self._refuse(record.link, message, Reason.NO_LEG, ("transport",))
            return []
        touched: list[SenderSession] = []
        no = self.attempts.get((message.engine, message.gen))
        over = None if no is None else self.sessions[no]
        if over is not None and over.lacks(message.source_rank) and over.rec.fingerprint == request:
            self._pair(over, message, record.link)
            return [over]
        no = self.rooms.get(message.room)
        leg = None if no is None else self.sessions[no]
        if leg is None and (dead := self.failed.get(message.room)) is not None:
            lost = self.sessions[dead]
            if lost.rec.fingerprint == request:
                del self.failed[message.room]
                self._pair(lost, message, record.link)
                return [lost]
        mismatch: tuple[str, ...] = ()
        if leg is not None:
            rec = leg.rec
            if rec.gen and (rec.engine, rec.gen) != (message.engine, message.gen):
                if rec.engine != message.engine:
                    self._refuse(record.link, message, Reason.ROOM_BUSY, (), f"engine {rec.engine:x}")
                    return []
                if rec.gen > message.gen:
                    self._refuse(record.link, message, Reason.NO_LEG, ("gen",))
                    return []
                leg.superseded(message.gen)
                touched.append(leg)
            elif rec.fingerprint != request:
                mismatch = differing(request, rec.fingerprint)
                leg.rec = replace(rec, mismatch=mismatch)
            elif any(p.rank == message.source_rank for p in rec.peers) or 0 < rec.ranks <= len(rec.peers):
                self._refuse(record.link, message, Reason.ROOM_BUSY, ("rank",), "this rank is bound on another link")
                return []
            else:
                self.half_open.pop((message.engine, message.gen, record.link, message.source_rank), None)
                self._pair(leg, message, record.link)
                return [leg]
        self._wait(record, message, request, transport, meta, mismatch, draining)
        return touched

    def _wait(
        self, record: LinkRecord, message: Announce | Metadata | Status, request: Fingerprint, transport: str,
        meta: MetaGroup | None, mismatch: tuple[str, ...], draining: bool,
    ) -> None:  # fmt: skip
        ids = (message.engine, message.gen, record.link, message.source_rank)
        half = self.half_open.get(ids)
        if half is None:
            if draining or len(self.half_open) >= self.limit:
                self._refuse(record.link, message, Reason.DRAINING if draining else Reason.LIMIT)
                return
            # A little sooner than the receiver's own pairing deadline, so that it hears what differed.
            due = self.env.now + self.env.timing.pairing * 7 // 8
            half = HalfOpen(
                message.room, record.link, message.source, message.source_rank, request, transport, due, meta, mismatch
            )
        elif half.meta is None and meta is not None:
            half = replace(half, meta=meta)
        self.half_open[ids] = replace(half, mismatch=mismatch or half.mismatch)
        self.arm(ids, half.due)
        self._half_status(record.link, message, half)

    # -- endings -------------------------------------------------------------------------------------------------------
    def passed(self, link: int, engine: int, before: int, low_water: int) -> list[SenderSession]:
        """The peer on ``link`` holds nothing below ``low_water`` any more (it said ``before`` earlier)."""
        for ids in [ids for ids in self.half_open if ids[0] == engine and ids[2] == link and ids[1] < low_water]:
            del self.half_open[ids]
        for ids in [ids for ids in self.tombs if ids[0] == engine and ids[2] == link and ids[1] < low_water]:
            del self.tombs[ids]
        if low_water - before <= len(self.attempts):
            nos = [self.attempts[engine, gen] for gen in range(before, low_water) if (engine, gen) in self.attempts]
        else:
            nos = [no for (e, gen), no in self.attempts.items() if e == engine and gen < low_water]
        touched = [self.sessions[no] for no in nos]
        for session in touched:
            session.passed(link, low_water)
        return touched

    def expire(self, ids: RankId) -> None:
        """The pairing deadline of a half-open attempt is over."""
        half = self.half_open.get(ids)
        if half is not None:
            self.no_leg(ids, half)

    def no_leg(self, ids: RankId, half: HalfOpen, reason: Reason = Reason.NO_LEG) -> None:
        """No leg came for this attempt: say so, naming what differed from the one that did."""
        self._refuse(half.link, self._announcement(ids, half), reason, half.mismatch)

    def drain(self) -> None:
        """No leg can come any more: tell every attempt that waits for one, instead of letting its deadline find out."""
        for ids, half in list(self.half_open.items()):
            self.no_leg(ids, half, Reason.DRAINING)

    def forget_link(self, link: int) -> None:
        """The link is over: nothing that lived on it can be spoken of any more."""
        for ids in [ids for ids in self.half_open if ids[2] == link]:
            del self.half_open[ids]
        for ids in [ids for ids in self.tombs if ids[2] == link]:
            del self.tombs[ids]

    def ended(self, session: SenderSession) -> bool:
        """A leg is over: free its room; forget it when nothing of it is left. True when forgotten."""
        if self.rooms.get(session.rec.room) == session.key.no:
            del self.rooms[session.rec.room]
            if not session.rec.peers and not session.settled:
                self.failed[session.rec.room] = session.key.no
        if not session.settled or session.key.no not in self.sessions:
            return False
        del self.sessions[session.key.no]
        if self.failed.get(session.rec.room) == session.key.no:
            del self.failed[session.rec.room]
        if session.rec.gen and self.attempts.get((session.rec.engine, session.rec.gen)) == session.key.no:
            del self.attempts[session.rec.engine, session.rec.gen]
        return True

    def _bury(self, ids: RankId, tomb: Tomb) -> None:
        self.half_open.pop(ids, None)
        if ids in self.tombs:
            return  # why it was over first holds
        if len(self.tombs) >= self.limit:
            del self.tombs[next(iter(self.tombs))]
        self.tombs[ids] = tomb

    # -- answers -------------------------------------------------------------------------------------------------------
    def over(self, link: int, message: RoomMessage, low_water: int | None) -> None:
        """Answer for an attempt that is over here. An answer is not answered."""
        if isinstance(message, AbortAck):
            return
        ack = AbortAck(
            **self._back(link, message),
            low_water=UNSET if low_water is None else low_water,
        )
        self.env.out.append(Send(link, ack))

    def _back(self, link: int, message: RoomMessage) -> Reply:
        """The envelope of an answer to ``message``."""
        return Reply(
            link=link, source=self.env.instance, target=message.source, source_rank=self.env.rank,
            target_rank=message.source_rank, room=message.room, engine=message.engine, gen=message.gen,
        )  # fmt: skip

    def _answer_tomb(self, link: int, message: RoomMessage) -> None:
        if isinstance(message, Announce | Metadata | Query | Status) and not _terminal(message):
            ids = (message.engine, message.gen, link, message.source_rank)
            self._refuse(link, message, self.tombs[ids].reason)
        else:
            self.over(link, message, None)

    def _half_status(self, link: int, message: RoomMessage, half: HalfOpen) -> None:
        status = Status(
            facts=Facts(state=KVPoll.Bootstrapping),
            seen=Seen(announce=True, meta=half.meta is not None),
            **self._back(link, message),
        )
        self.env.out.append(Send(link, status))

    def _refuse(
        self, link: int, message: RoomMessage, reason: Reason, fields: tuple[str, ...] = (), text: str = ""
    ) -> None:
        self._bury((message.engine, message.gen, link, message.source_rank), Tomb(reason, message.source))
        refusal = Refusal(
            reason=reason,
            fields=fields,
            text=text,
            **self._back(link, message),
        )
        self.env.out.append(Send(link, refusal))


def _terminal(message: RoomMessage) -> bool:
    return isinstance(message, Status) and message.facts.state in (KVPoll.Failed, KVPoll.Success)


def differing(a: Fingerprint, b: Fingerprint) -> tuple[str, ...]:
    """The fields in which two requests differ."""
    return tuple(name for name in ("tokens", "prefix", "digest") if getattr(a, name) != getattr(b, name))
