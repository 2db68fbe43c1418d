"""Sizes of a prefill engine, asked at its bootstrap service: a decode engine must know them before it makes an attempt.

Engines ask again and again from their own loop, so asking never waits: it gives what is known, and sees to it that somebody
finds out. What is known is used at once and asked again in the background when it is older than :data:`FRESH_S`: an engine
that came back with other sizes is noticed, at the latest by the handshake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from kvpoll.protocol.plans import Shape

from .resolve import RankAddress

__all__ = ["FRESH_S", "ParallelInfo"]

FRESH_S = 5.0  #: seconds
_RETRY_S = 0.2
_SERVICES = 256  #: remembered at a time; the oldest answer goes first


class _Key(NamedTuple):
    host: str
    port: int
    namespace: str


class ParallelInfo:
    """Asks on a thread for each service that is being asked. ``told`` is called on it when something was found out."""

    def __init__(
        self, secret: str | None, told: Callable[[], None], clock: Callable[[], float] = monotonic, limit: int = 16
    ) -> None:
        self._secret, self._told, self._clock, self._limit = secret, told, clock, limit
        self._lock = threading.Lock()
        self._known: dict[_Key, tuple[Shape, float]] = {}
        self._asked: dict[_Key, float] = {}  #: when it was asked last without an answer
        self._threads: dict[_Key, threading.Thread] = {}
        self._stop = False
        self.note = ""  #: why the last question had no answer, for people

    def ask(self, host: str, port: int, namespace: str = "") -> Shape | None:
        """What is known; ``None``: not yet. Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` for a host or a port
        that cannot be one."""
        RankAddress(host, port, 0, 0, 0, 0, namespace).text()
        key, now = _Key(host, port, namespace), self._clock()
        with self._lock:
            shape, at = self._known.get(key, (None, -FRESH_S))
            due = now - at >= FRESH_S and now - self._asked.get(key, -_RETRY_S) >= _RETRY_S
            if due and key not in self._threads and len(self._threads) < self._limit and not self._stop:
                thread = threading.Thread(target=self._run, args=(key,), name="kvpoll-parallel-info", daemon=True)
                self._threads[key] = thread
                thread.start()
        return shape

    def close(self, timeout: float = 3.0) -> None:
        """Ask nobody any more, and wait for who is being asked."""
        with self._lock:
            self._stop = True
            threads = list(self._threads.values())
        end = monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, end - monotonic()))

    def _run(self, key: _Key) -> None:
        found, note = self._find(key)
        with self._lock:
            del self._threads[key]
            self.note = note
            if found is None:
                self._asked[key] = self._clock()
            else:
                self._known.pop(key, None)  # the newest answer stands last
                self._known[key] = (found, self._clock())
                self._asked.pop(key, None)
            for table in (self._known, self._asked):
                while len(table) > _SERVICES:
                    del table[next(iter(table))]
        self._told()

    def _find(self, key: _Key) -> tuple[Shape | None, str]:
        from .bootstrap.client import BootstrapClient, BootstrapError  # HTTP loads when somebody is asked, not before

        url = RankAddress(key.host, key.port, 0, 0, 0, 0).url
        try:
            with BootstrapClient(url, self._secret, timeout=2.0) as client:
                views = [view for view in client.engines(key.namespace) if view.ready]
        except (BootstrapError, UnicodeError) as error:
            return None, str(error)
        if not views:
            return None, "no complete prefill engine is registered"
        view = views[0]
        return Shape(view.attn_tp_size, view.pp_size, view.attn_cp_size, view.dp_size), ""
