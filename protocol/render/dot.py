"""A table in Graphviz dot, for diagrams in papers and slides. Nothing of Graphviz is needed to make it."""

from __future__ import annotations

from kvpoll.spec.table import Table

from .arrows import picture

__all__ = ["dot"]


def dot(table: Table) -> str:
    """Terminal states have a double line, failures are red and dashed."""
    drawn = picture(table)
    lines = [
        f"digraph {_quoted(table.name)} {{",
        "    rankdir=TB; nodesep=0.6; ranksep=0.7;",
        '    node [shape=box, style=rounded, fontname="Helvetica"];',
        '    edge [fontname="Helvetica", fontsize=10];',
        "    start [shape=point];",
    ]
    for state in table.states:
        lines.append(f"    {state.name}{' [peripheries=2]' if state in table.terminal else ''};")
    lines.append(f"    start -> {table.initial.name};")
    for arrow in drawn.arrows:
        look = ', color="#b00020", fontcolor="#b00020", style=dashed' if arrow.failing else ""
        lines.append(f"    {arrow.source.name} -> {arrow.target.name} [label={_left(arrow.lines)}{look}];")
    if drawn.note_at is not None:
        lines.append(f"    note [shape=note, style=solid, fontsize=10, label={_left(drawn.note)}];")
        lines.append(f"    note -> {drawn.note_at.name} [style=dotted, arrowhead=none];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _left(lines: tuple[str, ...]) -> str:
    """One label of several lines, each set flush left (``\\l`` ends such a line in dot)."""
    return '"' + "".join(_quoted(line)[1:-1] + "\\l" for line in lines) + '"'
