"""What a process must do at once, whatever else is going on: looked at after each step of a core.

These are parts of invariants that a world would see late or not at all, because another clock, or the other end, repairs
what was left undone:

* ``EveryRoomEnds``: a room that waits has a way out. Its total deadline is armed; so is the pairing deadline until the legs
  have met, and from then on the deadline for silence, unless nothing more is needed of the peer. An abort ends it at once.
* ``CompleteOrNotSuccess``: no room succeeds behind a closed gate.
* ``ShutdownEnds``: a shutdown leaves no live room.
  So do a gate that failed or is late, data that is not there, and the end of its link.
* ``TotalHandlers``: what an engine does at the right time is taken, not refused; the last chunk closes the plan; and a leg
  of which a part is on its way says so.
* ``EvidenceBeforeDeadline``: a room asks before it gives up.
* ``LossSurvivable``: what waits for an answer is said again.

What it must say is in :mod:`.answers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.protocol.sender import SenderSession
from kvpoll.spec import KVPoll, LinkState
from kvpoll.spec.receiver_table import bound as receiver_bound
from kvpoll.spec.receiver_table import whole
from kvpoll.spec.sender_table import plan
from kvpoll.spec.wire import Message, Query

from .answers import Broken, Happened, untold

if TYPE_CHECKING:
    from kvpoll.protocol.core import Core


__all__ = ["broken_duty"]

_NONE: Broken = ("", "")


def broken_duty(core: Core, step: Happened) -> Broken:
    """``core`` stands after the step."""
    for broken in (_call(core, step), _clock(core, step), untold(core, step)):
        if broken[0]:
            return broken
    for session in core.sessions():
        if isinstance(session, ReceiverSession) and session.state is KVPoll.Success and session.rec.gates:
            return "CompleteOrNotSuccess", f"{_title(session.key)} is Success, and {session.rec.gates} are closed"
        if session.terminal:
            continue
        if isinstance(session, SenderSession) and session.state is KVPoll.WaitingForInput and _moves(session):
            return "TotalHandlers", f"{_title(session.key)} has started a part and says WaitingForInput"
        if missing := _unarmed(session):
            return (
                "EveryRoomEnds",
                f"{_title(session.key)} waits in {session.state.name} without its {missing} deadline",
            )
        if not _has_all(session) and any(not _stands(core, peer.link) for peer in session.rec.peers):
            return "EveryRoomEnds", f"{_title(session.key)} is {session.state.name} on a link that is over"
    return _NONE


def _call(core: Core, step: Happened) -> Broken:
    match step.call:
        case ("session", SessionKey() as key, "abort"):
            session = core.session(key)
            if session is not None and not session.terminal:
                return "EveryRoomEnds", f"{_title(key)} was aborted and is {session.state.name}"
        case ("shutdown",):
            for session in core.sessions():
                if not session.terminal:
                    return (
                        "ShutdownEnds",
                        f"{_title(session.key)} is {session.state.name} after a shutdown of its process",
                    )
        case ("session", SessionKey() as key, "fail_gate" | "data_missing" | "aux_mismatch" as what, *_):
            session = core.session(key)
            if session is not None and not session.terminal:
                return "CompleteOrNotSuccess", f"{_title(key)} is {session.state.name} after {what}"
        case ("send", SessionKey() as key, _, bool() as last):
            session, was = core.session(key), step.was(key)
            if step.refused and was is not None and was.open and not was.terminal:
                return "TotalHandlers", f"{_title(key)} refuses a chunk although its plan is open"
            live = isinstance(session, SenderSession) and not session.terminal and not step.refused
            if isinstance(session, SenderSession) and live and (session.rec.node[plan] == "open") is last:
                return (
                    "TotalHandlers",
                    f"{_title(key)} was given a chunk, last is {last}, its plan is {session.rec.node[plan]}",
                )
        case ("session", SessionKey() as key, "send_metadata", *_) if step.refused:
            was = step.was(key)
            if was is not None and not was.has_meta and not was.terminal:
                return "TotalHandlers", f"{_title(key)} refuses pages although it has none"
    return _NONE


def _clock(core: Core, step: Happened) -> Broken:
    match step.call:
        case ("fire", SessionKey() as key, Deadline() as clock):
            session, was = core.session(key), step.was(key)
            if session is not None and was is not None:
                return _gone_off(session, clock, was.terminal, step.said)
    return _NONE


def _gone_off(
    session: SenderSession | ReceiverSession, clock: Deadline, was_over: bool, said: Sequence[Message]
) -> Broken:
    name, waits = _title(session.key), not session.terminal
    if clock is Deadline.RESEND and not said:
        return "LossSurvivable", f"{name} waits for an answer, and says nothing again"
    if clock is Deadline.PAIRING and not waits and not was_over and _met(session):
        return "HalfOpenEnds", f"{name} was ended by its pairing deadline, and the legs have met"
    if clock is Deadline.GATE and waits and isinstance(session, ReceiverSession) and session.rec.gates:
        return "EveryRoomEnds", f"{name} waits for {session.rec.gates} after their deadline"
    asks = any(isinstance(message, Query) for message in said)
    if clock in (Deadline.ASK, Deadline.SILENCE) and waits and not _has_all(session) and not asks:
        return "EvidenceBeforeDeadline", f"{name} heard nothing, and does not ask"
    return _NONE


def _stands(core: Core, link: int) -> bool:
    record = core.links.table.get(link)
    return record is not None and record.state in (LinkState.GREETING, LinkState.OPEN)


def _has_all(session: SenderSession | ReceiverSession) -> bool:
    """Nothing more is needed of the peer."""
    return isinstance(session, ReceiverSession) and bool(session.rec.node[whole])


def _moves(session: SenderSession) -> bool:
    """A part of it was started, or can be read. What a receiver rank gets nothing of is started and over at once."""
    return any(part.keys or set(part.started) - set(part.over) for part in session.rec.parts)


def _met(session: SenderSession | ReceiverSession) -> bool:
    """Every peer rank has announced itself, or answered."""
    if isinstance(session, SenderSession):
        return len(session.rec.peers) >= session.rec.ranks
    return all(peer.bound for peer in session.rec.peers)


def _unarmed(session: SenderSession | ReceiverSession) -> str:
    """The deadline that a live session waits without."""
    armed = [deadline for deadline, _ in session.rec.timers]
    bound = bool(session.rec.peers) if isinstance(session, SenderSession) else bool(session.rec.node[receiver_bound])
    wanted = [Deadline.TOTAL]
    if not _has_all(session):
        wanted += [Deadline.PAIRING] * (not _met(session)) + [Deadline.SILENCE] * bound
    return next((deadline.value for deadline in wanted if deadline not in armed), "")


def _title(key: SessionKey) -> str:
    return f"{key.role} {key.no}"
