"""The ways in: the command line, pytest, traces, and the examples."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.model_tests.conformance.load import LoadError, load
from kvpoll.model_tests.conformance.replay import judge_traces
from kvpoll.model_tests.conformance.result import Verdict, read_result

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "conformance"
run = CliRunner().invoke


def test_the_reference_passes_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    done = run(cli, ["conformance", "run", "--run", "handoff/order/*", "--output", str(out)])
    assert done.exit_code == 0, done.output
    assert "18 pass" in done.output
    assert read_result(out).counts[Verdict.PASS] == 18


def test_a_wrong_engine_fails_and_is_written_down(tmp_path: Path) -> None:
    plug = tmp_path / "wrong_plug.py"
    plug.write_text(
        "from kvpoll.model_tests.conformance.wrong import WRONG\nmake = WRONG['too few destinations are a Success']\n"
    )
    out, known = tmp_path / "result.json", tmp_path / "known.txt"
    common = ["conformance", "run", "--impl", f"{plug}:make", "--in-process", "--run", "handoff/lengths/*"]
    assert run(cli, [*common, "--output", str(out)]).exit_code == 1
    done = run(cli, ["conformance", "write-known-failing", str(out), "--output", str(known)])
    assert done.exit_code == 0, done.output
    assert run(cli, [*common, "--known-failing", str(known)]).exit_code == 0
    known.write_text(known.read_text() + "no/such/*  fail  x  -  until=2999-01-01\n")
    assert run(cli, [*common, "--known-failing", str(known)]).exit_code == 1
    assert run(cli, ["conformance", "prune", str(out), str(known)]).exit_code == 0
    assert "no/such" not in known.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--impl", "nothing"], "expected module:make"),
        (["run", "--impl", "no.such.module:make"], "no module no.such.module"),
        (["run", "--impl", "nowhere.py:make"], "no file"),
        (["run", "--run", "nothing/*"], "no case is like"),
        (["run", "--level", "may"], "--level"),
        (["explain", "KVX-MEM-99"], "KVX-MEM-1"),
        (["explain", "handoff/none/1"], "no case"),
        (["run", "--known-failing", "/nowhere"], "No such file"),
    ],
)
def test_what_could_not_be_found_out_is_status_two(arguments: list[str], says: str) -> None:
    more = ["--in-process"] if arguments[0] == "run" else []
    done = run(cli, ["conformance", *arguments, *more])
    assert done.exit_code == 2
    assert says in done.output


def test_cases_and_requirements_are_listed_and_explained() -> None:
    assert "handoff/plain/001" in run(cli, ["conformance", "list"]).output
    assert "KVX-MEM-2" in run(cli, ["conformance", "list", "--requirements"]).output
    told = run(cli, ["conformance", "explain", "kvx-abort-1"]).output
    assert "A side that aborts is Failed at once" in told
    told = run(cli, ["conformance", "explain", "handoff/plain/001"]).output
    assert "send A 4 last" in told
    assert "KVX-DATA-1 (MUST)" in told


def _pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    plugin = ["-p", "kvpoll.model_tests.conformance.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
    registered = "kvpoll.model_tests.conformance.pytest_plugin" in {e.value for e in entry_points(group="pytest11")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *([] if registered else plugin),
        "--pyargs",
        "kvpoll.model_tests",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110, check=False)


def test_pytest_collects_the_cases_for_an_adapter() -> None:
    done = _pytest("--kvpoll-impl", "kvpoll.model_tests.conformance.reference:make", "-k", "order")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "18 passed" in done.stdout


def test_examples_pass_and_are_as_short_as_promised() -> None:
    lines = {name: (EXAMPLES / name).read_text().splitlines() for name in ("adapter.py", "process_plug.py")}
    assert sum(bool(line.strip()) for line in lines["adapter.py"]) <= 25
    assert len(lines["process_plug.py"]) <= 60
    by_lines = f"{sys.executable} {EXAMPLES / 'process_plug.py'}"
    for plug in (["--impl", f"{EXAMPLES / 'adapter.py'}:Toy"], ["--process", by_lines]):
        done = run(cli, ["conformance", "run", *plug, "--run", "handoff/plain/*", "--run", "abort/twice/00*"])
        assert done.exit_code == 0, done.output
        assert "pass" in done.output


def test_an_adapter_is_found_by_name() -> None:
    assert load("kvpoll.model_tests.conformance.reference:make")().about().name == "kvpoll reference"
    with pytest.raises(LoadError, match="no callable 'nothing'"):
        load("kvpoll.model_tests.conformance.reference:nothing")


# -- traces ------------------------------------------------------------------------------------------------------------
_STEP = '{"t":%d,"instance":"a","role":"receiver","no":1,"room":7,"event":"X","from":"%s","to":"%s","cause":"%s"}\n'


def _trace(*steps: tuple[str, str]) -> bytes:
    return "".join(_STEP % (at, a, b, "ABORTED" if b == "Failed" else "") for at, (a, b) in enumerate(steps)).encode()


def _verdict(data: bytes, id: str) -> Verdict:
    result = judge_traces([("t", data)])
    return next(each.verdict for each in result.cases if each.requirements == (id,))


def test_a_trace_is_judged_requirement_by_requirement() -> None:
    left = _trace(("Bootstrapping", "Failed"), ("Failed", "Success"))
    back = _trace(("Bootstrapping", "Transferring"), ("Transferring", "WaitingForInput"))
    assert _verdict(left, "KVX-STATE-2") is Verdict.FAIL
    assert _verdict(left, "KVX-STATE-3") is Verdict.PASS
    assert _verdict(back, "KVX-STATE-3") is Verdict.FAIL
    assert _verdict(back.replace(b'"WaitingForInput"', b'"Limbo"'), "KVX-STATE-1") is Verdict.FAIL
    assert judge_traces([("t", left)]).status == 1


def test_the_order_of_ends_is_judged_over_both_traces() -> None:
    failed = _trace(("Bootstrapping", "Failed"))
    sender = b"""{"t":9,"instance":"b","role":"sender","no":4,"room":7,"event":"X","from":"Transferring","to":"Success",
    "engine":"e","gen":1}""".replace(b"\n", b"")
    assert _verdict(failed + sender, "KVX-KV-1") is Verdict.FAIL
    assert _verdict(failed + sender, "KVX-DATA-3") is Verdict.NON_STRICT
    assert _verdict(_trace(("Bootstrapping", "Success")) + sender, "KVX-KV-1") is Verdict.PASS


def test_a_file_without_rooms_is_not_judged(tmp_path: Path) -> None:
    assert judge_traces([("t", b"{}\n")]).status == 2
    (tmp_path / "empty.jsonl").write_text("")
    assert run(cli, ["conformance", "trace", str(tmp_path / "empty.jsonl")]).exit_code == 2
