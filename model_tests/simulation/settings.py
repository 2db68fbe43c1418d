"""What a simulated run is made of: engines and sizes, deadlines, and how often each fault happens."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kvpoll.protocol.session import Timing

__all__ = ["CALM", "FAULTS", "TIMING", "Faults", "Setting", "faults_of"]

#: Milliseconds of simulated time. The sender's total deadline is longer by ``Setting.margin``.
TIMING = Timing(
    pairing=4_000, silence=3_000, total=16_000, gate=1_500, resend=120, hello=1_500, beat=300, lost=1_500
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Engines, ranks and sizes. ``fan``: each prefill rank owns some layers and every decode rank takes from all of them;
    else rank takes from equal rank. Decode engines differ: the first takes by push, the second by pull, the third and
    fourth the same straight into their pages, and so on."""

    prefills: int = 2
    decodes: int = 4
    prefill_ranks: int = 2
    decode_ranks: int = 2
    fan: bool = True
    misfit: bool = True  #: one more decode engine, whose page size cannot work: every room with it must be refused
    layers: int = 2  #: of each prefill rank
    page_size: int = 4  #: tokens
    pages: int = 192  #: of each rank's pool
    slots: int = 16  #: aux slots of each decode rank
    longest: int = 12  #: pages of the longest request
    credits: int = 6  #: operations in flight of each rank
    live: int = 96  #: rooms that the router has under way at a time
    every: int = 6  #: ms between two rooms, on average
    timing: Timing = TIMING
    margin: int = 3_000  #: ms by which a sender's total deadline is longer than a receiver's

    def text(self) -> str:
        """For people, with every result."""
        how = "every decode rank takes from every prefill rank" if self.fan else "rank takes from equal rank"
        prefills = f"{self.prefills} prefill engines of {self.prefill_ranks} ranks"
        decodes = f"{self.decodes} decode engines of {self.decode_ranks}"
        return f"{prefills}, {decodes}, {how}{', one decode engine that does not fit' if self.misfit else ''}"

    @property
    def all_layers(self) -> int:
        return self.layers * (self.prefill_ranks if self.fan else 1)

    @property
    def ends_within(self) -> int:
        """EveryRoomEnds: ms from create until a living end is over."""
        return self.timing.total + self.margin + self.timing.gate

    @property
    def tells_within(self) -> int:
        """TerminalPropagates: ms from the first end that is over until every living end that was paired with it is."""
        timing = self.timing
        return 4 * timing.lost + timing.silence + timing.gate + 40 * timing.resend

    @property
    def forgets_within(self) -> int:
        """EventuallyReleased: ms from the start of a room until nothing of it is left anywhere. Twice the time that a room
        has, since a sender forgets in the order of the receiver's gens."""
        return 2 * self.ends_within + self.tells_within

    @property
    def quiet_within(self) -> int:
        """IdleEmpty: ms from the last fault until nothing is left."""
        return self.ends_within + self.tells_within + self.timing.hello + self.timing.pairing


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often, in events for each thousand opportunities: a message, an operation, a room, or (for whole processes) a
    room that the router starts. Zero everywhere: nothing goes wrong."""

    # each message
    loss: int = 0
    copy: int = 0
    late: int = 0  #: it takes seconds, and meets what is over by then
    damage: int = 0  #: bytes are changed on the way
    # each operation
    failed: int = 0
    unresolved: int = 0
    stuck: int = 0  #: it ends when it is cancelled or fenced, and not before
    refused: int = 0  #: the transport will not take it
    # each room
    abort: int = 0  #: by either engine, or one rank of it, at any time
    alone: int = 0  #: only one leg ever arrives
    differ: int = 0  #: the two legs are of different requests
    reuse: int = 0  #: the room's number is used again at once, for the same request or another one
    gate: int = 0  #: a gate fails, or never opens
    commit: int = 0  #: the engine cannot write its pages
    missing: int = 0  #: what was called done is not there, or its aux data is another's
    lazy: int = 0  #: an engine forgets the room: it sends no more, or allocates no pages
    # each room that is started, for a process or an engine
    crash: int = 0  #: with a restart at the same address
    wrong: int = 0  #: a living peer is declared lost
    partition: int = 0  #: one direction, or both
    freeze: int = 0  #: a process does nothing for a while
    drain: int = 0  #: takes no new rooms, is shut down, goes, and comes back

    def text(self) -> str:
        """The budgets, as printed with every result."""
        told = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name)]
        return " ".join(told) or "none"


CALM = Faults()
_NETWORK = Faults(loss=15, copy=15, late=6, damage=6)
_MEMORY = Faults(failed=4, unresolved=6, stuck=4, refused=2)
_ROOMS = Faults(abort=80, alone=15, differ=10, reuse=60, gate=20, commit=5, missing=5, lazy=10)
_PROCESSES = Faults(crash=6, wrong=4, partition=8, freeze=6, drain=4)


def _join(*parts: Faults) -> Faults:
    joined = CALM
    for part in parts:
        joined = replace(joined, **{f.name: getattr(part, f.name) for f in fields(part) if getattr(part, f.name)})
    return joined


#: By the names that the command takes.
FAULTS: dict[str, Faults] = {
    "none": CALM,
    "network": _NETWORK,
    "memory": _MEMORY,
    "rooms": _ROOMS,
    "processes": _PROCESSES,
    "all": _join(_NETWORK, _MEMORY, _ROOMS, _PROCESSES),
}


def faults_of(names: str) -> Faults:
    """Faults by names joined with commas. Raises ``ValueError`` naming one that there is not."""
    wrong = [name for name in names.split(",") if name not in FAULTS]
    if wrong:
        raise ValueError(f"faults: expected names of {', '.join(FAULTS)}, got {', '.join(wrong)}")
    return _join(*(FAULTS[name] for name in names.split(",")))
