"""A request is given up: by each side, by both, at every step, and at every moment between two steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..case import Case, case
from .scripts import ORDERS, handoff, paced, whole, with_at

__all__ = ["cases"]

_SIDES = ("prefill", "decode")


def cases() -> Iterator[Case]:
    """Every case of the family ``abort``."""
    yield from _each_step()
    yield from _each_moment()
    yield from _both()
    yield from _twice()
    yield from _only_one()


def _each_step() -> Iterator[Case]:
    for order, side in product(ORDERS, _SIDES):
        lines = handoff(order, 4, (2, 2))
        for at in range(1, len(lines) + 1):
            if not any(line.startswith(f"create {side}") for line in lines[:at]):
                continue
            rest = [f"?{line}" if line.split()[0] in ("send", "meta", "init") else line for line in lines[at:]]
            name = f"abort/{side}-{order.replace(' ', '-')}/{at:03}"
            after = f"{side} gives up before step {at}" if at < len(lines) else f"{side} gives up at the end"
            yield case(name, f"{after}, {order}", [*lines[:at], f"abort {side} A", *rest], "ABORT-2")


def _each_moment() -> Iterator[Case]:
    """While the data moves."""
    for side, ticks, sizes in product(_SIDES, range(10), ((4,), (2, 2))):
        script = [*handoff("prefill first", 4, sizes), *([f"tick {ticks}"] if ticks else []), f"abort {side} A"]
        name = f"abort/{side}-moment-{len(sizes)}/{ticks:03}"
        yield case(
            name, f"{side} gives up {ticks} short whiles after the last of {len(sizes)} chunks", script, "ABORT-2"
        )


def _both() -> Iterator[Case]:
    base = handoff("prefill first", 4, (2, 2))
    for number, (at, gap, first) in enumerate(product((4, 7, 8), (0, 1, 3), _SIDES), 1):
        second = _SIDES[1 - _SIDES.index(first)]
        script = [*base[:at], f"abort {first} A", *([f"tick {gap}"] if gap else []), f"?abort {second} A"]
        yield case(
            f"abort/both/{number:03}", f"{first}, then {second} after {gap} short whiles, step {at}", script, "ABORT-4"
        )


def _twice() -> Iterator[Case]:
    base = handoff("prefill first", 4, (2, 2))
    for number, (side, at, pace) in enumerate(product(_SIDES, (4, 7), ("", "settle")), 1):
        extra = [f"abort {side} A", *([pace] if pace else []), f"?abort {side} A", f"expect {side} A 0 for ABORT-4"]
        yield case(f"abort/twice/{number:03}", f"{side} gives up twice, step {at}", [*base[:at], *extra], "ABORT-4")


def _only_one() -> Iterator[Case]:
    """The other side comes later, or never."""
    for number, (side, pace) in enumerate(product(_SIDES, ("", "settle")), 1):
        other = _SIDES[1 - _SIDES.index(side)]
        first = [f"create {side} A 2", *([pace] if pace else []), f"abort {side} A", *([pace] if pace else [])]
        yield case(
            f"abort/alone/{number:03}", f"{side} gives up before anybody else comes", [*first, *whole("B")], "ABORT-1"
        )
        late = [
            *first,
            f"create {other} A 2",
            f"?init {other} A",
            *(["?meta A 2"] if other == "decode" else ["?send A 2 last"]),
        ]
        yield case(f"abort/late-{other}/{number:03}", f"{other} comes after {side} gave up", late, "ABORT-3")
        held = with_at(paced(late, "tick 1"), 3, ["settle"])
        yield case(
            f"abort/late-{other}-slowly/{number:03}", f"{other} comes slowly after {side} gave up", held, "ABORT-3"
        )
