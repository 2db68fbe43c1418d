"""Abstract members: what a session looks like from outside, and all that it may do next.

A member only moves forward through the five states. What it may do depends on its peers alone: a sender succeeds when every
receiver has, a receiver when every sender has started all that it has to send. That real sessions do nothing else is shown
by :mod:`.projection` on the pair worlds, and that they do all of it, too; so what holds for groups of such members
(:mod:`.group_world`) holds for groups of sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvpoll.protocol.errors import Failure
from kvpoll.protocol.group import Vote
from kvpoll.spec import Cause, KVPoll

__all__ = ["RECEIVER", "SENDER", "Member", "moves", "possible"]

B, W, T, S, F = (
    KVPoll.Bootstrapping,
    KVPoll.WaitingForInput,
    KVPoll.Transferring,
    KVPoll.Success,
    KVPoll.Failed,
)


class Member(NamedTuple):
    """One rank of one attempt."""

    sender: bool
    state: KVPoll = B
    started: bool = False  #: sender: the last of what it has to send is on its way, or offered; it was in doubt once
    in_doubt: bool = False  #: its failure says so
    told: bool = False  #: it failed because a peer rank said that it had

    @property
    def over(self) -> bool:
        return self.state in (S, F)

    @property
    def vote(self) -> Vote:
        """What it tells its group. ``told`` failures have a cause of a peer's, the others one of their own."""
        if self.state is not F:
            return Vote(self.state)
        return Vote(F, Failure(Cause.PEER_ABORTED if self.told else Cause.ABORTED, (), self.in_doubt))

    @property
    def name(self) -> str:
        return f"{'P' if self.sender else 'D'}:{self.state.name}{'?' if self.in_doubt else ''}"


SENDER, RECEIVER = Member(True), Member(False)
_AHEAD = {B: W, W: T}


def moves(member: Member, peers: Sequence[Member]) -> list[Member]:
    """What the member may become next; ``peers`` are those of the other side that it is paired with, or will be."""
    if member.over:
        return []
    after = []
    if any(peer.state is F for peer in peers):
        after.append(member._replace(state=F, told=True))  # never in doubt: the receiver engine did not succeed
    after.append(member._replace(state=F, in_doubt=member.started))
    if member.state is T and _may_succeed(member, peers):
        after.append(member._replace(state=S))
    if member.state is T and member.sender and not member.started:
        after.append(member._replace(started=True))
    if member.state in _AHEAD:
        after.append(member._replace(state=_AHEAD[member.state]))
    return after


def _may_succeed(member: Member, peers: Sequence[Member]) -> bool:
    if member.sender:
        return member.started and all(peer.state is S for peer in peers)
    return all(peer.started for peer in peers)


def possible(before: Member, after: Member, peers: Sequence[Member]) -> list[tuple[Member, Member]] | None:
    """The moves that lead from one to the other while the peers stay as they are, in order, and as few as can be; ``None``
    when none do."""
    if before == after:
        return []
    following = moves(before, peers)
    if after in following:
        return [(before, after)]
    ways = [(step, rest) for step in following if (rest := possible(step, after, peers)) is not None]
    return min(([(before, step), *rest] for step, rest in ways), key=len, default=None)
