"""The table of staging: one request for a staging slot, from the asking until the slot is back.

Rules of this file:

1. A slot is lent to one request at a time and comes back exactly once: when what it was for is done or its room is over,
   and nothing in flight can touch it (the release rule of the leases, for memory that is lent again and again).
2. Who finds no slot waits in a queue of bounded length, in the order of asking, or is refused with the numbers. Nobody
   blocks: a grant is an event like any other (G03).
3. Whatever a peer says twice, late, or for a room that is over, changes nothing (Q47). A grant and a refusal are said
   again to whoever asks again, so the loss of any one message is repaired by asking.

The same table serves the ring of a receiver, whose slots the sender ranks fill (``START`` comes with the grant, for from
then on a peer may write), and the host pool of a sender, whose slots our own copies fill and our own operations read.
"""

from __future__ import annotations

from enum import Enum

from .causes import Cause
from .effects import Effect as X
from .states import StagingState
from .table import ALWAYS, EventSpec, Field, Row, Source, Table, fail, go, ignore, never, refuse, stay

__all__ = ["STAGING", "StagingEvent"]


class StagingEvent(Enum):
    ASK = "ASK"
    TURN = "TURN"
    START = "START"
    FILLED = "FILLED"
    QUIET = "QUIET"
    FREED = "FREED"
    CLOSE = "CLOSE"


E = StagingEvent
_TF = (False, True)
touched = Field(
    "touched", _TF, False, "something may touch the slot: an operation of ours, or a peer that has the grant"
)
fits = Field("fits", _TF, False, "what is asked for fits into one slot")
free = Field("free", _TF, False, "a slot is free, so nobody waits")
place = Field("place", _TF, False, "the queue has a place")

_EVENTS = (
    EventSpec(E.ASK, Source.PEER, (fits, free, place), "a slot is asked for, for one chunk"),
    EventSpec(E.TURN, Source.PROCESS, (), "a slot is free, and this request is the first in the queue"),
    EventSpec(E.START, Source.TRANSPORT, (), "from here on something may touch the slot"),
    EventSpec(E.FILLED, Source.PEER, (), "the whole chunk is in the slot; who wrote it writes no more"),
    EventSpec(E.QUIET, Source.TRANSPORT, (), "nothing can touch the slot any more (drained and fenced count)"),
    EventSpec(E.FREED, Source.ENGINE, (), "what was in the slot was taken out of it"),
    EventSpec(E.CLOSE, Source.PROCESS, (), "the room is over"),
)

N, W, G, R, D, B, U = (
    StagingState.UNASKED,
    StagingState.WAITING,
    StagingState.GRANTED,
    StagingState.READY,
    StagingState.DRAINING,
    StagingState.BACK,
    StagingState.REFUSED,
)
_ = ALWAYS
_GRANT = (X.TAKE_SLOT, X.SEND_GRANT)
_BACK = (X.RETURN_SLOT,)

# fmt: off
_ROWS: tuple[Row, ...] = (
    # -- unasked
    go    (N, E.ASK,    fits & free,            G, (), _GRANT,                 "a free slot and nobody before it"),
    go    (N, E.ASK,    fits & ~free & place,   W, (), (X.JOIN_QUEUE,),        "exhaustion is admission: it waits, no thread does"),
    fail  (N, E.ASK,    fits & ~free & ~place,  U, Cause.LIMIT, (), (X.SEND_NO_SLOT,), "the queue is full, and the answer says how long it is"),
    fail  (N, E.ASK,    ~fits,                  U, Cause.LIMIT, (), (X.SEND_NO_SLOT,), "no slot will ever do; the answer says how large one is"),
    never (N, E.TURN,   _,                                                     "it is not in the queue"),
    never (N, E.START,  _,                                                     "nothing starts on a slot that is not granted"),
    ignore(N, E.FILLED, _,                      (),                            "nothing was granted: it counts for nothing"),
    ignore(N, E.QUIET,  _,                      (),                            "nothing was granted"),
    refuse(N, E.FREED,  _,                                                     "there is no slot to free"),
    never (N, E.CLOSE,  _,                                                     "only requests that were made are told"),

    # -- waiting in the queue
    ignore(W, E.ASK,    _,                      (),                            "a copy: it keeps its place"),
    go    (W, E.TURN,   _,                      G, (), _GRANT,                 "first come, first served"),
    never (W, E.START,  _,                                                     "nothing starts on a slot that is not granted"),
    ignore(W, E.FILLED, _,                      (),                            "nothing was granted: it counts for nothing"),
    ignore(W, E.QUIET,  _,                      (),                            "nothing was granted"),
    refuse(W, E.FREED,  _,                                                     "there is no slot to free"),
    go    (W, E.CLOSE,  _,                      B, (), (X.LEAVE_QUEUE,),       "it holds nothing but its place"),

    # -- granted
    ignore(G, E.ASK,    _,                      (X.SEND_GRANT,),               "the grant was lost, or this is a copy: say it again"),
    never (G, E.TURN,   _,                                                     "it has its slot and left the queue"),
    stay  (G, E.START,  _,                      (touched.to(True),), (),       "from here on only a proof frees it"),
    go    (G, E.FILLED, _,                      R, (), (X.SLOT_READY,),        "who reads it may begin"),
    stay  (G, E.QUIET,  touched,                (touched.to(False),), (),      "the copy into it ended, or failed: the slot is still its own"),
    ignore(G, E.QUIET,  ~touched,               (),                            "late"),
    refuse(G, E.FREED,  _,                                                     "nothing is in it yet: wait for ready, or close the room"),
    go    (G, E.CLOSE,  touched,                D, (), (),                     "the room is over, the slot is not (A01, A02)"),
    go    (G, E.CLOSE,  ~touched,               B, (), _BACK,                  "never touched: back at once"),

    # -- ready
    ignore(R, E.ASK,    _,                      (),                            "late: it has what it asked for"),
    never (R, E.TURN,   _,                                                     "it has its slot and left the queue"),
    stay  (R, E.START,  _,                      (touched.to(True),), (),       "it is read"),
    ignore(R, E.FILLED, _,                      (),                            "a copy"),
    stay  (R, E.QUIET,  touched,                (touched.to(False),), (),      "nobody reads it now"),
    ignore(R, E.QUIET,  ~touched,               (),                            "late"),
    go    (R, E.FREED,  touched,                D, (), (),                     "one reader is done, another operation is not"),
    go    (R, E.FREED,  ~touched,               B, (), _BACK,                  "the chunk is where it belongs"),
    go    (R, E.CLOSE,  touched,                D, (), (),                     "the room is over, the slot is not (A01, A02)"),
    go    (R, E.CLOSE,  ~touched,               B, (), _BACK,                  "nobody will read it"),

    # -- draining
    ignore(D, E.ASK,    _,                      (),                            "late: its room is over, or it has been served"),
    never (D, E.TURN,   _,                                                     "it has its slot and left the queue"),
    never (D, E.START,  _,                                                     "admission is closed"),
    ignore(D, E.FILLED, _,                      (),                            "late: nobody reads it"),
    go    (D, E.QUIET,  _,                      B, (), _BACK,                  "the last one is out: exactly now it is free"),
    ignore(D, E.FREED,  _,                      (),                            "the reader ended after its room"),
    ignore(D, E.CLOSE,  _,                      (),                            "it was served; what is in flight decides"),

    # -- back
    ignore(B, E.ASK,    _,                      (),                            "late: a request is granted once"),
    never (B, E.TURN,   _,                                                     "it left the queue"),
    never (B, E.START,  _,                                                     "admission is closed"),
    ignore(B, E.FILLED, _,                      (),                            "late"),
    ignore(B, E.QUIET,  _,                      (),                            "late"),
    ignore(B, E.FREED,  _,                      (),                            "it came back with the end of its room: once is enough"),
    ignore(B, E.CLOSE,  _,                      (),                            "over already"),

    # -- refused
    ignore(U, E.ASK,    _,                      (X.SEND_NO_SLOT,),             "the answer was lost, or this is a copy: say it again"),
    never (U, E.TURN,   _,                                                     "it was never in the queue"),
    never (U, E.START,  _,                                                     "nothing starts on a slot that is not granted"),
    ignore(U, E.FILLED, _,                      (),                            "nothing was granted: it counts for nothing"),
    ignore(U, E.QUIET,  _,                      (),                            "nothing was granted"),
    refuse(U, E.FREED,  _,                                                     "there is no slot to free"),
    ignore(U, E.CLOSE,  _,                      (),                            "over already"),
)
# fmt: on

#: The machine of one request for a staging slot.
STAGING = Table(
    name="staging",
    states=StagingState,
    initial=StagingState.UNASKED,
    terminal=frozenset({StagingState.BACK, StagingState.REFUSED}),
    waiting={N: (E.ASK,), W: (E.CLOSE,), G: (E.CLOSE,), R: (E.CLOSE,), D: (E.QUIET,)},
    fields=(touched,),
    events=_EVENTS,
    rows=_ROWS,
    broken=None,
    about="One request for a staging slot.",
)
