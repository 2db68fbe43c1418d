"""The pull transport over ``jax.experimental.transfer``: the sender offers device arrays, the receiver fetches them.

The native library has no cancel, no query and no close, and validates nothing. What each call here relies on:

* DONE means that ``block_until_ready`` returned without raising on the lane's thread and that the label matched
  (``jax_lanes``, ``jax_payload``). A cancelled pull ends FAILED when its poisoned connection made it raise; when it
  doesn't within ``cancel_grace_s``, it is UNRESOLVED.
* A destination is memory of the native layer's own, never a page of ours. Discarding the result is therefore a fence,
  whatever the native layer still does with it; poisoning and cutting give the memory and the thread back.
* A sender is fenced once the native layer has let go of the host memory that it reads in place: the weak reference of
  ``put_on_device`` is the proof, and without it :class:`PeerFenced` stays away.
* Nobody tells the sender that its offer was fetched: the protocol does, with :meth:`JaxPullTransport.forget`.

The native control port is unauthenticated, and four zero bytes end the process: bind it to a private interface.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax

from kvpoll.runtime.transports.base import (
    Capabilities,
    Descriptor,
    Direction,
    Exposure,
    Operation,
    Payload,
    PeerFenced,
    Report,
    Source,
)
from kvpoll.runtime.transports.jax_descriptor import bulk_ends, describe, differences
from kvpoll.runtime.transports.jax_offers import Offers
from kvpoll.runtime.transports.jax_pulls import Pulls
from kvpoll.runtime.transports.jax_servers import ServerPool, parse_address
from kvpoll.runtime.transports.jax_sockets import Endpoint
from kvpoll.runtime.transports.memory import keep_freed_memory

__all__ = ["JaxPullTransport"]

MIB = 1 << 20
#: Less than half: the first pull starts sooner, and has not ended when the rest is gathered. (Between a quarter and a half two
#: cores can hardly tell the difference; one part alone is worse.)
_LEAD = 0.4


@dataclass(slots=True)
class _Link:
    remote: frozenset[Endpoint] = frozenset()  #: the peer's bulk ends
    open: bool = False
    fenced: bool = False


class JaxPullTransport:
    """See ``base.Transport`` for the contract. Sizes in bytes, times in seconds.

    ``device``: where payloads are offered from and arrive; the first one by default. ``host``: a numeric address of a
    private interface. ``ports``: the ports that a server may take, the first free ones; empty for any.
    ``transports`` and ``transfer_size`` must be the peer's. ``max_servers``: see ``jax_servers``; past it links share,
    and a fence may then fail the shared server's other pulls. ``pull_watchdog_s`` cancels a pull in progress of that
    age; the protocol has deadlines of its own, so ``None`` (never) is the default. ``clock`` serves these two only.
    """

    def __init__(
        self,
        *,
        device: jax.Device | None = None,
        host: str = "127.0.0.1",
        ports: Sequence[int] = (),
        transports: int = 1,
        transfer_size: int = 4 * MIB,
        copies: int = 8,
        max_servers: int = 16,
        max_links: int = 256,
        max_offers: int = 4096,
        max_in_flight: int = 64,
        max_results: int = 4096,
        lanes_per_link: int = 4,
        max_lanes: int = 32,
        cancel_grace_s: float = 1.0,
        pull_watchdog_s: float | None = None,
        close_timeout_s: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parse_address(f"[{host}]:1")
        if not 4 * MIB <= transfer_size <= 16 * MIB:
            raise ValueError(f"transfer_size: expected 4 to 16 MiB, got {transfer_size}")
        for name, count in (("transports", transports), ("copies", copies), ("max_servers", max_servers)):
            if not 1 <= count <= 64:
                raise ValueError(f"{name}: expected 1 to 64, got {count}")
        if not 1 <= lanes_per_link <= max_lanes:
            raise ValueError(f"lanes_per_link: expected 1 to max_lanes ({max_lanes}), got {lanes_per_link}")
        self._transfer_size = transfer_size
        self._max_links = max_links
        self._close_timeout_s = close_timeout_s
        self._capabilities = Capabilities("jax", Direction.PULL, True, True, max_in_flight, waits=True, lead=_LEAD)
        self._instance = secrets.token_hex(16)
        self._notify: Callable[[], None] | None = None
        self._reports: deque[Report] = deque()
        self._lock = threading.RLock()
        self._links: dict[str, _Link] = {}
        self._fencing: set[str] = set()  #: links that still owe their PeerFenced
        self._closed = False
        target = jax.devices()[0] if device is None else device
        self._pool = ServerPool(
            target,
            host=host,
            ports=ports,
            transports=transports,
            copies=copies,
            transfer_size=transfer_size,
            max_servers=max_servers,
        )
        self._offers = Offers(target, max_offers)
        self._pulls = Pulls(
            target,
            clock=clock,
            reports=self._reports,
            notify=self._news,
            max_in_flight=max_in_flight,
            max_results=max_results,
            lanes_per_link=lanes_per_link,
            max_lanes=max_lanes,
            cancel_grace_s=cancel_grace_s,
            watchdog_s=pull_watchdog_s,
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def start(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        keep_freed_memory()

    def staging(self) -> Source | None:
        return None

    def descriptor(self, link: str) -> Descriptor:
        """Raises ``ValueError`` for a fenced link or past ``max_links``, ``RuntimeError`` when no server can start."""
        with self._lock:
            self._link(link)
            return describe(self._pool.of(link), transfer_size=self._transfer_size, instance=self._instance)

    def mismatches(self, ours: Descriptor, theirs: Descriptor) -> Sequence[str]:
        return differences(ours, theirs)

    def open_peer(self, link: str, theirs: Descriptor) -> None:
        """Raises ``ValueError`` for a pair with mismatches (ask first: some end the process) or a link that is open."""
        ours = self.descriptor(link)
        if wrong := differences(ours, theirs):
            raise ValueError(f"descriptor: can't work with this peer's {', '.join(wrong)}")
        with self._lock:
            state = self._link(link)
            if state.open:
                raise ValueError(f"link: {link!r} is open already")
            state.remote, state.open = bulk_ends(theirs), True
            self._pulls.open_peer(link, self._pool.of(link), str(theirs["address"]))

    def close_peer(self, link: str) -> None:
        """As the contract says. What is left of the peer nevertheless is fenced and reported."""
        with self._lock:
            self._cut_off(link)
            self._links.pop(link, None)

    def expose(self, exposure: Exposure) -> None:
        raise NotImplementedError("the jax transport pulls: offer() instead")

    def retract(self, key: int) -> None:
        raise NotImplementedError("the jax transport pulls: withdraw() instead")

    def offer(self, link: str, key: int, payload: Payload) -> None:
        """Host memory is read in place when it starts at a multiple of 64 bytes (``jax_payload.aligned_empty``) and
        copied otherwise; either way it must keep its content until the offer has ended at both ends."""
        with self._lock:
            state = self._links.get(link)
            if state is None or state.fenced:
                raise ValueError(f"link: {link!r} is not open, or fenced")
            self._offers.offer(link, self._pool.of(link), key, payload)

    def withdraw(self, key: int) -> None:
        with self._lock:
            self._offers.withdraw(key)

    def forget(self, key: int) -> None:
        with self._lock:
            self._offers.forget(key)

    def submit(self, operation: Operation) -> None:
        """Raises ``ValueError`` for an operation id in use, and past the limits; all else is a report."""
        self._pulls.submit(operation)

    def cancel(self, op: int) -> None:
        self._pulls.cancel(op)

    def fence_operation(self, op: int) -> None:
        self._pulls.fence(op)

    def fence_peer(self, link: str) -> None:
        with self._lock:
            state = self._links.get(link)
            if state is not None and state.fenced:
                return
            self._cut_off(link)
            self._fencing.add(link)
            self._finish_fences()
        self._news()

    def poll(self) -> list[Report]:
        reports = []
        while self._reports:  # workers append meanwhile; nobody else takes
            reports.append(self._reports.popleft())
        return reports

    def collect(self, key: int, part: int) -> jax.Array | None:
        return self._pulls.collect(key, part)

    def release(self, key: int) -> None:
        self._pulls.release(key)

    def tick(self) -> None:
        self._pulls.tick()
        with self._lock:
            self._offers.sweep()
            self._pool.tick(time.monotonic())
            news = self._finish_fences()
        if news:
            self._news()

    def probe(self, link: str) -> bool:
        """Open, not fenced, and the ports of its server are still ours alone."""
        with self._lock:
            state = self._links.get(link)
            return state is not None and state.open and not state.fenced and self._pool.is_ours(link)

    def gauges(self) -> dict[str, int]:
        """Everything that rooms cause, and what outlives a peer. What live peers hold is in :meth:`pools`."""
        with self._lock:
            fencing, reports, retiring = len(self._fencing), len(self._reports), self._pool.retiring
            offers = self._offers.gauges()
        return {**offers, **self._pulls.gauges(), "fencing": fencing, "reports": reports, "servers_retiring": retiring}

    def pools(self) -> dict[str, int]:
        """What peers hold between rooms; zero once every peer is closed."""
        with self._lock:
            links, servers = len(self._links), self._pool.live
        return {"links": links, "servers": servers, "lanes_idle": self._pulls.idle_lanes()}

    def close(self) -> None:
        """Fences every peer without waiting for any, and gives servers and threads ``close_timeout_s`` to end. What
        can't be ended safely by then is leaked."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for link in list(self._links):
                self._cut_off(link)
            self._links.clear()
            self._fencing.clear()
        deadline = time.monotonic() + self._close_timeout_s
        pause = threading.Event()
        while self._pool.retiring and time.monotonic() < deadline:
            with self._lock:
                self._pool.tick(time.monotonic())
            pause.wait(0.01)
        with self._lock:
            self._pool.leak_the_rest()

    def _link(self, link: str) -> _Link:
        if self._closed:
            raise ValueError("transport: closed")
        state = self._links.get(link)
        if state is None:
            if len(self._links) >= self._max_links:
                raise ValueError(f"link: {self._max_links} links are the limit")
            state = self._links[link] = _Link()
        if state.fenced:
            raise ValueError(f"link: {link!r} is fenced; a peer that came back needs a new one")
        return state

    def _cut_off(self, link: str) -> None:
        """Both roles: no operation, no offer, no lane and no server for the link from here on. Idempotent."""
        state = self._links.get(link)
        if state is None or state.fenced:
            return
        state.fenced = True
        busy = self._pulls.fence_peer(link)
        self._offers.drop_link(link)
        self._pool.give_back(
            link,
            state.remote,
            time.monotonic(),
            sending=lambda: self._offers.lent(link) > 0,
            receiving=busy,
        )

    def _finish_fences(self) -> bool:
        done = [link for link in sorted(self._fencing) if not self._offers.lent(link)]
        self._fencing.difference_update(done)
        self._reports.extend(PeerFenced(link) for link in done)
        return bool(done)

    def _news(self) -> None:
        if self._notify is not None:
            self._notify()
