"""Snapshots of a core: canonical, hashable, and restored by assignment, since every record in it is frozen."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from kvpoll.spec import TERMINAL

from .links import LinkRecord
from .receiver import ReceiverSession
from .records import HalfOpen, ReceiverRecord, SenderRecord, SessionKey, Tomb
from .sender import SenderSession

if TYPE_CHECKING:
    from .core import Core

__all__ = ["Snapshot", "into", "of"]

Snapshot: TypeAlias = tuple[
    tuple[tuple[int, SenderRecord], ...],
    tuple[tuple[int, ReceiverRecord], ...],
    tuple[tuple[int, LinkRecord], ...],
    tuple[tuple[tuple[int, int, int, int], HalfOpen], ...],
    tuple[tuple[tuple[int, int, int, int], Tomb], ...],
    tuple[int, int, int, int],
    tuple[SessionKey, ...],
]


def of(core: Core) -> Snapshot:
    """All there is, canonical and hashable; clocks as they are armed. Outputs must have been taken."""
    return (
        tuple((no, s.rec) for no, s in core.legs.sessions.items()),
        tuple((gen, s.rec) for gen, s in core.receivers.items()),
        tuple(sorted(core.links.table.items())),
        tuple(sorted(core.legs.half_open.items())),
        tuple(sorted(core.legs.tombs.items())),
        (core.legs.count, core.last_gen, core.env.credits, int(core.draining)),
        tuple(core._waiting),
    )


def into(core: Core, snapshot: Snapshot) -> None:
    """Become what :func:`of` saw. The heap of clocks is not restored: it belongs to real time."""
    senders, receivers, links, half_open, tombs, (count, last_gen, credits, draining), waiting = snapshot
    legs = core.legs
    legs.sessions = {no: SenderSession(core.env, SessionKey("sender", no), rec) for no, rec in senders}
    legs.rooms = {rec.room: no for no, rec in senders if rec.node.state not in TERMINAL}
    legs.failed = {rec.room: no for no, rec in senders if rec.node.state in TERMINAL and not rec.peers}
    legs.attempts = {(rec.engine, rec.gen): no for no, rec in senders if rec.gen}
    legs.half_open, legs.tombs, legs.count = dict(half_open), dict(tombs), count
    core.receivers = {gen: ReceiverSession(core.env, SessionKey("receiver", gen), rec) for gen, rec in receivers}
    core.rooms = {rec.room: gen for gen, rec in receivers if rec.node.state not in TERMINAL}
    core.links.table = dict(links)
    core.links.by_address = {record.address: link for link, record in links if record.address}
    core.last_gen, core.env.credits, core.draining = last_gen, credits, bool(draining)
    core._waiting = deque(waiting)
    core.env.out = []
