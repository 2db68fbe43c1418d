"""What a wire is held to when peers of other releases are replayed: the profile ``wire`` of the conformance suite.

No case of the suite is about it, for it needs no pair of engines: ``model_tests/conformance/wire_profiles.py`` judges it.
"""

# One fact a row, however wide.
# ruff: noqa: E501

from __future__ import annotations

from .requirement import Level, Requirement, RequirementRole

__all__ = ["WIRE"]

_P, _B = RequirementRole.PREFILL, RequirementRole.BOTH
_MUST, _SHOULD = Level.MUST, Level.SHOULD


def _row(id: str, level: Level, role: RequirementRole, text: str, invariants: str) -> Requirement:
    return Requirement(id, level, role, (), "0.1", text, (), tuple(invariants.split()), "wire")


# fmt: off
WIRE: tuple[Requirement, ...] = (
    _row("KVX-WIRE-1", _MUST,   _B, "A message of another release is understood as it was meant, or refused: never read as something else.", "HandshakeSound"),
    _row("KVX-WIRE-2", _SHOULD, _B, "A message of every release that may still run is understood.", "HandshakeSound"),
    _row("KVX-WIRE-3", _MUST,   _P, "A message that is refused harms nobody else: hand-offs with other peers go on.", "TotalHandlers Isolation"),
)
# fmt: on
