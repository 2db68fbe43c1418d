"""Over a pull transport the first parts of a chunk are announced while they are gathered: the pulls wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import kv, sending
from kvpoll.spec import KVPoll
from tests.runtime.engines import LAYERS, PAGE, PATIENCE, WORDS, Engine, Room, eventually, pair

Meanwhile = Callable[[], None]


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> list[Meanwhile]:
    """What happens in the middle of the next gathers, one function for each."""
    todo: list[Meanwhile] = []
    real = sending.gather

    def gather(*args: object) -> object:
        if todo:
            todo.pop(0)()
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(sending, "gather", gather)
    monkeypatch.setattr(sending, "EARLY_NBYTES", 1)
    return todo


@pytest.fixture
def engines() -> Iterator[tuple[Engine, Engine]]:
    with pair("jax") as both:
        yield both


def pulling(d: Engine, count: int = 1) -> Meanwhile:
    def wait() -> None:
        assert eventually(d.manager, lambda: d.manager.gauges()["operations"] >= count)

    return wait


def met(room: Room) -> Room:
    """Both ends know of each other, and of the pages."""
    room.decode()
    sender = room.sender = sending.KVSender(room.p.manager, room.no, room.request)
    assert room.p.manager.wait(lambda: sender.poll() is KVPoll.WaitingForInput, PATIENCE)
    return room


def test_the_pull_is_there_before_its_data(engines: tuple[Engine, Engine], during: list[Meanwhile]) -> None:
    p, d = engines
    for number in range(1, 4):
        during.append(pulling(d))
        met(Room(p, d, number)).run_on()
        assert not during
    p.becomes_idle()
    d.becomes_idle()


def test_two_parts_of_a_chunk_are_announced_and_the_others_when_they_exist(
    engines: tuple[Engine, Engine], during: list[Meanwhile], monkeypatch: pytest.MonkeyPatch
) -> None:
    p, d = engines
    monkeypatch.setattr(kv, "PART_NBYTES", 2 * LAYERS * PAGE * WORDS * 2)  # two pages of six
    offers: list[int] = []

    def look() -> None:
        pulling(d, 2)()
        offers.append(p.manager.gauges()["early"])

    during.append(look)
    met(Room(p, d, 1, aux=None)).run_on()
    assert offers == [2]
    p.becomes_idle()
    d.becomes_idle()


def test_the_pages_stay_lent_while_they_are_gathered(engines: tuple[Engine, Engine], during: list[Meanwhile]) -> None:
    p, d = engines

    def look() -> None:
        pulling(d)()
        assert not [r for r in p.collect() if r.kind is LeaseKind.SOURCE]

    during.append(look)
    met(Room(p, d, 1)).run_on()
    assert not during
    p.becomes_idle()
    d.becomes_idle()


def test_a_gather_that_raises_fails_the_room_at_both_ends_and_the_next_one_goes_on(
    engines: tuple[Engine, Engine], during: list[Meanwhile]
) -> None:
    p, d = engines

    def breaks() -> None:
        pulling(d)()
        raise RuntimeError("the pool was deleted")

    during.append(breaks)
    room = met(Room(p, d, 1))
    with pytest.raises(RuntimeError, match="deleted"):
        room.prefill()
    assert room.ends() == (KVPoll.Failed, KVPoll.Failed)
    assert "the pool was deleted" in str(room.receiver.failure_exception())
    p.becomes_idle()
    d.becomes_idle()
    met(Room(p, d, 2)).run_on()


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_giving_up_while_it_is_gathered_ends_both_and_gives_everything_back(
    side: str, engines: tuple[Engine, Engine], during: list[Meanwhile]
) -> None:
    p, d = engines
    room = met(Room(p, d, 1))

    def give_up() -> None:
        pulling(d)()
        assert room.sender is not None
        (room.sender if side == "prefill" else room.receiver).abort("enough")
        assert eventually(p.manager, lambda: room.sender is not None and room.sender.poll() is KVPoll.Failed)
        assert not [r for r in p.collect() if r.kind is LeaseKind.SOURCE]  # the gather still reads them

    during.append(give_up)
    room.prefill()
    assert room.ends() == (KVPoll.Failed, KVPoll.Failed)
    p.becomes_idle()
    d.becomes_idle()
    met(Room(p, d, 2)).run_on()


def test_what_is_pushed_is_gathered_first(during: list[Meanwhile]) -> None:
    with pair("zmq") as (p, d):
        started: list[int] = []
        during.append(lambda: started.append(p.manager.gauges()["operations"]))
        met(Room(p, d, 1)).run_on()
        assert started == [0]
        assert not p.manager.data.waits
