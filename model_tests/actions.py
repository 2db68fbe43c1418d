"""What can happen next in a pair world, in a fixed order; and which of it happens some time for sure.

An action is a tuple: its name, then what it is about. Those that may cost budget end in ``free``: false when they do.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeAlias

from kvpoll.protocol.records import Deadline
from kvpoll.spec import LinkEvent, LinkState
from kvpoll.spec.wire import RoomMessage

from .claims import unfinished
from .memory import ATTEMPTS, Flight
from .network import Network, next_up
from .pages import free_pages
from .setting import Clocks, rooms_of

if TYPE_CHECKING:
    from .pair import PairWorld

__all__ = ["Action", "enabled", "is_fair"]

Action: TypeAlias = tuple[Hashable, ...]

#: These happen some time, if they can.
_SURE = {"deliver", "fenced", "gathered", "committed", "no leg", "beat", "fence proved", "close links", "exit"}
#: These do, when their last element says that they cost nothing.
_SURE_IF_FREE = {"done", "failed", "clock", "lost"}
#: These do in worlds whose engines act.
_ENGINE = {"create", "send", "metadata", "commit", "open gate"}


def is_fair(world: PairWorld, action: Action) -> bool:
    name = action[0]
    return (
        name in _SURE
        or (name in _SURE_IF_FREE and bool(action[-1]))
        or (name in _ENGINE and world.setting.clocks is not Clocks.ALL)
    )


def enabled(world: PairWorld) -> list[Action]:
    budget = world.budget
    todo: list[Action] = []
    network = world.setting.network
    for number in next_up(world.net, world.channel):
        todo.append(("deliver", number))
        if budget.losses and Network.LOSSY in network:
            todo.append(("lose", number))
        if budget.copies and Network.DUPLICATING in network:
            todo.append(("copy", number))
        if budget.mixups and _is_known(world, number):
            todo.append(("mix up", number))
    for flight in sorted(world.memory.flights):
        if world.lives(flight.owner):
            todo += _flight(world, flight)
    for slot, core in enumerate(world.cores):
        if core >= 0:
            todo += _engine(world, slot) + _clocks(world, slot) + _process(world, slot)
        elif budget.restarts:
            todo.append(("restart", slot))
    if world.setting.clocks is not Clocks.ALL and quiet(world) and not any(is_fair(world, a) for a in todo):
        # Only one leg ever came, or the two do not fit: the pairing deadlines end that, and nothing else does.
        for slot in world.living():
            todo += _pairing(world, slot)
    return todo


def quiet(world: PairWorld) -> bool:
    """Nothing is on its way that could still count as evidence."""
    return (
        not world.net
        and not world.fences
        and not any(world.lives(f.owner) and not f.unresolved for f in world.memory.flights)
    )


def _is_known(world: PairWorld, number: int) -> bool:
    """The process that a message goes to knows the attempt, and so its room. (A *first* message under a wrong number would
    pair a wrong leg: no receiver of messages can tell.)"""
    message = world.mail[number]
    view = world.view(world.target(number)) if world.can_arrive(number) else None
    if view is None or not isinstance(message, RoomMessage):
        return False
    return any(attempt == message.engine * ATTEMPTS + message.gen for _, attempt in view.attempts)


def _flight(world: PairWorld, flight: Flight) -> list[Action]:
    if flight.unresolved:
        todo: list[Action] = [("fenced", flight, True)] if flight.fencing and world.setting.fences else []
        return [*todo, ("done", flight, False)] if world.setting.fences else todo  # it was only slow
    budget = world.budget
    # A read of memory that its owner fenced does not end well: the owner may have given it to somebody else since.
    cut = not flight.theirs
    todo = [] if (cut and not world.setting.push) or _parked(world, flight) else [("done", flight, True)]
    if cut or flight.cancelled or budget.failures:
        todo.append(("failed", flight, cut or flight.cancelled))
    if budget.unresolved:
        todo.append(("unresolved", flight, False))
    return todo


def _parked(world: PairWorld, flight: Flight) -> bool:
    """The transport lets a pull wait for its offer, which is made when the gather ends."""
    return world.parks and unfinished(flight, world.memory, world.legs())


def _engine(world: PairWorld, slot: int) -> list[Action]:
    setting, budget, view = world.setting, world.budget, world.view(slot)
    instance = world.instances[slot]
    prefill = slot < setting.prefills
    todo: list[Action] = []
    todo += [("create", slot, room) for room in rooms_of(setting) if may_create(world, slot, room)]
    for session in view.sessions:
        key = session.key
        if prefill and session.open and (not session.terminal or setting.late):
            todo.append(("send", slot, key, session.sent))
        if not prefill and not session.has_meta and has_pages(world, slot):
            todo.append(("metadata", slot, key))
        for gate in session.gates:
            todo.append(("open gate", slot, key, gate))
            if budget.failures:
                todo.append(("gate failed", slot, key, gate))
        if budget.aborts and (not session.terminal or setting.late):
            todo.append(("abort", slot, key))
    for at, key in sorted(world.ready):
        if at == instance:
            todo.append(("commit", slot, key))
            if budget.failures:
                todo += [("data missing", slot, key), ("aux mismatch", slot, key)]
    for work in sorted(world.memory.work):
        if work.instance == instance and work.chunk >= 0:
            todo.append(("gathered", slot, work))
        elif work.instance == instance:
            todo.append(("committed", slot, work))
            if budget.failures:
                todo.append(("commit failed", slot, work))
    return todo


def may_create(world: PairWorld, slot: int, room: int) -> bool:
    """The engine hears of the request, or tries it again."""
    if not world.acts(slot):
        return False
    live = any(session.room == room and not session.terminal for session in world.view(slot).sessions)
    return not live and world.tried(slot, room) < world.tries(slot)


def has_pages(world: PairWorld, slot: int) -> bool:
    """There are as many free pages as a request needs, if pages are counted."""
    much, instance = world.setting.pages, world.instances[slot]
    return not much or len(free_pages(much, instance, world.placed, world.memory)) >= world.tokens


def _clocks(world: PairWorld, slot: int) -> list[Action]:
    setting, view, still = world.setting, world.view(slot), quiet(world)
    todo: list[Action] = []
    for session in view.sessions:
        for clock in session.timers:
            # A leg that failed before it was paired keeps its answer until its pairing deadline, and no longer.
            lingers = session.terminal and clock is Deadline.PAIRING
            free = still and (lingers or _is_free(setting.clocks, clock))
            if free or world.budget.clocks:
                todo.append(("clock", slot, session.key, clock, free))
    if setting.clocks is Clocks.ALL and not world.net:
        todo += [("no leg", slot, ids) for ids in view.half_open]
    for link, record in view.links.items():
        for event in record.timers:
            if still and _is_free_link(setting.clocks, record.state, event):
                todo.append(("clock", slot, link, event, True))
    return todo


def _is_free(clocks: Clocks, clock: Deadline) -> bool:
    """A clock that goes off for nothing when all is quiet. RESEND: a fact was lost. TOTAL: so that every room ends."""
    if clock is Deadline.RESEND:
        return clocks is not Clocks.NONE
    return clock is Deadline.TOTAL and clocks is Clocks.ALL


def _is_free_link(clocks: Clocks, state: LinkState, event: LinkEvent) -> bool:
    if event is LinkEvent.BEAT:
        return state is LinkState.GREETING and clocks is not Clocks.NONE
    return event is LinkEvent.HELLO_LATE and state is not LinkState.OPEN and clocks is Clocks.ALL


def _pairing(world: PairWorld, slot: int) -> list[Action]:
    view = world.view(slot)
    clocks: list[Action] = [
        ("clock", slot, session.key, Deadline.PAIRING, True)
        for session in view.sessions
        if Deadline.PAIRING in session.timers
    ]
    return clocks + [("no leg", slot, ids) for ids in view.half_open]


def _process(world: PairWorld, slot: int) -> list[Action]:
    budget, view = world.budget, world.view(slot)
    instance = world.instances[slot]
    todo: list[Action] = [("fence proved", slot, link) for at, link in sorted(world.fences) if at == instance]
    for link, record in view.links.items():
        if not record.open:
            continue
        peer = world.view_of(record.instance)
        theirs = None if peer is None else peer.links.get(link)
        if theirs is not None and record.initiator and theirs.low_water < view.low_water:
            todo.append(("beat", slot, link))
        # Nothing is heard of a peer that is dead, or that does not know this link any more.
        deaf = peer is None or (theirs is None and quiet(world))
        if deaf or budget.wrong:
            todo.append(("lost", slot, link, deaf))
        if budget.lies and record.initiator and peer is not None:
            todo.append(("lie", slot, link))
    if budget.crashes:
        todo.append(("crash", slot))
    if budget.shutdowns:
        todo.append(("shutdown", slot))
    if budget.drains and not view.draining:
        todo.append(("drain", slot))
    if world.setting.closes and view.draining:
        todo += [("exit", slot)] if not view.links else [("close links", slot)] if not view.sessions else []
    return todo
