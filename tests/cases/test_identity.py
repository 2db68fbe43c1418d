"""Cases E: who is who. Rooms are a router's numbers, and neither unique nor trusted; attempts are."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Announce, Metadata, RoomMessage

from ..protocol.pair import ROOM, TIMING, Leg, part, request
from .frame import case
from .rooms import OTHER, PUSH
from .shadow import Shadow, in_flight, outcomes

STAGES = ["created", "bound", "waiting", "in flight", "ready"]


def at_stage(world: Shadow, stage: str) -> tuple[Leg, Leg]:
    world.d.auto_commit = False
    s, r = world.both()
    if stage == "created":
        return s, r
    world.run()
    if stage != "bound":
        r.metadata()
        world.run()
    if stage in ("in flight", "ready"):
        world.hold(stage == "in flight")
        s.send_all(2)
        world.run()
    return s, r


def carry_on(world: Shadow, stage: str, s: Leg, r: Leg) -> None:
    """Play a room from a stage to its end."""
    if stage in STAGES[:2]:
        r.metadata()
    if stage in STAGES[:3]:
        s.send_all(2)
    world.finish()
    r.commit()
    world.run()


# -- the same room twice -------------------------------------------------------------------------------------------------
@case("E01", "E03")
@PUSH
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("other", [request(), request(6, digest=b"somebody else's")], ids=["the same", "another"])
def test_a_room_that_is_live_is_refused_at_both_ends_and_goes_on_unharmed(
    push: bool, stage: str, other: object
) -> None:
    """Two posts with one room: client-made ids, or an id that is derived from a missing one."""
    world = Shadow(push).linked()
    s, r = at_stage(world, stage)
    before = [process.core.snapshot() for process in (world.p, world.d)]
    for create in (world.p.sender, world.d.receiver):
        with pytest.raises(LocalProtocolError, match=f"room {ROOM} is live already") as caught:
            create(ROOM, other)  # type: ignore[operator]
        assert caught.value.cause.name == "ROOM_BUSY"
    assert [process.core.snapshot() for process in (world.p, world.d)] == before
    carry_on(world, stage, s, r)
    assert outcomes(s, r) == ("Success", "Success")
    again = world.both()
    carry_on(world, "created", *again)
    assert outcomes(*again) == ("Success", "Success"), "a room that is over is free"
    world.ends_idle()


@case("E01", "E03")
@PUSH
@pytest.mark.parametrize("stage", STAGES)
def test_two_decode_engines_with_one_room_never_share_its_data(push: bool, stage: str) -> None:
    world = Shadow(push).linked()
    e = world.join("e")
    s, r = at_stage(world, stage)
    world.run() if stage == "created" else None
    late = e.receiver()
    late.metadata()
    world.run()
    assert (late.state, late.cause) == (KVPoll.Failed, "ROOM_BUSY")
    assert not late.ready
    carry_on(world, stage, s, r)
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


@case("E03")
@PUSH
@pytest.mark.parametrize("first", ["the wrong leg", "the right leg"])
def test_requests_that_share_a_room_meet_their_own_leg_or_none(push: bool, first: str) -> None:
    """Two requests, one room, two prefill processes: each decode leg takes what its own prompt gives, or fails."""
    world = Shadow(push).linked()
    q, e = world.join("q"), world.join("e")
    mine, theirs = request(digest=b"mine"), request(digest=b"theirs")
    legs = [(world.p, mine), (q, theirs)]
    senders = [process.sender(ROOM, want) for process, want in (legs if first == "the right leg" else legs[::-1])]
    crossed = first == "the wrong leg"
    r = world.d.receiver(ROOM, mine, senders=[("q" if crossed else "p", 0)])
    other = e.receiver(ROOM, theirs, senders=[("p" if crossed else "q", 0)])
    for leg in (r, other):
        leg.metadata()
    for leg in senders:
        leg.send_all(2)
    world.run()
    if crossed:
        world.advance(TIMING.pairing)
        assert outcomes(r, other, *senders) == ("Failed",) * 4
        assert (r.cause, r.details["fields"]) == (other.cause, other.details["fields"]) == ("NO_LEG", "digest")
    else:
        assert outcomes(r, other, *senders) == ("Success",) * 4
    world.ends_idle(TIMING.pairing)


@case("E03")
@PUSH
def test_every_attempt_of_an_engine_has_a_number_of_its_own(push: bool) -> None:
    world = Shadow(push).linked()
    gens = [world.d.receiver(room).key.no for room in range(3)]
    world.d.legs[next(iter(world.d.legs))].abort()
    gens.append(world.d.receiver(0).key.no)
    assert all(a < b for a, b in pairwise(gens))
    for gen in gens:
        with pytest.raises(LocalProtocolError, match="gen: expected above"):
            world.d.receiver(OTHER, gen=gen)


# -- the same name at both ends ------------------------------------------------------------------------------------------
@case("E04")
@PUSH
def test_both_ends_call_an_attempt_the_same_and_every_word_of_it_carries_that_name(push: bool) -> None:
    world = Shadow(push).linked()
    legs = [in_flight(world, 2, room=room) for room in (ROOM, OTHER)]
    names = [(leg.rec.room, leg.rec.engine, leg.rec.gen) for both in legs for leg in both]  # type: ignore[attr-defined]
    assert names[0] == names[1] != names[2] == names[3]
    world.finish()
    said = {(m.room, m.engine, m.gen) for p in (world.p, world.d) for m in p.said if isinstance(m, RoomMessage)}
    assert said == set(names)
    assert outcomes(*legs[0], *legs[1]) == ("Success",) * 4
    world.ends_idle()


@case("E04")
@PUSH
@pytest.mark.parametrize("differs", ["room", "request"])
@pytest.mark.parametrize("first", ["sender", "receiver"])
def test_two_ends_that_name_a_request_differently_say_so_within_the_pairing_deadline(
    push: bool, differs: str, first: str
) -> None:
    world = Shadow(push).linked()
    room, want = (OTHER, request()) if differs == "room" else (ROOM, request(digest=b"randomized"))
    if first == "sender":
        s, r = world.p.sender(), world.d.receiver(room, want)
    else:
        r, s = world.d.receiver(room, want), world.p.sender()
    r.metadata()
    s.send_all(2)
    world.run()
    world.advance(TIMING.pairing)
    assert (s.state, s.cause) == (KVPoll.Failed, "NO_ANNOUNCE")
    assert (r.state, r.cause) == (KVPoll.Failed, "NO_LEG")
    if differs == "request":
        assert s.details["fields"] == r.details["fields"] == "digest"
    world.ends_idle()


# -- again ---------------------------------------------------------------------------------------------------------------
@case("E07")
@PUSH
@pytest.mark.parametrize("before", ["Success", "Failed"])
@pytest.mark.parametrize("late", [False, True], ids=["in order", "old words come late"])
@pytest.mark.parametrize("first", ["sender", "receiver"])
def test_a_request_that_is_retracted_starts_anew_whatever_became_of_it_before(
    push: bool, before: str, late: bool, first: str
) -> None:
    world = Shadow(push).linked()
    old = in_flight(world, 2)
    if before == "Failed":
        old[1].abort("out of pages")
    world.finish()
    assert outcomes(*old) == (before, before)
    words = [(world.other(m.link, p.name), m) for p in (world.p, world.d) for m in p.said if isinstance(m, RoomMessage)]
    if first == "sender":
        s, r = world.p.sender(), world.d.receiver()
    else:
        r, s = world.d.receiver(), world.p.sender()
    assert r.key.no > old[1].key.no
    for step in (lambda: None, r.metadata, lambda: s.send_all(2)):
        step()
        for to, message in words if late else ():
            world.inject(world.processes[to], message)
        world.run()
    assert r.states == s.states == [
        KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success,
    ]  # fmt: skip
    world.ends_idle()


@case("E08")
@PUSH
@pytest.mark.parametrize("stage", ["waiting", "in flight", "done"])
@pytest.mark.parametrize("bound_to", ["the rank that computes", "the rank that computed before"])
def test_a_recomputed_request_meets_the_rank_that_computes_it_or_ends_soon(
    push: bool, stage: str, bound_to: str
) -> None:
    world = Shadow(push).linked()
    q = world.join("q")
    if stage == "waiting":
        old = world.both()
        old[1].metadata()
        world.run()
    else:
        old = in_flight(world, 2)
        world.hold(stage == "in flight")
        world.run()
    old[1].abort("retracted")
    again = q.sender()  # the router sends the recomputation elsewhere
    right = bound_to == "the rank that computes"
    r = world.d.receiver(senders=[("q" if right else "p", 0)])
    r.metadata()
    world.finish()
    again.send_all(2)
    world.run()
    if right:
        assert outcomes(again, r) == ("Success", "Success")
    else:
        world.advance(TIMING.pairing)
        assert (again.cause, r.cause) == ("NO_ANNOUNCE", "NO_LEG"), "nobody waits for longer than it takes to meet"
    world.ends_idle(TIMING.pairing)


# -- never back ----------------------------------------------------------------------------------------------------------
@case("E10")
@PUSH
@pytest.mark.parametrize("ending", ["success", "receiver aborts", "sender aborts"])
def test_no_late_word_takes_a_room_back_to_an_earlier_state(push: bool, ending: str) -> None:
    """After every step everything that was ever said is said again, registrations and metadata first."""
    world = Shadow(push).linked()
    world.d.auto_commit = False
    s, r = world.both()
    steps = [r.metadata, lambda: s.send(part(0, 2)), lambda: s.send(part(2, 4), last=True)]
    steps.append({"success": r.commit, "receiver aborts": r.abort, "sender aborts": s.abort}[ending])

    for step in (lambda: None, *steps):
        step()
        while world.wire or world.operations():
            world.step()
            words = {repr(m): (world.other(m.link, p.name), m) for p in (world.p, world.d) for m in p.said}
            wire = list(world.wire)
            for to, message in sorted(words.values(), key=lambda word: not isinstance(word[1], Announce | Metadata)):
                seen = (s.state, r.state)
                world.inject(world.processes[to], message)
                if isinstance(message, Announce | Metadata):
                    assert (s.state, r.state) == seen, "it had been said, and heard, before"
            world.wire[:] = wire  # what these copies were answered is not echoed again
    expected = "Success" if ending == "success" else "Failed"
    assert outcomes(s, r) == (expected, expected)
    for leg in (s, r):
        ranks = [state.value for state in leg.states if state is not KVPoll.Failed]
        assert all(a < b for a, b in pairwise(ranks))
        assert leg.states.count(KVPoll.Failed) <= 1
    world.ends_idle()
