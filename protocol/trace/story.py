"""The story of a room: what each of its ends did and said, in order, with every message beside its arrival.

A second reading (after :class:`~.survey.Survey` has named the rooms) that keeps all of the rooms it is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from .lines import LINKS, Line
from .survey import EndNote, RoomNote, Survey

__all__ = ["End", "Mark", "RoomStory", "Story"]

#: Lines of one room that are kept.
KEPT = 2000


class Mark(msgspec.Struct):
    """One thing that happened at one end. ``t``: ms since the trace began."""

    t: int
    end: int  #: index in ``RoomStory.ends``
    what: str  #: "step", "out" or "in"
    name: str  #: the event with its arguments, or the kind of message
    after: str = ""  #: a step's new state, if it changed it; the state that a Status says
    effects: tuple[str, ...] = ()
    cause: str = ""  #: of a failure; a Refusal's reason
    parts: int = 0
    other: int = -1  #: index of the mark at the other end of this message
    lost: bool = False  #: sent to an end whose trace is here, and not received


class End(msgspec.Struct):
    """One end: a lane. ``spans``: (t, state) where each state begins."""

    who: str
    role: str
    no: int
    gen: int | None = None
    spans: list[tuple[int, str]] = []
    stop: int = 0  #: of its last step or message
    cause: str = ""
    cut: bool = False  #: its process was not closed in order

    @property
    def state(self) -> str:
        return self.spans[-1][1] if self.spans else ""


class RoomStory(msgspec.Struct):
    """One room, times in ms since the trace began."""

    room: int
    outcome: str
    causes: list[str]
    start: int
    stop: int
    ends: list[End]
    marks: list[Mark]
    left_out: int = 0  #: lines that were too many


class Story:
    """Take all lines once more, then read :meth:`rooms`."""

    def __init__(self, survey: Survey, rooms: Iterable[int]) -> None:
        self._survey = survey
        self._offsets = survey.offsets()
        self._lines: dict[int, list[Line]] = {room: [] for room in rooms}
        self._left_out: dict[int, int] = {}
        notes = survey.rooms.values()
        starts = [end.start + self._offsets[end.instance] for note in notes for end in note.ends]
        self.began = min(starts, default=0)  #: ms since 1970 if any head says so

    def take(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if line.room is None or line.role == LINKS:
                continue
            kept = self._lines.get(line.room)
            if kept is None:
                continue
            if len(kept) < KEPT:
                kept.append(line)
            else:
                self._left_out[line.room] = self._left_out.get(line.room, 0) + 1

    def rooms(self) -> list[RoomStory]:
        """In the order asked for."""
        return [self._room(self._survey.rooms[room], lines) for room, lines in self._lines.items()]

    def _room(self, note: RoomNote, lines: list[Line]) -> RoomStory:
        # Of equal times what was sent comes before what arrived; within a process the order is as written.
        lines = sorted(lines, key=self._time)
        lanes = _Lanes(self, note, lines)
        marks: list[Mark] = []
        for line in lines:
            end = lanes.end(line)
            marks.append(self._mark(line, end))
            lane = lanes.ends[end]
            lane.stop = max(lane.stop, marks[-1].t)
            if line.event:
                if not lane.spans:
                    lane.spans.append((marks[-1].t, line.before))
                if line.after != line.before:
                    lane.spans.append((marks[-1].t, line.after))
                    lane.cause = line.cause or lane.cause
        _pair(lines, marks)
        marks, order = _causal(marks)
        for mark in marks:
            if mark.other >= 0:
                mark.other = order[mark.other]
        began = min((mark.t for mark in marks), default=0)
        stop = max((end.spans[-1][0] for end in lanes.ends if end.spans), default=began)
        return RoomStory(
            note.room,
            note.outcome,
            note.causes,
            began,
            max(stop, began),
            lanes.ends,
            marks,
            self._left_out.get(note.room, 0),
        )

    def _time(self, line: Line) -> int:
        return line.t + self._offsets[line.instance]

    def _mark(self, line: Line, end: int) -> Mark:
        t = self._time(line) - self.began
        if line.event:
            after = line.after if line.after != line.before else ""
            return Mark(t, end, "step", line.event, after, line.effects, line.cause)
        return Mark(t, end, line.way, line.kind, line.state, (), line.cause or line.reason, line.parts)

    def lane(self, note: EndNote) -> End:
        """An end as it appears first."""
        cut = note.instance not in self._survey.closed
        gen = note.no if note.role == "receiver" else None
        return End(self._survey.who(note.instance), note.role, note.no, gen, [], 0, "", cut and not note.over)

    def who(self, instance: str) -> str:
        return self._survey.who(instance)

    def engine(self, instance: str) -> str:
        head = self._survey.heads.get(instance)
        return "" if head is None else head.engine


class _Lanes:
    """Which line belongs to which end of a room. Senders stand first."""

    def __init__(self, story: Story, note: RoomNote, lines: list[Line]) -> None:
        self._story = story
        notes = sorted(note.ends, key=lambda end: (end.role != "sender", end.start))
        self.ends = [story.lane(end) for end in notes]
        self._by_no = {(end.instance, end.role, end.no): index for index, end in enumerate(notes)}
        self._by_attempt: dict[tuple[str, str, int | None], int] = {}
        self._strangers: dict[str, int] = {}
        for line in lines:
            if line.event and line.gen is not None:
                index = self._by_no.get((line.instance, line.role, line.no))
                if index is not None:
                    self._by_attempt[line.instance, line.engine, line.gen] = index
                    self.ends[index].gen = line.gen

    def end(self, line: Line) -> int:
        if line.event:
            index = self._by_no.get((line.instance, line.role, line.no))
        elif line.engine == self._story.engine(line.instance) != "" and line.gen is not None:
            index = self._by_no.get((line.instance, "receiver", line.gen))
        else:
            index = self._by_attempt.get((line.instance, line.engine, line.gen))
        if index is None:  # old traces name no engine; and a process hears of rooms that it has no end of
            own = [i for (instance, _, _), i in self._by_no.items() if instance == line.instance]
            index = own[0] if own else self._strangers.get(line.instance)
        if index is None:
            index = self._strangers[line.instance] = len(self.ends)
            self.ends.append(End(self._story.who(line.instance), "no end", 0))
        return index


def _pair(lines: list[Line], marks: list[Mark]) -> None:
    """The n-th arrival of a message is of the n-th sending of an equal one, at another process."""
    sent: dict[tuple[str, str, str, str, int | None], dict[str, deque[int]]] = {}
    heard = {(line.instance, line.link) for line in lines if line.way == "in"}
    for index, line in enumerate(lines):
        if line.way == "out":
            by_speaker = sent.setdefault((line.link, line.kind, line.state, line.engine, line.gen), {})
            by_speaker.setdefault(line.instance, deque()).append(index)
    for index, line in enumerate(lines):
        if line.way == "in":
            by_speaker = sent.get((line.link, line.kind, line.state, line.engine, line.gen), {})
            waiting = next((queue for who, queue in by_speaker.items() if who != line.instance and queue), None)
            if waiting is not None:
                other = waiting.popleft()
                marks[index].other, marks[other].other = other, index
    for by_speaker in sent.values():
        for index in (index for queue in by_speaker.values() for index in queue):
            line = lines[index]
            marks[index].lost = any(link == line.link and instance != line.instance for instance, link in heard)


def _causal(marks: list[Mark]) -> tuple[list[Mark], dict[int, int]]:
    """Within a millisecond, a message stands before its arrival and before what followed there. Each end's own order stays.
    Returns the marks and their new places."""
    queues: dict[int, deque[int]] = {}
    for index, mark in enumerate(marks):
        queues.setdefault(mark.end, deque()).append(index)
    order: dict[int, int] = {}
    result: list[Mark] = []
    while len(result) < len(marks):
        heads = [queue[0] for queue in queues.values() if queue]
        free = [i for i in heads if marks[i].what != "in" or marks[i].other < 0 or marks[i].other in order]
        at = min(free or heads, key=lambda i: (marks[i].t, i))
        queues[marks[at].end].popleft()
        order[at] = len(result)
        result.append(marks[at])
    return result, order
