"""The laws: what is judged in every case, whatever it does. They look at every answer of poll(), and at the bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kvpoll.spec.requirements import REQUIREMENTS

from .book import FORGED, LIES, SPOILS, End, Memory, Room, bytes_of, sides_of
from .calls import Answer, Gone, ask
from .plug import DECODE, PREFILL, SIDES, About, Adapter, Side
from .result import TraceStep

__all__ = ["Watch", "declared"]

_NAMES = ("Failed", "Bootstrapping", "WaitingForInput", "Transferring", "Success")
#: Lines of one trace, characters of one detail.
_LINES, _DETAIL = 400, 300
#: Pages of a side that a case uses at most.
_PAGES = 64
T = TypeVar("T")


def declared(about: About) -> frozenset[str]:
    """Every tag that requirements and cases may need."""
    limits = {
        f"limit:{name}"
        for name in ("pairing", "waiting", "silence", "total", "gate")
        if getattr(about.limits, name) is not None
    }
    return about.capabilities | about.faults | limits


class Watch:
    """One case's eyes: the clock, the trace, the rooms, the memory, and what was found broken."""

    def __init__(self, adapter: Adapter, about: About, case: str, first_room: int, profiles: frozenset[str]) -> None:
        self.adapter, self.about, self.limits = adapter, about, about.limits
        self.tags = declared(about)
        self.profiles = profiles
        self.rooms: list[Room] = []
        self.current: dict[str, Room] = {}
        self.memory = Memory(min(about.pages, _PAGES), about.page_bytes, case)
        self.sees = "memory" in self.tags
        self.blind: set[Side] = set()  #: sides whose memory is gone
        self.stopped: set[Side] = set()  #: sides that take no new rooms
        self.many = False  #: a side has several ranks
        self.broken: dict[str, str] = {}
        self.trace: list[TraceStep] = []
        self._first = first_room
        self._started = time.monotonic()
        self._simulated = 0.0

    # -- time ----------------------------------------------------------------------------------------------------------
    @property
    def now(self) -> float:
        """Seconds since the case began, on the engine's clock."""
        return self._simulated if self.about.clock == "simulated" else time.monotonic() - self._started

    def advance(self, seconds: float) -> None:
        self.must(lambda: self.adapter.advance(seconds), "advance")
        self._simulated += seconds
        self.observe()

    def heal(self) -> None:
        """Every fault is over."""
        self.say("suite", "heal")
        self.must(self.adapter.heal, "heal")

    def limit(self, name: str) -> float:
        """A limit with what a fair judge adds. "ends": the longest that any room may take."""
        react = self.limits.react
        if name == "ends":
            finite = [value for value in self._long() if value is not None]
            value = self.limits.total or (max(finite) if finite else 0.0)
        else:
            value = getattr(self.limits, name)
        return float(value) * (1.0 if self.about.clock == "simulated" else 1.25) + react

    def _long(self) -> tuple[float | None, ...]:
        return self.limits.pairing, self.limits.waiting, self.limits.silence

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until it is so; ``False``: it is not, after so long."""
        end, step = self.now + seconds, self.limits.react / 50
        while not until():
            left = end - self.now
            if left <= 0:
                return False
            self.advance(min(step, left))
            step = min(step * 1.5, max(seconds / 10, self.limits.react / 50))
        return True

    # -- books ---------------------------------------------------------------------------------------------------------
    def say(self, who: str, what: str, detail: str = "") -> None:
        if len(self.trace) < _LINES:
            self.trace.append(TraceStep(who, what, detail[:_DETAIL], round(self.now, 6)))

    def judge(self, id: str, sentence: str) -> None:
        """A requirement does not hold. One that does not apply to this implementation, or to this run, says nothing."""
        wanted = REQUIREMENTS[id]
        if wanted.profile in self.profiles and set(wanted.needs) <= self.tags and id not in self.broken:
            self.broken[id] = sentence
            self.say("suite", f"broken {id}", sentence)

    def must(self, call: Callable[[], T], what: str) -> T:
        """A call of the adapter itself, not of the engine: it has no right to fail."""
        answer = ask(call)
        if not answer.ok:
            raise Gone(f"{what}() raised: {answer.refused}")
        return answer.value  # type: ignore[return-value]

    def new_room(self, label: str) -> Room:
        earlier = [room for room in self.rooms if room.label == label]
        number = earlier[0].number if earlier else self._first + len(self.current)
        room = Room(label, number, len(earlier))
        self.rooms.append(room)
        self.current[label] = room
        return room

    # -- what is seen --------------------------------------------------------------------------------------------------
    def observe(self) -> None:
        """Poll every end that can be asked, and hold the answers to the laws."""
        for room in self.rooms:
            for end in list(room.ends.values()):
                if end.alive:
                    self._poll(room, end)
                if not end.dead and not end.released:
                    self._released(room, end)

    def _poll(self, room: Room, end: End) -> None:
        answer: Answer[int] = ask(lambda: self.adapter.poll(end.side, room.number))
        if not answer.ok:
            self.judge("KVX-CALL-4", f"poll() of room {room.label} at {end.side}: {answer.refused}")
            return
        value, before = answer.value, end.state
        if value == before:
            return
        self.say(end.side, f"poll {before if before >= 0 else '-'} -> {value}", f"room {room.label}")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 4:
            self.judge("KVX-STATE-1", f"poll() of room {room.label} at {end.side} told {value!r}")
            return
        what = f"room {room.label} at {end.side} went from {_NAMES[before]} to {_NAMES[value]}"
        if end.over:
            self.judge("KVX-STATE-2", what)
        elif 0 < value < before:
            self.judge("KVX-STATE-3", what)
        elif before < 0 and value in (3, 4):
            self.judge("KVX-STATE-4", f"room {room.label} at {end.side} began as {_NAMES[value]}")
        end.state, end.seen = value, max(end.seen, value)
        if value == 0:
            self._failed(room, end)
        if value == 4 and end.late:
            self.judge("KVX-STOP-1", f"room {room.label} came after {end.side} was stopped, and is Success there")
        if value == 4 and end.side == DECODE:
            self._arrived(room)
        if value == 4 and end.side == PREFILL and "forged_conclude" in room.faults and room.sent < len(room.source):
            self.judge("KVX-FORGE-1", f"room {room.label} is Success at prefill after {room.sent} of {end.total} pages")

    def _failed(self, room: Room, end: End) -> None:
        if "why" not in self.tags:
            return
        answer = ask(lambda: self.adapter.why(end.side, room.number))
        end.why = answer.value or ""
        self.say(end.side, "why", end.why or answer.refused)
        if not end.why:
            self.judge("KVX-END-3", f"room {room.label} failed at {end.side} and does not say why")

    def _arrived(self, room: Room) -> None:
        """The decode side says Success."""
        if not room.closed and room.sent < len(room.source):  # who counts pages may be done before an empty last chunk
            self.judge("KVX-DATA-2", f"room {room.label} is Success at decode after {room.sent} pages, not the last")
        if room.gated:
            said = ", ".join(f"{name} is {state}" for name, state in room.gates.items() if state != "open")
            self.judge("KVX-GATE-1", f"room {room.label} is Success at decode, and gate {said}")
        for fault, id in SPOILS.items():
            if fault in room.sure:
                self.judge(id, f"room {room.label} is Success at decode after {fault}")
        if not self.sees or DECODE in self.blind or LIES & set(room.faults):
            return
        got = self.must(lambda: self.adapter.read(DECODE, room.target), "read")
        size = self.memory.size
        if got != room.data:
            bad = [
                at
                for at in range(len(room.source))
                if got[at * size : at * size + size] != room.data[at * size : at * size + size]
            ]
            short = "" if len(got) == len(room.data) else f"{len(got)} bytes instead of {len(room.data)}, "
            sentence = f"room {room.label} is Success at decode with wrong bytes: {short}pages {bad}"
            self.judge("KVX-DATA-1", sentence)
            for fault, id in (("truncate", "KVX-FAULT-5"), ("mover_corrupts", "KVX-DATA-4")):
                if fault in room.faults:
                    self.judge(id, sentence)
            for fault in FORGED.keys() & set(room.faults):
                self.judge(FORGED[fault], sentence)
            if self.many:
                self.judge("KVX-RANK-1", sentence)
            if not room.equal:
                self.judge("KVX-PAIR-6", sentence)
            source = room.end(PREFILL)
            if source is not None and source.released and room.equal and not room.faults:  # else that is why
                self.judge("KVX-MEM-7", sentence + "; its source pages were used again")
            self.memory.unknown(DECODE, room.target)
        else:
            self.memory.set(DECODE, room.target, got)

    # -- memory --------------------------------------------------------------------------------------------------------
    def _released(self, room: Room, end: End) -> None:
        """Once pages may be used again, somebody else uses them: fill them with something else."""
        if "released" not in self.tags:
            return
        lent = room.target if end.side == DECODE else room.source
        if not lent or (not end.over and not end.cleared and (end.side == DECODE or not room.closed)):
            return
        if self.current[room.label] is not room and end.side in self.current[room.label].ends:
            return  # the number belongs to another attempt by now
        if not ask(lambda: self.adapter.released(end.side, room.number)).value:
            return
        end.released = True
        self.say(end.side, "released", f"room {room.label}")
        if self.sees and end.side not in self.blind and (end.side == PREFILL or end.state != 4):
            self.fill(end.side, lent, f"{room.label} {room.attempt} used again {end.side}")

    def early(self, room: Room) -> None:
        """Pages of a live room may not be used again."""
        end = room.end(DECODE)
        if end is None or not end.alive or end.over or not room.target or "released" not in self.tags:
            return
        if ask(lambda: self.adapter.released(DECODE, room.number)).value:
            self._poll(room, end)
            if not end.over:
                self.judge("KVX-MEM-6", f"pages of room {room.label} may be used again while it is {end.state}")

    def fill(self, side: Side, pages: list[int], what: str) -> bytes:
        """Pages hold something else from now on. Returns the bytes."""
        data = bytes_of(f"{self.memory.case} {what}", len(pages) * self.memory.size)
        if self.sees:
            self.must(lambda: self.adapter.fill(side, pages, data), "fill")
            self.memory.set(side, pages, data)
        return data

    def guard(self) -> None:
        """Every page holds something of its own before the case begins."""
        if self.sees:
            pages = list(range(self.memory.pages))
            for side in SIDES:
                self.must(lambda side=side: self.adapter.fill(side, pages, self.memory.all(side)), "fill")  # type: ignore[misc]

    def compare(self) -> None:
        """Every page holds what it must."""
        if not self.sees:
            return
        pages = list(range(self.memory.pages))
        for side in SIDES:
            if side in self.blind:
                continue
            data = self.must(lambda side=side: self.adapter.read(side, pages), "read")  # type: ignore[misc]
            for page, room in self.memory.wrong(side, data):
                if side == PREFILL:
                    self.judge("KVX-MEM-4", f"source page {page} was written")
                elif room is None:
                    self.judge("KVX-MEM-1", f"page {page} belongs to no room and was written")
                elif FORGED.keys() & set(room.faults):
                    continue  # a prefill side that says it is over, and goes on writing, can be believed by anybody
                elif room.ends[DECODE].state == 4:
                    self.judge("KVX-MEM-3", f"page {page} of room {room.label} was written after Success")
                else:
                    told = f"room {room.label} ({sides_of(room)})"
                    sentence = f"page {page} was written for {told} after it could be used again"
                    self.judge("KVX-MEM-2", sentence)
                    if "mover_stalls" in room.faults:
                        self.judge("KVX-KV-6", sentence)
