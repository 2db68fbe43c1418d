"""Chance by script: what the network and the transports do next is what was drawn, and ordinary otherwise."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..simulation.chance import FrameFate, OpEnd, OpFate

__all__ = ["Script"]


class Script:
    """A :class:`~kvpoll.model_tests.simulation.chance.Chance`. ``latencies`` are taken in turn, for ever: different ones
    reorder. What is put into ``next_frames``, ``next_operations`` and ``next_offers`` comes first, once."""

    def __init__(self, latencies: Sequence[int]) -> None:
        self._latencies = deque(latencies)
        self.next_frames: deque[tuple[FrameFate, ...]] = deque()
        self.next_operations: deque[OpFate] = deque()
        self.next_offers: deque[bool] = deque()

    def _latency(self) -> int:
        self._latencies.rotate(-1)
        return self._latencies[-1]

    def frames(self) -> Sequence[FrameFate]:
        return self.next_frames.popleft() if self.next_frames else (FrameFate(self._latency()),)

    def operation(self) -> OpFate:
        return self.next_operations.popleft() if self.next_operations else OpFate(OpEnd.DONE, 2 * self._latency())

    def offer_refused(self) -> bool:
        return self.next_offers.popleft() if self.next_offers else False

    def pause(self, most: int) -> int:
        return 1 + self._latency() % most
