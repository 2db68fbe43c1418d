"""What a check remembers: processes, their machines, and which messages they saw."""

from __future__ import annotations

from typing import TypeAlias

from .places import Place

__all__ = ["Instance", "Key", "Machine", "Seen"]

#: Which message: link, kind, state that it says, receiver engine, gen.
Key: TypeAlias = tuple[str, str, str, str, int | None]
#: When and where a message was seen first: t, file, line.
Seen: TypeAlias = tuple[int, str, int]


class Machine:
    """One end of a room, or a link, and where it is."""

    __slots__ = ("end", "engine", "file", "gen", "instance", "line", "no", "place", "role", "room")

    def __init__(self, instance: Instance, role: str, no: int | str, place: Place) -> None:
        self.instance = instance
        self.role = role
        self.no = no
        self.place = place
        self.room: int | None = None
        self.engine = ""
        self.gen: int | None = None
        self.file, self.line = "", 0  #: its last step
        self.end: tuple[int, str, int] | None = None  #: when and where it became terminal: t, file, line

    def pair(self, engine: str, gen: int) -> None:
        """It is an end of this attempt."""
        self.engine, self.gen = engine, gen
        self.instance.attempts[engine, gen] = self

    @property
    def who(self) -> str:
        room = "" if self.room is None else f" (room {self.room})"
        return f"{self.role} {self.no} of {self.instance.who}{room}"

    @property
    def outcome(self) -> str:
        """The state, where only one is possible."""
        states = self.place.states
        return states[0] if len(states) == 1 else ""


class Instance:
    """One process's run."""

    __slots__ = (
        "attempts", "clock", "closed", "engine", "file", "foreign", "headed", "heard", "line", "lines", "links", "machines",
        "name", "process", "sent", "skipped", "tables", "told", "version", "whole",
    )  # fmt: skip

    def __init__(self, name: str, file: str, line: int) -> None:
        self.name = name
        self.file, self.line = file, line  #: where it was met
        self.lines = 0
        self.headed = self.closed = self.foreign = False
        self.whole = False  #: from its head to its end, nothing is missing
        self.skipped = 0  #: lines that were too many to follow
        self.engine = self.process = self.clock = self.tables = ""
        self.version = 0
        self.machines: dict[str, dict[int | str, Machine]] = {}  #: by role, then no (or link)
        self.attempts: dict[tuple[str, int], Machine] = {}  #: by engine and gen: ends of rooms that are paired
        self.links: set[str] = set()
        self.sent: dict[Key, Seen] = {}
        self.heard: dict[Key, Seen] = {}
        self.told: set[tuple[str, int, str]] = set()  #: (engine, gen, state) as the other end said it

    @property
    def who(self) -> str:
        return f"{self.process} {self.name[:8]}".lstrip()
