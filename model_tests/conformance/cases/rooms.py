"""Rooms beside rooms, rooms after rooms, and one number for two requests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..case import Case, case
from .scripts import handoff, whole

__all__ = ["cases"]

_FAULTS = (
    ("mover_error", "prefill"), ("mover_raises", "prefill"), ("mover_stalls", "prefill"), ("mover_unresolved", "prefill"),
    ("truncate", "prefill"), ("message_lost", "prefill"), ("message_lost", "decode"), ("message_late", "prefill"),
    ("message_late", "decode"), ("message_copied", "prefill"), ("message_copied", "decode"),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Every case of the families ``isolation`` (those that faults and aborts make) and ``reuse``."""
    yield from _beside()
    yield from _after()
    yield from _reuse()
    yield from _profile()


def _beside() -> Iterator[Case]:
    """Room B is half done when room A goes wrong."""
    a, b = handoff("prefill first", 4, (2, 2)), handoff("prefill first", 3, (1, 2), room="B")
    for (fault, side), at in product(_FAULTS, (1, 6)):
        script = [
            *a[:at],
            *b[:-1],
            f"fault {side} A {fault}",
            *a[at:],
            "settle",
            b[-1],
            "expect decode B 4 within transfer for ISO-1",
        ]
        yield case(
            f"isolation/beside-{fault.replace('_', '-')}-{side}/{at:03}",
            f"{fault} at {side} beside another room",
            script,
            "ISO-1",
        )
    for side, at in product(("prefill", "decode"), (2, 4, 7, 8)):
        script = [*a[:at], *b[:-1], f"abort {side} A", "tick 2", b[-1], "expect decode B 4 within transfer for ISO-1"]
        yield case(
            f"isolation/beside-abort-{side}/{at:03}",
            f"{side} gives a room up, step {at}, beside another",
            script,
            "ISO-1",
        )


def _after() -> Iterator[Case]:
    """Rooms B and C come when room A has gone wrong."""
    a = handoff("prefill first", 4, (2, 2))
    for (fault, side), ends in product(_FAULTS, ("wait error", "wait ends")):
        script = [*a[:6], f"fault {side} A {fault}", *a[6:], ends, *whole("B"), *whole("C", 3)]
        script = [line.replace("within transfer", "within transfer for ISO-2") for line in script]
        number = 1 if ends == "wait error" else 2
        yield case(
            f"isolation/after-{fault.replace('_', '-')}-{side}/{number:03}",
            f"two rooms after {fault} at {side}",
            script,
            "ISO-2",
        )
    for side, at in product(("prefill", "decode"), (2, 4, 7, 8)):
        script = [
            line.replace("within transfer", "within transfer for ISO-2")
            for line in [*a[:at], f"abort {side} A", *whole("B")]
        ]
        yield case(
            f"isolation/after-abort-{side}/{at:03}", f"a room after {side} gave one up, step {at}", script, "ISO-2"
        )


#: How the first attempt of a number ends.
_ENDS: dict[str, list[str]] = {
    "success": [*handoff("prefill first", 4, (2, 2)), "wait transfer"],
    "abort-prefill": [*handoff("prefill first", 4, (2, 2))[:7], "abort prefill A", "wait abort"],
    "abort-decode": [*handoff("prefill first", 4, (2, 2))[:7], "abort decode A", "wait abort"],
    "abort-early": [
        "create prefill A 4",
        "create decode A 4",
        "settle",
        "abort decode A",
        "?abort prefill A",
        "wait abort",
    ],
    "error": [*handoff("prefill first", 4, (2, 2))[:6], "fault prefill A mover_error", "send A 4 last", "wait ends"],
    "unresolved": [
        *handoff("prefill first", 4, (2, 2))[:6],
        "fault prefill A mover_unresolved",
        "send A 4 last",
        "wait ends",
    ],
    "live": handoff("prefill first", 4, (2, 2))[:7],
    "late": [
        *handoff("prefill first", 4)[:2],
        "fault prefill A message_late",
        "abort prefill A",
        "?abort decode A",
        "settle",
    ],
}


def _reuse() -> Iterator[Case]:
    for (name, first), order, pages in product(
        _ENDS.items(), ("prefill first", "destinations first", "chunks first"), (4, 2)
    ):
        again = [*handoff(order, pages)]
        script = [
            *first,
            "clear prefill A",
            "clear decode A",
            "settle",
            *again,
            "expect decode A 4 within transfer for REUSE-1",
        ]
        if name == "late":
            script += ["heal", "settle"]
        about = "REUSE-1" if name == "success" else "REUSE-1 REUSE-2"
        title = f"the number again after {name}, {order}, {pages} pages"
        yield case(f"reuse/{name}-{order.replace(' ', '-')}/{pages:03}", title, script, about)
    for number in range(1, 4):
        once = [
            *handoff("prefill first", 2),
            "expect decode A 4 within transfer for REUSE-1",
            "settle",
            "clear prefill A",
            "clear decode A",
        ]
        yield case(f"reuse/again/{number:03}", f"one number {number + 1} times", [*once * (number + 1)], "REUSE-1")


def _profile() -> Iterator[Case]:
    """What the profile ``kvpoll`` promises beyond all that."""
    script = handoff("destinations first", 2)
    yield case(
        "kvpoll/all/001",
        "everything that an engine may be able to do is there",
        script,
        "KV-4 PAIR-3 REUSE-1 MEM-5",
        profile="kvpoll",
    )
    base = handoff("prefill first", 4, (2, 2))
    for side in ("prefill", "decode"):
        other = "decode" if side == "prefill" else "prefill"
        script = [*base[:7], "settle", f"fault {side} A peer_killed", "wait silence", f"tables {other} A 0 PEER_LOST"]
        title = f"{side} is gone, and what {other} says"
        yield case(f"kvpoll/lost/{side}", title, script, "KV-7", profile="kvpoll")
    for side, at in product(("prefill", "decode"), (2, 4, 7)):
        other = "decode" if side == "prefill" else "prefill"
        script = [
            *base[:at],
            "settle",
            f"abort {side} A",
            "wait abort",
            f"tables {side} A 0 ABORTED",
            f"tables {other} A 0 PEER_ABORTED",
        ]
        yield case(
            f"kvpoll/abort/{side}-{at:03}",
            f"{side} gives up before step {at}, and what both say",
            script,
            "KV-5",
            profile="kvpoll",
        )
