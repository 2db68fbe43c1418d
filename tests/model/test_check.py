"""``kvpoll check`` and what it judges: worlds, invariants, rows; its exit codes; and that what is cut short proves nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.model_tests.check import check, check_world, selection
from kvpoll.model_tests.coverage import REACH
from kvpoll.model_tests.explorer import Result, Violation
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.properties import LIVENESS, PROPERTIES, Kind
from kvpoll.model_tests.report import report_json, report_text, world_line
from kvpoll.model_tests.setting import Setting
from kvpoll.model_tests.verdicts import Report, Verdict, WorldReport
from kvpoll.model_tests.worlds import WORLDS, joined

RUN = CliRunner()
ROOT = Path(__file__).parents[2]
SMALL = "push-no-clock"
MUTANT = "sender Transferring PEER_FAILED ignore"


def report_of(name: str = SMALL, ends: Sequence[str] | None = None, **result: object) -> WorldReport:
    """A world as if it had been searched with this result."""
    world = WORLDS[name]
    found = Result(complete=True, states=9)
    found.outcomes.update(world.ends if ends is None else ends)
    for field, value in result.items():
        setattr(found, field, value)
    return WorldReport(world, found, 0.1, frozenset())


ALL_MARKS = {mark: [] for each in PROPERTIES.values() for mark in each.marks}


# -- verdicts ------------------------------------------------------------------------------------------------------------
def test_a_world_is_PROVED_when_all_was_seen_and_it_ends_as_it_must() -> None:
    assert report_of().verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ([], "never ends as 'P:Success D:Success'"),
        (["P:Success D:Success", "P:Failed"], "ends as 'P:Failed', which nobody expected"),
    ],
)
def test_an_end_that_is_missing_or_too_many_refutes(ends: list[str], says: str) -> None:
    report = report_of(ends=ends)
    assert (report.verdict, report.reason) == (Verdict.REFUTED, says)


def test_a_violation_refutes_even_where_the_search_was_cut_short() -> None:
    report = report_of(complete=False, violation=Violation("CountExact", "two for one"), stopped="limit")
    assert (report.verdict, report.reason) == (Verdict.REFUTED, "CountExact: two for one")


def test_a_search_that_was_cut_short_is_UNDETERMINED() -> None:
    report = report_of(complete=False, stopped="limit", frontier=4)
    assert (report.verdict, report.reason) == (Verdict.UNDETERMINED, "limit: 4 of 9 states were not searched")


def verdict_of(report: Report, name: str) -> Verdict:
    return next(each.verdict for each in report.properties() if each.property.name == name)


def test_an_invariant_that_breaks_is_REFUTED_and_says_where_and_the_others_are_UNDETERMINED() -> None:
    broken = report_of(complete=False, violation=Violation("CountExact", "two for one"))
    report = Report(True, worlds=[report_of("push-loss"), broken])
    assert verdict_of(report, "CountExact") is Verdict.REFUTED
    assert verdict_of(report, "SuccessOrder") is Verdict.UNDETERMINED
    assert (report.verdict, report.exit_code) == (Verdict.REFUTED, 1)
    assert report.failures == [f"{SMALL}: CountExact: two for one"]
    assert f"broken in {SMALL}" in report_text(report)


def test_what_a_world_claims_of_its_own_is_listed_when_it_breaks() -> None:
    report = Report(False, worlds=[report_of(complete=False, violation=Violation("OurOwn", "no"))])
    assert verdict_of(report, "OurOwn") is Verdict.REFUTED


def test_a_situation_that_never_happens_makes_its_invariant_VACUOUS_and_fails_a_whole_selection() -> None:
    marks = {mark: way for mark, way in ALL_MARKS.items() if mark != "LeaseCommit: a read ends"}
    report = Report(True, worlds=[report_of(marks=marks)])
    assert verdict_of(report, "LeaseCommit") is Verdict.VACUOUS
    assert "LeaseCommit is vacuous: it never happens that a read ends" in report.failures
    assert report.exit_code == 1
    assert verdict_of(Report(True, worlds=[report_of(marks=dict(ALL_MARKS))]), "LeaseCommit") is Verdict.PROVED


def test_a_row_that_nothing_fires_fails_a_whole_selection_and_names_it() -> None:
    report = Report(True, worlds=[report_of(marks=dict(ALL_MARKS))])
    assert any(re.fullmatch(r"row sender \w+ SEND is uncovered: .+", each) for each in report.failures)


def test_of_single_worlds_neither_rows_nor_vacuity_are_judged_and_the_text_says_so() -> None:
    report = Report(False, worlds=[report_of()])
    assert (report.failures, report.exit_code) == ([], 0)
    assert re.search(r"NOT MET +LeaseCommit", report_text(report))
    assert "of single worlds neither rows nor vacuity are judged" in report_text(report)


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_not_searched_is_named_and_nothing_is_green(whole: bool) -> None:
    report = Report(whole, worlds=[report_of(marks=dict(ALL_MARKS))], unsearched=[WORLDS["push-loss"]])
    assert (report.verdict, report.exit_code) == (Verdict.UNDETERMINED, 3)
    assert verdict_of(report, "CountExact") is Verdict.UNDETERMINED
    assert "not searched: push-loss" in report_text(report)


def test_a_check_of_nothing_is_not_green() -> None:
    assert Report(False).exit_code == 3


# -- the registry of invariants ------------------------------------------------------------------------------------------
NAMES = """
NoFreeInFlight AckMeansQuiescent CountExact NoWriteAfterArrival SuccessOrder SameRequest UniformRelease UnresolvedIsNotFree
LeaseCommit ExactlyOnceFree TerminalAbsorbing TotalHandlers Isolation AttemptUnique InstanceMatches RegistryIsFunction
CompleteOrNotSuccess NoDoneWithoutData ReadAfterCompute AuxSelfIdentifying PositionsAbsolute HandshakeSound
GroupDecisionImmutable CreditsConserved BoundedByPeers EveryRoomEnds TerminalPropagates LossSurvivable EventuallyReleased
IdleEmpty HalfOpenEnds ShutdownEnds EvidenceBeforeDeadline
""".split()  # noqa: SIM905


def test_every_invariant_has_an_entry() -> None:
    assert set(PROPERTIES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_invariant_has_situations_or_tests_that_exist(name: str) -> None:
    each = PROPERTIES[name]
    assert each.where if each.kind is Kind.TESTS else each.sometimes
    for test in each.where:
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_liveness_is_told_from_safety() -> None:
    assert {"EveryRoomEnds", "EventuallyReleased", "IdleEmpty", "LossSurvivable"} < LIVENESS
    assert "NoFreeInFlight" not in LIVENESS


# -- the check itself ----------------------------------------------------------------------------------------------------
def test_names_are_unique() -> None:
    names = [world.name for world in (*WORLDS.values(), *REACH)]
    assert len(names) == len(set(names))
    with pytest.raises(ValueError, match="two worlds are called 'push-loss'"):
        joined([WORLDS["push-loss"]], [replace(WORLDS["push-loss"], about="Another.")])
    assert {world.name for world in selection()} < {world.name for world in selection(deep=True)}


def test_rows_are_counted_for_each_world_alone() -> None:
    alone = check_world(WORLDS["push-two-requests"])
    check_world(WORLDS[SMALL])
    assert check_world(WORLDS["push-two-requests"]).fired == alone.fired


def test_a_check_that_is_told_to_stop_has_what_it_found_and_names_the_rest() -> None:
    worlds = [WORLDS["pull-two-requests"], WORLDS[SMALL], WORLDS["push-loss"]]
    done: list[WorldReport] = []
    report = check(worlds, done=done.append, stop=lambda: bool(done))
    assert [w.verdict for w in report.worlds] == [Verdict.PROVED, Verdict.UNDETERMINED]
    assert [world.name for world in report.unsearched] == ["push-loss"]
    assert report.exit_code == 3


def test_a_check_that_is_interrupted_between_searches_has_what_it_found() -> None:
    def interrupt() -> object:
        raise KeyboardInterrupt

    worlds = [WORLDS["pull-two-requests"], replace(WORLDS[SMALL], make=interrupt)]  # type: ignore[arg-type]
    report = check(worlds)
    assert [w.verdict for w in report.worlds] == [Verdict.PROVED]
    assert [world.name for world in report.unsearched] == [SMALL]
    assert report.exit_code == 3


def test_a_mutant_ends_the_check_where_it_is_refuted_first() -> None:
    report = check([WORLDS[SMALL], WORLDS["push-no-clock-abort"], WORLDS["push-loss"]], mutant=MUTANT)
    assert [w.world.name for w in report.worlds] == [SMALL, "push-no-clock-abort"]
    assert (report.exit_code, report.unsearched) == (1, [])


def test_a_line_says_verdict_size_and_budgets() -> None:
    line = world_line(check_world(WORLDS["push-handshake-refused"]), 30)
    assert re.match(
        r"PROVED +push-handshake-refused +[\d,]+ states +[\d,]+ edges +[\d.]+ s +4 ends +\S.*losses=1$", line
    )


def test_the_json_says_all_of_it() -> None:
    body = json.loads(report_json(check([WORLDS["push-two-requests"]])))
    assert (body["version"], body["verdict"], body["unsearched"], body["failures"]) == (1, "PROVED", [], [])
    (world,) = body["worlds"]
    assert (world["name"], world["verdict"], world["frontier"]) == ("push-two-requests", "PROVED", 0)
    assert set(world["ends"]) == WORLDS["push-two-requests"].ends
    assert [each["name"] for each in body["invariants"]] == list(PROPERTIES)
    met = {each["name"]: each["met"] for each in body["invariants"]}
    assert met["SameRequest"] == {"legs of two requests stand at both ends": {"world": "push-two-requests", "steps": 2}}
    assert {row["standing"] for row in body["rows"]} >= {"fired", "refuses", "dead", "second walls"}


# -- the command ---------------------------------------------------------------------------------------------------------
def test_worlds_are_listed_with_their_budgets() -> None:
    result = RUN.invoke(cli, ["check", "--list"])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(selection())
    deep = RUN.invoke(cli, ["check", "--list", "--deep", "*two-aborts*"])
    assert [line.split()[0] for line in deep.stdout.splitlines()] == ["push-two-aborts-loss", "pull-two-aborts-loss"]


def test_a_proof_ends_with_0() -> None:
    result = RUN.invoke(cli, ["check", "p*-handshake-refused"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [
        ["PROVED", "push-handshake-refused"], ["PROVED", "pull-handshake-refused"],
    ]  # fmt: skip
    assert lines[-1].startswith("PROVED: 2 worlds, ")


def test_a_limit_ends_with_3_and_the_results_so_far() -> None:
    result = RUN.invoke(cli, ["check", SMALL, "--limit", "50"])
    assert result.exit_code == 3
    assert re.search(rf"UNDETERMINED +{SMALL} ", result.stdout)
    assert "limit: " in result.stdout


def test_ctrl_c_ends_with_3_and_the_results_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(PairWorld):
        def do(self, action: Hashable) -> None:
            if len(self.processes[10].views) > 30:
                raise KeyboardInterrupt
            super().do(action)

    make = lambda: Interrupted(Setting(True, eager=True))  # noqa: E731
    monkeypatch.setitem(WORLDS, SMALL, replace(WORLDS[SMALL], make=make))
    result = RUN.invoke(cli, ["check", "push-handshake-refused", SMALL, "pull-no-clock"])
    assert result.exit_code == 3
    assert re.search(r"PROVED +push-handshake-refused", result.stdout)
    assert re.search(rf"UNDETERMINED +{SMALL} .*\n +interrupted: \d+ of \d+ states were not searched", result.stdout)
    assert "not searched: pull-no-clock" in result.stdout


def test_a_broken_row_ends_with_1_and_the_counterexample() -> None:
    result = RUN.invoke(cli, ["check", "push-no-clock-abort", "--break", MUTANT])
    assert result.exit_code == 1
    assert f"TerminalPropagates does not hold in push-no-clock-abort with '{MUTANT}'" in result.stdout


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("mermaid", "sequenceDiagram"),
        ("json", "{"),
        ("pytest", '"""TerminalPropagates'),
        ("text", "TerminalPropagates does"),
    ],
)
def test_the_counterexample_goes_to_a_file_in_the_form_that_is_asked_for(
    form: str, begins: str, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    arguments = ["check", "push-no-clock-abort", "--break", MUTANT, "--format", form, "--out", str(out), "--json"]
    result = RUN.invoke(cli, arguments)
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (1, "REFUTED")
    assert out.read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize(
    "arguments",
    [["no-such-world"], [SMALL, "--break", "sender"], [SMALL, "--limit", "0"], ["--format", "tea"]],
    ids=["world", "row", "limit", "format"],
)
def test_what_cannot_be_checked_ends_with_2(arguments: list[str]) -> None:
    assert RUN.invoke(cli, ["check", *arguments]).exit_code == 2


def test_a_file_that_cannot_be_written_ends_with_2_after_the_results(tmp_path: Path) -> None:
    arguments = ["check", "push-no-clock-abort", "--break", MUTANT, "--out", str(tmp_path / "nowhere" / "found")]
    result = RUN.invoke(cli, arguments)
    assert result.exit_code == 2
    assert "REFUTED" in result.stdout
