"""A hang is called by what stays: a room, its memory, a table; and by what should have ended it."""

from __future__ import annotations

import pytest

from kvpoll.model_tests.check import check_world
from kvpoll.model_tests.worlds import WORLDS

#: What is broken, in which world, what that must be called, and what the sentence says.
HANGS = {
    "a sender ignores that its receiver failed": (
        "sender Transferring PEER_FAILED ignore", "push-no-clock-abort", "TerminalPropagates", "is Failed",
    ),
    "admission is not closed": (
        "sender Transferring ABORT without=CLOSE", "push-no-clock-abort", "EventuallyReleased", "stays lent",
    ),
    "a link never says what it has forgotten": (
        "link OPEN BEAT without=BEAT", "push-no-clock", "IdleEmpty", "is not idle: 1 rooms",
    ),
    "where data goes is said once": (
        "receiver WaitingForInput RESEND without=SEND_FACTS", "push-loss-repaired-two-chunks", "LossSurvivable", "",
    ),
    "a shutdown ends nothing": ("sender Transferring SHUTDOWN ignore", "push-shutdown", "ShutdownEnds", "Transferring"),
}  # fmt: skip


@pytest.mark.parametrize("name", HANGS)
def test_a_hang_has_the_name_of_what_should_not_stay(name: str) -> None:
    mutant, world, invariant, says = HANGS[name]
    result = check_world(WORLDS[world], mutant=mutant).result
    assert result.broken == invariant, result.violation
    assert says in str(result.violation)
