"""The lease's table: who may touch one piece of memory.

Rules of this file:

1. ONE release rule for success, abort, timeout, peer loss and shutdown: memory goes back when its room is over and
   neither an operation of ours (``own``) nor one of a peer (``theirs``) can still touch it. Exactly once.
2. A timeout alone never frees: no clock event exists here.
3. What the peer may start ends with the peer's drain word or a fence, what we started with our own count at zero.

There is one lease for each memory of an attempt: source pages, the gathered copy, the receive buffer, destination pages,
the aux slot; and one ``access`` lease for each peer rank whose memory we may touch: handing it back is what makes
ABORT_ACK true.
"""

from __future__ import annotations

from enum import Enum

from .effects import Effect as X
from .states import LeaseState
from .table import ALWAYS, EventSpec, Field, Row, Source, Table, go, ignore, never, stay

__all__ = ["LEASE", "LeaseEvent"]


class LeaseEvent(Enum):
    TAKE = "TAKE"
    START = "START"
    EXPOSE = "EXPOSE"
    QUIET = "QUIET"
    DRAINED = "DRAINED"
    CLOSE = "CLOSE"
    UNRESOLVED = "UNRESOLVED"
    PEER_UNRESOLVED = "PEER_UNRESOLVED"
    PICKED = "PICKED"


E = LeaseEvent
_TF = (False, True)
own = Field("own", _TF, False, "an operation that we started is not quiescent")
theirs = Field("theirs", _TF, False, "a peer may have started an operation that is not quiescent")
over = Field("over", _TF, False, "the room is over: nothing new may start")

_EVENTS = (
    EventSpec(E.TAKE, Source.ENGINE, (), "the memory is lent to the room"),
    EventSpec(E.START, Source.TRANSPORT, (), "an operation of ours on it was admitted to a queue"),
    EventSpec(E.EXPOSE, Source.TRANSPORT, (), "the peer was told how to reach it"),
    EventSpec(E.QUIET, Source.TRANSPORT, (), "started - quiescent of our operations on it is zero (fenced counts as quiescent)"),
    EventSpec(E.DRAINED, Source.PEER, (), "every peer that could touch it has drained or is fenced"),
    EventSpec(E.CLOSE, Source.PROCESS, (), "the room is over"),
    EventSpec(E.UNRESOLVED, Source.TRANSPORT, (), "an operation of ours on it may still be in flight"),
    EventSpec(E.PEER_UNRESOLVED, Source.PEER, (), "ABORT_ACK(quarantined): an operation of the peer may still be in flight"),
    EventSpec(E.PICKED, Source.ENGINE, (), "the engine read the release"),
)  # fmt: skip

A, H, I, D, Q, N = (
    LeaseState.FREE,
    LeaseState.HELD,
    LeaseState.IN_FLIGHT,
    LeaseState.DRAINING,
    LeaseState.QUARANTINED,
    LeaseState.HANDED,
)
_ = ALWAYS
_BACK = (X.HAND_BACK,)
_CLEAR = (own.to(False), theirs.to(False), over.to(False))

# fmt: off
_ROWS: tuple[Row, ...] = (
    # -- free
    go    (A, E.TAKE,            _,              H, (), (),                          "lent"),
    never (A, E.START,           _,                                                  "nothing starts on memory that is not lent"),
    never (A, E.EXPOSE,          _,                                                  "nothing is exposed that is not lent"),
    ignore(A, E.QUIET,           _,              (),                                 "late"),
    ignore(A, E.DRAINED,         _,              (),                                 "late: the word is given again when asked again"),
    ignore(A, E.CLOSE,           _,              (),                                 "late"),
    never (A, E.UNRESOLVED,      _,                                                  "it was counted until it was resolved"),
    ignore(A, E.PEER_UNRESOLVED, _,              (),                                 "late"),
    never (A, E.PICKED,          _,                                                  "handed back once, picked once"),

    # -- held: lent, untouched
    never (H, E.TAKE,            _,                                                  "lent once"),
    go    (H, E.START,           _,              I, (own.to(True),), (),             "from admission on it counts as started (CountExact)"),
    go    (H, E.EXPOSE,          _,              I, (theirs.to(True),), (),          "from here on only the peer's word or a fence frees it"),
    ignore(H, E.QUIET,           _,              (),                                 "nothing was in flight"),
    ignore(H, E.DRAINED,         _,              (),                                 "nothing was exposed"),
    go    (H, E.CLOSE,           _,              N, (), _BACK,                       "never touched: back at once"),
    never (H, E.UNRESOLVED,      _,                                                  "nothing was started"),
    ignore(H, E.PEER_UNRESOLVED, _,              (),                                 "nothing was exposed"),
    never (H, E.PICKED,          _,                                                  "not handed back"),

    # -- in flight
    never (I, E.TAKE,            _,                                                  "lent once"),
    stay  (I, E.START,           _,              (own.to(True),), (),                "one more operation"),
    stay  (I, E.EXPOSE,          _,              (theirs.to(True),), (),             "one more peer"),
    go    (I, E.QUIET,           own & ~theirs,  H, (own.to(False),), (),            "quiescent"),
    stay  (I, E.QUIET,           own & theirs,   (own.to(False),), (),               "the peer may still touch it"),
    ignore(I, E.QUIET,           ~own,           (),                                 "nothing of ours was in flight"),
    go    (I, E.DRAINED,         theirs & ~own,  H, (theirs.to(False),), (),         "every planned part arrived, or the peer gave it up"),
    stay  (I, E.DRAINED,         theirs & own,   (theirs.to(False),), (),            "our own operation may still touch it"),
    ignore(I, E.DRAINED,         ~theirs,        (),                                 "nothing was exposed"),
    go    (I, E.CLOSE,           _,              D, (over.to(True),), (),            "the room is over, the memory is not (A01, A02)"),
    go    (I, E.UNRESOLVED,      own,            Q, (), (X.NOTE_QUARANTINE,),        "unresolved is not free (A18)"),
    never (I, E.UNRESOLVED,      ~own,                                               "nothing of ours was in flight"),
    go    (I, E.PEER_UNRESOLVED, theirs,         Q, (), (X.NOTE_QUARANTINE,),        "its attempt is over; the memory waits for fence(peer)"),
    ignore(I, E.PEER_UNRESOLVED, ~theirs,        (),                                 "nothing was exposed"),
    never (I, E.PICKED,          _,                                                  "not handed back"),

    # -- draining: the room is over
    never (D, E.TAKE,            _,                                                  "lent once"),
    never (D, E.START,           _,                                                  "admission is closed"),
    never (D, E.EXPOSE,          _,                                                  "admission is closed"),
    go    (D, E.QUIET,           own & ~theirs,  N, _CLEAR, _BACK,                   "the end that starts operations has none left"),
    stay  (D, E.QUIET,           own & theirs,   (own.to(False),), (),               "the peer may still touch it"),
    ignore(D, E.QUIET,           ~own,           (),                                 "nothing of ours was in flight"),
    go    (D, E.DRAINED,         theirs & ~own,  N, _CLEAR, _BACK,                   "its drain word, or a fence (A03)"),
    stay  (D, E.DRAINED,         theirs & own,   (theirs.to(False),), (),            "our own operation may still touch it (A15)"),
    ignore(D, E.DRAINED,         ~theirs,        (),                                 "nothing was exposed"),
    ignore(D, E.CLOSE,           _,              (),                                 "closed already"),
    go    (D, E.UNRESOLVED,      own,            Q, (), (X.NOTE_QUARANTINE,),        "unresolved is not free"),
    never (D, E.UNRESOLVED,      ~own,                                               "nothing of ours was in flight"),
    go    (D, E.PEER_UNRESOLVED, theirs,         Q, (), (X.NOTE_QUARANTINE,),        "waits for fence(peer)"),
    ignore(D, E.PEER_UNRESOLVED, ~theirs,        (),                                 "it has drained since"),
    never (D, E.PICKED,          _,                                                  "not handed back"),

    # -- quarantined: only a fence (or a proof that arrives late) ends it
    never (Q, E.TAKE,            _,                                                  "lent once"),
    never (Q, E.START,           _,                                                  "admission is closed by the same failure"),
    never (Q, E.EXPOSE,          _,                                                  "admission is closed by the same failure"),
    go    (Q, E.QUIET,           own & ~theirs & over,  N, _CLEAR, _BACK,            "fenced"),
    go    (Q, E.QUIET,           own & ~theirs & ~over, H, (own.to(False),), (),     "fenced before the room was closed"),
    stay  (Q, E.QUIET,           own & theirs,   (own.to(False),), (),               "the peer may still touch it"),
    ignore(Q, E.QUIET,           ~own,           (),                                 "nothing of ours was in flight"),
    go    (Q, E.DRAINED,         theirs & ~own & over,  N, _CLEAR, _BACK,            "fenced, or drained after all"),
    go    (Q, E.DRAINED,         theirs & ~own & ~over, H, (theirs.to(False),), (),  "fenced before the room was closed"),
    stay  (Q, E.DRAINED,         theirs & own,   (theirs.to(False),), (),            "our own operation is unresolved"),
    ignore(Q, E.DRAINED,         ~theirs,        (),                                 "nothing was exposed"),
    stay  (Q, E.CLOSE,           _,              (over.to(True),), (),               "the room is over"),
    ignore(Q, E.UNRESOLVED,      _,              (X.NOTE_QUARANTINE,),               "one more"),
    ignore(Q, E.PEER_UNRESOLVED, _,              (),                                 "known"),
    never (Q, E.PICKED,          _,                                                  "not handed back"),

    # -- handed to the engine
    never (N, E.TAKE,            _,                                                  "not picked yet"),
    never (N, E.START,           _,                                                  "admission is closed"),
    never (N, E.EXPOSE,          _,                                                  "admission is closed"),
    ignore(N, E.QUIET,           _,              (),                                 "late"),
    ignore(N, E.DRAINED,         _,              (),                                 "late"),
    ignore(N, E.CLOSE,           _,              (),                                 "closed already"),
    never (N, E.UNRESOLVED,      _,                                                  "it was counted until it was resolved"),
    ignore(N, E.PEER_UNRESOLVED, _,              (),                                 "it had drained"),
    go    (N, E.PICKED,          _,              A, (), (),                          "the engine knows: exactly once (A11, A12)"),
)
# fmt: on

#: The lease's machine.
LEASE = Table(
    name="lease",
    states=LeaseState,
    initial=LeaseState.FREE,
    terminal=frozenset(),
    waiting={H: (E.CLOSE,), I: (E.CLOSE,), D: (E.QUIET, E.DRAINED), Q: (E.QUIET, E.DRAINED), N: (E.PICKED,)},
    fields=(own, theirs, over),
    events=_EVENTS,
    rows=_ROWS,
    broken=None,
    about="Who may touch one piece of memory.",
)
