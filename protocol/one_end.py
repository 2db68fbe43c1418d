"""What a registration breaks by itself: bounds, features that exclude each other, names given twice.

The rules stand in :mod:`kvpoll.spec.support`. The configuration check asks before a process starts, and the handshake asks
about both ends, since a peer may not have asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from kvpoll.spec.support import BOUNDS, COMBINATIONS, Bound, Feature
from kvpoll.spec.wire import AuxSchema, Registration

__all__ = ["Fault", "faults", "features", "value_of"]


class Fault(NamedTuple):
    """``field`` is a dotted name of the registration, or two features with a plus. ``expected`` follows "expected"."""

    field: str
    value: object
    expected: str
    why: str
    advice: str


def faults(end: Registration) -> Iterator[Fault]:
    """Everything wrong with one end, in the order of the rules. Never raises, whatever the numbers are."""
    for bound in BOUNDS:
        yield from _bound(end, bound)
    on = features(end)
    for pair in COMBINATIONS:
        if pair.first in on and pair.second in on:
            both = f"{pair.first.value} with {pair.second.value}"
            yield Fault(pair.field, both, "one of the two only", pair.why, pair.advice)
    if end.versions.low > end.versions.high:
        value, expected = tuple(end.versions), "the lowest before the highest"
        yield Fault("version", value, expected, "the lowest version is above the highest", "exchange them")
    if isinstance(end.aux, AuxSchema):
        for column, values in (("aux.dtypes", end.aux.dtypes), ("aux.shapes", end.aux.shapes)):
            if (count := len(end.aux.names)) != len(values):
                why = f"must be as many as aux.names, which are {count}"
                yield Fault(column, len(values), str(count), why, "give every aux buffer a dtype and a shape")
        for name in _twice(end.aux.names):
            yield Fault(f"aux.{name}", "two fields", "one", "a name stands for one field", "rename one of them")
    for name in _twice([offer.name for offer in end.transports]):
        yield Fault("transports", name, "every name once", "a transport is offered once", "drop one of the two offers")


def features(end: Registration) -> set[Feature]:
    """What an end has switched on."""
    axes = {Feature.TP: end.tp, Feature.PP: end.pp, Feature.CP: end.cp, Feature.DP: end.dp}
    on = {feature for feature, axis in axes.items() if axis.size > 1}
    on |= {Feature.EP} if end.ep_size > 1 else set()
    on |= {Feature.MLA if end.mla else Feature.HEADS}
    on |= {Feature.DCP} if end.dcp is not UNSET and end.dcp.size > 1 else set()
    on |= {Feature.SPECULATIVE} if end.speculative is not UNSET else set()
    return on | ({Feature.STAGING} if end.staging is not UNSET else set())


def value_of(end: Registration, field: str) -> object:
    """What stands under a dotted name; ``None`` in a group that is absent."""
    value: object = end
    for name in field.split("."):
        value = getattr(value, name, None)
    return value


def _bound(end: Registration, bound: Bound) -> Iterator[Fault]:
    value = _number(end, bound.field)
    other = _number(end, bound.other) if isinstance(bound.other, str) else bound.other
    tp = end.tp.rank
    if value is None or other is None:
        return
    holds = {
        "at least": value >= other,
        "at most": value <= other,
        "below": value < other,
        "a divisor of": value < 1 or other % value == 0,  # below 1 is a fault of its own
        "tp.rank modulo": other < 1 or value == tp % other,
    }[bound.how]
    if not holds:
        named = f"{bound.how} {bound.other} ({other})" if isinstance(bound.other, str) else f"{bound.how} {other}"
        yield Fault(bound.field, value, named, f"must be {named}", f"set {bound.field} so")


def _number(end: Registration, field: str) -> int | None:
    value = value_of(end, field)
    return value if isinstance(value, int) else None


def _twice(names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
