from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kvpoll.runtime.transports.base import Exposure, Outcome, PeerFenced
from kvpoll.runtime.transports.inproc import Fate, Faults, InprocHub, InprocTransport

from .contract import fresh_key, rows
from .rigs import InprocRig


@pytest.fixture
def rig() -> Iterator[InprocRig]:
    rig = InprocRig()
    yield rig
    rig.finish()
    rig.assert_idle()
    assert rig.hub.on_wire() == []


def expose(rig: InprocRig, nbytes: int = 100) -> int:
    key = fresh_key()
    rig.receiver.expose(Exposure(rig.link, key, nbytes, 1))
    return key


def test_the_entry_point_construction_joins_one_hub_for_the_process() -> None:
    one, two = InprocTransport(), InprocTransport()
    one.start(lambda: None)
    two.start(lambda: None)
    assert list(one.mismatches(one.descriptor("l"), two.descriptor("l"))) == []
    assert one.descriptor("l")["address"] != two.descriptor("l")["address"]
    one.close()
    two.close()


def test_another_hub_or_transport_is_a_mismatch_by_name(rig: InprocRig) -> None:
    ours = rig.sender.descriptor(rig.link)
    stranger = InprocTransport(InprocHub())
    stranger.start(lambda: None)
    assert list(rig.sender.mismatches(ours, stranger.descriptor("l"))) == ["hub"]
    assert list(rig.sender.mismatches(ours, {"transport": "zmq"})) == ["transport", "hub", "address"]
    with pytest.raises(ValueError, match="hub"):
        rig.sender.open_peer("l", stranger.descriptor("l"))
    stranger.close()


def test_fates_are_taken_by_id_then_in_order_then_by_default() -> None:
    faults = Faults(default=Fate.FAIL)
    faults.then(Fate.HOLD, Fate.UNRESOLVED)
    faults.name(7, Fate.DELIVER)
    assert [faults.decide(op) for op in (1, 7, 2, 7)] == [Fate.HOLD, Fate.DELIVER, Fate.UNRESOLVED, Fate.FAIL]


def test_a_held_operation_lands_when_released_and_reads_the_payload_then(rig: InprocRig) -> None:
    rig.hub.faults.then(Fate.HOLD)
    key, payload = expose(rig), rows(100)
    op = rig.begin(key, 0, payload)
    assert rig.sender.poll() == []
    assert rig.receiver.collect(key, 0) is None
    payload[:] = 7
    assert rig.hub.release(op)
    assert rig.inbox.end_of(op) is Outcome.DONE
    assert np.array_equal(rig.arrived(key, 0), np.full(100, 7, np.uint8))
    rig.receiver.release(key)


def test_a_failed_operation_leaves_nothing(rig: InprocRig) -> None:
    rig.hub.faults.then(Fate.FAIL, Fate.HOLD)
    key = expose(rig)
    assert rig.inbox.end_of(rig.begin(key, 0, rows(100))) is Outcome.FAILED
    held = rig.begin(key, 0, rows(100))
    rig.hub.fail(held)
    assert rig.inbox.end_of(held) is Outcome.FAILED
    assert rig.receiver.collect(key, 0) is None
    rig.receiver.release(key)


def test_late_data_of_an_unresolved_operation_lands_unless_fenced(rig: InprocRig) -> None:
    rig.hub.faults.then(Fate.UNRESOLVED, Fate.UNRESOLVED)
    landing, fenced = expose(rig), expose(rig)
    late, cut = rig.begin(landing, 0, rows(100)), rig.begin(fenced, 0, rows(100))
    rig.inbox.until(lambda seen: len(seen) == 2)
    assert rig.inbox.outcomes(late) == rig.inbox.outcomes(cut) == [Outcome.UNRESOLVED]
    rig.sender.fence_operation(cut)
    assert rig.inbox.end_of(cut) is Outcome.FENCED
    assert rig.hub.on_wire() == [late]
    with pytest.raises(LookupError, match="on the wire"):
        rig.hub.release(cut)
    assert rig.hub.release(late)
    assert rig.hub.on_wire() == []
    with pytest.raises(LookupError, match="on the wire"):
        rig.hub.release(late)
    assert rig.receiver.collect(landing, 0) is not None
    assert rig.receiver.collect(fenced, 0) is None
    assert rig.sender.poll() == []  # landing resolves nothing: only a fence does
    rig.sender.fence_operation(late)
    assert rig.inbox.end_of(late) is Outcome.FENCED
    rig.receiver.release(landing)
    rig.receiver.release(fenced)


def test_late_data_for_a_retracted_key_is_refused_and_counted(rig: InprocRig) -> None:
    rig.hub.faults.then(Fate.UNRESOLVED)
    key = expose(rig)
    op = rig.begin(key, 0, rows(100))
    rig.receiver.retract(key)
    assert not rig.hub.release(op)
    assert sum(rig.hub._members[str(rig.receiver.descriptor("l")["address"])].landing.refused.values()) == 1
    rig.sender.fence_peer(rig.link)
    assert rig.inbox.end_of(op) is Outcome.FENCED


def test_operations_towards_a_dropped_peer_wait_for_it_or_for_a_fence(rig: InprocRig) -> None:
    address = str(rig.receiver.descriptor(rig.link)["address"])
    first, second, third = expose(rig), expose(rig), expose(rig)
    rig.hub.drop(address)
    assert not rig.sender.probe(rig.link)
    waits = rig.begin(first, 0, rows(100))
    cancelled = rig.begin(second, 0, rows(100))
    rig.sender.cancel(cancelled)
    assert rig.inbox.outcomes(waits) == []
    rig.hub.restore(address)
    assert rig.sender.probe(rig.link)
    assert rig.inbox.end_of(waits) is Outcome.DONE
    assert rig.inbox.outcomes(cancelled) == [Outcome.UNRESOLVED]
    rig.hub.drop(address)
    lost = rig.begin(third, 0, rows(100))
    assert not rig.hub.release(lost)
    rig.sender.fence_peer(rig.link)
    rig.inbox.fence_of(rig.link)
    assert rig.inbox.outcomes(cancelled) == rig.inbox.outcomes(lost) == [Outcome.UNRESOLVED, Outcome.FENCED]
    assert rig.inbox.seen[-1] == PeerFenced(rig.link)
    for key in (first, second, third):
        rig.receiver.release(key)
