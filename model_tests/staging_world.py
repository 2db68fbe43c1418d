"""Staging slots under everything that may happen. Two worlds, with the observer of :mod:`.staging_observer`:

* :class:`PoolWorld`: the host pool of a sender. Copies fill slots, the transport reads them, all in one process.
* :class:`RingWorld`: the ring of a receiver. Sender ranks ask and fill over a network that loses, copies and reorders.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kvpoll.protocol.staging import Granted, Refused

from .explorer import Violation
from .staging_observer import Action, Shape, StagingWorld

__all__ = ["PoolWorld", "RingWorld", "Shape", "StagingWorld"]


class PoolWorld(StagingWorld):
    """See the module text."""

    def actions(self) -> Sequence[Action]:
        true, todo = self.true, list(super().actions())
        for room, chunks in enumerate(true.chunks):
            live = room not in true.over
            for no, chunk in enumerate(chunks):
                at = (room, no)
                if live and chunk.phase == "idle":
                    todo.append(("ask", *at))
                if live and chunk.phase == "has":
                    todo.append(("begins", *at))
                if chunk.phase == "filling":
                    todo.append(("filling ends", *at))
                    todo += [("failed copy", *at)] if live and true.fails else []
                if chunk.phase != "idle" and true.strays:
                    todo.append(("again asked", *at))
            if live and any(chunk.phase == "no" for chunk in chunks):
                todo.append(("give up", room))
        return todo

    def _ask_side(self, name: str, room: int, no: int) -> None:
        ticket, true = self.ticket(room, no), self.true
        match name:
            case "ask":
                self._set(room, no, phase="asked")
                self._asks(room, no)
            case "again asked":
                self.true = true._replace(strays=true.strays - 1)
                self._asks(room, no)
            case "begins":
                self._set(room, no, phase="filling")
                if not self.staging.start(ticket):
                    raise Violation("TotalHandlers", "a slot that is granted cannot be filled")
            case "filling ends":
                self._set(room, no, phase="filled")
                if room not in true.over:
                    self.staging.filled(ticket)
                self.staging.quiet(ticket)
            case "failed copy":  # first the operation ends, then its room fails: the slot is held, and untouched
                self._set(room, no, phase="has")
                self.staging.quiet(ticket)
                self._hear(self.staging.take())
                self._over(room, "fail")
            case "give up":
                self._over(room, "refused")

    def _over(self, room: int, how: str) -> None:
        super()._over(room, how)
        self.true = self.true._replace(gone=self.true.over)

    def _told(self, out: Granted | Refused, room: int, no: int) -> None:
        if self.true.chunks[room][no].phase == "asked":
            self._set(room, no, phase="has" if isinstance(out, Granted) else "no")


class RingWorld(StagingWorld):
    """See the module text. Messages: ASK, GRANT and NO of a ticket, FILLED of a ticket, OVER and DRAINED of a room. What was
    not answered is said again, some time after it has arrived or was lost."""

    REMOTE = True

    def actions(self) -> Sequence[Action]:
        true, todo = self.true, list(super().actions())
        for room, chunks in enumerate(true.chunks):
            live, writes = room not in true.gone, any(chunk.phase == "filling" for chunk in chunks)
            for no, chunk in enumerate(chunks):
                at = (room, no)
                if live and chunk.phase == "idle":
                    todo.append(("ask", *at))
                if live and chunk.phase == "asked" and not {("ASK", *at), ("GRANT", *at), ("NO", *at)} & true.net:
                    todo.append(("ask", *at))
                if live and chunk.phase == "has":
                    todo.append(("begins", *at))
                if chunk.phase == "filling":
                    todo.append(("filling ends", *at))
                if live and chunk.phase == "filled" and not chunk.ready and ("FILLED", *at) not in true.net:
                    todo.append(("say filled", *at))
            if live and any(chunk.phase == "no" for chunk in chunks):
                todo.append(("give up", room))
            if live and true.fails:
                todo.append(("fail to fill", room))
            if not live and not writes and self.staging.holds(self.key(room)) and ("DRAINED", room) not in true.net:
                todo.append(("say drained", room))
            if live and room in true.over and ("OVER", room) not in true.net:
                todo.append(("say over", room))
        for message in sorted(true.net, key=str):
            todo.append(("hear", *message))
            todo += [("copy", *message)] if true.strays else []
            todo += [("lose", *message)] if true.losses else []
        return todo

    def _ask_side(self, name: str, room: int, no: int) -> None:
        true = self.true
        match name:
            case "ask":
                self._set(room, no, phase="asked")
                self._say("ASK", room, no)
            case "begins":
                self._set(room, no, phase="filling")
            case "filling ends":
                self._set(room, no, phase="filled")
                self._say("FILLED", room, no)
            case "say filled":
                self._say("FILLED", room, no)
            case "give up":
                self.true = true._replace(gone=true.gone | {room})
            case "fail to fill":
                self.true = true._replace(gone=true.gone | {room}, failed=true.failed | {room}, fails=true.fails - 1)
            case "say drained":
                self._say("DRAINED", room)
            case "say over":
                self._say("OVER", room)

    def do(self, action: Hashable) -> None:
        assert isinstance(action, tuple)
        if action[0] not in ("hear", "copy", "lose"):
            super().do(action)
            return
        self._arrives(action[0], action[1:])
        self._hear(self.staging.take())
        self._check()

    def _arrives(self, how: str, message: Action) -> None:
        true = self.true
        if how == "lose":
            self.true = true._replace(net=true.net - {message}, losses=true.losses - 1)
            return
        left = true.net if how == "copy" else true.net - {message}
        self.true = true._replace(net=left, strays=true.strays - (how == "copy"))
        kind, room, no = (*message, 0)[:3]
        assert isinstance(room, int)
        assert isinstance(no, int)
        live, chunk = room not in true.gone, true.chunks[room][no]
        match kind:
            case "ASK":
                self._asks(room, no)
            case "FILLED":
                self.staging.filled(self.ticket(room, no))
            case "GRANT" if live and chunk.phase == "asked":
                self._set(room, no, phase="has")
            case "NO" if live and chunk.phase == "asked":
                self._set(room, no, phase="no")
            case "OVER":
                self.true = self.true._replace(gone=true.gone | {room})
            case "DRAINED":
                if room not in true.over:
                    self._over(room, "told")
                self.staging.drained(self.key(room), 0)

    def _say(self, *message: str | int) -> None:
        self.true = self.true._replace(net=self.true.net | {message})

    def _told(self, out: Granted | Refused, room: int, no: int) -> None:
        self._say("GRANT" if isinstance(out, Granted) else "NO", room, no)

    def _over(self, room: int, how: str) -> None:
        super()._over(room, how)
        if how in ("conclude", "fail"):
            self._say("OVER", room)
