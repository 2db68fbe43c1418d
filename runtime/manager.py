"""KVManager: one process's hand-offs, and what the engine gets back.

Everything an engine does goes through a :class:`~.handles.KVSender` or :class:`~.handles.KVReceiver`; the manager makes
the core, its transports and its sockets, keeps the handles' states up to date, and yields each lease that comes back
exactly once through :meth:`KVManager.released`.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from kvpoll.protocol.aux import Attempt
from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.cut import cut_of
from kvpoll.protocol.errors import Failure, LocalProtocolError
from kvpoll.protocol.handshake import compare
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import Changed, HandBack
from kvpoll.protocol.plans import Shape
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import AttemptRecord, LeaseKind, ReceiverRecord, SenderRecord, SessionKey
from kvpoll.spec import TERMINAL, Cause, KVPoll, LeaseEvent
from kvpoll.spec.wire import PartKind, Registration

from .aux_slots import AuxSlots, aux_fault, stamped
from .config import ManagerConfig, Role, is_loopback
from .control import ControlSockets
from .dataplane import DataPlane, default_transports, load_transport
from .parallel_info import ParallelInfo
from .receive_slots import ReceiveSlots
from .register import Announcer, registration_of
from .relay import check_layout, portion
from .shell import Listener, Shell
from .staged import SendSlots
from .trace import Trace
from .transports.base import Direction, Payload, Transport
from .views import as_bytes, nbytes_of

if TYPE_CHECKING:
    from .handles import Handle

__all__ = ["KVManager", "Released"]

T = TypeVar("T")
log = logging.getLogger("kvpoll")


class Released(NamedTuple):
    """A lease that came back: nothing can touch this memory any more. ``pages`` are the engine's page ids (source or
    destination), ``slot`` its aux slot."""

    room: int
    kind: LeaseKind
    pages: tuple[int, ...]
    slot: int | None


class KVManager(Listener):
    """One process's hand-offs. ``aux`` are the engine's aux slots; ``transports`` replace those named in the configuration
    (for tests). Use it as a context manager, or call :meth:`close`."""

    def __init__(
        self, config: ManagerConfig, *, aux: AuxSlots | None = None, transports: Sequence[Transport] | None = None
    ) -> None:
        if config.role is Role.NULL:
            raise LocalProtocolError("role: expected prefill or decode; a null role hands nothing over", field="role")
        self.config = config
        self.aux = aux
        self.instance = secrets.randbits(63)
        self.engine = secrets.randbits(63) if config.engine_id is None else config.engine_id
        self.unhealthy = ""
        limits = config.limits
        self.send_slots = SendSlots.of(limits) if config.role is Role.PREFILL else None
        self._handles: dict[SessionKey, Handle] = {}
        self._released: deque[tuple[HandBack | None, Released]] = deque()
        self._news = threading.Condition()
        self._told = 0
        secret = None if config.secret is None else config.secret.get_secret_value()
        if secret is None and not is_loopback(config.host):
            log.warning(
                "control and data sockets bind to %s without a shared secret: anyone who reaches it can speak",
                config.host,
            )
        self._parallel = ParallelInfo(secret, self._tell)
        with ExitStack() as undo:  # of a process that cannot start nothing stays: no port, no thread
            sockets = ControlSockets(None if secret is None else secret.encode(), limits.links, limits.outbox)
            undo.callback(sockets.close)
            address = ""
            if config.role is Role.PREFILL:
                address = sockets.bind(config.host, config.port, config.advertise or config.host)
            if transports is None:
                wanted = config.transports or default_transports()
                transports = [load_transport(name, config.transport_options.get(name, {})) for name in wanted]
            for transport in transports:
                undo.callback(transport.close)
            names = [transport.capabilities.name for transport in transports]
            if len(set(names)) != len(names):
                raise LocalProtocolError(f"transports: expected every one once, got {names}", field="transports")
            _check_fences(transports, limits.quarantine)
            self._data = DataPlane(transports, lambda: self._shell.notify(), self._portion)
            if config.role is Role.DECODE:
                pushes = any(pushes for _, pushes in self._data.pushes())
                self._data.receive_slots = ReceiveSlots.of(limits, memory=pushes, back=self._tell)
            core = Core(self._core_config(), lambda: secrets.randbits(63), self._registration, self._judge)
            trace = None
            if config.trace is not None:
                trace = Trace(
                    config.trace, self.instance, lambda: self._shell.now(), self._record_of,
                    {"engine": f"{self.engine:x}", "process": config.role.value, "rank": config.engine.tp_rank},
                )  # fmt: skip
                core.env.trace = trace.step
                undo.callback(trace.close)
            self._shell = Shell(core, self._data, sockets, self, secret, trace, limits.outbox)
            undo.pop_all()
            undo.callback(self._shell.close)  # which closes all of them
            self._shell.start()
            self.address = address  #: control address, of a prefill process
            self._announcer = (
                Announcer(config, address, self.instance, self.engine, tuple(self._data.transports))
                if config.role is Role.PREFILL
                else None
            )
            undo.pop_all()

    def _core_config(self) -> CoreConfig:
        config, engine = self.config, self.config.engine
        return CoreConfig(
            instance=self.instance, engine=self.engine, rank=engine.tp_rank, timing=config.durations.timing(config.role),
            page_size=engine.page_size, page_nbytes=engine.page_nbytes, layers=engine.layer_range, owners=engine.dcp_size,
            max_parts=config.limits.parts, max_rooms=config.limits.rooms, max_links=config.limits.links,
            max_half_open=config.limits.half_open, credits=config.limits.operations, push=self._data.pushes(),
        )  # fmt: skip

    def _registration(self, link: int) -> Registration:
        return registration_of(self.config, self.engine, self._data.offers(link))

    def _judge(self, ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
        role: Literal["prefill", "decode"] = "prefill" if self.config.role is Role.PREFILL else "decode"
        preference = tuple(self._data.transports) if self.config.role is Role.DECODE else ()
        verdict = compare(ours, theirs, role=role, preference=preference, mismatch=self._data.mismatch)
        fields, text = verdict.refusal()
        cut = None
        if verdict.ok:
            try:
                cut = cut_of(*((ours, theirs) if role == "prefill" else (theirs, ours)), verdict.kv_heads)
                check_layout(self.config.engine, cut)
            except LocalProtocolError as error:
                fields, text = (str(error.details.get("field", "topology")),), str(error)
        return Judgement(fields, verdict.transport or "", text, cut)

    def _portion(self, payload: Payload, rec: SenderRecord, no: int, link: int) -> Payload:
        part = rec.parts[no].part
        if part.kind is PartKind.AUX:
            return stamped(as_bytes(payload), Attempt(rec.engine, rec.gen))  # not known when the engine called send()
        cut = next((peer.cut for peer in rec.peers if peer.link == link), None)
        return payload if cut is None else portion(payload, part, cut, self.config.engine, self._data.staging)

    # -- for handles -------------------------------------------------------------------------------------------------------
    def call(self, action: Callable[[Core], T]) -> T:
        """Run something on the core. For :mod:`.handles`; engines have no use for it."""
        if self.unhealthy:
            raise LocalProtocolError(
                f"this process's core has stopped: {self.unhealthy}", Cause.PROCESS_UNHEALTHY, error=self.unhealthy
            )
        return self._shell.call(action)

    @property
    def data(self) -> DataPlane:
        return self._data

    def adopt(self, key: SessionKey, handle: Handle) -> None:
        """Under the lock: ``handle`` is the engine's end of this session."""
        self._handles[key] = handle
        if self.send_slots is not None and key.role == "sender":
            self.send_slots.open(key)
        if self.unhealthy:  # it died meanwhile, and did not know of this one
            self.died(self.unhealthy)

    def give_back(self, released: Released, out: HandBack | None = None) -> None:
        """Queue memory that the engine may have back. ``out``: the lease that says so; none for memory that a room which
        was over already never took."""
        self._released.append((out, released))
        self._tell()

    # -- the engine --------------------------------------------------------------------------------------------------------
    def released(self) -> Iterator[Released]:
        """Every lease that came back since the last call, each exactly once: source pages, destination pages, aux slots.
        Free memory on this word, and on no other."""
        while True:
            try:
                out, released = self._released.popleft()
            except IndexError:  # empty, also when another thread took the last one
                return
            if out is not None:
                out.lease.step(LeaseEvent.PICKED)
            yield released

    def poke(self) -> None:
        """Make :meth:`wait` look again: something that it waits for has changed outside kvpoll."""
        self._tell()

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``until()`` is true, looking again whenever a room or a lease of this process changes. For engines
        without a loop of their own, and for tests. False when ``timeout`` seconds went by."""
        end = monotonic() + timeout
        while True:
            told = self._told
            if until():  # without the condition's lock: ``until`` may take the process's, under which others tell
                return True
            with self._news:
                left = end - monotonic()
                if left <= 0:
                    return False
                if self._told == told:
                    self._news.wait(left)

    def gauges(self) -> dict[str, int]:
        """Sizes of every table and queue; all zero when idle (links with their sockets aside)."""
        own = {"handles": len(self._handles), "released": len(self._released)}
        return self._shell.gauges() | own | ({} if self.send_slots is None else self.send_slots.gauges())

    def busy(self) -> dict[str, int]:
        """The gauges that are not at their idle value."""
        return {name: size for name, size in self.gauges().items() if size and not _per_link(name)}

    def try_ensure_parallel_info(self, host: str, port: int, namespace: str = "") -> Shape | None:
        """Sizes of the prefill engine behind a bootstrap service, for :class:`~.handles.KVReceiver`; ``None`` while they are
        being asked for: ask again when :meth:`wait` wakes. A plain look-up. Its ``dcp`` is 1: decode engines whose prefill
        has DCP too leave ``prefill`` out. Raises :class:`LocalProtocolError` for a host or a port that cannot be one."""
        return self._parallel.ask(host, port, namespace)

    @property
    def bootstrap(self) -> tuple[str, int] | None:
        """Host and port of the bootstrap service that this prefill process is registered at."""
        return None if self._announcer is None else self._announcer.at

    def wait_registered(self, timeout: float = 10.0) -> bool:
        """Wait until decode processes can find this one."""
        return self._announcer is None or self._announcer.wait(timeout)

    def close(self) -> dict[str, int]:
        """Take no new rooms, fail the live ones, wait for leases to come back (``durations.drain`` at most), stop. Returns
        what was cut off: empty when nothing was."""
        if self._announcer is not None:
            self._announcer.close()
            self._announcer = None
        if not self.unhealthy and not self._shell.dead:
            within = round(self.config.durations.drain * 1000)

            def end(core: Core) -> None:
                core.drain(within)
                core.shutdown()

            self._shell.call(end)
            self.wait(lambda: not self._holds(), self.config.durations.drain)
            self._shell.call(lambda core: core.close_links())
            self.wait(lambda: bool(self.unhealthy) or not self._shell.core.links.table, _GOODBYE_S)
        self._shell.close()
        self._parallel.close()
        return {name: size for name, size in self.busy().items() if name not in ("released", "outbox")}

    def _holds(self) -> bool:
        sizes = self._shell.gauges()
        return bool(self.unhealthy) or any(sizes[name] for name in ("senders", "receivers", "operations"))

    def __enter__(self) -> KVManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- Listener: with the lock held ----------------------------------------------------------------------------------------
    def changed(self, out: Changed) -> None:
        handle = self._handles.get(out.session)
        if handle is not None:
            handle.moved(out.state, out.failure)
            self._tell()

    def ready(self, key: SessionKey) -> None:
        """Everything was called done: look that it is really here, and ours, before the engine hears of it."""
        handle = self._handles.get(key)
        core = self._shell.core
        session = core.receiver(key)
        if session is None or handle is None:
            return
        arrived = self._data.collect(core, key)
        for part, payload, _ in arrived:
            expected, got = nbytes_of(part), 0 if payload is None else payload.nbytes
            if payload is None or got != expected:
                core.on_receiver(key, partial(_missing, part.no, expected, got))
                return
            if part.kind is PartKind.AUX:
                fault = self._aux_fault(session.rec, as_bytes(payload))
                if fault is not None:
                    core.on_receiver(key, partial(_not_ours, *fault))
                    return
        meta = session.rec.meta
        wanted = meta is not None and meta.aux is not UNSET
        if wanted and not any(part.kind is PartKind.AUX for part, _, _ in arrived):
            core.on_receiver(key, partial(_not_ours, f"room {session.rec.room}", "none was sent"))
            return
        if self._data.receive_slots is not None:
            self._data.receive_slots.ready(key)
        handle.arrived(arrived)
        self._tell()

    def _aux_fault(self, rec: ReceiverRecord, frame: npt.NDArray[np.uint8]) -> tuple[str, str] | None:
        layout = None if self.aux is None else self.aux.layout
        return aux_fault(frame, rec.room, rec.fingerprint, Attempt(rec.engine, rec.gen), layout)

    def handed_back(self, out: HandBack) -> None:
        if out.lease.kind is LeaseKind.COPY and self.send_slots is not None:
            self.send_slots.back(out.session, out.lease.no)
        if out.lease.kind in (LeaseKind.SOURCE, LeaseKind.PAGES, LeaseKind.AUX):
            handle = self._handles.get(out.session)
            if handle is not None:
                self.give_back(handle.lent(out.lease.kind, out.lease.no), out)
        else:
            out.lease.step(LeaseEvent.PICKED)

    def dropped(self, key: SessionKey) -> None:
        if self.send_slots is not None and key.role == "sender":
            self.send_slots.close(key)
        self._handles.pop(key, None)
        self._tell()

    def quarantined(self) -> None:
        """Memory waits for a fence. Past the budget this process takes no new rooms: it may never get it back."""
        waiting, budget = self._shell.core.gauges()["quarantined"], self.config.limits.quarantine
        if budget and waiting > budget and not self._shell.core.draining:
            log.error("%d leases are quarantined, above the budget of %d: draining", waiting, budget)
            self._shell.core.drain(round(self.config.durations.drain * 1000))

    def link_closed(self) -> None:
        self._tell()

    def died(self, error: str) -> None:
        self.unhealthy = error
        failure = Failure(Cause.PROCESS_UNHEALTHY, (("error", error),))
        for handle in list(self._handles.values()):
            if handle.poll() not in TERMINAL:
                handle.moved(KVPoll.Failed, failure)
        self._tell()

    def _tell(self) -> None:
        with self._news:
            self._told += 1
            self._news.notify_all()

    def _record_of(self, key: SessionKey) -> AttemptRecord | None:
        session = self._shell.core.session(key)
        return None if session is None else session.rec


#: How long close() waits for the fences of its links, in seconds.
_GOODBYE_S = 2.0


def _per_link(gauge: str) -> bool:
    """Gauges that stay while peers are connected, whether or not a room is live."""
    return gauge.endswith(".peers")


def _check_fences(transports: Sequence[Transport], quarantine: int) -> None:
    """A push transport without any fence can lose memory for good: refused, unless a budget says how much."""
    for transport in transports:
        can = transport.capabilities
        if can.direction is Direction.PUSH and not (can.fence_peer or can.fence_operation) and not quarantine:
            raise LocalProtocolError(
                f"transports: {can.name} pushes and has no fence; set limits.quarantine to the leases it may keep",
                field="quarantine",
            )


def _missing(part: int, expected: int, got: int, session: ReceiverSession) -> None:
    session.data_missing(part, expected, got)


def _not_ours(expected: str, got: str, session: ReceiverSession) -> None:
    session.aux_mismatch(expected, got)
