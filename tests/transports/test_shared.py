"""Shared memory under the zmq transport: what is read where it lies, what is not, and what is never read twice."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kvpoll.runtime.transports import shared
from kvpoll.runtime.transports.base import Exposure, Outcome
from kvpoll.runtime.transports.landing import Refusal
from kvpoll.runtime.transports.memory import BufferPool
from kvpoll.runtime.transports.shared import LEAST_NBYTES, MAX_SEGMENTS, Mappings, Place, Segments
from kvpoll.runtime.transports.zmq_push import ZmqPushTransport
from kvpoll.runtime.transports.zmq_wire import Kind

from .contract import Inbox, fresh_key, push_operation, rows
from .rigs import SharedRig, standing_still
from .zmq_raw import RawPeer

MIB = 1 << 20
pytestmark = pytest.mark.skipif(not shared.AVAILABLE, reason="no memfd on this platform")


@pytest.fixture
def rig() -> Iterator[SharedRig]:
    rig = SharedRig()
    yield rig
    rig.finish()
    rig.assert_idle()


def moved(rig: SharedRig, nbytes: int) -> bool:
    """One part from end to end, bit for bit."""
    key, payload = fresh_key(), rows(nbytes, seed=nbytes)
    rig.allow(key, payload)
    done = rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.DONE
    same = np.array_equal(rig.arrived(key, 0), payload)
    rig.receiver.release(key)
    return done and same


def mapped(rig: SharedRig) -> int:
    assert rig.land._io is not None
    return len(rig.land._io._mappings)


# Through the transport.


@pytest.mark.parametrize("nbytes", [LEAST_NBYTES, MIB + 3, 16 * MIB, 33 * MIB + 1])
def test_what_is_staged_is_read_where_it_lies(rig: SharedRig, nbytes: int) -> None:
    assert moved(rig, nbytes)
    assert mapped(rig) == 1
    assert moved(rig, nbytes)  # in the same buffer, so that nothing new is mapped
    assert mapped(rig) == 1


def test_what_is_small_or_lies_elsewhere_is_sent(rig: SharedRig) -> None:
    assert moved(rig, 1000)
    key, payload = fresh_key(), rows(MIB)
    rig.allow(key, payload)
    operation = push_operation(rig.link, key, 0, payload)
    rig.sender.submit(operation)
    assert rig.inbox.end_of(operation.op) is Outcome.DONE
    rig.receiver.release(key)
    assert mapped(rig) == 0


def wrong_process(place: Place) -> Place:
    return place._replace(pid=1)


def wrong_file(place: Place) -> Place:
    return place._replace(fd=0)


def wrong_segment(place: Place) -> Place:
    return place._replace(segment=place.segment ^ 1)


def beyond_the_end(place: Place) -> Place:
    return place._replace(offset=1 << 40)


@pytest.mark.parametrize("wrong", [wrong_process, wrong_file, wrong_segment, beyond_the_end])
@pytest.mark.parametrize("nbytes", [MIB, 33 * MIB])
def test_a_place_that_cannot_be_read_costs_one_more_try(
    rig: SharedRig, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Place], Place], nbytes: int
) -> None:
    right = Segments.place
    asked: list[int] = []

    def place(self: Segments, data: shared.Bytes) -> Place | None:
        asked.append(data.nbytes)
        found = right(self, data)
        return None if found is None else wrong(found)

    monkeypatch.setattr(Segments, "place", place)
    assert moved(rig, nbytes)
    assert rig.land.counters()["refused_not_shared"] >= 1
    assert moved(rig, nbytes)
    assert len(asked) == 1, "the peer is sent bytes from then on"


def test_a_receiver_that_does_not_share_gets_bytes() -> None:
    sender, receiver = ZmqPushTransport(), ZmqPushTransport(use_shared=False)
    try:
        inbox, _ = Inbox(sender), Inbox(receiver)
        sender.open_peer("a", receiver.descriptor("a"))
        source = sender.staging()
        assert source is not None
        assert receiver.staging() is None
        payload = BufferPool(MIB, source).lend(MIB)
        payload[:] = 7
        key = fresh_key()
        receiver.expose(Exposure("a", key, MIB, 1))
        operation = push_operation("a", key, 0, payload)
        sender.submit(operation)
        assert inbox.end_of(operation.op) is Outcome.DONE
        assert np.array_equal(np.asarray(receiver.collect(key, 0)), payload)
        assert receiver.counters()["refused_not_shared"] == 0
    finally:
        sender.close()
        receiver.close()


def test_memory_that_a_fenced_peer_may_still_read_is_never_used_again(rig: SharedRig) -> None:
    key, payload = fresh_key(), rows(MIB)
    rig.allow(key, payload)
    with standing_still(rig.land):
        op = rig.begin(key, 0, payload)
        rig.sender.fence_peer(rig.link)
        rig.inbox.fence_of(rig.link)
        assert rig.inbox.outcomes(op) == [Outcome.UNRESOLVED, Outcome.FENCED]
        gc.collect()
        assert rig.staging.lent() == 0
        assert rig.staging.spare() == 0, "it came back, and is gone"
    rig.receiver.release(key)


def test_memory_that_was_answered_for_is_used_again(rig: SharedRig) -> None:
    assert moved(rig, MIB)
    gc.collect()
    assert rig.staging.spare() >= MIB


def test_a_closed_link_lets_go_of_the_peers_memory(rig: SharedRig) -> None:
    assert moved(rig, MIB)
    assert mapped(rig) == 1
    rig.receiver.close_peer(rig.link)
    with standing_still(rig.land):
        pass
    assert mapped(rig) == 0


def test_garbage_for_a_place_is_refused(rig: SharedRig) -> None:
    raw = RawPeer(rig.land, rig.link)
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, MIB, 1))
    try:
        for frame in (b"", b"x" * 7, bytes(36), bytes(37), b"\xff" * 36):
            head = raw.head(key, kind=Kind.SHARED, total=MIB)
            assert raw.refusal(head, frame) is Refusal.NOT_SHARED
        assert rig.receiver.gauges()["parts_filling"] == 0
    finally:
        raw.close()
        rig.receiver.release(key)


# The two halves by themselves.


def a_place(segments: Segments, nbytes: int = MIB) -> tuple[shared.Bytes, Place]:
    memory = segments.make(nbytes)
    assert memory is not None
    memory[:] = 5
    place = segments.place(memory)
    assert place is not None
    return memory, place


def test_a_segment_goes_with_the_last_reference_to_it() -> None:
    segments = Segments()
    memory, place = a_place(segments)
    view = memory[10:20]
    assert segments.place(view) == place.piece(10, 10)
    assert os.fstat(place.fd).st_size > MIB
    del memory
    assert len(segments) == 1
    del view
    assert len(segments) == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(place.fd)


def test_a_mapping_outlives_the_segment() -> None:
    segments, mappings = Segments(), Mappings()
    memory, place = a_place(segments)
    assert mappings.read("a", place) is not None
    del memory
    found = mappings.read("a", place)
    assert found is not None
    assert bytes(found[:3]) == b"\5\5\5"
    mappings.forget("a")
    assert mappings.read("a", place) is None


def test_too_little_and_too_many_are_not_shared() -> None:
    segments = Segments()
    assert segments.make(LEAST_NBYTES - 1) is None
    kept = [segments.make(LEAST_NBYTES) for _ in range(MAX_SEGMENTS)]
    assert all(memory is not None for memory in kept)
    assert segments.make(LEAST_NBYTES) is None
    kept.pop()
    assert segments.make(LEAST_NBYTES) is not None


def test_ordinary_memory_has_no_place() -> None:
    segments = Segments()
    memory, _ = a_place(segments)
    assert segments.place(np.zeros(MIB, np.uint8)) is None
    assert segments.place(np.frombuffer(memory.base, np.uint8)) is None, "it begins before the data"  # type: ignore[arg-type]


def test_a_spoiled_segment_is_not_reusable_and_others_are() -> None:
    segments = Segments()
    one, two = a_place(segments)[0], a_place(segments)[0]
    segments.spoil(one[5:9])
    assert not segments.reusable(one)
    assert segments.reusable(two)
    assert segments.reusable(np.zeros(3, np.uint8))


@pytest.mark.parametrize("nbytes", [0, MIB + 1, 1 << 60])
def test_a_place_that_is_not_within_its_segment_is_refused(nbytes: int) -> None:
    segments = Segments()
    _memory, place = a_place(segments)
    assert Mappings().read("a", place._replace(nbytes=nbytes)) is None
    assert Mappings().read("a", place._replace(offset=0)) is None, "the header is nobody's data"


def test_the_least_recently_read_mapping_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MAX_MAPPINGS", 2)
    segments, mappings = Segments(), Mappings()
    kept = [a_place(segments, LEAST_NBYTES) for _ in range(3)]
    for _, place in (kept[0], kept[1], kept[0], kept[2]):
        assert mappings.read("a", place) is not None
    assert list(mappings._maps) == [(os.getpid(), kept[0][1].segment), (os.getpid(), kept[2][1].segment)]


def test_only_a_sealed_memfd_with_the_right_id_is_mapped(tmp_path: Path) -> None:
    segments = Segments()
    _memory, place = a_place(segments)
    content = bytes(mmap.mmap(place.fd, 0, mmap.MAP_SHARED, mmap.PROT_READ))
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(content)
    os.mkfifo(pipe)
    unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(unsealed, content)
    opened = [
        unsealed,
        os.open(file, os.O_RDWR),
        os.open(pipe, os.O_RDWR),
        os.open("/dev/zero", os.O_RDWR),
    ]
    try:
        for fd in opened:
            assert Mappings().read("a", place._replace(fd=fd)) is None
        assert Mappings().read("a", place) is not None
    finally:
        for fd in opened:
            os.close(fd)
