"""The shape of a declared pair world, and the words that both of its sides use.

The world is one room between one sender rank and one receiver rank. What the two sides do is taken from the sessions
(:mod:`kvpoll.protocol.sender`, :mod:`~kvpoll.protocol.receiver`, :mod:`~kvpoll.protocol.attempt`) and from how the core
pairs them (:mod:`~kvpoll.protocol.legs`), with these reductions:

* One room, one attempt, one leg that is there from the start; so nothing is half-open or superseded. The low water is there
  where a world says so, and arrives at once.
* One rank on each side, so every ``all`` is true. A chunk is one part, and there is a credit for each part.
* Contents are always right: no plan is refused, no request differs, nobody lies, aux data and checksums are left out.
* Source pages are left out: their lease ends when the gather does, before anything here begins. Gathering takes no time.
* Transfers go through the receive buffer; the engine's pages are touched by the commit only.
* Records stay for ever. A real session is forgotten once it is settled, and its process then answers from a tombstone.
* An answer says only what its reader uses: STATUS is LIVE, or OVER when its sender is terminal.
* Clocks: RESEND goes off when nothing is in flight, deadlines as often as the budget says, and the pairing deadline of a
  leg that nobody will pair when nothing is in flight.

The pair worlds of :mod:`kvpoll.model_tests.pair` have none of these reductions, and no second checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kvpoll.model_tests.network import Network
from kvpoll.spec import Effect, KVPoll, LeaseEvent, LeaseState

from .terms import NO, In, No, Term, Var, either, every
from .world import Body, Channel, Feed, Kind, Machine, Receive, Say, Statement, Step, When

__all__ = ["TO_RECEIVER", "TO_SENDER", "Op", "Shape", "Side", "channels", "touched"]

TO_SENDER, TO_RECEIVER = "to_sender", "to_receiver"
_BUDGETS = ("aborts", "losses", "copies", "failures", "unresolved", "crashes", "deadlines", "shutdowns")
_NOT_OUT = (LeaseState.FREE, LeaseState.HANDED)
_OVER = (KVPoll.Success, KVPoll.Failed)


@dataclass(frozen=True, slots=True)
class Shape:
    """What there is, and how often each fault may happen."""

    push: bool
    parts: int = 1  #: 0: there is nothing to send
    network: Network = Network.REORDERING  #: LOSSY and DUPLICATING are budgets: ``losses``, ``copies``
    tail: bool = False  #: a call without rows closes the plan, after the last part
    gate: bool = False  #: a local step that Success waits for
    silence: bool = False  #: the silence deadlines too
    low_water: bool = False  #: a receiver that is done with the attempt says that its low water went past it
    aborts: int = 0
    losses: int = 0
    copies: int = 0
    failures: int = 0  #: an operation or a commit fails
    unresolved: int = 0  #: an operation is unresolved until it is fenced
    crashes: int = 0
    deadlines: int = 0  #: a deadline goes off early
    shutdowns: int = 0

    def __post_init__(self) -> None:
        if (self.losses > 0) != (Network.LOSSY in self.network):
            raise ValueError("losses: expected above zero exactly for a lossy network")
        if (self.copies > 0) != (Network.DUPLICATING in self.network):
            raise ValueError("copies: expected above zero exactly for a duplicating network")

    @property
    def faults(self) -> str:
        """The network and the budgets, as they are printed with every result."""
        order = "reordering" if Network.REORDERING in self.network else "ordered"
        spent = [f"{name}={getattr(self, name)}" for name in _BUDGETS if getattr(self, name)]
        return " ".join([f"network={order}", *spent])

    def budget(self, name: str) -> Var | None:
        much = getattr(self, name)
        return Var(name, much, much, "how often it may still happen") if much else None

    @property
    def budgets(self) -> tuple[Var, ...]:
        return tuple(var for name in _BUDGETS if (var := self.budget(name)) is not None)

    def fault(self, budget: str, name: str, guard: Term, body: Body) -> tuple[Step, ...]:
        """A step that costs a budget; none where that is zero."""
        var = self.budget(budget)
        return () if var is None else (Step(name, guard, body, budget=var),)

    def dead(self, side: str) -> Term:
        """The process of ``s`` or ``r`` has crashed."""
        return Var(f"{side}_dead") if self.crashes else NO

    def op(self, part: int) -> Var:
        """The operation that moves a part: the sender's in a push, the receiver's in a pull."""
        return Var(f"op{part}", len(Op) - 1, 0, "the operation that moves this part")

    @property
    def ops(self) -> tuple[Var, ...]:
        return tuple(self.op(part) for part in range(self.parts))

    def say(self, channel: str, kind: str, **given: Term) -> Statement:
        """Say something to a process that may have crashed."""
        alive = ~self.dead("s" if channel == TO_SENDER else "r")
        return guarded(alive, Say(channel, kind, tuple(given.items())))


class Op(Enum):
    """Where an operation stands. The truth about memory, which no table decides."""

    NONE = 0
    FLYING = 1  #: it may touch the memory of both ends
    DONE = 2  #: the bytes are at the receiver
    QUIET = 3  #: failed or fenced: it touches nothing any more
    UNRESOLVED = 4  #: it may still touch memory, and nobody fences it yet
    FENCING = 5  #: it may still touch memory, until its fence is proved


def touched(op: Var) -> Term:
    """This operation can touch memory."""
    return either(op.is_(state.value) for state in (Op.FLYING, Op.UNRESOLVED, Op.FENCING))


@dataclass(frozen=True, slots=True)
class Side:
    """One side's share of a world."""

    machines: tuple[Machine, ...]
    variables: tuple[Var, ...]
    procedures: Mapping[str, Body]
    effects: Mapping[tuple[str, Effect, int], Body]
    receives: tuple[Receive, ...]
    steps: tuple[Step, ...]
    settled: Term  #: over, with every lease back and nothing to say


def channels(shape: Shape) -> tuple[Channel, Channel]:
    """What the two sides say to each other."""
    told = tuple((f"told{part}", 1) for part in range(shape.parts))
    end = (("success", 1), ("drain", 2))
    to_sender = (
        Kind("ANNOUNCE"), Kind("META"), Kind("CONCLUDE"), Kind("ABORT"), Kind("ABORT_ACK", (("quarantined", 1),)),
        Kind("QUERY"), Kind("LIVE", (("meta", 1), ("parts", shape.parts), ("total", 1), ("answer", 1))),
        Kind("OVER", (*end, ("answer", 1))),
    )  # fmt: skip
    to_receiver = (
        *(Kind(f"PART{part}") for part in range(shape.parts)),
        Kind("CLOSE"), Kind("ABORT"), Kind("ABORT_ACK", (("quarantined", 1),)), Kind("QUERY"), Kind("NO_LEG"),
        Kind("LIVE", (*told, ("closed", 1), ("meta", 1), ("answer", 1))), Kind("OVER", (*end, ("heard", 1), ("answer", 1))),
    )  # fmt: skip
    faults = shape.budget("losses"), shape.budget("copies")
    return (
        Channel(TO_SENDER, shape.network, to_sender, 8, *faults),
        Channel(TO_RECEIVER, shape.network, to_receiver, 8 + shape.parts, *faults),
    )


# Small words of both sides.
def guarded(term: Term, *body: Statement) -> Statement:
    """``body`` where ``term`` holds; the statement itself where it always does."""
    return body[0] if len(body) == 1 and term == ~NO else When(term, body)


def over(machine: str) -> Term:
    return In(machine, _OVER)


def out(lease: str) -> Term:
    """This memory is lent."""
    return No(In(lease, _NOT_OUT))


def back(lease: str) -> Term:
    """Nothing can touch this memory any more."""
    return In(lease, (LeaseState.HANDED,))


def tell_lease(lease: str, event: LeaseEvent) -> Statement:
    """A lease that is lent hears of ``event``; one that went back is in no record any more."""
    return When(out(lease), (Feed(lease, event),))


def idle(shape: Shape) -> Term:
    """No operation can touch memory."""
    return every(~touched(op) for op in shape.ops)


def drain_of(access: str) -> tuple[Term, Term]:
    """Our drain word: (drained, quarantined)."""
    return back(access), In(access, (LeaseState.QUARANTINED,))
