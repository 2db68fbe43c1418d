"""How the ranks of the two engines divide the pages: who meets whom, and which bytes of which pages a rank holds.

A page has layers, layers have heads, heads have some bytes. The arithmetic of who meets whom and what is cut out for whom is
the protocol's own (``plans.ranks``, ``cut``); only the offsets of bytes are worked out here.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from msgspec import UNSET

from kvpoll.protocol.coverage import Owner
from kvpoll.protocol.cut import Cut, cut_of
from kvpoll.protocol.plans.heads import heads_of
from kvpoll.protocol.plans.ranks import Place, Shape, dcp_rank_of, readers_of, sources_of
from kvpoll.spec.wire import VERSION, Axis, Dcp, Deadlines, Heads, Layers, Page, Registration, Versions

from ..plug import PREFILL, Side, Unsupported

__all__ = ["ALONE", "Address", "Topology", "topology_of"]

#: KV heads of a model that has them.
HEADS = 4
#: By the number of ranks: pipeline stages first, then copies of a stage that bring nothing; replicas, then token rows.
_LATENT: dict[Side, dict[int, Shape]] = {
    "prefill": {1: Shape(), 2: Shape(pp=2), 4: Shape(tp=2, pp=2)},
    "decode": {1: Shape(), 2: Shape(tp=2), 4: Shape(tp=4, dcp=2)},
}
#: Ranks share the heads.
_HEADS = {1: Shape(), 2: Shape(tp=2), 4: Shape(tp=4)}


class Address(NamedTuple):
    """A process: a rank of a side."""

    side: Side
    rank: int = 0


class Topology(NamedTuple):
    """Both engines' shapes. ``mla``: a rank holds all heads of its layers."""

    prefill: Shape = Shape()
    decode: Shape = Shape()
    mla: bool = True

    @property
    def alone(self) -> bool:
        """One rank on each side."""
        return self.count("prefill") == self.count("decode") == 1

    def shape(self, side: Side) -> Shape:
        return self.prefill if side == PREFILL else self.decode

    def count(self, side: Side) -> int:
        shape = self.shape(side)
        return shape.tp * shape.pp

    def place(self, at: Address) -> Place:
        tp = self.shape(at.side).tp
        return Place(tp=at.rank % tp, pp=at.rank // tp)

    def sources(self, rank: int) -> tuple[int, ...]:
        """The prefill ranks that a decode rank meets."""
        met = sources_of(self.place(Address("decode", rank)), self.prefill, self.decode, mla=self.mla)
        return tuple(source.place.pp * self.prefill.tp + source.place.tp for source in met)

    def readers(self, rank: int) -> int:
        """How many decode ranks a prefill rank waits for."""
        return len(readers_of(self.place(Address("prefill", rank)), self.prefill, self.decode, mla=self.mla))

    def layers(self, at: Address) -> tuple[int, int]:
        """Of as many layers as there are prefill stages, those that a rank has."""
        stage = self.place(at).pp
        return (stage, stage + 1) if at.side == PREFILL else (0, self.prefill.pp)

    def heads(self, at: Address) -> range:
        if self.mla:
            return range(1)
        return heads_of(kv_heads=HEADS, tp=self.shape(at.side).tp, rank=self.place(at).tp)

    def owner(self, at: Address) -> Owner:
        """Which tokens, a page each, a rank holds."""
        shape = self.shape(at.side)
        return Owner(shape.dcp, dcp_rank_of(self.place(at), shape))

    def layer_bytes(self, at: Address, page_bytes: int) -> int:
        """Bytes of one page of one layer at a rank."""
        every = 1 if self.mla else HEADS
        return page_bytes // self.prefill.pp // every * len(self.heads(at))

    def offsets(self, at: Address, page_bytes: int) -> tuple[int, ...]:
        """The bytes of a page that a rank holds."""
        return _offsets(self, at, page_bytes)

    def registration(self, at: Address, engine: int, page_bytes: int) -> Registration:
        shape, place, owner = self.shape(at.side), self.place(at), self.owner(at)
        return Registration(
            versions=Versions(VERSION, VERSION), role=at.side, engine=engine, model="", weights="",
            layers=Layers(self.prefill.pp, *self.layers(at)), page=Page(1, self.layer_bytes(at, page_bytes)),
            kv_dtype="uint8", layout="", heads=Heads(len(self.heads(at)), 1), mla=self.mla, tp=Axis(shape.tp, place.tp),
            pp=Axis(shape.pp, place.pp), transports=(), deadlines=Deadlines(1, 1, 1, 1, 1, 1),
            dcp=UNSET if owner.size == 1 else Dcp(size=owner.size, rank=owner.rank),
        )  # fmt: skip

    def cut(self, sender: Registration, receiver: Registration) -> Cut | None:
        """What one rank has for another one."""
        return None if self.alone else cut_of(sender, receiver, None if self.mla else HEADS)


ALONE = Topology()


def topology_of(prefill: int, decode: int, heads: bool = False) -> Topology:
    """The shapes of engines with so many ranks. ``heads``: the ranks of a side share the heads, instead of pipeline stages
    and replicas. Raises :class:`Unsupported` for any number but 1, 2 and 4."""
    known = {side: _HEADS if heads else _LATENT[side] for side in _LATENT}
    for side, count in (("prefill", prefill), ("decode", decode)):
        if count not in known["prefill"]:
            raise Unsupported(f"{count} {side} ranks; 1, 2 and 4 are there")
    return Topology(known["prefill"][prefill], known["decode"][decode], mla=not heads)


@cache
def _offsets(topology: Topology, at: Address, page_bytes: int) -> tuple[int, ...]:
    low, high = topology.layers(at)
    every = 1 if topology.mla else HEADS
    head = page_bytes // topology.prefill.pp // every
    return tuple(
        (layer * every + each) * head + byte
        for layer in range(low, high)
        for each in topology.heads(at)
        for byte in range(head)
    )
