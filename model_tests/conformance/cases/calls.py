"""Calls that come at the wrong time, twice, for too much, or for rooms that are over or unknown: no harm is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..case import Case, case
from .scripts import handoff, whole, with_at

__all__ = ["cases"]

#: The plain hand-off, numbered: 0 create P, 1 create D, 2 init D, 3 meta, 4 settle, 5 init P, 6 send, 7 send last.
_BASE = handoff("prefill first", 4, (2, 2))
_AFTER = [*_BASE, "expect decode A 4 within transfer", "expect prefill A 4 within transfer"]

#: name -> (title, the wrong call, before which steps of the plain hand-off it comes)
_WRONG: dict[str, tuple[str, str, Sequence[int]]] = {
    "send-before-init": ("send without init", "!send A 2", (1, 2, 4, 5)),
    "meta-before-init": ("destinations without init", "!meta A 4", (2,)),
    "meta-twice": ("destinations given twice", "!meta A 4", (4, 5, 6, 7, 8)),
    "meta-few": ("destinations given again, fewer", "!meta A 3", (4, 6, 7)),
    "create-prefill-live": ("prefill creates a room that is live", "!create prefill A 4", (1, 2, 4, 6, 7)),
    "create-decode-live": ("decode creates a room that is live", "!create decode A 4", (2, 4, 6, 7)),
    "create-prefill-other": ("prefill creates a live room with another length", "!create prefill A 2", (1, 4, 7)),
    "create-decode-other": ("decode creates a live room with another length", "!create decode A 2", (2, 4, 7)),
    "send-too-many": ("more pages than the request has", "!send A 3 last", (7,)),
    "send-last-early": ("the last chunk, with pages left out", "!send A 1 last", (6, 7)),
    "send-after-last": ("a chunk after the last one", "!send A 1", (8,)),
    "send-last-twice": ("the last chunk twice", "!send A 2 last", (8,)),
    "empty-after-last": ("an empty last chunk after the last one", "!send A 0 last", (8,)),
}
#: Calls for a room that is over: they change nothing.
_OVER: dict[str, tuple[str, ...]] = {
    "abort-prefill": ("?abort prefill A",),
    "abort-decode": ("?abort decode A",),
    "abort-both": ("?abort prefill A", "?abort decode A"),
    "send": ("!send A 1",),
    "send-last": ("!send A 1 last",),
    "meta": ("!meta A 4",),
    "init": ("?init prefill A", "?init decode A"),
}
#: Calls for a room that was never created there.
_UNKNOWN: dict[str, str] = {
    "init-prefill": "!init prefill B", "init-decode": "!init decode B", "meta": "!meta B 1", "send": "!send B 1 last",
    "abort-prefill": "?abort prefill B", "abort-decode": "?abort decode B", "clear-prefill": "?clear prefill B",
    "clear-decode": "?clear decode B",
}  # fmt: skip


def cases() -> Iterator[Case]:
    """Every case of the family ``calls``."""
    yield from _wrong()
    yield from _over()
    yield from _unknown()
    yield from _cleared()


def _wrong() -> Iterator[Case]:
    for name, (title, call, places) in _WRONG.items():
        for at in places:
            where = f"before step {at}" if at < len(_BASE) else "at the end"
            about = "CALL-2 CALL-3" + (" REUSE-3" if "create" in name else "")
            yield case(f"calls/{name}/{at:03}", f"{title}, {where}", with_at(_BASE, at, [call]), about)
            if at in (places[0], places[-1]):
                script = [*with_at(_BASE, at, [call]), *whole("B")]
                yield case(f"isolation/wrong-{name}/{at:03}", f"{title}, {where}: another room", script, "ISO-3")


def _over() -> Iterator[Case]:
    for name, lines in _OVER.items():
        script = [*_AFTER, *lines, "settle", "expect decode A 4 for CALL-5", "expect prefill A 4 for CALL-5"]
        yield case(f"calls/after-success/{name}", f"after Success: {', '.join(lines)}", script, "CALL-5")
        for side in ("prefill", "decode"):
            calls = [line.replace("!", "?") for line in lines]
            failed = [*_BASE[:7], f"abort {side} A", "wait abort", *calls, "settle", f"expect {side} A 0 for CALL-5"]
            yield case(
                f"calls/after-failure/{name}-{side}", f"{side} gave up; then {', '.join(lines)}", failed, "CALL-5"
            )


def _unknown() -> Iterator[Case]:
    for name, call in _UNKNOWN.items():
        script = [*_BASE[:6], call, *_BASE[6:]]
        yield case(f"calls/unknown/{name}", f"for a room that nobody created: {call[1:]}", script, "ISO-3 CALL-2")


def _cleared() -> Iterator[Case]:
    """A room that is cleared while it is live, at each step, by each side."""
    for side in ("prefill", "decode"):
        for at in range(1 if side == "prefill" else 2, len(_BASE) + 1):
            rest = [line for line in _BASE[at:] if side not in line and _mine(line) != side]
            script = [
                *_BASE[:at],
                f"clear {side} A",
                *(f"?{line}" if _call(line) else line for line in rest),
                *whole("B"),
            ]
            yield case(
                f"calls/clear-{side}/{at:03}", f"{side} clears a live room before step {at}", script, "ISO-2 CALL-2"
            )


def _call(line: str) -> bool:
    return line.split()[0] in ("create", "init", "meta", "send")


def _mine(line: str) -> str:
    return {"send": "prefill", "meta": "decode"}.get(line.split()[0], "")
