"""The keeper of a registration, against a registry and a clock that only the test moves: no HTTP, no threads."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kvpoll.runtime.bootstrap.client import (
    Action,
    BootstrapError,
    Finished,
    Heartbeat,
    Keeper,
    KeeperState,
    Register,
    Unregister,
    Wait,
)
from kvpoll.runtime.bootstrap.models import ErrorKind, Lease, RegisterRequest
from kvpoll.runtime.bootstrap.registry import Conflict, Full, Held, Limits, Registry, Unknown

TOKEN = "t" * 16


def request(tp: int = 0, **changes: object) -> RegisterRequest:
    fields: dict[str, object] = {
        "engine_id": "engineA",
        "instance": "inst0",
        "control": "tcp://10.0.0.1:7000",
        "attn_tp_size": 2,
        "attn_tp_rank": tp,
        "page_size": 16,
        "kv_cache_dtype": "bfloat16",
    }
    return RegisterRequest.model_validate(fields | changes)


def keeper(*, instance: str = "inst0", token: str = TOKEN, jitter: float = 1.0) -> Keeper:
    requests = [request(tp, instance=instance) for tp in range(2)]
    return Keeper(requests, token=token, min_delay=0.5, max_delay=4.0, jitter=lambda: jitter)


@dataclass
class World:
    """Runs keepers against a registry in simulated time and writes down what they did when."""

    registry: Registry = field(default_factory=lambda: Registry(Limits(ttl=15.0)))
    now: float = 0.0
    reachable: bool = True
    log: list[tuple[float, str]] = field(default_factory=list)

    def run(self, keeper: Keeper, until: float) -> None:
        """Everything that ``keeper`` wants to do up to ``until``."""
        for _ in range(1000):
            action = keeper.next(self.now)
            if isinstance(action, Finished):
                return
            if isinstance(action, Wait):
                if action.until > until:
                    self.now = until
                    return
                assert action.until > self.now, "waiting for the past is a busy loop"
                self.now = action.until
                continue
            self.log.append((self.now, type(action).__name__))
            self.perform(keeper, action)
        raise AssertionError(f"busy loop: {self.log[-5:]}")

    def perform(self, keeper: Keeper, action: Action) -> None:
        if not self.reachable:
            keeper.failed(action, BootstrapError("unreachable", "nobody there"), self.now)
            return
        result: Held | Conflict | Full | Unknown
        if isinstance(action, Register):
            result = self.registry.register(action.request.entry(), self.now, token=action.request.token)
        elif isinstance(action, Heartbeat):
            result = self.registry.heartbeat(action.instance, action.token, self.now)
        else:
            assert isinstance(action, Unregister)
            result = self.registry.unregister(action.instance, action.token, self.now)
        if isinstance(result, Held):
            keeper.done(action, Lease(ttl_s=result.ttl or 0.0, ranks=result.ranks), self.now)
        else:
            problem = result.problem()
            keeper.failed(action, BootstrapError(problem.kind, problem.sentence, problem), self.now)


def test_all_ranks_are_registered_and_then_renewed_every_third_of_the_lease() -> None:
    world, ours = World(), keeper()
    world.run(ours, 12.0)
    assert world.log == [(0.0, "Register"), (0.0, "Register"), (5.0, "Heartbeat"), (10.0, "Heartbeat")]
    assert ours.state is KeeperState.HELD
    assert ours.is_held(24.9)
    assert not ours.is_held(25.0)
    assert [engine.ready for engine in world.registry.engines(12.0)] == [True]


def test_asking_twice_without_reporting_gives_the_same_action() -> None:
    ours = keeper()
    assert ours.next(0.0) == ours.next(0.0)
    assert ours.state is KeeperState.REGISTERING


def test_a_registration_whose_answer_was_lost_is_simply_repeated() -> None:
    world, ours = World(), keeper()
    action = ours.next(0.0)
    assert isinstance(action, Register)
    world.registry.register(action.request.entry(), 0.0, token=action.request.token)
    ours.failed(action, BootstrapError("unreachable", "the answer was lost"), 0.0)
    world.run(ours, 1.0)
    assert ours.state is KeeperState.HELD
    assert world.registry.counters()["registered"] == 2


def test_a_restarted_registry_is_told_everything_again_at_once() -> None:
    world, ours = World(), keeper()
    world.run(ours, 1.0)
    world.registry = Registry(Limits(ttl=15.0))
    world.log.clear()
    world.run(ours, 6.0)
    assert world.log == [(5.0, "Heartbeat"), (5.0, "Register"), (5.0, "Register")]
    assert ours.is_held(6.0)
    assert ours.last_error is None
    assert [engine.ready for engine in world.registry.engines(6.0)] == [True]


def test_a_registry_that_restarts_in_the_middle_of_the_round_is_told_everything_again() -> None:
    world, ours = World(), keeper()
    first = ours.next(0.0)
    world.perform(ours, first)
    world.registry = Registry(Limits(ttl=15.0))
    world.run(ours, 2.0)
    assert ours.is_held(2.0)
    assert world.registry.gauges(2.0)["ranks"] == 2


def test_a_heartbeat_that_covers_too_few_ranks_leads_to_a_new_registration() -> None:
    world, ours = World(), keeper()
    world.run(ours, 1.0)
    world.registry = Registry(Limits(ttl=15.0))
    world.registry.register(request(0).entry(), 1.0, token=TOKEN)
    world.run(ours, 7.0)
    assert world.registry.gauges(7.0)["ranks"] == 2
    assert ours.is_held(7.0)


def test_an_unreachable_service_is_tried_with_doubling_bounded_delays() -> None:
    world, ours = World(reachable=False), keeper()
    world.run(ours, 16.0)
    assert [at for at, _ in world.log] == [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5]
    assert ours.last_error is not None
    assert ours.last_error.kind == "unreachable"
    world.reachable = True
    world.run(ours, 20.0)
    assert ours.is_held(20.0)
    assert ours.last_error is None


def test_after_a_success_the_delays_start_small_again() -> None:
    world, ours = World(reachable=False), keeper()
    world.run(ours, 8.0)
    world.reachable = True
    world.run(ours, 12.0)
    world.reachable = False
    world.log.clear()
    world.run(ours, 18.5)
    assert [at for at, _ in world.log] == [16.5, 17.0, 18.0]


def test_jitter_shortens_a_delay() -> None:
    world, ours = World(reachable=False), keeper(jitter=0.5)
    world.run(ours, 1.0)
    assert [at for at, _ in world.log] == [0.0, 0.25, 0.75]


def test_a_short_outage_is_bridged_by_the_lease() -> None:
    world, ours = World(), keeper()
    world.run(ours, 4.0)
    world.reachable = False
    world.run(ours, 9.0)
    assert ours.is_held(9.0)
    world.reachable = True
    world.run(ours, 13.0)
    assert world.registry.counters()["registered"] == 2
    assert ours.is_held(20.0)


def test_a_long_outage_ends_the_lease_in_our_own_eyes_no_later_than_in_the_registrys() -> None:
    world, ours = World(), keeper()
    world.run(ours, 0.0)
    world.reachable = False
    world.run(ours, 14.9)
    assert ours.is_held(14.9)
    assert world.registry.gauges(14.9)["ranks"] == 2
    assert not ours.is_held(15.0)


def test_a_successor_waits_for_the_lease_of_a_dead_predecessor_and_then_takes_over() -> None:
    world = World()
    world.run(keeper(), 1.0)  # and dies without a word
    ours = keeper(instance="inst1", token="u" * 16)
    world.run(ours, 14.9)
    assert not ours.is_held(14.9)
    assert ours.last_error is not None
    assert ours.last_error.problem.holder == "inst0"
    world.run(ours, 16.0)
    assert ours.is_held(16.0)
    assert {seen.instance for seen in world.registry.lookup(16.0)} == {"inst1"}


def test_ranks_that_were_claimed_stay_claimed_while_another_one_is_still_in_conflict() -> None:
    world = World()
    world.registry.register(request(1, instance="old").entry(), 0.0, token="o" * 16)
    world.registry.heartbeat("old", "o" * 16, 10.0)
    ours = keeper(instance="inst1")
    world.run(ours, 20.0)
    assert [seen.instance for seen in world.registry.lookup(20.0)] == ["inst1", "old"]
    world.run(ours, 26.0)
    assert ours.is_held(26.0)


@pytest.mark.parametrize("kind", ["refused", "unauthorised", "not_ready", "unknown", "conflict"])
def test_no_failure_ends_a_keeper_or_makes_it_spin(kind: ErrorKind) -> None:
    ours = keeper()
    now = 0.0
    for _ in range(8):
        action = ours.next(now)
        assert isinstance(action, Register)
        ours.failed(action, BootstrapError(kind, "no"), now)
        pause = ours.next(now)
        assert isinstance(pause, Wait)
        assert 0.5 <= pause.until - now <= 4.0
        now = pause.until


def test_stopping_takes_the_registration_back_once_and_finishes_whatever_the_answer() -> None:
    for reachable in (True, False):
        world, ours = World(), keeper()
        world.run(ours, 1.0)
        world.reachable = reachable
        world.log.clear()
        ours.stop()
        assert not ours.is_held(1.0)
        world.run(ours, 2.0)
        assert [name for _, name in world.log] == ["Unregister"]
        assert ours.state is KeeperState.FINISHED
        assert world.registry.gauges(1.0)["ranks"] == (0 if reachable else 2)
        ours.stop()
        assert ours.next(2.0) == Finished()


def test_stopping_before_anything_was_sent_does_nothing() -> None:
    ours = keeper()
    ours.stop()
    assert ours.next(0.0) == Finished()


def test_an_answer_that_comes_after_the_stop_changes_nothing() -> None:
    for late in (True, False):
        ours = keeper()
        action = ours.next(0.0)
        ours.stop()
        if late:
            ours.done(action, Lease(ttl_s=15.0, ranks=2), 1.0)
        else:
            ours.failed(action, BootstrapError("unreachable", "gone"), 1.0)
        assert ours.next(1.0) == Unregister("inst0", TOKEN)


def test_a_lease_of_no_length_does_not_make_a_busy_loop() -> None:
    ours = Keeper([request()], token=TOKEN, min_delay=0.5)
    ours.done(ours.next(0.0), Lease(ttl_s=0.0, ranks=1), 0.0)
    assert ours.next(0.0) == Wait(0.5)


def test_a_keeper_serves_exactly_one_instance() -> None:
    for requests in ([], [request(0), request(1, instance="inst1")]):
        with pytest.raises(ValueError, match="exactly one instance"):
            Keeper(requests, token=TOKEN)


def test_delays_that_make_no_sense_are_refused() -> None:
    for low, high in ((0.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="min_delay"):
            Keeper([request()], token=TOKEN, min_delay=low, max_delay=high)


def test_the_token_is_not_shown_when_an_action_is_printed() -> None:
    ours = keeper()
    ours.next(0.0)
    ours.stop()
    assert TOKEN not in repr(ours.next(0.0))
    assert TOKEN not in repr(keeper().next(0.0))
