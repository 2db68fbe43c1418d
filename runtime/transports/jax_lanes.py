"""Native connections of the receiver: a lane is one connection, the one thread that uses it, and one pull at a time.

Connect and pull stay on the lane's thread (TPU runtimes need that), and it is the lane's thread that waits in
``block_until_ready``, the only proof that a pull is good: ``is_ready()`` is also true for an array that failed.

There is no native cancel. Poisoning the connection is the cancel, and it costs the connection; so a lane carries one
pull, ends with the first failure, and takes another pull only after a clean end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax

from kvpoll.runtime.transports.base import PayloadSpec
from kvpoll.runtime.transports.jax_payload import check_key, check_result, check_spec, make_label, pull_specs
from kvpoll.runtime.transports.jax_servers import NativeConnection, Server

__all__ = ["PULL_ERRORS", "Lane", "LaneEnd", "PullJob"]

#: All that a native call raises: JaxRuntimeError is a RuntimeError; the rest are arguments it didn't like.
PULL_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, OverflowError, MemoryError)


@dataclass(frozen=True, slots=True)
class PullJob:
    op: int
    key: int
    spec: PayloadSpec


#: ``(lane, job, array or None, error or "")``: called on the lane's thread once for each job. A lane that reports an
#: error takes no further job.
LaneEnd: TypeAlias = "Callable[[Lane, PullJob, jax.Array | None, str], None]"


class Lane:
    """One native connection to the peer of ``link``. ``on_end`` follows each job, ``on_exit`` the thread's last act."""

    def __init__(
        self,
        link: str,
        server: Server,
        address: str,
        device: jax.Device,
        on_end: LaneEnd,
        on_exit: Callable[[Lane], None],
    ) -> None:
        self.link = link
        self._address = address
        self._device = device
        self._on_end = on_end
        self._on_exit = on_exit
        self._jobs: queue.SimpleQueue[PullJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._server: Server | None = server
        self._connection: NativeConnection | None = None
        self._poisoned = False
        # Daemon: a thread that a native call never gives back must not keep the process from ending.
        self.thread = threading.Thread(target=self._run, name=f"kvpoll-jax-{link}", daemon=True)
        self.thread.start()

    def give(self, job: PullJob) -> None:
        """The next pull. Only when the lane is new, or after a clean end."""
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread after the pull in progress, if any."""
        self._jobs.put(None)

    def poison(self) -> None:
        """From any thread: the pull in progress raises, the lane ends. The connection never works again."""
        with self._lock:
            self._poisoned = True
            if self._connection is not None:
                self._connection._poison_connection()

    @property
    def poisoned(self) -> bool:
        return self._poisoned

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                try:
                    array = self._pull(job)
                except PULL_ERRORS as error:
                    self.poison()
                    self._on_end(self, job, None, f"{type(error).__name__}: {error}"[:300])
                    break
                self._on_end(self, job, array, "")
                del array  # or this frame would keep the payload until the next job
        finally:
            with self._lock:
                self._connection = None
            # Before the last act, so that the pool's reference is the last one: ending a server is its business.
            self._server = None
            self._on_exit(self)

    def _pull(self, job: PullJob) -> jax.Array:
        check_key(job.key)
        check_spec(job.spec)
        expected = make_label(job.key, job.spec)  # now: after the pull there is somebody who waits
        connection = self._connect()
        payload, label = connection.pull(job.key, pull_specs(job.spec, self._device))
        payload.block_until_ready()
        label.block_until_ready()
        check_result(job.spec, payload, label, expected)
        return payload

    def _connect(self) -> NativeConnection:
        if self._connection is None and self._server is not None:
            connection = self._server.native.connect(self._address)  # never fails, and waits for nothing
            with self._lock:
                self._connection = connection
        with self._lock:
            if self._poisoned or self._connection is None:
                raise RuntimeError("cancelled before the pull began")
            return self._connection
