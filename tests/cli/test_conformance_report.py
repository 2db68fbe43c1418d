"""``kvpoll conformance report`` and ``merge`` as a user types them: exit status 0 written, 2 could not."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.model_tests.conformance.result import (
    CaseResult,
    Implementation,
    RequirementText,
    Result,
    Suite,
    Verdict,
    read_result,
    write_result,
)

RESULT = Result(
    suite=Suite("suite", "1"), implementation=Implementation("engine", "2"), profile="common", started="2026-11-30T00:00:00Z",
    seconds=1.0, environment={},
    requirements=(RequirementText(id="KVX-STATE-1", level="MUST", role="both", section="STATE", text="It is so."),),
    cases=(
        CaseResult(
            id="state/life/1", title="a life", requirements=("KVX-STATE-1",), level="MUST", role="both", verdict=Verdict.FAIL,
            reason="it is not so",
        ),
    ),
)  # fmt: skip


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["conformance", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output + (result.stderr if result.stderr_bytes else "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_result(RESULT, tmp_path / "a.json")
    write_result(replace(RESULT, implementation=Implementation("other", "3")), tmp_path / "b.json")
    write_result(replace(RESULT, suite=Suite("suite", "2")), tmp_path / "later.json")
    return tmp_path


@pytest.mark.parametrize("format", ["text", "junit", "sarif", "markdown", "html"])
def test_each_form_goes_to_a_file_or_to_the_terminal(folder: Path, format: str) -> None:
    status, said = run("report", folder / "a.json", "--format", format)
    assert (status, "it is not so" in said) == (0, True)
    assert run("report", folder / "a.json", "--format", format, "--output", folder / "out") == (0, "")
    assert (folder / "out").read_text(encoding="utf-8") == said
    if format == "junit":
        assert ET.fromstring(said).get("failures") == "1"


def test_merged_results_are_whole_and_can_be_told(folder: Path) -> None:
    status, said = run("merge", folder / "a.json", folder / "b.json", "--output", folder / "all.json")
    assert (status, "2 side by side" in said) == (0, True)
    document = json.loads((folder / "all.json").read_text())
    assert document["results"] == [json.loads((folder / name).read_text()) for name in ("a.json", "b.json")]
    for results in ((folder / "all.json",), (folder / "a.json", folder / "b.json")):
        status, said = run("report", *results)
        assert (status, "engine 2" in said, "other 3" in said) == (0, True, True)


def test_what_cannot_be_told_or_merged_is_refused_and_named(folder: Path) -> None:
    (folder / "new.json").write_text((folder / "a.json").read_text().replace("result/1", "result/7"))
    for arguments, says in (
        (("report", folder / "a.json", "--format", "pdf"), "--format: expected one of text"),
        (("report", folder / "none.json"), "cannot be read"),
        (("report", folder / "new.json"), "schema: expected kvpoll-conformance-result/1"),
        (("report", folder / "a.json", "--output", folder / "no" / "such"), "No such file"),
        (("merge", folder / "a.json", folder / "later.json", "--output", folder / "x"), "suite.version: expected 1"),
        (
            ("merge", folder / "a.json", folder / "a.json", "--output", folder / "x"),
            "implementation: expected each name",
        ),
    ):
        status, said = run(*arguments)
        assert (status, says in said) == (2, True), said
    assert not (folder / "x").exists()


def test_a_report_changes_nothing_of_the_result(folder: Path) -> None:
    before = (folder / "a.json").read_bytes()
    run("report", folder / "a.json", "--format", "html", "--output", folder / "page.html")
    assert (folder / "a.json").read_bytes() == before
    assert read_result(folder / "a.json") == RESULT
