"""The five notations: complete, stable, and true to the rows that they were made from."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from enum import Enum
from itertools import product

import pytest

from kvpoll.protocol.render import Format, guard_text, render, update_text
from kvpoll.protocol.render.guard import normal, shortest, variables
from kvpoll.protocol.render.markdown import grid
from kvpoll.spec import LEASE, LINK, RECEIVER, SENDER, TABLES, Cause, Effect, LeaseEvent, LeaseState, Row, Table
from kvpoll.spec.table import ALWAYS, All, AnyOf, Expr, Field, Is, Not, Update, Value, Verdict, evaluate

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
each_format = pytest.mark.parametrize("format", Format)

a = Field("a", (False, True), False, "a")
b = Field("b", (False, True), False, "b")
c = Field("c", (False, True), False, "c")
door = Field("door", ("open", "ajar", "shut"), "open", "of three values")


def same(one: Expr, other: Expr) -> bool:
    """Equal under every assignment of what they name."""
    names = list(dict.fromkeys((*variables(one), *variables(other))))
    envs = ({f.name: v for f, v in zip(names, values, strict=True)} for values in product(*(f.domain for f in names)))
    return all(evaluate(one, env) == evaluate(other, env) for env in envs)


# -- guards


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (ALWAYS, "always"),
        (a, "a"),
        (~a, "not a"),
        (~~a, "a"),
        (a & b & ~c, "a and b and not c"),
        (a | b | c, "a or b or c"),
        (a & (b | c), "a and (b or c)"),
        (a | (b & c), "a or (b and c)"),
        (a & ~(~b & c), "a and (b or not c)"),
        (~(a | b), "not a and not b"),
        (door.is_("open"), "door is open"),
        (~door.is_("open") & a, "door is not open and a"),
        (a.is_(False), "a is no"),
        (~ALWAYS, "never"),
    ],
)
def test_a_guard_reads_like_words(guard: Expr, words: str) -> None:
    assert guard_text(guard) == words


def test_what_is_not_a_guard_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not a guard"):
        guard_text(Expr())


def test_an_update_reads_like_an_assignment() -> None:
    assert [update_text(u) for u in (a.to(True), door.to("shut"), a.to(b))] == ["a := yes", "door := shut", "a := b"]


@each_table
def test_pushing_negations_down_changes_no_guard(table: Table) -> None:
    for row in table.rows:
        assert same(normal(row.guard), row.guard), guard_text(row.guard)


@each_table
def test_two_rows_of_one_event_never_read_the_same(table: Table) -> None:
    seen = [(r.state, r.event, guard_text(r.guard)) for r in table.rows]
    assert len(seen) == len(set(seen))


@each_table
def test_a_joined_guard_holds_exactly_where_one_of_its_rows_does(table: Table) -> None:
    groups: dict[tuple[Enum, Enum, Enum], list[Expr]] = {}
    for row in table.rows:
        groups.setdefault((row.state, row.event, row.next), []).append(row.guard)
    for guards in groups.values():
        assert same(shortest(guards), AnyOf(tuple(guards)))


@pytest.mark.parametrize(
    ("guards", "words"),
    [
        ([a & b, a & ~b], "a"),
        ([a & b, a & ~b, ~a & b, ~a & ~b], "always"),
        ([a & door.is_("open"), a & door.is_("ajar")], "a and door is not shut"),
        ([a & b, ~a & b, ~a & ~b], "b or not a"),
        ([a & b & c], "a and b and c"),
    ],
)
def test_a_joined_guard_is_short(guards: list[Expr], words: str) -> None:
    joined = shortest(guards)
    assert same(joined, AnyOf(tuple(guards)))
    assert sorted(guard_text(joined).split(" or ")) == sorted(words.split(" or "))


# -- all formats


@each_table
@each_format
def test_a_rendering_is_the_same_each_time_and_ends_with_one_newline(table: Table, format: Format) -> None:
    made = render(table, format)
    assert made == render(table, format.value)
    assert made.endswith("\n")
    assert not made.endswith("\n\n")
    assert all(line == line.rstrip() for line in made.splitlines())


def test_an_unknown_format_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="svg"):
        render(LINK, "svg")


@each_table
def test_text_has_one_aligned_line_for_each_row(table: Table) -> None:
    block = render(table, "text").rstrip("\n").split("\n\n")[-1].splitlines()
    assert len(block) == len(table.rows) + 1
    starts = [block[0].index(name) for name in ("state", "event", "guard", "verdict", "why")]
    for line, row in zip(block[1:], table.rows, strict=True):
        cells = (row.state.name, row.event.name, guard_text(row.guard), row.verdict.value, row.why)
        assert [line[i : i + len(cell)] for i, cell in zip(starts, cells, strict=True)] == list(cells)


@each_table
def test_markdown_has_a_whole_table_for_each_state(table: Table) -> None:
    made = render(table, "markdown")
    for state in table.states:
        section = made.split(f"\n## {state.name}\n")[1].split("\n## ")[0]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        assert len(lines) == 2 + sum(r.state is state for r in table.rows)
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {9}


def test_a_bar_does_not_split_a_markdown_cell() -> None:
    assert grid(("x",), [("a|b",)]).splitlines()[-1] == r"| a\|b |"


# -- JSON


def table_from_json(text: str, model: Table) -> tuple[tuple[Row, ...], dict[str, object]]:
    """The rows again, from the JSON alone and the enums of the table it is of."""
    data = json.loads(text)
    events = {e.event.name: e.event for e in model.events}
    own = {f["name"]: field(f) for f in data["fields"]}
    args = {e["name"]: {x["name"]: field(x) for x in e["arguments"]} for e in data["events"]}
    rows = []
    for r in data["rows"]:
        known = {**own, **args[r["event"]]}
        rows.append(
            Row(
                model.states[r["state"]],
                events[r["event"]],
                expr(r["guard"], known),
                Verdict(r["verdict"]),
                model.states[r["next"]],
                tuple(Update(own[f], known[v["from"]] if "from" in v else v["value"]) for f, v in r["updates"]),
                tuple(Effect[e] for e in r["effects"]),
                None if r["cause"] is None else Cause[r["cause"]],
                r["why"],
            )
        )
    return tuple(rows), data


def field(data: dict[str, object]) -> Field:
    domain, initial = data["domain"], data["initial"]
    assert isinstance(domain, list)
    assert isinstance(initial, bool | str)
    return Field(str(data["name"]), tuple(domain), initial, str(data["why"]))


def expr(data: object, known: dict[str, Field]) -> Expr:
    if isinstance(data, str):
        return known[data]
    assert isinstance(data, dict)
    ((kind, body),) = data.items()
    if kind == "is":
        name, value = body
        return Is(known[name], value)
    if kind == "not":
        return Not(expr(body, known))
    return {"all": All, "any": AnyOf}[kind](tuple(expr(t, known) for t in body))


@each_table
def test_json_leaves_nothing_out(table: Table) -> None:
    rows, data = table_from_json(render(table, "json"), table)
    assert rows == table.rows
    assert (data["format"], data["name"], data["about"]) == ("kvpoll-table/1", table.name, table.about)
    assert data["initial"] == table.initial.name
    assert data["states"] == [
        {
            "name": s.name,
            "value": s.value,
            "terminal": s in table.terminal,
            "left_by": [e.name for e in table.waiting.get(s, ())],
        }
        for s in table.states
    ]
    events = data["events"]
    assert isinstance(events, list)
    assert [(e["name"], e["source"], e["why"]) for e in events] == [
        (e.event.name, e.source.value, e.why) for e in table.events
    ]
    broken = table.broken
    assert data["broken"] == (
        None if broken is None else {"state": broken[0].name, "effects": [e.name for e in broken[1]]}
    )


def test_json_keeps_the_members_that_other_tools_rely_on() -> None:
    data = json.loads(render(RECEIVER, "json"))
    assert list(data) == ["format", "name", "about", "initial", "broken", "states", "fields", "events", "rows"]
    assert set(data["rows"][0]) == {
        "state", "event", "guard", "verdict", "next", "updates", "effects", "cause", "why",
    }  # fmt: skip


# -- diagrams


def moving(table: Table) -> set[tuple[str, str]]:
    return {(r.state.name, r.next.name) for r in table.rows if r.verdict in (Verdict.GO, Verdict.FAIL)}


@each_table
def test_mermaid_draws_each_pair_of_states_once_and_every_pair_that_rows_join(table: Table) -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+) : ", render(table, "mermaid"), re.MULTILINE)
    assert len(arrows) == len(set(arrows))
    assert set(arrows) == moving(table)


@each_table
def test_dot_draws_the_same_arrows_as_mermaid(table: Table) -> None:
    arrows = re.findall(r"^    (\w+) -> (\w+) \[label=", render(table, "dot"), re.MULTILINE)
    assert sorted(arrows) == sorted(moving(table))


@pytest.mark.parametrize("table", [SENDER, RECEIVER], ids=lambda t: t.name)
@pytest.mark.parametrize("format", [Format.MERMAID, Format.DOT])
def test_a_diagram_says_every_cause_that_a_state_can_fail_with(table: Table, format: Format) -> None:
    made = render(table, format)
    note = next(part for part in re.split(r"note ", made)[1:] if "common causes" in part)
    for state in table.states:
        causes = {r.cause.name for r in table.rows if r.state is state and r.verdict is Verdict.FAIL and r.cause}
        if causes:
            (label,) = re.findall(rf"^    {state.name} --?> Failed.*$", made, re.MULTILINE)
            said = set(re.findall(r"[A-Z_]{4,}", label)) | set(re.findall(r"[A-Z_]{4,}", note))
            assert causes <= said
            assert "any common cause" in label


def test_a_table_without_failures_has_no_note() -> None:
    assert "note" not in render(LEASE, "mermaid")
    assert "note" not in render(LINK, "dot")


def test_mermaid_begins_where_the_table_begins_and_ends_where_it_ends() -> None:
    made = render(SENDER, "mermaid")
    assert made.startswith("stateDiagram-v2\n    [*] --> Bootstrapping\n")
    assert re.findall(r"(\w+) --> \[\*\]", made) == ["Failed", "Success"]


def test_signs_that_end_a_statement_are_escaped() -> None:
    odd: Value = 'a;b#c"'
    strange = Field("f", (odd, "x"), "x", "odd words")
    row = next(r for r in LEASE.rows if (r.state, r.event) == (LeaseState.FREE, LeaseEvent.TAKE))
    table = replace(LEASE, rows=(replace(row, guard=strange.is_(odd)),))
    assert 'TAKE [f is a#59;b#35;c"]' in render(table, "mermaid")
    assert 'TAKE [f is a;b#c\\"]' in render(table, "dot")
