"""Finding a prefill rank: from a bootstrap address to a control address, on threads of its own.

HTTP never runs on the engine's or the control thread (Q44, G11). Each bootstrap service that is being asked has a thread
while it is: one that accepts connections and never answers holds up nobody else's rooms. A link asks once, however many
rooms wait for it. Until it is open its address is asked for again and again: the rank may not be registered yet, or the
process that was found may be gone and another one may take its place (G08).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from queue import Empty, Queue
from time import monotonic
from typing import NamedTuple, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlsplit

from kvpoll.protocol.errors import LocalProtocolError

from .bootstrap.models import BootstrapError, RankFilter
from .hosts import host_port

__all__ = ["RankAddress", "Resolver"]


#: Names, IPv4 and IPv6 addresses (with a zone): what can stand in a URL as it is.
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]{1,16})?")


class RankAddress(NamedTuple):
    """A prefill rank at a bootstrap service; as text it is the address of a link."""

    host: str
    port: int
    dp_rank: int
    tp_rank: int
    pp_rank: int
    cp_rank: int
    namespace: str = ""

    def text(self) -> str:
        """Raises :class:`LocalProtocolError` naming the field for a host or a port that cannot be one."""
        if not _HOST.fullmatch(self.host):
            raise LocalProtocolError(
                f"bootstrap_host: expected a host name or address, got {self.host[:80]!r}", field="bootstrap_host"
            )
        if not 0 < self.port < 1 << 16:
            raise LocalProtocolError(f"bootstrap_port: expected 1 to 65535, got {self.port}", field="bootstrap_port")
        ranks = f"dp={self.dp_rank}&tp={self.tp_rank}&pp={self.pp_rank}&cp={self.cp_rank}"
        return f"bootstrap://{self._netloc}/{quote(self.namespace, safe='')}?{ranks}"

    @property
    def url(self) -> str:
        """Of the bootstrap service."""
        return f"http://{self._netloc}"

    @property
    def _netloc(self) -> str:
        return host_port(self.host, self.port)

    @classmethod
    def parse(cls, text: str) -> RankAddress:
        split = urlsplit(text)
        query = {name: int(values[0]) for name, values in parse_qs(split.query).items()}
        return cls(
            split.hostname or "",
            split.port or 0,
            query["dp"],
            query["tp"],
            query["pp"],
            query["cp"],
            unquote(split.path[1:]),
        )


#: A bootstrap service: host and port.
Service: TypeAlias = tuple[str, int]
Job: TypeAlias = tuple[int, RankAddress]


class Resolver:
    """Asks bootstrap services. ``found(link, address)`` and ``failed(link, reason)`` are called on its threads. ``limit``
    bounds the services that are asked at a time, and the links that wait for one of them."""

    def __init__(
        self, secret: str | None, found: Callable[[int, str], None], failed: Callable[[int, str], None], limit: int = 1024,
        retry: float = 0.2,
    ) -> None:  # fmt: skip
        self._secret = secret
        self._found, self._failed = found, failed
        self._limit = limit
        self._stop = threading.Event()
        self._live: dict[int, str] = {}  #: links that are not open yet: the control address found last
        self._retry = retry
        self._lock = threading.Lock()  #: of the two tables below
        self._queues: dict[Service, Queue[Job | None]] = {}
        self._threads: dict[Service, threading.Thread] = {}

    def ask(self, link: int, address: RankAddress) -> None:
        """Find an address for ``link``, and every other one that it gets until :meth:`forget`."""
        service = (address.host, address.port)
        with self._lock:
            self._live[link] = ""
            if service not in self._queues and len(self._queues) < self._limit and not self._stop.is_set():
                self._queues[service] = Queue(self._limit)
                thread = threading.Thread(target=self._run, args=(service,), name="kvpoll-resolve", daemon=True)
                self._threads[service] = thread
                thread.start()
            queue = self._queues.get(service)
            if queue is not None and not queue.full():
                queue.put_nowait((link, address))
                return
            del self._live[link]
        self._failed(link, "too many look-ups are waiting")

    def forget(self, link: int) -> None:
        """The link is open, or over."""
        self._live.pop(link, None)

    def close(self, timeout: float = 6.0) -> None:
        self._stop.set()
        with self._lock:
            threads = list(self._threads.values())
            for queue in self._queues.values():
                if not queue.full():
                    queue.put_nowait(None)  # so that nobody waits for a job
        end = monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, end - monotonic()))

    def _run(self, service: Service) -> None:
        queue, again = self._queues[service], list[Job]()
        while True:
            try:
                job = queue.get(timeout=self._retry)
                jobs = [] if job is None else [job]
            except Empty:
                jobs, again = again, []
            for link, address in jobs:
                if link in self._live and not self._stop.is_set():
                    self._resolve(link, address)
                    again.append((link, address))
            with self._lock:
                if self._stop.is_set() or (not again and queue.empty()):
                    del self._queues[service], self._threads[service]
                    return

    def _resolve(self, link: int, address: RankAddress) -> None:
        from .bootstrap.client import BootstrapClient

        url = address.url
        where = RankFilter(
            bootstrap=address.namespace, dp=address.dp_rank, tp=address.tp_rank, pp=address.pp_rank, cp=address.cp_rank
        )
        try:
            with BootstrapClient(url, self._secret, timeout=2.0) as client:
                ranks = client.ranks(where)
        except (BootstrapError, UnicodeError) as error:  # UnicodeError: a name that no resolver can be asked for
            self._failed(link, f"{url}: {error}")
            return
        if not ranks:
            self._failed(
                link, f"{url}: no live prefill rank dp={address.dp_rank} tp={address.tp_rank} pp={address.pp_rank}"
            )
            return
        control = ranks[0].control
        if self._live.get(link, control) != control:
            self._live[link] = control
            self._found(link, control)
