"""Which ranks meet: the prefill ranks that a decode rank reads from, and the decode ranks that a prefill rank waits for.

1. Both ends compute both directions from the same two shapes, so what one end expects is what the other end sends: ``d`` is
   in ``readers_of(p)`` exactly if ``p`` is in ``sources_of(d)`` (tested over every small pair).
2. Sizes that do not divide each other are refused. Integer division would leave ranks without a partner, or give them one
   that does not exist.
3. To be met is not to carry data. Some ranks hold what another one brings already (latent attention, replicated heads,
   context parallel copies); they are met, so that every rank knows when a room is over, and they close an empty plan.

DP replicas hold whole requests and expert parallelism moves no KV, so neither changes who meets whom: the decode side names
the prefill replica, and a prefill rank is asked about the decode replica that has the room.
"""

from __future__ import annotations

from typing import NamedTuple

from .checks import fault, whole

__all__ = [
    "Place",
    "Shape",
    "Source",
    "check_heads",
    "dcp_rank_of",
    "head_copies",
    "readers_of",
    "sources_of",
    "tp_sources",
]


class Shape(NamedTuple):
    """Sizes of one engine. ``tp`` is the attention TP of one replica; ``dcp`` is carved out of it and divides it."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1
    dcp: int = 1


class Place(NamedTuple):
    """Coordinates of one rank. Its DCP rank follows from ``tp``: :func:`dcp_rank_of`."""

    tp: int = 0
    pp: int = 0
    cp: int = 0
    dp: int = 0


class Source(NamedTuple):
    """A prefill rank that a decode rank meets.

    ``real``: it brings KV rows; if not, it closes an empty plan. ``aux``: it brings the aux data too (one of all that a
    decode rank meets, or none when the decode rank's own stage is not the last).
    """

    place: Place
    real: bool
    aux: bool


def sources_of(
    place: Place, prefill: Shape, decode: Shape, *, mla: bool, prefill_dp: int = 0, kv_heads: int | None = None
) -> tuple[Source, ...]:
    """The prefill ranks that the decode rank at ``place`` meets, by tp, then pp, then cp: what it expects to hear from.

    ``mla``: every TP rank holds the same latent rows (hybrid pools count as this). ``prefill_dp``: the replica that has the
    room. ``kv_heads``: of the model, over all ranks; known, a rank whose heads another one brings already is not real (when
    there are fewer heads than ranks); left out, every rank of a model with heads is real.

    Raises :class:`~kvpoll.protocol.errors.LocalProtocolError`, with the field, for a pair that does not fit together and for
    coordinates that are not in their shape.
    """
    _check_pair(prefill, decode, mla, kv_heads)
    _check_place("decode", place, decode)
    whole("prefill_dp", prefill_dp, 0, prefill.dp - 1)
    first, count = tp_sources(place.tp, prefill.tp, decode.tp)
    every = 1 if mla else head_copies(prefill.tp, kv_heads)
    stages = range(prefill.pp) if decode.pp == 1 else (place.pp,)
    cps = range(prefill.cp) if decode.cp == 1 else (place.cp,)
    return tuple(
        Source(
            Place(tp, pp, cp, prefill_dp),
            real=cp == cps[0] and (tp == first or (not mla and (tp - first) % every == 0)),
            aux=cp == cps[0] and tp == first and pp == prefill.pp - 1,
        )
        for tp in range(first, first + count)
        for pp in stages
        for cp in cps
    )


def readers_of(place: Place, prefill: Shape, decode: Shape, *, mla: bool, decode_dp: int = 0) -> tuple[Place, ...]:
    """The decode ranks that say META to the prefill rank at ``place``, by tp, then pp, then cp: whom it waits for.

    ``decode_dp``: the decode replica that has the room. Raises what :func:`sources_of` raises.
    """
    _check_pair(prefill, decode, mla, None)
    _check_place("prefill", place, prefill)
    whole("decode_dp", decode_dp, 0, decode.dp - 1)
    if decode.tp >= prefill.tp:
        wide = decode.tp // prefill.tp
        tps = range(place.tp * wide, (place.tp + 1) * wide)
    else:
        narrow = prefill.tp // decode.tp
        tps = range(place.tp // narrow, place.tp // narrow + 1)
    pp = 0 if decode.pp == 1 else place.pp
    cp = 0 if decode.cp == 1 else place.cp
    return tuple(Place(tp, pp, cp, decode_dp) for tp in tps)


def dcp_rank_of(place: Place, shape: Shape) -> int:
    """The DCP rank at ``place``: neighbouring TP ranks own neighbouring tokens."""
    _check_shape("shape", shape)
    _check_place("shape", place, shape)
    return place.tp % shape.dcp


def tp_sources(k: int, p: int, d: int) -> tuple[int, int]:
    """First prefill TP rank and how many, for decode TP rank ``k``; ``p`` and ``d``: sizes that divide each other."""
    return (k // (d // p), 1) if d >= p else (k * (p // d), p // d)


def head_copies(tp: int, kv_heads: int | None) -> int:
    """How many neighbouring TP ranks hold the same head; ``kv_heads`` divides ``tp`` or is divided by it."""
    return 1 if kv_heads is None else max(1, tp // kv_heads)


def check_heads(field: str, tp: int, kv_heads: int) -> None:
    """Heads are split evenly over ranks, or copied evenly to them; raises ``LocalProtocolError`` for anything else."""
    if kv_heads % tp and tp % kv_heads:
        raise fault(field, f"a divisor or a multiple of the {kv_heads} KV heads", tp)


def _check_shape(side: str, shape: Shape) -> None:
    for name, size in zip(Shape._fields, shape, strict=True):
        whole(f"{side}.{name}", size, 1)
    if shape.tp % shape.dcp:
        raise fault(f"{side}.dcp", f"a divisor of tp {shape.tp}", shape.dcp)


def _check_place(side: str, place: Place, shape: Shape) -> None:
    for name, rank in zip(Place._fields, place, strict=True):
        whole(f"{side}.{name}.rank", rank, 0, getattr(shape, name) - 1)


def _check_pair(prefill: Shape, decode: Shape, mla: bool, kv_heads: int | None) -> None:
    _check_shape("prefill", prefill)
    _check_shape("decode", decode)
    p, d = prefill.tp, decode.tp
    if p % d and d % p:
        raise fault("tp", "sizes of which one divides the other", f"prefill {p}, decode {d}")
    if decode.pp not in (1, prefill.pp):
        raise fault("pp", f"decode 1 or {prefill.pp}, as prefill has", decode.pp)
    if decode.cp not in (1, prefill.cp):
        raise fault("cp", f"decode 1 or {prefill.cp}, as prefill has", decode.cp)
    _check_dcp(prefill, decode, mla)
    if kv_heads is not None and not mla:
        whole("kv_heads", kv_heads, 1)
        check_heads("prefill.tp", p, kv_heads)
        check_heads("decode.tp", d, kv_heads)


def _check_dcp(prefill: Shape, decode: Shape, mla: bool) -> None:
    """Dense to DCP n is a relayout of latent rows; n to n moves rank to rank, so the ranks must be the same ones."""
    if prefill.dcp > 1:
        if decode.dcp != prefill.dcp:
            raise fault("dcp", f"decode {prefill.dcp}, as prefill has", decode.dcp)
        if decode.tp != prefill.tp:
            raise fault("tp", f"decode {prefill.tp}, as prefill has, with DCP at both ends", decode.tp)
    elif decode.dcp > 1 and not mla:
        raise fault("dcp", "decode 1 for a model with KV heads: only latent rows are spread over ranks", decode.dcp)
