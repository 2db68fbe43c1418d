"""What live rooms cost: ``poll()`` with many of them, their memory, and making one.

All rooms are live: their sender and receiver are paired over ``inproc``, both in this process, and the sender has nothing
to send yet. An engine asks all its rooms in turn, so that is what is timed: a pass over every handle, per handle.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from contextlib import ExitStack
from time import perf_counter_ns
from timeit import Timer

from kvpoll.runtime import KVManager, KVReceiver, KVSender, ManagerConfig
from kvpoll.spec import KVPoll

from .handoff_ends import SMALL, request_of
from .result import Bare, Result, interleave

__all__ = ["run"]

#: Mark: ``poll()`` with many live rooms against ``poll()`` with few.
MARK = 1.2
FEW, MANY = 10, 10_000
_PATIENCE_S = 60.0
_CALM_S = 3600.0  #: no clock of a room goes off while it is measured


def run(quick: bool = False) -> list[Result]:
    """Some twenty seconds; a few when ``quick`` (fewer rooms). Raises ``RuntimeError`` when a room does not become live."""
    many = 200 if quick else MANY
    with ExitStack() as stack:
        few, crowd = _Rooms(stack), _Rooms(stack)
        few.add(FEW)
        tracemalloc.start()
        try:
            memory = crowd.add(many)
        finally:
            tracemalloc.stop()
        results = [
            _poll("sender", few.senders, crowd.senders, quick),
            _poll("receiver", few.receivers, crowd.receivers, quick),
        ]
        lone, among = few.create_seconds(FEW), crowd.create_seconds(FEW)
        results += [
            Result(
                f"create with {many} live rooms / with {FEW}", among / lone,
                says="median; both ends of one room: create, init, send_metadata; not the messages that follow",
                bare=(Bare(f"with {many}", among * 1e6, "us"), Bare(f"with {FEW}", lone * 1e6, "us")),
            ),
            Result(
                f"memory of one of {many} live rooms", says="tracemalloc: sessions, clocks and handles",
                bare=tuple(Bare(name, size / many / 1024, "KiB") for name, size in memory.items()),
            ),
        ]  # fmt: skip
    return results


class _Rooms:
    """A prefill and a decode manager and their rooms."""

    def __init__(self, stack: ExitStack) -> None:
        durations = dict.fromkeys(("pairing", "silence", "total", "sender_margin"), _CALM_S)
        durations["drain"] = _PATIENCE_S

        def manager(role: str) -> KVManager:
            made = KVManager(
                ManagerConfig.model_validate(
                    {
                        "role": role, "engine": SMALL.engine(), "transports": ("inproc",), "bootstrap": "none",
                        "durations": durations,
                    }
                )
            )  # fmt: skip
            stack.callback(made.close)
            return made

        self.prefill, self.decode = manager("prefill"), manager("decode")
        self.senders: list[KVSender] = []
        self.receivers: list[KVReceiver] = []

    def add(self, count: int) -> dict[str, int]:
        """Add live rooms and wait until they are paired; what they hold, in bytes as tracemalloc counts, by role."""
        first = len(self.senders)
        before = _held()
        self.senders += [self._sender(first + i) for i in range(count)]
        middle = _held()
        self.receivers += [self._receiver(first + i) for i in range(count)]
        self._paired()
        both = _held() - before
        return {"sender, not paired": middle - before, "receiver and sender, paired": both}

    def create_seconds(self, count: int) -> float:
        """Seconds per room for making both ends."""
        first, spent = len(self.senders), list[int]()
        for i in range(count):
            start = perf_counter_ns()
            self.senders.append(self._sender(first + i))
            self.receivers.append(self._receiver(first + i))
            spent.append(perf_counter_ns() - start)
            self._paired()
        return sorted(spent)[len(spent) // 2] / 1e9

    def _sender(self, room: int) -> KVSender:
        sender = KVSender(self.prefill, room, request_of(room, SMALL, 1))
        sender.init(1)
        return sender

    def _receiver(self, room: int) -> KVReceiver:
        receiver = KVReceiver(self.decode, "", 0, room, request_of(room, SMALL, 1), address=self.prefill.address)
        receiver.init()
        receiver.send_metadata([room])
        return receiver

    def _paired(self) -> None:
        ends: list[tuple[KVManager, Sequence[KVSender | KVReceiver]]] = [
            (self.prefill, self.senders),
            (self.decode, self.receivers),
        ]
        for manager, handles in ends:
            left = [*reversed(handles)]

            def all_there(left: list[KVSender | KVReceiver] = left) -> bool:
                while left and left[-1].poll() is KVPoll.WaitingForInput:
                    left.pop()
                return not left

            if not manager.wait(all_there, _PATIENCE_S):
                raise RuntimeError(f"room {left[-1].bootstrap_room} stays in {left[-1].poll().name}")


def _poll(
    role: str, few: Sequence[KVSender | KVReceiver], crowd: Sequence[KVSender | KVReceiver], quick: bool
) -> Result:
    groups = {"few": [*few] * (len(crowd) // len(few)), "many": [*crowd]}
    timers = {
        name: Timer("for handle in handles: handle.poll()", "handles = every", globals={"every": handles})
        for name, handles in groups.items()
    }
    timed = interleave(timers, {name: len(group) for name, group in groups.items()}, 3 if quick else 40, len(crowd))
    return Result(
        f"{role} poll() with {len(crowd)} live rooms / with {len(few)}", timed["many"].best / timed["few"].best, MARK,
        says="minimum over rounds, every handle in turn",
        bare=(timed["many"].bare(f"with {len(crowd)}"), timed["few"].bare(f"with {len(few)}")),
    )  # fmt: skip


def _held() -> int:
    if not tracemalloc.is_tracing():
        return 0
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
