"""Cases F: ranks that look each other up, decide together, and fail together."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import permutations, product

import pytest

from kvpoll.protocol.group import Decision, Vote, decide
from kvpoll.runtime import EngineSpec, KVBootstrapServer, KVReceiver
from kvpoll.runtime.bootstrap.models import RankEntry, RankFilter
from kvpoll.runtime.bootstrap.registry import Conflict, Held, Registry
from kvpoll.spec import KVPoll

from ..protocol.pair import TIMING, Leg, request
from ..runtime.engines import PATIENCE, SPEC, Engine, Room
from .frame import case
from .rooms import PATIENT, PUSH
from .shadow import Shadow, outcomes
from .stages import failed, live_until

B, W, T, S, F = KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success, KVPoll.Failed


# -- F02: what one end looks up, the other end has registered ------------------------------------------------------------
@case("F02", "F03")
@pytest.mark.parametrize("size", [1, 2])
def test_every_rank_that_a_receiver_can_ask_for_was_registered_by_the_rank_that_it_means(size: int) -> None:
    """Both ends derive a rank's name from the same configuration, whatever the number of replicas; there is no short cut."""
    with KVBootstrapServer() as server:
        specs = [EngineSpec.model_validate(SPEC.model_dump() | {"dp_size": size, "dp_rank": n}) for n in range(size)]
        ps = [Engine("prefill", "inproc", bootstrap=server.url, engine=spec) for spec in specs]
        d = Engine("decode", "inproc", engine=specs[0])
        try:
            assert all(p.manager.wait_registered(PATIENCE) for p in ps)
            for dp, p in enumerate(ps):
                room = Room(p, d, dp, bootstrap=p.manager.bootstrap)
                room.receiver.init(prefill_dp_rank=dp)
                room.target = d.allocate(room.request)
                room.slots[1] = d.aux.allocate()
                room.receiver.send_metadata(room.target, room.slots[1])
                room.prefill()
                room.arrives()
                room.commit()
                assert room.ends() == (S, S), room.receiver.failure_exception()
                room.check()
        finally:
            assert [e.manager.close() for e in (*ps, d)] == [{}] * (size + 1)


@case("F02")
def test_a_rank_that_is_not_there_is_looked_up_on_one_thread_and_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many rooms ask for it and are polled without end: the number of look-ups does not depend on either."""
    from kvpoll.runtime import Durations, KVManager
    from kvpoll.runtime.bootstrap.client import BootstrapClient

    from ..runtime.engines import SHORT, config

    asked: list[RankFilter | None] = []
    look_up = BootstrapClient.ranks

    def counted(self: BootstrapClient, where: RankFilter | None = None) -> object:
        asked.append(where)
        return look_up(self, where)

    monkeypatch.setattr(BootstrapClient, "ranks", counted)
    quick = Durations.model_validate(SHORT.model_dump() | {"hello": 1.0})
    with KVBootstrapServer() as server, KVManager(config("decode", "inproc", durations=quick)) as manager:
        receivers = [
            KVReceiver(manager, "127.0.0.1", server.port, room, Room(None, None, room).request) for room in range(40)
        ]
        for receiver in receivers:
            receiver.init(prefill_dp_rank=1)
        polls = 0
        while any(receiver.poll() is not F for receiver in receivers):
            polls += 1
            manager.wait(lambda: False, 0.01)
        for receiver in receivers:
            error = receiver.failure_exception()
            assert error is not None
            assert error.cause.name == "UNREACHABLE"
        assert 0 < len(asked) <= 10, "one a retry interval, however many rooms wait and however often they are polled"
        assert polls > len(asked)


# -- F03 -------------------------------------------------------------------------------------------------------------------
def entry(dp: int, instance: str, kind: str, size: int = 2) -> RankEntry:
    values = {
        "engine_id": "e", "instance": instance, "control": f"tcp://10.0.0.1:{7000 + len(instance) + dp}", "attn_tp_size": 1,
        "attn_tp_rank": 0, "page_size": 16, "kv_cache_dtype": "bfloat16", f"{kind}_size": size, f"{kind}_rank": dp,
    }  # fmt: skip
    return RankEntry.model_validate(values)


@case("F03")
@pytest.mark.parametrize("kind", ["attn_dp", "system_dp"])
@pytest.mark.parametrize("again", [0, 1])
def test_two_processes_that_call_themselves_the_same_rank_are_told_and_the_first_one_stays(
    kind: str, again: int
) -> None:
    """Both register as rank 0; the second one is refused, and rank 1 is missing instead of being somebody's guess."""
    registry = Registry()
    first = registry.register(entry(0, "first", kind), 0.0)
    second = registry.register(entry(0, "second", kind), float(again))
    assert isinstance(first, Held)
    assert isinstance(second, Conflict)
    assert (second.holder, second.field) == ("first", "rank")
    assert [view.instance for view in registry.lookup(1.0, RankFilter(dp=0))] == ["first"]
    assert registry.lookup(1.0, RankFilter(dp=1)) == []
    (engine,) = registry.engines(1.0)
    assert not engine.ready
    assert isinstance(registry.register(entry(1, "second", kind), 1.0), Held)
    assert [view.instance for view in registry.lookup(1.0)] == ["first", "second"]
    (engine,) = registry.engines(1.0)
    assert engine.ready


@case("F03")
@pytest.mark.parametrize("dead", [True, False])
def test_a_rank_is_taken_over_by_a_new_instance_only_when_the_old_one_is_gone(dead: bool) -> None:
    registry = Registry()
    token = registry.register(entry(0, "old", "system_dp", 1), 0.0)
    assert isinstance(token, Held)
    if not dead:
        registry.heartbeat("old", token.token, 14.0)
    answer = registry.register(entry(0, "new", "system_dp", 1), 16.0)
    assert isinstance(answer, Held if dead else Conflict)
    assert [view.instance for view in registry.lookup(16.0)] == ["new" if dead else "old"]


# -- F04, F06, G15: decisions of a group ----------------------------------------------------------------------------------
class Stage:
    """One rank of a group. It reports its own votes when asked, and acts on decisions that it takes from a round's reports:
    that is all it does, so nothing that happens between a report and the decision changes the decision."""

    def __init__(self, leg_of: Mapping[int, Leg]) -> None:
        self.legs = dict(leg_of)
        self.applied: list[tuple[int, int, KVPoll]] = []

    def report(self) -> dict[int, Vote]:
        return {room: Vote(leg.state, leg.failure) for room, leg in self.legs.items()}

    def apply(self, number: int, reports: Mapping[int, Mapping[int, Vote]], rooms: list[int]) -> None:
        for room in rooms:
            votes = {rank: report.get(room) for rank, report in reports.items()}
            self.applied.append((number, room, decide(votes).state))


def pipeline(push: bool, stages: int, rooms: int) -> tuple[Shadow, list[Stage], list[Leg]]:
    """A prefill engine of several stages, each with its own layers, and one decode rank."""
    world = Shadow(push, timing=PATIENT)
    world.d.core.env.layers = (0, stages)
    names = ["p", *(f"p{n}" for n in range(1, stages))]
    world.p.core.env.layers = (0, 1)
    for n, name in enumerate(names[1:], 1):
        world.join(name, engine=world.p.config.engine, rank=n, layers=(n, n + 1))
    world.d.auto_commit = False
    built = [Stage({room: world.processes[name].sender(room) for room in range(rooms)}) for name in names]
    rs = [world.d.receiver(room, senders=[(name, n) for n, name in enumerate(names)]) for room in range(rooms)]
    return world, built, rs


@case("F04", "G15")
@PUSH
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_an_abort_between_the_agreement_and_its_use_splits_no_pipeline(push: bool, stages: int, seed: int) -> None:
    """Rounds of: every stage reports, a room is aborted at one stage, every stage acts on the reports, in any order. The stages
    act alike in every round, and the abort is part of a later round."""
    rng = random.Random(seed)
    world, group, rs = pipeline(push, stages, rooms=4)
    for r in rs:
        r.metadata()
    world.run()
    for number in range(8):
        reports = {rank: stage.report() for rank, stage in enumerate(group)}
        if number in (2, 3):
            rng.choice(group).legs[number].abort("between")
        if rng.random() < 0.7:
            world.run()
        for stage in rng.sample(group, len(group)):
            stage.apply(number, reports, [0, 1, 2, 3])
            if rng.random() < 0.5:
                world.step()
    assert len({tuple(stage.applied) for stage in group}) == 1
    decided = {(number, room): state for number, room, state in group[0].applied}
    assert {decided[number, 0] for number in range(8)} == {W}
    for room in (2, 3):
        assert decided[room, room] is W, "what was agreed before the abort holds"
        assert [decided[number, room] for number in range(room + 1, 8)] == [F] * (7 - room), (
            "and a failure is never taken back"
        )


@case("F06", "G15")
@PUSH
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_ranks_that_know_of_different_rooms_still_agree_about_each_room(push: bool, order: tuple[int, ...]) -> None:
    """One rank has one more room, one has aborted a room, one has them in another order: votes are found by room and rank."""
    world, group, rs = pipeline(push, 3, rooms=3)
    for r in rs[:2]:
        r.metadata()
    world.run()
    group[1].legs[1].abort("on this rank only")
    extra = world.p.sender(77, request(digest=b"this rank only"))
    group[0].legs[77] = extra
    group[2].legs = {room: group[2].legs[room] for room in order}
    del group[2].legs[2]  # it has not met this room yet
    reports = {rank: stage.report() for rank, stage in enumerate(group)}
    for stage in group:
        stage.apply(0, reports, [0, 1, 2, 77])
    assert group[0].applied == group[1].applied == group[2].applied
    assert [state for _, _, state in group[0].applied] == [W, F, B, B]


@case("F04", "F06")
def test_a_decision_depends_on_the_reports_and_on_nothing_else() -> None:
    for states in product([None, B, W, T, S, F], repeat=3):
        reports = {rank: None if state is None else Vote(state) for rank, state in enumerate(states)}
        once: Decision = decide(reports)
        for order in permutations(reports):
            assert decide({rank: reports[rank] for rank in order}) == once
        assert (once.state is F) == (F in states)
        if F not in states:
            assert once.state is (B if None in states else min(state for state in states if state is not None))


@case("G15")
@PUSH
def test_a_rank_that_still_restores_its_cache_holds_the_decision_and_nothing_else(push: bool) -> None:
    """Two decode ranks with a gate each, which open at different times. No rank's group is further than its slowest rank."""
    world = Shadow(push).linked()
    e = world.join("e", engine=world.d.config.engine, rank=1)
    e.auto_commit = False
    world.d.auto_commit = False
    s = world.p.sender(ranks=2)
    rs = [world.d.receiver(gen=3), e.receiver(gen=3)]
    for r in rs:
        r.metadata(gates=("prefix",))
    s.send_all(2)
    world.run()

    def group() -> KVPoll:
        return decide({n: Vote(r.state, r.failure) for n, r in enumerate(rs)}).state

    rs[0].open_gate("prefix")
    world.run()
    assert (rs[0].ready, rs[1].ready, group()) == (True, False, T)
    rs[0].commit()
    assert (rs[0].state, group(), s.state) == (S, T, T)
    rs[1].open_gate("prefix")
    rs[1].commit()
    world.run()
    assert (group(), s.state) == (S, S)
    world.ends_idle()


# -- F07 -------------------------------------------------------------------------------------------------------------------
@case("F07")
@PUSH
@pytest.mark.parametrize("outage", ["killed", "stopped", "restarted at once"])
def test_an_outage_of_one_prefill_fails_its_own_rooms_only_and_its_successor_is_met_without_a_restart(
    push: bool, outage: str
) -> None:
    """Two prefill processes and two decode ranks; one prefill goes while rooms of both are in flight."""
    world = Shadow(push).linked()
    q = world.join("q")
    e = world.join("e")
    for each in (world.d, e):
        each.auto_commit = False
    doomed = [(world.p.sender(room), by.receiver(room)) for room, by in ((1, world.d), (2, e))]
    safe = [(q.sender(room), by.receiver(room, senders=[("q", 0)])) for room, by in ((3, world.d), (4, e))]
    for _, r in doomed + safe:
        r.metadata()
    world.run()
    world.hold()
    for s, _ in doomed + safe:
        s.send_all(2)
    world.run()
    if outage == "stopped":
        world.p.core.shutdown()
        world.p.core.close_links()
        world.p.settle()
        world.run()
    world.crash("p")
    if outage == "restarted at once":
        world.join("p")
    for _, r in doomed:
        live_until(world, r, TIMING.lost + TIMING.beat)
        assert failed(r) in ("PEER_LOST", "SHUTDOWN")
    assert {r.state for _, r in safe} == {T}, "the other prefill's rooms go on"
    world.finish()
    for _, r in safe:
        r.commit()
    world.run()
    assert {leg.state for both in safe for leg in both} == {S}
    if outage != "restarted at once":
        world.join("p")
    world.advance(TIMING.hello)
    again = [(world.processes["p"].sender(room), by.receiver(room)) for room, by in ((5, world.d), (6, e))]
    for s, r in again:
        r.metadata()
        s.send_all()
        world.advance(TIMING.beat)
        r.commit()
    world.run()
    assert {leg.state for both in again for leg in both} == {S}
    assert outcomes(*(leg for both in safe for leg in both)) == ("Success",) * 4
    world.advance(10_000)
    assert world.d.idle() == e.idle() == {}
