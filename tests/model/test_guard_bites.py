"""The guard bites: a table with one row wrong is caught by a named property of a small world.

Each entry says which row, what is wrong with it, where it must show, and as what. An entry that no property catches is a
hole in the properties, or a row that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.properties import LIVENESS
from kvpoll.model_tests.setting import Budget, Clocks, Setting
from kvpoll.model_tests.tables import RULES, changed, ignored, instead, negated, row_of, to, unstated, watch, without
from kvpoll.spec import (
    LEASE,
    RECEIVER,
    SENDER,
    Effect,
    KVPoll,
    LeaseEvent,
    LeaseState,
    ReceiverEvent,
    SenderEvent,
)
from kvpoll.spec.receiver_table import whole
from kvpoll.spec.sender_table import plan
from kvpoll.spec.table import Row, Table, Verdict

B, W, T, S, F = (
    KVPoll.Bootstrapping,
    KVPoll.WaitingForInput,
    KVPoll.Transferring,
    KVPoll.Success,
    KVPoll.Failed,
)
HANG = "any of the leads-to invariants"


def one(how: Callable[[Row], Row], table: Table, state: object, event: object, **where: bool | str) -> Table:
    return changed(table, row_of(table, state, event, **where), how)  # type: ignore[arg-type]


def sender(how: Callable[[Row], Row], state: KVPoll, event: SenderEvent, **where: bool | str) -> Table:
    return one(how, SENDER, state, event, **where)


def receiver(how: Callable[[Row], Row], state: KVPoll, event: ReceiverEvent, **where: bool | str) -> Table:
    return one(how, RECEIVER, state, event, **where)


def lease(how: Callable[[Row], Row], state: LeaseState, event: LeaseEvent, **where: bool | str) -> Table:
    return one(how, LEASE, state, event, **where)


def succeeds(row: Row) -> Row:
    return replace(row, verdict=Verdict.GO, next=S, cause=None, effects=(Effect.CLOSE, Effect.REPLY))


def closes_only(row: Row) -> Row:
    return replace(row, updates=tuple(update for update in row.updates if update.field is plan))


def ready(row: Row) -> Row:
    return replace(row, updates=(whole.to(True),), effects=(Effect.READY,))


#: A call that needs no clock, an abort that needs none, a loss that re-sending alone repairs, ...
PROMPT = (Setting(True, eager=True, clocks=Clocks.NONE), Budget())
ABORT = (PROMPT[0], Budget(aborts=1))
CRASH = (PROMPT[0], Budget(crashes=1))
LOSS = (Setting(True, eager=True, clocks=Clocks.RESEND), Budget(losses=1))
SLOW = (Setting(True, eager=True), Budget())
UNRESOLVED = (SLOW[0], Budget(unresolved=1))
STUCK = (Setting(True, eager=True, fences=False, clocks=Clocks.RESEND), Budget(unresolved=1))
EMPTY = (Setting(True, eager=True, chunks=0), Budget())
TAIL = (Setting(True, eager=True, tail=True), Budget(aborts=1))
LIAR = (SLOW[0], Budget(lies=1))
TWO = (Setting(True, eager=True, clocks=Clocks.NONE, decodes=2), Budget())
PULL = (Setting(False, eager=True), Budget())

E, R, L, Q = SenderEvent, ReceiverEvent, LeaseEvent, LeaseState
MUTANTS: dict[str, tuple[Table, tuple[Setting, Budget], str]] = {
    # -- what is told, and told again
    "a sender that aborts tells nobody": (sender(without(Effect.SEND_ABORT), W, E.ABORT), ABORT, HANG),
    "a receiver that aborts tells nobody": (receiver(without(Effect.SEND_ABORT), W, R.ABORT), ABORT, HANG),
    "a sender ignores that its receiver failed": (sender(ignored, T, E.PEER_FAILED), ABORT, HANG),
    "a part that was done is said once": (sender(without(Effect.SEND_FACTS), T, E.RESEND), LOSS, HANG),
    "a conclusion is said once": (receiver(without(Effect.SEND_FACTS), S, R.RESEND), LOSS, HANG),
    "where data goes is said once": (receiver(without(Effect.SEND_FACTS), W, R.RESEND), LOSS, HANG),
    "a conclusion is not answered": (
        sender(without(Effect.REPLY), T, E.CONCLUDED, all=True, doubt=True), PROMPT, HANG,
    ),
    "a sender ignores a lost peer": (sender(ignored, T, E.PEER_LOST), CRASH, HANG),
    "a receiver ignores a lost peer": (receiver(ignored, W, R.PEER_LOST), CRASH, HANG),
    # -- who decides, and what is in doubt
    "the last part leaves no doubt": (sender(unstated, W, E.STARTED, push=True, final=True), SLOW, "SuccessOrder"),
    "the last offer leaves no doubt": (sender(unstated, W, E.STARTED, push=False, final=True), PULL, "SuccessOrder"),
    "an empty plan leaves no doubt": (
        sender(unstated, B, E.META, bound=True, all=True, plan="empty"), EMPTY, "SuccessOrder",
    ),
    "a closing call leaves no doubt": (sender(closes_only, T, E.SEND, last=True, idle=True), TAIL, "SuccessOrder"),
    "the receiver's own failure leaves doubt": (sender(unstated, T, E.PEER_FAILED), SLOW, "SuccessOrder"),
    "CONCLUDED is believed without doubt": (
        sender(succeeds, W, E.CONCLUDED), LIAR, "NoDoneWithoutData",
    ),
    "CONCLUDED swaps its guards": (
        negated(row_of(SENDER, T, E.CONCLUDED, all=True), row_of(SENDER, T, E.CONCLUDED, all=True, doubt=True))(SENDER),
        PROMPT, HANG,
    ),
    "one of two conclusions is enough": (sender(to(S), T, E.CONCLUDED, all=False), TWO, "SuccessOrder"),
    "a failed sender is made to succeed": (sender(succeeds, F, E.CONCLUDED), SLOW, "TerminalAbsorbing"),
    "part of the plan is enough": (
        receiver(ready, W, R.PARTS, push=True, whole_now=False), SLOW, "CompleteOrNotSuccess",
    ),
    # -- memory
    "no fence is asked for": (sender(without(Effect.FENCE), T, E.OP_UNRESOLVED, push=True), UNRESOLVED, HANG),
    "admission is not closed": (sender(without(Effect.CLOSE), T, E.ABORT), ABORT, HANG),
    "memory in flight is released": (lease(to(Q.HANDED), Q.IN_FLIGHT, L.CLOSE), SLOW, "NoFreeInFlight"),
    "what starts is not counted": (lease(ignored, Q.HELD, L.START), SLOW, "AckMeansQuiescent"),
    "what is exposed is not counted": (lease(ignored, Q.HELD, L.EXPOSE), SLOW, "NoFreeInFlight"),
    "unresolved is free": (lease(to(Q.HANDED), Q.IN_FLIGHT, L.UNRESOLVED, own=True), UNRESOLVED, "UnresolvedIsNotFree"),
    "nothing is quarantined": (lease(ignored, Q.IN_FLIGHT, L.UNRESOLVED, own=True), STUCK, HANG),
    "the peer's quarantine is ignored": (lease(ignored, Q.DRAINING, L.PEER_UNRESOLVED, theirs=True), STUCK, HANG),
    "the drain word is ignored": (lease(ignored, Q.DRAINING, L.DRAINED, theirs=True), SLOW, HANG),
    "a fence releases nothing": (lease(ignored, Q.QUARANTINED, L.QUIET, own=True, over=True), UNRESOLVED, HANG),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_row_breaks_the_property_that_it_serves(name: str) -> None:
    table, (setting, budget), broken = MUTANTS[name]
    with instead(table):
        world = PairWorld(setting, budget)
        result = explore(world, 150_000)
    named = HANG if result.broken in LIVENESS else result.broken
    assert named == broken, f"{name}: {result.states} states, {result.violation}\n{world.tell(result.trace)}"


def test_the_tables_as_they_are_break_nothing_there() -> None:
    for setting, budget in dict.fromkeys(world for _, world, _ in MUTANTS.values()):
        if (setting, budget) != TWO:  # proved in test_pair_world, for it is large
            assert explore(PairWorld(setting, budget), 150_000).proved, (setting, budget)


def test_another_table_is_followed_for_the_block_only() -> None:
    table = sender(to(S), B, E.ABORT)
    with instead(table):
        assert RULES["sender"].table is table
    assert RULES["sender"].table is SENDER
    assert explore(PairWorld(*SLOW)).proved


def test_a_row_is_named_by_its_state_its_event_and_what_holds() -> None:
    assert row_of(SENDER, T, E.CONCLUDED, all=True, doubt=True).next is S
    with pytest.raises(LookupError, match="0 rows of sender"):
        row_of(SENDER, B, E.META, all=True, bound=True, plan="perhaps")


def test_a_watch_sees_which_rows_fired() -> None:
    with watch() as seen:
        explore(PairWorld(*PROMPT))
        fired = seen.fired("sender")
        assert row_of(SENDER, T, E.CONCLUDED, all=True, doubt=True) in fired
        assert row_of(SENDER, T, E.ABORT) not in fired
        assert row_of(SENDER, T, E.ABORT) in seen.idle("sender")
