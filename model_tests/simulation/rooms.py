"""Rooms as the router and an observer see them, and the claims about whole rooms.

An :class:`End` is one rank's part in one room. The :class:`Ledger` hears of every change of every end, checks what has to
hold across them, and forgets a room when nothing of it is left: memory is bounded by rooms under way.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from kvpoll.protocol.errors import Failure
from kvpoll.protocol.group import Vote, decide
from kvpoll.protocol.records import LeaseKind, SessionKey
from kvpoll.spec import TERMINAL, Cause, KVPoll
from kvpoll.spec.wire import Fingerprint

from .clockwork import Clockwork
from .settings import Setting

if TYPE_CHECKING:
    from .process import Process

__all__ = ["Abort", "End", "Ledger", "Plan", "Room", "abort", "give_up"]

#: Attempts that are remembered after their rooms are forgotten: an old message may still name them.
_REMEMBERED = 2_000


@dataclass(frozen=True, slots=True)
class Abort:
    """An engine gives a room up: ``rank`` of it, or all ranks (-1), so many ms after the room was started."""

    prefill: bool
    rank: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One room: what the router asks for, how long the engines take, and what they do wrong. Times in ms."""

    room: int
    request: int  #: tells this request from any other
    tokens: int
    prefix: int = 0
    cuts: tuple[int, ...] = ()  #: tokens at which chunks end, the last one's aside
    pieces: int = 1  #: parts that a chunk is sent in, at most
    aux: bool = False
    gates: tuple[str, ...] = ()
    prefill_starts: int = 1
    decode_starts: int = 1
    spread: int = 0  #: between two ranks of one engine
    allocates: int = 1  #: from create until the decode ranks look for pages
    computes: int = 5  #: each chunk
    gathers: int = 2
    commits: int = 2
    keeps: int = 20  #: pages, after Success
    aborts: tuple[Abort, ...] = ()
    alone: str = ""  #: "prefill" or "decode": the only leg that ever arrives
    differs: bool = False  #: the decode leg is of another request
    gate: str = ""  #: "fails" or "stays"
    commit_fails: bool = False
    missing: str = ""  #: "data" or "aux"
    lazy: str = ""  #: "prefill" or "decode": forgets the room after create

    def fingerprint(self, prefill: bool) -> Fingerprint:
        """The request as this side knows it."""
        request = self.request if prefill or not self.differs else self.request ^ (1 << 62)
        return Fingerprint(tokens=self.tokens, prefix=self.prefix, digest=request.to_bytes(8, "big"))


class Room:
    """One room that the router started, once."""

    __slots__ = ("ends", "failed", "name", "pending", "plan", "serial", "started")

    def __init__(self, serial: int, plan: Plan, started: int, pending: int, name: str) -> None:
        self.serial = serial
        self.plan = plan
        self.started = started
        self.pending = pending  #: ends that are not created yet
        self.name = name  #: of the two engines
        self.ends: list[End] = []
        self.failed: dict[bool, None] = {}  #: True: the prefill engine's decision is Failed; False: the decode engine's


@dataclass(slots=True, eq=False)
class End:
    """One rank's part in one room, from create on."""

    room: Room
    process: Process
    key: SessionKey
    rank: int
    created: int
    state: KVPoll = KVPoll.Bootstrapping
    failure: Failure | None = None
    attempt: tuple[int, int] | None = None  #: (receiver engine id, gen); a sender has one when it is paired
    lent: dict[tuple[LeaseKind, int], None] = field(default_factory=dict)
    dropped: bool = False
    lost: bool = False  #: its process has crashed

    @property
    def prefill(self) -> bool:
        return self.key.role == "sender"

    @property
    def over(self) -> bool:
        return self.state in TERMINAL

    @property
    def gone(self) -> bool:
        return self.dropped or self.lost

    @property
    def number(self) -> int:
        return self.room.plan.room

    @property
    def instance(self) -> int:
        return self.process.instance

    @property
    def text(self) -> str:
        return f"{self.key.role} {self.key.no} of {self.process.name}"

    @property
    def in_doubt(self) -> bool:
        return self.failure is not None and self.failure.in_doubt

    @property
    def cause(self) -> str:
        return self.state.name if self.failure is None else self.failure.cause.name


@dataclass(slots=True)
class Attempt:
    """The receiver ranks of one attempt, and who is paired with it. ``fan``: every sender rank with every receiver rank;
    else each with its equal."""

    plan: Plan
    ranks: int
    fan: bool
    receivers: list[End] = field(default_factory=list)
    senders: list[End] = field(default_factory=list)
    told: bool = False  #: the first end has failed, and the others have so much time

    def peers(self, end: End) -> list[End]:
        """The ends at the other side that exchange data with this one."""
        others = self.receivers if end.prefill else self.senders
        return [other for other in others if self.fan or other.rank == end.rank]

    def joined(self, end: End) -> list[End]:
        """Every end that hears of this one's failure, perhaps through others."""
        return [other for other in (*self.receivers, *self.senders) if self.fan or other.rank == end.rank]

    def succeeded(self, sender: End) -> bool:
        """Every receiver rank that takes from this sender rank has succeeded."""
        receivers = self.peers(sender)
        return len(receivers) == (self.ranks if self.fan else 1) and all(r.state is KVPoll.Success for r in receivers)

    @property
    def whole(self) -> bool:
        return len(self.receivers) == self.ranks and all(r.state is KVPoll.Success for r in self.receivers)


class Ledger:
    """Every room under way."""

    def __init__(self, clock: Clockwork, setting: Setting) -> None:
        self.clock = clock
        self.setting = setting
        self.rooms: dict[int, Room] = {}  #: by serial
        self.attempts: OrderedDict[tuple[int, int], Attempt] = OrderedDict()
        self.outcomes: Counter[str] = Counter()  #: of rooms that are over at every end
        self.causes: Counter[str] = Counter()  #: of ends
        self.started = 0

    def start(self, plan: Plan, ends: int, name: str) -> Room:
        self.started += 1
        room = self.rooms[self.started] = Room(self.started, plan, self.clock.now, ends, name)
        self.clock.after(self.setting.forgets_within, lambda: self._must_be_forgotten(room), late=True)
        return room

    # -- what ends tell ------------------------------------------------------------------------------------------------------
    def created(self, room: Room, end: End, ranks: int) -> None:
        """A rank has its end; ``ranks``: of the receiving engine."""
        room.pending -= 1
        room.ends.append(end)
        if not end.prefill:
            assert end.attempt is not None
            attempt = self.attempts.setdefault(end.attempt, Attempt(room.plan, ranks, self.setting.fan))
            attempt.receivers.append(end)
        self.clock.after(self.setting.ends_within, lambda: self._must_be_over(end, "EveryRoomEnds"), late=True)

    def absent(self, room: Room) -> None:
        """A rank will never have its end: its process is gone, or refused."""
        room.pending -= 1
        self.look(room)

    def paired(self, end: End, attempt: tuple[int, int]) -> None:
        """A sender is paired with an attempt."""
        end.attempt = attempt
        record = self.attempts.get(attempt)
        if record is None:
            self._broken("AttemptUnique", f"paired with {attempt}, which nobody announced", end)
        record.senders.append(end)
        mine, theirs = end.room.plan, record.plan
        if mine.room != theirs.room or mine.fingerprint(True) != theirs.fingerprint(False):
            self._broken("SameRequest", f"paired with an attempt for room {theirs.room}, request {theirs.request}", end)

    def moved(self, end: End, state: KVPoll, failure: Failure | None) -> None:
        """An end's state."""
        if end.over and state is not end.state:
            self._broken("TerminalAbsorbing", f"left {end.state.name} for {state.name}", end)
        news = not end.over and state in TERMINAL
        end.state, end.failure = state, failure
        if not news:
            return
        if end.cause == "INTERNAL":
            self._broken("TotalHandlers", f"a row that is called impossible fired: {failure}", end)
        if end.in_doubt and end.cause == Cause.PEER_ABORTED.name:
            self._broken("SuccessOrder", "in doubt although its receiver said that it failed", end)
        attempt = None if end.attempt is None else self.attempts.get(end.attempt)
        if attempt is not None:
            self._check_order(end, attempt)
        self.causes[f"{'prefill' if end.prefill else 'decode'} {end.cause}{' in doubt' if end.in_doubt else ''}"] += 1
        if attempt is not None:
            self._time_others(end, attempt)
        self.look(end.room)

    def _time_others(self, end: End, attempt: Attempt) -> None:
        """From now on others have so much time to be over too: they hear of a failure, or of everybody's success."""
        if end.state is KVPoll.Failed:
            others = attempt.joined(end)
        else:
            others = [sender for sender in attempt.senders if attempt.succeeded(sender)]
        if others and not (end.state is KVPoll.Failed and attempt.told):
            attempt.told = attempt.told or (end.state is KVPoll.Failed and attempt.fan)
            self.clock.after(self.setting.tells_within, lambda: self._told(end, others), late=True)

    def dropped(self, end: End) -> None:
        """The core forgot the end's record."""
        if not end.over:
            self._broken("TerminalAbsorbing", f"dropped in {end.state.name}", end)
        if end.lent:
            left = ", ".join(f"{kind.value} {no}" for kind, no in end.lent)
            self._broken("ExactlyOnceFree", f"dropped with {left} still lent", end)
        end.dropped = True
        self.look(end.room)

    def lost(self, end: End) -> None:
        """The end's process has crashed."""
        end.lost = True
        self.look(end.room)

    # -- what must hold --------------------------------------------------------------------------------------------------------
    def _check_order(self, end: End, attempt: Attempt) -> None:
        for sender in [end] if end.prefill else attempt.peers(end):
            if sender.state is KVPoll.Success and not attempt.succeeded(sender):
                states = ", ".join(f"{r.text} {r.state.name}" for r in attempt.peers(sender))
                self._broken("SuccessOrder", f"Success, its receivers are {states}", sender)
            if sender.state is KVPoll.Failed and attempt.succeeded(sender) and not sender.in_doubt:
                self._broken("SuccessOrder", f"failed without doubt ({sender.cause}), its receivers succeeded", sender)

    def _must_be_over(self, end: End, invariant: str) -> None:
        if not end.over and not end.gone:
            self._broken(invariant, f"still {end.state.name} {self.clock.now - end.created} ms after create", end)

    def _must_be_forgotten(self, room: Room) -> None:
        if room.serial in self.rooms:
            left = next((end for end in room.ends if not end.gone), None)
            sentence = f"something of it is left {self.clock.now - room.started} ms after it was started"
            if left is None:
                self.clock.broken("EventuallyReleased", sentence, room.plan.room)
            self._broken("EventuallyReleased", f"{left.cause}: {sentence}", left)

    def _told(self, first: End, others: list[End]) -> None:
        for end in others:
            if not end.over and not end.gone:
                self._broken(
                    "TerminalPropagates",
                    f"still {end.state.name} {self.setting.tells_within} ms after {first.text} was {first.cause}", end,
                )  # fmt: skip

    def look(self, room: Room) -> None:
        """Is the room over at every end, with nothing left of it? Then judge and forget it."""
        if room.pending or not all(end.gone for end in room.ends) or room.serial not in self.rooms:
            return
        del self.rooms[room.serial]
        attempt = next(
            (self.attempts.get(e.attempt) for e in room.ends if not e.prefill and e.attempt is not None), None
        )
        if attempt is not None:
            self._judge(attempt)
        self.outcomes[self._outcome(room, attempt)] += 1
        while len(self.attempts) > _REMEMBERED + 4 * len(self.rooms):
            self.attempts.popitem(last=False)

    def _judge(self, attempt: Attempt) -> None:
        """GroupDecision: what the two engines' clients hear, from the votes of their ranks."""
        votes = {e.rank: Vote(e.state, e.failure) for e in attempt.senders}
        if len(votes) < self.setting.prefill_ranks or not all(e.over for e in attempt.senders):
            return
        said = decide(votes)
        if said.state is KVPoll.Failed and attempt.whole and not said.in_doubt:
            self._broken(
                "GroupDecision", "its engine failed without doubt, its decode engine succeeded", attempt.senders[0]
            )
        if said.state is KVPoll.Success and not attempt.whole:
            self._broken("SuccessOrder", "its engine succeeded, its decode engine did not", attempt.senders[0])

    def _outcome(self, room: Room, attempt: Attempt | None) -> str:
        if attempt is not None and attempt.whole:
            sure = len(attempt.senders) == self.setting.prefill_ranks
            sure = sure and all(e.state is KVPoll.Success for e in attempt.senders)
            return "success" if sure else "success, the prefill engine in doubt or gone"
        if attempt is None and any(e.state is KVPoll.Success for e in room.ends):
            return "success of another try's decode engine"
        if any(e.lost for e in room.ends):
            return "failed: an end crashed"
        failures = sorted((e for e in room.ends if e.failure is not None), key=lambda e: e.prefill)
        first = next((e.failure for e in failures if e.failure is not None), None)
        return "failed: never created" if first is None else f"failed: {_first(first)}"

    def _broken(self, invariant: str, sentence: str, end: End) -> NoReturn:
        self.clock.broken(invariant, f"{end.text}: {sentence}", end.number, end.instance)


def _first(failure: Failure) -> str:
    """The cause that came first, wherever that was."""
    return str(dict(failure.details).get("cause", failure.cause.name))


def give_up(room: Room, prefill: bool, delay: int) -> None:
    """One rank of an engine failed, so its group's decision is Failed: some time the engine gives the room up at the others,
    those too that are created later."""
    if prefill not in room.failed:
        room.failed[prefill] = None
        for end in room.ends:
            if end.prefill is prefill and not end.over:
                end.process.later(delay, partial(abort, end, "another rank failed"))


def abort(end: End, reason: str) -> None:
    """The engine gives the room up at one rank; perhaps it is over already."""
    if not end.gone:
        end.process.log("aborts", end)
        end.process.core.call(end.key, lambda session: session.abort(reason))
