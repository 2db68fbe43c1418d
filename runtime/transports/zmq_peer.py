"""The sending side towards one peer: cuts payloads into pieces and knows when nothing of them is on its way.

A part that fits into one message goes whole: the receiver keeps that message and copies nothing. A larger one is cut,
so that the receiver copies one piece while the next is on its way. Messages go out in order, operation by operation,
at most ``WINDOW`` and ``_WINDOW_BYTES`` unanswered, so a receiver never has to hold more than that per connection.

On one host a payload that lies in shared memory is not sent at all: the message says where it lies (see ``shared``). A
receiver that cannot read it there says so once, and gets bytes from then on.

Payload memory is handed to the socket library without a copy, hence the fence: the socket is closed without linger,
and it took effect once the library let go of every piece (its trackers say so). Shared memory that the peer may still
read is spoiled by the fence: nobody else's bytes are ever put there.
Everything here runs on the transport's I/O thread.
"""

from __future__ import annotations

import os
from collections import deque

import zmq
from zmq.utils.monitor import parse_monitor_message

from kvpoll.runtime.transports.base import Operation, Outcome
from kvpoll.runtime.transports.landing import Refusal
from kvpoll.runtime.transports.ledger import Ledger
from kvpoll.runtime.transports.memory import Bytes
from kvpoll.runtime.transports.shared import Place, Segments
from kvpoll.runtime.transports.zmq_wire import Head, Kind, pack, unpack

__all__ = ["WINDOW", "Peer"]

WINDOW = 3  #: unanswered pieces per peer: two keep both ends busy, the third hides the answer's way back
_WINDOW_BYTES = 32 << 20  #: the same in bytes: two whole parts of the largest size
_CUT = 4 << 20  #: wake-ups and answers weigh little from 2 MiB up; three pieces of 4 MiB were fastest at 64 MiB
_COPY_BELOW = 1 << 16  #: a copy that small costs less than following its memory
_MORE = zmq.SNDMORE | zmq.NOBLOCK
_ANSWERS_AT_ONCE = 64  #: answers handled before other sockets get their turn
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 5_000, 30_000  #: finds hosts that vanished; a stopped process looks the same
_RECONNECT_MAX_MS = 5_000
_REASONS = {int(reason): reason.name.lower() for reason in Refusal}


class Peer:
    """One DEALER and its monitor. ``token`` is the receiving instance that every answer must name."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], link: str, endpoint: str, token: int, piece: int,
                 ledger: Ledger, capacity: int, segments: Segments | None) -> None:  # fmt: skip
        self.link = link
        self._segments = segments  # None: this peer gets bytes
        self.connected = False
        self.fenced = False
        self.strange = 0  # answers that no honest receiver sends
        self._token, self._piece, self._ledger = token, piece, ledger
        self._queue: deque[_Sending] = deque()  # not sent to the end
        self._live: dict[int, _Sending] = {}  # not resolved
        self.socket = context.socket(zmq.DEALER)
        try:
            self.socket.linger = 0
            self.socket.sndhwm = WINDOW + 2 * capacity  # a CANCEL of each operation always fits beside the window
            self.socket.rcvhwm = 4 * capacity
            self.socket.setsockopt(zmq.ROUTING_ID, b"K" + os.urandom(16))  # survives a reconnect; nobody guesses it
            self.socket.setsockopt(zmq.MAXMSGSIZE, 1024)
            self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
            self.socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
            self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
            self.monitor = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
            self.socket.connect(endpoint)
        except zmq.ZMQError:
            self._close_sockets()
            raise

    def submit(self, operation: Operation, data: Bytes) -> None:
        whole = data.nbytes <= self._piece
        place = None if self._segments is None else self._segments.place(data)
        sending = _Sending(operation, data, data.nbytes if whole else min(_CUT, self._piece), place)
        self._live[operation.op] = sending
        self._queue.append(sending)
        self.pump()

    def holds(self, op: int) -> bool:
        return op in self._live

    def cancel(self, op: int, why: str = "cancelled") -> None:
        """Send no more of it. FAILED at once if nothing went out, else when the receiver confirms."""
        sending = self._live.get(op)
        if sending is None or self.fenced:
            return
        sending.why = sending.why or why
        if sending in self._queue:
            self._queue.remove(sending)
        if sending.sent == 0:
            self._finish(sending, Outcome.FAILED, sending.why)
            return
        sending.cancelling = True
        self._send_cancel(sending)

    def doubt(self, op: int) -> None:
        """Report it UNRESOLVED; from here on it can only end as FENCED."""
        sending = self._live.get(op)
        if sending is None or self.fenced:
            return
        self._ledger.report(op, Outcome.UNRESOLVED, "fenced before the receiver answered")
        sending.unresolved = True
        self.cancel(op)

    def fence(self, detail: str) -> None:
        """Close the socket. In effect, and only then reported by :meth:`settle`, once :meth:`settled`."""
        if self.fenced:
            return
        self.fenced, self.connected = True, False
        self._queue.clear()
        self._close_sockets()
        for sending in self._live.values():
            self._spoil(sending)
            self._ledger.report(sending.operation.op, Outcome.UNRESOLVED, detail)

    def settled(self) -> bool:
        return all(tracker.done for sending in self._live.values() for tracker in sending.trackers)

    def settle(self, detail: str) -> None:
        for sending in self._live.values():
            self._ledger.report(sending.operation.op, Outcome.FENCED, detail)
        self._live.clear()

    def retry(self) -> None:
        """What did not fit into the socket goes out now."""
        if self.fenced:
            return
        for sending in list(self._live.values()):
            if sending.cancelling and not sending.cancel_sent:
                self._send_cancel(sending)
        self.pump()

    def pump(self) -> None:
        """Send pieces while the window has room."""
        while self._queue and not self.fenced:
            sending = self._queue[0]
            waiting = [each for each in self._live.values() if each.unanswered]
            room = _WINDOW_BYTES - sum(each.unanswered * each.step for each in waiting)
            if sum(each.unanswered for each in waiting) >= WINDOW or (waiting and sending.step > room):
                return
            if not self._send_piece(sending):
                return
            if sending.sent == sending.data.nbytes:
                self._queue.popleft()

    def on_answer(self) -> None:
        for _ in range(_ANSWERS_AT_ONCE):
            try:
                frame = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            head = unpack(frame)
            while self.socket.rcvmore:
                self.socket.recv()  # the library hands out whole messages: never blocks
                head = None
            if head is None or head.token != self._token or not self._answered(head):
                self.strange += 1
        self.pump()

    def on_monitor(self) -> None:
        while True:
            try:
                event = parse_monitor_message(self.monitor.recv_multipart(zmq.NOBLOCK))["event"]
            except zmq.Again:
                return
            self.connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if event == zmq.EVENT_DISCONNECTED:
                self._lost_connection()

    def gauges(self) -> dict[str, int]:
        """The only method for other threads, so it looks at a copy."""
        sendings = list(self._live.values())
        return {"sending": len(sendings), "unanswered": sum(sending.unanswered for sending in sendings)}

    def _answered(self, head: Head) -> bool:
        sending = self._live.get(head.op)
        if sending is None:  # the answer to a piece of an operation that a CANCEL has ended meanwhile
            return head.kind in (Kind.LANDED, Kind.REFUSED, Kind.DONE, Kind.CANCELLED)
        operation = sending.operation
        if (head.key, head.part) != (operation.key, operation.part):
            return False
        if head.kind is Kind.DONE and sending.sent == sending.data.nbytes:
            self._finish(sending, Outcome.DONE)
        elif head.kind is Kind.CANCELLED and sending.cancelling:
            self._finish(sending, Outcome.FAILED, sending.why)
        elif head.kind in (Kind.LANDED, Kind.REFUSED) and sending.unanswered:
            sending.unanswered -= 1
            if head.kind is Kind.REFUSED and sending.place is not None and head.reason == Refusal.NOT_SHARED:
                self._send_bytes_instead(sending)
            elif head.kind is Kind.REFUSED and not sending.again:
                sending.why = f"refused: {_REASONS.get(head.reason, head.reason)}"
                sending.refused = True
                if sending in self._queue:
                    self._queue.remove(sending)
            if sending.refused and not sending.unanswered:
                self._finish(sending, Outcome.FAILED, sending.why)
            elif sending.again and not sending.unanswered and not sending.cancelling:
                sending.again, sending.sent = False, 0
                self._queue.append(sending)
        else:
            return False
        return True

    def _send_bytes_instead(self, sending: _Sending) -> None:
        """The peer cannot read our memory (it has processes of its own, say): once every piece that is on its way was
        answered, the operation starts again."""
        self._segments, sending.place, sending.again = None, None, True
        if sending in self._queue:
            self._queue.remove(sending)

    def _spoil(self, sending: _Sending) -> None:
        if self._segments is not None and sending.place is not None and sending.sent:
            self._segments.spoil(sending.data)

    def _finish(self, sending: _Sending, outcome: Outcome, detail: str = "") -> None:
        op = sending.operation.op
        del self._live[op]
        self._ledger.report(op, Outcome.FENCED if sending.unresolved else outcome, detail)

    def _lost_connection(self) -> None:
        """Pieces and answers may be lost: a CANCEL asks what became of every operation that had begun."""
        for sending in list(self._live.values()):
            if sending.sent:
                self._spoil(sending)
                sending.cancel_sent = False
                self.cancel(sending.operation.op, "connection lost")

    def _send_piece(self, sending: _Sending) -> bool:
        operation, start = sending.operation, sending.sent
        data = sending.data[start : start + sending.step]
        kind = Kind.DATA if sending.place is None else Kind.SHARED
        head = Head(kind, self._token, operation.key, operation.part, operation.op, start, sending.data.nbytes,
                    link=operation.link)  # fmt: skip
        try:
            self.socket.send(pack(head), _MORE)
            if sending.place is not None:
                self.socket.send(sending.place.piece(start, data.nbytes).pack(), zmq.NOBLOCK)
            elif data.nbytes < _COPY_BELOW:
                self.socket.send(data.data, zmq.NOBLOCK)
            else:
                tracker = self.socket.send(data.data, zmq.NOBLOCK, copy=False, track=True)
                sending.trackers = [*(old for old in sending.trackers if not old.done), tracker]
        except zmq.Again:  # the first frame decides for the whole message, so nothing went out
            return False
        sending.sent += data.nbytes
        sending.unanswered += 1
        return True

    def _send_cancel(self, sending: _Sending) -> None:
        operation = sending.operation
        head = Head(Kind.CANCEL, self._token, operation.key, operation.part, operation.op, link=operation.link)
        try:
            self.socket.send(pack(head), zmq.NOBLOCK)
            sending.cancel_sent = True
        except zmq.Again:
            sending.cancel_sent = False  # `retry` tries again

    def _close_sockets(self) -> None:
        self.socket.disable_monitor()
        monitor = getattr(self, "monitor", None)
        if monitor is not None:
            monitor.close(0)
        self.socket.close(0)


class _Sending:
    """An operation from submission to its resolution."""

    __slots__ = ("again", "cancel_sent", "cancelling", "data", "operation", "place", "refused", "sent", "step", "trackers",
                 "unanswered", "unresolved", "why")  # fmt: skip

    def __init__(self, operation: Operation, data: Bytes, step: int, place: Place | None) -> None:
        self.operation, self.data, self.step = operation, data, step  # step: bytes per message
        self.place = place  # where the peer reads them; None: they are sent
        self.again = False  # it is to be sent from the start, once what is on its way was answered
        self.sent = self.unanswered = 0  # bytes handed to the socket; pieces without an answer
        self.cancelling = self.cancel_sent = self.refused = self.unresolved = False
        self.why = ""
        self.trackers: list[zmq.MessageTracker] = []
