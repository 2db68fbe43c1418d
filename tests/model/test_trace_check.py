"""Traces against the tables: what really happened passes however it is cut and mixed, and what cannot happen does not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Node, Rules, Signal
from kvpoll.protocol.trace import Checker, Verdict, tables_digest
from kvpoll.protocol.trace.lines import Line
from kvpoll.protocol.trace.places import MAPS
from kvpoll.spec.table import Verdict as RowVerdict

from ..runtime.engines import Room, pair

Json = dict[str, Any]
PREFILL, DECODE = "prefill.jsonl", "decode.jsonl"


class Files(dict[str, list[Json]]):
    """Traces by file name, as objects that a test may change."""

    def check(self) -> Verdict:
        return check({name: text(lines) for name, lines in self.items()})

    def find(self, file: str, **wanted: object) -> Json:
        """The first line that has all of this."""
        return next(line for line in self[file] if wanted.items() <= line.items())

    def where(self, file: str, line: Json) -> str:
        return f"{file}:{next(n for n, other in enumerate(self[file], 1) if other is line)}"

    def remove(self, file: str, line: Json) -> None:
        """As if it had never been written."""
        self[file] = [other for other in self[file] if other is not line]
        self[file][-1]["end"] -= 1


def text(lines: list[Json]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def check(files: dict[str, bytes]) -> Verdict:
    checker = Checker()
    for name, data in files.items():
        checker.file(name)
        checker.feed(data, 1, last=True)
    return checker.verdict()


def first(verdict: Verdict) -> tuple[str, str]:
    """Where the first bad line is, and what kind it is."""
    assert verdict.status == 1
    assert verdict.bad_lines >= len(verdict.bad) > 0
    return f"{verdict.bad[0].file}:{verdict.bad[0].line}", verdict.bad[0].what


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Two rooms that succeed and one that the decode side aborts, over inproc."""
    path = tmp_path_factory.mktemp("trace") / "both.jsonl"
    with pair("inproc", trace=str(path)) as (p, d):
        for number in (1, 2):
            Room(p, d, number).run(2)
        room = Room(p, d, 3)
        room.prefill()
        room.receiver.init()
        room.receiver.abort("enough")
        room.ends()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    role = {line["instance"]: f"{line['process']}.jsonl" for line in lines if "trace" in line}
    return {name: text([line for line in lines if role[line["instance"]] == name]) for name in (PREFILL, DECODE)}


@pytest.fixture
def files(written: dict[str, bytes]) -> Files:
    return Files({name: [json.loads(line) for line in data.splitlines()] for name, data in written.items()})


# -- what happened passes ----------------------------------------------------------------------------------------------
def test_a_trace_of_both_ends_is_good_and_counted(files: Files) -> None:
    verdict = files.check()
    assert (verdict.status, verdict.bad, verdict.notes) == (0, (), ())
    assert verdict.lines == sum(map(len, files.values()))
    assert verdict.steps == sum("event" in line for lines in files.values() for line in lines)
    assert verdict.messages == sum("way" in line for lines in files.values() for line in lines)
    assert (verdict.processes, verdict.rooms, verdict.machines) == (2, 3, 8)  # three rooms and a link, at two ends


@pytest.mark.parametrize("seed", range(20))
def test_processes_may_be_mixed_in_one_file_in_any_way(files: Files, seed: int) -> None:
    rng, queues = random.Random(seed), [list(lines) for lines in files.values()]
    mixed = []
    while any(queues):
        mixed.append(rng.choice([queue for queue in queues if queue]).pop(0))
    verdict = check({"mixed.jsonl": text(mixed)})
    assert (verdict.status, verdict.bad, verdict.notes) == (0, (), ())


def test_a_trace_may_begin_anywhere(files: Files) -> None:
    for name in (PREFILL, DECODE):
        for start in range(1, len(files[name])):
            verdict = check({name: text(files[name][start:])})
            assert verdict.bad == ()
            assert "begin in the middle" in verdict.notes[0]
            assert verdict.status == (0 if verdict.steps + verdict.messages else 2)


def test_a_trace_may_end_anywhere_even_within_a_line(written: dict[str, bytes]) -> None:
    for name, data in written.items():
        for stop in range(data.index(b"\n") + 1, len(data) - 1, 97):
            verdict = check({name: data[:stop], "other": written[PREFILL if name == DECODE else DECODE]})
            assert verdict.bad == (), stop
            assert any("not closed" in note for note in verdict.notes)


def test_a_torn_line_before_the_line_of_another_process_is_noted_and_not_bad(written: dict[str, bytes]) -> None:
    whole = written[PREFILL]
    cut = whole[: whole.rindex(b"\n", 0, len(whole) // 2) + 40]
    verdict = check({"both.jsonl": cut + written[DECODE]})
    assert verdict.bad == ()
    assert "1 torn lines, as of a process that was killed while it wrote" in verdict.notes
    assert verdict.lines == cut.count(b"\n") + written[DECODE].count(b"\n")


def test_keys_of_a_later_version_are_skipped(files: Files) -> None:
    for lines in files.values():
        for line in lines:
            line["mood"] = {"good": [1, None, "x"]}
    assert files.check().bad == ()


def test_blank_lines_are_skipped_and_counted_in_line_numbers(files: Files) -> None:
    data = text(files[PREFILL]).replace(b"\n", b"\n\n")
    assert check({PREFILL: data}).bad == ()
    broken = data.replace(b'"to":', b'"to":"Nowhere","x":', 1).replace(b'"to": ', b'"to": "Nowhere", "x": ', 1)
    number = next(n for n, line in enumerate(broken.split(b"\n"), 1) if b"Nowhere" in line)
    assert first(check({PREFILL: broken}))[0] == f"{PREFILL}:{number}"


# -- every edge of every table -----------------------------------------------------------------------------------------
def paths(rules: Rules) -> dict[Node, list[tuple[Node, Signal]]]:
    """By node that can be reached: the shortest way there, worked out here from the rows alone."""
    ways: dict[Node, list[tuple[Node, Signal]]] = {rules.initial: []}
    left = [rules.initial]
    for node in left:
        for signal in rules.signals():
            (row,) = rules.match(node, signal)
            if row.verdict not in (RowVerdict.REFUSE, RowVerdict.NEVER):
                after = rules.expand(node, signal).node
                if after not in ways:
                    ways[after] = [*ways[node], (node, signal)]
                    left.append(after)
    return ways


def step(rules: Rules, no: int, node: Node, signal: Signal) -> Line:
    edge = rules.expand(node, signal)
    cause = "" if edge.cause is None else edge.cause.name
    effects = tuple(effect.name for effect in edge.effects)
    return Line(
        t=0, instance="a", role=rules.table.name, no=no, event=signal.name, before=node.state.name,
        after=edge.node.state.name, effects=effects, cause=cause,
    )  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_every_edge_of_a_table_is_good_and_every_other_end_of_it_is_bad(name: str) -> None:
    rules = MAPS[name].rules
    good, bad, no = Checker(), 0, 0
    good.take([Line(t=0, instance="a", trace=1)], 1)
    for node, way in paths(rules).items():
        for signal in rules.signals():
            (row,) = rules.match(node, signal)
            no += 1
            good.take([step(rules, no, at, by) for at, by in way], 1)
            if row.verdict is RowVerdict.REFUSE:
                with pytest.raises(LocalProtocolError):
                    rules.expand(node, signal)
                line = Line(t=0, instance="a", role=name, no=no, event=signal.name, before=node.state.name)
                line.after = node.state.name
            else:
                line = step(rules, no, node, signal)
                if row.verdict is not RowVerdict.NEVER:
                    no += 1
                    good.take([step(rules, no, at, by) for at, by in way], 1)
                    good.take([line], 1)
                    other = next(state.name for state in rules.table.states if state.name != line.after)
                    no += 1
                    good.take([step(rules, no, at, by) for at, by in way], 1)
                    line = step(rules, no, node, signal)
                    line.after = other
            bad += 1
            good.take([line], 1)
    assert good.verdict().bad_lines == bad > 0


# -- what cannot happen does not ---------------------------------------------------------------------------------------
def test_a_step_to_another_state_names_the_row_and_what_was_legal(files: Files) -> None:
    line = files.find(PREFILL, role="sender", room=1, to="WaitingForInput")
    line["to"] = "Transferring"
    verdict = files.check()
    assert first(verdict) == (files.where(PREFILL, line), "step")
    bad = verdict.bad[0]
    assert (
        bad.says == f"no row takes {line['event']} from Bootstrapping to Transferring with {', '.join(line['effects'])}"
    )
    assert bad.who.startswith("sender 1 of prefill ")
    assert bad.at.startswith("Bootstrapping (bound=True, met=True, push=True, ")
    (row,) = bad.expected
    assert row.startswith("Bootstrapping -> WaitingForInput when bound and all and plan is ")
    legal = {event for group in bad.legal for event in group.partition(": ")[2].split(", ")}
    assert {"ABORT", "META all=True", "SILENCE"} <= legal
    assert "OP_DONE" not in legal  # the table says never


CHANGES: dict[str, tuple[Callable[[Json], object], str]] = {
    "another effect": (lambda line: line.update(effects=["CLOSE"]), "step"),
    "no effects": (lambda line: line.pop("effects"), "step"),
    "a cause": (lambda line: line.update(cause="ABORTED"), "step"),
    "another event": (lambda line: line.update(event="SHUTDOWN"), "step"),
    "an event that there is not": (lambda line: line.update(event="PARTY"), "event"),
    "an argument that there is not": (lambda line: line.update(event="META most=True"), "event"),
    "another state before": (lambda line: line.update({"from": "Transferring"}), "from"),
    "another room": (lambda line: line.update(room=2), "room"),
    "no state after": (lambda line: line.pop("to"), "step"),
    "an event that the table calls impossible": (lambda line: line.update(event="OP_DONE"), "step"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_line_with(files: Files, change: str) -> None:
    line = files.find(PREFILL, role="sender", room=1, to="WaitingForInput")
    apply, what = CHANGES[change]
    apply(line)
    assert first(files.check()) == (files.where(PREFILL, line), what)


def test_guards_are_followed_through_the_fields(files: Files) -> None:
    """That the transport pulls changes no state and no effect at once: only a later row tells."""
    line = files.find(PREFILL, event="BIND all=True is_push=True", room=1)
    line["event"] = "BIND all=True is_push=False"
    verdict = files.check()
    assert first(verdict)[1] == "step"
    assert verdict.bad[0].line > files[PREFILL].index(line) + 1
    assert "push=False" in verdict.bad[0].at


@pytest.mark.parametrize("file", [PREFILL, DECODE])
def test_a_step_that_is_missing_is_seen(files: Files, file: str) -> None:
    """Where a state or a field hangs on it; that every line is there is seen anyway."""
    line = files.find(file, room=1, to="Transferring", **{"from": "WaitingForInput"})
    files[file] = [other for other in files[file] if other is not line]
    verdict = files.check()
    assert first(verdict)[1] == "from"
    assert {bad.what for bad in verdict.bad} >= {"from", "end"}


def test_nothing_leaves_a_terminal_state(files: Files) -> None:
    line = files.find(DECODE, role="receiver", room=1, to="Success")
    late = {**line, "event": "ABORT", "from": "Success", "to": "Failed", "cause": "ABORTED"}
    files[DECODE].insert(len(files[DECODE]) - 1, late)
    files[DECODE][-1]["end"] += 1
    assert first(files.check()) == (files.where(DECODE, late), "step")


def test_one_mistake_is_one_bad_line(files: Files) -> None:
    line = files.find(DECODE, role="receiver", event="COMMIT", room=1)
    line["cause"] = "ABORTED"
    verdict = files.check()
    assert first(verdict) == (files.where(DECODE, line), "step")
    assert verdict.bad_lines == 1


def test_a_life_that_begins_in_the_middle_of_a_whole_trace_is_bad(files: Files) -> None:
    line = files.find(PREFILL, role="sender", room=1)
    index = next(n for n, other in enumerate(files[PREFILL]) if other.get("from") == "WaitingForInput")
    files[PREFILL] = [o for n, o in enumerate(files[PREFILL]) if n >= index or o.get("no") != line["no"]]
    assert first(files.check())[1] == "from"
    assert "they begin at Bootstrapping" in files.check().bad[0].says


def test_a_trace_from_the_middle_is_held_to_what_any_state_of_the_fields_allows(files: Files) -> None:
    lines = files[PREFILL][1:]
    line = next(line for line in lines if line.get("to") == "WaitingForInput")
    line["event"] = "SUPERSEDED"
    verdict = check({PREFILL: text(lines)})
    assert first(verdict) == (f"{PREFILL}:{lines.index(line) + 1}", "step")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "expected one JSON object"),
        (b"[1]", "other types"),
        (b'{"t":"noon","instance":"a"}', "other types"),
        (b'{"t":1,"instance":"a"}', "neither a step"),
        (
            b'{"t":1,"instance":"a","role":"lease","no":1,"event":"TAKE"}',
            "role: expected one of sender, receiver, link",
        ),
        (b'{"t":1,"instance":"a","way":"up","kind":"Query"}', "way: expected in or out"),
        (b'{"t":1,"instance":"a","way":"in","kind":"Greeting"}', "kind: expected one of Hello"),
        (b'{"t":1,"instance":"\xff"}', "expected one JSON object: Invalid UTF-8"),
        (b'{"t":1,"instance":"a","x":' + b"[" * 100_000, "expected one JSON object"),
        (b'{"t":1,"instance":"a","no":' + b"9" * 5000 + b"}", "other types: Integer value out of range"),
    ],
)
def test_a_line_that_is_none_is_named(files: Files, raw: bytes, said: str) -> None:
    good = text(files[PREFILL][:5])
    verdict = check({PREFILL: good + raw + b"\n" + text(files[PREFILL][5:-1])})
    assert (verdict.bad[0].file, verdict.bad[0].line) == (PREFILL, 6)
    assert said in verdict.bad[0].says
    assert verdict.bad_lines == 1


def test_no_garbage_makes_it_raise_and_none_is_called_good(written: dict[str, bytes]) -> None:
    """Bytes of a line are replaced: either it says the same still, or it is bad, or it says nothing that is checked."""
    rng, data, bad = random.Random(3), written[PREFILL], 0
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        verdict = check({PREFILL: bytes(broken)})
        assert verdict.status in (0, 1)
        assert bool(verdict.bad) == (verdict.status == 1)
        bad += verdict.status
    assert bad > 300


# -- messages, and both ends -------------------------------------------------------------------------------------------
def test_a_message_comes_from_the_end_that_may_send_it(files: Files) -> None:
    line = files.find(PREFILL, kind="PartDone", way="out")
    line["way"] = "in"
    assert first(files.check()) == (files.where(PREFILL, line), "message")


def test_a_conclusion_is_said_only_after_the_commit(files: Files) -> None:
    said = files.find(DECODE, kind="Conclude", way="out", room=1)
    files[DECODE].remove(said)
    files[DECODE].insert(files[DECODE].index(files.find(DECODE, event="COMMITTED", room=1)), said)
    assert first(files.check()) == (files.where(DECODE, said), "message")


@pytest.mark.parametrize(("state", "event"), [("Success", "CONCLUDED"), ("Failed", "PEER_FAILED")])
def test_the_word_of_the_other_end_must_have_been_heard(files: Files, state: str, event: str) -> None:
    step = next(line for line in files[PREFILL] if line.get("event", "").startswith(event))
    for line in list(files[PREFILL]):
        kinds = {"Success": "Conclude", "Failed": "Abort"}
        if (
            line.get("way") == "in"
            and line["room" if "room" in line else "way"] == step["room"]
            and (line["kind"] == kinds[state] or line.get("state") == state)
        ):
            files.remove(PREFILL, line)
    verdict = files.check()
    assert first(verdict) == (files.where(PREFILL, step), "proof")


def test_a_sender_cannot_succeed_where_its_receiver_failed(files: Files) -> None:
    line = files.find(DECODE, role="receiver", event="COMMITTED", room=1)
    line |= {"event": "ABORT", "to": "Failed", "effects": ["SEND_ABORT", "CLOSE"], "cause": "ABORTED"}
    verdict = files.check()
    success = files.find(PREFILL, role="sender", room=1, to="Success")
    outcome = next(bad for bad in verdict.bad if bad.what == "outcome")
    assert f"{outcome.file}:{outcome.line}" == files.where(PREFILL, success)
    assert "its receiver failed" in outcome.says
    assert any(bad.what == "message" and "Conclude says Success" in bad.says for bad in verdict.bad)


def test_a_sender_cannot_succeed_where_its_receiver_never_did(files: Files) -> None:
    line = files.find(DECODE, role="receiver", event="COMMITTED", room=1)
    files[DECODE] = [o for o in files[DECODE] if o is line or o.get("no") != line["no"] or o.get("t") < line["t"]]
    files.remove(DECODE, line)
    files[DECODE][-1]["end"] = len(files[DECODE]) - 1
    assert "its receiver never did" in next(bad.says for bad in files.check().bad if bad.what == "outcome")


def shift(files: Files, ms: int, **head: object) -> None:
    for line in files[DECODE]:
        line["t"] += ms
    files[DECODE][0] |= head


def test_a_sender_cannot_succeed_nor_a_message_arrive_before_it_was_so_at_the_other_end(files: Files) -> None:
    shift(files, 60_000)
    found = {bad.what: bad.says for bad in files.check().bad}
    assert "before its receiver did" in found["outcome"]
    assert "before it was sent" in found["unsent"]


def test_a_sender_is_compared_with_the_receiver_ranks_that_it_met_and_no_others(files: Files) -> None:
    """Ranks of an engine share its id and the number of the attempt; each ends when its own senders are done."""
    strangers = {line["instance"] for line in files[DECODE]} | {
        line["link"] for line in files[DECODE] if "link" in line
    }
    other = text(files[DECODE]).decode()
    for name in strangers:
        other = other.replace(name, name[::-1])
    files["decode tp1.jsonl"] = [json.loads(line) for line in other.splitlines()]
    for line in files["decode tp1.jsonl"]:
        line["t"] += 60_000
    assert (files.check().status, files.check().bad) == (0, ())


def test_times_of_different_clocks_are_not_compared(files: Files) -> None:
    shift(files, 60_000, clock="another machine")
    assert files.check().bad == ()


def test_what_was_received_was_sent(files: Files) -> None:
    line = files.find(DECODE, kind="Conclude", way="out", room=1)
    files.remove(DECODE, line)
    verdict = files.check()
    assert first(verdict) == (files.where(PREFILL, files.find(PREFILL, kind="Conclude", way="in", room=1)), "unsent")
    assert "was never sent" in verdict.bad[0].says


def test_nothing_is_said_of_what_a_process_that_was_killed_may_have_sent(files: Files) -> None:
    files.remove(DECODE, files.find(DECODE, kind="Conclude", way="out", room=1))
    del files[DECODE][-1]
    verdict = files.check()
    assert (verdict.status, verdict.bad) == (0, ())


def test_a_message_may_be_received_twice_or_not_at_all(files: Files) -> None:
    heard = files.find(DECODE, kind="Close", way="in", room=1)
    files[DECODE].insert(files[DECODE].index(heard), heard)
    files[DECODE][-1]["end"] += 1
    files.remove(DECODE, files.find(DECODE, kind="Status", way="in"))
    assert files.check().bad == ()


# -- heads, ends, versions ---------------------------------------------------------------------------------------------
def test_a_line_that_was_lost_is_missed_at_the_end(files: Files) -> None:
    beat = files.find(DECODE, kind="Heartbeat", way="out") if any(
        line.get("kind") == "Heartbeat" for line in files[DECODE]
    ) else files.find(DECODE, kind="Status", way="in")  # fmt: skip
    files[DECODE] = [line for line in files[DECODE] if line is not beat]
    verdict = files.check()
    assert first(verdict) == (f"{DECODE}:{len(files[DECODE])}", "end")


def test_a_file_that_is_given_twice_is_called_that(written: dict[str, bytes]) -> None:
    verdict = check({"one": written[PREFILL], "two": written[PREFILL]})
    assert first(verdict) == ("two:1", "head")
    assert "is a file given twice?" in verdict.bad[0].says


def test_another_version_of_the_format_is_not_checked_and_named(files: Files) -> None:
    files[PREFILL][0]["trace"] = 2
    verdict = files.check()
    assert (verdict.status, verdict.unread) == (2, len(files[PREFILL]))
    assert f"trace format 2 of {files[PREFILL][0]['instance']}" in verdict.notes[0]
    files.find(DECODE, role="receiver", to="Success")["to"] = "Failed"
    assert files.check().status == 1  # what can be read is bad all the same


def test_other_tables_are_noted(files: Files) -> None:
    assert files[PREFILL][0]["tables"] == tables_digest()
    files[PREFILL][0]["tables"] = "0" * 16
    verdict = files.check()
    assert verdict.status == 0
    assert "written with other tables" in verdict.notes[0]


@pytest.mark.parametrize("data", [b"", b"\n\n", b'{"t":1,"instance":"a","trace":1}\n'])
def test_a_trace_without_events_is_not_called_good(data: bytes) -> None:
    assert check({"empty": data}).status == 2


def test_what_is_remembered_is_bounded_and_the_rest_is_named(files: Files) -> None:
    checker = Checker(limit=5)
    for name, lines in files.items():
        checker.file(name)
        checker.feed(text(lines), 1)
    verdict = checker.verdict()
    assert verdict.bad == ()
    assert "lines about more than 5 machines and messages" in verdict.notes[-1]


def pieces(data: bytes, rng: random.Random) -> Iterator[bytes]:
    lines = data.splitlines(keepends=True)
    while lines:
        count = rng.randint(1, 40)
        yield b"".join(lines[:count])
        del lines[:count]


def test_it_does_not_matter_how_a_file_is_cut_into_pieces(files: Files) -> None:
    files.find(DECODE, role="receiver", to="Success")["to"] = "Failed"
    expected = files.check()
    for seed in range(10):
        checker, rng = Checker(), random.Random(seed)
        for name, lines in files.items():
            checker.file(name)
            number = 1
            for piece in pieces(text(lines), rng):
                number = checker.feed(piece, number)
        assert checker.verdict() == expected


def test_old_traces_without_heads_are_still_read(files: Files) -> None:
    known = (
        "t",
        "instance",
        "role",
        "no",
        "room",
        "event",
        "from",
        "to",
        "effects",
        "cause",
        "way",
        "link",
        "kind",
        "gen",
    )
    old = [{k: line[k] for k in known if k in line} for line in files[PREFILL][1:-1] if line.get("role") != "link"]
    assert check({"old": text(old)}).bad == ()


def test_the_file_of_a_verdict_is_the_one_it_came_from(tmp_path: Path, files: Files) -> None:
    files.find(PREFILL, room=2, to="Success")["to"] = "Failed"
    assert first(files.check())[0].startswith(PREFILL)
