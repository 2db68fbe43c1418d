"""Cases G: peers that die, come back, multiply, or answer nothing, and what that may cost the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.outputs import Connect, Send
from kvpoll.protocol.records import OpKey
from kvpoll.spec import KVPoll, LinkState
from kvpoll.spec.wire import Close, Metadata, MetaGroup, Query, Reason, Refusal, RoomMessage

from ..protocol.pair import TIMING, Leg, part
from .frame import case
from .rooms import PATIENT, PUSH
from .shadow import Shadow, in_flight, outcomes
from .stages import at, every_stage, failed, live_until


def succeeds(world: Shadow, room: int, at_: str = "p", by: str = "d") -> tuple[Leg, Leg]:
    """One whole hand-off; the next engine calls find both processes as they are."""
    s = world.processes[at_].sender(room)
    r = world.processes[by].receiver(room, senders=[(at_, 0)])
    r.metadata()
    s.send_all(2)
    world.advance(TIMING.beat)
    if r.state is KVPoll.Transferring:
        r.commit()
        world.run()
    assert outcomes(s, r) == ("Success", "Success"), (s.failure, r.failure)
    return s, r


# -- G03 -------------------------------------------------------------------------------------------------------------------
@case("G03")
@PUSH
@pytest.mark.parametrize("starts", [1, 2, 5])
@pytest.mark.parametrize("how", ["it died", "it was declared lost", "it restarts before that is noticed"])
def test_every_credit_and_every_word_reaches_the_instance_that_lives_now(push: bool, starts: int, how: str) -> None:
    """A prefill restarts on its address again and again, with operations in flight. Nothing is said to an old instance any more,
    and no credit stays with one."""
    world = Shadow(push, credits=2).linked()
    for number in range(starts):
        world.d.auto_commit = False
        pairs = [in_flight(world, 2, room=100 * number + n) for n in range(2)]
        assert world.mover.core.env.credits == 0, "all of them are out"
        if how == "it was declared lost":
            world.d.declare_lost()
        world.crash("p")
        if how != "it died":
            world.p = world.join("p")
        for _, r in pairs:
            live_until(world, r, TIMING.lost + TIMING.beat)
            assert r.state is KVPoll.Failed
        world.hold(False)
        if how == "it died":
            world.p = world.join("p")
        world.advance(TIMING.hello)
        world.forget()
        world.d.auto_commit = True
        succeeds(world, 100 * number + 50)
        assert {m.target for m in world.d.said if isinstance(m, RoomMessage)} == {world.p.instance}
        assert world.d.core.env.credits == world.p.core.env.credits == 2
    world.ends_idle()


# -- G04 -------------------------------------------------------------------------------------------------------------------
@case("G04")
@PUSH
@pytest.mark.parametrize("leaves", ["says goodbye", "crashes", "is replaced at once"])
@pytest.mark.parametrize("live", [1, 4])
def test_links_are_bounded_by_the_peers_that_live_however_many_there_ever_were(
    push: bool, leaves: str, live: int
) -> None:
    world = Shadow(push, max_links=2 * live + 2)
    for generation in range(20):
        names = [f"d{n}" for n in range(live)]
        for name in names:
            world.join(name)
        for n, name in enumerate(names):
            succeeds(world, 100 * generation + n, by=name)
        for name in names:
            if leaves == "says goodbye":
                world.processes[name].core.close_links()
                world.processes[name].settle()
                world.run()
            if leaves != "is replaced at once":
                world.crash(name)
        assert len(world.p.core.links.table) <= 2 * live
        world.advance(TIMING.lost + TIMING.beat)
        assert len(world.p.core.links.table) <= live
        assert len(world.p.core.clocks) <= 8 * live + 64
    assert world.p.idle() == {}


@case("G04")
@PUSH
def test_a_peer_too_many_fails_its_own_room_only(push: bool) -> None:
    world = Shadow(push, max_links=2).linked()
    world.join("e")
    known = [in_flight(world, 2), (world.p.sender(2), world.processes["e"].receiver(2))]
    known[1][1].metadata()
    world.run()
    late = world.join("f").receiver(3)
    world.run()
    assert (late.cause, late.details["fields"]) == ("HANDSHAKE_REFUSED", "links")
    waiting = world.d.receiver(4, senders=[("elsewhere", 0)])
    with pytest.raises(LocalProtocolError, match="links: at most 2"):
        world.d.receiver(5, senders=[("one too many", 0)])
    world.finish()
    known[1][0].send_all()
    world.run()
    assert outcomes(*known[0], *known[1]) == ("Success",) * 4
    assert waiting.state is KVPoll.Bootstrapping


# -- G05 -------------------------------------------------------------------------------------------------------------------
def _no_pages(world: Shadow, s: Leg, r: Leg) -> None:
    """One side's list of pages is empty."""
    meta = MetaGroup(key=1, pages=0, max_nbytes=0)
    world.inject(world.p, Metadata(fingerprint=r.request, transport="fake", meta=meta, **r.session.to(0)))


def _refused_call(world: Shadow, s: Leg, r: Leg) -> None:
    with pytest.raises(LocalProtocolError):
        s.send(part(3, 9))
    s.abort("cannot be sent")


BAD: dict[str, Callable[[Shadow, Leg, Leg], object]] = {
    "its index list is empty at one end": _no_pages,
    "its plan has more parts than it said": lambda w, s, r: w.inject(w.d, Close(total=1, **s.session.to(0))),
    "its operation fails": lambda w, s, r: w.mover.end_op("failed", _op_of(w, s, r)),
    "its operation is unresolved": lambda w, s, r: w.mover.end_op("unresolved", _op_of(w, s, r)),
    "its engine cannot send it": _refused_call,
    "its commit raises": lambda w, s, r: (w.finish(), r.begin_commit(), r.end_commit("IndexError"), w.hold()),
    "it is aborted": lambda w, s, r: r.abort(),
}


def _op_of(world: Shadow, s: Leg, r: Leg) -> OpKey:
    return next(op for op in world.mover.ops if op.session in (s.key, r.key))


@case("G05")
@PUSH
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_error_in_one_room_changes_nothing_for_the_rooms_behind_it(push: bool, bad: str, position: int) -> None:
    """Three rooms share one queue for transfers; one of them is bad, whichever its place. The records of the others are what they
    would have been."""
    world = Shadow(push, timing=PATIENT).linked()
    world.d.auto_commit = False
    rooms = [in_flight(world, 2, room=room) for room in range(3)]
    victim = rooms[position]
    others = [leg for n, both in enumerate(rooms) for leg in both if n != position]
    before = [leg.rec for leg in others]
    commits = bad == "its commit raises"
    BAD[bad](world, *victim)
    if not commits:
        assert [leg.rec for leg in others] == before
    world.run()
    assert outcomes(*victim) == ("Failed", "Failed")
    world.finish()
    for leg in others:
        if leg.key.role == "receiver":
            leg.commit()
    world.run()
    assert outcomes(*others) == ("Success",) * 4
    assert world.mover.core.env.credits == world.mover.config.credits
    world.ends_idle()


# -- G08, G09 ----------------------------------------------------------------------------------------------------------------
@case("G08", "G09")
@PUSH
@every_stage
@pytest.mark.parametrize("who", ["p", "d"])
@pytest.mark.parametrize("after", [0, TIMING.beat // 2, TIMING.lost * 2], ids="{} ms later".format)
def test_a_peer_that_is_replaced_at_its_address_is_noticed_and_only_the_new_one_is_spoken_to(
    push: bool, stage: str, who: str, after: int
) -> None:
    """A new instance answers at the old address, between two heartbeats or later. Rooms of the old one end; the next room reaches
    the new one, without a restart of the survivor."""
    world = Shadow(push).linked()
    s, r = at(world, stage)
    old = world.processes[who].instance
    survivor = "d" if who == "p" else "p"
    leg = r if who == "p" else s
    world.run()
    world.crash(who)
    world.wire.clear()
    world.advance(after)
    setattr(world, who, world.join(who))
    fresh = world.processes[who]
    world.advance(TIMING.lost + 2 * TIMING.beat)
    if (stage, who) == ("whole", "p"):
        leg.commit()  # it had everything
    if stage == "created" and who == "d" and leg.state is KVPoll.Bootstrapping:
        leg.abort()
    assert leg.state in (KVPoll.Failed, KVPoll.Success)
    assert all(not process.core.legs.rooms and not process.core.rooms for process in (world.p, world.d))
    world.finish()
    world.forget()
    world.d.auto_commit = True
    succeeds(world, 8)
    said = [m for m in world.processes[survivor].said if isinstance(m, RoomMessage) and m.room == 8]
    assert said
    assert {m.target for m in said} == {fresh.instance}
    assert all(record.instance != old for record in world.processes[survivor].core.links.table.values())


@case("G08")
@PUSH
@every_stage
@pytest.mark.parametrize("who", ["p", "d"])
def test_a_message_that_is_addressed_to_another_instance_changes_no_room_although_its_link_lives(
    push: bool, stage: str, who: str
) -> None:
    """Every word of the room comes once more, on the live link, for the instance that was there before."""
    world = Shadow(push).linked()
    at(world, stage)
    world.finish()
    peer, process = world.processes["d" if who == "p" else "p"], world.processes[who]
    words = [m for m in peer.said if isinstance(m, RoomMessage)]
    assert words or stage == "created"
    before = process.core.gauges(), [session.rec for session in process.core.sessions()]
    world.forget()
    for message in words:
        world.inject(process, replace(message, target=4711))
    assert (process.core.gauges(), [session.rec for session in process.core.sessions()]) == before
    assert [type(m) for m in process.said] == [Refusal] * len(words)
    assert all(m.reason == Reason.WRONG_INSTANCE for m in process.said if isinstance(m, Refusal))


@case("G08")
@PUSH
def test_a_message_for_the_dead_instance_changes_no_room_of_its_successor(push: bool) -> None:
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    words = [f.message for f in world.wire]
    words += [m for m in world.d.said if isinstance(m, RoomMessage)]
    words.append(Query(**r.session.to(0)))
    world.crash("p")
    world.p = world.join("p")
    mine = world.p.sender(r.room, s.request)
    before = world.p.core.gauges(), mine.rec
    for message in words:
        world.inject(world.p, message)
    assert (world.p.core.gauges(), mine.rec) == before
    world.run()
    answers = [m for m in world.p.said if isinstance(m, Refusal)]
    assert all(m.reason == Reason.WRONG_INSTANCE for m in answers)
    live_until(world, r, TIMING.resend)
    assert failed(r) == "PEER_LOST", "the first answer of the successor says that the other one is gone"


@case("G09")
@PUSH
@pytest.mark.parametrize("who", ["p", "d"])
def test_a_peer_that_goes_without_a_word_is_noticed_whatever_moves_the_data(push: bool, who: str) -> None:
    world = Shadow(push).linked()
    s, r = in_flight(world, 2)
    world.crash(who)
    world.wire.clear()
    leg = r if who == "p" else s
    assert live_until(world, leg, TIMING.lost) <= TIMING.lost
    assert failed(leg) == "PEER_LOST"
    survivor = world.d if who == "p" else world.p
    world.finish()
    world.advance(TIMING.hello)
    assert survivor.idle() == {}
    assert not survivor.core.links.table


# -- G10 -------------------------------------------------------------------------------------------------------------------
@case("G10")
@PUSH
@every_stage
def test_what_a_step_of_the_survivor_asks_for_does_not_depend_on_the_peer_and_waits_for_nobody(
    push: bool, stage: str
) -> None:
    """Calls of the engine and ticks return at once with a list of things to do, whether the peer answers or is gone. No step
    waits, and while the peer says nothing the number of messages in a time is bounded."""
    world = Shadow(push).linked()
    s, r = at(world, stage)
    world.crash("p")
    world.wire.clear()
    world.forget()
    other = [world.d.receiver(room, senders=[("p", 0)]) for room in range(100, 120)]
    world.advance(TIMING.lost, run=False)
    said = len(world.d.said)
    assert said <= 21 * (TIMING.lost // TIMING.resend + 2) + TIMING.lost // TIMING.beat
    assert sum(isinstance(out, Connect) for out in world.d.outputs) <= 1, "one connection for all of them"
    assert not any(isinstance(out, Send) for out in world.d.core.env.out)
    world.advance(TIMING.hello)
    assert all(leg.state is KVPoll.Failed for leg in other)
    assert r.state in (KVPoll.Failed, KVPoll.Transferring)
    assert s.key.role == "sender"


# -- G13 -------------------------------------------------------------------------------------------------------------------
@case("G13")
@PUSH
@every_stage
@pytest.mark.parametrize("how", ["without a word", "with a goodbye"])
def test_a_reader_that_goes_leaves_the_source_usable_for_the_next_one(push: bool, stage: str, how: str) -> None:
    """The second reader's room is over at once: it does not wait until the first one is known to be dead."""
    world = Shadow(push, credits=4).linked()
    second = world.join("e")
    s, _ = at(world, stage)
    if how == "with a goodbye":
        world.d.core.shutdown()
        world.d.core.close_links()
        world.d.settle()
        if world.wire:
            world.run()
    world.crash("d")
    world.hold(False)
    mine = world.p.sender(8), second.receiver(8)
    mine[1].metadata()
    mine[0].send_all(2)
    world.run()
    assert outcomes(*mine) == ("Success", "Success")
    assert any(record.state is LinkState.OPEN for record in world.p.core.links.table.values())
    if how == "with a goodbye" and stage != "created":
        assert s.state is KVPoll.Failed, "it said so, and nobody has to guess"
    world.advance(TIMING.lost + TIMING.pairing)
    assert s.state in (KVPoll.Failed, KVPoll.Success)
    assert world.p.idle() == second.idle() == {}
