"""Cases C: deadlines that measure the wrong thing, that only one end has, or that nobody hears of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kvpoll.protocol.handshake import compare
from kvpoll.protocol.outputs import Cancel, FenceOp
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime.config import Durations, Role
from kvpoll.spec import TABLES, KVPoll, LinkState
from kvpoll.spec.table import Verdict
from kvpoll.spec.wire import Close

from ..protocol.pair import TERMINAL, TIMING, Leg, request
from ..protocol.wire_values import registration
from .frame import case
from .rooms import PATIENT, PUSH
from .shadow import Shadow, in_flight, outcomes
from .stages import at, every_stage, failed, live_until, silence

WINDOW, ROOMS = 4, 32


# -- C02: the queue of a peer is not its death ---------------------------------------------------------------------------
@case("C02")
@PUSH
@pytest.mark.parametrize("decode_first", [True, False], ids=["decode first", "prefill first"])
def test_a_receiver_that_queues_for_longer_than_any_silence_is_waited_for(push: bool, decode_first: bool) -> None:
    """A window of rooms at a time gets pages, each window for as long as a silence deadline; all are announced at once."""
    world = Shadow(push, timing=replace(TIMING, total=100 * TIMING.silence)).linked()
    world.d.auto_commit = False

    def senders() -> list[Leg]:
        return [world.p.sender(room) for room in range(ROOMS)]

    def receivers() -> list[Leg]:
        return [world.d.receiver(room) for room in range(ROOMS)]

    if decode_first:
        rs, ss = receivers(), senders()
    else:
        ss, rs = senders(), receivers()
    for s in ss:
        s.send_all(2)
    for first in range(0, ROOMS, WINDOW):
        admitted = rs[first : first + WINDOW]
        for r in admitted:
            r.metadata()
        world.advance(TIMING.silence)
        for r in admitted:
            r.commit()
    world.run()
    assert world.now > 2 * max(TIMING.pairing, TIMING.silence)
    assert set(outcomes(*ss, *rs)) == {"Success"}
    world.ends_idle()


@case("C02")
@PUSH
def test_a_leg_that_timed_out_pins_no_slot_of_a_receiver_that_admits_it_later(push: bool) -> None:
    """The receiver's engine says nothing of a room before it admits it. The sender has given up by then: the receiver hears of
    it within its pairing deadline, and what it lent for the dead room comes back."""
    world = Shadow(push).linked()
    ss = [world.p.sender(room) for room in range(ROOMS)]
    live = [world.d.receiver(room) for room in range(WINDOW)]
    for s in ss:
        s.send_all()
    for r in live:
        r.metadata()
    world.advance(TIMING.pairing)
    assert set(outcomes(*ss[:WINDOW], *live)) == {"Success"}
    assert {s.cause for s in ss[WINDOW:]} == {"NO_ANNOUNCE"}
    late = [world.d.receiver(room) for room in range(WINDOW, ROOMS)]
    for r in late:
        r.metadata(aux=0)
    for r in late:
        live_until(world, r, TIMING.pairing)
        assert r.cause == "NO_LEG"
    world.ends_idle()


@case("C02")
@PUSH
@every_stage
@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_a_local_deadline_is_told_to_the_other_end_at_once(push: bool, stage: str, who: str) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    short = replace(PATIENT, total=1_000)
    (world.p if who == "sender" else world.d).core.env.timing = short
    s, r = at(world, stage)
    mine, other = (s, r) if who == "sender" else (r, s)
    world.advance(1_001)
    assert (mine.state, mine.cause) == (KVPoll.Failed, "TOTAL_DEADLINE")
    assert live_until(world, other, TIMING.resend) <= TIMING.resend
    assert failed(other) == "TOTAL_DEADLINE"
    world.finish()
    world.ends_idle()


# -- C03: two limits that wait for each other --------------------------------------------------------------------------------
@case("C03")
@PUSH
@pytest.mark.parametrize("credits", [1, 3])
@pytest.mark.parametrize("turned", [False, True], ids=["same order", "opposite orders"])
def test_limits_on_operations_at_both_ends_never_stand_in_each_others_way(
    push: bool, credits: int, turned: bool
) -> None:
    world = Shadow(push, credits=credits).linked()
    pairs = [world.both(room, request(3)) for room in range(ROOMS)]
    for s, _ in pairs:
        s.send_all(1, 2)
    for _, r in reversed(pairs) if turned else pairs:
        r.metadata()
    world.run()
    assert world.now == 0, "nothing had to be ended by a clock"
    assert set(outcomes(*(leg for both in pairs for leg in both))) == {"Success"}
    world.ends_idle()


@case("C03")
@PUSH
def test_engines_that_admit_different_rooms_do_not_wait_for_each_other_for_ever(push: bool) -> None:
    """The prefill engine admits rooms 0, 1, ... and the decode engine 7, 6, ..., two at a time, the next one when one has
    ended. Neither ever announces more. Rooms whose turns never meet end by their deadlines, and the others go on."""
    world = Shadow(push).linked()
    waiting: dict[str, list[int]] = {"p": list(range(8)), "d": list(reversed(range(8)))}
    legs: dict[str, list[Leg]] = {"p": [], "d": []}
    create: dict[str, Callable[[int], Leg]] = {"p": world.p.sender, "d": world.d.receiver}
    for _ in range(8 * TIMING.total // 1_000):
        for name, make in create.items():
            running = [leg for leg in legs[name] if leg.state not in TERMINAL]
            while waiting[name] and len(running) < 2:
                leg = make(waiting[name].pop(0))
                if name == "p":
                    leg.send_all()
                else:
                    leg.metadata()
                running.append(leg)
                legs[name].append(leg)
        world.advance(1_000)
    assert all(leg.state in TERMINAL for name in legs for leg in legs[name])
    assert len(legs["p"]) == len(legs["d"]) == 8, "every room had its turn"
    world.ends_idle(TIMING.pairing)


# -- C04, C05: every wait has an end, at both ends and whoever moves the data ---------------------------------------------------
@case("C04", "C05")
@pytest.mark.parametrize("name", ["sender", "receiver"])
def test_every_waiting_state_of_either_table_has_clocks_that_end_it_whatever_its_fields_are(name: str) -> None:
    table = TABLES[name]
    for state in table.states:
        if state in table.terminal:
            continue
        for event in table.waiting[state]:
            rows = [row for row in table.rows if row.state is state and row.event is event]
            assert rows
            assert all(row.verdict is Verdict.FAIL for row in rows), f"{state.name} {event.name} may be ignored"


@case("C04")
@PUSH
@pytest.mark.parametrize("announced", [False, True], ids=["never announced", "announced only"])
def test_a_sender_whose_metadata_never_comes_ends_whatever_the_transport(push: bool, announced: bool) -> None:
    world = Shadow(push).linked()
    s = world.p.sender()
    s.send_all(2)
    if announced:
        world.d.receiver()
    live_until(world, s, TIMING.total)
    assert failed(s) == ("TOTAL_DEADLINE" if announced else "NO_ANNOUNCE")
    world.ends_idle()


@case("C04", "C05")
@PUSH
@every_stage
@pytest.mark.parametrize("silent", ["p", "d", "p d"])
def test_an_end_that_hears_nothing_of_its_room_any_more_ends_it_although_the_peer_is_alive(
    push: bool, stage: str, silent: str
) -> None:
    world = Shadow(push, timing=replace(TIMING, total=10**8)).linked()
    s, r = at(world, stage)
    silence(world, *silent.split(), within=2 * TIMING.silence + TIMING.pairing)
    assert world.p.link_state() is LinkState.OPEN, "its heartbeats were heard"
    world.finish()
    if stage == "whole" and r.state is not KVPoll.Failed:
        r.commit()  # it needs nothing more of the sender: only its engine can keep it
    world.run()
    assert s.state in TERMINAL
    assert r.state in TERMINAL
    if s.state is KVPoll.Failed and r.state is KVPoll.Success:
        assert s.failure is not None
        assert s.failure.in_doubt
    world.ends_idle()


@case("C05")
@PUSH
@every_stage
@pytest.mark.parametrize("how", ["crashed", "expired"])
def test_a_receiver_whose_sender_is_gone_ends_and_its_pages_come_back(push: bool, stage: str, how: str) -> None:
    world = Shadow(push).linked()
    if how == "expired":
        world.p.core.env.timing = replace(TIMING, total=1_000)
    _, r = at(world, stage)
    if how == "crashed":
        world.run()
        world.crash("p")
        world.wire.clear()
    live_until(world, r, TIMING.total)
    assert r.state is KVPoll.Failed
    world.finish()
    world.advance(TIMING.pairing)
    pages = world.d.back[r.key, LeaseKind.PAGES, 0]
    assert pages == (stage not in ("created", "bound"))
    assert not world.d.idle()


# -- C06: whatever the other end answers, the engine hears of the end ------------------------------------------------------------
def _nothing(world: Shadow, s: Leg, r: Leg) -> None:
    """A plan without parts for a request that needs some."""
    total = Close(total=0, **s.session.to(0))
    world.inject(world.d, total)


ANSWERS: dict[str, tuple[Callable[[Shadow, Leg, Leg], object], str]] = {
    "the operation failed": (lambda w, s, r: w.mover.end_op("failed", detail="no such key"), "TRANSPORT_FAILED"),
    "the outcome is unknown": (lambda w, s, r: w.mover.end_op("unresolved"), "TRANSPORT_UNRESOLVED"),
    "not ready, and never will be": (lambda w, s, r: s.abort("not ready"), "ABORTED"),
    "the plan is empty": (_nothing, "PLAN_REFUSED"),
    "the peer is gone": (lambda w, s, r: (w.crash("p"), w.advance(TIMING.lost)), "PEER_LOST"),
}


@case("C06")
@PUSH
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("half", [False, True], ids=["first part", "second part"])
def test_every_answer_to_a_transfer_reaches_the_engine(push: bool, answer: str, half: bool) -> None:
    world = Shadow(push).linked()
    s, r = at(world, "half done" if half else "in flight")
    act, cause = ANSWERS[answer]
    act(world, s, r)
    world.run()
    assert failed(r) == cause
    assert r.states[-1] is KVPoll.Failed, "the engine was told"
    if answer != "the peer is gone":
        assert s.state is KVPoll.Failed
    world.finish()
    world.advance(10_000)
    assert world.d.idle() == {}


@case("C06")
@PUSH
def test_a_transfer_of_no_pages_at_all_is_a_success_and_no_crash(push: bool) -> None:
    world = Shadow(push).linked()
    s, r = world.both(want=request(tokens=4, prefix=4))
    r.metadata()
    s.send(last=True)
    world.run()
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


# -- C12: dead and queued are told apart -------------------------------------------------------------------------------------
@case("C12")
@PUSH
def test_memory_for_a_dead_receiver_comes_back_soon_and_for_a_queued_one_it_is_kept(push: bool) -> None:
    """Fifty rooms have been prefilled and wait. The receivers of half of them are dead; the others queue for a long time."""
    world = Shadow(push, timing=replace(TIMING, total=10**7)).linked()
    dead = world.join("e")
    world.d.auto_commit = dead.auto_commit = False
    ss = [world.p.sender(room) for room in range(50)]
    rs = [(world.d if room % 2 else dead).receiver(room) for room in range(50)]
    for s in ss:
        s.send_all(2)
    if not push:  # offered: the receiver may read at any time
        for r in rs:
            r.metadata()
        world.hold()
    world.run()
    world.crash("e")
    world.advance(TIMING.lost + TIMING.beat)

    def kept(leg: Leg) -> int:
        return 2 - sum(world.p.back[leg.key, LeaseKind.COPY, no] for no in range(2))

    assert [kept(s) for s in ss[::2]] == [0] * 25, "of the dead one nothing is kept beyond the word that it is lost"
    assert {s.cause for s in ss[::2]} == {"PEER_LOST"}
    world.advance(10 * TIMING.silence)
    assert [kept(s) for s in ss[1::2]] == [2] * 25, "of the living one everything"
    for r in rs[1::2]:
        if push:
            r.metadata()
    world.finish()
    for r in rs[1::2]:
        r.commit()
    world.run()
    assert set(outcomes(*ss[1::2])) == {"Success"}
    world.ends_idle()


# -- C14: an operation that stays in progress ----------------------------------------------------------------------------------
@case("C14")
@PUSH
@pytest.mark.parametrize("end", ["fence of the operation", "fence of the peer", "it was only slow"])
def test_an_operation_that_never_ends_fails_its_room_in_time_and_is_fenced_before_memory_is_free(
    push: bool, end: str
) -> None:
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    world.mover.hold_fences = world.p.hold_fences = world.d.hold_fences = True
    stuck = next(iter(world.mover.ops))
    bystander = in_flight(world, room=8)
    world.mover.end_op("done", next(op for op in world.mover.ops if op.session in {leg.key for leg in bystander}))
    world.run()
    assert outcomes(*bystander) == ("Success", "Success"), "the other rooms of this pair go on"
    live_until(world, r, TIMING.total)
    assert outcomes(s, r) == ("Failed", "Failed")
    assert any(isinstance(out, Cancel) and out.op == stuck for out in world.mover.outputs), (
        "the transport is asked to end it"
    )
    memory = (world.p, s, LeaseKind.COPY) if push else (world.d, r, LeaseKind.BUFFER)
    assert not memory[0].back[memory[1].key, memory[2], 0], "nothing is free for a timeout alone"
    match end:
        case "fence of the operation":
            world.mover.end_op("unresolved", stuck)  # all that the transport knows when it is asked to end it
            assert any(isinstance(out, FenceOp) and out.op == stuck for out in world.mover.outputs)
        case "fence of the peer":
            world.mover.declare_lost()
        case _:
            world.mover.end_op("done", stuck)
    world.finish()
    world.ends_idle(TIMING.total)
    again = world.both(9)
    again[1].metadata()
    again[0].send_all(2)
    world.run()
    assert set(outcomes(*again)) == {"Success"}, "the pair is not given up for one stuck operation"


# -- C15: whose deadline is longer ---------------------------------------------------------------------------------------------
@case("C15")
@pytest.mark.parametrize("total", [4, 60, 3_600])
@pytest.mark.parametrize("margin", [2.5, 30])
def test_a_sender_always_has_more_time_than_the_receiver_that_decides(total: float, margin: float) -> None:
    durations = Durations.model_validate({"total": total, "sender_margin": margin, "pairing": total, "silence": total})
    p, d = durations.timing(Role.PREFILL), durations.timing(Role.DECODE)
    assert p.total == d.total + round(1000 * margin)
    ends = [registration(r.value, deadlines=durations.deadlines(r)) for r in (Role.PREFILL, Role.DECODE)]
    assert compare(*ends, role="prefill").ok
    assert compare(*reversed(ends), role="decode").ok


@case("C15")
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_pair_whose_sender_would_give_up_first_is_refused_by_both_ends(role: str) -> None:
    """A leg with two seconds for a request that may take minutes."""
    long, short = Durations(), Durations(total=2, sender_margin=2, silence=2, pairing=2)
    p = registration("prefill", deadlines=short.deadlines(Role.PREFILL))
    d = registration("decode", deadlines=long.deadlines(Role.DECODE))
    verdict = compare(p, d, role="prefill") if role == "prefill" else compare(d, p, role="decode")
    assert "deadlines.total" in verdict.refused


@case("C15")
@PUSH
@every_stage
@pytest.mark.parametrize("dropped", ["sender", "receiver"])
def test_a_router_that_drops_one_leg_ends_the_pair(push: bool, stage: str, dropped: str) -> None:
    world = Shadow(push).linked()
    s, r = at(world, stage)
    mine, other = (s, r) if dropped == "sender" else (r, s)
    mine.abort("the router's deadline", 504)
    live_until(world, other, TIMING.resend)
    assert (failed(other), other.details["status"]) == ("ABORTED", 504)
    world.finish()
    world.ends_idle()
