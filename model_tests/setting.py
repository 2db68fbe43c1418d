"""What a pair world is made of, and how often each fault may happen in it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.coverage import Owner
from kvpoll.protocol.cut import Cut
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.session import Timing
from kvpoll.spec.wire import Axis, Deadlines, Fingerprint, Heads, Layers, Page, Part, Registration, Versions

from .network import Network

__all__ = [
    "DECODE",
    "NO_FAULTS",
    "PREFILL",
    "ROOM",
    "Budget",
    "Clocks",
    "Setting",
    "Shapes",
    "faults_of",
    "make_core",
    "part_of",
    "request_of",
    "rooms_of",
    "taken",
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


class Shapes(Enum):
    """How the ranks of the two engines divide a request. A part is one token."""

    LAYERS = "each prefill rank has a layer of its own, every decode rank wants all of it"
    HEADS = "each prefill rank has a share of the heads of the one layer"
    SPARE = "every prefill rank has the whole layer, and the first one brings it"
    ROWS = "token t belongs to decode rank t mod their number"


class Setting(NamedTuple):
    """One world. Ranks of one side are one engine."""

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
    early: bool = False  #: with gathers: parts are announced while their gather runs; a pull of one waits for its end
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
    shapes: Shapes = Shapes.LAYERS

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


def part_of(setting: Setting, slot: int, no: int) -> Part:
    """Part ``no`` of the prefill rank in this slot."""
    low, high = _layers(setting, slot)
    return Part(no=0, start=no, stop=no + 1, layer_start=low, layer_stop=high, shape=(high - low, 1, 1))


@cache
def taken(setting: Setting, prefill: int, decode: int) -> tuple[int, ...]:
    """The parts of a prefill rank of which a decode rank gets something, in the order in which it numbers them."""
    cut = _cut(setting, prefill, decode)
    parts = [part_of(setting, prefill, no) for no in range(setting.chunks)]
    return tuple(no for no, part in enumerate(parts) if cut is None or cut.takes(part))


def _layers(setting: Setting, slot: int) -> tuple[int, int]:
    whole = (0, setting.prefills if setting.shapes is Shapes.LAYERS else 1)
    return (slot, slot + 1) if slot < setting.prefills and setting.shapes is Shapes.LAYERS else whole


def _cut(setting: Setting, prefill: int, decode: int) -> Cut | None:
    match setting.shapes:
        case Shapes.LAYERS:
            return None
        case Shapes.HEADS:
            into = (prefill, prefill + 1)
            cut = Cut(1, 1, aux=prefill == 0, into=into, share=prefill, shares=setting.prefills)
        case Shapes.SPARE:
            cut = Cut(1, 1, real=prefill == 0, aux=prefill == 0)
        case Shapes.ROWS:
            cut = Cut(1, 1, owner=Owner(setting.decodes, decode))
    return replace(cut, readers=setting.decodes, senders=setting.prefills)


def make_core(setting: Setting, slot: int, instance: int, ids: Callable[[], int]) -> Core:
    """The core of the process in this slot: prefill ranks first, then decode ranks."""
    prefill = slot < setting.prefills
    layers, shapes = _layers(setting, slot), setting.shapes
    engine = (PREFILL if prefill else DECODE) + instance // 100 * 100  # another one at each start
    rank = slot if prefill else slot - setting.prefills
    if setting.rivals:
        engine, rank = engine + slot, 0
    config = CoreConfig(
        instance=instance, engine=engine, rank=rank,
        timing=Timing(0, 0, 0, 0, 0, 0, 0, 0), layers=layers, direct=setting.direct, push=(("t", setting.push),),
        max_parts=8, credits=setting.credits, owners=setting.decodes if shapes is Shapes.ROWS and not prefill else 1,
        page_nbytes=setting.prefills if shapes is Shapes.HEADS and not prefill else 1,
    )  # fmt: skip
    registration = Registration(
        versions=Versions((1, 0), (1, 0)), role="prefill" if prefill else "decode", engine=engine, model="", weights="",
        layers=Layers(setting.prefills, *layers), tp=Axis(max(setting.prefills, setting.decodes), rank), page=Page(1, 1),
        kv_dtype="uint8", layout="", heads=Heads(1, 1), transports=(), deadlines=Deadlines(0, 0, 0, 0, 0, 0),
    )  # fmt: skip
    fields = () if setting.fits else ("layout",)

    def judge(ours: Registration, theirs: Registration, first: bool) -> Judgement:
        ranks = (rank, theirs.tp.rank) if prefill else (theirs.tp.rank, rank)
        return Judgement(fields, "t", "", _cut(setting, *ranks))

    return Core(config, ids, lambda link: registration, judge)
