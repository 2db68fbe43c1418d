"""What the conformance suite holds an engine to, as data: common requirements here, kvpoll's own in a list of their own.

Common requirements are worded for any engine that hands KV pages over in five states, whether it pushes or pulls and whatever
its wire looks like. An id is given once; a requirement that goes leaves a gap.
"""

# One fact a row, however wide.
# ruff: noqa: E501

from __future__ import annotations

from .requirement import Level, Requirement, RequirementRole
from .requirements_kvpoll import KVPOLL

__all__ = ["REQUIREMENTS", "SECTIONS", "requirement"]

#: What the parts of an id mean.
SECTIONS: dict[str, str] = {
    "STATE": "what poll() tells",
    "PAIR": "two sides meet, and a complete hand-off succeeds",
    "DATA": "what Success means",
    "CALL": "right and wrong calls",
    "ABORT": "giving a request up",
    "END": "every room ends, at both sides",
    "TIME": "limits",
    "FAULT": "movements of data that go wrong",
    "MSG": "control messages that go wrong",
    "MEM": "who may touch memory, and when",
    "ISO": "rooms leave each other alone",
    "REUSE": "a room number that is used again",
    "RANK": "sides of several ranks",
    "GATE": "local steps that Success waits for",
    "STOP": "a side that is drained or shut down",
    "FORGE": "a peer that says what is not so",
    "KV": "what only kvpoll promises",
}

_P, _D, _B = RequirementRole.PREFILL, RequirementRole.DECODE, RequirementRole.BOTH
_FIRST = "0.1"


def _must(id: str, role: RequirementRole, needs: str, text: str, rows: str, invariants: str) -> Requirement:
    return _requirement(Level.MUST, id, role, needs, text, rows, invariants)


def _should(id: str, role: RequirementRole, needs: str, text: str, rows: str, invariants: str) -> Requirement:
    return _requirement(Level.SHOULD, id, role, needs, text, rows, invariants)


def _may(id: str, role: RequirementRole, needs: str, text: str, rows: str, invariants: str) -> Requirement:
    return _requirement(Level.MAY, id, role, needs, text, rows, invariants)


def _requirement(
    level: Level, id: str, role: RequirementRole, needs: str, text: str, rows: str, invariants: str
) -> Requirement:
    each = tuple(row.strip() for row in rows.split(",") if row.strip())
    return Requirement(id, level, role, tuple(needs.split()), _FIRST, text, each, tuple(invariants.split()))


# fmt: off
_COMMON: tuple[Requirement, ...] = (
    _must("KVX-STATE-1", _B, "", "poll() tells 0 Failed, 1 Bootstrapping, 2 WaitingForInput, 3 Transferring or 4 Success, and nothing else.", "", "TotalHandlers"),
    _must("KVX-STATE-2", _B, "", "A room that is Success or Failed stays so until it is cleared.", "sender S PEER_FAILED, sender S ABORT, receiver S PEER_FAILED, receiver F OP_DONE, sender F CONCLUDED", "TerminalAbsorbing"),
    _must("KVX-STATE-3", _B, "", "A room never goes back: 1, 2, 3, 4, each of which may be skipped, and from any but 4 to 0.", "sender B META, sender W STARTED, receiver B LINKED, receiver W PARTS", "TerminalAbsorbing"),
    _must("KVX-STATE-4", _B, "", "A room that was just created is neither Transferring nor Success.", "sender B BIND, receiver B LINKED", "NoDoneWithoutData"),

    _must("KVX-PAIR-1", _B, "", "A complete hand-off in which nothing goes wrong is Success at both sides, within the declared limit.", "sender T CONCLUDED, receiver T COMMITTED", "EveryRoomEnds"),
    _must("KVX-PAIR-2", _B, "", "Either side may be created first.", "sender B BIND, receiver B LINKED, receiver B BOUND", "EveryRoomEnds"),
    _may ("KVX-PAIR-3", _B, "early-metadata", "Destinations may be given before the prefill side has created the room.", "sender B META, receiver B META", "EveryRoomEnds"),
    _may ("KVX-PAIR-4", _P, "early-send", "Chunks may be sent before destinations are known; they wait.", "sender B SEND", "NoDoneWithoutData"),
    _must("KVX-PAIR-5", _P, "chunks", "Chunks of any sizes add up to the whole, in the order in which they were sent.", "sender W SEND, sender T SEND", "CompleteOrNotSuccess"),
    _must("KVX-PAIR-6", _D, "", "Two sides that disagree on the length of a request do not succeed: too few destinations is a failure, never a truncation.", "sender B PLAN_REFUSED, receiver B NO_LEG", "PositionsAbsolute SameRequest"),
    _should("KVX-PAIR-7", _P, "chunks", "An empty last chunk closes what was sent before it.", "sender W SEND, sender T SEND", "CompleteOrNotSuccess"),
    _must("KVX-PAIR-8", _B, "", "Several rooms at once do not mix.", "", "Isolation SameRequest"),
    _must("KVX-PAIR-9", _B, "mismatched", "Two sides that do not fit hand nothing over: the decode side fails, and nobody succeeds.", "receiver B REFUSED, link GREETING MISMATCH", "SameRequest HalfOpenEnds"),
    _must("KVX-PAIR-10", _B, "peer_full", "A side that has no place for another room says so, by a refusal or a failure; the rooms that it has go on.", "receiver B NO_LEG, receiver W NO_LEG", "HalfOpenEnds Isolation"),
    _may ("KVX-PAIR-11", _B, "empty", "A request of no pages is handed over like any other.", "sender W SEND, receiver W PARTS", "EveryRoomEnds"),

    _must("KVX-DATA-1", _D, "memory", "At Success of the decode side its pages hold exactly the bytes of the prefill side's pages, in order.", "receiver T COMMITTED", "CompleteOrNotSuccess"),
    _must("KVX-DATA-2", _D, "", "The decode side is not Success before the last chunk was sent.", "receiver T PARTS", "NoDoneWithoutData CompleteOrNotSuccess"),
    _should("KVX-DATA-3", _P, "", "The prefill side is not Success when the decode side has failed.", "sender T PEER_FAILED, sender T CONCLUDED", "SuccessOrder"),
    _may ("KVX-DATA-4", _D, "checksum mover_corrupts memory", "A byte that changed on its way is noticed.", "", "CompleteOrNotSuccess"),
    _must("KVX-DATA-5", _D, "aux_wrong", "Data beside the pages (the first token, ...) that is another request's is never Success.", "receiver T AUX_MISMATCH", "SameRequest CompleteOrNotSuccess"),

    _must("KVX-CALL-1", _B, "", "A call that comes at its time is accepted.", "sender W SEND, receiver B META", "TotalHandlers"),
    _must("KVX-CALL-2", _B, "", "A wrong call does no harm: the room goes on, or fails at both sides.", "sender T SEND, receiver W META", "TotalHandlers"),
    _should("KVX-CALL-3", _B, "refusals", "A wrong call is refused.", "sender B SEND, sender W SEND, sender T SEND, receiver W META", "TotalHandlers"),
    _must("KVX-CALL-4", _B, "", "poll() answers for every room that was created and not cleared.", "", "TotalHandlers"),
    _must("KVX-CALL-5", _B, "", "A call for a room that is over changes nothing.", "sender S ABORT, sender F ABORT, sender F SEND, receiver S ABORT, receiver F ABORT, receiver F META", "TerminalAbsorbing"),
    _should("KVX-CALL-6", _B, "", "A refusal is an error that is meant as one, not any exception.", "", "TotalHandlers"),

    _must("KVX-ABORT-1", _B, "abort", "A side that aborts is Failed at once, unless its room is over.", "sender B ABORT, sender W ABORT, sender T ABORT, receiver B ABORT, receiver W ABORT, receiver T ABORT", "EveryRoomEnds"),
    _should("KVX-ABORT-2", _B, "abort", "The other side of a room that was given up is told: it ends within the declared limit of aborts. (A prefill side that still waits for its first destinations has nobody yet to hear it from.)", "sender B PEER_FAILED, sender W PEER_FAILED, sender T PEER_FAILED, receiver B PEER_FAILED, receiver W PEER_FAILED, receiver T PEER_FAILED", "TerminalPropagates"),
    _must("KVX-ABORT-3", _B, "abort", "The other side of an aborted room ends, by its own limits at the latest.", "sender W PEER_FAILED, receiver W PEER_FAILED, receiver B NO_LEG, sender B PAIRING", "EveryRoomEnds HalfOpenEnds"),
    _must("KVX-ABORT-4", _B, "abort", "To abort again, or to abort what is over, changes nothing.", "sender F ABORT, sender S ABORT, receiver F ABORT, receiver S ABORT", "TerminalAbsorbing"),

    _must("KVX-END-1", _B, "", "Every room ends at both sides: no state waits for ever.", "sender B TOTAL, sender W TOTAL, sender T TOTAL, receiver B TOTAL, receiver W TOTAL, receiver T TOTAL", "EveryRoomEnds"),
    _should("KVX-END-2", _B, "", "A failure at one side ends the other within the declared limit of errors.", "sender T PEER_FAILED, receiver T PEER_FAILED", "TerminalPropagates"),
    _should("KVX-END-3", _B, "why", "A failed room says why.", "", "TerminalPropagates"),

    _must("KVX-TIME-1", _P, "limit:pairing", "A prefill room that nobody gives destinations for ends within the declared limit.", "sender B PAIRING", "HalfOpenEnds"),
    _must("KVX-TIME-2", _D, "limit:waiting", "A decode room for which nothing arrives ends within the declared limit.", "receiver B PAIRING, receiver W SILENCE", "HalfOpenEnds EveryRoomEnds"),
    _must("KVX-TIME-3", _B, "limit:silence peer_silent", "A room whose peer is silent ends within the declared limit.", "sender T SILENCE, receiver W SILENCE, link OPEN LOST", "EveryRoomEnds"),
    _must("KVX-TIME-4", _B, "limit:silence peer_killed", "A room whose peer is gone ends within the declared limit.", "sender T PEER_LOST, receiver T PEER_LOST, receiver W PEER_LOST", "EveryRoomEnds"),
    _must("KVX-TIME-5", _B, "limit:total", "A room that is kept waiting with everybody alive ends within the declared total limit.", "sender W TOTAL, receiver W TOTAL", "EveryRoomEnds EvidenceBeforeDeadline"),
    _must("KVX-TIME-6", _B, "", "A peer that is late, but within the limits, is waited for.", "sender B BIND, receiver B BOUND", "EvidenceBeforeDeadline"),
    _must("KVX-TIME-7", _B, "limit:silence room_silent", "A room of which the peer says nothing more ends within the declared limits, although its process lives.", "sender T SILENCE, receiver T SILENCE", "EveryRoomEnds"),
    _should("KVX-TIME-8", _B, "limit:silence room_silent", "A room whose data has begun to move, and of which the peer says nothing more, ends within the declared limit of silence.", "sender T SILENCE, receiver T SILENCE", "EveryRoomEnds EvidenceBeforeDeadline"),

    _must("KVX-FAULT-1", _B, "mover_error", "A movement that fails fails its room at both sides, and no decode side succeeds without its data.", "sender T OP_FAILED, receiver T OP_FAILED", "CompleteOrNotSuccess TerminalPropagates"),
    _must("KVX-FAULT-2", _B, "mover_raises", "A mover that raises ends its room at both sides, and nothing else.", "sender T OP_FAILED, receiver T OP_FAILED", "TotalHandlers Isolation"),
    _must("KVX-FAULT-3", _B, "mover_stalls", "A movement that does not end keeps no room from ending.", "sender T TOTAL, receiver T TOTAL", "EveryRoomEnds"),
    _must("KVX-FAULT-4", _B, "mover_unresolved", "A movement of which nobody knows how it ended fails its room, and its memory waits until nothing can land.", "sender T OP_UNRESOLVED, receiver T OP_UNRESOLVED, lease IN_FLIGHT UNRESOLVED", "UnresolvedIsNotFree"),
    _must("KVX-FAULT-5", _D, "truncate memory", "A movement that moved less than it should is not Success at the decode side.", "receiver T DATA_MISSING", "CompleteOrNotSuccess"),
    _must("KVX-FAULT-6", _B, "commit_fails", "A decode side that cannot write its pages fails its room at both sides.", "receiver T COMMIT_FAILED, sender T PEER_FAILED", "CompleteOrNotSuccess TerminalPropagates"),
    _must("KVX-FAULT-7", _B, "commit_stalls", "Writing that does not end keeps no room from ending.", "receiver T TOTAL, receiver F COMMITTED", "EveryRoomEnds NoFreeInFlight"),

    _should("KVX-MSG-1", _B, "message_lost", "The loss of one control message, with no other fault, ends the room within its limits, and in the same way at both sides.", "sender T RESEND, receiver B RESEND, receiver S RESEND", "LossSurvivable"),
    _must("KVX-MSG-2", _B, "message_copied", "A copy of a message changes nothing.", "sender W META, receiver T PARTS, sender S CONCLUDED", "LossSurvivable TerminalAbsorbing"),
    _must("KVX-MSG-3", _B, "message_late", "A message that comes late changes nothing of a room that is over.", "sender F META, receiver F PARTS, sender F CONCLUDED", "TerminalAbsorbing"),

    _must("KVX-MEM-1", _D, "memory", "Only the destination pages of a room are written for it.", "", "PositionsAbsolute"),
    _must("KVX-MEM-2", _D, "memory released", "Nothing is written into pages of a failed room once they may be used again.", "lease DRAINING QUIET, lease DRAINING DRAINED", "NoFreeInFlight AckMeansQuiescent"),
    _must("KVX-MEM-3", _D, "memory", "Nothing is written into the pages of a room after it succeeded.", "", "NoWriteAfterArrival"),
    _must("KVX-MEM-4", _P, "memory", "Source pages are read, never written.", "", "PositionsAbsolute"),
    _must("KVX-MEM-5", _B, "released", "The pages of a room that is over at both sides may be used again within the declared limit, once every fault is over.", "lease DRAINING DRAINED, lease HELD CLOSE", "EventuallyReleased ExactlyOnceFree"),
    _must("KVX-MEM-6", _D, "released", "Destination pages may not be used again while their room is live.", "lease HELD CLOSE", "NoFreeInFlight"),
    _must("KVX-MEM-7", _P, "memory released", "What arrives stays right when source pages are used again as soon as they may be.", "lease IN_FLIGHT CLOSE", "NoFreeInFlight ReadAfterCompute"),
    _must("KVX-MEM-8", _B, "left clear", "When every room is over at both sides and was cleared, nothing is kept of any: no record, no buffer, no transfer.", "lease DRAINING QUIET, lease HELD CLOSE, lease DRAINING DRAINED", "IdleEmpty EventuallyReleased"),

    _must("KVX-ISO-1", _B, "", "Rooms beside a room that fails go on as if nothing had happened.", "", "Isolation"),
    _must("KVX-ISO-2", _B, "", "Rooms after a room that failed go as if nothing had happened.", "", "Isolation IdleEmpty"),
    _must("KVX-ISO-3", _B, "", "A wrong call for one room leaves the others alone.", "", "Isolation"),

    _may ("KVX-REUSE-1", _B, "reuse clear", "A room number that was cleared at both sides can be used again, and gives the new data.", "", "AttemptUnique"),
    _may ("KVX-REUSE-2", _B, "reuse clear", "Nothing of an earlier attempt touches a later one of the same number.", "sender B BIND, receiver B NO_LEG", "AttemptUnique SameRequest TerminalAbsorbing"),
    _must("KVX-REUSE-3", _B, "", "A room number that is live cannot be taken by another request: the live one goes on.", "", "Isolation AttemptUnique"),
    _must("KVX-REUSE-4", _D, "room_taken", "A room that another engine has at the prefill side is left to it: the newcomer fails.", "receiver B BUSY, receiver W BUSY", "Isolation AttemptUnique"),
    _may ("KVX-REUSE-5", _B, "retry", "A decode side may start over while the prefill side still has the old attempt: that one ends, and the next one with both sides succeeds.", "sender B SUPERSEDED, sender W SUPERSEDED, sender T SUPERSEDED", "AttemptUnique"),

    _must("KVX-GATE-1", _D, "gates", "The decode side is not Success while a gate is closed, or after one has failed.", "receiver T GATE_OPEN, receiver T PARTS", "CompleteOrNotSuccess"),
    _must("KVX-GATE-2", _B, "gates", "A gate that fails fails its room at both sides.", "receiver B GATE_FAILED, receiver W GATE_FAILED, receiver T GATE_FAILED", "TerminalPropagates"),
    _must("KVX-GATE-3", _B, "gates limit:gate", "A room whose gate stays closed ends within the declared limit.", "receiver B GATE, receiver W GATE, receiver T GATE", "EveryRoomEnds"),
    _must("KVX-GATE-4", _D, "gates", "Gates may open before or after the data has come: with the last of both the room succeeds.", "receiver B GATE_OPEN, receiver W GATE_OPEN, receiver T GATE_OPEN", "EveryRoomEnds"),
    _must("KVX-GATE-5", _D, "gates", "A gate that opens twice, or that is heard of when its room is over, changes nothing.", "receiver F GATE_OPEN, receiver S GATE_FAILED", "TerminalAbsorbing"),

    _must("KVX-STOP-1", _B, "drain", "A side that is drained takes no new rooms, by a refusal or a failure; the rooms that it has go on.", "receiver B NO_LEG", "Isolation HalfOpenEnds"),
    _must("KVX-STOP-2", _B, "shutdown", "A side that shuts down ends its live rooms at once.", "sender B SHUTDOWN, sender W SHUTDOWN, sender T SHUTDOWN, receiver B SHUTDOWN, receiver W SHUTDOWN, receiver T SHUTDOWN", "EveryRoomEnds"),
    _should("KVX-STOP-3", _B, "shutdown", "The other side of a room whose side was shut down is told: it ends within the declared limit of aborts, where the two had met.", "sender T PEER_FAILED, receiver T PEER_FAILED, link OPEN CLOSE", "TerminalPropagates"),
    _must("KVX-STOP-4", _B, "shutdown released", "The memory of rooms that a shutdown ended comes back like that of any other.", "lease HELD CLOSE, lease DRAINING DRAINED", "EventuallyReleased NoFreeInFlight"),
    _must("KVX-STOP-5", _B, "shutdown", "A shutdown changes nothing of a room that is over.", "sender S SHUTDOWN, sender F SHUTDOWN, receiver S SHUTDOWN, receiver F SHUTDOWN", "TerminalAbsorbing"),

    _must("KVX-FORGE-1", _P, "forged_conclude", "The prefill side is not Success on a word that comes before it has sent everything.", "sender W CONCLUDED, sender T CONCLUDED", "NoDoneWithoutData"),
    _must("KVX-FORGE-2", _D, "forged_done memory", "The decode side is not Success because it was told that everything was moved.", "receiver B PARTS, receiver T DATA_MISSING", "CompleteOrNotSuccess NoDoneWithoutData"),
    _must("KVX-FORGE-3", _B, "forged_abort", "A side that is told of its peer's failure ends, unless it is over, and takes nothing back of what is over.", "sender S PEER_FAILED, receiver T PEER_FAILED", "TerminalAbsorbing"),
    _must("KVX-FORGE-4", _D, "forged_plan", "A plan with pages that the request does not have does no harm: the room fails, or goes on without them.", "receiver W PLAN_REFUSED, receiver T PLAN_REFUSED", "PositionsAbsolute"),
    _must("KVX-FORGE-5", _D, "forged_close", "A plan that is closed before it covers the request is not Success.", "receiver B PLAN_REFUSED, receiver T PLAN_REFUSED", "CompleteOrNotSuccess"),
    _must("KVX-FORGE-6", _P, "forged_destinations", "Destinations that do not fit, or that come again and differ, do no harm: the room fails, or goes on with the first.", "sender B PLAN_REFUSED, sender W PLAN_REFUSED, sender T PLAN_REFUSED, sender S PLAN_REFUSED", "PositionsAbsolute TerminalAbsorbing"),
    _must("KVX-FORGE-7", _P, "forged_passed", "A room that the decode side says it has forgotten ends at the prefill side.", "sender B PASSED, sender W PASSED, sender T PASSED", "EveryRoomEnds"),
    _must("KVX-FORGE-8", _D, "forged_unknown", "A decode side whose peer does not know its room ends, and succeeds only with its data.", "receiver T NO_LEG, receiver S NO_LEG", "CompleteOrNotSuccess"),
    _must("KVX-FORGE-9", _D, "forged_busy", "A decode side whose room is said to be another engine's ends, and succeeds only with its data.", "receiver T BUSY, receiver S BUSY, receiver F BUSY", "CompleteOrNotSuccess"),

    _must("KVX-RANK-1", _B, "ranks", "A side of several ranks is Success only when every one of its ranks is: each of them has, or has brought, all of its part.", "receiver B BOUND, receiver B LINKED, sender B BIND, sender B META, sender T CONCLUDED, sender T SKIPPED, receiver T PARTS, receiver T OP_DONE", "GroupDecisionImmutable CompleteOrNotSuccess"),
    _must("KVX-RANK-2", _B, "ranks rank_error", "A movement of one rank's data that fails ends the room at both sides.", "sender T OP_FAILED, receiver T OP_FAILED, sender T PEER_FAILED, receiver T PEER_FAILED", "GroupDecisionImmutable TerminalPropagates"),
    _must("KVX-RANK-3", _B, "ranks rank_killed limit:silence", "A room of which one rank is gone ends at both sides within the declared limit.", "sender T PEER_LOST, receiver T PEER_LOST, receiver W PEER_LOST", "GroupDecisionImmutable EveryRoomEnds"),
    _must("KVX-RANK-4", _B, "ranks rank_silent limit:silence", "A room of which one rank is silent ends at both sides within the declared limit.", "sender T SILENCE, receiver W SILENCE, link OPEN LOST", "GroupDecisionImmutable EveryRoomEnds"),
    _must("KVX-RANK-5", _B, "ranks released", "When a rank has failed, the room's memory at every rank that lives may be used again within the declared limit, and not before the last of them has let go.", "lease DRAINING DRAINED, lease HELD CLOSE", "EventuallyReleased UniformRelease"),
    _must("KVX-RANK-6", _B, "ranks rank_late", "A rank that hears of a request later than the others does no harm: the room waits for it, and succeeds.", "sender B BIND, sender B META, receiver B BOUND", "GroupDecisionImmutable EvidenceBeforeDeadline"),
    _should("KVX-RANK-7", _B, "ranks rank_error", "The failure of one rank ends the room at every other rank within the declared limit of errors.", "sender T PEER_FAILED, receiver T PEER_FAILED, sender W ABORT, receiver W ABORT", "GroupDecisionImmutable TerminalPropagates"),
)
# fmt: on

#: Every requirement, by id, in reading order.
REQUIREMENTS: dict[str, Requirement] = {each.id: each for each in (*_COMMON, *KVPOLL)}


def requirement(id: str) -> Requirement:
    """The requirement of this id. Raises ``KeyError`` naming those of the same section, or the sections."""
    try:
        return REQUIREMENTS[id]
    except KeyError:
        section = id.split("-")[1] if id.count("-") == 2 else ""
        near = [each for each in REQUIREMENTS if each.split("-")[1] == section] or sorted(SECTIONS)
        raise KeyError(f"no requirement is called {id!r}; there are {', '.join(near)}") from None
