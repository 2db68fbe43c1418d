"""The staging pool: who is told what, on which memory, and that nobody ever waits inside a call."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from pydantic import ValidationError

from kvpoll.protocol.errors import Failure, LocalProtocolError
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.staging import Ticket
from kvpoll.runtime.config import Limits
from kvpoll.runtime.staging import Asker, Loan, StagingPool
from kvpoll.spec import Cause

A, B = SessionKey("sender", 1), SessionKey("sender", 2)


class Ears:
    """What one asker was told."""

    def __init__(self) -> None:
        self.loans: list[Loan] = []
        self.failures: list[Failure] = []
        self.full: list[Loan] = []

    def ask(self, pool: StagingPool, owner: SessionKey = A, nbytes: int = 100) -> Ticket:
        return pool.request(owner, nbytes, self.loans.append, self.failures.append, self.full.append)


def pool_of(slots: int = 1, nbytes: int = 100, queue: int = 2, *, remote: bool = False) -> StagingPool:
    pool = StagingPool(slots, nbytes, queue=queue, remote=remote)
    pool.open(A)
    pool.open(B)
    return pool


def use(pool: StagingPool, ticket: Ticket) -> None:
    """Fill, read and free a slot."""
    assert pool.start(ticket)
    pool.filled(ticket)
    pool.freed(ticket)
    pool.quiet(ticket)


def test_a_grant_is_memory_of_the_size_that_was_asked_for_aligned_and_writable() -> None:
    pool, ears = pool_of(slots=3, nbytes=100), Ears()
    for nbytes in (100, 7, 64):
        ears.ask(pool, nbytes=nbytes)
    assert [loan.view.nbytes for loan in ears.loans] == [100, 7, 64]
    assert all(loan.view.ctypes.data % 64 == 0 for loan in ears.loans)
    for loan in ears.loans:
        loan.view[:] = loan.slot + 1
    assert [int(loan.view.sum()) for loan in ears.loans] == [100, 2 * 7, 3 * 64]


def test_a_request_that_finds_no_slot_is_told_later_by_whoever_frees_one() -> None:
    pool, one, two = pool_of(), Ears(), Ears()
    first = one.ask(pool)
    two.ask(pool, B)
    assert not two.loans
    use(pool, first)
    assert [loan.slot for loan in two.loans] == [0]
    assert [loan.ticket for loan in one.full] == [first]


def test_a_request_that_is_refused_hears_the_numbers() -> None:
    pool, ears = pool_of(queue=0), Ears()
    ears.ask(pool, nbytes=101)
    ears.ask(pool)
    ears.ask(pool)
    assert [failure.cause for failure in ears.failures] == [Cause.LIMIT, Cause.LIMIT]
    assert [dict(failure.details)["limit"] for failure in ears.failures] == [100, 0]
    assert len(ears.loans) == 1


def test_a_room_that_is_closed_hears_nothing_any_more_and_the_next_one_is_served() -> None:
    pool, one, two = pool_of(), Ears(), Ears()
    first = one.ask(pool)
    one.ask(pool)
    two.ask(pool, B)
    assert pool.start(first)
    pool.close(A)
    assert (len(one.loans), len(two.loans)) == (1, 0)
    pool.quiet(first)
    assert (len(one.loans), len(two.loans)) == (1, 1)
    pool.close(B)
    assert pool.gauges() == {"credits": 1, "lent": 0, "waiting": 0, "rooms": 0}


def test_a_room_that_is_not_open_cannot_ask() -> None:
    pool, ears = pool_of(), Ears()
    pool.close(A)
    with pytest.raises(LocalProtocolError, match="owner: expected a room that is open"):
        ears.ask(pool)


def test_a_caller_may_call_the_pool_while_it_is_told() -> None:
    """A thousand requests, each granted by the end of the one before it, without a call inside a call."""
    pool = pool_of(queue=1024)
    depth, deepest, served = 0, 0, 0

    def granted(loan: Loan) -> None:
        nonlocal depth, deepest, served
        depth, served = depth + 1, served + 1
        deepest = max(deepest, depth)
        use(pool, loan.ticket)
        depth -= 1

    holder = Ears().ask(pool, B)
    for _ in range(1000):
        pool.request(A, 10, granted, lambda failure: pytest.fail(str(failure)))
    assert served == 0
    use(pool, holder)
    assert (served, deepest) == (1000, 1)


def test_an_asker_that_raises_does_not_keep_the_others_from_being_told() -> None:
    pool, other = pool_of(slots=2), Ears()
    hold = [Ears().ask(pool, B) for _ in range(2)]

    def broken(loan: Loan) -> None:
        raise RuntimeError("the asker is broken")

    pool.request(A, 1, broken, lambda failure: None)
    other.ask(pool)
    with pytest.raises(RuntimeError, match="the asker is broken"):
        pool.close(B)
    assert len(other.loans) == 1
    assert hold
    pool.close(A)
    assert pool.gauges()["credits"] == 2


def test_a_ring_tells_a_peer_that_asks_again_again() -> None:
    pool, ears = pool_of(remote=True), Ears()
    ticket, asker = Ticket(A, 1, 0), Asker(ears.loans.append, ears.failures.append, ears.full.append)
    for _ in range(2):
        pool.heard(ticket, 10, asker)
    assert [loan.slot for loan in ears.loans] == [0, 0]
    pool.filled(ticket)
    assert [loan.view.nbytes for loan in ears.full] == [10]
    pool.close(A)
    assert pool.gauges()["credits"] == 1
    pool.heard(ticket, 10, asker)  # late
    assert len(ears.loans) == 2


def test_a_ring_keeps_a_slot_of_a_room_that_is_over_until_the_peer_has_drained() -> None:
    pool, ears = pool_of(remote=True), Ears()
    pool.heard(Ticket(A, 1, 0), 10, Asker(ears.loans.append, ears.failures.append))
    pool.close(A)
    assert pool.gauges()["credits"] == 0
    pool.drained(A, 0)
    assert pool.gauges()["credits"] == 0
    pool.drained(A, 1)
    assert pool.gauges() == {"credits": 1, "lent": 0, "waiting": 0, "rooms": 1}


def test_threads_never_share_a_slot() -> None:
    pool, rounds = StagingPool(2, 64, queue=64), 200
    wrong: list[str] = []

    def work(number: int) -> None:
        owner = SessionKey("sender", number)
        pool.open(owner)
        for _ in range(rounds):
            got: list[Loan] = []
            come = threading.Event()

            def granted(loan: Loan, got: list[Loan] = got, come: threading.Event = come) -> None:
                got.append(loan)
                come.set()

            ticket = pool.request(owner, 64, granted, lambda failure: wrong.append(str(failure)))
            assert come.wait(30)
            pool.start(ticket)
            got[0].view[:] = number
            if not np.all(got[0].view == number):
                wrong.append(f"{number} shares slot {got[0].slot}")
            use(pool, ticket)
            pool.quiet(ticket)
        pool.close(owner)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert pool.gauges() == {"credits": 2, "lent": 0, "waiting": 0, "rooms": 0}


def test_a_configuration_without_slots_makes_no_pool() -> None:
    assert StagingPool.of(Limits()) is None
    pool = StagingPool.of(Limits(staging_slots=3, staging_nbytes=1000, staging_queue=5))
    assert pool is not None
    assert (pool.nbytes, pool.gauges()["credits"]) == (1000, 3)


@pytest.mark.parametrize("given", [{"staging_slots": 1}, {"staging_nbytes": 1}])
def test_slots_without_a_size_are_refused_by_name(given: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="staging_slots, staging_nbytes: expected both above 0, or both 0"):
        Limits(**given)
