"""Push over ZeroMQ: TCP between hosts, IPC and shared memory on one host, no accelerator API needed.

The receiver binds one ROUTER on both; the sender opens one DEALER per peer. Bulk data has its own sockets and its own
thread, so it never waits in front of a heartbeat of the control channel. The rules of memory are in ``landing`` (what
may be written) and ``zmq_peer`` (what may still be read); this file is the face that :mod:`.base` describes.

Confidentiality is not ours: bytes travel in the clear, and what protects a key is that nobody can guess it.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import zmq

from kvpoll.runtime.hosts import bracketed, host_port
from kvpoll.runtime.transports.base import (
    Capabilities,
    Descriptor,
    Direction,
    Exposure,
    Operation,
    Outcome,
    Report,
    Source,
)
from kvpoll.runtime.transports.landing import LandingTable
from kvpoll.runtime.transports.ledger import Ledger
from kvpoll.runtime.transports.memory import BufferPool, Bytes, byte_view, keep_freed_memory
from kvpoll.runtime.transports.shared import AVAILABLE, Segments
from kvpoll.runtime.transports.zmq_io import IoThread
from kvpoll.runtime.transports.zmq_wire import MAX_LINK_BYTES, VERSION

__all__ = ["ZmqPushTransport"]

#: The largest message: up to it a part goes whole and is not copied at the receiver; beyond it copying hides behind
#: the transfer, while one message would have to be faulted in page by page.
_PIECE = 16 << 20
_MIN_PIECE = 1 << 12
_QUEUED_PIECES = 4  #: per connection, whatever the peer does: bounds what one peer makes the library hold
_TCP = re.compile(r"tcp://([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
_IPC = re.compile(r"ipc:///[^\0]{1,100}")


class ZmqPushTransport:
    """A :class:`~kvpoll.runtime.transports.base.Transport`.

    ``host`` is the address to bind (a port of the system's choice); ``advertise`` what peers connect to, if that
    differs. ``max_in_flight`` bounds our operations, ``max_peers`` the peers that we send to, ``spare_bytes`` the
    receive buffers kept warm, ``piece_bytes`` the largest message, in both directions. ``use_shared``: between processes
    of one user on one host, payloads are read where they lie. Raises ``ValueError`` when one makes no sense.
    """

    def __init__(self, *, host: str = "127.0.0.1", advertise: str | None = None, max_in_flight: int = 64,
                 max_peers: int = 128, spare_bytes: int = 512 << 20, piece_bytes: int = _PIECE,
                 use_ipc: bool = True, use_shared: bool = True) -> None:  # fmt: skip
        if min(max_in_flight, max_peers) < 1 or spare_bytes < 0 or not _MIN_PIECE <= piece_bytes <= 1 << 30:
            raise ValueError(f"piece_bytes: {piece_bytes}, expected {_MIN_PIECE}..2**30; every other limit at least 1")
        if advertise is None and host in ("0.0.0.0", "::", "*"):
            raise ValueError(f"advertise: None, expected the address that peers connect to, since host is {host!r}")
        self._host, self._advertise, self._use_ipc = host, advertise or host, use_ipc and zmq.has("ipc")
        self._max_peers, self._piece = max_peers, piece_bytes
        self._use_shared = bool(use_shared) and self._use_ipc and AVAILABLE
        self._segments = Segments()
        self._token = secrets.randbits(63)
        self._capabilities = Capabilities("zmq", Direction.PUSH, fence_operation=False, fence_peer=True,
                                          max_in_flight=max_in_flight)  # fmt: skip
        self._landing = LandingTable(BufferPool(spare_bytes))
        self._ledger = Ledger(max_in_flight)
        self._io: IoThread | None = None
        self._closed = False
        self._folder: str | None = None
        self._ours: dict[str, str | int] = {}

    @property
    def capabilities(self) -> Capabilities:
        """A single operation cannot be fenced: its pieces may wait in the socket of a peer that stands still."""
        return self._capabilities

    def start(self, notify: Callable[[], None]) -> None:
        """Bind and start the thread. Raises ``OSError`` (``zmq.ZMQError``) when the host cannot be bound."""
        if self._io is not None or self._closed:
            raise RuntimeError("start: called before, expected once")
        keep_freed_memory()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, 64 + 3 * self._max_peers)
        try:
            router = context.socket(zmq.ROUTER)
            router.linger = 0
            router.rcvhwm, router.sndhwm = _QUEUED_PIECES, 4096
            router.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a reconnected peer keeps its identity
            router.setsockopt(zmq.MAXMSGSIZE, self._piece)
            router.ipv6 = ":" in self._host
            tcp = self._bind_tcp(router)
            ipc = self._bind_ipc(router)
        except zmq.ZMQError:
            context.destroy(linger=0)
            raise
        self._ours = {"transport": "zmq", "version": VERSION, "token": self._token, "piece": self._piece,
                      "host": _host_id(), "tcp": tcp, "ipc": ipc, "shared": int(self._use_shared)}  # fmt: skip
        self._ledger.start(notify)
        self._io = IoThread(context, router, self._token, self._landing, self._ledger, self._max_peers, self._piece,
                            self._segments)  # fmt: skip
        self._io.start()

    def staging(self) -> Source | None:
        return self._segments if self._use_shared else None

    def descriptor(self, link: str) -> Descriptor:
        self._running()
        return dict(self._ours)

    def mismatches(self, ours: Descriptor, theirs: Descriptor) -> Sequence[str]:
        wrong = [name for name in ("transport", "version") if ours.get(name) != theirs.get(name)]
        tcp, piece = theirs.get("tcp"), theirs.get("piece")
        if not (isinstance(tcp, str) and _TCP.fullmatch(tcp)):
            wrong.append("tcp")
        if not (isinstance(piece, int) and piece >= _MIN_PIECE):
            wrong.append("piece")
        if not isinstance(theirs.get("token"), int):
            wrong.append("token")
        return wrong

    def open_peer(self, link: str, theirs: Descriptor) -> None:
        """Raises ``ValueError`` for a link of more than 255 bytes or a descriptor that :meth:`mismatches` refuses."""
        if len(link.encode()) > MAX_LINK_BYTES:
            raise ValueError(f"link: {len(link.encode())} bytes, expected at most {MAX_LINK_BYTES}")
        wrong = self.mismatches(self._ours, theirs)
        if wrong:
            raise ValueError(f"theirs: cannot be used because of {', '.join(wrong)}")
        piece = min(self._piece, int(theirs["piece"]))
        io = self._running()
        endpoint = self._endpoint(theirs)
        shares = self._use_shared and theirs.get("shared") == 1 and endpoint.startswith("ipc:")
        io.post(partial(io.open_peer, link, endpoint, int(theirs["token"]), piece, shares))

    def close_peer(self, link: str) -> None:
        self._landing.forget_link(link)
        if self._io is not None:
            self._io.post(partial(self._io.close_peer, link))

    def expose(self, exposure: Exposure) -> None:
        self._landing.expose(exposure)

    def retract(self, key: int) -> None:
        self._landing.retract(key)

    def offer(self, link: str, key: int, payload: object) -> None:
        raise NotImplementedError("offer: zmq pushes, there is nothing to fetch")

    def withdraw(self, key: int) -> None:
        """Nothing is offered, so nothing is left to withdraw."""

    def forget(self, key: int) -> None:
        """Nothing is offered, so nothing is left to forget."""

    def submit(self, operation: Operation) -> None:
        """Raises ``ValueError`` for a payload that cannot be sent, an id in use, or too many operations in flight."""
        for name, number, bits in (("op", operation.op, 64), ("key", operation.key, 64), ("part", operation.part, 32)):
            if not 0 <= number < 1 << bits:
                raise ValueError(f"{name}: {number}, expected 0 <= {name} < 2**{bits}")
        data: Bytes = byte_view(operation)
        io = self._running()
        self._ledger.admit(operation.op)
        if not io.post(partial(io.submit, operation, data)):
            self._ledger.report(operation.op, Outcome.FAILED, "transport closed, nothing was sent")

    def cancel(self, op: int) -> None:
        """FAILED when nothing was sent or once the receiver confirms; DONE if it was faster; else it stays pending
        until the peer answers or is fenced."""
        if self._io is not None:
            self._io.post(partial(self._io.cancel, op))

    def fence_operation(self, op: int) -> None:
        """Best effort (see :meth:`capabilities`): UNRESOLVED now, FENCED once the peer answers or is fenced."""
        if self._io is not None:
            self._io.post(partial(self._io.doubt, op))

    def fence_peer(self, link: str) -> None:
        """Their writes end before this returns; the report follows when our payloads are out of the library too."""
        self._landing.fence_link(link)
        if self._io is None or not self._io.post(partial(self._io.fence_peer, link)):
            self._ledger.peer_fenced(link)

    def poll(self) -> list[Report]:
        return self._ledger.drain()

    def collect(self, key: int, part: int) -> Bytes | None:
        """The part as bytes, shape ``(nbytes,)``; the caller views it as what it is."""
        return self._landing.collect(key, part)

    def release(self, key: int) -> None:
        self._landing.retract(key)

    def tick(self) -> None:
        if self._io is not None:
            self._io.nudge()

    def probe(self, link: str) -> bool:
        return self._io is not None and self._io.connected(link)

    def gauges(self) -> dict[str, int]:
        ours = {**self._landing.gauges(), **self._ledger.gauges()}
        return ours if self._io is None else {**ours, **self._io.gauges()}

    def counters(self) -> Counter[str]:
        """What was refused or dropped since the start, by reason; for metrics, never empty by itself."""
        refused = {f"refused_{reason.name.lower()}": count for reason, count in dict(self._landing.refused).items()}
        return Counter({**refused, **(dict(self._io.counts) if self._io is not None else {})})

    def close(self) -> None:
        """Unfinished operations are reported UNRESOLVED and FENCED: no socket is left that could read a payload."""
        self._closed = True
        if self._io is not None:
            self._io.stop(_CLOSE_S)
        self._landing.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _running(self) -> IoThread:
        if self._io is None:
            raise RuntimeError("start: not called yet")
        return self._io

    def _bind_tcp(self, router: zmq.Socket[bytes]) -> str:
        port = router.bind_to_random_port(f"tcp://{bracketed(self._host)}")
        return f"tcp://{host_port(self._advertise, port)}"

    def _bind_ipc(self, router: zmq.Socket[bytes]) -> str:
        """The endpoint, or ``""`` where there is none: the peers then use TCP."""
        if not self._use_ipc:
            return ""
        self._folder = tempfile.mkdtemp(prefix="kvpoll-")  # mode 0700: no other user connects or replaces it
        endpoint = f"ipc://{self._folder}/push"
        try:
            router.bind(endpoint)
        except zmq.ZMQError:  # the path is too long for a socket
            return ""
        return endpoint

    def _endpoint(self, theirs: Descriptor) -> str:
        ipc = theirs.get("ipc")
        if self._use_ipc and theirs.get("host") == self._ours["host"] and isinstance(ipc, str) and _is_our_socket(ipc):
            return ipc
        return str(theirs["tcp"])


#: What closing may take: the library drops its connections at once, so this is only for a machine under load.
_CLOSE_S = 5.0


def _host_id() -> str:
    """Equal for two processes that may share an IPC socket: one boot of one host, one user."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = platform.platform()
    return f"{boot}:{platform.node()}:{os.getuid() if hasattr(os, 'getuid') else ''}"


def _is_our_socket(endpoint: str) -> bool:
    """Containers can share a host id but not a file system: look before connecting."""
    if not _IPC.fullmatch(endpoint):
        return False
    try:
        found = os.stat(endpoint.removeprefix("ipc://"))
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()
