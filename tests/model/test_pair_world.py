"""The pair world itself: what it may claim of losses, that its short cuts change nothing, and how it is told.

That its invariants hold is proved in test_check_worlds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.setting import Budget, Setting
from kvpoll.model_tests.verdicts import WorldReport

Searched = Callable[[str], WorldReport]


@pytest.mark.parametrize("how", ["push", "pull"])
@pytest.mark.parametrize("fault", ["loss-repaired", "copy-harmless"])
def test_one_message_lost_or_copied_ends_in_the_same_pair_of_states(how: str, fault: str, searched: Searched) -> None:
    """LossSurvivable, with engines that act and no deadline that covers up for a loss."""
    with_fault, without = searched(f"{how}-{fault}").result, searched(f"{how}-no-clock").result
    assert set(with_fault.outcomes) == set(without.outcomes) == {"P:Success D:Success"}


@pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
def test_remembering_steps_of_a_process_changes_nothing(push: bool) -> None:
    setting, budget = Setting(push, eager=True), Budget(losses=1)
    quick, slow = explore(PairWorld(setting, budget)), explore(PairWorld(setting, budget, remember=False))
    assert (quick.states, quick.edges, quick.outcomes) == (slow.states, slow.edges, slow.outcomes)
    assert quick.proved


def test_situations_are_noted_with_the_shortest_way_to_them() -> None:
    result = explore(PairWorld(Setting(True, eager=True), Budget(aborts=1)))
    way = result.marks["UniformRelease: an abort ends a room while an operation can touch its memory"]
    assert [action[0] for action in way if isinstance(action, tuple)] == ["deliver", "send", "abort"]


def test_a_trace_is_told_with_its_messages() -> None:
    world = PairWorld(Setting(True, eager=True))
    text = world.tell([("deliver", min(world.net)), ("send", 0, "key", 0)])
    assert text.startswith("deliver: Metadata(")
    assert text.endswith("send: 0, key, 0")
