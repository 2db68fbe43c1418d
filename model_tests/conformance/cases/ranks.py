"""Sides of several ranks: a room is the work of all of them, and the failure of one is the failure of the side.

A case says how many ranks the sides have. What an engine makes of a number is its own matter: pipeline stages, replicas, ranks
that share heads or token rows, ranks that are met and bring nothing. So one script asks all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ..case import Case, case
from .scripts import ORDERS, handoff, maybe, paced, whole, with_at

__all__ = ["cases", "every_two"]

_SHAPES = ((2, 1), (1, 2), (2, 2), (4, 2), (1, 4), (4, 1), (2, 4), (4, 4))
#: By side: ranks with which it has several.
_SEVERAL = {"prefill": ((2, 1), (2, 2), (4, 2)), "decode": ((1, 2), (2, 2), (1, 4))}
_FAULTY = tuple((side, p, d) for side, shapes in _SEVERAL.items() for p, d in shapes)
_BASE = handoff("prefill first", 4, (2, 2))
_CUTS = {"all at once": (1, 1, 1, 1), "chunks first": (1, 3), "prefill first": (3, 1, 0)}


def cases() -> Iterator[Case]:
    """Every case of the family ``ranks``."""
    yield from _orders()
    yield from _cuts()
    yield from _aborts()
    yield from _errors()
    yield from _gone()
    yield from _late()
    yield from _healed()
    yield from _rooms()
    yield from _messages()
    yield from _slow()
    yield from _gates()
    yield from _stops()


def every_two() -> Iterator[Case]:
    """Every pair of faults of ranks and messages at every pair of places, two by two ranks: too many for every run."""
    names = (
        "rank_error",
        "rank_killed",
        "rank_silent",
        "rank_late",
        "message_lost",
        "message_late",
        "mover_unresolved",
    )
    faults = [f"fault {side} A {name}" for name in names for side in ("prefill", "decode")]
    for (one, two), at in product(product(faults, faults), range(1, len(_BASE))):
        for then in range(at, len(_BASE) + 1, 2):
            lines = [*_BASE[:at], one, *maybe(_BASE[at:then]), two, *maybe(_BASE[then:])]
            names_of = "+".join(f"{each.split()[3].replace('_', '-')}-{each.split()[1]}" for each in (one, two))
            yield _case(f"every-two-{at}-{then}", 2, 2, names_of, f"{one}, then {two}", lines, "RANK-1")


def _case(
    subject: str, p: int, d: int, what: str, title: str, lines: Sequence[str], about: str, profile: str = "common"
) -> Case:
    name = f"ranks/{subject}/{p}x{d}-{what.replace(' ', '-')}"
    script = [f"ranks {p} {d}", *lines]
    return case(name, f"{p} prefill and {d} decode ranks: {title}", script, about, profile=profile)


def _orders() -> Iterator[Case]:
    for (p, d), order in product(_SHAPES, ORDERS):
        yield _case("handoff", p, d, order, order, handoff(order, 4, (2, 2)), "RANK-1")


def _cuts() -> Iterator[Case]:
    """Chunks of which not every rank gets something, requests that are too short for all of them."""
    for (p, d), (order, sizes) in product(_SHAPES, _CUTS.items()):
        lines = paced(handoff(order, 4, sizes), "tick 2" if order == "all at once" else "tick 1")
        title = f"chunks of {', '.join(map(str, sizes))}, {order}"
        yield _case("cut", p, d, order, title, lines, "RANK-1 PAIR-5")
    for (p, d), order in product(((1, 4), (2, 4), (4, 2)), ("prefill first", "chunks first")):
        yield _case("one-page", p, d, order, f"one page, {order}", handoff(order, 1), "RANK-1")
    for p, d in ((1, 2), (2, 1), (4, 4)):
        lines = with_at(handoff("prefill first", 4), 6, ["?send A 0"])
        yield _case("empty-first", p, d, "001", "an empty chunk comes first", lines, "RANK-1")


def _aborts() -> Iterator[Case]:
    for side, (p, d) in product(("prefill", "decode"), ((2, 2), (1, 2), (2, 1))):
        if (p, d) == ((2, 1) if side == "prefill" else (1, 2)):
            continue
        for at in range(1 if side == "prefill" else 2, len(_BASE) + 1):
            lines = [*_BASE[:at], f"abort {side} A", *maybe(_BASE[at:])]
            yield _case(f"abort-{side}", p, d, f"{at:03}", f"{side} gives up before step {at}", lines, "RANK-1 ABORT-2")
    for side, ticks in product(("prefill", "decode"), (1, 2, 3, 4)):
        title = f"{side} gives up {ticks} short whiles after the last chunk"
        lines = [*_BASE, f"tick {ticks}", f"abort {side} A"]
        yield _case(f"abort-{side}-moment", 2, 2, f"{ticks:03}", title, lines, "RANK-1 ABORT-2")


def _steps(p: int, d: int, *others: int) -> tuple[int, ...]:
    """Before every step of two by two ranks, before some of them with other numbers."""
    return (7, *others, 1, 2, 3, 4, 5, 6) if (p, d) == (2, 2) else (7, 4)


def _errors() -> Iterator[Case]:
    """The data of the last rank does not move."""
    for side, p, d in _FAULTY:
        for at in _steps(p, d):
            lines = [*_BASE[:at], f"fault {side} A rank_error", *_BASE[at:7], *maybe(_BASE[7:]), "wait error"]
            title = f"the last {side} rank's data does not move, from step {at}"
            yield _case(f"error-{side}", p, d, f"{at:03}", title, lines, "RANK-2 RANK-5 RANK-7")
    for (p, d), side in product(((4, 2), (4, 4), (2, 2)), ("prefill", "decode")):
        lines = [*_BASE[:6], f"fault {side} A rank_error", _BASE[6], "wait error"]
        title = f"the last {side} rank's first chunk does not move; the others wait for the next one"
        yield _case(f"error-{side}-early", p, d, "001", title, lines, "RANK-2 RANK-5 RANK-7")


def _gone() -> Iterator[Case]:
    """The last rank is gone, or silent."""
    for (fault, id), (side, p, d) in product((("rank_killed", "RANK-3"), ("rank_silent", "RANK-4")), _FAULTY):
        for at in _steps(p, d, 8):
            other = "decode" if side == "prefill" else "prefill"
            lines = [*_BASE[:at], f"fault {side} A {fault}", *maybe(_BASE[at:])]
            if at < 3:
                lines += [f"over total for {id}"]
            else:
                lines += [f"expect {each} A 0|4 within silence for {id}" for each in (other, side)]
            title = f"the last {side} rank is {fault[5:]} before step {at}"
            yield _case(f"{fault[5:]}-{side}", p, d, f"{at:03}", title, lines, f"{id} RANK-5")


def _late() -> Iterator[Case]:
    """The last rank hears of calls a while later, or too late."""
    ends = ["holds decode A 1|2|3|4 during pairing 20 for RANK-6", "heal"]
    ends += ["expect decode A 4 within transfer for RANK-6", "expect prefill A 4 within transfer for RANK-6"]
    for side, p, d in _FAULTY:
        for at in dict.fromkeys((3, *_steps(p, d, 0))):
            lines = [*with_at(_BASE, at, [f"fault {side} A rank_late"]), "settle", *ends]
            title = f"the last {side} rank hears of nothing from step {at} on, for a while"
            yield _case(f"late-{side}", p, d, f"{at:03}", title, lines, "RANK-6")
    for (side, p, d), who in product(_FAULTY, ("prefill", "decode")):
        fault = f"fault {side} A rank_late"
        lines = [*with_at(_BASE, 3, [fault]), "settle", f"abort {who} A", "settle", "heal"]
        title = f"{who} gives up before the last {side} rank has heard of anything"
        yield _case(f"late-{side}-abort", p, d, who, title, lines, "RANK-6 ABORT-1")
    for side, p, d in _FAULTY:
        lines = [f"fault {side} A rank_late", *_BASE, "over total for TIME-5"]
        if (p, d) == (2, 1):
            lines += ["tables decode A 0 NO_LEG"]  # what the late rank's process says of a room that it never had
        title = f"the last {side} rank hears of nothing for longer than any limit"
        yield _case(f"late-{side}-always", p, d, "001", title, lines, "RANK-1 TIME-5")


def _healed() -> Iterator[Case]:
    """All is well again, and the next room is handed over."""
    for fault, (side, p, d) in product(("rank_killed", "rank_silent"), _FAULTY):
        lines = [*_BASE[:7], f"fault {side} A {fault}", *maybe(_BASE[7:]), "wait silence", "heal", "settle", "settle"]
        title = f"the last {side} rank was {fault[5:]}; the next room"
        yield _case(f"healed-{fault[5:]}-{side}", p, d, "001", title, [*lines, *whole("B")], "ISO-2 RANK-1")


def _rooms() -> Iterator[Case]:
    """Two rooms at once."""
    other = handoff("prefill first", 3, (1, 2), room="B")
    for p, d in ((2, 2), (4, 2), (1, 4)):
        both = [line for pair in zip(_BASE, other, strict=True) for line in pair]
        yield _case("two-rooms", p, d, "001", "two rooms in turn", both, "PAIR-8 RANK-1")
        for side in ("prefill", "decode"):
            mixed = [line for pair in zip(_BASE[:7], other[:7], strict=True) for line in pair]
            lines = [*mixed, f"abort {side} A", f"?{_BASE[7]}", "tick 1", other[7]]
            title = f"two rooms, {side} gives one up"
            yield _case("two-rooms-abort", p, d, side, title, lines, "ISO-1 RANK-1")
    for side, p, d in _FAULTY:
        lines = [*_BASE[:7], f"fault {side} A rank_error", *maybe(_BASE[7:]), *whole("B")]
        title = f"the last {side} rank's data of one room does not move; another room"
        yield _case(f"two-rooms-error-{side}", p, d, "001", title, lines, "ISO-1 RANK-2")


def _messages() -> Iterator[Case]:
    """A message of one of the ranks goes wrong."""
    base = handoff("all at once", 4, (2, 2))
    kinds = (("message_lost", "MSG-1"), ("message_copied", "MSG-2"))
    for (fault, id), (p, d), side, ticks in product(kinds, ((2, 2), (1, 2)), ("prefill", "decode"), (0, 1, 3)):
        lines = [*base, *([f"tick {ticks}"] if ticks else []), f"fault {side} A {fault}"]
        title = f"{fault} at {side} {ticks} short whiles into everything"
        yield _case(f"{fault.replace('_', '-')}-{side}", p, d, f"{ticks:03}", title, lines, f"{id} RANK-1")
    lost = ["fault decode A message_lost"] * 2
    for number, order, at, extra in (
        (1, "prefill first", 1, lost),
        (2, "chunks first", 6, lost),
        (3, "chunks first", 6, ["tick 2", *lost]),
    ):
        lines = with_at(handoff(order), at, extra)
        yield _case(
            "messages-lost", 4, 1, f"{number:03}", f"decode does not reach two ranks at first, {order}", lines, "MSG-1"
        )
    for p, d in ((2, 1), (4, 1), (2, 2)):
        lines = with_at(handoff("chunks first"), 6, ["tick 2", *lost[:1]])
        title = "destinations do not reach one rank at first, the others go on"
        yield _case("message-lost-one", p, d, "001", title, lines, "MSG-1")


def _slow() -> Iterator[Case]:
    """Once all ranks have met, kvpoll waits for the engines as long as for any room."""
    for (p, d), (number, at) in product(((1, 2), (2, 1), (2, 2)), enumerate((3, 5), 1)):
        lines = [*with_at(_BASE, at, ["settle", "wait pairing"]), "wait transfer"]
        lines += [f"tables {side} A 4" for side in ("decode", "prefill")]
        title = f"everybody has met, and step {at} comes long after"
        yield _case("slow", p, d, f"{number:03}", title, lines, "KV-2", "kvpoll")


def _gates() -> Iterator[Case]:
    """All data is here, at every rank, and a gate is closed."""
    lines = handoff("all at once", 4, (2, 2))
    base = [*with_at(lines, 3, ["gate A g close"]), "holds decode A 1|2|3 during react for GATE-1"]
    for p, d in ((2, 2), (1, 4), (4, 2)):
        opened = [*base, "gate A g open", "expect decode A 4 within transfer for GATE-4"]
        yield _case("gate", p, d, "opens", "a gate opens", opened, "GATE-4 RANK-1")
        for what, end in (("fails", ["gate A g fail"]), ("stays closed", ["over gate"])):
            lines = [*base, *end, "expect decode A 0 within react for GATE-2"]
            yield _case("gate", p, d, what, f"a gate {what}", lines, "GATE-2" if what == "fails" else "GATE-3")
        for fault, id in (("rank_killed", "RANK-3"), ("rank_silent", "RANK-4")):
            lines = [*base, f"fault decode A {fault}", "over total"]
            yield _case("gate", p, d, fault[5:], f"the last rank is {fault[5:]} when only a gate is closed", lines, id)


def _stops() -> Iterator[Case]:
    for side, at in product(("prefill", "decode"), (4, 7, 8)):
        down = [*_BASE[:at], f"stop {side} shutdown", *maybe(_BASE[at:])]
        yield _case(
            f"shutdown-{side}", 2, 2, f"{at:03}", f"{side} is shut down before step {at}", down, "STOP-2 RANK-1"
        )
        lines = [*_BASE[:at], f"stop {side} drain", *_BASE[at:]]
        yield _case(f"drain-{side}", 2, 2, f"{at:03}", f"{side} is drained before step {at}", lines, "STOP-1 RANK-1")
