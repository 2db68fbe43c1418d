"""A chunk that is larger than a part travels in several: the next is gathered while one is on its way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from kvpoll import EngineSpec, KVManager, KVPoll, KVReceiver, KVSender, ManagerConfig, Request
from kvpoll.runtime import kv, sending

PAGES, PAGE_NBYTES = 12, 4 * 2
ENGINE = EngineSpec(
    page_size=1, layers=2, kv_dtype="uint16", layout="token,dim", page_nbytes=PAGE_NBYTES, kv_heads=1, head_dim=4
)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KVManager, KVManager]]:
    monkeypatch.setattr(kv, "PART_NBYTES", 5 * 2 * PAGE_NBYTES)  # five pages of two layers
    one = ManagerConfig(role="prefill", engine=ENGINE, transports=("inproc",), bootstrap="none")
    other = ManagerConfig(role="decode", engine=ENGINE, transports=("inproc",))
    with KVManager(one) as prefill, KVManager(other) as decode:
        yield prefill, decode


def _pool(seed: int) -> list[npt.NDArray[np.uint16]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 60_000, (2 * PAGES, 4)).astype(np.uint16) for _ in range(2)]


def _room(prefill: KVManager, decode: KVManager) -> tuple[KVSender, KVReceiver]:
    request = Request.of(list(range(PAGES)))
    receiver = KVReceiver(decode, "", 0, 1, request, address=prefill.address)
    receiver.init()
    receiver.send_metadata(range(PAGES))
    sender = KVSender(prefill, 1, request)
    sender.init(PAGES)
    return sender, receiver


def test_every_part_arrives_where_it_belongs(ends: tuple[KVManager, KVManager]) -> None:
    prefill, decode = ends
    source, pool = _pool(1), _pool(2)
    sender, receiver = _room(prefill, decode)
    order = np.random.default_rng(3).permutation(2 * PAGES)[:PAGES]
    sender.send(order, source)
    assert decode.wait(lambda: receiver.committable, 10), receiver.failure_exception()
    pool = receiver.commit(pool)
    for layer in range(2):
        np.testing.assert_array_equal(pool[layer][:PAGES], source[layer][order])
    assert prefill.wait(lambda: sender.poll() is KVPoll.Success, 10)
    assert [len(released.pages) for released in prefill.released()] == [PAGES]
    assert prefill.wait(lambda: not prefill.busy(), 10), prefill.busy()


def test_a_gather_that_raises_half_way_fails_the_room_and_returns_its_pages(
    ends: tuple[KVManager, KVManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill, decode = ends
    sender, receiver = _room(prefill, decode)
    real, calls = kv.gather, list[int]()

    def breaks(*args: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("the array was deleted")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(sending, "gather", breaks)
    with pytest.raises(RuntimeError, match="deleted"):
        sender.send(range(PAGES), _pool(1))
    assert sender.poll() is KVPoll.Failed
    assert decode.wait(lambda: receiver.poll() is KVPoll.Failed, 10)
    assert "the array was deleted" in str(receiver.failure_exception())
    assert prefill.wait(lambda: not {k: v for k, v in prefill.busy().items() if k != "released"}, 10), prefill.busy()
    assert [len(released.pages) for released in prefill.released()] == [PAGES]


def test_a_page_outside_the_pool_in_a_later_part_is_refused_before_anything_is_sent(
    ends: tuple[KVManager, KVManager],
) -> None:
    prefill, decode = ends
    sender, _ = _room(prefill, decode)
    with pytest.raises(ValueError, match="page 99"):
        sender.send([*range(PAGES - 1), 99], _pool(1))
    assert sender.poll() is not KVPoll.Failed
    sender.send(range(PAGES), _pool(1))


@pytest.mark.parametrize(
    ("pages", "lead", "cuts"), [(8, 0.4, [3, 5]), (8, 0.0, [8]), (1, 0.4, [1]), (2, 0.4, [2]), (9, 0.4, [5, 4])]
)
def test_a_large_chunk_of_one_part_sends_some_of_it_ahead(
    pages: int, lead: float, cuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = sum(layer[0].nbytes for layer in _pool(1))
    monkeypatch.setattr(kv, "PART_NBYTES", 8 * page)
    monkeypatch.setattr(kv, "LEAD_NBYTES", 2 * page)
    pool = [np.zeros((16, *layer.shape[1:]), layer.dtype) for layer in _pool(1)]
    found = kv.cut(pool, np.arange(pages, dtype=np.int32), None, lead)
    assert [len(piece) for piece in found] == cuts
    assert np.concatenate(found).tolist() == list(range(pages))
