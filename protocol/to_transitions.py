"""A table as an ordinary machine of the ``transitions`` library: the second interpreter, and a place for callbacks.

Our own interpreter runs in production. This one is for embedding: every callback and diagram of that library works, and
since its engine knows nothing of ours, comparing the two over every node tests both.

* States are the states of the table; those that are terminal are ``final``.
* A trigger has the name of an event and takes its arguments by keyword: ``model.trigger("BIND", is_push=True, all=True)``.
* The terms of a guard are ``conditions``, named as the guard reads; updates happen ``before``; effects are given to
  ``on_effect`` one by one ``after`` the state has changed, and stand in ``model.outcome``.
* Rows that keep the state are internal transitions: no ``on_enter`` or ``on_exit``.
* A refused event raises :class:`LocalProtocolError` and changes nothing; ``NEVER`` leads where ``Table.broken`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

from transitions import EventData, Machine

from kvpoll.spec.causes import Cause
from kvpoll.spec.effects import Effect
from kvpoll.spec.table import ALWAYS, All, Expr, Field, Row, Table, Value, Verdict, evaluate

from .errors import LocalProtocolError
from .render.guard import guard_text, normal

__all__ = ["Model", "Outcome", "machine"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the last event did. ``effects`` and ``cause`` are those of the row, or of the broken machine for NEVER."""

    row: Row
    verdict: Verdict
    effects: tuple[Effect, ...]
    cause: Cause | None


class Model:
    """What a machine acts on: subclass it to attach callbacks. ``fields`` has a value for each field of the table."""

    state: Enum  #: written by ``transitions`` only

    def __init__(self, table: Table) -> None:
        self.fields: dict[str, Value] = {f.name: f.initial for f in table.fields}
        self.outcome: Outcome | None = None


def machine(
    table: Table,
    model: Model | None = None,
    *,
    on_effect: Callable[[Effect, Model], None] | None = None,
    diagram: bool = False,
) -> Machine:
    """A machine with one model in the table's initial state; ``machine.models[0]`` where none was given.

    ``diagram=True`` makes a ``GraphMachine`` that draws with Mermaid, so nothing of Graphviz is needed. It shows every
    row; ``kvpoll tables --format mermaid`` draws the ones that change the state. A trigger with other arguments than
    its event declares raises ``TypeError``."""
    kind: Callable[..., Machine] = Machine
    if diagram:
        from transitions.extensions import GraphMachine

        kind = partial(GraphMachine, graph_engine="mermaid", show_conditions=True, title=table.name)
    made = kind(
        model=Model(table) if model is None else model,
        states=[{"name": s, "final": s in table.terminal} for s in table.states],
        initial=table.initial,
        send_event=True,
        auto_transitions=False,  # a state is written by a row or not at all
        name=table.name,
        prepare_event=_arguments(table),
    )
    for row in table.rows:
        step = _Step(table, row, on_effect)
        made.add_transition(
            row.event.name,
            row.state,
            step.target,
            conditions=[_condition(t) for t in _terms(row.guard)],
            before=step.update,
            after=step.act,
        )
    return made


class _Step:
    """One row, cut into what happens before and after the state changes."""

    def __init__(self, table: Table, row: Row, on_effect: Callable[[Effect, Model], None] | None) -> None:
        self.row = row
        self.on_effect = on_effect
        self.effects, goal = row.effects, row.next
        if row.verdict is Verdict.NEVER and table.broken is not None and row.state not in table.terminal:
            goal, self.effects = table.broken
        self.target = goal if goal is not row.state else None

    def update(self, event: EventData) -> None:
        row, model = self.row, _model(event)
        if row.verdict is Verdict.REFUSE:
            raise LocalProtocolError(
                f"{row.event.name} is refused in {row.state.name}: {row.why}",
                state=row.state.name,
                event=row.event.name,
            )
        env = _env(event)
        model.fields |= {
            u.field.name: env[u.value.name] if isinstance(u.value, Field) else u.value for u in row.updates
        }

    def act(self, event: EventData) -> None:
        model = _model(event)
        model.outcome = Outcome(self.row, self.row.verdict, self.effects, self.row.cause)
        if self.on_effect is not None:
            for effect in self.effects:
                self.on_effect(effect, model)


def _terms(guard: Expr) -> tuple[Expr, ...]:
    """The terms that must all hold: ``transitions`` joins conditions itself."""
    plain = normal(guard)
    return plain.terms if isinstance(plain, All) else () if plain == ALWAYS else (plain,)


def _condition(term: Expr) -> Callable[[EventData], bool]:
    def holds(event: EventData) -> bool:
        return evaluate(term, _env(event))

    holds.__name__ = guard_text(term)  # what a diagram shows
    return holds


def _arguments(table: Table) -> Callable[[EventData], None]:
    specs = {spec.event.name: {a.name: a.domain for a in spec.args} for spec in table.events}

    def declared(event: EventData) -> None:
        takes = specs[event.event.name]
        if event.args or set(event.kwargs) != set(takes):
            raise TypeError(f"{event.event.name} takes {sorted(takes)} by keyword, got {sorted(event.kwargs)}")
        for name, value in event.kwargs.items():
            if value not in takes[name]:
                raise TypeError(f"{event.event.name} {name}: expected one of {takes[name]}, got {value!r}")

    return declared


def _env(event: EventData) -> Mapping[str, Value]:
    return {**_model(event).fields, **event.kwargs}


def _model(event: EventData) -> Model:
    if not isinstance(event.model, Model):
        raise TypeError(f"the model must be a {Model.__module__}.Model, not {type(event.model).__name__}")
    return event.model
