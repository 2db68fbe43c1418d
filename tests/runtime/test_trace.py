"""Traces: every line parses, every step is a row of a table, and threads do not garble each other's lines."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from kvpoll.runtime.trace import Trace
from kvpoll.spec import TABLES
from kvpoll.spec.wire import KINDS, Heartbeat

from ..protocol.pair import Pair
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


def test_a_step_that_no_row_has_is_seen() -> None:
    step = {"role": "sender", "event": "ABORT", "from": "Success", "to": "Failed"}
    assert not is_a_row(step)
    assert is_a_row({**step, "to": "Success"})


def test_every_step_of_real_rooms_is_a_row_and_every_message_a_kind(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with pair("inproc", trace=str(path)) as (p, d):
        for number in range(3):
            Room(p, d, number).run(2)
        aborted = Room(p, d, 9)
        sender = aborted.prefill()
        aborted.receiver.init()
        aborted.receiver.abort("enough")
        aborted.ends()
        assert cause(sender) in ("PEER_ABORTED", "NO_ANNOUNCE")
    steps = [line for line in lines(path) if "event" in line]
    messages = [line for line in lines(path) if "kind" in line]
    assert steps
    assert messages
    assert [step for step in steps if not is_a_row(step)] == []
    assert {line["kind"] for line in messages} <= {kind.__name__ for kind in KINDS}
    assert len({line["instance"] for line in steps}) == 2
    assert {line["room"] for line in steps if line["room"] is not None} == {0, 1, 2, 9}
    for instance in {line["instance"] for line in steps}:
        times = [line["t"] for line in lines(path) if line["instance"] == instance]
        assert times == sorted(times)  # type: ignore[type-var]
    concluded = [line for line in messages if line["kind"] == "Conclude"]
    assert {(line["way"], line["room"]) for line in concluded} == {(w, n) for w in ("in", "out") for n in range(3)}


def test_the_steps_of_one_session_follow_one_another(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    world = Pair().linked()
    traces = []
    for process in (world.p, world.d):
        trace = Trace(str(path), process.instance, lambda: world.now, lambda key: key.no)
        process.core.env.trace = trace.step
        traces.append(trace)
    s, r = world.both()
    s.send_all(2)
    r.metadata(gates=("gate",))
    world.run()
    r.open_gate("gate")
    world.ends_idle()
    for trace in traces:
        trace.close()
    at: dict[object, object] = {}
    for line in lines(path):
        key = (line["instance"], line["role"], line["no"])
        assert line["from"] == at.get(key, "Bootstrapping")
        at[key] = line["to"]
        assert is_a_row(line)
    assert set(at.values()) == {"Success"}


def test_lines_of_several_threads_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(str(path), 1, lambda: 0, lambda key: None)
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
    assert len({line["link"] for line in lines(path)}) == 4000


def test_a_trace_that_was_closed_takes_no_more_lines_and_closes_twice(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(str(path), 1, lambda: 0, lambda key: None)
    trace.message("in", Heartbeat(link=1, source=1))
    trace.close()
    trace.message("in", Heartbeat(link=2, source=1))
    trace.close()
    assert [line["link"] for line in lines(path)] == ["1"]
