"""How fast traces are checked: ``Checker`` against decoding the same lines into dictionaries, and doing nothing with them.

The lines are those of real rooms (prefill and decode over ``inproc``, in chunks), copied under other names until there are
half a million. Both read them in pieces, as the command does, with the garbage collector off; the check includes its end,
where the traces of both ends are compared. Times are those of the processor: one thread does it all. What a line costs the
process that writes it stands beside.
"""

from __future__ import annotations

import gc
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import process_time

import msgspec

from kvpoll.protocol.trace import Checker, split
from kvpoll.runtime import KVManager, KVReceiver, KVSender, ManagerConfig
from kvpoll.runtime.trace import Trace
from kvpoll.spec.wire import Heartbeat

from .handoff_ends import PATIENCE_S, SMALL, pool_of, request_of
from .result import Bare, Result

__all__ = ["run"]

#: Mark: times the bare decode. On a machine that decodes two million lines a second it is half a million checked.
MARK = 4.0
LINES = 500_000
_PIECE = 1 << 18
_CHUNKS = 3


def run(quick: bool = False) -> list[Result]:
    """Some ten seconds; two when ``quick`` (fewer lines). Raises ``RuntimeError`` when the check finds a bad line."""
    data = _copied(_traced(8 if quick else 64), 20_000 if quick else LINES)
    lines = data.count(b"\n")
    with _collector_off():
        ours, plain = [], []
        for _ in range(3 if quick else 7):
            plain.append(_timed(lambda: _decode(data)))
            ours.append(_timed(lambda: _check(data)))
    best, bare = min(ours), min(plain)
    return [
        Result(
            "check of a trace / bare decode", best / bare, MARK, says="best over rounds; the same lines, in turns",
            bare=(
                Bare("checked", lines / best, "lines/s"), Bare("decoded", lines / bare, "lines/s"),
                Bare("lines", lines, "lines"),
            ),
        ),
        Result("writing a line", says="a message, into the buffer and the file", bare=(Bare("best", _write() * 1e6, "us"),)),
    ]  # fmt: skip


def _check(data: bytes) -> None:
    checker, number = Checker(), 1
    checker.file("trace.jsonl")
    for piece in _pieces(data):
        number = checker.feed(piece, number)
    verdict = checker.verdict()
    if verdict.status:
        raise RuntimeError(f"a real trace is called bad: {verdict.bad[:1]} {verdict.notes}")


def _decode(data: bytes) -> None:
    decoder = msgspec.json.Decoder()
    for piece in _pieces(data):
        for _ in decoder.decode_lines(piece):
            pass


def _pieces(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        whole, _ = split(data[at : at + _PIECE])
        at += len(whole)
        yield whole


def _traced(rooms: int) -> bytes:
    """The trace of both ends of some rooms."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        with ExitStack() as stack:
            prefill, decode = (stack.enter_context(_manager(role, path)) for role in ("prefill", "decode"))
            for number in range(rooms):
                _hand_over(prefill, decode, number)
        return path.read_bytes()


@contextmanager
def _manager(role: str, path: Path) -> Iterator[KVManager]:
    config = {
        "role": role,
        "engine": SMALL.engine(),
        "transports": ("inproc",),
        "bootstrap": "none",
        "trace": str(path),
    }
    manager = KVManager(ManagerConfig.model_validate(config))
    try:
        yield manager
    finally:
        manager.close()


def _hand_over(prefill: KVManager, decode: KVManager, number: int) -> None:
    pool, other = pool_of(SMALL, fill=True), pool_of(SMALL, fill=False)
    request = request_of(number, SMALL, _CHUNKS)
    receiver = KVReceiver(decode, "", 0, number, request, address=prefill.address)
    receiver.init()
    receiver.send_metadata(range(_CHUNKS))
    sender = KVSender(prefill, number, request)
    sender.init(_CHUNKS)
    for page in range(_CHUNKS):
        sender.send([page], pool)
    if not decode.wait(lambda: receiver.committable, PATIENCE_S):
        raise RuntimeError(f"room {number} stays in {receiver.poll().name}")
    receiver.commit(other)
    if not prefill.wait(lambda: sender.poll().name == "Success", PATIENCE_S):
        raise RuntimeError(f"the sender of room {number} stays in {sender.poll().name}")


def _copied(text: bytes, lines: int) -> bytes:
    """The same processes under other names, until there are so many lines."""
    names = sorted(set(re.findall(rb'"(?:instance|engine|link)":"([0-9a-f]+)"', text)))
    copies = []
    for copy in range(-(-lines // text.count(b"\n"))):
        other = text
        for name in names:
            other = other.replace(b'"%s"' % name, b'"%s%04x"' % (name[:-4], copy))
        copies.append(other)
    return b"".join(copies)


def _write() -> float:
    """Seconds for each line."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(f"{folder}/trace.jsonl", 1, lambda: 0, lambda key: None)
        message, times = Heartbeat(link=1, source=1), 2000
        seconds = min(_timed(lambda: _say(trace, message, times)) for _ in range(5))
        trace.close()
    return seconds / times


def _say(trace: Trace, message: Heartbeat, times: int) -> None:
    for _ in range(times):
        trace.message("out", message)


def _timed(action: Callable[[], object]) -> float:
    start = process_time()
    action()
    return process_time() - start


@contextmanager
def _collector_off() -> Iterator[None]:
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
