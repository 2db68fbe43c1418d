"""Traces: every table step and every control message, one JSON object a line. Off by default.

A line has ``t`` (ms, monotonic), ``instance``, and either a step (``role``, ``no``, ``room``, ``event``, ``from``, ``to``,
``effects``) or a message (``way``, ``link``, ``kind``, ``room``, ``gen``). Steps are written by whoever holds the process's
lock, messages by the control thread, into a buffer that the control thread flushes: hence a lock of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import IO

import msgspec

from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.records import SessionKey
from kvpoll.spec.wire import Message

__all__ = ["Trace"]

_ENCODER = msgspec.json.Encoder()
_FLUSH_BYTES = 1 << 16


class Trace:
    """Writes one process's trace to a file. ``room_of`` names the room of a session."""

    def __init__(
        self, path: str, instance: int, now: Callable[[], int], room_of: Callable[[SessionKey], int | None]
    ) -> None:
        self._file: IO[bytes] = open(path, "ab")  # noqa: SIM115 - closed by close(), it lives as long as the process
        self._buffer = bytearray()
        self._lock = RLock()
        self._instance = f"{instance:x}"
        self._now = now
        self._room_of = room_of

    def step(self, key: SessionKey, edge: Edge, signal: Signal) -> None:
        line: dict[str, object] = {
            "t": self._now(), "instance": self._instance, "role": key.role, "no": key.no, "room": self._room_of(key),
            "event": signal.name, "from": edge.row.state.name, "to": edge.node.state.name,
        }  # fmt: skip
        if edge.effects:
            line["effects"] = [effect.name for effect in edge.effects]
        if edge.cause is not None:
            line["cause"] = edge.cause.name
        self._write(line)

    def message(self, way: str, message: Message) -> None:
        line: dict[str, object] = {
            "t": self._now(), "instance": self._instance, "way": way, "link": f"{message.link:x}", "kind": type(message).__name__,
        }  # fmt: skip
        room, gen = getattr(message, "room", None), getattr(message, "gen", None)
        if isinstance(room, int):
            line["room"], line["gen"] = room, gen
        self._write(line)

    def _write(self, line: dict[str, object]) -> None:
        with self._lock:
            self._buffer += _ENCODER.encode(line)
            self._buffer += b"\n"
            if len(self._buffer) >= _FLUSH_BYTES:
                self.flush()

    def flush(self) -> None:
        with self._lock:
            if self._buffer and not self._file.closed:
                self._file.write(self._buffer)
                self._file.flush()
            self._buffer.clear()

    def close(self) -> None:
        """Idempotent. Lines that come later are dropped."""
        self.flush()
        self._file.close()
