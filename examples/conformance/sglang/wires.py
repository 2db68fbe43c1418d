"""What can go wrong with messages: between the engine and ZeroMQ, in one process, by name.

``message_lost``, ``message_copied`` and ``message_late`` are about the next message that this process sends; ``peer_silent``
holds everything that it sends or hears. :meth:`Wire.heal` lets go what was held, in order. The engine is not changed: the
two calls of ZeroMQ that it uses are.
"""

# ruff: noqa: ANN401 - the two calls are passed on as they come

from __future__ import annotations

import contextlib
import threading
from typing import Any

import zmq

__all__ = ["FAULTS", "Wire"]

FAULTS = ("message_lost", "message_copied", "message_late", "peer_silent")
_MAX_HELD = 4096


class Wire:
    """Stands between the engine and its sockets, for the whole process."""

    def __init__(self) -> None:
        self._next = ""
        self._held: list[tuple[zmq.Socket[bytes], list[bytes]]] = []
        self._lock = threading.Lock()
        self.open = threading.Event()
        self.open.set()
        self._send, hear = zmq.Socket.send_multipart, zmq.Socket.recv_multipart

        def send_multipart(socket: zmq.Socket[bytes], parts: list[bytes], *rest: Any, **named: Any) -> Any:
            if (times := self._times(socket, parts)) == 0:
                return None
            for _ in range(times - 1):
                self._send(socket, parts, *rest, **named)
            return self._send(socket, parts, *rest, **named)

        def recv_multipart(socket: zmq.Socket[bytes], *rest: Any, **named: Any) -> Any:
            message = hear(socket, *rest, **named)
            self.open.wait()
            return message

        zmq.Socket.send_multipart = send_multipart  # type: ignore[method-assign]
        zmq.Socket.recv_multipart = recv_multipart  # type: ignore[method-assign,assignment]

    def set(self, fault: str) -> None:
        """Raises ``ValueError`` for a fault that is not known."""
        if fault not in FAULTS:
            raise ValueError(f"expected one of {', '.join(FAULTS)}, got {fault}")
        if fault == "peer_silent":
            self.open.clear()
        else:
            self._next = fault

    def heal(self) -> None:
        with self._lock:
            self._next, held = "", self._held
            self._held = []
            self.open.set()
            for socket, parts in held:
                with contextlib.suppress(zmq.ZMQError):  # the engine closed it meanwhile: what was on its way is lost
                    self._send(socket, parts)

    def _times(self, socket: zmq.Socket[bytes], parts: list[bytes]) -> int:
        """How often this message goes out now."""
        with self._lock:
            if not self.open.is_set() or self._next == "message_late":
                self._next = ""
                if len(self._held) < _MAX_HELD:
                    self._held.append((socket, list(parts)))
                return 0
            fault, self._next = self._next, ""
            return {"message_lost": 0, "message_copied": 2}.get(fault, 1)
