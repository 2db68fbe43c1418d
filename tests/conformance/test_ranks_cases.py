"""Sides of several ranks: the reference passes, whatever its ranks are, and engines that mix their ranks up are found out."""

from __future__ import annotations

import sys
from functools import cache
from itertools import product

import pytest

from kvpoll.model_tests.conformance.case import Case, case
from kvpoll.model_tests.conformance.cases import find, ranks
from kvpoll.model_tests.conformance.cases.scripts import handoff
from kvpoll.model_tests.conformance.driver import Outcome, run_case
from kvpoll.model_tests.conformance.explore import fired_by
from kvpoll.model_tests.conformance.honesty import dishonest
from kvpoll.model_tests.conformance.plug import DECODE, PREFILL, Adapter, Plain, Ranked, Unsupported
from kvpoll.model_tests.conformance.process import ProcessAdapter
from kvpoll.model_tests.conformance.reference import Reference, Setting
from kvpoll.model_tests.conformance.reference.topology import Address, topology_of
from kvpoll.model_tests.conformance.result import Verdict
from kvpoll.model_tests.conformance.run import run_suite, sample
from kvpoll.model_tests.conformance.step import needs_of, steps
from kvpoll.model_tests.conformance.wrong_ranks import WRONG_RANKS

_SETTINGS = {
    "push": Setting(), "pull": Setting(push=False), "push into a buffer": Setting(direct=False),
    "pull into a buffer": Setting(push=False, direct=False), "heads, push": Setting(heads=True),
    "heads, pull": Setting(push=False, heads=True),
}  # fmt: skip


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(ranks.cases())


def _run(adapter: Adapter, each: Case) -> Outcome:
    about = adapter.about()
    return run_case(adapter, about, each, 1000, about.profiles)


def _script(*lines: str) -> Case:
    return case("ranks/test/001", "a test", lines)


# -- right engines -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", _SETTINGS)
def test_the_reference_passes_with_every_way_to_divide_the_pages(name: str) -> None:
    reference = Reference(_SETTINGS[name])
    some = _cases() if name in ("push", "heads, pull") else _cases()[::3]
    found = {each.id: _run(reference, each) for each in some}
    assert {id: outcome.reason for id, outcome in found.items() if outcome.verdict is not Verdict.PASS} == {}


@pytest.mark.deep
@pytest.mark.parametrize("name", _SETTINGS)
def test_every_two_faults_of_ranks_and_messages_hold(name: str) -> None:
    reference = Reference(_SETTINGS[name])
    found = {each.id: _run(reference, each) for each in ranks.every_two()}
    assert {id: outcome.reason for id, outcome in found.items() if outcome.verdict is not Verdict.PASS} == {}


def test_nothing_of_a_room_is_left_at_any_rank() -> None:
    reference = Reference()
    for each in _cases()[::5]:
        _run(reference, each)
        reference.heal()
        reference.advance(30)
        left = {
            (at, name): much
            for at, place in reference.world.places.items()
            for name, much in place.core.gauges().items()
            if much
        }
        assert left == {}, each.id


def test_there_are_as_many_cases_as_differ() -> None:
    assert len({each.script for each in _cases()}) == len(_cases()) >= 200


def test_every_requirement_of_the_section_has_cases_of_its_own() -> None:
    about = {id for each in _cases() for id in each.about} | {"KVX-RANK-1", "KVX-RANK-5"}
    assert {f"KVX-RANK-{number}" for number in range(1, 8)} <= about


#: Rows that one rank on each side cannot fire.
_ROWS = (
    "sender Bootstrapping BIND/2", "sender Bootstrapping META/4", "sender Transferring CONCLUDED/3",
    "sender WaitingForInput SEND/2", "sender WaitingForInput SEND/4", "sender Transferring SEND/3",
    "sender WaitingForInput SKIPPED/1", "sender WaitingForInput SKIPPED/2", "sender Transferring SKIPPED/1",
    "sender Transferring SKIPPED/2", "receiver Bootstrapping LINKED/1", "receiver Bootstrapping BOUND/3",
    "receiver WaitingForInput BOUND/3", "receiver Transferring BOUND/1", "receiver Transferring BOUND/3",
    "receiver Transferring NO_LEG/1", "receiver Transferring RESEND/1",
)  # fmt: skip
_FIRE = (
    "handoff/1x2-all-at-once", "handoff/2x1-chunks-first", "handoff/4x1-prefill-first", "cut/1x4-all-at-once",
    "cut/2x1-all-at-once", "cut/4x1-prefill-first", "cut/1x2-prefill-first", "one-page/1x4-prefill-first",
    "empty-first/1x2-001", "messages-lost/4x1-002", "messages-lost/4x1-003", "late-prefill-always/2x1-001",
)  # fmt: skip


def test_rows_about_several_ranks_fire() -> None:
    fired = {row for id in _FIRE for row in fired_by(find(f"ranks/{id}").lines()).rows}
    assert set(_ROWS) - fired == set()


# -- wrong engines -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", WRONG_RANKS)
def test_an_engine_that_is_wrong_between_its_ranks_is_found_by_one_case_of_each_subject(name: str) -> None:
    adapter = WRONG_RANKS[name]()
    broken = {id for each in sample(_cases(), 1) for id in _run(adapter, each).broken}
    assert {"KVX-RANK-1", "KVX-RANK-3", "KVX-RANK-4", "KVX-RANK-5"} & broken


@pytest.mark.parametrize("name", WRONG_RANKS)
def test_such_an_engine_is_right_with_one_rank_on_each_side(name: str) -> None:
    adapter = WRONG_RANKS[name]()
    assert _run(adapter, find("handoff/plain/001")).verdict is Verdict.PASS


def test_a_rank_with_wrong_bytes_shows_though_the_other_ranks_are_right() -> None:
    reference = Reference()
    reference.ranks(1, 2)
    reference.fill(DECODE, [3], b"right" * 4)
    assert reference.read(DECODE, [3]) == (b"right" * 4)[:16]
    reference.groups[DECODE].ranks[1].write([3], b"r1ght")
    shown = reference.read(DECODE, [3])
    assert shown[1] not in b"i1"
    assert shown[2:] == (b"right" * 4)[2:16]


# -- the call ----------------------------------------------------------------------------------------------------------
def test_ranks_is_a_need_of_its_own() -> None:
    assert "ranks" in needs_of(steps("ranks 2 1; create prefill A 2"))
    assert "ranks" not in needs_of(steps("create prefill A 2"))


def test_an_adapter_without_the_call_is_unsupported() -> None:
    class Without:
        """Everything but ``ranks``."""

        def __init__(self) -> None:
            self._inner = Reference()
            for name in ("about", "begin", "create", "init", "metadata", "send", "poll", "abort", "clear", "advance"):
                setattr(self, name, getattr(self._inner, name))
            for name in ("fill", "read", "released", "fault", "heal", "why", "close"):
                setattr(self, name, getattr(self._inner, name))

    adapter: object = Without()
    assert not isinstance(adapter, Ranked)
    assert isinstance(adapter, Adapter)
    assert _run(adapter, _script("ranks 2 1", *handoff())).verdict is Verdict.UNSUPPORTED
    with pytest.raises(Unsupported, match="ranks"):
        Plain().ranks(2, 1)


@pytest.mark.parametrize(("prefill", "decode"), [(3, 1), (1, 0), (8, 8)])
def test_numbers_that_an_engine_cannot_have_are_unsupported(prefill: int, decode: int) -> None:
    outcome = _run(Reference(), _script(f"ranks {prefill} {decode}", *handoff()))
    assert outcome.verdict is Verdict.UNSUPPORTED
    assert "1, 2 and 4 are there" in outcome.reason


def test_the_next_case_has_one_rank_on_each_side_again() -> None:
    reference = Reference()
    assert _run(reference, _script("ranks 2 2", *handoff())).verdict is Verdict.PASS
    assert reference.groups[PREFILL].size == 2
    assert _run(reference, find("handoff/plain/001")).verdict is Verdict.PASS
    assert reference.groups[PREFILL].size == 1


def test_the_process_plug_passes_the_call_on() -> None:
    host = [sys.executable, "-m", "kvpoll.model_tests.conformance.host"]
    adapter = ProcessAdapter([*host, "kvpoll.model_tests.conformance.reference:make"])
    try:
        assert dishonest(adapter, adapter.about(), 500) == ""
        for id in ("ranks/cut/2x4-all-at-once", "ranks/error-prefill-early/4x2-001", "ranks/late-decode/2x2-003"):
            assert _run(adapter, find(id)).verdict is Verdict.PASS
        with pytest.raises(Unsupported, match="1, 2 and 4"):
            adapter.ranks(3, 1)
    finally:
        adapter.close()


# -- topologies --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("prefill", "decode", "heads"), list(product((1, 2, 4), (1, 2, 4), (False, True))))
def test_every_byte_of_a_page_is_held_and_brought(prefill: int, decode: int, heads: bool) -> None:
    topology = topology_of(prefill, decode, heads)
    for side, count in ((PREFILL, prefill), (DECODE, decode)):
        held = {at for rank in range(count) for at in topology.offsets(Address(side, rank), 16)}
        assert held == set(range(16))
    for rank in range(decode):
        brought = {at for source in topology.sources(rank) for at in topology.offsets(Address(PREFILL, source), 16)}
        assert set(topology.offsets(Address(DECODE, rank), 16)) <= brought
    met = sum(len(topology.sources(rank)) for rank in range(decode))
    assert met == sum(topology.readers(rank) for rank in range(prefill))


def test_a_suite_run_says_what_several_ranks_did() -> None:
    result = run_suite(Reference, [find("handoff/plain/001"), *sample(_cases(), 1)])
    assert result.status == 0
    assert "ranks" in {step.what for each in result.cases for step in each.trace}
