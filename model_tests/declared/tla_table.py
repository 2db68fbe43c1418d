"""A table as a TLA+ module for people to read: one action for each event, one disjunct for each row, with its reason.

The effects of a row are what the last step asked for, in the variable ``asks``; who carries them out is the business of a
world (:mod:`.tla`). A row that is called impossible, or that refuses a call of the engine, is no step: their guards are
collected under ``Never`` and ``Refused`` instead, so that somebody who composes the module can claim them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvpoll.spec.table import All, AnyOf, EventSpec, Expr, Field, Is, Not, Row, Table, Value, Verdict

__all__ = ["guard_tla", "table_tla", "value_tla"]

_MADE_BY = "Made by `kvpoll docs --write` (or `make docs`) from the table in spec/. Do not edit."


def table_tla(table: Table) -> str:
    """The module of a table. Raises ``ValueError`` where an argument of an event has the name of a field."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    names = ["state", *(field.name for field in table.fields)]
    yield f"---- MODULE {table.name} ----"
    yield f"(* {table.about}"
    yield f"   {_MADE_BY} *)"
    yield "VARIABLES"
    for name, why in (("state", "where the machine is"), *((f.name, f.why) for f in table.fields)):
        yield f"  {name}, \\* {why}"
    yield "  asks \\* the effects that the last step asked for, in order"
    yield ""
    yield f"vars == <<{', '.join([*names, 'asks'])}>>"
    yield f"States == {{{', '.join(_text(s.name) for s in table.states)}}}"
    yield f"Terminal == {{{', '.join(sorted(_text(s.name) for s in table.terminal))}}}"
    yield ""
    yield "TypeOK =="
    yield "  /\\ state \\in States"
    yield from (f"  /\\ {field.name} \\in {_domain(field)}" for field in table.fields)
    yield ""
    yield "Init =="
    yield f"  /\\ state = {_text(table.initial.name)}"
    yield from (f"  /\\ {field.name} = {value_tla(field.initial)}" for field in table.fields)
    yield "  /\\ asks = <<>>"
    for spec in table.events:
        yield ""
        yield from _event(table, spec, names)
    yield ""
    for name, verdict in (("Never", Verdict.NEVER), ("Refused", Verdict.REFUSE)):
        yield from _claim(table, name, verdict)
    yield "Next =="
    yield from (f"  \\/ {_some(spec)}{_call(spec, name_of(spec))}" for spec in table.events)
    yield ""
    yield "Spec == Init /\\ [][Next]_vars"
    yield ""
    if table.terminal:
        yield "\\* TerminalAbsorbing: a state that is terminal is never left."
        yield "Absorbing == [][state \\in Terminal => state' = state]_vars"
        yield ""
    yield "===="


def name_of(spec: EventSpec) -> str:
    """Prefixed: TAKE, for one, is a word of TLA+."""
    return f"On_{spec.event.name}"


def _event(table: Table, spec: EventSpec, names: list[str]) -> Iterator[str]:
    if clash := {arg.name for arg in spec.args} & {*names, "asks"}:
        raise ValueError(f"{table.name}: argument {', '.join(clash)} of {spec.event.name} has the name of a field")
    yield f"\\* {spec.event.name}, from the {spec.source.value}: {spec.why}"
    yield f"{_call(spec, name_of(spec))} =="
    rows = [row for row in table.rows if row.event is spec.event and row.verdict not in (Verdict.NEVER, Verdict.REFUSE)]
    if not rows:
        yield "  FALSE"
    for row in rows:
        changes = {update.field.name: _new(update.value) for update in row.updates}
        if row.next is not row.state:
            changes = {"state": _text(row.next.name), **changes}
        kept = [name for name in names if name not in changes]
        cause = f", cause {row.cause.name}" if row.cause is not None else ""
        yield f"  \\/ \\* {row.verdict.name}{cause}: {row.why}"
        yield f"     /\\ {_condition(row)}"
        yield from (f"     /\\ {name}' = {value}" for name, value in changes.items())
        yield f"     /\\ asks' = <<{', '.join(_text(effect.name) for effect in row.effects)}>>"
        if kept:
            yield f"     /\\ UNCHANGED <<{', '.join(kept)}>>"


def _claim(table: Table, name: str, verdict: Verdict) -> Iterator[str]:
    """Where an event cannot come, or is refused."""
    yield f"{name}(event) =="
    for spec in table.events:
        rows = [row for row in table.rows if row.event is spec.event and row.verdict is verdict]
        if not rows:
            continue
        yield f"  \\/ event = {_text(spec.event.name)} /\\"
        for row in rows:
            free = {field.name for field in spec.args}
            some = "".join(
                f"\\E {f.name} \\in {_domain(f)} : " for f in spec.args if f.name in _named(row.guard) & free
            )
            yield f"       \\/ {some}({_condition(row)}) \\* {row.why}"
    yield "  \\/ FALSE"
    yield ""


def _condition(row: Row) -> str:
    guard = guard_tla(row.guard, lambda field: field.name)
    return f"state = {_text(row.state.name)}" + (f" /\\ {guard}" if guard != "TRUE" else "")


def guard_tla(guard: Expr, place: Callable[[Field], str]) -> str:
    """A guard; ``place`` says how a field or an argument is read."""
    match guard:
        case Field():
            return place(guard)
        case Is(field=field, value=value):
            return f"{place(field)} = {value_tla(value)}"
        case Not(term=Is(field=field, value=value)):
            return f"{place(field)} # {value_tla(value)}"
        case Not(term=term):
            return f"~({guard_tla(term, place)})" if isinstance(term, All | AnyOf) else f"~{guard_tla(term, place)}"
        case All(terms=()):
            return "TRUE"
        case All(terms=terms):
            return " /\\ ".join(_inner(t, place) for t in terms)
        case AnyOf(terms=terms):
            either = " \\/ ".join(_inner(t, place) for t in terms) or "FALSE"
            return f"({either})"
    raise TypeError(f"not a guard: {guard!r}")


def _inner(term: Expr, place: Callable[[Field], str]) -> str:
    text = guard_tla(term, place)
    return f"({text})" if isinstance(term, All) and len(term.terms) > 1 else text


def value_tla(value: Value) -> str:
    return _text(value) if isinstance(value, str) else "TRUE" if value else "FALSE"


def _new(value: Value | Field) -> str:
    return value.name if isinstance(value, Field) else value_tla(value)


def _domain(field: Field) -> str:
    if set(field.domain) == {False, True}:
        return "BOOLEAN"
    return f"{{{', '.join(value_tla(value) for value in field.domain)}}}"


def _named(guard: Expr) -> set[str]:
    match guard:
        case Field(name=name):
            return {name}
        case Is(field=field):
            return {field.name}
        case Not(term=term):
            return _named(term)
        case All(terms=terms) | AnyOf(terms=terms):
            return set().union(*(_named(term) for term in terms))
    raise TypeError(f"not a guard: {guard!r}")


def _some(spec: EventSpec) -> str:
    return "".join(f"\\E {arg.name} \\in {_domain(arg)} : " for arg in spec.args)


def _call(spec: EventSpec, name: str) -> str:
    return f"{name}({', '.join(arg.name for arg in spec.args)})" if spec.args else name


def _text(name: str) -> str:
    return f'"{name}"'
