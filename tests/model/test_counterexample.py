"""Counterexamples leave the process: as text, diagram, data and test, and each does again what the search did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kvpoll.model_tests.breaking import broken
from kvpoll.model_tests.check import check_world
from kvpoll.model_tests.counterexample import Counterexample, Stale, Step, replay, steps_of, tell, to_json, to_text
from kvpoll.model_tests.diagrams import to_mermaid, to_pytest
from kvpoll.model_tests.explorer import Result, explore
from kvpoll.model_tests.tables import instead
from kvpoll.model_tests.telling import Arrow, data_of, teller_of
from kvpoll.model_tests.worlds import WORLDS
from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.spec import SENDER

#: A hang; and a claim that one step breaks.
HANG = ("sender Transferring PEER_FAILED ignore", "push-no-clock-abort")
WRONG = ("lease HELD START ignore", "push-no-clock-abort")
ENDS = {HANG: "TerminalPropagates", WRONG: "NoFreeInFlight"}


@pytest.fixture(scope="module")
def found() -> Callable[[tuple[str, str]], Counterexample]:
    known: dict[tuple[str, str], Counterexample] = {}

    def find(case: tuple[str, str]) -> Counterexample:
        if case not in known:
            report = check_world(WORLDS[case[1]], mutant=case[0])
            assert report.counterexample is not None
            known[case] = report.counterexample
        return known[case]

    return find


Found = Callable[[tuple[str, str]], Counterexample]


def test_a_hang_says_where_it_is_sure_and_what_stays(found: Found) -> None:
    text = to_text(found(HANG))
    lines = text.splitlines()
    assert lines[0].startswith(
        "TerminalPropagates does not hold in push-no-clock-abort with 'sender Transferring PEER_FAILED"
    )
    assert lines[1].startswith("   1 decode -> prefill: Metadata ")
    assert lines[1].endswith("[prefill: WaitingForInput]")
    assert "     -- from here no end is sure; one way to where all stays as it is:" in lines
    assert "sender 1 at instance 10 stays Transferring, receiver 1 at instance 11 is Failed" in lines[-1]


@pytest.mark.parametrize("case", ENDS, ids=ENDS.values())
def test_the_data_does_again_what_the_search_did(case: tuple[str, str], found: Found) -> None:
    world, steps = steps_of(to_json(found(case)))
    with instead(broken(case[0])):
        again = replay(WORLDS[world].make(), steps)
    assert again is not None
    assert again.invariant == found(case).invariant


@pytest.mark.parametrize("case", ENDS, ids=ENDS.values())
def test_with_the_table_repaired_the_steps_break_nothing(case: tuple[str, str], found: Found) -> None:
    world, steps = steps_of(to_json(found(case)))
    with suppress(Stale):  # or a step cannot happen at all
        assert replay(WORLDS[world].make(), steps) is None


def test_a_step_that_cannot_happen_is_named_with_what_can(found: Found) -> None:
    with pytest.raises(
        Stale, match=r'step 1 cannot happen: \["deliver", "nothing"\]; what can:\n  \["deliver", \{"Metadata"'
    ):
        replay(WORLDS[HANG[1]].make(), [["deliver", "nothing"]])


def test_the_generated_test_passes_as_long_as_the_counterexample_stands(found: Found, tmp_path: Path) -> None:
    file, text = tmp_path / "test_found.py", to_pytest(found(HANG))
    file.write_text(text, encoding="utf-8")
    assert run(file) == 0
    file.write_text(text.replace(f"broken({HANG[0]!r})", f"broken({SAME!r})"), encoding="utf-8")
    assert run(file) == 1


#: A row of the same table that is no loss here.
SAME = "sender Failed PASSED ignore"
OWN = '''
from kvpoll.model_tests.explorer import Violation


class Counter:
    """Counts to three, which is forbidden."""

    at = 0

    def actions(self): return ["up", "down"]
    def do(self, action):
        self.at += 1 if action == "up" else -1
        if self.at == 3: raise Violation("BelowThree", "three")
    def fair(self, action): return True
    def snapshot(self): return self.at
    def restore(self, snapshot): self.at = snapshot
    def ended(self): return True
    def outcome(self): return "so far"
'''


def test_a_world_of_your_own_is_imported_by_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from shop import Counter  # type: ignore[import-not-found]

    world = Counter()
    counterexample = tell("shop", world, explore(world))
    assert [step.data for step in counterexample.steps] == ["up", "up", "up"]
    file = tmp_path / "test_shop.py"
    file.write_text(to_pytest(counterexample, "from shop import Counter", "Counter()"), encoding="utf-8")
    assert run(file) == 0
    (tmp_path / "shop.py").write_text(OWN.replace("self.at == 3", "self.at == 4"), encoding="utf-8")
    assert run(file) == 1


def run(file: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(command, capture_output=True, cwd=file.parent, check=False).returncode


def test_the_diagram_names_who_takes_part_and_draws_messages_losses_and_notes(found: Found) -> None:
    lines = to_mermaid(found(HANG)).splitlines()
    assert lines[:3] == ["sequenceDiagram", "    participant a0 as prefill", "    participant a1 as decode"]
    assert any(line.startswith("    a1->>a0: Metadata ") for line in lines)
    assert "    Note over a1: abort: receiver 1" in lines
    assert "    Note over a0,a1: from here no way out is sure" in lines
    assert lines[-1].startswith("    Note over a0,a1: TerminalPropagates: ")
    assert not any(";" in line or "#" in line for line in lines)


def test_a_lost_message_is_an_arrow_that_ends_in_a_cross() -> None:
    steps = (Step("lose", Arrow("a; b", "c", "Meta #1;", lost=True)),)
    lines = to_mermaid(Counterexample("shop", "Paid", "no; never", ("a; b", "c"), steps)).splitlines()
    assert lines[1:] == [
        "    participant a0 as a, b", "    participant a1 as c", "    a0-xa1: Meta no. 1,",
        "    Note over a0,a1: Paid: no, never",
    ]  # fmt: skip


def test_in_a_world_a_loss_is_told_as_one() -> None:
    world = WORLDS["push-loss"].make()
    teller = teller_of(world)
    for name in ("create", "create", "lose"):
        action = next(each for each in reversed(world.actions()) if isinstance(each, tuple) and each[0] == name)
        picture = teller.picture(action)
        world.do(action)
    assert picture == Arrow("decode", "prefill", "lose: Announce room=7 gen=1 low_water=1", lost=True)
    assert teller.standing() == {"prefill": "Bootstrapping", "decode": "Bootstrapping"}


def test_the_json_is_versioned_and_another_version_is_refused(found: Found) -> None:
    body = json.loads(to_json(found(HANG)))
    assert (body["version"], body["world"], body["mutant"], body["invariant"]) == (1, HANG[1], HANG[0], ENDS[HANG])
    assert [step["text"] for step in body["steps"]][1] == "prefill: send: sender 1, part 0"
    with pytest.raises(ValueError, match="version: expected 1, got 2"):
        steps_of(json.dumps(body | {"version": 2}))
    with pytest.raises(ValueError, match="world: expected a name, got 7"):
        steps_of(json.dumps(body | {"world": 7}))
    with pytest.raises(ValueError, match="steps: expected a list"):
        steps_of(json.dumps(body | {"steps": [1]}))
    with pytest.raises(ValueError, match="version: expected 1"):
        steps_of("[]")


def test_a_result_without_a_violation_has_no_counterexample() -> None:
    with pytest.raises(ValueError, match="no violation"):
        tell("push-no-clock", WORLDS["push-no-clock"].make(), Result())


def test_what_is_told_as_data_can_be_told_apart_and_says_the_same_everywhere() -> None:
    assert data_of(("clock", SessionKey("sender", 1), Deadline.TOTAL, None, b"\x01")) == [
        "clock", {"SessionKey": {"role": "sender", "no": 1}}, "Deadline.TOTAL", None, "01",
    ]  # fmt: skip
    assert data_of(frozenset({2, 1})) == [1, 2]
    assert data_of({"a": (1,)}) == {"a": [1]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "table: expected one of sender"),
        ("sender Nowhere ABORT ignore", "state: expected one of"),
        ("sender Failed NOTHING ignore", "event: expected one of"),
        ("sender Failed ABORT", "does not say what happens"),
        ("sender Failed ABORT vanish", "change: expected one of ignore, forget"),
        ("sender Failed ABORT to=Nowhere", "to: expected one of"),
        ("sender Failed ABORT without=NOTHING", "without: expected one of"),
        ("sender Failed ABORT ignore more", "'more': expected one of"),
        ("sender Bootstrapping META all=perhaps ignore", "all: expected one of"),
    ],
)
def test_a_word_that_names_no_row_is_refused_with_what_was_expected(words: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        broken(words)


def test_words_change_one_row_and_no_other() -> None:
    table = broken("sender Transferring PEER_FAILED to=Success")
    changed = [(new, old) for new, old in zip(table.rows, SENDER.rows, strict=True) if new != old]
    assert [(new.state.name, new.event.name, new.next.name) for new, _ in changed] == [
        ("Transferring", "PEER_FAILED", "Success")
    ]
