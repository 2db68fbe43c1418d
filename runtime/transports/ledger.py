"""The reports of a transport: each operation once, an unresolved one a second time, nothing else (rule 2 of ``base``).

Also the bound: an operation holds its place from admission until its last report was polled, so that neither the
operations nor the reports of a transport can grow beyond ``limit`` while nobody polls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from kvpoll.runtime.transports.base import OpReport, Outcome, PeerFenced, Report

__all__ = ["Ledger"]

_LAST = frozenset({Outcome.DONE, Outcome.FAILED, Outcome.FENCED})


class Ledger:
    """Thread-safe. ``notify`` is called without our lock, and only when the box was empty before."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._notify: Callable[[], None] = _silent
        self._state: dict[int, Outcome | None] = {}  # admitted operations and their latest report
        self._reports: deque[Report] = deque()

    def start(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def admit(self, op: int) -> None:
        """Raises ``ValueError`` for an id in use and beyond ``limit`` operations: both are mistakes of the caller."""
        with self._lock:
            if op in self._state:
                raise ValueError(f"op: {op} is in use, expected an id unique within the process")
            if len(self._state) >= self.limit:
                raise ValueError(f"op: {len(self._state)} operations in flight, expected at most {self.limit}")
            self._state[op] = None

    def report(self, op: int, outcome: Outcome, detail: str = "") -> bool:
        """File a report; ``False`` (and no report) when rule 2 does not allow it."""
        with self._lock:
            if op not in self._state or not _follows(self._state[op], outcome):
                return False
            self._state[op] = outcome
            first = self._put(OpReport(op, outcome, detail))
        if first:
            self._notify()
        return True

    def peer_fenced(self, link: str) -> None:
        with self._lock:
            first = self._put(PeerFenced(link))
        if first:
            self._notify()

    def drain(self) -> list[Report]:
        """All reports so far, oldest first."""
        with self._lock:
            reports = list(self._reports)
            self._reports.clear()
            for report in reports:
                if isinstance(report, OpReport) and report.outcome in _LAST:
                    del self._state[report.op]
            return reports

    def unfinished(self) -> list[int]:
        """Operations whose last report is still to come."""
        with self._lock:
            return [op for op, latest in self._state.items() if latest not in _LAST]

    def abandon(self, detail: str) -> None:
        """Everything stopped and let go of memory: end what is unfinished."""
        for op in self.unfinished():
            self.report(op, Outcome.UNRESOLVED, detail)
            self.report(op, Outcome.FENCED, detail)

    def gauges(self) -> dict[str, int]:
        with self._lock:
            return {"operations": len(self._state), "reports": len(self._reports)}

    def _put(self, report: Report) -> bool:
        self._reports.append(report)
        return len(self._reports) == 1


def _follows(latest: Outcome | None, outcome: Outcome) -> bool:
    if latest is None:
        return outcome is not Outcome.FENCED
    return latest is Outcome.UNRESOLVED and outcome is Outcome.FENCED


def _silent() -> None:
    """Before ``start`` there is nobody to tell."""
