"""Spin's opinion: declared worlds exported to Promela have the same states, edges and control pairs as ours.

Without Spin or a C compiler these tests are skipped by name; with ``KVPOLL_DEEP=1`` (``make test-deep``) they fail instead.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.model_tests.declared.catalogue import DEEP, SHAPES, world
from kvpoll.model_tests.declared.compare import Agreement, compare, explored
from kvpoll.model_tests.declared.spin import Limits, SpinVerdict, missing_tools, read_report, run_spin
from kvpoll.model_tests.declared.world import with_table
from kvpoll.model_tests.explorer import Result
from kvpoll.model_tests.tables import changed, ignored, row_of, to
from kvpoll.spec import LEASE, SENDER, Effect, KVPoll, LeaseEvent, LeaseState, SenderEvent
from kvpoll.spec.table import Verdict

#: Compared in every run. The others take a compiler's time each, and come with ``make test-deep``.
QUICK = ("push", "pull", "chunks", "abort-loss", "unresolved", "crash", "deadlines")
REST = tuple(name for name in SHAPES if name not in QUICK)
T, S = KVPoll.Transferring, KVPoll.Success


@pytest.fixture
def spin() -> None:
    """Spin and a C compiler are here."""
    if missing := missing_tools():
        what = f"not installed: {', '.join(missing)}"
        if os.environ.get("KVPOLL_DEEP") == "1":
            pytest.fail(what)
        pytest.skip(what)


@pytest.mark.usefixtures("spin")
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.deep) for name in REST)])
def test_spin_finds_the_same_states_edges_and_control_pairs(name: str) -> None:
    agreement = compare(world(name))
    assert not agreement.differences
    assert agreement.ours.states > 1_000
    assert len(agreement.pairs) == len(agreement.spin.pairs) >= 7


@pytest.mark.usefixtures("spin")
def test_spin_finds_the_invariant_that_a_wrong_row_breaks() -> None:
    row = row_of(LEASE, LeaseState.IN_FLIGHT, LeaseEvent.CLOSE)
    wrong = changed(LEASE, row, lambda r: replace(r, next=LeaseState.HANDED, effects=(Effect.HAND_BACK,)))
    mutant = with_table(world("abort-loss"), wrong)
    agreement = compare(mutant)
    assert agreement.spin.verdict is SpinVerdict.REFUTED
    assert agreement.ours.broken == agreement.spin.broken.split()[0] == "NoFreeInFlight"
    assert len(agreement.differences) == 2


@pytest.mark.usefixtures("spin")
def test_spin_counts_otherwise_where_a_row_does() -> None:
    """A row that is only forgotten breaks no assertion; the numbers show that the two sides were not given the same."""
    row = row_of(SENDER, T, SenderEvent.PEER_FAILED)
    declared = world("abort-loss")
    ours, pairs = explored(declared)
    spin = run_spin(with_table(declared, changed(SENDER, row, ignored)))
    assert spin.verdict is SpinVerdict.PROVED
    differences = Agreement(declared, ours, pairs, spin).differences
    assert any("states" in difference for difference in differences)


@pytest.mark.usefixtures("spin")
@pytest.mark.deep
def test_spin_finds_a_row_that_was_wrongly_called_impossible_and_a_wrong_success() -> None:
    never = replace(row_of(SENDER, T, SenderEvent.RESEND), verdict=Verdict.NEVER, effects=())
    wrong = changed(SENDER, row_of(SENDER, T, SenderEvent.RESEND), lambda _: never)
    assert run_spin(with_table(world("chunks"), wrong)).broken.startswith("TotalHandlers")
    wrong = changed(SENDER, row_of(SENDER, T, SenderEvent.PEER_FAILED), to(S))
    assert run_spin(with_table(world("abort-loss"), wrong)).broken.startswith("SuccessOrder")


@pytest.mark.usefixtures("spin")
def test_a_search_that_hits_a_limit_is_undetermined() -> None:
    shallow = run_spin(world("chunks"), Limits(depth=20))
    assert shallow.verdict is SpinVerdict.UNDETERMINED
    assert "depth" in shallow.why


@pytest.mark.usefixtures("spin")
@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DEEP)
def test_spin_proves_a_world_of_more_than_twenty_million_states(name: str) -> None:
    limits = Limits(depth=3_000_000, memory=7_000, seconds=3_000, optimise=True)
    result = run_spin(world(name), limits)
    assert result.verdict is SpinVerdict.PROVED, result
    assert result.states >= 20_000_000


@pytest.mark.usefixtures("spin")
def test_the_command_compares_and_says_so() -> None:
    result = CliRunner().invoke(cli, ["export", "spin", "chunks"])
    assert result.exit_code == 0
    assert "Spin " in result.stdout
    assert "PROVED" in result.stdout


# -- without Spin

REPORT = """
PAIR 1 1
PAIR 4 4

Full statespace search for:
	never claim         	- (none specified)

State-vector 44 byte, depth reached 53, errors: 0
    19098 states, stored
    50150 states, matched
    69248 transitions (= stored+matched)
   133.945	total actual memory usage
"""


def test_a_whole_report_is_read_and_the_start_is_no_edge() -> None:
    result = read_report(REPORT, 0)
    assert result.verdict is SpinVerdict.PROVED
    assert (result.states, result.edges, result.exact) == (19_098, 69_247, True)
    assert result.pairs == {(1, 1), (4, 4)}


@pytest.mark.parametrize(
    "cut",
    [
        "error: max search depth too small\n",
        "pan: out of memory\n",
        "pan: reached -DMEMLIM bound\n",
        "Warning: Search not completed\n",
        "Bit statespace search for:\n",
    ],
)
def test_a_report_with_a_limit_in_it_is_undetermined(cut: str) -> None:
    text = REPORT.replace("Full statespace search for:\n", cut) if cut.startswith("Bit") else cut + REPORT
    result = read_report(text, 0)
    assert result.verdict is SpinVerdict.UNDETERMINED
    assert result.why


@pytest.mark.parametrize("line", ["errors: 0", "states, stored", "transitions", "total actual memory"])
def test_a_report_with_a_line_missing_is_undetermined(line: str) -> None:
    text = "\n".join(each for each in REPORT.splitlines() if line not in each)
    assert read_report(text, 0).verdict is SpinVerdict.UNDETERMINED


def test_an_exit_status_or_an_error_that_is_no_assertion_is_undetermined() -> None:
    assert read_report(REPORT, 1).verdict is SpinVerdict.UNDETERMINED
    assert read_report(REPORT.replace("errors: 0", "errors: 1"), 0).verdict is SpinVerdict.UNDETERMINED
    assert read_report("BROKEN SuccessOrder x\n" + REPORT, 0).verdict is SpinVerdict.UNDETERMINED


def test_a_failed_assertion_is_refuted_by_name() -> None:
    text = "BROKEN SuccessOrder a sentence\npan:1: assertion violated 0 (at depth 3)\n" + REPORT.replace(
        "errors: 0", "errors: 1"
    )
    result = read_report(text, 0)
    assert (result.verdict, result.broken) == (SpinVerdict.REFUTED, "SuccessOrder a sentence")


def test_rounded_numbers_are_not_equal_numbers() -> None:
    result = read_report(REPORT.replace("69248", "1.2905899e+08"), 0)
    assert not result.exact
    agreement = Agreement(world("push"), Result(result.states, result.edges, True), result.pairs, result)
    assert agreement.differences == ("Spin has rounded its numbers",)


def test_without_spin_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert missing_tools() == ("spin", "gcc")
    with pytest.raises(FileNotFoundError, match="spin, gcc"):
        run_spin(world("push"))
    result = CliRunner().invoke(cli, ["export", "spin", "push"])
    assert result.exit_code == 3
