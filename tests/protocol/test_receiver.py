"""The receiver session, driven through a real core with a real sender core at the other end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.outputs import Expose, Ready, Submit
from kvpoll.protocol.receiver import AUX_NBYTES
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import (
    Close,
    Message,
    Metadata,
    Offer,
    Part,
    PartDone,
    PartKind,
    Query,
    Reason,
    Refusal,
    RoomMessage,
    Status,
)

from .pair import TIMING, Leg, Pair, part, request


@pytest.fixture(params=[True, False], ids=["push", "pull"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param).linked()


def bound(pair: Pair, tokens: int = 4, aux: int | None = None, gates: tuple[str, ...] = ()) -> tuple[Leg, Leg]:
    s, r = pair.both(want=request(tokens))
    r.metadata(aux, gates)
    pair.run()
    assert s.state is r.state is KVPoll.WaitingForInput
    return s, r


def whole(pair: Pair, gates: tuple[str, ...] = ()) -> tuple[Leg, Leg]:
    """Everything is here, nothing was committed."""
    pair.d.auto_commit = False
    s, r = bound(pair, gates=gates)
    s.send_all(2)
    pair.run()
    assert r.state is KVPoll.Transferring
    return s, r


# -- orders of arrival -------------------------------------------------------------------------------------------------------
def test_the_attempt_is_announced_before_pages_are_owned(pair: Pair) -> None:
    _, r = pair.both()
    assert pair.kinds() == ["Announce"]
    assert r.state is KVPoll.Bootstrapping


def test_a_receiver_that_owns_pages_before_the_link_is_open_says_so_in_one_message(pair: Pair) -> None:
    pair = Pair(pair.push)
    s, r = pair.both()
    r.metadata()
    s.send_all()
    pair.run()
    assert r.state is s.state is KVPoll.Success
    assert type(next(m for m in pair.d.said if isinstance(m, RoomMessage))) is Metadata


def test_the_buffer_is_exposed_before_anybody_hears_of_it() -> None:
    pair = Pair(push=True).linked()
    _, r = pair.both()
    r.metadata()
    exposed = [out for out in pair.d.outputs if isinstance(out, Expose)]
    assert len(exposed) == 1
    assert exposed[0].max_nbytes == 4 + AUX_NBYTES
    assert "Metadata" in pair.kinds()


# -- META --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("when", ["bootstrapping", "waiting", "transferring"])
def test_pages_are_handed_over_once(pair: Pair, when: str) -> None:
    if when == "bootstrapping":
        pair = Pair(pair.push)
        _, r = pair.both()
        r.metadata()
    else:
        _, r = bound(pair) if when == "waiting" else whole(pair)
    before = r.rec
    with pytest.raises(LocalProtocolError, match="once per attempt"):
        r.metadata()
    assert r.rec == before


def test_pages_that_are_handed_to_a_failed_room_come_back_at_once(pair: Pair) -> None:
    _, r = pair.both()
    r.abort()
    r.metadata(aux=3)
    kinds = {kind for key, kind, _ in pair.d.back if key == r.key}
    assert {LeaseKind.PAGES, LeaseKind.AUX, LeaseKind.BUFFER} <= kinds
    pair.run()
    pair.ends_idle()


# -- commit ------------------------------------------------------------------------------------------------------------------
def test_commit_is_refused_before_anything_arrived(pair: Pair) -> None:
    _, r = pair.both()
    for step in (lambda: None, r.metadata, pair.run):
        step()
        before = r.rec
        with pytest.raises(LocalProtocolError, match="nothing has arrived"):
            r.begin_commit()
        assert r.rec is before


def test_commit_is_refused_while_a_part_is_missing(pair: Pair) -> None:
    s, r = bound(pair)
    s.send(part(0, 2))
    pair.run()
    assert r.state is KVPoll.Transferring
    before = r.rec
    with pytest.raises(LocalProtocolError, match="not everything is here"):
        r.begin_commit()
    assert r.rec is before


def test_commit_is_refused_twice_and_after_success(pair: Pair) -> None:
    _, r = whole(pair)
    r.begin_commit()
    with pytest.raises(LocalProtocolError, match="being committed"):
        r.begin_commit()
    r.end_commit()
    assert r.state is KVPoll.Success
    with pytest.raises(LocalProtocolError, match="committed already"):
        r.begin_commit()


def test_commit_is_refused_in_a_failed_room(pair: Pair) -> None:
    _, r = whole(pair)
    r.abort()
    with pytest.raises(LocalProtocolError, match="failure_exception"):
        r.begin_commit()


def test_success_follows_the_commit_and_nothing_else(pair: Pair) -> None:
    s, r = whole(pair)
    pair.advance(TIMING.silence)
    assert (s.state, r.state) == (KVPoll.Transferring, KVPoll.Transferring)
    r.commit()
    pair.run()
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)


def test_a_commit_that_raises_fails_both_ends(pair: Pair) -> None:
    s, r = whole(pair)
    r.begin_commit()
    r.end_commit("ValueError: no")
    assert (r.cause, r.details["gate"], r.details["reason"]) == ("GATE_FAILED", "commit", "ValueError: no")
    pair.run()
    assert (s.state, s.details["cause"]) == (KVPoll.Failed, "GATE_FAILED")
    assert s.failure is not None
    assert not s.failure.in_doubt
    pair.ends_idle()


def test_pages_stay_lent_until_a_commit_that_was_overtaken_by_a_failure_ends(pair: Pair) -> None:
    s, r = whole(pair)
    r.begin_commit()
    s.abort()
    pair.run()
    assert r.state is KVPoll.Failed
    held = {(r.key, LeaseKind.PAGES, 0), (r.key, LeaseKind.BUFFER, 0)}
    assert not held & set(pair.d.back), "the engine reads the buffer and writes its pages right now"
    r.end_commit()
    assert held <= set(pair.d.back)
    assert r.state is KVPoll.Failed
    pair.ends_idle()


def test_once_everything_is_here_a_lost_sender_does_not_fail_the_receiver(pair: Pair) -> None:
    s, r = whole(pair)
    pair.crash("p")
    pair.advance(2 * TIMING.lost)
    assert r.state is KVPoll.Transferring
    r.commit()
    assert r.state is KVPoll.Success
    pair.advance(1)
    assert pair.d.idle() == {}
    assert s.state is KVPoll.Transferring


def test_once_everything_is_here_an_abort_of_the_sender_still_fails_the_receiver(pair: Pair) -> None:
    s, r = whole(pair)
    s.abort()
    pair.run()
    assert (r.state, r.cause) == (KVPoll.Failed, "PEER_ABORTED")


# -- gates -------------------------------------------------------------------------------------------------------------------
def test_success_waits_for_every_gate(pair: Pair) -> None:
    _, r = whole(pair, gates=("restore", "scatter"))
    assert not r.ready
    for gate, ready in (("restore", False), ("nonsense", False), ("restore", False), ("scatter", True)):
        r.open_gate(gate)
        assert r.ready is ready
    r.commit()
    assert r.state is KVPoll.Success


def test_a_gate_that_opened_before_the_data_came_does_not_hold_it_up(pair: Pair) -> None:
    s, r = bound(pair, gates=("restore",))
    r.open_gate("restore")
    s.send_all()
    pair.run()
    assert r.state is KVPoll.Success
    pair.advance(2 * TIMING.gate)
    assert r.state is KVPoll.Success


def test_commit_is_refused_while_a_gate_is_closed(pair: Pair) -> None:
    _, r = whole(pair, gates=("restore",))
    before = r.rec
    with pytest.raises(LocalProtocolError, match="a gate is closed"):
        r.begin_commit()
    assert r.rec is before


def test_ready_is_said_once(pair: Pair) -> None:
    _, r = whole(pair, gates=("restore",))
    r.open_gate("restore")
    r.open_gate("restore")
    pair.advance(TIMING.resend * 4)
    assert pair.d.outputs.count(Ready(r.key)) == 1


@pytest.mark.parametrize("when", ["bootstrapping", "waiting", "transferring"])
def test_a_gate_that_fails_fails_both_ends_naming_it(pair: Pair, when: str) -> None:
    if when == "bootstrapping":
        s, r = pair.both()
    else:
        s, r = bound(pair, gates=("restore",)) if when == "waiting" else whole(pair, gates=("restore",))
    r.fail_gate("restore", "disk is full")
    pair.run()
    assert (r.cause, r.details) == ("GATE_FAILED", {"gate": "restore", "reason": "disk is full"})
    assert (s.state, s.details["gate"]) == (KVPoll.Failed, "restore")
    pair.ends_idle()


@pytest.mark.parametrize("when", ["waiting", "transferring"])
def test_a_gate_has_a_deadline_and_the_failure_names_it(pair: Pair, when: str) -> None:
    _, r = bound(pair, gates=("a", "b")) if when == "waiting" else whole(pair, gates=("a", "b"))
    r.open_gate("a")
    pair.advance(TIMING.gate - 1)
    assert r.state is not KVPoll.Failed
    pair.advance(1)
    assert (r.state, r.cause) == (KVPoll.Failed, "GATE_TIMEOUT")
    assert r.details["waited_s"] == TIMING.gate // 1000
    assert r.details["gate"] == "b"
    pair.ends_idle()


# -- what the sender plans -------------------------------------------------------------------------------------------------------
def _plan(pair: Pair, *parts: Part) -> Message:
    """What a sender says of parts: done (push) or offered (pull)."""
    like = next(m for m in pair.p.said if isinstance(m, Status))
    names = ("link", "source", "target", "source_rank", "target_rank", "room", "engine", "gen")
    return (PartDone if pair.push else Offer)(**{n: getattr(like, n) for n in names}, parts=parts)


def _close(pair: Pair, total: int) -> Message:
    like = next(m for m in pair.p.said if isinstance(m, Status))
    names = ("link", "source", "target", "source_rank", "target_rank", "room", "engine", "gen")
    return Close(**{n: getattr(like, n) for n in names}, total=total)


BAD_PARTS: dict[str, tuple[Callable[[Part], Part], str]] = {
    "another dtype": (lambda p: replace(p, dtype="float32"), "part.dtype"),
    "too few bytes": (lambda p: replace(p, shape=(1, 1)), "part.shape"),
    "too many bytes": (lambda p: replace(p, shape=(1, 99)), "part.shape"),
    "no shape": (lambda p: replace(p, shape=()), "part.shape"),
    "wider dtype": (lambda p: replace(p, dtype="uint16"), "part.shape"),
    "past the end": (lambda p: replace(p, stop=9), "part.start, part.stop"),
    "backwards": (lambda p: replace(p, start=2, stop=1), "part.start, part.stop"),
    "foreign layers": (lambda p: replace(p, layer_stop=2), "part.layers"),
    "a number past the limit": (lambda p: replace(p, no=4096), "part.no"),
    "an empty aux part": (lambda p: replace(p, kind=PartKind.AUX, shape=(0,)), "part.shape"),
    "a huge aux part": (lambda p: replace(p, kind=PartKind.AUX, shape=(1 << 20,)), "part.shape"),
}


@pytest.mark.parametrize("bad", BAD_PARTS)
@pytest.mark.parametrize("first", [True, False], ids=["first part", "second part"])
def test_a_part_that_cannot_be_in_the_plan_fails_the_room_naming_the_field(pair: Pair, bad: str, first: bool) -> None:
    change, field = BAD_PARTS[bad]
    s, r = bound(pair)
    pair.d.hold_ops = True
    if not first:
        pair.inject(pair.d, _plan(pair, part(0, 2, key=5)))
    pair.inject(pair.d, _plan(pair, change(part(2, 4, no=1, key=6))))
    assert (r.state, r.cause, r.details["field"]) == (KVPoll.Failed, "PLAN_REFUSED", field)
    assert r.details["expected"]
    assert not [out for out in pair.d.outputs if isinstance(out, Submit) and out.part.no == 1]
    pair.d.hold_ops = False
    pair.run()
    assert (s.state, s.details["field"]) == (KVPoll.Failed, field)
    pair.ends_idle()


def test_a_pull_part_without_a_key_is_refused() -> None:
    pair = Pair(push=False).linked()
    _, r = bound(pair)
    pair.inject(pair.d, _plan(pair, part(0, 4)))
    assert (r.cause, r.details["field"]) == ("PLAN_REFUSED", "part.key")


def test_a_part_that_is_told_again_with_other_ranges_fails_the_room(pair: Pair) -> None:
    _, r = bound(pair)
    pair.d.hold_ops = True
    pair.inject(pair.d, _plan(pair, part(0, 2, key=5)))
    before = r.rec
    pair.inject(pair.d, _plan(pair, part(0, 2, key=5)))
    assert replace(r.session.rec, timers=()) == replace(before, timers=())  # type: ignore[type-var]
    pair.inject(pair.d, _plan(pair, part(0, 3, key=5)))
    assert (r.cause, r.details["field"]) == ("PLAN_REFUSED", "part 0")


def test_a_token_that_two_parts_carry_fails_the_room(pair: Pair) -> None:
    _, r = bound(pair)
    pair.d.hold_ops = True
    pair.inject(pair.d, _plan(pair, part(0, 3, key=5), part(2, 4, no=1, key=6)))
    assert (r.cause, r.details["field"]) == ("PLAN_REFUSED", "part.start")


def test_totals_that_disagree_fail_the_room(pair: Pair) -> None:
    _, r = bound(pair)
    pair.inject(pair.d, _close(pair, 3))
    pair.inject(pair.d, _close(pair, 3))
    assert r.state is KVPoll.Transferring
    pair.inject(pair.d, _close(pair, 2))
    assert (r.cause, r.details["field"], r.details["expected"]) == ("PLAN_REFUSED", "total", "3")


def test_a_total_below_the_parts_that_were_told_fails_the_room(pair: Pair) -> None:
    _, r = bound(pair)
    pair.d.hold_ops = True
    pair.inject(pair.d, _plan(pair, part(0, 1, key=5), part(1, 2, no=1, key=6)))
    pair.inject(pair.d, _close(pair, 1))
    assert (r.cause, r.details["field"]) == ("PLAN_REFUSED", "total")


def test_a_part_number_past_the_total_fails_the_room(pair: Pair) -> None:
    _, r = bound(pair)
    pair.inject(pair.d, _close(pair, 1))
    pair.inject(pair.d, _plan(pair, part(0, 2, no=1, key=5)))
    assert (r.cause, r.details["field"]) == ("PLAN_REFUSED", "part.no")


def test_a_closed_plan_that_leaves_tokens_out_is_never_a_success(pair: Pair) -> None:
    _, r = bound(pair)
    pair.d.hold_ops = True
    pair.inject(pair.d, _plan(pair, part(0, 3, key=5)))
    pair.inject(pair.d, _close(pair, 1))
    assert (r.state, r.cause) == (KVPoll.Failed, "PLAN_REFUSED")
    assert "tokens from 3" in str(r.details["got"])


def test_an_empty_plan_for_a_request_with_tokens_is_never_a_success(pair: Pair) -> None:
    _, r = bound(pair)
    pair.inject(pair.d, _close(pair, 0))
    assert (r.state, r.cause) == (KVPoll.Failed, "PLAN_REFUSED")


def test_data_before_META_fails_the_room(pair: Pair) -> None:
    _, r = pair.both()
    pair.run()
    pair.inject(pair.d, _plan(pair, part(0, 4, key=5)))
    assert (r.state, r.cause) == (KVPoll.Failed, "PROTOCOL")
    pair.run()
    pair.ends_idle()


def test_each_part_is_pulled_once_however_often_it_is_offered() -> None:
    pair = Pair(push=False).linked()
    pair.d.hold_ops = True
    s, _ = bound(pair)
    s.send_all(2)
    while pair.wire:
        flight = pair.find()
        if flight.kind == "Offer":
            pair.copy("Offer")
        pair.deliver()
    assert len([out for out in pair.d.outputs if isinstance(out, Submit)]) == 2


def test_a_pull_that_fails_fails_the_room_and_waits_for_its_siblings() -> None:
    pair = Pair(push=False).linked()
    pair.d.hold_ops = True
    s, r = bound(pair)
    s.send_all(2)
    pair.run()
    pair.d.end_op("failed", detail="refused")
    assert (r.cause, r.details["detail"]) == ("TRANSPORT_FAILED", "refused")
    assert (r.key, LeaseKind.BUFFER, 0) not in pair.d.back
    pair.d.end_op("done")
    assert pair.d.back[r.key, LeaseKind.BUFFER, 0] == 1
    pair.run()
    assert (s.state, s.details["cause"]) == (KVPoll.Failed, "TRANSPORT_FAILED")
    pair.ends_idle()


def test_an_unresolved_pull_keeps_the_source_until_it_is_fenced() -> None:
    pair = Pair(push=False).linked()
    pair.d.hold_ops = pair.d.hold_fences = True
    s, r = bound(pair)
    s.send_all()
    pair.run()
    pair.d.end_op("unresolved")
    pair.run()
    assert (r.cause, s.cause) == ("TRANSPORT_UNRESOLVED", "PEER_ABORTED")
    assert (s.key, LeaseKind.COPY, 0) not in pair.p.back
    assert (r.key, LeaseKind.BUFFER, 0) not in pair.d.back
    pair.d.hold_fences = False
    pair.run()
    assert pair.d.back[r.key, LeaseKind.BUFFER, 0] == 1
    pair.ends_idle()
    assert pair.p.back[s.key, LeaseKind.COPY, 0] == 1


@pytest.mark.parametrize("how", ["missing", "aux"])
def test_data_that_is_not_what_was_called_done_fails_before_the_commit(pair: Pair, how: str) -> None:
    s, r = whole(pair)
    if how == "missing":
        pair.d.core.call(r.key, lambda x: x.data_missing(0, 2, 1))
    else:
        pair.d.core.call(r.key, lambda x: x.aux_mismatch("room 7", "wrong"))
    pair.d.settle()
    assert r.cause == {"missing": "DATA_MISSING", "aux": "AUX_MISMATCH"}[how]
    assert (r.details["expected"], r.details["got"]) in ((2, 1), ("room 7", "wrong"))
    with pytest.raises(LocalProtocolError):
        r.begin_commit()
    pair.run()
    assert s.state is KVPoll.Failed
    pair.ends_idle()


# -- refusals ----------------------------------------------------------------------------------------------------------------
def test_a_refusal_of_an_unknown_reason_changes_nothing(pair: Pair) -> None:
    _, r = bound(pair)
    like = next(m for m in pair.p.said if isinstance(m, Status))
    before = r.rec
    refusal = Refusal(
        reason=999,
        link=like.link,
        source=like.source,
        target=like.target,
        room=like.room,
        engine=like.engine,
        gen=like.gen,
    )
    pair.inject(pair.d, refusal)
    assert r.rec == before


@pytest.mark.parametrize("reason", [Reason.NO_LEG, Reason.ROOM_BUSY, Reason.LIMIT, Reason.DRAINING])
def test_a_refused_room_is_over_at_once_and_its_memory_comes_back(pair: Pair, reason: Reason) -> None:
    r = pair.d.receiver()
    r.metadata(aux=1)
    pair.wire.clear()
    (record,) = pair.d.core.links.table.values()
    refusal = Refusal(
        reason=reason, fields=("tokens",), link=record.link, source=record.instance, target=pair.d.instance, room=r.room,
        engine=pair.d.config.engine, gen=r.key.no,
    )  # fmt: skip
    pair.inject(pair.d, refusal)
    assert r.state is KVPoll.Failed
    assert r.cause == ("ROOM_BUSY" if reason is Reason.ROOM_BUSY else "NO_LEG")
    assert pair.d.idle() == {}


def test_a_receiver_answers_a_query_in_every_state(pair: Pair) -> None:
    s, r = pair.both()
    pair.run()
    answers = []

    def ask() -> None:
        before = len(pair.d.said)
        pair.p.core.call(s.key, lambda x: x.send_query())
        pair.p.settle()
        assert isinstance(pair.find("Query", to="d").message, Query)
        pair.run()
        answers.extend(m.facts.state for m in pair.d.said[before:] if isinstance(m, Status))

    pair.d.auto_commit = False
    ask()
    r.metadata()
    pair.run()
    ask()
    s.send_all()
    pair.run()
    ask()
    assert answers == [KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring]
    r.commit()
    pair.run()
    pair.p.core.call(s.key, lambda x: x.send_query())
    pair.p.settle()
    pair.run()
    assert type(pair.d.said[-1]).__name__ == "AbortAck", (
        "an attempt that is forgotten is over: nothing can touch memory"
    )
    assert pair.d.said[-1].low_water is not UNSET
