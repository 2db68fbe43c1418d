"""Holding a trace to the tables, line by line.

A step must be an edge of its table from where its machine is, with the very effects and cause of the row; so guards are
checked too, and nothing leaves a terminal state. A message must be of a kind that there is and come from the end that may
send it, an ABORT or CONCLUDE must be true when it is said, and a CONCLUDED or PEER_FAILED must have been heard. What
needs the traces of both ends is checked at the end, by :mod:`.whole`.

Lines come process by process or mixed, as long as those of one process stand in order. After a bad line the machine is
taken to be where that line says, so that one mistake is one bad line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvpoll.spec.schema import SENT_BY

from .explain import bad_first, bad_step
from .follow import Instance, Machine
from .lines import VERSION, Line, TraceError, decode, decode_all, split, tables_digest
from .places import MAPS, Move, Place
from .verdict import Bad, Verdict
from .whole import check_whole

__all__ = ["Checker"]

#: Bad lines that are kept; all are counted.
KEPT = 100
#: Machines, and different messages, that are followed.
LIMIT = 2_000_000
#: Room messages that state an end: the state in which it is true.
_STATES = {"Conclude": "Success", "Abort": "Failed"}


class Checker:
    """Feed it pieces of files, then ask for the verdict. ``limit`` bounds what it remembers."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.instances: dict[str, Instance] = {}
        self._limit = limit
        self._room_left = limit
        self._file = ""
        self._bad: list[Bad] = []
        self._bad_lines = self._lines = self._steps = self._messages = self._unread = self._torn = 0

    def file(self, name: str) -> None:
        """What comes is of this file."""
        self._file = name

    def feed(self, data: bytes, first: int, last: bool = False) -> int:
        """Whole lines, of which the first has number ``first``; with ``last`` the end of the file, where a line may be cut
        off. Returns the number of the next line."""
        whole, torn = (data, b"") if data.endswith(b"\n") or not last else split(data)
        lines = decode_all(whole)
        number = self.take(lines, first) if lines is not None else self._slowly(whole.splitlines(), first)
        if torn.strip():
            number = self._last(torn, number)
        return number

    def take(self, lines: Iterable[Line], first: int) -> int:
        """Lines that are decoded already. Returns the number of the next line."""
        instances, number, file, steps, messages = self.instances, first, self._file, 0, 0
        for line in lines:
            try:
                instance = instances[line.instance]
            except KeyError:
                instance = self._meet(line.instance, number)
            instance.lines += 1
            event = line.event
            if instance.foreign:
                self._unread += 1
            elif event:
                steps += 1
                try:
                    machine = instance.machines[line.role][line.no or line.link]
                except KeyError:
                    found = self._machine(instance, line, number)
                    if found is None:
                        number += 1
                        continue
                    machine = found
                place = machine.place
                move = place.moves.get(event) or place.move(event)
                while move is not None:
                    if (
                        move.after == line.after
                        and move.before == line.before
                        and move.effects == line.effects
                        and move.cause == line.cause
                    ):
                        break
                    move = move.other
                else:
                    self._bad_step(machine, line, number)
                if machine.room != line.room and line.room is not None:
                    self._room(machine, line, number)
                if line.gen is not None and machine.gen is None:
                    machine.pair(line.engine, line.gen)
                if move is not None:
                    machine.place = move.place
                    if move.special:
                        self._moved(machine, move, line, number)
                machine.line = number
                machine.file = file
            elif line.way:
                messages += 1
                box = instance.heard if line.way == "in" else instance.sent
                key = (line.link, line.kind, line.state, line.engine, line.gen)
                if key not in box:
                    self._message(instance, line, number)
            elif line.trace:
                self._head(instance, line, number)
            elif line.end:
                self._end(instance, line, number)
            else:
                self._add("line", number, "neither a step (event) nor a message (way), a head (trace) or an end (end)")
            number += 1
        self._lines += number - first
        self._steps += steps
        self._messages += messages
        return number

    def verdict(self) -> Verdict:
        """What is known so far, the checks over several processes included. Call it once, at the end."""
        for bad in check_whole(self.instances):
            self._keep(bad)
        machines = [
            m for instance in self.instances.values() for kind in instance.machines.values() for m in kind.values()
        ]
        return Verdict(
            lines=self._lines, steps=self._steps, messages=self._messages, processes=len(self.instances),
            machines=len(machines), rooms=len({machine.room for machine in machines} - {None}), bad=tuple(self._bad),
            bad_lines=self._bad_lines, unread=self._unread, notes=tuple(self._notes()),
        )  # fmt: skip

    # -- lines that are not simply right ------------------------------------------------------------------------------------
    def _slowly(self, raws: list[bytes], number: int) -> int:
        for raw in raws:
            if raw.strip():
                try:
                    line: Line | None = decode(raw)
                except TraceError as error:
                    line = self._mended(raw)
                    if line is None:
                        self._add("line", number, error.reason)
                if line is not None:
                    self.take((line,), number)
                else:
                    self._lines += 1
            number += 1
        return number

    def _mended(self, raw: bytes) -> Line | None:
        """A process was killed while it wrote, and another one's line follows its torn one."""
        at = raw.rfind(b'{"t":')
        if at <= 0:
            return None
        try:
            line = decode(raw[at:])
        except TraceError:
            return None
        self._torn += 1
        return line

    def _last(self, raw: bytes, number: int) -> int:
        try:
            return self.take((decode(raw),), number)
        except TraceError:
            self._torn += 1
            self._lines += 1
            return number + 1

    def _meet(self, name: str, number: int) -> Instance:
        instance = self.instances[name] = Instance(name, self._file, number)
        return instance

    def _machine(self, instance: Instance, line: Line, number: int) -> Machine | None:
        map = MAPS.get(line.role)
        if map is None:
            self._add("line", number, f"role: expected one of {', '.join(MAPS)}, got {line.role!r}")
            return None
        if self._room_left <= 0:
            instance.skipped += 1
            return None
        self._room_left -= 1
        machine = Machine(instance, line.role, line.no or line.link, map.start)
        machine.room, machine.line, machine.file = line.room, number, self._file
        if line.role == "receiver" and instance.engine:
            machine.pair(instance.engine, line.no)
        if not instance.headed:
            machine.place = map.anywhere(line.before) if line.before in map.states else map.anywhere(map.states[0])
        if line.before not in machine.place.states:
            self._keep(bad_first(machine, line, number, self._file))
            machine.place = map.anywhere(line.before)
        instance.machines.setdefault(line.role, {})[machine.no] = machine
        return machine

    def _bad_step(self, machine: Machine, line: Line, number: int) -> None:
        self._keep(bad_step(machine, line, number, self._file))
        place: Place = machine.place.map.anywhere(line.after)
        if place.nodes:
            machine.place = place

    def _room(self, machine: Machine, line: Line, number: int) -> None:
        if machine.room is not None:
            self._add("room", number, f"room {line.room}, but it was room {machine.room} before", machine.who)
        machine.room = line.room

    def _moved(self, machine: Machine, move: Move, line: Line, number: int) -> None:
        if move.terminal:
            machine.end = (line.t, self._file, number)
        instance = machine.instance
        if not move.proof or machine.gen is None or not instance.headed or instance.skipped:
            return
        if (machine.engine, machine.gen, move.proof) not in instance.told:
            said = "CONCLUDE" if move.proof == "Success" else "ABORT"
            text = f"{line.event}, but no {said} of this attempt (or STATUS that says the same) has arrived"
            self._add("proof", number, text, machine.who)

    def _message(self, instance: Instance, line: Line, number: int) -> None:
        """The first message of its kind about this attempt: those that follow say the same."""
        senders = SENT_BY.get(line.kind)
        if senders is None:
            self._add("message", number, f"kind: expected one of {', '.join(SENT_BY)}, got {line.kind!r}")
            return
        if line.way not in ("in", "out"):
            self._add("message", number, f"way: expected in or out, got {line.way!r}")
            return
        if self._room_left <= 0:
            instance.skipped += 1
            return
        self._room_left -= 1
        box = instance.heard if line.way == "in" else instance.sent
        box[line.link, line.kind, line.state, line.engine, line.gen] = (line.t, self._file, number)
        instance.links.add(line.link)
        if line.gen is None or not line.engine or not instance.engine:
            return
        ours = line.engine == instance.engine
        speaker = "receiver" if ours is (line.way == "out") else "sender"
        if speaker not in senders:
            text = f"{line.kind} goes {line.way}: it is said by the {' or '.join(senders)}, and this one is by the {speaker}"
            self._add("message", number, text, instance.who)
        state = line.state or _STATES.get(line.kind, "")
        if line.way == "in":
            instance.told.add((line.engine, line.gen, state))
        elif instance.headed and state in ("Success", "Failed"):
            self._check_said(instance, line, number, state)

    def _check_said(self, instance: Instance, line: Line, number: int, state: str) -> None:
        """What an end says of itself must be true when it says it."""
        assert line.gen is not None
        machine = instance.attempts.get((line.engine, line.gen))
        if machine is not None and machine.place.states != [state]:
            text = f"{line.kind} says {state}, but this end is at {machine.place.text()}"
            self._add("message", number, text, machine.who)

    def _head(self, instance: Instance, line: Line, number: int) -> None:
        if instance.headed or instance.lines > 1:
            where = f"{instance.file}:{instance.line}"
            self._add("head", number, f"instance {instance.name} has begun at {where} already: is a file given twice?")
            return
        instance.headed = True
        instance.engine, instance.process, instance.clock = line.engine, line.process, line.clock
        instance.version, instance.tables = line.trace, line.tables
        if line.trace != VERSION:
            instance.foreign = True
            self._unread += 1

    def _end(self, instance: Instance, line: Line, number: int) -> None:
        before = instance.lines - 1
        if instance.headed and before != line.end:
            text = f"instance {instance.name} wrote {line.end} lines before this one, {before} of them are here"
            self._add("end", number, text)
        instance.closed = True
        instance.whole = instance.headed and before == line.end and not instance.skipped

    # -- the verdict ------------------------------------------------------------------------------------------------------------
    def _add(self, what: str, number: int, says: str, who: str = "") -> None:
        self._keep(Bad(file=self._file, line=number, what=what, says=says, who=who))

    def _keep(self, bad: Bad) -> None:
        self._bad_lines += 1
        if len(self._bad) < KEPT:
            self._bad.append(bad)

    def _notes(self) -> Iterator[str]:
        all_ = self.instances.values()
        for version in sorted({i.version for i in all_ if i.foreign}):
            names = ", ".join(i.name for i in all_ if i.foreign and i.version == version)
            yield f"not checked: trace format {version} of {names}; this kvpoll reads {VERSION}"
        if any(i.tables not in ("", tables_digest()) for i in all_ if not i.foreign):
            yield "written with other tables than those of this kvpoll: a bad line may be the difference between them"
        if middle := sum(not i.headed for i in all_):
            yield f"{middle} of {len(all_)} processes begin in the middle: their machines may have been anywhere"
        if unclosed := sum(i.headed and not i.foreign and not i.closed for i in all_):
            yield f"{unclosed} of {len(all_)} processes were not closed: killed, or still running"
        if self._torn:
            yield f"{self._torn} torn lines, as of a process that was killed while it wrote"
        if skipped := sum(i.skipped for i in all_):
            yield f"not checked: {skipped} lines about more than {self._limit} machines and messages"
