"""A simulated run: engines, network, data plane and router around real cores, from one seed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from .chance import Chance, RandomChance
from .clockwork import Clockwork
from .engines import Engine
from .fabric import Fabric
from .network import Network
from .process import Process, Site
from .rooms import Ledger
from .settings import CALM, Faults, Setting
from .workload import Router, Trouble

__all__ = ["Simulation", "Summary", "simulate"]

#: What decode engines differ in: transports by preference, and whether these write pages directly.
_KINDS = (
    ((("push", True), ("pull", False)), False),
    ((("pull", False), ("push", True)), False),
    ((("push", True),), True),
    ((("pull", False),), True),
)
#: ms between two looks whether everything is idle.
_LOOK = 250
#: ms that the latest message may take: before that nothing counts as quiet.
_LATEST = 6_500


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a run. Two runs with the same seed, rooms, setting and faults have equal summaries."""

    seed: int | None
    rooms: int
    engines: str
    faults: str
    outcomes: dict[str, int]  #: of rooms
    causes: dict[str, int]  #: of their ends, by role
    counts: dict[str, int]  #: messages, operations, faults
    milliseconds: int  #: of simulated time
    events: int
    hash: str

    @property
    def successes(self) -> int:
        return sum(count for name, count in self.outcomes.items() if name.startswith("success"))

    def text(self) -> str:
        lines = [
            f"{self.rooms} rooms, seed {self.seed}, {self.milliseconds / 1000:.1f} simulated seconds, {self.events} events",
            self.engines,
            f"faults: {self.faults}",
        ]
        for title, counts in (("rooms", self.outcomes), ("ends", self.causes), ("what happened", self.counts)):
            lines.append(f"{title}:")
            lines += [f"  {count:>9}  {name}" for name, count in sorted(counts.items(), key=lambda i: (-i[1], i[0]))]
        lines.append(f"every claim held; trace hash {self.hash}")
        return "\n".join(lines)


class Simulation:
    """The world without a load: :func:`simulate` adds a router, a state machine adds its rules. ``chance`` decides what
    the network and the transports do; ``seed`` is only printed; ``kinds``: the kind of the first decode engine."""

    def __init__(
        self, setting: Setting, chance: Callable[[Clockwork], Chance], seed: int | None = None, kinds: int = 0
    ) -> None:
        clock = Clockwork(seed)
        decides = chance(clock)
        self.clock = clock
        self.setting = setting
        self.site = Site(
            clock, decides, setting, Network(clock, decides), Fabric(clock, decides), Ledger(clock, setting),
            itertools.count(1 << 20), Counter(),
        )  # fmt: skip
        both = (("push", True), ("pull", False))
        self.prefills = [
            Engine(self.site, f"p{no}", True, setting.prefill_ranks, both) for no in range(setting.prefills)
        ]
        self.decodes = [
            Engine(self.site, f"d{no}", False, setting.decode_ranks, *_KINDS[(kinds + no) % len(_KINDS)])
            for no in range(setting.decodes)
        ]
        self.misfit = (
            Engine(self.site, "x0", False, setting.decode_ranks, both, page_size=setting.page_size * 2)
            if setting.misfit
            else None
        )

    @property
    def engines(self) -> list[Engine]:
        return [*self.prefills, *self.decodes, *([] if self.misfit is None else [self.misfit])]

    @property
    def processes(self) -> list[Process]:
        return [process for engine in self.engines for process in engine.living]

    def busy(self) -> dict[str, int]:
        """What is not at its idle value, in every living process and around them."""
        sizes = {f"{p.address} {name}": size for p in self.processes for name, size in p.busy().items()}
        fabric, ledger = self.site.fabric, self.site.ledger
        around = {
            "rooms": len(ledger.rooms), "flights": sum(map(len, fabric.flights.values())), "exposed": len(fabric.exposed),
            "offered": len(fabric.offered), "engines that are not up": sum(not engine.up for engine in self.engines),
            "half links": self._half_links(),
        }  # fmt: skip
        return sizes | {name: size for name, size in around.items() if size}

    def _half_links(self) -> int:
        """Links that one end holds and the other does not."""
        ends = Counter(link for process in self.processes for link in process.core.links.table)
        open_links = {link for p in self.processes for link, r in p.core.links.table.items() if r.state.name == "OPEN"}
        return sum(ends[link] != 2 for link in sorted(open_links))

    def quiesce(self, settle: int = _LATEST) -> None:
        """IdleEmpty, EventuallyReleased: with no more load, everything is idle within a bound; then every process leaves,
        and nothing is left of any link either (ShutdownEnds). ``settle``: ms that the latest message may take."""
        clock, since = self.clock, self.clock.now
        while (busy := self.busy()) or clock.now - since < settle:
            if clock.now - since > self.setting.quiet_within:
                self._not_idle(busy)
            clock.run(_LOOK)
        for engine in self.engines:
            engine.drain(back=False)
        since = clock.now
        while (
            self.processes or self.site.network.links
        ) and clock.now - since < self.setting.tells_within + 4 * self.setting.timing.lost:
            clock.run(_LOOK)
        left = [process.address for process in self.processes]
        if left or self.site.network.links:
            clock.broken(
                "ShutdownEnds", f"after everything was shut down {left} and {self.site.network.links} are left"
            )

    def _not_idle(self, busy: dict[str, int]) -> None:
        told = ", ".join(f"{name} {size}" for name, size in list(busy.items())[:12])
        room = next((r.plan.room for r in self.site.ledger.rooms.values()), None)
        self.clock.broken("IdleEmpty", f"{self.setting.quiet_within} ms after the load: {told}", room)

    def summary(self, faults: str) -> Summary:
        site = self.site
        counts = site.counts + site.network.counts + site.fabric.counts
        return Summary(
            self.clock.seed, site.ledger.started, self.setting.text(), faults, dict(sorted(site.ledger.outcomes.items())),
            dict(sorted(site.ledger.causes.items())), dict(sorted(counts.items())), self.clock.now, self.clock.events,
            self.clock.hash,
        )  # fmt: skip


def simulate(
    rooms: int, seed: int, faults: Faults = CALM, setting: Setting | None = None,
    progress: Callable[[int], None] | None = None,
) -> Summary:  # fmt: skip
    """Run so many rooms from a seed, then quiesce. Raises :class:`~.clockwork.SimulationViolation` for an invariant that
    does not hold. ``progress`` hears, every simulated second, how many rooms were started."""
    random = Random(seed)
    if setting is None:
        setting = Setting(fan=random.random() < 0.5)
    world = Simulation(setting, lambda clock: RandomChance(random, faults), seed)
    trouble = Trouble(world.site, random, faults, world.engines)
    router = Router(world.site, random, faults, world.prefills, world.decodes, world.misfit, trouble, rooms)
    while router.left:
        world.clock.run(1_000)
        if progress is not None:
            progress(world.site.ledger.started)
    world.quiesce()
    return world.summary(faults.text())
