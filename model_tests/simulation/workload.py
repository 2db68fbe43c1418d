"""The load: which rooms a router starts, and what goes wrong with whole processes meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from kvpoll.spec import LinkEvent, LinkState

from .engines import Engine, open_room
from .process import Process, Site
from .rooms import Abort, Plan
from .settings import Faults, Setting

__all__ = ["Router", "Trouble", "random_plan"]


def random_plan(random: Random, setting: Setting, faults: Faults, room: int, request: int) -> Plan:
    """A room: sizes, index sets and times of an ordinary request, and what goes wrong with it as often as the faults say."""

    def hit(per_mille: int) -> bool:
        return per_mille > 0 and random.random() * 1000 < per_mille

    size = setting.page_size
    pages = random.randint(1, setting.longest)
    tokens = pages * size - random.randrange(size)
    prefix = random.choice((0, 0, 0, size, random.randint(0, tokens), tokens if random.random() < 0.1 else 0))
    inner = [page * size for page in range(1, pages) if prefix < page * size < tokens]
    cuts = tuple(sorted(random.sample(inner, random.randint(0, min(3, len(inner))))))
    gates = ("restore", "scatter")[: random.choice((0, 0, 0, 1, 2))]
    aborts = []
    if hit(faults.abort):
        ranks = setting.prefill_ranks, setting.decode_ranks
        for prefill in random.choice(((True,), (False,), (True, False))):
            rank = random.choice((-1, -1, random.randrange(ranks[0 if prefill else 1])))
            aborts.append(Abort(prefill, rank, random.randint(0, 350)))
    return Plan(
        room=room, request=request, tokens=tokens, prefix=prefix, cuts=cuts, pieces=random.randint(1, 3),
        aux=random.random() < 0.5, gates=gates, prefill_starts=random.choice((1, 2, 20, 200)),
        decode_starts=random.choice((1, 2, 20, 200)), spread=random.choice((0, 1, 10)), allocates=random.choice((1, 1, 30, 150)),
        computes=random.randint(1, 40), gathers=random.randint(1, 8), commits=random.randint(1, 10),
        keeps=random.randint(1, 120), aborts=tuple(aborts),
        alone=random.choice(("prefill", "decode")) if hit(faults.alone) else "", differs=hit(faults.differ),
        gate=random.choice(("fails", "stays")) if gates and hit(faults.gate) else "", commit_fails=hit(faults.commit),
        missing=random.choice(("data", "aux")) if hit(faults.missing) else "",
        lazy=random.choice(("prefill", "decode")) if hit(faults.lazy) else "",
    )  # fmt: skip


class Router:
    """Starts rooms, so many under way at a time, until it has started enough."""

    def __init__(
        self, site: Site, random: Random, faults: Faults, prefills: Sequence[Engine], decodes: Sequence[Engine],
        misfit: Engine | None, trouble: Trouble, rooms: int,
    ) -> None:  # fmt: skip
        self.site, self.random, self.faults = site, random, faults
        self.prefills, self.decodes, self.misfit, self.trouble = prefills, decodes, misfit, trouble
        self.left = rooms
        self._rooms = 0
        self._requests = 0
        self._again: deque[tuple[Plan, tuple[Engine, Engine]]] = deque(maxlen=8)  #: whose number is used again
        site.clock.after(1, self._next)

    def _next(self) -> None:
        if not self.left:
            return
        setting = self.site.setting
        if len(self.site.ledger.rooms) < setting.live:
            self.left -= 1
            self._start()
            self.trouble.roll()
        self.site.clock.after(1 + int(self.random.expovariate(1 / setting.every)), self._next)

    def _start(self) -> None:
        random, setting = self.random, self.site.setting
        self._requests += 1
        prefill, decode = _choose(random, self.prefills), _choose(random, self.decodes)
        if self.misfit is not None and random.random() < 0.01:
            decode = self.misfit
        if self._again and random.random() < 0.5:
            plan, first = self._again.popleft()
            if random.random() < 0.7:
                prefill, decode = first  # a retry that meets what is left of the first try
            how = random.randrange(3)
            if how == 0:  # the room's number, for another request
                plan = random_plan(random, setting, self.faults, plan.room, self._requests)
            elif (
                how == 1
            ):  # the very same request, from the decode engine alone: the prefill engine's leg may still wait
                plan = replace(plan, alone="decode", aborts=())
        else:
            self._rooms += 1
            plan = random_plan(random, setting, self.faults, self._rooms, self._requests)
            if random.random() * 1000 < self.faults.reuse:
                if random.random() < 0.5:
                    plan = self._retried(plan, prefill, decode)
                else:
                    self._again.append((plan, (prefill, decode)))
        self._open(plan, prefill, decode)

    def _open(self, plan: Plan, prefill: Engine, decode: Engine) -> None:
        open_room(self.site, plan, prefill, decode)

    def _retried(self, plan: Plan, prefill: Engine, decode: Engine) -> Plan:
        """The decode engine gives the room up and tries it again at once: its ANNOUNCE may overtake its ABORT."""
        after = self.random.randint(0, 150)
        again = replace(plan, alone="decode", decode_starts=1)
        self.site.clock.after(after + self.random.randint(0, 4), partial(self._open, again, prefill, decode))
        return replace(plan, aborts=(Abort(False, -1, after),), decode_starts=1, prefill_starts=1)


def _choose(random: Random, engines: Sequence[Engine]) -> Engine:
    """One that is up; now and then one that is not, for routers know late."""
    up = [engine for engine in engines if engine.up]
    return random.choice(engines if not up or random.random() < 0.02 else up)


class Trouble:
    """Faults of whole processes, as often as the faults say, for each room that is started."""

    def __init__(self, site: Site, random: Random, faults: Faults, engines: Sequence[Engine]) -> None:
        self.site, self.random, self.faults, self.engines = site, random, faults, engines

    def roll(self) -> None:
        for name in ("crash", "wrong", "partition", "freeze", "drain"):
            if self.random.random() * 1000 < getattr(self.faults, name):
                getattr(self, name)()

    def crash(self) -> None:
        self._count("crashes")
        self.random.choice(self.engines).crash()

    def drain(self) -> None:
        self._count("drains")
        self.random.choice(self.engines).drain()

    def freeze(self) -> None:
        process = self._process()
        if process is not None:
            self._count("freezes")
            process.freeze(self.random.randint(50, 2 * self.site.setting.timing.lost))

    def wrong(self) -> None:
        """A living peer is declared lost."""
        process = self._process()
        if process is not None:
            links = [link for link, record in process.core.links.table.items() if record.state is LinkState.OPEN]
            if links:
                self._count("peers wrongly declared lost")
                process.later(0, partial(process.core.fire, self.random.choice(links), LinkEvent.LOST))

    def partition(self) -> None:
        """Two addresses cannot reach each other for a while, or one cannot reach the other."""
        links = list(self.site.network.links.values())
        if not links:
            return
        self._count("partitions")
        one, other = self.random.choice(links)
        ways = self.random.choice((((one, other),), ((other, one),), ((one, other), (other, one))))
        for way in ways:
            self.site.network.cuts[way] += 1
            self.site.clock.log("net", f"{way[0]} cannot reach {way[1]}")
        self.site.clock.after(self.random.randint(100, 2 * self.site.setting.timing.lost), partial(self._heal, ways))

    def _heal(self, ways: Sequence[tuple[str, str]]) -> None:
        for way in ways:
            self.site.network.cuts[way] -= 1
            self.site.clock.log("net", f"{way[0]} reaches {way[1]} again")

    def _process(self) -> Process | None:
        living = [process for engine in self.engines for process in engine.living]
        return self.random.choice(living) if living else None

    def _count(self, what: str) -> None:
        self.site.counts[what] += 1
