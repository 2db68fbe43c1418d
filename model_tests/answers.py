"""What a process must say at once: looked at after each step of a core, as part of :mod:`.duties`.

Most of it would be said later anyway: when a clock goes off, or when somebody asks. That repairs a loss, and hides an end
that never speaks up by itself.

* ``EvidenceBeforeDeadline``: who is asked answers.
* ``LossSurvivable``: what is said for the first time is answered, so that it need not be said again: an announcement, where
  data goes, a conclusion; and an ABORT by who has succeeded. A plan is closed with its total.
* ``TerminalPropagates``: who fails tells every peer rank on an open link. Who is refused is over.
* ``HalfOpenEnds``: an attempt is announced on every link as it opens, so that the other end can give it up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import SenderPeer, SessionKey
from kvpoll.protocol.sender import SenderSession
from kvpoll.spec import KVPoll, LinkState
from kvpoll.spec.receiver_table import whole
from kvpoll.spec.sender_table import plan
from kvpoll.spec.wire import (
    Abort,
    Announce,
    Close,
    Conclude,
    Message,
    Metadata,
    Query,
    Refusal,
    RoomMessage,
    Status,
)

if TYPE_CHECKING:
    from kvpoll.protocol.core import Core

    from .process import LinkView, SessionView

__all__ = ["Broken", "Happened", "untold"]

#: The invariant, and what is wrong; both empty when nothing is.
Broken: TypeAlias = tuple[str, str]
_NONE: Broken = ("", "")
Session: TypeAlias = SenderSession | ReceiverSession


class Happened(NamedTuple):
    """One step of a core."""

    call: tuple[Hashable, ...]
    before: tuple[SessionView, ...]  #: its sessions as they were
    refused: bool
    heard: Message | None
    said: Sequence[Message]
    links: Mapping[int, LinkView]  #: as they were

    def was(self, key: SessionKey) -> SessionView | None:
        return next((view for view in self.before if view.key == key), None)


def untold(core: Core, step: Happened) -> Broken:
    """What was not said; ``core`` stands after the step."""
    for session in core.sessions():
        for broken in (_failed(core, step, session), _closed(core, step, session), _announced(core, step, session)):
            if broken[0]:
                return broken
    heard = step.heard
    if isinstance(heard, RoomMessage | Refusal) and _open(core, heard.link, heard.source):
        for session in core.sessions():
            if isinstance(heard.engine, int) and (session.rec.engine, session.rec.gen, session.rec.room) == (
                heard.engine, heard.gen, heard.room,
            ):  # fmt: skip
                return _answered(step, session, heard)
    return _NONE


def _answered(step: Happened, session: Session, heard: RoomMessage | Refusal) -> Broken:
    if all(peer.link != heard.link for peer in session.rec.peers):
        return _NONE  # of a rank that was never met
    was = step.was(session.key)
    states = [message for message in step.said if isinstance(message, Status) and message.link == heard.link]
    failed = any(isinstance(message, Abort) for message in step.said)
    what = f"{type(heard).__name__} to {session.key.role} {session.key.no}"
    sender = isinstance(session, SenderSession)
    match heard:
        case Query() | Status(answer=True) if was is not None and not states:
            return "EvidenceBeforeDeadline", f"{what} was not answered"
        case Announce() | Conclude() if sender and not states and not failed:
            return "LossSurvivable", f"{what} was not answered"
        case Metadata() if sender and not failed and not any(state.seen.meta for state in states):
            return "LossSurvivable", f"{what} was not answered"
        case Abort() if not sender and session.state is KVPoll.Success and not states:
            return "LossSurvivable", f"{what}, which is Success, was not answered"
        case Refusal() if isinstance(session, ReceiverSession) and not session.terminal and not session.rec.node[whole]:
            return "TerminalPropagates", f"{what}, which is {session.state.name} in spite of it"
    return _NONE


def _failed(core: Core, step: Happened, session: Session) -> Broken:
    was = step.was(session.key)
    if session.state is KVPoll.Failed and was is not None and not was.terminal:
        told = {message.link for message in step.said if isinstance(message, Abort)}
        for link in _links(core, session):
            if link not in told:
                return "TerminalPropagates", f"{session.key.role} {session.key.no} failed, and link {link} is not told"
    return _NONE


def _closed(core: Core, step: Happened, session: Session) -> Broken:
    was = step.was(session.key)
    if (
        not isinstance(session, SenderSession)
        or was is None
        or session.terminal
        or session.state is KVPoll.Bootstrapping
    ):
        return _NONE
    if session.rec.node[plan] != "open" and (was.open or was.state is KVPoll.Bootstrapping):
        told = {message.link for message in step.said if isinstance(message, Close)}
        if any(link not in told for link in _links(core, session)):
            return "LossSurvivable", f"{session.key.role} {session.key.no} closed its plan, and does not say so"
    return _NONE


def _announced(core: Core, step: Happened, session: Session) -> Broken:
    if not isinstance(session, ReceiverSession):
        return _NONE
    was = step.was(session.key)
    if session.terminal and (was is None or not was.terminal):
        return _NONE
    announced = {
        peer.link for peer in session.rec.peers if peer.linked
    }  # once over: unless the room has a newer attempt
    told = {message.link for message in step.said if isinstance(message, Announce | Metadata)}
    for link in _links(core, session):
        before = step.links.get(link)
        if session.terminal and link not in announced:
            continue
        if link not in told and (was is None or before is None or not before.open):
            return "HalfOpenEnds", f"{session.key.role} {session.key.no} is not announced on link {link}"
    return _NONE


def _links(core: Core, session: Session) -> Iterator[int]:
    """The open links to peer ranks that are not gone."""
    for peer in session.rec.peers:
        passed = isinstance(peer, SenderPeer) and peer.passed
        if not peer.gone and not passed and _open(core, peer.link, peer.instance or None):
            yield peer.link


def _open(core: Core, link: int, instance: int | None) -> bool:
    record = core.links.table.get(link)
    return record is not None and record.state is LinkState.OPEN and (instance is None or record.instance == instance)
