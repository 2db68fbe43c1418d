"""Engines with one fault each, behind the public plug: what such faults look like from outside. The suite must find them all.

Each is the reference with one method changed. Wrong rows of the tables are in :mod:`.mutation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from kvpoll.protocol.records import LeaseKind
from kvpoll.spec.wire import Abort, Close, Conclude, Message, Status

from .plug import DECODE, PREFILL, About, Adapter, Limits, Refused, Side
from .reference import Reference, Setting
from .reference.mover import Flight
from .reference.process import Handle
from .reference.topology import Address
from .wrong_more import WRONG_MORE
from .wrong_ranks import WRONG_RANKS

__all__ = ["WRONG"]


class _Told(Reference):
    """poll() goes through ``tell``."""

    def __init__(self, tell: Callable[[_Told, Side, int, int], int]) -> None:
        super().__init__()
        self.tell = tell

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.polls: dict[tuple[Side, int], int] = {}
        self.since: dict[tuple[Side, int], int] = {}

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        if told in (0, 4):
            self.since.setdefault((side, room), self.world.now)
        return self.tell(self, side, room, told)

    def long_over(self, side: Side, room: int) -> bool:
        return self.world.now - self.since.get((side, room), self.world.now) > 5


def _told(tell: Callable[[_Told, Side, int, int], int]) -> Callable[[], Adapter]:
    return lambda: _Told(tell)


class _Moved(Reference):
    """What lands goes through ``land``."""

    def __init__(self, land: Callable[[_Moved, Flight], None], setting: Setting | None = None) -> None:
        self.wrong_land = land
        super().__init__(setting or Setting())

    def _start(self) -> None:
        super()._start()
        self.right = self.world.mover.land
        self.world.mover.land = partial(self.wrong_land, self)  # type: ignore[method-assign]


def _moved(land: Callable[[_Moved, Flight], None]) -> Callable[[], Adapter]:
    return lambda: _Moved(land)


class _Deaf(Reference):
    """Some messages are never sent."""

    def __init__(self, *kinds: type[Message]) -> None:
        self.kinds = kinds
        super().__init__()

    def _start(self) -> None:
        super()._start()
        put = self.world.put

        def some(near: Address, link: int, message: Message) -> None:
            if not isinstance(message, self.kinds):
                put(near, link, message)

        self.world.put = some  # type: ignore[method-assign]


# -- movers ------------------------------------------------------------------------------------------------------------
def _flip(self: _Moved, flight: Flight) -> None:
    if flight.source is not None and flight.source.data:
        flight.source.data[-1] ^= 1
    self.right(flight)


def _backwards(self: _Moved, flight: Flight) -> None:
    flight.pages = flight.pages[::-1]
    self.right(flight)


def _neighbour(self: _Moved, flight: Flight) -> None:
    self.right(flight)
    if flight.target is not None and flight.pages:
        spare = (flight.pages[-1] + 1) % self.setting.pages
        flight.target.process.write([spare], bytes(self.setting.page_bytes))


def _into_source(self: _Moved, flight: Flight) -> None:
    self.right(flight)
    prefill = self.world.places.get(Address(PREFILL))
    if prefill is not None and flight.pages:
        prefill.write([flight.pages[0]], bytes(self.setting.page_bytes))


def _twice(self: _Moved, flight: Flight) -> None:
    """Once more, long after everything."""
    self.right(flight)
    target, source = flight.target, flight.source
    if target is not None and source is not None:
        pages, data = list(flight.pages), bytes(source.data[::-1])
        self.world.after(60, lambda: target.process.write(pages, data))


def _late(self: _Moved, flight: Flight) -> None:
    """It says done, and the bytes land a while later."""
    target, source = flight.target, flight.source
    if target is not None and source is not None:
        data, pages = bytes(source.data), list(flight.pages)
        target.arrived[flight.key] = data
        self.world.after(8, lambda: target.process.write(pages, data))


def _half(self: _Moved, flight: Flight) -> None:
    """What is short is called whole."""
    flight_short, flight.short = flight.short, False
    data = bytes(flight.source.data) if flight.source is not None else b""
    if flight_short and flight.target is not None:
        flight.target.arrived[flight.key] = data
        flight.target.process.write(flight.pages, data[: len(data) // 2])
    else:
        self.right(flight)


# -- engines -----------------------------------------------------------------------------------------------------------
class _NoAbort(Reference):
    def __init__(self, side: Side) -> None:
        super().__init__()
        self.side = side

    def abort(self, side: Side, room: int) -> None:
        self._handle(side, room)
        if side != self.side:
            super().abort(side, room)


class _NeverFree(Reference):
    def __init__(self, side: Side, state: int = -1) -> None:
        super().__init__()
        self.side, self.only = side, state

    def released(self, side: Side, room: int) -> bool:
        handle = self._handles.get((side, room)) or self._old.get((side, room))
        mine = side == self.side and handle is not None and self.only in (-1, int(handle.state))
        return False if mine else super().released(side, room)


class _FreeEarly(Reference):
    def __init__(self, side: Side) -> None:
        super().__init__()
        self.side = side

    def released(self, side: Side, room: int) -> bool:
        return True if side == self.side else super().released(side, room)


class _FreeAtFailure(Reference):
    """A timeout or an abort frees memory, whatever is under way."""

    def released(self, side: Side, room: int) -> bool:
        handle = self._handles.get((side, room)) or self._old.get((side, room))
        return True if handle is not None and int(handle.state) == 0 else super().released(side, room)


class _Truncates(Reference):
    """Too few destinations: it writes as much as there is room for, and calls it Success."""

    def create(self, side: Side, room: int, pages: int) -> None:
        other = self._handles.get((PREFILL if side == DECODE else DECODE, room))
        super().create(side, room, pages if other is None else other.total)

    def metadata(self, room: int, pages: Sequence[int]) -> None:
        handle = self._handle(DECODE, room)
        short = list(pages)[: handle.total]
        super().metadata(room, short + short[-1:] * (handle.total - len(short)))


class _Takes(Reference):
    """A wrong call is accepted."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def create(self, side: Side, room: int, pages: int) -> None:
        old = self._handles.get((side, room))
        if self.what == "create" and old is not None and int(old.state) not in (0, 4):
            old.group.abort(old)  # the newcomer takes the number
        super().create(side, room, pages)

    def metadata(self, room: int, pages: Sequence[int]) -> None:
        handle = self._handles.get((DECODE, room))
        if self.what == "meta" and handle is not None and handle.pages:
            handle.pages[: len(pages)] = list(pages)
            return
        super().metadata(room, pages)

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        handle = self._handles.get((PREFILL, room))
        if self.what == "send" and handle is not None and handle.closed:
            return
        super().send(room, pages, last)


class _Spreads(Reference):
    """One failure takes others along."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when, self.hit = when, False

    def begin(self, case: str, fresh: bool) -> None:
        super().begin(case, fresh)
        self.hit = False

    def abort(self, side: Side, room: int) -> None:
        super().abort(side, room)
        if self.when == "abort":
            for (each, number), handle in list(self._handles.items()):
                if each == side and number != room and handle is not None:
                    handle.group.abort(handle)

    def fault(self, side: Side, room: int, name: str) -> None:
        super().fault(side, room, name)
        self.hit = self.hit or name == self.when

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        if self.hit and room != min(number for _, number in self._handles):
            self._handle(PREFILL, room).sent += len(pages)  # the worker is dead: nothing is done, and nobody says so
            return
        super().send(room, pages, last)


class _Raises(Reference):
    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when

    def poll(self, side: Side, room: int) -> int:
        told = super().poll(side, room)
        if self.when == "failed" and told == 0:
            raise KeyError(room)
        return told

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        if self.when == "last" and last and len(pages) > 3:
            raise RuntimeError("too much")
        super().send(room, pages, last)

    def create(self, side: Side, room: int, pages: int) -> None:
        if self.when == "again" and (side, room) in self._handles:
            raise Refused("once and for all")
        super().create(side, room, pages)


class _Mute(Reference):
    def why(self, side: Side, room: int) -> str:
        return ""


class _OldState(Reference):
    """A number that is used again shows the end of its last use."""

    def poll(self, side: Side, room: int) -> int:
        old = self._old.get((side, room))
        return int(old.state) if old is not None else super().poll(side, room)


class _ReadsLate(Reference):
    """Source pages are said to be free before they were read."""

    def _start(self) -> None:
        super()._start()
        prefill = self.world.places[Address(PREFILL)]
        gather = prefill._gather

        def later(handle: Handle, no: int, pages: list[int]) -> None:
            handle.lent = {each for each in handle.lent if each[0] is not LeaseKind.SOURCE}
            self.world.after(10, partial(gather, handle, no, pages))

        prefill._gather = later  # type: ignore[method-assign]


class _Patient(Reference):
    """Limits are declared, and longer ones are kept."""

    def about(self) -> About:
        about = super().about()
        limits = about.limits
        short = Limits(
            react=limits.react, transfer=limits.transfer, abort=limits.abort, error=limits.error, resend=limits.resend,
            pairing=(limits.pairing or 0) / 2, waiting=(limits.waiting or 0) / 2, silence=(limits.silence or 0) / 2,
            total=(limits.total or 0) / 2, release=limits.release, late=limits.late,
        )  # fmt: skip
        return replace(about, limits=short)


#: By name: what makes one.
WRONG: dict[str, Callable[[], Adapter]] = {
    "decode pages never come back": lambda: _NeverFree(DECODE),
    "decode pages of failed rooms never come back": lambda: _NeverFree(DECODE, 0),
    "source pages never come back": lambda: _NeverFree(PREFILL),
    "decode pages are free at once": lambda: _FreeEarly(DECODE),
    "failure frees memory": _FreeAtFailure,
    "source pages are read after they were free": _ReadsLate,
    "decode says Success early": _told(lambda s, side, room, told: 4 if side == DECODE and told == 3 else told),
    "prefill says Success early": _told(lambda s, side, room, told: 4 if side == PREFILL and told == 3 else told),
    "Success turns into Failed": _told(
        lambda s, side, room, told: 0 if told == 4 and s.long_over(side, room) else told
    ),
    "Failed turns into Success": _told(
        lambda s, side, room, told: 4 if told == 0 and s.long_over(side, room) else told
    ),
    "Failed goes back to WaitingForInput": _told(
        lambda s, side, room, told: 2 if told == 0 and s.long_over(side, room) else told
    ),
    "Transferring goes back": _told(lambda s, side, room, told: 1 if told == 3 and s.world.now % 2 else told),
    "a sixth state": _told(lambda s, side, room, told: 5 if told == 3 else told),
    "Failed is shown as -1": _told(lambda s, side, room, told: -1 if told == 0 else told),
    "a new room begins as Transferring": _told(lambda s, side, room, told: max(told, 3) if told else told),
    "decode failures are not shown": _told(lambda s, side, room, told: 1 if told == 0 and side == DECODE else told),
    "prefill failures are not shown": _told(lambda s, side, room, told: 1 if told == 0 and side == PREFILL else told),
    "prefill Success is not shown": _told(lambda s, side, room, told: 3 if told == 4 and side == PREFILL else told),
    "abort does nothing at decode": lambda: _NoAbort(DECODE),
    "abort does nothing at prefill": lambda: _NoAbort(PREFILL),
    "nobody is told of a failure": lambda: _Deaf(Abort, Status),
    "nobody is told of Success": lambda: _Deaf(Conclude, Status),
    "nobody is told of the end of a plan": lambda: _Deaf(Close, Status),
    "a byte is changed on its way": _moved(_flip),
    "pages arrive in the wrong order": _moved(_backwards),
    "a page beside is written": _moved(_neighbour),
    "a source page is written": _moved(_into_source),
    "everything is written twice": _moved(_twice),
    "the bytes come after the word": _moved(_late),
    "short data is called whole": _moved(_half),
    "too few destinations are a Success": _Truncates,
    "a live number is taken over": lambda: _Takes("create"),
    "destinations may be given twice": lambda: _Takes("meta"),
    "chunks after the last are swallowed": lambda: _Takes("send"),
    "one abort takes all rooms along": lambda: _Spreads("abort"),
    "an error kills the worker": lambda: _Spreads("mover_error"),
    "an exception kills the worker": lambda: _Spreads("mover_raises"),
    "poll raises for a failed room": lambda: _Raises("failed"),
    "a large last chunk raises": lambda: _Raises("last"),
    "a number is used once": lambda: _Raises("again"),
    "no failure says why": _Mute,
    "an old end is shown again": _OldState,
    "limits are not kept": _Patient,
    **WRONG_MORE,
    **WRONG_RANKS,
}
