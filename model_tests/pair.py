"""The pair world: the real cores of a prefill and a decode engine, a hostile network, and a model of memory.

What may happen, at any point: any message in flight arrives, in any order; some are lost or arrive twice; either engine
calls or aborts; a process crashes, restarts, stops, or wrongly declares the other lost; a clock goes off; an operation
succeeds, fails, or stays unresolved until it is fenced. How often is the :class:`~.setting.Budget`'s business.

The network is a set: a message that is said twice while in flight is one; its second life is what ``copies`` is for.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.spec import LinkEvent
from kvpoll.spec.wire import Conclude, Hello, Message, RoomMessage, Welcome

from .actions import Action, enabled, is_fair
from .explorer import Violation
from .lacks import lacks
from .memory import Flight, Work
from .network import put, take
from .pair_teller import PairTeller
from .setting import NO_FAULTS, ROOM, Budget, Clocks, Setting, part_of, request_of, rooms_of
from .stage import Stage, replaced, slot_of
from .steps import IDLE, check_step

__all__ = ["PairWorld"]


class PairWorld(Stage):
    """See the module text. ``remember=False`` runs the cores on every edge, to show that remembering changes nothing."""

    def __init__(self, setting: Setting, budget: Budget = NO_FAULTS, remember: bool = True) -> None:
        super().__init__(setting, budget, remember)
        decodes = range(setting.prefills, len(self.cores))
        if setting.eager:
            for slot in range(len(self.cores)):
                for room in rooms_of(setting):
                    self.do(("create", slot, room))
            for slot in decodes:
                self.do(("metadata", slot, SessionKey("receiver", 1)))
        elif not setting.handshake:
            for slot in decodes:
                for other in range(setting.prefills):
                    self.call(slot, ("links.to", f"{other}"))
        while not setting.handshake and (hello := self._greeting()) is not None:
            self.do(("deliver", hello))  # most worlds start with open links: run the handshake once, faithfully

    def _greeting(self) -> int | None:
        return next((n for n in sorted(self.net) if isinstance(self.mail[n], Hello | Welcome)), None)

    def actions(self) -> list[Action]:
        return enabled(self)

    def fair(self, action: Hashable) -> bool:
        assert isinstance(action, tuple)
        return is_fair(self, action)

    def ended(self) -> bool:
        if self.net or self.memory.work or self.fences:
            return False
        if not all(room.over for room in self.rooms if self.lives(room.instance)):
            return False
        # Worlds in which the engines act end only when they have.
        if self.setting.closes and any(self.view(slot).draining for slot in self.living()):
            return False  # it has to exit
        if self.setting.clocks is not Clocks.ALL and any(map(self.must_act, self.living())):
            return False
        if any(not flight.unresolved for flight in self.memory.flights):
            return False
        if self.memory.flights and not self.setting.fences:
            return all(self._waits_for_a_fence(slot) for slot in self.living())
        return not self.memory.flights and not self.memory.lent and all(self.is_idle(slot) for slot in self.living())

    def must_act(self, slot: int) -> bool:
        """Its engine has still to make a leg or an attempt."""
        return self.acts(slot) and self.view(slot).created < self.tries(slot) * self.setting.rooms

    def _waits_for_a_fence(self, slot: int) -> bool:
        """The attempt is over although an operation is unresolved: the process knows that what is still lent is quarantined,
        and nothing is left to do but to ask now and then whether it was fenced."""
        return all(s.quarantined and not set(s.timers) - {Deadline.RESEND} for s in self.view(slot).sessions)

    def outcome(self) -> str:
        if self.rooms:
            self.seen.add(IDLE)
        each = (" ".join(r.name for r in self.rooms if r.room == room) for room in rooms_of(self.setting))
        return " + ".join(sorted(filter(None, each))) or "nothing happened"

    def lacks(self) -> list[Violation]:
        return lacks(self)

    def teller(self) -> PairTeller:
        return PairTeller(self)

    def tell(self, trace: list[Hashable]) -> str:
        """A trace for people: one action a line, messages in full."""
        lines = []
        for action in trace:
            assert isinstance(action, tuple)
            name, *rest = action
            if name in ("deliver", "copy", "lose"):
                rest = [self.mail[rest[0]]]
            lines.append(f"{name}: {', '.join(map(str, rest))}")
        return "\n".join(lines)

    def do(self, action: Hashable) -> None:
        assert isinstance(action, tuple)
        match action:
            case ("deliver" | "copy" | "lose" | "mix up", number):
                self._message(action[0], number)
            case ("done" | "failed" | "unresolved" | "fenced", flight, free):
                self._report(action[0], flight, free)
            case ("lost" | "beat" | "fence proved", slot, link, *rest):
                self._link(action[0], slot, link, *rest)
            case ("lie", slot, link):
                self._lie(slot, link)
            case ("shutdown" | "drain" | "close links" | "exit" | "crash" | "restart", slot):
                self._process(action[0], slot)
            case ("clock", slot, key, clock, free):
                self.spend(clocks=not free)
                self.call(slot, ("fire", key, clock))
            case ("no leg", slot, ids):
                self.call(slot, ("fire", ids, Deadline.PAIRING))
            case (name, slot, *rest):
                self._engine(name, slot, *rest)
        check_step(self, self._last, action)
        self.check()

    def _message(self, how: str, number: int) -> None:
        if how == "mix up":
            self.spend(mixups=True)
            self._mix_up(self.target(number), self.mail[number])
            return
        if how != "copy":
            self.net = take(self.net, number)
        self.spend(losses=how == "lose", copies=how == "copy")
        slot = self.target(number)
        if how != "lose" and self.cores[slot] >= 0:
            self.call(slot, ("hear", number))

    def _mix_up(self, slot: int, message: Message) -> None:
        """An attempt has one room: what names another with its gen is about neither."""
        if isinstance(message, RoomMessage) and self.cores[slot] >= 0:
            other = next(room for room in rooms_of(self.setting) if room != message.room)
            self.call(slot, ("hear", self.mail.number(replace(message, room=other))))

    def _report(self, how: str, flight: Flight, free: bool) -> None:
        memory = self.memory
        if how == "unresolved":
            self.spend(unresolved=True)
            self.memory = memory.swap(flight, flight._replace(unresolved=True))
        else:
            self.spend(failures=how == "failed" and not free)
            self.memory = memory.swap(flight)
            if how == "done" and not flight.unresolved:
                ends = (flight.owner, flight.other) if self.setting.push else (flight.other, flight.owner)
                self.memory = self.memory.move(*ends, flight.attempt, flight.copy)
        self.call(slot_of(flight.owner), (f"op_{how}", flight.op))

    def _link(self, what: str, slot: int, link: int, free: bool = True) -> None:
        if what == "fence proved":
            pair = (self.instances[slot], link)
            self.memory = self.memory.cut(*pair)
            self.fences, self.fenced = self.fences - {pair}, self.fenced | {pair}
            self.call(slot, ("peer_fenced", link))
        else:
            self.spend(wrong=not free)
            self.call(slot, ("fire", link, LinkEvent.BEAT if what == "beat" else LinkEvent.LOST))

    def _lie(self, slot: int, link: int) -> None:
        """CONCLUDE, of the newest attempt. In push worlds the receiver starts nothing: no memory hangs on its word."""
        self.spend(lies=True)
        view, source = self.view(slot), self.instances[slot]
        engine, target = self.processes[source].core.env.engine, view.links[link].instance
        lie = Conclude(link=link, source=source, target=target, room=ROOM, engine=engine, gen=view.created)
        self.net = put(self.net, (self.mail.number(lie),), self.channel)

    def _process(self, what: str, slot: int) -> None:
        instance = self.instances[slot]
        if what == "shutdown":
            self.spend(shutdowns=True)
            self.call(slot, ("shutdown",))
        elif what == "drain":
            self.spend(drains=True)
            self.call(slot, ("drain", 0))
        elif what == "close links":
            self.call(slot, ("close_links",))
        elif what == "restart":
            self.spend(restarts=True)
            self.instances = replaced(self.instances, slot, instance + 100)
            self.cores = replaced(self.cores, slot, self.process(instance + 100).start)
        else:
            self.spend(crashes=what == "crash")
            if what == "exit" and (
                self.view(slot).sessions or any(loan.instance == instance for loan in self.memory.lent)
            ):
                raise Violation("ShutdownEnds", f"instance {instance} exits with rooms, or with memory of its engine")
            self.cores = replaced(self.cores, slot, -1)
            self.memory = self.memory.cut(instance)
            self.fences = frozenset(f for f in self.fences if f[0] != instance)
            self.ready = frozenset(r for r in self.ready if r[0] != instance)
        if not self.budget.restarts:
            self.net = type(self.net)(n for n in self.net if self.can_arrive(n))

    def _engine(self, what: str, slot: int, *about: Hashable) -> None:
        match (what, *about):
            case ("create", int(room)):
                self._create(slot, room)
            case ("send", SessionKey() as key, int(no)):
                self._send(slot, key, no)
            case ("gathered", Work() as work):
                self._work_over(work)
                self.session(slot, work.key, "gathered", (work.chunk,))
            case ("metadata", SessionKey() as key):
                self.session(slot, key, "send_metadata", None, self.setting.gates)
            case ("open gate", SessionKey() as key, gate):
                self.session(slot, key, "open_gate", gate)
            case ("gate failed", SessionKey() as key, gate):
                self.spend(failures=True)
                self.session(slot, key, "fail_gate", gate)
            case ("commit", SessionKey() as key):
                self.ready -= {(self.instances[slot], key)}
                step = self.session(slot, key, "begin_commit")
                if not step.refused and step.value:
                    self.memory = self.memory.begin(Work(self.instances[slot], key, -1))
            case ("committed", Work() as work):
                self._work_over(work)
                self.session(slot, work.key, "end_commit")
            case ("commit failed", Work() as work):
                self.spend(failures=True)
                self._work_over(work)
                self.session(slot, work.key, "end_commit", "no room")
            case ("data missing", SessionKey() as key):
                self.spend(failures=True)
                self.session(slot, key, "data_missing", 0, 1, 0)
            case ("aux mismatch", SessionKey() as key):
                self.spend(failures=True)
                self.session(slot, key, "aux_mismatch", "mine", "another's")
            case ("abort", SessionKey() as key):
                self.spend(aborts=True)
                self.session(slot, key, "abort")
            case _:
                raise AssertionError(f"no such action: {what} {about}")

    def _create(self, slot: int, room: int) -> None:
        prefills = self.setting.prefills
        request = request_of(self.setting, slot < prefills, self.tried(slot, room) == 0)
        if slot < prefills:
            self.call(slot, ("create_sender", room, request, self.setting.receivers))
        else:
            senders = tuple((f"{other}", other) for other in range(prefills))
            self.call(slot, ("create_receiver", room, request, senders))

    def _send(self, slot: int, key: SessionKey, no: int) -> None:
        chunks, tail = self.setting.chunks, self.setting.tail
        last = no == chunks if tail else no + 1 >= chunks
        step = self.call(slot, ("send", key, (part_of(self.setting, slot, no),) if no < chunks else (), last))
        if step.value:  # not refused, not over, and a plan with rows
            work = Work(self.instances[slot], key, no)
            self.memory = self.memory.begin(work)
            if self.setting.early:
                self.session(slot, key, "dispatched", (no,))
            if not self.setting.gathers:
                self._engine("gathered", slot, work)

    def _work_over(self, work: Work) -> None:
        self.memory = self.memory._replace(work=self.memory.work - {work})

    def spend(self, **faults: bool) -> None:
        """Take from the budget what is true."""
        for name, happened in faults.items():
            if happened:
                self.budget = self.budget._replace(**{name: getattr(self.budget, name) - 1})
