"""A room brought to any point of its life, over either direction of transfer: where replays about time, aborts and stopping
begin."""

from __future__ import annotations

import pytest

from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Refusal, RoomMessage

from ..protocol.pair import TERMINAL, TIMING, Leg, request
from .shadow import Shadow

__all__ = ["STAGES", "at", "every_stage", "failed", "live_until", "silence"]

#: In the order of a room's life. Pages are handed over at "waiting"; everything is here at "whole", and not committed.
STAGES = ("created", "bound", "waiting", "sent", "in flight", "half done", "whole")
every_stage = pytest.mark.parametrize("stage", STAGES)


def at(world: Shadow, stage: str, room: int = 7) -> tuple[Leg, Leg]:
    """From here on operations end, and commits happen, only when they are told to."""
    world.d.auto_commit = False
    s, r = world.both(room, request(4))
    if stage == "created":
        return s, r
    world.run()
    if stage == "bound":
        return s, r
    r.metadata(aux=0)
    world.run()
    if stage == "waiting":
        return s, r
    world.hold()
    s.send_all(2)
    if stage == "sent":
        return s, r
    world.run()
    for reached in ("in flight", "half done"):
        if stage == reached:
            return s, r
        world.mover.end_op("done")
        world.run()
    return s, r


def silence(world: Shadow, *sources: str, within: int) -> None:
    """Let time pass while no word about any room arrives that these processes say. Their heartbeats do."""
    end = world.now + within
    while world.now < end:
        lost = [f for f in world.wire if f.source in sources and isinstance(f.message, RoomMessage | Refusal)]
        world.wire = [flight for flight in world.wire if flight not in lost]
        if world.wire:
            world.deliver()
        else:
            world.advance(min(TIMING.resend, end - world.now), run=False)


def live_until(world: Shadow, leg: Leg, within: int) -> int:
    """How long it takes until this leg is over, in ms; fails when it takes longer than ``within``."""
    begin = world.now
    world.run()
    while leg.state not in TERMINAL:
        assert world.now - begin <= within, f"{leg.key} is {leg.state.name} after {within} ms"
        world.advance(250)
    return world.now - begin


def failed(leg: Leg) -> str:
    """Why it failed; the first cause, whichever end it came from."""
    assert leg.state is KVPoll.Failed, leg.state.name
    return str(leg.details.get("cause", leg.cause))
