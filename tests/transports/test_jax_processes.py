"""The jax pull transport against peers in other processes: killed, stopped, restarted, never coming."""

import itertools
import secrets
import signal
import socket
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from kvpoll.runtime.transports.base import Outcome

from .jax_peer import MIB, Driven, Peer, pattern, resident

DONE, FAILED, UNRESOLVED, FENCED = Outcome.DONE, Outcome.FAILED, Outcome.UNRESOLVED, Outcome.FENCED
BIG = 256 * MIB
SLACK = 48 * MIB  # what a process may keep of BIG: scratch buffers, arenas
ops = itertools.count(1)
links = (f"link{count}" for count in itertools.count(1))


def new_key():
    return secrets.randbits(62) + 1


@pytest.fixture(scope="module")
def peers():
    """Two peers for the whole module; tests that kill one start their own."""
    with ExitStack() as stack:
        both = [Peer(), Peer()]
        for peer in both:
            stack.callback(peer.kill)
        yield both


@pytest.fixture
def us():
    driven = Driven()
    yield driven
    driven.transport.close()


def join(us, peer):
    link = next(links)
    theirs = peer("descriptor", link)
    us.transport.open_peer(link, theirs)
    peer("open", link, us.transport.descriptor(link))
    return link


@contextmanager
def standing_still(peer):
    peer.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        peer.signal(signal.SIGCONT)


def start_big_pull(us, peer, link):
    """A pull of BIG bytes from the peer that is half-way: our memory grows."""
    key, op = new_key(), next(ops)
    peer("offer", link, key, BIG, "uint8")
    before = resident()
    us.pull(op, link, key, (BIG,))
    us.until(lambda: resident() > before + BIG // 8)
    return op, before


def start_parked_pull(us, link):
    op = next(ops)
    us.pull(op, link, new_key(), (64,))
    return op


def fetch(us, peer, link, count=1000, dtype="uint32"):
    key, op = new_key(), next(ops)
    peer("offer", link, key, count, dtype)
    us.pull(op, link, key, (count,), dtype)
    outcome = us.end_of(op)
    if outcome == [DONE]:
        np.testing.assert_array_equal(np.asarray(us.transport.collect(key, 0)), pattern(count, dtype))
    us.transport.release(key)
    peer("forget", key)
    return outcome


def memory_is_back(us, before):
    us.until(lambda: resident() < before + SLACK)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_payloads_arrive_bit_by_bit_in_both_directions(us, peers, dtype):
    peer = peers[0]
    link = join(us, peer)
    count = 9 * MIB + 1  # more than one chunk, and no whole number of them
    assert fetch(us, peer, link, count, dtype) == [DONE]
    key = new_key()
    us.transport.offer(link, key, pattern(count, dtype))
    op = next(ops)
    peer("pull", op, link, key, [count], dtype)
    assert peer("end", op) == ["done"]
    assert peer("same", key, count, dtype)
    us.transport.forget(key)
    us.transport.close_peer(link)
    us.idle()


def test_an_offer_that_nobody_fetches_is_freed_by_withdraw(us, peers):
    link = join(us, peers[0])
    key = new_key()
    before = resident()
    us.transport.offer(link, key, pattern(BIG + 1, "uint8")[1:])  # not aligned: the native layer has the only copy
    us.until(lambda: resident() > before + BIG - SLACK)
    us.transport.withdraw(key)
    memory_is_back(us, before)


def test_a_killed_peer_fails_its_pulls_and_only_those_and_a_new_link_reaches_its_successor(us, peers):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = Peer(ports=[port])
    link, other = join(us, first), join(us, peers[0])
    assert fetch(us, first, link) == [DONE]
    parked = start_parked_pull(us, link)
    big, before = start_big_pull(us, first, link)
    first.kill()
    assert us.end_of(parked) == [FAILED]
    assert us.end_of(big) == [FAILED]
    memory_is_back(us, before)
    assert fetch(us, peers[0], other) == [DONE]

    second = Peer(ports=[port])
    try:
        fresh = join(us, second)
        assert fetch(us, second, fresh) == [DONE]
        us.transport.fence_peer(link)
        us.fenced(link)
        us.transport.close_peer(link)
        assert fetch(us, second, fresh) == [DONE]
    finally:
        second.kill()


def test_a_stopped_sender_stalls_nobody_else_and_is_cancelled_and_fenced_while_it_stands(us, peers):
    stopped, alive = peers
    lost, other = join(us, stopped), join(us, alive)
    big, before = start_big_pull(us, stopped, lost)
    with standing_still(stopped):
        parked, cancelled = start_parked_pull(us, lost), start_parked_pull(us, lost)
        assert fetch(us, alive, other) == [DONE]
        us.transport.cancel(cancelled)
        assert us.end_of(cancelled) == [FAILED]
        us.transport.fence_peer(lost)
        us.fenced(lost)
        assert us.outcomes(big) == us.outcomes(parked) == [UNRESOLVED, FENCED]
        us.transport.close_peer(lost)
        us.idle()  # threads and server too: destroying it earlier would have stopped us
        memory_is_back(us, before)
        assert fetch(us, alive, other) == [DONE]
    assert fetch(us, stopped, join(us, stopped)) == [DONE], "it goes on under a new link"


def test_a_pull_cancelled_half_way_from_a_stopped_sender_ends_at_once(us, peers):
    stopped, _ = peers
    big, _ = start_big_pull(us, stopped, join(us, stopped))
    with standing_still(stopped):
        us.transport.cancel(big)
        assert us.end_of(big) == [FAILED]
        us.transport.close()
        us.reports += us.transport.poll()
        assert not any(us.transport.gauges().values())


def test_a_stopped_receiver_stalls_nobody_else_and_reads_nothing_after_the_fence(us, peers):
    stopped, alive = peers
    lost, other = join(us, stopped), join(us, alive)
    payload = pattern(BIG, "uint8")
    key, unfetched = new_key(), new_key()
    before = resident(stopped.process.pid)
    us.transport.offer(lost, key, payload)
    us.transport.offer(lost, unfetched, pattern(64, "uint8"))
    theirs, op = next(ops), next(ops)
    stopped("pull", theirs, lost, key, [BIG])
    us.until(lambda: resident(stopped.process.pid) > before + BIG // 8)
    with standing_still(stopped):
        small = new_key()
        us.transport.offer(other, small, pattern(1000, "uint8"))
        alive("pull", op, other, small, [1000])
        assert alive("end", op) == ["done"]
        us.transport.forget(small)
        us.transport.withdraw(key)
        assert us.transport.gauges()["payloads_lent"] == 2, "one whose fetch began, one offered"
        us.transport.fence_peer(lost)
        us.fenced(lost)
        assert us.transport.gauges()["payloads_lent"] == 0
        payload[:] = 0  # the memory is ours again
        us.transport.close_peer(lost)
        us.idle()
    assert stopped("end", theirs) == ["failed"], "and never a mixture"


def test_a_receiver_that_dies_gives_the_payload_back(us):
    peer = Peer()
    link = join(us, peer)
    key = new_key()
    us.transport.offer(link, key, pattern(BIG, "uint8"))
    before = resident(peer.process.pid)
    peer("pull", 1, link, key, [BIG])
    us.until(lambda: resident(peer.process.pid) > before + BIG // 8)
    peer.kill()
    us.until(lambda: us.transport.gauges()["payloads_lent"] == 0)
    us.transport.forget(key)
    us.transport.fence_peer(link)
    us.fenced(link)


def test_a_peer_that_nobody_answers_for_is_cancelled(us):
    with socket.socket() as nobody:  # bound, never listening: connections are refused
        nobody.bind(("127.0.0.1", 0))
        theirs = {**us.transport.descriptor("gone"), "address": f"127.0.0.1:{nobody.getsockname()[1]}"}
        us.transport.open_peer("gone", theirs)
        op = start_parked_pull(us, "gone")
        us.transport.cancel(op)
        assert us.end_of(op) == [FAILED]
