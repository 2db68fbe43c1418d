"""`kvpoll trace`: exit statuses, what it prints, and a page that is whole, bounded, and not what a trace makes of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kvpoll.cli.app import cli
from kvpoll.cli.trace_script import SCRIPT
from kvpoll.cli.trace_style import STYLE

from ..runtime.engines import Room, pair

RUN = CliRunner()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of both ends: rooms 1 and 2**62 + 1 succeed, room 3 is aborted by the decode side."""
    folder = tmp_path_factory.mktemp("traces")
    with pair("inproc", trace=str(folder / "both.jsonl")) as (p, d):
        for number in (1, 2**62 + 1):
            Room(p, d, number).run(2)
        room = Room(p, d, 3)
        room.prefill()
        room.receiver.init()
        room.receiver.abort("enough")
        room.ends()
    return folder


@pytest.fixture
def lines(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (trace / "both.jsonl").read_text().splitlines()]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def invoke(*arguments: object) -> Result:
    return RUN.invoke(cli, ["trace", *map(str, arguments)], env={"COLUMNS": "200"})


# -- check -------------------------------------------------------------------------------------------------------------------
def test_a_good_trace_exits_with_zero_and_says_what_was_looked_at(trace: Path) -> None:
    result = invoke("check", trace)
    assert result.exit_code == 0
    assert re.fullmatch(
        r"\d+ lines: \d+ steps of 8 machines in 3 rooms, \d+ messages, 2 processes: every line can be\n", result.stdout
    )


def test_a_bad_trace_exits_with_one_and_names_the_line_and_what_was_legal(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    number = next(n for n, line in enumerate(lines) if line.get("event") == "COMMITTED")
    lines[number]["event"] = "PARTS whole_now=True"
    path = write(tmp_path / "bad.jsonl", lines)
    result = invoke("check", path)
    assert result.exit_code == 1
    said = result.stdout.splitlines()
    assert said[0].startswith(f"{path}:{number + 1}: receiver 1 of decode ")
    assert "no row takes PARTS whole_now=True from Transferring to Success" in said[0]
    assert any(line.startswith("  was at     Transferring (linked=True, push=True") for line in said)
    assert any("Transferring -> Success: COMMITTED" in line for line in said)
    assert said[-1].endswith(": not good")


def test_json_has_the_same_and_nothing_else(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    for line in lines:
        if line.get("to") == "Success":
            line["to"] = "Failed"
    path = write(tmp_path / "bad.jsonl", lines)
    result = invoke("check", path, "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["status"], said["ok"]) == (1, 1, False)
    assert said["bad_lines"] == len(said["bad"]) >= 4
    assert said["bad"][0]["file"] == str(path)
    assert invoke("check", path).stdout.count(f"{path}:") == 1 + invoke("check", path).stdout.count(f", since {path}:")
    assert invoke("check", path, "--all").stdout.count(" from Transferring to Failed with ") == 4


@pytest.mark.parametrize("name", ["absent.jsonl", "folder"])
def test_what_cannot_be_read_exits_with_two(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    result = invoke("check", tmp_path / name)
    assert result.exit_code == 2
    assert name in result.output


def test_no_events_and_other_versions_exit_with_two(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    assert invoke("check", write(tmp_path / "empty.jsonl", [])).exit_code == 2
    for line in lines:
        if "trace" in line:
            line["trace"] = 99
    result = invoke("check", write(tmp_path / "later.jsonl", lines))
    assert result.exit_code == 2
    assert "trace format 99" in result.stdout


def test_standard_input_is_read(trace: Path) -> None:
    data = (trace / "both.jsonl").read_bytes()
    result = RUN.invoke(cli, ["trace", "check", "-"], input=data)
    assert (result.exit_code, "every line can be" in result.stdout) == (0, True)
    cut = RUN.invoke(cli, ["trace", "check", "-"], input=data[:-20])
    assert (cut.exit_code, "1 torn lines" in cut.stdout) == (0, True)


def test_a_file_without_lines_of_its_kind_is_not_read_into_memory(tmp_path: Path) -> None:
    (tmp_path / "zeros.jsonl").write_bytes(b"0" * (5 << 20))
    result = invoke("check", tmp_path / "zeros.jsonl")
    assert result.exit_code == 2
    assert "this is no trace" in result.output


# -- show --------------------------------------------------------------------------------------------------------------------
class Page(HTMLParser):
    """Elements and their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style"):
            self.inside.append((self.elements[-1][0], data))

    def data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(next(text for tag, text in self.inside if text.startswith("{")))
        return loaded


def shown(tmp_path: Path, *arguments: object) -> Page:
    out = tmp_path / "page.html"
    result = invoke("show", *arguments, "--out", out)
    assert result.exit_code == 0, result.output
    return Page(out.read_text(encoding="utf-8"))


def test_the_page_has_every_room_with_its_ends_states_and_messages(trace: Path, tmp_path: Path) -> None:
    data = shown(tmp_path, trace).data()
    assert data["total"] == {"rooms": 3, "success": 2, "failed": 1, "open": 0}
    rooms = {room["id"]: room for room in data["rooms"]}
    assert list(rooms) == ["1", str(2**62 + 1), "3"]  # as text: a script's numbers have 53 bits
    for room in rooms.values():
        assert [end["role"] for end in room["ends"]] == ["sender", "receiver"]
    good = rooms["1"]
    names = [[data["states"][state] for _, state in end["spans"]] for end in good["ends"]]
    live = ["Bootstrapping", "WaitingForInput", "Transferring", "Success"]
    assert names == [live, live]
    assert rooms["3"]["causes"] == ["ABORTED", "PEER_ABORTED"]
    for room in rooms.values():
        for index, mark in enumerate(room["marks"]):
            if mark["what"] == "in":
                other = room["marks"][mark["other"]]
                assert (other["what"], other["name"], other["other"]) == ("out", mark["name"], index)
                assert mark["other"] < index
    assert not any(mark["lost"] for mark in good["marks"])  # of the last room a message may be on its way at the end


def test_the_page_fetches_nothing_and_runs_only_its_own_script(trace: Path, tmp_path: Path) -> None:
    page = shown(tmp_path, trace)
    for tag, attributes in page.elements:
        assert not {"src", "href", "srcset", "action", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import", SCRIPT + STYLE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", SCRIPT)
    (policy,) = (a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for name, text in (("script", SCRIPT), ("style", STYLE)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
        assert (name, text) in page.inside


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\n;Note over E0: x"


def test_nothing_in_a_trace_becomes_markup_or_a_statement(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    for line in lines:
        for key in ("event", "kind", "cause", "state", "link", "process"):
            if key in line:
                line[key] = EVIL
        line["effects"] = [EVIL] if "effects" in line else []
    path = write(tmp_path / "<b>evil.jsonl", lines)
    page = shown(tmp_path, path)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not {"img", "b"} & {tag for tag, _ in page.elements}
    room = page.data()["rooms"][0]
    assert EVIL in {mark["name"] for mark in room["marks"]}  # it is all there, as text
    diagram = invoke("show", path, "--mermaid", "--room", 1).stdout
    assert not re.search(
        r"[<>]script|^\s*Note over E0: x|;", diagram.replace("#59;", "").replace("#35;", ""), re.MULTILINE
    )


def test_many_rooms_are_limited_the_failed_ones_stay_and_the_page_says_so(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Room 3 failed last: it is in a page of two rooms out of thousands."""
    head, steps = lines[0], [line for line in lines if line.get("role") == "sender" and line.get("room") == 1]
    many = [head]
    for number in range(10_000):
        many += [
            {**line, "instance": head["instance"], "no": number + 10, "room": number + 10, "t": head["t"] + number}
            for line in steps
        ]
    failed = [
        {**line, "instance": head["instance"], "t": head["t"] + 20_000}
        for line in lines
        if line.get("role") == "sender" and line.get("room") == 3
    ]
    path = write(tmp_path / "many.jsonl", many + failed)
    page = shown(tmp_path, path, "--limit", 2)
    data = page.data()
    assert data["total"]["rooms"] == 10_001
    assert [room["id"] for room in data["rooms"]] == ["10", "3"]
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "2 of 10,001 rooms are in this page: first those that failed or are not over." in text
    assert len(text) < 200_000


def test_one_room_can_be_asked_for_and_one_that_there_is_not_is_refused(trace: Path, tmp_path: Path) -> None:
    assert [room["id"] for room in shown(tmp_path, trace, "--room", 3).data()["rooms"]] == ["3"]
    result = invoke("show", trace, "--room", 4, "--out", tmp_path / "none.html")
    assert (result.exit_code, "no room 4" in result.output) == (2, True)
    assert not (tmp_path / "none.html").exists()


def test_a_room_as_a_mermaid_diagram(trace: Path) -> None:
    said = invoke("show", trace, "--mermaid", "--room", 1).stdout.splitlines()
    assert said[:2] == ["sequenceDiagram", "    title Room 1: success"]
    assert re.fullmatch(r"    participant E0 as sender 1 of prefill [0-9a-f]{6}", said[2])
    assert re.fullmatch(r"    participant E1 as receiver 1 of decode [0-9a-f]{6}", said[3])
    order = ["E1->>E0: Metadata", "Note over E1: COMMITTED → Success", "E1->>E0: Conclude"]
    places = [next(n for n, line in enumerate(said) if wanted in line) for wanted in order]
    assert places == sorted(places)
    assert any(line.startswith("    Note over E0: CONCLUDED all=True → Success") for line in said[places[-1] :])


def test_messages_of_a_process_without_a_trace_come_from_nowhere(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    decode = next(line["instance"] for line in lines if line.get("process") == "decode")
    path = write(tmp_path / "decode.jsonl", [line for line in lines if line["instance"] == decode])
    said = invoke("show", path, "--mermaid", "--room", 1).stdout
    assert "    participant X as not traced\n" in said
    assert re.search(r"^    X-\)E0: PartDone", said, re.MULTILINE)
    assert re.search(r"^    E0-\)X: Conclude", said, re.MULTILINE)


def test_a_message_that_never_arrives_is_drawn_as_lost(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    lost = [line for line in lines if not (line.get("kind") == "Close" and line.get("way") == "in")]
    said = invoke("show", write(tmp_path / "lost.jsonl", lost), "--mermaid", "--room", 1).stdout
    assert "    E0-xE1: Close\n" in said


def test_a_process_that_was_killed_leaves_its_end_cut_off(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    prefill = next(line["instance"] for line in lines if line.get("process") == "prefill")
    stop = next(n for n, line in enumerate(lines) if line.get("role") == "sender" and line.get("to") == "Transferring")
    kept = [line for n, line in enumerate(lines) if line["instance"] != prefill or n <= stop]
    room = shown(tmp_path, write(tmp_path / "killed.jsonl", kept)).data()["rooms"][0]
    assert [end["cut"] for end in room["ends"]] == [True, False]


def test_lines_that_cannot_be_read_are_counted_in_the_page(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(b"nonsense\n" + (trace / "both.jsonl").read_bytes())
    shown(tmp_path, path)
    assert "1 lines could not be read; kvpoll trace check says which." in (tmp_path / "page.html").read_text()


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_draws_every_room_and_opens_the_one_asked_for(trace: Path, tmp_path: Path) -> None:
    shown(tmp_path, trace)
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path / 'page.html'}",
    ]  # fmt: skip
    drawn = [subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout for line in (
        command, [*command[:-1], f"{command[-1]}#room=3"],
    )]  # fmt: skip
    assert [text.count('<article class="room"') for text in drawn] == [3, 1]
    assert [text.count('class="lane"') for text in drawn] == [6, 2]
    assert 'data-mark="0"' in drawn[1]
    assert "(ABORTED)" in drawn[1].split("<tbody>")[1]


@pytest.mark.parametrize("arguments", [("show", "-"), ("check",), ("show", "x", "--limit", "0")])
def test_wrong_usage_exits_with_two(arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).exit_code == 2
