"""The process plug, our end: an adapter in another process, in any language, one JSON object a line.

We write ``{"id": 7, "call": "poll", "side": "decode", "room": 12}`` to its standard input. It answers on its standard output,
with the same id and one of ``value`` (what the call returns, ``null`` for nothing), ``refused``, ``unsupported`` or ``raised``
(texts). Calls and arguments are those of :class:`.plug.Adapter`; bytes are base64, sets are lists. A call that it does not
know is ``unsupported``. Whatever else it wants to say goes to standard error. At the end of its input it leaves.

``advance_and_poll`` is for speed only, and may be unsupported: let ``seconds`` pass, then answer a list with what ``poll`` tells
of each of ``ends`` (pairs of side and room), ``null`` where it tells nothing.

Nothing it does can hurt a run: a call that does not return in time, a line that is too long or no answer, too much output, an
exit: each raises :class:`.calls.Gone`, the process group is killed, and memory stays bounded.
"""

from __future__ import annotations

import base64
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from .calls import Gone
from .plug import About, Gate, How, Refused, Side, Unsupported

__all__ = ["ProcessAdapter"]

#: Bytes of the longest line, of all noise on standard error in one case, and of it what is kept.
_LINE, _NOISE, _TAIL = 16 * 1024 * 1024, 64 * 1024 * 1024, 2_000
#: Calls after which what poll() told a moment ago still holds.
_READS = frozenset({"poll", "released", "why", "read"})


class _Reply(msgspec.Struct):
    id: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    refused: str | None = None
    unsupported: str | None = None
    raised: str | None = None


class EngineRaised(Exception):
    """The engine raised, over there."""


class ProcessAdapter:
    """An adapter that lives in a process of its own. ``argv`` starts it. ``timeout``: seconds that a call may take, beyond
    the time that it is asked to let pass; ``start``: seconds for the first one."""

    def __init__(self, argv: Sequence[str], timeout: float = 10.0, start: float = 60.0) -> None:
        self.timeout = timeout
        self._id = 0
        self._noise = 0
        self._tail = b""
        self._buffer = bytearray()
        self._quick = True  #: it may know ``advance_and_poll``
        self._polled: dict[tuple[Side, int], None] = {}  #: ends that this case polls
        self._told: dict[tuple[Side, int], int] = {}  #: what they told just now
        try:
            self._child = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise Gone(f"it does not start: {error}") from None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._in, self._out, self._err = (
            pipe.fileno() for pipe in (self._child.stdin, self._child.stdout, self._child.stderr)
        )
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        try:
            self._about = msgspec.json.decode(self._ask("about", start), type=About)
        except msgspec.DecodeError as error:
            self.close()
            raise Gone(f"about: {error}") from None
        except (Refused, Unsupported, EngineRaised) as error:
            self.close()
            raise Gone(f"about: {error}") from None

    # -- the adapter ---------------------------------------------------------------------------------------------------
    def about(self) -> About:
        return self._about

    def begin(self, case: str, fresh: bool) -> None:
        self._noise = 0
        self._polled.clear()
        self._ask("begin", 30.0, case=case, fresh=fresh)

    def create(self, side: Side, room: int, pages: int) -> None:
        self._ask("create", side=side, room=room, pages=pages)

    def init(self, side: Side, room: int) -> None:
        self._ask("init", side=side, room=room)

    def metadata(self, room: int, pages: Sequence[int]) -> None:
        self._ask("metadata", room=room, pages=list(pages))

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        self._ask("send", room=room, pages=list(pages), last=last)

    def poll(self, side: Side, room: int) -> int:
        told = self._told.pop((side, room), None)
        if told is None:
            self._polled.pop((side, room), None)
            told = self._int(self._ask("poll", side=side, room=room))
            self._polled[side, room] = None
        return told

    def abort(self, side: Side, room: int) -> None:
        self._ask("abort", side=side, room=room)

    def clear(self, side: Side, room: int) -> None:
        self._ask("clear", side=side, room=room)

    def advance(self, seconds: float) -> None:
        """Where the other end knows how, the polls that follow are asked in the same breath."""
        if self._quick and self._polled:
            try:
                raw = self._ask("advance_and_poll", seconds, seconds=seconds, ends=list(self._polled))
                told = msgspec.json.decode(raw, type=list[int | None])
                self._told = {end: each for end, each in zip(self._polled, told, strict=True) if each is not None}
                return
            except Unsupported:
                self._quick = False
            except (msgspec.DecodeError, ValueError):
                raise self._gone(f"advance_and_poll: expected {len(self._polled)} numbers") from None
        self._ask("advance", seconds, seconds=seconds)

    def fill(self, side: Side, pages: Sequence[int], data: bytes) -> None:
        self._ask("fill", side=side, pages=list(pages), data=base64.b64encode(data).decode())

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        raw = self._ask("read", side=side, pages=list(pages))
        try:
            return msgspec.json.decode(raw, type=bytes)
        except msgspec.DecodeError as error:
            raise self._gone(f"read: expected base64, {error}") from None

    def released(self, side: Side, room: int) -> bool:
        return bool(self._int(self._ask("released", side=side, room=room)))

    def fault(self, side: Side, room: int, name: str) -> None:
        self._ask("fault", side=side, room=room, name=name)

    def heal(self) -> None:
        self._ask("heal", 30.0)

    def why(self, side: Side, room: int) -> str:
        raw = self._ask("why", side=side, room=room)
        try:
            return msgspec.json.decode(raw, type=str)
        except msgspec.DecodeError:
            raise self._gone(f"why: expected a text, got {bytes(raw)[:60]!r}") from None

    def unknown(self) -> None:
        """A call that there is not: must raise ``Unsupported``."""
        self._ask("no-such-call")

    def gate(self, room: int, name: str, what: Gate) -> None:
        self._ask("gate", room=room, name=name, what=what)

    def stop(self, side: Side, how: How) -> None:
        self._ask("stop", side=side, how=how)

    def left(self, side: Side) -> int:
        return self._int(self._ask("left", side=side))

    def ranks(self, prefill: int, decode: int) -> None:
        self._ask("ranks", 30.0, prefill=prefill, decode=decode)

    def close(self) -> None:
        """End it: let it leave, else kill its whole group."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(1.0)
        self._kill()

    # -- the wire ------------------------------------------------------------------------------------------------------
    def _int(self, raw: msgspec.Raw) -> int:
        try:
            return int(msgspec.json.decode(raw, type=int | bool))
        except msgspec.DecodeError:
            raise self._gone(f"expected a number, got {bytes(raw)[:60]!r}") from None

    def _ask(self, call: str, extra: float = 0.0, /, **arguments: object) -> msgspec.Raw:
        self._id += 1
        if call not in _READS:
            self._told.clear()
        line = msgspec.json.encode({"id": self._id, "call": call, **arguments}) + b"\n"
        text = self._exchange(line, call, time.monotonic() + self.timeout + extra)
        try:
            reply = msgspec.json.decode(text, type=_Reply)
        except msgspec.DecodeError:
            raise self._gone(f"{call}: expected an answer on standard output, got {bytes(text[:80])!r}") from None
        if reply.id != self._id:
            raise self._gone(f"{call}: expected the answer to {self._id}, got one to {reply.id}")
        if reply.unsupported is not None:
            raise Unsupported(reply.unsupported)
        if reply.refused is not None:
            raise Refused(reply.refused)
        if reply.raised is not None:
            raise EngineRaised(reply.raised)
        return reply.value

    def _exchange(self, line: bytes, call: str, deadline: float) -> bytes:
        """Write a line and read one, and drain what it says besides."""
        left = memoryview(line)
        end = self._buffer.find(b"\n")
        if left:
            left = self._write(left)
        while left or end < 0:
            wait = deadline - time.monotonic()
            if wait <= 0:
                raise self._gone(f"{call}() did not return in time", hung=True)
            for key, events in self._selector.select(wait):
                if events & selectors.EVENT_WRITE:
                    self._selector.unregister(self._in)
                    left = self._write(left)
                elif key.fd == self._err:
                    self._hear_noise()
                else:
                    self._hear(call)
            end = self._buffer.find(b"\n")
            if end < 0 and len(self._buffer) > _LINE:
                raise self._gone(f"{call}: wrote more than {_LINE} bytes without the end of a line")
        text = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return text

    def _write(self, left: memoryview) -> memoryview:
        try:
            left = left[os.write(self._in, left) :]
        except BlockingIOError:
            pass
        except OSError:
            raise self._gone(self._how()) from None
        if left:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        return left

    def _hear(self, call: str) -> None:
        data = os.read(self._out, 1 << 16)
        if not data:
            raise self._gone(f"{call}: {self._how()}")
        self._buffer += data

    def _hear_noise(self) -> None:
        data = os.read(self._err, 1 << 16)
        if not data:
            self._selector.unregister(self._err)
        self._noise += len(data)
        self._tail = (self._tail + data)[-_TAIL:]
        if self._noise > _NOISE:
            raise self._gone(f"wrote more than {_NOISE} bytes to standard error in one case")

    # -- its end -------------------------------------------------------------------------------------------------------
    def _how(self) -> str:
        """How it ended, in words."""
        try:
            status = self._child.wait(1.0)
        except subprocess.TimeoutExpired:
            return "closed its pipes"
        if status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"left with exit status {status}"

    def _gone(self, reason: str, hung: bool = False) -> Gone:
        self._kill()
        last = self._tail.decode(errors="replace").strip().splitlines()[-1:]
        return Gone(reason + (f"; it said: {last[0][:200]}" if last else ""), hung)

    def _kill(self) -> None:
        """Its whole group: children of its own may live longer than it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
