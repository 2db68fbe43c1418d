"""Correct engines that are not like the reference: none of them may fail. What a suite calls wrong here is a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from .plug import DECODE, PREFILL, About, Adapter, Refused, Side
from .reference import Reference, Setting
from .reference.world import TIMING

__all__ = ["VARIANTS"]


class _Hides(Reference):
    """States that are legal to skip are not shown."""

    def __init__(self, hidden: dict[Side, dict[int, int]]) -> None:
        super().__init__()
        self.hidden = hidden

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        return self.hidden.get(side, {}).get(told, told)


class _MovesLate(Reference):
    """The prefill side says Transferring only a while after it began."""

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self._since: dict[int, int] = {}

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        if side == PREFILL and told == 3 and self.world.now - self._since.setdefault(room, self.world.now) < 15:
            return 2
        return told


class _Modest(Reference):
    """An engine that can do less, says so, and refuses what it cannot do: no early calls, no reuse, no words, no faults."""

    _not = frozenset({"early-send", "early-metadata", "reuse", "why", "cause", "refusals"})

    def about(self) -> About:
        about = super().about()
        return replace(
            about,
            capabilities=about.capabilities - self._not,
            faults=frozenset(),
            profiles=frozenset({"common"}),
        )

    def create(self, side: Side, room: int, pages: int) -> None:
        if (side, room) in self._handles:
            raise Refused("a number is used once")
        super().create(side, room, pages)

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        if (PREFILL, room) in self._handles and self.poll(PREFILL, room) == 1:
            raise Refused("destinations are not known")
        super().send(room, pages, last)


class _Wordless(Reference):
    """An engine that shows neither its memory nor when it is free."""

    def about(self) -> About:
        about = super().about()
        return replace(
            about, capabilities=about.capabilities - {"memory", "released", "why", "cause"}, profiles=frozenset({"common"})
        )  # fmt: skip


class _KeepsLong(Reference):
    """Memory comes back a while later than it could."""

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self._free: dict[tuple[Side, int], int] = {}

    def released(self, side: Side, room: int) -> bool:
        if not super().released(side, room):
            return False
        return self.world.now - self._free.setdefault((side, room), self.world.now) >= 120


class _Stubborn(Reference):
    """Wrong calls raise errors of its own kind; the right answer to an abort of what is over is an error, too."""

    def abort(self, side: Side, room: int) -> None:
        if self.poll(side, room) in (0, 4):
            raise Refused("it is over")
        super().abort(side, room)


#: By name: what makes one.
VARIANTS: dict[str, Callable[[], Adapter]] = {
    "pull instead of push": lambda: Reference(Setting(push=False)),
    "a receive buffer in between": lambda: Reference(Setting(direct=False)),
    "pull into a receive buffer": lambda: Reference(Setting(push=False, direct=False)),
    "seven times the latency": lambda: Reference(Setting(latency=7, timing=replace(TIMING, resend=1_500, gate=4_200))),
    "pages of one byte": lambda: Reference(Setting(page_bytes=1)),
    "decode never shows Transferring": lambda: _Hides({DECODE: {3: 2}}),
    "decode shows its end only": lambda: _Hides({DECODE: {2: 1, 3: 1}}),
    "prefill never shows Transferring": lambda: _Hides({PREFILL: {3: 2}}),
    "ranks share the heads": lambda: Reference(Setting(heads=True)),
    "prefill is Transferring late": _MovesLate,
    "an engine that can do less": _Modest,
    "neither memory nor words": _Wordless,
    "memory comes back late": _KeepsLong,
    "over is over": _Stubborn,
}
