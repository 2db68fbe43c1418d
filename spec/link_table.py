"""The link's table: one connection between two instances.

Rules of this file:

1. A link is never reopened. Declaring the peer lost ends it for both ends; the peer is met again on a new link.
2. Rooms live on links: when a link is over, its rooms hear PEER_LOST and the peer is fenced in both data planes.
3. Liveness of the peer is judged here only, by what arrives, never by an HTTP registry (Q45).
"""

from __future__ import annotations

from enum import Enum

from .effects import Effect as X
from .states import LinkState
from .table import ALWAYS, EventSpec, Row, Source, Table, go, ignore, never, stay

__all__ = ["LINK", "LinkEvent"]


class LinkEvent(Enum):
    WELCOME = "WELCOME"
    MISMATCH = "MISMATCH"
    HEARD = "HEARD"
    LINK_OVER = "LINK_OVER"
    BEAT = "BEAT"
    HELLO_LATE = "HELLO_LATE"
    LOST = "LOST"
    DISCONNECTED = "DISCONNECTED"
    CLOSE = "CLOSE"


E = LinkEvent
_EVENTS = (
    EventSpec(E.WELCOME, Source.PEER, (), "the registrations were compared and agree"),
    EventSpec(E.MISMATCH, Source.PEER, (), "the registrations were compared and cannot work; the fields are named"),
    EventSpec(E.HEARD, Source.PEER, (), "any message of the peer on this link"),
    EventSpec(E.LINK_OVER, Source.PEER, (), "LINK_OVER, or WRONG_INSTANCE: the peer will not go on with this link"),
    EventSpec(E.BEAT, Source.CLOCK, (), "the heartbeat interval"),
    EventSpec(E.HELLO_LATE, Source.CLOCK, (), "the hello deadline"),
    EventSpec(E.LOST, Source.CLOCK, (), "nothing was heard for the peer-lost deadline"),
    EventSpec(E.DISCONNECTED, Source.TRANSPORT, (), "the connection is gone for good"),
    EventSpec(E.CLOSE, Source.PROCESS, (), "this process ends the link (shutdown, or no room needs it)"),
)
G, O, R, V = LinkState.GREETING, LinkState.OPEN, LinkState.REFUSED, LinkState.OVER
_ = ALWAYS

# fmt: off
_ROWS: tuple[Row, ...] = (
    # -- greeting
    go    (G, E.WELCOME,      _, O, (), (X.OPEN_PEER, X.ARM_BEAT, X.ARM_LOST), "the pair fits: rooms may be announced"),
    go    (G, E.MISMATCH,     _, R, (), (X.FAIL_ROOMS,),              "refused for this pair; nothing else is disturbed (F08)"),
    ignore(G, E.HEARD,        _, (),                                  "only the answer to our hello counts"),
    go    (G, E.LINK_OVER,    _, V, (), (X.FAIL_ROOMS,),              "the peer will not have this link"),
    stay  (G, E.BEAT,         _, (), (X.SEND_HELLO, X.ARM_BEAT),      "a hello may be lost; say it again"),
    go    (G, E.HELLO_LATE,   _, V, (), (X.FAIL_ROOMS,),              "nobody answers"),
    never (G, E.LOST,         _,                                      "armed when open"),
    go    (G, E.DISCONNECTED, _, V, (), (X.FAIL_ROOMS,),              "nobody is there"),
    go    (G, E.CLOSE,        _, V, (), (X.FAIL_ROOMS,),              "given up before it was open"),
    # -- open
    ignore(O, E.WELCOME,      _, (),                                  "a copy"),
    ignore(O, E.MISMATCH,     _, (),                                  "late: it was agreed"),
    stay  (O, E.HEARD,        _, (), (X.ARM_LOST,),                   "alive"),
    go    (O, E.LINK_OVER,    _, V, (), (X.DROP_PEER,),               "it declared us lost, or another process answers there (G08)"),
    stay  (O, E.BEAT,         _, (), (X.BEAT, X.ARM_BEAT),            "we are alive"),
    ignore(O, E.HELLO_LATE,   _, (),                                  "stale"),
    go    (O, E.LOST,         _, V, (), (X.DROP_PEER,),               "declared lost: for both ends, for good"),
    go    (O, E.DISCONNECTED, _, V, (), (X.DROP_PEER,),               "the connection is gone"),
    go    (O, E.CLOSE,        _, V, (), (X.DROP_PEER,),               "we end it and say so"),
    # -- refused
    ignore(R, E.WELCOME,      _, (),                                  "late"),
    ignore(R, E.MISMATCH,     _, (),                                  "a copy"),
    ignore(R, E.HEARD,        _, (),                                  "nothing counts on a refused link"),
    go    (R, E.LINK_OVER,    _, V, (), (),                           "the peer forgets it, so do we"),
    ignore(R, E.BEAT,         _, (),                                  "stale"),
    go    (R, E.HELLO_LATE,   _, V, (), (),                           "remembered long enough: a new room tries anew"),
    never (R, E.LOST,         _,                                      "armed when open"),
    go    (R, E.DISCONNECTED, _, V, (), (),                           "the peer is gone; its successor may fit"),
    go    (R, E.CLOSE,        _, V, (), (),                           "forgotten"),
    # -- over
    ignore(V, E.WELCOME,      _, (),                                  "a link is never reopened"),
    ignore(V, E.MISMATCH,     _, (),                                  "late"),
    ignore(V, E.HEARD,        _, (),                                  "late: answered with LINK_OVER, counts for nothing"),
    ignore(V, E.LINK_OVER,    _, (),                                  "both ends agree"),
    ignore(V, E.BEAT,         _, (),                                  "stale"),
    ignore(V, E.HELLO_LATE,   _, (),                                  "stale"),
    ignore(V, E.LOST,         _, (),                                  "stale"),
    ignore(V, E.DISCONNECTED, _, (),                                  "over already"),
    ignore(V, E.CLOSE,        _, (),                                  "over already"),
)
# fmt: on

#: The link's machine.
LINK = Table(
    name="link",
    states=LinkState,
    initial=LinkState.GREETING,
    terminal=frozenset({LinkState.OVER}),
    waiting={G: (E.HELLO_LATE,), O: (E.LOST, E.CLOSE), R: (E.HELLO_LATE,)},
    fields=(),
    events=_EVENTS,
    rows=_ROWS,
    broken=None,
    about="One connection between two instances.",
)
