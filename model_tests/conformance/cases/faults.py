"""Data and messages go wrong: every fault before every step, and two at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

from ..case import Case, case
from .scripts import handoff, settled, where

__all__ = ["cases", "every_two"]

#: Fault, side, and the requirement that it is about.
_MOVES = (
    ("mover_error", "prefill", "FAULT-1"), ("mover_raises", "prefill", "FAULT-2"), ("mover_stalls", "prefill", "FAULT-3"),
    ("mover_unresolved", "prefill", "FAULT-4"), ("truncate", "prefill", "FAULT-5"), ("mover_corrupts", "prefill", "DATA-4"),
)  # fmt: skip
_MESSAGES = tuple(
    (fault, side, id)
    for fault, id in (("message_lost", "MSG-1 KV-3"), ("message_copied", "MSG-2"), ("message_late", "MSG-3"))
    for side in ("prefill", "decode")
)
_PEERS = tuple(
    (fault, side, id) for fault, id in (("peer_silent", "TIME-3"), ("peer_killed", "TIME-4")) for side in ("prefill", "decode")
)  # fmt: skip
_ALL = (*_MOVES[:5], *_MESSAGES, *_PEERS)
_BASES: dict[str, list[str]] = {
    "one": handoff("prefill first", 3),
    "two": handoff("prefill first", 4, (2, 2)),
    "early": handoff("chunks first", 4, (2, 2)),
}


def cases() -> Iterator[Case]:
    """Every case of the family ``faults``."""
    yield from _one()
    yield from _lost_in_a_row()
    yield from _late_endings()
    yield from _two()
    yield from _during_abort()


def _fault(fault: str, side: str) -> str:
    return f"fault {side} A {fault}"


def _one() -> Iterator[Case]:
    for base, lines in _BASES.items():
        for (fault, side, id), at in product((*_MOVES, *_MESSAGES, *_PEERS), range(1, len(lines) + 1)):
            if fault.startswith("mover") and at < len(lines) and "send" not in " ".join(lines[at:]) and base != "early":
                continue
            if fault in ("truncate", *(m[0] for m in _MOVES)) and at == len(lines):
                continue  # nothing moves any more
            script = [*lines[:at], _fault(fault, side), *(_maybe(line, fault) for line in lines[at:])]
            name = f"faults/{fault.replace('_', '-')}-{side}-{base}/{at:03}"
            about = id if "message" not in fault else (id.split()[0] if base == "early" else id)
            yield case(name, f"{fault} at {side} {where(at, lines)}", script, _plain(about, fault))


def _plain(about: str, fault: str) -> str:
    """kvpoll's own promise about a lost message is judged by the ending: it binds only where that profile is claimed."""
    return " ".join(each for each in about.split() if not each.startswith("KV-")) if fault == "message_lost" else about


def _maybe(line: str, fault: str) -> str:
    """After a whole side is gone, calls may be refused there."""
    doubtful = fault in ("peer_killed", "peer_silent") and line.split()[0] in ("create", "init", "meta", "send")
    return f"?{line}" if doubtful else line


def _lost_in_a_row() -> Iterator[Case]:
    """The n-th message that a side sends, counted by letting time pass in short whiles."""
    for side, ticks in product(("prefill", "decode"), range(12)):
        base = handoff("all at once", 4, (2, 2))
        for fault, id in (("message_lost", "MSG-1"), ("message_copied", "MSG-2")):
            script = [*base, *([f"tick {ticks}"] if ticks else []), _fault(fault, side)]
            name = f"faults/{fault.replace('_', '-')}-{side}-moment/{ticks:03}"
            yield case(name, f"{fault} at {side} {ticks} short whiles into everything", script, id)


def _late_endings() -> Iterator[Case]:
    """A message is held back until its room is over."""
    base = handoff("prefill first", 4, (2, 2))
    for side, at, who in product(("prefill", "decode"), (1, 2, 3, 7, 8), ("prefill", "decode")):
        if who == "decode" and at < 2:
            continue
        script = [*base[:at], _fault("message_late", side), *(f"?{line}" for line in base[at:8] if line != "settle")]
        script += ["settle", f"?abort {who} A", "wait total 60", "heal", "settle", "settle"]
        yield case(
            f"faults/late-{side}-{who}/{at:03}",
            f"a message of {side} comes after {who} gave up, step {at}",
            script,
            "MSG-3",
        )


def _places(lines: list[str]) -> tuple[int, ...]:
    return (1, 4, 7) if len(lines) > 7 else (1, 4, 6)


def _two() -> Iterator[Case]:
    """Every pair of faults, and every pair of places, spread over each other."""
    lines = _BASES["two"]
    spots = list(combinations_with_replacement(range(1, len(lines)), 2))
    for number, (one, two) in enumerate(combinations_with_replacement(_ALL, 2)):
        for turn in range(2):
            first, second = (one, two) if turn == 0 else (two, one)
            at, then = spots[(2 * number + turn) % len(spots)]
            yield _pair(lines, first, at, second, then)


def every_two() -> Iterator[Case]:
    """Every pair of faults at every pair of places: too many for every run, and the same in every one."""
    lines = _BASES["two"]
    for (one, two), (at, then) in product(product(_ALL, _ALL), combinations_with_replacement(range(1, len(lines)), 2)):
        yield _pair(lines, one, at, two, then)


def _pair(lines: list[str], one: tuple[str, str, str], at: int, two: tuple[str, str, str], then: int) -> Case:
    names = [f"{fault.replace('_', '-')}-{side}" for fault, side, _ in (one, two)]
    worst = next((f for f in ("peer_killed", "peer_silent") if f in (one[0], two[0])), "")
    rest = [_maybe(line, worst) for line in lines]
    script = [*rest[:at], _fault(one[0], one[1]), *rest[at:then], _fault(two[0], two[1]), *rest[then:]]
    about = _plain(one[2], one[0])
    if one[0].startswith("message"):
        about = (
            _plain(two[2], two[0])
            if not two[0].startswith("message")
            else "MSG-2"
            if one[0] == "message_copied"
            else "MSG-1"
        )
    title = f"{one[0]} at {one[1]} {where(at, lines)}, {two[0]} at {two[1]} {where(then, lines)}"
    return case(f"faults/two/{names[0]}-{at}+{names[1]}-{then}", title, script, about.split()[0])


def _during_abort() -> Iterator[Case]:
    """The request is given up while its data is stuck, lost or unresolved: memory waits, whoever gave up."""
    lines = settled(_BASES["two"])
    for (fault, side, id), who, rest in product(_MOVES[2:4], ("prefill", "decode"), ("wait total 20", "settle")):
        script = [*lines[:-2], _fault(fault, side), *lines[-2:], f"?abort {who} A", rest]
        name = f"faults/abort-{who}-{fault.replace('_', '-')}/{1 if rest == 'settle' else 2:03}"
        about = f"{id} MEM-2"
        yield case(name, f"{who} gives up while {fault}", script, _plain(about, "message_lost"))
