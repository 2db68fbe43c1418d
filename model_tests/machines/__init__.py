"""Hypothesis machines, for what is not finite: sizes, index sets, interleavings of many rooms, damaged messages.

This is the only place that imports hypothesis. :mod:`.rooms` is a state machine over the simulation of
:mod:`kvpoll.model_tests.simulation`: the same processes, the same oracles, with every choice drawn. :mod:`.plans` compares
what a receiver makes of any plan with a count of every token of every layer. :mod:`.damage` changes messages of a real
run and watches the process that hears them.
"""

from __future__ import annotations

from .profiles import DEEP, QUICK
from .rooms import RoomMachine, Tally, run_rooms

__all__ = ["DEEP", "QUICK", "RoomMachine", "Tally", "run_rooms"]
