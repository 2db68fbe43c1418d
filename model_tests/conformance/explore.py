"""Where the paths come from: a search of everything that public calls, faults and time can do to the reference.

Breadth first, from every beginning of every hand-off: a script that leads to a state which was seen already is not followed
further, so the first script to a row, or to a pair of neighbouring rows, is a short one. Of the scripts that fired something
new, few are kept that together fire all of it. Each of them says how the tables end its room, where that is the same for push
and pull, with and without a receive buffer, and for networks that are three and seven times as slow: there it depends on
nothing that an implementation may choose.

A row is named by its table, state and event; neighbours are rows that one end follows one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from kvpoll.protocol.interpreter import Edge
from kvpoll.protocol.records import SessionKey

from ..tables import RULES, nodes_of
from .case import Case, case
from .cases import all_cases
from .cases.paths import Path
from .cases.scripts import ORDERS
from .driver import Driver, run_case
from .plug import SIDES, About
from .reference import Reference, Setting
from .reference.world import TIMING
from .result import Verdict
from .rows import ROW_NAMES
from .step import steps
from .watch import Watch

__all__ = ["MORE", "PLAIN", "Fired", "Moves", "covered", "fired_by", "found_more", "found_paths", "search"]

_WAITS = ("wait pairing", "wait silence 60", "wait total")


class Moves(NamedTuple):
    """What a search tries."""

    calm: tuple[str, ...]
    disturb: tuple[str, ...]
    gated: bool = False  #: from hand-offs with a closed gate, too


#: What the paths are made of.
PLAIN = Moves(
    (
        "create prefill A 2", "create decode A 2", "init prefill A", "init decode A;meta A 2", "send A 1", "send A 1 last",
        "send A 0 last", "tick 1", "tick 2", "settle",
    ),
    (
        "abort prefill A", "abort decode A", "clear prefill A", "clear decode A", "fault prefill A mover_error",
        "fault prefill A mover_unresolved", "fault prefill A mover_stalls", "fault prefill A truncate",
        *(f"fault {side} A {name}" for side in SIDES for name in ("message_lost", "message_copied", "message_late")),
        *(f"fault {side} A {name}" for side in SIDES for name in ("peer_silent", "peer_killed")),
    ),
)  # fmt: skip
_LIES = (
    *(f"fault decode A forged_{name}" for name in ("conclude", "passed", "destinations", "abort")),
    *(f"fault prefill A forged_{name}" for name in ("done", "plan", "close", "unknown", "busy", "abort")),
)  # fmt: skip
#: What came later: gates, commits, stops, new attempts, and peers that do not keep the protocol.
MORE = Moves(
    (*PLAIN.calm, "init decode A;gate A g close;meta A 2"),
    (
        "gate A g open", "gate A g fail", "abort prefill A", "abort decode A",
        "clear decode A;create decode A 2;init decode A;meta A 2",
        "stop prefill shutdown", "stop decode shutdown", "stop prefill drain", "stop decode drain",
        "fault decode A commit_fails", "fault decode A commit_stalls", "fault decode A aux_wrong",
        "fault prefill A room_silent", "fault decode A room_silent", "fault prefill A mismatched", "fault prefill A room_taken",
        "fault prefill A message_lost", "fault decode A message_lost", "fault prefill A mover_stalls",
        "fault prefill A peer_killed", *_LIES,
    ),
    True,
)  # fmt: skip
_LINES: dict[str, str | tuple[str, ...]] = {
    "create prefill": "create prefill A 2", "create decode": "create decode A 2", "init prefill": "init prefill A",
    "init decode": "init decode A;meta A 2", "meta": (), "send": ("send A 1", "send A 1 last"),
}  # fmt: skip
_GATED = {**_LINES, "init decode": "init decode A;gate A g close;meta A 2"}
_SETTINGS = (
    Setting(), Setting(push=False), Setting(direct=False), Setting(latency=3),
    Setting(latency=7, timing=replace(TIMING, resend=1_500, gate=4_200)),
)  # fmt: skip
_RARE = Setting(credits=1, looks_late=True, timing=replace(TIMING, hello=3_000))
#: Where all cases are listened to: rows about credits, late looks and slow greetings fire nowhere else.
_LISTENED = (*_SETTINGS[:2], _RARE, _RARE._replace(push=False))


class Fired(NamedTuple):
    """What a script fires."""

    rows: frozenset[str]
    pairs: frozenset[str]


_NOTHING = Fired(frozenset(), frozenset())


class _Ear:
    """Hears of every row that an end follows."""

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self.pairs: set[str] = set()
        self._last: dict[SessionKey, str] = {}

    def __call__(self, key: SessionKey, edge: Edge) -> None:
        name = ROW_NAMES[id(edge.row)]
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


def fired_by(script: str | Sequence[str]) -> Fired:
    """What a whole case with this script fires, its ending included, with a push and with a pull transport."""
    rows: set[str] = set()
    pairs: set[str] = set()
    one = case("explore/one/001", "", script)
    for setting in _SETTINGS[:2]:
        heard = _listened(setting, one)
        rows |= heard.rows
        pairs |= heard.pairs
    return Fired(frozenset(rows), frozenset(pairs))


def _listened(setting: Setting, one: Case) -> Fired:
    """What a case fires, its ending included."""
    ear = _Ear()
    reference = _Heard(setting, ear)
    about = reference.about()
    run_case(reference, about, one, 1000, about.profiles)
    return ear.fired


def search(most: int, progress: bool = False, moves: Moves = PLAIN, known: Fired = _NOTHING) -> list[tuple[str, Fired]]:
    """Scripts, shortest first, each of which fires something that no earlier one fires, and that is not ``known``. ``most``:
    scripts that are tried."""
    seen: set[Hashable] = set()
    rows: set[str] = set(known.rows)
    pairs: set[str] = set(known.pairs)
    found: list[tuple[str, Fired]] = []
    level = [(seed, 0) for seed in _seeds(moves)]
    tried = 0
    while level and tried < most:
        following: list[tuple[tuple[str, ...], int]] = []
        for before, disturbed in level:
            for line, cost in _next(before, disturbed, moves):
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


def _seeds(moves: Moves) -> list[tuple[str, ...]]:
    """Every beginning of every hand-off, with and without time between the steps, shortest first."""
    found: dict[tuple[str, ...], None] = {(): None}
    for order, words in product(ORDERS.values(), (_LINES, _GATED) if moves.gated else (_LINES,)):
        calls = [words.get(what, what) for what in order if what != "settle"]
        lines = [line for call in calls for line in (call if isinstance(call, tuple) else (call,))]
        for pace in ("", "tick 1", "tick 2", "settle"):
            script: tuple[str, ...] = ()
            for line in lines:
                script = (*script, line, pace) if pace else (*script, line)
                found[script] = None
            found[(*script, "settle", "settle")] = None
    return sorted(found, key=len)


def _next(before: tuple[str, ...], disturbed: int, moves: Moves) -> Iterator[tuple[str, int]]:
    before = tuple(";".join(before).split(";"))
    last = before[-1] if before else ""
    calls = [line for line in before if not line.startswith(("tick", "settle", "wait"))]
    for line in moves.calm:
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
        for line in moves.disturb:
            if line not in calls and _sensible(line, calls):
                yield line, 1
    if any(line.startswith("fault") for line in calls) and last != "heal" and "heal" not in calls:
        yield "heal", 0


def _sensible(line: str, calls: Sequence[str]) -> bool:
    """Whom it happens to is there; what is for the time before that is before that."""
    verb, side, *rest = line.split(";")[0].split()
    if verb == "gate":
        return "gate A g close" in calls
    if rest[-1:] == ["room_taken"]:
        return "create prefill A 2" in calls and "create decode A 2" not in calls
    if rest[-1:] == ["mismatched"]:
        return "create decode A 2" not in calls
    if verb == "clear" and ";" in line and any(each.startswith("stop") for each in calls):
        return False  # it would be refused
    return f"create {side} A 2" in calls


def _possible(line: str, calls: Sequence[str]) -> bool:
    if line.startswith("create"):
        return f"stop {line.split()[1]} drain" not in calls and f"stop {line.split()[1]} shutdown" not in calls
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


def covered(scripts: Iterable[Sequence[str]], everywhere: bool = False) -> Fired:
    """What these scripts fire together. ``everywhere``: in further settings, too; and of links, rows that stay as well."""
    if not everywhere:
        each = [fired_by(script) for script in scripts]
        return Fired(frozenset().union(*(f.rows for f in each)), frozenset().union(*(f.pairs for f in each)))
    cases = [case("explore/one/001", "", script) for script in scripts]
    for node in nodes_of(RULES["link"]):
        node.edges.clear()
    rows: set[str] = set()
    pairs: set[str] = set()
    for setting in _LISTENED:
        for one in cases:
            heard = _listened(setting, one)
            rows |= heard.rows
            pairs |= heard.pairs
    rows |= {ROW_NAMES[id(edge.row)] for node in nodes_of(RULES["link"]) for edge in node.edges.values()}
    return Fired(frozenset(rows), frozenset(pairs))


def found_paths(most: int, keep: int, progress: bool = False) -> list[Path]:
    """The paths, at most ``keep`` of them: the fewest that fire what the search found, greedily, shortest first."""
    return _fewest("paths", [script for script, _ in search(most, progress)], keep, _NOTHING)


def found_more(most: int, keep: int, progress: bool = False) -> list[Path]:
    """Paths with what came later as disturbances. They fire what no other case fires, neither those that were thought of nor
    the first paths."""
    before = covered(
        [each.lines() for each in all_cases() if not each.id.startswith("more/") and not _OTHERS & set(each.needs)]
    )
    scripts = [script for script, _ in search(most, progress, MORE, before)]
    return _fewest("more", [script for script in scripts if _passes(script)], keep, before)


#: What a case needs that no search tries.
_OTHERS = frozenset({"mover_corrupts"})


def _passes(script: str) -> bool:
    """In every setting."""
    for setting in _SETTINGS:
        reference = Reference(setting)
        one = case("explore/one/001", "", script)
        outcome = run_case(reference, reference.about(), one, 1000, reference.about().profiles)
        if outcome.verdict is not Verdict.PASS:
            print(f"{outcome.verdict.value} with {setting}: {script}: {outcome.reason}")
            return False
    return True


def _fewest(family: str, scripts: Sequence[str], keep: int, known: Fired) -> list[Path]:
    told = ["; ".join([*script.split(";"), *ends]) for script in scripts if (ends := _ends(script))]
    left = [(script, fired_by(script)) for script in (*told, *("; ".join(script.split(";")) for script in scripts))]
    rows: set[str] = set(known.rows)
    pairs: set[str] = set(known.pairs)
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
        Path(f"{family}/{script.count(';') + 1:02}-steps/{at:03}", script, tuple(new), tuple(both))
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
