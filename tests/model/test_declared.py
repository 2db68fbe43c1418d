"""Declared worlds: data that is run over the production interpreter, and written in two other notations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvpoll.cli.docs import GENERATED
from kvpoll.cli.export import MODELS
from kvpoll.model_tests.declared.catalogue import DEEP, SHAPES, pair, world
from kvpoll.model_tests.declared.compare import explored
from kvpoll.model_tests.declared.compiled import Compiler, queued
from kvpoll.model_tests.declared.promela import promela
from kvpoll.model_tests.declared.run import Running
from kvpoll.model_tests.declared.shape import Shape
from kvpoll.model_tests.declared.terms import NO, YES, Arg, Num, Pick, Var, bind, every
from kvpoll.model_tests.declared.tla import world_tla
from kvpoll.model_tests.declared.tla_table import table_tla
from kvpoll.model_tests.declared.world import Channel, Kind, Say, with_table
from kvpoll.model_tests.explorer import Violation, explore
from kvpoll.model_tests.network import Network
from kvpoll.model_tests.tables import changed, ignored, row_of, to, unstated, without
from kvpoll.spec import (
    LEASE,
    RECEIVER,
    SENDER,
    TABLES,
    Effect,
    KVPoll,
    LeaseEvent,
    LeaseState,
    ReceiverEvent,
    SenderEvent,
)
from kvpoll.spec.table import Row, Table, Verdict

T, S, F = KVPoll.Transferring, KVPoll.Success, KVPoll.Failed
ROOT = Path(__file__).resolve().parents[2]


def broken(table: Table, row: Row, how: Callable[[Row], Row]) -> Table:
    return changed(table, row, how)


@pytest.mark.parametrize("name", SHAPES)
def test_a_declared_world_is_proved_and_its_rooms_can_succeed(name: str) -> None:
    result, pairs = explored(world(name))
    assert result.proved, (result.violation, result.trace)
    assert result.outcomes["Success Success"]
    assert (list(KVPoll).index(S), list(KVPoll).index(S)) in pairs
    faults = {"abort-loss", "unresolved", "fence", "low-water", "crash", "deadlines", "shutdown", "empty"}
    assert bool(result.outcomes["Failed Failed"]) == (name in faults)


#: World, table, row, what is wrong with it, the invariant that it breaks.
MUTANTS = {
    "a sender that succeeds when its receiver fails": (
        "abort-loss", SENDER, row_of(SENDER, T, SenderEvent.PEER_FAILED), to(S), "SuccessOrder",
    ),
    "a sender that is not in doubt once everything was started": (
        "abort-loss", SENDER, row_of(SENDER, KVPoll.WaitingForInput, SenderEvent.STARTED, push=False, final=True), unstated,
        "SuccessOrder",
    ),
    "a lease that goes back while an operation is in flight": (
        "crash", LEASE, row_of(LEASE, LeaseState.IN_FLIGHT, LeaseEvent.CLOSE),
        lambda row: replace(row, next=LeaseState.HANDED, effects=(Effect.HAND_BACK,)), "NoFreeInFlight",
    ),
    "a lease that forgets an operation": (
        "crash", LEASE, row_of(LEASE, LeaseState.HELD, LeaseEvent.START), to(LeaseState.HELD), "NoFreeInFlight",
    ),
    "a receiver that never says that it can commit": (
        "push", RECEIVER, row_of(RECEIVER, T, ReceiverEvent.PARTS, push=True, whole_now=True), without(Effect.READY),
        "EveryRoomEnds",
    ),
    "a receiver that takes a part for the whole": (
        "chunks", RECEIVER, row_of(RECEIVER, KVPoll.WaitingForInput, ReceiverEvent.PARTS, push=True, whole_now=False),
        lambda row: replace(row, effects=(Effect.READY,), updates=(row.updates[0].field.to(True),)), "CompleteOrNotSuccess",
    ),
    "an ABORT that is not believed": (
        "abort-loss", SENDER, row_of(SENDER, T, SenderEvent.PEER_FAILED), ignored, "EveryRoomEnds",
    ),
    "a row that is wrongly called impossible": (
        "push", SENDER, row_of(SENDER, T, SenderEvent.RESEND),
        lambda row: replace(row, verdict=Verdict.NEVER, effects=()), "TotalHandlers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_row_is_found_by_name_with_a_trace(what: str) -> None:
    name, table, row, how, invariant = MUTANTS[what]
    result = explore(Running(with_table(world(name), broken(table, row, how))))
    assert result.broken == invariant, (result.violation, result.trace)
    assert result.trace


def test_without_a_low_water_a_copy_waits_for_ever_for_a_drain_word_that_was_lost() -> None:
    about, shape = SHAPES["low-water"]
    result = explore(Running(pair("low-water", about, replace(shape, low_water=False))))
    assert result.broken == "EveryRoomEnds"


def test_what_is_remembered_is_what_the_machines_do() -> None:
    """Everything that the search remembered, done again over the machines: the same states, met in the same order."""

    class Forgetful(Running):
        def do(self, action: object) -> None:
            action.by_cells.clear()  # type: ignore[attr-defined]
            action.by_slots.clear()  # type: ignore[attr-defined]
            super().do(action)  # type: ignore[arg-type]

    for name in ("chunks", "unresolved", "pull"):
        declared = world(name)
        first, second = explore(Running(declared)), explore(Forgetful(declared))
        assert (first.states, first.edges, first.outcomes) == (second.states, second.edges, second.outcomes)


def test_how_cells_are_cut_changes_nothing() -> None:
    declared = world("abort-loss")
    whole = explore(Running(replace(declared, sides=())))
    result = explore(Running(declared))
    assert (whole.states, whole.edges, whole.outcomes) == (result.states, result.edges, result.outcomes)


def test_an_effect_that_the_world_does_not_declare_is_refused() -> None:
    declared = world("push")
    effects = {key: body for key, body in declared.effects.items() if key[1] is not Effect.EXPOSE}
    with pytest.raises(KeyError, match="does not say what EXPOSE of receiver does"):
        Running(replace(declared, effects=effects))


def test_two_things_of_one_name_are_refused() -> None:
    declared = world("push")
    with pytest.raises(ValueError, match="one name"):
        Running(replace(declared, variables=(*declared.variables, declared.variables[0])))


def test_a_name_that_is_not_declared_says_what_there_is() -> None:
    with pytest.raises(KeyError, match="abort-loss"):
        world("no such world")


def test_losses_and_copies_need_a_network_that_has_them() -> None:
    with pytest.raises(ValueError, match="losses: expected"):
        Shape(True, losses=1)
    with pytest.raises(ValueError, match="copies: expected"):
        Shape(True, network=Network.REORDERING | Network.DUPLICATING)


def test_a_queue_keeps_its_bound_and_takes_the_same_twice_in_a_row_for_one() -> None:
    assert queued((3,), 3, "c", 1) == (3,)
    assert queued((3, 4), 3, "c", 3) == (3, 4, 3)
    with pytest.raises(Violation, match="Bounded"):
        queued((3,), 4, "c", 1)


def test_every_message_has_its_own_number() -> None:
    for name in (*SHAPES, *DEEP):
        for channel in world(name).channels:
            found = [n for kind in channel.kinds for n, _ in channel.messages(kind.name)]
            assert found == list(range(channel.size))


def test_a_message_is_sent_under_the_number_it_is_received_by() -> None:
    channel = Channel("c", Network.ORDERED, (Kind("A"), Kind("B", (("x", 2), ("y", 1)))))
    for number, fields in channel.messages("B"):
        said = channel.number(Say("c", "B", (("y", Arg("y")), ("x", Arg("x")))))
        declared = replace(world("push"), channels=(channel,), receives=(), steps=(), claims=(), ended=YES)
        assert Compiler(declared).worth(bind(said, fields))([]) == number
    with pytest.raises(KeyError, match="no field z"):
        channel.number(Say("c", "B", (("z", NO),)))


def test_terms_with_known_fields_are_worked_out() -> None:
    x = Var("x")
    assert bind(every((Arg("a"), x)), {"a": 0}) == NO
    assert bind(every((Arg("a"), x)), {"a": 1}) == x
    assert bind(Pick(Arg("a").is_(2), Num(7), x), {"a": 2}) == Num(7)
    assert bind(~(Arg("a") | x), {"a": 1}) == NO


# -- notations


def test_exports_are_kept_with_the_documentation() -> None:
    assert MODELS.items() <= GENERATED.items()
    for path, make in MODELS.items():
        assert (ROOT / path).read_text(encoding="utf-8") == make(), f"{path} is out of date: run kvpoll docs --write"


@pytest.mark.parametrize("name", [*SHAPES, *DEEP])
def test_every_export_is_made_from_declarations_alone_and_always_the_same(name: str) -> None:
    first, second = (pair(name, *{**SHAPES, **DEEP}[name]) for _ in range(2))
    assert promela(first) == promela(second)
    assert world_tla(first) == world_tla(second)


def test_a_channel_with_more_messages_than_a_byte_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at most 254"):
        promela(pair("wide", "", Shape(True, 5)))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_in_tla_has_every_row_with_its_reason(table: Table) -> None:
    text = table_tla(table)
    for row in table.rows:
        assert row.why in text
        assert f'state = "{row.state.name}"' in text
    assert text.count("UNCHANGED") <= len(table.rows)
    for spec in table.events:
        assert f"On_{spec.event.name}" in text.split("Next ==")[1]
    assert well_formed(text)


@pytest.mark.parametrize("name", ["push", "crash", "chunks"])
def test_a_world_in_tla_defines_what_it_uses(name: str) -> None:
    text = world_tla(world(name))
    assert well_formed(text)
    code = re.sub(r'\\\*.*|"[^"]*"', "", text)
    defined = {match[1] for match in re.finditer(r"^(\w+)(?:\([\w, ]*\))? ==", code, re.MULTILINE)}
    called = {match[1] for match in re.finditer(r"\b([A-Za-z]\w*)\(", code)} - {"Len", "Append", "Tail"}
    assert called <= defined, called - defined
    for number in range(1, len(world(name).claims) + 1):
        assert re.search(rf"^\w+_{number} ==", text, re.MULTILINE)


def well_formed(text: str) -> bool:
    """Brackets match outside of comments and strings, and the module begins and ends as one."""
    code = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
    code = re.sub(r'\\\*.*|"[^"]*"', "", code).replace("<<", "⟨").replace(">>", "⟩")
    open_, pairs = [], {")": "(", "]": "[", "}": "{", "⟩": "⟨"}
    for char in code:
        if char in pairs.values():
            open_.append(char)
        elif char in pairs and (not open_ or open_.pop() != pairs[char]):
            return False
    return not open_ and text.startswith("---- MODULE ") and text.endswith("====\n")
