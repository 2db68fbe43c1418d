"""Ranks that are over before the others have met them: nobody waits out a deadline for what somebody knows already."""

from __future__ import annotations

import pytest

from kvpoll.spec import KVPoll
from tests.protocol.pair import Pair


@pytest.fixture(params=["push", "pull"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param == "push")


@pytest.mark.parametrize("first", ["the leg", "the abort", "the other rank"])
def test_a_rank_that_gave_up_before_it_was_met_ends_the_leg(pair: Pair, first: str) -> None:
    second = pair.join("e", engine=pair.d.config.engine, rank=1)
    pair.linked()
    second.core.links.to("p")
    second.settle()
    pair.run()
    leg = pair.p.sender(ranks=2) if first == "the leg" else None
    if first == "the other rank":
        pair.d.receiver(gen=5)
        pair.run()
    gone = second.receiver(gen=5)
    gone.abort("no pages")
    pair.run()
    if first != "the other rank":
        pair.d.receiver(gen=5)
        pair.run()
    leg = leg or pair.p.sender(ranks=2)
    pair.run()
    assert (leg.state, leg.cause) == (KVPoll.Failed, "PEER_ABORTED")
    assert leg.details["reason"] == "no pages"
    other = next(iter(pair.d.legs.values()))
    assert (other.state, other.details["reason"]) == (KVPoll.Failed, "no pages")
    pair.ends_idle()


def test_a_rank_that_failed_before_its_link_was_open_tells_the_leg_that_waits_there(pair: Pair) -> None:
    leg = pair.p.sender()
    gone = pair.d.receiver()
    gone.abort("no pages")
    assert leg.state is KVPoll.Bootstrapping
    pair.run()
    assert (leg.state, leg.details["reason"]) == (KVPoll.Failed, "no pages")
    pair.ends_idle()


def test_a_newer_attempt_of_the_room_is_not_spoilt_by_one_that_failed_before_the_link_was_open(pair: Pair) -> None:
    leg = pair.p.sender()
    pair.d.receiver().abort("no pages")
    again = pair.d.receiver()
    again.metadata()
    pair.run()
    leg.send_all()
    pair.run()
    assert (leg.state, again.state) == (KVPoll.Success, KVPoll.Success)
    pair.ends_idle()


def test_a_rank_that_failed_before_its_link_was_open_waits_for_it_no_longer_than_for_pairing(pair: Pair) -> None:
    gone = pair.d.receiver()
    gone.abort("no pages")
    pair.wire.clear()  # nobody ever answers
    assert not gone.dropped
    pair.advance(pair.timing.pairing)
    assert gone.dropped
