"""Where the paths come from: a search of everything that public calls, faults and time can do to the reference.

Breadth first, from every beginning of every hand-off: a script that leads to a state which was seen already is not followed
further, so the first script to a row, or to a pair of neighbouring rows, is a short one. Of the scripts that fired something
new, few are kept that together fire all of it. Each of them says how the tables end its room, where that is the same for push
and pull, with and without a receive buffer, and for networks that are three and seven times as slow: there it depends on
nothing that an implementation may choose.

A row is named by its table, state and event; neighbours are rows that one end follows one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kvpoll.protocol.interpreter import Edge
from kvpoll.protocol.records import SessionKey
from kvpoll.spec import LINK, RECEIVER, SENDER
from kvpoll.spec.table import Row, Verdict

from .case import case
from .cases.paths import Path
from .cases.scripts import ORDERS
from .driver import Driver, run_case
from .plug import SIDES, About
from .reference import Reference, Setting
from .reference.world import TIMING
from .step import steps
from .watch import Watch

__all__ = ["Fired", "covered", "fired_by", "found_paths", "reachable_rows", "search"]

#: What can be done next, and how much of it disturbs.
_CALM = (
    "create prefill A 2", "create decode A 2", "init prefill A", "init decode A;meta A 2", "send A 1", "send A 1 last",
    "send A 0 last", "tick 1", "tick 2", "settle",
)  # fmt: skip
_LINES: dict[str, str | tuple[str, ...]] = {
    "create prefill": "create prefill A 2", "create decode": "create decode A 2", "init prefill": "init prefill A",
    "init decode": "init decode A;meta A 2", "meta": (), "send": ("send A 1", "send A 1 last"),
}  # fmt: skip
_WAITS = ("wait pairing", "wait silence 60", "wait total")
_DISTURB = (
    "abort prefill A", "abort decode A", "clear prefill A", "clear decode A", "fault prefill A mover_error",
    "fault prefill A mover_unresolved", "fault prefill A mover_stalls", "fault prefill A truncate",
    *(f"fault {side} A {name}" for side in SIDES for name in ("message_lost", "message_copied", "message_late")),
    *(f"fault {side} A {name}" for side in SIDES for name in ("peer_silent", "peer_killed")),
)  # fmt: skip
_TABLES = (SENDER, RECEIVER, LINK)
_SETTINGS = (
    Setting(), Setting(push=False), Setting(direct=False), Setting(latency=3),
    Setting(latency=7, timing=replace(TIMING, resend=1_500)),
)  # fmt: skip


def _names() -> Iterator[tuple[int, str]]:
    """Every row by its table, state and event, and its number among those: a new row elsewhere changes no name."""
    for table in _TABLES:
        count: Counter[tuple[str, str]] = Counter()
        for row in table.rows:
            place = row.state.name, row.event.name
            count[place] += 1
            yield id(row), f"{table.name} {place[0]} {place[1]}/{count[place]}"


_ROWS: dict[int, str] = dict(_names())


class Fired(NamedTuple):
    """What a script fires."""

    rows: frozenset[str]
    pairs: frozenset[str]


class _Ear:
    """Hears of every row that an end follows."""

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self.pairs: set[str] = set()
        self._last: dict[SessionKey, str] = {}

    def __call__(self, key: SessionKey, edge: Edge) -> None:
        name = _ROWS[id(edge.row)]
        self.rows.add(name)
        before = self._last.get(key)
        if before is not None:
            self.pairs.add(f"{before} > {name.partition(' ')[2]}")
        self._last[key] = name

    @property
    def fired(self) -> Fired:
        return Fired(frozenset(self.rows), frozenset(self.pairs))


class _Heard(Reference):
    """A reference that is listened to."""

    def __init__(self, setting: Setting, ear: _Ear) -> None:
        self.ear = ear
        super().__init__(setting)

    def _start(self) -> None:
        super()._start()
        self.world.rows = self.ear


def reachable_rows() -> dict[str, Row]:
    """Rows that could fire at all: not those that refuse, or that are called impossible."""
    silent = (Verdict.NEVER, Verdict.REFUSE)
    return {_ROWS[id(row)]: row for table in _TABLES for row in table.rows if row.verdict not in silent}


def fired_by(script: str | Sequence[str]) -> Fired:
    """What a whole case with this script fires, its ending included, with a push and with a pull transport."""
    rows: set[str] = set()
    pairs: set[str] = set()
    for setting in _SETTINGS[:2]:
        ear = _Ear()
        reference = _Heard(setting, ear)
        run_case(reference, reference.about(), case("explore/one/001", "", script), 1000, reference.about().profiles)
        rows |= ear.rows
        pairs |= ear.pairs
    return Fired(frozenset(rows), frozenset(pairs))


def search(most: int, progress: bool = False) -> list[tuple[str, Fired]]:
    """Scripts, shortest first, each of which fires something that no earlier one fires. ``most``: scripts that are tried."""
    seen: set[Hashable] = set()
    rows: set[str] = set()
    pairs: set[str] = set()
    found: list[tuple[str, Fired]] = []
    level = [(seed, 0) for seed in _seeds()]
    tried = 0
    while level and tried < most:
        following: list[tuple[tuple[str, ...], int]] = []
        for before, disturbed in level:
            for line, cost in _next(before, disturbed):
                script = (*before, line)
                tried += 1
                if tried > most:
                    return found
                fired, key = _try(script)
                if fired.rows - rows or fired.pairs - pairs:
                    found.append((";".join(script), fired))
                    rows |= fired.rows
                    pairs |= fired.pairs
                if key not in seen:
                    seen.add(key)
                    following.append((script, disturbed + cost))
        if progress:
            print(f"{tried} scripts, {len(seen)} states, {len(rows)} rows, {len(pairs)} pairs, {len(found)} kept")
        level = following
    return found


def _seeds() -> list[tuple[str, ...]]:
    """Every beginning of every hand-off, with and without time between the steps, shortest first."""
    found: dict[tuple[str, ...], None] = {(): None}
    for order in ORDERS.values():
        calls = [_LINES.get(what, what) for what in order if what != "settle"]
        lines = [line for call in calls for line in (call if isinstance(call, tuple) else (call,))]
        for pace in ("", "tick 1", "tick 2", "settle"):
            script: tuple[str, ...] = ()
            for line in lines:
                script = (*script, line, pace) if pace else (*script, line)
                found[script] = None
            found[(*script, "settle", "settle")] = None
    return sorted(found, key=len)


def _next(before: tuple[str, ...], disturbed: int) -> Iterator[tuple[str, int]]:
    before = tuple(";".join(before).split(";"))
    last = before[-1] if before else ""
    calls = [line for line in before if not line.startswith(("tick", "settle", "wait"))]
    for line in _CALM:
        if (
            line.split(";")[0] in calls
            or (line.startswith("tick") and last.startswith(("tick", "settle", "wait")))
            or line == last
        ):
            continue
        if line == "settle" and last.startswith("wait"):
            continue
        if _possible(line, calls):
            yield line, 0
    if not calls:
        return
    if not last.startswith("wait") and sum(line.startswith("wait") for line in before) < 2:
        for line in _WAITS:
            yield line, 0
    if disturbed < 2:
        for line in _DISTURB:
            side = line.split()[1]
            if line not in calls and f"create {side} A 2" in calls:
                yield line, 1
    if any(line.startswith("fault") for line in calls) and last != "heal" and "heal" not in calls:
        yield "heal", 0


def _possible(line: str, calls: Sequence[str]) -> bool:
    if line.startswith("create"):
        return True
    if line.startswith("send"):
        sends = [each for each in calls if each.startswith("send")]
        return "init prefill A" in calls and not any("last" in each for each in sends)
    side = "decode" if "decode" in line else "prefill"
    return not line.startswith("init") or f"create {side} A 2" in calls


def _try(script: tuple[str, ...]) -> tuple[Fired, Hashable]:
    (fired, key), (pulled, other) = _try_in(script, _SETTINGS[0]), _try_in(script, _SETTINGS[1])
    return Fired(fired.rows | pulled.rows, fired.pairs | pulled.pairs), (key, other)


def _try_in(script: tuple[str, ...], setting: Setting) -> tuple[Fired, Hashable]:
    ear = _Ear()
    reference = _Heard(setting, ear)
    about = reference.about()
    bare = About(
        name="", version="", capabilities=about.capabilities - {"memory", "released", "why", "cause"}, faults=about.faults,
        limits=about.limits, pages=about.pages, page_bytes=about.page_bytes, clock="simulated",
    )  # fmt: skip
    driver = Driver(Watch(reference, bare, "explore", 1000, frozenset({"common"})))
    for step in steps(";".join(script)):
        driver.do(step)
    calls = frozenset(line for line in script if not line.startswith(("tick", "settle", "wait")))
    return ear.fired, (calls, reference.outline())


def covered(scripts: Iterable[Sequence[str]]) -> Fired:
    """What these scripts fire together."""
    rows: set[str] = set()
    pairs: set[str] = set()
    for script in scripts:
        fired = fired_by(script)
        rows |= fired.rows
        pairs |= fired.pairs
    return Fired(frozenset(rows), frozenset(pairs))


def found_paths(most: int, keep: int, progress: bool = False) -> list[Path]:
    """The paths, at most ``keep`` of them: the fewest that fire what the search found, greedily, shortest first."""
    scripts = [script for script, _ in search(most, progress)]
    told = ["; ".join([*script.split(";"), *ends]) for script in scripts if (ends := _ends(script))]
    left = [(script, fired_by(script)) for script in (*told, *("; ".join(script.split(";")) for script in scripts))]
    rows: set[str] = set()
    pairs: set[str] = set()
    chosen: list[tuple[str, list[str], list[str]]] = []
    while left and len(chosen) < keep:
        gain, at = max((len(f.rows - rows) * 4 + len(f.pairs - pairs), -at) for at, (_, f) in enumerate(left))
        if gain == 0:
            break
        script, fired = left.pop(-at)
        chosen.append((script, sorted(fired.rows - rows), sorted(fired.pairs - pairs)))
        rows |= fired.rows
        pairs |= fired.pairs
    chosen.sort(key=lambda path: (path[0].count(";"), path[0]))
    return [
        Path(f"paths/{script.count(';') + 1:02}-steps/{at:03}", script, tuple(new), tuple(both))
        for at, (script, new, both) in enumerate(chosen, 1)
    ]


def _ends(script: str) -> list[str]:
    """How the tables end the room, where every setting agrees."""
    told: set[tuple[str, ...]] = set()
    for setting in _SETTINGS:
        reference = Reference(setting)
        watch = Watch(reference, reference.about(), "explore", 1000, frozenset({"common"}))
        driver = Driver(watch)
        for step in steps(f"{script};wait ends"):
            driver.do(step)
        ends = []
        for room in watch.rooms:
            for end in room.ends.values():
                if end.alive and end.over:
                    ends.append(f"tables {end.side} {room.label} {end.state} {end.why.split(':')[0]}".strip())
        told.add(tuple(ends))
    same = set.intersection(*(set(each) for each in told))
    return ["wait ends", *sorted(same)] if same else []
