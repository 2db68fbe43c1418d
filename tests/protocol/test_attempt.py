"""What both ends share: failures that travel, acknowledgements, leases, deadlines, loss and restart of an attempt."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kvpoll.protocol.records import Deadline, LeaseKind
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Abort, AbortAck

from .pair import ROOM, TIMING, Broken, Leg, Pair, request

#: The leg ends before the attempt is heard of: see test_an_abort_before_ANNOUNCE_arrives_reaches_the_receiver.
EARLY = ("created", "sender")
STAGES = ("created", "bound", "waiting", "sent", "in flight", "half done", "whole")


@pytest.fixture(params=[True, False], ids=["push", "pull"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param).linked()


def at_stage(pair: Pair, stage: str) -> tuple[Leg, Leg]:
    """A room brought to a point of its life; from there on operations end only when they are told to."""
    pair.d.auto_commit = False
    s, r = pair.both()
    if stage == "created":
        return s, r
    pair.run()
    if stage == "bound":
        return s, r
    r.metadata(aux=0)
    pair.run()
    if stage == "waiting":
        return s, r
    pair.p.hold_ops = pair.d.hold_ops = True
    s.send_all(2)
    if stage == "sent":
        return s, r
    pair.run()
    if stage == "in flight":
        return s, r
    (pair.p if pair.push else pair.d).end_op("done")
    pair.run()
    if stage == "half done":
        return s, r
    (pair.p if pair.push else pair.d).end_op("done")
    pair.run()
    return s, r


def finish(pair: Pair) -> None:
    pair.p.hold_ops = pair.d.hold_ops = False
    pair.run()


# -- aborts ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("stage", "who"), [(a, b) for a in STAGES for b in ("sender", "receiver", "both") if (a, b) != EARLY]
)
def test_an_abort_fails_both_ends_with_its_reason_and_every_lease_comes_back_once(
    pair: Pair, stage: str, who: str
) -> None:
    s, r = at_stage(pair, stage)
    if who in ("sender", "both"):
        s.abort("by prefill", 400)
    if who in ("receiver", "both"):
        r.abort("by decode")
    finish(pair)
    aborted, told = (s, r) if who == "sender" else (r, s)
    assert (aborted.state, aborted.cause) == (KVPoll.Failed, "ABORTED")
    assert told.state is KVPoll.Failed
    if who == "both":
        assert told.cause == "ABORTED"
    else:
        assert (told.cause, told.details["cause"]) == ("PEER_ABORTED", "ABORTED")
        assert told.details["reason"] == aborted.details["reason"]
    pair.ends_idle()


@pytest.mark.parametrize("stage", [s for s in STAGES if s != "created"])
def test_every_ABORT_is_acknowledged_and_again_when_it_is_said_again(pair: Pair, stage: str) -> None:
    s, r = at_stage(pair, stage)
    r.abort()
    abort = pair.copy("Abort", to="p")
    finish(pair)
    assert any(isinstance(m, AbortAck) and not m.quarantined for m in pair.p.said)
    pair.forget()
    pair.inject(pair.p, abort)
    assert any(isinstance(m, AbortAck) for m in pair.p.said)
    assert s.state is KVPoll.Failed


@pytest.mark.parametrize("who", ["sender", "receiver"])
@pytest.mark.parametrize("stage", STAGES)
def test_aborting_twice_changes_nothing(pair: Pair, stage: str, who: str) -> None:
    s, r = at_stage(pair, stage)
    leg = s if who == "sender" else r
    leg.abort("first")
    failure = leg.failure
    leg.abort("second")
    finish(pair)
    leg.abort("third")
    assert leg.failure == failure
    pair.ends_idle(TIMING.pairing + 10_000)


def test_an_abort_before_ANNOUNCE_arrives_reaches_the_receiver(pair: Pair) -> None:
    s, r = at_stage(pair, "created")
    s.abort("the prompt is too long", 400)
    finish(pair)
    pair.advance(5_000)
    assert (r.state, r.cause, r.details["status"]) == (KVPoll.Failed, "PEER_ABORTED", 400)


def test_an_abort_is_said_again_until_it_is_acknowledged(pair: Pair) -> None:
    _, r = at_stage(pair, "waiting")
    r.abort()
    for _ in range(3):
        assert pair.drop("Abort" if _ == 0 else "Status", to="p")
        pair.advance(TIMING.resend, run=False)
    finish(pair)
    pair.ends_idle()


def test_destination_memory_waits_for_the_senders_drain_word() -> None:
    pair = Pair(push=True).linked()
    s, r = at_stage(pair, "in flight")
    r.abort()
    pair.run()
    buffer = (r.key, LeaseKind.BUFFER, 0)
    assert s.state is KVPoll.Failed
    assert buffer not in pair.d.back
    pair.p.end_op("failed")
    pair.run()
    assert buffer not in pair.d.back
    pair.p.end_op("done")
    pair.run()
    assert pair.d.back[buffer] == 1


def test_memory_that_a_transport_writes_directly_waits_too() -> None:
    pair = Pair(push=True, direct=True).linked()
    _, r = at_stage(pair, "in flight")
    r.abort()
    pair.run()
    pages = {(r.key, LeaseKind.PAGES, 0), (r.key, LeaseKind.AUX, 0)}
    assert not pages & set(pair.d.back)
    finish(pair)
    assert pages <= set(pair.d.back)
    pair.ends_idle()


def test_a_timeout_frees_no_memory() -> None:
    pair = Pair(push=True, timing=replace(TIMING, lost=10**9)).linked()
    _, r = at_stage(pair, "in flight")
    pair.advance(TIMING.total + 1)
    assert (r.state, r.cause) in ((KVPoll.Failed, "SILENCE"), (KVPoll.Failed, "TOTAL_DEADLINE"))
    assert (r.key, LeaseKind.BUFFER, 0) not in pair.d.back
    finish(pair)
    pair.ends_idle()


# -- deadlines -------------------------------------------------------------------------------------------------------------
DEADLINES: dict[str, tuple[str, int, str]] = {
    "a leg that nobody announces": ("sender", TIMING.pairing, "NO_ANNOUNCE"),
    "an announcement without a leg": ("receiver", TIMING.pairing * 7 // 8, "NO_LEG"),
}


@pytest.mark.parametrize("case", DEADLINES)
def test_a_room_of_which_one_leg_never_comes_ends_within_the_pairing_deadline(pair: Pair, case: str) -> None:
    who, due, cause = DEADLINES[case]
    leg = pair.p.sender() if who == "sender" else pair.d.receiver()
    pair.advance(due - 1)
    assert leg.state is KVPoll.Bootstrapping
    pair.advance(1)
    assert (leg.state, leg.cause) == (KVPoll.Failed, cause)
    pair.ends_idle()


def test_a_rank_that_never_comes_ends_the_others_within_the_pairing_deadline() -> None:
    pair = Pair()
    leg, receiver = pair.p.sender(ranks=2), pair.d.receiver()
    receiver.metadata()
    pair.run()
    pair.advance(TIMING.pairing - 1)
    assert (leg.state, receiver.state) == (KVPoll.Bootstrapping, KVPoll.WaitingForInput)
    pair.advance(1)
    assert (leg.state, leg.cause) == (KVPoll.Failed, "NO_ANNOUNCE")
    pair.run()
    assert (receiver.state, receiver.cause) == (KVPoll.Failed, "PEER_ABORTED")
    pair.ends_idle()


@pytest.mark.parametrize("stage", ["bound", "waiting", "whole"])
def test_every_waiting_state_ends_by_the_total_deadline_at_the_latest(pair: Pair, stage: str) -> None:
    s, r = at_stage(pair, stage)
    pair.advance(TIMING.total)
    for leg in (s, r):
        assert leg.state is KVPoll.Failed
        assert leg.cause in ("TOTAL_DEADLINE", "PEER_ABORTED")
    finish(pair)
    pair.ends_idle()


def test_nothing_rearms_the_total_deadline(pair: Pair) -> None:
    s, r = at_stage(pair, "bound")
    due = dict(s.session.rec.timers)[Deadline.TOTAL], dict(r.session.rec.timers)[Deadline.TOTAL]
    pair.advance(10_000)
    r.metadata()
    pair.run()
    s.send_all(1, 2, 3)
    pair.run()
    assert (dict(s.session.rec.timers)[Deadline.TOTAL], dict(r.session.rec.timers)[Deadline.TOTAL]) == due


def test_a_long_prefill_is_not_silence(pair: Pair) -> None:
    s, r = at_stage(pair, "waiting")
    pair.advance(TIMING.total - 10_000)
    assert (s.state, r.state) == (KVPoll.WaitingForInput, KVPoll.WaitingForInput)
    s.send_all()
    pair.run()
    r.commit()
    pair.run()
    assert s.state is r.state is KVPoll.Success


def test_a_deadline_is_judged_against_what_was_delivered_before(pair: Pair) -> None:
    pair = Pair(pair.push, timing=replace(TIMING, lost=10**9)).linked()
    s, r = at_stage(pair, "bound")
    pair.advance(TIMING.silence - 1, run=False)
    pair.run()  # an answer to the question comes in the very last moment
    pair.advance(1, run=False)
    assert (s.state, r.state) == (KVPoll.Bootstrapping, KVPoll.Bootstrapping)
    pair.wire.clear()
    pair.advance(TIMING.silence, run=False)
    assert (s.cause, r.cause) == ("SILENCE", "SILENCE")


def test_an_end_that_hears_no_room_message_fails_by_silence_and_says_so(pair: Pair) -> None:
    pair = Pair(pair.push, timing=replace(TIMING, total=10**8)).linked()
    s, r = at_stage(pair, "waiting")
    for _ in range(2 * TIMING.silence // TIMING.resend):
        pair.wire = [flight for flight in pair.wire if flight.kind in ("Heartbeat", "Abort")]
        pair.run()
        pair.advance(TIMING.resend, run=False)
    pair.run()
    assert s.state is r.state is KVPoll.Failed
    assert {s.cause, r.cause} <= {"SILENCE", "PEER_ABORTED"}
    finish(pair)
    pair.ends_idle()


# -- lost peers ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("who", ["p", "d"])
def test_the_survivor_of_a_crash_ends_the_room_and_frees_memory_after_the_fence_only(
    pair: Pair, stage: str, who: str
) -> None:
    s, r = at_stage(pair, stage)
    if stage == "created":
        pair.run()
    survivor, leg = (pair.d, r) if who == "p" else (pair.p, s)
    survivor.hold_fences = True
    pair.crash(who)
    pair.wire.clear()
    pair.advance(TIMING.lost)
    if not (stage == "whole" and who == "p"):
        assert (leg.state, leg.cause) == (KVPoll.Failed, "PEER_LOST")
    else:
        leg.commit()
        assert leg.state is KVPoll.Success
    mine = {LeaseKind.BUFFER, LeaseKind.COPY}
    touched = {lease for lease in survivor.lent if lease[1] in mine and stage in ("in flight", "half done")}
    assert stage not in ("in flight",) or not touched & set(survivor.back), "a fence comes first"
    survivor.hold_fences = False
    pair.run()
    assert survivor.idle() == {}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("who", ["p", "d"])
def test_a_peer_that_was_declared_lost_by_mistake_hears_of_it_and_both_end(pair: Pair, stage: str, who: str) -> None:
    s, r = at_stage(pair, stage)
    if stage == "created":
        pair.run()
    (pair.p if who == "p" else pair.d).declare_lost()
    finish(pair)
    assert s.state is KVPoll.Failed
    if stage == "whole":
        r.commit()
    else:
        assert (r.state, r.cause) == (KVPoll.Failed, "PEER_LOST")
    assert s.cause == "PEER_LOST"
    finish(pair)
    assert pair.p.idle() == pair.d.idle() == {}
    assert not pair.p.core.links.table
    assert not pair.d.core.links.table


def test_the_oracle_of_these_tests_sees_memory_that_goes_back_too_early() -> None:
    pair = Pair(push=True).linked()
    _, r = at_stage(pair, "in flight")
    r.abort()
    pair.wire.clear()
    told = next(m for m in pair.d.said if isinstance(m, Abort))
    lie = AbortAck(
        link=told.link, source=pair.p.instance, target=told.source, room=ROOM, engine=told.engine, gen=told.gen
    )
    with pytest.raises(Broken, match="NoFreeInFlight"):
        pair.inject(pair.d, lie)


# -- shutdown --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("stage", "who"), [(a, b) for a in STAGES for b in ("p", "d") if (a, b) != ("created", "p")])
def test_a_shutdown_fails_live_rooms_at_both_ends_and_drains(pair: Pair, stage: str, who: str) -> None:
    s, r = at_stage(pair, stage)
    process, mine, other = (pair.p, s, r) if who == "p" else (pair.d, r, s)
    process.core.shutdown()
    process.settle()
    finish(pair)
    assert (mine.state, mine.cause) == (KVPoll.Failed, "SHUTDOWN")
    assert (other.state, other.details["cause"]) == (KVPoll.Failed, "SHUTDOWN")
    pair.ends_idle()


# -- loss, copies, order ---------------------------------------------------------------------------------------------------
def _play(push: bool, spoil: Callable[[Pair, int], bool]) -> tuple[Pair, Leg, Leg, int]:
    """A whole room, where ``spoil(pair, n)`` may do something else with the n-th message than deliver it."""
    pair = Pair(push).linked()
    s, r = pair.both()
    seen = step = 0
    plan_steps = [r.metadata, lambda: s.send_all(1), lambda: None]
    while True:
        while pair.wire:
            if not spoil(pair, seen):
                pair.deliver()
            seen += 1
        if pair.step():
            continue
        if step < len(plan_steps):
            plan_steps[step]()
            step += 1
            continue
        return pair, s, r, seen


def _faults(name: str, nth: int) -> Callable[[Pair, int], bool]:
    late = []

    def spoil(pair: Pair, n: int) -> bool:
        if n != nth:
            if late and n == nth + 3:
                pair.wire.append(late.pop())
            return False
        match name:
            case "lost":
                pair.drop()
                return True
            case "copied":
                pair.copy()
            case "late":
                late.append(pair.wire.pop(0))
                return True
            case "overtaken" if len(pair.wire) > 1:
                pair.wire[0], pair.wire[1] = pair.wire[1], pair.wire[0]
        return False

    return spoil


@pytest.mark.parametrize("fault", ["lost", "copied", "late", "overtaken"])
def test_the_loss_copy_or_reordering_of_any_one_message_changes_no_outcome(pair: Pair, fault: str) -> None:
    _, _, _, messages = _play(pair.push, lambda p, n: False)
    assert messages > 8
    for nth in range(messages):
        world, s, r, _ = _play(pair.push, _faults(fault, nth))
        world.advance(5_000)
        assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success), f"{fault} message {nth}"
        world.ends_idle()


@pytest.mark.parametrize("phase", [0, 1])
def test_no_fact_is_lost_for_good_when_every_second_message_is(pair: Pair, phase: int) -> None:
    world, s, r, count = _play(pair.push, lambda p, n: n % 2 == phase and bool(p.drop()))
    for _ in range(40):
        while world.wire:
            count += 1
            world.drop() if count % 2 == phase else world.deliver()
        world.step()
        world.advance(TIMING.resend, run=False)
    world.advance(5_000)
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)
    world.ends_idle()


# -- snapshots -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ending", ["success", "abort"])
def test_a_core_restored_at_any_step_goes_on_exactly_like_the_original(pair: Pair, ending: str) -> None:
    def story(rebuild_at: int) -> tuple[list[str], list[KVPoll], list[KVPoll], int]:
        world = Pair(pair.push).linked()
        s, r = world.both(want=request(4))
        r.metadata(gates=("gate",))
        s.send_all(2)
        steps = 0
        while True:
            if steps == rebuild_at:
                world.p.rebuild()
                world.d.rebuild()
            if not world.step():
                break
            steps += 1
            if steps == 6 and ending == "abort":
                r.abort("enough")
        r.open_gate("gate")
        world.advance(10_000)
        assert world.p.idle() == world.d.idle() == {}
        said = [repr(m) for process in (world.p, world.d) for m in process.said]
        return said, s.states, r.states, steps

    untouched = story(-1)
    assert untouched[1][-1] is (KVPoll.Success if ending == "success" else KVPoll.Failed)
    for step in range(untouched[3] + 1):
        assert story(step) == untouched, f"restored at step {step}"
