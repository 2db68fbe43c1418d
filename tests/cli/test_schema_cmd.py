"""``kvpoll schema`` as a user types it: exit status 0 fine, 1 breaking, 2 could not check."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.protocol.evolution.edit import Edit, edited
from kvpoll.protocol.evolution.rules import base, rules
from kvpoll.protocol.evolution.snapshots import to_json
from kvpoll.protocol.schema_export import load

HISTORY = Path(__file__).parents[2] / "spec" / "history" / "slots.json"
NEXT = Edit(op="set-snapshot", to={"version": "1.1", "window": ("1.0", "1.1")})
GONE = Edit(op="drop-field", at="Register.layers")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["schema", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output + (result.stderr if result.stderr_bytes else "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "v1_0.json").write_text(to_json(base()))
    (tmp_path / "next.json").write_text(to_json(edited(base(), [NEXT])))
    (tmp_path / "broken.json").write_text(to_json(edited(base(), [NEXT, GONE])))
    return tmp_path


def test_our_own_wire_is_compared_with_every_frozen_snapshot() -> None:
    status, said = run("check")
    assert (status, "fine" in said) == (0, True)


def test_a_schema_is_compared_with_a_file_a_folder_and_its_neighbours(folder: Path) -> None:
    assert run("check", folder / "next.json", "--against", folder / "v1_0.json")[0] == 0
    status, said = run("check", folder / "broken.json", "--against", folder / "v1_0.json")
    assert (status, "FIELD_DELETED_UNRESERVED" in said) == (1, True)
    (folder / "next.json").unlink()
    assert run("check", folder / "broken.json")[0] == 1
    assert run("check", folder / "broken.json", "--against", folder)[0] == 1
    assert run("diff", folder / "v1_0.json", folder / "broken.json")[0] == 1


def test_a_schema_is_compared_with_what_git_had(folder: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)

    (folder / "broken.json").unlink()
    (folder / "next.json").unlink()
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", "v1")
    current = folder / "current.json"
    current.write_text(to_json(edited(base(), [NEXT, GONE])))
    assert run("check", current, "--against", "v1")[0] == 1
    current.write_text(to_json(edited(base(), [NEXT])))
    assert run("check", current, "--against", "v1")[0] == 0
    status, said = run("check", current, "--against", "no-such-ref")
    assert (status, "expected a file, a folder or a git ref" in said) == (2, True)


def test_what_cannot_be_checked_is_told_apart(folder: Path, tmp_path: Path) -> None:
    garbage = folder / "garbage.json"
    garbage.write_text("{")
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments in (
        ("check", folder / "nothing.json"),
        ("check", garbage, "--against", folder / "v1_0.json"),
        ("check", folder / "next.json", "--against", empty),
        ("check", folder / "next.json", "--against", folder / "v1_0.json", "--format", "xml"),
        ("check", folder / "next.json", "--against", folder / "v1_0.json", "--order", "both"),
        ("check", folder / "next.json", "--against", folder / "v1_0.json", "--waivers", garbage),
        ("check", folder / "next.json", "--waivers", folder / "none.toml"),
        ("explain", "NO_RULE"),
        ("export", "--format", "xml"),
        ("predict", garbage, "--all"),
        ("predict", HISTORY, "--sender", "nobody", "--receiver", "MC-REG-1"),
        ("predict", HISTORY, "--sender", "MC-REG-2", "--receiver", "MC-REG-1", "--variant", "half"),
        ("import-slots", garbage, "--out", empty),
    ):
        status, said = run(*arguments)
        assert status == 2, arguments
        assert "could not check" in said


def test_a_baseline_that_was_edited_is_a_finding(folder: Path) -> None:
    baseline = folder / "v1_0.json"
    baseline.write_text(baseline.read_text().replace('"resume"', '"resumes"'))
    status, said = run("check", folder / "next.json", "--against", baseline)
    assert (status, "BASELINE_EDITED" in said) == (1, True)


def test_every_two_releases_are_compared_when_asked(folder: Path) -> None:
    (folder / "v1_1.json").write_text((folder / "broken.json").read_text())
    latest = folder / "latest.json"
    latest.write_text(
        to_json(edited(base(), [Edit(op="set-snapshot", to={"version": "1.2", "window": ("1.0", "1.2")})]))
    )
    for name in ("next.json", "broken.json"):
        (folder / name).unlink()
    pairs = json.loads(run("check", latest, "--every-pair", "--format", "json")[1])["pairs"]
    assert [(p["old"]["version"], p["new"]["version"]) for p in pairs] == [
        ("1.0", "1.1"),
        ("1.0", "1.2"),
        ("1.1", "1.2"),
    ]


def test_a_waiver_lets_a_finding_through(folder: Path) -> None:
    waivers = folder / "waivers.toml"
    waivers.write_text(
        "[[waiver]]\nrule = 'FIELD_DELETED_UNRESERVED'\nat = 'Register.layers'\n"
        "reason = 'nobody sends it'\nexpires = '2999-01-01'\n"
    )
    assert run("check", folder / "broken.json", "--against", folder / "v1_0.json", "--waivers", waivers)[0] == 0
    assert run("check", folder / "next.json", "--against", folder / "v1_0.json", "--waivers", waivers)[0] == 1


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "github", "markdown", "text"])
def test_a_report_goes_to_a_file(folder: Path, form: str) -> None:
    out = folder / "report"
    status, said = run(
        "check", folder / "broken.json", "--against", folder / "v1_0.json", "--format", form, "--out", out
    )
    assert (status, said) == (1, "")
    assert "FIELD_DELETED_UNRESERVED" in out.read_text()


def test_every_rule_is_explained() -> None:
    status, said = run("explain")
    assert status == 0
    assert all(rule in said for rule in rules())
    assert "Fix:" in run("explain", "tag-reused")[1]


def test_a_frozen_snapshot_is_never_changed(folder: Path) -> None:
    frozen = folder / "frozen"
    assert run("freeze", folder / "v1_0.json", "--to", frozen)[0] == 0
    assert load((frozen / "v1_0.json").read_bytes()) == base()
    assert run("freeze", folder / "v1_0.json", "--to", frozen)[0] == 0
    (folder / "v1_0.json").write_text(to_json(edited(base(), [GONE])))
    status, said = run("freeze", folder / "v1_0.json", "--to", frozen)
    assert (status, "is frozen and says something else" in said) == (2, True)
    assert load((frozen / "v1_0.json").read_bytes()) == base()


def test_the_layouts_of_an_engine_become_snapshots_that_are_checked_like_any_other(tmp_path: Path) -> None:
    assert run("import-slots", HISTORY, "--out", tmp_path)[0] == 0
    assert run("check", tmp_path / "mooncake-0.5.4.json", "--against", tmp_path / "mooncake-0.5.1.json")[0] == 1
    assert run("check", tmp_path / "mooncake-0.5.21.json", "--against", tmp_path / "mooncake-0.5.20.json")[0] == 0


def test_a_prediction_for_machines_has_the_verdict(tmp_path: Path) -> None:
    pair = ("--sender", "MC-META-6", "--receiver", "MC-META-5")
    status, said = run("predict", HISTORY, *pair, "--variant", "full", "--format", "json")
    assert (status, json.loads(said)["verdict"]) == (0, "silent-misread")
    assert "silent-misread" in run("predict", HISTORY, *pair)[1]
    everything = json.loads(run("predict", HISTORY, "--all")[1])
    assert {"sender", "receiver", "variant", "verdict"} <= set(everything[0])
    assert {each["variant"] for each in everything} == {"full", "plain"}
