"""What a diagram shows: one arrow for each pair of states, and what every live state can fail with said once.

A sender has some 50 rows that change the state, most of them failures. Drawn one by one they hide the life of a room;
so GO rows of one event are joined under their shortest guard, and FAIL rows are listed by cause only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvpoll.spec.causes import Cause
from kvpoll.spec.table import ALWAYS, Row, Table, Verdict

from .guard import guard_text, shortest

__all__ = ["Arrow", "Picture", "picture"]

_CAUSES_A_LINE = 3
_WITH_COMMON = "any common cause"  # the note at Failed lists them


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one state to another, with the lines of its label."""

    source: Enum
    target: Enum
    lines: tuple[str, ...]
    failing: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """``note`` stands at the state ``note_at`` and lists the common causes; both are empty for a table without FAIL."""

    arrows: tuple[Arrow, ...]
    note_at: Enum | None
    note: tuple[str, ...]


def picture(table: Table) -> Picture:
    """The arrows in the order of the rows, first the ones that go on, then the ones that fail."""
    going: dict[tuple[Enum, Enum], dict[Enum, list[Row]]] = {}
    failing: dict[tuple[Enum, Enum], set[Cause]] = {}
    for row in table.rows:
        if row.verdict is Verdict.GO:
            going.setdefault((row.state, row.next), {}).setdefault(row.event, []).append(row)
        elif row.verdict is Verdict.FAIL and row.cause is not None:
            failing.setdefault((row.state, row.next), set()).add(row.cause)
    common = set.intersection(*failing.values()) if len(failing) > 1 else set()
    arrows = [
        Arrow(source, target, tuple(_event_line(event, rows) for event, rows in events.items()), failing=False)
        for (source, target), events in going.items()
    ] + [
        Arrow(source, target, _cause_lines(causes - common, _WITH_COMMON if common else ""), failing=True)
        for (source, target), causes in failing.items()
    ]
    if not common:
        return Picture(tuple(arrows), None, ())
    note = _cause_lines(common, "common causes:")
    return Picture(tuple(arrows), next(target for _, target in failing), note)


def _event_line(event: Enum, rows: list[Row]) -> str:
    guard = shortest([r.guard for r in rows])
    return event.name if guard == ALWAYS else f"{event.name} [{guard_text(guard)}]"


def _cause_lines(causes: set[Cause], head: str) -> tuple[str, ...]:
    words = [c.name for c in sorted(causes)]
    lines = [", ".join(words[i : i + _CAUSES_A_LINE]) for i in range(0, len(words), _CAUSES_A_LINE)]
    return tuple(filter(None, [head, *(f"{line}," for line in lines[:-1]), *lines[-1:]]))
