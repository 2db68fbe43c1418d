"""Whole processes under a simulated network, clock, data plane and engines: thousands of rooms from one seed.

:func:`simulate` runs a load; :class:`Simulation` is the world without one, for state machines. Every process is a real
:class:`kvpoll.protocol.core.Core`; everything around it is modelled here, hostile, and watched by oracles.
"""

from __future__ import annotations

from .clockwork import SimulationViolation
from .rooms import Abort, Plan
from .settings import CALM, FAULTS, Faults, Setting, faults_of
from .world import Simulation, Summary, simulate

__all__ = [
    "CALM",
    "FAULTS",
    "Abort",
    "Faults",
    "Plan",
    "Setting",
    "Simulation",
    "SimulationViolation",
    "Summary",
    "faults_of",
    "simulate",
]
