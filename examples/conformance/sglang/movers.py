"""Data movers for an engine under test: one that copies into the peer's process, and a plan of faults in front of any.

The engine calls ``batch_transfer_sync(session, sources, destinations, lengths)`` from its transfer worker and takes the
result for what happened: zero is success, anything else is a failure, an exception is its own affair. What can go wrong is
what goes wrong in the field, and has the names of the conformance suite:

====================  =================================================================================================
``mover_error``       Reports an error. Nothing was written.
``mover_raises``      Raises. Nothing was written.
``mover_stalls``      Does not return until it is let go; then writes and reports success. (A slow link.)
``mover_unresolved``  Reports an error at once and writes when it is let go. (A batch that ran past its time limit: the
                      limit ends the call, not the batch.)
``mover_corrupts``    Writes with one byte changed and reports success.
``truncate``          Leaves out half of the last block and reports success.
====================  =================================================================================================

A fault is planned for a room and covers its next call, except ``mover_stalls``, which covers all until it is let go.
Nothing here imports the engine.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Protocol

__all__ = ["FAULTS", "HOLD_LIMIT_S", "Copier", "Mover", "Plan", "Planned"]

FAULTS = ("mover_error", "mover_raises", "mover_stalls", "mover_unresolved", "mover_corrupts", "truncate")
#: A call that nobody lets go ends by itself after so many seconds, so that no run can hang on a plan.
HOLD_LIMIT_S = 120.0
_MAX_ROOMS = 4096
_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)
_libc = ctypes.CDLL(None, use_errno=True)


class Mover(Protocol):
    """What the engine uses of its own data mover."""

    def get_session_id(self) -> str: ...
    def batch_register(self, ptrs: list[int], lengths: list[int]) -> int: ...
    def batch_deregister(self, ptrs: list[int]) -> int: ...
    def send_probe(self, session: str) -> int: ...
    def batch_transfer_sync(
        self, session: str, sources: list[int], destinations: list[int], lengths: list[int]
    ) -> int: ...


class Plan:
    """The faults to come, by room, and the gate that held calls wait at."""

    def __init__(self) -> None:
        self.room = -1  #: of the call that comes next; the worker's queue says so
        self.gate = threading.Event()
        self.gate.set()
        self._next: dict[int, str] = {}
        self._lock = threading.Lock()

    def set(self, room: int, fault: str) -> None:
        """Raises ``ValueError`` for a fault that is not known."""
        if fault not in FAULTS or len(self._next) >= _MAX_ROOMS:
            raise ValueError(f"expected one of {', '.join(FAULTS)}, got {fault}")
        with self._lock:
            self._next[room] = fault
            self.gate.clear()

    def let_go(self) -> None:
        """What is held goes on, and nothing is planned any more."""
        with self._lock:
            self._next.clear()
        self.gate.set()

    def take(self) -> str:
        """The fault of this call; empty for none."""
        with self._lock:
            fault = self._next.get(self.room, "")
            if fault != "mover_stalls":
                self._next.pop(self.room, None)
            return fault

    def run(self, fault: str, write: Callable[[], int]) -> int:
        """One call of the engine: ``write`` moves the bytes and returns what the engine is told."""
        if fault == "mover_error":
            return -1
        if fault == "mover_raises":
            raise RuntimeError("the data mover was told to raise")
        if fault == "mover_stalls":
            self.gate.wait(HOLD_LIMIT_S)
        elif fault == "mover_unresolved":
            threading.Thread(target=self._later, args=(write,), name="late write", daemon=True).start()
            return -1
        return write()

    def _later(self, write: Callable[[], int]) -> None:
        self.gate.wait(HOLD_LIMIT_S)
        write()


class Planned:
    """A data mover behind a plan."""

    def __init__(self, mover: Mover, plan: Plan) -> None:
        self._mover, self._plan = mover, plan

    def get_session_id(self) -> str:
        return self._mover.get_session_id()

    def batch_register(self, ptrs: list[int], lengths: list[int]) -> int:
        return self._mover.batch_register(ptrs, lengths)

    def batch_deregister(self, ptrs: list[int]) -> int:
        return self._mover.batch_deregister(ptrs)

    def send_probe(self, session: str) -> int:
        return self._mover.send_probe(session)

    def batch_transfer_sync(self, session: str, sources: list[int], destinations: list[int], lengths: list[int]) -> int:
        fault = self._plan.take()
        if fault == "truncate":
            lengths = [*lengths[:-1], lengths[-1] // 2]

        def write() -> int:
            byte = (ctypes.c_ubyte * 1).from_address(sources[0])
            byte[0] ^= 0xFF * (fault == "mover_corrupts")
            try:
                return self._mover.batch_transfer_sync(session, sources, destinations, lengths)
            finally:
                byte[0] ^= 0xFF * (fault == "mover_corrupts")

        return self._plan.run(fault, write)


class _Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Copier:
    """Copies into the memory of the peer process (Linux, both of one user). Its session is ``127.0.0.1:PID``: engines take
    the number after the colon for a port and only spread their work by it."""

    def __init__(self) -> None:
        _libc.prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)  # let the peer write here, where the system asks for that

    def get_session_id(self) -> str:
        return f"127.0.0.1:{os.getpid()}"

    def batch_register(self, ptrs: list[int], lengths: list[int]) -> int:
        return 0

    def batch_deregister(self, ptrs: list[int]) -> int:
        return 0

    def send_probe(self, session: str) -> int:
        return 0

    def batch_transfer_sync(self, session: str, sources: list[int], destinations: list[int], lengths: list[int]) -> int:
        peer = int(session.rpartition(":")[2])
        for source, destination, length in zip(sources, destinations, lengths, strict=True):
            here, there = _Range(source, length), _Range(destination, length)
            written = _libc.process_vm_writev(peer, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
            if written != length:
                return -1
        return 0
