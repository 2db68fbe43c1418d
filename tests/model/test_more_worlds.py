"""What the larger named worlds rest on: networks, counted pages, isolation, and abstract ranks; each shown to bite.

That every named world is proved stands in ``test_check_worlds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from msgspec.structs import replace

from kvpoll.model_tests import group_world, isolation
from kvpoll.model_tests.abstract import RECEIVER, SENDER, Member, moves, possible
from kvpoll.model_tests.explorer import Result, Violation, World, explore
from kvpoll.model_tests.group_world import GroupWorld
from kvpoll.model_tests.memory import Flight, Loan, Memory, Work
from kvpoll.model_tests.network import Network, empty, next_up, put, take
from kvpoll.model_tests.pages import Placed, check_pages, free_pages
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.projection import ProjectedWorld, Shape
from kvpoll.model_tests.setting import Budget, Clocks, Setting, faults_of
from kvpoll.model_tests.tables import changed as with_row
from kvpoll.model_tests.tables import ignored, instead, row_of, unstated
from kvpoll.model_tests.worlds import WORLDS
from kvpoll.protocol.core import Core
from kvpoll.protocol.group import Decision, Vote, decide
from kvpoll.protocol.legs import Legs
from kvpoll.protocol.records import LeaseKind, OpKey, SessionKey
from kvpoll.spec import LEASE, KVPoll, LeaseEvent, LeaseState, SenderEvent
from kvpoll.spec import SENDER as SENDER_TABLE
from kvpoll.spec.wire import Message, Reason, Refusal, RoomMessage

B, T, S, F = KVPoll.Bootstrapping, KVPoll.Transferring, KVPoll.Success, KVPoll.Failed
BOTH_WAYS = pytest.mark.parametrize("push", [True, False], ids=["push", "pull"])
EAGER = Setting(True, eager=True, network=Network.ORDERED)


def search(world: World, limit: int = 400_000) -> Result:
    return explore(world, limit)


# -- networks ------------------------------------------------------------------------------------------------------------------
def channel(number: int) -> tuple[int, int]:
    """Tens are links."""
    return (number // 10, 0)


def test_an_ordered_network_delivers_each_channel_in_order_and_channels_in_any() -> None:
    net = put(empty(Network.ORDERED), (21, 13, 22, 11), channel)
    assert net == (13, 11, 21, 22)
    assert list(next_up(net, channel)) == [13, 21]
    assert list(next_up(take(net, 13), channel)) == [11, 21]


def test_in_an_ordered_network_the_same_message_twice_in_a_row_is_one_and_later_it_is_another() -> None:
    net = put(empty(Network.ORDERED), (11, 11, 12, 11), channel)
    assert net == (11, 12, 11)
    assert take(net, 11) == (12, 11)


def test_in_a_reordering_network_everything_in_flight_may_be_next() -> None:
    net = put(empty(Network.HOSTILE), (21, 13, 11, 13), channel)
    assert list(next_up(net, channel)) == [11, 13, 21]
    assert take(net, 13) == frozenset({11, 21})


@pytest.mark.parametrize(
    ("network", "lossy", "copies"),
    [(Network.ORDERED, False, False), (Network.LOSSY, True, False), (Network.DUPLICATING, False, True)],
)
def test_a_network_loses_and_copies_only_if_it_is_of_that_kind(network: Network, lossy: bool, copies: bool) -> None:
    world = PairWorld(EAGER._replace(network=network), Budget(losses=1, copies=1))
    names = {action[0] for action in world.actions()}
    assert ("lose" in names, "copy" in names) == (lossy, copies)


@BOTH_WAYS
@pytest.mark.parametrize(
    "budget", [Budget(), Budget(aborts=1), Budget(failures=1)], ids=["nothing", "abort", "failure"]
)
def test_the_order_of_messages_decides_about_no_end(push: bool, budget: Budget) -> None:
    ordered, free = (
        search(PairWorld(EAGER._replace(push=push, network=network, clocks=Clocks.RESEND), budget))
        for network in (Network.ORDERED, Network.HOSTILE)
    )
    assert ordered.proved
    assert free.proved
    assert ordered.states < free.states
    assert set(ordered.outcomes) == set(free.outcomes)


def test_faults_are_printed_with_the_network() -> None:
    assert faults_of(EAGER, Budget()) == "network=ordered"
    assert faults_of(Setting(True), Budget(losses=1, attempts=2)) == "network=reordering losses=1 attempts=2"


# -- pages, counted ------------------------------------------------------------------------------------------------------------
OLD, NEW = SessionKey("receiver", 1), SessionKey("receiver", 2)
PLACED = (Placed(11, OLD, (0, 1)), Placed(11, NEW, (0, 1)))
WRITES = Flight(10, 11, 5, OpKey(SessionKey("sender", 1), 0, 0), 21_001)


def lent(key: SessionKey) -> Loan:
    return Loan(11, key, LeaseKind.PAGES, 0)


def test_pages_that_are_lent_are_not_free_and_what_came_back_is_given_out_first() -> None:
    placed = (Placed(11, OLD, (0, 2)),)
    assert free_pages(4, 11, placed, Memory().give([lent(OLD)])) == [1, 3]
    assert free_pages(4, 11, placed, Memory()) == [0, 1, 2, 3]
    assert free_pages(4, 12, placed, Memory().give([lent(OLD)])) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("owner", "says"),
    [(None, "page 0 is free while operation"), (NEW, "page 0 is .*no=2.* while operation .* of .*no=1.* can write it")],
)
def test_a_page_of_nobody_or_of_another_room_must_not_be_written(owner: SessionKey | None, says: str) -> None:
    memory = Memory(flights=frozenset({WRITES})).give([] if owner is None else [lent(owner)])
    with pytest.raises(Violation, match=f"NoFreeInFlight: {says}"):
        check_pages(PLACED, memory, direct=True)


def test_a_commit_writes_pages_too_and_a_transfer_into_a_buffer_does_not() -> None:
    memory = Memory(flights=frozenset({WRITES}))
    check_pages(PLACED, memory, direct=False)
    check_pages(PLACED, memory.give([lent(OLD)]), direct=True)
    with pytest.raises(Violation, match="a commit"):
        check_pages(PLACED, memory.begin(Work(11, OLD, -1)), direct=False)


def test_pages_that_come_back_too_early_are_seen_in_the_hands_of_the_next_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is exposed is not counted; and the lease's own claim is not looked at, so that the pages alone must show it."""
    monkeypatch.setattr(Memory, "check", lambda self, legs, direct: None)
    row = row_of(LEASE, LeaseState.HELD, LeaseEvent.EXPOSE)
    with instead(with_row(LEASE, row, ignored)):
        result = search(WORLDS["push-two-rooms-share-pages-abort"].make())
    assert result.broken == "NoFreeInFlight"
    assert str(result.violation).startswith("NoFreeInFlight: page ")


# -- isolation -----------------------------------------------------------------------------------------------------------------
def test_a_core_that_goes_by_the_gen_alone_lets_one_room_end_another(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Core.receive

    def gullible(core: Core, message: Message) -> None:
        if isinstance(message, RoomMessage) and message.engine != core.env.engine:
            no = core.legs.attempts.get((message.engine, message.gen))
            session = None if no is None else core.legs.sessions.get(no)
            if session is not None:
                message = replace(message, room=session.rec.room)
        receive(core, message)

    monkeypatch.setattr(Core, "receive", gullible)
    result = search(WORLDS["push-two-rooms-mixed-up"].make())
    assert result.broken == "Isolation"
    assert result.trace[-1][0] == "mix up"  # type: ignore[index]


def test_low_water_comes_with_the_messages_of_every_room_and_is_no_room_s_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "_after_a_heartbeat", lambda core, before, heard: before)
    assert search(WORLDS["push-two-rooms-share-pages"].make()).broken == "Isolation"


# -- what was refused ----------------------------------------------------------------------------------------------------------
def test_a_refusal_that_is_forgotten_lets_a_later_leg_write_into_memory_that_came_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two engines want one room; see ``docs/findings.md``."""
    monkeypatch.setattr(Legs, "_bury", lambda legs, ids, *reason: legs.half_open.pop(ids, None))
    assert search(WORLDS["push-two-engines"].make()).broken == "NoFreeInFlight"


# -- groups --------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def decided_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[..., Decision]], Result]]:
    """Search the group world with another decision."""
    cached = (group_world._decision, group_world._check_decision)

    def by(decision: Callable[..., Decision]) -> Result:
        monkeypatch.setattr(group_world, "decide", decision)
        for each in cached:
            each.cache_clear()
        return search(GroupWorld(2, 1))

    yield by
    for each in cached:
        each.cache_clear()


Votes = Mapping[int, Vote | None]


def missing_is_ignored(votes: Votes) -> Decision:
    return decide({rank: vote for rank, vote in votes.items() if vote is not None})


def one_success_is_enough(votes: Votes) -> Decision:
    states = [vote.state for vote in votes.values() if vote is not None]
    return Decision(S, None, False) if S in states else decide(votes)


def one_doubt_is_enough(votes: Votes) -> Decision:
    plain = decide(votes)
    failures = [vote.failure for vote in votes.values() if vote is not None and vote.failure is not None]
    return plain._replace(in_doubt=any(failure.in_doubt for failure in failures))


def the_first_cause_is_told(votes: Votes) -> Decision:
    failures = [vote.failure for vote in votes.values() if vote is not None and vote.failure is not None]
    return decide(votes)._replace(failure=next(iter(failures), None))


@pytest.mark.parametrize(
    ("decision", "broken"),
    [
        (missing_is_ignored, "GroupDecisionImmutable"),
        (one_success_is_enough, "GroupDecisionImmutable"),
        (one_doubt_is_enough, "GroupDecisionImmutable"),
        (the_first_cause_is_told, "TerminalPropagates"),
    ],
)
def test_a_wrong_decision_of_a_group_is_found(
    decision: Callable[[Votes], Decision], broken: str, decided_by: Callable[[Callable[..., Decision]], Result]
) -> None:
    assert decided_by(decision).broken == broken


def test_a_group_of_one_is_its_rank() -> None:
    result = search(GroupWorld(1, 1))
    assert result.proved
    assert set(result.outcomes) == WORLDS["ranks-2x2"].ends


# -- abstract members: what sessions do, and nothing else ------------------------------------------------------------------------
#: Small worlds in which sessions do all that they ever do.
SMALL: dict[str, tuple[Setting, Budget]] = {
    "nothing goes wrong": (EAGER._replace(eager=False), Budget()),
    "nothing to send": (EAGER._replace(eager=False, chunks=0), Budget()),
    "a tail, an abort": (EAGER._replace(chunks=2, tail=True), Budget(aborts=1)),
    "an abort, a failure, an unresolved operation": (EAGER, Budget(failures=1, unresolved=1, aborts=1)),
    "an early clock": (EAGER, Budget(clocks=1)),
    "a crash, an abort": (EAGER, Budget(crashes=1, aborts=1)),
    "two prefill ranks": (EAGER._replace(prefills=2, clocks=Clocks.NONE), Budget()),
    "two decode ranks": (EAGER._replace(decodes=2, clocks=Clocks.NONE), Budget()),
}
#: Three real sessions, and a fault among them.
LARGE: dict[str, tuple[Setting, Budget]] = {
    "two prefill ranks, an abort": (EAGER._replace(prefills=2, clocks=Clocks.NONE), Budget(aborts=1)),
    "two decode ranks, an abort": (EAGER._replace(decodes=2, clocks=Clocks.NONE), Budget(aborts=1)),
    "two attempts, an abort": (EAGER._replace(clocks=Clocks.RESEND), Budget(attempts=2, aborts=1)),
}


def project(setting: Setting, budget: Budget) -> set[Shape]:
    """The abstract moves that the sessions of a world make; fails if they do anything else."""
    world = ProjectedWorld(setting, budget)
    result = search(world, 2_000_000)
    assert result.proved, f"{result.violation}\n{world.tell(result.trace)}"
    return world.made


def all_moves() -> set[Shape]:
    """Every move that a member can make, whatever its peers are."""
    found: set[Shape] = set()
    for start in (SENDER, RECEIVER):
        peer = RECEIVER if start.sender else SENDER
        beside = [[peer._replace(state=state, started=started)] for state in (B, S, F) for started in (False, True)]
        todo = [start]
        for member in todo:
            after = {step for peers in beside for step in moves(member, peers)}
            todo += sorted(after - set(todo), key=str)
            found |= {Shape(member, step) for step in after}
    return found


def test_sessions_do_what_their_abstract_members_may_do_and_all_of_it() -> None:
    made: set[Shape] = set()
    for setting, budget in SMALL.values():
        for push in (True, False):
            made |= project(setting._replace(push=push), budget)
    assert made == all_moves()


@pytest.mark.deep
@pytest.mark.timeout(1800)
@BOTH_WAYS
@pytest.mark.parametrize("name", LARGE)
def test_three_sessions_do_it_too(name: str, push: bool) -> None:
    setting, budget = LARGE[name]
    assert project(setting._replace(push=push), budget) <= all_moves()


def test_a_session_that_does_something_else_is_found() -> None:
    """The last part leaves no doubt: the receiver succeeds beside a sender that has not started everything."""
    row = row_of(SENDER_TABLE, KVPoll.WaitingForInput, SenderEvent.STARTED, push=True, final=True)
    with instead(with_row(SENDER_TABLE, row, unstated)):
        world = ProjectedWorld(EAGER, Budget())
        result = search(world)
    assert result.broken == "Abstraction"


def test_the_way_between_two_members_is_the_shortest_one() -> None:
    failed = SENDER._replace(state=F)
    assert possible(SENDER, failed, [RECEIVER]) == [(SENDER, failed)]
    started = Member(True, T, started=True)
    assert [step[1].state for step in possible(SENDER, started, [RECEIVER]) or []] == [KVPoll.WaitingForInput, T, T]
    assert possible(SENDER, Member(True, S, started=True), [RECEIVER]) is None
    assert possible(failed, SENDER, [RECEIVER]) is None


# -- endings -------------------------------------------------------------------------------------------------------------------
@BOTH_WAYS
def test_a_process_that_exits_leaves_nothing_behind_and_the_other_one_is_idle(push: bool) -> None:
    world = PairWorld(EAGER._replace(push=push, closes=True), Budget(shutdowns=1))
    result = search(world)
    assert result.proved
    for snapshot in ends_of(world):
        world.restore(snapshot)
        gone = [slot for slot, core in enumerate(world.cores) if core < 0]
        assert len(gone) == (world.budget.shutdowns == 0)
        assert all(not world.view(slot).links for slot in world.living() if gone)


def ends_of(world: PairWorld) -> list[object]:
    """Every end of a world, found by walking it again."""
    world = world.__class__(world.setting, world.start)
    seen, todo, found = {world.snapshot()}, [world.snapshot()], []
    for snapshot in todo:
        world.restore(snapshot)
        if world.ended():
            found.append(snapshot)
        for action in world.actions():
            world.restore(snapshot)
            world.do(action)
            if world.snapshot() not in seen:
                seen.add(world.snapshot())
                todo.append(world.snapshot())
    return list(found)


def test_a_draining_process_says_so_to_whom_it_refuses() -> None:
    world = PairWorld(Setting(True, network=Network.ORDERED), Budget(drains=1))
    for action in (("drain", 0), ("create", 1, 7)):
        world.do(action)
    while world.net:
        world.do(("deliver", next(iter(world.net))))
    reasons = {m.reason for m in said(world) if isinstance(m, Refusal)}
    assert reasons == {Reason.DRAINING}
    assert [room.state for room in world.rooms] == [F]


def said(world: PairWorld) -> list[Message]:
    return list(world.mail._messages)
