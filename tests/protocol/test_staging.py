"""Staging slots: admission, order, and that each slot comes back exactly once, when nothing can touch it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.staging import Granted, Refused, Returned, SlotReady, Staging, Ticket
from kvpoll.spec import Cause, StagingState

A, B = SessionKey("sender", 1), SessionKey("sender", 2)


def ticket(owner: SessionKey = A, no: int = 0, peer: int = 0) -> Ticket:
    return Ticket(owner, peer, no)


def pool(slots: int = 1, queue: int = 2, *, remote: bool = False, tickets: int = 8) -> Staging:
    staging = Staging(slots, 100, queue=queue, remote=remote, tickets=tickets)
    staging.open(A)
    staging.open(B)
    return staging


def refusal(staging: Staging) -> dict[str, str | int]:
    (out,) = staging.take()
    assert isinstance(out, Refused)
    assert out.failure.cause is Cause.LIMIT
    return dict(out.failure.details)


def test_the_whole_life_of_a_slot_of_a_host_pool() -> None:
    staging, mine = pool(), ticket()
    staging.ask(mine, 100)
    assert staging.take() == [Granted(mine, 0)]
    assert staging.start(mine)
    staging.filled(mine)
    staging.quiet(mine)
    assert staging.take() == [SlotReady(mine, 0)]
    assert staging.start(mine)
    staging.freed(mine)
    assert staging.take() == []  # it is still read
    staging.quiet(mine)
    assert staging.take() == [Returned(mine, 0)]
    staging.close(A)
    staging.close(B)
    assert staging.gauges() == {"credits": 1, "lent": 0, "waiting": 0, "rooms": 0}
    assert (staging.late, staging.broken) == (0, 0)


def test_who_finds_no_slot_waits_and_is_served_in_the_order_of_asking() -> None:
    staging = pool()
    first, second, third = ticket(A, 0), ticket(B, 0), ticket(A, 1)
    for each in (first, second, third):
        staging.ask(each, 1)
    assert staging.take() == [Granted(first, 0)]
    assert staging.waiting == (second, third)
    staging.filled(first)
    staging.freed(first)
    assert staging.take() == [SlotReady(first, 0), Returned(first, 0), Granted(second, 0)]
    staging.close(B)
    assert staging.take() == [Returned(second, 0), Granted(third, 0)]


def test_slots_go_round_so_that_each_rests_as_long_as_it_can() -> None:
    staging = pool(slots=3)
    lent = []
    for no in range(6):
        staging.ask(ticket(no=no), 1)
        (out,) = staging.take()
        assert isinstance(out, Granted)
        lent.append(out.slot)
        staging.filled(ticket(no=no))
        staging.freed(ticket(no=no))
        staging.take()
    assert lent == [0, 1, 2, 0, 1, 2]


def test_a_full_queue_refuses_with_its_length_and_says_so_again_when_asked_again() -> None:
    staging = pool(queue=1)
    for no in (0, 1):
        staging.ask(ticket(no=no), 1)
    staging.take()
    for _ in range(2):
        staging.ask(ticket(B), 1)
        assert refusal(staging) == {"table": "staging queue", "limit": 1}
    assert staging.state(ticket(B)) is StagingState.REFUSED


def test_what_fits_into_no_slot_is_refused_with_the_size_of_one_however_many_are_free() -> None:
    staging = pool()
    staging.ask(ticket(), 101)
    assert refusal(staging) == {"table": "staging slot in bytes", "limit": 100}
    staging.ask(ticket(B), 100)
    assert staging.take() == [Granted(ticket(B), 0)]


def test_an_empty_pool_admits_whatever_fits() -> None:
    staging = pool(queue=0)
    for no in range(4):
        staging.ask(ticket(no=no), 100)
        assert staging.take() == [Granted(ticket(no=no), 0)]
        staging.filled(ticket(no=no))
        staging.freed(ticket(no=no))
        staging.take()


def test_a_room_makes_so_many_requests_and_nothing_is_kept_of_one_too_many() -> None:
    staging = pool(tickets=2)
    for no in (0, 1):
        staging.ask(ticket(no=no), 1)
    staging.take()
    staging.ask(ticket(no=2), 1)
    assert refusal(staging) == {"table": "staging tickets of a room", "limit": 2}
    assert ticket(no=2) not in dict(staging.snapshot()[2])
    staging.ask(ticket(no=0), 1)  # one that is known is answered
    assert staging.take() == [Granted(ticket(no=0), 0)]


def test_asking_again_repeats_the_grant_and_keeps_the_place_in_the_queue() -> None:
    staging = pool()
    for each in (ticket(A), ticket(B), ticket(A, 1), ticket(B), ticket(A)):
        staging.ask(each, 1)
    assert staging.take() == [Granted(ticket(A), 0), Granted(ticket(A), 0)]
    assert staging.waiting == (ticket(B), ticket(A, 1))


def test_a_room_that_fails_gives_back_what_nothing_touches_at_once_and_the_rest_when_it_is_quiet() -> None:
    staging = pool(slots=2, queue=2)
    filling, idle, queued = ticket(no=0), ticket(no=1), ticket(no=2)
    for each in (filling, idle, queued):
        staging.ask(each, 1)
    assert staging.start(filling)
    staging.take()
    staging.close(A)
    assert staging.take() == [Returned(idle, 1)]
    assert not staging.start(filling)
    assert not staging.start(idle)
    assert staging.holds(A)
    staging.filled(filling)
    staging.quiet(filling)
    assert staging.take() == [Returned(filling, 0)]
    assert not staging.holds(A)
    staging.quiet(filling)
    staging.close(A)
    assert staging.take() == []
    assert staging.credits == 2


def test_a_request_of_a_room_that_is_over_is_not_granted_by_the_slot_that_the_room_gives_back() -> None:
    staging = pool()
    staging.ask(ticket(no=0), 1)
    staging.ask(ticket(no=1), 1)
    staging.take()
    staging.close(A)
    assert staging.take() == [Returned(ticket(no=0), 0)]
    assert not staging.holds(A)


def test_in_a_ring_a_grant_may_be_written_to_until_the_peer_says_that_it_is_not() -> None:
    staging = pool(slots=3, remote=True)
    mine, other = ticket(peer=0), ticket(peer=1, no=1)
    staging.ask(mine, 1)
    staging.ask(other, 1)
    staging.take()
    staging.close(A)
    assert staging.take() == []
    staging.drained(A, 0)
    assert staging.take() == [Returned(mine, 0)]
    staging.drained(A, 0)
    staging.drained(A, 1)
    assert staging.take() == [Returned(other, 1)]
    assert not staging.holds(A)


def test_a_drain_word_before_the_end_of_the_room_is_not_forgotten_when_a_copy_asks_again() -> None:
    staging = pool(remote=True)
    staging.ask(ticket(), 1)
    staging.drained(A, 0)
    staging.ask(ticket(), 1)
    assert staging.take() == [Granted(ticket(), 0), Granted(ticket(), 0)]
    staging.close(A)
    assert staging.take() == [Returned(ticket(), 0)]


def test_the_word_that_a_slot_is_filled_ends_the_peers_right_to_it() -> None:
    staging = pool(remote=True)
    staging.ask(ticket(), 1)
    staging.filled(ticket())
    staging.freed(ticket())
    assert staging.take() == [Granted(ticket(), 0), SlotReady(ticket(), 0), Returned(ticket(), 0)]


def test_what_comes_twice_or_late_changes_nothing() -> None:
    staging = pool(remote=True)
    staging.filled(ticket())  # nothing was asked
    staging.quiet(ticket())
    staging.ask(ticket(), 1)
    staging.filled(ticket())
    staging.filled(ticket())
    staging.freed(ticket())
    staging.take()
    staging.close(B)
    before = staging.snapshot()
    for each in (ticket(), ticket(B), ticket(SessionKey("sender", 99))):
        staging.ask(each, 1)
        staging.filled(each)
        staging.quiet(each)
        staging.freed(each)
    staging.drained(B, 0)
    assert staging.take() == []
    assert staging.snapshot() == before
    assert staging.late > 0
    assert staging.broken == 0


def test_calls_that_make_no_sense_are_refused_and_change_nothing() -> None:
    staging = pool()
    staging.ask(ticket(), 1)
    staging.ask(ticket(B), 1)
    staging.take()
    before = staging.snapshot()
    for each in (ticket(), ticket(B), ticket(no=7)):
        with pytest.raises(LocalProtocolError, match="FREED is refused"):
            staging.freed(each)
    with pytest.raises(LocalProtocolError, match="owner: expected a new room"):
        staging.open(A)
    with pytest.raises(LocalProtocolError, match="nbytes: expected 1 or above, got 0"):
        staging.ask(ticket(no=9), 0)
    assert not staging.start(ticket(B))
    assert staging.snapshot() == before


@pytest.mark.parametrize(
    ("field", "values"), [("slots", (0, 1, 0)), ("nbytes", (1, 0, 0)), ("queue", (1, 1, -1))], ids=str
)
def test_a_pool_of_nothing_is_refused_by_name(field: str, values: tuple[int, int, int]) -> None:
    slots, nbytes, queue = values
    with pytest.raises(LocalProtocolError, match=f"{field}: expected") as caught:
        Staging(slots, nbytes, queue=queue)
    assert caught.value.details["field"] == field


def test_a_snapshot_is_restored_whole() -> None:
    staging = pool(slots=2)
    for no in range(4):
        staging.ask(ticket(no=no), 1)
    staging.start(ticket())
    staging.take()
    staging.close(B)
    before = staging.snapshot()
    staging.close(A)
    staging.quiet(ticket())
    staging.restore(before)
    assert staging.snapshot() == before
    staging.close(A)
    assert staging.take() == [Returned(ticket(no=1), 1)]


_STEP = st.tuples(
    st.sampled_from(["ask", "start", "quiet", "filled", "freed", "close", "open", "drained"]),
    st.integers(1, 4),
    st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(_STEP, max_size=120), remote=st.booleans(), slots=st.integers(1, 3), queue=st.integers(0, 2))
def test_credits_are_conserved_whatever_is_called(
    steps: list[tuple[str, int, int]], remote: bool, slots: int, queue: int
) -> None:
    staging = Staging(slots, 10, queue=queue, remote=remote, tickets=3)
    lent: dict[Ticket, int] = {}
    for name, room, no in steps:
        each = Ticket(SessionKey("sender", room), 0, no)
        match name:
            case "ask":
                staging.ask(each, 5 * no + 1)
            case "start":
                staging.start(each)
            case "close":
                staging.close(each.owner)
            case "drained":
                staging.drained(each.owner, 0)
            case "open" if not staging.holds(each.owner):
                staging.open(each.owner)
            case "freed" if staging.state(each) in (StagingState.READY, StagingState.DRAINING, StagingState.BACK):
                staging.freed(each)
            case "filled":
                staging.filled(each)
            case "quiet":
                staging.quiet(each)
        for out in staging.take():
            if isinstance(out, Granted):
                assert lent.setdefault(out.ticket, out.slot) == out.slot
            elif isinstance(out, Returned):
                assert lent.pop(out.ticket) == out.slot
        assert len(set(lent.values())) == len(lent) == staging.lent == slots - staging.credits
        assert len(staging.waiting) <= queue
        assert not (staging.waiting and staging.credits)
    assert staging.broken == 0
