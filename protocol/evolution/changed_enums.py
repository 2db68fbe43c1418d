"""Enums, old and new: values that went, came or got another number, and numbers that mean another state now."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kvpoll.spec.schema import Enumerated, EnumSpec, ListOf, MapOf, Snapshot, TupleOf, Type, UnionOf

from .cause import Cause, Try
from .findings import NEW_READS_OLD, OLD_READS_NEW, Direction, Witness
from .samples import Focus
from .trial import Trial

__all__ = ["enum_causes"]


def enum_causes(old: Snapshot, new: Snapshot) -> Iterator[Cause]:
    theirs = {e.name: e for e in new.enums}
    for enum in old.enums:
        other = theirs.get(enum.name)  # of one that is gone the fields have another type now, and that is the finding
        if other is None:
            continue
        if other.values != enum.values or other.machine != enum.machine or other.reserved != enum.reserved:
            yield from _changed(old, new, enum, other)


def _changed(old: Snapshot, new: Snapshot, a: EnumSpec, b: EnumSpec) -> Iterator[Cause]:
    closed_before, closed_now = _closed(old, a.name), _closed(new, b.name)
    renumbered = {n: (a.values[n], b.values[n]) for n in a.values if n in b.values and a.values[n] != b.values[n]}
    numbers = {number: name for name, number in b.values.items()}
    renamed = {
        n: numbers[number] for n, number in a.values.items()
        if n not in b.values and number in numbers and numbers[number] not in a.values
    }  # fmt: skip
    if renumbered or (renamed and a.machine):
        rule = "STATE_MEANING_CHANGED" if a.machine else "ENUM_VALUE_RENUMBERED"
        says = ", ".join(
            [*(f"{n} {x}->{y}" for n, (x, y) in renumbered.items()), *(f"{n} is {m} now" for n, m in renamed.items())]
        )
        back = {b.values[n] for n in renumbered} | {b.values[m] for m in renamed.values()}
        forth = {a.values[n] for n in (*renumbered, *renamed)}
        yield _cause(rule, f"{a.name}: {says}", a, b, {NEW_READS_OLD: _tries(a, forth), OLD_READS_NEW: _tries(b, back)})
    elif renamed:
        says = ", ".join(f"{n} is called {m} now" for n, m in renamed.items())
        proofs = _given_again(old, new, a, b, {a.values[n] for n in renamed})
        yield _cause("ENUM_VALUE_RENAMED", f"{a.name}: {says}", a, b, {}, proofs)
    gone = [n for n in a.values if n not in b.values and n not in renamed]
    unreserved = [n for n in gone if a.values[n] not in b.reserved.tags]
    if gone and (unreserved or closed_now):
        says = f"{a.name}: {', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone, an old peer still sends it"
        tries: dict[Direction, list[Try]] = {NEW_READS_OLD: _tries(a, {a.values[n] for n in gone})}
        proofs = () if closed_now else _given_again(old, new, a, b, {a.values[n] for n in unreserved})
        yield _cause("ENUM_VALUE_DELETED", says, a, b, tries, proofs)
    come = [n for n in b.values if n not in a.values and n not in renamed.values()]
    reused = [n for n in come if b.values[n] in a.reserved.tags]
    if reused:
        says = f"{a.name}: {', '.join(f'{n} has number {b.values[n]}' for n in reused)}, which was reserved"
        again = {b.values[n] for n in reused}
        yield _cause(
            "ENUM_NUMBER_REUSED", says, a, b, {OLD_READS_NEW: _tries(b, again)}, _given_again(old, new, a, b, again)
        )
    fresh = [n for n in come if n not in reused]
    if fresh and closed_before:
        says = f"{a.name}: {', '.join(fresh)} {'is' if len(fresh) == 1 else 'are'} new, and an old reader knows no such number"
        yield _cause("ENUM_VALUE_ADDED_CLOSED", says, a, b, {OLD_READS_NEW: _tries(b, {b.values[n] for n in fresh})})
    dropped = [t for t in a.reserved.tags if t not in b.reserved.tags and t not in b.values.values()]
    if dropped:
        says = f"{a.name}: {', '.join(map(str, dropped))} {'is' if len(dropped) == 1 else 'are'} not reserved any more"
        yield _cause("ENUM_RESERVED_REMOVED", says, a, b, {}, _given_again(old, new, a, b, set(dropped)))


def _tries(enum: EnumSpec, numbers: set[int]) -> list[Try]:
    focuses: list[Focus] = [{(f"only {enum.name}", "value"): number} for number in sorted(numbers)]
    return [Try(enum.name, lambda: focuses)]


def _given_again(old: Snapshot, new: Snapshot, a: EnumSpec, b: EnumSpec, numbers: set[int]) -> tuple[Witness, ...]:
    """What a writer from before a deletion sends, once the number means something else."""
    known = {number: name for name, number in a.values.items()}
    before = {known.get(number, f"formerly {number}"): number for number in numbers}
    after = {name: number for name, number in b.values.items() if number not in numbers}
    taken = {number: name for name, number in b.values.items()}
    again = {taken.get(number, f"next {number}"): number for number in numbers}
    older = _with_values(old, a.name, {**a.values, **before})
    newer = _with_values(new, b.name, {**after, **again})
    focuses: list[Focus] = [{(f"only {a.name}", "value"): number} for number in sorted(numbers)]
    witness = Trial(older, newer).prove(NEW_READS_OLD, a.name, focuses)
    return () if witness is None else (replace(witness, kind="if the number is given again"),)


def _with_values(snapshot: Snapshot, enum: str, values: dict[str, int]) -> Snapshot:
    return replace(snapshot, enums=tuple(replace(e, values=values) if e.name == enum else e for e in snapshot.enums))


def _cause(
    rule: str,
    says: str,
    a: EnumSpec,
    b: EnumSpec,
    tries: dict[Direction, list[Try]],
    proofs: tuple[Witness, ...] = (),
) -> Cause:
    return Cause(rule, says, f"enum {a.name}", f"enum {b.name}", spec=a.name, tries=tries, proofs=proofs)


def _closed(snapshot: Snapshot, enum: str) -> bool:
    """Does a field of this enum refuse numbers it does not know? One that is used nowhere counts as closed."""
    uses = list(_uses(snapshot, enum))
    return not uses or any(not use.open for use in uses)


def _uses(snapshot: Snapshot, enum: str) -> Iterator[Enumerated]:
    for spec in (*snapshot.messages, *snapshot.groups):
        for field in spec.fields:
            yield from (use for use in _within(field.type) if use.enum == enum)


def _within(kind: Type) -> Iterator[Enumerated]:
    match kind:
        case Enumerated():
            yield kind
        case ListOf(items=inner):
            yield from _within(inner)
        case MapOf(keys=keys, values=held):
            yield from _within(keys)
            yield from _within(held)
        case TupleOf(items=many) | UnionOf(options=many):
            for inner in many:
                yield from _within(inner)
