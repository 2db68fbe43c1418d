"""The catalogue of cases is whole: each is replayed by tests that say so, or is outside the protocol for a reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kvpoll.cli.docs import GENERATED
from kvpoll.spec.case_sources import SOURCES
from kvpoll.spec.cases import CASES, Case

HERE = Path(__file__).parent
#: What must always hold, and what must always come.
# fmt: off
INVARIANTS = {
    "NoFreeInFlight", "AckMeansQuiescent", "CountExact", "NoWriteAfterArrival", "SuccessOrder", "SameRequest",
    "UniformRelease", "UnresolvedIsNotFree", "LeaseCommit", "ExactlyOnceFree", "TerminalAbsorbing", "TotalHandlers",
    "Isolation", "AttemptUnique", "InstanceMatches", "RegistryIsFunction", "CompleteOrNotSuccess",
    "NoDoneWithoutData", "ReadAfterCompute", "AuxSelfIdentifying", "PositionsAbsolute", "HandshakeSound",
    "GroupDecisionImmutable", "CreditsConserved", "BoundedByPeers", "EveryRoomEnds", "TerminalPropagates",
    "LossSurvivable", "EventuallyReleased", "IdleEmpty", "HalfOpenEnds", "ShutdownEnds", "EvidenceBeforeDeadline",
}
# fmt: on


def marked() -> dict[str, set[str]]:
    """Case id -> the tests here that carry its mark, read from the source: whatever selection of tests runs."""
    found: dict[str, set[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "case":
                        for argument in mark.args:
                            assert isinstance(argument, ast.Constant), f"{path.name}: ids are written out"
                            found.setdefault(str(argument.value), set()).add(f"tests/cases/{path.name}::{node.name}")
    return found


MARKED = marked()


def test_every_case_is_listed_once() -> None:
    assert [c.id for c in CASES] == list(SOURCES)


@pytest.mark.parametrize("entry", CASES, ids=lambda c: c.id)
def test_a_case_is_replayed_by_the_tests_that_say_so_or_is_outside_for_a_reason(entry: Case) -> None:
    assert entry.title
    assert set(entry.by) == MARKED.get(entry.id, set()), "spec/cases.py and the marks in tests/cases differ"
    assert len(set(entry.by)) == len(entry.by)
    if entry.by:
        assert entry.property in INVARIANTS
        assert not entry.outside
    else:
        assert entry.outside
        assert not entry.property


def test_no_test_replays_a_case_that_is_not_listed() -> None:
    assert set(MARKED) <= {c.id for c in CASES}


def test_the_page_names_every_case_and_what_became_of_it() -> None:
    page = GENERATED["docs/cases.md"]()
    for entry in CASES:
        line = next(line for line in page.splitlines() if line.startswith(f"| [{entry.id}]("))
        assert SOURCES[entry.id].replace("#", "/issues/") in line
        assert entry.title in line
        assert (entry.property if entry.by else entry.outside) in line
        assert all(test.partition("::test_")[2].replace("_", " ") in line for test in entry.by)
