"""The codec on everything that a peer can send."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from kvpoll.protocol.codec import (
    Unknown,
    VersionError,
    cause_of,
    decode,
    encode,
    encode_with,
    fit_details,
    peek,
    reason_of,
)
from kvpoll.protocol.errors import LocalProtocolError, RemoteProtocolError
from kvpoll.protocol.shape import shape_of
from kvpoll.protocol.tags import MAX_DEPTH
from kvpoll.spec import Cause, wire
from kvpoll.spec.wire import CRITICAL, GREASE, KINDS, MAX_PARTS, Message, Reason

from .wire_values import (
    BASE,
    ENVELOPE,
    HELLO,
    abort,
    announce,
    changed,
    close,
    messages,
    of_struct,
    part_done,
    refused,
)

pack = msgspec.msgpack.encode
unpack = msgspec.msgpack.decode
RAW = msgspec.Raw


# Round trips ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_kind_survives_the_wire(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(of_struct(kind))
    frame = encode(message)
    assert decode(frame) == decode(memoryview(frame))
    assert decode(frame).message == message
    assert decode(frame).unknown == ()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(message=messages(), seed=st.integers(0, 2**32))
def test_an_old_peer_relays_tags_of_any_level_byte_for_byte(message: Message, seed: int) -> None:
    frame, planted = plant(encode(message), type(message), random.Random(seed))
    read = decode(frame)
    assert read.message == message
    assert sorted(read.unknown) == sorted(planted)
    assert decode(encode_with(read.message, read.unknown)) == read
    assert values(encode_with(read.message, read.unknown)) == values(frame)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(message=messages(), seed=st.integers(0, 2**32))
def test_grease_is_skipped_by_peers(message: Message, seed: int) -> None:
    frame = encode_with(message, grease=random.Random(seed).randbytes)
    read = decode(frame)
    assert read.message == message
    assert [u.tag in GREASE and u.path == () for u in read.unknown] == [True]
    again = decode(encode_with(read.message, read.unknown, grease=random.Random(seed).randbytes))
    assert len({u.tag for u in again.unknown}) == 2, "a second grease tag must not collide with a kept one"


def plant(
    frame: bytes, cls: type[Struct], rng: random.Random, path: tuple[int, ...] = ()
) -> tuple[bytes, list[Unknown]]:
    """Unknown tags in every map of a frame, at random places among the known ones."""
    entries = list(unpack(frame, type=dict[str, RAW]).items())
    planted = []
    for i, (tag, value) in enumerate(entries):
        field = shape_of(cls).fields.get(int(tag))
        if field is None or field.child is None:
            continue
        if field.many:
            items = []
            for n, item in enumerate(unpack(value, type=list[RAW])):
                new, found = plant(bytes(item), field.child, rng, (*path, int(tag), n))
                planted += found
                items.append(RAW(new))
            entries[i] = (tag, RAW(pack(items)))
        else:
            new, found = plant(bytes(value), field.child, rng, (*path, int(tag)))
            planted += found
            entries[i] = (tag, RAW(new))
    for tag_number in rng.sample([77, 149, 150, 199, 256, 899, 900, 1000, 65535], rng.randrange(1, 4)):
        raw = rng.choice([b"\xc0", b"\x01", b"\xcd\x00\x01", pack({"a": [1, b"x"]}), b"\x91" * MAX_DEPTH + b"\xa1x"])
        if raw.startswith(b"\x91"):
            raw = b"\x91" * (MAX_DEPTH - 1) + b"\x91\xc0"
        planted.append(Unknown(path, tag_number, raw))
        entries.insert(rng.randrange(len(entries) + 1), (str(tag_number), RAW(raw)))
    return pack(dict(entries)), planted


def values(frame: bytes) -> object:
    """What a frame says, whatever the order of its keys."""
    return unpack(frame)


# Anything at all ------------------------------------------------------------------------------------------------------
@settings(max_examples=800, deadline=None)
@given(frame=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_understood(frame: bytes) -> None:
    survive(frame)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(message=messages(), data=st.data())
def test_mutated_frames_are_refused_or_understood(message: Message, data: st.DataObject) -> None:
    frame = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame)))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "delete", "copy"])):
            case "flip" if at < len(frame):
                frame[at] = data.draw(st.integers(0, 255))
            case "cut":
                del frame[at:]
            case "insert":
                frame[at:at] = data.draw(st.binary(min_size=1, max_size=6))
            case "copy":
                frame[at:at] = frame[:at][-8:]
            case _:
                del frame[at : at + 2]
    survive(bytes(frame))


def survive(frame: bytes) -> None:
    peek(frame)
    try:
        read = decode(frame)
    except RemoteProtocolError as error:
        found = error
    else:
        assert decode(encode_with(read.message, read.unknown)) == read
        return
    assert found.tag
    assert found.expected
    assert found.failure().cause is Cause.PROTOCOL


# Each refusal names its field -----------------------------------------------------------------------------------------
WRONG: list[tuple[str, bytes, str]] = [
    ("Close.gen", changed(close(), 8, to=-3), "from 0 to 18446744073709551615"),
    ("Close.gen", changed(close(), 8, to=3.0), "an integer"),
    ("Close.gen", changed(close(), 8, to="3"), "an integer"),
    ("Close.gen", changed(close(), 8, to=True), "an integer"),
    ("Close.source_rank", changed(close(), 4, to=65536), "from 0 to 65535"),
    ("Announce.transport", changed(announce(), 17, to="x" * 65), "at most 64"),
    ("Announce.transport", changed(announce(), 17, to=RAW(b"\xa2\xff\xfe")), "UTF-8"),
    ("Announce.transport", changed(announce(), 17, to=b"jax"), "UTF-8"),
    ("Announce.fingerprint", changed(announce(), 16, to=[1, 2]), "a map"),
    ("Announce.fingerprint.tokens", changed(announce(), 16, 1, to=None), "an integer"),
    ("Announce.fingerprint.tokens", changed(announce(), 16, to={"2": 1}), "an integer"),
    ("Announce.fingerprint.digest", changed(announce(), 16, 3, to=b"x" * 65), "at most 64"),
    ("PartDone.parts", changed(part_done(), 16, to={"1": 1}), "a list of at most 4096"),
    ("PartDone.parts", changed(part_done(), 16, to=[{"1": 1}] * (MAX_PARTS + 1)), "at most 4096"),
    ("PartDone.parts[1].kind", changed(part_done(), 16, 1, 2, to=9), "a number of PartKind"),
    ("PartDone.parts[1].shape[2]", changed(part_done(), 16, 1, 7, to=[1, 2, -1]), "an integer"),
    ("PartDone.parts[0].no", changed(part_done(), 16, 0, to={}), "an integer"),
    ("AbortAck.quarantined", changed(wire.AbortAck(**ENVELOPE), 16, to=1), "true or false"),
    ("Abort.failed.cause", changed(abort(), 16, 1, to=65536), "a number of Cause"),
    ("Status.facts.state", pack(BASE | {"0": 12, "16": {"1": 7}, "17": {}}), "a number of KVPoll"),
    ("Hello.registration.versions", changed(HELLO, 16, 1, to=[[1, 0]]), "exactly 2"),
    ("Hello.registration.versions.high", changed(HELLO, 16, 1, 1, to=[1]), "high (a list of exactly 2"),
    ("Hello.registration.tp", changed(HELLO, 16, 13, to=[8, 3, 0]), "exactly 2"),
    ("Hello.registration.tp.rank", changed(HELLO, 16, 13, 1, to=-1), "rank (an integer"),
    ("Hello.registration.transports[1].descriptor", changed(HELLO, 16, 19, 1, 1, to={"a": []}), "a map"),
    ("Hello.registration.aux.names[3]", changed(HELLO, 16, 100, 1, 3, to=4), "UTF-8"),
    ("Hello.registration.aux.shapes[3][1]", changed(HELLO, 16, 100, 3, 3, 1, to=-4), "an integer"),
    ("Hello.registration.deadlines.total", changed(HELLO, 16, 20, 2, to=10**9), "(ms)"),
]


@pytest.mark.parametrize(("tag", "frame", "expected"), WRONG)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(tag: str, frame: bytes, expected: str) -> None:
    error = refused(frame)
    assert error.tag == tag
    assert expected in error.expected
    assert error.got


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_an_absent_required_field_is_refused_by_name(kind: type[Message]) -> None:
    number = shape_of(kind).number
    error = refused(pack({"0": number}))
    assert error.tag == f"{kind.__name__}.link"
    assert error.got == "nothing"


@pytest.mark.parametrize(
    ("frame", "tag"),
    [
        (b"", "frame"),
        (b"\xc1", "frame"),
        (b"\xc0", "frame"),
        (pack([1, 2, 3]), "frame"),
        (pack(BASE)[:-1], "frame"),
        (pack(BASE) + b"\x00", "frame"),
        (pack({"1": 1}), "frame.kind"),
        (pack(BASE | {"0": "8"}), "frame.kind"),
        (pack({**BASE, 16: 1}), "Close"),
        (pack({**BASE, b"16": 1}), "Close"),
        (pack({**BASE, "016": 1}), "Close"),
        (pack({**BASE, "total": 1}), "Close"),
        (pack({**BASE, "٣": 1}), "Close"),
        (pack({**BASE, "65536": 1}), "Close"),
        (pack(BASE | {str(t): 0 for t in range(1000, 1400)}), "frame"),
        (b"\x88" + pack(BASE)[1:] + b"\xa2\xff\xfe\x01", "Close"),
    ],
)
def test_a_frame_that_is_no_map_of_tags_is_refused(frame: bytes, tag: str) -> None:
    assert refused(frame).tag == tag


TWICE = [
    (b"\x88" + pack(BASE)[1:] + b"\xa216\x05", "Close.total"),
    (b"\x89" + pack(BASE)[1:] + b"\xa277\xc0\xa216\x05", "Close.total"),
    (changed(announce(), 16, to=RAW(b"\x82\xa11\x01\xa11\x02")), "Announce.fingerprint.tokens"),
    (changed(announce(), 16, to=RAW(b"\x83\xa11\x01\xa277\xc0\xa11\x02")), "Announce.fingerprint.tokens"),
    (changed(HELLO, 16, 19, 0, 1, to=RAW(b"\x82\xa1a\x01\xa1a\x02")), "Hello.registration.transports[0].descriptor"),
]


@pytest.mark.parametrize(("frame", "tag"), TWICE)
def test_a_reader_that_is_strict_refuses_what_is_given_twice(frame: bytes, tag: str) -> None:
    error = refused(frame, strict=True)
    assert error.tag == tag
    assert "once" in error.expected


@pytest.mark.parametrize("frame", [frame for frame, _ in TWICE])
def test_the_last_of_what_is_given_twice_counts(frame: bytes) -> None:
    read = decode(frame)
    assert encode(read.message) == encode(decode(pack(unpack(frame))).message)
    assert decode(encode_with(read.message, read.unknown), strict=True) == read


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("frame", "tag"),
    [
        (b"\x88" + pack(BASE)[1:] + b"\xa10\x07", "Close"),
        (b"\x89" + pack(BASE)[1:] + b"\xa277\x05\xa277\x05", "Close.#77"),
    ],
)
def test_two_kinds_or_an_unknown_tag_given_twice_are_always_refused(frame: bytes, tag: str, strict: bool) -> None:
    assert refused(frame, strict).tag.startswith(("frame", tag))


def test_unknown_tags_inside_a_group_that_is_given_again_are_void() -> None:
    frame = encode(announce())
    count, group = frame[0] & 15, b"\xa216\x82\xa11\x01\xa277\xc0"
    read = decode(bytes((0x80 | count + 1,)) + group + frame[1:])
    assert read == decode(frame)
    read = decode(bytes((0x80 | count + 1,)) + frame[1:] + group)
    assert read.unknown == (Unknown((16,), 77, b"\xc0"),)
    assert decode(encode_with(read.message, read.unknown), strict=True) == read


def test_long_integers_and_written_defaults_mean_the_same() -> None:
    frame = pack(BASE | {"4": 0, "8": RAW(b"\xcf" + (5).to_bytes(8, "big"))})
    assert decode(frame).message == wire.Close(link=1, source=2, room=3, engine=4, gen=5, total=6)


def test_an_axis_that_is_not_parallel_may_be_written_or_left_out() -> None:
    written = changed(HELLO, 16, 14, to=[1, 0])
    assert "14" not in unpack(encode(HELLO))["16"]
    assert decode(written, strict=True) == decode(encode(HELLO), strict=True)


# Newer peers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tag", [CRITICAL[0], CRITICAL[-1]])
@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (lambda tag: pack({**BASE, str(tag): None}), "Close"),
        (lambda tag: changed(announce(), 16, tag, to=None), "Announce.fingerprint"),
        (lambda tag: changed(part_done(), 16, 1, tag, to=None), "PartDone.parts[1]"),
    ],
)
def test_an_unknown_critical_tag_is_refused_by_number(frame: Callable[[int], bytes], name: str, tag: int) -> None:
    error = refused(frame(tag))
    assert isinstance(error, VersionError)
    assert error.reason is Reason.VERSION
    assert error.tag == f"{name}.#{tag}"


def test_an_unknown_kind_is_a_matter_of_versions_and_can_be_answered() -> None:
    frame = pack({**BASE, "0": 77, "55": "new"})
    error = refused(frame)
    assert isinstance(error, VersionError)
    found = peek(frame)
    assert found is not None
    assert (found.kind, found.link, found.source, found.room) == (77, 1, 2, 3)


def test_an_abort_with_a_cause_of_a_newer_version_still_aborts() -> None:
    read = decode(changed(abort(), 16, 1, to=999)).message
    assert isinstance(read, wire.Abort)
    assert read.failed.cause == 999
    assert cause_of(999) is None
    assert cause_of(6) is Cause.SILENCE
    assert (reason_of(4), reason_of(99)) == (Reason.WRONG_INSTANCE, None)
    assert decode(encode(read)).message == read


def test_unknown_tags_have_no_place_in_another_message() -> None:
    read = decode(changed(part_done(), 16, 1, 77, to=[1]))
    with pytest.raises(LocalProtocolError, match="no place"):
        encode_with(close(), read.unknown)
    with pytest.raises(LocalProtocolError, match="no place"):
        encode_with(part_done(1), read.unknown)
    with pytest.raises(LocalProtocolError, match="no place"):
        encode_with(close(), [Unknown((), 16, b"\x01")])


# Our own mistakes -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gen", [2**64, -(2**63) - 1, object()])
def test_a_value_that_cannot_be_written_is_our_mistake(gen: object) -> None:
    message = msgspec.structs.replace(close(), gen=gen)
    with pytest.raises(LocalProtocolError, match="Close cannot be encoded"):
        encode(message)


def test_a_message_above_the_frame_limit_is_our_mistake() -> None:
    parts = tuple(wire.Part(no=i, dtype="x" * 64, shape=(2**32 - 1,) * 8) for i in range(MAX_PARTS))
    with pytest.raises(LocalProtocolError, match=r"PartDone takes \d+ bytes"):
        encode(msgspec.structs.replace(part_done(), parts=parts + parts + parts))


def test_details_of_any_failure_fit_into_an_abort() -> None:
    details = [("n" * 100, "x" * 1000), ("flag", True), ("big", 2**70), ("path", "\udcff"), *[("more", 1)] * 20]
    fitted = fit_details(details)
    message = wire.Abort(**ENVELOPE, failed=wire.FailureGroup(cause=Cause.INTERNAL, details=fitted))
    assert decode(encode(message)).message == message
    assert fitted[1] == ("flag", 1)
