"""The control sockets: what reaches a room, and what is counted and dropped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import zmq
from msgspec.structs import replace

from kvpoll.protocol.codec import encode
from kvpoll.runtime.control import ControlSockets
from kvpoll.runtime.seal import Channel
from kvpoll.spec.wire import MAX_FRAME, Abort, FailureGroup, Heartbeat, Hello, Message

from ..protocol.pair import Pair

HELLO = Hello(registration=Pair().d.registration, link=5, source=1)
BEAT = Heartbeat(link=5, source=1, target=2)
POLL_MS = 5_000


class Ends:
    """A bound and a dialling end. Nothing here has a thread: a test turns the crank."""

    def __init__(self, secret: bytes | None = None, other: bytes | None = None, limit: int = 8) -> None:
        self.server = ControlSockets(secret, limit, 100)
        self.client = ControlSockets(secret if other is None else other, limit, 100)
        self.address = self.server.bind("127.0.0.1", 0, "127.0.0.1")

    def at_server(self) -> list[Message]:
        return _until(self.server, lambda messages: bool(messages))

    def at_client(self) -> list[Message]:
        return _until(self.client, lambda messages: bool(messages))

    def counted(self, name: str, count: int = 1) -> list[Message]:
        return _until(self.server, lambda _: self.server.counters[name] >= count)

    def close(self) -> None:
        self.client.close()
        self.server.close()


def _until(sockets: ControlSockets, done: Callable[[list[Message]], bool]) -> list[Message]:
    messages: list[Message] = []
    for _ in range(100):
        messages += sockets.wait(POLL_MS)
        if done(messages):
            return messages
    raise AssertionError(f"never came; counted: {sockets.counters}")


@pytest.fixture(params=[None, b"secret"], ids=["plain", "sealed"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    ends = Ends(request.param)
    yield ends
    ends.close()


@pytest.fixture
def raw() -> Iterator[Callable[[str], zmq.Socket[bytes]]]:
    """Sockets of somebody who is none of us."""
    context = zmq.Context()
    sockets: list[zmq.Socket[bytes]] = []

    def connect(address: str) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        sockets.append(socket)
        return socket

    yield connect
    for socket in sockets:
        socket.close()
    context.term()


def opened(ends: Ends, link: int = 5) -> None:
    ends.client.dial(link, ends.address)
    ends.client.send(link, replace(HELLO, link=link))
    assert ends.at_server() == [replace(HELLO, link=link)]


def test_messages_go_both_ways_on_a_link_that_was_dialled(ends: Ends) -> None:
    opened(ends)
    answer = replace(BEAT, source=2, target=1)
    ends.server.send(5, answer)
    assert ends.at_client() == [answer]
    ends.client.send(5, BEAT)
    assert ends.at_server() == [BEAT]


def test_a_port_that_is_taken_is_an_OSError_that_names_the_address(ends: Ends) -> None:
    port = int(ends.address.rsplit(":", 1)[1])
    other = ControlSockets(None, 1, 16)
    with pytest.raises(OSError, match=f"control address tcp://127.0.0.1:{port}: .*in use"):
        other.bind("127.0.0.1", port, "127.0.0.1")
    other.close()


def test_the_advertised_address_is_what_peers_are_told() -> None:
    sockets = ControlSockets(None, 1, 16)
    assert sockets.bind("127.0.0.1", 0, "prefill.example").startswith("tcp://prefill.example:")
    sockets.close()


def test_an_address_that_is_none_is_counted_and_harms_nothing(ends: Ends) -> None:
    for address in ("", "nonsense", "tcp://", "tcp://host:notaport", "pigeon://roof"):
        ends.client.dial(9, address)
    assert ends.client.counters["bad_address"] == 5
    assert not ends.client.dialled(9)
    ends.client.send(9, BEAT)
    assert ends.client.counters["unroutable"] == 1


def test_links_that_can_be_dialled_are_bounded() -> None:
    ends = Ends(limit=2)
    for link in range(5):
        ends.client.dial(link, ends.address)
    assert ends.client.gauges()["dealers"] == 2
    ends.close()


def test_a_link_that_was_hung_up_is_forgotten_on_both_sides(ends: Ends) -> None:
    opened(ends)
    ends.client.hang_up(5)
    ends.server.hang_up(5)
    ends.server.hang_up(5)
    assert ends.client.gauges() == ends.server.gauges() == {"dealers": 0, "channels": 0}


def test_a_message_of_another_link_on_a_connection_that_was_dialled_reaches_nobody(ends: Ends) -> None:
    opened(ends)
    ends.server.send(5, replace(BEAT, link=6))
    ends.server.send(5, BEAT)
    assert ends.at_client() == [BEAT]


def test_another_connection_cannot_speak_on_a_link(ends: Ends, raw: Callable[[str], zmq.Socket[bytes]]) -> None:
    opened(ends)
    intruder = raw(ends.address)
    intruder.send(
        encode(BEAT) if ends.server._secret is None else Channel(b"secret", 5, True, os.urandom).seal(encode(BEAT))
    )
    assert ends.counted("stray") == []
    ends.server.send(5, BEAT)
    assert ends.at_client() == [BEAT], "answers still go to the first connection"


def test_what_is_no_message_is_counted_and_reaches_nobody(ends: Ends, raw: Callable[[str], zmq.Socket[bytes]]) -> None:
    opened(ends)
    stranger = raw(ends.address)
    frames = [[b""], [b"\x00" * 57], [b"\xff" * 300], [b"a", b"b"], [b"a", b"b", b"c"], [b"\x81\xa11\xc0"]]
    for parts in frames:
        stranger.send_multipart(parts)
    assert ends.counted("garbage", len(frames)) == []
    ends.client.send(5, BEAT)
    assert ends.at_server() == [BEAT]
    assert ends.server.gauges()["channels"] == 1


def test_a_frame_above_the_limit_ends_only_its_own_connection(
    ends: Ends, raw: Callable[[str], zmq.Socket[bytes]]
) -> None:
    opened(ends)
    raw(ends.address).send(b"\x00" * (MAX_FRAME + 1000))
    ends.client.send(5, BEAT)
    assert ends.at_server() == [BEAT]


def test_strangers_cannot_fill_the_table_of_links_for_good(raw: Callable[[str], zmq.Socket[bytes]]) -> None:
    ends = Ends(limit=4)
    stranger = raw(ends.address)
    for link in range(100, 140):
        stranger.send(encode(replace(BEAT, link=link)))
    strays: list[Message] = []
    while len(strays) + ends.server.counters["stray"] < 40:
        for message in ends.server.wait(POLL_MS):
            strays.append(message)
            ends.server.hang_up(message.link)  # the core says so for every link it does not know
    assert ends.server.gauges()["channels"] == 0
    opened(ends)
    ends.close()


@pytest.mark.parametrize("secrets", [(b"a", b"b"), (b"a", None), (None, b"b")], ids=str)
def test_nothing_gets_through_with_different_secrets(secrets: tuple[bytes | None, bytes | None]) -> None:
    ends = Ends(secrets[0])
    ends.client.close()
    ends.client = ControlSockets(secrets[1], 8, 100)
    ends.client.dial(5, ends.address)
    ends.client.send(5, HELLO)
    messages = _until(ends.server, lambda _: sum(ends.server.counters.values()) > 0)
    assert messages == []
    assert ends.server.gauges()["channels"] == 0
    ends.close()


def test_a_recorded_first_frame_opens_no_link_again() -> None:
    ends = Ends(b"secret")
    channel = Channel(b"secret", 5, True, os.urandom)
    recorded = channel.seal(encode(HELLO))
    assert ends.server._accept(b"connection 1", recorded) == HELLO
    ends.server.hang_up(5)
    assert ends.server._accept(b"connection 2", recorded) is None
    assert ends.server.counters["forged"] == 1
    ends.close()


def test_a_message_that_cannot_be_encoded_is_dropped_and_the_link_lives_on(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    opened(ends)
    broken = Abort(
        link=5, source=1, target=2, room=1, engine=1, gen=1, failed=FailureGroup(cause=2, details=(("n", 1 << 80),))
    )
    ends.client.send(5, broken)
    assert ends.client.counters["unencodable"] == 1
    assert "could not be encoded" in caplog.text
    ends.client.send(5, BEAT)
    assert ends.at_server() == [BEAT]


def test_a_wake_from_another_thread_ends_a_wait_and_is_remembered(ends: Ends) -> None:
    for _ in range(10_000):
        ends.server.wake()
    assert list(ends.server.wait(None)) == []
    ends.client.dial(5, ends.address)
    ends.client.send(5, HELLO)
    assert ends.at_server() == [HELLO]


def test_waking_closed_sockets_does_nothing() -> None:
    sockets = ControlSockets(None, 1, 16)
    sockets.close()
    sockets.wake()
