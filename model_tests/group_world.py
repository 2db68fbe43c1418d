"""Groups of ranks: abstract members on both sides, and the real group decision over what they report.

Every sender rank is paired with every receiver rank. A member moves as :mod:`.abstract` says; that sessions do the same is
shown on the pair worlds. Reports reach whoever decides late and one by one, so decisions are taken on any mixture of old, new
and missing votes. Nothing has to be remembered of a decision: the reports that it was taken on stay as they are in some
state, however far the ranks have come meanwhile, and each state compares the two.

Ranks of one side are interchangeable, and what is checked does not ask which is which: states that differ in the order of
ranks only are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from kvpoll.protocol.group import Decision, decide
from kvpoll.spec import Cause, KVPoll

from .abstract import RECEIVER, SENDER, Member, moves
from .explorer import Violation
from .properties import mark

__all__ = ["GroupWorld"]

_DECIDED = (KVPoll.Success, KVPoll.Failed)
EARLY = mark("GroupDecisionImmutable", "a group fails while a rank has not reported")
DOUBT_ENDS = mark("GroupDecisionImmutable", "a doubt ends with a later report")
_MARKS = (EARLY, DOUBT_ENDS)


class Rank(NamedTuple):
    """One rank, and what whoever decides has heard of it last."""

    member: Member
    report: Member | None = None


Side: TypeAlias = tuple[Rank, ...]
Reports: TypeAlias = tuple[Member | None, ...]


class GroupWorld:
    """``senders`` x ``receivers`` ranks; see the module text."""

    def __init__(self, senders: int = 2, receivers: int = 2) -> None:
        self.sides: tuple[Side, Side] = ((Rank(SENDER),) * senders, (Rank(RECEIVER),) * receivers)
        self.seen: set[str] = set()

    def actions(self) -> Sequence[Hashable]:
        todo: list[Hashable] = []
        for at, side in enumerate(self.sides):
            peers = _now(self.sides[1 - at])
            for no, (member, report) in enumerate(side):
                todo += [("move", at, no, after) for after in moves(member, peers)]
                if report != member:
                    todo.append(("report", at, no))
        return todo

    def fair(self, action: Hashable) -> bool:
        return True  # every rank ends (EveryRoomEnds, of the pair worlds), every report arrives

    def do(self, action: Hashable) -> None:
        assert isinstance(action, tuple)
        name, at, no, *after = action
        side = list(self.sides[at])
        side[no] = side[no]._replace(member=after[0]) if name == "move" else side[no]._replace(report=side[no].member)
        changed = tuple(sorted(side, key=_order))
        self.sides = (self.sides[0], changed) if at else (changed, self.sides[1])
        self.check()

    def snapshot(self) -> Hashable:
        return self.sides

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, tuple)
        self.sides = snapshot

    def ended(self) -> bool:
        """Every rank is over, and whoever decides knows it."""
        return all(rank.report == rank.member and rank.member.over for side in self.sides for rank in side)

    def outcome(self) -> str:
        return " ".join(
            f"{letter}:{heard.state.name}{'?' if heard.in_doubt else ''}"
            for letter, heard in zip("PD", map(_decision, map(_heard, self.sides)), strict=True)
        )

    def check(self) -> None:
        """Every invariant, in this state."""
        for side in self.sides:
            heard, now = _heard(side), _now(side)
            _check_decision(heard, now)
            if len(self.seen) < len(_MARKS):
                self._note(heard, now)
        _check_order(*self.sides)

    def _note(self, heard: Reports, now: tuple[Member, ...]) -> None:
        earlier, final = _decision(heard), _decision(now)
        if earlier.state is KVPoll.Failed and None in heard:
            self.seen.add(EARLY)
        if earlier.in_doubt and not final.in_doubt:
            self.seen.add(DOUBT_ENDS)


def _now(side: Side) -> tuple[Member, ...]:
    return tuple(rank.member for rank in side)


def _heard(side: Side) -> Reports:
    return tuple(rank.report for rank in side)


@lru_cache(1 << 16)
def _order(rank: Rank) -> tuple[str, str]:
    return (str(rank.member), str(rank.report))


@lru_cache(1 << 16)
def _decision(reports: Reports) -> Decision:
    """What the reports amount to."""
    return decide({rank: None if member is None else member.vote for rank, member in enumerate(reports)})


@lru_cache(1 << 16)
def _check_decision(heard: Reports, now: tuple[Member, ...]) -> None:
    """GroupDecisionImmutable: whoever decides on other votes of the same attempt, later ones or all, decides the same; a
    doubt may end. And what a decision says."""
    earlier, final = _decision(heard), _decision(now)
    if earlier.state in _DECIDED and final.state is not earlier.state:
        raise Violation("GroupDecisionImmutable", f"{earlier.state.name} became {final.state.name}")
    if earlier.state is KVPoll.Failed and final.in_doubt and not earlier.in_doubt:
        raise Violation("GroupDecisionImmutable", "a failure that was certain became one in doubt")
    if None in heard and earlier.state not in (KVPoll.Bootstrapping, KVPoll.Failed):
        raise Violation("GroupDecisionImmutable", f"{earlier.state.name}, but a rank has not reported yet")
    failed = [member for member in heard if member is not None and member.state is KVPoll.Failed]
    if earlier.in_doubt != (bool(failed) and all(member.in_doubt for member in failed)):
        raise Violation("SuccessOrder", f"the group's doubt is {earlier.in_doubt}, its failed ranks are {failed}")
    own = any(not member.told for member in failed)
    if own and earlier.failure is not None and earlier.failure.cause is Cause.PEER_ABORTED:
        raise Violation(
            "TerminalPropagates", "the client hears that a peer aborted, but a rank knows a cause of its own"
        )


def _check_order(senders: Side, receivers: Side) -> None:
    """SuccessOrder of groups: what either engine told its client, against what the other's ranks have come to."""
    told, truth = _decision(_heard(senders)), _decision(_now(receivers))
    if told.state is KVPoll.Success and truth.state is not KVPoll.Success:
        raise Violation("SuccessOrder", f"the senders are Success, the receivers {truth.state.name}")
    if told.state is KVPoll.Failed and not told.in_doubt and truth.state is KVPoll.Success:
        raise Violation("SuccessOrder", "the senders failed without doubt, and the receivers succeeded")
    if _decision(_heard(receivers)).state is KVPoll.Failed and _decision(_now(senders)).state is KVPoll.Success:
        raise Violation("SuccessOrder", "the receivers failed, and the senders succeeded")
