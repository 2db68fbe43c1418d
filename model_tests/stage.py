"""What a pair world consists of: processes by slot, the network, memory, and what an observer remembers.

A call of a process is one :class:`~.process.Step`; everything that comes out of it is carried out here, at once, and
checked. What calls are made is the business of :mod:`.pair`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kvpoll.protocol.outputs import (
    Cancel,
    Changed,
    Connect,
    Dropped,
    FenceOp,
    FencePeer,
    HandBack,
    Output,
    Ready,
    Submit,
)
from kvpoll.protocol.records import LeaseKind, SessionKey
from kvpoll.spec import Cause

from .claims import (
    Room,
    check_complete,
    check_counts,
    check_gathered,
    check_order,
    check_started,
    check_word,
    check_writes,
)
from .explorer import Violation
from .memory import Flight, Loan, Memory
from .network import Net, empty, put
from .pages import Placed, check_pages, free_pages
from .process import Call, Mail, Process, Step, View
from .setting import Budget, Setting, make_core, taken
from .steps import is_gentle

__all__ = ["Stage", "State", "slot_of"]


class State(NamedTuple):
    """Everything that the future depends on."""

    cores: tuple[int, ...]  #: by slot: the number of its process's state; -1: crashed
    instances: tuple[int, ...]  #: by slot
    net: Net  #: messages in flight
    memory: Memory
    budget: Budget
    rooms: tuple[Room, ...]
    fences: frozenset[tuple[int, int]]  #: (instance, link): asked for, not proved yet
    fenced: frozenset[tuple[int, int]]  #: proved
    ready: frozenset[tuple[int, SessionKey]]  #: the engine may commit
    placed: tuple[Placed, ...]  #: which pages each receiver was given, where they are counted


class Stage:
    """See the module text. The attributes are those of :class:`State`."""

    def __init__(self, setting: Setting, budget: Budget, remember: bool) -> None:
        self.setting = setting
        self.remember = remember
        self.honest = not budget.lies
        self.parks = setting.early and not setting.push  #: a pull may wait for its part
        self.mail = Mail()
        self.processes: dict[int, Process] = {}  #: by instance
        self.address: dict[int, int] = {}  #: slot that a link was made to
        self._same: dict[object, object] = {}
        self.instances = tuple(10 + slot for slot in range(setting.prefills + setting.decodes))
        self.cores = tuple(self.process(instance).start for instance in self.instances)
        self.net: Net = empty(setting.network)
        self.memory = Memory()
        self.budget = budget
        self.rooms: tuple[Room, ...] = ()
        self.fences: frozenset[tuple[int, int]] = frozenset()
        self.fenced: frozenset[tuple[int, int]] = frozenset()
        self.ready: frozenset[tuple[int, SessionKey]] = frozenset()
        self.placed: tuple[Placed, ...] = ()
        self._last = self.state()
        self.start = budget
        self.gentle = is_gentle(self)
        self.seen: set[str] = set()  #: situations that were met: see properties

    def process(self, instance: int) -> Process:
        """The process of an instance; it is made when it is first asked for."""
        if instance not in self.processes:
            slot = slot_of(instance)
            self.processes[instance] = Process(
                lambda ids: make_core(self.setting, slot, instance, ids), self.mail, instance * 1000
            )
        return self.processes[instance]

    def snapshot(self) -> Hashable:
        return self.state()

    def state(self) -> State:
        """All of it, as it is."""
        return State(
            self.cores, self.instances, self.net, self.memory, self.budget, self.rooms, self.fences, self.fenced, self.ready,
            self.placed,
        )  # fmt: skip

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, State)
        self._last = snapshot
        (
            self.cores, self.instances, self.net, self.memory, self.budget, self.rooms, self.fences, self.fenced, self.ready,
            self.placed,
        ) = snapshot  # fmt: skip

    # -- what can be seen ----------------------------------------------------------------------------------------------------
    def view(self, slot: int) -> View:
        """What can be seen of the process in this slot, which lives."""
        return self.processes[self.instances[slot]].views[self.cores[slot]]

    def view_of(self, instance: int) -> View | None:
        """The same by instance; ``None`` for one that is gone, or not known."""
        return self.view(slot_of(instance)) if self.lives(instance) else None

    def lives(self, instance: int) -> bool:
        slot = slot_of(instance)
        return slot >= 0 and self.instances[slot] == instance and self.cores[slot] >= 0

    @property
    def tokens(self) -> int:
        """Of one request: each takes a page."""
        return max(self.setting.chunks, 1)

    def acts(self, slot: int) -> bool:
        """The engine of this slot hears of the request."""
        return self.setting.only in ("", "prefill" if slot < self.setting.prefills else "decode")

    def tries(self, slot: int) -> int:
        """How often the process in this slot may make a leg or an attempt for each room: a leg for each engine that wants
        it; one more if it saw its peer come back as another instance."""
        setting = self.setting
        back = self.start.restarts - self.budget.restarts if setting.again and self.instances[slot] < RESTARTED else 0
        rivals = setting.decodes - 1 if setting.rivals and slot < setting.prefills else 0
        return self.budget.attempts + back + rivals

    def tried(self, slot: int, room: int) -> int:
        """How many legs or attempts the process in this slot has made for a room."""
        return sum((r.instance, r.room) == (self.instances[slot], room) for r in self.rooms)

    def living(self) -> list[int]:
        return [slot for slot, core in enumerate(self.cores) if core >= 0]

    def target(self, number: int) -> int:
        """The slot that a message goes to."""
        message = self.mail[number]
        return slot_of(message.target) if isinstance(message.target, int) else self.address[message.link]

    def channel(self, number: int) -> tuple[int, int]:
        """The link that a message is on, and the slot that it goes to."""
        return self.mail[number].link, self.target(number)

    def can_arrive(self, number: int) -> bool:
        return self.cores[self.target(number)] >= 0 or self.budget.restarts > 0

    def is_idle(self, slot: int) -> bool:
        """IdleEmpty: every table is empty, and a link is open at both ends or forgotten at both."""
        view = self.view(slot)
        for link, record in view.links.items():
            peer = self.view_of(record.instance)
            if not record.open or peer is None or link not in peer.links:
                return False
        return view.idle

    # -- calls and what comes out of them --------------------------------------------------------------------------------------
    def session(self, slot: int, key: SessionKey, method: str, *arguments: Hashable) -> Step:
        """Call a method of a session."""
        return self.call(slot, ("session", key, method, *arguments))

    def call(self, slot: int, call: Call) -> Step:
        """Call a process, and carry out what comes out of it."""
        instance, core = self.instances[slot], self.cores[slot]
        process = self.processes[instance]
        step = process.step(core, call) if self.remember else process.run(core, call)
        if step.never:
            raise Violation("TotalHandlers", f"a row that is called impossible fired: {step.never}")
        if step.disturbed:
            raise Violation("Isolation", step.disturbed)
        if step.broken[0]:
            raise Violation(*step.broken)
        self.cores = replaced(self.cores, slot, step.state)
        if process.views[core].attempts != process.views[step.state].attempts:
            self._meet_rooms(instance, process.views[step.state])
        if call[0] == "send" or call[0] == "session":
            self._lend(instance, call, step)
        for output in step.outputs:
            self._output(slot, instance, output)
        if self.memory.flights:
            for number in step.sends:
                check_word(self.mail[number], instance, self.memory.flights)
        arriving = [n for n in step.sends if self.can_arrive(n)]
        if arriving:
            self.net = put(self.net, arriving, self.channel)
        return step

    def _lend(self, instance: int, call: Call, step: Step) -> None:
        """The engine lends memory with these calls."""
        key = call[1]
        assert isinstance(key, SessionKey)
        if call[0] == "send" and isinstance(step.value, tuple) and step.value:
            kinds, no = (LeaseKind.SOURCE, LeaseKind.COPY), step.value[0]
        elif call[2:3] == ("send_metadata",) and not step.refused:
            kinds, no = (LeaseKind.PAGES, LeaseKind.BUFFER), 0
            if self.setting.pages:
                pages = tuple(free_pages(self.setting.pages, instance, self.placed, self.memory)[: self.tokens])
                self.placed = (*self.placed, Placed(instance, key, pages))
        else:
            return
        self.memory = self.memory.give(Loan(instance, key, kind, no) for kind in kinds)

    def _meet_rooms(self, instance: int, view: View) -> None:
        """Remember every session, and which attempt it is of."""
        rooms = {(room.instance, room.key): room for room in self.rooms}
        for key, attempt in view.attempts:
            room = rooms.get((instance, key), Room(instance, key, room=view.room_of(key)))
            rooms[instance, key] = room._replace(attempt=attempt)
            if room.sender and attempt and not self.setting.same:
                raise Violation("SameRequest", f"{key} is paired with an attempt of another request")
        self.rooms = tuple(sorted(rooms.values()))

    def _output(self, slot: int, instance: int, output: Output) -> None:
        memory = self.memory
        match output:
            case Changed():
                self._changed(instance, output)
            case HandBack(session=session, lease=lease):
                self.memory = memory.back(Loan(instance, session, lease.kind, lease.no))
            case Submit(op=op, link=link, part=part):
                peer = self.view(slot).links[link].instance
                theirs = self.lives(peer) and (peer, link) not in self.fenced
                push, ranks = self.setting.push, self._between(slot, slot_of(peer))
                copy = op.part if push else taken(self.setting, *ranks)[op.part]
                flight = Flight(
                    instance,
                    peer,
                    link,
                    op,
                    self._attempt(instance, op.session),
                    theirs=theirs,
                    copy=copy,
                    place=part.no,
                )
                self.memory = memory.swap(flight, flight)
            case Cancel(op=op):
                self.memory = memory.cancel(lambda f: (f.owner, f.op) == (instance, op))
            case FenceOp(op=op):
                self.memory = memory.fence(instance, op)
            case FencePeer(link=link):
                self.fences |= {(instance, link)}
            case Ready(session=session):
                self.ready |= {(instance, session)}
            case Dropped(session=session):
                self.ready -= {(instance, session)}
                if any((loan.instance, loan.key) == (instance, session) for loan in memory.lent):
                    raise Violation("ExactlyOnceFree", f"{session} was dropped with a lease still out")
            case Connect(link=link, address=address):
                self.address[link] = int(address)
            case _:
                pass

    def _between(self, one: int, other: int) -> tuple[int, int]:
        """The prefill and the decode rank of two slots."""
        return min(one, other), max(one, other) - self.setting.prefills

    def planned(self, instance: int) -> int:
        """Parts that all prefill ranks together have for this instance of a decode rank."""
        rank = slot_of(instance) - self.setting.prefills
        return sum(len(taken(self.setting, prefill, rank)) for prefill in range(self.setting.prefills))

    def _attempt(self, instance: int, key: SessionKey) -> int:
        return next(room.attempt for room in self.rooms if (room.instance, room.key) == (instance, key))

    def _changed(self, instance: int, output: Changed) -> None:
        rooms, failure = list(self.rooms), output.failure
        at = next(i for i, r in enumerate(rooms) if (r.instance, r.key) == (instance, output.session))
        if rooms[at].over:
            raise Violation(
                "TerminalAbsorbing", f"{output.session} left {rooms[at].state.name} for {output.state.name}"
            )
        doubt = failure is not None and failure.in_doubt
        if doubt and failure is not None and failure.cause is Cause.PEER_ABORTED:
            raise Violation("SuccessOrder", f"{output.session} is in doubt although its receiver said that it failed")
        room = rooms[at] = rooms[at]._replace(state=output.state, in_doubt=doubt)
        self.rooms = tuple(rooms)
        if room.sender and not self.honest:
            check_started(room, self.memory, self.setting.chunks)
        elif not room.sender and room.over:
            check_complete(room, self.memory, self.planned(room.instance))
            if self.honest:
                self.memory = self.memory.forget(room.instance, room.attempt)

    def legs(self) -> dict[tuple[int, int], SessionKey]:
        """The leg of each (instance, attempt)."""
        return {(room.instance, room.attempt): room.key for room in self.rooms if room.sender}

    # -- what must hold ------------------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Every invariant that is about a state, whatever led to it."""
        memory = self.memory
        for slot in self.living():
            view = self.view(slot)
            if memory.flights or view.credits_out:
                check_counts(self.instances[slot], view, memory)
                check_writes(self.instances[slot], view, memory)
        if memory.flights or memory.work:
            legs = self.legs()
            if self.placed:
                check_pages(self.placed, memory, self.setting.direct)
            memory.check(legs, self.setting.direct)
            if not self.parks:
                check_gathered(memory, legs)
        if self.rooms is not self._last.rooms and self.honest:
            check_order(self.rooms, self.setting.receivers)
        self._share()

    def _share(self) -> None:
        """Make the new state of parts that other states have too: less memory, and faster to compare."""
        same = self._same
        shared = [p if p is old else same.setdefault(p, p) for p, old in zip(self.state(), self._last, strict=True)]
        Stage.restore(self, State(*shared))  # type: ignore[arg-type]


#: Instances of processes that came back have larger numbers.
RESTARTED = 100


def slot_of(instance: int) -> int:
    """Instances are numbered by start and slot."""
    return instance % 100 - 10


def replaced(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])
