"""Sealed frames: what is forged, replayed, reordered, cut or meant for another link opens nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.runtime.seal import Channel, SaltMemory

SECRET = b"shared secret"


def randomness(seed: int) -> Callable[[int], bytes]:
    count = iter(range(1000))
    return lambda n: hashlib.blake2b(f"{seed} {next(count)}".encode(), digest_size=n).digest()


def channels(secret: bytes | None = SECRET, link: int = 5, seed: int = 0) -> tuple[Channel, Channel]:
    return Channel(secret, link, True, randomness(2 * seed)), Channel(secret, link, False, randomness(2 * seed + 1))


def opened(salts: SaltMemory | None = None) -> tuple[Channel, Channel]:
    """Both ends after the first two frames."""
    a, b = channels()
    assert b.open(a.seal(b"hello"), salts) == b"hello"
    assert a.open(b.seal(b"welcome")) == b"welcome"
    return a, b


def test_without_a_secret_frames_pass_as_they_are() -> None:
    a, b = channels(secret=None)
    assert a.seal(b"anything") == b"anything"
    assert b.open(b"") == b""


def test_both_directions_carry_every_frame_once() -> None:
    a, b = opened()
    for n in range(10):
        text = f"frame {n}".encode()
        assert b.open(a.seal(text)) == text
        assert a.open(b.seal(text)) == text
    assert b.open(a.seal(b"")) == b""


def test_the_payload_is_authenticated_not_hidden() -> None:
    a, _ = channels()
    assert b"hello" in a.seal(b"hello")


@given(st.binary(max_size=200))
def test_noise_opens_nothing(noise: bytes) -> None:
    a, b = opened()
    assert a.open(noise) is None
    assert b.open(noise) is None
    fresh = channels()[1]
    assert fresh.open(noise, SaltMemory()) is None


@pytest.mark.parametrize("which", ["first", "later"])
def test_no_bit_of_a_frame_can_be_changed(which: str) -> None:
    a, b = channels() if which == "first" else opened()
    frame = a.seal(b"payload")
    for position in range(len(frame)):
        for bit in (1, 128):
            forged = bytearray(frame)
            forged[position] ^= bit
            assert b.open(bytes(forged), SaltMemory()) is None, position
    assert b.open(frame, SaltMemory()) == b"payload", "a forgery spends nothing"


@pytest.mark.parametrize("which", ["first", "later"])
def test_a_frame_that_was_cut_opens_nothing(which: str) -> None:
    a, b = channels() if which == "first" else opened()
    frame = a.seal(b"payload")
    for length in range(len(frame)):
        assert b.open(frame[:length], SaltMemory()) is None
    assert b.open(frame + b"x", SaltMemory()) is None


def test_a_replayed_frame_opens_nothing() -> None:
    a, b = opened()
    frame, answer = a.seal(b"once"), b.seal(b"once")
    assert b.open(frame) == b"once"
    assert a.open(answer) == b"once"
    assert b.open(frame) is None
    assert a.open(answer) is None


def test_a_frame_that_was_overtaken_opens_nothing() -> None:
    a, b = opened()
    first, second = a.seal(b"1"), a.seal(b"2")
    assert b.open(second) == b"2"
    assert b.open(first) is None
    assert b.open(a.seal(b"3")) == b"3"


def test_a_lost_frame_holds_up_nothing() -> None:
    a, b = opened()
    a.seal(b"lost")
    assert b.open(a.seal(b"next")) == b"next"


def test_a_frame_of_one_direction_opens_nothing_in_the_other() -> None:
    a, b = opened()
    assert a.open(a.seal(b"mirror")) is None
    assert b.open(b.seal(b"mirror")) is None


def test_a_frame_of_one_link_opens_nothing_on_another() -> None:
    a, _ = opened()
    _, other = channels(link=6, seed=1)
    assert other.open(a.seal(b"x"), SaltMemory()) is None
    first = channels(link=5)[0].seal(b"hello")
    assert other.open(first, SaltMemory()) is None


def test_a_frame_of_an_earlier_life_of_a_link_opens_nothing_in_the_next() -> None:
    a, b = opened()
    recorded, answer = a.seal(b"abort"), b.seal(b"ack")
    a2, b2 = channels(seed=9)
    assert b2.open(a2.seal(b"hello"), SaltMemory()) == b"hello"
    assert a2.open(b2.seal(b"welcome")) == b"welcome"
    assert b2.open(recorded) is None
    assert a2.open(answer) is None


def test_a_copy_of_the_first_frame_is_opened_while_the_link_lives() -> None:
    salts = SaltMemory()
    a, b = channels()
    hello = a.seal(b"hello")
    assert b.open(hello, salts) == b"hello"
    assert b.open(a.seal(b"hello"), salts) == b"hello", "it is said again until it is answered"
    assert b.open(hello, salts) == b"hello"


@pytest.mark.parametrize("link", [5, 6])
def test_a_recorded_first_frame_opens_no_second_link_and_no_link_that_is_over(link: int) -> None:
    salts = SaltMemory()
    a, b = channels()
    hello = a.seal(b"hello")
    assert b.open(hello, salts) == b"hello"
    again = Channel(SECRET, link, False, randomness(77))
    assert again.open(hello, salts) is None


def test_a_first_frame_of_another_process_cannot_take_a_link_over() -> None:
    _, b = opened()
    intruder = Channel(SECRET, 5, True, randomness(50))
    assert b.open(intruder.seal(b"hello"), SaltMemory()) is None


@pytest.mark.parametrize("secret", [b"", b"another", SECRET + b" "])
def test_another_secret_opens_nothing(secret: bytes) -> None:
    a, _ = channels(secret=secret)
    _, b = channels()
    assert b.open(a.seal(b"hello"), SaltMemory()) is None
    assert a.open(b.seal(b"hello")) is None


def test_an_end_without_a_secret_and_one_with_do_not_understand_each_other() -> None:
    plain, _ = channels(secret=None)
    _, sealed = channels()
    assert sealed.open(plain.seal(b"hello" * 20), SaltMemory()) is None


def test_salts_are_remembered_within_bounds() -> None:
    salts = SaltMemory(limit=3)
    assert all(salts.claim(bytes([n]) * 16) for n in range(4))
    assert not salts.claim(bytes([3]) * 16)
    assert salts.claim(bytes([0]) * 16), "the oldest one was forgotten"
