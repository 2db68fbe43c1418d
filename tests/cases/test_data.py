"""Cases B: data that is not there yet, is somebody else's, or is only said to be there."""

from __future__ import annotations

from itertools import permutations

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.group import Decision, Vote, decide
from kvpoll.protocol.outputs import OfferPart, Submit
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Close, Conclude, Offer, PartDone, PartKind

from ..protocol.pair import TIMING, Leg, part, request
from .frame import case
from .rooms import DIRECT, PATIENT, PUSH
from .shadow import Engine, Shadow, outcomes


def started(world: Shadow) -> set[int]:
    """Parts that the sender let anybody read or that it writes."""
    return {out.part.no for out in world.p.outputs if isinstance(out, Submit | OfferPart)}


# -- when may a chunk be read ------------------------------------------------------------------------------------------
@case("B01")
@PUSH
@DIRECT
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("pages", ["before", "after"])
def test_a_chunk_is_read_after_the_device_work_that_writes_it_whatever_its_neighbours_do(
    push: bool, direct: bool, order: tuple[int, ...], pages: str
) -> None:
    world = Shadow(push, direct).linked()
    s, r = world.both()
    if pages == "before":
        r.metadata()
        world.run()
    chunks = [s.send(part(at, at + 1), gathered=False) for at in range(2)]
    chunks.append(s.send(part(2, 4), last=True, gathered=False))
    world.run()
    assert not started(world)
    if pages == "after":
        r.metadata()
        world.run()
    done: set[int] = set()
    for index in order:
        assert started(world) == done
        s.gathered(*chunks[index])
        done |= set(chunks[index])
        world.run()
    assert started(world) == done
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


@case("B01")
@PUSH
@pytest.mark.parametrize("ended", ["before", "after"])
def test_a_chunk_whose_device_work_ends_after_the_room_is_never_read(push: bool, ended: str) -> None:
    world = Shadow(push).linked()
    s, r = world.both()
    if ended == "after":
        r.metadata()
    world.run()
    nos = s.send(part(0, 4), last=True, gathered=False)
    r.abort()
    world.run()
    s.gathered(*nos)
    world.run()
    assert not started(world)
    world.ends_idle(2 * TIMING.pairing)


# -- what is complete --------------------------------------------------------------------------------------------------
def _stages(push: bool, direct: bool = False) -> tuple[Shadow, list[tuple[Engine, Leg]], Leg]:
    """Two prefill ranks with a layer each, whose parts have the same numbers; and a decode rank that needs both layers."""
    world = Shadow(push, direct, timing=PATIENT).linked()
    q = world.join("q", engine=world.p.config.engine, rank=1, layers=(1, 2))
    world.d.core.env.layers = (0, 2)
    legs = [(process, process.sender()) for process in (world.p, q)]
    r = world.d.receiver(senders=[("p", 0), ("q", 1)])
    r.metadata()
    world.run()
    return world, legs, r


@case("B05", "B17")
@PUSH
@DIRECT
@pytest.mark.parametrize("order", sorted(set(permutations("pppqqq"))), ids="".join)
def test_parts_of_two_ranks_with_the_same_numbers_are_two_parts_each(
    push: bool, direct: bool, order: tuple[str, ...]
) -> None:
    world, legs, r = _stages(push, direct)
    world.d.auto_commit = False
    world.hold()
    for _, leg in legs:
        leg.send_all(1, 2)
    world.run()
    assert len(world.operations()) == 6
    for number, name in enumerate(order):
        assert not r.ready, f"{number} of 6 parts are here"
        process, op = next(
            (process, op) for process, op in world.operations() if name == world.other(process.ops[op].submit.link, "d")
        )
        process.end_op("done", op)
        while world.wire:
            world.copy()  # and each word of it twice
            world.deliver()
    assert r.ready, "the shadow has compared what is there with what each rank gathered"
    r.commit()
    world.run()
    assert outcomes(r, *(leg for _, leg in legs)) == ("Success",) * 3
    world.ends_idle()


@case("B17")
@PUSH
@pytest.mark.parametrize("asked", ["p", "q"])
def test_a_receiver_that_asks_only_one_of_two_hosts_never_succeeds_with_a_part_of_the_data(
    push: bool, asked: str
) -> None:
    world = Shadow(push).linked()
    q = world.join("q", engine=world.p.config.engine, rank=1, layers=(1, 2))
    world.d.core.env.layers = (0, 2)
    leg = (world.p if asked == "p" else q).sender()
    r = world.d.receiver(senders=[(asked, 0 if asked == "p" else 1)])
    r.metadata()
    world.run()
    leg.send_all(2)
    world.run()
    assert (r.state, r.cause, r.details["field"]) == (KVPoll.Failed, "PLAN_REFUSED", "plan")
    missing = "layers [1, 2)" if asked == "p" else "layers [0, 1)"
    assert missing in str(r.details["got"])
    assert not r.ready
    assert leg.state is KVPoll.Failed
    world.ends_idle()


@case("B17")
@PUSH
@pytest.mark.parametrize("theirs", [(0, 2), (0, 1)], ids=["both layers", "the other's layer"])
def test_two_hosts_that_send_the_same_layer_are_refused_and_not_merged(push: bool, theirs: tuple[int, int]) -> None:
    world, legs, r = _stages(push)
    legs[1][0].core.env.layers = theirs
    legs[0][1].send_all()
    world.run()
    legs[1][1].send(part(0, 4, theirs), last=True)
    world.run()
    assert (r.state, r.cause, r.details["field"]) == (KVPoll.Failed, "PLAN_REFUSED", "part.start")
    assert not r.ready
    world.ends_idle()


@case("B16")
@PUSH
@pytest.mark.parametrize("kind", [PartKind.STATE, PartKind.AUX], ids=lambda kind: kind.name)
def test_data_of_another_kind_does_not_count_as_kv_and_its_memory_waits_for_the_copy_too(
    push: bool, kind: PartKind
) -> None:
    world = Shadow(push).linked()
    s, r = world.both()
    r.metadata()
    world.run()
    state = part(0, 4, kind=kind, shape=(4,))
    with pytest.raises(LocalProtocolError, match="last: the plan leaves out"):
        s.send(state, last=True)
    nos = s.send(state, gathered=False)
    world.run()
    assert not started(world)
    assert world.p.back[s.key, LeaseKind.SOURCE, 0] == 0, "the slot is read by the device now"
    s.gathered(*nos)
    world.run()
    assert world.p.back[s.key, LeaseKind.SOURCE, 0] == 1
    assert r.state is KVPoll.Transferring
    assert not r.ready
    s.send(part(0, 4), last=True)
    world.run()
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


# -- done is never said of what was not done ---------------------------------------------------------------------------
REJECTED = [
    "no leg was made",
    "before ANNOUNCE",
    "announced",
    "pages known",
    "a chunk was sent",
    "everything but the end",
]


@case("B10")
@PUSH
@pytest.mark.parametrize("stage", REJECTED)
def test_a_prefill_that_is_rejected_never_looks_like_a_hand_off(push: bool, stage: str) -> None:
    world = Shadow(push).linked()
    if stage == "no leg was made":
        r = world.d.receiver()
        r.metadata()
        world.run()
        world.advance(TIMING.pairing)
        assert (r.state, r.cause) == (KVPoll.Failed, "NO_LEG")
    else:
        s = world.p.sender()
        if stage == "before ANNOUNCE":
            s.abort("the prompt is too long", 400)
        r = world.d.receiver()
        if stage in REJECTED[3:]:
            r.metadata()
        world.run()
        if stage in REJECTED[4:]:
            s.send(part(0, 1))
        if stage == REJECTED[5]:
            s.send(part(1, 3))
        world.run()
        said = len(world.p.said)
        s.abort("the prompt is too long", 400)
        s.send(part(0, 4), last=True)  # the engine's send queue does not know yet
        world.run()
        world.advance(3 * TIMING.resend)
        assert (r.state, r.cause, r.details["status"]) == (KVPoll.Failed, "PEER_ABORTED", 400)
        assert r.details["reason"] == "the prompt is too long"
        assert not any(isinstance(m, PartDone | Offer | Close) for m in world.p.said[said:])
        assert not any(isinstance(m, Close) for m in world.p.said)
    assert not r.ready
    assert not any(isinstance(m, Conclude) for m in world.d.said)
    world.ends_idle(TIMING.pairing)


@case("B10")
@PUSH
@pytest.mark.parametrize("dummy", [1, 3], ids=["a dummy length", "one token less"])
def test_a_leg_of_a_dummy_request_never_meets_the_real_one(push: bool, dummy: int) -> None:
    world = Shadow(push).linked()
    s, r = world.p.sender(want=request(dummy)), world.d.receiver(want=request(4))
    r.metadata()
    s.send_all()
    world.advance(TIMING.pairing)
    assert outcomes(s, r) == ("Failed", "Failed")
    assert (r.cause, r.details["fields"]) == ("NO_LEG", "tokens")
    assert not started(world)
    world.ends_idle()


# -- one reason for all ranks ------------------------------------------------------------------------------------------
@case("B11")
@PUSH
@pytest.mark.parametrize("first", ["d", "e"])
@pytest.mark.parametrize("gap", ["both hear of it", "one hears of it later", "one hears of it by asking"])
@pytest.mark.parametrize("stage", ["bound", "waiting", "in flight"])
def test_every_rank_gives_the_same_status_and_reason_whoever_hears_of_it_first(
    push: bool, first: str, gap: str, stage: str
) -> None:
    world = Shadow(push).linked()
    e = world.join("e", engine=world.d.config.engine, rank=1)
    s, receivers = world.p.sender(ranks=2), [world.d.receiver(gen=5), e.receiver(gen=5)]
    world.run()
    if stage != "bound":
        for r in receivers:
            r.metadata()
        world.run()
    if stage == "in flight":
        world.hold()
        s.send_all(2)
        world.run()
    s.abort("the prompt is too long", 400)
    other = "e" if first == "d" else "d"
    world.deliver("Abort", to=first)
    decisions = [_decision(receivers)]
    if gap == "one hears of it later":
        late = world.drop("Abort", to=other)
        world.run()
        decisions.append(_decision(receivers))
        world.inject(world.processes[other], late)
    elif gap == "one hears of it by asking":
        world.drop("Abort", to=other)
        world.run()
        world.advance(2 * TIMING.resend)
    world.finish()
    decisions.append(_decision(receivers))
    assert {(d.state, d.failure.status, dict(d.failure.details)["reason"]) for d in decisions if d.failure} == {
        (KVPoll.Failed, 400, "the prompt is too long")
    }
    assert all(d.failure is not None for d in decisions), "one failure fails the group, and the reason is known with it"
    for r in receivers:
        assert (r.cause, r.details["reason"], r.details["status"]) == ("PEER_ABORTED", "the prompt is too long", 400)
    world.ends_idle()


def _decision(receivers: list[Leg]) -> Decision:
    """What the group decides: the same for any order in which the ranks are counted."""
    votes = [(rank, Vote(r.state, r.failure)) for rank, r in enumerate(receivers)]
    (decision,) = {repr(decide(dict(order))): decide(dict(order)) for order in (votes, votes[::-1])}.values()
    return decision
