"""Versions that run side by side: every two releases, both ends, both orders of upgrade, with the codec of today among them.

What is sent: each kind of message, whole, as short as it may be, and once for each value of every enum in it; always with
grease. What is expected: what the comparison says of the two schemas, message by message.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, permutations

import msgspec
import pytest

from kvpoll.protocol.codec import VersionError, decode, encode, encode_with, peek
from kvpoll.protocol.errors import RemoteProtocolError
from kvpoll.protocol.evolution.agree import differs
from kvpoll.protocol.evolution.changed_version import meets
from kvpoll.protocol.evolution.compare import compare
from kvpoll.protocol.evolution.dialect import Dialect, Refused, Values
from kvpoll.protocol.evolution.findings import NEW_READS_OLD, OLD_READS_NEW, Direction, Finding, Order, orders_left
from kvpoll.protocol.evolution.samples import Focus, message_with
from kvpoll.spec.schema import End, Enumerated, GroupRef, ListOf, MessageSpec, Snapshot, Type
from kvpoll.spec.wire import GREASE, KINDS, Reason

from .futures import ALONE, LINE, MISTAKE, PROGRESS, RELEASED, STEPS

FUTURES: dict[str, Snapshot] = {**ALONE, **{f"release {v}": s for v, s in LINE.items()}, "a mistake": MISTAKE}
PAIRS = list(combinations(LINE, 2))
ENDS: tuple[End, End] = ("sender", "receiver")
ORDERS: tuple[Order, Order] = ("sender-first", "receiver-first")
NOW = Dialect(RELEASED)


# What is sent, and what is said of it -----------------------------------------------------------------------------------
def values_of(dialect: Dialect, spec: MessageSpec) -> Iterator[Values]:
    """Whole, short, and with every value of every enum."""
    yield message_with(dialect, spec, {})
    yield {f.name: v for f, v in zip(spec.fields, message_with(dialect, spec, {}).values(), strict=True) if f.presence == "required"}  # fmt: skip  # noqa: E501
    for place, numbers in enums_in(dialect, spec).items():
        for number in numbers:
            yield message_with(dialect, spec, {place: number})


def enums_in(dialect: Dialect, spec: MessageSpec) -> dict[tuple[str, str], list[int]]:
    """(message or group, field) -> the numbers of its enum; wherever in the message it is."""
    found = {}
    for name in reach(dialect.snapshot, spec.name):
        holder = dialect.messages.get(name) or dialect.groups.get(name)
        for field in holder.fields if holder is not None else ():
            if isinstance(field.type, Enumerated):
                found[name, field.name] = sorted(dialect.enums[field.type.enum].values.values())
    return found


def reach(snapshot: Snapshot, name: str) -> set[str]:
    """A message or group, and every group and enum in it."""
    specs = {s.name: s for s in (*snapshot.messages, *snapshot.groups)}
    met, todo = {name}, [name]
    while todo:
        for field in specs[todo.pop()].fields:
            inner = _named(field.type)
            if inner is not None and inner not in met:
                met.add(inner)
                todo += [inner] if inner in specs else []
    return met


def _named(kind: Type) -> str | None:
    match kind:
        case GroupRef(group=name) | Enumerated(enum=name):
            return name
        case ListOf(items=inner):
            return _named(inner)
    return None


def greased(frame: bytes) -> bytes:
    """With a tag that means nothing."""
    raw = msgspec.msgpack.decode(frame)
    return msgspec.msgpack.encode({**raw, str(GREASE[len(frame) % len(GREASE)]): ["grease", len(frame)]})


def concerned(findings: list[Finding], direction: Direction, old: Snapshot, new: Snapshot, message: str) -> bool:
    """Does the comparison say that this message goes wrong in this direction?"""
    names = {n for s in (old, new) if any(m.name == message for m in s.messages) for n in reach(s, message)}
    return any(f.breaking and direction in f.directions and f.spec in names for f in findings)


def met(writer: Dialect, message: MessageSpec, reader: Dialect, end: End) -> str:
    """What becomes of a message: "arrives", or the first thing that goes wrong."""
    for values in values_of(writer, message):
        try:
            name, got = reader.read(greased(writer.write(message.name, values)), end)
        except Refused as refusal:
            return f"refused: {refusal}"
        wrong = differs(writer, message, values, reader, reader.messages[name], got)
        if wrong is not None:
            return f"misread: {wrong}"
    return "arrives"


# Every two releases -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("before", "after"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_two_releases_understand_each_other_in_the_orders_that_the_comparison_allows(before: str, after: str) -> None:
    old, new = LINE[before], LINE[after]
    dialects = Dialect(old), Dialect(new)
    findings = compare(old, new)
    for order in ORDERS:
        wrong = []
        for end in ENDS:
            writer_is_new = (order == "sender-first") == (end == "sender")
            writer, reader = dialects[writer_is_new], dialects[not writer_is_new]
            direction = OLD_READS_NEW if writer_is_new else NEW_READS_OLD
            for message in writer.kinds.values():
                if end not in message.sent_by or message.number not in reader.kinds:
                    continue
                became = met(writer, message, reader, end)
                expected = concerned(findings, direction, old, new, message.name)
                assert (became != "arrives") == expected, (order, message.name, became)
                wrong += [became] if expected else []
        assert (not wrong and meets(old, new)) == (order in orders_left(findings)), (order, wrong)


def test_the_safe_steps_are_safe_and_the_others_are_not() -> None:
    older = [RELEASED]
    for name, step in STEPS.items():
        left = orders_left([f for each in older for f in compare(each, LINE[step.version])])
        assert (left == ORDERS) == step.safe, name
        older.append(LINE[step.version])


# The codec of today among them ------------------------------------------------------------------------------------------
def frames_of(snapshot: Snapshot) -> Iterator[tuple[MessageSpec, Values, bytes]]:
    """Every kind that today's version has, as this one writes it."""
    dialect = Dialect(snapshot)
    for kind in KINDS:
        spec = dialect.messages[kind.__name__]
        for values in values_of(dialect, spec):
            yield spec, values, greased(dialect.write(spec.name, values))


def read_now(frame: bytes) -> Values:
    """What the codec of today reads: its own message, as the snapshot of today sees it."""
    _, got = NOW.read(encode(decode(frame).message))
    return got


@pytest.mark.parametrize("name", FUTURES)
def test_the_codec_of_today_reads_a_later_version_as_the_comparison_says(name: str) -> None:
    later, became = FUTURES[name], dict[str, set[str]]()
    writer, findings = Dialect(later), compare(RELEASED, later)
    for spec, values, frame in frames_of(later):
        try:
            got = read_now(frame)
        except RemoteProtocolError as error:
            became.setdefault(spec.name, set()).add(type(error).__name__)
            with pytest.raises(Refused):
                NOW.read(frame)
            continue
        if differs(writer, spec, values, NOW, NOW.messages[spec.name], got) is not None:
            became.setdefault(spec.name, set()).add("misread")
    for kind in KINDS:
        expected = concerned(findings, OLD_READS_NEW, RELEASED, later, kind.__name__)
        assert (kind.__name__ in became) == expected, (kind.__name__, became)
    said = {how for found in became.values() for how in found}
    assert said <= {"RemoteProtocolError", "VersionError", *(["misread"] if name == "a mistake" else [])}


@pytest.mark.parametrize("name", FUTURES)
def test_a_later_version_reads_the_codec_of_today_as_the_comparison_says(name: str) -> None:
    later, rng = FUTURES[name], random.Random(name)
    reader, findings, became = Dialect(later), compare(RELEASED, later), set[str]()
    for spec, values, frame in frames_of(RELEASED):
        now = encode_with(decode(frame).message, grease=rng.randbytes)
        assert any(str(tag) in msgspec.msgpack.decode(now) for tag in GREASE)
        try:
            kind, got = reader.read(now)
        except Refused:
            became.add(spec.name)
            continue
        if differs(NOW, spec, values, reader, reader.messages[kind], got) is not None:
            became.add(spec.name)
    expected = {k.__name__ for k in KINDS if concerned(findings, NEW_READS_OLD, RELEASED, later, k.__name__)}
    assert became == expected


RELAYS = [pair for pair in permutations(LINE, 2) if RELEASED.version not in pair]


@pytest.mark.parametrize(("before", "after"), RELAYS, ids=["-".join(pair) for pair in RELAYS])
def test_what_today_s_codec_relays_arrives_as_if_it_had_not_been_there(before: str, after: str) -> None:
    reader, relayed = Dialect(LINE[after]), 0
    for spec, _, frame in frames_of(LINE[before]):
        try:
            taken = decode(frame)
        except RemoteProtocolError:
            continue  # what it refuses it does not relay
        passed = encode_with(taken.message, taken.unknown)
        assert decode(passed) == taken, "every unknown tag is there, byte for byte, where it was"
        assert all(unknown.raw in passed for unknown in taken.unknown)
        assert encode_with(*msgspec.structs.astuple(decode(passed))) == passed, "relayed twice is relayed once"
        straight, around = outcome(reader, frame), outcome(reader, passed)
        assert straight == around, spec.name
        relayed += bool(taken.unknown)
    assert relayed


def outcome(reader: Dialect, frame: bytes) -> object:
    try:
        return reader.read(frame)
    except Refused as refusal:
        return refusal.where


def test_a_kind_that_today_does_not_have_is_refused_by_name_and_can_be_answered() -> None:
    later = Dialect(ALONE["a message"])
    frame = later.write(PROGRESS, message_with(later, later.messages[PROGRESS], {}))
    with pytest.raises(VersionError, match=r"frame\.kind") as caught:
        decode(frame)
    assert caught.value.reason is Reason.VERSION
    envelope = peek(frame)
    assert envelope is not None
    assert envelope.link == 1


def test_a_field_that_must_not_be_skipped_is_refused_by_its_tag_and_without_it_the_message_is_read() -> None:
    later = Dialect(ALONE["a critical field"])
    values = message_with(later, later.messages["Hello"], {})
    with pytest.raises(VersionError, match="#200"):
        decode(later.write("Hello", values))
    assert decode(later.write("Hello", {k: v for k, v in values.items() if k != "sealed"})).unknown == ()


def test_a_value_that_an_open_enum_does_not_know_is_kept_and_one_of_a_closed_enum_is_refused_by_name() -> None:
    opened, closed = Dialect(ALONE["a value of an open enum"]), Dialect(ALONE["a value of a closed enum"])

    def written(dialect: Dialect, message: str, focus: Focus) -> bytes:
        return dialect.write(message, message_with(dialect, dialect.messages[message], focus))

    refusal = written(opened, "Refusal", {("Refusal", "reason"): 8})
    assert msgspec.msgpack.decode(encode(decode(refusal).message))["16"] == 8
    with pytest.raises(RemoteProtocolError, match=r"parts\[0\]\.kind") as caught:
        decode(written(closed, "PartDone", {("Part", "kind"): 3}))
    assert not isinstance(caught.value, VersionError)


def test_most_of_a_later_release_is_understood() -> None:
    """The matrix is no list of refusals."""
    kinds = [k.__name__ for k in KINDS]
    findings = compare(RELEASED, LINE["1.7"])
    fine = [k for k in kinds if not concerned(findings, OLD_READS_NEW, RELEASED, LINE["1.7"], k)]
    assert len(fine) > len(kinds) / 2
