"""Why a step cannot be: where its machine was, what the line says, what the table says, and what was legal there."""

from __future__ import annotations

from kvpoll.spec.table import Row, Verdict

from ..render.guard import guard_text
from .follow import Machine
from .lines import Line
from .places import Move, Place
from .verdict import Bad

__all__ = ["bad_first", "bad_step", "legal_text"]


def bad_step(machine: Machine, line: Line, number: int, file: str) -> Bad:
    """``line`` is no edge from where ``machine`` is."""
    place = machine.place
    map = place.map
    what, says = _reason(machine, line)
    return Bad(
        file=file, line=number, what=what, says=says, who=machine.who,
        at=f"{place.text()}, since {machine.file}:{machine.line}" if machine.line != number else place.text(),
        got=_said(line), expected=tuple(_row_text(row) for row in place.rows(line.event)) if line.event in map.signals else (),
        legal=legal_text(place),
    )  # fmt: skip


def bad_first(machine: Machine, line: Line, number: int, file: str) -> Bad:
    """The first step of a machine whose whole life is in the trace does not start where lives start."""
    states = machine.place.map.states
    says = (
        f"the first step of this {machine.role} is from {line.before}, and they begin at {machine.place.map.start.states[0]}"
        if line.before in states
        else f"from: expected a state of the {machine.role} ({', '.join(states)}), got {line.before!r}"
    )
    return Bad(
        file=file, line=number, what="from", says=says, who=machine.who, at=machine.place.text(), got=_said(line),
        legal=legal_text(machine.place),
    )  # fmt: skip


def legal_text(place: Place) -> tuple[str, ...]:
    """Every legal event, grouped by what it does: ``-> Failed (ABORTED): ABORT``."""
    groups: dict[str, list[str]] = {}
    for move in place.legal():
        groups.setdefault(_consequence(move), []).append(move.event)
    return tuple(f"{does}: {', '.join(dict.fromkeys(events))}" for does, events in sorted(groups.items()))


def _reason(machine: Machine, line: Line) -> tuple[str, str]:
    place, table = machine.place, machine.place.map.rules.table
    if line.event not in place.map.signals:
        event, *arguments = line.event.split()
        if event not in place.map.events:
            return "event", f"the {table.name} table has no event {event!r}"
        wanted = next(spec for spec in table.events if spec.event.name == event)
        takes = ", ".join(f"{arg.name}={'|'.join(map(str, arg.domain))}" for arg in wanted.args) or "no arguments"
        return "event", f"{event} takes {takes}, got {' '.join(arguments) or 'none'}"
    if line.before not in place.states:
        return "from", f"it says that it was at {line.before}, but it was at {' or '.join(place.states)}"
    rows = [row for row in place.rows(line.event) if row.state.name == line.before]
    verdicts = {row.verdict for row in rows}
    if verdicts <= {Verdict.REFUSE}:
        return "step", f"{line.event} is refused at {line.before}, and then nothing happens: {_whys(rows)}"
    if verdicts <= {Verdict.NEVER}:
        return "step", f"{line.event} cannot happen at {line.before}: {_whys(rows)}"
    return "step", f"no row takes {line.event} from {line.before} to {line.after}{_with(line.effects, line.cause)}"


def _whys(rows: list[Row]) -> str:
    return "; ".join(dict.fromkeys(row.why for row in rows))


def _said(line: Line) -> str:
    return f"{line.event}: {line.before} -> {line.after}{_with(line.effects, line.cause)}"


def _with(effects: tuple[str, ...], cause: str) -> str:
    return (f" ({cause})" if cause else "") + (f" with {', '.join(effects)}" if effects else " with no effects")


def _row_text(row: Row) -> str:
    effects, cause = tuple(effect.name for effect in row.effects), row.cause.name if row.cause is not None else ""
    guard = guard_text(row.guard)
    when = "" if guard == "always" else f" when {guard}"
    if row.verdict in (Verdict.REFUSE, Verdict.NEVER):
        return f"{row.state.name}, {row.event.name}{when}: {row.verdict.value} ({row.why})"
    return f"{row.state.name} -> {row.next.name}{when}{_with(effects, cause)} ({row.why})"


def _consequence(move: Move) -> str:
    if move.after != move.before:
        return f"{move.before} -> {move.after}" + (f" ({move.cause})" if move.cause else "")
    return f"{move.before} stays" + (f", with {', '.join(move.effects)}" if move.effects else "")
