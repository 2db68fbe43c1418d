"""What a hostile frame can cost: memory, time, depth."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import msgspec
import pytest

from kvpoll.protocol.codec import Unknown, decode, peek
from kvpoll.protocol.errors import RemoteProtocolError
from kvpoll.protocol.tags import MAX_DEPTH, MAX_UNKNOWN, MAX_UNKNOWN_PER_MAP, MAX_VALUES
from kvpoll.spec.wire import MAX_FRAME

from .wire_values import BASE, HELLO, announce, changed, close, part_done, refused

pack = msgspec.msgpack.encode
RAW = msgspec.Raw

HUGE = [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
CLAIMS = {
    "a whole frame": HUGE,
    "a list of parts": [changed(part_done(), 16, to=RAW(h)) for h in HUGE],
    "an envelope number": [changed(close(), 8, to=RAW(h)) for h in HUGE],
    "a digest": [changed(announce(), 16, 3, to=RAW(h)) for h in HUGE],
    "a name": [changed(announce(), 17, to=RAW(h)) for h in HUGE],
    "a group": [changed(announce(), 16, to=RAW(h)) for h in HUGE],
    "a descriptor": [changed(HELLO, 16, 19, 0, 1, to=RAW(h)) for h in HUGE],
    "an unknown tag": [pack({**BASE, "77": RAW(h)}) for h in HUGE],
    "an ignored extension": [pack({**BASE, "77": RAW(b"\xc9\xff\xff\xff\xff\x05")})],
}


@pytest.mark.parametrize("where", CLAIMS)
def test_a_claimed_length_allocates_nothing(where: str) -> None:
    for frame in CLAIMS[where]:
        refused(frame)  # once before measuring: the first refusal of a field makes its decoder
        tracemalloc.start()
        refused(frame)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 * 1024, f"{peak} bytes for {frame[:40].hex()}"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda: pack({**BASE, "77": [None] * 1_000_000}), id="a long unknown list"),
        pytest.param(lambda: pack({**BASE, "77": [[]] * 1_000_000}), id="a long unknown list of lists"),
        pytest.param(lambda: pack({**BASE, **{str(t): None for t in range(1000, 65000)}}), id="many unknown tags"),
        pytest.param(lambda: changed(part_done(), 16, to=[{}] * 300_000), id="too many parts"),
        pytest.param(
            lambda: changed(HELLO, 16, 19, 0, 1, to=dict.fromkeys(map(str, range(100_000)), 1)), id="a long descriptor"
        ),
        pytest.param(lambda: changed(HELLO, 16, 2, to=["x"] * 400_000), id="many capabilities"),
        pytest.param(lambda: pack({**BASE, "8": "x" * 1_000_000}), id="text for a number"),
    ],
)
def test_a_frame_costs_a_small_multiple_of_itself(body: Callable[[], bytes]) -> None:
    frame = body()
    assert len(frame) <= MAX_FRAME
    survive_cheaply(frame)


def survive_cheaply(frame: bytes) -> None:
    tracemalloc.start()
    try:
        decode(frame)
    except RemoteProtocolError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 6 * MAX_FRAME, f"{peak} bytes for a frame of {len(frame)}"


def test_a_frame_above_the_limit_is_refused_unread() -> None:
    error = refused(b"\xc1" * (MAX_FRAME + 1))
    assert (error.tag, error.got) == ("frame", str(MAX_FRAME + 1))
    assert peek(b"\x80" * (MAX_FRAME + 1)) is None


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 900, 5_000, 300_000])
@pytest.mark.parametrize(
    "shell",
    [b"\x91", b"\x81\xa0", b"\xdc\x00\x01", b"\xdf\x00\x00\x00\x01\x01", b"\x92\xcb\x91\x91\x91\x91\x91\x91\x91\x91"],
)
def test_nesting_is_bounded_wherever_it_is(levels: int, shell: bytes) -> None:
    deep = shell * min(levels, (MAX_FRAME - 100) // len(shell)) + b"\xc0"
    frame = pack({**BASE, "77": RAW(deep)})
    if levels <= MAX_DEPTH:
        assert decode(frame).unknown == (Unknown((), 77, deep),)
    else:
        assert "levels" in refused(frame).expected
        assert refused(changed(close(), 16, to=RAW(deep)))
        assert refused(deep)


def test_unknown_tags_are_bounded_per_map_and_per_frame() -> None:
    many = {str(t): None for t in range(1000, 1000 + MAX_UNKNOWN_PER_MAP)}
    assert len(decode(pack(BASE | many)).unknown) == MAX_UNKNOWN_PER_MAP
    assert "tags" in refused(pack(BASE | {str(t): 0 for t in range(1000, 1400)})).expected
    part = {"1": 1} | {str(t): 0 for t in range(300, 303)}
    assert len(decode(changed(part_done(), 16, to=[part] * (MAX_UNKNOWN // 3))).unknown) == MAX_UNKNOWN // 3 * 3
    assert "unknown tags" in refused(changed(part_done(), 16, to=[part] * (MAX_UNKNOWN // 3 + 1))).expected


def test_values_inside_unknown_tags_are_bounded_per_frame() -> None:
    """Only those that have to be looked at: a list without lists in it is skipped as one."""
    lists = [[[]]] * (MAX_VALUES // 4)
    assert decode(pack({**BASE, "77": lists})).unknown
    assert "values" in refused(pack({**BASE, "77": lists, "78": lists, "79": lists})).expected
