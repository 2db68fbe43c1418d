"""Engines with one fault each, like :mod:`.wrong`: about gates, commits, stops, new attempts, and peers that lie."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from .plug import DECODE, PREFILL, About, Adapter, Gate, How, Refused, Side
from .reference import Reference, Setting
from .reference.world import TIMING

__all__ = ["WRONG_MORE"]


class _Gates(Reference):
    """What is said of a gate is taken for something else; ``None``: for nothing."""

    def __init__(self, **taken: Gate | None) -> None:
        super().__init__()
        self.taken = taken

    def gate(self, room: int, name: str, what: Gate) -> None:
        self._handle(DECODE, room)
        taken = self.taken.get(what, what)
        if taken is not None:
            super().gate(room, name, taken)


class _AnyGate(Reference):
    """One open gate is taken for all."""

    def gate(self, room: int, name: str, what: Gate) -> None:
        super().gate(room, name, what)
        handle = self._handle(DECODE, room)
        if what == "open":
            for each in {gate for member in handle.members.values() for gate in member.gates}:
                super().gate(room, each, "open")


class _LateGate(Reference):
    """A failure of a gate is heard of although its room is over."""

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.undone: set[int] = set()

    def gate(self, room: int, name: str, what: Gate) -> None:
        super().gate(room, name, what)
        if what == "fail":
            self.undone.add(room)

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        return 0 if side == DECODE and room in self.undone else told


class _Hoards(Reference):
    """Every room that failed leaves something behind."""

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.failed: set[tuple[Side, int]] = set()

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        if told == 0:
            self.failed.add((side, room))
        return told

    def left(self, side: Side) -> int:
        return super().left(side) + sum(of == side for of, _ in self.failed)


class _Slow(Reference):
    """Limits are declared that are not kept."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.honest = Reference().about().limits

    def about(self) -> About:
        return replace(super().about(), limits=self.honest)


class _Stops(Reference):
    """One way to stop is taken for another."""

    def __init__(self, taken: How | None, of: How) -> None:
        super().__init__()
        self.taken, self.of = taken, of

    def stop(self, side: Side, how: How) -> None:
        taken = self.taken if how == self.of else how
        if taken is not None:
            super().stop(side, taken)


class _Keeps(Reference):
    """What a shutdown ended never gives its memory back; or is Success for some, ``undoes``: and what was Success is not."""

    def __init__(self, undoes: bool = False) -> None:
        super().__init__()
        self.undoes = undoes

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.stopped: dict[tuple[Side, int], int] = {}

    def stop(self, side: Side, how: How) -> None:
        if how == "shutdown":
            for (each, room), handle in self._handles.items():
                if each == side and handle is not None:
                    self.stopped[each, room] = int(handle.state)
        super().stop(side, how)

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        return 0 if self.undoes and self.stopped.get((side, room)) == 4 else told

    def released(self, side: Side, room: int) -> bool:
        ended = self.stopped.get((side, room)) in (1, 2, 3)
        return super().released(side, room) and (self.undoes or not ended)


class _Silently(Reference):
    """It stops, and tells nobody."""

    def stop(self, side: Side, how: How) -> None:
        if how == "drain":
            super().stop(side, how)
            return
        self._place(side)
        put = self.world.put
        self.world.put = lambda near, link, message: None if near.side == side else put(near, link, message)  # type: ignore[method-assign]
        super().stop(side, how)


class _Blind(Reference):
    """Something goes wrong, and is not noticed."""

    def __init__(self, fault: str, setting: Setting | None = None) -> None:
        super().__init__(setting or Setting())
        self.what = fault

    def fault(self, side: Side, room: int, name: str) -> None:
        if name != self.what:
            super().fault(side, room, name)


class _FreesWhileWriting(Reference):
    """Pages are free while the decode side still writes them."""

    def released(self, side: Side, room: int) -> bool:
        handle = self._handles.get((side, room)) or self._old.get((side, room))
        free = side == DECODE and handle is not None and int(handle.state) == 0 and (side, room) in self.world.slow
        return free or super().released(side, room)


class _Believes(Reference):
    """A side takes what it is told for the end of the room."""

    def __init__(self, lie: str, side: Side, state: int) -> None:
        super().__init__()
        self.lie, self.side, self.becomes = lie, side, state

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.told: set[int] = set()

    def fault(self, side: Side, room: int, name: str) -> None:
        super().fault(side, room, name)
        if name == self.lie:
            self.told.add(room)

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        return self.becomes if side == self.side and room in self.told else told


class _Falls(Reference):
    """A lie kills the side that hears it, or makes it deaf to everything else."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self.raises = raises

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.hurt: set[int] = set()
        self.states: dict[tuple[Side, int], int] = {}

    def fault(self, side: Side, room: int, name: str) -> None:
        super().fault(side, room, name)
        if name.startswith("forged"):
            self.hurt.add(room)

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        if not self.hurt:
            self.states[side, room] = told
        elif self.raises and room in self.hurt:
            raise IndexError(room)
        elif not self.raises:
            return self.states.get((side, room), told)  # whoever was told stands still for ever
        return told


class _Once(Reference):
    """A number is free only when the other side has let it go, too; that is declared otherwise."""

    def create(self, side: Side, room: int, pages: int) -> None:
        ahead = self._times[DECODE, room] >= self._times[PREFILL, room]
        if (
            side == DECODE
            and ahead
            and self._handles.get((PREFILL, room)) is not None
            and (side, room) in self._handles
        ):
            raise Refused("the prefill side still has it")
        super().create(side, room, pages)


class _NeverEmpty(Reference):
    """A request of no pages waits for a movement that never comes."""

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        handle = self._handles.get((side, room))
        return 2 if told == 4 and handle is not None and not handle.total else told


#: By name: what makes one.
WRONG_MORE: dict[str, Callable[[], Adapter]] = {
    "rooms that failed are kept for ever": _Hoards,
    "gates are not waited for": lambda: _Gates(close=None, open=None, fail=None),
    "a gate that fails is open": lambda: _Gates(fail="open"),
    "a gate that fails stays closed": lambda: _Gates(fail=None),
    "a gate that opens fails": lambda: _Gates(open="fail"),
    "one gate is all gates": _AnyGate,
    "a late failure of a gate takes Success back": _LateGate,
    "a gate is waited for without limit": lambda: _Slow(Setting(timing=replace(TIMING, gate=60_000))),
    "drain ends live rooms": lambda: _Stops("shutdown", "drain"),
    "drain does nothing": lambda: _Stops(None, "drain"),
    "shutdown leaves live rooms": lambda: _Stops("drain", "shutdown"),
    "shutdown tells nobody": _Silently,
    "shutdown keeps memory": _Keeps,
    "shutdown takes Success back": lambda: _Keeps(undoes=True),
    "pages that could not be written are Success": lambda: _Blind("commit_fails"),
    "another request's first token is Success": lambda: _Blind("aux_wrong"),
    "pages are free while they are written": lambda: _FreesWhileWriting(Setting(direct=False)),
    "sides that do not fit go on": lambda: _Blind("mismatched"),
    "a room that is taken is taken over": lambda: _Blind("room_taken"),
    "a silent room is waited for without limit": lambda: _Slow(
        Setting(timing=replace(TIMING, silence=60_000, total=60_000))
    ),
    "said to be there is there": lambda: _Believes("forged_done", DECODE, 4),
    "a closed plan is a whole one": lambda: _Believes("forged_close", DECODE, 4),
    "said to have arrived has arrived": lambda: _Believes("forged_conclude", PREFILL, 4),
    "a late failure of the peer takes Success back": lambda: _Believes("forged_abort", PREFILL, 0),
    "a word that does not fit raises": lambda: _Falls(True),
    "a word that does not fit stops everything": lambda: _Falls(False),
    "the decode side cannot start over": _Once,
    "a request of no pages hangs": _NeverEmpty,
}
