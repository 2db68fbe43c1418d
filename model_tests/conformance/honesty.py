"""Is the plug honest? Asked first: a plug that says yes to everything would pass everything.

What it declares has to be known words; a fault that nobody knows has to be unsupported; memory has to keep what it is given;
and expectations that are wrong on purpose have to come back failed. Else the run is refused.
"""

from __future__ import annotations

from functools import partial

from .book import bytes_of
from .calls import ask
from .case import Case, case
from .driver import run_case
from .plug import CAPABILITIES, FAULTS, SIDES, About, Adapter, Unsupported
from .process import ProcessAdapter
from .result import Verdict

__all__ = ["dishonest", "probes"]

_NOBODY_KNOWS = "probe-nobody-knows-this"
_PROFILES = frozenset({"common", "kvpoll"})


def probes() -> list[Case]:
    """Cases with expectations that are wrong on purpose: none of them may pass."""
    whole = "create prefill A 2; create decode A 2; init decode A; meta A 2; settle; init prefill A"
    return [
        case("probe/never-sent/001", "Success of what was never sent", f"{whole}; expect decode A 4 within transfer"),
        case(
            "probe/other-bytes/001", "other bytes than those that were sent",
            f"{whole}; forge A; send A 2 last; expect decode A 4 within transfer",
        ),
        case("probe/begun/001", "a room is over before it began", "create prefill A 2; expect prefill A 3"),
    ]  # fmt: skip


def dishonest(adapter: Adapter, about: About, room: int) -> str:
    """Why this plug cannot be believed; empty when it can. Raises :class:`.calls.Gone`."""
    return (
        _words(about) or _unknown(adapter, about, room) or _memory(adapter, about) or _wrong(adapter, about, room + 10)
    )


def _words(about: About) -> str:
    for what, said, known in (
        ("capabilities", about.capabilities, frozenset(CAPABILITIES)),
        ("faults", about.faults, frozenset(FAULTS)),
        ("profiles", about.profiles, _PROFILES),
    ):
        if said - known:
            return f"about: {what}: expected some of {', '.join(sorted(known))}, got {', '.join(sorted(said - known))}"
    if about.pages < 16 or about.page_bytes < 1:
        return f"about: expected at least 16 pages of at least 1 byte, got {about.pages} of {about.page_bytes}"
    if about.limits.gate is not None and about.limits.gate < 10 * about.limits.react:
        return f"about: limits: gate: expected at least ten times react ({about.limits.react:.3g} s), got {about.limits.gate:.3g}"
    bad = [name for name in about.limits.__struct_fields__ if not (getattr(about.limits, name) or 1) > 0]
    return f"about: limits: expected seconds above 0, got {', '.join(bad)}" if bad else ""


def _unknown(adapter: Adapter, about: About, room: int) -> str:
    adapter.begin("probe/unknown/001", True)
    tries = [("a fault that nobody knows", lambda: adapter.fault("prefill", room, _NOBODY_KNOWS))]
    if isinstance(adapter, ProcessAdapter):
        tries.append(("a call that there is not", adapter.unknown))
    for what, attempt in tries:
        try:
            answer = ask(attempt)
        except Unsupported:
            continue
        return f"{what} must be unsupported, and was {answer.refused or 'accepted'}"
    return ""


def _memory(adapter: Adapter, about: About) -> str:
    if "memory" not in about.capabilities:
        return ""
    for side in SIDES:
        for turn in range(2):
            data = bytes_of(f"probe {side} {turn}", 3 * about.page_bytes)
            adapter.fill(side, [1, 5, 2], data)
            answer = ask(partial(adapter.read, side, [1, 5, 2]))
            if answer.value != data:
                return f"memory of {side} does not hold what was written into it ({answer.refused or 'other bytes'})"
    return ""


def _wrong(adapter: Adapter, about: About, room: int) -> str:
    for at, probe in enumerate(probes()):
        if "memory" not in about.capabilities and "forge" in str(probe.lines()):
            continue
        outcome = run_case(adapter, about, probe, room + 10 * at)
        if outcome.verdict in (Verdict.CRASH, Verdict.TIMEOUT):
            return f"the plug fails before the first case: {outcome.reason}"
        if outcome.verdict is not Verdict.FAIL:
            return f"an expectation that is wrong on purpose ({probe.title}) came back {outcome.verdict.value}"
    return ""
