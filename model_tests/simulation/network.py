"""The control network: frames of the real codec that take time, and are lost, copied, reordered, cut off or damaged.

An address outlives its process: what was sent to one that has crashed reaches the one that lives there now. Damaged bytes
meet the real decoder first; what it cannot see (another number where a number may stand) the seal refuses, as the
runtime's does. Either way a damaged frame is one counted RemoteProtocolError, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.errors import RemoteProtocolError
from kvpoll.spec.wire import Message, RoomMessage

from .chance import Chance, damaged
from .clockwork import Clockwork

if TYPE_CHECKING:
    from .process import Process

__all__ = ["Network"]


class Network:
    """Who lives where, which links there are, and what is under way."""

    def __init__(self, clock: Clockwork, chance: Chance) -> None:
        self.clock = clock
        self.chance = chance
        self.places: dict[str, Process] = {}  #: living processes, by address
        self.links: dict[int, tuple[str, str]] = {}  #: addresses of the initiator and of the acceptor
        self.cuts: Counter[tuple[str, str]] = Counter()  #: (from, to) that nothing passes
        self.counts: Counter[str] = Counter()

    def connect(self, link: int, source: Process, address: str) -> None:
        self.links[link] = (source.address, address)

    def hang_up(self, link: int, source: Process) -> None:
        """The initiator closes the connection: nothing more is sent on it. (An acceptor's end is closed with it.)"""
        if self.links.get(link, ("", ""))[0] == source.address:
            del self.links[link]

    def other(self, link: int, address: str) -> str | None:
        """The address at the other end of a link."""
        initiator, acceptor = self.links.get(link, ("", ""))
        return {initiator: acceptor, acceptor: initiator}.get(address)

    def send(self, source: Process, link: int, message: Message) -> None:
        target = self.other(link, source.address)
        if target is None:
            self.counts["sent on a connection that is gone"] += 1
            return
        frame = encode(message)
        self.counts["messages"] += 1
        copies = self.chance.frames()
        if len(copies) != 1:
            self.counts["messages lost" if not copies else "messages copied"] += 1
        room = message.room if isinstance(message, RoomMessage) else -1
        for copy in copies:
            self.clock.after(copy.delay, partial(self._arrive, source.address, target, frame, copy.damage, room))

    def _arrive(self, source: str, target: str, frame: bytes, damage: int, room: int) -> None:
        process = self.places.get(target)
        if process is None or self.cuts[source, target]:
            self.counts["messages to nobody" if process is None else "messages cut off"] += 1
            return
        if damage:
            self._refuse(process, damaged(frame, damage), frame)
            return
        self.clock.log(target, f"<- {source}", room, frame)
        process.soon(partial(process.hear, decode(frame).message))

    def _refuse(self, process: Process, frame: bytes, sent: bytes) -> None:
        if frame == sent:
            return  # a cut at nothing, a repetition of the same: it is the frame, and late enough to be lost
        self.clock.log(process.address, "damaged", -1, frame)
        try:
            decode(frame)
            raise RemoteProtocolError("seal", "the bytes that were sealed")
        except RemoteProtocolError as error:
            self.counts["damaged frames refused by the seal" if error.tag == "seal" else "damaged frames refused"] += 1
