"""A side is drained or shut down, at every step of a hand-off, alone and among other troubles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..case import Case, case
from .scripts import handoff, maybe, slug, whole

__all__ = ["cases"]

_SIDES = ("prefill", "decode")
_ORDERS = ("prefill first", "destinations first", "chunks first")


def cases() -> Iterator[Case]:
    """Every case of the family ``stop``."""
    yield from _drain()
    yield from _shutdown()
    yield from _over()
    yield from _several()
    yield from _troubled()
    yield from _told()


def _created(lines: list[str]) -> bool:
    return {"create prefill A 4", "create decode A 4"} <= set(lines)


def _drain() -> Iterator[Case]:
    for side, order in product(_SIDES, _ORDERS):
        lines = handoff(order, 4, (2, 2))
        for at in range(len(lines) + 1):
            before, rest = lines[:at], lines[at:]
            live = _created(before)
            end = ["expect decode A 4 within transfer for STOP-1"] if live else ["wait ends"]
            new = ["?create prefill B 2", "?create decode B 2"]
            script = [*before, f"stop {side} drain", *(rest if live else maybe(rest)), *end, *new]
            where = "at the end" if not rest else f"before {rest[0]!r}"
            yield case(
                f"stop/drain-{side}-{slug(order)}/{at:03}", f"{side} is drained {where}, {order}", script, "STOP-1"
            )


def _shutdown() -> Iterator[Case]:
    for side, order in product(_SIDES, (*_ORDERS, "all at once")):
        lines = handoff(order, 4, (2, 2))
        for at in range(1, len(lines) + 1):
            script = [*lines[:at], f"stop {side} shutdown", *maybe(lines[at:]), "wait abort", "?create prefill B 2"]
            where = "at the end" if at == len(lines) else f"before {lines[at]!r}"
            name = f"stop/shutdown-{side}-{slug(order)}/{at:03}"
            yield case(name, f"{side} is shut down {where}, {order}", script, "STOP-2")
    for side, ticks in product(_SIDES, range(12)):
        script = [*handoff("all at once", 4, (2, 2)), *([f"tick {ticks}"] if ticks else []), f"stop {side} shutdown"]
        title = f"{side} is shut down {ticks} short whiles into everything"
        yield case(f"stop/shutdown-{side}-moment/{ticks:03}", title, script, "STOP-2")


def _over() -> Iterator[Case]:
    done = [*handoff("prefill first", 4, (2, 2)), "expect decode A 4 within transfer for STOP-5"]
    lost = [*handoff("prefill first", 4, (2, 2))[:-1], *["fault decode A message_lost"] * 2, "send A 2 last"]
    lost += ["expect decode A 4 within transfer for STOP-5"]
    for side, (name, how) in product(_SIDES, (("drain", "drain"), ("shutdown", "shutdown"))):
        about = "STOP-5" if how == "shutdown" else "STOP-1"
        id = f"for {about}"
        for number, (base, pause) in enumerate(product((done, lost), ("", "tick 1", "settle")), 1):
            script = [*base, *([pause] if pause else []), f"stop {side} {how}", "settle", f"expect decode A 4 {id}"]
            yield case(f"stop/{name}-{side}-success/{number:03}", f"{side}: {how} after Success", script, about)
        for number, (who, pause) in enumerate(product(_SIDES, ("", "tick 1", "settle")), 1):
            base = handoff("prefill first", 4, (2, 2))[:7]
            script = [*base, f"abort {who} A", *([pause] if pause else []), f"stop {side} {how}", "settle"]
            script += [f"expect {who} A 0 {id}"]
            yield case(f"stop/{name}-{side}-failure/{number:03}", f"{side}: {how} after {who} gave up", script, about)


def _several() -> Iterator[Case]:
    """Three rooms, each at another step."""
    rooms = {"A": handoff("prefill first", 4, (2, 2)), "B": handoff("prefill first", 3, (1, 2), room="B")}
    rooms["C"] = handoff("destinations first", 2, room="C")
    for side, number in product(_SIDES, range(1, 9)):
        cut = {"A": number, "B": max(1, number - 1), "C": (3, 5, 6, 7)[number % 4]}
        script = [line for room, at in cut.items() for line in rooms[room][:at]]
        rest = [line for room, at in cut.items() for line in rooms[room][at:]]
        title = f"{side} is shut down with three rooms under way, {number}"
        script = [*script, f"stop {side} shutdown", *maybe(rest), "wait abort"]
        yield case(f"stop/several-{side}/{number:03}", title, script, "STOP-2")
    for side in _SIDES:
        for how in ("drain", "shutdown"):
            script = [*whole("A"), f"stop {side} {how}", *maybe(handoff(room="B")), "wait ends"]
            about = "STOP-1" if how == "drain" else "STOP-5"
            yield case(f"stop/next-{side}-{how}/001", f"the next room after {side}: {how}", script, about)


def _troubled() -> Iterator[Case]:
    """Something is wrong already when a side stops."""
    lines = handoff("prefill first", 4, (2, 2))
    faults = (
        "prefill A mover_stalls", "prefill A mover_unresolved", "prefill A mover_error", "decode A commit_stalls",
        "prefill A room_silent", "decode A room_silent", "prefill A message_lost", "decode A message_lost",
        "prefill A message_late", "decode A message_late", "prefill A peer_silent", "decode A peer_silent",
    )  # fmt: skip
    for (number, fault), side, how in product(enumerate(faults, 1), _SIDES, ("drain", "shutdown")):
        if fault.split()[2] == "peer_silent" and fault.startswith(side):
            continue
        for turn, (at, rest) in enumerate(((6, "settle"), (6, "tick 3"), (7, "settle"), (4, "settle")), 1):
            after = maybe(lines[at:])
            script = [*lines[:at], f"fault {fault}", *after, rest, f"stop {side} {how}", "wait error"]
            title = f"{side}: {how} when there is {fault.split()[2]} at {fault.split()[0]}, step {at}, {rest}"
            about = "STOP-2" if how == "shutdown" else "STOP-1"
            yield case(f"stop/{how}-{side}-trouble-{number:02}/{turn:03}", title, script, about)


def _told() -> Iterator[Case]:
    """What both sides say of it: kvpoll tells a peer as soon as the two have met."""
    lines = handoff("prefill first", 4, (2, 2))
    for side, (number, at) in product(_SIDES, enumerate((2, 3, 5, 7), 1)):
        other = _SIDES[1 - _SIDES.index(side)]
        script = [*lines[:at], "settle", f"stop {side} shutdown", f"expect {other} A 0 within abort for KV-5"]
        script += [f"tables {side} A 0 SHUTDOWN", f"tables {other} A 0 PEER_ABORTED"]
        title = f"{side} is shut down before step {at}, and what both say"
        yield case(f"stop/told-{side}/{number:03}", title, script, "KV-5 STOP-2", profile="kvpoll")
