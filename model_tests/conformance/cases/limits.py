"""Time: nobody comes, nothing is sent, or somebody is late, but not too late."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..case import Case, case
from .scripts import handoff, whole

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Every case of the family ``limits``."""
    alone = ["create prefill A 2", "init prefill A"]
    for number, extra in enumerate(([], ["send A 1"], ["send A 2 last"], ["settle"]), 1):
        script = [*alone, *extra, "over pairing for TIME-1", "expect prefill A 0 for TIME-1"]
        yield case(
            f"limits/prefill-alone/{number:03}",
            f"no decode side comes{': ' if extra else ''}{', '.join(extra)}",
            script,
            "TIME-1",
        )
    yield case(
        "limits/prefill-alone/005",
        "no decode side comes; the next room",
        [*alone, "over pairing for TIME-1", *whole("B")],
        "TIME-1 ISO-2",
    )
    given = ["create decode A 2", "init decode A", "meta A 2"]
    yield case(
        "limits/decode-alone/001",
        "no prefill side comes",
        [*given, "over waiting for TIME-2", "expect decode A 0 for TIME-2"],
        "TIME-2",
    )
    yield case(
        "limits/decode-alone/002",
        "no prefill side comes; the next room",
        [*given, "over waiting for TIME-2", *whole("B")],
        "TIME-2 ISO-2",
    )
    base = handoff("prefill first", 4, (2, 2))
    for number, at in enumerate((4, 5, 6, 7), 1):
        title = f"prefill stops before step {at}: the decode side ends"
        script = [*base[:at], "expect decode A 0 within waiting for TIME-2"]
        yield case(f"limits/prefill-stops/{number:03}", title, script, "TIME-2")
        yield case(
            f"limits/total/{number:03}",
            f"prefill stops before step {at}: both sides end",
            [*base[:at], "over total for TIME-5"],
            "TIME-5",
        )
    quiet = ["create prefill A 2", "create decode A 2", "init decode A"]
    yield case(
        "limits/decode-stops/001",
        "no destinations are given: prefill ends",
        [*quiet, "expect prefill A 0 within total for TIME-5"],
        "TIME-5",
    )
    yield case(
        "limits/decode-stops/002", "no destinations are given: both end", [*quiet, "over total for TIME-5"], "TIME-5"
    )
    yield from _late()
    yield from _silent()


def _late() -> Iterator[Case]:
    """Within half of a limit a late side is waited for."""
    for number, part in enumerate((10, 50), 1):
        wait = f"holds prefill A 1|2 during pairing {part} for TIME-6"
        script = [
            "create prefill A 2",
            wait,
            "create decode A 2",
            "init decode A",
            "meta A 2",
            "settle",
            "init prefill A",
            "send A 2 last",
        ]
        yield case(f"limits/late-decode/{number:03}", f"decode comes after {part} % of the limit", script, "TIME-6")
        hold = f"holds decode A 1|2 during pairing {part} for TIME-6"
        late = [
            "create decode A 2",
            "init decode A",
            "meta A 2",
            hold,
            "create prefill A 2",
            "settle",
            "init prefill A",
            "send A 2 last",
        ]
        yield case(f"limits/late-prefill/{number:03}", f"prefill comes after {part} % of the limit", late, "TIME-6")
        base = handoff("prefill first", 4, (2, 2))
        slow = [*base[:-1], f"holds decode A 1|2|3 during waiting {part} for TIME-6", base[-1]]
        yield case(
            f"limits/late-chunk/{number:03}", f"the last chunk comes after {part} % of the limit", slow, "TIME-6"
        )


def _silent() -> Iterator[Case]:
    base = handoff("prefill first", 4, (2, 2))
    for fault, id in (("peer_silent", "TIME-3"), ("peer_killed", "TIME-4")):
        for side, at in product(("prefill", "decode"), (2, 4, 5, 7, 8)):
            other = "decode" if side == "prefill" else "prefill"
            name = f"limits/{fault.replace('_', '-')}-{side}/{at:03}"
            title = f"{side} is {'silent' if fault == 'peer_silent' else 'killed'} before step {at}"
            ends = "total" if at == 2 and other == "prefill" else "silence"
            script = [*base[:at], "settle", f"fault {side} A {fault}", f"expect {other} A 0|4 within {ends} for {id}"]
            yield case(name, title, script, id)
            after = [*script, "heal", "settle", "settle", *whole("B")]
            yield case(
                f"isolation/{fault.replace('_', '-')}-{side}/{at:03}", f"{title}; then another room", after, "ISO-2"
            )
