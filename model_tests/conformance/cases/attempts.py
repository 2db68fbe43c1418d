"""The decode side starts over, and the prefill side may not have heard that the last attempt is over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..case import Case, case
from .scripts import handoff, slug

__all__ = ["cases"]

_AGAIN = ["create decode A 4", "init decode A", "meta A 4"]
_NEXT = ["clear prefill A", "create prefill A 4", "settle", "init prefill A", "send A 2", "send A 2 last"]
_DONE = "expect decode A 4 within transfer for REUSE-5"
_LATE = "expect decode A 4 within waiting for REUSE-5"  # a word of the new attempt may be lost, too, and is said again


def cases() -> Iterator[Case]:
    """Every case of the family ``attempts``."""
    yield from _over_again()
    yield from _moments()
    yield from _told()
    yield from _thrice()


def _end(lost: int) -> list[str]:
    """After more than one lost word it depends on the limits whether the new attempt succeeds."""
    return [_DONE] if not lost else [_LATE] if lost == 1 else ["wait ends"]


def _over_again() -> Iterator[Case]:
    for order, lost in product(("prefill first", "decode first", "chunks first", "prefill is ready"), range(3)):
        lines = handoff(order, 4, (2, 2))
        made = next(at for at, line in enumerate(lines) if line.startswith("create decode")) + 1
        met = next(at for at, line in enumerate(lines) if line.startswith("create prefill")) + 1
        for at in range(max(made, met), len(lines) + 1):
            for number, pause in enumerate(("", "settle"), 1):
                losses = [
                    f"fault decode A {fault}" for fault in ("message_lost", "message_late", "message_lost")[:lost]
                ]
                script = [*lines[:at], *([pause] if pause else []), *losses, "clear decode A", *_AGAIN, "settle"]
                early = lost == 1 and pause and at <= lines.index("settle") + 2 and "send A 2" not in lines[:at]
                script += ["tables prefill A 0 SUPERSEDED"] if early else []
                script += ["?abort prefill A", "settle", *_NEXT, *_end(lost)]
                title = f"decode starts over before step {at}, {order}, {lost} words of it lost"
                name = f"attempts/{slug(order)}-{lost}/{at:02}{number}"
                yield case(name, title, script, "REUSE-5", profile="kvpoll" if lost == 1 else "common")


def _moments() -> Iterator[Case]:
    base = handoff("all at once", 4, (2, 2))
    for ticks, lost, wait in product(range(8), (0, 1, 3), ("settle", "wait pairing 20", "wait pairing 50")):
        losses = ["fault decode A message_lost"] * lost
        script = [*base, *([f"tick {ticks}"] if ticks else []), *losses, "clear decode A", *_AGAIN, wait]
        script += ["?abort prefill A", "settle", *_NEXT, *_end(lost)]
        number = ("settle", "wait pairing 20", "wait pairing 50").index(wait) + 1
        title = f"decode starts over {ticks} short whiles into everything, {lost} words of it lost"
        name = f"attempts/moment-{lost}/{ticks:02}{number}"
        yield case(name, title, script, "REUSE-5", profile="kvpoll" if lost == 1 else "common")


def _told() -> Iterator[Case]:
    """The announcement of a new attempt is all that the prefill side hears of the end of the old one."""
    base = handoff("all at once", 4, (2, 2))
    for ticks, lost in product(range(2, 8), (0, 1)):
        losses = ["fault decode A message_lost"] * lost
        script = [*base, f"tick {ticks}", *losses, "clear decode A", *_AGAIN, "settle", "expect prefill A 0|4 for KV-8"]
        title = f"decode starts over {ticks} short whiles into everything, {lost} words of it lost"
        yield case(f"attempts/told-{lost}/{ticks:03}", title, script, "KV-8", profile="kvpoll")


def _thrice() -> Iterator[Case]:
    base = handoff("prefill first", 4, (2, 2))
    for number, at in enumerate((2, 4, 7), 1):
        once = ["fault decode A message_lost", "clear decode A", *_AGAIN, "settle"]
        script = [*base[:at], *once, *once, "?abort prefill A", "settle", *_NEXT, _LATE]
        title = f"decode starts over twice before step {at}"
        yield case(f"attempts/thrice/{number:03}", title, script, "REUSE-5", profile="kvpoll")
