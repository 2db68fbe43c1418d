"""KVSender: the prefill side of a room at one rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from kvpoll.protocol.aux import check_aux_duty
from kvpoll.protocol.core import Core
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Part, PartKind

from .handles import Handle, PageIds
from .kv import EARLY_NBYTES, EARLY_PARTS, Layers, Lender, cut, gather, on_host, spec
from .manager import KVManager, Released
from .request import Request
from .staged import Slots
from .transports.base import Payload
from .views import nbytes_of

__all__ = ["KVSender"]


class KVSender(Handle):
    """The prefill side of a room at one rank. Raises :class:`LocalProtocolError`: ROOM_BUSY when the room is live here,
    DRAINING, LIMIT; nothing is changed then. ``dest_tp_ranks``: the receiver ranks that must say where data goes; left out,
    as many as the shape of the receiver engine says, once its first rank is heard."""

    __slots__ = ("_aux", "_chunks", "_sent", "pp_rank")

    def __init__(
        self, manager: KVManager, bootstrap_room: int, request: Request, *, dest_tp_ranks: Sequence[int] | None = None,
        pp_rank: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(manager, bootstrap_room, request)
        if dest_tp_ranks is not None and not dest_tp_ranks:
            raise LocalProtocolError("dest_tp_ranks: expected at least one receiver rank", field="dest_tp_ranks")
        self.pp_rank = pp_rank
        self._sent = 0  #: pages handed over
        self._aux: int | None = None
        self._chunks: list[tuple[tuple[int, ...], int | None]] = []
        fingerprint = request.fingerprint()
        ranks = 0 if dest_tp_ranks is None else len(dest_tp_ranks)

        def create(core: Core) -> None:
            self._key = core.create_sender(bootstrap_room, fingerprint, ranks)
            manager.adopt(self._key, self)

        manager.call(create)

    def init(self, num_kv_indices: int | None = None, aux_index: int | None = None) -> None:
        """Say how many pages will be sent (checked: what [prefix, N) needs) and which aux slot goes with the last chunk."""
        if num_kv_indices is not None and num_kv_indices != self._pages():
            raise LocalProtocolError(
                f"num_kv_indices: expected {self._pages()} pages for tokens [{self.request.prefix}, {self.request.tokens}), "
                f"got {num_kv_indices}", field="num_kv_indices",
            )  # fmt: skip
        self._check_aux(aux_index)
        engine = self.manager.config.engine
        check_aux_duty(aux_index, pp_rank=engine.pp_rank, pp_size=engine.pp_size)
        self._aux = aux_index

    def send(self, kv_indices: PageIds, pool: Layers, *, last: bool | None = None) -> None:
        """Hand the next chunk over: these pages of ``pool``, in token order. The gather is dispatched here, on the caller's
        thread; the pages come back through ``released()`` as soon as the copy exists. The chunk that reaches the last page
        is the last one, and carries the aux slot.

        Raises :class:`LocalProtocolError` naming the field for too many pages, a chunk that ends within a page, or after
        the last chunk, and LIMIT when there are not enough staging slots for the chunk now; ``ValueError`` for page ids
        outside the pool. Nothing was sent then. In Failed nothing is kept and the pages come back at once."""
        pages = np.asarray(kv_indices, np.int32).reshape(-1)
        total = self._pages()
        if self._sent + len(pages) > total:
            raise LocalProtocolError(
                f"kv_indices: expected at most {total - self._sent} more pages, got {len(pages)}", field="kv_indices"
            )
        closes = self._sent + len(pages) == total if last is None else last
        live = self._state is not KVPoll.Failed
        host = on_host(pool)
        slots = self.manager.send_slots if live and len(pages) and host else None
        lead = self.manager.data.lead if host else 0.0
        slices = cut(pool, pages, None if slots is None else slots.nbytes, lead) if live and len(pages) else []
        parts, payloads = self._kv_parts(pool, [len(piece) for piece in slices]), list[Payload]()
        assert self._key is not None
        taken = None if slots is None else slots.take(self._key, [nbytes_of(part) for part in parts])
        staging: Lender = self.manager.data.staging if taken is None else taken
        early = bool(slices) and host and self.manager.data.waits and nbytes_of(parts[0]) >= EARLY_NBYTES
        try:
            if slices and not early:
                payloads.append(gather(pool, slices[0], staging))
            if closes and self._aux is not None and live:
                assert self.manager.aux is not None
                frame = self.manager.aux.frame(self._aux)
                parts.append(Part(no=0, kind=PartKind.AUX, shape=frame.shape, dtype="uint8"))
                payloads.append(frame)
            nos = self.manager.call(
                partial(
                    self._hand_over,
                    pages=pages.tolist(),
                    parts=parts,
                    payloads=payloads,
                    closes=closes,
                    taken=taken,
                    early=early,
                )
            )
        except BaseException:
            if slots is not None and taken is not None:
                slots.give_back(taken)
            raise
        if not nos and slots is not None and taken is not None:
            slots.give_back(taken)
        if not nos and (len(pages) or closes):
            # Over already, or a chunk without parts: nothing was lent, so nothing will be handed back by a lease.
            released = self.lent(LeaseKind.SOURCE, len(self._chunks) - 1)
            if released.pages or released.slot is not None:
                self.manager.give_back(released)
        self._sent += len(pages)
        for at in range(0 if early else 1, len(slices)) if nos else ():
            try:
                rows = gather(pool, slices[at], staging)
            except Exception as error:
                self.abort(f"gathering a part raised {type(error).__name__}: {error}")
                self.manager.call(partial(self._gathered, nos=nos[at : len(slices)], payloads=[]))  # nothing reads them
                raise
            self.manager.call(partial(self._gathered, nos=[nos[at]], payloads=[rows]))

    def _hand_over(
        self, core: Core, pages: list[int], parts: list[Part], payloads: list[Payload], closes: bool, taken: Slots | None,
        early: bool,
    ) -> tuple[int, ...]:  # fmt: skip
        """Under the lock: the first part of the chunk exists as a copy, or is announced ``early`` with the next one; the aux
        data exists; the others will."""
        assert self._key is not None
        self._chunks.append((tuple(pages), self._aux if closes else None))
        try:
            nos = core.send(self._key, parts, closes)
        except LocalProtocolError:
            self._chunks.pop()
            raise
        if taken is not None and self.manager.send_slots is not None:
            for no, loan in zip(nos, taken.loans, strict=False):  # the aux data is in none
                self.manager.send_slots.bind(self._key, no, loan)
        later = range(0 if early else 1, sum(part.kind is PartKind.KV for part in parts))
        if early and nos:
            core.on_sender(self._key, lambda session: session.dispatched(nos[: min(EARLY_PARTS, len(later))]))
        self._gathered(core, [no for at, no in enumerate(nos) if at not in later], payloads)
        return nos

    def _gathered(self, core: Core, nos: Sequence[int], payloads: Sequence[Payload]) -> None:
        """These parts exist as copies."""
        assert self._key is not None
        for no, payload in zip(nos, payloads, strict=False):
            self.manager.data.keep(core, self._key, no, payload)
        if nos and not core.on_sender(self._key, lambda session: session.gathered(nos)):
            self.manager.data.forget(self._key, nos)

    def _kv_parts(self, pool: Layers, counts: Sequence[int]) -> list[Part]:
        """The parts of a chunk, of so many pages each."""
        request, engine = self.request, self.manager.config.engine
        size = engine.page_tokens
        low, high = engine.layer_range
        first, parts = request.prefix // size + self._sent, list[Part]()
        for count in counts:
            shape, dtype = spec(pool, count)
            start, stop = max(request.prefix, first * size), min(request.tokens, (first + count) * size)
            parts.append(Part(no=0, start=start, stop=stop, layer_start=low, layer_stop=high, shape=shape, dtype=dtype))
            first += count
        return parts

    def lent(self, kind: LeaseKind, no: int) -> Released:
        pages, slot = self._chunks[no]
        return Released(self.bootstrap_room, kind, pages, slot)
