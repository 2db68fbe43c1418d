"""The worlds that mutants are tried in: small, each of them whole, from the smallest up.

What makes them small is a network that keeps the order (it still loses and copies where the budget says so): the order of
messages hides few wrong rows, and those that it hides are left to the hostile worlds at the end.
"""

from __future__ import annotations

from typing import NamedTuple

from .forging_world import ForgingWorld
from .narrow_worlds import EarlyPairingWorld, LastWordsWorld, LateCrashWorld, RetryWorld
from .network import Network
from .pair import PairWorld
from .setting import NO_FAULTS, Budget, Clocks, Setting, Shapes
from .silence_world import SilenceWorld, TimedWorld

__all__ = ["MUTATION_WORLDS", "MutationWorld"]

NONE, RESEND = Clocks.NONE, Clocks.RESEND
ORDERED = Network.LOSSY | Network.DUPLICATING


class MutationWorld(NamedTuple):
    """One world; ``name`` is a slug."""

    name: str
    setting: Setting
    budget: Budget
    kind: type[PairWorld] = PairWorld


#: Both legs are there, the pages are owned.
E = Setting(True, eager=True, network=ORDERED)
#: The engines may come late, or never.
A = Setting(True, network=ORDERED)
#: Starts without links.
H = Setting(True, network=ORDERED, handshake=True)
B = Budget

_EACH: tuple[tuple[str, Setting, Budget] | tuple[str, Setting, Budget, type[PairWorld]], ...] = (
    ("half", A._replace(only="prefill"), NO_FAULTS),
    ("empty-prompt", E._replace(clocks=NONE, chunks=0), NO_FAULTS),
    ("stuck", E._replace(fences=False, clocks=RESEND), B(unresolved=1)),
    ("unresolved-prompt", E._replace(clocks=NONE), B(unresolved=1)),
    ("tail-prompt", E._replace(clocks=NONE, tail=True), NO_FAULTS),
    ("gate-prompt", E._replace(clocks=NONE, gates=("g",)), NO_FAULTS),
    ("two-chunks-prompt", E._replace(clocks=NONE, chunks=2), NO_FAULTS),
    ("copy", E._replace(clocks=NONE), B(copies=1)),
    ("loss-repaired", E._replace(clocks=RESEND), B(losses=1)),
    ("crash-prompt", E._replace(clocks=NONE), B(crashes=1)),
    ("late-engines-prompt", A._replace(clocks=NONE), NO_FAULTS),
    ("tail-two-chunks-prompt", E._replace(clocks=NONE, chunks=2, tail=True), NO_FAULTS),
    ("failed-prompt", E._replace(clocks=NONE, chunks=2), B(failures=1)),
    ("shutdown-prompt", E._replace(clocks=NONE), B(shutdowns=1)),
    ("abort-prompt", E._replace(clocks=NONE), B(aborts=1)),
    ("gates-failure-prompt", E._replace(clocks=NONE, gates=("g", "h")), B(failures=1)),
    ("two-requests", A._replace(same=False), NO_FAULTS),
    ("handshake-loss-repaired", H._replace(clocks=RESEND), B(losses=1)),
    ("two-chunks-loss-repaired", E._replace(clocks=RESEND, chunks=2), B(losses=1)),
    ("forged", E._replace(clocks=NONE), B(lies=1), ForgingWorld),
    ("forged-two-chunks", E._replace(clocks=NONE, chunks=2), B(lies=1), ForgingWorld),
    ("late-engines-copy", A._replace(clocks=NONE), B(copies=1)),
    ("refused-half", A._replace(only="decode"), B(lies=1), ForgingWorld),
    ("handshake-refused", H._replace(fits=False, late=True), B(shutdowns=1, aborts=1, clocks=1)),
    ("timed", E, NO_FAULTS, TimedWorld),
    ("late-engines", A, NO_FAULTS),
    ("stuck-abort", E._replace(fences=False), B(unresolved=1, aborts=1)),
    ("early-clock-prompt", E._replace(clocks=NONE), B(clocks=1)),
    ("failed-unresolved", E._replace(chunks=2), B(failures=1, unresolved=1)),
    ("wrongly-lost-prompt", E._replace(clocks=NONE), B(wrong=1)),
    ("late-engines-abort-prompt", A._replace(clocks=NONE), B(aborts=1)),
    ("late-engines-failure-prompt", A._replace(clocks=NONE, gates=("g", "h")), B(failures=1)),
    ("two-prefill-ranks", E._replace(clocks=NONE, prefills=2), NO_FAULTS),
    ("two-decode-ranks", E._replace(clocks=NONE, decodes=2), NO_FAULTS),
    ("spare-rank-tail", E._replace(clocks=NONE, prefills=2, shapes=Shapes.SPARE, tail=True), NO_FAULTS),
    ("spare-rank", E._replace(clocks=NONE, prefills=2, shapes=Shapes.SPARE), NO_FAULTS),
    ("token-rows", E._replace(clocks=NONE, decodes=2, shapes=Shapes.ROWS, chunks=3), NO_FAULTS),
    ("liar", E, B(lies=1, unresolved=1)),
    ("timed-crash", E, B(crashes=1), TimedWorld),
    ("timed-two-chunks", E._replace(chunks=2), NO_FAULTS, TimedWorld),
    ("copy-hostile", Setting(True, eager=True, clocks=NONE), B(copies=1)),
    ("two-prefill-ranks-crash", E._replace(clocks=NONE, prefills=2, chunks=0), B(crashes=1)),
    ("two-decode-ranks-crash", E._replace(clocks=NONE, decodes=2), B(crashes=1), LateCrashWorld),
    ("two-prefill-ranks-two-requests", E._replace(prefills=2, same=False), NO_FAULTS),
    ("handshake-abort-prompt", E._replace(clocks=NONE, handshake=True), B(aborts=1)),
    ("handshake-gates-failure", H._replace(clocks=NONE, gates=("g", "h")), B(failures=1)),
    ("tail-abort", E._replace(tail=True), B(aborts=1)),
    ("two-rooms", E._replace(clocks=NONE, rooms=2), NO_FAULTS),
    ("two-rooms-one-credit", E._replace(clocks=NONE, rooms=2, credits=1), NO_FAULTS),
    ("two-prefill-ranks-half-crash", H._replace(prefills=2, only="decode"), B(crashes=1)),
    ("two-decode-ranks-last-words", E._replace(clocks=NONE, decodes=2), B(lies=1), LastWordsWorld),
    ("early-clock", E._replace(late=True), B(clocks=1), SilenceWorld),
    ("one-credit-abort", E._replace(credits=1, chunks=2), B(aborts=1)),
    ("loss-repaired-abort", E._replace(clocks=RESEND), B(losses=1, aborts=1)),
    ("handshake-crash", H, B(crashes=1)),
    ("gates-failure", E._replace(gates=("g", "h"), late=True), B(failures=1)),
    ("gate-early-clock-prompt", E._replace(clocks=NONE, gates=("g",)), B(clocks=1)),
    ("handshake-shutdown", H, B(shutdowns=1)),
    ("timed-late-engines", A, NO_FAULTS, TimedWorld),
    ("late-engines-forged", A._replace(clocks=NONE), B(lies=1), ForgingWorld),
    ("late-engines-early-clock-prompt", A._replace(clocks=NONE), B(clocks=1)),
    ("late-engines-abort", A._replace(late=True), B(aborts=1)),
    ("gathers-abort", H._replace(gathers=True), B(aborts=1)),
    ("gate-early-clock", E._replace(gates=("g",), late=True), B(clocks=1)),
    ("tail-two-chunks-abort", E._replace(tail=True, chunks=2), B(aborts=1)),
    ("empty-early-clock-abort", E._replace(chunks=0, late=True), B(aborts=1, clocks=1)),
    ("timed-late-engines-crash", A, B(crashes=1), TimedWorld),
    ("abort-hostile", Setting(True, eager=True, clocks=NONE), B(aborts=1)),
    ("early-clock-abort", E._replace(late=True), B(aborts=1, clocks=1)),
    ("gate-handshake-early-clock", H._replace(gates=("g",)), B(clocks=1)),
    ("two-early-clocks", E, B(clocks=2), SilenceWorld),
    ("two-prefill-ranks-refused-half", A._replace(prefills=2, only="decode"), B(lies=1), ForgingWorld),
    ("two-decode-ranks-early-pairing", A._replace(clocks=NONE, decodes=2, chunks=0), B(clocks=1), EarlyPairingWorld),
    ("retry-tail", E._replace(clocks=RESEND, tail=True), B(attempts=2, aborts=1), RetryWorld),
    ("late-engines-retry", A._replace(clocks=RESEND), B(attempts=2, aborts=1), RetryWorld),
    ("two-attempts-abort", E._replace(clocks=NONE), B(attempts=2, aborts=1)),
)

#: A pull is smaller here, and the rows in question do not tell them apart.
_PULL_ONLY = {"two-decode-ranks-early-pairing", "two-decode-ranks-last-words", "retry-tail", "late-engines-retry"}
#: Nothing moves here, or only what is pushed can be lied about.
_PUSH_ONLY = {
    "half", "two-requests", "refused-half", "handshake-refused", "liar", "two-prefill-ranks-two-requests",
    "two-prefill-ranks-half-crash", "two-prefill-ranks-refused-half",
}  # fmt: skip

#: In the order in which they are tried.
MUTATION_WORLDS: tuple[MutationWorld, ...] = tuple(
    MutationWorld(f"{'push' if push else 'pull'}-{name}", setting._replace(push=push), *rest)
    for name, setting, *rest in _EACH
    for push in ((True,) if name in _PUSH_ONLY else (False,) if name in _PULL_ONLY else (True, False))
)
