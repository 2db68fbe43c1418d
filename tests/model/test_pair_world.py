"""Proofs of the real tables and sessions: one prefill and one decode engine, every order of everything, each fault.

A proof is a search that saw everything. What ends it may have is written out: an end that is missing here would make the
proof vacuous, one that is too many would be a surprise. ``?`` is a failure that says it is in doubt.
"""

from __future__ import annotations

import pytest

from kvpoll.model_tests.explorer import Result, explore
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.setting import Budget, Clocks, Setting

BOTH = {"P:Success D:Success", "P:Failed D:Failed", "P:Failed? D:Failed", "P:Failed? D:Success"}
HALF = {"nothing happened", "P:Failed", "D:Failed"}  # the other leg never came
CERTAIN = HALF | {"P:Failed D:Failed"}  # nothing can be in doubt that was never started
GOOD = {"P:Success D:Success"}
#: A crashed end stays where it was.
CRASHED = {
    "P:Bootstrapping D:Failed", "P:WaitingForInput D:Failed", "P:Transferring D:Failed", "P:Transferring D:Success",
    "P:Failed D:WaitingForInput", "P:Failed? D:WaitingForInput", "P:Failed? D:Transferring",
}  # fmt: skip
CRASHED_EARLY = {"P:Bootstrapping", "D:Bootstrapping", "D:WaitingForInput", "P:Failed D:Bootstrapping"}

NONE, RESEND = Clocks.NONE, Clocks.RESEND
#: What the world is like, the faults, the ends it has; for push and for pull.
WORLDS: dict[str, tuple[Setting, Budget, set[str]]] = {
    "no fault": (Setting(True), Budget(), HALF | BOTH),
    "two chunks": (Setting(True, chunks=2), Budget(), HALF | BOTH),
    "nothing to send": (Setting(True, chunks=0), Budget(), HALF | BOTH),
    "one credit for two parts": (Setting(True, chunks=2, credits=1, eager=True), Budget(), BOTH),
    "a receive buffer apart": (Setting(True, direct=False, eager=True), Budget(aborts=1), BOTH),
    "slow gathers": (Setting(True, gathers=True), Budget(), HALF | BOTH),
    "slow gathers, an abort": (Setting(True, gathers=True, eager=True), Budget(aborts=1), BOTH),
    "a gate": (Setting(True, gates=("cache",)), Budget(), HALF | BOTH),
    "a gate, a failure": (Setting(True, gates=("cache",), eager=True), Budget(failures=1), BOTH),
    "a loss": (Setting(True), Budget(losses=1), HALF | BOTH),
    "a copy": (Setting(True), Budget(copies=1), HALF | BOTH),
    "an abort and a loss": (Setting(True, eager=True), Budget(aborts=1, losses=1), BOTH),
    "a crash": (Setting(True), Budget(crashes=1), HALF | BOTH | CRASHED | CRASHED_EARLY),
    "a crash and a loss": (Setting(True, eager=True), Budget(crashes=1, losses=1), BOTH | CRASHED),
    "an operation fails, one is unresolved": (Setting(True, eager=True), Budget(failures=1, unresolved=1), BOTH),
    "an abort, an operation is unresolved": (Setting(True, eager=True), Budget(aborts=1, unresolved=1), BOTH),
    "no fence for operations": (Setting(True, eager=True, fences=False), Budget(aborts=1, unresolved=1), BOTH),
    "an early clock": (Setting(True, eager=True), Budget(clocks=1), BOTH),
    "a shutdown": (Setting(True, eager=True), Budget(shutdowns=1), BOTH),
    "wrongly declared lost": (Setting(True, eager=True, chunks=0), Budget(wrong=1), BOTH),
    "the handshake, a loss": (Setting(True, handshake=True), Budget(losses=1), HALF | BOTH),
    "a handshake that is refused": (Setting(True, handshake=True, fits=False), Budget(losses=1), CERTAIN),
    "legs of two requests": (Setting(True, same=False), Budget(losses=1), CERTAIN),
    "no clock is needed": (Setting(True, clocks=NONE), Budget(), GOOD),
    "no clock is needed to abort": (Setting(True, clocks=NONE, eager=True), Budget(aborts=1), BOTH),
    "a loss is repaired": (Setting(True, clocks=RESEND), Budget(losses=1), GOOD),
    "a copy is harmless": (Setting(True, clocks=RESEND), Budget(copies=1), GOOD),
    "a loss among two chunks is repaired": (Setting(True, clocks=RESEND, chunks=2, eager=True), Budget(losses=1), GOOD),
    "a loss is repaired, an abort": (Setting(True, clocks=RESEND, eager=True), Budget(aborts=1, losses=1), BOTH),
}  # fmt: skip

#: These need minutes.
DEEP: dict[str, tuple[Setting, Budget, set[str]]] = {
    "an abort": (Setting(True), Budget(aborts=1), HALF | BOTH),
    "two aborts, a loss": (Setting(True, eager=True), Budget(aborts=2, losses=1), BOTH),
    "two losses": (Setting(True, clocks=RESEND, eager=True), Budget(losses=2, copies=1), GOOD),
    "two early clocks": (Setting(True, eager=True), Budget(clocks=2), BOTH),
    "an early clock, before any leg": (Setting(True), Budget(clocks=1), HALF | BOTH),
    "a tail, two chunks, an abort": (Setting(True, tail=True, chunks=2, eager=True), Budget(aborts=1), BOTH),
    "wrongly declared lost, with data": (Setting(True, eager=True), Budget(wrong=1), BOTH),
    "a gate, a failure, an early clock": (
        Setting(True, gates=("cache",), eager=True), Budget(failures=1, clocks=1), BOTH,
    ),
    "the room is used twice": (
        Setting(True, clocks=NONE, eager=True), Budget(attempts=2), {"P:Success P:Success D:Success D:Success"},
    ),
    "two prefill ranks": (Setting(True, prefills=2, clocks=NONE, eager=True), Budget(), {"P:Success P:Success D:Success"}),
    "two decode ranks": (Setting(True, decodes=2, clocks=NONE, eager=True), Budget(), {"P:Success D:Success D:Success"}),
}  # fmt: skip


def search(setting: Setting, budget: Budget, limit: int = 400_000) -> Result:
    world = PairWorld(setting, budget)
    result = explore(world, limit)
    assert result.violation is None, f"{result.violation}\n{world.tell(result.trace)}"
    assert result.complete, f"gave up after {result.states} states"
    return result


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_it_holds(name: str, push: bool) -> None:
    setting, budget, ends = WORLDS[name]
    result = search(setting._replace(push=push), budget)
    assert result.proved
    assert set(result.outcomes) == ends


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_it_holds_in_large_worlds_too(name: str, push: bool) -> None:
    setting, budget, ends = DEEP[name]
    result = search(setting._replace(push=push), budget, 4_000_000)
    assert set(result.outcomes) == ends


@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
@pytest.mark.parametrize("fault", [Budget(losses=1), Budget(copies=1)], ids=["loss", "copy"])
def test_one_message_lost_or_copied_ends_in_the_same_pair_of_states(push: bool, fault: Budget) -> None:
    """LossSurvivable, with engines that act and no deadline that covers up for a loss."""
    setting = Setting(push, clocks=RESEND, eager=True)
    assert set(search(setting, fault).outcomes) == set(search(setting, Budget()).outcomes) == GOOD


def test_a_receiver_that_lies_about_its_end_is_not_believed_before_everything_was_started() -> None:
    result = search(Setting(True, chunks=2, eager=True), Budget(lies=1))
    assert result.proved
    assert "P:Success D:Failed" in result.outcomes  # in doubt it is: nobody can tell that this is a lie


@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_remembering_steps_of_a_process_changes_nothing(push: bool) -> None:
    setting, budget = Setting(push, eager=True), Budget(losses=1)
    quick, slow = explore(PairWorld(setting, budget)), explore(PairWorld(setting, budget, remember=False))
    assert (quick.states, quick.edges, quick.outcomes) == (slow.states, slow.edges, slow.outcomes)
    assert quick.proved


def test_a_trace_is_told_with_its_messages() -> None:
    world = PairWorld(Setting(True, eager=True))
    text = world.tell([("deliver", min(world.net)), ("send", 0, "key", 0)])
    assert text.startswith("deliver: Metadata(")
    assert text.endswith("send: 0, key, 0")
