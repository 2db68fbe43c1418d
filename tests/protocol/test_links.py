"""Links: the handshake, refusals, heartbeats, lost and restarted peers, and messages that name no link of ours."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import CloseLink, ClosePeer, Connect, FencePeer, OpenPeer
from kvpoll.spec import KVPoll, LinkEvent, LinkState
from kvpoll.spec.wire import (
    Announce,
    Heartbeat,
    Hello,
    LinkOver,
    Query,
    Reason,
    Refusal,
    Registration,
    Status,
    Welcome,
)  # fmt: skip

from .pair import TIMING, Pair


def refusing(*fields: str, by: str = "p") -> Pair:
    """A pair in which one end refuses the other's registration, and says why."""

    def judge(ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
        return Judgement(fields if initiator is (by == "d") else (), "fake", "page_size: refused (16 and 32)")

    return Pair(judge=judge)


# -- the handshake -----------------------------------------------------------------------------------------------------------
def test_the_first_room_dials_and_later_rooms_share_the_link() -> None:
    pair = Pair()
    pair.d.receiver(1)
    pair.d.receiver(2)
    pair.run()
    pair.d.receiver(3)
    assert [out.address for out in pair.d.outputs if isinstance(out, Connect)] == ["p"]
    assert pair.d.link_state() is pair.p.link_state() is LinkState.OPEN
    assert sum(isinstance(out, OpenPeer) for out in pair.d.outputs) == 1


def test_a_lost_hello_is_said_again() -> None:
    pair = Pair()
    pair.d.receiver()
    pair.drop("Hello")
    pair.advance(TIMING.beat)
    assert pair.d.link_state() is LinkState.OPEN


def test_a_lost_welcome_is_said_again() -> None:
    pair = Pair()
    pair.d.receiver()
    pair.deliver("Hello")
    pair.drop("Welcome")
    assert pair.d.link_state() is LinkState.GREETING
    pair.advance(TIMING.beat)
    assert pair.d.link_state() is LinkState.OPEN


def test_copies_of_hello_and_welcome_change_nothing() -> None:
    pair = Pair()
    pair.d.core.links.to("p")
    pair.d.settle()
    pair.copy("Hello")
    pair.deliver("Hello")
    pair.copy("Welcome")
    before = pair.d.core.snapshot()
    pair.run()
    assert pair.d.core.snapshot() == before
    assert pair.p.link_state() is LinkState.OPEN


@pytest.mark.parametrize("by", ["p", "d"])
def test_a_refused_pair_fails_the_rooms_that_wait_for_it_naming_the_fields(by: str) -> None:
    pair = refusing("page_size", "kv_dtype", by=by)
    s, r = pair.both()
    pair.run()
    assert (r.state, r.cause) == (KVPoll.Failed, "HANDSHAKE_REFUSED")
    assert r.details["fields"] == "page_size kv_dtype"
    assert "page_size" in str(r.details["why"])
    assert s.state is KVPoll.Bootstrapping, "nothing else is disturbed"
    assert pair.d.idle() == {}


def test_a_room_for_a_refused_pair_fails_at_once_and_the_pair_is_tried_anew_later() -> None:
    pair = refusing("page_size")
    pair.d.receiver(1)
    pair.run()
    again = pair.d.receiver(2)
    late = pair.d.core.receiver(again.key)
    assert late is None, "it was refused before it was created to the end"
    pair.judge = lambda ours, theirs, initiator: Judgement((), "fake")
    for process in (pair.p, pair.d):
        process.core.links.judge = pair.judge
    pair.advance(TIMING.hello)
    assert not pair.d.core.links.table
    assert not pair.p.core.links.table
    s, r = pair.both(3)
    r.metadata()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success


def test_a_refusal_that_was_lost_is_said_again() -> None:
    pair = refusing("page_size")
    r = pair.d.receiver()
    pair.deliver("Hello")
    pair.drop("Refusal")
    pair.advance(TIMING.beat)
    assert r.cause == "HANDSHAKE_REFUSED"


def test_a_peer_that_does_not_answer_is_unreachable_within_the_hello_deadline() -> None:
    pair = Pair()
    r = pair.d.receiver(senders=[("nowhere", 0)])
    pair.advance(TIMING.hello - 1)
    assert r.state is KVPoll.Bootstrapping
    pair.advance(1)
    assert (r.state, r.cause, r.details["address"]) == (KVPoll.Failed, "UNREACHABLE", "nowhere")
    assert r.details["reason"]
    assert pair.d.idle() == {}
    assert not pair.d.core.links.table


def test_the_reason_why_a_peer_cannot_be_reached_is_kept() -> None:
    pair = Pair()
    r = pair.d.receiver(senders=[("nowhere", 0)])
    pair.d.core.links.note(pair.d.link, "connection refused")
    pair.advance(TIMING.hello)
    assert r.details["reason"] == "connection refused"


def test_links_are_bounded_at_either_end() -> None:
    pair = Pair(max_links=1).linked()
    with pytest.raises(LocalProtocolError, match="links: at most 1") as caught:
        pair.d.receiver(senders=[("elsewhere", 0)])
    assert (caught.value.details["table"], caught.value.details["limit"]) == ("links", 1)
    assert pair.d.core.last_gen == 0, "a refused create counts nothing"
    other = pair.join("e")
    r = other.receiver()
    pair.run()
    assert (r.cause, r.details["fields"]) == ("HANDSHAKE_REFUSED", "links")
    assert len(pair.p.core.links.table) == 1


def test_a_connection_of_a_link_that_is_refused_for_want_of_room_may_be_closed() -> None:
    pair = Pair(max_links=1).linked()
    pair.join("e").receiver()
    pair.run()
    assert any(isinstance(out, CloseLink) for out in pair.p.outputs)


# -- alive and lost ------------------------------------------------------------------------------------------------------------
def test_an_idle_link_stays_open_for_ever() -> None:
    pair = Pair().linked()
    pair.advance(20 * TIMING.lost)
    assert pair.d.link_state() is pair.p.link_state() is LinkState.OPEN


def test_a_silent_peer_is_declared_lost_by_both_and_fenced() -> None:
    pair = Pair().linked()
    (link,) = pair.d.core.links.table
    for _ in range(TIMING.lost // TIMING.beat + 1):
        pair.wire.clear()
        pair.advance(TIMING.beat, run=False)
    pair.run()
    for process in (pair.p, pair.d):
        assert not process.core.links.table
        kinds = [type(out) for out in process.outputs if isinstance(out, FencePeer | ClosePeer | CloseLink)]
        assert kinds == [FencePeer, ClosePeer, CloseLink]
    assert link


def test_the_end_that_is_declared_lost_hears_LINK_OVER_and_drops_the_link_too() -> None:
    pair = Pair().linked()
    pair.p.declare_lost()
    pair.run()
    assert not pair.d.core.links.table
    assert not pair.p.core.links.table


def test_a_lost_peer_is_met_again_on_a_new_link_only() -> None:
    pair = Pair().linked()
    old = pair.d.link
    pair.d.declare_lost()
    pair.run()
    s, r = pair.both()
    assert pair.d.link != old
    r.metadata()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success


def test_a_new_room_gets_a_new_link_while_the_fence_of_the_old_one_is_not_proved() -> None:
    pair = Pair().linked()
    old = pair.d.link
    pair.d.hold_fences = True
    pair.d.declare_lost()
    s, r = pair.both()
    r.metadata()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success
    assert old in pair.d.core.links.table
    pair.d.hold_fences = False
    pair.ends_idle()
    assert old not in pair.d.core.links.table


def test_a_connection_that_is_gone_for_good_ends_the_link_at_once() -> None:
    pair = Pair().linked()
    _, r = pair.both()
    pair.run()
    pair.d.core.disconnected(pair.d.link)
    pair.d.settle()
    assert (r.state, r.cause) == (KVPoll.Failed, "PEER_LOST")
    pair.run()
    assert pair.d.idle() == {}


def test_a_connection_that_is_gone_before_the_answer_makes_the_peer_unreachable() -> None:
    pair = Pair()
    r = pair.d.receiver()
    pair.d.core.disconnected(pair.d.link)
    pair.d.settle()
    assert (r.state, r.cause) == (KVPoll.Failed, "UNREACHABLE")


# -- strangers -----------------------------------------------------------------------------------------------------------------
def test_a_message_on_an_unknown_link_is_answered_LINK_OVER() -> None:
    pair = Pair().linked()
    r = pair.d.receiver()
    announce = pair.drop("Announce")
    before = pair.p.core.snapshot()
    pair.ends[4242] = ("d", "p")
    pair.forget()
    pair.inject(pair.p, replace(announce, link=4242))
    assert [(type(m), m.link, m.target) for m in pair.p.said] == [(LinkOver, 4242, pair.d.instance)]
    assert pair.p.core.snapshot() == before
    assert r.state is KVPoll.Bootstrapping


@pytest.mark.parametrize("kind", [LinkOver, Refusal, Heartbeat])
def test_what_says_nothing_of_a_room_on_an_unknown_link_is_not_answered(kind: type) -> None:
    pair = Pair().linked()
    body = {"reason": Reason.HANDSHAKE} if kind is Refusal else {}
    pair.inject(pair.p, kind(link=4242, source=1, target=pair.p.instance, **body))
    assert not pair.wire


def test_the_connection_of_an_unknown_link_may_be_closed() -> None:
    pair = Pair().linked()
    pair.inject(pair.p, Heartbeat(link=4242, source=1, target=pair.p.instance))
    assert [out for out in pair.p.outputs if isinstance(out, CloseLink)] == [CloseLink(4242)]


def test_a_message_for_another_instance_is_answered_WRONG_INSTANCE_and_changes_no_room() -> None:
    pair = Pair().linked()
    s, _ = pair.both()
    announce = pair.find("Announce").message
    before = s.rec
    pair.forget()
    pair.inject(pair.p, replace(announce, target=12345))
    answer = pair.p.said[-1]
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.source) == (Reason.WRONG_INSTANCE, pair.p.instance)
    assert s.rec == before


def test_a_message_that_another_instance_sends_on_a_live_link_disturbs_nothing() -> None:
    pair = Pair().linked()
    s, r = pair.both()
    r.metadata()
    pair.run()
    like = next(m for m in pair.d.said if isinstance(m, Announce))
    forged = Query(link=like.link, source=999, target=pair.p.instance, room=like.room, engine=like.engine, gen=like.gen)
    pair.inject(pair.p, forged)
    pair.run()
    assert pair.d.link_state() is pair.p.link_state() is LinkState.OPEN
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success


def test_an_instance_speaks_for_its_own_engine_only() -> None:
    pair = Pair().linked()
    pair.join("e").receiver(1)
    pair.run()
    pair.d.receiver(2)
    announce = pair.drop("Announce", to="p")
    assert isinstance(announce, Announce)
    before = pair.p.core.snapshot()
    stray = pair.p.core.stray
    pair.inject(pair.p, replace(announce, engine=pair.processes["e"].config.engine))
    assert pair.p.core.snapshot()[3:] == before[3:]
    assert pair.p.core.stray == stray + 1


def test_a_hello_for_somebody_elses_link_disturbs_nothing() -> None:
    pair = Pair().linked()
    hello = Hello(registration=pair.d.registration, link=pair.d.link, source=777)
    before = pair.p.core.snapshot(), pair.d.core.snapshot()
    pair.inject(pair.p, hello)
    pair.inject(pair.d, hello)
    assert (pair.p.core.snapshot(), pair.d.core.snapshot()) == before


def test_a_welcome_that_nobody_asked_for_opens_nothing() -> None:
    pair = Pair().linked()
    welcome = Welcome(registration=pair.p.registration, link=31337, source=5, target=pair.d.instance)
    pair.inject(pair.d, welcome)
    assert len(pair.d.core.links.table) == 1
    assert not any(isinstance(out, OpenPeer) for out in pair.d.outputs)


def test_room_messages_before_the_answer_to_our_hello_count_for_nothing() -> None:
    pair = Pair()
    r = pair.d.receiver()
    like = r.session.to(0)
    status = Query(**{**like, "source": pair.p.instance, "target": pair.d.instance})
    before = pair.d.core.snapshot()
    pair.inject(pair.d, status)
    assert pair.d.core.snapshot() == before


# -- restarts --------------------------------------------------------------------------------------------------------------------
def test_a_prefill_process_that_restarts_at_its_address_is_found_out_and_serves_the_next_room() -> None:
    pair = Pair().linked()
    _, r = pair.both()
    r.metadata()
    pair.run()
    pair.crash("p")
    pair.p = pair.join("p")
    pair.advance(TIMING.lost)
    assert (r.state, r.cause) == (KVPoll.Failed, "PEER_LOST")
    assert pair.d.idle() == {}
    s, again = pair.both(8)
    again.metadata()
    s.send_all()
    pair.run()
    assert s.state is again.state is KVPoll.Success


def test_a_restart_at_the_same_address_is_found_out_with_the_next_message() -> None:
    pair = Pair().linked()
    _, r = pair.both()
    r.metadata()
    pair.run()
    pair.crash("p")
    pair.p = pair.join("p")
    pair.d.beat()
    pair.run()
    r.abort()
    pair.run()
    pair.advance(TIMING.resend)
    assert pair.d.idle() == {}, "the new instance answers for the old link, and that ends it"


def test_a_decode_process_that_restarts_leaves_nothing_behind_at_the_prefill_end() -> None:
    pair = Pair().linked()
    s, r = pair.both()
    r.metadata()
    s.send_all()
    pair.deliver()
    pair.crash("d")
    pair.d = pair.join("d")
    again = pair.d.receiver(8)
    again.metadata()
    pair.advance(TIMING.lost)
    assert s.state is KVPoll.Failed
    leg = pair.p.sender(8)
    leg.send_all()
    pair.run()
    assert leg.state is again.state is KVPoll.Success
    pair.advance(5_000)
    assert pair.p.idle() == pair.d.idle() == {}


def test_every_clock_of_a_link_is_gone_when_the_link_is() -> None:
    pair = Pair().linked()
    pair.p.declare_lost()
    pair.run()
    pair.advance(TIMING.lost * 2)
    assert len(pair.p.core.clocks) == len(pair.d.core.clocks) == 0


@pytest.mark.parametrize("event", list(LinkEvent))
@pytest.mark.parametrize("state", [s for s in LinkState if s is not LinkState.OVER])
def test_a_link_takes_every_event_in_every_state_without_harm(state: LinkState, event: LinkEvent) -> None:
    pair = refusing("page_size") if state is LinkState.REFUSED else Pair()
    pair.d.core.links.to("p")
    pair.d.settle()
    if state is not LinkState.GREETING:
        pair.run()
    assert pair.d.link_state() is state
    if event is LinkEvent.WELCOME and state is LinkState.GREETING:
        return  # comes with a registration, which stands in the tests above
    if event is LinkEvent.LOST and state is not LinkState.OPEN:
        return  # armed when open
    pair.d.core.links.feed(pair.d.link, event)
    pair.d.settle()
    pair.run()
    pair.advance(2 * TIMING.hello)
    assert not any(isinstance(m, Status) for m in pair.d.said)
    assert pair.d.idle() == pair.p.idle() == {}
