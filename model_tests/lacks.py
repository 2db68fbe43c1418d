"""Why a pair world that stays as it is has not ended well: what a good end has and this state has not, by invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .claims import Room
from .explorer import Violation

if TYPE_CHECKING:
    from .pair import PairWorld

__all__ = ["lacks"]


def lacks(world: PairWorld) -> list[Violation]:
    """The most telling first: rooms that are not over, memory that is out, tables that are not empty."""
    rooms = [room for room in world.rooms if world.lives(room.instance) and not room.over]
    found = [
        Violation(_name(world, room), f"{_title(room)} stays {room.state.name}{_why(world, room)}") for room in rooms
    ]
    for loan in sorted(world.memory.lent, key=lambda each: (each.instance, each.key, each.kind.value, each.no)):
        if world.lives(loan.instance):
            sentence = (
                f"{loan.kind.value} {loan.no} of {loan.key.role} {loan.key.no} at instance {loan.instance} stays lent"
            )
            found.append(Violation("EventuallyReleased", sentence))
    for slot in world.living():
        view = world.view(slot)
        if view.draining and world.setting.closes:
            found.append(Violation("ShutdownEnds", f"instance {world.instances[slot]} drains and does not exit"))
        if not world.is_idle(slot):
            what = f"{len(view.sessions)} rooms, {len(view.half_open)} half open, {len(view.links)} links"
            found.append(Violation("IdleEmpty", f"instance {world.instances[slot]} is not idle: {what}"))
    for number in sorted(world.net):
        found.append(Violation("IdleEmpty", f"{type(world.mail[number]).__name__} is sent for ever"))
    return found


def _name(world: PairWorld, room: Room) -> str:
    """Which of the ways not to end this is."""
    others = [r for r in world.rooms if room.attempt and r.attempt == room.attempt and r.sender != room.sender]
    spent = world.start._asdict().items() - world.budget._asdict().items()
    if world.gentle and spent:
        return "LossSurvivable"
    if any(name == "shutdowns" for name, _ in spent):
        return "ShutdownEnds"
    if any(other.over for other in others):
        return "TerminalPropagates"
    if not others and not room.attempt:
        return "HalfOpenEnds"
    return "EveryRoomEnds"


def _title(room: Room) -> str:
    return f"{room.key.role} {room.key.no} at instance {room.instance}"


def _why(world: PairWorld, room: Room) -> str:
    others = [r for r in world.rooms if room.attempt and r.attempt == room.attempt and r.sender != room.sender]
    return "".join(f", {_title(r)} is {r.state.name}{'' if world.lives(r.instance) else ' and dead'}" for r in others)
