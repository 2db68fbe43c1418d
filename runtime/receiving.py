"""KVReceiver: the decode side of a room at one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kvpoll.protocol.core import Core
from kvpoll.protocol.errors import Failure, KVTransferError, LocalProtocolError
from kvpoll.protocol.plans import Shape, Source, sources_of
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import Cause, KVPoll
from kvpoll.spec.wire import PartKind

from .handles import Handle, PageIds
from .kv import Layers
from .manager import KVManager, Released
from .relay import Arrived, place
from .request import Request
from .resolve import RankAddress
from .views import as_bytes

__all__ = ["KVReceiver"]

Pool = TypeVar("Pool", bound=Layers)


class KVReceiver(Handle):
    """The decode side of a room at one rank. Its prefill ranks are found through the bootstrap service at ``bootstrap_host``
    and ``bootstrap_port`` (the router's), or at ``address`` (control addresses in the order of ``sources_of``, for tests).
    ``prefill``: sizes of the prefill engine (:meth:`KVManager.try_ensure_parallel_info`); left out: they are ours."""

    __slots__ = ("_address", "_arrived", "_aux", "_brings_aux", "_dest", "_prefill", "_where")

    def __init__(
        self, manager: KVManager, bootstrap_host: str, bootstrap_port: int, bootstrap_room: int, request: Request, *,
        namespace: str = "", address: str | Sequence[str] | None = None, prefill: Shape | None = None,
    ) -> None:  # fmt: skip
        super().__init__(manager, bootstrap_room, request)
        self._where = (bootstrap_host, bootstrap_port, namespace)
        self._address = (address,) if isinstance(address, str) else address
        self._prefill = manager.config.engine.shape if prefill is None else prefill
        tokens = manager.config.engine.page_tokens
        if manager.config.engine.dcp_size > 1 and request.prefix % tokens:
            raise LocalProtocolError(
                f"prefix: expected a multiple of {tokens} (a page of every DCP rank), got {request.prefix}",
                field="prefix",
            )
        # Raises for a host or a port that cannot be one, and for sizes that do not fit together.
        self._brings_aux = any(source.aux for _, source in self._sources(0))
        self._dest: tuple[int, ...] = ()
        self._aux: int | None = None
        self._arrived: list[Arrived] | None = None

    def init(self, prefill_dp_rank: int | None = None, *, gen: int | None = None) -> None:
        """Announce the attempt to the prefill ranks that have something for this one, of this dp rank; left out: what the
        configured ``dp_routing`` says, the room modulo the replicas or the only one. ``gen``: the engine's own count of
        attempts, equal on all its ranks; left out, it is counted here. Raises like :class:`KVSender`."""
        if self._key is not None:
            raise LocalProtocolError("init: called once per attempt", field="init")
        if prefill_dp_rank is None:
            by_room = self.manager.config.engine.dp_routing == "room"
            prefill_dp_rank = self.bootstrap_room % self._prefill.dp if by_room else 0
            if not by_room and self._prefill.dp > 1:
                raise LocalProtocolError(
                    f"prefill_dp_rank: expected one of {self._prefill.dp} replicas, as dp_routing is explicit, got none",
                    field="prefill_dp_rank",
                )
        if prefill_dp_rank < 0:
            raise LocalProtocolError(
                f"prefill_dp_rank: expected 0 or above, got {prefill_dp_rank}", field="prefill_dp_rank"
            )
        if gen is not None and not 0 < gen < 1 << 63:
            raise LocalProtocolError(f"gen: expected 1 to 2**63 - 1, got {gen}", field="gen")
        sources = self._sources(prefill_dp_rank)
        senders = [(address, source.place.tp) for address, source in sources]
        fingerprint = self.request.fingerprint()

        def create(core: Core) -> None:
            self._key = core.create_receiver(self.bootstrap_room, fingerprint, senders, gen)
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

    def _sources(self, dp_rank: int) -> list[tuple[str, Source]]:
        """Every prefill rank that this one meets, with its address."""
        engine, (host, port, namespace) = self.manager.config.engine, self._where
        prefill = self._prefill._replace(dp=max(self._prefill.dp, dp_rank + 1))
        sources = sources_of(engine.place, prefill, engine.shape, mla=engine.mla, prefill_dp=dp_rank)
        if self._address is not None:
            if len(self._address) != len(sources):
                raise LocalProtocolError(
                    f"address: expected {len(sources)}, one for each prefill rank, got {len(self._address)}",
                    field="address",
                )
            return list(zip(self._address, sources, strict=True))
        at = [RankAddress(host, port, s.place.dp, s.place.tp, s.place.pp, s.place.cp, namespace) for s in sources]
        return [(address.text(), source) for address, source in zip(at, sources, strict=True)]

    def send_metadata(self, kv_indices: PageIds, aux_index: int | None = None, *, gates: Sequence[str] = ()) -> None:
        """The engine owns these destination pages now (what [prefix, N) needs, in token order), and an aux slot: the prefill
        rank may be told. ``gates`` name local steps that Success waits for. In Failed all of it comes back at once. Raises
        :class:`LocalProtocolError`: LIMIT when there are not enough staging slots for what will arrive; nothing was lent."""
        pages = tuple(int(page) for page in kv_indices)
        if len(pages) != self._pages():
            raise LocalProtocolError(
                f"kv_indices: expected {self._pages()} pages for tokens [{self.request.prefix}, {self.request.tokens}), "
                f"got {len(pages)}", field="kv_indices",
            )  # fmt: skip
        if len(set(pages)) != len(pages):
            raise LocalProtocolError("kv_indices: expected every page once", field="kv_indices")
        self._check_aux(aux_index)
        if aux_index is not None and not self._brings_aux:
            raise LocalProtocolError(
                "aux_index: expected none, as no prefill rank brings aux data to pipeline stage "
                f"{self.manager.config.engine.pp_rank}", field="aux_index",
            )  # fmt: skip
        if self._key is None:
            raise LocalProtocolError("send_metadata: init() comes first", field="init")
        if self._dest or self._aux is not None:
            raise LocalProtocolError("send_metadata: pages are handed over once per attempt", field="kv_indices")
        key, before = self._key, (self._dest, self._aux)

        def lend(core: Core) -> bool:
            slots, engine = self.manager.data.receive_slots, self.manager.config.engine
            if slots is not None and core.session(key) is not None:
                low, high = engine.layer_range
                slots.take(key, max(1, len(pages) * engine.page_nbytes * (high - low)))
            self._dest, self._aux = pages, aux_index
            try:
                return core.on_receiver(key, lambda session: session.send_metadata(aux_index, gates))
            except LocalProtocolError:
                self._dest, self._aux = before
                if slots is not None:
                    slots.back(key)
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

    def _write(self, pool: Pool, arrived: list[Arrived]) -> Pool:
        request, engine = self.request.fingerprint(), self.manager.config.engine
        for one in sorted(arrived, key=lambda one: one.part.kind is not PartKind.AUX):  # what can fail first
            if one.part.kind is not PartKind.AUX:
                pool = place(pool, self._dest, one, request, engine)
            elif self._aux is not None and self.manager.aux is not None:
                assert one.payload is not None
                self.manager.aux.put(self._aux, as_bytes(one.payload))
        return pool

    def arrived(self, parts: list[Arrived]) -> None:
        self._arrived = parts

    def moved(self, state: KVPoll, failure: Failure | None) -> None:
        super().moved(state, failure)
        if state is KVPoll.Failed:
            self._arrived = None  # nobody will commit it: its memory may be somebody else's from now on

    def lent(self, kind: LeaseKind, no: int) -> Released:
        if kind is LeaseKind.AUX:
            return Released(self.bootstrap_room, kind, (), self._aux)
        return Released(self.bootstrap_room, kind, self._dest, None)
