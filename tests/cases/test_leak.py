"""Cases A: memory that never came back, completions that nobody took, and late ones that did harm."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations

import pytest
from msgspec.structs import replace

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.records import LeaseKind, OpKey, SessionKey
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Message, RoomMessage

from ..protocol.pair import TIMING, Leg
from .frame import case
from .rooms import DIRECT, OTHER, PATIENT, PUSH, back, hold_fences
from .shadow import Act, Shadow, in_flight, outcomes


def all_back(world: Shadow) -> bool:
    """Every lease that was ever taken out came back, once."""
    return all(set(p.lent) == set(p.back) and set(p.back.values()) <= {1} for p in world.processes.values())


# -- completions and aborts --------------------------------------------------------------------------------------------
@case("A11", "A23")
@PUSH
@DIRECT
@pytest.mark.parametrize("how", ["done", "failed", "unresolved"])
@pytest.mark.parametrize("order", list(permutations(["abort", 0, 1])), ids=lambda order: " ".join(map(str, order)))
@pytest.mark.parametrize("who", ["receiver", "sender"])
def test_a_transfer_ends_once_and_frees_once_whether_it_ends_before_or_after_the_abort(
    push: bool, direct: bool, how: str, order: tuple[str | int, ...], who: str
) -> None:
    world = Shadow(push, direct).linked()
    world.d.auto_commit = False
    s, r = in_flight(world, 2)
    operations = list(world.mover.ops)
    for event in order:
        if event == "abort":
            (r if who == "receiver" else s).abort("client went away")
        elif isinstance(event, int):
            world.mover.end_op(how, operations[event])
        world.run()
    world.run()
    assert outcomes(s, r) == ("Failed", "Failed")
    assert all_back(world)
    assert world.now == 0, "no clock was needed"
    world.ends_idle()


@case("A11")
@PUSH
@pytest.mark.parametrize("when", ["ready", "committing", "committed"])
def test_an_abort_after_the_completion_was_taken_frees_at_once_and_once(push: bool, when: str) -> None:
    """No second completion will come: what waits for one waits for ever."""
    world = Shadow(push).linked()
    world.d.auto_commit = False
    s, r = in_flight(world, 2)
    world.hold(False)
    world.run()
    assert r.ready
    if when == "committed":
        r.commit()
    elif when == "committing":
        r.begin_commit()
    r.abort("client went away")
    if when == "committing":
        assert world.d.back[r.key, LeaseKind.PAGES, 0] == 0, "the engine writes them now"
        r.end_commit()
    world.run()
    assert outcomes(s, r) == (("Success", "Success") if when == "committed" else ("Failed", "Failed"))
    assert all_back(world)
    world.ends_idle()


# -- a peer that says nothing any more ---------------------------------------------------------------------------------
def cut(world: Shadow) -> None:
    """Nothing passes between the two any more, in either direction, until both have given each other up."""
    for _ in range(2 * TIMING.lost // TIMING.beat):
        world.wire.clear()
        world.advance(TIMING.beat, run=False)
    world.wire.clear()


SILENCES: dict[str, Act] = {
    "crashed, then our abort": lambda w, s, r: (w.crash("p"), w.wire.clear(), r.abort()),
    "our abort, heard, then crashed": lambda w, s, r: (r.abort(), w.run(), w.crash("p")),
    "our abort, lost with the process": lambda w, s, r: (r.abort(), w.wire.clear(), w.crash("p")),
    "its abort, lost with the process": lambda w, s, r: (s.abort(), w.wire.clear(), w.crash("p"), r.abort()),
    "nobody can be heard": lambda w, s, r: (r.abort(), w.wire.clear(), cut(w)),
    "nobody can be heard, and nobody aborts": lambda w, s, r: cut(w),
}


@case("A12")
@PUSH
@DIRECT
@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("stage", ["waiting", "in flight"])
def test_memory_comes_back_from_a_peer_that_never_speaks_again(
    push: bool, direct: bool, silence: str, stage: str
) -> None:
    world = Shadow(push, direct).linked()
    if stage == "in flight":
        s, r = in_flight(world, 2)
    else:
        s, r = world.both()
        r.metadata()
        world.run()
    world.hold()
    hold_fences(world)
    SILENCES[silence](world, s, r)
    world.advance(2 * TIMING.lost)
    assert r.state is KVPoll.Failed
    asked = silence == "our abort, heard, then crashed"  # and it had answered, unless data was in flight
    touched = stage == "in flight" or (push and not asked)
    assert back(world, r) == [int(not touched)], "silence alone proves nothing"
    for process in world.everybody():
        for op in list(process.ops):
            if stage == "in flight":
                process.land(op)  # type: ignore[attr-defined]  # very late, into memory that is still its own
    for process in world.processes.values():
        while process.fences:
            process.prove_fence()
    assert back(world, r) == [1]
    other = another_peer(world)
    world.finish()
    assert outcomes(*other) == ("Success", "Success"), "and the pool serves the next one"
    world.advance(2 * TIMING.lost)
    world.ends_idle()


def another_peer(world: Shadow) -> tuple[Leg, Leg]:
    """A room with a prefill process that was started anew at the same address, or with another one."""
    name = "q" if "p" in world.processes else "p"
    fresh = world.join(name)
    s, r = fresh.sender(OTHER), world.d.receiver(OTHER, senders=[(name, 0)])
    r.metadata()
    world.run()
    s.send_all(2)
    world.run()
    return s, r


@case("A12")
@PUSH
@DIRECT
def test_data_that_comes_after_the_fence_lands_nowhere(push: bool, direct: bool) -> None:
    world = Shadow(push, direct).linked()
    _, r = in_flight(world, 2)
    world.crash("p")
    late = world.gone[0]
    world.advance(2 * TIMING.lost)
    assert back(world, r) == [1]
    assert not world.d.ops, "a fence covers our own operations too"
    another_peer(world)
    assert bool(late.ops) is push
    for op in late.ops:
        late.land(op)  # type: ignore[attr-defined]  # the shadow raises if it reaches memory of somebody else
    world.finish()
    world.ends_idle()


# -- late, double and foreign completions ------------------------------------------------------------------------------
def _everything_said(world: Shadow) -> list[tuple[str, Message]]:
    """Every message so far, with who should get it."""
    return [
        (world.other(m.link, process.name), m)
        for process in world.processes.values()
        for m in process.said
        if isinstance(m, RoomMessage)
    ]


@case("A14")
@PUSH
@pytest.mark.parametrize("ending", ["success", "receiver aborts", "sender aborts"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_is_said_of_a_room_that_is_gone_touches_one_that_lives(push: bool, ending: str, seed: int) -> None:
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    if ending != "success":
        (r if ending == "receiver aborts" else s).abort()
    world.finish()
    world.advance(3 * TIMING.beat)
    assert s.dropped
    assert r.dropped
    late = _everything_said(world)
    assert len(late) > 8
    live = in_flight(world, 2, room=OTHER)
    again = [(to, replace(m, room=OTHER)) for to, m in late]  # not even when it names a room that lives
    before = [leg.rec for leg in live]
    gauges = [process.core.gauges() for process in (world.p, world.d)]
    both = late + again
    random.Random(seed).shuffle(both)
    for to, message in both:
        world.inject(world.processes[to], message)
    world.run()
    assert [leg.rec for leg in live] == before
    assert [process.core.gauges() for process in (world.p, world.d)] == gauges
    world.finish()
    assert outcomes(*live) == ("Success", "Success")
    world.ends_idle()


@case("A14")
@PUSH
def test_a_completion_of_an_unknown_operation_or_peer_changes_nothing(push: bool) -> None:
    world = Shadow(push).linked()
    gone = in_flight(world, 2)
    finished = list(world.mover.ops)
    world.finish()
    world.advance(3 * TIMING.beat)
    assert gone[0].dropped
    live = in_flight(world, 2, room=OTHER)
    before = [process.core.snapshot() for process in (world.p, world.d)]
    nobody = [OpKey(SessionKey(role, 999), 0, 0) for role in ("sender", "receiver")]
    for process in (world.p, world.d):
        for op in (*finished, *nobody):
            reports: tuple[Callable[[OpKey], None], ...] = (
                process.core.op_done, process.core.op_failed, process.core.op_unresolved, process.core.op_fenced,
            )  # fmt: skip
            for report in reports:
                report(op)
        process.core.peer_fenced(12345)
        process.core.disconnected(12345)
        process.settle()
    assert [process.core.snapshot() for process in (world.p, world.d)] == before
    world.finish()
    assert outcomes(*live) == ("Success", "Success")
    world.ends_idle()


# -- a full pool -------------------------------------------------------------------------------------------------------
@case("A19")
@PUSH
@pytest.mark.parametrize("trouble", ["cancelled", "silent", "cancelled and lost", "stopped"])
def test_a_full_process_empties_itself_although_nothing_new_is_admitted(push: bool, trouble: str) -> None:
    world = Shadow(push, max_rooms=4).linked()
    rooms = [in_flight(world, 2, room=room) for room in range(4)]
    with pytest.raises(LocalProtocolError, match="rooms: at most 4"):
        world.d.receiver(OTHER)
    for s, r in rooms:
        if trouble.startswith("cancelled"):
            r.abort("client went away")
        elif trouble == "stopped":
            s.abort("client went away")
    if trouble == "cancelled and lost":
        world.crash("p")
    elif trouble == "silent":
        world.advance(TIMING.total)
    else:
        world.run()
    with pytest.raises(LocalProtocolError, match="rooms: at most 4"):
        world.d.receiver(OTHER)
    world.hold(False)  # the transport is done at last; from here on only time passes
    world.advance(2 * TIMING.lost)
    assert all(r.state is KVPoll.Failed for _, r in rooms)
    assert world.d.idle() == {}
    name = "p" if "p" in world.processes else "q"
    s, r = (world.p if name == "p" else world.join("q")).sender(OTHER), world.d.receiver(OTHER, senders=[(name, 0)])
    r.metadata()
    s.send_all(2)
    world.run()
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


@case("A19")
@PUSH
def test_credits_of_rooms_that_ended_serve_the_next_one(push: bool) -> None:
    world = Shadow(push, credits=2, timing=PATIENT).linked()
    first = in_flight(world, 1, 2)
    second = world.both(OTHER)
    second[1].metadata()
    world.run()
    second[0].send_all(1, 2)
    world.run()
    assert len(world.operations()) == 2
    first[1].abort()
    world.run()
    assert len(world.operations()) == 2, "a credit comes back with its operation, not with its room"
    world.finish()
    assert outcomes(*first, *second) == ("Failed", "Failed", "Success", "Success")
    world.ends_idle()
