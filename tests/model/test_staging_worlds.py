"""The worlds of staging slots find what is wrong with the table, and with the code around it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.mutants import mutants
from kvpoll.model_tests.mutation import Verdict, run
from kvpoll.model_tests.staging_world import PoolWorld, RingWorld, Shape
from kvpoll.model_tests.staging_worlds import STAGING_REACH, STAGING_WORLDS
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.staging import Staging, Ticket
from kvpoll.spec import STAGING


@pytest.mark.timeout(120)
def test_every_wrong_row_is_found() -> None:
    report = run(mutants(STAGING), [])
    assert [f.mutant.name for f in report.findings if f.verdict is not Verdict.KILLED] == []
    assert len(report.findings) > 90


def test_each_world_says_what_it_is_for() -> None:
    assert len({world.name for world in STAGING_WORLDS}) == len(STAGING_WORLDS)
    assert {world.name for world in STAGING_REACH} <= {f"reach-{world.name}" for world in STAGING_WORLDS}
    assert len(STAGING_REACH) == 4


def _lifo(staging: Staging, ticket: Ticket) -> None:
    """The slot that came back last is lent first."""
    staging._free.rotate(1)
    _TAKE(staging, ticket)


def _jumps(staging: Staging, ticket: Ticket) -> None:
    """Who comes last is served first."""
    staging._waiting.appendleft(ticket)


def _blind(staging: Staging, ticket: Ticket) -> None:
    """A slot comes back, and nobody who waits is told."""
    waiting, staging._waiting = staging._waiting, type(staging._waiting)()
    _RETURN(staging, ticket)
    staging._waiting = waiting


_TAKE, _RETURN = Staging._take_slot, Staging._return_slot


@pytest.mark.parametrize(
    ("effect", "wrong", "shape", "broken"),
    [
        ("TAKE_SLOT", _lifo, Shape(slots=2, tickets=2), "CreditsConserved"),
        ("JOIN_QUEUE", _jumps, Shape(rooms=3, queue=2), "CreditsConserved"),
        ("RETURN_SLOT", _blind, Shape(), "CreditsConserved"),
    ],
)
def test_a_pool_that_carries_an_effect_out_wrongly_is_found(
    effect: str,
    wrong: Callable[[Staging, Ticket], None],
    shape: Shape,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kvpoll.protocol import staging
    from kvpoll.spec import Effect

    monkeypatch.setitem(staging._EFFECTS, Effect[effect], wrong)
    assert explore(PoolWorld(shape), 20_000).broken == broken


def test_a_ring_that_believes_that_a_peer_is_done_when_it_was_told_to_stop_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Staging.close

    def close(staging: Staging, owner: SessionKey) -> None:
        right(staging, owner)
        staging.drained(owner, 0)

    monkeypatch.setattr(Staging, "close", close)
    assert explore(RingWorld(Shape()), 20_000).broken == "NoFreeInFlight"


def test_a_pool_that_closes_what_holds_a_slot_before_what_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvpoll.protocol import staging as module

    def close(staging: Staging, owner: SessionKey) -> None:
        if owner in staging._rooms:
            staging._closing.add(owner)
            for ticket in tuple(staging._rooms[owner]):
                staging._feed(ticket, module._CLOSE)
            staging._settle(owner)

    monkeypatch.setattr(Staging, "close", close)
    assert explore(RingWorld(Shape(rooms=1, tickets=2)), 20_000).broken == "CreditsConserved"
