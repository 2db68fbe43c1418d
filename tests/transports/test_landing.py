from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvpoll.runtime.transports import landing
from kvpoll.runtime.transports.base import Exposure
from kvpoll.runtime.transports.landing import Landed, LandingTable, Piece, Refusal
from kvpoll.runtime.transports.memory import BufferPool

from .contract import rows

WHOLE = Piece(b"sender", "link", 7, 0, 1, 0, 12)


@pytest.fixture
def table() -> LandingTable:
    table = LandingTable(BufferPool(0))
    table.expose(Exposure("link", 7, 12, 1))
    return table


class SpyLock:
    """A lock that does something each time it was let go."""

    def __init__(self, after: Callable[[int], None]) -> None:
        self.held, self.rounds, self._after = False, 0, after

    def __enter__(self) -> None:
        assert not self.held
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False
        self.rounds += 1
        self._after(self.rounds)


def test_memory_is_written_only_under_the_lock_that_retract_takes(
    table: LandingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy, held = SpyLock(lambda _: None), []
    monkeypatch.setattr(table, "_lock", spy)
    monkeypatch.setattr(landing, "_STRIDE", 4)
    monkeypatch.setattr(
        landing.np, "copyto", lambda to, data: (held.append(spy.held), to.__setitem__(slice(None), data))
    )
    payload = rows(12)
    assert table.land(WHOLE, payload) is Landed.WHOLE
    assert held == [True, True, True]
    assert np.array_equal(table.collect(7, 0), payload)


@pytest.mark.parametrize("end", [lambda table: table.retract(7), lambda table: table.fence_link("link")])
def test_a_retract_between_two_strides_stops_the_copy(
    table: LandingTable, monkeypatch: pytest.MonkeyPatch, end: Callable[[LandingTable], None]
) -> None:
    copied: list[int] = []
    monkeypatch.setattr(table, "_lock", SpyLock(lambda rounds: end(table) if rounds == 2 else None))
    monkeypatch.setattr(landing, "_STRIDE", 4)
    monkeypatch.setattr(landing.np, "copyto", lambda to, data: copied.append(data.nbytes))
    assert table.land(WHOLE, rows(12)) is Refusal.UNKNOWN_KEY
    assert copied == [4]
    assert table.collect(7, 0) is None


@pytest.mark.parametrize("exposure", [Exposure("link", 7, 1, 1), Exposure("link", 8, 0, 1), Exposure("link", 8, 1, 0)])
def test_an_exposure_without_room_or_with_a_used_key_is_our_mistake(table: LandingTable, exposure: Exposure) -> None:
    with pytest.raises(ValueError, match="expected"):
        table.expose(exposure)


def test_a_link_can_be_used_again_once_it_was_forgotten(table: LandingTable) -> None:
    table.fence_link("link")
    assert table.gauges()["links_fenced"] == 1
    table.forget_link("link")
    table.expose(Exposure("link", 7, 12, 1))
    assert table.land(WHOLE, rows(12)) is Landed.WHOLE


def test_memory_that_became_ours_is_kept_for_a_whole_part_and_copied_otherwise() -> None:
    table, whole, half = LandingTable(BufferPool(0)), rows(1 << 17), rows(1 << 16)
    table.expose(Exposure("link", 7, 3 << 17, 3))
    first, second, third = (Piece(b"sender", "link", 7, part, part, 0, 1 << 17) for part in range(3))
    assert table.land(first, whole, ours=True) is Landed.WHOLE
    assert table.land(second, whole) is Landed.WHOLE
    assert table.land(third, half, ours=True) is Landed.PIECE
    assert table.land(third._replace(offset=1 << 16), half, ours=True) is Landed.WHOLE
    assert table.collect(7, 0) is whole
    assert not np.shares_memory(table.collect(7, 1), whole)
    assert np.array_equal(table.collect(7, 2), np.concatenate([half, half]))
    assert table.land(first, whole, ours=True) is Refusal.PART_ARRIVED
