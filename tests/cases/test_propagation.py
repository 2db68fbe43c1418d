"""Cases D: one leg fails, and the other one has to hear of it. And G06: so has every rank."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.outputs import OfferPart, Submit
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Announce, Metadata, Status

from ..protocol.pair import TIMING, Leg, part, request
from .frame import case
from .rooms import PATIENT, PUSH
from .shadow import Shadow, outcomes
from .stages import at, every_stage, failed, live_until

#: Ways for the prefill leg of a request to fail without data: what happens at the prefill end, and the time within which the
#: decode end must hear of it.
PREFILL_FAILS: dict[str, tuple[Callable[[Shadow], object], int]] = {
    "the request was refused (4xx)": (lambda w: w.p.sender().abort("prompt too long", 400), TIMING.resend),
    "the engine failed (5xx)": (lambda w: w.p.sender().abort("out of memory", 500), TIMING.resend),
    "the process takes no more rooms": (lambda w: w.p.core.drain(5_000), TIMING.resend),
    "the process stops": (lambda w: (w.p.sender(), w.p.core.shutdown(), w.p.core.close_links()), TIMING.lost),
    "the process died": (lambda w: w.crash("p"), max(TIMING.lost, TIMING.hello) + TIMING.beat),
    "another request came instead": (lambda w: w.p.sender(want=request(digest=b"another")), TIMING.pairing),
    "nothing was ever sent there": (lambda w: None, TIMING.pairing),
}


def settle(world: Shadow) -> None:
    for process in world.processes.values():
        process.settle()


@case("D01", "D03")
@PUSH
@pytest.mark.parametrize("how", PREFILL_FAILS)
@pytest.mark.parametrize("order", ["decode waits already", "decode comes later"])
@pytest.mark.parametrize("pages", [False, True], ids=["no pages", "pages"])
def test_a_prefill_leg_that_fails_ends_the_decode_leg_with_its_cause_within_a_bound(
    push: bool, how: str, order: str, pages: bool
) -> None:
    fails, bound = PREFILL_FAILS[how]
    world = Shadow(push).linked()

    def receiver() -> Leg:
        leg = world.d.receiver()
        if pages:
            leg.metadata(aux=0)
        return leg

    if order == "decode comes later":
        fails(world)
        settle(world)
        world.run()
        r = receiver()
    else:
        r = receiver()
        world.run()
        fails(world)
        settle(world)
    bound = bound if "takes no more rooms" not in how or order == "decode comes later" else TIMING.pairing
    live_until(world, r, bound)
    assert r.state is KVPoll.Failed
    if how.endswith("xx)"):
        assert (failed(r), r.details["status"]) == ("ABORTED", 400 if "4xx" in how else 500)
    if how == "another request came instead":
        assert r.details["fields"] == "digest"
    world.finish()
    world.advance(2 * TIMING.pairing)
    assert world.d.idle() == {}, "the slot is free"


@case("D01", "D03")
@PUSH
@pytest.mark.parametrize("lost", [(), ("Abort",), ("Announce",), ("Announce", "Abort"), ("Status",)], ids=" ".join)
@pytest.mark.parametrize("first", ["prefill", "decode"])
def test_no_lost_word_keeps_a_failed_leg_from_being_heard_of(push: bool, lost: tuple[str, ...], first: str) -> None:
    """The gateway threw the result of the prefill leg away, and the first word of each kind is lost on top of that."""
    world = Shadow(push).linked()
    if first == "prefill":
        s, r = world.p.sender(), world.d.receiver()
    else:
        r, s = world.d.receiver(), world.p.sender()
    s.abort("500", 500)
    missing = list(lost)
    while world.wire or missing:
        if not world.wire:
            before = len(missing)
            world.advance(TIMING.resend, run=False)
            if not world.wire and before == len(missing):
                break
        elif world.wire[0].kind in missing:
            missing.remove(world.wire[0].kind)
            world.drop()
        else:
            world.deliver()
    live_until(world, r, 4 * TIMING.resend)
    assert (failed(r), r.details["status"]) == ("ABORTED", 500)
    world.ends_idle()


@case("D01")
@PUSH
@every_stage
@pytest.mark.parametrize("order", ["in order", "abort first"])
def test_a_decode_leg_that_fails_ends_the_prefill_leg_within_a_bound(push: bool, stage: str, order: str) -> None:
    world = Shadow(push).linked()
    s, r = at(world, stage)
    r.abort("client went away", 499)
    if order == "abort first":
        world.wire.reverse()
    overtaken = stage == "created" and order == "abort first"
    # Overtaken by its own abort, an announcement is recognised and pairs with nobody: the leg ends as one without a partner.
    live_until(world, s, TIMING.pairing if overtaken else TIMING.resend)
    assert failed(s) == ("NO_ANNOUNCE" if overtaken else "ABORTED")
    world.finish()
    world.ends_idle()


# -- D04 -------------------------------------------------------------------------------------------------------------------
@case("D04")
@PUSH
@pytest.mark.parametrize("sent", range(1, 8))
@pytest.mark.parametrize("by", ["decode", "prefill"])
@pytest.mark.parametrize("gathered", [True, False], ids=["gathered", "being computed"])
def test_after_a_cancel_nothing_more_is_started_or_kept_for_the_room(
    push: bool, sent: int, by: str, gathered: bool
) -> None:
    """A prompt of eight chunks. The client goes after some of them; the prefill engine hears of it by itself."""
    world = Shadow(push).linked()
    s, r = world.both(want=request(8))
    r.metadata()
    world.run()
    nos = [no for at in range(sent) for no in s.send(part(at, at + 1), gathered=gathered)]
    world.run()
    (r if by == "decode" else s).abort("client went away")
    world.run()
    assert s.state is KVPoll.Failed, "poll() says so: the engine drops the request instead of computing the rest"
    world.forget()
    if not gathered:
        s.gathered(*nos)
    for at_ in range(sent, 8):
        assert s.send(part(at_, at_ + 1), last=at_ == 7) == (), "and nothing is kept of what it sends nevertheless"
    world.run()
    world.advance(TIMING.total)
    started = [out for out in world.p.outputs + world.d.outputs if isinstance(out, Submit | OfferPart)]
    assert not started
    assert world.p.idle() == world.d.idle() == {}


@case("D04")
@PUSH
def test_work_for_a_room_that_was_cancelled_holds_up_no_later_one(push: bool) -> None:
    """The long room had every credit and more parts waiting: the short one behind it gets them at once."""
    world = Shadow(push, credits=2).linked()
    s, r = world.both(1, request(64))
    r.metadata()
    world.run()
    world.hold()
    s.send_all(*range(1, 64))
    short = world.both(2, request(2))
    short[1].metadata()
    short[0].send_all(1)
    world.run()
    r.abort("client went away")
    world.run()
    for _ in range(2):
        world.mover.end_op("failed", next(op for op in world.mover.ops if op.session.no in (s.key.no, r.key.no)))
    world.run()
    in_flight = [op for _, op in world.operations()]
    assert len(in_flight) == 2
    assert {op.session for op in in_flight} <= {leg.key for leg in short}
    world.finish()
    assert outcomes(*short) == ("Success", "Success")
    world.ends_idle()


# -- G06 -------------------------------------------------------------------------------------------------------------------
def ranks(world: Shadow, count: int) -> list[Leg]:
    """One attempt of a receiver engine with so many ranks; rank 0 is ``d``."""
    others = [world.join(f"d{n}", engine=world.d.config.engine, rank=n) for n in range(1, count)]
    for process in (world.d, *others):
        process.auto_commit = False
    return [process.receiver(gen=5) for process in (world.d, *others)]


FAILURES: dict[str, Callable[[Shadow, Leg, list[Leg]], object]] = {
    "a transfer with one rank fails": lambda w, s, rs: (w.p if w.push else w.d).end_op("failed", detail="rank 0"),
    "the sender gives up": lambda w, s, rs: s.abort("rank 0"),
    "the first rank gives up": lambda w, s, rs: rs[0].abort("rank 0"),
    "the last rank gives up": lambda w, s, rs: rs[-1].abort("rank 0"),
    "the sender's process stops": lambda w, s, rs: (w.p.core.shutdown(), w.p.settle()),
}


@case("G06")
@PUSH
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("lost", [False, True], ids=["nothing lost", "every first word lost"])
def test_a_failure_with_one_rank_is_told_to_every_rank(push: bool, count: int, how: str, lost: bool) -> None:
    world = Shadow(push, timing=PATIENT).linked()
    s, rs = world.p.sender(ranks=count), ranks(world, count)
    for r in rs:
        r.metadata()
    world.run()
    world.hold()
    s.send_all(2)
    world.run()
    FAILURES[how](world, s, rs)
    if lost:
        world.wire.clear()
    for leg in (s, *rs):
        live_until(world, leg, 3 * TIMING.resend)
        assert leg.state is KVPoll.Failed
    causes = {failed(leg) for leg in (s, *rs)}
    assert len(causes) == 1, "all of them name the first cause"
    world.finish()
    world.ends_idle()


@case("G06")
@PUSH
@pytest.mark.parametrize(("count", "late"), [(2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("how", ["the sender gives up", "the first rank gives up"])
@pytest.mark.parametrize("first_word", ["Announce", "Status"])
@pytest.mark.parametrize("after", [0, 5_000])
def test_a_rank_that_comes_after_the_failure_hears_of_it_and_creates_nothing(
    push: bool, count: int, late: int, how: str, first_word: str, after: int
) -> None:
    """Some ranks of the attempt have not announced it yet when it fails: the others' clean-up must not make it unknown."""
    world = Shadow(push, timing=PATIENT).linked()
    s = world.p.sender(ranks=count)
    s.send_all(2)
    rs = ranks(world, count - late)
    world.run()
    FAILURES[how](world, s, rs)
    world.advance(after)
    for number in range(count - late, count):
        process = world.join(f"d{number}", engine=world.d.config.engine, rank=number)
        leg = process.receiver(gen=5)
        leg.metadata()
        if first_word == "Status":  # its first word is lost; what it says again has all its facts
            while not any(isinstance(f.message, Announce | Metadata) for f in world.wire):
                world.deliver()
            world.wire = [f for f in world.wire if not isinstance(f.message, Announce | Metadata)]
            world.advance(TIMING.resend, run=False)
            assert any(isinstance(f.message, Status) for f in world.wire)
        assert live_until(world, leg, TIMING.resend) <= TIMING.resend
        assert failed(leg) == "ABORTED"
        assert leg.details["reason"] == "rank 0"
    assert world.p.core.gauges()["half_open"] == 0
    again = world.p.sender(want=request(digest=b"the next one"))
    with pytest.raises(LocalProtocolError):
        world.p.sender()
    again.abort()
    world.ends_idle(2 * TIMING.pairing)


@case("G06")
@PUSH
def test_a_rank_that_never_comes_is_waited_for_no_longer_than_the_pairing_deadline(push: bool) -> None:
    world = Shadow(push).linked()
    s = world.p.sender(ranks=2)
    (r,) = ranks(world, 1)
    world.run()
    s.abort("enough")
    world.run()
    assert outcomes(s, r) == ("Failed", "Failed")
    world.advance(TIMING.pairing)
    assert world.p.idle() == {}


@case("G06")
@PUSH
@pytest.mark.parametrize(("first", "second"), list(product(range(3), repeat=2)))
def test_whichever_ranks_fail_together_every_rank_ends_and_every_abort_is_answered(
    push: bool, first: int, second: int
) -> None:
    world = Shadow(push).linked()
    s, rs = world.p.sender(ranks=3), ranks(world, 3)
    for r in rs:
        r.metadata()
    world.run()
    world.hold()
    s.send_all()
    world.run()
    rs[first].abort("one")
    rs[second].abort("two")
    world.run()
    assert set(outcomes(s, *rs)) == {"Failed"}
    world.finish()
    world.ends_idle()
