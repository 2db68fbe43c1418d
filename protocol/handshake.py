"""The handshake: two registrations compared field by field, each field equal, converted (how) or refused (why).

1. All that can be known before the first request is decided here: a pair that passes never fails later because of what
   its ends are (F08, F09). Everything decided stands in :mod:`kvpoll.spec.support`; this file only asks. A pair is one
   prefill rank and one decode rank: ranks that are no partners are refused too.
2. Both ends come to the same refusals: the verdict looks at sender and receiver, not at ours and theirs.
3. Nothing that came from the wire raises. A refusal names its fields; there is no hash over everything (F16).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from msgspec import UNSET

from kvpoll.spec.support import CAPABILITIES, PLANS, RESENDS, SUPPORT, Kind, Outcome, Relation, decide
from kvpoll.spec.wire import AuxField, AuxSchema, Axis, Dcp, Deadlines, Registration, TransportOffer

from .one_end import faults, value_of
from .topology import attention_of, relate

__all__ = ["Finding", "Mismatch", "Role", "Verdict", "compare"]

Role: TypeAlias = Literal["prefill", "decode"]
#: Names of descriptor fields that make two offers of one transport impossible: (ours, theirs). Must be symmetric, and
#: must not raise, whatever a descriptor holds.
Mismatch: TypeAlias = Callable[[TransportOffer, TransportOffer], Sequence[str]]

_RULED = ("pairing", "silence", "lost", "conclude")


@dataclass(frozen=True, slots=True)
class Finding:
    """One field of the pair. ``ours`` and ``theirs`` are for people: short, and cut off if need be. ``plan``: of a
    conversion, a name in :data:`~kvpoll.spec.support.PLANS`. ``advice``: of a refusal, what to change."""

    field: str
    outcome: Outcome
    ours: str
    theirs: str
    why: str
    plan: str = ""
    advice: str = ""

    def sentence(self) -> str:
        how = f"{self.outcome.value} by {self.plan}" if self.plan else self.outcome.value
        more = f"; {self.advice}" if self.advice else ""
        return f"{self.field}: {how} (ours {self.ours}, theirs {self.theirs}): {self.why}{more}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What two registrations make of each other.

    ``version``: the highest that both speak. ``transport``: what the receiver picks, in its order of preference.
    ``capabilities``, ``aux_fields``: what both have. ``max_parts``: the smaller limit. ``room_reuse``: whether a room
    id may be used again while an older attempt of it may be known: only if requests can be told apart by content.
    ``plans``: the conversions over rows and routes that this pair uses, by name; terms (a smaller limit) are findings only.
    ``kv_heads``: of the whole model, as the plans over heads want it; ``None`` for latent rows.
    """

    findings: tuple[Finding, ...]
    version: tuple[int, int] | None
    transport: str | None
    capabilities: tuple[str, ...]
    aux_fields: tuple[str, ...]
    max_parts: int
    room_reuse: bool
    plans: tuple[str, ...] = ()
    kv_heads: int | None = None

    @property
    def ok(self) -> bool:
        return not self.refused

    @property
    def refused(self) -> tuple[str, ...]:
        """Names of the fields that cannot work, each once."""
        return tuple(dict.fromkeys(f.field for f in self.findings if f.outcome is Outcome.REFUSED))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every refusal and conversion, in words."""
        return tuple(f.sentence() for f in self.findings if f.outcome is not Outcome.EQUAL)

    def refusal(self) -> tuple[tuple[str, ...], str]:
        """``fields`` and ``text`` of a REFUSAL, cut to its limits. The fields are dotted names."""
        text = "; ".join(f.sentence() for f in self.findings if f.outcome is Outcome.REFUSED)
        return tuple(name[:64] for name in self.refused[:64]), text[:512]


def compare(
    ours: Registration,
    theirs: Registration,
    *,
    role: Role,
    preference: Sequence[str] = (),
    mismatch: Mismatch | None = None,
    resends: int = RESENDS,
) -> Verdict:
    """Compare two registrations. ``role`` is ours.

    ``preference``: names of transports, best first; those not named follow in the order in which the receiver offers
    them (so a sender that passes nothing foresees the receiver's choice). ``mismatch`` compares two offers of one
    transport; without it, equal names fit. ``resends``: re-sends in a row that a deadline must survive.
    """
    pair = _Pair(ours, theirs, role)
    version = _version(pair)
    transport = _transport(pair, preference, mismatch)
    aux_fields = _aux(pair)
    _role(pair)
    _deadlines(pair, resends)
    _capabilities(pair)
    for field in SUPPORT:
        if field not in pair.done and field != "aux.field":
            pair.compare(field)
    for end in (ours, theirs):
        pair.findings += _impossible(end, end is ours)
    order = {field: i for i, field in enumerate(SUPPORT)}
    findings = sorted(pair.findings, key=lambda f: order.get(f.field, len(order)))
    used = {f.plan for f in findings if f.plan}
    return Verdict(
        findings=tuple(findings),
        version=version,
        transport=transport,
        capabilities=tuple(sorted(set(ours.capabilities) & set(theirs.capabilities))),
        aux_fields=aux_fields,
        max_parts=min(ours.max_parts, theirs.max_parts),
        room_reuse=ours.digests and theirs.digests,
        plans=tuple(name for name, plan in PLANS.items() if name in used and plan.kind is not Kind.TERMS),
        kv_heads=pair.topology.kv_heads,
    )


class _Pair:
    """Two registrations, and what was found so far."""

    def __init__(self, ours: Registration, theirs: Registration, role: Role) -> None:
        self.ours, self.theirs = ours, theirs
        self.we_send = role == "prefill"
        self.sender, self.receiver = (ours, theirs) if self.we_send else (theirs, ours)
        self.attention = attention_of(self.sender)
        self.topology = relate(self.sender, self.receiver)
        self.findings: list[Finding] = []
        self.done: set[str] = set()

    def add(
        self, field: str, relation: Relation, ours: object, theirs: object, more: str = "", name: str | None = None
    ) -> None:
        """Look the relation up and note the outcome. ``name``: of the finding, if ``field`` is a family."""
        entry = decide(field, relation, self.attention)
        why = f"{entry.why} ({more})" if more else entry.why
        finding = Finding(name or field, entry.outcome, _show(ours), _show(theirs), why, entry.plan, entry.advice)
        self.findings.append(finding)
        self.done.add(field)

    def compare(self, field: str) -> None:
        """A field of the topology, or one that is compared by value alone."""
        relation = self.topology.relations.get(field)
        if relation is None:
            sender, receiver = _effective(self.sender, field), _effective(self.receiver, field)
            if Relation.SENDER_ONLY in SUPPORT[field]:
                relation = _stated(sender, receiver)
            else:
                relation = Relation.EQUAL if sender == receiver else Relation.DIFFERENT
        spread = self.topology.relations["dcp"] is Relation.ONE_TO_MANY
        if field == "speculative" and relation is Relation.EQUAL and spread:
            relation = Relation.REPLICATED
        self.add(field, relation, _value(self.ours, field), _value(self.theirs, field))


# One function per field that is more than its value -------------------------------------------------------------------
def _version(pair: _Pair) -> tuple[int, int] | None:
    ours, theirs = pair.ours, pair.theirs
    low, high = max(ours.versions.low, theirs.versions.low), min(ours.versions.high, theirs.versions.high)
    common = high if low <= high else None
    span = [" to ".join(".".join(map(str, version)) for version in end.versions) for end in (ours, theirs)]
    pair.add("version", Relation.HOLDS if common else Relation.BROKEN, *span)
    return common


def _role(pair: _Pair) -> None:
    fits = pair.sender.role == "prefill" and pair.receiver.role == "decode"
    pair.add("role", Relation.HOLDS if fits else Relation.BROKEN, pair.ours.role, pair.theirs.role)


def _capabilities(pair: _Pair) -> None:
    """Those that the matrix decides about are fields of their own."""
    ours, theirs = (set(end.capabilities) - set(CAPABILITIES) for end in (pair.ours, pair.theirs))
    relation = Relation.EQUAL if ours == theirs else Relation.DIFFERENT
    pair.add("capabilities", relation, pair.ours.capabilities, pair.theirs.capabilities)


def _transport(pair: _Pair, preference: Sequence[str], mismatch: Mismatch | None) -> str | None:
    mine, yours = ({o.name: o for o in end.transports} for end in (pair.ours, pair.theirs))
    order = dict.fromkeys([*preference, *(o.name for o in pair.receiver.transports)])
    chosen, misfits = None, []
    for name in order:
        if name not in mine or name not in yours:
            continue
        wrong = list(mismatch(mine[name], yours[name])) if mismatch is not None else []
        if not wrong:
            chosen = name
            break
        misfits.append(f"{name}: {', '.join(wrong)} differ")
    relation = Relation.HOLDS if chosen is not None else Relation.BROKEN
    ours, theirs = ([o.name for o in end.transports] for end in (pair.ours, pair.theirs))
    pair.add("transports", relation, ours, theirs, "; ".join(misfits)[:300] if chosen is None else f"{chosen} is used")
    return chosen


def _aux(pair: _Pair) -> tuple[str, ...]:
    """By name: the order of the two schemas means nothing."""
    sender, receiver = _effective(pair.sender, "aux"), _effective(pair.receiver, "aux")
    pair.add("aux", _brought(pair, _stated(sender, receiver)), _names(pair.ours.aux), _names(pair.theirs.aux))
    if not isinstance(sender, AuxSchema) or not isinstance(receiver, AuxSchema):
        return ()
    sends = {f.name: f for f in sender.fields}
    takes = {f.name: f for f in receiver.fields}
    for name in dict.fromkeys(f.name for f in (*receiver.fields, *sender.fields)):
        one, other = sends.get(name), takes.get(name)
        ours, theirs = (one, other) if pair.we_send else (other, one)
        relation = _brought(pair, _stated(UNSET if one is None else one, UNSET if other is None else other))
        pair.add("aux.field", relation, _buffer(ours), _buffer(theirs), name=f"aux.{name}")
    return tuple(f.name for f in receiver.fields if f.name in sends)


def _brought(pair: _Pair, relation: Relation) -> Relation:
    """A decode rank that meets several prefill ranks gets its aux data from one of them."""
    missing = relation is Relation.RECEIVER_ONLY and not pair.topology.brings_aux
    return Relation.ELSEWHERE if missing else relation


def _deadlines(pair: _Pair, resends: int) -> None:
    """The inequalities of the deadlines. The slower re-send interval counts, since an end waits for the other's."""
    sender, receiver = pair.sender.deadlines, pair.receiver.deadlines
    ours, theirs = pair.ours.deadlines, pair.theirs.deadlines
    need = receiver.total + receiver.conclude
    outlives = Relation.HOLDS if sender.total >= need else Relation.BROKEN
    pair.add("deadlines.total", outlives, ours.total, theirs.total, more=f"at least {need} ms at the sender")
    running = Relation.HOLDS if min(ours.resend, theirs.resend) > 0 else Relation.BROKEN
    pair.add("deadlines.resend", running, ours.resend, theirs.resend)
    need = (resends + 1) * max(ours.resend, theirs.resend)
    for name in _RULED:
        mine, yours = _span(ours, name), _span(theirs, name)
        relation = Relation.HOLDS if min(mine, yours) >= need else Relation.BROKEN
        pair.add(f"deadlines.{name}", relation, mine, yours, more=f"at least {need} ms")


def _span(deadlines: Deadlines, name: str) -> int:
    return {
        "pairing": deadlines.pairing,
        "silence": deadlines.silence,
        "lost": deadlines.lost,
        "conclude": deadlines.conclude,
    }[name]


def _impossible(end: Registration, is_ours: bool) -> Iterator[Finding]:
    for fault in faults(end):
        ours, theirs = (_show(fault.value), "any") if is_ours else ("any", _show(fault.value))
        yield Finding(fault.field, Outcome.REFUSED, ours, theirs, fault.why, advice=fault.advice)


# Relations ------------------------------------------------------------------------------------------------------------
def _effective(end: Registration, field: str) -> object:
    """The value of a field; a group that asks for nothing (dcp of size 1, an empty aux schema) is the same as none."""
    value = value_of(end, field)
    nothing = (isinstance(value, Dcp) and value.size <= 1) or (isinstance(value, AuxSchema) and not value.names)
    return UNSET if nothing else value


def _stated(sender: object, receiver: object) -> Relation:
    """Empty text, false and absent are all "not stated"."""
    one, other = (not (v is UNSET or v == "" or v is False) for v in (sender, receiver))
    if one and other:
        return Relation.EQUAL if sender == receiver else Relation.DIFFERENT
    if not one and not other:
        return Relation.NEITHER
    return Relation.SENDER_ONLY if one else Relation.RECEIVER_ONLY


# Words ----------------------------------------------------------------------------------------------------------------
def _names(aux: object) -> list[str]:
    return list(aux.names) if isinstance(aux, AuxSchema) else []


def _buffer(field: AuxField | None) -> str:
    return "absent" if field is None else f"{field.dtype}{list(field.shape)}"


def _value(end: Registration, field: str) -> object:
    """A value as people know it: a rank with its size, heads with TP size, a capability as stated or not."""
    axis, _, last = field.partition(".")
    if axis == "capabilities" and last:
        return "stated" if last in end.capabilities else "not stated"
    if field == "heads.kv":
        return f"{end.heads.kv} at TP {end.tp.size}"
    row = getattr(end, axis, None)
    return f"{row.rank} of {row.size}" if last == "rank" and isinstance(row, Axis) else value_of(end, field)


def _show(value: object) -> str:
    text = "absent" if value is UNSET else value if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
