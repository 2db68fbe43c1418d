"""The prefill process of the hand-off benchmark: does what its standard input says, one JSON object a line."""

from __future__ import annotations

import json
import sys
from typing import Any

from kvpoll.runtime import KVSender
from kvpoll.runtime.transports.memory import BufferPool
from kvpoll.spec import KVPoll

from .handoff_ends import PATIENCE_S, SMALL, Geometry, bare_of, manager, now, pool_of, request_of, stage

__all__ = ["main"]


class Prefill:
    """Answers commands until ``stop``."""

    def __init__(self, transport: str, layers: int, pages: int) -> None:
        self.shape = Geometry(layers, pages)
        self.pool, self.little = pool_of(self.shape, fill=True), pool_of(SMALL, fill=True)
        self.buffers = BufferPool(256 << 20)
        self.bare = bare_of(transport)
        self.manager = manager("prefill", transport, self.shape)
        self.small = manager("prefill", transport, SMALL)
        self.senders: dict[int, KVSender] = {}

    def hello(self, offered: dict[str, str] | None) -> None:
        if offered is not None:
            self.bare.connect(offered)
        _say(
            address=self.manager.address,
            small=self.small.address,
            offered={} if offered is not None else self.bare.offer(),
        )

    def room(self, room: int, pages: int) -> None:
        """Create one that will carry ``pages``, and wait until it is known where they go."""
        sender = KVSender(self.manager, room, request_of(room, self.shape, pages))
        sender.init(pages)
        self.senders[room] = sender
        _need(self.manager.wait(lambda: sender.poll() is not KVPoll.Bootstrapping, PATIENCE_S), sender)
        _say()

    def send(self, room: int, pages: int) -> None:
        sender, ids = self.senders.pop(room), self.shape.chosen(pages, "prefill")
        start = now()
        sender.send(ids, self.pool)
        sent = now()
        _need(self.manager.wait(lambda: sender.poll() is KVPoll.Success, PATIENCE_S), sender)
        for _ in self.manager.released():
            pass
        _say(start=start, sent=sent, end=now())

    def plain(self, pages: int) -> None:
        """The same bytes by a bare call."""
        ids = self.shape.chosen(pages, "prefill")
        start = now()
        rows = stage(self.buffers, self.pool, ids)
        key = self.bare.send(rows)
        _say(start=start, key=key)
        self.bare.finish(key)
        _heard()  # the other end has it: only now the buffer is free

    def little_room(self, room: int) -> None:
        """Create a room of one small page and send it, before the other end is known."""
        start = now()
        sender = KVSender(self.small, room, request_of(room, SMALL, 1))
        sender.init(1)
        sender.send([1], self.little)
        _say(spent=now() - start)
        _need(self.small.wait(lambda: sender.poll() is KVPoll.Success, PATIENCE_S), sender)
        end = now()
        for _ in self.small.released():
            pass
        _say(end=end)

    def close(self) -> None:
        cut = {**self.manager.close(), **self.small.close()}
        self.bare.close()
        _say(cut=cut)


def main() -> None:
    first = _heard()
    prefill = Prefill(first["transport"], first["layers"], first["pages"])
    prefill.hello(first["offered"])
    while True:
        match _heard():
            case {"do": "room", "room": room, "pages": pages}:
                prefill.room(room, pages)
            case {"do": "send", "room": room, "pages": pages}:
                prefill.send(room, pages)
            case {"do": "plain", "pages": pages}:
                prefill.plain(pages)
            case {"do": "little", "room": room}:
                prefill.little_room(room)
            case {"do": "stop"}:
                prefill.close()
                return
            case other:
                raise SystemExit(f"command: expected one that is known, got {other}")


def _need(reached: bool, sender: KVSender) -> None:
    if not reached:
        raise SystemExit(f"room {sender.bootstrap_room} stays in {sender.poll().name}: {sender.failure_exception()}")


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _heard() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit("the decode process is gone")
    heard: dict[str, Any] = json.loads(line)
    return heard


if __name__ == "__main__":
    main()
