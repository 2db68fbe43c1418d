"""What a pair world is made of, and how often each fault may happen in it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.session import Timing
from kvpoll.spec.wire import Deadlines, Fingerprint, Heads, Layers, Page, Registration, Versions

from .network import Network

__all__ = [
    "DECODE",
    "NO_FAULTS",
    "PREFILL",
    "ROOM",
    "Budget",
    "Clocks",
    "Setting",
    "faults_of",
    "make_core",
    "request_of",
    "rooms_of",
]

ROOM = 7
PREFILL, DECODE = 20, 21  #: engine ids


class Budget(NamedTuple):
    """How often each fault may happen in one run; and how often the engines try."""

    losses: int = 0
    copies: int = 0
    aborts: int = 0
    crashes: int = 0
    restarts: int = 0  #: of a crashed process, under its old address
    wrong: int = 0  #: a live peer is declared lost
    failures: int = 0  #: an operation, a gate, a commit or a check of the data fails
    unresolved: int = 0  #: an operation stays unresolved until it is fenced
    clocks: int = 0  #: a clock of a room goes off early
    shutdowns: int = 0
    drains: int = 0  #: a process takes no new rooms any more, and says so
    mixups: int = 0  #: a message of a paired attempt arrives once more, under the number of another room
    lies: int = 0  #: push: a receiver says that it concluded, and has not
    attempts: int = 1  #: legs, or attempts, of each room at each process


NO_FAULTS = Budget()


class Clocks(Enum):
    """Which clocks go off for nothing when nothing else is on its way. Each setting makes another claim."""

    ALL = "every room ends, however late the engines are: TOTAL, RESEND and the clocks of links go off"
    RESEND = "re-sending alone repairs a loss: the engines act, and no deadline of a live pair goes off"
    NONE = "no clock is needed: the engines act, and nothing is lost"


class Setting(NamedTuple):
    """One world. Ranks of one side are one engine; each prefill rank owns one layer."""

    push: bool
    chunks: int = 1  #: parts that each prefill rank sends to each decode rank; 0: there is nothing to send
    prefills: int = 1
    decodes: int = 1
    clocks: Clocks = Clocks.ALL
    direct: bool = True  #: transfers write the destination pages themselves
    credits: int = 2
    gates: tuple[str, ...] = ()
    tail: bool = False  #: a call without rows closes the plan, after the last part
    gathers: bool = False  #: gathering takes time: the source pages are read, the copies written meanwhile
    fences: bool = True  #: False: no operation can be fenced; one that is unresolved stays so for ever
    handshake: bool = False  #: starts without links
    fits: bool = True  #: what the handshake will say
    same: bool = True  #: both legs are of the same request
    eager: bool = False  #: both engines have created their legs, and the pages are owned, before anything else
    late: bool = False  #: the engines call on rooms that are over, too
    network: Network = Network.HOSTILE
    rooms: int = 1  #: that are handed over, possibly at once
    pages: int = 0  #: that a decode process has for all its rooms, one for each token; 0: as many as it wants
    only: str = ""  #: "prefill" or "decode": the other side's engine never hears of the request
    closes: bool = (
        False  #: a process that drains, or was shut down, closes its links when its rooms are over, and exits
    )
    again: bool = False  #: an engine whose peer came back as another instance tries once more
    rivals: bool = False  #: each decode process is an engine of its own, and wants the room for itself
    retries: bool = False  #: the first leg of a room is of another request, the next one of the same

    @property
    def receivers(self) -> int:
        """Ranks of one decode engine."""
        return 1 if self.rivals else self.decodes


def request_of(setting: Setting, prefill: bool, first: bool = True) -> Fingerprint:
    """The request as this side knows it; ``first``: in its first attempt at a room."""
    tokens = max(setting.chunks, 1)
    another = (setting.retries and first) if prefill else not setting.same
    digest = b"another" if another else b"request"
    return Fingerprint(tokens=tokens, prefix=0 if setting.chunks else tokens, digest=digest)


def rooms_of(setting: Setting) -> range:
    """The numbers of the rooms that are handed over."""
    return range(ROOM, ROOM + setting.rooms)


def faults_of(setting: Setting, budget: Budget) -> str:
    """The network and the budgets, as they are printed with every result."""
    network = "reordering" if Network.REORDERING in setting.network else "ordered"
    spent = [f"{name}={much}" for name, much in budget._asdict().items() if much != NO_FAULTS._asdict()[name]]
    return " ".join([f"network={network}", *spent])


def make_core(setting: Setting, slot: int, instance: int, ids: Callable[[], int]) -> Core:
    """The core of the process in this slot: prefill ranks first, then decode ranks."""
    prefill = slot < setting.prefills
    layers = (slot, slot + 1) if prefill else (0, setting.prefills)
    engine = (PREFILL if prefill else DECODE) + instance // 100 * 100  # another one at each start
    rank = slot if prefill else slot - setting.prefills
    if setting.rivals:
        engine, rank = engine + slot, 0
    config = CoreConfig(
        instance=instance, engine=engine, rank=rank,
        timing=Timing(0, 0, 0, 0, 0, 0, 0, 0), layers=layers, direct=setting.direct, push=(("t", setting.push),),
        max_parts=8, credits=setting.credits,
    )  # fmt: skip
    registration = Registration(
        versions=Versions((1, 0), (1, 0)), role="prefill" if prefill else "decode", engine=engine, model="", weights="",
        layers=Layers(setting.prefills, *layers), page=Page(1, 1), kv_dtype="uint8", layout="", heads=Heads(1, 1),
        transports=(), deadlines=Deadlines(0, 0, 0, 0, 0, 0),
    )  # fmt: skip
    judgement = Judgement(() if setting.fits else ("layout",), "t")
    return Core(config, ids, lambda link: registration, lambda ours, theirs, first: judgement)
