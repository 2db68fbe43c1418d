"""Runs one case: carries its steps out, then lets every room end, and judges. No case says more than its script does.

What an engine may answer follows from the script alone. A call that comes at its time must be accepted; one that races with
the end of its room may be refused. A room with everything called for and nothing against it must succeed; one that was given
up, or hit by a fault, must end at both sides, by its own limits at the latest; one that the script leaves half done is given
up by the suite. Then everything is healed, memory must come back, and nothing may be written late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kvpoll.spec.requirement import Level
from kvpoll.spec.requirements import REQUIREMENTS

from .book import WHOLE, End, Room, sides_of
from .calls import Gone, ask
from .case import Case
from .ending import Ending
from .plug import DECODE, PREFILL, About, Adapter, Gate, Gated, How, Ranked, Side, Stoppable, Unsupported
from .result import TraceStep, Verdict
from .step import Step
from .watch import Watch

__all__ = ["Driver", "Outcome", "run_case"]


class Outcome(NamedTuple):
    """What became of a case, before anybody's list of known failures."""

    verdict: Verdict
    reason: str
    broken: tuple[str, ...]
    trace: tuple[TraceStep, ...]


def run_case(
    adapter: Adapter, about: About, case: Case, first_room: int, profiles: Iterable[str] = ("common",), fresh: bool = True
) -> Outcome:  # fmt: skip
    """Run one case. ``first_room``: the numbers from here on are free. After a crash or a timeout the adapter is gone."""
    watch = Watch(adapter, about, case.id, first_room, frozenset(profiles))
    try:
        watch.must(lambda: adapter.begin(case.id, fresh), "begin")
        watch.guard()
        driver = Driver(watch)
        for step in case.script:
            driver.do(step)
        Ending(watch).finish()
    except Unsupported as missing:
        return Outcome(Verdict.UNSUPPORTED, f"it cannot do this: {missing}", (), tuple(watch.trace))
    except Gone as gone:
        watch.say("suite", "gone", gone.reason)
        return Outcome(Verdict.TIMEOUT if gone.hung else Verdict.CRASH, gone.reason, (), tuple(watch.trace))
    broken = watch.broken
    if not broken:
        return Outcome(Verdict.PASS, "", (), tuple(watch.trace))
    strict = [id for id in broken if REQUIREMENTS[id].level is not Level.SHOULD]
    first = (strict or list(broken))[0]
    verdict = Verdict.FAIL if strict else Verdict.NON_STRICT
    return Outcome(verdict, f"{first}: {broken[first]}", tuple(broken), tuple(watch.trace))


_GATE: dict[str, Gate] = {"close": "close", "open": "open", "fail": "fail"}


class Driver:
    """The verbs."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.adapter = watch, watch.adapter
        self.verbs: dict[str, Callable[[Step], None]] = {
            "create": self.create, "init": self.init, "meta": self.meta, "send": self.send, "abort": self.abort,
            "clear": self.clear, "fault": self.fault, "heal": self.heal, "tick": self.tick, "settle": self.settle,
            "wait": self.wait, "over": self.over, "expect": self.expect, "holds": self.holds, "tables": self.tables,
            "forge": self.forge, "gate": self.gate, "stop": self.stop, "ranks": self.ranks,
        }  # fmt: skip

    def do(self, step: Step) -> None:
        self.verbs[step.verb](step)

    # -- calls ---------------------------------------------------------------------------------------------------------
    def call(self, step: Step, who: Side, detail: str, call: Callable[[], None], due: bool, room: Room | None) -> bool:
        """Call the engine. ``due``: it comes at its time, and must be accepted, unless the room has just ended."""
        watch = self.watch
        answer = ask(call)
        watch.say(who, f"{step.mark}{step.verb}", detail if answer.ok else f"{detail}: refused, {answer.refused}")
        if answer.raised:
            watch.judge("KVX-CALL-6", f"{step.verb} at {who}: {answer.refused}")
        if answer.ok and step.mark:
            if step.mark == "!":
                watch.judge("KVX-CALL-3", f"{step.verb} {detail} at {who} was accepted")
            if room is not None and not due:
                room.wrong = room.wrong or step.verb in ("create", "meta", "send")
        if not answer.ok and due and not step.mark:
            watch.observe()
            found = self._end(step, who)
            if found is None or not found[1].over:
                watch.judge("KVX-CALL-1", f"{step.verb} {detail} at {who} was refused: {answer.refused}")
        return answer.ok

    def create(self, step: Step) -> None:
        watch, side = self.watch, step.side
        room = watch.current.get(step.room)
        live = room is not None and side in room.ends and not room.ends[side].cleared
        if room is None or (side in room.ends and not step.mark and not live):
            old, room = room, watch.new_room(step.room)
            if old is not None:  # the next message may be one of the new attempt
                room.faults += [fault for fault in old.faults if fault.startswith("message_")]
        else:
            old = None
        detail, number = f"room {step.room}, {step.n} pages", room.number
        due = old is None or all(end.cleared for end in old.ends.values())
        if not self.call(step, side, detail, lambda: self.adapter.create(side, number, step.n), due and not live, None):
            if not room.ends and not room.faults:
                watch.rooms.remove(room)
                if old is not None:
                    watch.current[step.room] = old
            return
        if live:
            return  # a wrong call that was accepted; the books stay with the first
        room.wrong = room.wrong or bool(step.mark and side in watch.stopped)
        room.ends[side] = End(side, step.n, late=side in watch.stopped)
        if side == PREFILL and not room.source:
            room.source = watch.memory.take(PREFILL, step.n, room)
            room.data = watch.fill(PREFILL, room.source, f"{step.room} {room.attempt} data")
        watch.observe()

    def _end(self, step: Step, side: Side) -> tuple[Room, End] | None:
        """The end that a call of this side is about: of the newest attempt, or of one that this side still has."""
        room = self.watch.current.get(step.room)
        if room is not None and side in room.ends:
            return room, room.ends[side]
        held = [each for each in self.watch.rooms if each.label == step.room and side in each.ends]
        return (held[-1], held[-1].ends[side]) if held and held[-1].ends[side].alive else None

    def _number(self, step: Step) -> int:
        room = self.watch.current.get(step.room)
        return self.watch.new_room(step.room).number if room is None else room.number

    def init(self, step: Step) -> None:
        found, number = self._end(step, step.side), self._number(step)
        due = found is not None and found[1].alive and not found[1].over and not found[1].inited
        room = found[0] if found else None
        if (
            self.call(step, step.side, f"room {step.room}", lambda: self.adapter.init(step.side, number), due, room)
            and found
        ):
            found[1].inited = True
        self.watch.observe()

    def meta(self, step: Step) -> None:
        watch, number = self.watch, self._number(step)
        found = self._end(step, DECODE)
        room = found[0] if found else watch.current[step.room]
        end = found[1] if found else None
        due = end is not None and end.inited and end.alive and not end.over and not room.meta and step.n == end.total
        again = room.meta
        pages = watch.memory.take(DECODE, step.n, room)
        if not again:
            room.target = pages
            watch.memory.unknown(DECODE, pages)
        detail = f"room {step.room}, pages {pages}"
        accepted = self.call(step, DECODE, detail, lambda: self.adapter.metadata(number, pages), due, None)
        if accepted and not again:
            room.meta = True
            if not due:
                room.wrong = True
        elif not accepted and not again:
            room.target = []
            if watch.sees and DECODE not in watch.blind:
                watch.fill(DECODE, pages, f"{step.room} refused")
        watch.observe()
        watch.early(room)

    def send(self, step: Step) -> None:
        watch, number = self.watch, self._number(step)
        found = self._end(step, PREFILL)
        room = found[0] if found else watch.current[step.room]
        end = found[1] if found else None
        if end is not None and end.alive and not step.mark and "early-send" not in watch.tags and end.state == 1:
            watch.wait(lambda: end.state != 1, watch.limit("transfer"))
            if end.state == 1:
                watch.say("suite", "skipped", f"send of room {step.room}: destinations are not known")
                return
        left = room.source[room.sent :]
        pages = left[: step.n] + watch.memory.take(PREFILL, step.n - len(left[: step.n]), room)
        due = end is not None and end.inited and end.alive and not end.over and not room.closed and step.n <= len(left)
        whole = room.sent + step.n == len(room.source)
        due = due and (not step.last or whole)
        detail = f"room {step.room}, pages {pages}{', last' if step.last else ''}"
        if self.call(step, PREFILL, detail, lambda: self.adapter.send(number, pages, step.last), due, room):
            if step.mark != "!":
                room.sent += step.n
                room.closed = room.closed or step.last
            elif step.last:
                room.closed = True
        watch.observe()
        watch.early(room)

    def abort(self, step: Step) -> None:
        watch, side, number = self.watch, step.side, self._number(step)
        found = self._end(step, side)
        due = found is not None and found[1].alive and not found[1].over
        was = found[1].state if found else -1
        room = found[0] if found else None
        if (
            not self.call(step, side, f"room {step.room}", lambda: self.adapter.abort(side, number), due, room)
            or not found
        ):
            return
        room, end = found
        watch.observe()
        if was in (0, 4):
            return  # what is over is over: the laws look at that
        end.aborted = True
        room.met = room.met or room.told_by(side)
        if not end.over:
            watch.wait(lambda: end.over, watch.limit("react"))
        if end.alive and not (end.state == 0 or (end.state == 4 and room.closed)):
            watch.judge("KVX-ABORT-1", f"room {step.room} at {side} is {end.state} after abort()")

    def clear(self, step: Step) -> None:
        side, number = step.side, self._number(step)
        found = self._end(step, side)
        due = found is not None and found[1].alive
        if self.call(step, side, f"room {step.room}", lambda: self.adapter.clear(side, number), due, None) and found:
            found[1].cleared = True
            found[0].met = found[0].met or found[0].told_by(side)
        self.watch.observe()

    def gate(self, step: Step) -> None:
        """A local step of the decode side."""
        watch, adapter, number = self.watch, self.adapter, self._number(step)
        if not isinstance(adapter, Gated):
            raise Unsupported("gates")
        name, what = step.word, _GATE.get(step.rest[0] if step.rest else "")
        if what is None:
            raise ValueError(f"step {step.verb} {step.room} {name}: expected close, open or fail")
        found = self._end(step, DECODE)
        room = found[0] if found else watch.current[step.room]
        end = found[1] if found else None
        due = end is not None and end.inited and end.alive and not end.over
        due = due and (not room.meta if what == "close" else room.gates.get(name) == "close")
        detail = f"room {step.room}, {name} {what}"
        before = room.gates.get(name)
        if what != "open" and end is not None and not end.over:
            room.gates[name] = what  # from now on Success is wrong, whenever it is seen
        elif before == "close":
            room.gates[name] = what
        if not self.call(step, DECODE, detail, lambda: adapter.gate(number, name, what), due, room):
            if before is None:
                room.gates.pop(name, None)
            else:
                room.gates[name] = before
        elif what == "fail":
            room.met = room.met or room.told_by(DECODE)
        watch.observe()
        watch.early(room)

    def stop(self, step: Step) -> None:
        """A side is drained or shut down."""
        watch, adapter, side = self.watch, self.adapter, step.side
        if not isinstance(adapter, Stoppable):
            raise Unsupported(step.word)
        how: How = "shutdown" if step.word == "shutdown" else "drain"
        self.call(step, side, how, lambda: adapter.stop(side, how), True, None)
        watch.stopped.add(side)
        live = [(room, end) for room in watch.rooms for end in room.ends.values() if end.side == side and end.alive]
        live = [(room, end) for room, end in live if not end.over]
        if how == "shutdown":
            for room, end in live:
                end.stopped = True
                room.met = room.met or room.told_by(side)
        watch.observe()
        if how == "shutdown" and not watch.wait(lambda: all(end.over for _, end in live), watch.limit("react")):
            still = ", ".join(f"room {room.label} is {end.state}" for room, end in live if not end.over)
            watch.judge("KVX-STOP-2", f"after the {side} side was shut down: {still}")

    def ranks(self, step: Step) -> None:
        """Both sides are made anew."""
        watch, adapter = self.watch, self.adapter
        if not isinstance(adapter, Ranked):
            raise Unsupported("ranks")
        watch.say("suite", "ranks", f"{step.n} prefill, {step.word} decode")
        watch.must(lambda: adapter.ranks(step.n, int(step.word)), "ranks")
        watch.many = True
        watch.guard()

    # -- faults and time -----------------------------------------------------------------------------------------------
    def fault(self, step: Step) -> None:
        watch, side, number = self.watch, step.side, self._number(step)
        answer = ask(lambda: self.adapter.fault(side, number, step.word))
        watch.say("suite", f"fault {step.word}", f"room {step.room} at {side}{answer.refused and ': '}{answer.refused}")
        if answer.raised:
            raise Gone(f"fault() raised: {answer.refused}")
        if not answer.ok:
            return
        hit = watch.rooms if step.word in WHOLE else [watch.current[step.room]]
        for room in hit:
            room.hit(step.word, side)
        if step.word in ("peer_killed", "rank_killed"):
            watch.blind.add(side)
        if step.word == "peer_killed":
            for room in watch.rooms:
                if (end := room.ends.get(side)) is not None:
                    end.dead = True
        watch.observe()

    def heal(self, step: Step) -> None:
        self.watch.heal()
        self.watch.observe()

    def tick(self, step: Step) -> None:
        for _ in range(step.n):
            self.watch.advance(self.watch.limits.react / 50)

    def settle(self, step: Step) -> None:
        end = self.watch.now + self.watch.limits.react
        self.watch.wait(lambda: self.watch.now >= end, self.watch.limits.react)

    def wait(self, step: Step) -> None:
        part = int(step.rest[0]) if step.rest else 100
        self.watch.say("suite", f"wait {step.word}", f"{part} %")
        self.watch.wait(self._all_over, self.watch.limit(step.word) * part / 100)

    def _all_over(self) -> bool:
        return not any(room.open for room in self.watch.rooms)

    # -- expectations --------------------------------------------------------------------------------------------------
    def over(self, step: Step) -> None:
        watch = self.watch
        if not watch.wait(self._all_over, watch.limit(step.word)):
            still = "; ".join(f"room {room.label}: {sides_of(room)}" for room in watch.rooms if room.open)
            sentence = f"after {watch.limit(step.word):.3g} s ({step.word}) not over: {still}"
            watch.judge(f"KVX-{step.after('for', 'END-1')}", sentence)

    def expect(self, step: Step) -> None:
        watch, found = self.watch, self._end(step, step.side)
        id = f"KVX-{step.after('for', 'PAIR-1')}"
        if found is None or not found[1].alive:
            watch.judge(id, f"room {step.room} at {step.side} cannot be asked")
            return
        end, states = found[1], {int(digit) for digit in step.word.split("|")}
        within = step.after("within")
        watch.observe()
        if within:
            watch.wait(lambda: end.state in states or end.over, watch.limit(within))
        watch.say("suite", f"expect {step.word}", f"room {step.room} at {step.side}: {end.state}")
        if end.state not in states:
            watch.judge(
                id, f"room {step.room} at {step.side} is {end.state}, expected {step.word}{end.why and ': '}{end.why}"
            )

    def holds(self, step: Step) -> None:
        watch, found = self.watch, self._end(step, step.side)
        id = f"KVX-{step.after('for', 'TIME-6')}"
        name = step.after("during", "react")
        part = next((int(word) for word in step.rest[step.rest.index(name) + 1 :] if word.isdigit()), 100)
        states = {int(digit) for digit in step.word.split("|")}
        if found is None:
            return
        end = found[1]
        if watch.wait(lambda: end.state not in states, float(getattr(watch.limits, name) or 0.0) * part / 100):
            watch.judge(
                id, f"room {step.room} at {step.side} is {end.state} after {part} % of {name}, expected {step.word}"
            )

    def tables(self, step: Step) -> None:
        """How kvpoll's tables end this room. The rest is judged like every case."""
        watch, found = self.watch, self._end(step, step.side)
        if "kvpoll" not in watch.profiles or found is None or not found[1].alive:
            return
        end, why = found[1], step.rest[0] if step.rest else ""
        told = end.why.split(":")[0]
        if str(end.state) != step.word or told != why:
            watch.judge(
                "KVX-KV-2",
                f"room {step.room} at {step.side} is {end.state} {told}, by the tables {step.word} {why}",
            )

    def forge(self, step: Step) -> None:
        """Expect other bytes than were filled in."""
        room = self.watch.current[step.room]
        room.data = bytes(255 - byte for byte in room.data)
