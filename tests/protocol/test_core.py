"""A whole process: both orders of arrival, many rooms, isolation, draining, errors that name what was expected."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations

import pytest
from msgspec import UNSET
from msgspec.structs import fields, replace

from kvpoll.protocol.core import CoreConfig
from kvpoll.protocol.errors import KvpollError, KVTransferError, LocalProtocolError, RemoteProtocolError
from kvpoll.protocol.outputs import Dropped
from kvpoll.spec import CATALOGUE, Cause, KVPoll
from kvpoll.spec.wire import (
    Abort,
    AbortAck,
    Conclude,
    Drain,
    FailureGroup,
    Message,
    Query,
    Reason,
    Refusal,
    RoomMessage,
)  # fmt: skip

from .pair import ROOM, TIMING, Pair, part, request


@pytest.fixture(params=[True, False], ids=["push", "pull"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param).linked()


# -- orders of arrival -------------------------------------------------------------------------------------------------------
ORDERS = [
    order
    for order in permutations(("create S", "send", "create R", "pages"))
    if order.index("create S") < order.index("send") and order.index("create R") < order.index("pages")
]


@pytest.mark.parametrize("between", ["at once", "step by step", "backwards"])
@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_every_order_of_arrival_ends_in_success(push: bool, order: tuple[str, ...], between: str) -> None:
    pair = Pair(push)  # the handshake is part of it
    for step in order:
        match step:
            case "create S":
                s = pair.p.sender()
            case "send":
                s.send_all(1, 3)
            case "create R":
                r = pair.d.receiver()
            case "pages":
                r.metadata()
        if between == "step by step":
            pair.run()
    while between == "backwards" and pair.wire:
        pair.wire.reverse()
        pair.deliver()
    pair.advance(5_000)
    assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)
    pair.ends_idle()


@pytest.mark.parametrize("seed", range(40))
def test_any_shuffle_of_messages_and_operations_over_several_rooms_ends_well(seed: int) -> None:
    rng = random.Random(seed)
    pair = Pair(push=seed % 2 == 0, credits=2)
    todo: list[Callable[[], object]] = []
    legs = []
    for room in range(4):
        s, r = pair.both(room, request(3))
        legs += [s, r]
        todo += [r.metadata, lambda s=s: s.send_all(1, 2)]  # type: ignore[misc]
        if room == 3:
            todo.append(rng.choice((s, r)).abort)
    rng.shuffle(todo)
    while todo or pair.wire:
        if todo and rng.random() < 0.2:
            todo.pop()()
        elif pair.wire:
            rng.shuffle(pair.wire)
            match rng.random():
                case luck if luck < 0.1:
                    pair.drop()
                case luck if luck < 0.2:
                    pair.copy()
                case _:
                    pair.deliver()
        for process in (pair.p, pair.d):
            if process.ops and rng.random() < 0.5:
                process.end_op("done", rng.choice(list(process.ops)))
    pair.advance(20_000)
    for s, r in zip(legs[:6:2], legs[1:6:2], strict=True):
        assert (s.state, r.state) == (KVPoll.Success, KVPoll.Success)
    pair.advance(TIMING.pairing)
    pair.ends_idle()


# -- many rooms ----------------------------------------------------------------------------------------------------------------
def test_after_a_thousand_rooms_every_table_is_empty_and_every_lease_came_back_once(pair: Pair) -> None:
    for batch in range(100):
        legs = [pair.both(room) for room in range(batch * 10, batch * 10 + 10)]
        for s, r in legs:
            s.send_all(2)
            r.metadata(aux=0)
        for _, r in legs[::10]:
            r.abort()
        pair.run()
        states = [r.state for _, r in legs]
        assert (states.count(KVPoll.Success), states.count(KVPoll.Failed)) == (9, 1)
    pair.advance(5_000)
    for process in (pair.p, pair.d):
        assert process.idle() == {}
        assert sum(isinstance(out, Dropped) for out in process.outputs) == 1000
        assert process.core.links.table.keys() == {process.link}


def test_clocks_are_bounded_by_live_rooms_and_none_is_lost(pair: Pair) -> None:
    waiting = pair.d.receiver(room=9_999)
    for room in range(200):
        s, r = pair.both(room)
        s.send_all()
        r.metadata()
        pair.advance(1)
        assert r.state is KVPoll.Success
    assert len(pair.p.core.clocks) <= 64
    assert len(pair.d.core.clocks) <= 64
    pair.advance(TIMING.pairing)
    assert (waiting.state, waiting.cause) == (KVPoll.Failed, "NO_LEG")


def test_a_room_number_can_be_used_again_at_once(pair: Pair) -> None:
    for _ in range(5):
        s, r = pair.both()
        r.metadata()
        s.send_all()
        pair.run()
        assert s.state is r.state is KVPoll.Success
    pair.ends_idle()


# -- isolation -----------------------------------------------------------------------------------------------------------------
def _garbage(message: RoomMessage, rng: random.Random) -> Message:
    """The message with some numbers of its body replaced by anything the wire can carry."""
    changes = {}
    for each in fields(message):
        if each.name in ("link", "source", "target", "room", "engine", "gen"):
            continue
        value = getattr(message, each.name)
        if isinstance(value, bool):
            changes[each.name] = rng.random() < 0.5
        elif isinstance(value, int) and each.name != "low_water":
            changes[each.name] = rng.choice((0, 1, 2, 0xFFFF))
        elif isinstance(value, tuple) and value and hasattr(value[0], "no"):
            broken = {
                "no": rng.choice((0, 1, 7, 4095, 0xFFFFFFFF)), "start": rng.choice((0, 1, 9, 0xFFFFFFFF)),
                "stop": rng.choice((0, 2, 4, 0xFFFFFFFF)), "layer_stop": rng.choice((0, 1, 0xFFFF)),
                "shape": rng.choice(((), (0,), (1, 2), (0xFFFFFFFF,) * 8)), "dtype": rng.choice(("uint8", "", "x" * 64)),
                "key": rng.choice((UNSET, 0, 2**64 - 1)),
            }  # fmt: skip
            changes[each.name] = tuple(replace(p, **broken) for p in value) * rng.choice((0, 1, 3))
        elif hasattr(value, "pages"):
            changes[each.name] = replace(
                value,
                key=rng.choice((0, 2**64 - 1)),
                pages=rng.choice((0, 2, 0xFFFFFFFF)),
                max_nbytes=rng.choice((0, 1)),
            )
    return replace(message, **changes)


@pytest.mark.parametrize("seed", range(25))
def test_garbage_for_one_room_leaves_every_other_rooms_record_as_it_was(pair: Pair, seed: int) -> None:
    rng = random.Random(seed)
    pair.d.auto_commit = False
    bystander = pair.both(1)
    bystander[1].metadata(gates=("gate",))
    bystander[0].send_all(2)
    pair.run()
    s, r = pair.both(2)
    r.metadata()
    s.send_all(2)
    pair.run()
    said = [(pair.d, m) for m in pair.p.said if isinstance(m, RoomMessage) and m.room == 2]
    said += [(pair.p, m) for m in pair.d.said if isinstance(m, RoomMessage) and m.room == 2]
    records = bystander[0].rec, bystander[1].rec
    leases = [{lease for lease in p.back if lease[0] in (bystander[0].key, bystander[1].key)} for p in (pair.p, pair.d)]
    for _ in range(30):
        target, message = rng.choice(said)
        pair.inject(target, _garbage(message, rng))
        pair.run()
    assert (bystander[0].rec, bystander[1].rec) == records
    assert [
        {lease for lease in p.back if lease[0] in (bystander[0].key, bystander[1].key)} for p in (pair.p, pair.d)
    ] == leases
    bystander[1].open_gate("gate")
    bystander[1].commit()
    pair.run()
    assert bystander[0].state is bystander[1].state is KVPoll.Success


def test_a_message_with_the_gen_of_one_room_and_the_number_of_another_touches_neither(pair: Pair) -> None:
    pair.d.auto_commit = False
    (s1, r1), (s2, r2) = pair.both(1), pair.both(2)
    for s, r in ((s1, r1), (s2, r2)):
        r.metadata()
        s.send_all()
    pair.run()
    before = [leg.rec for leg in (s1, r1, s2, r2)]
    for process, said in ((pair.d, list(pair.p.said)), (pair.p, list(pair.d.said))):
        for message in [m for m in said if isinstance(m, RoomMessage)]:
            pair.inject(process, replace(message, room=3 - message.room))
    failed = FailureGroup(cause=2)
    for r in (r1, r2):
        envelope = {**r.session.to(0), "room": 3 - r.room}
        for lie in (Abort(failed=failed, **envelope), Conclude(**envelope), AbortAck(**envelope), Query(**envelope)):
            pair.inject(pair.p, lie)
    pair.wire.clear()
    assert [leg.rec for leg in (s1, r1, s2, r2)] == before
    for r in (r1, r2):
        r.commit()
    pair.advance(5_000)
    assert [leg.state for leg in (s1, s2, r1, r2)] == [KVPoll.Success] * 4


def test_a_message_for_a_half_open_attempt_with_another_rooms_number_does_not_end_it(pair: Pair) -> None:
    r = pair.d.receiver(1)
    pair.run()
    pair.inject(pair.p, Abort(failed=FailureGroup(cause=2), **{**r.session.to(0), "room": 2}))
    pair.wire.clear()
    assert pair.p.core.gauges()["half_open"] == 1
    s = pair.p.sender(1)
    s.send_all()
    r.metadata()
    pair.run()
    assert s.state is r.state is KVPoll.Success


# -- create --------------------------------------------------------------------------------------------------------------------
def test_gens_only_rise(pair: Pair) -> None:
    assert pair.d.receiver(1).key.no == 1
    assert pair.d.receiver(2, gen=10).key.no == 10
    assert pair.d.receiver(3).key.no == 11
    for gen in (11, 10, 0, -1):
        with pytest.raises(LocalProtocolError, match=rf"gen: expected above 11, got {gen}") as caught:
            pair.d.receiver(4, gen=gen)
        assert caught.value.details["field"] == "gen"
    assert pair.d.receiver(4).key.no == 12


def test_rooms_are_bounded_and_the_error_names_the_table_and_the_limit(pair: Pair) -> None:
    pair = Pair(pair.push, max_rooms=2).linked()
    for create in (pair.p.sender, pair.d.receiver):
        create(1)
        create(2)
        with pytest.raises(LocalProtocolError, match="rooms: at most 2") as caught:
            create(3)
        assert caught.value.cause is Cause.LIMIT
        assert caught.value.details == {"table": "rooms", "limit": 2}


def test_a_draining_process_takes_no_new_rooms_and_finishes_those_it_has(pair: Pair) -> None:
    s, r = pair.both()
    waiting = pair.d.receiver(8)
    pair.run()
    pair.p.core.drain(5_000)
    pair.p.settle()
    pair.run()
    assert [m.within for m in pair.p.said if isinstance(m, Drain)] == [5_000]
    with pytest.raises(LocalProtocolError, match="draining") as caught:
        pair.p.sender(9)
    assert caught.value.cause is Cause.DRAINING
    late = pair.d.receiver(9)
    pair.run()
    assert late.state is KVPoll.Failed
    assert [m.reason for m in pair.p.said if isinstance(m, Refusal)] == [Reason.DRAINING] * 2, (
        "to the one that waited, too"
    )
    r.metadata()
    s.send_all()
    pair.run()
    assert s.state is r.state is KVPoll.Success
    assert waiting.state is KVPoll.Failed
    pair.ends_idle()


def test_calls_on_a_room_that_was_dropped_do_nothing(pair: Pair) -> None:
    s, r = pair.both()
    r.metadata()
    s.send_all()
    pair.run()
    pair.ends_idle()
    for leg in (s, r):
        assert not pair.d.core.call(leg.key, lambda session: session.abort())
    assert pair.p.core.send(s.key, [part(0, 4)], True) == ()


def test_a_report_for_an_operation_of_a_room_that_is_gone_does_nothing() -> None:
    pair = Pair(push=True).linked()
    s, r = pair.both()
    r.metadata()
    pair.p.hold_ops = True
    s.send_all()
    pair.run()
    (op,) = pair.p.ops
    pair.p.declare_lost()
    pair.run()
    assert pair.p.idle() == {}
    for report in (pair.p.core.op_done, pair.p.core.op_failed, pair.p.core.op_unresolved, pair.p.core.op_fenced):
        report(op)
        pair.p.settle()
    assert pair.p.idle() == {}


@pytest.mark.parametrize("late", ["op_done", "op_failed", "op_fenced"])
def test_a_proof_that_comes_late_resolves_an_unresolved_operation_like_a_fence(late: str) -> None:
    pair = Pair(push=True).linked()
    s, r = pair.both()
    r.metadata()
    pair.p.hold_ops = pair.p.hold_fences = True
    s.send_all()
    pair.run()
    op = pair.p.end_op("unresolved")
    pair.run()
    del pair.p.ops[op]
    getattr(pair.p.core, late)(op)
    pair.p.settle()
    pair.p.hold_fences = False
    assert s.state is r.state is KVPoll.Failed
    pair.ends_idle()


# -- errors --------------------------------------------------------------------------------------------------------------------
def test_the_base_error_is_not_raised_itself() -> None:
    with pytest.raises(TypeError, match="LocalProtocolError, RemoteProtocolError or KVTransferError"):
        KvpollError("no", Cause.INTERNAL)


def test_a_failure_is_an_exception_with_cause_details_retry_and_status(pair: Pair) -> None:
    s, r = pair.both()
    pair.run()
    s.abort("too long", 413)
    pair.run()
    assert r.failure is not None
    error = KVTransferError(ROOM, r.failure)
    assert str(error).startswith(
        "room 7: PEER_ABORTED: a peer rank failed first and said why (cause=ABORTED, reason=too long"
    )
    assert (error.cause, error.details["status"], error.failure.status) == (Cause.PEER_ABORTED, 413, 413)


@pytest.mark.parametrize("status", [0, 99, 200, 302, 600, 10**6])
def test_a_status_that_is_no_HTTP_error_is_not_passed_on(pair: Pair, status: int) -> None:
    s, r = pair.both()
    pair.run()
    s.abort("odd", status)
    pair.run()
    assert r.failure is not None
    assert r.failure.status == CATALOGUE[Cause.PEER_ABORTED].status


def test_a_remote_error_names_the_tag_and_what_was_expected() -> None:
    error = RemoteProtocolError("meta.pages", "4", "3")
    assert str(error) == "meta.pages: expected 4, got 3"
    assert dict(error.failure().details) == {"tag": "meta.pages", "expected": "4"}


@pytest.mark.parametrize("text", ["x" * 5000, "half a character: \ud800", "\0\n"])
def test_no_reason_of_an_engine_can_keep_an_abort_from_being_said(pair: Pair, text: str) -> None:
    s, r = pair.both()
    pair.run()
    s.abort(text, 400)
    pair.run()
    assert (r.state, r.details["status"]) == (KVPoll.Failed, 400)
    assert r.details["reason"]
    pair.ends_idle()


def test_a_status_that_no_message_can_carry_still_fails_both_ends(pair: Pair) -> None:
    s, r = pair.both()
    pair.run()
    s.abort("odd", 1 << 80)
    pair.run()
    assert s.state is r.state is KVPoll.Failed


@pytest.mark.parametrize("name", ["max_parts", "max_links", "max_half_open", "credits"])
def test_a_limit_that_leaves_room_for_nothing_is_refused_by_name(name: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"{name}: expected at least 1, got 0"):
        CoreConfig(instance=1, engine=1, **{name: 0})  # type: ignore[arg-type]
