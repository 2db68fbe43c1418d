"""The sender session, driven through a real core with a real receiver core at the other end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.outputs import FenceOp, OfferPart, Submit
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll, Retry
from kvpoll.spec.wire import Abort, Close, Conclude, FailureGroup, Metadata, PartDone, PartKind, Query, Status

from .pair import ROOM, TIMING, Leg, Pair, part, request


@pytest.fixture(params=[True, False], ids=["push", "pull"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param).linked()


@pytest.fixture
def push() -> Pair:
    return Pair(push=True).linked()


def bound(pair: Pair, tokens: int = 4) -> tuple[Leg, Leg]:
    """Both legs met, and the receiver said where data goes."""
    s, r = pair.both(want=request(tokens))
    r.metadata()
    pair.run()
    assert s.state is r.state is KVPoll.WaitingForInput
    return s, r


def in_flight(pair: Pair, tokens: int = 4) -> tuple[Leg, Leg]:
    """The whole plan was handed over, and its operations have not ended."""
    s, r = bound(pair, tokens)
    pair.p.hold_ops = pair.d.hold_ops = True
    s.send_all(tokens // 2)
    pair.run()
    assert s.state is KVPoll.Transferring
    return s, r


# -- send ------------------------------------------------------------------------------------------------------------------
def test_parts_sent_before_META_wait_for_it_and_then_start(pair: Pair) -> None:
    s = pair.p.sender()
    s.send_all(1, 2)
    assert s.state is KVPoll.Bootstrapping
    assert not pair.p.ops
    assert not pair.p.offered
    r = pair.d.receiver()
    pair.run()
    assert (s.state, r.state) == (KVPoll.Bootstrapping, KVPoll.Bootstrapping)
    r.metadata()
    pair.run()
    assert s.states == [KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success]


def test_parts_are_numbered_over_all_chunks_in_the_order_they_are_sent(pair: Pair) -> None:
    s, _ = bound(pair)
    assert s.send(part(0, 1)) == (0,)
    assert s.send(part(1, 2), part(2, 3)) == (1, 2)
    assert s.send(part(3, 4), last=True) == (3,)


def test_chunks_may_be_sent_in_any_token_order(pair: Pair) -> None:
    s, r = bound(pair)
    s.send(part(2, 4))
    s.send(part(0, 2), last=True)
    pair.run()
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)


def test_a_part_is_not_started_before_it_is_gathered(pair: Pair) -> None:
    s, r = bound(pair)
    nos = s.send(part(0, 4), last=True, gathered=False)
    pair.run()
    assert s.state is KVPoll.WaitingForInput
    assert not any(isinstance(out, Submit | OfferPart) for out in pair.p.outputs)
    s.gathered(*nos)
    pair.run()
    assert r.state is KVPoll.Success


def test_what_is_being_gathered_is_offered_for_pulls_that_wait_and_its_source_pages_stay_lent() -> None:
    pair = Pair(push=False).linked()
    s, r = bound(pair)
    pair.d.hold_ops = True
    nos = s.send(part(0, 4), last=True, gathered=False)
    s.dispatched(*nos)
    assert [out.no for out in pair.p.outputs if isinstance(out, OfferPart)] == list(nos)
    assert pair.p.back == {}
    s.gathered(*nos)
    assert pair.p.back == {(s.key, LeaseKind.SOURCE, 0): 1}
    assert len([out for out in pair.p.outputs if isinstance(out, OfferPart)]) == len(nos)  # it is offered once
    pair.d.hold_ops = False
    pair.run()
    while pair.d.ops:
        pair.d.end_op("done")
    pair.run()
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)
    pair.ends_idle()


def test_what_is_being_gathered_is_not_pushed(push: Pair) -> None:
    s, r = bound(push)
    nos = s.send(part(0, 4), last=True, gathered=False)
    s.dispatched(*nos)
    push.run()
    assert not any(isinstance(out, Submit) for out in push.p.outputs)
    s.gathered(*nos)
    push.run()
    assert r.state is KVPoll.Success


def test_a_room_that_fails_while_it_is_gathered_returns_its_memory_after_the_gather_and_the_peer() -> None:
    pair = Pair(push=False).linked()
    s, r = bound(pair)
    pair.d.hold_ops = True
    nos = s.send(part(0, 4), last=True, gathered=False)
    s.dispatched(*nos)
    pair.run()
    s.abort("changed its mind", 400)
    pair.run()
    assert r.state is KVPoll.Failed
    while pair.d.ops:
        pair.d.end_op("failed")
    pair.run()
    assert pair.p.back == {}  # both the pages and the copies are still touched by the gather
    s.gathered(*nos)
    pair.run()
    assert pair.p.back == {(s.key, LeaseKind.SOURCE, 0): 1, (s.key, LeaseKind.COPY, 0): 1}
    pair.ends_idle()


def test_source_pages_come_back_when_they_are_gathered_and_copies_when_they_are_delivered(push: Pair) -> None:
    s, _ = bound(push)
    push.p.hold_ops = True
    s.send(part(0, 2), gathered=False)
    assert push.p.back == {}
    s.gathered(0)
    assert push.p.back == {(s.key, LeaseKind.SOURCE, 0): 1}
    push.p.end_op("done")
    assert push.p.back == {(s.key, LeaseKind.SOURCE, 0): 1, (s.key, LeaseKind.COPY, 0): 1}


def test_a_plan_without_rows_closes_with_total_zero(pair: Pair) -> None:
    want = request(4, prefix=4)
    s, r = pair.both(want=want)
    r.metadata()
    s.send(last=True)
    pair.run()
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)
    assert [m.total for m in pair.p.said if isinstance(m, Close)] == [0]
    pair.ends_idle()


def test_only_the_tokens_behind_the_prefix_are_planned(pair: Pair) -> None:
    s, r = pair.both(want=request(6, prefix=2))
    r.metadata()
    with pytest.raises(LocalProtocolError, match=r"part.start.*within \[2, 6\)"):
        s.send(part(0, 6), last=True)
    s.send(part(2, 6), last=True)
    pair.run()
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)


def test_an_aux_part_counts_in_the_plan_but_carries_no_tokens(pair: Pair) -> None:
    s, r = bound(pair)
    with pytest.raises(LocalProtocolError, match="last: the plan leaves out"):
        s.send(part(0, 0, kind=PartKind.AUX, shape=(8,)), last=True)
    s.send(part(0, 4), part(0, 0, kind=PartKind.AUX, shape=(8,)), last=True)
    pair.run()
    assert r.state is KVPoll.Success


BAD_CHUNKS = {
    "leaves the end out": ([part(0, 3)], True, "last", r"leaves out layers \[0, 1\) tokens from 3"),
    "leaves a hole": ([part(0, 1), part(2, 4)], True, "last", r"tokens from 1"),
    "overlaps itself": ([part(0, 3), part(2, 4)], True, "part.start", r"part 0 has \[0, 3\)"),
    "past the end": ([part(0, 5)], True, "part.start, part.stop", r"within \[0, 4\)"),
    "empty range": ([part(2, 2)], False, "part.start, part.stop", r"got \[2, 2\)"),
    "layers it does not own": ([part(0, 4, (0, 2))], True, "part.layers", r"within \[0, 1\)"),
    "too many parts": ([part(0, 1)] * 9, False, "parts", "at most 8"),
}


@pytest.mark.parametrize("bad", BAD_CHUNKS)
@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_a_chunk_that_cannot_be_is_refused_naming_the_field_and_changes_nothing(push: bool, bad: str) -> None:
    parts, last, field, words = BAD_CHUNKS[bad]
    pair = Pair(push, max_parts=8).linked()
    s, r = bound(pair)
    before = s.rec
    with pytest.raises(LocalProtocolError, match=words) as caught:
        s.send(*parts, last=last)
    assert caught.value.details["field"] == field
    assert s.rec is before
    s.send_all()
    pair.run()
    assert r.state is KVPoll.Success


def test_a_range_that_does_not_end_on_a_page_is_refused(pair: Pair) -> None:
    pair = Pair(pair.push, page_size=4).linked()
    s = pair.p.sender(want=request(10))
    for wrong in (part(0, 6), part(2, 8)):
        with pytest.raises(LocalProtocolError, match="a multiple of 4"):
            s.send(wrong)
    assert s.send(part(4, 10)) == (0,)


def test_a_chunk_that_was_sent_before_is_refused(pair: Pair) -> None:
    s, _ = bound(pair)
    s.send(part(0, 2))
    before = s.rec
    with pytest.raises(LocalProtocolError, match="tokens not sent before"):
        s.send(part(1, 3))
    assert s.rec is before


def test_nothing_follows_the_last_chunk(pair: Pair) -> None:
    s, _ = bound(pair)
    s.send_all()
    before = s.rec
    with pytest.raises(LocalProtocolError, match="the plan is closed"):
        s.send(last=True)
    assert s.rec is before


def test_a_failed_room_keeps_nothing_that_is_sent(pair: Pair) -> None:
    s, _ = bound(pair)
    s.abort()
    before = s.rec
    assert s.send(part(0, 4), last=True) == ()
    assert s.rec is before


# -- META ------------------------------------------------------------------------------------------------------------------
def test_a_copy_of_META_is_answered_and_changes_nothing(pair: Pair) -> None:
    s, r = pair.both()
    r.metadata()
    pair.copy("Metadata", to="p")
    before = s.rec
    pair.deliver("Metadata", to="p")
    assert s.rec == before
    s.send_all()
    pair.run()
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)


@pytest.mark.parametrize("when", ["waiting", "transferring"])
def test_a_second_META_that_differs_fails_the_room(pair: Pair, when: str) -> None:
    s, r = in_flight(pair) if when == "transferring" else bound(pair)
    meta = next(m for m in pair.d.said if isinstance(m, Metadata))
    pair.inject(pair.p, replace(meta, meta=replace(meta.meta, key=meta.meta.key + 1)))
    assert (s.state, s.cause) == (KVPoll.Failed, "PLAN_REFUSED")
    assert s.details["field"] == "meta"
    pair.run()
    assert (r.state, r.cause, r.details["cause"]) == (KVPoll.Failed, "PEER_ABORTED", "PLAN_REFUSED")


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [({"pages": 3}, "meta.pages", "4"), ({"pages": 5}, "meta.pages", "4"), ({"max_nbytes": 3}, "meta.max_nbytes", "4")],
)
def test_destinations_that_do_not_fit_the_request_are_refused_and_never_truncated(
    pair: Pair, change: dict[str, int], field: str, expected: str
) -> None:
    s, r = pair.both()
    s.send_all()
    r.metadata()
    meta = pair.drop("Metadata", to="p")
    assert isinstance(meta, Metadata)
    pair.drop("Announce", to="p")
    pair.inject(pair.p, replace(meta, meta=replace(meta.meta, **change)))
    assert (s.cause, s.details["field"]) == ("PLAN_REFUSED", field)
    assert expected in str(s.details["expected"])
    assert not pair.p.ops
    assert not pair.p.offered
    pair.run()
    assert r.details["field"] == field
    pair.ends_idle()


# -- credits ---------------------------------------------------------------------------------------------------------------
def test_no_more_operations_than_credits_are_in_flight_over_all_rooms_and_all_come_back() -> None:
    pair = Pair(push=True, credits=3).linked()
    pair.p.hold_ops = True
    legs = [pair.both(room, request(5)) for room in range(1, 5)]
    for s, r in legs:
        r.metadata()
        s.send_all(1, 2, 3, 4)
    pair.run()
    seen = 0
    while pair.p.ops:
        assert len(pair.p.ops) <= 3
        seen += 1
        pair.p.end_op("done")
        pair.run()
    assert seen == 20
    assert all(s.state is r.state is KVPoll.Success for s, r in legs)
    pair.ends_idle()


def test_no_room_waits_for_ever_for_a_credit_that_another_room_gave_back() -> None:
    pair = Pair(push=True, credits=1).linked()
    pair.p.hold_ops = True
    first, second = pair.both(1), pair.both(2)
    for s, r in (first, second):
        r.metadata()
        s.send_all(1, 2, 3)
    pair.run()
    first[0].abort()
    pair.p.hold_ops = False
    pair.run()
    assert second[1].state is KVPoll.Success
    pair.ends_idle()


def test_pulls_are_capped_by_the_receivers_credits() -> None:
    pair = Pair(push=False, credits=2).linked()
    pair.d.hold_ops = True
    s, r = pair.both(want=request(6))
    r.metadata()
    s.send_all(1, 2, 3, 4, 5)
    pair.run()
    for _ in range(6):
        assert len(pair.d.ops) <= 2
        pair.d.end_op("done")
        pair.run()
    assert r.state is KVPoll.Success
    pair.ends_idle()


# -- failures of operations --------------------------------------------------------------------------------------------------
def test_a_failed_operation_fails_both_ends_and_the_detail_travels(push: Pair) -> None:
    s, r = in_flight(push)
    push.p.end_op("failed", detail="connection reset")
    push.p.hold_ops = False
    push.run()
    assert (s.cause, s.details["detail"]) == ("TRANSPORT_FAILED", "connection reset")
    assert (r.cause, r.details["cause"], r.details["detail"]) == (
        "PEER_ABORTED",
        "TRANSPORT_FAILED",
        "connection reset",
    )
    push.ends_idle()


def test_a_failed_room_waits_for_its_other_operations_before_it_acknowledges(push: Pair) -> None:
    s, r = in_flight(push)
    r.abort()
    push.deliver("Abort", to="p")
    assert (s.state, s.cause) == (KVPoll.Failed, "PEER_ABORTED")
    assert "AbortAck" not in push.kinds()
    push.p.end_op("done")
    assert "AbortAck" not in push.kinds()
    push.p.end_op("failed")
    assert "AbortAck" in push.kinds()
    push.run()
    push.ends_idle()


def test_an_unresolved_operation_quarantines_its_memory_until_the_fence(push: Pair) -> None:
    s, r = in_flight(push)
    push.p.hold_fences = True
    op = push.p.end_op("unresolved")
    assert (s.state, s.cause) == (KVPoll.Failed, "TRANSPORT_UNRESOLVED")
    assert FenceOp(op) in push.p.outputs
    push.p.end_op("failed", next(key for key in push.p.ops if key != op))
    push.run()
    assert r.state is KVPoll.Failed
    quarantined = [m for m in push.p.said if getattr(m, "quarantined", None) is True]
    assert quarantined, "the attempt is over for the peer, and it is told that memory is not"
    assert (s.key, LeaseKind.COPY, op.part) not in push.p.back
    assert (r.key, LeaseKind.BUFFER, 0) not in push.d.back
    push.p.hold_fences = False
    push.run()
    assert push.p.back[s.key, LeaseKind.COPY, op.part] == 1
    push.advance(2_000)
    assert push.d.back[r.key, LeaseKind.BUFFER, 0] == 1
    push.ends_idle()


def test_a_drain_word_that_is_lost_after_the_fence_is_asked_for_again(push: Pair) -> None:
    """Without it the receiver's memory stays quarantined on a living link, and its low_water never passes the attempt."""
    _, r = in_flight(push)
    push.p.hold_fences = True
    op = push.p.end_op("unresolved")
    push.p.end_op("failed", next(key for key in push.p.ops if key != op))
    push.run()
    push.p.end_op("fenced", op)
    push.drop("AbortAck", to="d")
    assert (r.key, LeaseKind.BUFFER, 0) not in push.d.back
    push.advance(TIMING.resend * 3)
    assert push.d.back[r.key, LeaseKind.BUFFER, 0] == 1
    push.ends_idle()


def test_an_unresolved_operation_whose_peer_is_lost_ends_with_the_fence_of_the_peer(push: Pair) -> None:
    s, r = in_flight(push)
    push.p.hold_fences = push.d.hold_fences = True
    for op in list(push.p.ops):
        push.p.end_op("unresolved", op)
    push.run()
    push.d.declare_lost()
    push.run()
    assert r.key in {key for key, _, _ in push.d.lent}
    assert (r.key, LeaseKind.BUFFER, 0) not in push.d.back
    push.d.prove_fence()
    assert push.d.back[r.key, LeaseKind.BUFFER, 0] == 1
    push.p.hold_fences = False
    push.run()
    assert s.dropped
    assert push.p.idle() == push.d.idle() == {}


def test_an_offer_that_the_transport_would_not_take_fails_the_room() -> None:
    pair = Pair(push=False).linked()
    s, r = bound(pair)
    pair.d.hold_ops = True
    s.send(part(0, 4), last=True)
    pair.p.core.call(s.key, lambda x: x.op_failed(0, 0, "array was deleted"))
    pair.p.settle()
    pair.d.hold_ops = False
    pair.run()
    assert (s.cause, s.details["detail"]) == ("TRANSPORT_FAILED", "array was deleted")
    assert r.state is KVPoll.Failed
    pair.ends_idle()


def test_what_was_offered_stays_readable_until_the_receiver_has_drained() -> None:
    pair = Pair(push=False).linked()
    s, r = in_flight(pair)
    s.abort("changed its mind", 400)
    pair.run()
    copies = [(s.key, LeaseKind.COPY, 0), (s.key, LeaseKind.COPY, 1)]
    assert not any(copy in pair.p.back for copy in copies)
    assert (r.cause, r.details["status"]) == ("PEER_ABORTED", 400)
    while pair.d.ops:
        pair.d.end_op("failed")
    pair.run()
    assert all(copy in pair.p.back for copy in copies)


# -- in doubt ----------------------------------------------------------------------------------------------------------------
def test_an_abort_before_the_last_part_was_started_is_not_in_doubt(pair: Pair) -> None:
    s, _ = bound(pair)
    s.send(part(0, 2))
    s.abort("client left")
    assert s.failure is not None
    assert not s.failure.in_doubt
    assert s.failure.retry is Retry.NO


def test_a_sender_that_started_everything_is_in_doubt_when_it_fails(pair: Pair) -> None:
    s, _ = in_flight(pair)
    s.abort("client left")
    assert s.failure is not None
    assert s.failure.in_doubt
    assert s.failure.retry is Retry.UNKNOWN
    assert "do not retry blindly" in s.failure.sentence()


def test_an_empty_plan_is_in_doubt_from_its_closing_message_on(pair: Pair) -> None:
    s, r = pair.both(want=request(4, prefix=4))
    r.metadata()
    pair.run()
    pair.d.auto_commit = False
    s.send(last=True)
    s.abort()
    assert s.failure is not None
    assert s.failure.in_doubt


def test_closing_a_plan_whose_parts_were_all_started_makes_it_in_doubt(pair: Pair) -> None:
    s, _ = bound(pair)
    pair.p.hold_ops = pair.d.hold_ops = True
    s.send(part(0, 4))
    s.send(last=True)
    s.abort()
    assert s.failure is not None
    assert s.failure.in_doubt


def test_the_receivers_own_abort_ends_the_doubt(pair: Pair) -> None:
    s, r = in_flight(pair)
    r.abort("no room for it")
    pair.deliver("Abort", to="p")
    assert s.cause == "PEER_ABORTED"
    assert s.failure is not None
    assert not s.failure.in_doubt


def test_a_silent_receiver_is_asked_before_the_room_fails() -> None:
    pair = Pair(push=True, timing=replace(TIMING, lost=10_000_000)).linked()
    s, _ = in_flight(pair)
    pair.crash("d")
    pair.wire.clear()
    pair.forget()
    pair.advance(TIMING.silence // 2 - 1, run=False)
    assert not any(isinstance(m, Query) for m in pair.p.said)
    pair.advance(1, run=False)
    assert any(isinstance(m, Query) for m in pair.p.said)
    pair.advance(TIMING.silence, run=False)
    assert (s.state, s.cause) == (KVPoll.Failed, "SILENCE")
    assert s.failure is not None
    assert s.failure.in_doubt


# -- what the receiver says, at the wrong time -----------------------------------------------------------------------------------
def test_a_conclusion_before_anything_was_started_is_a_protocol_failure(pair: Pair) -> None:
    s, r = bound(pair)
    told = next(m for m in pair.d.said if isinstance(m, Metadata))
    pair.inject(pair.p, _as(Conclude, told))
    assert (s.state, s.cause) == (KVPoll.Failed, "PROTOCOL")
    pair.run()
    assert r.state is KVPoll.Failed


def test_a_conclusion_that_crosses_an_abort_leaves_the_sender_failed_in_doubt(pair: Pair) -> None:
    s, r = in_flight(pair)
    pair.p.hold_ops = pair.d.hold_ops = False
    while "Conclude" not in pair.kinds():
        assert pair.step()
    s.abort()
    pair.run()
    assert (s.state, r.state) == (KVPoll.Failed, KVPoll.Success)
    assert s.failure is not None
    assert s.failure.in_doubt
    pair.ends_idle()


def test_a_late_abort_of_a_room_that_succeeded_stays_without_effect(pair: Pair) -> None:
    s, _ = in_flight(pair)
    told = next(m for m in pair.d.said if isinstance(m, Metadata))
    pair.p.hold_ops = pair.d.hold_ops = False
    pair.run()
    assert s.state is KVPoll.Success
    pair.inject(pair.p, _as(Abort, told, failed=FailureGroup(cause=2)))
    assert s.state is KVPoll.Success
    pair.ends_idle()


def test_kinds_that_only_senders_say_are_no_fact_of_a_receiver(pair: Pair) -> None:
    s, _ = bound(pair)
    told = next(m for m in pair.d.said if isinstance(m, Metadata))
    before = s.rec
    pair.inject(pair.p, _as(PartDone, told, parts=(part(0, 4),)))
    pair.inject(pair.p, _as(Close, told, total=0))
    assert s.rec == before


def test_the_engines_status_and_reason_reach_the_receiver(pair: Pair) -> None:
    s, r = bound(pair)
    s.abort("the prompt is too long", status=400)
    pair.run()
    assert r.details == {"cause": "ABORTED", "reason": "the prompt is too long", "status": 400}
    assert r.failure is not None
    assert r.failure.status == 400


def test_the_sender_forgets_its_record_when_the_receiver_is_past_it(pair: Pair) -> None:
    s, r = bound(pair)
    s.send_all()
    pair.run()
    assert s.state is KVPoll.Success
    assert r.dropped
    assert not s.dropped
    pair.d.beat()
    pair.run()
    assert s.dropped
    assert pair.p.idle() == {}


def test_a_live_leg_whose_receiver_went_past_it_without_a_word_fails(pair: Pair) -> None:
    s, _ = in_flight(pair)
    told = next(m for m in pair.d.said if isinstance(m, Metadata))
    pair.inject(pair.p, replace(_as(Query, told), gen=told.gen + 5, low_water=told.gen + 5))
    assert (s.state, s.cause) == (KVPoll.Failed, "ATTEMPT_OVER")
    assert s.failure is not None
    assert s.failure.in_doubt


def test_what_was_offered_to_a_receiver_that_went_past_it_comes_back() -> None:
    pair = Pair(push=False).linked()
    s, _ = bound(pair)
    s.send_all(2)
    pair.wire.clear()
    told = next(m for m in pair.d.said if isinstance(m, Metadata))
    pair.inject(pair.p, replace(_as(Query, told), gen=told.gen + 5, low_water=told.gen + 5))
    assert (s.state, s.cause, s.dropped) == (KVPoll.Failed, "ATTEMPT_OVER", True)
    assert {no for _, kind, no in pair.p.back if kind is LeaseKind.COPY} == {0, 1}
    assert pair.p.idle() == {"tombstones": 1}  # of the newer attempt, which nobody here knows: NO_LEG


def test_silence_is_only_rearmed_by_an_answer_that_names_the_attempt(pair: Pair) -> None:
    s, _ = bound(pair)
    due = dict(s.session.rec.timers)
    pair.advance(1_000)
    beaten = dict(s.session.rec.timers)
    assert beaten == due, "heartbeats re-arm no room"
    status = next(m for m in pair.d.said if isinstance(m, Metadata))
    assert isinstance(status, Metadata)
    pair.p.core.call(s.key, lambda x: x.send_query())
    pair.p.settle()
    pair.run()
    assert any(isinstance(m, Status) for m in pair.d.said)
    assert dict(s.session.rec.timers) != due
    assert s.room == ROOM


def _as(kind: type, like: Metadata, **body: object) -> object:
    """A message of another kind with the envelope of ``like``."""
    envelope = {
        name: getattr(like, name)
        for name in ("link", "source", "target", "source_rank", "target_rank", "room", "engine", "gen", "low_water")
    }
    return kind(**envelope, **body)
