"""Cases H: what a hand-off costs, counted in operations, messages and rounds, never in time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET

from kvpoll.protocol.handshake import compare
from kvpoll.protocol.outputs import OfferPart, Submit
from kvpoll.runtime import kv
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Dcp

from ..protocol.pair import Flight, Leg, Process, part, request
from ..protocol.wire_values import registration
from ..runtime.engines import Engine, Room, pair
from .frame import case
from .rooms import PUSH
from .shadow import Shadow, outcomes


def operations(world: Shadow) -> Counter[str]:
    """What each process asked its transport for."""
    return Counter(
        process.name
        for process in world.processes.values()
        for out in process.outputs
        if isinstance(out, Submit | OfferPart)
    )


# -- H01, H02 ----------------------------------------------------------------------------------------------------------------
@case("H01")
@PUSH
@pytest.mark.parametrize("tokens", [16, 256, 4096])
@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_operations_grow_with_chunks_and_ranks_and_never_with_tokens(
    push: bool, tokens: int, chunks: int, ranks: int
) -> None:
    """Pages of one token, so that a plan by token or by page would be the largest that there can be."""
    world = Shadow(push).linked()
    others = [world.join(f"d{n}", engine=world.d.config.engine, rank=n) for n in range(1, ranks)]
    world.forget()
    s = world.p.sender(want=request(tokens), ranks=ranks)
    rs = [process.receiver(want=request(tokens), gen=1) for process in (world.d, *others)]
    for r in rs:
        r.metadata()
    s.send_all(*(tokens * n // chunks for n in range(1, chunks)))
    world.run()
    assert set(outcomes(s, *rs)) == {"Success"}
    assert operations(world) == Counter(p=chunks * ranks) + Counter(
        {} if push else {r.process.name: chunks for r in rs}
    )


@case("H01")
@pytest.mark.parametrize("other", [1, 2, 8])
def test_a_pair_whose_rows_would_have_to_be_spread_token_by_token_is_refused(other: int) -> None:
    """Not planned at all, instead of one operation a token. Spread at decode alone, they are packed by rows."""
    mla: dict[str, object] = {"mla": True, "speculative": UNSET}
    spread = mla | {"dcp": Dcp(size=4, rank=3)}
    p, d = registration("prefill", **spread), registration("decode", **mla, dcp=Dcp(size=other, rank=3 % other))
    assert compare(p, d, role="prefill").refused == ("dcp",)
    found = compare(registration("prefill", **mla), registration("decode", **spread), role="prefill")
    assert (found.ok, found.plans) == (True, ("dcp-rows",))


@case("H01", "H02")
@pytest.mark.parametrize("pages", [1, 7, 64, 500])
@pytest.mark.parametrize("order", ["contiguous", "every second", "scattered"])
def test_pages_that_lie_anywhere_are_packed_into_parts_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch, pages: int, order: str
) -> None:
    rng = np.random.default_rng(1)
    pool = [np.zeros((1024, 4, 8), np.uint16) for _ in range(3)]
    nbytes = 3 * 4 * 8 * 2
    monkeypatch.setattr(kv, "PART_NBYTES", 64 * nbytes)
    ids = {
        "contiguous": np.arange(pages), "every second": 2 * np.arange(pages), "scattered": rng.permutation(1024)[:pages],
    }[order].astype(np.int32)  # fmt: skip
    parts = kv.cut(pool, ids)
    assert len(parts) == -(-pages // 64)
    assert np.array_equal(np.concatenate(parts), ids), "in order, each page once"
    assert max(len(piece) for piece in parts) * nbytes <= 64 * nbytes


@case("H02")
@pytest.mark.parametrize("transport", ["inproc", "zmq"])
def test_the_operations_of_every_transfer_can_be_counted_and_fragments_do_not_add_to_them(
    transport: str, tmp_path: Path
) -> None:
    """Each operation is a line of the trace. Contiguous and scattered pages of the same rooms make equally many."""
    counted = []
    for scattered in (False, True):
        trace = tmp_path / f"{scattered}.jsonl"
        with pair(transport) as (_, d):
            p = Engine("prefill", transport, trace=str(trace))
            if scattered:
                for engine in (p, d):
                    held = [engine.pages.allocate(1) for _ in range(64)]
                    for one in held[::2] + held[1::2]:
                        assert one is not None
                        engine.pages.free(one)
            for number in range(3):
                Room(p, d, number, tokens=38).run(4)
            p.becomes_idle()
            d.becomes_idle()
            assert d.manager.close() == {}
            assert p.manager.close() == {}
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        started = Counter(line["room"] for line in lines if str(line.get("event")).startswith("STARTED"))
        counted.append(sorted(started.values()))
    assert counted[0] == counted[1] == [3, 3, 3], "two chunks of pages and the aux data"


# -- H03 -------------------------------------------------------------------------------------------------------------------
def rounds(world: Shadow, until: list[Leg], state: KVPoll, limit: int = 50) -> int:
    """Message delays until these legs are in a state: all messages of a round arrive before those that they cause."""
    for number in range(limit):
        if all(leg.state is state for leg in until):
            return number
        wave: list[Flight] = list(world.wire)
        world.wire.clear()
        for flight in wave:
            world.arrive(flight)
        for process in world.processes.values():
            for op in list(process.ops):
                process.end_op("done", op)
    raise AssertionError(f"{[leg.state.name for leg in until]} after {limit} rounds")


@case("H03")
@PUSH
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("load", [1, 20])
def test_admission_and_release_take_as_many_rounds_for_eight_stages_as_for_one(
    push: bool, stages: int, load: int
) -> None:
    """No ring: each stage speaks to its receiver itself. And no round waits for a turn of the engine, of which there is none."""
    world = Shadow(push, credits=1000)
    names = ["p", *(f"p{n}" for n in range(1, stages))]
    world.d.core.env.layers = (0, stages)
    for n, name in enumerate(names):
        if n:
            world.join(name, engine=world.p.config.engine, rank=n, layers=(n, n + 1))
    for name in names:
        world.d.core.links.to(name)
    world.d.settle()
    world.run()
    groups = []
    for room in range(load):
        ss = [world.processes[name].sender(room) for name in names]
        r = world.d.receiver(room, senders=[(name, n) for n, name in enumerate(names)])
        r.metadata()
        groups.append((ss, r))
    everybody = [leg for ss, _ in groups for leg in ss]
    assert rounds(world, everybody, KVPoll.WaitingForInput) == 1
    for leg in everybody:
        layers = leg.process.core.env.layers
        leg.send(part(0, 4, layers), last=True)
    assert rounds(world, everybody, KVPoll.Success) <= 3
    assert all(r.state is KVPoll.Success for _, r in groups)


# -- H05 -------------------------------------------------------------------------------------------------------------------
def messages(*processes: Process) -> Counter[int]:
    """Messages said about each room."""
    return Counter(
        room for process in processes for m in process.said if (room := getattr(m, "room", None)) is not None
    )


@case("H05")
@PUSH
@pytest.mark.parametrize("credits", [2, 8])
def test_the_last_room_of_a_burst_costs_what_the_first_one_did_and_none_overtakes_for_ever(
    push: bool, credits: int
) -> None:
    """Eighty rooms at once through a few credits: each room costs the same messages and operations, wherever it stands in
    the burst; transfers begin in the order in which they were asked for, and no credit is idle while one waits."""
    world = Shadow(push, credits=credits).linked()
    world.forget()
    pairs = [world.both(room, request(2)) for room in range(80)]
    for _, r in pairs:
        r.metadata()
    world.run()
    world.hold()
    for s, _ in pairs:
        s.send_all(1)
    world.run()
    begun: list[int] = []
    while any(r.state is not KVPoll.Success for _, r in pairs):
        flying = len(world.mover.ops)
        left = 160 - len(begun)
        assert flying == min(credits, left), "work is conserving"
        op = next(iter(world.mover.ops))
        begun.append(op.session.no)
        world.mover.end_op("done", op)
        world.run()
    first = list(dict.fromkeys(begun))
    assert max(abs(room - place - 1) for place, room in enumerate(first)) < credits, "first come, first served"
    assert set(outcomes(*(leg for both in pairs for leg in both))) == {"Success"}
    costs = messages(world.p, world.d)
    assert len(set(costs.values())) == 1, "every room of the burst costs the same"


@case("H05")
@PUSH
def test_a_room_after_a_long_history_costs_what_a_room_of_a_fresh_process_does(push: bool) -> None:
    def cost(world: Shadow, room: int) -> tuple[int, int, int]:
        world.forget()
        s, r = world.both(room)
        r.metadata()
        s.send_all(2)
        world.run()
        assert outcomes(s, r) == ("Success", "Success")
        steps = sum(len(process.outputs) for process in world.processes.values())
        return messages(world.p, world.d)[room], operations(world).total(), steps

    world = Shadow(push).linked()
    first = cost(world, 0)
    for room in range(1, 300):
        last = cost(world, room)
        world.advance(1)
        assert last[:2] == first[:2]
    assert abs(last[2] - first[2]) <= 1, "records of earlier rooms that are dropped meanwhile"
    assert len(world.p.core.clocks) <= 64
    world.ends_idle()
