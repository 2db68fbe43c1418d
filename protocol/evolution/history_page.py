"""``docs/slot-history.md``: what each change of an engine's positional messages did, and what it would have done with tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from kvpoll.protocol.render.markdown import grid
from kvpoll.spec.schema import Snapshot

from .compare import compare
from .findings import Finding
from .imports import read_layouts, snapshots_of
from .retold import met, retold
from .slots import Layout, LayoutFile, Prediction, Variant, Verdict, predict

__all__ = ["Change", "changes", "history", "history_page"]

_MADE_BY = "<!-- Made by `kvpoll docs --write` from spec/history/slots.json. Do not edit. -->"
_SAID = {Verdict.OK: "ok", Verdict.RAISES: "raises", Verdict.SILENT: "**silent misread**"}
_RANK = (Verdict.OK, Verdict.RAISES, Verdict.SILENT)

_INTRO = """\
The messages of SGLang between its prefill and decode processes are lists of frames: a field is known by its place. This page
goes through their changes, release by release, and asks twice what a receiver of one version makes of a message of the
other: as it was, and if each field had had a tag.

* *Slots*: what `kvpoll schema predict` says; of `metadata` and `registration` the same was measured with the engine's own
  parsers. `full` is a message that uses everything, in `plain` state, staging and layer ids are empty.
* *Tags*: the same message with the same values, written by one schema and read by the other. A name has one tag, a field that
  comes later is optional, and one that goes stays reserved. What a field holds, and whether it may be left out, is as it was.
* *Rules*: what `kvpoll schema check` says of the change, before it is released.

"""


class Cell(NamedTuple):
    """What becomes of one message, and of which fields. ``worst``: over several counts of list elements."""

    verdict: Verdict
    fields: tuple[str, ...] = ()
    worst: Verdict = Verdict.OK


class Change(NamedTuple):
    """Two successive layouts of a message. Cells are (new sender and old receiver, old sender and new receiver)."""

    old: Layout
    new: Layout
    slots: dict[Variant, tuple[Cell, Cell]]
    tags: dict[Variant, tuple[Cell, Cell]]
    slot_findings: list[Finding]
    tag_findings: list[Finding]


def history() -> LayoutFile:
    """The layouts that the page is about."""
    return read_layouts(files("kvpoll.spec").joinpath("history", "slots.json").read_bytes())


@cache
def changes() -> tuple[Change, ...]:
    """Every change of every message, in the order of the file."""
    messages: dict[tuple[str, str], list[Layout]] = {}
    for layout in history().layouts.values():
        messages.setdefault((layout.backend, layout.message), []).append(layout)
    return tuple(change for layouts in messages.values() for change in _changes(layouts))


def history_page() -> str:
    """The page."""
    parts = [f"{_MADE_BY}\n\n# What happened to slots, and would have with tags\n\n{_INTRO}{_summary(changes())}\n"]
    title = ""
    for change in changes():
        if title != (title := f"{change.new.message} ({change.new.backend})"):
            parts.append(f"\n## {title}\n")
        parts.append(_section(change))
    return "".join(parts)


def _changes(layouts: Sequence[Layout]) -> Iterator[Change]:
    for (old, before), (new, after) in pairwise(zip(layouts, retold(layouts), strict=True)):
        yield Change(
            old, new,
            {v: (_predicted(predict(new, old, v)), _predicted(predict(old, new, v))) for v in Variant},
            {v: (_met(new, after, before, v), _met(old, before, after, v)) for v in Variant},
            compare(_alone(old), _alone(new)), compare(before, after),
        )  # fmt: skip


def _alone(layout: Layout) -> Snapshot:
    (snapshot,) = snapshots_of([layout]).values()
    return snapshot


def _predicted(found: Prediction) -> Cell:
    fields = tuple(what.partition("=")[0] for what in found.wrong)
    where = found.detail.partition(":")[0]  # "name: error", or the count of frames
    return Cell(found.verdict, fields or ((where,) if where else ()), found.worst)


def _met(sender: Layout, writes: Snapshot, reads: Snapshot, variant: Variant) -> Cell:
    verdict, where = met(sender, writes, reads, variant)
    return Cell(verdict, (where,) if where else (), verdict)


# Words ------------------------------------------------------------------------------------------------------------------
def _summary(every: Sequence[Change]) -> str:
    rows = []
    for name, worst, findings in (
        ("slots", [_worst(c.slots) for c in every], [c.slot_findings for c in every]),
        ("tags", [_worst(c.tags) for c in every], [c.tag_findings for c in every]),
    ):
        counts = [str(worst.count(verdict)) for verdict in _RANK]
        rows.append((name, *counts, str(sum(any(f.breaking for f in found) for found in findings))))
    head = (f"of {len(every)} changes", "understood", "refused", "misread in silence", "found by the rules")
    return (
        "Each change counts by the worst that became of its messages, in either direction. With tags the rules find what"
        " no usual message\nshows: a field that may now be left out, a number that may be too large.\n\n"
        f"{grid(head, rows)}\n"
    )


def _worst(cells: dict[Variant, tuple[Cell, Cell]]) -> Verdict:
    return max((cell.worst for pair in cells.values() for cell in pair), key=_RANK.index)


def _section(change: Change) -> str:
    old, new = change.old, change.new
    rows = [*_rows("slots", change.slots), *_rows("tags", change.tags)]
    table = grid(("written with", "message", "new sender, old receiver", "old sender, new receiver"), rows)
    rules = [*_rules("slots", change.slot_findings), *_rules("tags", change.tag_findings)]
    heading = f"\n### {new.first_release}: {old.id} becomes {new.id}\n\nWhat was done: {new.change}.\n\n"
    return "\n".join([heading + table, "", *rules]) + "\n"


def _rows(name: str, cells: dict[Variant, tuple[Cell, Cell]]) -> list[tuple[str, ...]]:
    shown = {variant: tuple(map(_shown, pair)) for variant, pair in cells.items()}
    if len(set(shown.values())) == 1:
        return [(name, "full or plain", *shown[Variant.FULL])]
    return [(name, variant.value, *pair) for variant, pair in shown.items()]


def _shown(cell: Cell) -> str:
    about = f" ({', '.join(cell.fields)})" if cell.fields else ""
    more = "" if cell.worst is cell.verdict else f"; {_SAID[cell.worst]} with another count of elements"
    return _SAID[cell.verdict] + about + more


def _rules(name: str, findings: Iterable[Finding]) -> list[str]:
    said = [f"* Rules on the {name}: `{f.rule}`: {f.says}. Fix: {f.fix.rstrip('.')}." for f in findings]
    return said or [f"* Rules on the {name}: nothing."]
