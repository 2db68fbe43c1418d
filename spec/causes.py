"""The failure catalogue: every way a room, a lease or a link can fail, by a number that goes over the wire.

Numbers are given once and never reused. ``retry`` is for the router: NO means that trying again cannot help, YES that
it is safe, UNKNOWN that the receiver may have succeeded (in doubt), so a blind retry could answer twice.
A cause that was in doubt is reported with retry UNKNOWN whatever its entry says.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

__all__ = ["CATALOGUE", "Cause", "CauseEntry", "Retry", "Side"]


class Retry(Enum):
    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Side(Enum):
    """Who detects it."""

    SENDER = "sender"
    RECEIVER = "receiver"
    EITHER = "either"


class Cause(IntEnum):
    """Wire numbers."""

    INTERNAL = 1
    ABORTED = 2
    PEER_ABORTED = 3
    NO_ANNOUNCE = 4
    NO_LEG = 5
    SILENCE = 6
    TOTAL_DEADLINE = 7
    PEER_LOST = 8
    ATTEMPT_OVER = 9
    SUPERSEDED = 10
    ROOM_BUSY = 11
    HANDSHAKE_REFUSED = 12
    PLAN_REFUSED = 13
    PROTOCOL = 14
    TRANSPORT_FAILED = 15
    TRANSPORT_UNRESOLVED = 16
    DATA_MISSING = 17
    AUX_MISMATCH = 18
    GATE_FAILED = 19
    GATE_TIMEOUT = 20
    DRAINING = 21
    SHUTDOWN = 22
    PROCESS_UNHEALTHY = 23
    WRONG_INSTANCE = 24
    LIMIT = 25
    UNREACHABLE = 26


@dataclass(frozen=True, slots=True)
class CauseEntry:
    """One line of the catalogue. ``told`` is what the peer ranks hear; ``status`` is the HTTP status that the engine
    should answer its client with; ``details`` names the fields that a failure of this cause carries."""

    cause: Cause
    side: Side
    told: Cause | None
    retry: Retry
    status: int
    details: tuple[str, ...]
    text: str


_S, _R, _E = Side.SENDER, Side.RECEIVER, Side.EITHER
_NO, _YES, _UNK = Retry.NO, Retry.YES, Retry.UNKNOWN
_C = Cause
_PEER = Cause.PEER_ABORTED

# fmt: off
CATALOGUE: dict[Cause, CauseEntry] = {e.cause: e for e in (
    #          cause                     side told   retry status details                text: a sentence that a person can act on
    CauseEntry(_C.INTERNAL,              _E, _PEER, _NO,  500, ("row",),                "kvpoll reached a row that its table calls impossible; please report the trace"),
    CauseEntry(_C.ABORTED,               _E, _PEER, _NO,  499, ("reason", "status"),    "the engine of this rank aborted the request"),
    CauseEntry(_C.PEER_ABORTED,          _E, _PEER, _YES, 502, ("cause", "reason", "status"), "a peer rank failed first and said why"),
    CauseEntry(_C.NO_ANNOUNCE,           _S, _PEER, _YES, 504, ("waited_s",),           "no decode rank announced this room in time; was the request sent to both legs?"),
    CauseEntry(_C.NO_LEG,                _R, _PEER, _YES, 504, ("fields", "why"),       "the prefill rank has no equal request for this room"),
    CauseEntry(_C.SILENCE,               _E, _PEER, _YES, 504, ("waited_s",),           "the peer did not answer for this room although it was asked"),
    CauseEntry(_C.TOTAL_DEADLINE,        _E, _PEER, _YES, 504, ("waited_s",),           "the room used up its total time"),
    CauseEntry(_C.PEER_LOST,             _E, None,  _YES, 503, ("instance",),           "the peer process is gone or was declared lost"),
    CauseEntry(_C.ATTEMPT_OVER,          _S, _PEER, _UNK, 503, ("low_water",),          "the decode rank is past this attempt and its conclusion never arrived"),
    CauseEntry(_C.SUPERSEDED,            _S, _PEER, _NO,  409, ("gen",),                "a newer attempt of the same decode engine replaced this one"),
    CauseEntry(_C.ROOM_BUSY,             _R, _PEER, _YES, 409, ("holder",),             "the room is bound to another engine or instance; use a fresh room"),
    CauseEntry(_C.HANDSHAKE_REFUSED,     _E, None,  _NO,  500, ("fields", "why"),           "the two engines do not fit together; the fields are named"),
    CauseEntry(_C.PLAN_REFUSED,          _E, _PEER, _NO,  500, ("field", "expected", "got"), "what the peer planned does not fit what was registered"),
    CauseEntry(_C.PROTOCOL,              _E, _PEER, _NO,  500, ("tag", "expected"),     "the peer broke the protocol"),
    CauseEntry(_C.TRANSPORT_FAILED,      _E, _PEER, _YES, 502, ("part", "detail"),      "moving a part failed, and nothing of it is in flight any more"),
    CauseEntry(_C.TRANSPORT_UNRESOLVED,  _E, _PEER, _YES, 502, ("part", "detail"),      "moving a part may still be in flight; its memory waits for a fence"),
    CauseEntry(_C.DATA_MISSING,          _R, _PEER, _YES, 502, ("part", "expected", "got"), "a part was called done but its bytes are not there"),
    CauseEntry(_C.AUX_MISMATCH,          _R, _PEER, _YES, 502, ("expected", "got"),     "the aux data belongs to another request"),
    CauseEntry(_C.GATE_FAILED,           _R, _PEER, _YES, 500, ("gate", "reason"),      "a local step that Success waits for has failed"),
    CauseEntry(_C.GATE_TIMEOUT,          _R, _PEER, _YES, 504, ("gate", "waited_s"),    "a local step that Success waits for did not end in time"),
    CauseEntry(_C.DRAINING,              _E, _PEER, _YES, 503, (),                      "the process is draining and takes no new rooms"),
    CauseEntry(_C.SHUTDOWN,              _E, _PEER, _YES, 503, (),                      "the process was shut down with the room still live"),
    CauseEntry(_C.PROCESS_UNHEALTHY,     _E, None,  _YES, 503, ("error",),              "the core of this process stopped; every room of it is failed"),
    CauseEntry(_C.WRONG_INSTANCE,        _E, None,  _YES, 503, ("instance",),           "another process answers at this address now"),
    CauseEntry(_C.LIMIT,                 _E, _PEER, _YES, 429, ("table", "limit"),      "a table of this process is full"),
    CauseEntry(_C.UNREACHABLE,           _R, None,  _YES, 503, ("address", "reason"),   "the prefill rank could not be found or reached"),
)}
# fmt: on
