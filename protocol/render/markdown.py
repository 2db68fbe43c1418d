"""A table as Markdown: fields and events, then one table for each state in the order of its life."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvpoll.spec.table import Table

from .guard import value_text
from .text import row_cells

__all__ = ["grid", "markdown"]


def markdown(table: Table) -> str:
    """A first-level title, so that a file can hold one machine."""
    fields = [(f"`{f.name}`", ", ".join(map(value_text, f.domain)), value_text(f.initial), f.why) for f in table.fields]
    events = [
        (f"`{e.event.name}`", e.source.value, ", ".join(f"`{a.name}`" for a in e.args), e.why) for e in table.events
    ]
    args = {a.name: (f"`{a.name}`", ", ".join(map(value_text, a.domain)), a.why) for e in table.events for a in e.args}
    parts = [f"# {table.name}", table.about]
    if fields:
        parts += ["## Fields", grid(("field", "values", "initial", "meaning"), fields)]
    parts += ["## Events", grid(("event", "source", "arguments", "meaning"), events)]
    if args:
        parts += ["Arguments:", grid(("argument", "values", "meaning"), args.values())]
    for state in dict.fromkeys(r.state for r in table.rows):
        exits = " or ".join(f"`{e.name}`" for e in table.waiting.get(state, ()))
        parts.append(f"## {state.name}")
        if state in table.terminal:
            parts.append("Terminal: no row leaves it.")
        elif exits:
            parts.append(f"Left at the latest by {exits}.")
        rows = [row_cells(r)[1:] for r in table.rows if r.state is state]
        parts.append(grid(("event", "guard", "verdict", "next", "updates", "effects", "cause", "why"), rows))
    return "\n\n".join(parts) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
