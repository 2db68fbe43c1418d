"""The guide to schemas says what is so: its files can be read, its commands exist, and what it shows is what they print."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.cli.schema import schema
from kvpoll.protocol.evolution.compare import compare
from kvpoll.protocol.evolution.edit import Edit, edited
from kvpoll.protocol.evolution.encodings import ENCODINGS
from kvpoll.protocol.evolution.history_page import changes, history
from kvpoll.protocol.evolution.rules import rules
from kvpoll.protocol.evolution.slots import Variant, Verdict
from kvpoll.protocol.evolution.snapshots import to_json
from kvpoll.protocol.evolution.waivers import read_waivers
from kvpoll.protocol.schema_export import load
from kvpoll.spec import schema as language

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
RUN = CliRunner()


def blocks(kind: str) -> list[str]:
    """The fenced blocks of a language, without the indent of the list that they stand in."""
    found = re.findall(rf"^( *)```{kind}\n(.*?)^ *```$", GUIDE, re.M | re.S)
    return ["".join(line[len(indent) :] or "\n" for line in text.splitlines(keepends=True)) for indent, text in found]


SNAPSHOT, LAYOUTS = blocks("json")
SAID, PREDICTED = blocks("text")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as the guide describes it."""
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "current.json").write_text(SNAPSHOT)
    (tmp_path / "schema" / "waivers.toml").write_text(blocks("toml")[0].replace("2027", "2999"))
    (tmp_path / "layouts.json").write_text(LAYOUTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def console() -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [line.removeprefix("$ kvpoll ").split() for line in lines if line.startswith("$ kvpoll ")]


def changed(folder: Path, *edits: Edit) -> None:
    """The current schema, one version on."""
    new = edited(load(SNAPSHOT), [Edit(op="set-snapshot", to={"version": "1.1"}), *edits])
    (folder / "schema" / "current.json").write_text(to_json(new))


def test_the_commands_of_the_guide_do_what_it_says(folder: Path) -> None:
    said = {}
    for arguments in console():
        if "--waivers" in arguments:
            changed(folder, Edit(op="set-enum", at="enum Dtype", to={"values": {"BF16": 0, "FP8": 1, "INT4": 2}}))
        result = RUN.invoke(cli, arguments)
        said[" ".join(arguments[1:])] = (result.exit_code, result.output)
    statuses = {command.partition(" --")[0]: status for command, (status, _) in said.items()}
    broken = "check slots/mine-1.2.json"
    assert statuses == {command: int(command == broken) for command in statuses}
    assert (folder / "schema" / "frozen" / "v1_0.json").is_file()
    assert "SLOT_MOVED" in next(output for command, (_, output) in said.items() if command.startswith(broken))
    assert any("waived until" in output for _, output in said.values())
    assert PREDICTED in [output for _, output in said.values()]


def test_the_report_that_the_guide_shows_is_the_one_that_is_printed(folder: Path) -> None:
    check = ["schema", "check", "schema/current.json", "--against", "schema/frozen"]
    RUN.invoke(cli, ["schema", "freeze", "schema/current.json", "--to", "schema/frozen"])
    assert RUN.invoke(cli, check).exit_code == 0
    changed(folder, Edit(op="swap-tags", at="Register.tp_rank", other="tp_size"))
    result = RUN.invoke(cli, check)
    assert (result.exit_code, result.output) == (1, SAID)


def test_the_snapshot_and_the_waivers_of_the_guide_are_sound() -> None:
    assert compare(load(SNAPSHOT), load(SNAPSHOT)) == []
    assert [waiver.rule for waiver in read_waivers(blocks("toml")[0])] == ["ENUM_VALUE_ADDED_CLOSED"]


def test_every_attribute_and_type_of_the_language_is_explained() -> None:
    named = set(re.findall(r"`([a-z_]+)`", GUIDE))
    for spec in (language.Snapshot, language.MessageSpec, language.FieldSpec, language.EnumSpec, language.Reserved):
        assert {f.encode_name for f in msgspec.structs.fields(spec)} - {"tags", "names"} <= named, spec
    for kind in language.Type.__args__:  # type: ignore[attr-defined]
        assert {kind.__struct_config__.tag, *kind.__struct_fields__} <= named, kind
    assert all(f"`{name}`" in GUIDE for name in ENCODINGS)


def test_every_command_is_listed_and_every_option_that_is_named_exists() -> None:
    commands = typer.main.get_command(schema).commands  # type: ignore[attr-defined]
    listed = set(re.findall(r"^\| `kvpoll schema ([a-z-]+)", GUIDE, re.M))
    assert listed == set(commands)
    options = {o for command in commands.values() for p in command.params for o in p.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z]+[a-z-]*", GUIDE)) <= options


def test_the_hook_runs_a_command_that_exists() -> None:
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    (entry,) = re.findall(r"^  entry: kvpoll (.+)$", hook, re.M)
    assert RUN.invoke(cli, [*entry.split(), "--help"]).exit_code == 0
    assert f"`{re.findall(r'^- id: (.+)$', hook, re.M)[0]}`" in GUIDE


def test_the_page_of_rules_has_every_rule_with_all_of_its_fixtures() -> None:
    page = (ROOT / "docs" / "schema-rules.md").read_text(encoding="utf-8")
    for rule in rules().values():
        section = page.partition(f"\n## {rule.id}\n")[2].partition("\n## ")[0]
        for text in (rule.means, rule.fix, *(f.says for f in (*rule.positive, *rule.negative))):
            assert text in section, rule.id


# What the page of slots claims --------------------------------------------------------------------------------------------
def test_with_tags_no_change_of_the_history_is_misread_in_silence() -> None:
    verdicts = [cell.verdict for change in changes() for pair in change.tags.values() for cell in pair]
    assert Verdict.SILENT not in verdicts
    assert {Verdict.OK, Verdict.RAISES} == set(verdicts)
    assert any(
        cell.verdict is Verdict.SILENT for change in changes() for pair in change.slots.values() for cell in pair
    )


def test_what_is_refused_with_tags_is_found_by_a_rule_before() -> None:
    for change in changes():
        for pair in change.tags.values():
            if any(cell.verdict is not Verdict.OK for cell in pair):
                assert any(finding.breaking for finding in change.tag_findings), change.new.id


def test_every_step_of_every_message_is_on_the_page() -> None:
    page = (ROOT / "docs" / "slot-history.md").read_text(encoding="utf-8")
    firsts = {(x.backend, x.message): x.id for x in reversed(history().layouts.values())}
    later = [x for x in history().layouts.values() if x.id not in firsts.values()]
    assert [change.new.id for change in changes()] == [x.id for x in later]
    for change in changes():
        assert f"### {change.new.first_release}: {change.old.id} becomes {change.new.id}" in page
        assert set(change.slots) == set(change.tags) == set(Variant)
