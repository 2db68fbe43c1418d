"""A hand-off between two processes, against a bare transport call for the same bytes: gather, one call, scatter.

What is timed is from the moment at which the prefill engine calls ``send()`` until ``commit()`` has returned in the decode
process; the room exists by then and both ends know where data goes. What that costs is measured by itself, with a room of
4 KiB. zmq reads large parts from memory that both processes share, where they can; "zmq, sockets" is the same without that,
for comparison. Both processes read the one monotonic clock of the host.

Hand-offs and bare calls take turns, and the order within a turn changes from round to round; the ratio is the median over
rounds of (bare time / our time), so 1 is no loss at all. How memory and threads happen to fall in a process moves the ratio by
a twentieth either way for as long as it lives, so the rounds are spread over several pairs of processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kvpoll.kernels import scatter_pages
from kvpoll.runtime import KVManager, KVReceiver, KVSender
from kvpoll.runtime.transports.memory import BufferPool
from kvpoll.spec import KVPoll

from .handoff_ends import PATIENCE_S, SMALL, SOCKETS, Geometry, Rows, bare_of, manager, now, pool_of, request_of, stage
from .result import Bare, Result

__all__ = ["TRANSPORTS", "run"]

MIB = 1 << 20
#: Mark: of the bare throughput, from this size on.
SHARE, FROM_MIB = 0.9, 16
#: Those that the mark is for; jax is an extra.
MARKED = ("zmq", "jax")
TRANSPORTS = ("zmq", SOCKETS, *(("jax",) if find_spec("jax") else ()), "inproc")
_FULL = Geometry(layers=16, pages=256)
_QUICK = Geometry(layers=4, pages=32)


def run(quick: bool = False, transports: Iterable[str] = TRANSPORTS) -> list[Result]:
    """Thirty seconds for each transport, one when ``quick``. Raises ``RuntimeError`` when a hand-off fails or brings wrong
    bytes."""
    shape, sizes, rounds, rooms, pairs = (_QUICK, (1,), 2, 3, 1) if quick else (_FULL, (1, 16, 64), 12, 20, 8)
    results: list[Result] = []
    for transport in transports:
        times: dict[int, tuple[list[int], list[int]]] = {mib: ([], []) for mib in sizes}
        little: list[int] = []
        for _ in range(pairs):
            pair: _Pair = _OneProcess(shape) if transport == "inproc" else _TwoProcesses(transport, shape)
            try:
                for mib, (ours, plain) in times.items():
                    _measure(pair, shape.pages_for(mib * MIB), 2 if quick else 10, rounds, ours, plain)
                little += [pair.little_room() for _ in range(5 + rooms)][5:]
            finally:
                pair.close()
        results += [_compare(transport, mib, *both) for mib, both in times.items()]
        results.append(_fixed(transport, little))
    return results


class _Pair(Protocol):
    """A prefill and a decode end. Times in nanoseconds."""

    def ours(self, pages: int) -> int: ...
    def plain(self, pages: int) -> int: ...
    def little_room(self) -> int: ...
    def check(self, pages: int) -> None: ...
    def close(self) -> None: ...


def _measure(pair: _Pair, pages: int, warm: int, rounds: int, ours: list[int], plain: list[int]) -> None:
    """Adds ``rounds`` times to each list."""
    for number in range(warm + rounds):
        turn = [(pair.ours, ours), (pair.plain, plain)]
        for measure, row in turn if number % 2 else reversed(turn):
            spent = measure(pages)
            if number >= warm:
                row.append(spent)
            if number == 0:
                pair.check(pages)


def _compare(transport: str, mib: int, ours: list[int], plain: list[int]) -> Result:
    counts = mib >= FROM_MIB and transport in MARKED
    nbytes = mib * MIB
    return Result(
        f"{transport} {mib} MiB / bare call",
        median(b / a for a, b in zip(ours, plain, strict=True)),
        SHARE if counts else None,
        at_least=True,
        says="median over rounds of bare time / our time",
        bare=(
            Bare("ours median", median(ours) / 1e6, "ms"),
            Bare("bare median", median(plain) / 1e6, "ms"),
            Bare("best / best", min(plain) / min(ours), "x"),
            Bare("ours", nbytes / median(ours), "GB/s"),
        ),
    )


def _fixed(transport: str, times: list[int]) -> Result:
    return Result(
        f"{transport} one room of 4 KiB",
        says="from create to Success at both ends",
        bare=(Bare("median", median(times) / 1e6, "ms"), Bare("best", min(times) / 1e6, "ms")),
    )


class _Decode:
    """The decode end: this process, in either case."""

    def __init__(self, transport: str, shape: Geometry) -> None:
        self.shape = shape
        self.pool, self.little = pool_of(shape, fill=False), pool_of(SMALL, fill=False)
        self.manager, self.small = manager("decode", transport, shape), manager("decode", transport, SMALL)
        self.room = 0

    def receiver(self, address: str, pages: int) -> KVReceiver:
        """A receiver for the next room, that has said where data goes."""
        self.room += 1
        receiver = KVReceiver(
            self.manager, "", 0, self.room, request_of(self.room, self.shape, pages), address=address
        )  # fmt: skip
        receiver.init()
        receiver.send_metadata(self.shape.chosen(pages, "decode"))
        return receiver

    def take(self, receiver: KVReceiver, pool: list[Rows], within: KVManager) -> int:
        """Wait for everything and commit it; the time at which that was done."""
        over = (KVPoll.Failed, KVPoll.Success)
        if not within.wait(lambda: receiver.committable or receiver.poll() in over, PATIENCE_S):
            raise RuntimeError(f"room {receiver.bootstrap_room} stays in {receiver.poll().name}")
        receiver.commit(pool)
        end = now()
        for _ in within.released():
            pass
        return end

    def scatter(self, rows: Rows, pages: int) -> int:
        scatter_pages(self.pool, self.shape.chosen(pages, "decode"), rows)
        return now()

    def check(self, pages: int) -> None:
        """Everything that was to arrive did, bit for bit; then wipe it, for the next check."""
        source, here = self.shape.chosen(pages, "prefill"), self.shape.chosen(pages, "decode")
        for layer, sent in zip(self.pool, pool_of(self.shape, fill=True), strict=True):
            if not np.array_equal(layer[here], sent[source]):
                raise RuntimeError("a hand-off brought wrong bytes")
            layer[here] = 0

    def rows_shape(self, pages: int) -> tuple[int, int, int]:
        return self.shape.layers, pages, self.shape.tokens * self.shape.words

    def close(self) -> None:
        for each in (self.manager, self.small):
            if cut := each.close():
                raise RuntimeError(f"close cut off {cut}")


class _TwoProcesses:
    """The prefill end is a child."""

    def __init__(self, transport: str, shape: Geometry) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.handoff_prefill"], cwd=Path(__file__).parents[1], text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            self._bare = bare_of(transport)
            listens = transport != "jax"  # the decode end does, there; in jax.experimental.transfer the prefill end
            self._tell(
                transport=transport,
                layers=shape.layers,
                pages=shape.pages,
                offered=self._bare.offer() if listens else None,
            )
            self._decode = _Decode(transport, shape)
            hello = self._reply()
        except BaseException:
            self._child.kill()
            raise
        if not listens:
            self._bare.connect(hello["offered"])
        self._address, self._small = str(hello["address"]), str(hello["small"])

    def ours(self, pages: int) -> int:
        receiver = self._decode.receiver(self._address, pages)
        self._tell(do="room", room=receiver.bootstrap_room, pages=pages)
        self._reply()
        self._tell(do="send", room=receiver.bootstrap_room, pages=pages)
        end = self._decode.take(receiver, self._decode.pool, self._decode.manager)
        return end - int(self._reply()["start"])

    def plain(self, pages: int) -> int:
        self._tell(do="plain", pages=pages)
        said = self._reply()
        rows = self._bare.receive(int(said["key"]), self._decode.rows_shape(pages))
        end = self._decode.scatter(rows, pages)
        self._tell(do="received")
        return end - int(said["start"])

    def little_room(self) -> int:
        decode = self._decode
        decode.room += 1
        self._tell(do="little", room=decode.room)
        spent = int(self._reply()["spent"])
        start = now()
        receiver = KVReceiver(decode.small, "", 0, decode.room, request_of(decode.room, SMALL, 1), address=self._small)
        receiver.init()
        receiver.send_metadata([2])
        end = decode.take(receiver, decode.little, decode.small)
        return max(end, int(self._reply()["end"])) - start + spent

    def check(self, pages: int) -> None:
        self._decode.check(pages)

    def close(self) -> None:
        try:
            if self._child.poll() is None:
                self._tell(do="stop")
            self._decode.close()
            self._bare.close()
            self._child.wait(PATIENCE_S)
        finally:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()

    def _tell(self, **what: object) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(what) + "\n")

    def _reply(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the prefill process ended with {self._child.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply


class _OneProcess:
    """Both ends here, over ``inproc``: the bare call is one copy into a warm buffer."""

    def __init__(self, shape: Geometry) -> None:
        self._decode = _Decode("inproc", shape)
        self._source, self._little = pool_of(shape, fill=True), pool_of(SMALL, fill=True)
        self._manager, self._small = manager("prefill", "inproc", shape), manager("prefill", "inproc", SMALL)
        self._buffers = BufferPool(256 * MIB)

    def ours(self, pages: int) -> int:
        receiver = self._decode.receiver(self._manager.address, pages)
        sender = KVSender(self._manager, receiver.bootstrap_room, receiver.request)
        sender.init(pages)
        self._manager.wait(lambda: sender.poll() is not KVPoll.Bootstrapping, PATIENCE_S)
        start = now()
        sender.send(self._ids(pages), self._source)
        end = self._decode.take(receiver, self._decode.pool, self._decode.manager)
        self._manager.wait(lambda: sender.poll() is KVPoll.Success, PATIENCE_S)
        for _ in self._manager.released():
            pass
        return end - start

    def plain(self, pages: int) -> int:
        start = now()
        rows = stage(self._buffers, self._source, self._ids(pages))
        landed = self._buffers.lend(rows.nbytes).view(np.uint16).reshape(rows.shape)
        np.copyto(landed, rows)
        return self._decode.scatter(landed, pages) - start

    def little_room(self) -> int:
        decode = self._decode
        decode.room += 1
        start = now()
        sender = KVSender(self._small, decode.room, request_of(decode.room, SMALL, 1))
        sender.init(1)
        sender.send([1], self._little)
        receiver = KVReceiver(
            decode.small, "", 0, decode.room, request_of(decode.room, SMALL, 1), address=self._small.address
        )
        receiver.init()
        receiver.send_metadata([2])
        decode.take(receiver, decode.little, decode.small)
        self._small.wait(lambda: sender.poll() is KVPoll.Success, PATIENCE_S)
        end = now()
        for _ in self._small.released():
            pass
        return end - start

    def check(self, pages: int) -> None:
        self._decode.check(pages)

    def close(self) -> None:
        self._decode.close()
        self._manager.close()
        self._small.close()

    def _ids(self, pages: int) -> npt.NDArray[np.int32]:
        return self._decode.shape.chosen(pages, "prefill")
