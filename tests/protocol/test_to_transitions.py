"""The same tables in the ``transitions`` library: two interpreters that share no engine must agree everywhere."""

from __future__ import annotations

import pytest
from transitions import EventData, MachineError

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Machine, Rules
from kvpoll.protocol.table_check import reachable
from kvpoll.protocol.to_transitions import Model, Outcome, machine
from kvpoll.spec import LEASE, LINK, SENDER, TABLES, Effect, KVPoll, LinkState, Table
from kvpoll.spec.table import Verdict

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@each_table
def test_both_interpreters_agree_at_every_node_on_every_signal(table: Table) -> None:
    rules, done = Rules(table), list[Effect]()
    model = Model(table)
    theirs = machine(table, model, on_effect=lambda effect, _: done.append(effect))
    for node in reachable(rules):
        for signal in rules.signals():
            model.fields = {f.name: v for f, v in zip(table.fields, node.values, strict=True)}
            model.outcome = None
            theirs.set_state(node.state, model)
            done.clear()
            where = f"{node!r} on {signal!r}"
            edge, refused = None, ""
            try:
                edge = Machine(rules, node).feed(signal)
            except LocalProtocolError as error:
                refused = str(error)
            if edge is None:
                with pytest.raises(LocalProtocolError) as caught:
                    model.trigger(signal.event.name, **signal.args)
                assert str(caught.value) == refused, where
                assert (model.state, tuple(model.fields.values())) == (node.state, node.values), where
                assert (model.outcome, done) == (None, []), where
                continue
            assert model.trigger(signal.event.name, **signal.args), where
            assert model.state is edge.node.state, where
            assert tuple(model.fields.values()) == edge.node.values, where
            assert model.outcome == Outcome(edge.row, edge.verdict, edge.effects, edge.cause), where
            assert tuple(done) == edge.effects, where


@each_table
def test_a_machine_has_the_states_events_and_end_of_its_table(table: Table) -> None:
    made = machine(table)
    assert list(made.states) == [s.name for s in table.states]
    assert {name for name, state in made.states.items() if state.final} == {s.name for s in table.terminal}
    assert set(made.events) == {spec.event.name for spec in table.events}
    assert made.models[0].state is table.initial


def test_an_effect_is_given_after_the_state_has_changed() -> None:
    seen: list[tuple[Effect, LinkState]] = []

    def on_effect(effect: Effect, model: Model) -> None:
        assert isinstance(model.state, LinkState)
        seen.append((effect, model.state))

    machine(LINK, on_effect=on_effect).models[0].trigger("WELCOME")
    assert seen
    assert {state for _, state in seen} == {LinkState.OPEN}


def test_callbacks_of_a_model_are_called_when_the_state_changes_and_only_then() -> None:
    class Engine(Model):
        entered: list[str]

        def on_enter_WaitingForInput(self, event: EventData) -> None:
            self.entered.append(event.event.name)

    engine = Engine(SENDER)
    engine.entered = []
    machine(SENDER, engine)
    engine.trigger("BIND", is_push=True, all=True)
    engine.trigger("META", all=True)
    engine.trigger("META", all=True)  # a copy is ignored: nothing is entered again
    assert engine.entered == ["META"]
    assert engine.state is KVPoll.WaitingForInput
    assert engine.fields["bound"] is True


def test_two_models_of_one_machine_do_not_share_fields() -> None:
    made = machine(LEASE)
    other = Model(LEASE)
    made.add_model(other)
    made.models[0].trigger("TAKE")
    made.models[0].trigger("START")
    assert (made.models[0].fields["own"], other.fields["own"]) == (True, False)
    assert (made.models[0].state.name, other.state.name) == ("IN_FLIGHT", "FREE")


@pytest.mark.parametrize(
    "args",
    [{}, {"is_push": True, "all": True, "last": True}, {"all": True}, {"is_push": "yes", "all": True}],
    ids=["missing", "one too many", "another", "no such value"],
)
def test_other_arguments_than_the_declared_ones_are_a_type_error_that_changes_nothing(
    args: dict[str, bool | str],
) -> None:
    model = machine(SENDER).models[0]
    with pytest.raises(TypeError, match="is_push"):
        model.trigger("BIND", **args)
    assert (model.state, model.outcome, model.fields["bound"]) == (KVPoll.Bootstrapping, None, False)


def test_no_trigger_writes_a_state_past_the_rows() -> None:
    made = machine(SENDER)
    assert not hasattr(made.models[0], "to_Success")
    with pytest.raises((AttributeError, MachineError)):
        made.models[0].trigger("to_Success")


def test_never_leads_where_the_table_says_and_ignore_says_so() -> None:
    model = machine(SENDER).models[0]
    model.trigger("OP_DONE")
    assert (model.state, model.outcome.verdict) == (KVPoll.Failed, Verdict.NEVER)
    model.trigger("ABORT")
    assert (model.state, model.outcome.verdict) == (KVPoll.Failed, Verdict.IGNORE)


def test_a_diagram_is_drawn_without_graphviz_and_shows_guards() -> None:
    drawn = machine(LEASE, diagram=True).get_combined_graph().draw(None)
    assert "stateDiagram-v2" in drawn
    assert "IN_FLIGHT --> HELD: QUIET [own & not theirs] | DRAINED [theirs & not own]" in drawn
