"""Whole hand-offs between two managers in one process, over every transport."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from kvpoll.protocol.errors import KVTransferError, LocalProtocolError
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import KVManager, KVReceiver, KVSender, Request
from kvpoll.spec import KVPoll

from .engines import LAYERS, PAGE, PATIENCE, POOL, SLOTS, WORDS, Engine, Room, cause, config, detail, kinds, pair

TRANSPORTS = ("inproc", "zmq", "jax")
Pair = tuple[Engine, Engine]


@pytest.fixture(params=TRANSPORTS, scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """One pair for all tests of a transport: each leaves it idle."""
    with pair(request.param) as both:
        yield both


@pytest.fixture
def engines(shared: Pair) -> Iterator[Pair]:
    yield shared
    for engine in shared:
        engine.becomes_idle()
        engine.returned.clear()


@pytest.fixture(scope="module")
def shared_zmq() -> Iterator[Pair]:
    with pair("zmq") as both:
        yield both


@pytest.fixture
def zmq(shared_zmq: Pair) -> Iterator[Pair]:
    yield shared_zmq
    for engine in shared_zmq:
        engine.becomes_idle()
        engine.returned.clear()


# -- success -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cuts", [(), (1,), (2, 3, 5)], ids=["one chunk", "two chunks", "four chunks"])
def test_decode_first(engines: Pair, cuts: tuple[int, ...]) -> None:
    Room(*engines, 1).run(*cuts)


@pytest.mark.parametrize("cuts", [(), (1, 4)], ids=["one chunk", "three chunks"])
def test_prefill_first(engines: Pair, cuts: tuple[int, ...]) -> None:
    room = Room(*engines, 2)
    sender = room.prefill(*cuts)
    assert sender.poll() is KVPoll.Bootstrapping
    room.decode()
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)
    room.check()


def test_pages_may_come_after_the_prefill_has_finished(engines: Pair) -> None:
    room = Room(*engines, 3)
    room.receiver.init()
    room.prefill()
    room.decode = lambda gates=(): room.receiver  # type: ignore[method-assign]
    room.target = room.d.allocate(room.request)
    room.slots[1] = room.d.aux.allocate()
    room.receiver.send_metadata(room.target, room.slots[1])
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)
    room.check()


@pytest.mark.parametrize("prefix", [PAGE, 2 * PAGE, PAGE + 1, 21])
def test_only_the_pages_behind_the_prefix_travel(engines: Pair, prefix: int) -> None:
    room = Room(*engines, 4, tokens=22, prefix=prefix)
    room.run()
    assert len(room.source) == 6 - prefix // PAGE


def test_a_receiver_that_holds_everything_gets_only_the_aux_data(engines: Pair) -> None:
    room = Room(*engines, 5, tokens=8, prefix=8)
    room.run()
    assert room.source == []


def test_a_receiver_that_holds_everything_and_wants_no_aux_data_gets_an_empty_plan(engines: Pair) -> None:
    room = Room(*engines, 6, tokens=8, prefix=8, aux=None)
    room.run()


def test_a_last_chunk_without_pages_closes_the_plan(zmq: Pair) -> None:
    room = Room(*zmq, 7)
    room.decode()
    room.sender = KVSender(zmq[0].manager, 7, room.request)
    room.source = zmq[0].allocate(room.request)
    slot = room.slots[0] = zmq[0].aux.allocate()
    assert slot is not None
    zmq[0].aux.write(slot, 7, room.request.fingerprint(), b"first token")
    room.sender.init(aux_index=slot)
    room.sender.send(room.source, zmq[0].pool, last=False)
    room.sender.send([], zmq[0].pool, last=True)
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)
    room.check()


def test_a_hand_off_without_aux_data(engines: Pair) -> None:
    Room(*engines, 8, aux=None).run(3)


@pytest.mark.parametrize("no", [0, 2**64 - 1])
def test_any_u64_is_a_room(zmq: Pair, no: int) -> None:
    room = Room(*zmq, 1)
    room.no = no
    room.receiver = KVReceiver(zmq[1].manager, "", 0, no, room.request, address=zmq[0].manager.address)
    room.run()


def test_the_same_room_again_and_again(engines: Pair) -> None:
    for _ in range(3):
        Room(*engines, 9).run()


def test_every_lease_comes_back_exactly_once(engines: Pair) -> None:
    p, d = engines
    room = Room(p, d, 10)
    room.run(2, 4)
    for engine in engines:
        engine.becomes_idle()
    assert kinds(p.returned) == {LeaseKind.SOURCE: 3}
    assert sorted(page for r in p.returned for page in r.pages) == sorted(room.source)
    assert [r.slot for r in p.returned if r.slot is not None] == [room.slots[0]]
    assert kinds(d.returned) == {LeaseKind.PAGES: 1, LeaseKind.AUX: 1}
    assert next(r.pages for r in d.returned if r.kind is LeaseKind.PAGES) == tuple(room.target)
    assert {r.room for r in (*p.returned, *d.returned)} == {10}


def test_source_pages_are_free_before_the_receiver_has_anything(zmq: Pair) -> None:
    room = Room(*zmq, 11)
    room.prefill()
    assert [r.pages for r in zmq[0].collect()] == [tuple(room.source)]
    zmq[0].pool[0][room.source] = 0  # the engine may write there at once: a copy was taken
    expected = zmq[0].pool[0][room.source].copy()
    room.decode()
    room.arrives()
    room.commit()
    room.ends()
    assert not np.array_equal(zmq[1].pool[0][room.target], expected)


def test_a_gate_holds_the_commit_up(engines: Pair) -> None:
    room = Room(*engines, 12)
    room.decode(gates=("restore",))
    room.prefill()
    assert room.d.manager.wait(lambda: room.receiver.poll() is KVPoll.Transferring, PATIENCE)
    assert not room.receiver.committable
    with pytest.raises(LocalProtocolError, match="not everything is here yet"):
        room.commit()
    room.receiver.open_gate("restore")
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)


def test_many_rooms_at_once_from_several_engine_threads(engines: Pair) -> None:
    p, d = engines
    count, failures = 200, list[BaseException]()
    rooms = iter(range(1000, 1000 + count))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                no = next(rooms, None)
            if no is None:
                return
            try:
                room = Room(p, d, no, tokens=2 * PAGE)
                if no % 2:
                    room.decode()
                    room.prefill(1)
                else:
                    room.prefill(1)
                    room.decode()
                room.arrives()
                room.receiver.commit(d.pool)  # numpy pools are written in place
                assert room.ends() == (KVPoll.Success, KVPoll.Success)
                room.check()
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
    assert failures == []
    for engine in engines:
        engine.becomes_idle()
    assert len(p.returned) == 2 * count
    assert len(d.returned) == 2 * count
    assert set(Counter((r.room, r.kind) for r in d.returned).values()) == {1}


def test_leases_are_yielded_once_to_whichever_thread_asks(zmq: Pair) -> None:
    p, d = zmq
    rooms = [Room(p, d, no) for no in range(20)]
    for room in rooms:
        room.run()
    taken: list[tuple[int, LeaseKind]] = []
    start = threading.Barrier(2)

    def take() -> None:
        start.wait()
        for released in d.manager.released():
            taken.append((released.room, released.kind))
            d.pages.free(released.pages)
            if released.slot is not None:
                d.aux.free(released.slot)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken, key=str) == sorted(
        [(room.no, kind) for room in rooms for kind in (LeaseKind.PAGES, LeaseKind.AUX)], key=str
    )


def test_two_threads_that_ask_for_leases_until_the_last_one_is_gone_never_stumble(zmq: Pair) -> None:
    manager = zmq[1].manager

    class Short:
        """A queue of which another thread takes the last entry just before we do."""

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> int:
            return 1

        def popleft(self) -> object:
            raise IndexError("pop from an empty deque")

    queue, manager._released = manager._released, Short()  # type: ignore[assignment]
    try:
        assert list(manager.released()) == []
    finally:
        manager._released = queue


def test_pools_of_jax_arrays_are_donated_and_the_new_one_holds_the_data() -> None:
    jnp = pytest.importorskip("jax.numpy")
    with pair("jax") as (p, d):
        room = Room(p, d, 1)
        p.pool = [jnp.asarray(layer) for layer in p.pool]  # type: ignore[misc]
        d.pool = [jnp.zeros((POOL, PAGE, WORDS), jnp.uint16) for _ in range(LAYERS)]
        room.run(2)
        for engine in (p, d):
            engine.becomes_idle()


# -- what the engine gets wrong --------------------------------------------------------------------------------------------------
def test_calls_at_the_wrong_time_name_what_was_expected_and_change_nothing(zmq: Pair) -> None:
    p, d = zmq
    room = Room(p, d, 20)
    receiver = room.receiver
    with pytest.raises(LocalProtocolError, match="init\\(\\) comes first"):
        receiver.send_metadata(list(range(6)))
    room.decode()
    with pytest.raises(LocalProtocolError, match="once per attempt"):
        receiver.init()
    with pytest.raises(LocalProtocolError, match="once per attempt"):
        receiver.send_metadata(room.target, room.slots[1])
    with pytest.raises(LocalProtocolError, match="wait for committable"):
        receiver.commit(d.pool)
    sender = room.prefill()
    with pytest.raises(LocalProtocolError, match="at most 0 more pages, got 1") as caught:
        sender.send([1], p.pool)
    assert caught.value.details["field"] == "kv_indices"
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)
    room.check()
    with pytest.raises(LocalProtocolError):
        receiver.commit(d.pool)


@pytest.mark.parametrize(
    ("call", "field", "words"),
    [
        (lambda p, d, r: KVSender(p.manager, -1, r), "bootstrap_room", "a u64, got -1"),
        (lambda p, d, r: KVSender(p.manager, 1 << 64, r), "bootstrap_room", "a u64"),
        (lambda p, d, r: KVSender(p.manager, 1, Request(0)), "tokens", "1 to 2\\*\\*32 - 1, got 0"),
        (lambda p, d, r: KVSender(p.manager, 1, Request(4, 9)), "prefix", "0 to 4, got 9"),
        (lambda p, d, r: KVSender(p.manager, 1, r, dest_tp_ranks=()), "dest_tp_ranks", "at least one"),
        (lambda p, d, r: KVReceiver(d.manager, "", 80, 1, r), "bootstrap_host", "a host name or address, got ''"),
        (lambda p, d, r: KVReceiver(d.manager, "a b", 80, 1, r), "bootstrap_host", "a host name"),
        (lambda p, d, r: KVReceiver(d.manager, "host", 0, 1, r), "bootstrap_port", "1 to 65535, got 0"),
        (lambda p, d, r: KVReceiver(d.manager, "host", 9, 1, r).init(-1), "prefill_dp_rank", "0 or above"),
        (lambda p, d, r: KVReceiver(d.manager, "host", 9, 1, r).init(gen=0), "gen", "1 to"),
        (lambda p, d, r: KVReceiver(d.manager, "host", 9, 1, r).init(gen=1 << 70), "gen", "1 to"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_by_name(zmq: Pair, call: object, field: str, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"{field}: expected {words}") as caught:
        call(*zmq, Request.of([1, 2, 3]))  # type: ignore[operator]
    assert caught.value.details["field"] == field
    assert not zmq[0].manager.busy()
    assert not zmq[1].manager.busy()


def test_wrong_pages_are_refused_and_the_room_goes_on(zmq: Pair) -> None:
    p, d = zmq
    room = Room(p, d, 21)
    room.receiver.init()
    for wrong, words in (([1, 2], "expected 6 pages"), (range(7), "got 7"), ([1, 2, 3, 4, 5, 5], "every page once")):
        with pytest.raises(LocalProtocolError, match=words) as caught:
            room.receiver.send_metadata(list(wrong))
        assert caught.value.details["field"] == "kv_indices"
    sender = room.sender = KVSender(p.manager, 21, room.request)
    with pytest.raises(LocalProtocolError, match="num_kv_indices: expected 6 pages"):
        sender.init(5)
    with pytest.raises(LocalProtocolError, match="at most 6 more pages, got 7"):
        sender.send(list(range(7)), p.pool)
    with pytest.raises(ValueError, match=str(POOL)):
        sender.send([0, 1, POOL], p.pool)
    with pytest.raises(ValueError, match="-1"):
        sender.send([-1], p.pool)
    room.target = d.allocate(room.request)
    room.slots[1] = d.aux.allocate()
    room.receiver.send_metadata(room.target, room.slots[1])
    room.prefill()
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)
    room.check()


def test_a_pool_that_lacks_a_destination_page_is_refused_before_anything_is_written(zmq: Pair) -> None:
    room = Room(*zmq, 22)
    room.decode()
    room.prefill(2)
    room.arrives()
    short = [layer[: max(room.target)].copy() for layer in zmq[1].pool]
    before = [layer.copy() for layer in short]
    with pytest.raises(LocalProtocolError, match="kv_indices: expected pages of a pool of") as caught:
        room.receiver.commit(short)
    assert caught.value.details["field"] == "kv_indices"
    assert all(np.array_equal(a, b) for a, b in zip(short, before, strict=True))
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)
    room.check()


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_an_aux_slot_that_is_not_lent_is_refused_by_name(zmq: Pair, side: str) -> None:
    p, d = zmq
    room = Room(p, d, 23)
    room.receiver.init()
    room.sender = KVSender(p.manager, 23, room.request)
    sender, receiver = room.sender, room.receiver
    calls = {"prefill": lambda n: sender.init(6, n), "decode": lambda n: receiver.send_metadata(list(range(6)), n)}
    for slot in (-1, SLOTS - 1, SLOTS):
        with pytest.raises(LocalProtocolError, match=f"aux_index: expected a slot that is lent, got {slot}"):
            calls[side](slot)
    room.receiver.abort()
    assert room.ends() == (KVPoll.Failed, KVPoll.Failed)


def test_an_aux_slot_of_a_manager_without_slots_is_refused_by_name() -> None:
    with KVManager(config("prefill")) as manager:
        sender = KVSender(manager, 1, Request.of([1]))
        with pytest.raises(LocalProtocolError, match="aux_index: the manager was made without aux slots"):
            sender.init(1, 0)
        sender.clear()
    with KVManager(config("decode")) as manager:
        receiver = KVReceiver(manager, "", 0, 1, Request.of([1]), address="tcp://127.0.0.1:1")
        receiver.init()
        with pytest.raises(LocalProtocolError, match="aux_index: the manager was made without aux slots"):
            receiver.send_metadata([0], 0)
        receiver.clear()


def test_a_live_room_is_refused_at_either_end_by_name(zmq: Pair) -> None:
    p, d = zmq
    room = Room(p, d, 24)
    room.decode()
    with pytest.raises(LocalProtocolError, match="room 24 is live already") as caught:
        Room(p, d, 24).receiver.init()
    assert caught.value.cause.name == "ROOM_BUSY"
    room.prefill()
    with pytest.raises(LocalProtocolError, match="room 24 is live already"):
        KVSender(p.manager, 24, room.request)
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)


# -- aux -----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("what", ["empty", "wrong"])
def test_aux_data_that_is_not_this_requests_fails_before_the_commit(transport: str, what: str) -> None:
    with pair(transport) as (p, d):
        room = Room(p, d, 30)
        room.decode()
        room.sender = KVSender(p.manager, 30, room.request)
        if what == "wrong":
            slot = p.aux.allocate()
            assert slot is not None
            p.aux.write(slot, 31, room.request.fingerprint(), b"of another room")
            room.source = p.allocate(room.request)
            room.sender.init(6, slot)
            room.sender.send(room.source, p.pool)
        else:
            room.prefill(write_aux=False)
        assert room.ends() == (KVPoll.Failed, KVPoll.Failed)
        assert cause(room.receiver) == "AUX_MISMATCH"
        assert (detail(room.receiver, "expected"), detail(room.receiver, "got")) == ("room 30", what)
        assert detail(room.sender, "cause") == "AUX_MISMATCH"
        assert not d.pool[0].any()
        for engine in (p, d):
            engine.becomes_idle()


def test_aux_data_that_was_asked_for_and_never_sent_fails_before_the_commit(engines: Pair) -> None:
    p, d = engines
    room = Room(p, d, 32)
    room.decode()
    room.content = None
    room.prefill()
    assert room.ends() == (KVPoll.Failed, KVPoll.Failed)
    assert (cause(room.receiver), detail(room.receiver, "got")) == ("AUX_MISMATCH", "none was sent")


def test_aux_data_that_nobody_asked_for_does_no_harm(engines: Pair) -> None:
    p, d = engines
    room = Room(p, d, 33, aux=None)
    room.decode()
    room.content = b"first token"
    room.prefill()
    room.arrives()
    room.commit()
    assert room.ends() == (KVPoll.Success, KVPoll.Success)


# -- reading -------------------------------------------------------------------------------------------------------------------
def test_the_reason_stands_before_Failed_can_be_seen(zmq: Pair) -> None:
    """poll() takes no lock: whoever reads Failed, at any moment, finds out why."""
    room = Room(*zmq, 40)
    sender = room.prefill()
    seen: list[bool] = []
    state = next(vars(c)["_state"] for c in type(sender).__mro__ if "_state" in vars(c))

    class Watched(type(sender)):  # type: ignore[misc]
        """Sees every assignment to the state."""

        __slots__ = ()

        @property
        def _state(self) -> KVPoll:
            return state.__get__(self)  # type: ignore[no-any-return]

        @_state.setter
        def _state(self, value: KVPoll) -> None:
            if value is KVPoll.Failed:
                seen.append(self.failure_exception() is not None)
            state.__set__(self, value)

    sender.__class__ = Watched
    sender.abort("enough")
    assert sender.poll() is KVPoll.Failed
    assert seen == [True]


def test_a_failure_can_be_raised_and_is_not_cleared_by_reading(zmq: Pair) -> None:
    room = Room(*zmq, 41)
    room.decode()
    room.prefill()
    room.receiver.abort("no longer wanted", 499)
    assert room.ends()[1] is KVPoll.Failed
    first, second = room.receiver.failure_exception(), room.receiver.failure_exception()
    assert isinstance(first, KVTransferError)
    assert first is not second
    assert str(first) == str(second)
    assert (first.room, first.failure.status, first.details["reason"]) == (41, 499, "no longer wanted")
    with pytest.raises(KVTransferError, match="room 41: ABORTED"):
        room.commit()


def test_states_are_entered_in_order_with_rising_times(zmq: Pair) -> None:
    room = Room(*zmq, 42)
    room.run()
    assert room.sender is not None
    for handle in (room.sender, room.receiver):
        states, times = zip(*handle.times, strict=True)
        assert states == (KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success)
        assert list(times) == sorted(times)


def test_a_wait_that_reads_the_gauges_cannot_lock_the_process_up(zmq: Pair) -> None:
    """``until`` takes the process's lock, under which others tell the waiter: neither may hold the other up."""
    manager = zmq[1].manager
    inside, go = threading.Event(), threading.Event()

    def other(_: object) -> None:
        inside.set()
        assert go.wait(PATIENCE)
        manager.poke()

    thread = threading.Thread(target=lambda: manager.call(other))
    thread.start()
    assert inside.wait(PATIENCE)

    def until() -> bool:
        go.set()
        return manager.gauges() is not None

    done = threading.Event()
    waiter = threading.Thread(target=lambda: manager.wait(until, PATIENCE) and done.set(), daemon=True)
    waiter.start()
    assert done.wait(PATIENCE)
    thread.join()
