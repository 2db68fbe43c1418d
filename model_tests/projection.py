"""A pair world that is held against its abstraction: whatever a session does, its :class:`~.abstract.Member` may do.

The members of a world are worked out from the real sessions after each action. Each member's change must be a sequence of
abstract moves, given what the members of the other side are; else ``Abstraction`` is violated, with the shortest trace. The
moves that were made are collected over all worlds, to show that the abstraction allows nothing that no session does.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kvpoll.protocol.outputs import Changed
from kvpoll.spec import Cause

from .abstract import RECEIVER, SENDER, Member, possible
from .claims import Room
from .explorer import Violation
from .pair import PairWorld
from .setting import NO_FAULTS, Budget, Setting
from .stage import State

__all__ = ["ProjectedWorld", "Shape"]


class Both(NamedTuple):
    """The world, and the members that it projects to, one for each room of an observer."""

    state: State
    members: tuple[Member, ...]


class Shape(NamedTuple):
    """One abstract move, and what the peers were like that made it possible."""

    before: Member
    after: Member


class ProjectedWorld(PairWorld):
    """See the module text. ``made``: the moves that real sessions made, shared between worlds if one is passed."""

    def __init__(self, setting: Setting, budget: Budget = NO_FAULTS, made: set[Shape] | None = None) -> None:
        self.members: tuple[Member, ...] = ()
        self.made: set[Shape] = set() if made is None else made
        self._told: set[tuple[int, Hashable]] = set()
        super().__init__(setting, budget)

    def snapshot(self) -> Hashable:
        return Both(self.state(), self.members)

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, Both)
        super().restore(snapshot.state)
        self.members = snapshot.members

    def do(self, action: Hashable) -> None:
        self._told.clear()
        before = {(room.instance, room.key): member for room, member in zip(self.rooms, self.members, strict=False)}
        super().do(action)
        after = [self._project(room, before.get((room.instance, room.key))) for room in self.rooms]
        for room, member in zip(self.rooms, after, strict=True):
            start = before.get((room.instance, room.key), SENDER if room.sender else RECEIVER)
            peers = [m for r, m in zip(self.rooms, after, strict=True) if _paired(room, r)]
            peers += [RECEIVER if room.sender else SENDER] * (self._ranks(room) - len(peers))
            way = possible(start, member, peers)
            if way is None:
                raise Violation("Abstraction", f"{room.key}: {start} became {member} beside {peers}")
            self.made.update(Shape(*step) for step in way)
        self.members = tuple(after)

    def _changed(self, instance: int, output: Changed) -> None:
        super()._changed(instance, output)
        if output.failure is not None and output.failure.cause is Cause.PEER_ABORTED:
            self._told.add((instance, output.session))

    def _project(self, room: Room, before: Member | None) -> Member:
        start = before or (SENDER if room.sender else RECEIVER)
        view = self.view_of(room.instance)
        sessions = () if view is None else view.sessions
        started = start.started or any(session.started for session in sessions if session.key == room.key)
        told = start.told or (room.instance, room.key) in self._told
        return Member(room.sender, room.state, started, room.in_doubt, told)

    def _ranks(self, room: Room) -> int:
        return self.setting.receivers if room.sender else self.setting.prefills


def _paired(one: Room, other: Room) -> bool:
    return one.sender is not other.sender and bool(one.attempt) and one.attempt == other.attempt
