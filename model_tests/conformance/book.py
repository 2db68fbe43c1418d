"""What the suite knows of its rooms: what it asked for, and what it was told. It never looks into an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import shake_128

from .plug import DECODE, PREFILL, SIDES, Side

__all__ = ["End", "Memory", "Room", "bytes_of"]

#: Faults after which a complete hand-off is still to succeed.
HARMLESS = frozenset({"message_copied", "rank_late"})
#: Faults of a whole side, or of a whole rank of it.
WHOLE = frozenset({"peer_silent", "peer_killed", "rank_silent", "rank_killed"})
#: Faults of one rank.
RANK = frozenset({"rank_silent", "rank_killed", "rank_error", "rank_late"})
#: Faults after which this side, however it goes on, has said what is not so: what it tells of itself proves nothing.
LIES = frozenset({"forged_conclude", "forged_passed", "forged_destinations"})
#: Faults with which there is no Success at decode, if they came soon enough (see :attr:`Room.sure`), and by which requirement.
SPOILS = {
    "commit_fails": "KVX-FAULT-6", "aux_wrong": "KVX-DATA-5", "mismatched": "KVX-PAIR-9", "room_taken": "KVX-REUSE-4",
    "rank_killed": "KVX-RANK-1",
}  # fmt: skip

#: A peer that says what is not so, and which requirement speaks of that.
FORGED = {
    "forged_conclude": "KVX-FORGE-1", "forged_done": "KVX-FORGE-2", "forged_abort": "KVX-FORGE-3",
    "forged_plan": "KVX-FORGE-4", "forged_close": "KVX-FORGE-5", "forged_destinations": "KVX-FORGE-6",
    "forged_passed": "KVX-FORGE-7", "forged_unknown": "KVX-FORGE-8", "forged_busy": "KVX-FORGE-9",
}  # fmt: skip


def bytes_of(what: str, length: int) -> bytes:
    """Bytes that say what they are: no two names give the same."""
    return shake_128(what.encode()).digest(length)


@dataclass(slots=True, eq=False)
class End:
    """One side of a room."""

    side: Side
    total: int  #: pages, as this side was told
    inited: bool = False
    cleared: bool = False
    aborted: bool = False
    dead: bool = False  #: its process was killed
    stopped: bool = False  #: its side was shut down
    late: bool = False  #: it was created after its side was stopped
    state: int = -1  #: the last one it told; -1: none
    seen: int = -1  #: the highest
    why: str = ""
    released: bool = False

    @property
    def over(self) -> bool:
        return self.state in (0, 4)

    @property
    def alive(self) -> bool:
        """It can be asked."""
        return not (self.cleared or self.dead)


@dataclass(slots=True, eq=False)
class Room:
    """One attempt of one room number."""

    label: str
    number: int
    attempt: int
    ends: dict[Side, End] = field(default_factory=dict)
    source: list[int] = field(default_factory=list)  #: prefill pages, all of them, filled at creation
    target: list[int] = field(default_factory=list)  #: decode pages
    data: bytes = b""
    sent: int = 0
    closed: bool = False
    meta: bool = False
    wrong: bool = False  #: a wrong call for it was accepted, or one that may be refused
    met: bool = False  #: it was given up, and the other side can have known of it (see KVX-ABORT-2)
    faults: list[str] = field(default_factory=list)
    sure: set[str] = field(default_factory=set)  #: faults that came before what they spoil
    gates: dict[str, str] = field(default_factory=dict)  #: by name: close, open or fail

    def end(self, side: Side) -> End | None:
        return self.ends.get(side)

    @property
    def paired(self) -> bool:
        return len(self.ends) == 2

    @property
    def given_up(self) -> bool:
        ends = any(end.aborted or end.cleared or end.stopped for end in self.ends.values())
        return ends or "fail" in self.gates.values()

    @property
    def gated(self) -> bool:
        """A gate is not open."""
        return any(state != "open" for state in self.gates.values())

    @property
    def equal(self) -> bool:
        """Both sides were told the same length."""
        return len({end.total for end in self.ends.values()}) == 1

    @property
    def complete(self) -> bool:
        """Everything was called that a hand-off needs, and it is nobody's fault if it does not succeed."""
        whole = self.paired and self.equal and self.meta and self.closed and self.sent == len(self.source)
        return whole and not self.given_up and not self.wrong and not self.gated

    @property
    def open(self) -> list[End]:
        """Ends that can be asked and are not over."""
        return [end for end in self.ends.values() if end.alive and not end.over]

    def told_by(self, side: Side) -> bool:
        """Can the other side hear of it when this one gives up now? A prefill side that still waits for its first
        destinations has nobody yet to hear it from."""
        prefill = self.ends.get(PREFILL)
        return self.paired and (side == PREFILL or (prefill is not None and prefill.seen >= 2))

    def hit(self, fault: str, side: Side) -> None:
        """A fault. It spoils the room for sure before the last chunk; what the sides find when they meet, before that."""
        self.faults.append(fault)
        if fault == "rank_killed" and side not in self.ends:
            return  # a rank that had not heard of the room may be back before it does
        if fault in SPOILS and not (DECODE in self.ends if fault in ("mismatched", "room_taken") else self.closed):
            self.sure.add(fault)

    def failed(self) -> bool:
        return any(end.state == 0 for end in self.ends.values())


class Memory:
    """What the pages of both sides must hold, as far as it is known. A page is lent once in a case."""

    def __init__(self, pages: int, page_bytes: int, case: str) -> None:
        self.pages, self.size, self.case = pages, page_bytes, case
        self.free: dict[Side, list[int]] = {side: list(range(pages)) for side in SIDES}
        self.holds: dict[Side, dict[int, bytes]] = {
            side: {page: bytes_of(f"{case} guard {side} {page}", page_bytes) for page in range(pages)} for side in SIDES
        }
        self.owner: dict[Side, dict[int, Room]] = {side: {} for side in SIDES}

    def take(self, side: Side, count: int, room: Room) -> list[int]:
        """Pages for a room: never neighbours, never in order, so that a shifted one is seen."""
        free = self.free[side]
        taken = [free.pop((7 * at + 3) % len(free)) for at in range(min(count, len(free)))]
        self.owner[side].update(dict.fromkeys(taken, room))
        return taken

    def set(self, side: Side, pages: list[int], data: bytes) -> None:
        """From now on they hold this."""
        for at, page in enumerate(pages):
            self.holds[side][page] = data[at * self.size : (at + 1) * self.size]

    def unknown(self, side: Side, pages: list[int]) -> None:
        """From now on it is not known what they hold."""
        for page in pages:
            self.holds[side].pop(page, None)

    def wrong(self, side: Side, data: bytes) -> list[tuple[int, Room | None]]:
        """Pages that do not hold what they must, and whose they are, given the bytes of all pages."""
        holds, size = self.holds[side], self.size
        bad = [page for page, want in holds.items() if data[page * size : (page + 1) * size] != want]
        return [(page, self.owner[side].get(page)) for page in bad]

    def all(self, side: Side) -> bytes:
        return b"".join(self.holds[side][page] for page in range(self.pages))


def sides_of(room: Room) -> str:
    """For sentences."""
    return ", ".join(
        f"{side} {end.state if end.state >= 0 else '?'}"
        for side in (PREFILL, DECODE)
        if (end := room.ends.get(side)) is not None
    )
