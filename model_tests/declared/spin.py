"""Run Spin on a declared world, and read what its checker prints, strictly.

Spin translates the model to C, a C compiler makes a checker (``pan``) of it, and that one searches everything. Its report
is believed only where it says outright that the search was whole: a limit that was hit, a line that is missing, or an exit
status that is not zero makes the result UNDETERMINED, never green.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from .promela import promela
from .world import DeclaredWorld

__all__ = ["Limits", "SpinResult", "SpinVerdict", "missing_tools", "read_report", "run_spin"]


class SpinVerdict(Enum):
    """What a run of Spin shows."""

    PROVED = "PROVED"  #: everything was searched, no assertion failed
    REFUTED = "REFUTED"  #: an assertion failed
    UNDETERMINED = "UNDETERMINED"  #: the search was not whole


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a search may go, and how the checker is compiled."""

    depth: int = 200_000  #: steps
    memory: int = 2_000  #: MB
    seconds: float = 120.0  #: for the search
    optimise: bool = False  #: worth it from about a million states on
    collapse: bool = False  #: less memory for each state, more time


@dataclass(frozen=True, slots=True)
class SpinResult:
    """``states`` and ``edges`` are counted as the explorer does: Spin counts the start as a transition, we do not.
    ``exact``: Spin rounds what has more than eight digits."""

    verdict: SpinVerdict
    states: int = 0
    edges: int = 0
    exact: bool = True
    pairs: frozenset[tuple[int, int]] = frozenset()  #: control states, by number in their tables
    broken: str = ""  #: name of the invariant that does not hold, and the sentence
    why: str = ""  #: what made the search undetermined
    build_s: float = 0.0
    search_s: float = 0.0
    memory_mb: float = 0.0


#: Lines of a report after which its numbers are not those of a whole search.
_CUT = (
    "max search depth too small", "Search not completed", "out of memory", "reached -DMEMLIM bound", "hashtable resize",
    "bit-state", "Bitstate", "hash-compact", "interrupted", "error: ", "VECTORSZ", "aborting",
)  # fmt: skip


def missing_tools() -> tuple[str, ...]:
    """What is not installed of what a run needs."""
    return tuple(tool for tool in ("spin", "gcc") if shutil.which(tool) is None)


def run_spin(world: DeclaredWorld, limits: Limits = Limits()) -> SpinResult:
    """Check a world with Spin. Raises ``FileNotFoundError`` naming what is not installed, ``RuntimeError`` with the output
    where Spin or the compiler refuses the model."""
    if missing := missing_tools():
        raise FileNotFoundError(f"not installed: {', '.join(missing)}")
    with TemporaryDirectory(prefix="kvpoll-spin-") as folder:
        root = Path(folder)
        (root / "model.pml").write_text(promela(world), encoding="utf-8")
        began = perf_counter()
        # -o2: counters that are never read stay in the state; -o3: one transition for each statement.
        _made(("spin", "-o2", "-o3", "-a", "model.pml"), root)
        flags = [
            "-O2" if limits.optimise else "-O0",
            "-DNOREDUCE",
            "-DSAFETY",
            "-DPRINTF",
            f"-DMEMLIM={limits.memory}",
            "-w",
        ]
        _made(("gcc", *flags, *(("-DCOLLAPSE",) if limits.collapse else ()), "-o", "pan", "pan.c"), root)
        built = perf_counter()
        try:
            ran = subprocess.run(
                (str(root / "pan"), f"-m{limits.depth}"), cwd=root, capture_output=True, text=True, timeout=limits.seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return SpinResult(
                SpinVerdict.UNDETERMINED, why=f"not finished after {limits.seconds:g} s", build_s=built - began
            )
        return read_report(ran.stdout + ran.stderr, ran.returncode, built - began, perf_counter() - built)


def read_report(text: str, status: int, build_s: float = 0.0, search_s: float = 0.0) -> SpinResult:
    """What the checker's output says; ``status`` is its exit status."""
    broken = re.search(r"^BROKEN (.*)$", text, re.MULTILINE)
    numbers = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in _NUMBERS.items()}
    values = {name: 0.0 if found is None else float(found[1]) for name, found in numbers.items()}
    pairs = frozenset((int(a), int(b)) for a, b in re.findall(r"^PAIR (\d+) (\d+)$", text, re.MULTILINE))
    absent = [name for name, found in numbers.items() if found is None]
    cut = [phrase for phrase in _CUT if phrase in text]
    if values["errors"] > 0 and "assertion violated" in text:
        verdict, why = SpinVerdict.REFUTED, ""
    elif absent or cut or status != 0 or values["errors"] > 0 or "Full statespace search for:" not in text or broken:
        verdict = SpinVerdict.UNDETERMINED
        why = "; ".join(
            [*(f"no {name}" for name in absent), *cut, *([f"exit status {status}"] if status else [])]
        ) or "the report is not one of a whole search"  # fmt: skip
    else:
        verdict, why = SpinVerdict.PROVED, ""
    return SpinResult(
        verdict, int(values["states"]), int(values["transitions"]) - 1, values["transitions"] < 1e8, pairs,
        "" if broken is None else broken[1], why, build_s, search_s, values["memory"],
    )  # fmt: skip


_NUMBER = r"([0-9.]+(?:e[+-]?\d+)?)"
_NUMBERS = {
    "errors": r"State-vector \d+ byte, depth reached \d+, errors: (\d+)",
    "states": rf"^ *{_NUMBER} states, stored",
    "transitions": rf"^ *{_NUMBER} transitions",
    "memory": rf"^ *{_NUMBER}\s+total actual memory usage",
}


def _made(command: Sequence[str], root: Path) -> None:
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]} refused the model: {(ran.stdout + ran.stderr)[-2000:]}")
