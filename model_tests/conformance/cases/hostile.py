"""Beyond movements and messages: pages that cannot be written, data of another request, sides that do not fit or have no place,
rooms that fall silent, and peers that say what is not so. At every step of a hand-off, like :mod:`.faults`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..book import FORGED
from ..case import Case, case
from .gates import gated
from .scripts import handoff, maybe, settled, slug, where, whole

__all__ = ["cases"]

_SIDES = ("prefill", "decode")
_BASES: dict[str, list[str]] = {
    "one": handoff("prefill first", 3),
    "two": handoff("prefill first", 4, (2, 2)),
    "early": handoff("chunks first", 4, (2, 2)),
    "ahead": handoff("destinations first", 4, (2, 2)),
}
_MOMENT = handoff("all at once", 4, (2, 2))
_TELLS = (
    *(("decode", name) for name in ("forged_conclude", "forged_passed", "forged_destinations", "forged_abort")),
    *(("prefill", name) for name in FORGED if name not in ("forged_conclude", "forged_passed", "forged_destinations")),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Every case of the families ``commit``, ``meet``, ``quiet`` and ``forged``."""
    yield from _commit()
    yield from _commit_stalls()
    yield from _meet()
    yield from _full()
    yield from _taken()
    yield from _quiet()
    yield from _forged()
    yield from _forged_moments()
    yield from _forged_late()
    yield from _said()
    yield from _empty()


def _first(lines: list[str], side: str) -> int:
    return next(at for at, line in enumerate(lines) if line.startswith(f"create {side}")) + 1


def _commit() -> Iterator[Case]:
    """The decode side cannot write, or what it would write is wrong."""
    for (base, lines), (fault, id) in product(_BASES.items(), (("commit_fails", "FAULT-6"), ("aux_wrong", "DATA-5"))):
        last = max(at for at, line in enumerate(lines) if "last" in line)
        for at in range(_first(lines, "decode"), len(lines)):
            end = [f"expect decode A 0 within error for {id}"] if at <= last else []
            script = [*lines[:at], f"fault decode A {fault}", *lines[at:], *end]
            yield case(f"commit/{slug(fault)}-{base}/{at:03}", f"{fault} {where(at, lines)}", script, id)
    for fault, id in (("commit_fails", "FAULT-6"), ("aux_wrong", "DATA-5")):
        script = [*gated("prefill first"), f"fault decode A {fault}", "settle", "gate A g open"]
        yield case(f"commit/{slug(fault)}-gate/001", f"{fault} behind a gate", [*script, "wait ends"], id)
        b = handoff("prefill first", 3, (1, 2), room="B")
        beside = [*_BASES["two"][:6], *b[:-1], f"fault decode A {fault}", *_BASES["two"][6:], "settle", b[-1]]
        beside += ["expect decode B 4 within transfer for ISO-1"]
        yield case(f"commit/{slug(fault)}-beside/001", f"{fault} beside another room", beside, f"{id} ISO-1")
        after = [*_BASES["two"][:6], f"fault decode A {fault}", *_BASES["two"][6:], "wait ends", *whole("B")]
        yield case(f"commit/{slug(fault)}-after/001", f"another room after {fault}", after, f"{id} ISO-2")
        for ticks, who in product(range(3, 9), _SIDES):
            script = [*_MOMENT[:3], f"fault decode A {fault}", *_MOMENT[3:], f"tick {ticks}", f"?abort {who} A"]
            title = f"{who} gives up {ticks} short whiles into everything, with {fault}"
            yield case(f"commit/{slug(fault)}-abort-{who}/{ticks:03}", title, script, id)


def _commit_stalls() -> Iterator[Case]:
    """The decode side writes for ever, or until all is well again."""
    base = _BASES["two"]
    script = [*base[:7], "fault decode A commit_stalls", base[7], "settle"]
    then: dict[str, list[str]] = {
        "heal": ["heal", "expect decode A 4 within transfer for FAULT-7"],
        "wait": ["wait ends"],
        "half": ["wait total 30", "heal", "expect decode A 4 within transfer for FAULT-7"],
        "fails": ["fault decode A commit_fails", "wait total 10"],
        **{f"abort-{side}": [f"abort {side} A"] for side in _SIDES},
        **{f"abort-{side}-fails": [f"abort {side} A", "fault decode A commit_fails", "wait ends"] for side in _SIDES},
        **{f"{fault}-{side}": [f"fault {side} A {fault}", "wait ends"] for fault in ("peer_silent", "peer_killed", "room_silent")
           for side in _SIDES},
        **{f"shutdown-{side}": [f"stop {side} shutdown", "wait ends"] for side in _SIDES},
        **{f"drain-{side}": [f"stop {side} drain", "wait ends"] for side in _SIDES},
        **{f"forged-abort-{side}": [f"fault {side} A forged_abort", "wait ends"] for side in _SIDES},
        "gone-heal": ["fault prefill A peer_killed", "wait silence", "heal"],
        "silent-heal": ["fault prefill A room_silent", "wait silence", "heal"],
    }  # fmt: skip
    for name, lines in then.items():
        title = f"writing does not end; {'; '.join(lines)}"
        yield case(f"commit/stalls-{slug(name)}/001", title, [*script, *lines], "FAULT-7")
    for (name, lines), at in product(_BASES.items(), range(1, 8)):
        if _first(lines, "decode") <= at < len(lines):
            script = [*lines[:at], "fault decode A commit_stalls", *lines[at:], "settle", "heal"]
            yield case(f"commit/stalls-{name}/{at:03}", f"commit_stalls {where(at, lines)}", script, "FAULT-7")


def _meet() -> Iterator[Case]:
    """The sides do not fit."""
    for base, lines in _BASES.items():
        script = ["fault prefill A mismatched", *maybe(lines), "wait ends", "expect decode A 0 for PAIR-9"]
        yield case(f"meet/mismatched-{base}/001", "the two sides do not fit", script, "PAIR-9")
        for at, who in product(range(1, len(lines)), _SIDES):
            if any(line.startswith(f"create {who}") for line in lines[:at]):
                calm = [line for line in lines[:at] if line != "settle"]
                script = ["fault prefill A mismatched", *maybe(calm), f"?abort {who} A", *maybe(lines[at:])]
                name = f"meet/mismatched-abort-{who}-{base}/{at:03}"
                yield case(name, f"the two sides do not fit, and {who} gives up {where(at, lines)}", script, "PAIR-9")
    script = [
        "fault prefill A mismatched",
        *maybe(_BASES["one"]),
        "wait ends",
        "heal",
        "holds decode A 0 during pairing for STATE-2",
    ]
    yield case(
        "meet/fits-again/001", "the two sides fit again", [*script, *whole("B")], "ISO-2 PAIR-9", profile="kvpoll"
    )


def _full() -> Iterator[Case]:
    """No place for another room."""
    for side, (base, lines) in product(_SIDES, _BASES.items()):
        for at in range(len(lines)):
            live = at >= max(_first(lines, each) for each in _SIDES)
            rest = lines[at:] if live else maybe(lines[at:])
            script = [*lines[:at], f"fault {side} A peer_full", *rest, "wait error"]
            if live:
                script += ["expect decode A 4 within transfer for PAIR-10"]
            yield case(f"meet/full-{side}-{base}/{at:03}", f"{side} has no place {where(at, lines)}", script, "PAIR-10")
        script = [f"fault {side} A peer_full", *maybe(lines), "wait ends", "heal", "settle", *whole("B")]
        yield case(
            f"meet/full-after-{side}/{list(_BASES).index(base) + 1:03}",
            f"{side} has place again",
            script,
            "PAIR-10 ISO-2",
        )


def _taken() -> Iterator[Case]:
    """Another engine was there first."""
    for number, (order, pace, rest) in enumerate(
        product(
            ("prefill first", "prefill is ready", "chunks first"),
            ("", "settle"),
            ("wait error", "wait ends", "wait pairing 30"),
        ),
        1,
    ):
        lines = handoff(order, 4, (2, 2))
        at = next(at for at, line in enumerate(lines) if line.startswith("create decode"))
        after = [each for line in maybe(lines[at:]) for each in ((line, pace) if pace else (line,))]
        script = [
            *lines[:at],
            "fault prefill A room_taken",
            *after,
            rest,
            "expect decode A 0 within waiting for REUSE-4",
        ]
        yield case(
            f"meet/taken/{number:03}", f"another engine has the room, {order}, {pace or 'at once'}", script, "REUSE-4"
        )
    for number, who in enumerate(_SIDES, 1):
        script = [
            "create prefill A 2",
            "fault prefill A room_taken",
            "create decode A 2",
            f"abort {who} A",
            "wait ends",
        ]
        yield case(
            f"meet/taken-abort/{number:03}", f"another engine has the room, and {who} gives up", script, "REUSE-4"
        )


def _quiet() -> Iterator[Case]:
    """Nothing more is said of a room."""
    for (base, lines), side in product(_BASES.items(), _SIDES):
        for at in range(1, len(lines) + 1):
            for name, then in (("", ["wait ends"]), ("-heals", ["wait silence 20", "heal", "settle"])):
                script = [*lines[:at], f"fault {side} A room_silent", *maybe(lines[at:]), *then]
                title = f"{side} says nothing of the room any more {where(at, lines)}"
                yield case(f"quiet/{side}-{base}{name}/{at:03}", title, script, "TIME-7")
    for (base, lines), side in product(_BASES.items(), _SIDES):
        first = next(at for at, line in enumerate(lines, 1) if line.startswith("send"))
        for at in range(max(first, _first(lines, "decode") + 1), len(lines)):
            script = [
                *lines[:at],
                "settle",
                f"fault {side} A room_silent",
                *maybe(lines[at:]),
                "over silence for TIME-8",
            ]
            title = f"{side} says nothing of the room any more {where(at, lines)}, and data has moved"
            yield case(f"quiet/{side}-{base}-moved/{at:03}", title, script, "TIME-8")
    for ticks, side in product(range(10), _SIDES):
        script = [*_MOMENT, *([f"tick {ticks}"] if ticks else []), f"fault {side} A room_silent", "wait ends"]
        yield case(
            f"quiet/{side}-moment/{ticks:03}",
            f"{side} falls silent {ticks} short whiles into everything",
            script,
            "TIME-7",
        )
        late = [*script[:-1], "wait resend", "heal", "settle"]
        title = f"{side} is silent for a while, {ticks} short whiles into everything"
        yield case(f"quiet/{side}-moment-heals/{ticks:03}", title, late, "TIME-7")

    for number, (at, side) in enumerate(product((2, 3, 4), _SIDES), 1):
        lines = ["ranks 2 1", *_BASES["two"]]
        lost = [f"fault {side} A message_lost"]
        script = [*lines[:3], "settle", *lines[3:at], *lost, *lines[at:], "wait resend"]
        title = f"two ranks at prefill, and one word of {side} is lost, step {at}"
        yield case(f"quiet/ranks/{number:03}", title, script, "MSG-1")


def _forged() -> Iterator[Case]:
    bases = {**_BASES, "slow": settled(handoff("prefill first", 4, (2, 2)))}
    for (base, lines), (side, fault) in product(bases.items(), _TELLS):
        for at in range(_first(lines, side), len(lines) + 1):
            script = [*lines[:at], f"fault {side} A {fault}", *maybe(lines[at:])]
            number = FORGED[fault].removeprefix("KVX-")
            name = f"forged/{slug(fault.removeprefix('forged_'))}-{side}-{base}/{at:03}"
            yield case(name, f"{side} lies {where(at, lines)}: {fault}", script, number)


def _forged_moments() -> Iterator[Case]:
    """While everything moves, and while it is not known that it has arrived."""
    b = handoff("prefill first", 3, (1, 2), room="B")
    for side, fault in _TELLS:
        number, lie = FORGED[fault].removeprefix("KVX-"), slug(fault.removeprefix("forged_"))
        for ticks in range(12):
            script = [*_MOMENT, *([f"tick {ticks}"] if ticks else []), f"fault {side} A {fault}"]
            title = f"{side} lies {ticks} short whiles into everything: {fault}"
            yield case(f"forged/{lie}-{side}-moment/{ticks:03}", title, script, number)
        beside = [*_BASES["two"][:6], *b[:-1], f"fault {side} A {fault}", *maybe(_BASES["two"][6:]), "settle", b[-1]]
        if fault != "forged_passed":
            beside += ["expect decode B 4 within transfer for ISO-1"]
        yield case(
            f"forged/{lie}-{side}-beside/001", f"{side} lies beside another room: {fault}", beside, f"{number} ISO-1"
        )
        after = [*_BASES["two"][:6], f"fault {side} A {fault}", *maybe(_BASES["two"][6:]), "wait ends", *whole("B")]
        yield case(
            f"forged/{lie}-{side}-after/001", f"another room after a lie of {side}: {fault}", after, f"{number} ISO-2"
        )


def _forged_late() -> Iterator[Case]:
    """The room is over at one side, and the other one has not heard of that, or is still asked."""
    base = _BASES["two"]
    over: dict[str, list[str]] = {
        "success": [*base[:-1], *["fault decode A message_lost"] * 2, base[-1], "expect decode A 4 within transfer"],
        "told": [*base, "expect prefill A 4 within transfer"],
        "abort-prefill": [*base[:-1], "fault decode A room_silent", "abort prefill A"],
        "abort-decode": [*base[:-1], "fault prefill A room_silent", "abort decode A"],
        "stalled": [*base[:-1], "fault prefill A mover_stalls", base[-1], "settle"],
        "error": [*base[:-1], "fault prefill A mover_error", base[-1]],
        "unresolved": [*base[:-1], "fault prefill A mover_unresolved", base[-1]],
        "gated": [*gated("prefill first"), "settle"],
        "stuck": [*base[:-1], "fault decode A commit_stalls", base[-1], "settle"],
    }  # fmt: skip
    for (name, lines), (side, fault) in product(over.items(), _TELLS):
        number, lie = FORGED[fault].removeprefix("KVX-"), slug(fault.removeprefix("forged_"))
        for turn, pause in enumerate(("", "tick 2"), 1):
            script = [*lines, *([pause] if pause else []), f"fault {side} A {fault}", "wait resend", "heal", "settle"]
            yield case(f"forged/{lie}-{side}-{name}/{turn:03}", f"{side} lies after {name}: {fault}", script, number)


#: What kvpoll calls it: the lie, who tells it, and the cause that the other side names.
_CALLED = (
    ("forged_conclude", "decode", "PROTOCOL"), ("forged_passed", "decode", "ATTEMPT_OVER"),
    ("forged_destinations", "decode", "PLAN_REFUSED"), ("forged_abort", "decode", "PEER_ABORTED"),
    ("forged_abort", "prefill", "PEER_ABORTED"), ("forged_close", "prefill", "PLAN_REFUSED"),
    ("forged_unknown", "prefill", "NO_LEG"), ("forged_busy", "prefill", "ROOM_BUSY"),
)  # fmt: skip


def _said() -> Iterator[Case]:
    """Before anything is sent a lie ends the room at once, and has a name."""
    lines = settled(handoff("prefill first", 4, (2, 2)))
    for (fault, side, cause), (number, at) in product(_CALLED, enumerate((4, 8), 1)):
        other = _SIDES[1 - _SIDES.index(side)]
        script = [*lines[:at], f"fault {side} A {fault}", "settle", f"tables {other} A 0 {cause}"]
        name = f"kvpoll/lies-{slug(fault.removeprefix('forged_'))}-{side}/{number:03}"
        yield case(name, f"{side} lies: {fault}, and what {other} says", script, "KV-2", profile="kvpoll")
    for number, pace in enumerate(([], ["settle"]), 1):
        script = ["fault prefill A mismatched", "?create prefill A 2", *pace, "?create decode A 2", "settle"]
        script += ["tables decode A 0 HANDSHAKE_REFUSED"]
        title = "the two sides do not fit, and what decode says"
        yield case(f"kvpoll/mismatched/{number:03}", title, script, "KV-2 PAIR-9", profile="kvpoll")


def _empty() -> Iterator[Case]:
    """Nothing is to be handed over, and that is handed over."""
    for number, (order, pace) in enumerate(
        product(("prefill first", "destinations first", "chunks first", "all at once"), ("", "settle")), 1
    ):
        lines = [line.replace(" A 2", " A 0") for line in handoff(order, 2)]
        script = [each for line in lines for each in ((line, pace) if pace else (line,))]
        script += ["expect decode A 4 within transfer for PAIR-11", "expect prefill A 4 within transfer for PAIR-11"]
        yield case(
            f"handoff/nothing/{number:03}", f"a request of no pages, {order}, {pace or 'at once'}", script, "PAIR-11"
        )
    for number, at in enumerate((6, 7), 1):
        lines = handoff("prefill first", 4, (2, 2))
        script = [*lines[:at], "send A 0", *lines[at:], "expect decode A 4 within transfer for PAIR-5"]
        title = f"an empty chunk that is not the last, before step {at}"
        yield case(f"kvpoll/empty-chunk/{number:03}", title, script, "PAIR-5 CALL-1", profile="kvpoll")
