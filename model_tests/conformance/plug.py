"""What an engine has to offer to be judged: the adapter. STABLE: names, arguments and meanings are only added to.

An adapter stands for a PAIR of engines that can hand KV pages over: one prefill side and one decode side, in one process
or many, with threads and sockets or on a simulated clock. The suite calls it from one thread, one call at a time. It makes
up the room numbers and the page numbers, fills source pages with a pattern, and judges what it sees by ``poll`` and by the
bytes. Nothing of how the engine works inside is asked for.

The life of a room, as the suite drives it::

    create(DECODE, room, n)   create(PREFILL, room, n)      in either order
    init(DECODE, room)        metadata(room, pages)         decode says where the data goes
    init(PREFILL, room)       send(room, pages, last)       one or more chunks; the last one says so
    poll(side, room)                                        any time: 0 Failed, 1 Bootstrapping, 2 WaitingForInput,
                                                            3 Transferring, 4 Success
    gate(room, name, what)                                  decode: a local step that Success waits for, where there is one
    abort(side, room)                                       any time
    clear(side, room)                                       when it is over (or earlier, to see what happens)

Three kinds of answers: a call returns; it raises :class:`Refused` when the engine says no to this call (the suite makes
wrong calls on purpose); it raises :class:`Unsupported` when the adapter cannot do such a thing at all, for instance inject
a fault that it does not know. Any other exception counts as an engine that raised. An adapter never hides what its engine
does: it retries nothing, catches nothing and waits for nothing, beyond what the engine's own users would do.

Every wait of the suite is bounded by the engine's own limits (:class:`Limits`): declare what the engine promises.
:class:`Plain` is a base class with defaults, for convenience; nothing asks for it. ``make()``, without arguments, returns an
adapter; ``module:make`` names it for ``kvpoll conformance run --impl`` and ``pytest --kvpoll-impl``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

__all__ = [
    "CAPABILITIES", "DECODE", "FAULTS", "PREFILL", "SIDES", "About", "Adapter", "Counted", "Gate", "Gated", "How", "Limits",
    "Make", "Plain", "Ranked", "Refused", "Side", "Stoppable", "Unsupported", "other",
]  # fmt: skip

Side: TypeAlias = Literal["prefill", "decode"]
PREFILL: Side = "prefill"  #: the sender
DECODE: Side = "decode"  #: the receiver
SIDES: tuple[Side, Side] = (PREFILL, DECODE)
Gate: TypeAlias = Literal["close", "open", "fail"]
How: TypeAlias = Literal["drain", "shutdown"]

#: What an engine may be able to do, by tag. A case that needs a tag which is not declared is ``unsupported``.
CAPABILITIES: dict[str, str] = {
    "push": "the prefill side writes into decode memory",
    "pull": "the decode side reads prefill memory",
    "chunks": "a room can be sent in more than one chunk",
    "abort": "abort() exists at both sides",
    "clear": "clear() exists, and a cleared room can still be polled or is refused",
    "memory": "fill() and read() show the real pages of both sides",
    "released": "released() says when pages of a room may be used again",
    "reuse": "a room number can be used again after clear() at both sides",
    "early-send": "send() may come before metadata() has arrived",
    "early-metadata": "metadata() may come before the prefill side has created the room",
    "refusals": "a wrong call is refused: it raises Refused and changes nothing",
    "why": "why() says in words why a room has failed",
    "cause": "why() begins with the name of an entry of kvpoll's failure catalogue",
    "gates": "gate() exists: Success at decode can be made to wait for local steps (a cache restore, a scatter)",
    "drain": "stop(side, 'drain') exists: no new rooms, and live ones go on",
    "shutdown": "stop(side, 'shutdown') exists: every live room of the side ends",
    "left": "left(side) exists: how much the engine still keeps of rooms",
    "retry": "a decode side may create a room again after clear(), though the prefill side still has the old attempt",
    "empty": "a request may be of no pages at all: everything is at the decode side already",
    "ranks": "ranks() exists: a side can be a group of ranks, behind one poll()",
}

#: What an adapter may be able to inject, by tag; the first argument of ``fault`` is the side it happens at.
FAULTS: dict[str, str] = {
    "mover_error": "the next movement of this room's data returns an error and touches nothing any more",
    "mover_raises": "the next movement of this room's data raises inside the engine",
    "mover_stalls": "movements of this room's data do not end until heal(); they may land then",
    "mover_unresolved": "the engine never learns how the next movement ended; the bytes land late, at heal() the latest",
    "mover_corrupts": "the next movement of this room's data changes one byte; nothing reports it",
    "truncate": "the next movement of this room's data moves less than asked for and reports success",
    "peer_silent": "this side neither sends nor hears anything until heal()",
    "peer_killed": "the process of this side is gone without a word; heal() may start another one",
    "message_lost": "the next message that this side sends is lost",
    "message_copied": "the next message that this side sends arrives twice",
    "message_late": "the next message that this side sends is held back until heal()",
    "room_silent": "this side neither says nor hears anything of this room until heal(); its process lives",
    "commit_fails": "decode: writing what arrived into this room's pages fails",
    "commit_stalls": "decode: writing what arrived into this room's pages does not end until heal()",
    "aux_wrong": "decode: the data beside the pages (first token, ...) that arrives for this room is another request's",
    "mismatched": "the two sides do not fit (another model, layout, version); known when they meet, so before their first room",
    "peer_full": "this side has no place for another room until heal()",
    "room_taken": "prefill: another decode engine has this room already",
    "forged_conclude": "decode says that everything has arrived",
    "forged_passed": "decode says that it does not have this attempt any more",
    "forged_destinations": "decode gives destinations that do not fit, after those that do, if there were any",
    "forged_abort": "this side says that it has failed, and goes on",
    "forged_done": "prefill says that everything was moved, and nothing was",
    "forged_plan": "prefill says that it moves pages which the request does not have",
    "forged_close": "prefill says that there is nothing more to come, and nothing was planned",
    "forged_unknown": "prefill says that it knows nothing of this room",
    "forged_busy": "prefill says that another engine has this room",
    "rank_error": "the next movement of the data of this side's last rank, for this room, returns an error",
    "rank_killed": "the process of this side's last rank is gone without a word; heal() may start another one",
    "rank_silent": "this side's last rank neither sends nor hears anything, calls included, until heal()",
    "rank_late": "this side's last rank hears of the calls that follow only at heal(), in their order",
}


class Refused(Exception):
    """The engine said no to this call, and nothing has changed."""


class Unsupported(Exception):
    """The adapter cannot do this at all. Says what."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine promises, in seconds. ``None``: it promises nothing, and cases about it are unsupported.

    The suite never waits longer than one of these (and a little, see :mod:`.driver`), so short settings make short runs.
    """

    react: float = 0.2  #: a call or an ordinary message shows its effect at the other side
    transfer: float = 5.0  #: a few pages, from the last call to Success at both sides
    abort: float = 1.0  #: from abort() at one side to the end of the room at both
    error: float = 2.0  #: from a movement that ended in an error to the end of the room at both
    resend: float = 2.0  #: a control message that was lost is made up for, where anything is sent again at all
    pairing: float | None = 30.0  #: prefill: a room that nobody gives destinations for ends
    waiting: float | None = 30.0  #: decode: a room whose destinations are given, and nothing arrives, ends
    silence: float | None = 30.0  #: either: the peer is dead or silent, and the room ends
    total: float | None = 120.0  #: either: any room ends, whatever happens
    release: float = 5.0  #: from the end of a room at both sides until its pages may be used again
    late: float = 0.5  #: how long the suite looks for a late write into pages that may be used again
    gate: float | None = None  #: decode: a room whose gate stays closed ends; at least ten times ``react``


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What the adapter says of itself. Constant while it lives."""

    name: str
    version: str
    capabilities: frozenset[str] = frozenset()  #: tags of CAPABILITIES
    faults: frozenset[str] = frozenset()  #: tags of FAULTS
    limits: Limits = Limits()
    pages: int = 64  #: of each side; the suite uses numbers below it
    page_bytes: int = 64  #: of one page, everything included
    clock: Literal["real", "simulated"] = "real"  #: simulated: time passes in advance() only
    profiles: frozenset[str] = frozenset({"common"})  #: of requirements: "common", and for kvpoll itself "kvpoll"
    environment: dict[str, str] = {}  #: what a reader needs to reproduce a run: library versions, settings


@runtime_checkable
class Adapter(Protocol):
    """The pair under test; see the module text. Only ``Refused`` and ``Unsupported`` are answers, the rest are findings."""

    def about(self) -> About: ...

    def begin(self, case: str, fresh: bool) -> None:
        """A case begins. ``fresh``: an earlier one may have left damage, start from nothing (a new pair, if need be)."""

    def create(self, side: Side, room: int, pages: int) -> None:
        """The router's request reaches this side; it will be ``pages`` pages long."""

    def init(self, side: Side, room: int) -> None:
        """The second half of a creation, where an engine has one (sender.init, receiver.init); else it does nothing."""

    def metadata(self, room: int, pages: Sequence[int]) -> None:
        """Decode: the data goes to these pages, in order. They stay the room's until ``released(DECODE, room)``."""

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        """Prefill: the next chunk is in these pages. They stay the room's until ``released(PREFILL, room)``."""

    def poll(self, side: Side, room: int) -> int:
        """The state that the engine tells, as a number. For a room that is unknown: Refused, or the number it tells."""

    def abort(self, side: Side, room: int) -> None: ...

    def clear(self, side: Side, room: int) -> None: ...

    def advance(self, seconds: float) -> None:
        """Let time pass: sleep, or move the simulated clock."""

    def fill(self, side: Side, pages: Sequence[int], data: bytes) -> None:
        """Write ``len(pages) * page_bytes`` bytes, behind the engine's back."""

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        """The bytes that are really there, once the engine's own reader could see them."""

    def released(self, side: Side, room: int) -> bool:
        """True once the engine lets its user give this room's pages to somebody else."""

    def fault(self, side: Side, room: int, name: str) -> None:
        """From now on this goes wrong, for this room (its process, where the fault is about one). Raises Unsupported."""

    def heal(self) -> None:
        """Every fault is over: what was held back goes on."""

    def why(self, side: Side, room: int) -> str:
        """Why a room has failed, in the engine's words; empty when it says nothing. Clears nothing."""

    def close(self) -> None:
        """The run is over: end processes, threads and sockets."""


@runtime_checkable
class Gated(Protocol):
    """What an adapter has beside :class:`Adapter` that declares ``gates``."""

    def gate(self, room: int, name: str, what: Gate) -> None:
        """Decode: a local step that Success waits for. "close": there is one (before ``metadata()``); "open": it is done;
        "fail": it cannot be done."""


@runtime_checkable
class Stoppable(Protocol):
    """What an adapter has beside :class:`Adapter` that declares ``drain`` or ``shutdown``."""

    def stop(self, side: Side, how: How) -> None:
        """ "drain": new rooms of this side are refused or fail, live ones go on. "shutdown": every live room of this side
        ends, the other side is told, and memory comes back as ever. ``begin()`` starts the side again."""


@runtime_checkable
class Counted(Protocol):
    """What an adapter has beside :class:`Adapter` that declares ``left``."""

    def left(self, side: Side) -> int:
        """How many things this side keeps because of rooms, whatever they are: records, places in tables and queues, buffers,
        transfers. Zero when no room is live and every one was cleared; connections to the other side do not count."""


@runtime_checkable
class Ranked(Protocol):
    """What an adapter has beside :class:`Adapter` that declares ``ranks``. A rank is a process of its own, or what stands for
    one; every call goes to the side, ``poll`` tells the state of the group, and pages are those of the group: ``read`` puts
    together what the ranks hold, and shows wrong bytes of any of them (where copies differ, the wrong ones)."""

    def ranks(self, prefill: int, decode: int) -> None:
        """Called right after ``begin()``: in this case the sides have so many ranks. Raises :class:`Unsupported` for numbers
        that this engine cannot have. The next ``begin()`` goes back to one rank on each side."""


Make: TypeAlias = Callable[[], Adapter]


class Plain:
    """Defaults for the calls that not every engine has something to say to. Subclass it or do not."""

    def begin(self, case: str, fresh: bool) -> None:
        """Nothing to do: rooms of different cases have different numbers."""

    def init(self, side: Side, room: int) -> None:
        """Creation has one half only."""

    def abort(self, side: Side, room: int) -> None:
        raise Unsupported("abort")

    def clear(self, side: Side, room: int) -> None:
        raise Unsupported("clear")

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def fill(self, side: Side, pages: Sequence[int], data: bytes) -> None:
        raise Unsupported("memory")

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        raise Unsupported("memory")

    def released(self, side: Side, room: int) -> bool:
        raise Unsupported("released")

    def fault(self, side: Side, room: int, name: str) -> None:
        raise Unsupported(f"fault {name}")

    def heal(self) -> None:
        """No fault was injected."""

    def why(self, side: Side, room: int) -> str:
        return ""

    def gate(self, room: int, name: str, what: Gate) -> None:
        raise Unsupported("gates")

    def stop(self, side: Side, how: How) -> None:
        raise Unsupported(how)

    def left(self, side: Side) -> int:
        raise Unsupported("left")

    def ranks(self, prefill: int, decode: int) -> None:
        raise Unsupported("ranks")

    def close(self) -> None:
        """Nothing to end."""


def other(side: Side) -> Side:
    """The other side."""
    return DECODE if side == PREFILL else PREFILL
