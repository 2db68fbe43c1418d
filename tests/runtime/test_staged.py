"""Staging slots in real hand-offs: bounded, all or nothing, refused by name, and all back whatever ended the room."""

from __future__ import annotations

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.runtime import Limits
from kvpoll.spec import Cause, KVPoll
from tests.runtime.engines import LAYERS, PAGE, WORDS, Engine, Room, eventually, pair

PAGE_NBYTES = LAYERS * PAGE * WORDS * 2  #: of one page of all layers


def limits(slots: int, pages: int = 2) -> dict[str, object]:
    return {"limits": Limits(staging_slots=slots, staging_nbytes=pages * PAGE_NBYTES)}


def lent(engine: Engine) -> int:
    return engine.manager.gauges()["staging.lent"]


def test_a_chunk_travels_in_parts_of_a_slot_and_every_slot_comes_back() -> None:
    with pair(**limits(8)) as (p, d):
        for room in range(1, 6):
            Room(p, d, room, tokens=22).run(3)
        for engine in (p, d):
            assert eventually(engine.manager, lambda engine=engine: engine.idle and not lent(engine))


def test_a_sender_without_free_slots_is_refused_by_name_and_sends_later() -> None:
    with pair(**limits(3)) as (p, d):
        first, second = Room(p, d, 1, tokens=22), Room(p, d, 2, tokens=22)
        first.prefill()  # nobody takes it yet: six pages, three slots
        with pytest.raises(LocalProtocolError, match="staging_slots: expected 3 free ones of 3") as refused:
            second.prefill()
        assert refused.value.cause is Cause.LIMIT
        p.pages.free(second.source)
        p.aux.free(second.slots[0] or 0)
        assert lent(p) == 3
        first.decode()
        first.arrives()
        first.commit()
        assert first.ends() == (KVPoll.Success, KVPoll.Success)
        assert eventually(p.manager, lambda: not lent(p))
        second.run()


def test_a_receiver_without_free_slots_is_refused_by_name_and_nothing_is_lent() -> None:
    with pair(**limits(3)) as (p, d):
        first, second = Room(p, d, 1, tokens=22), Room(p, d, 2, tokens=22)
        first.decode()
        with pytest.raises(LocalProtocolError, match="staging_slots") as refused:
            second.decode()
        assert refused.value.cause is Cause.LIMIT
        first.receiver.abort("enough")
        assert eventually(d.manager, lambda: not lent(d))
        d.pages.free(second.target)
        d.aux.free(second.slots[1] or 0)
        second.receiver.abort("enough")


@pytest.mark.parametrize("side", ["p", "d"])
def test_an_abort_at_either_end_gives_every_slot_back(side: str) -> None:
    with pair(**limits(6)) as (p, d):
        room = Room(p, d, 1, tokens=22)
        room.decode()
        room.prefill(2)
        room.sender.abort("enough") if side == "p" and room.sender is not None else room.receiver.abort("enough")
        assert room.ends()[0] is KVPoll.Failed
        assert eventually(p.manager, lambda: not lent(p))
        assert eventually(d.manager, lambda: not lent(d))


def test_a_slot_that_holds_no_page_is_refused_by_name() -> None:
    with pair(limits=Limits(staging_slots=4, staging_nbytes=PAGE_NBYTES - 1)) as (p, d):
        room = Room(p, d, 1, tokens=5)
        with pytest.raises(LocalProtocolError, match=f"staging_nbytes: expected at least {PAGE_NBYTES}"):
            room.prefill()
        p.pages.free(room.source)
        p.aux.free(room.slots[0] or 0)
        assert room.sender is not None
        room.sender.abort("no slot is large enough")
