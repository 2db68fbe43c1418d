from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest
import zmq
from zmq.utils.monitor import parse_monitor_message

from kvpoll.runtime.transports.base import Exposure
from kvpoll.runtime.transports.landing import Refusal
from kvpoll.runtime.transports.memory import BufferPool
from kvpoll.runtime.transports.zmq_wire import Head, Kind, pack, unpack

from .contract import fresh_key
from .rigs import ZmqRig
from .zmq_raw import LIMIT_MS, RawPeer, eventually, works


@pytest.fixture
def rig() -> Iterator[ZmqRig]:
    rig = ZmqRig()
    yield rig
    rig.finish()
    rig.assert_idle()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kvpoll")] == []


@pytest.fixture
def raw(rig: ZmqRig) -> Iterator[RawPeer]:
    raw = RawPeer(rig.land, rig.link)
    yield raw
    raw.close()


# What a receiver refuses, frame by frame.


def test_a_key_retracted_between_two_pieces_refuses_the_second(rig: ZmqRig, raw: RawPeer) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    assert raw.ask(raw.head(key, total=8), b"abcd").kind is Kind.LANDED
    assert rig.receiver.gauges()["parts_filling"] == 1
    rig.receiver.retract(key)
    assert raw.refusal(raw.head(key, offset=4, total=8), b"efgh") is Refusal.UNKNOWN_KEY
    assert rig.receiver.gauges()["parts_filling"] == 0
    assert rig.land.counters()["refused_unknown_key"] == 1


def test_a_fence_between_two_pieces_refuses_the_second(rig: ZmqRig, raw: RawPeer) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    assert raw.ask(raw.head(key, total=8), b"abcd").kind is Kind.LANDED
    rig.receiver.fence_peer(rig.link)
    rig.receiver_inbox.fence_of(rig.link)
    assert raw.refusal(raw.head(key, offset=4, total=8), b"efgh") is Refusal.UNKNOWN_KEY


def test_an_oversized_total_is_refused_before_anything_is_allocated(
    rig: ZmqRig, raw: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    lend = BufferPool.lend
    monkeypatch.setattr(BufferPool, "lend", lambda self, nbytes: (asked.append(nbytes), lend(self, nbytes))[1])
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 1 << 20, 1))
    for total in ((1 << 20) + 1, 1 << 40, (1 << 64) - 1):
        assert raw.refusal(raw.head(key, total=total), b"x") is Refusal.TOO_MANY_BYTES
    assert asked == []
    assert raw.ask(raw.head(key, total=1), b"x").kind is Kind.DONE
    assert asked == [1]
    rig.receiver.release(key)


def test_pieces_that_contradict_each_other_are_refused_and_dropped(rig: ZmqRig, raw: RawPeer) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    assert raw.refusal(raw.head(key, offset=4, total=8), b"efgh") is Refusal.NOT_STARTED
    assert raw.refusal(raw.head(key, total=3), b"abcd") is Refusal.BAD_RANGE
    assert raw.refusal(raw.head(key, total=3), b"") is Refusal.BAD_RANGE
    for wrong in (raw.head(key, offset=5, total=8), raw.head(key, offset=0, total=8), raw.head(key, offset=4, total=9)):
        assert raw.ask(raw.head(key, total=8), b"abcd").kind is Kind.LANDED
        assert raw.refusal(wrong, b"ef") is Refusal.BAD_RANGE
        assert rig.receiver.gauges()["parts_filling"] == 0
    assert raw.ask(raw.head(key, total=8), b"abcd").kind is Kind.LANDED
    assert raw.ask(raw.head(key, offset=4, total=8), b"efgh").kind is Kind.DONE
    assert bytes(rig.arrived(key, 0)) == b"abcdefgh"
    rig.receiver.release(key)


def test_nobody_else_writes_into_a_part_that_is_being_filled(rig: ZmqRig, raw: RawPeer) -> None:
    key, intruder = fresh_key(), RawPeer(rig.land, rig.link)
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    assert raw.ask(raw.head(key, total=8), b"abcd").kind is Kind.LANDED
    assert intruder.refusal(intruder.head(key, offset=4, total=8), b"EFGH") is Refusal.PART_TAKEN
    assert raw.refusal(raw.head(key, op=2, total=8), b"ABCD") is Refusal.PART_TAKEN
    assert intruder.ask(intruder.head(key, kind=Kind.CANCEL)).kind is Kind.CANCELLED
    assert raw.ask(raw.head(key, offset=4, total=8), b"efgh").kind is Kind.DONE
    assert bytes(rig.arrived(key, 0)) == b"abcdefgh"
    intruder.close()
    rig.receiver.release(key)


def test_a_cancel_is_answered_with_what_became_of_the_operation(rig: ZmqRig, raw: RawPeer) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 2))
    raw.ask(raw.head(key, total=8), b"abcd")
    raw.ask(raw.head(key, part=1, op=2, total=1), b"x")
    for _ in range(2):
        assert raw.ask(raw.head(key, kind=Kind.CANCEL)).kind is Kind.CANCELLED
        assert raw.ask(raw.head(key, part=1, op=2, kind=Kind.CANCEL)).kind is Kind.DONE
        assert raw.ask(raw.head(key, part=1, op=3, kind=Kind.CANCEL)).kind is Kind.CANCELLED
    assert raw.refusal(raw.head(key, offset=4, total=8), b"efgh") is Refusal.NOT_STARTED
    rig.receiver.release(key)


def test_frames_for_another_instance_get_no_answer(rig: ZmqRig, raw: RawPeer) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    raw.socket.send_multipart([pack(raw.head(key, op=5, total=1)._replace(token=raw.token ^ 1)), b"x"])
    raw.socket.send_multipart([pack(raw.head(key, op=5, kind=Kind.CANCEL)._replace(token=raw.token ^ 1))])
    assert raw.ask(raw.head(key, op=6, total=1), b"x").kind is Kind.DONE
    rig.receiver.release(key)


# Garbage.


@pytest.mark.parametrize("seed", range(3))
def test_garbage_is_counted_and_transfers_go_on(rig: ZmqRig, raw: RawPeer, seed: int) -> None:
    dice = random.Random(seed)
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 1000, 1))
    for _ in range(400):
        frames = [dice.randbytes(dice.choice((0, 1, 51, 52, 53, 58, 400))) for _ in range(dice.randint(1, 6))]
        if dice.random() < 0.5:
            valid = bytearray(
                pack(raw.head(dice.choice((key, 0)), kind=dice.choice(list(Kind)), total=dice.choice((1, 5000))))
            )
            for _ in range(dice.randint(0, 3)):
                valid[dice.randrange(len(valid))] = dice.randrange(256)
            frames[0] = bytes(valid)
        raw.socket.send_multipart(frames)
    other = RawPeer(rig.land, rig.link)
    assert other.refusal(other.head(fresh_key(), total=1), b"x") is Refusal.UNKNOWN_KEY
    other.close()
    assert works(rig)
    eventually(rig.land, lambda: rig.land.counters()["garbage"] > 100)
    rig.receiver.release(key)


def test_a_message_beyond_the_limit_only_costs_its_sender_the_connection(rig: ZmqRig, raw: RawPeer) -> None:
    events = raw.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    events.rcvtimeo = LIMIT_MS
    raw.socket.send_multipart([pack(raw.head(1, total=1)), bytes((16 << 20) + 1)])
    assert parse_monitor_message(events.recv_multipart())["event"] == zmq.EVENT_DISCONNECTED
    assert works(rig)


def test_unpack_accepts_only_what_pack_makes() -> None:
    head = Head(Kind.REFUSED, 1, 2, 3, 4, 5, 6, 7, "länk")
    frame = pack(head)
    assert unpack(frame) == head
    assert unpack(frame[:-1]) is None
    assert unpack(frame + b"x") is None
    assert unpack(b"X" + frame[1:]) is None
    assert unpack(frame[:-1] + b"\xff") is None
    assert unpack(frame[:4] + b"\x02" + frame[5:]) is None
    assert unpack(frame[:5] + b"\x63" + frame[6:]) is None
    assert unpack(b"") is None
