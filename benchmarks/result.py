"""What every benchmark returns, and how rounds of it are measured.

Machines are busy and clocks drift, so a bare time says little. What counts is a ratio: ours against a baseline, in rounds
that take turns within one run, so that a slow moment hits both. Bare times stand beside it, marked as bare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from timeit import Timer

__all__ = ["Bare", "Result", "Timed", "interleave"]


@dataclass(frozen=True, slots=True)
class Bare:
    """A number that depends on the machine and its mood. Not comparable between runs."""

    name: str
    value: float
    unit: str

    def text(self) -> str:
        return f"{self.name} {self.value:.{_digits(self.value)}f} {self.unit}"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report. ``ratio`` is ``None`` where there is nothing to compare with: then only bare numbers."""

    name: str
    ratio: float | None = None
    target: float | None = None  #: bounds the ratio from above, or from below with ``at_least``
    at_least: bool = False
    unit: str = "x"  #: of ratio and target; "x" for a true ratio
    says: str = ""  #: what is divided by what
    bare: tuple[Bare, ...] = ()

    @property
    def met(self) -> bool | None:
        """``None`` without a target."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"met": self.met}


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds per call, by round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def middle(self) -> float:
        return median(self.rounds)

    def bare(self, name: str, unit: str = "ns") -> Bare:
        return Bare(f"{name} median", self.middle * _PER_SECOND[unit], unit)


def interleave(timers: Mapping[str, Timer], calls: Mapping[str, int], rounds: int, number: int) -> dict[str, Timed]:
    """Run every timer ``rounds`` times, taking turns; ``calls`` says how many calls are in one execution of its statement,
    ``number`` how many calls a round has at least. The garbage collector is off while a statement runs."""
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            times = max(1, number // calls[name])
            seconds[name].append(timer.timeit(times) / (times * calls[name]))
    return {name: Timed(tuple(row)) for name, row in seconds.items()}


_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


def _digits(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
