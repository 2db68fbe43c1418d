"""Cases J: processes that stop in the middle, aborts on paths that nobody takes, and data that is wrong without a word."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.runtime import KVReceiver, KVSender, Request
from kvpoll.spec import TABLES, KVPoll
from kvpoll.spec.table import Verdict

from ..protocol.pair import TERMINAL, TIMING, Leg, request
from ..runtime.engines import PAGE, Engine, Room, cause, pair
from .frame import case
from .rooms import DIRECT, PATIENT, PUSH, back
from .shadow import Shadow, in_flight, outcomes
from .stages import STAGES, at, every_stage, failed, live_until

WHO = pytest.mark.parametrize("who", ["p", "d"])


def leg_of(world: Shadow, who: str, s: Leg, r: Leg) -> tuple[Leg, Leg]:
    return (s, r) if who == "p" else (r, s)


# -- J01 -------------------------------------------------------------------------------------------------------------------
@case("J01")
@PUSH
@DIRECT
@WHO
def test_a_process_that_drains_finishes_what_it_has_and_takes_nothing_new(push: bool, direct: bool, who: str) -> None:
    world = Shadow(push, direct).linked()
    s, r = in_flight(world, 2)
    waiting = world.d.receiver(7_000)
    world.run()
    process = world.processes[who]
    process.core.drain(5_000)
    process.settle()
    world.run()
    if who == "p":
        assert (waiting.cause, waiting.details["why"]) == ("NO_LEG", "draining"), "nobody can take it any more"
    else:
        waiting.abort()
    with pytest.raises(LocalProtocolError, match="draining"):
        process.sender(8) if who == "p" else process.receiver(8)
    if who == "p":
        refused = world.d.receiver(9)
        live_until(world, refused, TIMING.resend)
        assert refused.cause == "NO_LEG"
    world.finish()
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


@case("J01")
@PUSH
@DIRECT
@WHO
@pytest.mark.parametrize("order", ["goodbye first", "data first", "goodbye lost"])
def test_memory_of_a_process_that_stops_is_given_back_only_when_nobody_reaches_it(
    push: bool, direct: bool, who: str, order: str
) -> None:
    """SIGTERM while the other end reads or writes our memory. The room fails at both ends; memory waits for the peer's drain
    word, or for the fence; the peer never takes what it got for whole."""
    world = Shadow(push, direct, timing=PATIENT).linked()
    world.d.auto_commit = False
    s, r = in_flight(world, 2)
    mine, other = leg_of(world, who, s, r)
    world.p.hold_fences = world.d.hold_fences = True
    process = world.processes[who]
    process.core.shutdown()
    process.settle()
    if order == "goodbye lost":
        world.wire.clear()
        process.core.close_links()
        process.settle()
        world.wire.clear()
    elif order == "goodbye first":
        world.run()
        assert failed(other) == "SHUTDOWN"
    assert (mine.state, mine.cause) == (KVPoll.Failed, "SHUTDOWN")
    assert 0 in back(world, mine), "it is read or written by an operation that has not ended"
    for op in list(world.mover.ops):
        world.mover.end_op("done", op)  # raises if the memory is anybody else's by now
    assert other.state is not KVPoll.Success
    world.finish()
    world.advance(TIMING.resend)
    assert all(count == 1 for count in back(world, mine))
    assert r.state is not KVPoll.Success or who == "d"
    if r.ready and r.state is KVPoll.Transferring:
        assert order != "goodbye first", "only one that heard nothing, and has everything, may go on"
        r.commit()
    world.advance(TIMING.total)
    assert s.state in TERMINAL
    assert r.state in TERMINAL
    assert process.idle() == {}


@case("J01")
@PUSH
def test_a_transfer_that_turns_to_an_error_is_a_failure_and_never_data(push: bool) -> None:
    """The wait loop of the reader must not take an end for a good one."""
    for how in ("failed", "unresolved"):
        for which in range(2):
            world = Shadow(push).linked()
            s, r = in_flight(world, 2)
            operations = list(world.mover.ops)
            world.mover.end_op("done", operations[1 - which])
            world.mover.end_op(how, operations[which])
            world.run()
            assert outcomes(s, r) == ("Failed", "Failed")
            assert not r.ready
            world.finish()
            world.ends_idle()


# -- J02 -------------------------------------------------------------------------------------------------------------------
@case("J02")
@PUSH
@every_stage
@WHO
@pytest.mark.parametrize("peer", ["alive", "dead", "silent", "stopping too"])
def test_stopping_ends_from_every_state_whatever_the_peer_does(push: bool, stage: str, who: str, peer: str) -> None:
    """Drain, fail what is live, wait, close the links, prove the fences: after that nothing is held and no clock is armed."""
    world = Shadow(push).linked()
    s, r = at(world, stage)
    process, other = world.processes[who], "d" if who == "p" else "p"
    if peer == "dead":
        world.crash(other)
    if peer == "stopping too":
        world.processes[other].core.shutdown()
    process.core.drain(1_000)
    process.core.shutdown()
    process.settle()
    if peer == "silent":
        world.wire.clear()
    elif peer != "dead":
        world.finish()
    mine, _ = leg_of(world, who, s, r)
    assert mine.state in TERMINAL
    process.core.close_links()
    process.settle()
    process.hold_ops = False
    while process.fences:
        process.prove_fence()
    for op in list(process.ops):
        process.end_op("failed", op)
    assert process.idle() == {}
    assert not process.core.links.table
    assert process.core.clocks.next() is None or process.core.tick(world.now + TIMING.total) is None


@case("J02")
@PUSH
@WHO
def test_what_cannot_be_given_back_before_the_end_is_said_and_not_waited_for(push: bool, who: str) -> None:
    """An operation whose outcome nobody knows, and a fence that is never proved: stopping says what it leaves behind."""
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    world.p.hold_fences = world.d.hold_fences = True
    world.mover.end_op("unresolved")
    world.run()
    process = world.processes[who]
    process.core.shutdown()
    process.core.close_links()
    process.settle()
    left = process.idle()
    mine, _ = leg_of(world, who, s, r)
    if any(count == 0 for count in back(world, mine)):
        assert left
        assert left.get("leases")
    assert mine.state is KVPoll.Failed


@case("J02")
@WHO
def test_closing_a_manager_in_the_middle_of_rooms_returns_and_says_that_nothing_was_cut_off(who: str) -> None:
    p, d = Engine("prefill", "inproc"), Engine("decode", "inproc")
    rooms = [Room(p, d, n) for n in range(4)]
    rooms[0].receiver.init()
    rooms[1].decode()
    rooms[2].decode()
    rooms[2].prefill()
    rooms[3].decode()
    rooms[3].prefill()
    rooms[3].arrives()
    first, second = (p, d) if who == "p" else (d, p)
    assert first.manager.close() == {}
    assert second.manager.close() == {}
    for room in rooms:
        assert room.receiver.poll() in TERMINAL
        assert room.sender is None or room.sender.poll() in TERMINAL
    for engine in (p, d):
        engine.collect()
        assert engine.pages.idle
        assert not engine.aux.lent


# -- J04 -------------------------------------------------------------------------------------------------------------------
@case("J04")
def test_an_abort_is_decided_in_every_state_of_every_role_and_is_nowhere_called_impossible() -> None:
    for name in ("sender", "receiver"):
        table = TABLES[name]
        event = next(spec.event for spec in table.events if spec.event.name == "ABORT")
        for state in table.states:
            rows = [row for row in table.rows if row.state is state and row.event is event]
            assert rows, f"{name} {state.name}"
            for row in rows:
                expected = Verdict.IGNORE if state in table.terminal else Verdict.FAIL
                assert row.verdict is expected, f"{name} {state.name}"


@case("J04")
@PUSH
@DIRECT
@pytest.mark.parametrize("stage", [*STAGES, "committing", "over"])
@pytest.mark.parametrize("who", ["p", "d", "both"])
@pytest.mark.parametrize("twice", [False, True])
def test_an_abort_in_every_stage_by_every_role_ends_the_room_and_nothing_else(
    push: bool, direct: bool, stage: str, who: str, twice: bool
) -> None:
    world = Shadow(push, direct).linked()
    s, r = at(world, stage if stage in STAGES else "whole")
    if stage == "committing":
        r.begin_commit()
    if stage == "over":
        r.commit()
        world.run()
    for _ in range(1 + twice):
        if who in ("p", "both"):
            s.abort("rarely tested")
        if who in ("d", "both"):
            r.abort("rarely tested")
    world.finish()
    if stage == "committing":
        r.end_commit()
        world.run()
    expected = "Success" if stage == "over" else "Failed"
    assert outcomes(s, r) == (expected, expected)
    mine = world.both(8)
    mine[1].metadata()
    mine[0].send_all()
    world.run()
    mine[1].commit()
    world.run()
    assert outcomes(*mine) == ("Success", "Success")
    world.ends_idle()


#: What a handle may be asked before, and after, it has anything to give up.
CALLS: dict[str, Callable[[KVSender | KVReceiver], object]] = {
    "abort": lambda h: h.abort("why not"),
    "abort with a status": lambda h: h.abort("too long", 413),
    "clear": lambda h: h.clear(),
    "abort and clear": lambda h: (h.abort(), h.clear()),
    "clear twice": lambda h: (h.clear(), h.clear()),
}


@case("J04")
@pytest.mark.parametrize("call", CALLS)
def test_every_way_to_give_a_handle_up_works_in_every_role_at_any_time(call: str) -> None:
    with pair("inproc") as (p, d):
        fresh = Room(p, d, 1).receiver
        bare = KVSender(p.manager, 2, Request.of([1]))
        announced = Room(p, d, 3)
        announced.receiver.init()
        done = Room(p, d, 4)
        done.run()
        handles = [fresh, bare, announced.receiver, done.receiver, done.sender]
        for handle in handles:
            assert handle is not None
            CALLS[call](handle)
        assert (fresh.poll(), bare.poll(), announced.receiver.poll()) == (KVPoll.Failed,) * 3
        assert cause(bare) == "ABORTED"
        assert done.receiver.poll() is KVPoll.Success
        Room(p, d, 5).run()


# -- J06 -------------------------------------------------------------------------------------------------------------------
@case("J06")
@pytest.mark.parametrize("transport", ["inproc", "zmq"])
@pytest.mark.parametrize("prefix", [0, PAGE, 2 * PAGE])
def test_what_is_committed_is_what_was_computed_page_by_page_and_nothing_else_is_touched(
    transport: str, prefix: int
) -> None:
    """A long prompt of repeated tokens, then the same one with a cached prefix, over pages in no order: the bytes are compared at
    the destination, and every other page of the pool is as it was."""
    with pair(transport) as (p, d):
        rng = np.random.default_rng(3)
        scattered = [engine.pages.allocate(n) for engine, n in ((p, 7), (d, 11))]
        for engine, held in zip((p, d), scattered, strict=True):
            assert held is not None
            engine.pages.free(tuple(int(page) for page in rng.permutation(held)))
        for number in range(4):
            room = Room(p, d, number, tokens=22 + number, prefix=prefix)
            room.request = Request.of([7] * (22 + number), prefix)
            room.receiver = KVReceiver(d.manager, "", 0, number, room.request, address=p.manager.address)
            before = [layer.copy() for layer in d.pool]
            room.decode()
            room.prefill(*range(1, 3))
            room.arrives()
            room.commit()
            room.check()
            others = np.setdiff1d(np.arange(len(before[0])), room.target)
            for was, now in zip(before, d.pool, strict=True):
                assert np.array_equal(was[others], np.asarray(now)[others])
            for engine in (p, d):
                engine.becomes_idle()


@case("J06")
@pytest.mark.parametrize("wrong", ["another prompt", "one token more", "another prefix"])
def test_a_full_hit_of_another_request_is_no_hit(wrong: str) -> None:
    """Both ends must mean the same request before anything is sent: token ids, count and prefix."""
    theirs = {
        "another prompt": request(digest=b"another"), "one token more": request(tokens=5), "another prefix": request(prefix=2),
    }[wrong]  # fmt: skip
    world = Shadow(True).linked()
    s, r = world.p.sender(want=theirs), world.d.receiver()
    s.send_all()
    r.metadata()
    world.run()
    assert (s.state, r.ready) == (KVPoll.Bootstrapping, False), "they never met"
    live_until(world, r, TIMING.pairing)
    assert r.cause == "NO_LEG"
    assert r.details["fields"]
    world.ends_idle(TIMING.pairing)
