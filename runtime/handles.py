"""KVSender and KVReceiver: one room at one rank, as an engine holds it.

``poll()`` is a plain read. ``clear()`` drops the handle, never a lease nor the duty to answer the peer: what the room still
holds comes back through :meth:`KVManager.released`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.core import Core
from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.errors import Failure, KVTransferError, LocalProtocolError
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import LeaseKind, SessionKey
from kvpoll.spec import Cause, KVPoll
from kvpoll.spec.wire import Part, PartKind

from .kv import Layers, cut, gather, scatter, spec
from .manager import KVManager, Released
from .request import Request
from .resolve import RankAddress
from .transports.base import Payload
from .views import as_bytes, as_rows

__all__ = ["KVReceiver", "KVSender"]

Pool = TypeVar("Pool", bound=Layers)
PageIds = Sequence[int] | npt.NDArray[np.integer]


class _Handle:
    """What both ends have. Slotted: an engine polls all of its handles in turn, and a pass over many is as fast as memory."""

    __slots__ = ("_failure", "_key", "_state", "bootstrap_room", "manager", "request", "times")

    def __init__(self, manager: KVManager, room: int, request: Request) -> None:
        if not 0 <= room < 1 << 64:
            raise LocalProtocolError(f"bootstrap_room: expected a u64, got {room}", field="bootstrap_room")
        self.manager = manager
        self.bootstrap_room = room
        self.request = request
        self._state = KVPoll.Bootstrapping
        self._failure: Failure | None = None
        self._key: SessionKey | None = None
        self.times: list[tuple[KVPoll, float]] = [(KVPoll.Bootstrapping, monotonic())]  #: when each state was entered

    def poll(self) -> KVPoll:
        """The state of this rank. A plain read: no I/O, no lock."""
        return self._state

    def failure_exception(self) -> KVTransferError | None:
        """Why the room failed, as an exception to raise or to report; ``None`` when it has not. Clears nothing."""
        return None if self._failure is None else KVTransferError(self.bootstrap_room, self._failure)

    def abort(self, reason: str = "aborted by the engine", status: int = 0) -> None:
        """Give the request up: the peer is told at once. ``status`` is the HTTP status its client should get. Does nothing
        to a room that is over."""
        if self._key is not None:
            key = self._key
            self.manager.call(lambda core: core.call(key, lambda session: session.abort(reason, status)))

    def clear(self) -> None:
        """Drop the handle. A room that is still live is aborted first: nobody could end it any more."""
        if self._state not in (KVPoll.Success, KVPoll.Failed):
            self.abort("cleared by the engine while live")

    # Under the manager's lock.
    def moved(self, state: KVPoll, failure: Failure | None) -> None:
        if state is not self._state:
            self.times.append((state, monotonic()))
        self._failure = failure  # first: whoever reads Failed can ask why
        self._state = state

    def arrived(self, parts: list[tuple[int, Part, Payload | None]]) -> None:
        raise AssertionError("only a receiver commits")

    def lent(self, kind: LeaseKind, no: int) -> Released:
        raise NotImplementedError

    def _check_aux(self, slot: int | None) -> None:
        if slot is None:
            return
        if self.manager.aux is None:
            raise LocalProtocolError("aux_index: the manager was made without aux slots", field="aux_index")
        self.manager.aux.check(slot, "aux_index")

    def _pages(self) -> int:
        """Pages of the whole hand-off: those that hold [prefix, N)."""
        return pages_for(self.request.prefix, self.request.tokens, self.manager.config.engine.page_size)


class KVSender(_Handle):
    """The prefill side of a room. Raises :class:`LocalProtocolError`: ROOM_BUSY when the room is live here, DRAINING,
    LIMIT; nothing is changed then. ``dest_tp_ranks``: the receiver ranks that must say where data goes."""

    __slots__ = ("_aux", "_chunks", "_sent", "pp_rank")

    def __init__(
        self, manager: KVManager, bootstrap_room: int, request: Request, *, dest_tp_ranks: Sequence[int] = (0,), pp_rank: int = 0
    ) -> None:  # fmt: skip
        super().__init__(manager, bootstrap_room, request)
        if not dest_tp_ranks:
            raise LocalProtocolError("dest_tp_ranks: expected at least one receiver rank", field="dest_tp_ranks")
        self.pp_rank = pp_rank
        self._sent = 0  #: pages handed over
        self._aux: int | None = None
        self._chunks: list[tuple[tuple[int, ...], int | None]] = []
        fingerprint = request.fingerprint()
        ranks = len(dest_tp_ranks)

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
        self._aux = aux_index

    def send(self, kv_indices: PageIds, pool: Layers, *, last: bool | None = None) -> None:
        """Hand the next chunk over: these pages of ``pool``, in token order. The gather is dispatched here, on the caller's
        thread; the pages come back through ``released()`` as soon as the copy exists. The chunk that reaches the last page
        is the last one, and carries the aux slot.

        Raises :class:`LocalProtocolError` naming the field for too many pages, a chunk that ends within a page, or after
        the last chunk; ``ValueError`` for page ids outside the pool. In Failed nothing is kept and the pages come back at
        once."""
        pages = np.asarray(kv_indices, np.int32).reshape(-1)
        total = self._pages()
        if self._sent + len(pages) > total:
            raise LocalProtocolError(
                f"kv_indices: expected at most {total - self._sent} more pages, got {len(pages)}", field="kv_indices"
            )
        closes = self._sent + len(pages) == total if last is None else last
        assert self._key is not None
        key, parts, payloads = self._key, list[Part](), list[Payload]()
        slices = cut(pool, pages) if len(pages) and self._state is not KVPoll.Failed else []
        staging = self.manager.data.staging
        if slices:
            parts = self._kv_parts(pool, [len(piece) for piece in slices])
            payloads.append(gather(pool, slices[0], staging))
        later = range(1, len(slices))
        if closes and self._aux is not None and self._state is not KVPoll.Failed:
            assert self.manager.aux is not None
            frame = self.manager.aux.frame(self._aux)
            parts.append(Part(no=0, kind=PartKind.AUX, shape=frame.shape, dtype="uint8"))
            payloads.append(frame)

        def hand_over(core: Core) -> tuple[int, ...]:
            self._chunks.append((tuple(int(page) for page in pages), self._aux if closes else None))
            try:
                nos = core.send(key, parts, closes)
            except LocalProtocolError:
                self._chunks.pop()
                raise
            self._gathered(core, [no for at, no in enumerate(nos) if at not in later], payloads)
            return nos

        nos = self.manager.call(hand_over)
        if not nos and (len(pages) or closes):
            # Over already, or a chunk without parts: nothing was lent, so nothing will be handed back by a lease.
            released = self.lent(LeaseKind.SOURCE, len(self._chunks) - 1)
            if released.pages or released.slot is not None:
                self.manager.give_back(released)
        self._sent += len(pages)
        for at in later if nos else ():
            try:
                rows = gather(pool, slices[at], staging)
            except Exception as error:
                self.abort(f"gathering a part raised {type(error).__name__}: {error}")
                self.manager.call(partial(self._gathered, nos=nos[at : len(slices)], payloads=[]))  # nothing reads them
                raise
            self.manager.call(partial(self._gathered, nos=[nos[at]], payloads=[rows]))

    def _gathered(self, core: Core, nos: Sequence[int], payloads: Sequence[Payload]) -> None:
        """These parts exist as copies."""
        assert self._key is not None
        for no, payload in zip(nos, payloads, strict=False):
            self.manager.data.keep(self._key, no, payload)
        if nos and not core.on_sender(self._key, lambda session: session.gathered(nos)):
            self.manager.data.forget(self._key, nos)

    def _kv_parts(self, pool: Layers, counts: Sequence[int]) -> list[Part]:
        """The parts of a chunk, of so many pages each."""
        request, engine = self.request, self.manager.config.engine
        size = engine.page_size
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


class KVReceiver(_Handle):
    """The decode side of a room. The prefill rank is found through the bootstrap service at ``bootstrap_host`` and
    ``bootstrap_port`` (the router's), or at ``address`` (a control address, for tests)."""

    __slots__ = ("_address", "_arrived", "_aux", "_dest", "_where")

    def __init__(
        self, manager: KVManager, bootstrap_host: str, bootstrap_port: int, bootstrap_room: int, request: Request, *,
        namespace: str = "", address: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(manager, bootstrap_room, request)
        self._where = (bootstrap_host, bootstrap_port, namespace)
        self._address = address
        self._address_of(0)  # raises for a host or a port that cannot be one
        self._dest: tuple[int, ...] = ()
        self._aux: int | None = None
        self._arrived: list[tuple[int, Part, Payload | None]] | None = None

    def init(self, prefill_dp_rank: int = 0, *, gen: int | None = None) -> None:
        """Announce the attempt to the prefill rank that is ours by (tp, pp, cp), of this dp rank. ``gen``: the engine's own
        count of attempts, equal on all its ranks; left out, it is counted here. Raises like :class:`KVSender`."""
        if self._key is not None:
            raise LocalProtocolError("init: called once per attempt", field="init")
        if prefill_dp_rank < 0:
            raise LocalProtocolError(
                f"prefill_dp_rank: expected 0 or above, got {prefill_dp_rank}", field="prefill_dp_rank"
            )
        if gen is not None and not 0 < gen < 1 << 63:
            raise LocalProtocolError(f"gen: expected 1 to 2**63 - 1, got {gen}", field="gen")
        address, rank = self._address_of(prefill_dp_rank), self.manager.config.engine.tp_rank
        fingerprint = self.request.fingerprint()

        def create(core: Core) -> None:
            self._key = core.create_receiver(self.bootstrap_room, fingerprint, [(address, rank)], gen)
            self.manager.adopt(self._key, self)

        self.manager.call(create)
        # What happened while it was created was said before the handle was known.
        key = self._key
        assert key is not None

        def catch_up(core: Core) -> None:
            session = core.session(key)
            if session is not None:
                self.moved(session.state, session.failure)

        self.manager.call(catch_up)

    def _address_of(self, dp_rank: int) -> str:
        engine, (host, port, namespace) = self.manager.config.engine, self._where
        rank = RankAddress(host, port, dp_rank, engine.tp_rank, engine.pp_rank, engine.cp_rank, namespace)
        return self._address or rank.text()

    def send_metadata(self, kv_indices: PageIds, aux_index: int | None = None, *, gates: Sequence[str] = ()) -> None:
        """The engine owns these destination pages now (what [prefix, N) needs, in token order), and an aux slot: the prefill
        rank may be told. ``gates`` name local steps that Success waits for. In Failed all of it comes back at once."""
        pages = tuple(int(page) for page in kv_indices)
        if len(pages) != self._pages():
            raise LocalProtocolError(
                f"kv_indices: expected {self._pages()} pages for tokens [{self.request.prefix}, {self.request.tokens}), "
                f"got {len(pages)}", field="kv_indices",
            )  # fmt: skip
        if len(set(pages)) != len(pages):
            raise LocalProtocolError("kv_indices: expected every page once", field="kv_indices")
        self._check_aux(aux_index)
        if self._key is None:
            raise LocalProtocolError("send_metadata: init() comes first", field="init")
        if self._dest or self._aux is not None:
            raise LocalProtocolError("send_metadata: pages are handed over once per attempt", field="kv_indices")
        key, before = self._key, (self._dest, self._aux)

        def lend(core: Core) -> bool:
            self._dest, self._aux = pages, aux_index
            try:
                return core.on_receiver(key, lambda session: session.send_metadata(aux_index, gates))
            except LocalProtocolError:
                self._dest, self._aux = before
                raise

        if not self.manager.call(lend):
            self.manager.give_back(self.lent(LeaseKind.PAGES, 0))
            if aux_index is not None:
                self.manager.give_back(self.lent(LeaseKind.AUX, 0))

    def abort(self, reason: str = "aborted by the engine", status: int = 0) -> None:
        if self._key is None and self._state is not KVPoll.Failed:
            try:
                self.init()  # so that the prefill rank hears of it, instead of waiting for its own deadline (Q13)
            except LocalProtocolError:  # the room is busy, or the process drains: nobody ever heard of this attempt
                self.moved(KVPoll.Failed, Failure(Cause.ABORTED, (("reason", reason), ("status", status))))
        super().abort(reason, status)

    def open_gate(self, gate: str) -> None:
        """A local step that Success waits for is done."""
        self._on(lambda session: session.open_gate(gate))

    def fail_gate(self, gate: str, reason: str = "") -> None:
        """A local step that Success waits for has failed."""
        self._on(lambda session: session.fail_gate(gate, reason))

    def _on(self, action: Callable[[ReceiverSession], None]) -> None:
        if self._key is not None:
            key = self._key
            self.manager.call(lambda core: core.on_receiver(key, action))

    @property
    def committable(self) -> bool:
        """Everything planned is here, every gate is open: :meth:`commit` may be called. A plain read."""
        return self._arrived is not None and self._state is KVPoll.Transferring

    def commit(self, pool: Pool) -> Pool:
        """Write what arrived into the destination pages of ``pool`` and the aux slot, on the caller's thread; returns the
        new pool (jax pools are donated, use the returned one from here on). Success follows, unless the room fails
        meanwhile: the new pool is returned all the same, look at :meth:`poll`.

        Raises :class:`KVTransferError` when the room has failed, :class:`LocalProtocolError` when not everything is here
        or a destination page is not in the pool; the pool is untouched then."""
        if self._state is KVPoll.Failed and self._failure is not None:
            raise KVTransferError(self.bootstrap_room, self._failure)
        if self._key is None or self._arrived is None:
            raise LocalProtocolError("commit: not everything is here yet; wait for committable", Cause.DATA_MISSING)
        self._check_pool(pool)
        key, arrived = self._key, self._arrived
        if not self.manager.call(lambda core: core.on_receiver(key, lambda session: session.begin_commit())):
            raise LocalProtocolError("commit: the room is over", Cause.ATTEMPT_OVER)
        error = "interrupted"
        try:
            after = self._write(pool, arrived)
            error = ""
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            self._arrived = None
            self.manager.call(lambda core: core.on_receiver(key, lambda session: session.end_commit(error)))
        return after

    def _check_pool(self, pool: Layers) -> None:
        # Before the first write: a pool that was donated half-way is lost.
        pages = min((len(layer) for layer in pool), default=0)
        outside = [page for page in self._dest if not 0 <= page < pages]
        if outside:
            raise LocalProtocolError(
                f"kv_indices: expected pages of a pool of {pages}, got {outside[:8]}", field="kv_indices"
            )

    def _write(self, pool: Pool, arrived: list[tuple[int, Part, Payload | None]]) -> Pool:
        size, first = self.manager.config.engine.page_size, self.request.prefix // self.manager.config.engine.page_size
        for _, part, payload in sorted(
            arrived, key=lambda entry: entry[1].kind is not PartKind.AUX
        ):  # what can fail first
            assert payload is not None
            if part.kind is PartKind.AUX:
                if self._aux is not None and self.manager.aux is not None:
                    self.manager.aux.put(self._aux, as_bytes(payload))
                continue
            at = part.start // size - first
            pages = self._dest[at : at + pages_for(part.start, part.stop, size)]
            pool = scatter(pool, np.asarray(pages, np.int32), as_rows(payload, part))
        return pool

    def arrived(self, parts: list[tuple[int, Part, Payload | None]]) -> None:
        self._arrived = parts

    def lent(self, kind: LeaseKind, no: int) -> Released:
        if kind is LeaseKind.AUX:
            return Released(self.bootstrap_room, kind, (), self._aux)
        return Released(self.bootstrap_room, kind, self._dest, None)
