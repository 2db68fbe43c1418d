"""The architecture: which room may import which, and what an import may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Room -> the rooms it may import from, besides itself.
ARROWS = {
    "spec": set(),
    "protocol": {"spec"},
    "kernels": {"spec"},
    "runtime": {"spec", "protocol", "kernels"},
    "model_tests": {"spec", "protocol"},
}
HEAVY = {"jax", "jaxlib", "zmq", "fastapi", "uvicorn", "httpx", "starlette", "prometheus_client"}


def _imports(path: Path) -> set[str]:
    """Names of the rooms that a file imports, inside functions and under TYPE_CHECKING too."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "kvpoll" and len(parts) > 1 and parts[1] in ARROWS:
                rooms.add(parts[1])
    return rooms


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_imports_only_along_the_arrows(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        assert _imports(path) - {room} <= ARROWS[room], f"{path.relative_to(ROOT)} imports against the arrows"


def test_only_one_file_of_the_runtime_opens_the_kernels() -> None:
    users = [p.relative_to(ROOT).as_posix() for p in (ROOT / "runtime").rglob("*.py") if "kernels" in _imports(p)]
    assert users == ["runtime/kv.py"]


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "module", ["kvpoll", "kvpoll.spec", "kvpoll.spec.wire", "kvpoll.protocol", "kvpoll.protocol.core"]
)
def test_importing_the_pure_rooms_loads_no_heavy_library(module: str) -> None:
    assert not _loaded_by(f"import {module}") & HEAVY


def test_importing_the_transports_package_and_the_kernels_loads_no_jax() -> None:
    assert "jax" not in _loaded_by("import kvpoll.runtime.transports, kvpoll.kernels, kvpoll.runtime")


def test_a_name_of_the_runtime_is_found_on_the_face_and_is_the_same_object() -> None:
    import kvpoll
    import kvpoll.runtime.manager

    assert kvpoll.KVManager is kvpoll.runtime.manager.KVManager
    assert all(getattr(kvpoll, name) is not None for name in kvpoll.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kvpoll.no_such_name


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_refuses_a_second_name(room: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import {room}"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert run.returncode != 0
    assert f"import this room as 'kvpoll.{room}'" in run.stderr


def test_no_module_is_loaded_under_two_names() -> None:
    code = (
        "import sys, kvpoll.spec, kvpoll.protocol.core, kvpoll.model_tests.pair, kvpoll.runtime.manager\n"
        "files = {}\n"
        "for name, module in list(sys.modules.items()):\n"
        "    path = getattr(module, '__file__', None)\n"
        "    if path and name.split('.')[0] == 'kvpoll':\n"
        "        import os\n"
        "        files.setdefault(os.path.realpath(path), []).append(name)\n"
        "twice = {p: n for p, n in files.items() if len(n) > 1}\n"
        "assert not twice, twice\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
