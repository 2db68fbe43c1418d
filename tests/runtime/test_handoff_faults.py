"""Hand-offs that go wrong: aborts, refusals, failing transfers, wrong secrets, bootstrap trouble, processes that end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from kvpoll.protocol.errors import KVTransferError, LocalProtocolError
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import Durations, EngineSpec, KVBootstrapServer, KVManager, KVReceiver, KVSender, Request, relay
from kvpoll.runtime.transports.inproc import Fate, Faults, InprocHub, InprocTransport
from kvpoll.spec import KVPoll

from .engines import PATIENCE, SHORT, SPEC, Engine, Room, cause, config, detail, eventually, kinds, pair

FAILED = (KVPoll.Failed, KVPoll.Failed)
QUICK = Durations.model_validate(SHORT.model_dump() | {"hello": 0.6, "drain": 0.4})


class Held:
    """Two engines over a transport that does what a test plans."""

    def __init__(self, fate: Fate = Fate.HOLD, **changes: object) -> None:
        self.hub = InprocHub(Faults(fate))
        self.p = Engine("prefill", "inproc", transports=[InprocTransport(self.hub)], **changes)
        self.d = Engine("decode", "inproc", transports=[InprocTransport(self.hub)], **changes)

    def on_the_wire(self, count: int) -> list[int]:
        assert eventually(self.p.manager, lambda: len(self.hub.on_wire()) == count)
        return self.hub.on_wire()

    def close(self) -> None:
        assert self.d.manager.close() == {}
        assert self.p.manager.close() == {}


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.p.becomes_idle()
    held.d.becomes_idle()
    held.close()


@pytest.fixture(params=["inproc", "zmq", "jax"], scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, Engine]]:
    with pair(request.param) as both:
        yield both


@pytest.fixture
def engines(shared: tuple[Engine, Engine]) -> Iterator[tuple[Engine, Engine]]:
    yield shared
    for engine in shared:
        engine.becomes_idle()
        engine.returned.clear()


# -- aborts ------------------------------------------------------------------------------------------------------------------
STAGES = ("announced", "pages", "data")


def at_stage(room: Room, stage: str) -> None:
    room.receiver.init()
    room.sender = KVSender(room.p.manager, room.no, room.request)
    sender = room.sender
    assert eventually(room.p.manager, lambda: bool(room.p.manager.gauges()["attempts"]))
    if stage == "announced":
        return
    room.target, room.slots[1] = room.d.allocate(room.request), room.d.aux.allocate()
    room.receiver.send_metadata(room.target, room.slots[1])
    assert room.p.manager.wait(lambda: sender.poll() is KVPoll.WaitingForInput, PATIENCE)
    if stage == "data":
        room.prefill(2)
        room.arrives()


@pytest.mark.parametrize("who", ["sender", "receiver"])
@pytest.mark.parametrize("stage", STAGES)
def test_an_abort_ends_both_ends_with_the_reason_and_every_lease_comes_back(
    engines: tuple[Engine, Engine], stage: str, who: str
) -> None:
    room = Room(*engines, 1)
    at_stage(room, stage)
    assert room.sender is not None
    mine, other = (room.sender, room.receiver) if who == "sender" else (room.receiver, room.sender)
    mine.abort("client went away", 400)
    mine.abort("a second time")
    assert room.ends() == FAILED
    assert (cause(mine), detail(mine, "reason")) == ("ABORTED", "client went away")
    assert (cause(other), detail(other, "reason"), detail(other, "cause")) == (
        "PEER_ABORTED",
        "client went away",
        "ABORTED",
    )
    error = other.failure_exception()
    assert error is not None
    assert error.failure.status == 400
    for engine in engines:
        engine.becomes_idle()
    assert kinds(engines[1].returned) == ({LeaseKind.PAGES: 1, LeaseKind.AUX: 1} if stage != "announced" else {})


def test_an_abort_before_init_is_heard_by_the_prefill_end(engines: tuple[Engine, Engine]) -> None:
    room = Room(*engines, 2)
    sender = room.prefill()
    room.receiver.abort("never wanted")
    assert room.receiver.poll() is KVPoll.Failed
    room.receiver.abort("again")
    sender.abort("nobody will come: its announcement and its abort may have crossed")
    assert room.ends() == FAILED


def test_an_abort_of_a_room_that_could_not_even_be_created_fails_it_alone(engines: tuple[Engine, Engine]) -> None:
    p, d = engines
    room = Room(p, d, 3)
    room.decode()
    twin = Room(p, d, 3).receiver
    twin.abort("busy")
    assert (twin.poll(), cause(twin)) == (KVPoll.Failed, "ABORTED")
    twin.clear()
    room.prefill()
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)


def test_clearing_a_live_room_aborts_it_and_clearing_twice_does_nothing(engines: tuple[Engine, Engine]) -> None:
    room = Room(*engines, 4)
    room.decode()
    room.prefill()
    room.arrives()
    room.receiver.clear()
    room.receiver.clear()
    assert room.ends() == FAILED
    assert detail(room.receiver, "reason") == "cleared by the engine while live"
    assert room.sender is not None
    room.sender.clear()
    room.sender.clear()


def test_clearing_a_room_that_ended_loses_no_lease_and_no_answer(engines: tuple[Engine, Engine]) -> None:
    room = Room(*engines, 5)
    room.run()
    assert room.sender is not None
    room.sender.clear()
    room.receiver.clear()
    assert (room.sender.poll(), room.receiver.poll()) == (KVPoll.Success, KVPoll.Success)


@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_memory_of_an_abort_in_mid_transfer_waits_for_the_transfer(held: Held, who: str) -> None:
    room = Room(held.p, held.d, 6)
    room.decode()
    room.prefill(3)
    held.on_the_wire(3)
    held.hub.faults.default = Fate.DELIVER
    for side in (held.p, held.d):
        side.collect()
    held.hub.drop(held.p.manager.data.transports["inproc"].address)  # type: ignore[attr-defined]
    assert room.sender is not None
    (room.sender if who == "sender" else room.receiver).abort("enough")
    assert room.ends() == FAILED
    held.d.becomes_idle()
    before = [layer.copy() for layer in held.d.pool]
    assert held.hub.on_wire() == []
    assert all(np.array_equal(a, b) for a, b in zip(before, held.d.pool, strict=True))


def test_pages_that_come_after_the_failure_come_back_at_once(engines: tuple[Engine, Engine]) -> None:
    room = Room(*engines, 7)
    at_stage(room, "announced")
    assert room.sender is not None
    room.sender.abort("too long", 400)
    room.ends()
    room.target, room.slots[1] = room.d.allocate(room.request), room.d.aux.allocate()
    room.receiver.send_metadata(room.target, room.slots[1])
    room.prefill()
    for engine in engines:
        engine.becomes_idle()
    assert kinds(engines[1].returned) == {LeaseKind.PAGES: 1, LeaseKind.AUX: 1}
    assert kinds(engines[0].returned) == {LeaseKind.SOURCE: 1}
    assert engines[0].returned[0].pages == tuple(room.source)


# -- transfers ---------------------------------------------------------------------------------------------------------------
def test_a_failed_operation_fails_both_ends_and_other_rooms_go_on(held: Held) -> None:
    held.hub.faults.default = Fate.DELIVER
    held.hub.faults.then(Fate.DELIVER, Fate.FAIL)
    room = Room(held.p, held.d, 8)
    room.decode()
    room.prefill(2)
    assert room.ends() == FAILED
    assert (cause(room.sender), detail(room.receiver, "cause")) == ("TRANSPORT_FAILED", "TRANSPORT_FAILED")  # type: ignore[arg-type]
    Room(held.p, held.d, 9).run(2)


def test_an_unresolved_operation_is_fenced_and_its_memory_comes_back_after_that(held: Held) -> None:
    held.hub.faults.default = Fate.DELIVER
    held.hub.faults.then(Fate.UNRESOLVED)
    room = Room(held.p, held.d, 10)
    room.decode()
    room.prefill(2)
    assert room.ends() == FAILED
    assert cause(room.sender) == "TRANSPORT_UNRESOLVED"  # type: ignore[arg-type]
    held.p.becomes_idle()
    held.d.becomes_idle()
    assert held.hub.on_wire() == []
    Room(held.p, held.d, 10).run()


def test_a_peer_that_goes_while_data_is_on_the_wire_frees_memory_after_the_fence() -> None:
    held = Held()
    room = Room(held.p, held.d, 11)
    room.decode()
    room.prefill()
    held.on_the_wire(2)
    closing = threading.Thread(target=held.p.manager.close)
    closing.start()
    assert held.d.manager.wait(lambda: room.receiver.poll() is KVPoll.Failed, PATIENCE)
    closing.join(PATIENCE)
    held.d.becomes_idle()
    assert held.d.manager.close() == {}


# -- commit ------------------------------------------------------------------------------------------------------------------
def test_a_commit_that_raises_fails_both_ends_and_the_error_is_the_callers(engines: tuple[Engine, Engine]) -> None:
    room = Room(*engines, 12)
    room.decode()
    room.prefill()
    room.arrives()
    with pytest.raises(ValueError, match="rows: expected shape"):
        room.receiver.commit(room.d.pool[:1])
    assert room.ends() == FAILED
    assert (cause(room.receiver), detail(room.receiver, "gate")) == ("GATE_FAILED", "commit")
    assert "ValueError" in str(detail(room.sender, "reason"))  # type: ignore[arg-type]


def test_a_room_that_fails_while_it_is_committed_still_returns_the_new_pool(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.hub.faults.default = Fate.DELIVER
    room = Room(held.p, held.d, 13)
    room.decode()
    room.prefill()
    room.arrives()
    scatter = relay.scatter

    def fail_meanwhile(*args: object) -> object:
        assert room.sender is not None
        room.sender.abort("too late")
        assert held.d.manager.wait(lambda: room.receiver.poll() is KVPoll.Failed, PATIENCE)
        assert (LeaseKind.PAGES, 13) not in {(r.kind, r.room) for r in held.d.collect()}, "they are being written"
        return scatter(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(relay, "scatter", fail_meanwhile)
    after = room.receiver.commit(held.d.pool)
    assert len(after) == len(held.d.pool)
    assert room.ends() == FAILED
    with pytest.raises(KVTransferError, match="PEER_ABORTED"):
        room.receiver.commit(after)


# -- the handshake -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"page_size": 8, "page_nbytes": SPEC.page_nbytes * 2}, "page.tokens"),
        ({"kv_dtype": "float8"}, "kv_dtype"),
        ({"layers": 4, "layer_stop": 2}, "layers.total"),
    ],
)
def test_engines_that_do_not_fit_are_refused_by_field_and_other_pairs_are_undisturbed(
    changes: dict[str, object], field: str
) -> None:
    with pair("inproc") as (p, d):
        odd = EngineSpec.model_validate(SPEC.model_dump() | changes)
        with KVManager(config("decode", "inproc", engine=odd)) as stranger:
            Room(p, d, 1).run()
            receiver = KVReceiver(stranger, "", 0, 2, Request.of([1]), address=p.manager.address)
            receiver.init()
            assert stranger.wait(lambda: receiver.poll() is KVPoll.Failed, PATIENCE)
            assert cause(receiver) == "HANDSHAKE_REFUSED"
            assert field.split(".")[0] in str(detail(receiver, "fields"))
            assert detail(receiver, "why")
            Room(p, d, 3).run()


def test_two_prefill_processes_on_one_port_name_the_address_and_leave_nothing_behind() -> None:
    with Started() as before, KVManager(config("prefill")) as first:
        port = int(first.address.rsplit(":", 1)[1])
        with pytest.raises(OSError, match=f"control address tcp://127.0.0.1:{port}"):
            KVManager(config("prefill", port=port))
    with KVManager(config("prefill", port=port)) as third:
        assert third.address.endswith(f":{port}")
    assert before


class Started:
    """Every thread of ours that was started inside is gone at the end."""

    def __enter__(self) -> Started:
        self.before = set(threading.enumerate())
        return self

    def __exit__(self, *_: object) -> None:
        left = [t for t in threading.enumerate() if t not in self.before and t.name.startswith("kvpoll")]
        for thread in left:
            thread.join(PATIENCE)
        assert not [t.name for t in left if t.is_alive()]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"transports": ("inproc", "pigeon")}, LocalProtocolError, "transports: expected one of"),
        ({"transports": ("zmq", "zmq")}, LocalProtocolError, "transports: expected every one once"),
        ({"trace": "/nonexistent/folder/trace"}, OSError, "/nonexistent/folder/trace"),
        ({"bootstrap": "embedded", "advertise": "0.0.0.0"}, ValueError, "control"),
    ],
    ids=["transport", "twice", "trace", "advertise"],
)
def test_a_process_that_cannot_start_says_why_and_leaves_no_port_and_no_thread(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    with KVManager(config("prefill")) as probe:
        port = int(probe.address.rsplit(":", 1)[1])
    with Started(), pytest.raises(error, match=words):
        KVManager(config("prefill", port=port, **changes))
    with KVManager(config("prefill", port=port)) as again:
        assert again.address.endswith(f":{port}")


def test_a_port_of_the_embedded_registry_that_is_taken_leaves_nothing_behind() -> None:
    with KVBootstrapServer() as taken, Started(), pytest.raises(OSError, match=str(taken.port)):
        KVManager(config("prefill", bootstrap="embedded", bootstrap_port=taken.port))


# -- secrets -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transport", ["inproc", "zmq"])
def test_a_hand_off_under_a_shared_secret(transport: str) -> None:
    with pair(transport, secret="hunter2") as (p, d):
        for number in range(3):
            Room(p, d, number).run(2)


@pytest.mark.parametrize("secrets", [("a", "b"), ("a", None), (None, "b")], ids=str)
def test_ends_with_different_secrets_never_meet_and_the_receiver_says_so(
    secrets: tuple[str | None, str | None],
) -> None:
    p = Engine("prefill", "inproc", secret=secrets[0], durations=QUICK)
    d = Engine("decode", "inproc", secret=secrets[1], durations=QUICK)
    room = Room(p, d, 1)
    room.decode()
    sender = room.prefill()
    assert d.manager.wait(lambda: room.receiver.poll() is KVPoll.Failed, PATIENCE)
    assert (cause(room.receiver), detail(room.receiver, "address")) == ("UNREACHABLE", p.manager.address)
    assert sender.poll() is KVPoll.Bootstrapping
    sender.abort()
    d.becomes_idle()
    p.becomes_idle()
    assert (p.manager.close(), d.manager.close()) == ({}, {})


# -- the bootstrap service -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("secret", [None, "hunter2"], ids=["open", "secret"])
def test_a_decode_process_finds_prefill_through_its_embedded_registry(secret: str | None) -> None:
    p = Engine("prefill", "inproc", bootstrap="embedded", secret=secret)
    with Engine("decode", "inproc", secret=secret).manager as manager:
        d = Engine.__new__(Engine)
        d.__dict__.update(p.__dict__)
        assert p.manager.wait_registered(PATIENCE)
        where = p.manager.bootstrap
        assert where is not None
        receiver = KVReceiver(manager, *where, 5, Request.of([1, 2]))
        sender = KVSender(p.manager, 5, Request.of([1, 2]))
        receiver.init()
        receiver.send_metadata([0])
        sender.send([0], p.pool)
        assert manager.wait(lambda: receiver.committable, PATIENCE), receiver.failure_exception()
        receiver.commit([np.zeros_like(layer) for layer in p.pool])
        assert receiver.poll() is KVPoll.Success
        assert p.manager.wait(lambda: sender.poll() is KVPoll.Success, PATIENCE)
    assert p.manager.close() == {}


def test_a_registry_that_was_restarted_is_registered_at_again_and_rooms_go_on() -> None:
    first = KVBootstrapServer()
    first.start()
    port = first.port
    p = Engine("prefill", "inproc", bootstrap=first.url)
    d = Engine("decode", "inproc")
    assert p.manager.wait_registered(PATIENCE)
    Room(p, d, 1, bootstrap=p.manager.bootstrap).run()
    first.stop()
    Room(p, d, 2, bootstrap=p.manager.bootstrap).run()  # the link is open: nobody asks the registry
    d.becomes_idle()
    assert d.manager.close() == {}
    d = Engine("decode", "inproc")
    late = Room(p, d, 3, bootstrap=("127.0.0.1", port))
    late.decode()
    second = KVBootstrapServer(port=port)
    second.start()
    late.prefill()
    assert d.manager.wait(lambda: late.receiver.committable or late.receiver.poll() is KVPoll.Failed, PATIENCE)
    if late.receiver.poll() is KVPoll.Failed:  # the registration came after the hello deadline: allowed, and said
        assert cause(late.receiver) == "UNREACHABLE"
        late.sender.abort()  # type: ignore[union-attr]
    else:
        late.commit()
        assert late.ends() == (KVPoll.Success, KVPoll.Success)
    for engine in (p, d):
        engine.becomes_idle()
    assert (d.manager.close(), p.manager.close()) == ({}, {})
    second.stop()


@pytest.mark.parametrize("trouble", ["nobody there", "no such rank", "no such name", "wrong secret"])
def test_a_prefill_rank_that_cannot_be_found_is_unreachable_and_the_reason_is_said(trouble: str) -> None:
    with KVBootstrapServer(secret="a") as server:
        secret = "b" if trouble == "wrong secret" else "a"
        host, port = {
            "nobody there": ("127.0.0.1", 1),
            "no such name": ("no-such-host.invalid", 80),
        }.get(trouble, ("127.0.0.1", server.port))
        with KVManager(config("decode", "inproc", secret=secret, durations=QUICK)) as manager:
            receiver = KVReceiver(manager, host, port, 1, Request.of([1]))
            receiver.init(prefill_dp_rank=5)
            other = KVReceiver(manager, host, port, 2, Request.of([1]))
            other.init(prefill_dp_rank=5)
            for each in (receiver, other):
                assert manager.wait(lambda each=each: each.poll() is KVPoll.Failed, PATIENCE)  # type: ignore[misc]
                assert cause(each) == "UNREACHABLE"
                assert f"{host}:{port}" in str(detail(each, "address"))
                reason = str(detail(each, "reason"))
                expected = {
                    "nobody there": "refused", "no such rank": "no live prefill rank dp=5", "no such name": "no-such-host",
                    "wrong secret": "secret",
                }[trouble]  # fmt: skip
                assert expected in reason
            assert not manager.busy()


def test_a_name_that_no_resolver_can_be_asked_for_does_not_end_the_look_ups_of_others() -> None:
    """A label of more than 63 characters makes the encoder raise, not the resolver answer."""
    p = Engine("prefill", "inproc", bootstrap="embedded")
    with KVManager(config("decode", "inproc", durations=QUICK)) as manager:
        bad = KVReceiver(manager, "x" * 70 + ".example", 80, 1, Request.of([1]))
        bad.init()
        assert manager.wait(lambda: bad.poll() is KVPoll.Failed, PATIENCE)
        assert cause(bad) == "UNREACHABLE"
        assert p.manager.wait_registered(PATIENCE)
        assert p.manager.bootstrap is not None
        good = KVReceiver(manager, *p.manager.bootstrap, 2, Request.of([1]))
        good.init()
        sender = KVSender(p.manager, 2, Request.of([1]))
        assert eventually(p.manager, lambda: bool(p.manager.gauges()["attempts"])), good.failure_exception()
        sender.abort()
        assert manager.wait(lambda: good.poll() is KVPoll.Failed, PATIENCE)
        assert cause(good) == "PEER_ABORTED"
    assert p.manager.close() == {}


# -- the end -------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("who", ["prefill", "decode"])
def test_a_process_that_closes_fails_its_live_rooms_and_tells_the_peer(who: str) -> None:
    p, d = Engine("prefill"), Engine("decode")
    room = Room(p, d, 1)
    room.decode()
    room.prefill()
    room.arrives()
    first, second = (p, d) if who == "prefill" else (d, p)
    assert first.manager.close() == {}
    assert room.ends() == FAILED
    mine, other = (room.sender, room.receiver) if who == "prefill" else (room.receiver, room.sender)
    assert mine is not None
    assert other is not None
    assert cause(mine) == "SHUTDOWN"
    assert detail(other, "cause") == "SHUTDOWN" or cause(other) == "PEER_LOST"
    first.collect()
    assert first.pages.idle
    second.becomes_idle()
    assert second.manager.close() == {}


def test_closing_twice_and_calls_after_it_do_no_harm() -> None:
    p, d = Engine("prefill", "inproc"), Engine("decode", "inproc")
    room = Room(p, d, 1)
    room.run()
    with Started():
        for _ in range(2):
            assert (d.manager.close(), p.manager.close()) == ({}, {})
    assert room.sender is not None
    for handle in (room.sender, room.receiver):
        assert handle.poll() is KVPoll.Success
        assert handle.failure_exception() is None
        handle.abort()
        handle.clear()
    assert p.idle
    assert d.idle
    with pytest.raises(LocalProtocolError, match="draining") as caught:
        KVSender(p.manager, 2, room.request)
    assert caught.value.cause.name == "DRAINING"
    late = Room(p, d, 3).receiver
    late.clear()
    assert late.poll() is KVPoll.Failed


def test_what_a_close_cuts_off_is_said() -> None:
    held = Held(durations=QUICK)
    room = Room(held.p, held.d, 1)
    room.decode()
    room.prefill()
    held.on_the_wire(2)
    target = held.d.manager.data.transports["inproc"].address  # type: ignore[attr-defined]
    held.hub.drop(target)  # the data plane of the peer answers nobody: nothing can be proved before the fence
    assert held.p.manager.close() == {}, "closing the link fenced the peer, and that is proof enough"
    held.hub.restore(target)
    held.d.becomes_idle()
    held.d.manager.close()


def test_no_thread_stays_behind() -> None:
    with Started(), pair("zmq", secret="s") as (p, d):
        Room(p, d, 1).run()
