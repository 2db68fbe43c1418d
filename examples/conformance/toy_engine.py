"""A toy engine that hands pages over with a real thread and a real clock: what an engine under test may look like.

It knows nothing of kvpoll. Both sides live in one process, and a worker thread copies. Room states are the field's numbers.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

FAILED, BOOTSTRAPPING, WAITING, TRANSFERRING, SUCCESS = range(5)
#: Seconds after which a room without destinations, or without data, fails.
PATIENCE = 0.5


class EngineError(Exception):
    """A call that comes at the wrong time."""


@dataclass
class Half:
    """One side of a room."""

    count: int
    born: float
    state: int = BOOTSTRAPPING
    pages: list[int] = field(default_factory=list)  # decode: destinations; prefill: what was sent
    closed: bool = False
    moved: int = 0
    why: str = ""


class Engine:
    """A prefill side and a decode side, ``pages`` pages of ``size`` bytes each."""

    def __init__(self, pages: int, size: int) -> None:
        self.size = size
        self.memory = {side: bytearray(pages * size) for side in ("prefill", "decode")}
        self.halves: dict[tuple[str, int], Half] = {}
        self.lock = threading.RLock()
        self.work: queue.Queue[int | None] = queue.Queue()
        self.worker = threading.Thread(target=self._loop, daemon=True)
        self.worker.start()

    def create(self, side: str, room: int, count: int) -> None:
        with self.lock:
            if (side, room) in self.halves:
                raise EngineError(f"room {room} is there already")
            self.halves[side, room] = Half(count, time.monotonic())
            self._meet(room)

    def destinations(self, room: int, pages: Sequence[int]) -> None:
        with self.lock:
            half = self._half("decode", room)
            if half.pages or len(pages) != half.count:
                raise EngineError(f"room {room} takes {half.count} pages, once")
            half.pages = list(pages)
            if half.state == BOOTSTRAPPING:
                half.state = WAITING
            self._meet(room)

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        with self.lock:
            half = self._half("prefill", room)
            if half.closed or len(half.pages) + len(pages) > half.count:
                raise EngineError(f"room {room} takes {half.count} pages, and nothing after the last")
            if last and len(half.pages) + len(pages) != half.count:
                raise EngineError(f"room {room}: the last chunk leaves pages out")
            half.pages += pages
            half.closed = last
        self.work.put(room)

    def state(self, side: str, room: int) -> int:
        with self.lock:
            half = self._half(side, room)
            if half.state in (BOOTSTRAPPING, WAITING) and time.monotonic() - half.born > PATIENCE:
                self.fail(room, "nobody came in time")
            return half.state

    def fail(self, room: int, why: str) -> None:
        with self.lock:
            for side in ("prefill", "decode"):
                half = self.halves.get((side, room))
                if half is not None and half.state not in (FAILED, SUCCESS):
                    half.state, half.why = FAILED, why

    def forget(self, side: str, room: int) -> None:
        with self.lock:
            if self._half(side, room).state not in (FAILED, SUCCESS):
                self.fail(room, "forgotten")
            del self.halves[side, room]

    def stop(self) -> None:
        self.work.put(None)
        self.worker.join()

    def _half(self, side: str, room: int) -> Half:
        if (side, room) not in self.halves:
            raise EngineError(f"no room {room}")
        return self.halves[side, room]

    def _meet(self, room: int) -> None:
        prefill, decode = self.halves.get(("prefill", room)), self.halves.get(("decode", room))
        if prefill is None or decode is None:
            return
        if prefill.count != decode.count or FAILED in (prefill.state, decode.state):
            self.fail(room, "the two sides do not fit")
        elif decode.pages and prefill.state == BOOTSTRAPPING:
            prefill.state = WAITING
            self.work.put(room)

    def _loop(self) -> None:
        while (room := self.work.get()) is not None:
            with self.lock:
                self._move(room)

    def _move(self, room: int) -> None:
        prefill, decode = self.halves.get(("prefill", room)), self.halves.get(("decode", room))
        if prefill is None or decode is None or not decode.pages:
            return
        if FAILED in (prefill.state, decode.state) or prefill.state == BOOTSTRAPPING:
            return
        for at in range(prefill.moved, len(prefill.pages)):
            source, target = prefill.pages[at] * self.size, decode.pages[at] * self.size
            self.memory["decode"][target : target + self.size] = self.memory["prefill"][source : source + self.size]
            prefill.state = decode.state = TRANSFERRING
        prefill.moved = len(prefill.pages)
        if prefill.closed:
            prefill.state = decode.state = SUCCESS
