"""The simulation: a seed is a run, every kind of fault is survived, and every oracle sees what it is there for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace as changed

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.model_tests.simulation import FAULTS, Faults, Setting, SimulationViolation, Summary, faults_of, simulate
from kvpoll.model_tests.simulation.chance import damaged
from kvpoll.protocol import receiver as receiver_module
from kvpoll.protocol.attempt import Attempt
from kvpoll.protocol.core import Core
from kvpoll.protocol.legs import Legs
from kvpoll.protocol.operations import Operations
from kvpoll.protocol.outputs import HandBack
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import Deadline
from kvpoll.protocol.sender import SenderSession
from kvpoll.spec.wire import AbortAck

RUN = CliRunner()
FAN, PAIRED = Setting(fan=True), Setting(fan=False)
#: What each kind of fault must lead to at some end, or the run shows nothing about it.
REACHED = {
    "none": {"decode Success", "prefill Success"},
    "network": {"decode Success", "prefill Success"},
    "memory": {"decode TRANSPORT_FAILED", "decode TRANSPORT_UNRESOLVED", "prefill PEER_ABORTED"},
    "rooms": {"decode ABORTED", "decode NO_LEG", "prefill NO_ANNOUNCE", "decode TOTAL_DEADLINE", "prefill PEER_ABORTED"},
    "processes": {"decode PEER_LOST", "prefill PEER_LOST", "prefill PEER_LOST in doubt"},
    "all": {"decode ABORTED", "decode PEER_LOST", "prefill PEER_LOST", "prefill PEER_ABORTED", "decode Success"},
}  # fmt: skip
#: What ten thousand rooms with every fault must have met.
ALL_MET = {
    "decode GATE_FAILED", "decode GATE_TIMEOUT", "decode AUX_MISMATCH", "decode DATA_MISSING", "decode SHUTDOWN",
    "decode UNREACHABLE", "decode ROOM_BUSY", "decode SILENCE", "decode HANDSHAKE_REFUSED", "prefill SHUTDOWN in doubt",
    "prefill SUPERSEDED", "prefill TRANSPORT_UNRESOLVED in doubt", "prefill SILENCE in doubt", "prefill PEER_LOST in doubt",
}  # fmt: skip


def test_the_same_seed_is_the_same_run_and_another_seed_is_another() -> None:
    one, again, other = (simulate(80, seed, FAULTS["all"], FAN) for seed in (5, 5, 6))
    assert one == again
    assert one.hash != other.hash


def test_a_run_does_not_depend_on_the_process_that_it_is_in() -> None:
    told = []
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-m", "kvpoll", "simulate", "--rooms", "40", "--seed", "3", "--json"],
            capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        told.append(json.loads(run.stdout))
    assert told[0] == told[1]
    assert told[0]["hash"] == simulate(40, 3, FAULTS["all"]).hash


@pytest.mark.parametrize("faults", FAULTS)
def test_rooms_end_and_everything_comes_back_with(faults: str) -> None:
    often = changed(FAULTS[faults], crash=30, drain=10, wrong=15) if FAULTS[faults].crash else FAULTS[faults]
    runs = [simulate(110, seed, often, setting) for seed, setting in ((1, FAN), (2, PAIRED))]
    reached = {cause for run in runs for cause in run.causes}
    assert reached >= REACHED[faults], f"never seen: {REACHED[faults] - reached}"
    assert all(run.successes > 5 for run in runs)


def test_without_faults_every_room_succeeds_at_both_ends() -> None:
    run = simulate(60, 9, faults_of("none"), Setting(misfit=False))
    assert run.outcomes == {"success": 60}


def test_lost_copied_late_and_damaged_messages_alone_fail_no_room() -> None:
    """LossSurvivable, for many messages of many rooms at once."""
    run = simulate(120, 4, FAULTS["network"], Setting(misfit=False))
    assert run.outcomes == {"success": 120}
    assert min(run.counts[name] for name in ("messages lost", "messages copied", "damaged frames refused")) > 10


def test_damaged_frames_are_refused_one_by_one_and_nothing_else_happens() -> None:
    run = simulate(60, 8, Faults(damage=150), Setting(misfit=False))
    assert run.outcomes == {"success": 60}
    assert run.counts["damaged frames refused"] > run.counts["damaged frames refused by the seal"] > 0


def test_damage_is_the_same_whenever_it_is_named_the_same() -> None:
    frame = bytes(range(40))
    assert damaged(frame, 12345) == damaged(frame, 12345)
    assert len({damaged(frame, how) for how in range(1, 200)}) > 100


# -- the oracles bite ----------------------------------------------------------------------------------------------------------
Break = Callable[[pytest.MonkeyPatch], None]


def _never_in_doubt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SenderSession, "_in_doubt", lambda self: False)


def _buffers_go_back_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceiverSession, "_peer_drained", lambda self, index: True)


def _acks_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "_answer_abort", lambda self, index: self.tell(index, AbortAck))


def _nobody_asks_for_a_drain_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceiverSession, "_waits_for_drain", lambda self, peer: False)


def _one_part_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(receiver_module, "all_here", lambda rec, env: any(peer.arrived for peer in rec.peers))


def _leases_come_back_twice(patch: pytest.MonkeyPatch) -> None:
    take = Core.take

    def twice(self: Core) -> list[object]:
        return [out for out in take(self) for _ in range(2 if isinstance(out, HandBack) else 1)]

    patch.setattr(Core, "take", twice)


def _credits_are_kept(patch: pytest.MonkeyPatch) -> None:
    done = Operations.op_done

    def kept(self: Operations, op: object) -> None:
        done(self, op)  # type: ignore[arg-type]
        self.env.credits -= 1

    patch.setattr(Operations, "op_done", kept)


def _counts_twice(patch: pytest.MonkeyPatch) -> None:
    fenced = Attempt.op_fenced

    def twice(self: SenderSession, peer: int, part: int) -> None:
        fenced(self, peer, part)
        self.set_peer(peer, quiescent=self.rec.peers[peer].quiescent + 1)

    patch.setattr(Attempt, "op_fenced", twice)


def _hearing_raises(patch: pytest.MonkeyPatch) -> None:
    def raises(self: SenderSession, index: int, message: object) -> None:
        raise KeyError(index)

    patch.setattr(SenderSession, "heard", raises)


def _no_total_deadline(patch: pytest.MonkeyPatch) -> None:
    fire = Attempt.fire
    patch.setattr(Attempt, "fire", lambda self, deadline: None if deadline is Deadline.TOTAL else fire(self, deadline))


def _nobody_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "low_water", lambda self: 0)


def _any_leg_will_do(patch: pytest.MonkeyPatch) -> None:
    announced = Legs._announced

    def by_room(self: Legs, record: object, message: object, request: object, *more: object) -> object:
        leg = self.sessions.get(self.rooms.get(message.room, 0))  # type: ignore[attr-defined]
        if leg is not None:
            leg.rec = replace(leg.rec, fingerprint=request)  # type: ignore[call-overload]
        return announced(self, record, message, request, *more)  # type: ignore[arg-type]

    patch.setattr(Legs, "_announced", by_room)


def _reads_before_the_gather(patch: pytest.MonkeyPatch) -> None:
    send = Core.send

    def early(self: Core, key: object, parts: object, last: bool) -> tuple[int, ...]:
        nos = send(self, key, parts, last)  # type: ignore[arg-type]
        self.on_sender(key, lambda session: session.gathered(nos))  # type: ignore[arg-type]
        return nos

    patch.setattr(Core, "send", early)


BROKEN: dict[str, tuple[Break, str, set[str]]] = {
    "no failure is ever in doubt": (_never_in_doubt, "all", {"SuccessOrder"}),
    "a receiver does not wait for drain words": (_buffers_go_back_at_once, "memory,rooms", {"NoFreeInFlight"}),
    "ABORT is acknowledged at once": (_acks_at_once, "memory,rooms", {"AckMeansQuiescent"}),
    "nobody asks for a drain word": (_nobody_asks_for_a_drain_word, "network,memory", {"EventuallyReleased", "IdleEmpty"}),
    "one part is enough": (_one_part_is_enough, "none", {"NoDoneWithoutData"}),
    "leases come back twice": (_leases_come_back_twice, "none", {"ExactlyOnceFree"}),
    "credits are kept": (_credits_are_kept, "none", {"CreditsConserved"}),
    "a fenced operation is counted twice": (_counts_twice, "memory", {"CountExact", "CreditsConserved"}),
    "hearing raises": (_hearing_raises, "none", {"TotalHandlers"}),
    "there is no total deadline": (_no_total_deadline, "rooms", {"EveryRoomEnds"}),
    "nobody says what it is past": (_nobody_forgets, "none", {"EventuallyReleased", "IdleEmpty"}),
    "legs pair by room alone": (_any_leg_will_do, "rooms", {"SameRequest"}),
    "copies are read before they are gathered": (_reads_before_the_gather, "none", {"ReadAfterCompute", "NoFreeInFlight"}),
}  # fmt: skip


def _some_seeds(faults: Faults) -> None:
    for seed in range(1, 9):
        simulate(70, seed, faults, Setting(fan=seed % 2 == 1, misfit=False))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it, faults, invariants = BROKEN[name]
    break_it(monkeypatch)
    more = changed(faults_of(faults), unresolved=40) if "unresolved" in faults_of(faults).text() else faults_of(faults)
    if "doubt" in name:
        more = changed(more, crash=60)
    with pytest.raises(SimulationViolation) as caught:
        _some_seeds(more)
    violation = caught.value
    assert violation.invariant in invariants, violation
    assert violation.seed is not None
    assert f"seed {violation.seed}" in str(violation)
    assert f"at {violation.now} ms" in str(violation)
    assert violation.trace


# -- the command ---------------------------------------------------------------------------------------------------------------
def test_the_command_says_what_came_of_the_rooms() -> None:
    result = RUN.invoke(cli, ["simulate", "--rooms", "30", "--seed", "2", "--faults", "network"])
    assert result.exit_code == 0
    assert "30 rooms, seed 2" in result.output
    assert f"trace hash {simulate(30, 2, FAULTS['network']).hash}" in result.output


def test_the_command_ends_with_1_and_says_how_to_see_a_violation_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _hearing_raises(monkeypatch)
    for form in ([], ["--json"]):
        result = RUN.invoke(cli, ["simulate", "--rooms", "30", "--seed", "2", "--faults", "network,memory", *form])
        assert result.exit_code == 1
        assert "TotalHandlers" in result.output
        assert "kvpoll simulate --rooms 30 --seed 2 --faults network,memory" in result.output


def test_the_command_refuses_faults_that_there_are_not() -> None:
    result = RUN.invoke(cli, ["simulate", "--faults", "network,nothing"])
    assert result.exit_code == 2
    assert "nothing" in result.output


def test_an_interrupted_run_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Core, message: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Core, "receive", interrupted)
    result = RUN.invoke(cli, ["simulate", "--rooms", "30"])
    assert result.exit_code == 3
    assert "nothing is claimed" in result.output


# -- deep ------------------------------------------------------------------------------------------------------------------------
@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("setting", [FAN, PAIRED], ids=["fan", "paired"])
def test_ten_thousand_rooms_with_every_fault_end_and_give_everything_back(setting: Setting) -> None:
    run: Summary = simulate(10_000, 1, FAULTS["all"], setting)
    assert run.rooms >= 10_000
    assert run.successes > 4_000
    assert set(run.causes) >= ALL_MET.union(*REACHED.values()), ALL_MET.union(*REACHED.values()) - set(run.causes)


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_many_seeds_with_every_fault() -> None:
    for seed in range(100, 180):
        assert simulate(200, seed, FAULTS["all"]).successes
