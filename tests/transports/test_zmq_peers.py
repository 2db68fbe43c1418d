from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvpoll.runtime.transports.base import Exposure, Operation, Outcome, PayloadSpec
from kvpoll.runtime.transports.zmq_push import ZmqPushTransport
from kvpoll.runtime.transports.zmq_wire import Kind, pack

from .contract import LIMIT_S, Inbox, fresh_key, push_operation, rows
from .rigs import ZmqRig, standing_still
from .zmq_raw import RawReceiver, eventually, works


@pytest.fixture
def rig() -> Iterator[ZmqRig]:
    rig = ZmqRig()
    yield rig
    rig.finish()
    rig.assert_idle()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kvpoll")] == []


@contextmanager
def lying_receiver(rig: ZmqRig) -> Iterator[RawReceiver]:
    receiver = RawReceiver(rig.push, "link-x")
    rig.push.open_peer("link-x", receiver.descriptor)
    try:
        yield receiver
    finally:
        receiver.close()
    rig.push.close_peer("link-x")


def test_answers_that_prove_nothing_resolve_nothing(rig: ZmqRig) -> None:
    with lying_receiver(rig) as receiver:
        op = rig.begin(fresh_key(), 0, rows(20 << 20), link="link-x")
        source, head = receiver.next(Kind.DATA)
        receiver.answer(source, head, Kind.DONE)  # though most of it was not sent
        receiver.answer(source, head, Kind.CANCELLED)  # though nobody cancelled
        receiver.answer(source, head, Kind.LANDED, token=6)  # of another instance
        receiver.answer(source, head, Kind.LANDED, key=head.key ^ 1)
        receiver.answer(source, head, Kind.DATA)
        receiver.router.send_multipart([source, b"noise"])
        receiver.router.send_multipart([source, pack(head), b"more"])
        receiver.answer(source, head, Kind.REFUSED, reason=99)
        eventually(rig.push, lambda: rig.push.gauges()["unanswered"] == 2)
        assert rig.inbox.outcomes(op) == []
        rig.push.fence_peer("link-x")
        assert rig.inbox.end_of(op) is Outcome.FENCED
        assert works(rig)


def test_a_lost_connection_makes_the_sender_ask_what_became_of_it(rig: ZmqRig) -> None:
    with lying_receiver(rig) as receiver:
        landed = rig.begin(fresh_key(), 0, rows(10), link="link-x")
        unknown = rig.begin(fresh_key(), 0, rows(10), link="link-x")
        receiver.next(Kind.DATA)
        receiver.next(Kind.DATA)
        endpoint = receiver.endpoint
        receiver.close()  # returns when the address is free again
        eventually(rig.push, lambda: not rig.push.probe("link-x"))
        receiver.bind(endpoint)
        for _ in range(2):
            source, head = receiver.next(Kind.CANCEL)
            receiver.answer(source, head, Kind.DONE if head.op == landed else Kind.CANCELLED)
        assert rig.inbox.end_of(landed) is Outcome.DONE
        assert rig.inbox.end_of(unknown) is Outcome.FAILED
        assert "connection lost" in rig.inbox.detail(unknown)


@contextmanager
def receiver_process(rig: ZmqRig, link: str, keys: list[int]) -> Iterator[subprocess.Popen[str]]:
    child = [sys.executable, str(Path(__file__).parent / "zmq_child.py"), link, str(64 << 20), *map(str, keys)]
    with (
        tempfile.TemporaryDirectory() as folder,  # a killed process cannot tidy up
        subprocess.Popen(
            child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder}
        ) as process,
    ):
        try:
            assert process.stdout is not None
            rig.push.open_peer(link, json.loads(process.stdout.readline()))
            yield process
        finally:
            process.kill()
    rig.push.close_peer(link)


def test_operations_towards_a_killed_process_end_with_the_fence(rig: ZmqRig) -> None:
    keys = [fresh_key() for _ in range(4)]
    with receiver_process(rig, "link-x", keys) as process:
        assert rig.inbox.end_of(rig.begin(keys[0], 0, rows(5 << 20), link="link-x")) is Outcome.DONE
        assert rig.push.probe("link-x")
        process.send_signal(signal.SIGSTOP)
        ops = [rig.begin(key, 0, rows(40 << 20), link="link-x") for key in keys[1:]]
        process.kill()
        process.wait(LIMIT_S)
        eventually(rig.push, lambda: not rig.push.probe("link-x"))
        rig.push.cancel(ops[0])
        assert works(rig)
        assert [rig.inbox.outcomes(op) for op in ops] == [[], [], []]
        rig.push.fence_peer("link-x")
        rig.inbox.fence_of("link-x")
        assert [rig.inbox.outcomes(op) for op in ops] == [[Outcome.UNRESOLVED, Outcome.FENCED]] * 3


def test_a_stopped_process_blocks_neither_other_peers_nor_closing(rig: ZmqRig) -> None:
    keys = [fresh_key() for _ in range(2)]
    with receiver_process(rig, "link-x", keys) as process:
        assert rig.inbox.end_of(rig.begin(keys[0], 0, rows(10), link="link-x")) is Outcome.DONE
        process.send_signal(signal.SIGSTOP)
        stuck = rig.begin(keys[1], 0, rows(40 << 20), link="link-x")
        assert works(rig)
        rig.push.tick()
        assert rig.inbox.outcomes(stuck) == []
        rig.push.close()
        assert rig.inbox.end_of(stuck) is Outcome.FENCED


# Bounds, addresses, mistakes of ours.


def test_a_peer_that_stands_still_holds_only_a_window_of_pieces(rig: ZmqRig) -> None:
    keys = [fresh_key() for _ in range(4)]
    for key in keys:
        rig.receiver.expose(Exposure(rig.link, key, 20 << 20, 1))
    with standing_still(rig.land):
        ops = [rig.begin(key, 0, rows(20 << 20)) for key in keys]
        eventually(rig.push, lambda: rig.push.gauges()["sending"] == 4)
        assert rig.push.gauges()["unanswered"] == 3
    assert {rig.inbox.end_of(op) for op in ops} == {Outcome.DONE}
    for key in keys:
        rig.receiver.release(key)
    assert rig.receiver.gauges()["buffers_lent"] == 0


def test_peers_beyond_the_limit_fail_alone() -> None:
    few, receiver = ZmqPushTransport(max_peers=2), ZmqPushTransport()
    inbox = Inbox(few)
    receiver.start(lambda: None)
    for number in range(4):
        few.open_peer(f"link-{number}", receiver.descriptor("l"))
    keys = [fresh_key() for _ in range(4)]
    for number, key in enumerate(keys):
        receiver.expose(Exposure(f"link-{number}", key, 10, 1))
    ops = []
    for number, key in enumerate(keys):
        ops.append(push_operation(f"link-{number}", key, 0, rows(10)))
        few.submit(ops[-1])
    ends = [inbox.end_of(operation.op) for operation in ops]
    assert ends == [Outcome.DONE, Outcome.DONE, Outcome.FAILED, Outcome.FAILED]
    assert few.gauges()["peers"] == 2
    few.close()
    receiver.close()


def test_the_ipc_endpoint_is_private_and_gone_after_close(rig: ZmqRig) -> None:
    folder = Path(str(rig.receiver.descriptor("l")["ipc"]).removeprefix("ipc://")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    rig.receiver.close()
    assert not folder.exists()


def test_ipc_is_used_on_one_host_only_and_only_when_the_socket_is_there(rig: ZmqRig) -> None:
    theirs = dict(rig.receiver.descriptor("l"))
    assert rig.push._endpoint(theirs) == theirs["ipc"]
    assert rig.push._endpoint({**theirs, "host": "elsewhere"}) == theirs["tcp"]
    assert rig.push._endpoint({**theirs, "ipc": f"ipc:///tmp/{os.getpid()}-none"}) == theirs["tcp"]
    assert rig.push._endpoint({**theirs, "ipc": "ipc:///etc/hostname"}) == theirs["tcp"]
    assert rig.push._endpoint({**theirs, "ipc": 7}) == theirs["tcp"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("transport", "jax"),
        ("version", 2),
        ("tcp", "tcp://evil"),
        ("tcp", 5),
        ("piece", 1),
        ("piece", ""),
        ("token", "x"),
    ],
)
def test_a_descriptor_that_cannot_work_is_refused_by_the_fields_name(rig: ZmqRig, field: str, value: str | int) -> None:
    ours, theirs = rig.sender.descriptor("l"), {**rig.receiver.descriptor("l"), field: value}
    assert list(rig.sender.mismatches(ours, theirs)) == [field]
    with pytest.raises(ValueError, match=field):
        rig.sender.open_peer("link-x", theirs)


def test_an_unreachable_address_never_raises_and_waits_for_the_fence(rig: ZmqRig) -> None:
    theirs = {**rig.receiver.descriptor("l"), "tcp": "tcp://127.0.0.1:1", "host": "elsewhere"}
    rig.push.open_peer("link-x", theirs)
    op = rig.begin(fresh_key(), 0, rows(10), link="link-x")
    assert not rig.push.probe("link-x")
    rig.push.fence_peer("link-x")
    assert rig.inbox.end_of(op) is Outcome.FENCED
    rig.push.close_peer("link-x")


def test_a_link_nobody_opened_fails_and_fences_at_once(rig: ZmqRig) -> None:
    assert rig.inbox.end_of(rig.begin(fresh_key(), 0, rows(10), link="nobody")) is Outcome.FAILED
    rig.push.fence_peer("nobody")
    rig.inbox.fence_of("nobody")
    rig.push.close_peer("nobody")


def test_a_link_name_too_long_for_the_header_is_our_mistake(rig: ZmqRig) -> None:
    with pytest.raises(ValueError, match="255"):
        rig.push.open_peer("l" * 256, rig.receiver.descriptor("l"))


def test_using_it_before_start_or_starting_twice_is_our_mistake(rig: ZmqRig) -> None:
    idle = ZmqPushTransport()
    with pytest.raises(RuntimeError, match="start"):
        idle.descriptor("l")
    with pytest.raises(RuntimeError, match="start"):
        rig.push.start(lambda: None)
    idle.close()


def test_accelerator_arrays_are_sent_as_they_are(rig: ZmqRig) -> None:
    jax = pytest.importorskip("jax")
    key, array = fresh_key(), jax.numpy.arange(100_000, dtype="uint16").reshape(10, -1)
    rig.receiver.expose(Exposure(rig.link, key, array.nbytes, 1))
    operation = Operation(10**9, rig.link, key, 0, PayloadSpec(array.shape, "uint16"), array)
    rig.push.submit(operation)
    assert rig.inbox.end_of(operation.op) is Outcome.DONE
    assert np.array_equal(rig.arrived(key, 0).view(np.uint16).reshape(10, -1), np.asarray(array))
    rig.receiver.release(key)
    array.delete()
    with pytest.raises(ValueError, match="live array"):
        rig.push.submit(operation)


@pytest.mark.parametrize(("field", "number"), [("op", -1), ("key", 1 << 64), ("part", 1 << 32)])
def test_a_number_that_no_header_holds_is_our_mistake(rig: ZmqRig, field: str, number: int) -> None:
    operation = replace(push_operation(rig.link, fresh_key(), 0, rows(1)), **{field: number})
    with pytest.raises(ValueError, match=field):
        rig.push.submit(operation)
    assert works(rig)


@pytest.mark.parametrize("wrong", [{"host": "0.0.0.0"}, {"piece_bytes": 1}, {"max_peers": 0}, {"spare_bytes": -1}])
def test_a_configuration_that_makes_no_sense_is_refused(wrong: dict[str, int | str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ZmqPushTransport(**wrong)
