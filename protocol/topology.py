"""How two ends relate in topology: one function per axis, and what the axes make of layers, heads, pages and layout.

Every function takes the prefill end first, and answers with a relation of the support matrix; the matrix decides. Numbers
come from the wire: nothing here raises, whatever they are. An axis whose numbers cannot be (size 0, rank outside) is
refused as one end's fault, and what would follow from it is MOOT here.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from kvpoll.spec.support import Attention, Outcome, Relation, decide
from kvpoll.spec.wire import Axis, Dcp, Registration

from .plans.ranks import tp_sources

__all__ = ["Topology", "attention_of", "kv_heads_of_model", "relate"]

_R = Relation


class Topology(NamedTuple):
    """``relations``: field of the matrix -> relation. ``brings_aux``: this prefill rank is the one that sends the aux
    data of this decode rank. ``kv_heads``: of the model, as far as a plan needs it; ``None``: latent rows, or refused."""

    relations: dict[str, Relation]
    brings_aux: bool
    kv_heads: int | None


def attention_of(end: Registration) -> Attention:
    """What the KV rows of an end are."""
    if "hybrid" in end.capabilities:
        return Attention.HYBRID
    return Attention.MLA if end.mla else Attention.HEADS


def relate(sender: Registration, receiver: Registration) -> Topology:
    """All relations of the pair that depend on more than one number."""
    attention = attention_of(sender)
    found: dict[str, Relation] = {}
    found["tp.size"] = _divide(sender.tp.size, receiver.tp.size)
    found["pp.size"] = _gather(sender.pp.size, receiver.pp.size)
    found["cp.size"] = _gather(sender.cp.size, receiver.cp.size)
    fits = {
        axis: decide(f"{axis}.size", found[f"{axis}.size"], attention).outcome is not Outcome.REFUSED for axis in _AXES
    }
    fits = {axis: ok and _real(sender, axis) and _real(receiver, axis) for axis, ok in fits.items()}
    first, count = tp_sources(receiver.tp.rank, sender.tp.size, receiver.tp.size) if fits["tp"] else (0, 0)
    found["tp.rank"] = _meet(fits["tp"], sender.tp, receiver.tp, first <= sender.tp.rank < first + count)
    for axis, ours, theirs in (("pp", sender.pp, receiver.pp), ("cp", sender.cp, receiver.cp)):
        found[f"{axis}.rank"] = _meet(fits[axis], ours, theirs, theirs.size == 1 or ours.rank == theirs.rank)
    found |= _layers(sender, receiver, found["pp.size"], fits["pp"])
    found["capabilities.dp-room"] = _R.MOOT if sender.dp.size <= 1 else _named("dp-room", sender, receiver)
    found |= {f"capabilities.{name}": _named(name, sender, receiver) for name in ("hybrid", "radix")}
    found["dcp"] = _dcp(sender, receiver, attention)
    kv_heads, found["heads.kv"] = _heads(sender, receiver, attention, fits["tp"])
    found["page.nbytes"] = _page(sender, receiver, found, fits["tp"])
    found["layout"] = _layout(sender, receiver, found)
    brings_aux = (
        fits["tp"] and fits["pp"] and fits["cp"] and sender.tp.rank == first and sender.pp.rank == sender.pp.size - 1
        and (receiver.cp.size > 1 or sender.cp.rank == 0)
    )  # fmt: skip
    return Topology(found, brings_aux or not all(fits.values()), kv_heads)


def kv_heads_of_model(prefill_tp: int, prefill_heads: int, decode_tp: int, decode_heads: int) -> int | None:
    """KV heads of the whole model, from those of one rank at each end (at least 1 per rank). If every rank of both ends
    has one, the model has at most as many as the narrower end has ranks, and that many stand for it: copies are met in the
    same order. ``None`` if the numbers are of no model: a rank has heads / TP size of them, and at least 1.

    Sizes must divide each other and all numbers be at least 1.
    """
    if prefill_heads > 1:
        heads = prefill_heads * prefill_tp
    elif decode_heads > 1:
        heads = decode_heads * decode_tp
    else:
        heads = min(prefill_tp, decode_tp)
    ends = ((prefill_tp, prefill_heads), (decode_tp, decode_heads))
    tiled = all(each == max(1, heads // tp) and (heads % tp == 0 or tp % heads == 0) for tp, each in ends)
    return heads if tiled else None


_AXES = ("tp", "pp", "cp")


def _real(end: Registration, axis: str) -> bool:
    size, rank = {"tp": end.tp, "pp": end.pp, "cp": end.cp}[axis]
    return 0 <= rank < size


def _divide(sender: int, receiver: int) -> Relation:
    if sender == receiver:
        return _R.EQUAL
    low, high = sorted((sender, receiver))
    if low < 1 or high % low:
        return _R.INDIVISIBLE
    return _R.WIDER if receiver > sender else _R.NARROWER


def _gather(sender: int, receiver: int) -> Relation:
    if sender == receiver:
        return _R.EQUAL
    if receiver == 1:
        return _R.MANY_TO_ONE
    return _R.ONE_TO_MANY if sender == 1 else _R.MANY_TO_OTHER


def _meet(fits: bool, sender: Axis, receiver: Axis, met: bool) -> Relation:
    if not fits:
        return _R.MOOT
    if not met:
        return _R.STRANGERS
    return _R.EQUAL if sender == receiver else _R.PARTNERS


def _named(name: str, sender: Registration, receiver: Registration) -> Relation:
    """A capability that the matrix decides about."""
    one, other = name in sender.capabilities, name in receiver.capabilities
    if one and other:
        return _R.EQUAL
    return _R.SENDER_ONLY if one else _R.RECEIVER_ONLY if other else _R.NEITHER


def _layers(sender: Registration, receiver: Registration, stages: Relation, fits: bool) -> dict[str, Relation]:
    """A stage of several must lie within the layers of a decode that reads from all of them; else they must be the same."""
    if not fits:
        return {"layers.start": _R.MOOT, "layers.stop": _R.MOOT}
    (_, start, stop), (_, first, last) = sender.layers, receiver.layers
    other = {True: _R.WITHIN, False: _R.DIFFERENT}
    gathered = stages is _R.MANY_TO_ONE
    return {
        "layers.start": _R.EQUAL if start == first else other[gathered and start > first],
        "layers.stop": _R.EQUAL if stop == last else other[gathered and stop < last],
    }


def _dcp(sender: Registration, receiver: Registration, attention: Attention) -> Relation:
    one, other = (end.dcp if end.dcp is not UNSET else Dcp(size=1, rank=0) for end in (sender, receiver))
    if max(one.size, other.size) <= 1:
        return _R.NEITHER
    relation = _gather(max(1, one.size), max(1, other.size))
    if relation is _R.ONE_TO_MANY and attention is not Attention.HEADS:
        return _R.UNDER_CP if sender.cp.size > 1 else _R.INTERLEAVED if other.interleave != 1 else relation
    if relation is not _R.EQUAL:
        return relation
    if sender.tp.size != receiver.tp.size:
        return _R.UNDER_TP
    return _R.STRANGERS if one.rank != other.rank else _R.EQUAL if one.interleave == other.interleave else _R.DIFFERENT


def _heads(
    sender: Registration, receiver: Registration, attention: Attention, fits: bool
) -> tuple[int | None, Relation]:
    ours, theirs, p, d = sender.heads.kv, receiver.heads.kv, sender.tp.size, receiver.tp.size
    if p == d or attention is not Attention.HEADS or sender.mla != receiver.mla:
        known = ours * p if p == d and attention is Attention.HEADS and ours == theirs else None
        return known, _R.EQUAL if ours == theirs else _R.DIFFERENT
    if not fits or min(ours, theirs) < 1:
        return None, _R.MOOT
    heads = kv_heads_of_model(p, ours, d, theirs)
    if heads is None:
        return None, _R.UNTILED
    return heads, _R.SLICED if ours * p == theirs * d else _R.COPIED


def _page(sender: Registration, receiver: Registration, found: dict[str, Relation], fits: bool) -> Relation:
    ours, theirs = sender.page.nbytes, receiver.page.nbytes
    if found["heads.kv"] in (_R.UNTILED, _R.MOOT) or not (fits or found["tp.size"] is _R.EQUAL or sender.mla):
        return _R.MOOT
    if found["dcp"] is _R.ONE_TO_MANY and ours == theirs and sender.page.size and ours % sender.page.size:
        return _R.UNEVEN
    if not _cut(sender, receiver, found):
        return _R.EQUAL if ours == theirs else _R.DIFFERENT
    if ours * receiver.heads.kv != theirs * sender.heads.kv:
        return _R.DIFFERENT
    return _R.UNEVEN if ours % sender.heads.kv else _R.PROPORTIONAL


def _layout(sender: Registration, receiver: Registration, found: dict[str, Relation]) -> Relation:
    if sender.layout != receiver.layout:
        return _R.DIFFERENT
    axes = [axis.strip() for axis in sender.layout.split(",")]
    cut = ["head"] if _cut(sender, receiver, found) else []
    cut += ["token"] if found["dcp"] is _R.ONE_TO_MANY else []
    return _R.EQUAL if all(axes.count(axis) == 1 for axis in cut) else _R.UNNAMED


def _cut(sender: Registration, receiver: Registration, found: dict[str, Relation]) -> bool:
    """Are pages cut along their heads? Copies alone are not: each rank holds what the other wants."""
    return found["heads.kv"] in (_R.SLICED, _R.COPIED) and sender.heads.kv != receiver.heads.kv
