"""Cases B: words and acknowledgements that are lost, and long histories of such things."""

from __future__ import annotations

import random

import pytest

from kvpoll.spec import KVPoll

from ..protocol.pair import TIMING, Leg, part, request
from .frame import case
from .rooms import DIRECT, PUSH, back
from .shadow import Shadow, in_flight, outcomes

# -- one message, or one acknowledgement, less -------------------------------------------------------------------------
WORDS = ["Announce", "Metadata", "Offer", "PartDone", "Close", "Conclude", "Status"]


@case("B07")
@PUSH
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_word_that_is_lost_is_said_again_until_it_is_answered(push: bool, kind: str, times: int) -> None:
    """The first so many messages of a kind, whoever sends them, never arrive; the engines do nothing about it."""
    world = Shadow(push).linked()
    s, r = world.both()
    r.metadata()
    s.send_all(2)
    lost = 0
    while outcomes(s, r) != ("Success", "Success") and world.now < TIMING.silence // 2:
        while world.wire:
            if lost < times and world.wire[0].kind == kind:
                world.drop()
                lost += 1
            else:
                world.deliver()
        if not world.step():
            world.advance(TIMING.resend, run=False)
    told = {"Offer"} if push else {"PartDone"}
    assert lost or kind in told, f"{kind} was never said"
    assert outcomes(s, r) == ("Success", "Success")
    assert world.now < TIMING.silence // 2, "nobody had to ask"
    world.ends_idle()


@case("B07", "B08")
@PUSH
@pytest.mark.parametrize("deaf", ["p", "d"])
def test_an_end_that_is_never_heard_again_does_not_hold_up_the_other_for_ever(push: bool, deaf: str) -> None:
    """Everything that one of the two says is lost, heartbeats included; the data had arrived."""
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    world.mover.end_op("done")
    world.mover.end_op("done")
    for _ in range(4 * TIMING.lost // TIMING.beat):
        world.wire = [flight for flight in world.wire if flight.source != deaf]
        world.run()
        world.advance(TIMING.beat, run=False)
    assert s.state in (KVPoll.Success, KVPoll.Failed)
    assert r.state in (KVPoll.Success, KVPoll.Failed)
    if s.state is KVPoll.Failed and r.state is KVPoll.Success:
        assert s.failure is not None
        assert s.failure.in_doubt
    world.finish()
    world.advance(2 * TIMING.lost)
    assert world.p.idle() == world.d.idle() == {}


@case("B08")
@PUSH
@DIRECT
@pytest.mark.parametrize("landed", [True, False], ids=["data arrived", "data lost"])
@pytest.mark.parametrize("control", ["works", "is cut too"])
def test_a_transport_that_does_not_know_what_became_of_its_data_says_so(
    push: bool, direct: bool, landed: bool, control: str
) -> None:
    """The acknowledgement of the wire is lost: data may or may not be there, and what follows is flushed."""
    world = Shadow(push, direct).linked()
    s, r = in_flight(world, 1, 2)
    first, *others = list(world.mover.ops)
    if landed:
        world.mover.land(first)
    world.mover.end_op("unresolved", first)
    for op in others:
        world.mover.end_op("failed", op, detail="flushed")
    if control == "is cut too":
        for _ in range(2 * TIMING.lost // TIMING.beat):
            world.wire.clear()
            world.advance(TIMING.beat, run=False)
    world.finish()
    world.advance(2 * TIMING.lost)
    mine, other = (s, r) if push else (r, s)
    assert (mine.state, mine.cause) == (KVPoll.Failed, "TRANSPORT_UNRESOLVED")
    assert other.state is KVPoll.Failed
    if control == "works":
        assert other.details["cause"] == "TRANSPORT_UNRESOLVED"
    assert back(world, r) == [1]
    again = world.both()
    again[1].metadata()
    world.run()
    again[0].send_all(2)
    world.run()
    assert outcomes(*again) == ("Success", "Success"), "the same room again, over a link that works"
    world.ends_idle()


# -- a long history ----------------------------------------------------------------------------------------------------
@case("B12")
@PUSH
@DIRECT
@pytest.mark.parametrize("seed", range(3))
def test_what_a_room_gets_depends_on_its_own_prompt_whatever_happened_before(
    push: bool, direct: bool, seed: int
) -> None:
    """Many rooms over the same few pieces of memory, with aborts, failures and lost words; each that succeeds holds its own
    data (the shadow compares), and nothing is left."""
    world = Shadow(push, direct).linked()
    rng = random.Random(seed)
    live: list[tuple[Leg, Leg]] = []
    for room in range(160):
        s, r = world.both(room, request(rng.choice([2, 4, 8]), digest=bytes([room])))
        live.append((s, r))
        r.metadata(aux=room)
        for at in range(0, s.request.tokens, 2):
            s.send(part(at, at + 2), last=at + 2 == s.request.tokens)
        world.hold()
        for _ in range(rng.randrange(30)):
            if world.wire:
                flight = world.wire.pop(rng.randrange(min(4, len(world.wire))))
                if rng.random() < 0.97:
                    world.arrive(flight)
            elif world.operations():
                process, op = rng.choice(world.operations())
                if not process.ops[op].unresolved:
                    process.end_op(rng.choice(["done"] * 18 + ["failed", "unresolved"]), op)
        if rng.random() < 0.2:
            rng.choice(rng.choice(live)).abort()
        if len(live) > 4:
            world.finish()
            world.advance(TIMING.resend)
            live = [both for both in live if both[1].state not in (KVPoll.Success, KVPoll.Failed)]
    world.finish()
    world.ends_idle(TIMING.total)
    states = [r.state for r in world.d.legs.values()]
    assert states.count(KVPoll.Success) > 60
    assert states.count(KVPoll.Failed) > 10
