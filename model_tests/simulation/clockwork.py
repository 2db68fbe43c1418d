"""Simulated time, the trace and its hash, and how a run says that an invariant is broken.

Everything that happens is an action on one heap, ordered by time; at one time what arrives comes before what a clock
says (EvidenceBeforeDeadline), and after that the order in which it was put there. Nothing else decides an order, and
every random number comes from the run's seed: so a seed is the run, and the hash of its trace says so.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from msgspec import UNSET

from kvpoll.protocol.codec import decode
from kvpoll.protocol.errors import RemoteProtocolError
from kvpoll.spec.wire import Message, Status

from ..explorer import Violation

__all__ = ["Clockwork", "Line", "SimulationViolation", "brief"]

#: Lines of the trace that are kept to be shown with a violation.
_KEPT = 20_000
_SHOWN = 60


class Line(NamedTuple):
    """One event of the trace."""

    now: int
    who: str
    what: str
    room: int  #: -1: of the whole process
    frame: bytes

    def text(self) -> str:
        said = ""
        if self.frame:
            try:
                said = f" {brief(decode(self.frame).message)}"
            except RemoteProtocolError as error:
                said = f" damaged: {error}"
        return f"{self.now:>8} ms  {self.who:<5} {self.what}{said}"


class SimulationViolation(Violation):
    """An invariant does not hold in a simulated run. ``seed`` reproduces it; ``trace`` are the lines that led there."""

    def __init__(
        self, invariant: str, sentence: str, *, seed: int | None, now: int, room: int | None, instance: int | None,
        trace: tuple[str, ...],
    ) -> None:  # fmt: skip
        where = [f"at {now} ms"]
        where += [f"room {room}"] if room is not None else []
        where += [f"instance {instance}"] if instance is not None else []
        where += [f"seed {seed}"] if seed is not None else []
        super().__init__(invariant, f"{sentence} ({', '.join(where)})")
        self.seed, self.now, self.room, self.instance, self.trace = seed, now, room, instance, trace


class Clockwork:
    """The heap, the trace and the hash of one run. ``seed`` is only printed; ``None``: the run is not made from one."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.now = 0  #: ms
        self.events = 0
        self.recent: deque[Line] = deque(maxlen=_KEPT)
        self._heap: list[tuple[int, bool, int, Callable[[], None]]] = []
        self._count = 0
        self._hash = blake2b(digest_size=16)

    def after(self, delay: int, action: Callable[[], None], late: bool = False) -> None:
        """Do something ``delay`` ms from now; ``late``: after everything that arrives at that time."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + max(delay, 0), late, self._count, action))

    def step(self, until: int) -> bool:
        """Do the next thing that is due at ``until`` or before; when there is none, it is ``until`` then."""
        if not self._heap or self._heap[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now, _, _, action = heapq.heappop(self._heap)
        self.events += 1
        action()
        return True

    def run(self, ms: int) -> None:
        """Let time pass."""
        until = self.now + ms
        while self.step(until):
            pass

    def log(self, who: str, what: str, room: int = -1, frame: bytes = b"") -> None:
        """A line of the trace. ``what`` must be the same whenever the run is."""
        self._hash.update(f"{self.now} {who} {what} {room} {len(frame)}\n".encode())
        self._hash.update(frame)
        self.recent.append(Line(self.now, who, what, room, frame))

    @property
    def hash(self) -> str:
        """Of the trace so far."""
        return self._hash.hexdigest()

    @property
    def waiting(self) -> int:
        """Actions on the heap."""
        return len(self._heap)

    def broken(self, invariant: str, sentence: str, room: int | None = None, instance: int | None = None) -> NoReturn:
        """An invariant does not hold: raise :class:`SimulationViolation`."""
        raise self.violation(invariant, sentence, room, instance)

    def violation(
        self, invariant: str, sentence: str, room: int | None = None, instance: int | None = None
    ) -> SimulationViolation:
        """What :meth:`broken` raises: with the last lines about the room and about whole processes."""
        lines = [
            line for line in self.recent if room is None or line.room == room or (line.room == -1 and not line.frame)
        ]
        return SimulationViolation(
            invariant, sentence, seed=self.seed, now=self.now, room=room, instance=instance,
            trace=tuple(line.text() for line in lines[-_SHOWN:]),
        )  # fmt: skip


def brief(message: Message) -> str:
    """A message for people: what is not the same in every other one."""
    said = [type(message).__name__]
    for name in ("gen", "low_water", "reason", "total", "quarantined", "answer"):
        value = getattr(message, name, UNSET)
        if value is not UNSET and value is not False:
            said.append(f"{name}={value}")
    said += [f"part {part.no}" for part in getattr(message, "parts", ())]
    if isinstance(message, Status):
        facts, seen = ({n: getattr(g, n) for n in g.__struct_fields__} for g in (message.facts, message.seen))
        told = {**facts, **{f"seen.{name}": value for name, value in seen.items()}}
        told["parts"] = len(message.facts.parts)
        told["fingerprint"] = told["transport"] = told["meta"] = UNSET
        told["state"] = message.facts.state.name
        said += [f"{name}={value}" for name, value in told.items() if value is not UNSET and value]
    return " ".join(said)
