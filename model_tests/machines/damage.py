"""Damaged and forged messages against a process with many rooms (TotalHandlers, Isolation).

The messages are those of a real run. Their bytes are changed as Hypothesis draws, or values in them are swapped with those
of other messages. The decoder refuses them as RemoteProtocolError or returns a message; a message that it returns is given
to a real core in the middle of its rooms, as if no seal had caught it: the core must not raise, must not follow a row that
its table calls impossible, and must leave every room alone that the message does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import NamedTuple

import msgspec
from hypothesis import strategies as st

from kvpoll.protocol.codec import decode
from kvpoll.protocol.core import Core
from kvpoll.protocol.errors import RemoteProtocolError
from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.records import SessionKey
from kvpoll.protocol.snapshot import Snapshot
from kvpoll.spec.table import Verdict
from kvpoll.spec.wire import (
    Abort,
    AbortAck,
    Announce,
    Close,
    Conclude,
    Message,
    Metadata,
    Offer,
    PartDone,
    Query,
    RoomMessage,
    Status,
)

from ..simulation.chance import RandomChance
from ..simulation.engines import open_room
from ..simulation.settings import FAULTS, Setting
from ..simulation.workload import random_plan
from ..simulation.world import Simulation

__all__ = ["Corpus", "corpus", "decoded", "edits", "forge", "hear", "spliced"]


class Corpus(NamedTuple):
    """A process in the middle of its rooms, and the frames of a run that reached it."""

    core: Core
    state: Snapshot
    frames: tuple[bytes, ...]
    now: int


@cache
def corpus(seed: int, prefill: bool) -> Corpus:
    """Run a dozen rooms for a moment, and stop."""
    random = Random(seed)
    setting = Setting(
        prefills=1, decodes=1, prefill_ranks=2, decode_ranks=2, misfit=False, pages=200, fan=seed % 2 == 0
    )
    world = Simulation(setting, lambda clock: RandomChance(random, FAULTS["network"]), seed, kinds=seed % 4)
    for number in range(1, 13):
        open_room(
            world.site,
            random_plan(random, setting, FAULTS["rooms"], number, number),
            world.prefills[0],
            world.decodes[0],
        )
        world.clock.run(30)
    process = (world.prefills if prefill else world.decodes)[0].ranks[0]
    heard = [
        line for line in world.clock.recent if line.frame and line.who == process.address and line.what != "damaged"
    ]
    return Corpus(process.core, process.core.snapshot(), tuple(line.frame for line in heard), world.clock.now)


#: Edits of bytes: (what, where, with which byte or how many).
edits = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "insert", "repeat"]), st.integers(0, 1 << 16), st.integers(0, 255)),
    min_size=1, max_size=4,
)  # fmt: skip


def spliced(frame: bytes, changes: Sequence[tuple[str, int, int]]) -> bytes:
    """The frame with these edits, one after the other."""
    data = bytearray(frame)
    for what, where, value in changes:
        at = where % (len(data) + 1)
        match what:
            case "set":
                data[at : at + 1] = bytes([value])
            case "cut":
                del data[at : at + 1 + value % 16]
            case "insert":
                data.insert(at, value)
            case _:
                data[at:at] = data[at : at + 1 + value % 32]
    return bytes(data)


def decoded(frame: bytes) -> Message | None:
    """What the decoder makes of it; ``None`` when it is refused. Anything but RemoteProtocolError gets through."""
    try:
        return decode(frame).message
    except RemoteProtocolError:
        return None


_ROOM = (Abort, AbortAck, Announce, Close, Conclude, Metadata, Offer, PartDone, Query, Status)


def forge(message: Message, other: Message, fields: Sequence[str]) -> Message:
    """``message`` with these fields of ``other``, as far as both have them."""
    both = [f for f in fields if f in message.__struct_fields__ and f in other.__struct_fields__]
    return msgspec.structs.replace(message, **{f: getattr(other, f) for f in both})


def hear(at: Corpus, message: Message) -> str:
    """Give a message to the process as it was, and look. Returns "kept" when no room changed, else "moved"."""
    core = at.core
    core.env.trace = _no_impossible_row
    core.restore(at.state)
    core.env.now = at.now
    before = _rooms(core)
    core.receive(message)
    core.take()
    after = _rooms(core)
    changed = [key for key in before if before[key] != after.get(key)]
    if (
        isinstance(message, _ROOM)
        and isinstance(message, RoomMessage)
        and isinstance(message.low_water, msgspec.UnsetType)
    ):
        attempt = (message.engine, message.gen)
        for key in changed:
            if attempt not in before[key].names and message.room != before[key].room:
                raise AssertionError(f"Isolation: {message} changed {key}, of room {before[key].room}")
    return "moved" if changed else "kept"


class _Room(NamedTuple):
    room: int
    names: tuple[tuple[int, int], ...]
    record: object


def _rooms(core: Core) -> dict[SessionKey, _Room]:
    """What there is of each room, but for its place in the queue for credits."""
    return {s.key: _Room(s.rec.room, ((s.rec.engine, s.rec.gen),), s.rec) for s in core.sessions()}


def _no_impossible_row(key: SessionKey, edge: Edge, signal: Signal) -> None:
    if edge.verdict is Verdict.NEVER:
        raise AssertionError(f"TotalHandlers: {key} followed an impossible row: {edge.row.state.name} {signal.name}")
