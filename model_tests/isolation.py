"""Isolation, observed: what is done to one room leaves every other room of the process as it was.

Two things that arrive *with* an input of a room are not about that room. ``low_water`` is a fact about the sender's whole
process, so the other rooms are compared with what a heartbeat that says the same would have left. A credit that comes back
belongs to whoever waits for one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from kvpoll.protocol.core import Core
from kvpoll.protocol.records import HalfOpen, OpKey, ReceiverRecord, SenderRecord, SessionKey
from kvpoll.protocol.snapshot import Snapshot
from kvpoll.spec.wire import Heartbeat, Message, Refusal, RoomMessage

__all__ = ["disturbed", "room_of"]

Record: TypeAlias = SenderRecord | ReceiverRecord | HalfOpen
Letters: TypeAlias = Callable[[int], Message]


def disturbed(core: Core, before: Snapshot, call: tuple[Hashable, ...], after: Snapshot, letters: Letters) -> str:
    """Which other room's session ``call`` changed; empty for none, and for calls that are about the whole process."""
    room = room_of(before, call, letters)
    if room is None:
        return ""
    heard = letters(call[1]) if call[0] == "hear" and isinstance(call[1], int) else None
    if isinstance(heard, RoomMessage) and isinstance(heard.low_water, int):
        before = _after_a_heartbeat(core, before, heard)
    there, here = _records(before), _records(after)
    waiting = set(before[6])
    for name, record in there.items():
        if record.room != room and name not in waiting and here.get(name) != record:
            return f"{name} of room {record.room} changed by {call[0]} of room {room}"
    return ""


def room_of(snapshot: Snapshot, call: tuple[Hashable, ...], letters: Letters) -> int | None:
    """The one room that a call is about; ``None`` when it is about none, or several."""
    name, about = call[0], call[1] if len(call) > 1 else None
    if name in ("create_sender", "create_receiver") and isinstance(about, int):
        return about
    if name == "hear" and isinstance(about, int):
        message = letters(about)
        room = message.room if isinstance(message, RoomMessage | Refusal) else None
        return room if isinstance(room, int) else None
    if isinstance(about, OpKey):
        about = about.session
    record = _records(snapshot).get(about)
    return None if record is None else record.room


def _records(snapshot: Snapshot) -> dict[Hashable, Record]:
    found: dict[Hashable, Record] = {SessionKey("sender", no): record for no, record in snapshot[0]}
    found |= {SessionKey("receiver", gen): record for gen, record in snapshot[1]}
    return found | dict(snapshot[3])


def _after_a_heartbeat(core: Core, before: Snapshot, heard: RoomMessage) -> Snapshot:
    """What the heartbeat that says the same low_water leaves."""
    core.restore(before)
    core.receive(
        Heartbeat(
            link=heard.link, source=heard.source, target=heard.target, engine=heard.engine, low_water=heard.low_water
        )
    )  # fmt: skip
    core.take()
    return core.snapshot()
