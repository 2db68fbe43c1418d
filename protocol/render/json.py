"""A table as JSON, with nothing left out: other tools can check, draw or compile it without importing us.

Guards stay expressions: a name alone is "this is true"; the others are ``{"is": [name, value]}``, ``{"not": g}``,
``{"all": [g]}`` and ``{"any": [g]}``. An update is ``[field, {"value": v}]`` or ``[field, {"from": name}]``. States,
events, effects and causes are names; rows keep their order, one a line, so that two versions compare well. ``format``
changes when any of this does.
"""

from __future__ import annotations

from enum import Enum
from json import dumps
from typing import TypeAlias

from kvpoll.spec.table import All, AnyOf, Expr, Field, Is, Not, Row, Table, Update

__all__ = ["FORMAT", "guard_json", "json_text"]

FORMAT = "kvpoll-table/1"

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json] | None"


def json_text(table: Table) -> str:
    """The whole table; every entry of a list stands on a line of its own."""
    head: dict[str, Json] = {
        "format": FORMAT,
        "name": table.name,
        "about": table.about,
        "initial": table.initial.name,
        "broken": None
        if table.broken is None
        else {"state": table.broken[0].name, "effects": [e.name for e in table.broken[1]]},
    }
    lists: dict[str, list[Json]] = {
        "states": [_state(table, s) for s in table.states],
        "fields": [_field(f) for f in table.fields],
        "events": [
            {"name": e.event.name, "source": e.source.value, "arguments": [_field(a) for a in e.args], "why": e.why}
            for e in table.events
        ],
        "rows": [_row(r) for r in table.rows],
    }
    members = [f"  {dumps(k)}: {dumps(v, ensure_ascii=False)}" for k, v in head.items()]
    members += [f"  {dumps(k)}: {_lines(v)}" for k, v in lists.items()]
    return "{\n" + ",\n".join(members) + "\n}\n"


def guard_json(guard: Expr) -> Json:
    """Raises ``TypeError`` for what is not a guard."""
    match guard:
        case Field(name=name):
            return name
        case Is(field=field, value=value):
            return {"is": [field.name, value]}
        case Not(term=term):
            return {"not": guard_json(term)}
        case All(terms=terms):
            return {"all": [guard_json(t) for t in terms]}
        case AnyOf(terms=terms):
            return {"any": [guard_json(t) for t in terms]}
    raise TypeError(f"not a guard: {guard!r}")


def _lines(entries: list[Json]) -> str:
    return "[\n" + ",\n".join(f"    {dumps(e, ensure_ascii=False)}" for e in entries) + "\n  ]" if entries else "[]"


def _state(table: Table, state: Enum) -> Json:
    return {
        "name": state.name,
        "value": state.value,
        "terminal": state in table.terminal,
        "left_by": [e.name for e in table.waiting.get(state, ())],
    }


def _field(field: Field) -> Json:
    return {"name": field.name, "domain": list(field.domain), "initial": field.initial, "why": field.why}


def _update(update: Update) -> Json:
    value = update.value
    return [update.field.name, {"from": value.name} if isinstance(value, Field) else {"value": value}]


def _row(row: Row) -> Json:
    return {
        "state": row.state.name,
        "event": row.event.name,
        "guard": guard_json(row.guard),
        "verdict": row.verdict.value,
        "next": row.next.name,
        "updates": [_update(u) for u in row.updates],
        "effects": [e.name for e in row.effects],
        "cause": row.cause.name if row.cause is not None else None,
        "why": row.why,
    }
