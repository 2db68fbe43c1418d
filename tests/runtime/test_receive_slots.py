"""A receiver's ring: what arrives lies in slots that were there before, and every slot comes back exactly once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import Place, Shape
from kvpoll.protocol.records import SessionKey
from kvpoll.runtime import Limits
from kvpoll.runtime.receive_slots import Landing, ReceiveSlots
from kvpoll.runtime.transports.memory import ALIGN, Bytes
from kvpoll.spec import Cause, KVPoll
from tests.runtime.engines import LAYERS, PAGE, WORDS, Room, eventually, pair
from tests.runtime.ranks import Model, engines

PAGE_NBYTES = LAYERS * PAGE * WORDS * 2  #: of one page of all layers
A, B = SessionKey("receiver", 1), SessionKey("receiver", 2)


def lent(slots: ReceiveSlots) -> int:
    return slots.gauges()["staging.lent"]


def landing(slots: ReceiveSlots, key: SessionKey) -> Landing:
    found = slots.landing(key)
    assert found is not None
    return found


@pytest.fixture
def landed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, bool]]]:
    """Of every part its bytes, and whether it landed in a slot."""
    seen: list[tuple[int, bool]] = []
    real = Landing.lend

    def lend(self: Landing, nbytes: int) -> Bytes | None:
        memory = real(self, nbytes)
        seen.append((nbytes, memory is not None))
        return memory

    monkeypatch.setattr(Landing, "lend", lend)
    yield seen
    seen.clear()


# -- the ring alone
def test_an_attempt_gets_all_its_slots_or_none() -> None:
    slots = ReceiveSlots(3, 128)
    slots.take(A, 256)
    assert lent(slots) == 2
    with pytest.raises(LocalProtocolError, match="staging_slots: expected 2 free ones of 3") as refused:
        slots.take(B, 129)
    assert refused.value.cause is Cause.LIMIT
    assert lent(slots) == 2
    slots.back(A)
    slots.take(B, 129)
    slots.back(B)
    assert lent(slots) == 0


def test_parts_lie_side_by_side_and_adjacent_slots_are_one_piece() -> None:
    slots = ReceiveSlots(2, 128)
    slots.take(A, 256)
    place = landing(slots, A)
    views = [place.lend(nbytes) for nbytes in (100, 100, 28, 1)]
    found = [view for view in views if view is not None]
    assert [view.nbytes for view in found] == [100, 100]  # 100 takes two times 64 bytes, and both slots are full then
    assert found[0].ctypes.data % ALIGN == 0
    assert found[1].ctypes.data - found[0].ctypes.data == 128
    assert not np.shares_memory(found[0], found[1])


def test_a_part_that_fits_nowhere_lands_elsewhere_and_takes_no_credit() -> None:
    slots = ReceiveSlots(3, 64)
    slots.take(A, 64)
    slots.take(B, 64)
    assert landing(slots, A).lend(65) is None
    assert landing(slots, A).lend(64) is not None
    assert landing(slots, A).lend(64) is None
    assert lent(slots) == 2


def test_a_slot_is_not_given_away_while_somebody_still_reads_it() -> None:
    told: list[None] = []
    slots = ReceiveSlots(1, 64, back=lambda: told.append(None))
    slots.take(A, 64)
    view = landing(slots, A).lend(64)
    assert view is not None
    read = view[8:16].view(np.uint32)  # as a scatter that is still running
    del view
    slots.back(A)
    assert lent(slots) == 1
    with pytest.raises(LocalProtocolError, match="staging_slots"):
        slots.take(B, 64)
    del read
    gc.collect()
    slots.tick()
    assert (lent(slots), told) == (0, [None])
    slots.take(B, 64)


def test_a_transport_that_makes_its_own_memory_is_counted_and_nothing_is_allocated() -> None:
    slots = ReceiveSlots(2, 64, memory=False)
    slots.take(A, 128)
    assert slots.landing(A) is None
    with pytest.raises(LocalProtocolError, match="staging_slots"):
        slots.take(B, 1)
    slots.ready(A)
    slots.back(A)
    slots.back(A)
    assert lent(slots) == 0


def test_credits_are_conserved_whatever_the_order_of_the_ends() -> None:
    rng = np.random.default_rng(5)
    slots, live = ReceiveSlots(7, 64), dict[SessionKey, list[Bytes | None]]()
    for number in range(2_000):
        key = SessionKey("receiver", number)
        nbytes = int(rng.integers(1, 300))
        try:
            slots.take(key, nbytes)
            live[key] = [landing(slots, key).lend(int(n)) for n in rng.integers(1, 80, 3)]
        except LocalProtocolError:
            pass
        if live and rng.random() < 0.6:
            over = list(live)[int(rng.integers(len(live)))]
            if rng.random() < 0.5:
                slots.ready(over)
            slots.back(over)
            del live[over]
        used = [view for views in live.values() for view in views if view is not None]
        spans = sorted((view.ctypes.data, view.ctypes.data + view.nbytes) for view in used)
        assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    for key in list(live):
        slots.back(key)
    live.clear()
    used.clear()
    gc.collect()
    assert lent(slots) == 0
    slots.take(A, 7 * 64)


# -- in hand-offs
@pytest.mark.parametrize("transport", ["zmq", "inproc"])
def test_what_arrives_lies_in_the_slots(transport: str, landed: list[tuple[int, bool]]) -> None:
    limits = Limits(staging_slots=8, staging_nbytes=2 * PAGE_NBYTES)
    with pair(transport, limits=limits) as (p, d):
        for room in range(1, 5):
            Room(p, d, room, tokens=22, aux=None).run(3)
            assert sum(nbytes for nbytes, _ in landed) == 6 * PAGE_NBYTES
            assert all(inside for _, inside in landed)
            landed.clear()
        assert eventually(d.manager, lambda: d.idle)


@pytest.mark.parametrize(
    ("prefill", "decode"), [(Shape(tp=2), Shape()), (Shape(), Shape(tp=2))], ids=["2-to-1", "1-to-2"]
)
def test_ranks_of_unequal_sizes_write_into_one_ring(
    prefill: Shape, decode: Shape, landed: list[tuple[int, bool]]
) -> None:
    model = Model()
    spec = model.spec(decode, Place())
    limits = Limits(staging_slots=6, staging_nbytes=2 * spec.page_nbytes * (spec.layer_range[1] - spec.layer_range[0]))
    with engines(model, prefill, decode, limits=limits) as both:
        for gen, tokens in enumerate((1, 7, 33), 1):
            both.hand_over(gen, tokens, chunk=1)
        assert sum(inside for _, inside in landed) > len(landed) // 2  # the rest is aux data, and comes last


@pytest.mark.parametrize("side", ["p", "d"])
def test_a_room_that_fails_before_it_is_committed_gives_the_ring_back(side: str) -> None:
    limits = Limits(staging_slots=3, staging_nbytes=2 * PAGE_NBYTES)
    with pair(limits=limits) as (p, d):
        for number in range(1, 4):
            room = Room(p, d, number, tokens=22)
            room.decode()
            room.prefill()
            room.arrives()
            if side == "p" and room.sender is not None:
                room.sender.abort("enough")
            room.receiver.abort("enough")
            assert room.ends()[1] is KVPoll.Failed
            assert eventually(d.manager, lambda: not d.manager.gauges()["staging.lent"])
        assert eventually(d.manager, lambda: d.idle)


def test_an_accelerator_pool_reads_its_rows_before_a_slot_is_used_again() -> None:
    import jax.numpy as jnp

    limits = Limits(staging_slots=1, staging_nbytes=256 * PAGE_NBYTES)
    with pair(limits=limits) as (p, d):
        d.pool = [jnp.asarray(layer) for layer in d.pool]  # type: ignore[assignment,misc]
        rooms = [Room(p, d, number, tokens=PAGE * 200, aux=None) for number in range(1, 6)]
        for room in rooms:
            room.run()
            assert eventually(d.manager, lambda: not d.manager.gauges()["staging.lent"])
        for room in rooms:
            room.check()
        assert eventually(d.manager, lambda: d.idle)
