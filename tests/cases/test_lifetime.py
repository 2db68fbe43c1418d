"""Cases A: memory of a room that is over, while something may still touch it."""

from __future__ import annotations

import pytest

from kvpoll.protocol.outputs import FenceOp, OfferPart, Submit
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll

from ..protocol.pair import TIMING, part
from .frame import case
from .rooms import DIRECT, ENDINGS, PATIENT, PUSH, another, back, hold_fences
from .shadow import Shadow, in_flight, outcomes


@case("A01", "A02", "A18")
@PUSH
@DIRECT
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "last first"])
def test_memory_goes_to_nobody_else_before_the_last_operation_on_it_has_ended(
    push: bool, direct: bool, ending: str, order: tuple[int, ...]
) -> None:
    world = Shadow(push, direct, timing=PATIENT).linked()
    s, r = in_flight(world, 2)
    operations = list(world.mover.ops)
    hold_fences(world)
    ENDINGS[ending](world, s, r)
    world.run()
    assert outcomes(s, r) == ("Failed", "Failed")
    busy = [world.mover.ops[op] for op in operations if op in world.mover.ops]
    assert busy, "the rooms are over, the wire is not"
    copies = dict(enumerate(back(world, s)))
    assert all(copies[operation.submit.part.no] == 0 for operation in busy)
    assert back(world, r) == [0]
    # Another room takes whatever memory there is, and moves its own data through it while the old writes arrive late.
    other = another(world)
    other[0].send_all(2)
    world.run()
    for index in order:
        if operations[index] in world.mover.ops:
            world.mover.land(operations[index])
        if operations[index] in world.mover.ops and not world.mover.ops[operations[index]].unresolved:
            world.mover.end_op("failed", operations[index])
    world.finish()
    world.advance(5_000)
    assert back(world, s) == [1, 1]
    assert back(world, r) == [1]
    assert outcomes(*other) == ("Success", "Success")
    world.ends_idle(TIMING.total)


# -- admission ---------------------------------------------------------------------------------------------------------
@case("A10")
@PUSH
@pytest.mark.parametrize("chunks", range(4))
@pytest.mark.parametrize("slow", [False, True], ids=["data arrived", "data in flight"])
def test_no_chunk_starts_after_the_abort_was_heard(push: bool, chunks: int, slow: bool) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, r = world.both()
    r.metadata()
    world.run()
    world.hold(slow)
    for at in range(chunks):
        s.send(part(at, at + 1))
        world.run()
    r.abort("client went away")
    world.run()
    assert (s.state, s.details.get("reason")) == (KVPoll.Failed, "client went away")
    world.forget()
    sources = sum(kind is LeaseKind.SOURCE for _, kind, _ in world.p.lent)
    for at in range(chunks, 4):
        assert s.send(part(at, at + 1), last=at == 3) == (), "the engine may not know yet; nothing is kept"
    world.run()
    assert not any(isinstance(out, Submit | OfferPart) for process in (world.p, world.d) for out in process.outputs)
    assert sum(kind is LeaseKind.SOURCE for _, kind, _ in world.p.lent) == sources == chunks
    world.finish()
    world.ends_idle()


@case("A10")
@PUSH
def test_a_chunk_that_crosses_the_abort_lands_in_memory_that_is_still_its_own(push: bool) -> None:
    world = Shadow(push, direct=True, timing=PATIENT).linked()
    s, r = world.both()
    r.metadata()
    world.run()
    world.hold()
    s.send(part(0, 1))
    r.abort()  # not heard yet
    s.send(part(1, 4), last=True)
    other = another(world)
    other[0].send_all()
    world.run()
    assert world.operations()
    world.finish()
    assert outcomes(s, r, *other) == ("Failed", "Failed", "Success", "Success")
    world.ends_idle()


# -- several operations, several ranks ---------------------------------------------------------------------------------
@case("A15")
@PUSH
@DIRECT
@pytest.mark.parametrize("error", ["failed", "unresolved", "lost"])
@pytest.mark.parametrize("broken", [0, 1])
def test_one_handle_that_fails_frees_nothing_while_its_sibling_writes(
    push: bool, direct: bool, error: str, broken: int
) -> None:
    """One room from two prefill ranks, into the same pages."""
    world = Shadow(push, direct, timing=PATIENT).linked()
    q = world.join("q", engine=world.p.config.engine, rank=1, layers=(1, 2))
    world.d.core.env.layers = (0, 2)
    legs = world.p.sender(), q.sender()
    r = world.d.receiver(senders=[("p", 0), ("q", 1)])
    r.metadata(aux=0)
    world.run()
    world.hold()
    for leg in legs:
        leg.send_all()
    world.run()
    bad, sibling = world.operations() if broken == 0 else world.operations()[::-1]
    hold_fences(world)
    if error == "lost":
        world.d.declare_lost(list(world.d.core.links.table)[broken])
    else:
        bad[0].end_op(error, bad[1])
    world.run()
    assert r.state is KVPoll.Failed
    assert back(world, r) == [0]
    other = another(world)
    other[0].send_all()
    sibling[0].end_op("done", sibling[1])
    world.run()
    assert back(world, r) == [int(error == "failed")], "unresolved and lost wait for their fence too"
    world.finish()
    world.advance(3 * TIMING.resend)
    assert back(world, r) == [1]
    assert outcomes(*legs, r) == ("Failed",) * 3
    world.ends_idle()


# -- the sender's own memory -------------------------------------------------------------------------------------------
@case("A18", "A21")
@PUSH
@pytest.mark.parametrize("ending", [e for e in ENDINGS if "operation" not in e])
def test_source_pages_are_pinned_until_they_are_read_and_copies_until_nobody_reads_them(
    push: bool, ending: str
) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, r = world.both()
    r.metadata()
    world.run()
    world.hold()
    s.send(part(0, 2))
    queued = s.send(part(2, 4), last=True, gathered=False)
    world.run()
    source, copy = (s.key, LeaseKind.SOURCE, 1), (s.key, LeaseKind.COPY, queued[0])
    hold_fences(world)
    ENDINGS[ending](world, s, r)
    world.run()
    assert outcomes(s, r) == ("Failed", "Failed"), "whatever ended it, the other end was told"
    assert source not in world.p.back, "the device reads these pages now"
    assert copy not in world.p.back, "and writes this copy"
    s.gathered(*queued)
    assert world.p.back[source] == world.p.back[copy] == 1
    assert world.p.back[s.key, LeaseKind.COPY, 0] == 0, "the transport reads this one"
    world.finish()
    assert world.p.back[s.key, LeaseKind.COPY, 0] == 1
    world.ends_idle(TIMING.pairing)


@case("A18")
@PUSH
@pytest.mark.parametrize("clock", ["silence", "total"])
def test_a_sender_that_gives_up_waiting_keeps_what_the_transport_refers_to(push: bool, clock: str) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, _ = in_flight(world, 2)
    for _ in range((TIMING.silence if clock == "silence" else TIMING.total) // TIMING.silence + 1):
        if clock == "silence":
            world.wire.clear()
        world.advance(TIMING.silence, run=clock == "total")
    assert s.state is KVPoll.Failed
    assert s.cause in ("SILENCE", "TOTAL_DEADLINE", "PEER_ABORTED")
    world.run()
    assert back(world, s) == [0, 0]
    operations = list(world.mover.ops)
    world.mover.end_op("unresolved", operations[0])
    world.mover.end_op("failed", operations[1])
    world.mover.hold_fences = True
    world.run()
    assert FenceOp(operations[0]) in world.mover.outputs
    assert back(world, s)[operations[0].part] == 0, "only a fence frees what is unresolved"
    world.mover.land(operations[0])  # late, into memory that is still its own
    world.finish()
    world.advance(3 * TIMING.resend)
    assert back(world, s) == [1, 1]
    world.ends_idle()


@case("A21")
@PUSH
@pytest.mark.parametrize("which", [0, 1])
def test_a_send_that_cannot_be_done_fails_the_room_at_both_ends(push: bool, which: int) -> None:
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    if push:
        world.p.end_op("failed", list(world.p.ops)[which], detail="array was deleted")
    else:
        world.p.core.call(s.key, lambda x: x.op_failed(0, which, "array was deleted"))
        world.p.settle()
    world.finish()
    assert (s.cause, s.details["detail"]) == ("TRANSPORT_FAILED", "array was deleted")
    assert (r.state, r.details["cause"], r.details["detail"]) == (
        KVPoll.Failed, "TRANSPORT_FAILED", "array was deleted",
    )  # fmt: skip
    assert world.now == 0
    world.ends_idle()
