"""Strangers and broken peers: whatever they send to any socket, rooms succeed and nothing is left behind."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import msgspec
import pytest
import zmq

from kvpoll.protocol.codec import encode
from kvpoll.runtime import Durations
from kvpoll.runtime.transports.zmq_wire import Head, Kind, pack
from kvpoll.spec.wire import (
    KINDS,
    Abort,
    Announce,
    Close,
    FailureGroup,
    Fingerprint,
    Heartbeat,
    Hello,
    LinkOver,
    Metadata,
    MetaGroup,
    Query,
    Reason,
    Refusal,
)  # fmt: skip

from ..protocol.pair import Pair
from .engines import LOSING, PATIENCE, Engine, Room, eventually, pair

HELLO = Hello(registration=Pair().d.registration, link=5, source=1)


class Noise(threading.Thread):
    """Sends garbage to sockets until it is stopped; ``sent`` counts what went out."""

    def __init__(self, addresses: list[str], frames: list[list[bytes]], seed: int) -> None:
        super().__init__(daemon=True)
        self._addresses, self._frames = addresses, frames
        self._rng = random.Random(seed)
        self._stop_it = threading.Event()
        self.sent = 0
        self.enough = threading.Event()

    def run(self) -> None:
        context = zmq.Context()
        sockets = []
        for address in self._addresses:
            for kind in (zmq.DEALER, zmq.REQ, zmq.PUSH):
                socket = context.socket(kind)
                socket.setsockopt(zmq.LINGER, 0)
                socket.setsockopt(zmq.SNDHWM, 50)
                socket.connect(address)
                sockets.append(socket)
        while not self._stop_it.is_set():
            socket = self._rng.choice(sockets)
            try:
                socket.send_multipart(self._rng.choice(self._frames), zmq.NOBLOCK)
            except zmq.ZMQError:
                socket = self._rng.choice(sockets)
                self._stop_it.wait(0.001)
            self.sent += 1
            if self.sent > 300:
                self.enough.set()
        context.destroy(linger=0)

    def stop(self) -> None:
        self._stop_it.set()
        self.join(PATIENCE)


def frames(seed: int, link: int, instance: int) -> list[list[bytes]]:
    """Random bytes, random multipart frames, broken and well-formed messages about nothing."""
    rng = random.Random(seed)
    out = [[rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 5))] for _ in range(40)]
    out += [[b""], [b"\x00" * 5000], [b"\xdf\xff\xff\xff\xff"], [b"\xc1"]]
    envelope = {"link": link, "source": rng.getrandbits(60), "target": instance}
    room = {**envelope, "room": 1, "engine": 2, "gen": 3, "low_water": 2**64 - 1}
    messages = [
        HELLO,
        Heartbeat(**envelope, engine=1, low_water=5),
        LinkOver(**envelope),
        Refusal(**envelope, reason=Reason.WRONG_INSTANCE),
        Query(**room),
        Abort(**room, failed=FailureGroup(cause=2)),
        Announce(**room, fingerprint=Fingerprint(tokens=1), transport="zmq"),
        Metadata(**room, fingerprint=Fingerprint(tokens=1), transport="", meta=MetaGroup(key=1, pages=9, max_nbytes=1)),
    ]
    for message in messages:
        good = encode(message)
        out.append([good])
        for _ in range(4):
            broken = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            out.append([bytes(broken)])
            out.append([good[: rng.randrange(len(good))]])
    for kind in range(20):
        out.append([msgspec.msgpack.encode({"0": kind, "1": link, "2": 1, "999": [1] * 50})])
    for kind in Kind:
        head = Head(kind, rng.getrandbits(63), rng.getrandbits(63), rng.randrange(9), 1, 0, 100, 0, f"{link:x}")
        out.append([pack(head), rng.randbytes(100)])
        out.append([pack(head)])
    assert len(KINDS) == 16
    return out


def sockets_of(engine: Engine) -> list[str]:
    """Every address that somebody else can send to."""
    out = [engine.manager.address] if engine.manager.address else []
    for transport in engine.manager.data.transports.values():
        descriptor = transport.descriptor("1")
        out += [str(descriptor["tcp"])] if "tcp" in descriptor else []
    return out


@pytest.fixture(params=[None, "secret"], ids=["plain", "sealed"])
def engines(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, Engine]]:
    with pair("zmq", secret=request.param) as both:
        yield both


def test_rooms_succeed_while_strangers_send_garbage_to_every_socket(engines: tuple[Engine, Engine]) -> None:
    p, d = engines
    Room(p, d, 1).run()
    (link,) = p.manager._shell.core.links.table
    addresses = sockets_of(p) + sockets_of(d)
    assert len(addresses) == 3
    noise = Noise(addresses, frames(1, link, p.manager.instance), 2)
    noise.start()
    try:
        assert noise.enough.wait(PATIENCE)
        for number in range(2, 12):
            Room(p, d, number).run(2)
    finally:
        noise.stop()
    assert noise.sent > 300
    assert not p.manager.unhealthy
    assert not d.manager.unhealthy
    assert link in p.manager._shell.core.links.table, "the link of the real pair was never disturbed"
    counters = p.manager._shell.sockets.counters
    assert counters["garbage"] > 0
    for engine in engines:
        engine.becomes_idle()


def test_strangers_leave_no_channel_behind(engines: tuple[Engine, Engine]) -> None:
    p, d = engines
    Room(p, d, 1).run()
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(p.manager.address)
    for link in range(5_000):
        socket.send(encode(Heartbeat(link=link, source=1)))
    counters, core = p.manager._shell.sockets.counters, p.manager._shell.core
    assert eventually(p.manager, lambda: counters["stray"] + counters["garbage"] + core.stray >= 5_000)
    assert eventually(p.manager, lambda: p.manager._shell.sockets.gauges()["channels"] == 1)
    context.destroy(linger=0)
    late = Engine("decode", "zmq", secret=p.manager.config.secret)
    Room(p, late, 2).run()
    late.becomes_idle()
    assert late.manager.close() == {}


def test_a_stranger_that_says_hello_and_nothing_else_is_forgotten() -> None:
    durations = Durations.model_validate(LOSING.model_dump() | {"hello": 0.5})
    with pair("zmq", durations=durations) as (p, d):
        Room(p, d, 1).run()
        context = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.connect(p.manager.address)
        for link in range(100, 120):
            socket.send(encode(msgspec.structs.replace(HELLO, link=link)))
        core = p.manager._shell.core
        assert eventually(p.manager, lambda: len(core.links.table) == 21)
        Room(p, d, 2).run()
        assert eventually(p.manager, lambda: len(core.links.table) == 1)
        assert eventually(p.manager, lambda: p.manager._shell.sockets.gauges()["channels"] == 1)
        context.destroy(linger=0)
        for engine in (p, d):
            engine.becomes_idle()


def test_a_peer_that_breaks_the_protocol_of_one_room_ends_that_room_only() -> None:
    with pair("zmq") as (p, d):
        bystander, victim = Room(p, d, 1), Room(p, d, 2)
        bystander.decode()
        victim.decode()
        victim.sender = None
        sender = victim.prefill(2)
        victim.arrives()
        core = p.manager._shell.core
        session = next(s for s in core.legs.sessions.values() if s.rec.room == 2)

        def lie(_: object) -> None:
            core.env.out.append(session.to_send(0, Close(total=99, **session.to(0))))

        p.manager.call(lie)
        over = d.manager.wait(lambda: victim.receiver.failure_exception() is not None, PATIENCE)
        assert over
        error = victim.receiver.failure_exception()
        assert error is not None
        assert (error.cause.name, error.details["field"]) == ("PLAN_REFUSED", "total")
        assert p.manager.wait(lambda: sender.failure_exception() is not None, PATIENCE)
        bystander.prefill()
        bystander.arrives()
        bystander.commit()
        bystander.ends()
        bystander.check()
        for engine in (p, d):
            engine.becomes_idle()
