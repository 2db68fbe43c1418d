"""The tagged part of two schemas, through ``buf breaking``: the tool that we must never be weaker than."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec

from kvpoll.protocol.evolution.export import as_proto
from kvpoll.spec.schema import Snapshot

__all__ = ["BUF", "fired"]

#: The program of the package ``buf-bin``, beside this interpreter or on the path.
BUF = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
_CONFIG = '{"version":"v2","breaking":{"use":["FILE","WIRE_JSON","WIRE"]}}'


@cache
def _categories() -> dict[str, list[str]]:
    """Rule id -> categories."""
    assert BUF is not None
    done = subprocess.run(
        [BUF, "config", "ls-breaking-rules", "--format", "json", "--version", "v2"], capture_output=True, check=True
    )
    rules = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return {rule["id"]: rule["categories"] for rule in rules}


def fired(old: Snapshot, new: Snapshot, folder: Path) -> dict[str, int]:
    """Category -> count of findings of buf for this pair; 0 for those that are silent."""
    assert BUF is not None
    for name, snapshot in (("old", old), ("new", new)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "schema.proto").write_text(as_proto(snapshot))
    done = subprocess.run(
        [
            BUF,
            "breaking",
            str(folder / "new"),
            "--against",
            str(folder / "old"),
            "--error-format",
            "json",
            "--config",
            _CONFIG,
        ],
        capture_output=True,
        check=False,
    )
    found = [msgspec.json.decode(line)["type"] for line in done.stdout.splitlines()]
    assert done.returncode in (0, 100), done.stderr
    assert "COMPILE" not in found, done.stdout
    return {c: sum(c in _categories()[rule] for rule in found) for c in ("FILE", "WIRE_JSON", "WIRE")}
