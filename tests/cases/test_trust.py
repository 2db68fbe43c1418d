"""Cases I, and F12: whatever strangers and clients send, it is data; it changes nothing that is not theirs and ends nothing."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
import zmq

from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.runtime import KVBootstrapServer, KVReceiver, KVSender, Request
from kvpoll.runtime.aux_slots import AuxAnswer, aux_content
from kvpoll.runtime.bootstrap.client import BootstrapClient
from kvpoll.runtime.bootstrap.models import BootstrapError, RegisterRequest
from kvpoll.runtime.seal import Channel
from kvpoll.runtime.transports.zmq_wire import unpack
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import KINDS, Hello

from ..protocol.pair import TIMING, Process, request
from ..protocol.wire_values import HELLO
from ..runtime.engines import PATIENCE, Engine, Room, cause, eventually, pair
from ..runtime.test_wire_garbage import sockets_of
from .frame import case
from .rooms import PUSH
from .shadow import Engine as Memory
from .shadow import Shadow, outcomes
from .stages import at, every_stage


# -- I01 -------------------------------------------------------------------------------------------------------------------
def _native(url: str, of: str, bad: str, secret: str | None) -> None:
    entry = {
        "engine_id": "thief", "instance": of, "control": bad, "attn_tp_size": 1, "attn_tp_rank": 0, "page_size": 4,
        "kv_cache_dtype": "uint16", "token": "guessed-guessed-guessed",
    }  # fmt: skip
    with BootstrapClient(url, secret) as client, pytest.raises(BootstrapError) as caught:
        client.register(RegisterRequest.model_validate(entry))
    assert caught.value.kind == ("unauthorised" if secret == "wrong" else "conflict")


def _dialect(url: str, of: str, bad: str, secret: str | None) -> None:
    host, port = bad.removeprefix("tcp://").split(":")
    body = {
        "attn_tp_size": 1, "attn_tp_rank": 0, "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1, "attn_dp_rank": 0,
        "pp_size": 1, "pp_rank": 0, "system_dp_size": 1, "system_dp_rank": 0, "rank_ip": host, "rank_port": int(port),
        "page_size": 4, "kv_cache_dtype": "uint16",
    }  # fmt: skip
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    answer = httpx.put(f"{url}/route", json=body, headers=headers)
    assert answer.status_code in ((401, 403) if secret == "wrong" else (409,)), answer.text


@case("I01")
@pytest.mark.parametrize("attack", [_native, _dialect], ids=["native", "dialect"])
@pytest.mark.parametrize("secret", [None, "right"], ids=["open", "secret"])
@pytest.mark.parametrize("name", ["its own", "the holder's"])
def test_a_live_rank_keeps_its_entry_and_rooms_still_reach_it(
    attack: Callable[[str, str, str, str | None], None], secret: str | None, name: str
) -> None:
    with KVBootstrapServer(secret=secret) as server:
        p = Engine("prefill", "inproc", bootstrap=server.url, secret=secret)
        d = Engine("decode", "inproc", secret=secret)
        try:
            assert p.manager.wait_registered(PATIENCE)
            of = f"{p.manager.instance:x}" if name == "the holder's" else "attacker"
            with zmq.Context() as context, context.socket(zmq.ROUTER) as trap:
                trap.linger = 0
                port = trap.bind_to_random_port("tcp://127.0.0.1")
                for _ in range(2):
                    attack(server.url, of, f"tcp://127.0.0.1:{port}", "wrong" if secret else None)
                Room(p, d, 1, bootstrap=p.manager.bootstrap).run(2)
                assert not trap.poll(0), "nobody was sent there"
        finally:
            assert (d.manager.close(), p.manager.close()) == ({}, {})


# -- I02, I04, I05 -----------------------------------------------------------------------------------------------------------
class Canary:
    """Unpickled, it leaves a trace."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return exec, ("import sys; sys.kvpoll_canary = True",)


PICKLES = [pickle.dumps(each, protocol) for protocol in range(6) for each in (Canary(), [Canary()], {"0": Canary()})]


@pytest.fixture
def canary() -> Iterator[None]:
    pickle.loads(PICKLES[0])  # noqa: S301
    assert vars(sys).pop("kvpoll_canary"), "the canary sings"
    yield
    assert not hasattr(sys, "kvpoll_canary")


@case("I02", "I04", "I05")
@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("frame", PICKLES, ids=range(len(PICKLES)))
def test_a_pickled_object_is_refused_by_every_reader(frame: bytes) -> None:
    for text in (frame, encode(HELLO) + frame, frame + encode(HELLO)):
        with pytest.raises(RemoteProtocolError):
            decode(text)
    assert unpack(frame) is None
    for secret in (b"secret", None):
        payload = Channel(secret, 1, True, random.Random(1).randbytes).open(frame)
        assert payload is None or secret is None
    answer, content = aux_content(np.frombuffer(frame, np.uint8), 1, request())
    assert (answer, content) == (AuxAnswer.WRONG, b"")


@case("I02", "I04", "I05")
@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("secret", [None, "s"], ids=["plain", "sealed"])
def test_pickles_sent_to_every_socket_are_counted_and_rooms_go_on(secret: str | None) -> None:
    with pair("zmq", secret=secret) as (p, d), zmq.Context() as context:
        Room(p, d, 1).run()
        assert all("127.0.0.1" in address or address.startswith("ipc") for address in sockets_of(p) + sockets_of(d)), (
            "nothing listens beyond this machine unless it is told to"
        )
        sockets = []
        for address in sockets_of(p) + sockets_of(d):
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.connect(address)
            sockets.append(socket)
            for frame in PICKLES:
                socket.send(frame)
                socket.send_multipart([b"", frame])
        counters = p.manager._shell.sockets.counters
        assert eventually(p.manager, lambda: counters["garbage"] + counters["stray"] >= len(PICKLES))
        Room(p, d, 2).run(2)
        for socket in sockets:
            socket.close(0)
        assert not p.manager.unhealthy


@case("I02", "I04", "I05", "F12")
@pytest.mark.parametrize("seed", range(4))
def test_a_decoder_makes_a_message_of_the_protocol_or_a_refusal_and_nothing_else(seed: int) -> None:
    """Every message of whole hand-offs, cut at each byte and with bytes exchanged."""
    rng = random.Random(seed)
    for frame in said(seed % 2 == 0):
        broken = [frame[:cut] for cut in range(len(frame))]
        for _ in range(30):
            changed = bytearray(frame)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            broken.append(bytes(changed))
        for text in broken:
            try:
                message = decode(text).message
            except RemoteProtocolError:
                continue
            assert type(message) in KINDS


def said(push: bool) -> list[bytes]:
    """What two processes say in rooms that succeed and fail."""
    world = Shadow(push)
    for room, act in enumerate(("go", "abort", "refuse")):
        s, r = world.both(room)
        r.metadata(aux=0)
        s.send_all(2)
        if act == "abort":
            r.abort("x")
        if act == "refuse":
            world.d.receiver(room + 50).abort()
    world.advance(TIMING.pairing)
    frames = {encode(m) for process in world.processes.values() for m in process.said}
    return sorted(frames, key=lambda f: (len(f), f))[:: max(1, len(frames) // 25)]


# -- F12 -------------------------------------------------------------------------------------------------------------------
LINKS = ("link", "source", "target", "low_water")


class Blind(Shadow):
    """Without memory: keys and parts that are read from broken frames lead nowhere."""

    def join(self, name: str, **config: object) -> Memory:
        process = self.processes[name] = Process(self, name, **{**self._config, **config})  # type: ignore[assignment]
        process.core.tick(self.now)
        return process  # type: ignore[return-value]


@case("F12")
@PUSH
@every_stage
@pytest.mark.parametrize("seed", range(3))
def test_messages_that_were_broken_on_the_way_end_no_loop_and_touch_no_other_room(
    push: bool, stage: str, seed: int
) -> None:
    """Whatever of a broken frame can still be read goes into the core: it never raises, and the other room goes on."""
    rng = random.Random(seed)
    world = Blind(push)
    others = world.both(99)
    world.run()
    at(world, stage)
    mine = list(world.wire)
    words = [(m, process) for process in world.processes.values() for m in process.said] + [
        (f.message, world.processes[f.source]) for f in mine
    ]
    for message, source in words:
        room = getattr(message, "room", None)
        if room == 99 or isinstance(message, Hello) or room is None:
            continue
        target = world.d if source is world.p else world.p
        for _ in range(6):
            frame = bytearray(encode(message))
            frame[rng.randrange(len(frame))] = rng.randrange(256)
            try:
                read = decode(bytes(frame)).message
            except RemoteProtocolError:
                continue
            # Who speaks to whom, and what the sender itself is past, are the link's business and not a room's.
            if getattr(read, "room", None) != 99 and all(getattr(read, f, 0) == getattr(message, f, 0) for f in LINKS):
                world.inject(target, read)
    world.finish()
    others[1].metadata()
    others[0].send_all(2)
    world.run()
    others[1].commit()
    world.run()
    assert outcomes(*others) == ("Success", "Success"), others[0].failure


@case("F12")
@PUSH
def test_a_message_that_comes_before_there_is_anything_to_speak_of_changes_nothing(push: bool) -> None:
    world = Shadow(push)
    fresh = world.join("x")
    empty = fresh.core.gauges()
    for frame in said(push):
        message = decode(frame).message
        if not isinstance(message, Hello):
            fresh.core.receive(message)
            fresh.settle()
    assert fresh.core.gauges() == empty
    assert not fresh.core.links.table


@case("F12")
@PUSH
@every_stage
def test_reports_of_work_that_was_queued_before_the_end_harm_nothing_after_it(push: bool, stage: str) -> None:
    world = Shadow(push).linked()
    at(world, stage)
    operations = world.operations()
    for process in (world.p, world.d):
        process.core.shutdown()
        process.core.close_links()
        process.settle()
    world.finish()
    assert world.p.idle() == world.d.idle() == {}
    for process, op in operations:
        for report in (
            process.core.op_done,
            process.core.op_failed,
            process.core.op_unresolved,
            process.core.op_fenced,
        ):
            report(op)
            process.settle()
    world.run()
    assert world.p.idle() == world.d.idle() == {}


@case("F12")
def test_a_process_that_is_spoken_to_while_it_starts_serves_rooms() -> None:
    """Frames wait at its port before its control thread runs."""
    probe = Engine("prefill", "inproc")
    port = int(probe.manager.address.rsplit(":", 1)[1])
    probe.manager.close()
    with zmq.Context() as context, context.socket(zmq.DEALER) as early:
        early.linger = 0
        early.connect(f"tcp://127.0.0.1:{port}")
        for frame in (b"", b"\xc1", PICKLES[0], encode(HELLO), *said(True)):
            early.send(frame)
        with Engine("decode", "inproc").manager:
            p, d = Engine("prefill", "inproc", port=port), Engine("decode", "inproc")
            Room(p, d, 1).run()
            assert not p.manager.unhealthy
            assert d.manager.close() == {}
            p.manager.close()


# -- I06 -------------------------------------------------------------------------------------------------------------------
BAD_FIELDS: dict[str, Callable[[Engine, Engine], object]] = {
    "room below zero": lambda p, d: KVSender(p.manager, -1, Request.of([1])),
    "room above u64": lambda p, d: KVReceiver(d.manager, "h", 1, 1 << 64, Request.of([1]), address=p.manager.address),
    "prefix beyond the prompt": lambda p, d: KVSender(p.manager, 1, Request(4, 9)),
    "no tokens": lambda p, d: KVSender(p.manager, 2, Request(-1, 0)),
    "a digest too long": lambda p, d: KVSender(p.manager, 3, Request(1, 0, b"x" * 65)),
    "a host that is none": lambda p, d: KVReceiver(d.manager, "h\n@x", 80, 4, Request.of([1])),
    "a port that is none": lambda p, d: KVReceiver(d.manager, "h", 0, 4, Request.of([1])),
    "a dp rank below zero": lambda p, d: KVReceiver(d.manager, "h", 1, 5, Request.of([1])).init(prefill_dp_rank=-1),
}


@case("I06")
def test_no_field_that_a_client_chooses_ends_more_than_its_own_request() -> None:
    with pair("inproc") as (p, d):
        live = Room(p, d, 1)
        live.decode()
        for call in BAD_FIELDS.values():
            with pytest.raises(LocalProtocolError) as caught:
                call(p, d)
            assert caught.value.details["field"]
        for _ in range(2):  # two posts with the room of a request that runs, at both ends
            with pytest.raises(LocalProtocolError, match="live already"):
                Room(p, d, 1).receiver.init()
        sender = live.prefill(2)
        with pytest.raises(LocalProtocolError, match="live already"):
            KVSender(p.manager, 1, Request.of([9, 9]))
        live.arrives()
        live.commit()
        assert live.ends() == (KVPoll.Success, KVPoll.Success)
        assert sender.poll() is KVPoll.Success
        stray = Room(p, d, 2)  # two requests of one room whose prompts differ: one at each end
        stray.receiver.init()
        other = KVSender(p.manager, 2, Request.of([9, 9]))
        Room(p, d, 3).run()
        stray.receiver.abort("mismatch")
        other.abort("mismatch")
        assert p.manager.wait(lambda: other.poll() is KVPoll.Failed, PATIENCE)
        assert cause(other) == "ABORTED"
        Room(p, d, 4).run()
