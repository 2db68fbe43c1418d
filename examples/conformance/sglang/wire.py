"""Peers of every release against SGLang 0.5.23, with its own parsers and with its own threads; one document.

    python examples/conformance/sglang/wire.py --write docs/conformance/sglang-0.5.23-wire.json

First each message is written as each release wrote it and read by the parser that this release has, and the other way round
by what the older layouts read (``parse.py`` asks SGLang's code). Then what an old decode sends first is sent to a running
prefill, and the hand-off of a decode of its own release that follows says whether the prefill survived it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
import pair as processes
import zmq
from msgspec.structs import replace

from kvpoll.model_tests.conformance.result import CaseResult, TraceStep, Verdict, text_of, write_result
from kvpoll.model_tests.conformance.wire_profiles import ReadError, newest, same_words, wire_result
from kvpoll.protocol.evolution.encodings import ENCODINGS, Value
from kvpoll.protocol.evolution.slots import Layout, LayoutFile, Variant, frames_of
from kvpoll.spec.requirements_wire import WIRE

#: Messages whose parser can be called by itself.
PARSED = ("metadata", "registration", "status", "ABORT", "ABORT_ACK")
#: Messages that the decode side sends; the file of layouts does not say.
FROM_DECODE = ("metadata", "registration", "ABORT", "BOOTSTRAP")
ALIVE = text_of(next(each for each in WIRE if each.id == "KVX-WIRE-3"))
#: What a decode sends to a prefill that it does not know better.
PUSHED = ("metadata", "registration", "ABORT")
#: What a decode of one rank says of itself.
_USUAL = {
    "dst_tp_rank": 0, "dst_tp_size": 1, "dst_attn_tp_size": 1, "dst_dcp_size": 1, "dst_dcp_rank": 0, "required_dst_info_num": 1,
    "enable_hisparse": 0, "dst_kv_item_len": 64,
}  # fmt: skip
_STATE = {2: "WaitingForInput", 4: "Success"}


class Parser:
    """SGLang's parsers, in their own environment. A reader for the suite; use it as a context."""

    def __enter__(self) -> Parser:
        command, environment = processes.program("parse.py")
        self._child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def __call__(self, message: str, frames: Sequence[bytes]) -> Mapping[str, Value]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps([message, [frame.hex() for frame in frames]]) + "\n")
        self._child.stdin.flush()
        answer = json.loads(self._child.stdout.readline())
        if "ok" not in answer:
            raise ReadError(answer["raised"])
        found: Mapping[str, Value] = answer["ok"]
        return found


def alive(pair: processes.Pair, layouts: Sequence[Layout]) -> Iterator[CaseResult]:
    """A message of each layout that a decode sends, at a running prefill; then a hand-off of the prefill's own release."""
    for number, layout in enumerate(layouts):
        for variant in Variant:
            pair.renew()
            frames = _usual(layout, variant)
            _push(int(str(pair.tell("prefill", "port"))), frames)
            clock = time.perf_counter()
            why = _handoff(pair, 10_000 + number)
            span = f"{layout.first_release}-{layout.last_release}"
            yield CaseResult(
                id=f"wire/alive/{layout.id}-{variant.value}".lower(),
                title=f"A hand-off after {layout.message} of {span}, {variant.value}",
                requirements=(ALIVE.id,), level="MUST", role="prefill",
                verdict=Verdict.FAIL if why else Verdict.PASS, reason=f"{ALIVE.id}: {why}" if why else "",
                seconds=round(time.perf_counter() - clock, 3), broken=(ALIVE.id,) if why else (),
                trace=(
                    TraceStep("decode", f"writes {len(frames)} frames as {layout.id}", _shown(frames)),
                    TraceStep("suite", "a hand-off with another peer", why or "Success"),
                ),
            )  # fmt: skip


def _usual(layout: Layout, variant: Variant) -> list[bytes]:
    """The message as a peer of the same shape sends it: one rank, no DCP."""
    frames, _ = frames_of(layout, variant)
    for slot in layout.frames:
        if slot.name in _USUAL:
            frames[slot.slot] = ENCODINGS[slot.enc].write(_USUAL[slot.name])
    return frames


def _shown(frames: Sequence[bytes]) -> str:
    return " ".join(frame.hex() or "-" for frame in frames)[:600]


def _push(port: int, frames: Sequence[bytes]) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.linger = 1000
        socket.connect(f"tcp://127.0.0.1:{port}")
        socket.send_multipart(frames)


def _handoff(pair: processes.Pair, room: int) -> str:
    """Why it does not succeed; empty when it does."""
    pair.tell("prefill", "create", room, 1)
    pair.tell("decode", "create", room, 1)
    pair.tell("decode", "init", room)
    pair.tell("decode", "metadata", room, [1])
    if why := _until(pair, "prefill", room, 2):
        return why
    pair.tell("prefill", "init", room)
    pair.tell("prefill", "send", room, [1])
    return _until(pair, "prefill", room, 4) or _until(pair, "decode", room, 4)


def _until(pair: processes.Pair, role: str, room: int, state: int) -> str:
    end = time.monotonic() + processes.LIMITS["total"]
    while (found := int(str(pair.tell(role, "poll", room)))) != state:
        if time.monotonic() > end or found in (0, 4):
            return f"{role} is {found}, expected {_STATE[state]}: {pair.tell(role, 'why', room)}"
        time.sleep(0.005)
    return ""


def _directed(layout: Layout) -> Layout:
    return replace(layout, direction="decode->prefill" if layout.message in FROM_DECODE else "prefill->decode")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", type=Path, help="the document")
    said = arguments.parse_args()
    text = files("kvpoll.spec").joinpath("history", "slots.json").read_bytes()
    layouts = [_directed(each) for each in same_words(msgspec.json.decode(text, type=LayoutFile).layouts.values())]
    ours = [layout for layout in newest(layouts) if layout.message in PARSED]
    clock = time.perf_counter()
    with Parser() as parser:
        result = wire_result(
            "sglang", processes.VERSION, ours, layouts, reader=parser, environment={"read by": "SGLang's own parsers"}
        )
    pair = processes.Pair("copy")
    try:
        lives = tuple(alive(pair, [layout for layout in layouts if layout.message in PUSHED]))
    finally:
        pair.close()
    result = replace(
        result, cases=(*result.cases, *lives), requirements=(*result.requirements, ALIVE),
        seconds=round(time.perf_counter() - clock, 3),
    )  # fmt: skip
    if said.write:
        write_result(result, said.write)
    for case in result.cases:
        if case.verdict is not Verdict.PASS:
            print(f"{case.verdict.value}  {case.id}  {case.reason[:200]}")
    print(", ".join(f"{number} {verdict.value}" for verdict, number in result.counts.most_common()))
    return result.status


if __name__ == "__main__":
    sys.exit(main())
