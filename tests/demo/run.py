"""`kvpoll demo` as a person runs it, and what every good run has in common."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "check_idle", "check_parity", "check_traces", "run"]

ROOT = Path(__file__).parents[2]


def run(*arguments: str, seconds: float = 110) -> dict[str, Any]:
    """The summary. Exit status and summary must say the same."""
    command = [sys.executable, "-m", "kvpoll", "demo", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    assert done.stdout.startswith("{"), done.stderr[-2000:]
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["problems"] == [], done.stderr[-2000:]
    assert (done.returncode, summary["ok"]) == (0, True)
    return summary


def check_parity(summary: dict[str, Any]) -> None:
    rooms, parity = summary["rooms"], summary["parity"]
    assert parity["different"] == []
    assert parity["rooms"] == rooms["answered"] >= rooms["untouched"] > 0
    assert parity["tokens"] == 8 * rooms["answered"]
    assert parity["alone"] == rooms["answered"]
    assert parity["rows"] > 0


def check_idle(summary: dict[str, Any], lost: tuple[str, ...] = ()) -> None:
    for engine in summary["engines"]:
        if engine["name"] in lost:
            assert engine["end"] in ("killed", "stopped")
        else:
            assert (engine["end"], engine["exit_status"]) == ("closed", 0)
            assert (engine["not_idle"], engine["cut_off"]) == ({}, {})


def check_traces(folder: Path, cut: int = 0) -> None:
    """Of every rank that was ever started; some, if ``cut``, were killed or stopped while they wrote."""
    command = [sys.executable, "-m", "kvpoll", "trace", "check", "--json", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    verdict: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, verdict["bad"]) == (0, [])
    assert verdict["steps"] > 100
    assert sum("not closed" in note for note in verdict["notes"]) == len(verdict["notes"]) == (cut > 0)
