"""The support matrix for people and programs: text, Markdown and JSON, all from the same cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from json import dumps
from typing import TypeAlias

from kvpoll.spec.support import (
    BOUNDS,
    CAPABILITIES,
    COMBINATIONS,
    MATRIX,
    PLANS,
    SECTIONS,
    UNCOMPARED,
    Attention,
    Cell,
    Outcome,
    Relation,
    Section,
)

from .markdown import grid
from .text import columns

__all__ = ["SUPPORT_FORMAT", "support_json", "support_markdown", "support_text"]

SUPPORT_FORMAT = "kvpoll-support/1"

_HEAD = ("field", "prefill and decode", "attention", "outcome", "plan", "why", "advice")
_WORDS = {Outcome.EQUAL: "as it is", Outcome.CONVERTED: "converted", Outcome.REFUSED: "refused"}
_ABOUT = (
    "What a prefill rank and a decode rank make of each other. The handshake looks up every field below, by how the values of\n"
    "the two ends relate: as it is, converted by the plan that is named, or refused with a cause and advice. One refused field\n"
    "refuses the pair, and only that pair. The configuration check asks what concerns one end, before a process starts."
)
_ONE_END = "What an end must keep by itself, whoever its peer is."
_PLANS = "How two different ends work together. Rows: which bytes go where; route: which replica; terms: what is used."
_STATED = "Words in `capabilities` that are fields above. Of every other one both ends use what both have."
_UNCOMPARED = "Fields of a registration that are no property of a pair."

Row: TypeAlias = tuple[str, ...]
Json: TypeAlias = "str | int | list[str] | None"


def support_text() -> str:
    """Aligned columns, one cell of the matrix a line: for terminals, grep and diff."""
    parts = ["support: " + _ABOUT]
    for section in SECTIONS:
        parts += [section.title, columns([_HEAD, *map(_cells, section.cells)])]
    for title, about, head, rows in _lists():
        parts += [f"{title}: {about.replace('`', '')}", columns([head, *rows])]
    return "\n\n".join(parts) + "\n"


def support_markdown() -> str:
    """A page: a table for each section, then plans, what one end must keep, and what is not compared."""
    parts = ["# What may meet what", _ABOUT]
    for section in SECTIONS:
        parts += [f"## {section.title}", grid(_HEAD, _coded(section))]
    for title, about, head, rows in _lists():
        parts += [f"## {title}", about, grid(head, ((f"`{row[0]}`", *row[1:]) for row in rows))]
    return "\n\n".join(parts) + "\n"


def support_json() -> str:
    """One object; every cell stands on a line of its own. ``format`` changes when any of this does."""
    lists: dict[str, Iterable[dict[str, Json]]] = {
        "cells": (
            {
                "field": cell.field,
                "relation": cell.relation.name,
                "attention": [a.name for a in cell.attention],
                "outcome": cell.entry.outcome.name,
                "plan": cell.entry.plan or None,
                "why": cell.entry.why,
                "advice": cell.entry.advice or None,
            }
            for cell in MATRIX
        ),
        "plans": ({"name": p.name, "kind": p.kind.name, "about": p.about} for p in PLANS.values()),
        "combinations": (
            {"field": c.field, "first": c.first.name, "second": c.second.name, "why": c.why, "advice": c.advice}
            for c in COMBINATIONS
        ),
        "bounds": ({"field": b.field, "how": b.how, "other": b.other} for b in BOUNDS),
        "capabilities": ({"name": name, "about": about} for name, about in CAPABILITIES.items()),
        "uncompared": ({"field": name, "why": why} for name, why in UNCOMPARED.items()),
    }
    members = [f"  {dumps('format')}: {dumps(SUPPORT_FORMAT)}"]
    for name, rows in lists.items():
        lines = ",\n".join(f"    {dumps(row, ensure_ascii=False)}" for row in rows)
        members.append(f"  {dumps(name)}: [\n{lines}\n  ]")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _cells(cell: Cell) -> Row:
    attention = "any" if cell.attention == tuple(Attention) else ", ".join(a.value for a in cell.attention)
    entry = cell.entry
    outcome = "not judged" if cell.relation is Relation.MOOT else _WORDS[entry.outcome]
    return cell.field, cell.relation.value, attention, outcome, entry.plan, entry.why, entry.advice


def _coded(section: Section) -> Iterator[Row]:
    for field, relation, attention, outcome, plan, *words in map(_cells, section.cells):
        yield f"`{field}`", relation, attention, outcome, f"`{plan}`" if plan else "", *words


def _lists() -> Iterator[tuple[str, str, Row, list[Row]]]:
    """The other tables: title, what it is, head, rows."""
    yield "Plans", _PLANS, ("plan", "kind", "what it does"), [(p.name, p.kind.value, p.about) for p in PLANS.values()]
    excluded = [(c.field, f"not {c.first.value} with {c.second.value}: {c.why}", c.advice) for c in COMBINATIONS]
    bounds = [(b.field, f"{b.how} {b.other}", "") for b in BOUNDS]
    yield "One end", _ONE_END, ("field", "rule", "advice"), [*excluded, *bounds]
    yield "Capabilities", _STATED, ("capability", "what it says"), list(CAPABILITIES.items())
    yield "Not compared", _UNCOMPARED, ("field", "why"), list(UNCOMPARED.items())
