"""Servers, ports, descriptors and limits of the jax pull transport."""

import socket
import subprocess
import sys

import pytest

from kvpoll.runtime.transports import jax_servers
from kvpoll.runtime.transports.base import Direction, Exposure, Outcome
from kvpoll.runtime.transports.jax_pull import JaxPullTransport

from . import jax_rig
from .jax_peer import MIB, pattern
from .jax_rig import fetch, join, new_key, started

ends, pair, make = jax_rig.ends, jax_rig.pair, jax_rig.make
DONE, FAILED = Outcome.DONE, Outcome.FAILED


# Servers and ports


def test_each_link_has_its_own_server_until_the_pool_is_full(make):
    wide, narrow = make(), make(max_servers=2)
    addresses = lambda driven: [driven.transport.descriptor(link)["address"] for link in "abcd"]  # noqa: E731
    assert len(set(addresses(wide))) == 4
    assert len(set(addresses(narrow))) == 2
    assert addresses(narrow) == addresses(narrow)


def test_a_fence_on_a_shared_server_spares_the_other_link(make):
    sender, receiver = make(max_servers=1), make()
    join(sender, receiver, "a")
    join(sender, receiver, "b")
    sender.transport.offer("a", 7, pattern(64, "uint8"))
    sender.transport.fence_peer("a")
    sender.fenced("a")
    key = new_key()
    sender.transport.offer("b", key, pattern(64, "uint8"))
    assert fetch(receiver, key, (64,), link="b") == [DONE]


def test_a_closed_peer_gives_its_server_back(pair):
    sender, receiver = pair
    key = new_key()
    sender.transport.offer("peer", key, pattern(64, "uint8"))
    assert fetch(receiver, key, (64,)) == [DONE]
    sender.transport.forget(key)
    receiver.transport.release(key)
    host, port = sender.transport.descriptor("peer")["address"].split(":")
    for driven in pair:
        driven.transport.close_peer("peer")
        driven.idle()
        assert not any(driven.transport.pools().values())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def shared_listener(port=0):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_port_that_somebody_shares_is_not_ours(make):
    with shared_listener() as foreign, shared_listener() as gone:
        taken, free = foreign.getsockname()[1], gone.getsockname()[1]
        gone.close()
        driven = make(ports=[taken, free])
        assert driven.transport.descriptor("peer")["address"] == f"127.0.0.1:{free}"
        with pytest.raises(RuntimeError, match="ports"):
            driven.transport.descriptor("no ports left")


def test_a_listener_that_joins_our_port_later_is_seen(pair):
    sender, _ = pair
    assert sender.transport.probe("peer")
    port = int(sender.transport.descriptor("peer")["address"].split(":")[1])
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
            f"s.bind(('127.0.0.1', {port})); s.listen(); print('up', flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as foreign:
        assert foreign.stdout.readline()
        assert not sender.transport.probe("peer")
        foreign.stdin.close()
    assert sender.transport.probe("peer")


def test_a_server_whose_port_turns_out_shared_is_replaced(make, monkeypatch):
    answers = iter([False, True])
    checked = []
    monkeypatch.setattr(jax_servers, "listeners_are_ours", lambda ports: checked.append(set(ports)) or next(answers))
    port = int(make().transport.descriptor("peer")["address"].split(":")[1])
    assert len(checked) == 2
    assert port in checked[1]
    assert port not in checked[0]


# Descriptors, limits, the package


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("transports", 4),
        ("transport", "zmq"),
        ("layout", 2),
        ("jax", "0.0.1"),
        ("transfer_size", 8 * MIB),
        ("address", "localhost:1"),
        ("address", "0.0.0.0:1"),
        ("address", "127.0.0.1"),
        ("address", 7),
        ("bulk_ports", ""),
        ("bulk_ports", "1,2"),
        ("bulk_ports", "x"),
        ("instance", ""),
        ("instance", None),
    ],
)
def test_a_descriptor_that_does_not_fit_is_named_and_never_opened(make, field, value):
    transport = make().transport
    ours = transport.descriptor("peer")
    theirs = {**ours, field: value}
    assert field in transport.mismatches(ours, theirs)
    with pytest.raises(ValueError, match=field):
        transport.open_peer("peer", theirs)
    without = {name: each for name, each in ours.items() if name != field}
    assert field in transport.mismatches(ours, without)


def test_the_limits_hold(make):
    sender, receiver = make(max_offers=1, max_links=1), make(max_in_flight=1)
    join(sender, receiver)
    op = started(receiver, new_key())
    with pytest.raises(ValueError, match="limit"):
        started(receiver, new_key())
    with pytest.raises(ValueError, match="in progress"):
        receiver.pull(op, "peer", new_key(), (4,))
    sender.transport.offer("peer", 1, pattern(64, "uint8"))
    with pytest.raises(ValueError, match="limit"):
        sender.transport.offer("peer", 2, pattern(64, "uint8"))
    with pytest.raises(ValueError, match="limit"):
        sender.transport.descriptor("second")
    with pytest.raises(ValueError, match="open already"):
        receiver.transport.open_peer("peer", sender.transport.descriptor("peer"))


def test_a_key_in_use_is_not_fetched_twice_at_a_time(pair):
    _, receiver = pair
    key = new_key()
    started(receiver, key)
    assert fetch(receiver, key, (64,)) == [FAILED]


@pytest.mark.parametrize(
    "options",
    [{"host": "localhost"}, {"host": "0.0.0.0"}, {"transfer_size": 256 * MIB}, {"transports": 0}, {"max_lanes": 1}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=r"expected|appear"):
        JaxPullTransport(**options)


def test_it_pulls_and_can_fence(pair):
    transport = pair[0].transport
    capabilities = transport.capabilities
    assert (capabilities.name, capabilities.direction) == ("jax", Direction.PULL)
    assert capabilities.fence_operation
    assert capabilities.fence_peer
    with pytest.raises(NotImplementedError):
        transport.expose(Exposure("peer", 1, 1, 1))
    with pytest.raises(NotImplementedError):
        transport.retract(1)


def test_the_package_of_transports_does_not_import_jax():
    program = "import sys, kvpoll.runtime.transports.base; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
