"""The contract's cases for both directions, over the jax pull transport."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kvpoll.runtime.transports.base import Operation, PayloadSpec
from kvpoll.runtime.transports.jax_pull import JaxPullTransport

from .contract import ANY, Array, Case, Inbox, Rig, _ops


class PullRig(Rig):
    def __init__(self) -> None:
        self._held: list[Callable[[], None]] | None = None
        self.connect(JaxPullTransport(), JaxPullTransport())

    @property
    def inbox(self) -> Inbox:
        return self.receiver_inbox

    def begin(self, key: int, part: int, payload: Array, link: str | None = None) -> int:
        operation = Operation(next(_ops), link or self.link, key, part, PayloadSpec(payload.shape, payload.dtype.name))
        self.receiver.submit(operation)
        return operation.op

    def allow(self, key: int, payload: Array) -> None:
        if self._held is None:
            self.sender.offer(self.link, key, payload)
        else:
            self._held.append(lambda: self.sender.offer(self.link, key, payload))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """A pull whose key nobody registered waits."""
        self._held = []
        yield
        held, self._held = self._held, None
        for offer in held:
            offer()


@pytest.mark.parametrize("case", ANY, ids=lambda case: case.__name__)
def test_the_pull_transport(case: Case) -> None:
    rig = PullRig()
    try:
        case(rig)
    finally:
        rig.finish()
    rig.assert_idle()
    assert [each.name for each in threading.enumerate() if each.name.startswith("kvpoll-jax-link-")] == []
