"""The machine of many rooms: engines, network and transports do what Hypothesis draws, around real process cores.

It starts from a reachable state (a drawn number of rooms has been under way for a drawn time), then rooms of any sizes
and cuts are opened while messages are lost, copied, delayed, damaged and repeated much later, operations fail, stay
unresolved or hang, clocks go off early, engines give rooms up, processes freeze, crash, drain and lose each other. Every
kind of fault has a budget, so that rooms also succeed: :class:`Tally` says how many did. At the end of every run all is
quiet, idle and shut down, or :meth:`Simulation.quiesce` says what is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import ClassVar

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kvpoll.protocol.codec import decode
from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.protocol.session import Timing
from kvpoll.spec import LinkEvent, LinkState

from ..simulation.chance import FrameFate, OpEnd, OpFate
from ..simulation.clockwork import Line
from ..simulation.engines import open_room
from ..simulation.process import Process
from ..simulation.rooms import Plan
from ..simulation.rooms import abort as abort_end
from ..simulation.settings import CALM, Setting
from ..simulation.workload import random_plan
from ..simulation.world import Simulation
from .script import Script

__all__ = ["RoomMachine", "Tally", "plans", "run_rooms"]

_TIMING = Timing(pairing=3_000, silence=2_500, total=9_000, gate=1_000, resend=200, hello=1_500, beat=900, lost=3_000)
#: How often each fault may happen in one run.
_BUDGET = {"messages": 12, "operations": 3, "offers": 1, "aborts": 3, "clocks": 3, "repeats": 6, "processes": 2}


class Tally:
    """What came of the rooms of all runs: a machine that never reaches Success shows nothing."""

    def __init__(self) -> None:
        self.runs = 0
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    @property
    def successes(self) -> int:
        return sum(count for name, count in self.outcomes.items() if name.startswith("success"))


@st.composite
def plans(draw: st.DrawFn, page_size: int, longest: int, numbers: st.SearchStrategy[int], request: int) -> Plan:
    """A room of any size, prefix and cuts, with engines that take any time."""
    tokens = draw(st.integers(1, longest * page_size), label="tokens")
    prefix = draw(st.one_of(st.just(0), st.integers(0, tokens)), label="prefix")
    inner = [at for at in range(page_size, tokens, page_size) if at > prefix]
    cuts = draw(st.sets(st.sampled_from(inner), max_size=4), label="cuts") if inner else set()
    ms = st.integers(1, 60)
    return Plan(
        room=draw(numbers), request=request, tokens=tokens, prefix=prefix, cuts=tuple(sorted(cuts)),
        pieces=draw(st.integers(1, 3)), aux=draw(st.booleans()), gates=draw(st.sampled_from([(), ("restore",)])),
        prefill_starts=draw(ms), decode_starts=draw(ms), spread=draw(st.integers(0, 20)), allocates=draw(ms),
        computes=draw(st.integers(1, 20)), gathers=draw(st.integers(1, 20)), commits=draw(st.integers(1, 20)),
        keeps=draw(st.integers(1, 80)),
    )  # fmt: skip


_DELAYS = st.one_of(st.integers(1, 30), st.sampled_from([150, 400]))
_FATES = st.one_of(
    st.just(()),
    st.tuples(st.builds(FrameFate, _DELAYS), st.builds(FrameFate, _DELAYS)),
    st.tuples(st.builds(FrameFate, _DELAYS)),
    st.tuples(st.builds(FrameFate, st.integers(1, 9), st.integers(1, 1 << 40))),
)
_OPERATIONS = st.builds(OpFate, st.sampled_from(list(OpEnd)), st.integers(1, 80), st.booleans())


class RoomMachine(RuleBasedStateMachine):
    """See the module text."""

    tally: ClassVar[Tally] = Tally()
    world: Simulation

    @initialize(
        fan=st.booleans(), ranks=st.tuples(st.integers(1, 2), st.integers(1, 2)), first=st.integers(0, 3),
        credits=st.integers(1, 4), page_size=st.integers(1, 4), latencies=st.lists(st.integers(1, 25), min_size=1, max_size=6),
        before=st.tuples(st.integers(0, 1 << 16), st.integers(0, 4), st.integers(0, 250)),
    )  # fmt: skip
    def start(
        self, fan: bool, ranks: tuple[int, int], first: int, credits: int, page_size: int, latencies: list[int],
        before: tuple[int, int, int],
    ) -> None:  # fmt: skip
        """Engines of any sizes, and a load that has been running for a while."""
        prefill, decode = ranks if fan else (ranks[0], ranks[0])
        setting = Setting(
            prefills=1, decodes=2, prefill_ranks=prefill, decode_ranks=decode, fan=fan, misfit=False, layers=1, pages=24,
            slots=4, page_size=page_size, longest=6, credits=credits, live=24, timing=_TIMING, margin=1_000,
        )  # fmt: skip
        self.script = Script(latencies)
        self.world = Simulation(setting, lambda clock: self.script, None, kinds=first)
        self.left = dict(_BUDGET)
        self.requests = 0
        seed, rooms, ms = before
        random = Random(seed)
        for _ in range(rooms):
            self.requests += 1
            self._open(random_plan(random, setting, CALM, self.requests, self.requests), random.randrange(2))
            self.world.clock.run(ms // rooms)

    def _open(self, plan: Plan, decode: int) -> None:
        note(f"{plan}")
        open_room(self.world.site, plan, self.world.prefills[0], self.world.decodes[decode])

    def spend(self, what: str, budget: str = "") -> None:
        self.left[budget or what] -= 1
        self.tally.faults[what] += 1

    # -- the load --------------------------------------------------------------------------------------------------------------
    @rule(data=st.data(), decode=st.integers(0, 1), again=st.booleans())
    def a_room(self, data: st.DataObject, decode: int, again: bool) -> None:
        """A room is opened; ``again``: under a number that may be in use."""
        setting = self.world.setting
        self.requests += 1
        fresh = st.just(100 + self.requests)
        numbers = st.one_of(fresh, st.integers(1, 4)) if again else fresh
        self._open(data.draw(plans(setting.page_size, setting.longest, numbers, self.requests), label="plan"), decode)

    @rule(ms=st.integers(1, 120))
    def time_passes(self, ms: int) -> None:
        self.world.clock.run(ms)

    @rule(events=st.integers(1, 12))
    def a_few_things_happen(self, events: int) -> None:
        clock = self.world.clock
        for _ in range(events):
            clock.step(clock.now + 50)

    # -- faults ----------------------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.left["messages"])
    @rule(fates=st.lists(_FATES, min_size=1, max_size=3))
    def messages_suffer(self, fates: Sequence[tuple[FrameFate, ...]]) -> None:
        for fate in fates:
            self.spend("messages")
            self.script.next_frames.append(fate)

    @precondition(lambda self: self.left["operations"])
    @rule(fate=_OPERATIONS)
    def an_operation_suffers(self, fate: OpFate) -> None:
        self.spend("operations")
        self.script.next_operations.append(fate)

    @precondition(lambda self: self.left["offers"])
    @rule()
    def an_offer_is_refused(self) -> None:
        self.spend("offers")
        self.script.next_offers.append(True)

    @precondition(lambda self: self.left["repeats"] and self._heard())
    @rule(which=st.integers(0, 1 << 16))
    def an_old_message_comes_again(self, which: int) -> None:
        """A copy of what was delivered some time before reaches whoever lives at that address now."""
        lines = self._heard()
        line = lines[which % len(lines)]
        process = self.world.site.network.places.get(line.who)
        if process is not None:
            self.spend("repeats")
            process.soon(partial(process.hear, decode(line.frame).message))

    def _heard(self) -> list[Line]:
        """What was delivered, the newest first."""
        newest = islice(reversed(self.world.clock.recent), 400)
        return [line for line in newest if line.frame and line.what.startswith("<-")]

    @precondition(lambda self: self.left["aborts"] and self._ends())
    @rule(which=st.integers(0, 1 << 16), every=st.booleans())
    def an_engine_gives_a_room_up(self, which: int, every: bool) -> None:
        self.spend("aborts")
        ends = self._ends()
        process, key = ends[which % len(ends)]
        end = process.ends[key]
        for other in end.room.ends if every else [end]:
            if other.prefill is end.prefill:
                other.process.later(0, partial(abort_end, other, "drawn"))
        self.world.clock.step(self.world.clock.now)

    @precondition(lambda self: self.left["clocks"] and self._ends())
    @rule(which=st.integers(0, 1 << 16), deadline=st.sampled_from(list(Deadline)))
    def a_clock_goes_off_early(self, which: int, deadline: Deadline) -> None:
        ends = self._ends()
        process, key = ends[which % len(ends)]
        session = process.core.session(key)
        if session is not None and any(armed is deadline for armed, _ in session.rec.timers):
            self.spend("clocks")
            process.soon(partial(process.core.fire, key, deadline))

    @precondition(lambda self: self.left["processes"])
    @rule(which=st.integers(0, 1 << 16))
    def a_living_peer_is_declared_lost(self, which: int) -> None:
        links = [
            (process, link)
            for process in self.world.processes
            for link, record in process.core.links.table.items()
            if record.state is LinkState.OPEN
        ]
        if links:
            self.spend("lost", "processes")
            process, link = links[which % len(links)]
            process.soon(partial(process.core.fire, link, LinkEvent.LOST))

    @precondition(lambda self: self.left["processes"])
    @rule(which=st.integers(0, 2))
    def an_engine_crashes_and_comes_back(self, which: int) -> None:
        self.spend("crashes", "processes")
        self.world.engines[which].crash()

    @precondition(lambda self: self.left["processes"])
    @rule(which=st.integers(0, 2))
    def an_engine_drains_and_comes_back(self, which: int) -> None:
        self.spend("drains", "processes")
        self.world.engines[which].drain()

    @precondition(lambda self: self.left["processes"] and self.world.processes)
    @rule(which=st.integers(0, 1 << 16), ms=st.integers(1, 4_000))
    def a_process_freezes(self, which: int, ms: int) -> None:
        self.spend("freezes", "processes")
        processes = self.world.processes
        processes[which % len(processes)].freeze(ms)

    @precondition(lambda self: self.left["processes"] and self.world.site.network.links)
    @rule(which=st.integers(0, 1 << 16), ms=st.integers(1, 4_000), back=st.booleans())
    def two_processes_cannot_talk(self, which: int, ms: int, back: bool) -> None:
        self.spend("cuts", "processes")
        network = self.world.site.network
        links = list(network.links.values())
        one, other = links[which % len(links)]
        way = (other, one) if back else (one, other)
        network.cuts[way] += 1
        self.world.clock.after(ms, partial(network.cuts.subtract, [way]))

    def _ends(self) -> list[tuple[Process, SessionKey]]:
        return [(process, key) for process in self.world.processes if not process.frozen for key in process.ends]

    # -- the end ---------------------------------------------------------------------------------------------------------------
    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.quiesce(settle=700)
        ledger, tally = self.world.site.ledger, self.tally
        tally.runs += 1
        tally.outcomes.update(ledger.outcomes)
        tally.causes.update(ledger.causes)


def run_rooms(profile: settings) -> Tally:
    """Run the machine; returns what came of its rooms. Raises :class:`SimulationViolation` with the shortest steps."""
    RoomMachine.tally = Tally()
    run_state_machine_as_test(RoomMachine, settings=profile)
    return RoomMachine.tally
