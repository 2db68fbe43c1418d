"""The TCP sockets of this process, looked at and cut from outside the native transfer library.

The library has no close. Two things were measured with a stopped peer in the middle of a transfer, and both need the
socket itself:

* poisoning a connection makes the pull raise, but its bulk socket and its destination stay, and destroying the server
  then waits for the peer **with the interpreter lock held**: the whole process stands still;
* a sender that drops its server goes on sending from the payload as soon as the peer runs again.

``shutdown(2)`` on the bulk socket ends both within a millisecond. It works on the open socket, not on the descriptor,
so a duplicate of the descriptor will do, and the library still closes its own.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

__all__ = ["Endpoint", "cut", "listeners", "listeners_are_ours", "reserve_port"]

#: An address as ``getsockname`` gives it: numeric host, port.
Endpoint = tuple[str, int]

_FD_FOLDERS = ("/proc/self/fd", "/dev/fd")
_LISTEN = "0A"  #: state column of /proc/net/tcp


def cut(*, local: Collection[Endpoint] = (), remote: Collection[Endpoint] = ()) -> int:
    """Shut down each connected socket with one of these ends; the number found. Raises ``OSError`` where no folder
    shows our descriptors."""
    found = 0
    for sock in _sockets():
        try:
            ends = _endpoint(sock.getsockname()), _endpoint(sock.getpeername())
        except OSError:  # listening, or not connected any more
            continue
        if ends[0] in local or ends[1] in remote:
            found += 1
            with suppress(OSError):  # the peer was faster
                sock.shutdown(socket.SHUT_RDWR)
    return found


def listeners() -> dict[int, Endpoint]:
    """Our listening sockets: inode to address. Raises ``OSError`` where no folder shows our descriptors."""
    found = {}
    for sock in _sockets():
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            found[os.fstat(sock.fileno()).st_ino] = _endpoint(sock.getsockname())
    return found


def reserve_port(host: str, port: int) -> socket.socket:
    """Bind ``host:port`` (0: any) while nobody else holds it, then admit the library's listener to the same port.

    Binding without SO_REUSEPORT first is what makes it ours: the library sets that option, so two processes that ask
    for one port both get it, and each sees half of the connections. Raises ``OSError`` when the port is taken.
    """
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of a predecessor that linger (TIME_WAIT) are no obstacle; a listener still is.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        holder.close()
        raise
    return holder


def listeners_are_ours(ports: Collection[int]) -> bool:
    """Does each port have exactly one listener on this host, and is it ours? ``True`` where the kernel doesn't say."""
    ours = listeners()
    try:
        rows = list(_listen_rows())
    except OSError:
        return True
    owners: dict[int, list[int]] = {port: [] for port in ports}
    for port, inode in rows:
        if port in owners:
            owners[port].append(inode)
    return all(len(found) == 1 and found[0] in ours for found in owners.values())


def _listen_rows() -> Iterator[tuple[int, int]]:
    """(port, inode) of every listening socket in this network namespace."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        if name.endswith("6") and not os.path.exists(name):  # a kernel without IPv6
            continue
        with open(name, encoding="ascii") as table:
            next(table)
            for line in table:
                columns = line.split()
                if columns[3] == _LISTEN:
                    yield int(columns[1].rpartition(":")[2], 16), int(columns[9])


def _sockets() -> Iterator[socket.socket]:
    """A duplicate of each TCP socket of this process, closed after its turn."""
    for fd in _descriptors():
        try:
            copy = os.dup(fd)
        except OSError:  # closed meanwhile
            continue
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as duplicate:
            if duplicate.family in (socket.AF_INET, socket.AF_INET6) and duplicate.type == socket.SOCK_STREAM:
                yield duplicate


def _descriptors() -> list[int]:
    for folder in _FD_FOLDERS:
        if os.path.isdir(folder):
            return [int(name) for name in os.listdir(folder)]
    raise OSError(f"descriptors: expected one of {', '.join(_FD_FOLDERS)}")


def _endpoint(name: tuple[object, ...]) -> Endpoint:
    return str(name[0]), int(str(name[1]))
