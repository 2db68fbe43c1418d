"""Checking all pairs of twenty releases of fifty messages, against one ``buf breaking`` run of one pair.

Both are whole processes, start-up included, as CI runs them: they take turns, and the ratio is of the medians. Every release
adds a field to one message and a message now and then, so that there is something to compare.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from msgspec.structs import replace

from kvpoll.protocol.evolution.export import as_proto
from kvpoll.protocol.evolution.snapshots import sealed, to_json
from kvpoll.spec.schema import FieldSpec, Integer, ListOf, MessageSpec, Snapshot, Text

from .result import Bare, Result

__all__ = ["releases", "run"]

#: At most so many times one run of buf.
TARGET = 12.0
_NUMBER = Integer(min=0, max=2**32 - 1)


def run(quick: bool = False) -> list[Result]:
    """Twenty seconds, three when ``quick``. Raises ``RuntimeError`` when a check fails that should pass."""
    count, messages, rounds = (4, 5, 1) if quick else (20, 50, 9)
    buf = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
    with tempfile.TemporaryDirectory(prefix="kvpoll-bench-") as name:
        folder = Path(name)
        snapshots = releases(count, messages)
        for snapshot in snapshots:
            (folder / f"v{snapshot.version}.json").write_text(to_json(snapshot))
        for side, snapshot in (("old", snapshots[-2]), ("new", snapshots[-1])):
            (folder / side).mkdir()
            (folder / side / "schema.proto").write_text(as_proto(snapshot))
        newest = folder / f"v{snapshots[-1].version}.json"
        ours = [sys.executable, "-m", "kvpoll", "schema", "check", str(newest), "--every-pair", "--format", "json"]
        theirs = [str(buf), "breaking", str(folder / "new"), "--against", str(folder / "old")]
        spent: dict[str, list[float]] = {"ours": [], "buf": []}
        for _ in range(rounds):
            spent["ours"].append(_timed(ours))
            if buf is not None:
                spent["buf"].append(_timed(theirs))
    bare = [Bare("ours median", median(spent["ours"]) * 1e3, "ms")]
    ratio = None
    if spent["buf"]:
        ratio = median(spent["ours"]) / median(spent["buf"])
        bare.append(Bare("buf median", median(spent["buf"]) * 1e3, "ms"))
    pairs = count * (count - 1) // 2
    says = f"{messages} messages, {count} releases, {pairs} pairs, one process / one run of buf for one pair"
    return [Result("all pairs of releases", ratio, TARGET, says=says, bare=tuple(bare))]


def releases(count: int, messages: int) -> list[Snapshot]:
    """Snapshots that only grow, so that every pair of them is compatible."""
    specs = [_message(number) for number in range(1, messages + 1)]
    found = []
    for release in range(count):
        at = release % messages
        more = FieldSpec(
            name=f"since_{release}", tag=40 + release, type=_NUMBER, presence="optional", since=f"1.{release}"
        )
        specs[at] = replace(specs[at], fields=(*specs[at].fields, more))
        window = ("1.0", f"1.{release}")
        found.append(sealed(Snapshot(schema="bench", version=f"1.{release}", window=window, messages=tuple(specs))))
    return found


def _message(number: int) -> MessageSpec:
    fields = [FieldSpec(name=f"number_{n}", tag=16 + n, type=_NUMBER, presence="required") for n in range(6)]
    fields.append(FieldSpec(name="name", tag=30, type=Text(max_length=64), presence="optional"))
    fields.append(FieldSpec(name="pages", tag=31, type=ListOf(items=_NUMBER, max_length=1024), presence="optional"))
    return MessageSpec(name=f"Message{number}", number=number, sent_by=("sender",), fields=tuple(fields))


def _timed(command: list[str]) -> float:
    start = perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    return perf_counter() - start
