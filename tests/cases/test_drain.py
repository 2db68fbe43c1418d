"""Cases A: what an acknowledged abort means, and that it always comes."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from kvpoll.protocol.outputs import OfferPart, Submit
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec.wire import Abort, AbortAck, Refusal, Status

from ..protocol.pair import TIMING, Leg, part
from .frame import case
from .rooms import DIRECT, PATIENT, PUSH, back
from .shadow import Shadow, in_flight, outcomes


def drained_words(world: Shadow) -> list[str]:
    """Who said that it has drained: ABORT_ACK, or the same fact in a STATUS."""
    return [
        process.name
        for process in world.processes.values()
        for m in process.said
        if (isinstance(m, AbortAck) and not m.quarantined) or (isinstance(m, Status) and m.facts.drained)
    ]


# -- the drain word ----------------------------------------------------------------------------------------------------
def _told(world: Shadow, aborted: Leg) -> None:
    """The other end hears ABORT, and hears it again."""
    to = "p" if aborted.key.role == "receiver" else "d"
    abort = world.deliver("Abort", to=to)
    world.inject(world.processes[to], abort)


@case("A03")
@PUSH
@pytest.mark.parametrize("ends", list(permutations(["done", "failed", "unresolved"])), ids=" ".join)
def test_an_abort_is_acknowledged_when_the_last_operation_has_ended_and_not_when_it_is_heard(
    push: bool, ends: tuple[str, ...]
) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, r = in_flight(world, 1, 2)
    operations = list(world.mover.ops)
    aborted = r if push else s  # the end that starts nothing asks the one that does
    world.mover.hold_fences = True
    aborted.abort()
    _told(world, aborted)
    assert outcomes(s, r).count("Failed") == 2
    for op, how in zip(operations, ends, strict=True):
        assert world.mover.name not in drained_words(world), f"{op} is in flight"
        world.run()
        world.mover.end_op(how, op)
    world.advance(3 * TIMING.resend)
    assert world.mover.name not in drained_words(world), "unresolved is not drained, however often it is asked"
    memory = back(world, r if push else s)
    assert 0 in memory, "its memory waits for the word"
    world.finish()
    world.advance(3 * TIMING.resend)
    assert world.mover.name in drained_words(world)
    world.ends_idle()


@case("A04")
@PUSH
@pytest.mark.parametrize("when", ["before the drain", "between", "after", "never"])
@pytest.mark.parametrize("reuse", [False, True], ids=["gone", "reused"])
def test_an_end_that_cleaned_up_still_answers_once_it_has_drained(push: bool, when: str, reuse: bool) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, r = in_flight(world, 2)
    aborted, other = (r, s) if push else (s, r)
    operations = list(world.mover.ops)
    aborted.abort()
    world.run()

    def clean_up() -> None:
        other.abort("cleared by the engine")  # what clear() does, to a room that has failed
        if reuse:
            world.mover.sender() if push else world.mover.receiver()

    for step, moment in enumerate(["before the drain", "between", "after"]):
        if when == moment:
            clean_up()
        if step < len(operations):
            world.mover.end_op("failed", operations[step])
            world.run()
    acks = [
        m
        for m in world.mover.said
        if isinstance(m, AbortAck) and (m.engine, m.gen) == (r.process.config.engine, r.key.no)
    ]
    assert len(acks) == 1, "once for each end that asked, without a clock"
    assert all(back(world, aborted))
    world.ends_idle(2 * TIMING.pairing)


@case("A04")
@PUSH
@pytest.mark.parametrize("lost", [1, 3])
def test_an_answer_that_is_lost_is_given_again(push: bool, lost: int) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, r = in_flight(world, 2)
    aborted = r if push else s
    aborted.abort()
    world.run()
    for op in list(world.mover.ops):
        world.mover.end_op("failed", op)
    for _ in range(lost):
        assert not any(back(world, aborted))
        world.wire = [f for f in world.wire if f.source != world.mover.name]
        world.advance(TIMING.resend, run=False)
        for flight in [f for f in world.wire if f.target == world.mover.name]:
            world.wire.remove(flight)
            world.arrive(flight)
    world.run()
    assert all(back(world, aborted))
    world.ends_idle()


def _ranks(push: bool) -> tuple[Shadow, Leg, list[Leg]]:
    """One prefill rank and three decode ranks of one engine; the parts of each are in flight."""
    world = Shadow(push, timing=PATIENT).linked()
    ranks = [world.d, *(world.join(name, engine=world.d.config.engine, rank=no) for no, name in ((1, "e"), (2, "f")))]
    s = world.p.sender(ranks=3)
    receivers = [process.receiver(gen=5) for process in ranks]
    for r in receivers:
        r.metadata()
    world.run()
    world.hold()
    s.send_all(2)
    world.run()
    assert len(world.operations()) == 6
    return world, s, receivers


@case("A05")
@PUSH
@pytest.mark.parametrize("aborting", [(0,), (1, 0), (0, 1, 2), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("first", ["aborts", "drain"])
def test_every_rank_that_aborts_is_answered_whoever_else_does(
    push: bool, aborting: tuple[int, ...], first: str
) -> None:
    world, s, receivers = _ranks(push)
    for index in aborting:
        receivers[index].abort(f"rank {index}")
        if first == "aborts":
            continue
        world.run()
        for process, op in world.operations():
            if process is receivers[index].process or (push and op.peer == index):
                process.end_op("failed", op)
    world.run()
    for process, op in world.operations():
        process.end_op("failed", op)
    world.run()
    assert outcomes(s, *receivers) == ("Failed",) * 4
    acks = {(m.target_rank, m.target) for m in world.p.said if isinstance(m, AbortAck)}
    assert acks == {(no, r.process.instance) for no, r in enumerate(receivers)}
    assert all(r.process.back[r.key, LeaseKind.BUFFER, 0] == 1 for r in receivers)
    world.ends_idle()


@case("A07")
@PUSH
@pytest.mark.parametrize("error", ["failed", "unresolved"])
@pytest.mark.parametrize("late", ["a credit", "a gather", "a chunk"])
def test_what_is_skipped_in_a_failed_room_hides_nothing_that_is_in_flight(push: bool, error: str, late: str) -> None:
    world = Shadow(push, timing=PATIENT, credits=2 if late == "a credit" else 64).linked()
    s, r = world.both()
    r.metadata()
    world.run()
    world.hold()
    world.mover.hold_fences = True
    s.send(part(0, 1), part(1, 2))
    skipped = s.send(part(2, 3), gathered=late == "a credit") if late != "a chunk" else ()
    world.run()
    first, sibling = world.mover.ops
    (world.mover.end_op(error, first))
    (r if push else s).abort()
    world.run()
    if late == "a gather":
        s.gathered(*skipped)
    elif late == "a chunk":
        assert s.send(part(2, 3)) == ()
    world.run()
    assert outcomes(s, r) == ("Failed", "Failed")
    assert {op for op in world.mover.ops if op != first} == {sibling}, "nothing new starts"
    assert world.mover.name not in drained_words(world)
    assert 0 in back(world, r if push else s)
    world.mover.end_op("done", sibling)  # the shadow counts at every step: started - quiescent is what is in flight
    world.run()
    assert (world.mover.name in drained_words(world)) is (error == "failed")
    world.finish()
    world.advance(3 * TIMING.resend)
    world.ends_idle()


@case("A08")
@PUSH
@DIRECT
def test_an_abort_needs_no_clock_over_any_kind_of_transport(push: bool, direct: bool) -> None:
    world = Shadow(push, direct).linked()
    s, r = in_flight(world, 2)
    r.abort()
    world.finish()
    assert world.now == 0, "nothing waited for a timeout"
    assert outcomes(s, r) == ("Failed", "Failed")
    assert [*back(world, s), *back(world, r)] == [1, 1, 1]


@case("A08")
@PUSH
@pytest.mark.parametrize("again", ["same link", "another link"])
def test_an_attempt_that_failed_with_operations_in_flight_is_never_unknown(push: bool, again: str) -> None:
    """The room was cleared after an error while sibling operations are active; ABORT arrives afterwards."""
    world = Shadow(push, timing=PATIENT).linked()
    s, r = in_flight(world, 1, 2)
    world.mover.end_op("failed")
    (s if push else r).abort("cleared by the engine")
    aborted, to = (r, world.p) if push else (s, world.d)
    world.run()
    abort = next(m for m in aborted.process.said if isinstance(m, Abort))
    if again == "another link":
        other = next(world.ids)
        world.ends[other] = world.ends[abort.link]
        abort = replace(abort, link=other)
    before = back(world, aborted)
    for _ in range(3):
        world.inject(to, abort)
        world.run()
        assert back(world, aborted) == before, "two operations are in flight"
    world.finish()
    assert all(back(world, aborted))
    world.ends_idle()


@case("A08")
@PUSH
def test_an_attempt_that_was_never_known_is_acknowledged_and_can_start_nothing_later(push: bool) -> None:
    world = Shadow(push).linked()
    s, r = world.both()
    s.send_all(2)
    r.metadata()
    announced = [world.drop("Announce"), world.drop("Metadata")]
    r.abort()
    world.run()
    assert any(isinstance(m, AbortAck) for m in world.p.said)
    assert r.dropped, "it was acknowledged, and its memory is back"
    for late in announced:
        world.inject(world.p, late)
    world.run()
    assert sum(isinstance(m, Refusal) for m in world.p.said) == 2
    assert not world.operations()
    assert not any(isinstance(out, Submit | OfferPart) for out in world.p.outputs)
