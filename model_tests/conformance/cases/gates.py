"""Local steps that Success waits for: they are done early, late, never, or fail, at every step of a hand-off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ..case import Case, case
from .scripts import handoff, maybe, paced, slug, with_at

__all__ = ["cases", "gated"]

_ORDERS = ("prefill first", "destinations first", "chunks first", "all at once")


def gated(order: str, pages: int = 4, sizes: Sequence[int] = (2, 2), names: str = "g") -> list[str]:
    """A whole hand-off with closed gates."""
    lines = handoff(order, pages, sizes)
    return with_at(lines, _meta(lines), [f"gate A {name} close" for name in names])


def cases() -> Iterator[Case]:
    """Every case of the family ``gates``."""
    yield from _open()
    yield from _two()
    yield from _fail()
    yield from _never()
    yield from _unmet()
    yield from _again()
    yield from _beside()
    yield from _disturbed()


def _meta(lines: Sequence[str]) -> int:
    return next(at for at, line in enumerate(lines) if line.startswith("meta"))


def _places(lines: Sequence[str]) -> range:
    """Before every step after the destinations, and at the end."""
    return range(_meta(lines) + 1, len(lines) + 1)


def _open() -> Iterator[Case]:
    for order in _ORDERS:
        lines = gated(order)
        for at in _places(lines):
            last = at == len(lines)
            wait = ["settle", "holds decode A 1|2|3 during react for GATE-1"] if last else []
            script = [*lines[:at], *wait, "gate A g open", *lines[at:], "expect decode A 4 within transfer for GATE-4"]
            where = "at the end" if last else f"before {lines[at]!r}"
            yield case(f"gates/open-{slug(order)}/{at:03}", f"the gate opens {where}, {order}", script, "GATE-4")
    for ticks in range(10):
        script = [*gated("all at once"), *([f"tick {ticks}"] if ticks else []), "gate A g open"]
        script += ["expect decode A 4 within transfer for GATE-4"]
        yield case(
            f"gates/open-moment/{ticks:03}", f"the gate opens {ticks} short whiles into everything", script, "GATE-4"
        )


def _two() -> Iterator[Case]:
    for order in _ORDERS:
        lines = gated(order, names="gh")
        places = list(_places(lines))
        for number, (first, second) in enumerate(product(places, places), 1):
            if first > second:
                continue
            script = [*lines[:first], "gate A h open", *lines[first:second], "gate A g open", *lines[second:]]
            script += ["expect decode A 4 within transfer for GATE-4"]
            title = f"two gates open before steps {first} and {second}, {order}"
            yield case(f"gates/two-{slug(order)}/{number:03}", title, script, "GATE-4")
            if order in ("prefill first", "destinations first"):
                slow = paced([line for line in script if line != "settle"][:-1], "tick 4")
                slow += [script[-1]]
                yield case(f"gates/two-{slug(order)}-slowly/{number:03}", f"{title}, slowly", slow, "GATE-4")


def _fail() -> Iterator[Case]:
    for order in _ORDERS:
        lines = gated(order, names="gh")
        for at in _places(lines):
            met = {f"create {side} A 4" for side in ("prefill", "decode")} <= set(lines[:at]) and "settle" in lines[:at]
            end = ["expect decode A 0 within react for GATE-2", *(["over error for GATE-2"] if met else [])]
            script = [*lines[:at], "gate A g fail", *end, *maybe(lines[at:])]
            where = "at the end" if at == len(lines) else f"before {lines[at]!r}"
            yield case(
                f"gates/fail-{slug(order)}/{at:03}", f"one of two gates fails {where}, {order}", script, "GATE-2"
            )
            opened = [*lines[:at], "gate A h open", "gate A g fail", *end, *maybe(lines[at:])]
            title = f"one of two gates opens, then the other one fails {where}, {order}"
            yield case(f"gates/open-fail-{slug(order)}/{at:03}", title, opened, "GATE-2")
    for ticks in range(10):
        script = [*gated("all at once"), *([f"tick {ticks}"] if ticks else []), "gate A g fail"]
        script += ["expect decode A 0 within react for GATE-2"]
        yield case(
            f"gates/fail-moment/{ticks:03}", f"the gate fails {ticks} short whiles into everything", script, "GATE-2"
        )


def _never() -> Iterator[Case]:
    for order in _ORDERS:
        lines = gated(order)
        for at in _places(lines):
            script = [*lines[:at], "over gate for GATE-3", "expect decode A 0 for GATE-3"]
            if "create decode A 4" in lines[:at] and "create prefill A 4" not in lines[:at]:
                script[at:at] = ["settle"]
            title = f"the gate stays closed; the script stops after {lines[at - 1]!r}, {order}"
            yield case(f"gates/never-{slug(order)}/{at:03}", title, script, "GATE-3")
        opened = [*lines[:-1], "gate A g open", "holds decode A 1|2|3 during gate 110 for GATE-4", lines[-1]]
        if order != "chunks first":  # there the destinations come last
            opened += ["expect decode A 4 within transfer for GATE-4"]
            title = f"the gate was open in time, and its limit runs out, {order}"
            yield case(f"gates/stale-{slug(order)}/001", title, opened, "GATE-4")


def _unmet() -> Iterator[Case]:
    """The prefill side is not there yet, or says nothing, while a gate is closed."""
    start = ["create prefill A 4", "fault prefill A peer_silent", "create decode A 4", "init decode A"]
    for number, then in enumerate(([], ["gate A g open"], ["settle", "gate A g open"], ["gate A g fail"]), 1):
        script = [*start, "gate A g close", "meta A 4", *then, "wait gate", "heal", "wait ends"]
        yield case(
            f"gates/silent-from-the-start/{number:03}", "prefill is silent, and a gate is closed", script, "TIME-3"
        )
    base = gated("prefill first")
    held = "holds decode A 1|2 during gate 110 for GATE-4"
    for number, at in enumerate(range(5, 8), 1):
        script = [*base[:at], "gate A g open", held, *base[at:], "expect decode A 4 within transfer for GATE-4"]
        yield case(
            f"gates/stale-waiting/{number:03}", "the gate was open in time, and its limit runs out", script, "GATE-4"
        )


def _again() -> Iterator[Case]:
    base = gated("prefill first")
    done = [*base, "gate A g open", "expect decode A 4 within transfer for GATE-5", "?gate A g fail", "settle"]
    yield case("gates/undone/001", "a gate fails when all is done", [*done, "expect decode A 4 for GATE-5"], "GATE-5")
    half = [
        *gated("prefill first", names="gh"),
        "settle",
        "gate A g open",
        "holds decode A 1|2|3 during react for GATE-1",
    ]
    yield case("gates/half/001", "one of two gates is open", [*half, "gate A h open"], "GATE-1 GATE-4")
    words = {"open": "?gate A g open", "fail": "?gate A g fail", "other": "?gate A x open", "late": "?gate A h close"}
    for number, (name, line) in enumerate(words.items(), 1):
        if name != "fail":
            at = len(base) - 1
            twice = [*base[:at], "gate A g open", line, base[at], "expect decode A 4 within transfer for GATE-5"]
            if name != "late":
                yield case(f"gates/again/{number:03}", f"{line[1:]} after the gate has opened", twice, "GATE-5")
        done = [*base, "gate A g open", "expect decode A 4 within transfer for GATE-5", line, "settle"]
        done += ["expect decode A 4 for GATE-5"]
        yield case(f"gates/after-success/{number:03}", f"{line[1:]} after Success", done, "GATE-5")
        lost = [*base, "fault decode A message_lost", "fault decode A message_lost", "gate A g open"]
        lost += ["expect decode A 4 within transfer for GATE-5", line, "settle", "expect decode A 4 for GATE-5"]
        title = f"{line[1:]} after Success, of which nobody has heard"
        yield case(f"gates/after-success-lost/{number:03}", title, lost, "GATE-5")
        for side in ("prefill", "decode"):
            failed = [*base[:-1], f"abort {side} A", "wait abort", line, "settle", "expect decode A 0 for GATE-5"]
            yield case(f"gates/after-failure-{side}/{number:03}", f"{line[1:]} after {side} gave up", failed, "GATE-5")
            at_once = [*base[:-1], "fault prefill A room_silent", "abort decode A", line, "settle"]
            at_once += ["expect decode A 0 for GATE-5"]
        title = f"{line[1:]} after decode gave up, of which nobody has heard"
        yield case(f"gates/after-failure-lost/{number:03}", title, at_once, "GATE-5")


def _beside() -> Iterator[Case]:
    a, b = gated("prefill first"), handoff("prefill first", 3, (1, 2), room="B")
    for number, what in enumerate(("open", "fail", ""), 1):
        turn = [f"gate A g {what}"] if what else []
        script = [*a[:5], *b[:-1], *a[5:], "settle", *turn, b[-1], "expect decode B 4 within transfer for ISO-1"]
        title = f"a gate {'fails' if what == 'fail' else 'opens' if what else 'stays closed'} beside another room"
        yield case(f"gates/beside/{number:03}", title, script, "ISO-1 GATE-1")


def _disturbed() -> Iterator[Case]:
    """Everything is here but for the gate, and then something goes wrong."""
    base = [*gated("prefill first"), "settle"]
    harm = {
        "abort-prefill": ("abort prefill A", "ABORT-1"), "abort-decode": ("abort decode A", "ABORT-1"),
        "clear-decode": ("clear decode A", "CALL-2"), "silent-prefill": ("fault prefill A peer_silent", "TIME-3"),
        "killed-prefill": ("fault prefill A peer_killed", "TIME-4"), "killed-decode": ("fault decode A peer_killed", "TIME-4"),
        "quiet-prefill": ("fault prefill A room_silent", "TIME-7"), "quiet-decode": ("fault decode A room_silent", "TIME-7"),
        "shutdown-decode": ("stop decode shutdown", "STOP-2"), "shutdown-prefill": ("stop prefill shutdown", "STOP-2"),
        "drain-decode": ("stop decode drain", "STOP-1"), "drain-prefill": ("stop prefill drain", "STOP-1"),
    }  # fmt: skip
    for name, (line, about) in harm.items():
        for number, then in enumerate(
            (["?gate A g open"], ["settle", "?gate A g open"], ["over gate"], ["wait gate 30", "?gate A g open"]), 1
        ):
            if then == ["over gate"] and name.split("-")[0] in ("silent", "killed", "quiet", "clear"):
                then = ["wait ends"]
            yield case(
                f"gates/{name}/{number:03}",
                f"{line} when only a gate is closed; {then[-1]}",
                [*base, line, *then],
                about,
            )
