"""The process plug: whatever a testee does to its process, the run goes on and says what it was."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from kvpoll.model_tests.conformance.calls import Gone
from kvpoll.model_tests.conformance.cases import all_cases, find
from kvpoll.model_tests.conformance.plug import Adapter, Refused, Unsupported
from kvpoll.model_tests.conformance.process import ProcessAdapter
from kvpoll.model_tests.conformance.result import Verdict
from kvpoll.model_tests.conformance.run import run_suite

#: A plug that does something terrible when a certain call comes in a certain case.
_BAD = """
import os, sys
from kvpoll.model_tests.conformance.reference import Reference

class Bad(Reference):
    case = ""
    def begin(self, case, fresh):
        self.case = case
        super().begin(case, fresh)
    def send(self, room, pages, last):
        if "cut-2" in self.case:
            {harm}
        super().send(room, pages, last)
"""
_FLOOD = ["chunk = b'x' * (1 << 20)", "for _ in range(1024): os.write({}, chunk)"]
_HARMS = {
    "os._exit": (["os._exit(3)"], Verdict.CRASH, "left with exit status 3"),
    "a signal": (["os.abort()"], Verdict.CRASH, "was killed by SIGABRT"),
    "an endless loop": (["while True: pass"], Verdict.TIMEOUT, "did not return in time"),
    "a gigabyte of noise": ([each.format(2) for each in _FLOOD], Verdict.CRASH, "to standard error"),
    "a gigabyte of answers": ([each.format("_pipe()") for each in _FLOOD], Verdict.CRASH, "without the end of a line"),
    "closed pipes": (["os.closerange(1, 20)", "__import__('signal').pause()"], Verdict.CRASH, "closed its pipes"),
}
_PIPE = """
import stat
def _pipe():
    # Where answers go: the one pipe beyond the three that every process has.
    for fd in range(3, 20):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                return fd
        except OSError:
            pass
"""


def _host(name: str) -> list[str]:
    return [sys.executable, "-m", "kvpoll.model_tests.conformance.host", name]


@pytest.mark.parametrize("what", _HARMS)
def test_the_run_goes_on_after(what: str, tmp_path: Path) -> None:
    harm, verdict, says = _HARMS[what]
    plug = tmp_path / "bad_plug.py"
    plug.write_text(_BAD.replace("{harm}", "\n            ".join(harm)) + _PIPE)
    ids = ["handoff/plain/001", "handoff/cut-2/001", "handoff/cut-5/001"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def make() -> Adapter:
        return ProcessAdapter(_host(f"{plug}:Bad"), timeout=1.0 if verdict is Verdict.TIMEOUT else 20.0)

    result = run_suite(make, [find(id) for id in ids])
    assert [each.verdict for each in result.cases] == [Verdict.PASS, verdict, Verdict.PASS]
    assert says in result.cases[1].reason
    assert result.cases[1].trace[-1].what == "gone"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB: a flood is not kept


def test_a_plug_in_another_process_is_judged_like_one_in_this_one() -> None:
    cases = [all_cases()[0], *all_cases()[5::29]]
    here = run_suite(lambda: ProcessAdapter(_host("kvpoll.model_tests.conformance.reference:make")), cases)
    assert {each.verdict for each in here.cases} <= {Verdict.PASS, Verdict.UNSUPPORTED}


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("print('hello')", "expected an answer"),
        ("print('{}')", "expected an answer"),
        ("print('{\"id\": 9}')", "expected the answer to 1"),
        ("import sys; print('boo', file=sys.stderr); sys.exit(4)", "exit status 4; it said: boo"),
        ('print(\'{"id": 1, "value": {"name": 3}}\')', "about"),
    ],
)
def test_a_program_that_is_no_plug_does_not_start(script: str, says: str) -> None:
    with pytest.raises(Gone, match=says):
        ProcessAdapter([sys.executable, "-c", script])


def test_a_program_that_there_is_not_does_not_start() -> None:
    with pytest.raises(Gone, match="does not start"):
        ProcessAdapter(["/nowhere/at/all"])


def test_answers_are_told_apart() -> None:
    plug = ProcessAdapter(_host("kvpoll.model_tests.conformance.reference:make"))
    try:
        with pytest.raises(Refused, match="room 5 is unknown"):
            plug.poll("decode", 5)
        with pytest.raises(Unsupported):
            plug.fault("decode", 5, "nothing-that-is-known")
        with pytest.raises(Unsupported):
            plug.unknown()
        plug.fill("decode", [1, 2], bytes(range(32)))
        assert plug.read("decode", [2]) == bytes(range(16, 32))
    finally:
        plug.close()
