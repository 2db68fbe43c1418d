"""The receiver's half: operations from submit to their last report, spread over a bounded number of lanes.

Each link has its own queue and at most ``lanes_per_link`` lanes, so a peer that never answers takes threads from nobody
else; links take turns for the rest. A lane that doesn't come back keeps its place in the count until its thread ends.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import jax

from kvpoll.runtime.transports.base import Operation, OpReport, Outcome, Report
from kvpoll.runtime.transports.jax_lanes import Lane, PullJob
from kvpoll.runtime.transports.jax_servers import Server

__all__ = ["Pulls"]


class _State(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"  #: poisoned; the lane should raise at once
    UNRESOLVED = "unresolved"  #: poisoned, and it did not


@dataclass(eq=False, slots=True)
class _Pull:
    operation: Operation
    state: _State = _State.QUEUED
    lane: Lane | None = None
    since: float = 0.0  #: when the state began
    reason: str = ""
    discard: bool = False  #: the key was released meanwhile


@dataclass(eq=False, slots=True)
class _Peer:
    server: Server
    address: str
    queue: deque[_Pull] = field(default_factory=deque)
    lanes: set[Lane] = field(default_factory=set)  #: every lane whose thread lives
    idle: list[Lane] = field(default_factory=list)
    closed: bool = False


class Pulls:
    """Thread-safe. Reports go to ``reports`` in their order; ``notify`` follows outside the lock."""

    def __init__(
        self,
        device: jax.Device,
        *,
        clock: Callable[[], float],
        reports: deque[Report],
        notify: Callable[[], None],
        max_in_flight: int,
        max_results: int,
        lanes_per_link: int,
        max_lanes: int,
        cancel_grace_s: float,
        watchdog_s: float | None,
    ) -> None:
        self._device = device
        self._clock = clock
        self._reports = reports
        self._notify = notify
        self._max_in_flight = max_in_flight
        self._max_results = max_results
        self._lanes_per_link = lanes_per_link
        self._max_lanes = max_lanes
        self._cancel_grace_s = cancel_grace_s
        self._watchdog_s = watchdog_s
        self._lock = threading.Lock()
        self._peers: dict[str, _Peer] = {}
        self._pulls: dict[int, _Pull] = {}
        self._lanes: dict[Lane, _Peer] = {}
        self._results: dict[int, dict[int, jax.Array]] = {}
        self._news = False

    def open_peer(self, link: str, server: Server, address: str) -> None:
        with self._lock:
            self._peers[link] = _Peer(server, address)

    def submit(self, operation: Operation) -> None:
        with self._step():
            if operation.op in self._pulls:
                raise ValueError(f"op: {operation.op} is in progress already")
            if len(self._pulls) >= self._max_in_flight:
                raise ValueError(f"op: {self._max_in_flight} operations in progress are the limit")
            if len(self._results) >= self._max_results:
                raise ValueError(f"key: {self._max_results} uncollected keys are the limit")
            peer = self._peers.get(operation.link)
            # The key came from the peer: its mistakes are reports, not exceptions.
            if peer is None:
                self._report(operation.op, Outcome.FAILED, "link: not open, or fenced")
            elif self._taken(operation.key, operation.part):
                self._report(
                    operation.op, Outcome.FAILED, f"key: {operation.key} is being fetched, or was not released"
                )
            else:
                pull = self._pulls[operation.op] = _Pull(operation)
                peer.queue.append(pull)
                self._dispatch()

    def cancel(self, op: int, reason: str = "cancelled") -> None:
        with self._step():
            pull = self._pulls.get(op)
            if pull is not None:
                self._cancel(pull, reason)
                self._dispatch()

    def fence(self, op: int) -> None:
        with self._step():
            pull = self._pulls.get(op)
            if pull is not None:
                self._fence(pull)
                self._dispatch()

    def fence_peer(self, link: str) -> Callable[[], bool]:
        """Fence all operations of the link, end its lanes, forget it. The returned function says whether a thread of
        it still lives."""
        with self._step():
            for pull in [each for each in self._pulls.values() if each.operation.link == link]:
                self._fence(pull)
            peer = self._peers.pop(link, None)
            if peer is not None:
                peer.closed = True
                for lane in peer.idle:
                    lane.stop()
                peer.idle.clear()
        return lambda: peer is not None and bool(peer.lanes)

    def collect(self, key: int, part: int) -> jax.Array | None:
        with self._lock:
            return self._results.get(key, {}).get(part)

    def release(self, key: int) -> None:
        with self._lock:
            self._results.pop(key, None)
            for pull in self._pulls.values():
                pull.discard |= pull.operation.key == key

    def tick(self) -> None:
        now = self._clock()
        with self._step():
            for pull in list(self._pulls.values()):
                age = now - pull.since
                if pull.state is _State.RUNNING and self._watchdog_s is not None and age >= self._watchdog_s:
                    self._cancel(pull, f"watchdog: no end within {self._watchdog_s} s")
                elif pull.state is _State.CANCELLING and age >= self._cancel_grace_s:
                    pull.state, pull.since = _State.UNRESOLVED, now
                    self._report(pull.operation.op, Outcome.UNRESOLVED, f"{pull.reason}; the connection did not end")
            self._dispatch()

    def gauges(self) -> dict[str, int]:
        with self._lock:
            queued = sum(len(peer.queue) for peer in self._peers.values())
            idle = sum(len(peer.idle) for peer in self._peers.values())
            return {
                "pulls_queued": queued,
                "pulls_started": len(self._pulls) - queued,
                "results": len(self._results),
                "lanes_busy": len(self._lanes) - idle,
            }

    def idle_lanes(self) -> int:
        with self._lock:
            return sum(len(peer.idle) for peer in self._peers.values())

    # Helpers: all with the lock held.

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One change of the tables; who waits for its reports hears of them once the lock is free."""
        with self._lock:
            yield
            news, self._news = self._news, False
        if news:
            self._notify()

    def _report(self, op: int, outcome: Outcome, detail: str = "") -> None:
        self._reports.append(OpReport(op, outcome, detail))
        self._news = True

    def _end(self, pull: _Pull, outcome: Outcome, detail: str = "") -> None:
        del self._pulls[pull.operation.op]
        self._report(pull.operation.op, outcome, detail)

    def _taken(self, key: int, part: int) -> bool:
        return part in self._results.get(key, {}) or any(
            (each.operation.key, each.operation.part) == (key, part) for each in self._pulls.values()
        )

    def _cancel(self, pull: _Pull, reason: str) -> None:
        if pull.lane is None:
            self._peers[pull.operation.link].queue.remove(pull)
            self._end(pull, Outcome.FAILED, f"{reason} before it started")
        elif pull.state is _State.RUNNING:
            pull.state, pull.since, pull.reason = _State.CANCELLING, self._clock(), reason
            pull.lane.poison()

    def _fence(self, pull: _Pull) -> None:
        if pull.lane is None:
            self._cancel(pull, "fenced")
            return
        pull.lane.poison()
        if pull.state is not _State.UNRESOLVED:
            self._report(pull.operation.op, Outcome.UNRESOLVED, "fenced while in progress")
        # From here on nobody knows the operation: whatever its lane brings is dropped.
        self._end(pull, Outcome.FENCED)

    def _dispatch(self) -> None:
        """Start what can start, one of each link in turn."""
        progress = True
        while progress:
            progress = False
            for link, peer in self._peers.items():
                lane = self._lane_for(link, peer) if peer.queue else None
                if lane is not None:
                    pull = peer.queue.popleft()
                    pull.state, pull.lane, pull.since = _State.RUNNING, lane, self._clock()
                    lane.give(PullJob(pull.operation.op, pull.operation.key, pull.operation.spec))
                    progress = True

    def _lane_for(self, link: str, peer: _Peer) -> Lane | None:
        if peer.idle:
            return peer.idle.pop()
        if len(peer.lanes) >= self._lanes_per_link:
            return None
        if len(self._lanes) >= self._max_lanes:
            spare = next((each for each in self._peers.values() if each.idle), None)
            if spare is not None:
                spare.idle.pop().stop()  # its exit brings us here again
            return None
        lane = Lane(link, peer.server, peer.address, self._device, self._on_end, self._on_exit)
        peer.lanes.add(lane)
        self._lanes[lane] = peer
        return lane

    def _on_end(self, lane: Lane, job: PullJob, array: jax.Array | None, error: str) -> None:
        with self._step():
            pull = self._pulls.get(job.op)
            if pull is not None and pull.lane is lane:
                if pull.state is _State.UNRESOLVED:
                    self._end(pull, Outcome.FENCED, "its connection ended late")
                elif array is None:
                    self._end(pull, Outcome.FAILED, f"{pull.reason}; {error}" if pull.reason else error)
                else:
                    if not pull.discard:
                        self._results.setdefault(job.key, {})[pull.operation.part] = array
                    self._end(pull, Outcome.DONE)
            if array is not None:
                self._reuse(lane)
            self._dispatch()

    def _reuse(self, lane: Lane) -> None:
        peer = self._lanes[lane]
        if lane.poisoned or peer.closed:
            lane.stop()
        else:
            peer.idle.append(lane)

    def _on_exit(self, lane: Lane) -> None:
        with self._step():
            for pull in [each for each in self._pulls.values() if each.lane is lane]:  # it died of something unknown
                self._end(pull, Outcome.FAILED, "the connection's thread ended")
            self._lanes.pop(lane).lanes.discard(lane)
            self._dispatch()
