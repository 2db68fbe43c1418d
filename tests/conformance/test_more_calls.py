"""Gates, stops, new attempts and lies: the same through every plug, and nothing that an older adapter has to know of."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvpoll.model_tests.conformance.book import FORGED
from kvpoll.model_tests.conformance.case import case
from kvpoll.model_tests.conformance.cases import all_cases, find
from kvpoll.model_tests.conformance.cases.paths import read_paths
from kvpoll.model_tests.conformance.driver import Outcome, run_case
from kvpoll.model_tests.conformance.explore import fired_by
from kvpoll.model_tests.conformance.plug import (
    CAPABILITIES,
    DECODE,
    FAULTS,
    PREFILL,
    Adapter,
    Gated,
    Refused,
    Stoppable,
    Unsupported,
)
from kvpoll.model_tests.conformance.process import ProcessAdapter
from kvpoll.model_tests.conformance.reference import Reference, Setting
from kvpoll.model_tests.conformance.reference.hostile import LIES
from kvpoll.model_tests.conformance.result import Verdict
from kvpoll.model_tests.conformance.rows import UNREACHED, reachable_rows, second_walls, standings
from kvpoll.model_tests.conformance.run import run_suite, sample
from kvpoll.model_tests.conformance.step import needs_of, steps
from kvpoll.model_tests.conformance.wrong_more import WRONG_MORE

ROOT = Path(__file__).parents[2]
_FAMILIES = ("gates/", "stop/", "commit/", "meet/", "quiet/", "forged/", "attempts/", "more/", "handoff/nothing/")
_NEW = [each for each in all_cases() if each.id.startswith(_FAMILIES)]


def _host() -> ProcessAdapter:
    return ProcessAdapter(
        [sys.executable, "-m", "kvpoll.model_tests.conformance.host", "kvpoll.model_tests.conformance.reference:make"]
    )


def _nothing(_: object) -> None:
    """Of an answer only that there is none counts."""


def _seen(adapter: Adapter, script: str) -> Outcome:
    about = adapter.about()
    return run_case(adapter, about, case("more/calls/001", "", script), 1000, about.profiles)


class _Older:
    """An adapter that was written before gates and stops: it has the calls of ``Adapter``, and no others."""

    def __init__(self) -> None:
        self._pair = Reference()

    def __getattr__(self, name: str) -> object:
        if name in ("gate", "stop", "ranks"):
            raise AttributeError(name)
        return getattr(self._pair, name)


# -- all plugs ---------------------------------------------------------------------------------------------------------
def test_a_process_of_its_own_is_judged_as_one_in_this_process() -> None:
    some = sample(_NEW, 1)[::2]
    assert {family for family in _FAMILIES if any(each.id.startswith(family) for each in some)} == set(_FAMILIES)
    inside, outside = run_suite(Reference, some, traces=False), run_suite(_host, some, traces=False)
    assert {each.verdict for each in inside.cases} == {Verdict.PASS}
    assert [each.verdict for each in outside.cases] == [each.verdict for each in inside.cases]


@pytest.mark.parametrize(
    "setting", [Setting(push=False), Setting(direct=False), Setting(credits=1), Setting(looks_late=True)]
)
def test_other_settings_pass_what_is_new(setting: Setting) -> None:
    result = run_suite(lambda: Reference(setting), _NEW[::7], traces=False)
    assert {each.id: each.reason for each in result.cases if each.verdict is not Verdict.PASS} == {}


def test_an_adapter_without_the_new_calls_is_unsupported_and_not_wrong() -> None:
    older = _Older()
    assert not isinstance(older, Gated)
    assert not isinstance(older, Stoppable)
    for script in ("create decode A 2; init decode A; gate A g close", "create decode A 2; stop decode drain"):
        assert _seen(older, script).verdict is Verdict.UNSUPPORTED  # type: ignore[arg-type]


def test_a_plug_by_lines_that_does_not_know_a_call_says_so() -> None:
    plug = ProcessAdapter([sys.executable, str(ROOT / "examples" / "conformance" / "process_plug.py")])
    try:
        calls: tuple[Callable[[], None], ...] = (
            lambda: plug.gate(1, "g", "close"), lambda: plug.stop(PREFILL, "drain"), lambda: plug.fault(PREFILL, 1, "peer_full"),
            lambda: _nothing(plug.left(DECODE)),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(Unsupported):
                call()
    finally:
        plug.close()


def test_what_is_left_is_asked_through_a_process_and_must_be_nothing() -> None:
    plug = _host()
    try:
        plug.begin("left", True)
        assert plug.left(DECODE) == 0
        plug.create(DECODE, 1, 2)
        assert plug.left(DECODE) > 0
    finally:
        plug.close()
    kept = _seen(
        WRONG_MORE["rooms that failed are kept for ever"](), "create decode A 2; init decode A; abort decode A"
    )
    assert (kept.verdict, kept.broken) == (Verdict.FAIL, ("KVX-MEM-8",))


def test_the_host_says_that_an_older_adapter_cannot(tmp_path: Path) -> None:
    plug = tmp_path / "older.py"
    plug.write_text(
        "from kvpoll.model_tests.conformance.reference import Reference\n"
        "class Older(Reference):\n    gate = None\n    stop = None\n    __getattribute__ = lambda self, name: (\n"
        "        object.__getattribute__(self, name if name not in ('gate', 'stop') else 'nothing'))\n"
    )
    adapter = ProcessAdapter([sys.executable, "-m", "kvpoll.model_tests.conformance.host", f"{plug}:Older"])
    try:
        for call in (lambda: adapter.gate(1, "g", "close"), lambda: adapter.stop(DECODE, "shutdown")):
            with pytest.raises(Unsupported):
                call()
    finally:
        adapter.close()


# -- what is needed ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("script", "needs"),
    [
        ("create decode A 2; gate A g close", {"gates"}),
        ("create decode A 2; stop decode drain", {"drain"}),
        ("stop prefill shutdown", {"shutdown"}),
        ("create decode A 2; over gate", {"limit:gate"}),
        ("create prefill A 0", {"empty"}),
        ("create prefill A 2; create decode A 2; clear decode A; create decode A 2", {"clear", "reuse", "retry"}),
        (
            "create prefill A 2; create decode A 2; clear decode A; clear prefill A; create decode A 2",
            {"clear", "reuse"},
        ),
        ("create prefill A 2; fault decode A forged_abort", {"forged_abort"}),
    ],
)
def test_a_script_needs_what_it_does(script: str, needs: set[str]) -> None:
    assert set(needs_of(steps(script))) == needs
    assert needs <= CAPABILITIES.keys() | FAULTS.keys() | {"limit:gate"}


def test_a_gate_is_closed_opened_or_failed_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="expected close, open or fail"):
        _seen(Reference(), "create decode A 2; init decode A; gate A g lift")


# -- lies --------------------------------------------------------------------------------------------------------------
def test_every_lie_is_a_fault_that_a_requirement_speaks_of() -> None:
    assert LIES.keys() == FORGED.keys() == {name for name in FAULTS if name.startswith("forged")}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_nobody_can_hear_is_refused(lie: str) -> None:
    pair = Reference()
    for side in (PREFILL, DECODE):
        with pytest.raises(Refused):
            pair.fault(side, 7, lie)


@pytest.mark.parametrize("lie", LIES)
def test_the_core_hears_every_lie_as_a_message(lie: str) -> None:
    side = LIES[lie][0][0]
    calm = "create prefill A 2; create decode A 2; init decode A; settle; meta A 2; settle; init prefill A"
    assert fired_by([*calm.split("; "), f"fault {side} A {lie}", "settle"]).rows - fired_by(calm.split("; ")).rows


def test_a_side_that_is_full_has_place_again() -> None:
    pair = Reference()
    pair.fault(PREFILL, 7, "peer_full")
    with pytest.raises(Refused):
        pair.create(PREFILL, 7, 2)
    pair.create(DECODE, 7, 2)
    pair.advance(0.05)
    assert pair.poll(DECODE, 7) == 0
    pair.heal()
    pair.create(PREFILL, 8, 2)


# -- rows --------------------------------------------------------------------------------------------------------------
def test_rows_that_no_session_reaches_are_few_and_explained() -> None:
    assert sorted(UNREACHED) == [
        "receiver Failed PLAN_REFUSED/1", "receiver Success PLAN_REFUSED/1", "sender Transferring SILENCE/2"
    ]  # fmt: skip
    assert UNREACHED.keys() <= reachable_rows().keys()
    assert all(len(why.split()) > 4 for why in UNREACHED.values())


def test_a_row_that_does_not_fire_is_missing_unless_it_is_a_wall() -> None:
    walls = second_walls()
    everything = {name for name in reachable_rows() if name not in walls}
    assert [each.missing for each in standings(everything)] == [(), (), ()]
    gone = "receiver Transferring GATE_FAILED/1"
    assert [each.missing for each in standings(everything - {gone})] == [(), (gone,), ()]


@pytest.mark.parametrize(
    ("id", "row"),
    [
        ("gates/open-prefill-first/009", "receiver Transferring GATE_OPEN/1"),
        ("gates/fail-destinations-first/005", "receiver Bootstrapping GATE_FAILED/1"),
        ("commit/commit-fails-one/005", "receiver Transferring COMMIT_FAILED/1"),
        ("commit/aux-wrong-one/005", "receiver Transferring AUX_MISMATCH/1"),
        ("meet/mismatched-one/001", "receiver Bootstrapping REFUSED/1"),
        ("meet/taken/004", "receiver Bootstrapping BUSY/1"),
        ("stop/shutdown-decode-prefill-first/005", "receiver WaitingForInput SHUTDOWN/1"),
        ("attempts/prefill-first-1/042", "sender WaitingForInput SUPERSEDED/1"),
        ("forged/conclude-decode-slow/010", "sender WaitingForInput CONCLUDED/1"),
    ],
)
def test_a_case_fires_the_row_that_it_was_thought_of_for(id: str, row: str) -> None:
    assert row in fired_by(find(id).lines()).rows


def test_every_later_path_fires_what_it_is_there_for() -> None:
    paths = read_paths("more")
    assert len(paths) >= 50
    for path in paths[::8]:
        fired = fired_by(path.script.split("; "))
        assert set(path.rows) <= fired.rows, path.id
        assert set(path.pairs) <= fired.pairs, path.id
