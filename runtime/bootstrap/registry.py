"""Who holds which rank of which engine: the pure object behind the bootstrap service.

Rules of this file:

1. A live entry is changed only by its holder (invariant RegistryIsFunction, case I01). Whoever else claims it is told
   the holder and the remaining lease, and nothing changes.
2. A call that is refused changes nothing; each call first drops what has expired at ``now``.
3. Ready means that every rank of the engine is live. Nothing is counted, so no repetition can make an engine look
   complete (quirk Q35: a counter of PUTs did).
4. No clock, no I/O, no threads, no HTTP. ``now`` is seconds on any clock that does not go back.

A lease belongs to an instance and covers all its ranks: one heartbeat per process, however many ranks it hosts. It is
live while ``now < expiry`` and gone at the very tick of expiry.

Ranks of released engines (the H5 dialect) come without token and never renew. Their holder is their address, and their
lease has its own length, ``legacy_ttl``: by default it does not end, because an engine that registers once and never
again would otherwise vanish while it works. Where such engines restart behind a registry that survives them, set it.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from .models import TOPOLOGY_FIELDS, EngineView, Problem, RankEntry, RankFilter, RankView

__all__ = ["Conflict", "Full", "Held", "Key", "Limits", "Registry", "Unknown"]

_MISSING_SHOWN = 8
_ID_FIELDS = ("engine_id", "instance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the tables (entries) and lengths of the leases (seconds). Lengths of strings: see ``models``."""

    max_ranks: int = 4096
    max_notes: int = 65536
    ttl: float = 15.0
    note_ttl: float = 120.0  #: the dialect's own expiry
    legacy_ttl: float | None = None  #: see the module text

    def __post_init__(self) -> None:
        for name in ("max_ranks", "max_notes", "ttl", "note_ttl"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")
        if self.legacy_ttl is not None and not self.legacy_ttl > 0:
            raise ValueError(f"legacy_ttl must be above 0 or None, got {self.legacy_ttl!r}")


class Key(NamedTuple):
    """The place that one live entry occupies."""

    bootstrap: str
    role: str
    dp: int
    cp: int
    tp: int
    pp: int


@dataclass(frozen=True, slots=True)
class Held:
    """Yes. The lease lasts ``ttl`` seconds from now (None: it does not end by itself) and covers ``ranks`` ranks."""

    token: str
    ttl: float | None
    ranks: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """No, ``holder`` lives and says otherwise about ``field``; its lease ends in ``remaining`` s (None: never)."""

    field: str
    expected: str
    got: str
    holder: str
    remaining: float | None

    def problem(self) -> Problem:
        left = "does not end by itself" if self.remaining is None else f"ends in {self.remaining:.3f} s"
        return Problem(
            kind="conflict",
            sentence=f"{self.field}: {self.holder} holds {self.expected}, got {self.got}; its lease {left}",
            field=self.field,
            expected=self.expected,
            got=self.got,
            holder=self.holder,
            remaining_s=self.remaining,
        )


@dataclass(frozen=True, slots=True)
class Full:
    """No, ``table`` has ``limit`` entries at most and ``needed`` would be too many."""

    table: str
    limit: int
    needed: int

    def problem(self) -> Problem:
        sentence = f"the table of {self.table} holds {self.limit} at most, this needs {self.needed}"
        return Problem(kind="refused", sentence=sentence, field=self.table, expected=f"at most {self.limit}")


@dataclass(frozen=True, slots=True)
class Unknown:
    """No live instance of that name: it never registered, it expired, or the registry was restarted."""

    instance: str

    def problem(self) -> Problem:
        return Problem(kind="unknown", sentence=f"no live instance {self.instance}: register it", field="instance")


@dataclass(slots=True)
class _Holder:
    token: str
    ttl: float | None
    queue: OrderedDict[str, None]  #: the one in which this holder waits for its expiry
    expiry: float | None = None
    keys: dict[Key, None] = field(default_factory=dict)


class _EngineKey(NamedTuple):
    bootstrap: str
    role: str
    engine_id: str


@dataclass(frozen=True, slots=True)
class _Note:
    dp_rank: int
    expiry: float
    owner: _EngineKey | None  #: None: it came by the dialect, which does not say who speaks


class Registry:
    """All registrations and notes of one bootstrap service. See the module text for the rules."""

    def __init__(self, limits: Limits | None = None, *, new_token: Callable[[], str] | None = None) -> None:
        self.limits = limits if limits is not None else Limits()
        self._new_token = new_token if new_token is not None else lambda: secrets.token_urlsafe(32)
        self._entries: dict[Key, RankEntry] = {}
        self._engines: dict[_EngineKey, dict[Key, None]] = {}
        self._holders: dict[str, _Holder] = {}
        # Instances in the order in which they expire, one queue per length of lease: all leases of one queue are
        # equally long, so renewing means moving to the end, and expiring means looking at the front.
        self._native: OrderedDict[str, None] = OrderedDict()
        self._legacy: OrderedDict[str, None] = OrderedDict()
        self._notes: OrderedDict[tuple[str, int], _Note] = OrderedDict()
        self._counters = dict.fromkeys(
            ("registered", "conflicts", "table_full", "expired_instances", "expired_notes"), 0
        )

    def register(self, entry: RankEntry, now: float, *, token: str | None = None) -> Held | Conflict | Full:
        """Claim the place of ``entry``, or renew it. An instance that is known must bring its token."""
        return self._register(entry, now, token, self.limits.ttl, self._native)

    def register_by_address(self, entry: RankEntry, now: float) -> Held | Conflict | Full:
        """The dialect's way: ``entry.instance`` is made of the address, and knowing it is all the proof there is."""
        return self._register(entry, now, entry.instance, self.limits.legacy_ttl, self._legacy)

    def heartbeat(self, instance: str, token: str, now: float) -> Held | Conflict | Unknown:
        """Renew the lease of all ranks of ``instance``."""
        holder = self._claim(instance, token, now)
        return self._renew(instance, holder, now) if isinstance(holder, _Holder) else holder

    def unregister(self, instance: str, token: str, now: float) -> Held | Conflict | Unknown:
        """Drop all ranks of ``instance``. ``Held.ranks`` tells how many there were."""
        holder = self._claim(instance, token, now)
        if not isinstance(holder, _Holder):
            return holder
        self._drop(instance)
        return Held(holder.token, 0.0, len(holder.keys))

    def lookup(self, now: float, where: RankFilter | None = None) -> list[RankView]:
        """Live ranks that match ``where``, in the order of their keys."""
        self.expire(now)
        wanted = where.model_dump(exclude_none=True) if where is not None else {}
        return [
            RankView.model_construct(**entry.__dict__, remaining_s=self._remaining(entry.instance, now))
            for key, entry in sorted(self._entries.items(), key=lambda item: item[0])
            if all(getattr(entry if name in _ID_FIELDS else key, name) == value for name, value in wanted.items())
        ]

    def engines(self, now: float, *, bootstrap: str | None = None) -> list[EngineView]:
        """Topology and readiness of every engine that has at least one live rank."""
        self.expire(now)
        return [
            self._engine_view(engine, keys)
            for engine, keys in sorted(self._engines.items(), key=lambda item: item[0])
            if bootstrap is None or engine.bootstrap == bootstrap
        ]

    def ready_rank(self, now: float, key: Key) -> RankEntry | None:
        """The rank at ``key`` if its engine is ready. Every engine has a rank at the origin (all coordinates 0), so
        the origin's holder is the only engine of a namespace that can be ready."""
        self.expire(now)
        origin = self._entries.get(key._replace(dp=0, cp=0, tp=0, pp=0))
        entry = self._entries.get(key)
        if origin is None or entry is None or entry.engine_id != origin.engine_id:
            return None
        return entry if self._is_ready(self._engines[_engine_key(origin)]) else None

    def note(self, room: int, dp_rank: int, now: float, *, bootstrap: str = "") -> Conflict | Full | None:
        """The dialect's way to say which dp rank serves a room. The last word counts: routers use room ids again. A
        note that an engine signed (:meth:`note_by`) is not replaced."""
        return self._note(bootstrap, room, dp_rank, now, None)

    def note_by(
        self, instance: str, token: str, room: int, dp_rank: int, now: float, *, bootstrap: str = ""
    ) -> Conflict | Full | Unknown | None:
        """The same, signed by a live instance that has a rank in ``bootstrap``; while its engine
        lives, only that engine may replace it."""
        holder = self._claim(instance, token, now)
        if not isinstance(holder, _Holder):
            return holder
        key = next((key for key in holder.keys if key.bootstrap == bootstrap), None)
        if key is None:
            return Unknown(instance)
        entry = self._entries[key]
        if dp_rank >= entry.dp_size:
            return self._conflict("dp_rank", f"below {entry.dp_size}", str(dp_rank), instance, now)
        return self._note(bootstrap, room, dp_rank, now, _engine_key(entry))

    def notes(self, rooms: Iterable[int], now: float, *, bootstrap: str = "") -> dict[int, int]:
        """room -> dp rank, for those of ``rooms`` that have a note."""
        self.expire(now)
        found = ((room, self._notes.get((bootstrap, room))) for room in rooms)
        return {room: note.dp_rank for room, note in found if note is not None}

    def expire(self, now: float) -> None:
        """Drop everything whose time is over. Every other call does this first; costs nothing when nothing is due."""
        for queue in (self._native, self._legacy):
            while queue and _is_over(self._holders[first := next(iter(queue))].expiry, now):
                self._drop(first)
                self._counters["expired_instances"] += 1
        while self._notes and _is_over(next(iter(self._notes.values())).expiry, now):
            self._notes.popitem(last=False)
            self._counters["expired_notes"] += 1

    def gauges(self, now: float) -> dict[str, int]:
        """Sizes of all tables; all zero when nobody is registered and no note is young."""
        self.expire(now)
        return {
            "ranks": len(self._entries),
            "instances": len(self._holders),
            "engines": len(self._engines),
            "ready_engines": sum(self._is_ready(keys) for keys in self._engines.values()),
            "notes": len(self._notes),
        }

    def counters(self) -> dict[str, int]:
        """Events since the start; they only grow."""
        return dict(self._counters)

    def _register(
        self, entry: RankEntry, now: float, token: str | None, ttl: float | None, queue: OrderedDict[str, None]
    ) -> Held | Conflict | Full:
        self.expire(now)
        key, engine = _key(entry), _engine_key(entry)
        holder = self._holders.get(entry.instance)
        if holder is not None and not _same(holder.token, token):
            return self._conflict("token", "the token of this instance", "another or none", entry.instance, now)
        current = self._entries.get(key)
        if current is not None and current.instance != entry.instance:
            return self._conflict("rank", f"instance {current.instance}", entry.instance, current.instance, now)
        witness = next((self._entries[other] for other in self._engines.get(engine, ()) if other != key), None)
        for name in TOPOLOGY_FIELDS if witness is not None else ():
            theirs, ours = getattr(witness, name), getattr(entry, name)
            if witness is not None and theirs != ours:
                return self._conflict(name, str(theirs), str(ours), witness.instance, now)
        needed = max(entry.expected_ranks, len(self._entries) + (current is None))
        if needed > self.limits.max_ranks:
            self._counters["table_full"] += 1
            return Full("ranks", self.limits.max_ranks, needed)

        if holder is None:
            holder = self._holders[entry.instance] = _Holder(token or self._new_token(), ttl, queue)
        if current is None:
            self._counters["registered"] += 1
        else:
            self._leave_engine(_engine_key(current), key)
        holder.keys[key] = None
        self._entries[key] = entry
        self._engines.setdefault(engine, {})[key] = None
        return self._renew(entry.instance, holder, now)

    def _renew(self, instance: str, holder: _Holder, now: float) -> Held:
        if holder.ttl is not None:
            holder.expiry = now + holder.ttl
            holder.queue[instance] = None
            holder.queue.move_to_end(instance)
        return Held(holder.token, holder.ttl, len(holder.keys))

    def _claim(self, instance: str, token: str, now: float) -> _Holder | Conflict | Unknown:
        self.expire(now)
        holder = self._holders.get(instance)
        if holder is None:
            return Unknown(instance)
        if not _same(holder.token, token):
            return self._conflict("token", "the token of this instance", "another", instance, now)
        return holder

    def _drop(self, instance: str) -> None:
        holder = self._holders.pop(instance)
        holder.queue.pop(instance, None)
        for key in holder.keys:
            self._leave_engine(_engine_key(self._entries.pop(key)), key)

    def _leave_engine(self, engine: _EngineKey, key: Key) -> None:
        del self._engines[engine][key]
        if not self._engines[engine]:
            del self._engines[engine]

    def _note(
        self, bootstrap: str, room: int, dp_rank: int, now: float, owner: _EngineKey | None
    ) -> Conflict | Full | None:
        self.expire(now)
        place = (bootstrap, room)
        old = self._notes.get(place)
        if old is not None and old.owner is not None and old.owner != owner and old.owner in self._engines:
            self._counters["conflicts"] += 1
            return Conflict("room", f"dp {old.dp_rank}", f"dp {dp_rank}", old.owner.engine_id, old.expiry - now)
        if old is None and len(self._notes) >= self.limits.max_notes:
            self._counters["table_full"] += 1
            return Full("notes", self.limits.max_notes, len(self._notes) + 1)
        self._notes[place] = _Note(dp_rank, now + self.limits.note_ttl, owner)
        self._notes.move_to_end(place)
        return None

    def _engine_view(self, engine: _EngineKey, keys: dict[Key, None]) -> EngineView:
        entry = self._entries[next(iter(keys))]
        missing = (f"dp{k.dp} cp{k.cp} tp{k.tp} pp{k.pp}" for k in _places(entry) if k not in keys)
        return EngineView.model_validate(
            {name: getattr(entry, name) for name in TOPOLOGY_FIELDS}
            | engine._asdict()
            | {
                "live_ranks": len(keys),
                "needed_ranks": entry.expected_ranks,
                "ready": self._is_ready(keys),
                "missing": tuple(islice(missing, _MISSING_SHOWN)),
            }
        )

    def _is_ready(self, keys: dict[Key, None]) -> bool:
        # A set of distinct places, each inside the sizes that all of them agree on, is complete when it is that big.
        return len(keys) == self._entries[next(iter(keys))].expected_ranks

    def _remaining(self, instance: str, now: float) -> float | None:
        expiry = self._holders[instance].expiry
        return None if expiry is None else expiry - now

    def _conflict(self, name: str, expected: str, got: str, holder: str, now: float) -> Conflict:
        self._counters["conflicts"] += 1
        return Conflict(name, expected, got, holder, self._remaining(holder, now))


def _key(entry: RankEntry) -> Key:
    return Key(entry.bootstrap, entry.role, entry.dp_rank, entry.attn_cp_rank, entry.attn_tp_rank, entry.pp_rank)


def _engine_key(entry: RankEntry) -> _EngineKey:
    return _EngineKey(entry.bootstrap, entry.role, entry.engine_id)


def _places(entry: RankEntry) -> Iterator[Key]:
    for dp in range(entry.dp_size):
        for cp in range(entry.attn_cp_size):
            for tp in range(entry.attn_tp_size):
                for pp in range(entry.pp_size):
                    yield Key(entry.bootstrap, entry.role, dp, cp, tp, pp)


def _same(ours: str, theirs: str | None) -> bool:
    return theirs is not None and hmac.compare_digest(ours.encode(), theirs.encode())


def _is_over(expiry: float | None, now: float) -> bool:
    return expiry is not None and now >= expiry
