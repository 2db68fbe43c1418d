"""Engines: ranks that serve together, start, crash, drain and come back as others at the same addresses."""

from __future__ import annotations

from functools import partial

import msgspec

from kvpoll.protocol.core import CoreConfig
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.spec import Cause

from .ends import DecodeEnd, PrefillEnd
from .process import Process, Site
from .rooms import Plan, Room, abort, give_up

__all__ = ["Engine", "open_room"]

#: What may keep an engine from creating a room.
_REFUSALS = (Cause.ROOM_BUSY, Cause.DRAINING, Cause.LIMIT)
#: ms between two looks at what a process that shuts down still holds.
_LOOK = 50


class Engine:
    """One engine at fixed addresses. ``up``: it takes rooms. ``transports``: name and whether it pushes, by preference."""

    def __init__(
        self, site: Site, name: str, prefill: bool, ranks: int, transports: tuple[tuple[str, bool], ...], direct: bool = False,
        page_size: int = 0,
    ) -> None:  # fmt: skip
        self.site = site
        self.name = name
        self.prefill = prefill
        self.size = ranks
        self.transports = transports
        self.direct = direct
        self.page_size = page_size or site.setting.page_size
        self.ranks: list[Process] = []
        self.id = 0
        self.up = False
        self.leaving = False
        self._gen = 0
        self._created: list[int] = []  #: by rank: when the last room was (or will be) created
        self.start()

    def start(self) -> None:
        """Every rank starts, as another instance; together they are another engine."""
        setting = self.site.setting
        timing = setting.timing
        if self.prefill:
            timing = msgspec.structs.replace(timing, total=timing.total + setting.margin)
        self.id = next(self.site.ids)
        self.ranks = []
        for rank in range(self.size):
            low = rank * setting.layers if self.prefill and setting.fan else 0
            high = low + setting.layers if self.prefill else setting.all_layers
            config = CoreConfig(
                instance=next(self.site.ids), engine=self.id, rank=rank, timing=timing, page_size=self.page_size,
                page_nbytes=8, layers=(low, high), max_parts=64, max_rooms=4 * setting.live, max_links=64,
                max_half_open=4 * setting.live, credits=setting.credits, direct=self.direct, push=self.transports,
            )  # fmt: skip
            self.ranks.append(Process(self.site, self.address(rank), config, self.prefill))
        self._gen = 0
        self._created = [self.site.clock.now] * self.size
        self.up, self.leaving = True, False

    def address(self, rank: int) -> str:
        return f"{self.name}.{rank}"

    @property
    def living(self) -> list[Process]:
        return [process for process in self.ranks if process.alive]

    def crash(self) -> None:
        """One rank dies, the others with it a moment later; all of them are started again some time."""
        if self.leaving or not self.up:
            return
        self.up = False
        pause = self.site.chance.pause
        last = 0
        for process in self.ranks:
            at = pause(60)
            last = max(last, at)
            self.site.clock.after(at, partial(self._crash, process))
        self.site.clock.after(last + pause(3_000), self.start)

    def _crash(self, process: Process) -> None:
        if not process.alive:
            return
        peers = [p for p in self.site.network.places.values() if p is not process]
        links = [(p, link) for p in peers for link in p.core.links.table if self._joins(p, link, process)]
        process.crash()
        for peer, link in links:
            if self.site.chance.pause(3) == 1:  # the others see the connection break, or hear nothing any more
                peer.later(self.site.chance.pause(40), partial(peer.core.disconnected, link))
        self.site.clock.after(
            3 * self.site.setting.timing.lost, partial(self._forget, process.address, process.instance)
        )

    def _joins(self, peer: Process, link: int, process: Process) -> bool:
        return peer.core.links.table[link].instance == process.instance

    def _forget(self, address: str, instance: int) -> None:
        """Nobody dials the links that a dead process had dialled."""
        network = self.site.network
        place = network.places.get(address)
        mine = {} if place is None else place.core.links.table
        for link in [
            link for link, (initiator, _) in network.links.items() if initiator == address and link not in mine
        ]:
            del network.links[link]

    # -- rooms -----------------------------------------------------------------------------------------------------------------
    def next_gen(self) -> int:
        self._gen += 1
        return self._gen

    def at(self, rank: int, delay: int) -> int:
        """ms until this rank creates a room: in the engine's order, so that gens rise at every rank."""
        now = self.site.clock.now
        self._created[rank] = max(self._created[rank], now + delay)
        return self._created[rank] - now

    # -- leaving -----------------------------------------------------------------------------------------------------------------
    def drain(self, back: bool = True) -> None:
        """Take no new rooms, fail what is left after a while, go, and (``back``) come back."""
        if not self.up:
            return
        self.up, self.leaving = False, True
        within = self.site.chance.pause(1_500)
        for process in self.living:
            process.later(0, partial(process.core.drain, within))
            process.later(within, process.core.shutdown)
        self.site.clock.after(within, partial(self._leave, self.site.clock.now + within, back))

    def _leave(self, since: int, back: bool) -> None:
        """Wait until nothing is held, a while at most; then end the links, and go once they are fenced (ShutdownEnds)."""
        clock, timing = self.site.clock, self.site.setting.timing
        waited = clock.now - since
        for process in self.living:
            held = {name: size for name, size in process.busy().items() if name != "tombstones" and name != "clocks"}
            links = process.core.links.table
            if links and (not held or waited > timing.lost):
                process.later(0, process.core.close_links)
            elif not links and not held and not process.frozen:
                process.leave()
            elif waited > self.site.setting.tells_within + timing.lost:
                process.broken("ShutdownEnds", f"still holds {held}, {len(links)} links, {waited} ms after shutdown")
        if self.living:
            clock.after(_LOOK, partial(self._leave, since, back))
        elif back:
            clock.after(self.site.chance.pause(1_000), self.start)


def open_room(site: Site, plan: Plan, prefill: Engine, decode: Engine) -> Room:
    """The router sends a request to both engines; each rank creates its end when it gets there."""
    sides = [e for e, only in ((prefill, "decode"), (decode, "prefill")) if plan.alone != only]
    room = site.ledger.start(plan, sum(e.size for e in sides), f"{prefill.name} {decode.name}")
    site.clock.log("room", f"{plan.request} {prefill.name} {decode.name}", plan.room)
    gen = decode.next_gen() if decode in sides else 0
    for engine in sides:
        starts = plan.prefill_starts if engine.prefill else plan.decode_starts
        for rank in range(engine.size):
            make = partial(_create, site, room, engine, engine.id, rank, gen, prefill, decode)
            site.clock.after(engine.at(rank, starts + rank * plan.spread), make)
    for planned in plan.aborts:
        engine = prefill if planned.prefill else decode
        site.clock.after(
            planned.after, partial(_abort, room, planned.prefill, planned.rank, f"{engine.name} gives it up")
        )
    return room


def _create(
    site: Site, room: Room, engine: Engine, engine_id: int, rank: int, gen: int, prefill: Engine, decode: Engine
) -> None:
    process = engine.ranks[rank]
    if engine.id != engine_id or not process.alive:
        site.ledger.absent(room)
    elif process.frozen:
        again = partial(_create, site, room, engine, engine_id, rank, gen, prefill, decode)
        site.clock.after(process.frozen - site.clock.now, again)
    else:
        process.run(partial(_create_now, room, process, rank, gen, prefill, decode))


def _create_now(room: Room, process: Process, rank: int, gen: int, prefill: Engine, decode: Engine) -> None:
    plan, site, setting = room.plan, process.site, process.setting
    request = plan.fingerprint(process.prefill)
    end: PrefillEnd | DecodeEnd
    try:
        if process.prefill:
            key = process.core.create_sender(plan.room, request, decode.size if setting.fan else 1)
            end = PrefillEnd(room, process, key, rank, site.clock.now)
        else:
            ranks = range(prefill.size) if setting.fan else (rank,)
            senders = [(prefill.address(other), other) for other in ranks]
            key = process.core.create_receiver(plan.room, request, senders, gen)
            end = DecodeEnd(room, process, key, rank, site.clock.now, attempt=(process.config.engine, gen))
    except LocalProtocolError as error:
        if error.cause not in _REFUSALS:
            raise
        site.counts[f"creates refused: {error.cause.name}"] += 1
        process.log(f"refuses to create it: {error.cause.name}")
        site.ledger.absent(room)
        give_up(room, process.prefill, site.chance.pause(100))
        return
    site.ledger.created(room, end, decode.size)
    process.adopt(end)
    if process.prefill in room.failed:
        abort(end, "another rank failed")  # created all the same, so that the peers hear of it (Q13)
    end.begin()


def _abort(room: Room, prefill: bool, rank: int, reason: str) -> None:
    for end in room.ends:
        if end.prefill is prefill and rank in (-1, end.rank) and not end.gone:
            end.process.later(0, partial(abort, end, reason))
