"""Memory with a shadow: for each piece, who it is lent to and how many operations can touch it right now.

The shadow is kept by who really does things (an allocator, an operation in flight, a gather, a commit), never by what a
core believes. It is asserted at allocate, free and write. Contents are patterns, one number for each page of a layer, so
that another room's, another rank's, another layer's or a shifted page is seen for what it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NoReturn, Protocol

from .clockwork import Clockwork

__all__ = ["POISON", "Buffer", "Copy", "Holder", "Page", "Pool", "Shadow", "pattern", "touch", "untouch"]

#: What memory holds that nobody filled.
POISON = -1


def pattern(request: int, rank: int, layer: int, page: int) -> int:
    """What page number ``page`` of a request holds, in one layer of one prefill rank. No two are equal."""
    return ((request * 64 + rank) * 64 + layer) * 4096 + page


class Holder(Protocol):
    """Whom memory can be lent to: one end of a room."""

    @property
    def number(self) -> int:
        """Of the room."""

    @property
    def instance(self) -> int: ...

    @property
    def text(self) -> str: ...


class Shadow:
    """One piece of memory."""

    __slots__ = ("clock", "holder", "name", "touched")

    def __init__(self, clock: Clockwork, name: str) -> None:
        self.clock = clock
        self.name = name
        self.holder: Holder | None = None
        self.touched = 0  #: by so many operations in flight, gathers and commits

    def lend(self, holder: Holder) -> None:
        if self.holder is not None:
            self._broken("ExactlyOnceFree", f"{self.name} is lent to {self.holder.text} already", holder)
        if self.touched:
            self._broken("NoFreeInFlight", f"{self.name} is lent while {self.touched} operations can touch it", holder)
        self.holder = holder

    def give_back(self, holder: Holder) -> None:
        if self.holder is not holder:
            whose = "nobody" if self.holder is None else self.holder.text
            self._broken("ExactlyOnceFree", f"{self.name} is given back, and is lent to {whose}", holder)
        if self.touched:
            self._broken(
                "NoFreeInFlight", f"{self.name} is given back while {self.touched} operations can touch it", holder
            )
        self.holder = None

    def touch(self, holder: Holder) -> None:
        """An operation for this holder can touch it from now on."""
        if self.holder is not holder:
            self._broken(
                "NoFreeInFlight", f"an operation starts on {self.name}, which is not lent to this room", holder
            )
        self.touched += 1

    def untouch(self) -> None:
        self.touched -= 1

    def written(self, holder: Holder) -> None:
        """It is being written for this holder."""
        if self.holder is not holder or not self.touched:
            whose = "nobody" if self.holder is None else self.holder.text
            self._broken("NoFreeInFlight", f"{self.name} is written for {holder.text}, and is lent to {whose}", holder)

    def _broken(self, invariant: str, sentence: str, holder: Holder) -> NoReturn:
        self.clock.broken(invariant, f"{sentence}: {holder.text}", holder.number, holder.instance)


class Page(Shadow):
    """One page of a pool: a number for each layer."""

    __slots__ = ("no", "values")

    def __init__(self, clock: Clockwork, name: str, no: int, layers: int) -> None:
        super().__init__(clock, f"{name} {no}")
        self.no = no
        self.values = [POISON] * layers

    def give_back(self, holder: Holder) -> None:
        super().give_back(holder)
        self.values = [POISON] * len(self.values)


class Copy(Shadow):
    """A gathered copy of one part: layer by layer, page by page. ``values`` is empty until it is gathered."""

    __slots__ = ("values",)

    def __init__(self, clock: Clockwork, name: str) -> None:
        super().__init__(clock, name)
        self.values: tuple[int, ...] = ()

    def give_back(self, holder: Holder) -> None:
        super().give_back(holder)
        self.values = (POISON,) * len(self.values)


class Buffer(Shadow):
    """A receive buffer: what arrived, by link and part; and over which links it may be written."""

    __slots__ = ("links", "parts")

    def __init__(self, clock: Clockwork, name: str) -> None:
        super().__init__(clock, name)
        self.links: dict[int, None] = {}
        self.parts: dict[tuple[int, int], tuple[int, ...]] = {}

    def put(self, holder: Holder, link: int, part: int, values: tuple[int, ...]) -> None:
        self.written(holder)
        if (link, part) in self.parts:
            self._broken("NoWriteAfterArrival", f"part {part} is written a second time", holder)
        self.parts[link, part] = values

    def give_back(self, holder: Holder) -> None:
        super().give_back(holder)
        self.parts = {}


class Pool:
    """An engine's allocator at one rank. Pages that were freed last are lent first: stale writers meet them soonest."""

    def __init__(self, clock: Clockwork, name: str, pages: int, layers: int) -> None:
        self._free = deque(Page(clock, name, no, layers) for no in range(pages))
        self.pages = pages

    def allocate(self, count: int, holder: Holder) -> list[Page] | None:
        """``count`` pages, or ``None`` when there are not that many."""
        if count > len(self._free):
            return None
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            page.lend(holder)
        return pages

    def free(self, pages: Sequence[Page], holder: Holder) -> None:
        for page in pages:
            page.give_back(holder)
        self._free.extend(pages)

    @property
    def lent(self) -> int:
        return self.pages - len(self._free)


def touch(pieces: Iterable[Shadow], holder: Holder) -> None:
    for piece in pieces:
        piece.touch(holder)


def untouch(pieces: Iterable[Shadow]) -> None:
    for piece in pieces:
        piece.untouch()
