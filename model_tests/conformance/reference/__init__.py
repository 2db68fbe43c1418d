"""kvpoll's own core behind the plug: two real cores on a simulated clock, wire, mover and memory. No thread, no sleeping.

``make`` is what ``--impl kvpoll.model_tests.conformance.reference:make`` names.
"""

from __future__ import annotations

from .adapter import Reference, make
from .world import Setting

__all__ = ["Reference", "Setting", "make"]
