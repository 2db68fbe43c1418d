"""The thin shell around the core: one lock, one control thread, real time.

Whoever has something for the core (an engine's call, a frame, a report, a clock) takes the lock, feeds it, and carries its
outputs out in order. Frames leave through the control thread, which owns the sockets; bulk data leaves through threads of
the transports. ``poll()`` of a handle takes no lock: it reads a state that was written under it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kvpoll.protocol.core import Core
from kvpoll.protocol.outputs import (
    Changed,
    CloseLink,
    Connect,
    Dropped,
    HandBack,
    OpenPeer,
    Output,
    Quarantined,
    Ready,
    Send,
)
from kvpoll.protocol.records import SessionKey
from kvpoll.spec.wire import Close, Message

from .control import ControlSockets
from .dataplane import DataPlane
from .resolve import RankAddress, Resolver
from .trace import Trace

__all__ = ["Listener", "Shell"]

T = TypeVar("T")
log = logging.getLogger("kvpoll")
#: Transports get their housekeeping this often, in ms.
_TICK = 100


class Listener:
    """What a manager hears of. Called with the lock held: be short, and block on nothing."""

    def changed(self, out: Changed) -> None: ...
    def ready(self, key: SessionKey) -> None: ...
    def handed_back(self, out: HandBack) -> None: ...
    def dropped(self, key: SessionKey) -> None: ...
    def quarantined(self) -> None: ...
    def link_closed(self) -> None: ...
    def died(self, error: str) -> None: ...


class Shell:
    """Runs one core. ``clock`` gives monotonic seconds."""

    def __init__(
        self, core: Core, data: DataPlane, sockets: ControlSockets, listener: Listener, resolver_secret: str | None,
        trace: Trace | None, outbox: int, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.core, self.data, self.sockets = core, data, sockets
        self._listener = listener
        self._lock = threading.RLock()
        self._clock = clock
        self._outbox: deque[tuple[int, Message]] = deque(maxlen=outbox * 16)
        self._late: list[tuple[int, Message]] = []  #: of the outputs at hand, what goes out behind the others
        self._dials: deque[tuple[int, str]] = deque()
        self._closing: deque[int] = deque()
        self._resolver = Resolver(resolver_secret, self._found, self._not_found)
        self._trace = trace
        self._stop = False
        self._ticked = 0
        self._due: int | None = None
        self.dead = ""
        self._thread = threading.Thread(target=self._run, name="kvpoll-control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self._clock() * 1000)

    def call(self, action: Callable[[Core], T]) -> T:
        """Run something on the core, on the caller's thread, and carry out what follows from it."""
        with self._lock:
            self.core.env.now = self.now()
            try:
                return action(self.core)
            finally:
                self._carry_out()
                if self._outbox or self._dials or self._closing:
                    self.sockets.wake()

    def notify(self) -> None:
        """A transport has something to say. From any thread."""
        self.sockets.wake()

    # -- outputs -----------------------------------------------------------------------------------------------------------
    def _carry_out(self) -> None:
        outputs = self.core.take()
        while outputs:
            for out in outputs:
                self._output(out)
            outputs = self.core.take()
        if self._late:
            self._outbox.extend(self._late)
            self._late.clear()

    def _output(self, out: Output) -> None:
        match out:
            case Send(link=link, message=Close() as message):
                self._late.append((link, message))  # nobody waits for it, while what follows it may start a transfer
            case Send(link=link, message=message):
                self._outbox.append((link, message))
            case Connect(link=link, address=address):
                if address.startswith("bootstrap://"):
                    self._resolver.ask(link, RankAddress.parse(address))
                else:
                    self._dials.append((link, address))
            case CloseLink(link=link):
                self._resolver.forget(link)
                self._closing.append(link)
                self._listener.link_closed()
            case OpenPeer(link=link):
                self._resolver.forget(link)
                self.data.carry_out(self.core, out)
            case Changed():
                self._listener.changed(out)
            case Ready(session=session):
                self._listener.ready(session)
            case HandBack():
                self.data.carry_out(self.core, out)
                self._listener.handed_back(out)
            case Quarantined():
                self._listener.quarantined()
            case Dropped(session=session):
                self._listener.dropped(session)
            case _:
                self.data.carry_out(self.core, out)

    def _found(self, link: int, address: str) -> None:
        self._dials.append((link, address))
        self.sockets.wake()

    def _not_found(self, link: int, reason: str) -> None:
        with self._lock:
            self.core.links.note(link, reason)

    # -- the control thread --------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while not self._stop:
                self._turn()
        except Exception as error:
            # Whatever it was, no room of this process can go on: every poll() reads Failed with PROCESS_UNHEALTHY.
            log.exception("the control thread of this process died")
            self.dead = f"{type(error).__name__}: {error}"
            self._listener.died(self.dead)

    def _turn(self) -> None:
        self._flush()
        wait = 0 if self._outbox or self._dials or self._closing else self._patience()
        arrived = list(self.sockets.wait(wait))
        with self._lock:
            # Delivered input is handled before a deadline is judged: frames, then reports, then clocks.
            self.core.env.now = self.now()
            for message in arrived:
                if self._trace is not None:
                    self._trace.message("in", message)
                self.core.receive(message)
            self.data.poll(self.core)
            self._carry_out()
            self._due = self.core.tick(self.now())
            self._carry_out()
            if self.now() - self._ticked >= _TICK:
                self._ticked = self.now()
                self.data.tick()
                if self._trace is not None:
                    self._trace.flush()

    def _patience(self) -> int:
        return _TICK if self._due is None else max(0, min(_TICK, self._due - self.now()))

    def _flush(self) -> None:
        while self._dials:
            link, address = self._dials.popleft()
            if self.sockets.dialled(link):
                self.sockets.hang_up(link)  # another process has taken the place of the one that does not answer
            self.sockets.dial(link, address)
            with self._lock:  # a hello that was said before there was a socket
                if (record := self.core.links.table.get(link)) is not None and record.initiator:
                    self.core.links.greet(link)
                    self._carry_out()
        while self._outbox:
            link, message = self._outbox.popleft()
            if self._trace is not None:
                self._trace.message("out", message)
            self.sockets.send(link, message)
        while self._closing:
            self.sockets.hang_up(self._closing.popleft())

    def gauges(self) -> dict[str, int]:
        with self._lock:
            return self.core.gauges() | self.data.gauges() | {"outbox": len(self._outbox)}

    def close(self, timeout: float = 5.0) -> None:
        """Stop the threads, then the transports and sockets. Idempotent."""
        if self._stop:
            return
        self._stop = True
        self.sockets.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._resolver.close()
        if not self._thread.is_alive():
            self._flush()
            self.data.close()
            self.sockets.close()
            if self._trace is not None:
                self._trace.close()
