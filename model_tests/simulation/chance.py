"""What chance decides: how long a message takes, what becomes of an operation. From a seed, or from whoever drives a run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import NamedTuple, Protocol

from .settings import Faults

__all__ = ["Chance", "FrameFate", "OpEnd", "OpFate", "RandomChance", "damaged"]


class FrameFate(NamedTuple):
    """One copy of a message that is under way. ``damage``: how its bytes are changed; 0: not at all."""

    delay: int
    damage: int = 0


class OpEnd(Enum):
    """What a transport says of an operation in the end."""

    DONE = "done"
    FAILED = "failed"
    UNRESOLVED = "unresolved"
    STUCK = "stuck"  #: nothing, until it is cancelled or fenced
    REFUSED = "refused"  #: it is not taken at all


class OpFate(NamedTuple):
    """What becomes of an operation. ``lands``: one that is unresolved writes all the same, before its fence."""

    end: OpEnd
    delay: int
    lands: bool = False


class Chance(Protocol):
    """Who decides."""

    def frames(self) -> Sequence[FrameFate]:
        """What becomes of a message: no copy of it arrives, one, or two."""

    def operation(self) -> OpFate: ...

    def offer_refused(self) -> bool:
        """Pull: does the transport refuse to offer a part?"""

    def pause(self, most: int) -> int:
        """How long something takes that nobody waits for on purpose: 1 to ``most`` ms."""


class RandomChance:
    """From a seeded generator, as often as the faults say."""

    def __init__(self, random: Random, faults: Faults) -> None:
        self.random = random
        self.faults = faults

    def hit(self, per_mille: int) -> bool:
        return per_mille > 0 and self.random.random() * 1000 < per_mille

    def _latency(self) -> int:
        if self.hit(self.faults.late):
            return self.random.randint(200, 6_000)
        return 1 + min(60, int(self.random.expovariate(0.25)))

    def frames(self) -> Sequence[FrameFate]:
        faults, at = self.faults, self.random.random() * 1000
        if at < faults.loss:
            return ()
        if at < faults.loss + faults.copy:
            return (FrameFate(self._latency()), FrameFate(self._latency() * 3))
        if at < faults.loss + faults.copy + faults.damage:
            return (FrameFate(self._latency(), self.random.randrange(1, 1 << 48)),)
        return (FrameFate(self._latency()),)

    def operation(self) -> OpFate:
        faults, at = self.faults, self.random.random() * 1000
        delay = 1 + min(400, int(self.random.expovariate(0.08)))
        for end, share in (
            (OpEnd.REFUSED, faults.refused), (OpEnd.FAILED, faults.failed), (OpEnd.UNRESOLVED, faults.unresolved),
            (OpEnd.STUCK, faults.stuck),
        ):  # fmt: skip
            if at < share:
                return OpFate(end, delay, self.random.random() < 0.5)
            at -= share
        return OpFate(OpEnd.DONE, delay)

    def offer_refused(self) -> bool:
        return self.hit(self.faults.refused)

    def pause(self, most: int) -> int:
        return self.random.randint(1, max(most, 1))


def damaged(frame: bytes, how: int) -> bytes:
    """The frame with some of its bytes changed, cut off, repeated or added; the same for the same ``how``."""
    kind, at = how % 5, (how // 5) % len(frame)
    noise = Random(how).randbytes(1 + how % 7)
    match kind:
        case 0:
            return frame[:at] + bytes([frame[at] ^ (1 << (how // 7) % 8)]) + frame[at + 1 :]
        case 1:
            return frame[:at]
        case 2:
            return frame[:at] + noise + frame[at:]
        case 3:
            return frame[:at] + noise + frame[at + len(noise) :]
        case _:
            return frame[:at] + frame[: len(frame) - at]
