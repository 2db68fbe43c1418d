"""What every transport must do, as cases over a rig of two connected ends. A transport's own tests build the rig.

``ANY`` holds for push and pull alike; ``PUSH`` needs exposed keys. The rig's owner checks afterwards, with
:meth:`Rig.assert_idle`, that nothing is left.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt
import pytest

from kvpoll.runtime.transports.base import (
    Exposure,
    Operation,
    OpReport,
    Outcome,
    PayloadSpec,
    PeerFenced,
    Report,
    Transport,
)

Array = npt.NDArray[np.uint8]
Case = Callable[["Rig"], None]
LIMIT_S = 20.0  # for a test that has failed; no passing test waits for it
_ops = itertools.count(1)
_keys = itertools.count(1 << 62)


class Inbox:
    """Collects the reports of one transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.seen: list[Report] = []
        self._bell = threading.Event()
        transport.start(self._bell.set)

    def until(self, enough: Callable[[list[Report]], bool]) -> None:
        while True:
            self._bell.clear()
            self.seen += self.transport.poll()
            if enough(self.seen):
                return
            assert self._bell.wait(LIMIT_S), f"no report came; seen so far: {self.seen}"

    def outcomes(self, op: int) -> list[Outcome]:
        return [report.outcome for report in self.seen if isinstance(report, OpReport) and report.op == op]

    def detail(self, op: int) -> str:
        return "; ".join(report.detail for report in self.seen if isinstance(report, OpReport) and report.op == op)

    def end_of(self, op: int) -> Outcome:
        """Wait for the report that ends the operation."""
        last = (Outcome.DONE, Outcome.FAILED, Outcome.FENCED)
        self.until(lambda _: any(outcome in last for outcome in self.outcomes(op)))
        return self.outcomes(op)[-1]

    def fence_of(self, link: str) -> None:
        self.until(lambda seen: PeerFenced(link) in seen)


class Rig(ABC):
    """Two ends and two links between them."""

    link, other_link = "link-a", "link-b"
    sender: Transport
    receiver: Transport
    sender_inbox: Inbox
    receiver_inbox: Inbox

    def connect(self, sender: Transport, receiver: Transport) -> None:
        self.sender, self.receiver = sender, receiver
        self.sender_inbox, self.receiver_inbox = Inbox(sender), Inbox(receiver)
        for link in (self.link, self.other_link):
            ours, theirs = sender.descriptor(link), receiver.descriptor(link)
            assert list(sender.mismatches(ours, theirs)) == []
            sender.open_peer(link, theirs)
            receiver.open_peer(link, ours)

    @property
    @abstractmethod
    def inbox(self) -> Inbox:
        """Of the end that starts operations."""

    @abstractmethod
    def begin(self, key: int, part: int, payload: Array, link: str | None = None) -> int:
        """Start the operation that moves the payload; returns its id."""

    @abstractmethod
    def allow(self, key: int, payload: Array) -> None:
        """Let one payload of this size go under the key (push: expose it; pull: offer it)."""

    @abstractmethod
    def hold(self) -> AbstractContextManager[None]:
        """Inside, operations begin but do not get to their end."""

    def arrived(self, key: int, part: int) -> Array | None:
        return as_bytes(self.receiver.collect(key, part))

    def finish(self) -> None:
        """Close all peers, then both ends."""
        for transport in (self.sender, self.receiver):
            for link in (self.link, self.other_link):
                transport.close_peer(link)
            transport.close()
            transport.close()
            transport.poll()

    def assert_idle(self) -> None:
        for transport in (self.sender, self.receiver):
            assert {name: size for name, size in transport.gauges().items() if size} == {}


class PushRig(Rig):
    @property
    def inbox(self) -> Inbox:
        return self.sender_inbox

    def begin(self, key: int, part: int, payload: Array, link: str | None = None) -> int:
        operation = push_operation(link or self.link, key, part, payload)
        self.sender.submit(operation)
        return operation.op

    def allow(self, key: int, payload: Array) -> None:
        self.receiver.expose(Exposure(self.link, key, payload.nbytes, 1))


def push_operation(link: str, key: int, part: int, payload: Array) -> Operation:
    return Operation(next(_ops), link, key, part, PayloadSpec(payload.shape, payload.dtype.name), payload)


def fresh_key() -> int:
    return next(_keys)


def rows(nbytes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


def as_bytes(payload: object) -> Array | None:
    return None if payload is None else np.asarray(payload).reshape(-1).view(np.uint8)


# Both directions.


def bytes_arrive_as_they_were_sent(rig: Rig) -> None:
    for nbytes in (1, 2, 3, 4095, 65_537, (5 << 20) + 3):
        key, payload = fresh_key(), rows(nbytes, seed=nbytes)
        rig.allow(key, payload)
        assert rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.DONE
        arrived = rig.arrived(key, 0)
        assert arrived is not None
        assert np.array_equal(arrived, payload)
        assert rig.receiver.collect(key, 0) is rig.receiver.collect(key, 0)
        rig.receiver.release(key)
        assert rig.receiver.collect(key, 0) is None


def an_operation_is_reported_once(rig: Rig) -> None:
    key, payload = fresh_key(), rows(1000)
    rig.allow(key, payload)
    op = rig.begin(key, 0, payload)
    rig.inbox.end_of(op)
    rig.receiver.release(key)
    second, key = fresh_key(), fresh_key()
    rig.allow(key, payload)
    second = rig.begin(key, 0, payload)
    rig.inbox.end_of(second)
    rig.receiver.release(key)
    assert rig.inbox.outcomes(op) == [Outcome.DONE]
    assert rig.inbox.outcomes(second) == [Outcome.DONE]


def fencing_a_peer_ends_every_operation_and_then_reports_the_peer(rig: Rig) -> None:
    payload = rows(100_000)
    with rig.hold():
        keys = [fresh_key() for _ in range(3)]
        for key in keys:
            rig.allow(key, payload)
        ops = [rig.begin(key, 0, payload) for key in keys]
        rig.inbox.transport.fence_peer(rig.link)
        rig.inbox.fence_of(rig.link)
    for op in ops:
        assert rig.inbox.outcomes(op) == [Outcome.UNRESOLVED, Outcome.FENCED]
    assert rig.inbox.seen[-1] == PeerFenced(rig.link)
    for key in keys:
        rig.receiver.release(key)


def a_fenced_peer_is_not_sent_to_again(rig: Rig) -> None:
    key, payload = fresh_key(), rows(10)
    rig.inbox.transport.fence_peer(rig.link)
    rig.inbox.fence_of(rig.link)
    assert not rig.inbox.transport.probe(rig.link)
    rig.allow(key, payload)
    assert rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.FAILED
    assert rig.receiver.collect(key, 0) is None
    rig.receiver.release(key)


def closing_ends_what_is_unfinished(rig: Rig) -> None:
    key, payload = fresh_key(), rows(100_000)
    with rig.hold():
        rig.allow(key, payload)
        op = rig.begin(key, 0, payload)
        rig.inbox.transport.close()
        assert rig.inbox.end_of(op) is Outcome.FENCED
    assert rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.FAILED
    rig.receiver.release(key)


# Push.


def refused(rig: Rig, op: int, reason: str) -> bool:
    return rig.inbox.end_of(op) is Outcome.FAILED and reason in rig.inbox.detail(op)


def a_key_never_exposed_is_refused(rig: Rig) -> None:
    assert refused(rig, rig.begin(fresh_key(), 0, rows(10)), "unknown_key")


def a_retracted_key_is_refused_and_its_rows_are_dropped(rig: Rig) -> None:
    key, payload = fresh_key(), rows(10)
    rig.receiver.expose(Exposure(rig.link, key, 100, 2))
    assert rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.DONE
    rig.receiver.retract(key)
    assert rig.receiver.collect(key, 0) is None
    assert refused(rig, rig.begin(key, 1, payload), "unknown_key")


def a_key_of_another_link_is_refused(rig: Rig) -> None:
    key, payload = fresh_key(), rows(10)
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    assert refused(rig, rig.begin(key, 0, payload, link=rig.other_link), "wrong_link")
    assert rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.DONE
    rig.receiver.release(key)


def a_part_number_out_of_range_is_refused(rig: Rig) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 2))
    assert refused(rig, rig.begin(key, 2, rows(10)), "part_range")
    rig.receiver.release(key)


def a_part_arrives_once_and_keeps_its_rows(rig: Rig) -> None:
    key, first, second = fresh_key(), rows(10, seed=1), rows(10, seed=2)
    rig.receiver.expose(Exposure(rig.link, key, 100, 1))
    assert rig.inbox.end_of(rig.begin(key, 0, first)) is Outcome.DONE
    assert refused(rig, rig.begin(key, 0, second), "part_arrived")
    assert np.array_equal(rig.arrived(key, 0), first)
    rig.receiver.release(key)


def bytes_beyond_the_exposure_are_refused_over_all_parts(rig: Rig) -> None:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, 100, 3))
    assert refused(rig, rig.begin(key, 0, rows(101)), "too_many_bytes")
    assert rig.inbox.end_of(rig.begin(key, 0, rows(60))) is Outcome.DONE
    assert refused(rig, rig.begin(key, 1, rows(41)), "too_many_bytes")
    assert rig.inbox.end_of(rig.begin(key, 1, rows(40))) is Outcome.DONE
    rig.receiver.release(key)


def parts_of_one_key_do_not_mix(rig: Rig) -> None:
    key, payloads = fresh_key(), [rows(70_000 + i, seed=i) for i in range(8)]
    rig.receiver.expose(Exposure(rig.link, key, 1 << 20, 8))
    ops = [rig.begin(key, part, payload) for part, payload in enumerate(payloads)]
    assert [rig.inbox.end_of(op) for op in ops] == [Outcome.DONE] * 8
    assert all(np.array_equal(rig.arrived(key, part), payload) for part, payload in enumerate(payloads))
    rig.receiver.release(key)


def data_that_is_late_for_its_key_is_refused(rig: Rig) -> None:
    key, payload = fresh_key(), rows(9 << 20)
    rig.receiver.expose(Exposure(rig.link, key, payload.nbytes, 1))
    with rig.hold():
        op = rig.begin(key, 0, payload)
        rig.receiver.retract(key)
    assert refused(rig, op, "unknown_key")
    assert rig.receiver.collect(key, 0) is None


def a_cancelled_operation_ends_and_leaves_nothing(rig: Rig) -> None:
    key, payload = fresh_key(), rows(20 << 20)  # too much to be on the wire as a whole
    rig.receiver.expose(Exposure(rig.link, key, payload.nbytes, 1))
    with rig.hold():
        op = rig.begin(key, 0, payload)
        waiting = rig.begin(key, 0, payload)
        rig.sender.cancel(op)
        rig.sender.cancel(waiting)
    assert rig.inbox.end_of(op) is Outcome.FAILED
    assert rig.inbox.end_of(waiting) is Outcome.FAILED
    assert rig.receiver.collect(key, 0) is None
    assert rig.receiver.gauges()["parts_filling"] == 0
    assert rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.DONE
    rig.receiver.release(key)


def the_receivers_fence_covers_what_the_peer_starts_later(rig: Rig) -> None:
    key, other, payload = fresh_key(), fresh_key(), rows(10)
    rig.receiver.expose(Exposure(rig.link, key, 10, 1))
    rig.receiver.expose(Exposure(rig.other_link, other, 10, 1))
    rig.receiver.fence_peer(rig.link)
    rig.receiver_inbox.fence_of(rig.link)
    assert refused(rig, rig.begin(key, 0, payload), "unknown_key")
    with pytest.raises(ValueError, match="fenced"):
        rig.receiver.expose(Exposure(rig.link, fresh_key(), 10, 1))
    assert rig.inbox.end_of(rig.begin(other, 0, payload, link=rig.other_link)) is Outcome.DONE
    rig.receiver.release(other)


def fencing_one_link_leaves_the_other_alone(rig: Rig) -> None:
    key, payload = fresh_key(), rows(5 << 20)
    rig.receiver.expose(Exposure(rig.other_link, key, payload.nbytes, 1))
    with rig.hold():
        op = rig.begin(key, 0, payload, link=rig.other_link)
        rig.sender.fence_peer(rig.link)
        rig.inbox.fence_of(rig.link)
    assert rig.inbox.end_of(op) is Outcome.DONE
    assert np.array_equal(rig.arrived(key, 0), payload)
    rig.receiver.release(key)


def a_doubted_operation_can_only_end_as_fenced(rig: Rig) -> None:
    key, payload = fresh_key(), rows(100_000)
    rig.receiver.expose(Exposure(rig.link, key, payload.nbytes, 1))
    with rig.hold():
        op = rig.begin(key, 0, payload)
        rig.sender.fence_operation(op)
    assert rig.inbox.end_of(op) is Outcome.FENCED
    assert rig.inbox.outcomes(op) == [Outcome.UNRESOLVED, Outcome.FENCED]
    rig.receiver.release(key)


def an_unsendable_payload_is_our_mistake_and_starts_nothing(rig: Rig) -> None:
    wrong = {
        "no bytes": rows(0),
        "C-contiguous": rows(100)[::2],
        "expected 7": rows(8),
    }
    for message, payload in wrong.items():
        spec = PayloadSpec((7,), "uint8")
        with pytest.raises(ValueError, match=message):
            rig.sender.submit(Operation(next(_ops), rig.link, fresh_key(), 0, spec, payload))
    with pytest.raises(ValueError, match="carries the array"):
        rig.sender.submit(Operation(next(_ops), rig.link, fresh_key(), 0, spec))
    assert rig.sender.gauges()["operations"] == 0


def operations_in_flight_are_bounded(rig: Rig) -> None:
    limit, key = rig.sender.capabilities.max_in_flight, fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, limit, limit))
    with rig.hold():
        ops = [rig.begin(key, part, rows(1)) for part in range(limit)]
        with pytest.raises(ValueError, match="in flight"):
            rig.begin(key, 0, rows(1))
        with pytest.raises(ValueError, match="in use"):
            rig.sender.submit(Operation(ops[0], rig.link, key, 0, PayloadSpec((1,), "uint8"), rows(1)))
    assert {rig.inbox.end_of(op) for op in ops} == {Outcome.DONE}
    rig.receiver.release(key)


ANY: list[Case] = [
    bytes_arrive_as_they_were_sent,
    an_operation_is_reported_once,
    closing_ends_what_is_unfinished,
    fencing_a_peer_ends_every_operation_and_then_reports_the_peer,
    a_fenced_peer_is_not_sent_to_again,
]
PUSH: list[Case] = [
    a_key_never_exposed_is_refused,
    a_retracted_key_is_refused_and_its_rows_are_dropped,
    a_key_of_another_link_is_refused,
    a_part_number_out_of_range_is_refused,
    a_part_arrives_once_and_keeps_its_rows,
    bytes_beyond_the_exposure_are_refused_over_all_parts,
    parts_of_one_key_do_not_mix,
    data_that_is_late_for_its_key_is_refused,
    a_cancelled_operation_ends_and_leaves_nothing,
    the_receivers_fence_covers_what_the_peer_starts_later,
    fencing_one_link_leaves_the_other_alone,
    a_doubted_operation_can_only_end_as_fenced,
    an_unsendable_payload_is_our_mistake_and_starts_nothing,
    operations_in_flight_are_bounded,
]
