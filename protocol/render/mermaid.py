"""A table as a Mermaid ``stateDiagram-v2``, which code hosts draw inside Markdown."""

from __future__ import annotations

from kvpoll.spec.table import Table

from .arrows import picture

__all__ = ["mermaid"]


def mermaid(table: Table) -> str:
    """States, arrows that change the state, and a note with the causes that every live state can fail with."""
    drawn = picture(table)
    lines = ["stateDiagram-v2", f"    [*] --> {table.initial.name}"]
    for arrow in drawn.arrows:
        label = "<br/>".join(_safe(line) for line in arrow.lines)
        lines.append(f"    {arrow.source.name} --> {arrow.target.name} : {label}")
    lines += [f"    {state.name} --> [*]" for state in table.states if state in table.terminal]
    if drawn.note_at is not None:
        lines.append(f"    note left of {drawn.note_at.name}")
        lines += [f"        {_safe(line)}" for line in drawn.note]
        lines.append("    end note")
    return "\n".join(lines) + "\n"


def _safe(line: str) -> str:
    """A semicolon or a hash would end the statement; words and brackets are plain text to Mermaid."""
    return line.translate(_SIGNS)


_SIGNS = str.maketrans({"#": "#35;", ";": "#59;"})
