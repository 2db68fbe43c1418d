"""Ends of the zmq transport that say whatever a test wants, frame by frame."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import zmq

from kvpoll.runtime.transports.base import Outcome
from kvpoll.runtime.transports.landing import Refusal
from kvpoll.runtime.transports.zmq_push import ZmqPushTransport
from kvpoll.runtime.transports.zmq_wire import Head, Kind, pack, unpack

from .contract import LIMIT_S, fresh_key, rows
from .rigs import ZmqRig

LIMIT_MS = int(LIMIT_S * 1000)


class RawPeer:
    """A sender that says whatever a test wants, frame by frame."""

    def __init__(self, receiver: ZmqPushTransport, link: str) -> None:
        self.link, self.token = link, int(receiver.descriptor(link)["token"])
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvtimeo = LIMIT_MS
        self.socket.connect(str(receiver.descriptor(link)["tcp"]))

    def head(
        self, key: int, *, kind: Kind = Kind.DATA, part: int = 0, op: int = 1, offset: int = 0, total: int = 0
    ) -> Head:
        return Head(kind, self.token, key, part, op, offset, total, link=self.link)

    def ask(self, head: Head, *rest: bytes) -> Head:
        self.socket.send_multipart([pack(head), *rest])
        answer = unpack(self.socket.recv())
        assert answer is not None
        assert (answer.key, answer.part, answer.op) == (head.key, head.part, head.op)
        return answer

    def refusal(self, head: Head, *rest: bytes) -> Refusal:
        answer = self.ask(head, *rest)
        assert answer.kind is Kind.REFUSED
        return Refusal(answer.reason)

    def close(self) -> None:
        self.context.destroy(linger=0)


class RawReceiver:
    """A ROUTER that answers what a test wants."""

    def __init__(self, like: ZmqPushTransport, link: str) -> None:
        self.bind("tcp://127.0.0.1:*")
        self.descriptor = {**like.descriptor(link), "tcp": self.endpoint, "ipc": "", "token": 5}

    def bind(self, endpoint: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.linger, self.router.rcvtimeo = 0, LIMIT_MS
        self.router.bind(endpoint)
        self.endpoint = self.router.last_endpoint.decode()

    def next(self, kind: Kind) -> tuple[bytes, Head]:
        while True:
            source, frame, *_ = self.router.recv_multipart()
            head = unpack(frame)
            assert head is not None
            if head.kind is kind:
                return source, head

    def answer(self, source: bytes, head: Head, kind: Kind, **changes: int) -> None:
        self.router.send_multipart([source, pack(head._replace(kind=kind, link="")._replace(**changes))])

    def close(self) -> None:
        self.context.destroy(linger=0)


def works(rig: ZmqRig) -> bool:
    key, payload = fresh_key(), rows(300_001)
    rig.allow(key, payload)
    done = rig.inbox.end_of(rig.begin(key, 0, payload)) is Outcome.DONE
    same = np.array_equal(rig.arrived(key, 0), payload)
    rig.receiver.release(key)
    return done and same


def eventually(transport: ZmqPushTransport, condition: Callable[[], bool]) -> None:
    """Let the I/O thread take turns until the condition holds."""
    assert transport._io is not None
    for _ in range(200_000):
        if condition():
            return
        turn = threading.Event()
        transport._io.post(turn.set)
        assert turn.wait(LIMIT_S)
    pytest.fail("the condition never held")
