"""The command line: what it prints, where it writes, how it refuses, and that it stays light."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import COMMANDS, GROUPS, cli
from kvpoll.protocol.render import Format, render
from kvpoll.spec import SENDER, TABLES

RUN = CliRunner()


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("format", Format)
def test_a_table_is_printed_as_it_is_rendered(name: str, format: Format) -> None:
    result = RUN.invoke(cli, ["tables", name, "--format", format.value])
    assert (result.exit_code, result.stdout) == (0, render(TABLES[name], format))


def test_without_a_name_every_table_is_printed() -> None:
    result = RUN.invoke(cli, ["tables"])
    assert result.stdout == "\n".join(render(t, Format.TEXT) for t in TABLES.values())


def test_every_table_as_json_is_one_document() -> None:
    result = RUN.invoke(cli, ["tables", "--format", "json"])
    assert [t["name"] for t in json.loads(result.stdout)] == list(TABLES)


def test_output_goes_to_the_file_and_not_to_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "sender.dot"
    result = RUN.invoke(cli, ["tables", "sender", "--format", "dot", "--output", str(file)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_text(encoding="utf-8") == render(SENDER, Format.DOT)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["tables", "sendr"], "sender"),
        (["tables", "sender", "--format", "svg"], "svg"),
        (["tables", "sender", "--output", "/nowhere/at/all.md"], "No such file"),
        (["docs"], "--write"),
        (["docs", "--write", "--check"], "--write"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_what_is_expected(args: list[str], said: str) -> None:
    result = RUN.invoke(cli, args, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert said in result.output


def test_docs_refuses_a_directory_that_is_no_checkout(tmp_path: Path) -> None:
    result = RUN.invoke(cli, ["docs", "--write", "--root", str(tmp_path)], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_version_is_that_of_the_installed_package() -> None:
    assert RUN.invoke(cli, ["--version"]).stdout == f"kvpoll {version('kvpoll')}\n"


def test_help_lists_every_command() -> None:
    said = RUN.invoke(cli, ["--help"]).stdout
    assert all(name in said for name in (*COMMANDS, *GROUPS))


def python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, so that what this one has loaded does not count."""
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60, check=False)


def without(module: str) -> subprocess.CompletedProcess[str]:
    """The command line where ``module`` is not installed (``None`` in sys.modules makes its import fail just so)."""
    return python(f"import sys; sys.modules[{module!r}] = None; from kvpoll.__main__ import main; main()", "--version")


def test_a_missing_extra_is_one_sentence_and_exit_status_two() -> None:
    done = without("typer")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kvpoll: the command line needs typer; install it with: pip install 'kvpoll[cli]'\n"


def test_another_missing_module_is_not_blamed_on_the_extra() -> None:
    done = without("kvpoll.spec")
    assert done.returncode == 1
    assert "kvpoll.spec" in done.stderr
    assert "kvpoll[cli]" not in done.stderr


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from kvpoll.cli.app import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'jaxlib', 'numpy', 'zmq', 'fastapi', 'uvicorn', 'httpx', 'pydantic', 'transitions'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = python(code)
    assert done.stderr.strip() == "LOADED []"
    assert "tables" in done.stdout


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvpoll", "tables", "link"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == render(TABLES["link"], Format.TEXT)
