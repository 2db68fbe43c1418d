"""Worlds of one prefill and one decode engine (some with two ranks of one side), each pushing and pulling.

Ends are written out: ``?`` is a failure that says it is in doubt; an end of a crashed process stays where it was.
"""

from __future__ import annotations

from typing import NamedTuple

from .named import NamedWorld
from .network import Network
from .pair import PairWorld
from .setting import NO_FAULTS, Budget, Clocks, Setting, faults_of

__all__ = ["PAIR_WORLDS"]

BOTH = frozenset({"P:Success D:Success", "P:Failed D:Failed", "P:Failed? D:Failed", "P:Failed? D:Success"})
GOOD = frozenset({"P:Success D:Success"})
HALF = frozenset({"nothing happened", "P:Failed", "D:Failed"})  # the other leg never came
FREE = HALF | BOTH
CERTAIN = HALF | {"P:Failed D:Failed"}  # nothing can be in doubt that was never started
CRASHED = BOTH | {
    "P:Bootstrapping D:Failed", "P:WaitingForInput D:Failed", "P:Transferring D:Failed", "P:Transferring D:Success",
    "P:Failed D:WaitingForInput", "P:Failed? D:WaitingForInput", "P:Failed? D:Transferring",
}  # fmt: skip
CRASHED_EARLY = {"P:Bootstrapping", "D:Bootstrapping", "D:WaitingForInput", "P:Failed D:Bootstrapping"}
RESTARTED = CRASHED - {"P:Failed D:Failed", "P:Failed? D:Failed"} | {
    "P:Bootstrapping D:Failed P:Failed", "P:WaitingForInput D:Failed P:Failed", "P:Transferring D:Failed P:Failed",
    "P:Transferring D:Success P:Failed", "P:Success D:Success P:Failed", "P:Success D:Success D:Failed",
    "P:Failed D:WaitingForInput D:Failed", "P:Failed? D:WaitingForInput D:Failed", "P:Failed? D:Transferring D:Failed",
    "P:Failed? D:Success D:Failed", "P:Success D:WaitingForInput D:Success",
}  # fmt: skip
LIED = BOTH | {"P:Success D:Failed"}  # in doubt it is, and nobody can tell that this is a lie

NONE, RESEND = Clocks.NONE, Clocks.RESEND
#: All orders of everything; the engines may come late, or never.
ANY = Setting(True)
#: Both legs are there, the pages are owned: what follows is explored.
EAGER = Setting(True, eager=True)
#: The engines act, and no clock is needed.
PROMPT = EAGER._replace(clocks=NONE)


class Entry(NamedTuple):
    """One setting and budget, for push and pull."""

    name: str
    about: str
    setting: Setting
    budget: Budget
    ends: frozenset[str]


QUICK = (
    Entry("no-fault", "One part, and nothing goes wrong but that the engines are late.", ANY, NO_FAULTS, FREE),
    Entry("two-chunks", "Two parts of one plan.", ANY._replace(chunks=2), NO_FAULTS, FREE),
    Entry("nothing-to-send", "The prefix covers the prompt: the plan is empty.", ANY._replace(chunks=0), NO_FAULTS, FREE),
    Entry(
        "one-credit", "Two parts share one credit: the second waits, and gets it.",
        EAGER._replace(chunks=2, credits=1), NO_FAULTS, BOTH,
    ),
    Entry(
        "buffer-abort", "Data lands in a receive buffer and is committed from there; either side aborts at any step.",
        EAGER._replace(direct=False), Budget(aborts=1), BOTH,
    ),
    Entry("gathers", "Gathering a chunk takes time.", ANY._replace(gathers=True), NO_FAULTS, FREE),
    Entry(
        "gathers-abort", "Gathering takes time; either side aborts at any step.",
        EAGER._replace(gathers=True), Budget(aborts=1), BOTH,
    ),
    Entry(
        "early", "Parts are announced while they are gathered: a pull waits for its part, a push is not started.",
        ANY._replace(gathers=True, early=True), NO_FAULTS, FREE,
    ),
    Entry(
        "early-two", "Two parts, both announced while they are gathered.",
        EAGER._replace(gathers=True, early=True, chunks=2), NO_FAULTS, BOTH,
    ),
    Entry(
        "early-abort", "Announced while they are gathered; either side aborts at any step.",
        EAGER._replace(gathers=True, early=True), Budget(aborts=1), BOTH,
    ),
    Entry(
        "early-unresolved", "Announced while they are gathered; one operation fails, one stays unresolved until it is fenced.",
        EAGER._replace(gathers=True, early=True), Budget(failures=1, unresolved=1), BOTH,
    ),
    Entry("gate", "The receiver's data counts only when its gate is open.", ANY._replace(gates=("cache",)), NO_FAULTS, FREE),
    Entry(
        "gate-failure", "A gate, and one failure: of the gate, an operation, the commit or the check of the data.",
        EAGER._replace(gates=("cache",)), Budget(failures=1), BOTH,
    ),
    Entry("loss", "Any one message is lost.", ANY, Budget(losses=1), FREE),
    Entry("copy", "Any one message arrives twice, the second time as late as it likes.", ANY, Budget(copies=1), FREE),
    Entry(
        "abort-loss", "Either side aborts at any step, and any one message is lost.", EAGER, Budget(aborts=1, losses=1), BOTH
    ),
    Entry("crash", "Either process crashes at any step.", ANY, Budget(crashes=1), HALF | CRASHED | CRASHED_EARLY),
    Entry("crash-loss", "Either process crashes, and any one message is lost.", EAGER, Budget(crashes=1, losses=1), CRASHED),
    Entry(
        "failed-unresolved", "One operation, commit or check fails, and one operation stays unresolved until it is fenced.",
        EAGER, Budget(failures=1, unresolved=1), BOTH,
    ),
    Entry(
        "abort-unresolved", "Either side aborts, and one operation stays unresolved until it is fenced.",
        EAGER, Budget(aborts=1, unresolved=1), BOTH,
    ),
    Entry(
        "no-fence", "An unresolved operation can never be fenced: the room ends all the same, its memory stays quarantined.",
        EAGER._replace(fences=False), Budget(aborts=1, unresolved=1), BOTH,
    ),
    Entry("early-clock", "One clock of the room goes off although something is still on its way.", EAGER, Budget(clocks=1), BOTH),
    Entry("shutdown", "Either process is shut down at any step.", EAGER, Budget(shutdowns=1), BOTH),
    Entry(
        "wrongly-lost", "A process that lives is declared lost; there is no data to move.",
        EAGER._replace(chunks=0), Budget(wrong=1), BOTH,
    ),
    Entry(
        "handshake-loss", "Starts without links; any one message is lost, those of the handshake too.",
        ANY._replace(handshake=True), Budget(losses=1), FREE,
    ),
    Entry(
        "handshake-abort-prompt", "Starts without links; either side aborts at any step, and no deadline has to find out.",
        EAGER._replace(clocks=Clocks.NONE, handshake=True), Budget(aborts=1), BOTH,
    ),
    Entry(
        "handshake-refused", "The two do not fit: the handshake says so, no room is paired, and every room ends.",
        ANY._replace(handshake=True, fits=False), Budget(losses=1), CERTAIN,
    ),
    Entry(
        "two-requests", "The legs of one room are of two requests: they are not paired, and every room ends.",
        ANY._replace(same=False), Budget(losses=1), CERTAIN,
    ),
    Entry("no-clock", "The engines act: everything succeeds without any clock.", ANY._replace(clocks=NONE), NO_FAULTS, GOOD),
    Entry(
        "no-clock-abort", "Either side aborts: both ends learn of it without any clock.",
        EAGER._replace(clocks=NONE), Budget(aborts=1), BOTH,
    ),
    Entry(
        "loss-repaired", "Any one message is lost: re-sending alone repairs it.",
        ANY._replace(clocks=RESEND), Budget(losses=1), GOOD,
    ),
    Entry(
        "copy-harmless", "Any one message arrives twice: it does no harm.",
        ANY._replace(clocks=RESEND), Budget(copies=1), GOOD,
    ),
    Entry(
        "loss-repaired-two-chunks", "Any one message of two parts is lost: re-sending alone repairs it.",
        EAGER._replace(clocks=RESEND, chunks=2), Budget(losses=1), GOOD,
    ),
    Entry(
        "loss-repaired-abort", "Either side aborts, and any one message is lost: both ends learn of it by re-sending alone.",
        EAGER._replace(clocks=RESEND), Budget(aborts=1, losses=1), BOTH,
    ),
    Entry(
        "ordered-room-used-twice", "The room is used for two attempts, one after the other; messages keep their order.",
        PROMPT._replace(network=Network.ORDERED), Budget(attempts=2), frozenset({"P:Success P:Success D:Success D:Success"}),
    ),
    Entry(
        "ordered-two-rooms", "Two rooms at once; messages keep their order.",
        PROMPT._replace(network=Network.ORDERED, rooms=2), NO_FAULTS, frozenset({"P:Success D:Success + P:Success D:Success"}),
    ),
    Entry(
        "ordered-restart", "Either process crashes, and may come back at its address; no data, messages keep their order.",
        PROMPT._replace(network=Network.ORDERED, chunks=0), Budget(crashes=1, restarts=1), RESTARTED,
    ),
)  # fmt: skip

#: These need minutes.
DEEP = (
    Entry("abort", "Either side aborts at any step, before its leg came too.", ANY, Budget(aborts=1), FREE),
    Entry("two-aborts-loss", "Both sides abort, and any one message is lost.", EAGER, Budget(aborts=2, losses=1), BOTH),
    Entry(
        "two-losses-copy", "Two messages are lost and one arrives twice: re-sending alone repairs it.",
        EAGER._replace(clocks=RESEND), Budget(losses=2, copies=1), GOOD,
    ),
    Entry("two-early-clocks", "Two clocks go off too early.", EAGER, Budget(clocks=2), BOTH),
    Entry("early-clock-before-legs", "One clock goes off too early, before any leg came too.", ANY, Budget(clocks=1), FREE),
    Entry(
        "tail-two-chunks-abort", "A call without rows closes the plan of two parts; either side aborts at any step.",
        EAGER._replace(tail=True, chunks=2), Budget(aborts=1), BOTH,
    ),
    Entry("wrongly-lost-data", "A process that lives is declared lost while data moves.", EAGER, Budget(wrong=1), BOTH),
    Entry(
        "gate-failure-early-clock", "A gate, one failure, and one clock that goes off too early.",
        EAGER._replace(gates=("cache",)), Budget(failures=1, clocks=1), BOTH,
    ),
    Entry(
        "room-used-twice", "The room is used for two attempts, one after the other.",
        EAGER._replace(clocks=NONE), Budget(attempts=2), frozenset({"P:Success P:Success D:Success D:Success"}),
    ),
    Entry(
        "two-prefill-ranks", "Two prefill ranks send one part each to one decode rank.",
        EAGER._replace(prefills=2, clocks=NONE), NO_FAULTS, frozenset({"P:Success P:Success D:Success"}),
    ),
    Entry(
        "two-decode-ranks", "One prefill rank sends one part each to two decode ranks.",
        EAGER._replace(decodes=2, clocks=NONE), NO_FAULTS, frozenset({"P:Success D:Success D:Success"}),
    ),
)  # fmt: skip


def _named(entry: Entry, push: bool, deep: bool) -> NamedWorld:
    setting = entry.setting._replace(push=push)
    return NamedWorld(
        name=f"{'push' if push else 'pull'}-{entry.name}",
        about=entry.about,
        make=lambda: PairWorld(setting, entry.budget),
        ends=entry.ends,
        faults=faults_of(setting, entry.budget),
        deep=deep,
        limit=4_000_000 if deep else 400_000,
    )


LIAR = Entry(
    "liar", "A receiver says that it concluded, and has not: it is not believed before everything was started.",
    EAGER._replace(chunks=2), Budget(lies=1), LIED,
)  # fmt: skip

PAIR_WORLDS: tuple[NamedWorld, ...] = (
    *(_named(entry, push, False) for entry in QUICK for push in (True, False)),
    _named(LIAR, True, False),
    *(_named(entry, push, True) for entry in DEEP for push in (True, False)),
)
