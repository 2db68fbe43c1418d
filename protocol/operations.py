"""Operations and credits: what transports report, and which session may start more.

Operations in flight are capped by credits. A session that ran out of them stands in a queue, once, and is told when one came
back: so a report never blocks, and no two bounded queues wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from .receiver import ReceiverSession
from .records import OpKey, SessionKey
from .sender import SenderSession
from .session import Env

__all__ = ["Operations", "Session"]

Session: TypeAlias = SenderSession | ReceiverSession


class Operations:
    """The half of a core that transports talk to."""

    env: Env
    _waiting: deque[SessionKey]

    def session(self, key: SessionKey) -> Session | None:
        raise NotImplementedError

    def _touch(self, session: Session) -> None:
        raise NotImplementedError

    def op_done(self, op: OpKey) -> None:
        self._operation(
            op, lambda s: s.op_fenced(op.peer, op.part) if self._unresolved(s, op) else s.op_done(op.peer, op.part)
        )

    def op_failed(self, op: OpKey, detail: str = "") -> None:
        """Failed, and quiescent."""
        self._operation(
            op,
            lambda s: (
                s.op_fenced(op.peer, op.part) if self._unresolved(s, op) else s.op_failed(op.peer, op.part, detail)
            ),
        )

    def op_unresolved(self, op: OpKey, detail: str = "") -> None:
        self._operation(op, lambda s: s.op_unresolved(op.peer, op.part, detail))

    def op_fenced(self, op: OpKey) -> None:
        self._operation(op, lambda s: s.op_fenced(op.peer, op.part))

    @staticmethod
    def _unresolved(session: Session, op: OpKey) -> bool:
        return op.part in session.rec.peers[op.peer].unresolved

    def _operation(self, op: OpKey, action: Callable[[Session], None]) -> None:
        session = self.session(op.session)
        if session is not None and not session.rec.peers[op.peer].gone:
            action(session)
            self._touch(session)
        self._credits()

    def _want_credit(self, key: SessionKey) -> None:
        self._waiting.append(key)

    def _credits(self) -> None:
        while self.env.credits > 0 and self._waiting:
            session = self.session(self._waiting.popleft())
            if session is not None:
                session.startable()
                self._touch(session)
