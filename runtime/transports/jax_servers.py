"""Transfer servers: one for each peer link while the pool lasts, and a slow, safe way to end one.

A server is shared by nobody that it needn't be shared by: a stopped receiver stalls every pull of the server it pulls
from, and (measured) a stopped sender stalls every pull through the receiver's local server. Only when ``max_servers``
run does a further link share the least loaded one, and the stall with it.

Ending one: cut its bulk sockets, wait until its connections and the payloads it reads are gone, and only then drop the
last reference. Dropping earlier leaks the payloads, or stops the process (see ``jax_sockets``). A server whose sockets
don't go away is never dropped: at close it is leaked on purpose.
"""

from __future__ import annotations

import ctypes
import ipaddress
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import jax
from jax.experimental import transfer

from kvpoll.runtime.transports.jax_sockets import Endpoint, cut, listeners, listeners_are_ours, reserve_port

__all__ = ["LINGER_S", "NativeConnection", "NativeServer", "Server", "ServerPool", "parse_address"]

#: Between the cut and the last reference: the library's threads notice a cut socket in about a millisecond.
LINGER_S = 0.1

_ATTEMPTS = 8
_one_start = threading.Lock()  #: or two transports would take each other's bulk ports for theirs
_PAST = datetime.fromtimestamp(0, UTC)


class NativeConnection(Protocol):
    """The part of ``jax.experimental.transfer.TransferConnection`` that we use."""

    def pull(self, uuid: int, xs: Sequence[jax.ShapeDtypeStruct]) -> Sequence[jax.Array]: ...
    def _poison_connection(self) -> None: ...


class NativeServer(Protocol):
    """The part of ``jax.experimental.transfer.TransferServer`` that we use."""

    def address(self) -> str: ...
    def await_pull(self, uuid: int, arrays: Sequence[jax.Array], timeout: datetime | None = None) -> None: ...
    def connect(self, address: str) -> NativeConnection: ...


@dataclass(eq=False, slots=True)
class Server:
    """A native server of ours, with the ports that it listens on."""

    native: NativeServer
    address: str
    control: Endpoint
    bulk: tuple[Endpoint, ...]
    links: set[str] = field(default_factory=set)
    #: Keys above 63 bits are ours alone: no caller's key can meet this one.
    janitor_key: int = field(default_factory=lambda: (1 << 63) | secrets.randbits(63))

    def register(self, key: int, arrays: Sequence[jax.Array]) -> None:
        self.native.await_pull(key, arrays)

    def fail_pullers(self, key: int) -> None:
        """Free the payload; a waiting or later puller fails at once."""
        self.native.await_pull(key, [])

    def erase(self, key: int) -> None:
        """Free the payload and the table entry; a later puller would park for ever."""
        self.native.await_pull(key, [], timeout=_PAST)

    def janitor(self) -> None:
        """Native timeouts fire only when the sender executes another call."""
        self.native.await_pull(self.janitor_key, [])


@dataclass(eq=False, slots=True)
class _Parting:
    server: Server
    remote: frozenset[Endpoint]
    since: float
    sending: Callable[[], bool]
    receiving: Callable[[], bool]
    shared: bool

    def cut(self) -> int:
        """End the transfers; the number of sockets that were still there."""
        # A shared server's sockets can't be told apart by link: they are cut only while a payload is at stake.
        local = self.server.bulk if not self.shared or self.sending() else ()
        return cut(local=local, remote=self.remote)

    def over(self, now: float) -> bool:
        left = self.cut()
        if self.sending() or self.receiving():
            return False
        if self.shared or now - self.since < LINGER_S:
            return self.shared
        # Only now the control connections, which the peer may keep open for ever: without them the library would not
        # let go of a payload in the middle of a transfer.
        cut(local=(self.server.control,))
        # A bulk socket that still lives would make the destructor wait for the peer.
        return left == 0


class ServerPool:
    """At most ``max_servers`` servers, live and retiring ones together. Not thread-safe: the caller holds its lock."""

    def __init__(
        self,
        device: jax.Device,
        *,
        host: str,
        ports: Sequence[int],
        transports: int,
        copies: int,
        transfer_size: int,
        max_servers: int,
    ) -> None:
        self._device = device
        self._host = host
        self._ports = tuple(ports)
        self._transports = transports
        self._copies = copies
        self._transfer_size = transfer_size
        self._max_servers = max_servers
        self._of_link: dict[str, Server] = {}
        self._live: list[Server] = []
        self._parting: list[_Parting] = []

    def of(self, link: str) -> Server:
        """The link's server, started or shared on the first call. Raises ``RuntimeError`` when there is no way."""
        server = self._of_link.get(link)
        if server is None:
            if len(self._live) + len(self._parting) < self._max_servers:
                server = self._start()
                self._live.append(server)
            elif self._live:
                server = min(self._live, key=lambda each: len(each.links))
            else:
                raise RuntimeError(f"max_servers: all {self._max_servers} servers are being retired")
            server.links.add(link)
            self._of_link[link] = server
        return server

    def is_ours(self, link: str) -> bool:
        """Does the link have a server, and do its ports still belong to us alone?"""
        server = self._of_link.get(link)
        return server is not None and listeners_are_ours(_ports_of(server))

    def give_back(
        self,
        link: str,
        remote: frozenset[Endpoint],
        now: float,
        *,
        sending: Callable[[], bool],
        receiving: Callable[[], bool],
    ) -> None:
        """End the link's traffic in both directions; its server too, unless another link shares it.

        ``remote`` are the bulk ends that the link pulled from; ``sending`` and ``receiving`` say whether the native
        layer still holds payloads or connections of the link.
        """
        server = self._of_link.pop(link, None)
        if server is None:
            return
        server.links.discard(link)
        parting = _Parting(server, remote, now, sending, receiving, shared=bool(server.links))
        if not parting.shared:
            self._live.remove(server)
        parting.cut()
        self._parting.append(parting)

    def tick(self, now: float) -> None:
        for server in self._live:
            server.janitor()
        self._parting = [each for each in self._parting if not each.over(now)]

    def leak_the_rest(self) -> None:
        """At close: what couldn't be ended safely stays, also when the interpreter ends."""
        for each in self._parting:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each.server.native))
        self._parting.clear()

    @property
    def live(self) -> int:
        return len(self._live)

    @property
    def retiring(self) -> int:
        """Links whose traffic was cut and is not yet known to be over; each may keep a server."""
        return len(self._parting)

    def _start(self) -> Server:
        refused: set[int] = set()
        for _ in range(_ATTEMPTS):
            with self._reserve(refused) as holder, _one_start:
                server = self._start_on(str(holder.getsockname()[0]), int(holder.getsockname()[1]))
            if server is not None:
                if listeners_are_ours(_ports_of(server)):
                    return server
                refused.add(server.control[1])
        raise RuntimeError(f"ports: {self._host} has another listener on every port that we tried")

    def _reserve(self, refused: set[int]) -> socket.socket:
        """A socket that holds the control port until the native server listens on it."""
        for port in self._ports or (0,):
            if port not in refused:
                with suppress(OSError):  # somebody else's
                    return reserve_port(self._host, port)
        raise RuntimeError(f"ports: expected a free port of {self._host}, found none")

    def _start_on(self, host: str, port: int) -> Server | None:
        control = (host, port)
        before = listeners()
        native: NativeServer = transfer.start_transfer_server(
            self._device.client,
            _join(control),
            # Never the default, an empty list: it ends the process. Never a fixed port: the receiving end binds its
            # outgoing sockets to the same addresses, and "address in use" ends the process, too.
            [_join((host, 0))] * self._transports,
            self._copies,
            self._transfer_size,
            supports_pinned_allocator=False,
            use_raw_buffers=False,  # raw buffers hand out what was written after a donation
        )
        new = [end for inode, end in listeners().items() if inode not in before and end != control]
        # The library doesn't tell its bulk ports. More than it should have: another thread began to listen meanwhile.
        return Server(native, _join(control), control, tuple(new)) if len(new) == self._transports else None


def parse_address(address: str) -> Endpoint:
    """``host:port`` with a numeric host; ``ValueError`` otherwise: the native layer waits for ever on a bad name."""
    host, _, port = address.rpartition(":")
    numeric = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    if numeric.is_unspecified or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"address: expected a numeric host and a port, got {address!r}")
    return str(numeric), int(port)


def _join(end: Endpoint) -> str:
    return f"[{end[0]}]:{end[1]}" if ":" in end[0] else f"{end[0]}:{end[1]}"


def _ports_of(server: Server) -> set[int]:
    return {end[1] for end in (server.control, *server.bulk)}
