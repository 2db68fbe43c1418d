"""Pipeline stages meet by global layer ids: what two stages have in common, and where it lies in the pool of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .checks import fault, whole

__all__ = ["LayerSlice", "Span", "plan_stages", "slice_layers"]

#: Global layer ids ``[start, stop)`` of a stage.
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LayerSlice:
    """Global layers ``[start, stop)``: ``[src_lo, src_hi)`` of the source stage, ``[dst_lo, dst_hi)`` of the destination's."""

    start: int
    stop: int
    src_lo: int
    src_hi: int
    dst_lo: int
    dst_hi: int

    @property
    def count(self) -> int:
        """How many layers; 0: these stages have none in common."""
        return self.stop - self.start


def slice_layers(*, src: Span, dst: Span) -> LayerSlice:
    """The layers that two stages have in common; all zeros if none.

    Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` for a span that starts below 0 or holds no layer.
    """
    _check("src", src)
    _check("dst", dst)
    start, stop = max(src[0], dst[0]), min(src[1], dst[1])
    if start >= stop:
        return LayerSlice(0, 0, 0, 0, 0, 0)
    return LayerSlice(start, stop, start - src[0], stop - src[0], start - dst[0], stop - dst[0])


def plan_stages(*, stages: Sequence[Span], dst: Span) -> tuple[LayerSlice, ...]:
    """What every source stage brings to the destination stage ``dst``, in the order of ``stages``.

    Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` as :func:`slice_layers`, and when a layer of the destination
    comes from no stage or from two.
    """
    slices = tuple(slice_layers(src=stage, dst=dst) for stage in stages)
    here = dst[0]
    for start, stop in sorted((each.start, each.stop) for each in slices if each.count):
        if start != here:
            what = f"layer {min(start, here)} from one stage"
            raise fault("stages", what, "none" if start > here else "two")
        here = stop
    if here != dst[1]:
        raise fault("stages", f"layer {here} from one stage", "none")
    return slices


def _check(field: str, span: Span) -> None:
    start, stop = span
    whole(f"{field}.start", start)
    whole(f"{field}.stop", stop, start + 1)
