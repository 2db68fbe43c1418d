"""The rooms of a trace at a glance: how each ended, and when. A first reading that keeps little of many rooms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from kvpoll.spec import TERMINAL

from .lines import LINKS, VERSION, Line

__all__ = ["EndNote", "LinkNote", "RoomNote", "Survey"]

#: Steps of links, and heads, that are kept.
KEPT = 1000
_ENDS = frozenset(state.name for state in TERMINAL)


class EndNote(msgspec.Struct):
    """One end of a room: where it stood last."""

    instance: str
    role: str
    no: int
    start: int
    stop: int
    state: str
    cause: str = ""

    @property
    def over(self) -> bool:
        return self.state in _ENDS


class RoomNote(msgspec.Struct):
    """One room. Its ``outcome``: success when a receiver succeeded, failed when an end failed, else open."""

    room: int
    ends: list[EndNote]

    @property
    def start(self) -> int:
        return min(end.start for end in self.ends)

    @property
    def stop(self) -> int:
        return max(end.stop for end in self.ends)

    @property
    def outcome(self) -> str:
        if any(end.role == "receiver" and end.state == "Success" for end in self.ends):
            return "success"
        return "failed" if any(end.state == "Failed" for end in self.ends) else "open"

    @property
    def causes(self) -> list[str]:
        """The causes of its ends; that the other end had one comes last."""
        ends = sorted(self.ends, key=lambda end: (end.cause == "PEER_ABORTED", end.role))
        return list(dict.fromkeys(end.cause for end in ends if end.cause))


class LinkNote(msgspec.Struct, frozen=True):
    """A link moved."""

    t: int
    instance: str
    who: str
    link: str
    event: str
    before: str
    after: str


class Survey:
    """Take lines, in any number of pieces, then read ``rooms`` (by number, in order of appearance)."""

    def __init__(self) -> None:
        self.rooms: dict[int, RoomNote] = {}
        self.links: list[LinkNote] = []
        self.heads: dict[str, Line] = {}
        self.closed: set[str] = set()
        self.unread = 0
        self._ends: dict[tuple[str, str, int], EndNote] = {}

    def take(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if line.trace:
                self.heads.setdefault(line.instance, line)
                self.unread += line.trace != VERSION
            elif line.end:
                self.closed.add(line.instance)
            elif line.role == LINKS:
                if len(self.links) < KEPT:
                    note = LinkNote(
                        line.t, line.instance, self.who(line.instance), line.link, line.event, line.before, line.after
                    )
                    self.links.append(note)
            elif line.event:
                self._step(line)

    def _step(self, line: Line) -> None:
        key = (line.instance, line.role, line.no)
        end = self._ends.get(key)
        if end is None:
            if line.room is None:
                return
            end = self._ends[key] = EndNote(line.instance, line.role, line.no, line.t, line.t, line.before)
            self.rooms.setdefault(line.room, RoomNote(line.room, [])).ends.append(end)
        if not end.over:
            end.stop = line.t
            end.cause = line.cause or end.cause
        end.state = line.after

    def who(self, instance: str) -> str:
        """A short name of a process: ``prefill 2682a3d6``."""
        head = self.heads.get(instance)
        return f"{head.process} {instance[:6]}".lstrip() if head is not None else instance[:6]

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(note.outcome for note in self.rooms.values())

    @property
    def causes(self) -> Counter[str]:
        """Of failed rooms, each under its first cause."""
        failed = (note for note in self.rooms.values() if note.outcome == "failed")
        return Counter(note.causes[0] if note.causes else "" for note in failed)

    def choose(self, limit: int) -> list[int]:
        """At most so many rooms: those that failed or did not end first, then from the first on. In order of time."""
        order = {"failed": 0, "open": 1, "success": 2}
        notes = sorted(self.rooms.values(), key=lambda note: (order[note.outcome], note.start))[:limit]
        return [note.room for note in sorted(notes, key=lambda note: note.start)]

    def offsets(self) -> Mapping[str, int]:
        """By instance: what to add to its times so that all are ms since 1970. Clocks that are one clock stay one; a
        process without a head is taken to be on the clock of the first."""
        by_clock: dict[str, int] = {}
        for instance, head in self.heads.items():
            by_clock.setdefault(head.clock or instance, head.unix - head.t)
        first = next(iter(by_clock.values()), 0)
        return _Offsets({i: by_clock[head.clock or i] for i, head in self.heads.items()}, first)


class _Offsets(dict[str, int]):
    """With a default for processes that nobody introduced."""

    def __init__(self, known: Mapping[str, int], default: int) -> None:
        super().__init__(known)
        self._default = default

    def __missing__(self, key: str) -> int:
        return self._default
