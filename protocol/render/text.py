"""A table as plain text with aligned columns, one row a line: for terminals, grep and diff."""

from __future__ import annotations

from collections.abc import Sequence

from kvpoll.spec.table import Row, Table

from .guard import guard_text, update_text, value_text

__all__ = ["columns", "row_cells", "text"]

_HEAD = ("state", "event", "guard", "verdict", "next", "updates", "effects", "cause", "why")


def text(table: Table) -> str:
    """What the machine is, then its fields, events and rows, each as a block of aligned columns."""
    fields = [(f.name, " ".join(map(value_text, f.domain)), value_text(f.initial), f.why) for f in table.fields]
    events = [(e.event.name, e.source.value, " ".join(a.name for a in e.args), e.why) for e in table.events]
    blocks = [f"{table.name}: {table.about}"]
    if fields:
        blocks.append(columns([("field", "values", "initial", "meaning"), *fields]))
    blocks.append(columns([("event", "source", "arguments", "meaning"), *events]))
    blocks.append(columns([_HEAD, *map(row_cells, table.rows)]))
    return "\n\n".join(blocks) + "\n"


def row_cells(row: Row) -> tuple[str, ...]:
    """The nine cells of a row, in the order of the table's own columns; empty where the row has nothing to say."""
    return (
        row.state.name,
        row.event.name,
        guard_text(row.guard),
        row.verdict.value,
        row.next.name if row.next != row.state else "",
        ", ".join(map(update_text, row.updates)),
        ", ".join(e.name for e in row.effects),
        row.cause.name if row.cause is not None else "",
        row.why,
    )


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two blanks apart, without trailing blanks."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
