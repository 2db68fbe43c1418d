"""The replays bite: with one row of a table wrong, the case that it serves is seen, as what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvpoll.model_tests.tables import instead, without
from kvpoll.spec import LEASE, RECEIVER, SENDER, Effect, KVPoll, LeaseEvent, LeaseState, ReceiverEvent, SenderEvent
from kvpoll.spec.table import Row, Table, Verdict

from ..protocol.pair import Broken
from . import test_drain, test_identity, test_leak, test_lifetime, test_loss
from .shadow import Shadow, in_flight


def frees(row: Row) -> Row:
    """The memory goes back here."""
    return replace(row, verdict=Verdict.GO, next=LeaseState.HANDED, updates=(), effects=(Effect.HAND_BACK,))


def where(table: Table, how: Callable[[Row], Row], event: object, *states: object) -> Table:
    """The table with every row of an event changed, in some states or in all."""
    hit = [r for r in table.rows if r.event is event and (r.state in states or not states)]
    assert hit
    return replace(table, rows=tuple(how(r) if r in hit else r for r in table.rows))


def back(row: Row) -> Row:
    return replace(row, verdict=Verdict.GO, next=KVPoll.Bootstrapping)


def left(row: Row) -> Row:
    return replace(row, verdict=Verdict.GO, next=KVPoll.Failed)


W, T, S = KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success
ENDS_FIRST = test_lifetime.test_memory_goes_to_nobody_else_before_the_last_operation_on_it_has_ended
MUTANTS: dict[str, tuple[Table, Callable[[], None], str]] = {
    "A01: memory goes back with the room": (
        where(LEASE, frees, LeaseEvent.CLOSE, LeaseState.IN_FLIGHT),
        lambda: ENDS_FIRST(True, True, "the receiver aborts", (0, 1)), "NoFreeInFlight",
    ),
    "A02: ... and with a deadline": (
        where(LEASE, frees, LeaseEvent.CLOSE, LeaseState.IN_FLIGHT),
        lambda: ENDS_FIRST(False, False, "the total deadline", (1, 0)), "NoFreeInFlight",
    ),
    "A10: nobody is told": (
        where(RECEIVER, without(Effect.SEND_ABORT), ReceiverEvent.ABORT),
        lambda: test_lifetime.test_no_chunk_starts_after_the_abort_was_heard(True, 2, True), "WaitingForInput|Transferring",
    ),
    "A18: unresolved is free": (
        where(LEASE, frees, LeaseEvent.UNRESOLVED, LeaseState.IN_FLIGHT, LeaseState.DRAINING),
        lambda: ENDS_FIRST(True, False, "an operation is unresolved", (0, 1)), "NoFreeInFlight",
    ),
    "A04: an answer is given once": (
        where(RECEIVER, without(Effect.SEND_FACTS), ReceiverEvent.RESEND),
        lambda: test_drain.test_an_answer_that_is_lost_is_given_again(True, 1), "all",
    ),
    "A11: a success is left": (
        where(RECEIVER, left, ReceiverEvent.ABORT, S),
        lambda: test_leak.test_an_abort_after_the_completion_was_taken_frees_at_once_and_once(True, "committed"),
        "TerminalAbsorbing",
    ),
    "B07: what was done is said once": (
        where(SENDER, without(Effect.SEND_FACTS), SenderEvent.RESEND),
        lambda: test_loss.test_a_word_that_is_lost_is_said_again_until_it_is_answered(True, "PartDone", 1), "Success",
    ),
    "E10: a late META starts anew": (
        where(SENDER, back, SenderEvent.META, W, T),
        lambda: test_identity.test_no_late_word_takes_a_room_back_to_an_earlier_state(True, "success"), "it had been said",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_row_shows_in_the_replay_of_its_case(name: str) -> None:
    table, replay, seen = MUTANTS[name]
    replay()
    with instead(table), pytest.raises(AssertionError, match=seen):
        replay()
    replay()


def test_an_operation_that_reaches_memory_of_somebody_else_is_seen() -> None:
    world = Shadow().linked()
    in_flight(world, 2)
    (op, *_) = world.p.ops
    cell = world.p.moves[op].cells[1]
    cell.owner = None
    with pytest.raises(Broken, match="NoFreeInFlight"):
        world.p.end_op("done", op)


def test_a_copy_that_is_read_before_it_exists_is_seen() -> None:
    world = Shadow().linked()
    in_flight(world, 2)
    (op, *_) = world.p.ops
    world.p.moves[op].cells[0].holds.clear()
    with pytest.raises(Broken, match="ReadAfterCompute"):
        world.p.end_op("done", op)


def test_data_that_arrives_twice_is_seen() -> None:
    world = Shadow().linked()
    in_flight(world, 2)
    (op, *_) = world.p.ops
    world.p.land(op)
    with pytest.raises(Broken, match="NoWriteAfterArrival"):
        world.p.end_op("done", op)


def test_a_room_that_holds_anothers_data_is_seen() -> None:
    world = Shadow().linked()
    in_flight(world, 2)
    first, second = world.p.ops
    world.p.end_op("done", first)
    cell = world.p.moves[first].cells[1]
    cell.holds[world.p.moves[first].part] = ("p", first.session._replace(no=99), 0)
    world.p.end_op("done", second)
    with pytest.raises(Broken, match="CompleteOrNotSuccess"):
        world.finish()


def test_an_operation_that_nobody_counts_is_seen() -> None:
    world = Shadow().linked()
    in_flight(world, 2)
    del world.p.ops[next(iter(world.p.ops))]
    with pytest.raises(Broken, match="CountExact"):
        world.p.settle()
