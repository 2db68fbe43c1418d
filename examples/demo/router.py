"""The router: gives every room to a prefill and a decode engine, a few at a time, and follows what becomes of them.

It decides nothing about a room: both engines find each other, and say themselves when they are done and why they failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Literal, Protocol

from demo.setting import EngineSetting, Message, Options

__all__ = ["EngineView", "Leg", "Order", "Peer", "Room", "Router", "Side", "make_rooms"]

Side = Literal["prefill", "decode"]
#: Which leg hears of the room first. All three must work.
Order = Literal["both at once", "prefill first", "decode first"]
_ORDERS: tuple[Order, ...] = ("both at once", "prefill first", "decode first")
_OTHER: Mapping[Side, Side] = {"prefill": "decode", "decode": "prefill"}


class Peer(Protocol):
    """An engine, as the router speaks to it."""

    name: str
    pid: int

    def start(self, setting: EngineSetting) -> None: ...
    def tell(self, command: Message) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def end(self, timeout: float) -> int: ...
    def last_words(self) -> str: ...


@dataclass
class EngineView:
    """What is known of an engine."""

    peer: Peer
    side: Side
    namespace: str
    status: str = "starting"  #: starting, ready, killed, stopped, gone, closed
    in_service: bool = True  #: may it get new rooms?
    left: dict[str, int] | None = None  #: what was not idle at the end; ``None``: it was not asked yet
    cut_off: dict[str, int] = field(default_factory=dict)  #: what close() did not wait for
    exit_status: int | None = None

    @property
    def runs(self) -> bool:
        return self.status in ("starting", "ready")


@dataclass
class Leg:
    """A room at one of its two engines."""

    engine: str
    given: bool = False
    state: str = "Bootstrapping"
    phases: dict[str, float] = field(default_factory=dict)  #: ms in each state that was left
    failure: Message | None = None

    @property
    def over(self) -> bool:
        return self.state in ("Success", "Failed")


@dataclass
class Room:
    """A request of the demonstration."""

    index: int
    room: int
    prompt: list[int]
    order: Order
    legs: dict[Side, Leg] = field(default_factory=dict)  #: empty until it is given to engines
    flags: dict[Side, Message] = field(default_factory=dict)  #: what a fault adds to the commands
    touched: str = ""  #: by a fault: how
    given_at: float = 0.0
    tokens: list[int] | None = None
    digests: list[list[str]] | None = None  #: of the rows, by pool of the decode engine and layer
    nbytes: int = 0


class Router:
    """All rooms, and all engines."""

    def __init__(self, rooms: Sequence[Room], options: Options) -> None:
        self.rooms = rooms
        self.by_id = {room.room: room for room in rooms}
        self.engines: dict[str, EngineView] = {}
        self.live: dict[int, Room] = {}
        self.window = 6 * (options.prefill + options.decode)
        self.hold_from = len(rooms)  #: rooms from this one on are not given out yet
        self._new_tokens = options.new_tokens
        self._next = 0

    # -- rooms ---------------------------------------------------------------------------------------------------------
    def give_out(self) -> None:
        """Fill the window."""
        while self._next < self.hold_from and len(self.live) < self.window:
            room = self.rooms[self._next]
            if not self._assign(room):
                return
            self._next += 1
            room.given_at = monotonic()
            self.live[room.room] = room
            first: Sequence[Side] = {"prefill first": ("prefill",), "decode first": ("decode",)}.get(
                room.order, ("prefill", "decode")
            )  # type: ignore[assignment]
            for side in first:
                self._give(room, side)

    def _assign(self, room: Room) -> bool:
        """Engines for a room, in turns; a fault may have chosen one already."""
        places: dict[Side, list[str]] = {"prefill": [], "decode": []}
        for name, view in self.engines.items():
            if view.in_service and view.status == "ready":
                places[view.side].append(name)
        prefills, decodes = places["prefill"], places["decode"]
        if not prefills or not decodes:
            return False
        turns: dict[Side, str] = {
            "prefill": prefills[room.index % len(prefills)],
            "decode": decodes[room.index // len(prefills) % len(decodes)],
        }
        for side, engine in turns.items():
            room.legs.setdefault(side, Leg(engine))
        return True

    def _give(self, room: Room, side: Side) -> None:
        leg = room.legs[side]
        if not leg.given:
            leg.given = True
            command: Message = {"do": "room", "room": room.room, "prompt": room.prompt} | room.flags.get(side, {})
            if side == "decode":
                prefill = self.engines[room.legs["prefill"].engine]
                command |= {"prefill": prefill.namespace, "new_tokens": self._new_tokens}
            self.engines[leg.engine].peer.tell(command)

    def ended(self, room: Room, side: Side) -> bool:
        """Is a leg over, as far as anybody will ever know?"""
        leg = room.legs[side]
        if not self.engines[leg.engine].runs:
            return True
        return leg.over and (side == "prefill" or leg.state == "Failed" or room.tokens is not None)

    def overdue(self, bound: float) -> list[Room]:
        """Rooms that should be over by now."""
        return [room for room in self.live.values() if monotonic() - room.given_at > bound]

    @property
    def done(self) -> bool:
        return self._next == len(self.rooms) and not self.live

    @property
    def stuck(self) -> bool:
        """Nothing is live, rooms wait, and nobody is there or about to come who could take them."""
        sides = {view.side for view in self.engines.values() if view.runs and view.in_service}
        return not self.done and not self.live and len(sides) < 2

    # -- engines -------------------------------------------------------------------------------------------------------
    def on(self, name: str, event: Message) -> Room | None:
        """An event of an engine; the room that it is about."""
        view = self.engines[name]
        match event["event"]:
            case "ready":
                view.status = "ready"
            case "idle":
                view.left = event["left"]
            case "closed":
                view.status, view.cut_off = "closed", event["left"]
            case "gone" | "unregistered" if view.runs:
                self.lost(name, event["event"])
            case "leg" | "state" | "arrived" | "tokens":
                room = self.by_id[event["room"]]
                self._on_room(room, view.side, event)
                return room
        return None

    def lost(self, name: str, status: str) -> None:
        """An engine does not run any more. What waits for a leg there need not wait."""
        view = self.engines[name]
        view.status, view.in_service = status, False
        for room in list(self.live.values()):
            if any(leg.engine == name for leg in room.legs.values()):
                for side in room.legs:
                    self._give(room, side)
                self._close(room)

    def _on_room(self, room: Room, side: Side, event: Message) -> None:
        leg = room.legs[side]
        match event["event"]:
            case "leg":
                self._give(room, _OTHER[side])
            case "state":
                leg.state = event["state"]
                leg.phases = event.get("phases", leg.phases)
                leg.failure = event.get("failure", leg.failure)
            case "arrived":
                room.digests, room.nbytes = event["digests"], event["nbytes"]
            case "tokens":
                room.tokens = event["tokens"]
        self._close(room)

    def _close(self, room: Room) -> None:
        if all(self.ended(room, side) for side in room.legs):
            self.live.pop(room.room, None)


def make_rooms(prompts: Sequence[list[int]], seed: int) -> list[Room]:
    """One room for each prompt. Ids are random u64; the first two are the ends of the range."""
    chance = Random(seed)
    ids = dict.fromkeys([0, 2**64 - 1])
    while len(ids) < len(prompts):
        ids.setdefault(chance.getrandbits(64))
    return [
        Room(index, number, prompt, _ORDERS[index % len(_ORDERS)])
        for index, (number, prompt) in enumerate(zip(ids, prompts, strict=False))
    ]
