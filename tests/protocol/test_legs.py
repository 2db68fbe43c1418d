"""Where attempts of other engines meet legs of ours: pairing, half-open attempts, tombstones, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import (
    Abort,
    AbortAck,
    Announce,
    Conclude,
    FailureGroup,
    Fingerprint,
    Query,
    Reason,
    Refusal,
    Status,
)  # fmt: skip

from .pair import ROOM, TIMING, Leg, Pair, request


@pytest.fixture(params=[True, False], ids=["push", "pull"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param).linked()


def refusals(pair: Pair) -> list[Refusal]:
    return [m for m in pair.p.said if isinstance(m, Refusal)]


# -- pairing -----------------------------------------------------------------------------------------------------------------
MISMATCHES = [
    (request(5), "tokens"),
    (request(4, prefix=1), "prefix"),
    (request(4, digest=b"other"), "digest"),
    (request(9, 2, b"other"), "tokens prefix digest"),
]


@pytest.mark.parametrize("first", ["leg", "announcement"])
@pytest.mark.parametrize(("theirs", "fields"), MISMATCHES)
def test_legs_of_different_requests_never_pair_and_the_fields_are_named(
    pair: Pair, theirs: Fingerprint, fields: str, first: str
) -> None:
    pair.d.core.env.timing = replace(TIMING, pairing=TIMING.pairing + 1_000)
    if first == "leg":
        s, r = pair.p.sender(), pair.d.receiver(want=theirs)
    else:
        r = pair.d.receiver(want=theirs)
        pair.run()
        s = pair.p.sender()
    pair.advance(TIMING.pairing)
    assert (s.state, s.cause, s.details["fields"]) == (KVPoll.Failed, "NO_ANNOUNCE", fields)
    assert (r.state, r.cause, r.details["fields"]) == (KVPoll.Failed, "NO_LEG", fields)
    pair.ends_idle()


def test_the_mismatch_reaches_a_receiver_with_the_same_pairing_deadline(pair: Pair) -> None:
    pair.p.sender()
    r = pair.d.receiver(want=request(5))
    pair.advance(TIMING.pairing)
    assert r.cause == "NO_LEG"
    assert r.details["fields"] == "tokens"


def test_an_announcement_waits_for_its_leg(pair: Pair) -> None:
    r = pair.d.receiver()
    r.metadata()
    pair.run()
    assert pair.p.core.gauges()["half_open"] == 1
    s = pair.p.sender()
    assert pair.p.core.gauges()["half_open"] == 0
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success


def test_a_wrong_leg_does_not_keep_the_right_one_from_pairing_later(pair: Pair) -> None:
    wrong = pair.p.sender(want=request(9))
    r = pair.d.receiver()
    r.metadata()
    pair.run()
    wrong.abort()
    right = pair.p.sender()
    right.send_all()
    pair.run()
    assert (wrong.state, right.state, r.state) == (KVPoll.Failed, KVPoll.Success, KVPoll.Success)


def test_a_copy_of_ANNOUNCE_for_a_half_open_attempt_makes_no_second_one(pair: Pair) -> None:
    pair.d.receiver()
    pair.copy("Announce")
    pair.copy("Announce")
    assert pair.p.core.gauges()["half_open"] == 1


def test_META_is_kept_for_a_leg_that_comes_later_in_either_order_with_ANNOUNCE(pair: Pair) -> None:
    r = pair.d.receiver()
    r.metadata()
    pair.deliver("Metadata")
    pair.deliver("Announce")
    s = pair.p.sender()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success


# -- ABORT first ---------------------------------------------------------------------------------------------------------------
def test_an_ABORT_before_the_leg_exists_leaves_a_tombstone_and_creates_nothing(pair: Pair) -> None:
    r = pair.d.receiver()
    r.metadata()
    r.abort()
    announce, meta = pair.drop("Announce"), pair.drop("Metadata")
    pair.deliver("Abort")
    assert any(isinstance(m, AbortAck) for m in pair.p.said)
    assert pair.p.core.gauges()["tombstones"] == 1
    for late in (announce, meta):
        pair.inject(pair.p, late)
    assert pair.p.core.gauges()["half_open"] == 0
    assert [m.reason for m in refusals(pair)] == [Reason.NO_LEG, Reason.NO_LEG]
    s = pair.p.sender()
    for late in (announce, meta):
        pair.inject(pair.p, late)
    assert s.session.rec.peers == (), "the attempt is over: a leg never pairs with it"
    pair.run()
    again = pair.d.receiver()
    again.metadata()
    s.send_all()
    pair.run()
    assert s.state is again.state is KVPoll.Success
    pair.ends_idle()


def test_an_ABORT_ends_a_half_open_attempt(pair: Pair) -> None:
    r = pair.d.receiver()
    pair.run()
    r.abort()
    pair.run()
    gauges = pair.p.core.gauges()
    assert (gauges["half_open"], gauges["tombstones"]) == (0, 1)
    assert r.dropped
    pair.d.beat()
    pair.run()
    assert pair.p.idle() == {}


def test_a_tombstone_goes_with_low_water(pair: Pair) -> None:
    r = pair.d.receiver()
    blocker = pair.d.receiver(room=99)
    later = pair.d.receiver(room=98)
    pair.run()
    later.abort()
    pair.run()
    assert pair.p.core.gauges()["tombstones"] == 1, "an older gen is still held"
    for leg in (r, blocker):
        leg.abort()
    pair.run()
    pair.d.beat()
    pair.run()
    assert pair.p.idle() == pair.d.idle() == {}


@pytest.mark.parametrize("kind", [Query, Conclude, Abort, Announce, Status])
def test_everything_late_about_a_tombstone_is_answered_and_creates_nothing(pair: Pair, kind: type) -> None:
    r = pair.d.receiver()
    pair.d.receiver(room=50)  # holds low_water down
    announce = pair.copy("Announce")
    query = _ask(r)
    r.abort()
    abort = pair.copy("Abort")
    status = Status(facts=r.session._facts(0), seen=r.session._seen(0), **r.session.to(0))
    conclude = Conclude(**r.session.to(0))
    late = {Query: query, Conclude: conclude, Abort: abort, Announce: announce, Status: status}[kind]
    pair.wire.clear()
    before = pair.p.core.snapshot()
    pair.forget()
    pair.inject(pair.p, late)
    assert pair.p.core.snapshot() == before
    assert len(pair.p.said) == 1


def _ask(leg: Leg) -> Query:
    return Query(**leg.session.to(0))


# -- busy ----------------------------------------------------------------------------------------------------------------------
def test_a_room_that_is_live_is_refused_at_either_end_and_the_live_one_goes_on(pair: Pair) -> None:
    s, r = pair.both()
    creators: tuple[Callable[[], object], ...] = (pair.p.sender, pair.d.receiver)
    for create in creators:
        with pytest.raises(LocalProtocolError, match=f"room {ROOM} is live already") as caught:
            create()
        assert caught.value.cause.name == "ROOM_BUSY"
        assert caught.value.details["room"] == ROOM
    r.metadata()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success


def test_another_engine_is_told_that_the_room_is_busy_and_leaves_the_live_one_alone(pair: Pair) -> None:
    other = pair.join("e")
    s, r = pair.both()
    pair.run()
    before = s.rec
    late = other.receiver(senders=[("p", 0)])
    late.metadata()
    pair.run()
    assert (late.state, late.cause) == (KVPoll.Failed, "ROOM_BUSY")
    assert s.rec == before
    r.metadata()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success
    assert other.idle() == {}


def test_another_instance_of_a_bound_rank_is_told_that_the_room_is_busy(pair: Pair) -> None:
    s, _ = pair.both()
    pair.run()
    twin = pair.join("twin", engine=pair.d.config.engine)
    late = twin.receiver(gen=1)
    pair.run()
    assert (late.state, late.cause) == (KVPoll.Failed, "ROOM_BUSY")
    assert len(s.session.rec.peers) == 1


# -- newer attempts ------------------------------------------------------------------------------------------------------------
def _supersede(pair: Pair) -> Leg:
    """The receiver engine forgot its attempt (as after an abort whose messages were lost) and makes a new one."""
    (old,) = [leg for leg in pair.d.legs.values() if not leg.dropped]
    old.abort()
    pair.wire.clear()
    return pair.d.receiver()


@pytest.mark.parametrize("stage", ["bound", "waiting"])
def test_a_higher_gen_ends_an_older_attempt_that_is_not_in_doubt(pair: Pair, stage: str) -> None:
    s, r = pair.both()
    if stage == "waiting":
        r.metadata()
    pair.run()
    new = _supersede(pair)
    pair.deliver("Announce")
    assert (s.state, s.cause, s.details["gen"]) == (KVPoll.Failed, "SUPERSEDED", new.key.no)
    again = pair.p.sender()
    new.metadata()
    again.send_all()
    pair.run()
    assert again.state is new.state is KVPoll.Success
    pair.ends_idle()


def test_a_higher_gen_waits_while_the_older_attempt_is_in_doubt_and_that_one_is_asked(pair: Pair) -> None:
    pair.d.auto_commit = False
    s, r = pair.both()
    r.metadata()
    s.send_all()
    pair.run()
    assert r.ready
    new = _supersede(pair)
    pair.forget()
    pair.deliver("Announce")
    assert s.state is KVPoll.Transferring
    assert any(isinstance(m, Query) and m.gen == r.key.no for m in pair.p.said)
    waiting = [m for m in pair.p.said if isinstance(m, Status) and m.gen == new.key.no]
    assert waiting, "the newcomer hears that it is known"
    assert waiting[0].facts.state is KVPoll.Bootstrapping
    pair.run()
    assert (s.state, s.cause) == (KVPoll.Failed, "PEER_ABORTED")
    again = pair.p.sender()
    new.metadata()
    again.send_all()
    pair.run()
    new.commit()
    pair.run()
    assert again.state is new.state is KVPoll.Success
    pair.ends_idle()


def test_an_older_gen_that_arrives_late_is_refused_and_changes_nothing(pair: Pair) -> None:
    first = pair.d.receiver()
    late = pair.drop("Announce")
    first.abort()
    pair.wire.clear()
    s = pair.p.sender()
    new = pair.d.receiver()
    pair.run()
    assert s.session.rec.gen == new.key.no
    before = s.rec
    assert isinstance(late, Announce)
    pair.inject(pair.p, replace(late, low_water=UNSET))
    assert s.rec == before


# -- bounds --------------------------------------------------------------------------------------------------------------------
def test_half_open_attempts_are_bounded_and_the_one_too_many_is_told(pair: Pair) -> None:
    pair = Pair(pair.push, max_half_open=3).linked()
    legs = [pair.d.receiver(room) for room in range(4)]
    pair.run()
    assert [leg.state for leg in legs] == [KVPoll.Bootstrapping] * 3 + [KVPoll.Failed]
    assert [m.reason for m in refusals(pair)] == [Reason.LIMIT]
    assert pair.p.core.gauges()["half_open"] == 3
    pair.advance(TIMING.pairing)
    pair.ends_idle()


def test_tombstones_are_bounded_and_the_oldest_goes_first(pair: Pair) -> None:
    pair = Pair(pair.push, max_half_open=3).linked()
    holder = pair.d.receiver(room=100)
    pair.p.sender(room=100)
    pair.run()
    for room in range(6):
        pair.d.receiver(room).abort()
        pair.run()
    assert pair.p.core.gauges()["tombstones"] == 3
    assert holder.state is KVPoll.Bootstrapping


def test_a_transport_that_is_not_ours_is_refused_by_name(pair: Pair) -> None:
    pair.d.receiver()
    announce = pair.drop("Announce")
    assert isinstance(announce, Announce)
    pair.inject(pair.p, replace(announce, transport="carrier pigeon"))
    assert [(m.reason, m.fields) for m in refusals(pair)] == [(Reason.NO_LEG, ("transport",))]
    assert pair.p.idle() == {"tombstones": 1}


def test_a_lost_link_takes_its_half_open_attempts_and_tombstones_with_it(pair: Pair) -> None:
    pair.d.receiver(1)
    doomed = pair.d.receiver(2)
    pair.run()
    doomed.abort()
    pair.run()
    assert pair.p.core.gauges()["half_open"] == 1
    pair.p.declare_lost()
    pair.run()
    assert pair.p.idle() == pair.d.idle() == {}


def test_a_query_for_an_attempt_that_nobody_knows_is_answered_NO_LEG(pair: Pair) -> None:
    r = pair.d.receiver()
    pair.wire.clear()
    pair.inject(pair.p, _ask(r))
    assert [m.reason for m in refusals(pair)] == [Reason.NO_LEG]
    assert pair.p.idle() == {"tombstones": 1}
    pair.run()
    assert (r.state, r.cause) == (KVPoll.Failed, "NO_LEG")
    pair.d.beat()
    pair.run()
    assert pair.p.idle() == {}


def test_what_was_refused_is_never_paired_later_for_its_receiver_frees_its_memory_on_that_word(pair: Pair) -> None:
    other = pair.join("e")
    first, _ = pair.both()
    pair.run()
    late = other.receiver(senders=[("p", 0)])
    pair.deliver("Hello")
    pair.deliver("Welcome")
    pair.deliver("Announce")  # ROOM_BUSY; the receiver has not heard of it yet
    first.abort()
    again = pair.p.sender()
    again.send_all()
    late.metadata()
    pair.deliver("Metadata")  # once it paired the new leg with what was refused, and started to write
    pair.run()  # the oracle looks: nothing can touch what comes back
    assert {m.reason for m in refusals(pair)} == {Reason.ROOM_BUSY}
    assert (late.state, late.cause) == (KVPoll.Failed, "ROOM_BUSY")
    assert again.state is KVPoll.Bootstrapping


@pytest.mark.parametrize("kind", [Abort, Conclude])
def test_a_terminal_word_for_an_attempt_that_nobody_knows_is_acknowledged(pair: Pair, kind: type) -> None:
    r = pair.d.receiver()
    pair.wire.clear()
    body = {"failed": FailureGroup(cause=2)} if kind is Abort else {}
    pair.inject(pair.p, kind(**r.session.to(0), **body))
    assert [type(m) for m in pair.p.said] == [AbortAck]
    gauges = pair.p.core.gauges()
    assert (gauges["half_open"], gauges["tombstones"], gauges["senders"]) == (0, 1, 0)


def test_a_leg_of_two_receiver_ranks_waits_for_both(pair: Pair) -> None:
    second = pair.join("e", engine=pair.d.config.engine, rank=1)
    s = pair.p.sender(ranks=2)
    s.send_all(2)
    r0, r1 = pair.d.receiver(gen=5), second.receiver(gen=5)
    r0.metadata()
    pair.run()
    assert s.state is KVPoll.Bootstrapping
    assert not pair.p.ops
    r1.metadata()
    pair.run()
    assert [leg.state for leg in (s, r0, r1)] == [KVPoll.Success] * 3
    pair.ends_idle()


@pytest.mark.parametrize("stage", ["bound", "in flight", "one concluded"])
def test_one_failing_rank_fails_the_leg_and_the_other_rank(pair: Pair, stage: str) -> None:
    second = pair.join("e", engine=pair.d.config.engine, rank=1)
    s, r0, r1 = pair.p.sender(ranks=2), pair.d.receiver(gen=5), second.receiver(gen=5)
    second.auto_commit = False
    pair.run()
    if stage != "bound":
        r0.metadata()
        r1.metadata()
        if stage == "in flight":
            for process in (pair.p, pair.d, second):
                process.hold_ops = True
        s.send_all(2)
        pair.run()
    r1.abort("rank 1 ran out of pages")
    for process in (pair.p, pair.d, second):
        process.hold_ops = False
    pair.run()
    assert (s.state, s.cause) == (KVPoll.Failed, "PEER_ABORTED")
    assert r0.state is (KVPoll.Success if stage == "one concluded" else KVPoll.Failed)
    if r0.failure is not None:
        assert r0.details["reason"] == "rank 1 ran out of pages"
    pair.ends_idle()


def test_two_sender_ranks_of_a_receiver_each_close_their_own_plan(pair: Pair) -> None:
    other = pair.join("q", engine=pair.p.config.engine, rank=1, layers=(1, 2))
    pair.d.core.env.layers = (0, 2)
    s0, s1 = pair.p.sender(), other.sender()
    r = pair.d.receiver(senders=[("p", 0), ("q", 1)])
    r.metadata()
    s0.send_all(2)
    pair.run()
    assert r.state is KVPoll.Transferring
    assert s0.state is not KVPoll.Success
    s1.send_all()
    pair.run()
    assert [leg.state for leg in (s0, s1, r)] == [KVPoll.Success] * 3
    pair.ends_idle()
