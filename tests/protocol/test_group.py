"""Group agreement: the decision is a pure function of the members' votes."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.errors import Failure
from kvpoll.protocol.group import Vote, decide
from kvpoll.spec import Cause, KVPoll

STATES = [KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success]
failures = st.builds(Failure, st.sampled_from(Cause), st.just(()), st.booleans())
failed = st.builds(Vote, st.just(KVPoll.Failed), failures)
votes = st.one_of(st.none(), st.builds(Vote, st.sampled_from(STATES), st.none()), failed)
groups = st.dictionaries(st.integers(0, 15), votes, max_size=6)


@given(groups, st.randoms())
def test_the_order_of_the_votes_means_nothing(group: dict[int, Vote | None], random: object) -> None:
    ranks = list(group)
    random.shuffle(ranks)  # type: ignore[attr-defined]
    assert decide({rank: group[rank] for rank in ranks}) == decide(group)


@given(groups)
def test_one_failure_fails_the_group_whoever_is_missing(group: dict[int, Vote | None]) -> None:
    anybody = any(v is not None and v.state is KVPoll.Failed for v in group.values())
    assert (decide(group).state is KVPoll.Failed) == anybody


@given(groups)
def test_a_missing_report_holds_the_group_in_Bootstrapping(group: dict[int, Vote | None]) -> None:
    alive = {rank: vote for rank, vote in group.items() if vote is None or vote.state is not KVPoll.Failed}
    if None in alive.values() or not alive:
        assert decide(alive) == (KVPoll.Bootstrapping, None, False)


@given(st.dictionaries(st.integers(0, 15), st.builds(Vote, st.sampled_from(STATES), st.none()), min_size=1, max_size=6))
def test_without_a_failure_the_group_is_as_far_as_its_last_member(group: dict[int, Vote | None]) -> None:
    decision = decide(group)
    assert decision.state is min(vote.state for vote in group.values() if vote is not None)
    assert (decision.failure, decision.in_doubt) == (None, False)


@given(groups)
def test_a_group_is_in_doubt_if_and_only_if_every_failed_member_is(group: dict[int, Vote | None]) -> None:
    members = [v for v in group.values() if v is not None and v.state is KVPoll.Failed]
    doubt = bool(members) and all(v.failure is not None and v.failure.in_doubt for v in members)
    assert decide(group).in_doubt == doubt


@given(groups)
def test_the_cause_is_that_of_the_first_member_with_one_of_its_own(group: dict[int, Vote | None]) -> None:
    decision = decide(group)
    mine = [group[rank] for rank in sorted(group)]
    causes = [v.failure for v in mine if v is not None and v.failure is not None]
    own = [f for f in causes if f.cause is not Cause.PEER_ABORTED]
    assert decision.failure == (own[0] if own else causes[0] if causes else None)


@given(groups, st.integers(0, 15), failed)
def test_a_failed_group_stays_failed_whatever_is_reported_later(
    group: dict[int, Vote | None], rank: int, late: Vote
) -> None:
    before = decide({**group, rank: late})
    assert before.state is KVPoll.Failed
    for vote in (None, *(Vote(state) for state in STATES)):
        others = {r: v for r, v in group.items() if r != rank}
        if any(v is not None and v.state is KVPoll.Failed for v in others.values()):
            assert decide({**others, rank: vote}).state is KVPoll.Failed


@pytest.mark.parametrize("states", list(product([*STATES, KVPoll.Failed], repeat=2)), ids=str)
def test_two_ranks_amount_to_the_smaller_state(states: tuple[KVPoll, KVPoll]) -> None:
    fail = Failure(Cause.ABORTED)
    group = {rank: Vote(state, fail if state is KVPoll.Failed else None) for rank, state in enumerate(states)}
    assert decide(group).state is min(states)


def test_the_engines_status_of_a_member_is_the_groups() -> None:
    told = Failure(Cause.PEER_ABORTED, (("cause", "ABORTED"), ("status", 400)))
    own = Failure(Cause.ABORTED, (("reason", "too long"), ("status", 400)))
    decision = decide({0: Vote(KVPoll.Failed, told), 1: Vote(KVPoll.Failed, own), 2: None})
    assert decision.failure is own
    assert decision.failure.status == 400


def test_a_failed_member_that_cannot_say_why_leaves_no_doubt() -> None:
    doubt = Failure(Cause.SILENCE, (), True)
    assert not decide({0: Vote(KVPoll.Failed, doubt), 1: Vote(KVPoll.Failed)}).in_doubt
    assert decide({0: Vote(KVPoll.Failed, doubt)}).in_doubt
