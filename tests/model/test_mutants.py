"""The mutation gate: what it makes wrong, that it sees what a search from scratch sees, and that nothing survives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.machine_worlds import MACHINE_WORLDS
from kvpoll.model_tests.mutants import MUTATED, Kind, Mutant, mutants, mutated
from kvpoll.model_tests.mutation import Report, Verdict, all_mutants, run, sample
from kvpoll.model_tests.mutation_report import counted, mutants_json, mutants_page, mutants_text
from kvpoll.model_tests.mutation_venues import MachineVenue, PairVenue, rows_of
from kvpoll.model_tests.mutation_worlds import MUTATION_WORLDS, MutationWorld
from kvpoll.model_tests.setting import Clocks, Setting
from kvpoll.model_tests.tables import instead
from kvpoll.spec.table import Verdict as Says

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"
BY_NAME = {world.name: world for world in MUTATION_WORLDS}
ALL = {mutant.name: mutant for mutant in all_mutants()}
#: The smallest worlds: each is searched in a fraction of a second.
SMALL = MUTATION_WORLDS[:33]


def worlds(*names: str) -> list[MutationWorld]:
    return [BY_NAME[name] for name in names]


# -- what is made wrong ------------------------------------------------------------------------------------------------------
def test_every_row_that_does_something_is_made_wrong() -> None:
    for table in MUTATED.values():
        changed = {number for mutant in mutants(table) for number, _ in mutant.rows}
        silent = {n for n, row in enumerate(table.rows) if row.verdict in (Says.NEVER, Says.REFUSE)}
        assert set(range(len(table.rows))) - silent <= changed


def test_a_mutant_differs_from_its_table_in_the_rows_that_it_names_only() -> None:
    for mutant in ALL.values():
        table, wrong = MUTATED[mutant.table], mutated(mutant)
        differs = {n for n, (a, b) in enumerate(zip(table.rows, wrong.rows, strict=True)) if a != b}
        assert differs == {number for number, _ in mutant.rows}, mutant.name


def test_mutants_have_names_of_their_own_and_are_of_every_kind() -> None:
    assert len(ALL) == len(all_mutants())
    assert {mutant.kind for mutant in ALL.values()} == set(Kind)


def test_no_two_mutants_are_the_same_table() -> None:
    said = {(mutant.table, mutant.rows) for mutant in ALL.values()}
    assert len(said) == len(ALL)


def test_a_sample_is_always_the_same_and_of_every_table_and_kind() -> None:
    some = sample(list(ALL.values()), 60)
    assert some == sample(list(ALL.values()), 60)
    assert len({mutant.name for mutant in some}) == 60
    assert {mutant.kind for mutant in some} == set(Kind)
    assert {mutant.table for mutant in some} == set(MUTATED)


# -- that it sees what there is ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    ["push-abort-prompt", "pull-failed-prompt", "push-forged", "pull-timed", "pull-copy-hostile", "push-stuck-abort",
     "pull-two-rooms-one-credit"],
)  # fmt: skip
def test_searching_the_difference_finds_what_a_search_from_scratch_finds(name: str) -> None:
    venue = PairVenue(BY_NAME[name])
    world = venue.first.of
    fired = [mutant for mutant in ALL.values() if rows_of(mutant) & venue.fired]
    compared = 0
    for mutant in sample(fired, 20):
        trial = venue.attempt(mutant)
        assert trial is not None
        with instead(mutated(mutant)):
            try:
                made = world.kind(world.setting, world.budget)
            except Exception:  # noqa: BLE001  # it cannot even be set up
                assert trial.violation is not None, mutant.name
                assert not trial.trace, mutant.name
                continue
            result = explore(made, 20_000)
        assert result.broken == (trial.violation.invariant if trial.violation else ""), mutant.name
        if trial.violation is None:
            assert (result.states, result.complete) == (trial.states, trial.complete), mutant.name
        else:
            assert len(result.trace) == len(trial.trace), mutant.name
        compared += 1
    assert compared >= 12


def test_a_row_that_says_the_same_in_other_words_is_equivalent() -> None:
    finding = run([ALL["lease DRAINING QUIET [own and not theirs]: without theirs := no"]], SMALL[:6]).findings[0]
    assert finding.verdict is Verdict.EQUIVALENT
    assert finding.sights
    assert all(sight.how for sight in finding.sights)


def test_what_differs_and_is_not_found_survives() -> None:
    mutant = ALL[
        "sender Bootstrapping BIND [bound and (met or not all)]: ignored"
    ]  # a second announcement is not answered
    report = run([mutant], worlds("push-late-engines-prompt"))  # where none comes twice
    assert report.counts == {Verdict.SURVIVED: 1}
    assert report.status == 1
    assert report.rate == 0
    assert "push-late-engines-prompt" in mutants_text(report)
    killed = run([mutant], worlds("push-late-engines-prompt", "push-late-engines-copy"))
    assert [(finding.broken, finding.world) for finding in killed.findings] == [
        ("LossSurvivable", "push-late-engines-copy")
    ]
    assert killed.findings[0].trace
    assert (killed.status, killed.rate) == (0, 1)


def test_a_row_that_no_world_fires_is_said_to_be_so() -> None:
    unknown, known = ALL["sender WaitingForInput ABORT: ignored"], ALL["sender WaitingForInput PASSED: ignored"]
    report = run([unknown, known], worlds("push-empty-prompt"))
    assert report.counts == {Verdict.UNREACHED: 2}
    assert report.status == 3, "nobody says why"
    assert run([known], worlds("push-empty-prompt")).status == 0


def test_what_is_cut_short_is_undetermined() -> None:
    def stop(line: str) -> None:
        if "world 3 " in line:
            raise KeyboardInterrupt

    report = run(
        [ALL["sender WaitingForInput ABORT: without SEND_ABORT"], *mutants(MUTATED["link"])], SMALL, progress=stop
    )
    assert not report.finished
    assert report.counts[Verdict.UNDETERMINED] >= 1
    assert report.counts[Verdict.KILLED] >= 1
    assert report.status == 3


@pytest.mark.parametrize(
    ("name", "broken"),
    [("push-loss-repaired", Setting(True, eager=True, clocks=Clocks.NONE)), ("push-liar", Setting(False, eager=True))],
)
def test_a_world_that_does_not_hold_as_it_is_tries_no_mutant(name: str, broken: Setting) -> None:
    with pytest.raises(ValueError, match=f"{name} must hold with the tables as they are"):
        PairVenue(BY_NAME[name]._replace(setting=broken))


@pytest.mark.parametrize("name", MUTATED)
def test_machines_alone_meet_every_row_that_does_something(name: str) -> None:
    """The worlds of one table together; of those that are about what is over, the rows of that."""
    venues = [MachineVenue(world) for world, (table, *_) in MACHINE_WORLDS.items() if table == name]
    table = MUTATED[name]
    rows = {n for n, row in enumerate(table.rows) if row.verdict not in (Says.NEVER, Says.REFUSE)}
    if all(venue.terminal for venue in venues):
        rows = {n for n in rows if table.rows[n].state in table.terminal}
    assert rows <= {number for venue in venues for _, number in venue.fired}


# -- that nothing survives -----------------------------------------------------------------------------------------------------
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def killed_in() -> dict[str, str]:
    """Mutant -> world, as the page says."""
    rows = [
        line.strip("| ").split(" | ") for line in page().partition("## Killed")[2].splitlines() if line.startswith("| ")
    ]
    return {cells[0]: cells[3] for cells in rows[2:]}


def test_the_page_is_about_as_many_mutants_as_there_are() -> None:
    assert counted(page()) == len(ALL), "run: kvpoll check --mutants --write docs/mutants.md"
    assert set(killed_in()) <= set(ALL)


def test_a_sample_of_what_small_worlds_kill_is_killed() -> None:
    small = {*MACHINE_WORLDS, *(world.name for world in SMALL)}
    known = [ALL[name] for name, world in killed_in().items() if world in small and name in ALL]
    report = run(sample(known, 120), SMALL)
    assert len(report.findings) == 120
    assert [f.mutant.name for f in report.findings if f.verdict is not Verdict.KILLED] == []


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_no_mutant_survives() -> None:
    report = run(ALL.values())
    assert report.status == 0, mutants_text(report)
    said = killed_in()
    assert {f.mutant.name for f in report.of(Verdict.KILLED)} == set(said), "the page is out of date"


# -- how it is told ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def report() -> Report:
    chosen: list[Mutant] = [*mutants(MUTATED["lease"]), ALL["sender WaitingForInput ABORT: without SEND_ABORT"]]
    return run(chosen, SMALL[:4])


def test_the_page_names_every_mutant_and_says_how_many_there_are(report: Report) -> None:
    text = mutants_page(report)
    assert counted(text) == len(report.findings)
    assert all(finding.mutant.name.replace("|", "\\|") in text for finding in report.findings)
    assert counted("# Mutants\n") == -1


def test_the_json_has_the_shortest_trace_of_each_kill(report: Report) -> None:
    data = json.loads(mutants_json(report))
    assert data["mutants"] == len(data["each"]) == sum(data[verdict.value] for verdict in Verdict)
    for entry in data["each"]:
        assert entry["invariant"] if entry["verdict"] == "killed" else entry["why"]
    assert any(len(entry.get("trace", ())) > 2 for entry in data["each"])


def test_the_command_tells_and_its_status_says_what_it_found() -> None:
    result = CliRunner().invoke(cli, ["check", "--mutants", "--table", "link", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["killed"] == data["mutants"] == len(mutants(MUTATED["link"]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "letter"], "letter"),
        (["--sample", "3", "--write", "x.md"], "--write"),
        (["--sample", "0"], "--sample"),
    ],
)
def test_a_wrong_option_is_named(options: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["check", "--mutants", *options])
    assert result.exit_code == 2
    assert said in result.output
