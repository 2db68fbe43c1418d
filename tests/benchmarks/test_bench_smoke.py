"""Every benchmark runs, in its quick mode, and says something that can be true. No time is asserted."""

from __future__ import annotations

import json
import sys
from math import isfinite

import pytest

from benchmarks import explore, explore_by_hand, handoff, interpreter, plans, poll, trace
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.result import Bare, Result
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Machine, Rules
from kvpoll.protocol.plans import plan_dcp_relayout
from kvpoll.spec.table import Verdict


def plausible(results: list[Result]) -> None:
    assert results
    assert len({r.name for r in results}) == len(results)
    for r in results:
        assert r.ratio is not None or r.bare, r.name
        # Where one time is subtracted from another, noise may exceed the difference.
        assert r.ratio is None or (isfinite(r.ratio) and (r.ratio > 0 or r.unit != "x")), r.name
        assert all(isfinite(b.value) and b.value > 0 for b in r.bare), r.name
        assert (r.met is None) == (r.target is None), r.name


def test_the_interpreter_is_compared_with_a_dict_machine_and_with_both_machines_of_transitions() -> None:
    results = interpreter.run(quick=True)
    plausible(results)
    assert [(r.target, r.at_least) for r in results] == [
        (2.0, False), (4.0, False), (None, False), (40.0, True), (40.0, True),
    ]  # fmt: skip


def test_the_machine_of_the_interpreter_benchmark_has_a_guarded_an_unguarded_and_a_refused_event() -> None:
    rules = Rules(interpreter.TABLE)
    start, stop, count = (spec.event for spec in interpreter.TABLE.events)
    machine = Machine(rules)
    with pytest.raises(LocalProtocolError, match="refused in IDLE"):
        machine.feed(rules.signal(stop))
    assert machine.feed(rules.signal(start)).effects
    seen = [machine.feed(rules.signal(count, twice=two)) for two in (False, True, False)]
    assert [edge.verdict for edge in seen] == [Verdict.STAY] * 3
    assert len({id(edge.row) for edge in seen}) == 3
    assert machine.feed(rules.signal(stop)).node is rules.initial


def test_codec_results_are_merged() -> None:
    results = BENCHMARKS["codec"](True)
    plausible(results)
    assert {r.unit for r in results} == {"x", "ns"}


@pytest.mark.parametrize("transport", handoff.TRANSPORTS)
def test_a_hand_off_is_compared_with_a_bare_call_of_the_same_bytes(transport: str) -> None:
    results = handoff.run(quick=True, transports=(transport,))
    plausible(results)
    assert [r.name for r in results] == [f"{transport} 1 MiB / bare call", f"{transport} one room of 4 KiB"]


def test_a_hand_off_that_brings_wrong_bytes_breaks_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoff._OneProcess, "_ids", lambda self, pages: self._decode.shape.chosen(pages, "others"))
    with pytest.raises(RuntimeError, match="wrong bytes"):
        handoff.run(quick=True, transports=("inproc",))


def test_poll_is_measured_for_both_roles_with_every_room_live() -> None:
    results = poll.run(quick=True)
    plausible(results)
    assert [r.target for r in results] == [1.2, 1.2, None, None]


def test_dcp_plans_are_compared_with_plain_numpy_and_merged_runs_are_counted() -> None:
    results = plans.run(quick=True)
    plausible(results)
    assert [r.target for r in results] == [1.0] * 5 + [None] * 2
    counts = [{bare.name: bare.value for bare in r.bare} for r in results if r.target is None]
    rows, virtual_pages = plans.TOKENS // 4, plans.TOKENS // 256
    assert counts[0] == {"rows": rows, "dense": rows, "packed": 1, "draft": 1}
    assert counts[1]["dense"] == rows
    assert virtual_pages * 0.98 < counts[1]["packed"] <= virtual_pages, "a page is one descriptor once rows are packed"


def test_a_plan_that_differs_from_the_definition_breaks_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "plan_dcp_relayout", lambda **given: plan_dcp_relayout(**(given | {"dcp_rank": 0})))
    with pytest.raises(RuntimeError, match="the two versions differ"):
        plans.run(quick=True)


def test_the_check_of_traces_is_compared_with_a_bare_decode_of_the_same_lines() -> None:
    results = trace.run(quick=True)
    plausible(results)
    assert [(r.target, r.unit) for r in results] == [(4.0, "x"), (None, "x")]


def test_the_explorer_is_compared_with_a_model_by_hand_of_equal_states_and_edges() -> None:
    results = explore.run(quick=True)
    plausible(results)
    assert [(r.target, r.at_least) for r in results] == [(0.5, True), (None, False)]
    counts = {bare.name: bare.value for bare in results[0].bare}
    assert (counts["states"], counts["edges"]) == explore_by_hand.search()


def test_a_model_by_hand_with_other_counts_breaks_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore_by_hand, "search", lambda: (1, 1))
    with pytest.raises(RuntimeError, match="expected equal ones"):
        explore.run(quick=True)


def test_a_bad_line_breaks_the_benchmark_of_traces() -> None:
    with pytest.raises(RuntimeError, match="called bad"):
        trace._check(b'{"t":1,"instance":"a"}\n')


def test_a_target_bounds_from_above_or_from_below_and_none_gives_no_verdict() -> None:
    assert Result("a", 2.0, 2.0).met is True
    assert Result("a", 2.1, 2.0).met is False
    assert Result("a", 0.9, 0.9, at_least=True).met is True
    assert Result("a", 0.8, 0.9, at_least=True).met is False
    assert Result("a", 0.8).met is None


def _made_up(quick: bool) -> list[Result]:
    return [
        Result("fast", 0.5, 0.9, at_least=True, bare=(Bare("ours", 12.0, "ms"),)),
        Result("small", bare=(Bare("memory", 3.0, "KiB"),)),
    ]


def _breaks(quick: bool) -> list[Result]:
    raise RuntimeError("no such luck")


def test_the_table_shows_target_and_verdict_and_a_missed_target_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(BENCHMARKS, "poll", _made_up)
    assert main(["--only", "poll", "--quick"]) == 0
    shown = capsys.readouterr().out
    for text in ("fast", "0.50 x", ">= 0.9 x", "missed", "ours 12.0 ms", "memory 3.00 KiB"):
        assert text in shown, text


def test_without_rich_the_table_is_plain_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(BENCHMARKS, "poll", _made_up)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(["--only", "poll"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split()[:2] == ["poll", "fast"]
    assert "missed" in shown[1]


def test_json_has_every_number_and_says_what_broke_and_only_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(BENCHMARKS, "poll", _made_up)
    monkeypatch.setitem(BENCHMARKS, "codec", _breaks)
    assert main(["--only", "codec", "--only", "poll", "--json"]) == 1
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert report["broken"] == ["codec"]
    assert report["results"]["poll"][0]["met"] is False
    assert report["results"]["poll"][0]["bare"] == [{"name": "ours", "value": 12.0, "unit": "ms"}]
    assert "no such luck" in said.err
