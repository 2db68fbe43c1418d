"""What one sender rank has for one receiver rank, worked out once per link from the two registrations.

A sender rank gathers a part once, as whole pages of its own pool. What a receiver rank gets of it differs when the two
engines are shaped differently: some heads (unequal TP), some token rows (DCP), everything, or nothing at all (a rank that
holds only what another one brings already). A :class:`Cut` says which, as numbers; ``None`` in its place means everything,
and that the two ranks are alone with each other. Both ends work it out from the same two registrations.

Parts keep their absolute token ranges, whatever is cut out of them: plans, totals and coverage are about tokens. Only the
shape changes, and a part of which a receiver rank gets nothing is not in its plan: the numbers of a plan have no gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from kvpoll.spec.wire import Fingerprint, Part, PartKind, Registration

from .coverage import Owner, pages_for
from .errors import LocalProtocolError

if TYPE_CHECKING:
    from .plans.ranks import Shape

__all__ = ["Cut", "cut_of"]


class Cut(msgspec.Struct, frozen=True):
    """See the module text. Head ranges are ``[low, high)`` of the heads of one rank; ``None``: all of them."""

    page_size: int  #: tokens of a physical page, the same at both ends
    page_nbytes: int  #: bytes of one page of one layer at the sender
    real: bool = True  #: False: the plan towards this receiver rank is empty
    aux: bool = True  #: this sender rank brings the aux data
    heads: tuple[int, int] | None = None  #: of the sender's heads, those that the receiver rank has
    into: tuple[int, int] | None = None  #: where they go among the receiver's
    kv_heads: int = 1  #: of the sender rank
    share: int = 0  #: which part of the receiver's heads this sender rank brings ...
    shares: int = 1  #: ... of so many
    owner: Owner = Owner()  #: which tokens the receiver rank holds
    readers: int = 1  #: receiver ranks that this sender rank waits for
    senders: int = 1  #: sender ranks that this receiver rank meets

    def takes(self, part: Part) -> bool:
        """Does the receiver rank get anything of this part?"""
        if part.kind is PartKind.AUX:
            return self.aux
        return self.real and (part.kind is not PartKind.KV or self.owner.held(part.start, part.stop) > 0)

    def told(self, part: Part, no: int) -> Part:
        """The part as this receiver rank hears of it, under a number of its own. Only for a part that it :meth:`takes`."""
        if part.kind is not PartKind.KV or (self.heads is None and self.owner.size == 1):
            return part if part.no == no else msgspec.structs.replace(part, no=no)
        layers, pages, words = part.shape
        if self.owner.size > 1:
            shape = (layers, self.owner.held(part.start, part.stop), words // self.page_size)
        else:
            shape = (layers, pages, words * self._heads() // self.kv_heads)
        return msgspec.structs.replace(part, no=no, shape=shape)

    def nbytes(self, part: Part) -> int:
        """Bytes of a KV part at this receiver rank."""
        return (part.layer_stop - part.layer_start) * self._token_bytes(part.start, part.stop)

    def pages(self, request: Fingerprint) -> int:
        """Destination pages that this receiver rank needs: with DCP, of ``page_size`` tokens at each rank."""
        return pages_for(request.prefix, request.tokens, self.page_size * self.owner.size)

    def needs(self, request: Fingerprint, layers: tuple[int, int]) -> int:
        """Bytes of everything that the sender rank, which has these layers, brings this receiver rank."""
        return (layers[1] - layers[0]) * self._token_bytes(request.prefix, request.tokens) if self.real else 0

    def _token_bytes(self, start: int, stop: int) -> int:
        if self.owner.size > 1:
            return self.owner.held(start, stop) * self.page_nbytes // self.page_size
        return pages_for(start, stop, self.page_size) * self.page_nbytes * self._heads() // self.kv_heads

    def _heads(self) -> int:
        return self.kv_heads if self.heads is None else self.heads[1] - self.heads[0]


def cut_of(sender: Registration, receiver: Registration, kv_heads: int | None = None) -> Cut | None:
    """What ``sender`` has for ``receiver``; ``None``: everything, and nobody else is involved. ``kv_heads``: of the model, as
    the handshake found them; left out, no two ranks of one end have the same head.

    Raises :class:`~.errors.LocalProtocolError` naming the field for a pair that cannot work; the handshake refuses such a
    pair before anything asks for its cut."""
    from .plans.ranks import Place, dcp_rank_of, readers_of, sources_of

    prefill, decode = _shape(sender), _shape(receiver)
    source = Place(sender.tp.rank, sender.pp.rank, sender.cp.rank, sender.dp.rank)
    reader = Place(receiver.tp.rank, receiver.pp.rank, receiver.cp.rank, receiver.dp.rank)
    mla = sender.mla
    have, want = sender.heads.kv, receiver.heads.kv
    heads = None if mla else kv_heads or have * prefill.tp
    sources = sources_of(reader, prefill, decode, mla=mla, prefill_dp=source.dp, kv_heads=heads)
    mine = next((one for one in sources if one.place == source), None)
    readers = len(readers_of(source, prefill, decode, mla=mla, decode_dp=reader.dp))
    if mine is None:
        raise LocalProtocolError(
            f"tp.rank: expected one of {sorted({one.place.tp for one in sources})}, got {source.tp}", field="tp.rank"
        )
    if len(sources) == 1 and readers == 1 and have == want and prefill.dcp == decode.dcp:
        return None
    cut = Cut(
        page_size=sender.page.size, page_nbytes=sender.page.nbytes, real=mine.real, aux=mine.aux, kv_heads=have,
        readers=readers, senders=len(sources),
    )  # fmt: skip
    if heads is not None:
        cut = _cut_heads(cut, heads, (prefill.tp, source.tp), (decode.tp, reader.tp), want)
    if decode.dcp > 1 and prefill.dcp == 1:
        cut = msgspec.structs.replace(cut, owner=Owner(decode.dcp, dcp_rank_of(reader, decode)))
    return cut


def _cut_heads(cut: Cut, heads: int, sender: tuple[int, int], receiver: tuple[int, int], want: int) -> Cut:
    """The heads of a (TP size, rank) that another one gets; ``want``: heads of the receiver rank."""
    from .plans.heads import slice_heads

    if any(max(1, heads // tp) != each for tp, each in ((sender[0], cut.kv_heads), (receiver[0], want))):
        raise LocalProtocolError(
            f"heads.kv: expected {heads} heads over {sender[0]} and {receiver[0]} ranks, got {cut.kv_heads} and {want} each",
            field="heads.kv",
        )
    part = slice_heads(
        kv_heads=heads, src_tp=sender[0], src_rank=sender[1], dst_tp=receiver[0], dst_rank=receiver[1]
    )  # fmt: skip
    if not part.count:
        return cut  # another rank brings these heads: not real
    return msgspec.structs.replace(
        cut,
        heads=None if part.count == cut.kv_heads else (part.src_lo, part.src_hi),
        into=None if part.count == want else (part.dst_lo, part.dst_hi),
        share=part.dst_lo // part.count,
        shares=want // part.count,
    )


def _shape(end: Registration) -> Shape:
    from .plans.ranks import Shape

    dcp = 1 if end.dcp is UNSET else end.dcp.size
    return Shape(end.tp.size, end.pp.size, end.cp.size, end.dp.size, dcp)
