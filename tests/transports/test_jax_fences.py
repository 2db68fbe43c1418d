"""Cancel, watchdog, fences and close of the jax pull transport, both ends in one process."""

import pytest

from kvpoll.runtime.transports.base import Outcome, PeerFenced
from kvpoll.runtime.transports.jax_lanes import Lane

from . import jax_rig
from .jax_peer import pattern
from .jax_rig import detail, fetch, join, new_key, ops, started

ends, pair, make = jax_rig.ends, jax_rig.pair, jax_rig.make
DONE, FAILED, UNRESOLVED, FENCED = Outcome.DONE, Outcome.FAILED, Outcome.UNRESOLVED, Outcome.FENCED


# Cancel, watchdog, fence


def test_a_connection_poisoned_after_its_pull_was_done_is_not_used_again(pair, monkeypatch):
    sender, receiver = pair
    pull = Lane._pull

    def done_and_poisoned(lane, job):
        array = pull(lane, job)
        lane.poison()
        return array

    for _ in range(2):
        key = new_key()
        sender.transport.offer("peer", key, pattern(64, "uint8"))
        with monkeypatch.context() as patch:
            patch.setattr(Lane, "_pull", done_and_poisoned)
            assert fetch(receiver, key, (64,)) == [DONE]
        assert receiver.transport.pools()["lanes_idle"] == 0


def test_a_queued_operation_is_cancelled_before_it_starts(pair):
    _, receiver = pair
    parked = [started(receiver, new_key()) for _ in range(5)]  # four lanes for each link
    assert receiver.transport.gauges()["pulls_queued"] == 1
    receiver.transport.cancel(parked[-1])
    assert receiver.end_of(parked[-1]) == [FAILED]
    assert "before it started" in detail(receiver, parked[-1])[0]
    assert all(receiver.outcomes(op) == [] for op in parked[:-1])
    receiver.transport.cancel(next(ops))


def test_queued_operations_run_once_a_connection_is_free(pair):
    sender, receiver = pair
    keys = [new_key() for _ in range(20)]
    running = [started(receiver, key) for key in keys]
    for key in keys:
        sender.transport.offer("peer", key, pattern(64, "uint8"))
    for op in running:
        assert receiver.end_of(op) == [DONE]


def test_links_beyond_the_bound_on_connections_wait_and_then_run(make):
    sender, receiver = make(), make(lanes_per_link=1, max_lanes=1)
    join(sender, receiver, "a")
    join(sender, receiver, "b")
    for link in ("a", "b", "a"):  # an idle connection of another link gives way
        key = new_key()
        sender.transport.offer(link, key, pattern(64, "uint8"))
        assert fetch(receiver, key, (64,), link=link) == [DONE]


def test_the_watchdog_cancels_a_pull_that_nobody_answers(make):
    now = [0.0]
    sender, receiver = make(), make(pull_watchdog_s=5.0, clock=lambda: now[0])
    join(sender, receiver)
    op = started(receiver, new_key())
    now[0] = 4.9
    receiver.transport.tick()
    assert receiver.transport.poll() == []
    assert receiver.transport.gauges()["pulls_started"] == 1
    now[0] = 5.0
    receiver.transport.tick()
    assert receiver.end_of(op) == [FAILED]
    assert "watchdog" in detail(receiver, op)[0]


@pytest.mark.parametrize("end", ["fence", "late raise", "late data"])
def test_a_cancel_that_the_native_layer_ignores_is_unresolved_and_then_fenced_once(make, monkeypatch, end):
    now = [0.0]
    sender, receiver = make(), make(clock=lambda: now[0])
    join(sender, receiver)
    key = new_key()
    op = started(receiver, key)
    with monkeypatch.context() as patch:
        patch.setattr(Lane, "poison", lambda self: None)
        receiver.transport.cancel(op)
        now[0] = 1.0
        receiver.until(lambda: receiver.outcomes(op) == [UNRESOLVED])
    assert receiver.transport.gauges()["pulls_started"] == 1, "unresolved frees nothing"
    if end == "fence":
        receiver.transport.fence_operation(op)
    elif end == "late raise":
        sender.transport._pool.of("peer").fail_pullers(key)
    else:
        sender.transport.offer("peer", key, pattern(64, "uint8"))
    assert receiver.end_of(op) == [UNRESOLVED, FENCED]
    receiver.transport.fence_operation(op)
    assert receiver.transport.collect(key, 0) is None
    receiver.transport.close()
    receiver.reports += receiver.transport.poll()
    assert receiver.outcomes(op) == [UNRESOLVED, FENCED]


def test_a_fenced_operation_never_delivers(pair):
    sender, receiver = pair
    key = new_key()
    op = started(receiver, key)
    receiver.transport.fence_operation(op)
    assert receiver.end_of(op) == [UNRESOLVED, FENCED]
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    assert receiver.transport.collect(key, 0) is None
    sender.transport.forget(key)
    receiver.idle()


def test_a_key_released_while_in_flight_leaves_nothing(pair):
    sender, receiver = pair
    key = new_key()
    op = started(receiver, key)
    receiver.transport.release(key)
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    assert receiver.end_of(op) == [DONE]
    assert receiver.transport.collect(key, 0) is None
    receiver.idle()


def test_a_fenced_peer_ends_everything_of_it_and_nothing_of_others(make):
    sender, receiver = make(), make()
    join(sender, receiver, "lost")
    join(sender, receiver, "other")
    parked = [started(receiver, new_key(), link="lost") for _ in range(5)]
    receiver.transport.offer("lost", 5, pattern(64, "uint8"))
    key = new_key()
    survivor = started(receiver, key, link="other")
    receiver.transport.fence_peer("lost")
    receiver.fenced("lost")
    assert [receiver.outcomes(op) for op in parked] == [[UNRESOLVED, FENCED]] * 4 + [[FAILED]]
    assert receiver.reports[-1] == PeerFenced("lost")
    assert not receiver.transport.probe("lost")
    late = started(receiver, new_key(), link="lost")
    assert receiver.end_of(late) == [FAILED]
    for refused in (
        lambda: receiver.transport.offer("lost", 6, pattern(64, "uint8")),
        lambda: receiver.transport.descriptor("lost"),
    ):
        with pytest.raises(ValueError, match="fenced"):
            refused()
    sender.transport.offer("other", key, pattern(64, "uint8"))
    assert receiver.end_of(survivor) == [DONE]
    receiver.transport.release(key)
    receiver.transport.fence_peer("lost")
    receiver.transport.close_peer("lost")
    receiver.idle()
    assert receiver.reports.count(PeerFenced("lost")) == 1


def test_a_link_never_heard_of_is_fenced_at_once(pair):
    pair[1].transport.fence_peer("stranger")
    assert PeerFenced("stranger") in pair[1].transport.poll()


# Close


def test_close_ends_everything_and_can_be_called_again(make):
    sender, receiver = make(), make()
    join(sender, receiver)
    op = started(receiver, new_key())
    sender.transport.offer("peer", 9, pattern(64, "uint8"))
    for driven in (receiver, sender):
        driven.transport.close()
        driven.transport.close()
        driven.reports += driven.transport.poll()
        assert not any(driven.transport.gauges().values())
        assert not any(driven.transport.pools().values())
        with pytest.raises(ValueError, match="closed"):
            driven.transport.descriptor("peer")
    assert receiver.outcomes(op) == [UNRESOLVED, FENCED]


def test_close_leaks_what_it_can_not_end_and_returns(make, monkeypatch):
    sender, receiver = make(), make(close_timeout_s=0.2)
    join(sender, receiver)
    key = new_key()
    started(receiver, key)
    monkeypatch.setattr(Lane, "poison", lambda self: None)
    receiver.transport.close()
    assert receiver.transport.gauges()["servers_retiring"] == 0
    assert receiver.transport.gauges()["lanes_busy"] == 1, "the thread that never came back is still counted"
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    receiver.until(lambda: receiver.transport.gauges()["lanes_busy"] == 0)
    assert receiver.transport.collect(key, 0) is None
