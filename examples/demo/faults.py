"""What may go wrong on purpose. Each fault happens while rooms are in flight: an event of a room sets it off, no clock.

A fault says which rooms it touches and what is expected of those. Every other room must succeed as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from demo.router import Leg, Room, Router, Side
from demo.setting import CHUNK, Message, Options
from kvpoll.protocol.plans.ranks import Shape

__all__ = ["FAULTS", "Abort", "Fault", "Lost", "Mismatch", "OddPair", "Restart", "make_fault"]

Way = Literal["kill", "stop"]


class Fault:
    """None: nothing goes wrong."""

    title = ""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.did = ""  #: what happened, in words

    def prepare(self) -> None:
        """Before the first room is given out."""

    def page_size(self, name: str, usual: int) -> int:
        """Of an engine, in tokens."""
        return usual

    def shape(self, name: str, usual: Shape) -> Shape:
        """Of an engine."""
        return usual

    def on(self, name: str, event: Message, room: Room | None) -> None:
        """After an event."""

    def problem(self, room: Room) -> str:
        """What is wrong with a room that was touched; empty if it ended as it should."""
        return ""

    def problems(self) -> list[str]:
        """What is wrong with the fault itself."""
        return [] if self.did else [f"the fault {self.title!r} never happened"]


class _Nothing(Fault):
    def problems(self) -> list[str]:
        return []


class Abort(Fault):
    """Some prompts turn out to be bad after a chunk (a client's error, 400), some clients go away."""

    title = "abort"

    def prepare(self) -> None:
        long = [room for room in self.router.rooms if len(room.prompt) > CHUNK]
        for room in long[::4]:
            room.flags["prefill"], room.touched = {"give_up_after": 1}, "the prefill engine gives up after a chunk"
        for room in long[2::4]:
            room.flags["decode"], room.touched = {"cancel": True}, "the client goes away"

    def on(self, name: str, event: Message, room: Room | None) -> None:
        if event.get("failure", {}).get("cause") == "ABORTED":
            count = sum(bool(room.touched) for room in self.router.rooms)
            self.did = f"{count} rooms were aborted, some by prefill after their first chunk, some by decode"

    def problem(self, room: Room) -> str:
        by: Side = "prefill" if "prefill" in room.flags else "decode"
        status = 400 if by == "prefill" else 499
        for side, leg in room.legs.items():
            got = leg.failure or {"cause": leg.state, "status": 200, "details": {}}
            if side == "prefill" and got["cause"] == "TRANSPORT_FAILED" and "refused" in str(got["details"]):
                continue  # a part on its way was refused by the engine that gave up, before its ABORT was heard
            expected = "ABORTED" if side == by else "PEER_ABORTED"
            if (got["cause"], got["status"]) != (expected, status):
                return f"{side}: expected {expected} with status {status}, got {got['cause']} with {got['status']}"
        return ""


class Lost(Fault):
    """An engine is killed, or stops, in the middle of a room: one long request stalls there with half of its data on the
    way, or all of it and not committed. When the decode engine says that data is coming, it happens."""

    def __init__(self, router: Router, victim: str, way: Way) -> None:
        super().__init__(router)
        self.victim, self.way = victim, way
        self.title = f"{way} {victim}"
        self._stalled: Room | None = None

    def prepare(self) -> None:
        side = self.router.engines[self.victim].side
        self._stalled = next(room for room in self.router.rooms if len(room.prompt) > 2 * CHUNK)
        self._stalled.legs[side] = Leg(self.victim)
        self._stalled.flags[side] = {"stall": True}

    def on(self, name: str, event: Message, room: Room | None) -> None:
        decoding = self.router.engines[name].side == "decode"
        if (
            self.did
            or room is None
            or room is not self._stalled
            or not decoding
            or event.get("state") != "Transferring"
        ):
            return
        mine = [r for r in self.router.live.values() if any(leg.engine == self.victim for leg in r.legs.values())]
        view = self.router.engines[self.victim]
        if self.way == "kill":
            view.peer.kill()
        else:
            view.peer.stop()
        for touched in mine:
            touched.touched = f"{self.victim} was {_PAST[self.way]} before it was over"
        self.did = f"{self.victim} was {_PAST[self.way]} with {len(mine)} rooms in flight"
        self.router.lost(self.victim, _PAST[self.way])

    def problem(self, room: Room) -> str:
        return _ended(room, self.router)

    def problems(self) -> list[str]:
        hit = [room for room in self.router.rooms if room.touched and any(leg.failure for leg in room.legs.values())]
        return super().problems() or ([] if hit else [f"the fault {self.title!r} hit no room that was in flight"])


class Restart(Lost):
    """Killed, and started again in the same namespace; the last quarter of the rooms waits for the new process."""

    def __init__(self, router: Router, victim: str, start: Callable[[str], None]) -> None:
        super().__init__(router, victim, "kill")
        self.title = f"restart {victim}"
        self._start = start
        self._again = f"{victim} again"

    def prepare(self) -> None:
        super().prepare()
        self.router.hold_from = len(self.router.rooms) - max(2, len(self.router.rooms) // 4)

    def on(self, name: str, event: Message, room: Room | None) -> None:
        before = self.did
        super().on(name, event, room)
        if self.did and not before:
            self._start(self._again)
            self.did += "; a new process took its place"
        if name == self._again and event["event"] == "ready":
            for late in self.router.rooms[self.router.hold_from :]:
                late.flags["prefill"] = {}
                late.legs["prefill"] = Leg(self._again)
            self.router.hold_from = len(self.router.rooms)

    def problems(self) -> list[str]:
        again = [room for room in self.router.rooms if room.legs and room.legs["prefill"].engine == self._again]
        return super().problems() + ([] if again else ["the new process got no room"])


class Mismatch(Fault):
    """A decode engine with another page size. It gets a few rooms, which must be refused by the names of the fields."""

    title = "mismatch"
    field = "page.size"  #: what the refusal has to name
    what = "has pages of another size"
    _ROOMS = 4

    def page_size(self, name: str, usual: int) -> int:
        return usual // 2 if name == "decode-0" else usual

    def prepare(self) -> None:
        self.router.engines["decode-0"].in_service = False  # for all but these
        rooms = self.router.rooms
        few = max(1, min(self._ROOMS, len(rooms) // 2))
        for room in rooms[1 :: max(1, len(rooms) // few)][:few]:
            room.legs["decode"] = Leg("decode-0")
            room.touched = f"its decode engine {self.what}"

    def on(self, name: str, event: Message, room: Room | None) -> None:
        if event.get("failure", {}).get("cause") == "HANDSHAKE_REFUSED":
            self.did = f"decode-0 {self.what}; its rooms were refused"

    def problem(self, room: Room) -> str:
        failure = room.legs["decode"].failure or {"cause": room.legs["decode"].state, "details": {}}
        fields = str(failure["details"].get("fields", ""))
        if failure["cause"] != "HANDSHAKE_REFUSED" or self.field not in fields.split():
            return f"decode should have been refused because of {self.field}, got {failure['cause']} {fields}"
        return _ended(room, self.router)


class OddPair(Mismatch):
    """The sizes that were asked for do not fit together. A decode engine of such sizes gets a few rooms, which must be
    refused by name; the others go to one of the prefill engine's own sizes."""

    title = "sizes that do not fit"

    def __init__(self, router: Router, options: Options) -> None:
        super().__init__(router)
        self.field, self._options = options.refused, options
        ours, theirs = _sizes(options.decode_shape), _sizes(options.prefill_shape)
        self.what = f"is split in a way that does not fit (it has {ours}, prefill {theirs})"

    def page_size(self, name: str, usual: int) -> int:
        return usual

    def shape(self, name: str, usual: Shape) -> Shape:
        return usual if name == "decode-0" else self._options.prefill_shape


#: Name on the command line -> the fault's class, and a line for --help.
FAULTS: dict[str, str] = {
    "abort": "some rooms are given up by prefill half-way, some by decode",
    "kill-prefill": "SIGKILL of prefill-0 while rooms are in flight",
    "kill-decode": "SIGKILL of decode-0 while rooms are in flight",
    "restart-prefill": "prefill-0 is killed and started again under its name",
    "stop-decode": "SIGSTOP of decode-0: alive and silent",
    "mismatch": "decode-0 has another page size",
}


def _sizes(shape: Shape) -> str:
    return (
        ", ".join(f"{name} {size}" for name, size in zip(shape._fields, shape, strict=True) if size > 1) or "one rank"
    )


_PAST: dict[Way, str] = {"kill": "killed", "stop": "stopped"}


def make_fault(options: Options, router: Router, start: Callable[[str], None]) -> Fault:
    match options.fault:
        case "":
            return OddPair(router, options) if options.refused else _Nothing(router)
        case "abort":
            return Abort(router)
        case "mismatch":
            return Mismatch(router)
        case "restart-prefill":
            return Restart(router, "prefill-0", start)
        case "kill-prefill" | "kill-decode":
            return Lost(router, f"{options.fault.removeprefix('kill-')}-0", "kill")
        case "stop-decode":
            return Lost(router, "decode-0", "stop")
        case _:
            raise ValueError(f"fault: expected one of {', '.join(FAULTS)}, got {options.fault}")


def _ended(room: Room, router: Router) -> str:
    """Every leg at an engine that still runs must be over, and say why when it failed."""
    for side, leg in room.legs.items():
        if router.engines[leg.engine].status in ("killed", "stopped"):
            continue
        if not leg.over:
            return f"the {side} leg is still {leg.state}"
        if leg.state == "Failed" and not (leg.failure or {}).get("sentence"):
            return f"the {side} leg failed without a cause"
    return ""
