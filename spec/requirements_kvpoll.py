"""What only kvpoll promises: the profile ``kvpoll`` of the conformance suite."""

# One fact a row, however wide.
# ruff: noqa: E501

from __future__ import annotations

from .requirement import Level, Requirement, RequirementRole

__all__ = ["KVPOLL"]

_P, _D, _B = RequirementRole.PREFILL, RequirementRole.DECODE, RequirementRole.BOTH


def _must(id: str, role: RequirementRole, needs: str, text: str, rows: str, invariants: str) -> Requirement:
    each = tuple(row.strip() for row in rows.split(",") if row.strip())
    return Requirement(
        id, Level.MUST, role, tuple(needs.split()), "0.1", text, each, tuple(invariants.split()), "kvpoll"
    )


# fmt: off
KVPOLL: tuple[Requirement, ...] = (
    _must("KVX-KV-1", _B, "", "Prefill Success implies decode Success: the receiver alone decides.", "sender T CONCLUDED, receiver T COMMITTED", "SuccessOrder"),
    _must("KVX-KV-2", _B, "cause", "The ends of a room, and the causes that they name, are those that the tables give.", "", "TerminalPropagates"),
    _must("KVX-KV-3", _B, "message_lost", "The loss of one message, with no other fault, changes no end: it is sent again.", "sender T RESEND, receiver B RESEND, receiver S RESEND, sender F RESEND", "LossSurvivable"),
    _must("KVX-KV-4", _B, "", "Early destinations, early chunks, reuse of numbers, and the word that memory is free are all there.", "sender B SEND, sender B META", "ExactlyOnceFree"),
    _must("KVX-KV-5", _B, "abort", "Every failure is a message: a side that the other one has met ends within the declared limit of aborts.", "sender W PEER_FAILED, receiver W PEER_FAILED", "TerminalPropagates"),
    _must("KVX-KV-6", _D, "mover_stalls released", "Destination pages are not free while a movement into them is under way, however the room ended.", "lease DRAINING QUIET", "NoFreeInFlight UniformRelease"),
    _must("KVX-KV-7", _B, "limit:silence cause", "A peer that is lost is told apart from one that says nothing.", "sender T PEER_LOST, receiver W PEER_LOST", "InstanceMatches"),
    _must("KVX-KV-8", _P, "retry", "An attempt that the decode side started over is given up as soon as the next one is announced; whether it had succeeded is asked at once.", "sender W SUPERSEDED, sender T SUPERSEDED", "AttemptUnique TerminalPropagates"),
)
# fmt: on
