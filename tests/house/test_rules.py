"""House rules that a source-level test can hold us to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("spec", "protocol", "runtime", "kernels", "model_tests")
SOURCES = sorted(p for room in (*ROOMS, "kvpoll/cli") for p in (ROOT / room).rglob("*.py"))
IDS = [p.relative_to(ROOT).as_posix() for p in SOURCES]
#: Lines of one file, tables aside: they are one fact a row.
LIMIT = 450


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_file_can_be_held_in_the_head(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LIMIT or path.name.endswith("_table.py"), f"{lines} lines: split it, one idea each"


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_nothing_from_the_wire_can_become_code(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {a.name.split(".")[0] for a in node.names} | {(getattr(node, "module", "") or "").split(".")[0]}
            assert not names & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "compile", "__import__")


@pytest.mark.parametrize("room", ["spec", "protocol"])
def test_pure_rooms_know_no_clock_no_thread_no_socket(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {a.name.split(".")[0] for a in node.names} | {(getattr(node, "module", "") or "").split(".")[0]}
                bad = names & {"time", "datetime", "threading", "socket", "asyncio", "random", "secrets", "os", "queue"}
                assert not bad, f"{path.relative_to(ROOT)} imports {bad}"


def test_only_the_interpreter_and_its_callers_move_a_node() -> None:
    """A state is assigned by replacing ``node`` with an edge's node, nowhere else."""
    for path in sorted((ROOT / "protocol").rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\bnode=", line):
                assert re.search(r"node=(edge\.node|RULES\.initial)", line), (
                    f"{path.name}:{number} assigns a node: {line}"
                )


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_tests_do_not_sleep(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep":
            raise AssertionError(f"{path.relative_to(ROOT)}:{node.lineno} sleeps")
