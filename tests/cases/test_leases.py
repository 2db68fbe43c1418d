"""Cases C08 and C11: a reader that comes too late, or that goes by another clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvpoll.protocol.outputs import Submit
from kvpoll.protocol.records import Deadline, LeaseKind
from kvpoll.spec import KVPoll

from ..protocol.pair import TIMING, Leg, request
from .frame import case
from .rooms import DIRECT, PATIENT, PUSH, another, back
from .shadow import Shadow, in_flight, outcomes
from .stages import failed

#: What makes the holder of source memory give a room up while the reader still reads.
GIVE_UP: dict[str, Callable[[Shadow, Leg], object]] = {
    "its deadline": lambda w, s: w.p.core.fire(s.key, Deadline.TOTAL),
    "its engine": lambda w, s: s.abort("kept for long enough"),
    "its process": lambda w, s: w.p.core.shutdown(),
}
gives_up = pytest.mark.parametrize("who", GIVE_UP)


def give_up(world: Shadow, s: Leg, who: str) -> None:
    GIVE_UP[who](world, s)
    world.p.settle()
    assert s.state is KVPoll.Failed


def reuse(world: Shadow) -> None:
    """Another room moves its own data through whatever memory is free."""
    mine = another(world)
    mine[0].send_all(2)
    world.run()
    for op in [op for process, op in world.operations() if process is world.mover]:
        if op.session in {leg.key for leg in mine}:
            world.mover.end_op("done", op)
    world.run()
    world.d.legs[mine[1].key].commit()
    world.run()
    assert outcomes(*mine) == ("Success", "Success")


# -- C08 -------------------------------------------------------------------------------------------------------------------
@case("C08")
@DIRECT
@gives_up
@pytest.mark.parametrize("hears", ["before the read ends", "after it"])
def test_what_is_committed_was_read_from_memory_that_was_kept_until_the_read_had_ended(
    direct: bool, who: str, hears: str
) -> None:
    """The lease ends while the reader reads, and the memory is wanted: whatever the reader commits is the right data."""
    world = Shadow(False, direct, timing=PATIENT).linked()
    world.d.auto_commit = False
    s, r = in_flight(world, 2)
    give_up(world, s, who)
    if hears == "before the read ends":
        world.run()
        assert failed(r) in ("ABORTED", "TOTAL_DEADLINE", "SHUTDOWN")
    assert back(world, s) == [0, 0], "it may be read until the reader says that it has drained"
    reuse(world)
    for op in [op for op in world.d.ops if op.session == r.key]:
        world.d.end_op("done", op)  # raises when the memory is somebody else's by now
    if r.state is KVPoll.Transferring:
        r.commit()  # it cannot know; the data is right, and the sender said that it is in doubt
        assert s.failure is not None
        assert s.failure.in_doubt
    world.finish()
    assert back(world, s) == [1, 1]
    world.ends_idle(TIMING.total)


@case("C08")
@gives_up
@pytest.mark.parametrize("late", ["Offer first", "Abort first"])
def test_a_read_that_would_begin_after_the_lease_reads_kept_memory_or_does_not_begin(who: str, late: str) -> None:
    """The reader hears of the data only after the holder gave the room up (it queued, or the message was slow)."""
    world = Shadow(False, timing=PATIENT).linked()
    world.d.auto_commit = False
    s, r = world.both()
    r.metadata()
    world.run()
    world.hold()
    s.send_all()
    give_up(world, s, who)
    reuse_first = late == "Abort first"
    if reuse_first:
        world.deliver("Abort", to="d")
        world.run()
        assert not world.d.ops, "nothing is started after it was told"
        world.advance(TIMING.resend)
        assert back(world, s) == [1, 0], "there was one part, and nobody reads it any more"
        reuse(world)
    else:
        world.deliver("Offer", to="d")
        world.deliver("Close", to="d")
        assert back(world, s) == [0, 0]
        reuse(world)
    world.finish()
    assert any(isinstance(out, Submit) and out.op.session == r.key for out in world.d.outputs) is not reuse_first
    world.ends_idle(TIMING.total)


@case("C08")
def test_a_reader_that_was_given_up_is_fenced_before_its_source_is_used_again() -> None:
    """The control plane is cut in the middle of a read. The source goes to another room only once the fence is proved."""
    world = Shadow(False).linked()
    world.d.auto_commit = False
    s, r = in_flight(world, 2)
    world.p.hold_fences = world.d.hold_fences = True
    world.p.declare_lost()
    world.wire.clear()
    assert s.state is KVPoll.Failed
    world.d.end_op("done")  # the data plane of the two still works: this read ends well
    assert back(world, s) == [0, 0], "the other one may still read"
    world.p.prove_fence()
    assert back(world, s) == [1, 1]
    for op in list(world.d.ops):
        world.d.end_op("failed", op)  # which is what the fence means to the reader
    assert r.state is not KVPoll.Success
    assert not any(leg.ready for leg in world.d.legs.values()), "half of the data is nothing to commit"
    world.finish()
    world.ends_idle(TIMING.total)


# -- C11 -------------------------------------------------------------------------------------------------------------------
@case("C11")
@PUSH
@pytest.mark.parametrize("turn_two", ["in time", "after the holder gave it up", "while the holder gives it up"])
@pytest.mark.parametrize("same_room", [True, False], ids=["same room", "another room"])
def test_what_goes_back_on_the_second_turn_is_kept_data_or_a_failure(
    push: bool, turn_two: str, same_room: bool
) -> None:
    """After the first turn the decode end keeps its pages for the second, in which it is the sender."""
    world = Shadow(push).linked()
    s, r = world.both()
    r.metadata()
    s.send_all(2)
    world.run()
    assert outcomes(s, r) == ("Success", "Success")
    room = r.room if same_room else r.room + 1
    kept = world.d.sender(room, request(8, digest=b"turn two"))
    kept.send_all(4)
    if turn_two == "after the holder gave it up":
        world.advance(TIMING.pairing)
        assert failed(kept) == "NO_ANNOUNCE"
        taken = world.d.sender(99, request(3, digest=b"somebody else's"))
        taken.send_all(1)
    reader = world.p.receiver(room, request(8, digest=b"turn two"), senders=[("d", 0)])
    reader.metadata()
    world.hold(turn_two == "while the holder gives it up")
    world.run()
    if turn_two == "while the holder gives it up":
        world.d.core.fire(kept.key, Deadline.TOTAL)
        world.d.settle()
        world.run()
        assert failed(reader) == "TOTAL_DEADLINE"
        assert 0 in [world.d.back[kept.key, LeaseKind.COPY, no] for no in range(2)]
        world.finish()
    world.advance(TIMING.pairing)
    if turn_two == "in time":
        assert outcomes(kept, reader) == ("Success", "Success")
    else:
        assert reader.state is KVPoll.Failed
        assert not reader.ready, "it never had anything that looked complete"
    world.advance(TIMING.total)
    assert world.p.idle() == world.d.idle() == {}


@case("C11")
@PUSH
@pytest.mark.parametrize("come", [0, TIMING.pairing * 3 // 4, TIMING.pairing * 3 // 2], ids="after {} ms".format)
def test_no_clock_of_one_end_means_anything_at_the_other(push: bool, come: int) -> None:
    """Each process counts milliseconds from a beginning of its own. Only durations travel, so that changes no outcome."""
    ends = {_skewed(push, come, p, d) for p, d in ((0, 0), (0, 10**12), (10**12, 0), (123, 456))}
    assert len(ends) == 1
    (outcome,) = ends
    assert outcome == (("Success", "Success") if come < TIMING.pairing else ("Failed", "Failed"))


def _skewed(push: bool, come: int, p: int, d: int) -> tuple[str, ...]:
    """Outcomes of a room whose reader comes so late, with clocks that are off by ``p`` and ``d``."""
    world = Shadow(push)
    offset = {"p": p, "d": d}

    def until(now: int) -> None:
        while world.now < now:
            world.now = min(now, world.now + 250)
            for process in world.processes.values():
                process.core.tick(world.now + offset[process.name])
                process.settle()
            world.run()

    until(1)
    s = world.p.sender()
    s.send_all(2)
    until(come)
    r = world.d.receiver()
    r.metadata()
    until(come + TIMING.total + TIMING.pairing)
    assert world.p.idle() == world.d.idle() == {}
    return outcomes(s, r)
