"""What sender and receiver sessions share: feeding the table, carrying out effects, clocks, leases, messages.

A session is one frozen record (``rec``) and a reference to its process (``env``). Every public call either returns with
the record moved on and outputs appended to ``env.out``, or raises :class:`LocalProtocolError` with the record as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, NotRequired, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from kvpoll.spec import Cause, Effect, KVPoll, LeaseEvent, LeaseState
from kvpoll.spec.table import Verdict
from kvpoll.spec.wire import AbortAck, Conclude, FailureGroup, Query, RoomMessage

from .codec import fit_details
from .cut import Cut
from .errors import Detail, Failure
from .interpreter import Edge, Signal
from .outputs import Changed, HandBack, Output, Quarantined, Send
from .records import Deadline, Lease, LeaseKind, ReceiverRecord, SenderRecord, SessionKey, Timers

__all__ = ["Env", "Envelope", "Reply", "Session", "Timing", "failure_of"]

Record = TypeVar("Record", SenderRecord, ReceiverRecord)


class Reply(TypedDict):
    """Keyword arguments that every room message has, and every refusal of one."""

    link: int
    source: int
    target: int
    target_rank: int
    source_rank: int
    room: int
    engine: int
    gen: int


class Envelope(Reply):
    """Keyword arguments of a room message: a receiver's says its low_water too."""

    low_water: NotRequired[int]


class Timing(msgspec.Struct, frozen=True):
    """Durations in milliseconds (design section 4.8). Safety and exits hold for any values."""

    pairing: int = 30_000
    silence: int = 30_000
    total: int = 300_000
    gate: int = 60_000
    resend: int = 500
    hello: int = 10_000
    beat: int = 1_000
    lost: int = 5_000


class Env:
    """The process that a session lives in, as far as a session may know it."""

    __slots__ = (
        "arm", "credits", "cut", "direct", "engine", "ids", "instance", "layers", "low_water", "max_parts", "now", "out",
        "owners", "page_nbytes", "page_size", "push", "rank", "timing", "trace", "want_credit",
    )  # fmt: skip

    def __init__(self, instance: int, engine: int, timing: Timing, ids: Callable[[], int]) -> None:
        self.instance = instance
        self.engine = engine
        self.timing = timing
        self.ids = ids
        self.now = 0
        self.rank = 0
        self.out: list[Output] = []
        self.page_size = 1
        self.page_nbytes = 1  #: of one page of one layer at this rank
        self.layers = (0, 1)
        self.owners = 1  #: receiver ranks that the tokens of one page are spread over (DCP)
        self.max_parts = 4096
        self.direct = False  #: the transport touches destination pages itself, without a receive buffer
        self.push: dict[str, bool] = {}  #: by transport name
        self.credits = 64  #: operations that may still be started
        self.cut: Callable[[int], Cut | None] = lambda link: None  #: by link
        self.low_water: Callable[[], int] = lambda: 0
        self.arm: Callable[[SessionKey, Deadline, int], None] = lambda key, deadline, due: None
        self.want_credit: Callable[[SessionKey], None] = lambda key: None
        self.trace: Callable[[SessionKey, Edge, Signal], None] | None = None

    @property
    def page_tokens(self) -> int:
        """Tokens of one page id of this end: with DCP, ``page_size`` of them at each rank."""
        return self.page_size * self.owners


def failure_of(group: FailureGroup) -> tuple[tuple[str, Detail], ...]:
    """The details of PEER_ABORTED: the first failure's own name and details, however many ranks it came through."""
    if group.cause == Cause.PEER_ABORTED:
        return group.details
    name = Cause(group.cause).name if group.cause in Cause.__members__.values() else f"cause {group.cause}"
    return (("cause", name), *group.details)


class Session(Generic[Record]):
    """Base of :class:`SenderSession` and :class:`ReceiverSession`."""

    __slots__ = ("env", "key", "rec")

    EFFECTS: ClassVar[dict[Effect, Callable[..., None]]] = {}

    def __init__(self, env: Env, key: SessionKey, rec: Record) -> None:
        self.env = env
        self.key = key
        self.rec: Record = rec

    # The public face that both roles have.
    @property
    def state(self) -> KVPoll:
        state = self.rec.node.state
        assert isinstance(state, KVPoll)
        return state

    @property
    def failure(self) -> Failure | None:
        return self.rec.failure

    @property
    def terminal(self) -> bool:
        return self.state in (KVPoll.Failed, KVPoll.Success)

    def snapshot(self) -> Record:
        """All there is; hashable and canonical."""
        return self.rec

    def restore(self, rec: Record) -> None:
        self.rec = rec

    # Feeding the table.
    def feed(
        self, signal: Signal, peer: int = -1, part: int = -1, details: tuple[tuple[str, Detail], ...] = ()
    ) -> Edge:
        """Follow the table and carry the row's effects out. The only place where ``node`` moves."""
        node = self.rec.node
        edge = node.edges.get(signal) or node.rules.expand(node, signal)
        if edge.node is not node:
            before = node.state
            self.rec = replace(self.rec, node=edge.node)
            if edge.node.state is not before:
                self._entered(edge, signal, details)
        if self.env.trace is not None:
            self.env.trace(self.key, edge, signal)
        for effect in edge.effects:
            self.EFFECTS[effect](self, peer, part)
        return edge

    def _entered(self, edge: Edge, signal: Signal, details: tuple[tuple[str, Detail], ...]) -> None:
        if edge.verdict in (Verdict.FAIL, Verdict.NEVER):
            if edge.verdict is Verdict.NEVER:
                details = (("row", f"{edge.row.state.name} {signal.name}: {edge.row.why}"),)
            cause = Cause.INTERNAL if edge.cause is None else edge.cause
            self.rec = replace(self.rec, failure=Failure(cause, details, self._in_doubt()))
        self.env.out.append(Changed(self.key, self.state, self.rec.failure))

    def _in_doubt(self) -> bool:
        return False

    # Clocks.
    def _arm(self, *deadlines: tuple[Deadline, int]) -> None:
        armed = dict(self.rec.timers)
        for deadline, after in deadlines:
            due = self.env.now + after
            armed[deadline] = due
            self.env.arm(self.key, deadline, due)
        self._timers(armed)

    def _disarm(self, *deadlines: Deadline) -> None:
        armed = dict(self.rec.timers)
        for deadline in deadlines:
            armed.pop(deadline, None)
        self._timers(armed)

    def _timers(self, armed: dict[Deadline, int]) -> None:
        timers: Timers = tuple(sorted(armed.items(), key=lambda item: item[0].value))
        if timers != self.rec.timers:
            self.rec = replace(self.rec, timers=timers)

    def arm_silence(self, peer: int = -1, part: int = -1) -> None:
        silence = self.env.timing.silence
        self._arm((Deadline.SILENCE, silence), (Deadline.ASK, silence // 2))

    # Leases.
    def _lend(self, kind: LeaseKind, no: int = 0) -> None:
        lease, _ = Lease(kind, no).step(LeaseEvent.TAKE)
        self.rec = replace(self.rec, leases=(*self.rec.leases, lease))

    def _lease(self, event: LeaseEvent, kinds: Iterable[LeaseKind] = LeaseKind, no: int | None = None) -> None:
        """Tell every lease of these kinds (and this number) that ``event`` happened; hand back what it frees."""
        moved: list[Lease] = []
        changed = False
        for lease in self.rec.leases:
            if lease.kind in kinds and (no is None or lease.no == no):
                after, back = lease.step(event)
                changed = changed or after is not lease
                if after.state is LeaseState.QUARANTINED and lease.state is not LeaseState.QUARANTINED:
                    self.env.out.append(Quarantined(self.key, after))
                if back:
                    self.env.out.append(HandBack(self.key, after))
                    continue  # the process holds it from here on, until the engine picks it up
                moved.append(after)
            else:
                moved.append(lease)
        if changed:
            self.rec = replace(self.rec, leases=tuple(moved))

    # Messages.
    def to(self, index: int) -> Envelope:
        """The envelope towards peer ``index``, for ``Kind(**self.to(index))``."""
        raise NotImplementedError

    def to_send(self, index: int, message: RoomMessage) -> Send:
        return Send(self.rec.peers[index].link, message)

    def tell(self, index: int, kind: type[Query] | type[Conclude] | type[AbortAck]) -> None:
        """Say a fact that is all in the envelope."""
        self.env.out.append(Send(self.rec.peers[index].link, kind(**self.to(index))))

    def _failed_group(self) -> FailureGroup:
        failure = self.rec.failure
        assert failure is not None
        # The wire bounds what can be said; the whole of it stays in our own failure.
        details = fit_details(failure.details)
        return FailureGroup(cause=failure.cause, details=details, in_doubt=failure.in_doubt)
