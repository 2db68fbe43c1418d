"""What arrives over the jax pull transport, what is refused, and what never counts as arrived."""

import gc
from datetime import UTC, datetime, timedelta

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import transfer

from kvpoll.runtime.transports.base import Outcome, PayloadSpec
from kvpoll.runtime.transports.jax_payload import aligned_empty, make_label, pull_specs, put_on_device

from . import jax_rig
from .jax_peer import MIB, pattern
from .jax_rig import detail, fetch, join, new_key, started

ends, pair, make = jax_rig.ends, jax_rig.pair, jax_rig.make
DONE, FAILED = Outcome.DONE, Outcome.FAILED


# What arrives


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("shape", [(1,), (3, 5, 7), (2, 1 << 20)])
@pytest.mark.parametrize("kind", ["in place", "unaligned", "jax"])
def test_a_payload_arrives_bit_by_bit(pair, dtype, shape, kind):
    sender, receiver = pair
    source = aligned_empty(shape, dtype)
    source[...] = pattern(source.size, dtype).reshape(shape)
    if kind == "unaligned":
        source = np.frombuffer(b"\0" + source.tobytes(), "uint8")[1:].view(dtype).reshape(shape)
    key = new_key()
    sender.transport.offer("peer", key, jnp.array(source) if kind == "jax" else source)
    assert fetch(receiver, key, shape, dtype) == [DONE]
    array = receiver.transport.collect(key, 0)
    assert isinstance(array, jax.Array)
    assert array is receiver.transport.collect(key, 0)
    np.testing.assert_array_equal(np.asarray(array), source)
    receiver.transport.release(key)
    assert receiver.transport.collect(key, 0) is None
    sender.transport.forget(key)
    del array
    sender.idle()
    receiver.idle()


def test_aligned_host_memory_is_offered_in_place_and_its_release_is_seen():
    source = aligned_empty((1 << 16,), "uint32")
    array, trace = put_on_device(source, jax.devices("cpu")[0])
    assert array.unsafe_buffer_pointer() == source.ctypes.data
    assert trace() is not None
    del array
    gc.collect()
    assert trace() is None


def test_a_connection_is_used_again_after_a_clean_end(pair):
    sender, receiver = pair
    for _ in range(5):
        key = new_key()
        sender.transport.offer("peer", key, pattern(64, "uint8"))
        assert fetch(receiver, key, (64,)) == [DONE]
        assert receiver.transport.pools()["lanes_idle"] == 1


# What the sender refuses


def test_a_deleted_array_is_refused(pair):
    sender, _ = pair
    array = jnp.arange(64, dtype="uint8")
    array.delete()
    with pytest.raises(ValueError, match="live array"):
        sender.transport.offer("peer", 1, array)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (np.empty((0, 4), "uint8"), "shape"),
        (np.empty((1,) * 9, "uint8"), "shape"),
        (np.zeros(4, "float32"), "dtype"),
        (np.zeros(4, "uint64"), "dtype"),
        (np.zeros((4, 4), "uint8")[:, :2], "contiguous"),
        (b"bytes", "numpy or jax"),
    ],
)
def test_what_can_not_be_offered_is_a_value_error_and_changes_nothing(pair, payload, field):
    sender, _ = pair
    with pytest.raises(ValueError, match=field):
        sender.transport.offer("peer", 1, payload)
    sender.idle()


def test_keys_are_63_bits_on_an_open_link_and_not_twice(pair):
    sender, _ = pair
    payload = pattern(64, "uint8")
    for key in (0, -1, 1 << 63):
        with pytest.raises(ValueError, match="key"):
            sender.transport.offer("peer", key, payload)
    with pytest.raises(ValueError, match="link"):
        sender.transport.offer("nobody", 5, payload)
    sender.transport.offer("peer", 5, payload)
    with pytest.raises(ValueError, match="already"):
        sender.transport.offer("peer", 5, payload)
    sender.transport.withdraw(5)
    with pytest.raises(ValueError, match="not forgotten"):
        sender.transport.offer("peer", 5, payload)
    sender.transport.forget(5)
    sender.transport.offer("peer", 5, payload)


# Nothing below compares shapes


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((8 * MIB,), "uint32"),  # as many bytes
        ((4, 8 * MIB), "uint8"),  # as many bytes
        ((16 * MIB,), "uint8"),  # a whole number of chunks: cut short without a word, natively
        ((100,), "uint8"),
        ((33 * MIB,), "uint8"),
        ((32 * MIB,), "uint16"),
    ],
)
def test_another_shape_or_dtype_is_never_a_success(pair, shape, dtype):
    sender, receiver = pair
    key = new_key()
    sender.transport.offer("peer", key, aligned_empty((32 * MIB,), "uint8"))
    assert fetch(receiver, key, shape, dtype) == [FAILED]
    assert receiver.transport.collect(key, 0) is None
    sender.transport.forget(key)
    receiver.idle()
    key = new_key()
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    assert fetch(receiver, key, (64,)) == [DONE], "the link outlives the failed connection"


def test_a_payload_without_our_label_is_never_a_success(pair):
    sender, receiver = pair
    key = new_key()
    server = sender.transport._pool.of("peer")
    server.native.await_pull(key, [jnp.zeros(64, "uint8")])
    assert fetch(receiver, key, (64,)) == [FAILED]
    key = new_key()
    server.native.await_pull(key, [jnp.zeros(64, "uint8"), jnp.zeros(32, "uint32")])
    assert fetch(receiver, key, (64,)) == [FAILED]


def test_an_array_that_failed_at_the_sender_is_never_a_success(pair):
    """Its label is good, and ``is_ready()`` is true for both."""
    sender, receiver = pair
    spec = PayloadSpec((64,), "uint8")
    key = new_key()
    broken = transfer.make_error_array(pull_specs(spec, jax.devices()[0])[0], "no such page")
    sender.transport._pool.of("peer").native.await_pull(key, [broken, jnp.asarray(make_label(key, spec))])
    assert fetch(receiver, key, (64,)) == [FAILED]


@pytest.mark.parametrize("shape", [(0,), (4, 0), (1,) * 9, (-1,)])
def test_an_impossible_spec_from_the_peer_is_a_report(pair, shape):
    assert fetch(pair[1], new_key(), shape) == [FAILED]


@pytest.mark.parametrize(("key", "dtype"), [(0, "uint8"), (1 << 63, "uint8"), (7, "float32"), (7, "no such type")])
def test_an_impossible_key_or_dtype_from_the_peer_is_a_report(pair, key, dtype):
    assert fetch(pair[1], key, (4,), dtype) == [FAILED]


# Withdrawn, forgotten, fetched before


def test_a_withdrawn_offer_fails_pullers_that_wait_and_pullers_that_come_later(pair):
    sender, receiver = pair
    key = new_key()
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    sender.transport.withdraw(key)
    sender.transport.withdraw(key)
    sender.until(lambda: sender.transport.gauges()["payloads_lent"] == 0)
    assert fetch(receiver, key, (64,)) == [FAILED]
    assert sender.transport.gauges()["offers_withdrawn"] == 1
    sender.transport.forget(key)
    sender.transport.forget(key)
    sender.idle()


def test_a_puller_that_waits_fails_when_the_key_is_withdrawn(pair):
    sender, receiver = pair
    key, again = new_key(), new_key()
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    assert fetch(receiver, key, (64,)) == [DONE]
    receiver.transport.release(key)
    op = started(receiver, key)  # fetched already: it would wait for ever
    sender.transport.offer("peer", again, pattern(64, "uint8"))
    assert fetch(receiver, again, (64,)) == [DONE], "a pull that waits holds up no other"
    assert receiver.outcomes(op) == []
    sender.transport.withdraw(key)
    assert receiver.end_of(op) == [FAILED]


def test_a_forgotten_key_leaves_nothing_and_a_late_pull_ends_by_cancel(pair):
    sender, receiver = pair
    key = new_key()
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    sender.transport.forget(key)
    sender.idle()
    op = started(receiver, key)
    receiver.transport.cancel(op)
    assert receiver.end_of(op) == [FAILED]
    assert "cancelled" in detail(receiver, op)[0]
    receiver.idle()


def test_the_janitor_makes_native_timeouts_work(pair):
    sender, _ = pair
    array, trace = put_on_device(pattern(1024, "uint8"), jax.devices()[0])
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    sender.transport._pool.of("peer").native.await_pull(new_key(), [array], timeout=soon)
    del array

    def freed():
        gc.collect()
        return trace() is None

    sender.until(freed)  # ticks


def test_several_bulk_connections_at_both_ends_work(make):
    sender, receiver = make(transports=2), make(transports=2)
    join(sender, receiver)
    key = new_key()
    source = pattern(20 * MIB, "uint8")
    sender.transport.offer("peer", key, source)
    assert fetch(receiver, key, source.shape) == [DONE]
    np.testing.assert_array_equal(np.asarray(receiver.transport.collect(key, 0)), source)
