"""What a check says: the bad lines, what was looked at, and what could not be."""

from __future__ import annotations

import msgspec

__all__ = ["Bad", "Verdict"]


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """One line that cannot be. All of it is text for people; ``what`` is for machines."""

    file: str
    line: int  #: from 1
    what: str  #: "line", "head", "end", "event", "from", "step", "room", "message", "proof", "outcome", "unsent"
    says: str  #: the sentence
    who: str = ""  #: ``sender 4 of 102c1b03 (room 7)``
    at: str = ""  #: where its machine was: state and fields, ``?`` where the trace does not tell
    got: str = ""  #: what the line says
    expected: tuple[str, ...] = ()  #: the rows that decide this event there, with their reasons
    legal: tuple[str, ...] = ()  #: every event that is legal there, by what it does


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole. Exit statuses follow from it: see :attr:`status`."""

    lines: int
    steps: int
    messages: int
    processes: int
    machines: int  #: ends of rooms, and links
    rooms: int
    bad: tuple[Bad, ...]  #: the first ones, in the order of reading; those of the whole come last
    bad_lines: int  #: all of them
    unread: int  #: lines of other versions
    notes: tuple[str, ...]  #: what limits the verdict

    @property
    def status(self) -> int:
        """0: every line can be. 1: one cannot. 2: not checked: no events, or lines of another version."""
        if self.bad_lines:
            return 1
        return 2 if self.unread or not self.steps + self.messages else 0
