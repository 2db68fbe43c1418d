"""Traces: every line parses, every step is a row of a table, and threads do not garble each other's lines."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from kvpoll.protocol.records import AttemptRecord, SessionKey
from kvpoll.protocol.trace import VERSION, Checker, Verdict, tables_digest
from kvpoll.runtime.trace import Trace
from kvpoll.spec import TABLES
from kvpoll.spec.wire import KINDS, Heartbeat, Reason, Refusal

from ..protocol.pair import Flight, Pair, Process
from .engines import Room, cause, pair


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def is_a_row(line: dict[str, object]) -> bool:
    """Does the table say that this step can be?"""
    table = TABLES[str(line["role"])]
    event, *_ = str(line["event"]).split()
    for row in table.rows:
        effects = [effect.name for effect in row.effects]
        caused = None if row.cause is None else row.cause.name
        if (row.state.name, row.event.name, row.next.name) == (line["from"], event, line["to"]) and (
            effects == line.get("effects", []) and caused == line.get("cause")
        ):
            return True
    return False


def check(*paths: Path) -> Verdict:
    checker = Checker()
    for path in paths:
        checker.file(path.name)
        checker.feed(path.read_bytes(), 1, last=True)
    return checker.verdict()


def nobody(key: SessionKey) -> AttemptRecord | None:
    return None


def test_a_step_that_no_row_has_is_seen() -> None:
    step = {"role": "sender", "event": "ABORT", "from": "Success", "to": "Failed"}
    assert not is_a_row(step)
    assert is_a_row({**step, "to": "Success"})


def test_a_process_that_is_killed_has_left_a_head(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(str(path), 1, lambda: 5, nobody)
    trace.message("out", Heartbeat(link=1, source=1, target=2, engine=3, low_water=1))
    assert [set(line) & {"trace", "kind"} for line in lines(path)] == [{"trace"}, {"kind"}]
    trace.close()


@pytest.mark.parametrize("transport", ["inproc", "zmq"])
def test_every_step_of_real_rooms_is_a_row_and_every_message_a_kind(tmp_path: Path, transport: str) -> None:
    path = tmp_path / "trace.jsonl"
    with pair(transport, trace=str(path)) as (p, d):
        for number in range(3):
            Room(p, d, number).run(2)
        aborted = Room(p, d, 9)
        sender = aborted.prefill()
        aborted.receiver.init()
        aborted.receiver.abort("enough")
        aborted.ends()
        assert cause(sender) in ("PEER_ABORTED", "NO_ANNOUNCE")
        engines = {f"{m.instance:x}": (f"{m.engine:x}", m.config.role.value) for m in (p.manager, d.manager)}
    written = lines(path)
    steps = [line for line in written if "event" in line]
    messages = [line for line in written if "kind" in line]
    assert [step for step in steps if not is_a_row(step)] == []
    assert {line["kind"] for line in messages} <= {kind.__name__ for kind in KINDS}
    assert {line["role"] for line in steps} == {"sender", "receiver", "link"}
    assert {line["room"] for line in steps if line["role"] != "link"} == {0, 1, 2, 9}
    for instance in {str(line["instance"]) for line in written}:
        own = [line for line in written if line["instance"] == instance]
        times = [line["t"] for line in own]
        assert times == sorted(times)  # type: ignore[type-var]
        assert (own[0]["trace"], own[0]["tables"]) == (VERSION, tables_digest())
        assert (own[0]["engine"], own[0]["process"]) == engines[instance]
        assert own[-1]["end"] == len(own) - 1
    concluded = [line for line in messages if line["kind"] == "Conclude"]
    assert {(line["way"], line["room"]) for line in concluded} == {(w, n) for w in ("in", "out") for n in range(3)}
    verdict = check(path)
    assert (verdict.status, verdict.bad, verdict.notes) == (0, (), ())


class Traced:
    """A world of the fake wire whose processes write traces, messages included."""

    def __init__(self, folder: Path) -> None:
        self.world = Pair()
        self.folder = folder
        self.traces: dict[str, Trace] = {}
        for process in (self.world.p, self.world.d):
            self._trace(process)
        self._arrive = self.world.arrive
        self.world.arrive = self.arrive  # type: ignore[method-assign]
        self.world.linked()

    def _trace(self, process: Process) -> None:
        def about(key: SessionKey) -> AttemptRecord | None:
            session = process.core.session(key)
            return None if session is None else session.rec

        head: dict[str, str | int] = {"engine": f"{process.config.engine:x}", "process": process.name}
        path = str(self.folder / f"{process.name}.jsonl")
        trace = self.traces[process.name] = Trace(path, process.instance, lambda: self.world.now, about, head)
        process.core.env.trace = trace.step

    def arrive(self, flight: Flight) -> None:
        # The fake wire is asked when something arrives only: what is lost on it is not traced as sent.
        self.traces[flight.source].message("out", flight.message)
        if self.world.processes.get(flight.target) is not None:
            self.traces[flight.target].message("in", flight.message)
        self._arrive(flight)

    def verdict(self) -> Verdict:
        for trace in self.traces.values():
            trace.close()
        return check(*sorted(self.folder.glob("*.jsonl")))


def test_the_steps_of_one_session_follow_one_another(tmp_path: Path) -> None:
    traced = Traced(tmp_path)
    world = traced.world
    s, r = world.both()
    s.send_all(2)
    r.metadata(gates=("gate",))
    world.run()
    r.open_gate("gate")
    world.ends_idle()
    verdict = traced.verdict()
    assert (verdict.bad, verdict.status) == ((), 0)
    at: dict[object, object] = {}
    for line in lines(tmp_path / "p.jsonl") + lines(tmp_path / "d.jsonl"):
        if line.get("role") in ("sender", "receiver"):
            key = (line["instance"], line["role"], line["no"])
            assert line["from"] == at.get(key, "Bootstrapping")
            at[key] = line["to"]
            assert is_a_row(line)
    assert set(at.values()) == {"Success"}


def test_traces_of_rooms_that_go_wrong_are_good_traces(tmp_path: Path) -> None:
    """Lost, copied and late messages, aborts, deadlines, and a peer that is declared lost."""
    traced = Traced(tmp_path)
    world = traced.world
    s, r = world.both(1)
    r.metadata()
    world.copy("Announce")
    s.send_all(2)
    world.run()
    s, r = world.both(2)
    r.metadata()
    world.drop("Announce")
    s.send_all()
    r.abort("enough")
    world.advance(10_000)
    world.both(3)
    world.advance(400_000)
    s, r = world.both(4)
    r.metadata()
    s.send_all(1, 2)
    world.d.declare_lost()
    world.advance(400_000)
    verdict = traced.verdict()
    assert (verdict.bad, verdict.status, verdict.rooms) == ((), 0, 4)
    ends = {(line["role"], line["to"], line.get("cause")) for line in lines(tmp_path / "d.jsonl") if "event" in line}
    assert ("receiver", "Success", None) in ends
    assert {("receiver", "Failed", "ABORTED"), ("link", "OVER", None)} <= ends


def test_a_refusal_says_why_and_of_which_room(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(str(path), 1, lambda: 0, nobody)
    trace.message("in", Refusal(link=1, source=2, reason=Reason.HANDSHAKE, fields=("page.size",)))
    trace.message("out", Refusal(link=1, source=2, reason=Reason.ROOM_BUSY, room=7, engine=8, gen=9))
    trace.message("in", Refusal(link=1, source=2, reason=999))
    trace.close()
    first, second, third = lines(path)[1:-1]
    assert (first["reason"], second["reason"], third["reason"]) == ("HANDSHAKE", "ROOM_BUSY", "999")
    assert "room" not in first
    assert (second["room"], second["engine"], second["gen"]) == (7, "8", 9)


def test_lines_of_several_threads_are_whole_and_their_times_in_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    ticks = iter(range(1_000_000))
    trace = Trace(str(path), 1, lambda: next(ticks), nobody)
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        for n in range(1000):
            trace.message("out", Heartbeat(link=number * 1000 + n, source=1))
            if n % 50 == 0:
                trace.flush()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace.close()
    head, *written, end = lines(path)
    assert len({line["link"] for line in written}) == 4000
    assert [line["t"] for line in (head, *written, end)] == list(range(4002))
    assert end["end"] == 4001


def test_a_trace_that_was_closed_takes_no_more_lines_and_closes_twice(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(str(path), 1, lambda: 0, nobody)
    trace.message("in", Heartbeat(link=1, source=1))
    trace.close()
    trace.message("in", Heartbeat(link=2, source=1))
    trace.close()
    assert [line.get("link") for line in lines(path)] == [None, "1", None]


def test_a_process_in_which_nothing_happened_has_a_head_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    Trace(str(path), 0xAB, lambda: 5, nobody, {"engine": "cd", "process": "decode"}).close()
    head, end = lines(path)
    assert head | {"unix": 0, "clock": ""} == {
        "t": 5, "instance": "ab", "trace": VERSION, "tables": tables_digest(), "engine": "cd", "process": "decode",
        "unix": 0, "clock": "",
    }  # fmt: skip
    assert end == {"t": 5, "instance": "ab", "end": 1}
