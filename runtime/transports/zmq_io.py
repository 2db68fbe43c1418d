"""The I/O thread of the zmq transport: owns every socket, sleeps until one of them or a caller has work.

Callers hand over commands; nothing else touches a socket (they are not thread-safe). Whatever arrives from the wire
ends in a count or an answer, never in an exception that leaves the loop.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import zmq

from kvpoll.runtime.transports.base import Operation, Outcome
from kvpoll.runtime.transports.landing import Landed, LandingTable, Piece, Refusal
from kvpoll.runtime.transports.ledger import Ledger
from kvpoll.runtime.transports.memory import Bytes
from kvpoll.runtime.transports.shared import Mappings, Place, Segments
from kvpoll.runtime.transports.zmq_peer import Peer
from kvpoll.runtime.transports.zmq_wire import Head, Kind, pack, unpack

__all__ = ["IoThread"]

_FRAMES_AT_ONCE = 32  #: messages handled before other sockets get their turn
_MAX_COMMANDS = 4096  #: far above what live operations and peers can ask for
_FENCING_POLL_MS = 1  #: only while a fence waits for the library to let go of payloads


class IoThread:
    """``router`` and ``context`` belong to this object from :meth:`start` on."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], router: zmq.Socket[bytes], token: int,
                 landing: LandingTable, ledger: Ledger, max_peers: int, piece: int, segments: Segments) -> None:  # fmt: skip
        self._context, self._router, self._token = context, router, token
        self._landing, self._ledger, self._segments = landing, ledger, segments
        self._mappings = Mappings()
        self._max_peers, self._piece = max_peers, piece
        self._peers: dict[str, Peer] = {}
        self._fencing: list[tuple[Peer, bool]] = []  # peers on their way to a fence; whether PeerFenced was asked for
        self._commands: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  # commands, `_awake` and `_closed`
        self._awake = self._closed = False
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._poller = zmq.Poller()
        self._poller.register(router, zmq.POLLIN)
        self._poller.register(self._ear, zmq.POLLIN)
        self._stopping = False
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="kvpoll-zmq", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, command: Callable[[], None]) -> bool:
        """Run ``command`` on the I/O thread; ``False`` when that has ended. Raises ``RuntimeError`` at the bound."""
        with self._lock:
            if self._closed:
                return False
            if len(self._commands) >= _MAX_COMMANDS:
                raise RuntimeError(f"commands: {_MAX_COMMANDS} are waiting, the I/O thread does not take them")
            self._commands.append(command)
            ring, self._awake = not self._awake, True
        if ring:  # without the lock: the thread that wakes up wants it next
            with suppress(OSError):  # it ended meanwhile, and took the command with it
                self._bell.send(b"!")
        return True

    def nudge(self) -> None:
        """Housekeeping, unless commands are waiting anyway: ticks never pile up."""
        if self._peers and not self._commands:
            self.post(self._retry)

    def stop(self, timeout_s: float) -> None:
        """End the thread and close all sockets; waits ``timeout_s`` at most."""
        self.post(self._stop)
        self._thread.join(timeout_s)

    def connected(self, link: str) -> bool:
        """A plain read from any thread."""
        peer = self._peers.get(link)
        return peer is not None and peer.connected

    def gauges(self) -> dict[str, int]:
        """From any thread; the numbers belong together only when nothing is going on."""
        peers = list(self._peers.values())
        each = [peer.gauges() for peer in peers]
        return {
            "peers": len(peers),
            "commands": len(self._commands),
            "fencing": len(self._fencing),
            "sending": sum(gauges["sending"] for gauges in each),
            "unanswered": sum(gauges["unanswered"] for gauges in each),
        }

    # Commands: on the I/O thread only.
    def open_peer(self, link: str, endpoint: str, token: int, piece: int, shares: bool) -> None:
        if link in self._peers:
            self.counts["peer_opened_twice"] += 1
            return
        if self._stopping or len(self._peers) >= self._max_peers:
            self.counts["peer_over_limit"] += 1  # its operations fail, nobody else notices
            return
        try:
            segments = self._segments if shares else None
            peer = Peer(self._context, link, endpoint, token, piece, self._ledger, self._ledger.limit, segments)
        except zmq.ZMQError:  # no such address, or out of descriptors
            self.counts["peer_unusable"] += 1
            return
        self._peers[link] = peer
        self._poller.register(peer.socket, zmq.POLLIN)
        self._poller.register(peer.monitor, zmq.POLLIN)

    def close_peer(self, link: str) -> None:
        self._mappings.forget(link)
        peer = self._peers.pop(link, None)
        if peer is not None and not peer.fenced:
            self._fence(peer, "peer closed", asked=False)

    def submit(self, operation: Operation, data: Bytes) -> None:
        peer = self._peers.get(operation.link)
        if peer is None or peer.fenced:
            self._ledger.report(operation.op, Outcome.FAILED, "link: no usable peer, nothing was sent")
        else:
            peer.submit(operation, data)

    def cancel(self, op: int) -> None:
        for peer in self._peers.values():
            if peer.holds(op):
                peer.cancel(op)

    def doubt(self, op: int) -> None:
        for peer in self._peers.values():
            if peer.holds(op):
                peer.doubt(op)

    def fence_peer(self, link: str) -> None:
        peer = self._peers.get(link)
        if peer is None:
            self._ledger.peer_fenced(link)
        else:
            self._fence(peer, "peer fenced", asked=True)

    def _retry(self) -> None:
        for peer in self._peers.values():
            peer.retry()

    def _stop(self) -> None:
        self._stopping = True

    def _fence(self, peer: Peer, detail: str, *, asked: bool) -> None:
        if not peer.fenced:
            self._poller.unregister(peer.socket)
            self._poller.unregister(peer.monitor)
            peer.fence(detail)
        self._fencing.append((peer, asked))

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._wind_down()

    def _turn(self) -> None:
        ready = dict(self._poller.poll(_FENCING_POLL_MS if self._fencing else None))
        if self._ear.fileno() in ready:
            self._run_commands()
        for peer in list(self._peers.values()):
            if peer.fenced:
                continue
            if peer.monitor in ready:
                peer.on_monitor()
            if peer.socket in ready:
                peer.on_answer()
        if self._router in ready:
            self._receive()
        if self._fencing:
            self._settle()

    def _run_commands(self) -> None:
        with self._lock:
            self._ear.recv(64)
            self._awake = False
            commands = list(self._commands)
            self._commands.clear()
        for command in commands:
            command()

    def _settle(self) -> None:
        waiting = []
        for peer, asked in self._fencing:
            if not peer.settled():
                waiting.append((peer, asked))
                continue
            peer.settle("peer fenced")
            if asked:
                self._ledger.peer_fenced(peer.link)
        self._fencing = waiting

    def _receive(self) -> None:
        for _ in range(_FRAMES_AT_ONCE):
            try:
                source = self._router.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            # The library hands out whole messages, so none of these blocks.
            first = self._router.recv() if self._router.rcvmore else b""
            second = self._router.recv(copy=False) if self._router.rcvmore else None
            head, more = unpack(first), second is not None and second.more
            while more:
                more, head = self._router.recv(copy=False).more, None
            answer = None if head is None else self._answer(source, head, second)
            if answer is None:
                self.counts["garbage"] += 1
                continue
            try:  # a full or vanished connection drops the answer: the sender asks again
                self._router.send(source, zmq.SNDMORE | zmq.NOBLOCK)
                self._router.send(pack(answer), zmq.NOBLOCK)
            except zmq.ZMQError:
                self.counts["answer_lost"] += 1

    def _answer(self, source: bytes, head: Head, data: zmq.Frame | None) -> Head | None:
        if head.token != self._token:  # meant for the instance that had this address before
            return None
        piece = Piece(source, head.link, head.key, head.part, head.op, head.offset, head.total)
        answer = Head(Kind.LANDED, head.token, head.key, head.part, head.op)
        if head.kind is Kind.CANCEL and data is None:
            return answer._replace(kind=Kind.DONE if self._landing.stop(piece) else Kind.CANCELLED)
        if head.kind not in (Kind.DATA, Kind.SHARED) or data is None:
            return None
        if head.kind is Kind.DATA:
            landed = self._landing.land(piece, np.asarray(data.buffer, np.uint8), ours=True)
        else:
            landed = self._land_shared(piece, data.bytes)
        if isinstance(landed, Refusal):
            return answer._replace(kind=Kind.REFUSED, reason=int(landed))
        return answer._replace(kind=Kind.DONE) if landed is Landed.WHOLE else answer

    def _land_shared(self, piece: Piece, frame: bytes) -> Landed | Refusal:
        place = Place.unpack(frame)
        found = None if place is None else self._mappings.read(piece.link, place)
        if found is not None:
            return self._landing.land(piece, found)
        self._landing.stop(piece)  # the sender starts again, with bytes
        self._landing.refused[Refusal.NOT_SHARED] += 1
        return Refusal.NOT_SHARED

    def _wind_down(self) -> None:
        self._stopping = True
        with self._lock:
            self._closed = True
            commands = list(self._commands)
            self._commands.clear()
        try:
            for peer in self._peers.values():
                peer.fence("transport closed")
            for command in commands:  # each still gets its report
                command()
        finally:
            self._context.destroy(linger=0)  # returns when the library's threads have let go of every payload
            self._abandon()

    def _abandon(self) -> None:
        waiting, self._fencing = self._fencing, []
        self._peers.clear()
        self._mappings.clear()
        self._ledger.abandon("transport closed")
        for peer, asked in waiting:
            if asked:
                self._ledger.peer_fenced(peer.link)
        self._bell.close()
        self._ear.close()
