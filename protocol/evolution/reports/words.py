"""What every form of a report says alike."""

from __future__ import annotations

from kvpoll.protocol.evolution.findings import Finding, Witness
from kvpoll.protocol.evolution.report import Pair, Report

__all__ = ["LONGEST_FRAME", "frame_of", "line_of", "orders_sentence", "readers", "summary", "who_breaks"]

LONGEST_FRAME = 96  #: characters of hex that a person reads

_READERS = {"new-reads-old": "new readers of old messages", "old-reads-new": "old readers of new messages"}


def readers(finding: Finding) -> str:
    return " and ".join(_READERS[direction] for direction in finding.directions) or "nobody"


def who_breaks(witness: Witness) -> str:
    writer, reader = ("an old", "a new") if witness.direction == "new-reads-old" else ("a new", "an old")
    return f"{writer} writer's message, read by {reader} reader"


def frame_of(witness: Witness) -> str:
    said = witness.frame
    return said if len(said) <= LONGEST_FRAME else f"{said[: LONGEST_FRAME - 32]}...{said[-24:]}"


def orders_sentence(report: Report) -> str:
    """What to upgrade first."""
    match report.orders:
        case ("sender-first", "receiver-first"):
            return "Upgrade in any order."
        case ("sender-first",):
            return "Upgrade the prefill side (senders) first: the other order breaks."
        case ("receiver-first",):
            return "Upgrade the decode side (receivers) first: the other order breaks."
    return "No upgrade order is safe: old and new must not meet."


def summary(report: Report) -> str:
    failing = sum(report.counts(f) for p in report.pairs for f in p.findings)
    others = sum(len(p.findings) for p in report.pairs) - failing
    waived = sum(len(p.waived) for p in report.pairs)
    against = f"{len(report.pairs)} baseline{'s' if len(report.pairs) != 1 else ''}"
    if not failing + others + waived:
        return f"nothing found against {against}"
    counts = ((failing, "breaking"), (others, "other"), (waived, "waived"))
    return f"found {', '.join(f'{count} {what}' for count, what in counts if count)} against {against}"


def line_of(pair: Pair, finding: Finding, new: bool = True) -> int:
    """The line of a finding's place in the snapshot file, 1 when it has none."""
    text = (pair.new if new else pair.old).text
    lines = text.splitlines()
    inside = _block(lines, finding.spec, 2, 0, len(lines))
    if inside is None:
        return 1
    if finding.field and (field := _block(lines, finding.field, 4, *inside)) is not None:
        return field[0] + 1
    return inside[0] + 1


def _block(lines: list[str], name: str, indent: int, start: int, stop: int) -> tuple[int, int] | None:
    """First and last line of the object of this name at this depth of a file in canonical form."""
    opened = start
    wanted = f'{" " * (indent + 1)}"name": "{name}"'
    for number in range(start, stop):
        line = lines[number]
        if line.startswith(" " * indent + "{"):
            opened = number
        elif line.rstrip(",") == wanted:
            closed = next((n for n in range(number, stop) if lines[n].startswith(" " * indent + "}")), stop)
            return opened, closed
    return None
