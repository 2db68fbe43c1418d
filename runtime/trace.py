"""Traces: every step of a room and of a link, and every control message, one JSON object a line. Off by default.

The format is :mod:`kvpoll.protocol.trace.lines`; docs/traces.md describes it for people. Steps are written by whoever
holds the process's lock, messages by the control thread, into a buffer that the control thread flushes: hence a lock of
its own. What a step says of itself follows from its edge, so it is encoded once and kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from threading import RLock
from typing import IO

import msgspec

from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.records import AttemptRecord, SessionKey
from kvpoll.protocol.trace.lines import LINKS, VERSION, tables_digest
from kvpoll.spec import Cause
from kvpoll.spec.wire import Abort, Message, Offer, PartDone, Reason, Refusal, RoomMessage, Status

__all__ = ["Trace"]

_ENCODE = msgspec.json.Encoder().encode
_FLUSH_BYTES = 1 << 16


class Trace:
    """Writes one process's trace to a file. ``now`` gives monotonic ms, ``about`` the record of a session (``None`` once it
    was dropped), ``head`` what else the first line says: ``engine`` (hexadecimal), ``process``, ``rank``."""

    def __init__(
        self, path: str, instance: int, now: Callable[[], int], about: Callable[[SessionKey], AttemptRecord | None],
        head: Mapping[str, str | int] | None = None,
    ) -> None:  # fmt: skip
        self._file: IO[bytes] = open(path, "ab")  # noqa: SIM115 - closed by close(), it lives as long as the process
        self._buffer = bytearray()
        self._lock = RLock()
        self._instance = f"{instance:x}"
        self._now = now
        self._about = about
        self._head = {"trace": VERSION, "tables": tables_digest(), **(head or {})}
        self._tails: dict[Edge, bytes] = {}  # one for each edge of the tables that was ever taken
        self._lines = 0
        self._closed = False

    def step(self, key: SessionKey, edge: Edge, signal: Signal) -> None:
        """A room's end, or a link (``key.role`` link), took ``edge``."""
        tail = self._tails.get(edge)
        if tail is None:
            tail = self._tails[edge] = _tail(edge, signal)
        if key.role == LINKS:
            self._write(f'"role":"{LINKS}","link":"{key.no:x}",'.encode() + tail)
            return
        record = self._about(key)
        about = ""
        if record is not None:
            about = f'"room":{record.room},'
            if record.gen and key.role == "sender":  # of a receiver they are its own: ``no``, and the head's
                about += f'"engine":"{record.engine:x}","gen":{record.gen},'
        self._write(f'"role":"{key.role}","no":{key.no},{about}'.encode() + tail)

    def message(self, way: str, message: Message) -> None:
        """A message left (``out``) or arrived (``in``)."""
        line: dict[str, object] = {"way": way, "link": f"{message.link:x}", "kind": type(message).__name__}
        if isinstance(message, RoomMessage):
            line |= {"room": message.room, "engine": f"{message.engine:x}", "gen": message.gen}
        match message:
            case Status(facts=facts):
                line["state"] = facts.state.name
                line["parts"] = len(facts.parts)
                if isinstance(facts.failed, msgspec.Struct):
                    line["cause"] = _name(Cause, facts.failed.cause)
            case Abort(failed=failed):
                line["cause"] = _name(Cause, failed.cause)
            case Offer(parts=parts) | PartDone(parts=parts):
                line["parts"] = len(parts)
            case Refusal(room=room, engine=engine, gen=gen):
                line["reason"] = _name(Reason, message.reason)
                if isinstance(room, int) and isinstance(engine, int):
                    line |= {"room": room, "engine": f"{engine:x}", "gen": gen}
        self._write(_ENCODE(line)[1:])

    def _write(self, tail: bytes) -> None:
        with self._lock:
            if self._closed:
                return
            first = not self._lines
            if first:
                self._begin()
            self._put(tail)
            if first or len(self._buffer) >= _FLUSH_BYTES:  # a process that is killed has left a head, at the least
                self.flush()

    def _begin(self) -> None:
        self._put(_ENCODE({**self._head, "unix": int(time.time() * 1000), "clock": _clock()})[1:])

    def _put(self, tail: bytes) -> None:
        """With the lock held, so that times never go back."""
        self._buffer += b'{"t":%d,"instance":"%s",' % (self._now(), self._instance.encode())
        self._buffer += tail
        self._buffer += b"\n"
        self._lines += 1

    def flush(self) -> None:
        with self._lock:
            if self._buffer and not self._file.closed:
                self._file.write(self._buffer)
                self._file.flush()
            self._buffer.clear()

    def close(self) -> None:
        """Say how many lines there are. Idempotent; lines that come later are dropped."""
        with self._lock:
            if self._closed:
                return
            if not self._lines:
                self._begin()
            self._put(_ENCODE({"end": self._lines})[1:])
            self._closed = True
            self.flush()
            self._file.close()


def _tail(edge: Edge, signal: Signal) -> bytes:
    line: dict[str, object] = {"event": signal.name, "from": edge.row.state.name, "to": edge.node.state.name}
    if edge.effects:
        line["effects"] = [effect.name for effect in edge.effects]
    if edge.cause is not None:
        line["cause"] = edge.cause.name
    return _ENCODE(line)[1:]


def _name(kind: type[Cause] | type[Reason], number: int) -> str:
    """The number itself where a newer peer uses one that we do not know."""
    return kind(number).name if number in kind.__members__.values() else str(number)


def _clock() -> str:
    """Names the monotonic clock: processes with the same one have comparable times. Empty where nobody can tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot[:13]}-{os.stat('/proc/self/ns/time').st_ino:x}"
    except OSError:
        return ""
