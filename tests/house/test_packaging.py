"""What is built holds real files, and works where nothing else of this checkout is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("spec", "protocol", "runtime", "kernels", "model_tests")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist of a clean copy; the wheel is built from the sdist, as an installer would."""
    copy = tmp_path_factory.mktemp("copy") / "kvpoll"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT)
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    return out


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_the_wheel_holds_every_room_as_real_files(built: Path) -> None:
    with zipfile.ZipFile(_only(built, "*.whl")) as wheel:
        names = set(wheel.namelist())
        for room in ROOMS:
            sources = {f"kvpoll/{p.relative_to(ROOT).as_posix()}" for p in (ROOT / room).rglob("*.py")}
            assert sources <= names, sorted(sources - names)
        assert {
            "kvpoll/py.typed",
            "kvpoll/spec/snapshots/v1_0.json",
            "kvpoll/spec/rules/TAG_REUSED.toml",
            "kvpoll/spec/history/slots.json",
        } <= names
        assert all(wheel.getinfo(n).external_attr >> 28 != 0xA for n in names), "no symbolic links"
        assert not {n.split("/")[0] for n in names} & {"tests", "spec", "protocol", "benchmarks", "examples"}


def test_the_sdist_holds_every_room_as_real_files(built: Path) -> None:
    with tarfile.open(_only(built, "*.tar.gz")) as sdist:
        members = {m.name.split("/", 1)[1]: m for m in sdist.getmembers() if "/" in m.name}
        for room in ROOMS:
            for path in (ROOT / room).rglob("*.py"):
                name = f"kvpoll/{path.relative_to(ROOT).as_posix()}"
                assert name in members, f"{name} is missing"
                assert members[name].isreg(), f"{name} is a link"


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_each_installs_in_an_empty_environment_and_runs(built: Path, tmp_path: Path, pattern: str) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    # Dependencies come from this environment; kvpoll itself must come from what was built.
    site = sysconfig.get_path("purelib")
    python = home / "bin" / "python"
    (target,) = home.glob("lib/python*/site-packages")
    for old in (*target.glob("setuptools*"), *target.glob("pkg_resources*")):
        shutil.rmtree(old)  # an empty environment may bring a setuptools that is too old to read pyproject.toml
    for entry in Path(site).iterdir():
        if "kvpoll" not in entry.name and not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        str(_only(built, pattern)),
    ]
    subprocess.run(install, check=True, capture_output=True, text=True)
    code = "import kvpoll, kvpoll.runtime.manager; print(kvpoll.__file__); assert kvpoll.KVPoll(4).name == 'Success'"
    run = subprocess.run([str(python), "-I", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert run.stdout.startswith(str(home)), run.stdout
    shown = subprocess.run(
        [str(home / "bin" / "kvpoll"), "tables", "lease"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert "QUARANTINED" in shown.stdout
