"""The control sockets of a process: one ROUTER that prefill processes bind, one DEALER for each link that we dial.

Only the control thread touches a socket. Every queue here is bounded: a full one drops the message, which the protocol
says again later. What cannot be decoded or is not genuine is counted and dropped; it reaches no room.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import zmq

from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.spec.wire import MAX_FRAME, Hello, Message

from .hosts import host_port
from .seal import Channel, SaltMemory

__all__ = ["ControlSockets"]

log = logging.getLogger("kvpoll")


class ControlSockets:
    """Frames in, frames out. Used by one thread, but for :meth:`wake`."""

    def __init__(self, secret: bytes | None, links: int, outbox: int) -> None:
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._secret = secret
        self._limit = links
        self._hwm = outbox
        self._router: zmq.Socket[bytes] | None = None
        self._dealers: dict[int, zmq.Socket[bytes]] = {}
        self._channels: dict[int, Channel] = {}
        self._identities: dict[int, bytes] = {}  #: acceptor: which connection a link came in on
        self._salts = SaltMemory()
        self._awake, self._alarm = socket.socketpair()
        for end in (self._awake, self._alarm):
            end.setblocking(False)
        self._poller.register(self._awake, zmq.POLLIN)
        self.counters: Counter[str] = Counter()
        self.address = ""

    # -- sockets -----------------------------------------------------------------------------------------------------------
    def bind(self, host: str, port: int, advertise: str) -> str:
        """Bind the ROUTER; returns the address that peers dial. Raises ``OSError`` naming the address when it is taken."""
        router = self._context.socket(zmq.ROUTER)
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.SNDHWM, self._hwm)
        router.setsockopt(zmq.RCVHWM, self._hwm)
        router.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME + 64)
        router.setsockopt(zmq.IPV6, int(":" in host))
        shown = host_port(host, port or "*")
        try:
            router.bind(f"tcp://{shown}")
        except zmq.ZMQError as error:
            router.close()
            raise OSError(f"control address tcp://{shown}: {error}") from error
        bound = router.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self._router = router
        self._poller.register(router, zmq.POLLIN)
        self.address = f"tcp://{host_port(advertise, bound.decode().rstrip(chr(0)).rsplit(':', 1)[1])}"
        return self.address

    def dial(self, link: int, address: str) -> None:
        """Connect a DEALER for a link of ours."""
        if link in self._dealers or len(self._dealers) >= self._limit:
            return
        dealer = self._context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.SNDHWM, self._hwm)
        dealer.setsockopt(zmq.RCVHWM, self._hwm)
        dealer.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME + 64)
        dealer.setsockopt(zmq.RECONNECT_IVL, 50)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        dealer.setsockopt(zmq.IPV6, int("[" in address))
        try:
            dealer.connect(address)
        except zmq.ZMQError:
            self.counters["bad_address"] += 1
            dealer.close()
            return
        self._dealers[link] = dealer
        self._channels[link] = Channel(self._secret, link, True, os.urandom)
        self._poller.register(dealer, zmq.POLLIN)

    def dialled(self, link: int) -> bool:
        return link in self._dealers

    def hang_up(self, link: int) -> None:
        """Forget a link; frames already queued still go out for a moment."""
        dealer = self._dealers.pop(link, None)
        if dealer is not None:
            self._poller.unregister(dealer)
            dealer.close(linger=200)
        self._channels.pop(link, None)
        self._identities.pop(link, None)

    # -- frames ------------------------------------------------------------------------------------------------------------
    def send(self, link: int, message: Message) -> None:
        """Put a message on its link, or drop it."""
        try:
            payload = encode(message)
        except LocalProtocolError:  # a mistake of ours, and of one room: it must not end the others
            self.counters["unencodable"] += 1
            log.exception("a control message could not be encoded and is dropped")
            return
        channel = self._channels.get(link)
        dealer = self._dealers.get(link)
        try:
            if dealer is not None and channel is not None:
                dealer.send(channel.seal(payload), zmq.NOBLOCK)
            elif self._router is not None and link in self._identities and channel is not None:
                self._router.send_multipart([self._identities[link], channel.seal(payload)], zmq.NOBLOCK)
            else:
                self.counters["unroutable"] += 1
        except zmq.Again:
            self.counters["dropped"] += 1

    def wake(self) -> None:
        """End a :meth:`wait` early. From any thread."""
        with suppress(BlockingIOError, OSError):  # it is awake already, or closed
            self._alarm.send(b"\0")

    def wait(self, timeout_ms: int | None) -> Iterator[Message]:
        """Wait for frames; yields what is genuine and can be decoded. At most a thousand frames of one socket at a time,
        so that no peer keeps the others waiting."""
        for source, _ in self._poller.poll(timeout_ms):
            if source == self._awake.fileno():
                self._drain_alarm()
            elif source is self._router:
                yield from self._from_router(self._router)
            else:
                for link, dealer in list(self._dealers.items()):
                    if dealer is source:
                        yield from self._from_dealer(link, dealer)

    def _drain_alarm(self) -> None:
        with suppress(BlockingIOError, OSError):
            while self._awake.recv(4096):
                pass

    def _from_dealer(self, link: int, dealer: zmq.Socket[bytes]) -> Iterator[Message]:
        for frames in _frames(dealer):
            channel = self._channels.get(link)
            if channel is None:
                return
            payload = channel.open(frames[-1]) if len(frames) == 1 else None
            message = self._decoded(payload)
            if message is not None and message.link == link:
                yield message

    def _from_router(self, router: zmq.Socket[bytes]) -> Iterator[Message]:
        for frames in _frames(router):
            if len(frames) != 2:
                self.counters["garbage"] += 1
                continue
            identity, frame = frames
            if (message := self._accept(identity, frame)) is not None:
                yield message

    def _accept(self, identity: bytes, frame: bytes) -> Message | None:
        # The link's id stands in the message, under the seal: read it first, believe it when the seal holds.
        payload = frame if self._secret is None else frame[57:]
        message = self._decoded(payload)
        if message is None:
            return None
        link = message.link
        channel = self._channels.get(link)
        if channel is None:
            if self._secret is None and not isinstance(message, Hello) and len(self._channels) < 2 * self._limit:
                self._identities[link] = identity  # a stray of a link that is over: it must hear so
                self._channels[link] = Channel(None, link, False, os.urandom)
                return message
            if not isinstance(message, Hello) or len(self._channels) >= 2 * self._limit:
                self.counters["stray"] += 1
                return None
            channel = Channel(self._secret, link, False, os.urandom)
        elif self._identities.get(link, identity) != identity:
            self.counters["stray"] += 1
            return None
        if channel.open(frame, self._salts) is None:
            self.counters["forged"] += 1
            return None
        self._channels[link] = channel
        self._identities[link] = identity
        return message

    def _decoded(self, payload: bytes | None) -> Message | None:
        if payload is None:
            self.counters["forged"] += 1
            return None
        try:
            decoded = decode(payload)
        except RemoteProtocolError:
            self.counters["garbage"] += 1
            return None
        self.counters["unknown_tags"] += len(decoded.unknown)
        return decoded.message

    def gauges(self) -> dict[str, int]:
        return {"dealers": len(self._dealers), "channels": len(self._channels)}

    def close(self) -> None:
        for link in list(self._dealers):
            self.hang_up(link)
        if self._router is not None:
            self._router.close(linger=200)
        self._awake.close()
        self._alarm.close()
        self._context.term()


def _frames(source: zmq.Socket[bytes]) -> Iterator[list[bytes]]:
    for _ in range(1000):
        try:
            yield source.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
