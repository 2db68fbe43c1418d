"""Fields of one message or group, old and new: moved, renamed, gone, come, and what became of those that stayed.

A field is known by its name and by its tag. While both agree it is the same field; when they part, the question is what
happened, and one thing that happened is one cause: an inserted field that pushes five others up is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from kvpoll.spec.schema import FieldSpec, Integer, MessageSpec, Snapshot

from .cause import Cause, Try
from .dialect import ABSENT, Dialect
from .findings import NEW_READS_OLD, OLD_READS_NEW, Direction, Witness
from .samples import Focus, variants
from .trial import Judge, Trial, lost, stranger
from .types import relate, said

__all__ = ["field_causes", "place"]

#: A field that was deleted before the older of two snapshots: nobody knows its type any more.
_FORMER = "formerly"
_SOME = Integer(min=0, max=2**63 - 1)  #: of a field that nobody has declared yet


def place(spec: MessageSpec, field: FieldSpec) -> str:
    return f"{spec.name}.{field.name} ({'slot' if spec.framing == 'slots' else 'tag'} {field.tag})"


def field_causes(old: Snapshot, new: Snapshot, a: MessageSpec, b: MessageSpec) -> Iterator[Cause]:
    """Every cause within one message or group."""
    return _Fields(old, new, a, b).causes()


class _Fields:
    def __init__(self, old: Snapshot, new: Snapshot, a: MessageSpec, b: MessageSpec) -> None:
        self.old, self.new, self.a, self.b = old, new, a, b
        self.ours, self.theirs = {f.name: f for f in a.fields}, {f.name: f for f in b.fields}
        self.our_tags, self.their_tags = {f.tag: f for f in a.fields}, {f.tag: f for f in b.fields}
        self.explained: set[str] = set()  # names of fields that a finding speaks of already

    def causes(self) -> Iterator[Cause]:
        yield from self._moved()
        yield from self._renamed()
        for name, field in self.ours.items():
            if name not in self.theirs and name not in self.explained:
                yield from self._gone(field)
        for name, field in self.theirs.items():
            if name not in self.ours and name not in self.explained:
                yield from self._come(field)
        for name, field in self.ours.items():
            other = self.theirs.get(name)
            if other is not None and other.tag == field.tag and other != field:
                yield from self._stayed(field, other)
        yield from self._reservations()

    # -- tags that moved --------------------------------------------------------------------------------------------------
    def _moved(self) -> Iterator[Cause]:
        moved = [(f, self.theirs[n]) for n, f in self.ours.items() if n in self.theirs and self.theirs[n].tag != f.tag]
        if not moved:
            return
        first, second = moved[0]
        swapped = len(moved) == 2 and {f.tag for f, _ in moved} == {g.tag for _, g in moved}
        inserted = [f for n, f in self.theirs.items() if n not in self.ours and f.tag in self.our_tags]
        left = {g.tag for _, g in moved}
        removed = [f for n, f in self.ours.items() if n not in self.theirs and f.tag in left]
        self.explained |= {f.name for f in (*inserted, *removed)}
        if swapped:
            rule, says = "FIELD_SWAPPED", f"{moved[0][0].name} and {moved[1][0].name} changed places"
            fix = f"give {first.name} tag {first.tag} and {moved[1][0].name} tag {moved[1][0].tag} back"
        else:
            rule = "TAG_SHIFTED"
            names = ", ".join(f"{f.name} {f.tag}->{g.tag}" for f, g in moved)
            why = [f"{f.name} was inserted at {f.tag}" for f in inserted] + [
                f"{f.name} was removed from {f.tag}" for f in removed
            ]
            says = f"{'; '.join(why) or 'tags were given anew'}: {names}"
            free = self._free_tag()
            fix = "leave every field its tag" + "".join(
                f"; give {f.name} tag {free + at}" for at, f in enumerate(inserted)
            )
            fix += "".join(f"; reserve {f.tag}" for f in removed)
        focuses, back = self._each(self.a, [f for f, _ in moved]), self._each(self.b, [g for _, g in moved])
        judges: list[Judge | None] = [None, *(stranger(f.name) for f in inserted)]
        yield self._cause(rule, says, first, second, fix, {
            NEW_READS_OLD: [Try(self.a.name, focuses, judge) for judge in judges],
            OLD_READS_NEW: [Try(self.b.name, back, judge) for judge in [None, *(lost(f.name) for f in inserted)]],
        })  # fmt: skip

    def _renamed(self) -> Iterator[Cause]:
        for tag, field in self.our_tags.items():
            other = self.their_tags.get(tag)
            if other is None or other.name == field.name or {field.name, other.name} & self.explained:
                continue
            if field.name in self.theirs or other.name in self.ours:
                continue
            self.explained |= {field.name, other.name}
            if field.type == other.type and field.presence == other.presence:
                says = f"tag {tag} was {field.name}, now it is {other.name}, of the same type"
                proof = self._hypothetical(
                    NEW_READS_OLD, self.a.name, [field], stranger(other.name), "if it means something else"
                )
                yield self._cause("FIELD_RENAMED", says, field, other, "", {}, proof)
            else:
                says = f"tag {tag} was {field.name} ({said(field.type)}), now it is {other.name} ({said(other.type)})"
                fix = f"give {other.name} tag {self._free_tag()}, and reserve {tag}"
                forth, back = self._tries(self.a, field, other), self._tries(self.b, other, field)
                yield self._cause("TAG_REUSED", says, field, other, fix, {
                    NEW_READS_OLD: [Try(self.a.name, forth, j) for j in (None, stranger(other.name), lost(field.name))],
                    OLD_READS_NEW: [Try(self.b.name, back, j) for j in (None, stranger(field.name), lost(other.name))],
                })  # fmt: skip

    # -- fields that only one of the two has ------------------------------------------------------------------------------
    def _gone(self, field: FieldSpec) -> Iterator[Cause]:
        kept = field.tag in self.b.reserved.tags
        absent: Focus = {}
        if not kept:
            fix = f"reserve tag {field.tag} and the name {field.name!r}"
            tries: dict[Direction, list[Try]] = {
                NEW_READS_OLD: [Try(self.a.name, self._tries(self.a, field, None), lost(field.name))],
                OLD_READS_NEW: [Try(self.b.name, lambda: [absent])],
            }
            yield self._cause("FIELD_DELETED_UNRESERVED", f"{field.name} is gone and tag {field.tag} is free to be given again",
                              field, None, fix, tries)  # fmt: skip
        elif field.presence == "required":
            yield self._cause("REQUIRED_REMOVED", f"{field.name} is gone, and an old reader insists on it", field, None,
                              f"go on writing {field.name} until no old reader is left",
                              {OLD_READS_NEW: [Try(self.b.name, lambda: [absent])]})  # fmt: skip

    def _come(self, field: FieldSpec) -> Iterator[Cause]:
        if field.tag in self.a.reserved.tags:
            says = f"tag {field.tag} was reserved, and is {field.name} now"
            proof = self._resurrected(field)
            yield self._cause(
                "RESERVED_REUSED", says, None, field, f"give {field.name} tag {self._free_tag()}", {}, proof
            )
        elif field.name in self.a.reserved.names:
            says = f"the name {field.name!r} was reserved, and has tag {field.tag} now"
            yield self._cause("NAME_REUSED", says, None, field, "choose another name", {}, self._renaming(field))
        if field.presence == "required":
            yield self._cause("REQUIRED_ADDED", f"{field.name} is new and required: no old writer sends it", None, field,
                              f"make {field.name} optional, or give it a default",
                              {NEW_READS_OLD: [Try(self.a.name, lambda: [{}])]})  # fmt: skip
        low, high = self.old.ranges.get("critical", (1, 0))
        if low <= field.tag <= high:
            yield self._cause("CRITICAL_ADDED", f"{field.name} is new and critical: every old reader refuses the message", None,
                              field, f"send {field.name} only to peers that know it, or give it a tag outside {low}..{high}",
                              {OLD_READS_NEW: [Try(self.b.name, self._tries(self.b, field, None))]})  # fmt: skip

    # -- fields that both have --------------------------------------------------------------------------------------------
    def _stayed(self, a: FieldSpec, b: FieldSpec) -> Iterator[Cause]:
        for change in dict.fromkeys(relate(a.type, b.type, self.old, self.new)):
            hosts = (False, True) if change.rule == "ENDIAN_CHANGED" else (False,)  # of the other byte order, too
            tries: dict[Direction, list[Try]] = {}
            for direction in change.directions:
                spec, wf, rf = (self.a, a, b) if direction == NEW_READS_OLD else (self.b, b, a)
                tries[direction] = [Try(spec.name, self._tries(spec, wf, rf), foreign=f) for f in hosts]
            yield self._cause(change.rule, f"{a.name}: {change.says}", a, b, "", tries)
        if a.presence == b.presence == "default" and a.default != b.default:
            says = f"{a.name}: absent meant {a.default!r}, now it means {b.default!r}"
            yield self._cause("DEFAULT_CHANGED", says, a, b, f"keep the default {a.default!r}", self._absences(a, b))
        elif a.presence != b.presence:
            says = f"{a.name} was {a.presence}, now it is {b.presence}"
            rule = {"required": "REQUIRED_ADDED"}.get(b.presence) or {"required": "REQUIRED_REMOVED"}.get(
                a.presence, "PRESENCE_CHANGED"
            )
            yield self._cause(rule, says, a, b, f"keep {a.name} {a.presence}", self._absences(a, b))

    def _absences(self, a: FieldSpec, b: FieldSpec) -> dict[Direction, list[Try]]:
        """The field left out, by whoever may leave it out."""
        tries: dict[Direction, list[Try]] = {}
        for direction, spec, field in ((NEW_READS_OLD, self.a, a), (OLD_READS_NEW, self.b, b)):
            if field.presence != "required":
                tries[direction] = [Try(spec.name, _one({(spec.name, field.name): ABSENT}))]
        return tries

    # -- reservations -------------------------------------------------------------------------------------------------------
    def _reservations(self) -> Iterator[Cause]:
        tags = [t for t in self.a.reserved.tags if t not in self.b.reserved.tags and t not in self.their_tags]
        names = [n for n in self.a.reserved.names if n not in self.b.reserved.names and n not in self.theirs]
        if any(t in self.their_tags for t in self.a.reserved.tags):
            names = []  # the same act as giving a reserved tag again, which has a finding of its own
        if tags or names:
            what = ", ".join([*(f"tag {t}" for t in tags), *(f"the name {n!r}" for n in names)])
            likely = FieldSpec(name="next", tag=tags[0], type=_SOME, presence="optional") if tags else None
            named = FieldSpec(name=names[0], tag=self._free_tag(), type=_SOME, presence="optional") if names else None
            proof = self._resurrected(likely) if likely is not None else ()
            if likely is None and named is not None:
                proof = self._renaming(named)
            yield Cause("RESERVED_REMOVED", f"{what} of {self.a.name} is not reserved any more", self.a.name, self.b.name,
                        f"reserve {what} again", self.a.name, sent_by=self.a.sent_by, proofs=proof)  # fmt: skip

    def _resurrected(self, field: FieldSpec) -> tuple[Witness, ...]:
        """What a writer from before the reservation sends under the tag, read as the new field."""
        former = replace(field, name=_FORMER, presence="optional")
        older = _with_field(self.old, self.a, former)
        newer = self.new if field.name in self.theirs else _with_field(self.new, self.b, field)
        trial = Trial(older, newer)
        focuses = self._tries(self.a, former, None)
        witness = trial.prove(NEW_READS_OLD, self.a.name, focuses(), stranger(field.name))
        return () if witness is None else (replace(witness, kind="if a writer from before the deletion is left"),)

    def _renaming(self, field: FieldSpec) -> tuple[Witness, ...]:
        """A writer from before the name was reserved sends it under its old tag; the new reader looks elsewhere."""
        free = [t for t in self.a.reserved.tags if t not in self.our_tags] or [self._free_tag()]
        older = _with_field(self.old, self.a, replace(field, tag=free[0], presence="optional"))
        newer = self.new if field.name in self.theirs else _with_field(self.new, self.b, field)
        witness = Trial(older, newer).prove(NEW_READS_OLD, self.a.name, self._tries(self.a, field, None)())
        return () if witness is None else (replace(witness, kind="if a writer from before the deletion is left"),)

    def _hypothetical(
        self, direction: Direction, spec: str, fields: Sequence[FieldSpec], judge: Judge, kind: str
    ) -> tuple[Witness, ...]:
        tries = self._each(self.a if direction == NEW_READS_OLD else self.b, fields)
        witness = Trial(self.old, self.new).prove(direction, spec, tries(), judge)
        return () if witness is None else (replace(witness, kind=kind),)

    # -- helpers ------------------------------------------------------------------------------------------------------------
    def _tries(self, spec: MessageSpec, field: FieldSpec, other: FieldSpec | None) -> Callable[[], Iterator[Focus]]:
        writer = self.old if spec is self.a else self.new

        def focuses() -> Iterator[Focus]:
            for value in variants(Dialect(writer), field.type, None if other is None else other.type, field.tag):
                yield {(spec.name, field.name): value}
            if field.presence != "required":
                yield {(spec.name, field.name): ABSENT}

        return focuses

    def _each(self, spec: MessageSpec, fields: Sequence[FieldSpec]) -> Callable[[], Iterator[Focus]]:
        """A usual message, then each of these fields at values of its own."""

        def focuses() -> Iterator[Focus]:
            yield {}
            for field in fields:
                yield from self._tries(spec, field, None)()

        return focuses

    def _free_tag(self) -> int:
        """A tag that neither side has given or reserved, outside the critical range."""
        taken = {*self.our_tags, *self.their_tags, *self.a.reserved.tags, *self.b.reserved.tags}
        low, high = self.new.ranges.get("critical", (1, 0))
        tag = 1 + max((t for t in taken if not low <= t <= high), default=0)
        while tag in taken or low <= tag <= high:
            tag += 1
        return tag

    def _cause(
        self, rule: str, says: str, a: FieldSpec | None, b: FieldSpec | None, fix: str, tries: dict[Direction, list[Try]],
        proofs: tuple[Witness, ...] = (),
    ) -> Cause:  # fmt: skip
        return Cause(
            rule, f"{self.b.name}: {says}", "" if a is None else place(self.a, a), "" if b is None else place(self.b, b), fix,
            self.a.name, (a or b or self.a.fields[0]).name, self.a.sent_by, tries, proofs,
        )  # fmt: skip


def _one(focus: Focus) -> Callable[[], list[Focus]]:
    return lambda: [focus]


def _with_field(snapshot: Snapshot, spec: MessageSpec, field: FieldSpec) -> Snapshot:
    """The snapshot with one more field in this message or group."""
    more = replace(spec, fields=tuple(sorted((*spec.fields, field), key=lambda f: f.tag)))
    return replace(
        snapshot,
        messages=tuple(more if m.name == spec.name else m for m in snapshot.messages),
        groups=tuple(more if g.name == spec.name else g for g in snapshot.groups),
    )
