"""Group agreement: what the members' votes amount to. A pure function, keyed by member, never by position (Q55)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvpoll.spec import KVPoll

from .errors import Failure

__all__ = ["Decision", "Vote", "decide"]


class Vote(NamedTuple):
    """One rank's state in one attempt."""

    state: KVPoll
    failure: Failure | None = None


class Decision(NamedTuple):
    """The group's state. ``failure`` is the cause that the engine's client hears: of the first failed member, by rank, that
    knows one of its own rather than a peer's (B11)."""

    state: KVPoll
    failure: Failure | None
    in_doubt: bool


def decide(votes: Mapping[int, Vote | None]) -> Decision:
    """The minimum of the votes: one failure fails the group. A rank that has not voted yet (``None``) holds the group in
    Bootstrapping, but not its failure. A group is in doubt if and only if every failed member is.

    No clock ends a group whose other ranks are done while one never votes: whoever collects the votes gives such a rank up
    after its own limit (the total deadline is one), as a failed vote."""
    known = {rank: vote for rank, vote in votes.items() if vote is not None}
    failed = [known[rank] for rank in sorted(known) if known[rank].state is KVPoll.Failed]
    if failed:
        failures = [vote.failure for vote in failed if vote.failure is not None]
        own = [failure for failure in failures if failure.cause.name != "PEER_ABORTED"]
        in_doubt = all(failure.in_doubt for failure in failures) and len(failures) == len(failed)
        return Decision(KVPoll.Failed, next(iter(own or failures), None), in_doubt)
    if len(known) < len(votes) or not votes:
        return Decision(KVPoll.Bootstrapping, None, False)
    return Decision(min(vote.state for vote in known.values()), None, False)
