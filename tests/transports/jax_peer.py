"""A peer process with one JaxPullTransport, driven by JSON lines: ``[command, arguments...]`` in, one answer out.

Run as a script it is the peer; imported, it has what tests need to drive peers and transports.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading

import numpy as np

from kvpoll.runtime.transports.base import Operation, OpReport, Outcome, PayloadSpec, PeerFenced
from kvpoll.runtime.transports.jax_payload import aligned_empty
from kvpoll.runtime.transports.jax_pull import JaxPullTransport

MIB = 1 << 20
PATIENCE = 20.0  # bounds a failure, never asserted on


class Driven:
    """A started transport with all its reports so far."""

    def __init__(self, **options):
        self.transport = JaxPullTransport(**options)
        self.reports = []
        self._keys = set()
        self._news = threading.Condition()
        self.transport.start(self._notify)

    def _notify(self):
        with self._news:
            self._news.notify_all()

    def until(self, seen):
        """Polls and ticks until ``seen()``; wakes up with each notification."""
        turns = int(PATIENCE / 0.01)
        for _ in range(turns):
            self.reports += self.transport.poll()
            if seen():
                return
            with self._news:
                self._news.wait(0.01)
            self.transport.tick()
        raise AssertionError(f"never seen; reports {self.reports}, gauges {self.transport.gauges()}")

    def outcomes(self, op):
        return [each.outcome for each in self.reports if isinstance(each, OpReport) and each.op == op]

    def end_of(self, op):
        """Outcome names of an operation up to its last report."""
        self.until(lambda: any(each is not Outcome.UNRESOLVED for each in self.outcomes(op)))
        return self.outcomes(op)

    def fenced(self, link):
        self.until(lambda: PeerFenced(link) in self.reports)

    def idle(self):
        self.until(lambda: not any(self.transport.gauges().values()))

    def pull(self, op, link, key, shape, dtype="uint8"):
        self._keys.add(key)
        self.transport.submit(Operation(op, link, key, 0, PayloadSpec(tuple(shape), dtype)))

    def leave(self, link):
        """Close the peer and drop all that was fetched so far."""
        self.transport.close_peer(link)
        for key in self._keys:
            self.transport.release(key)
        self._keys.clear()
        self.reports += self.transport.poll()


def resident(pid="self"):
    """Resident memory of a process, bytes."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pattern(count, dtype, seed=1):
    array = aligned_empty((count,), dtype)
    array[:] = (
        np.random.default_rng(seed)
        .integers(0, np.iinfo(dtype).max, 4096, dtype, True)
        .repeat(-(-count // 4096))[:count]
    )
    return array


class Peer:
    """The other end of the pipe."""

    def __init__(self, **options):
        self.process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, *command):
        self.tell(*command)
        return self.answer()

    def tell(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the peer does not answer"
        line = self.process.stdout.readline()
        assert line, "the peer is gone"
        return json.loads(line)

    def signal(self, number):
        os.kill(self.process.pid, number)
        if number == signal.SIGSTOP:  # it takes effect when the kernel says so, not before
            os.waitpid(self.process.pid, os.WUNTRACED)

    def kill(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def serve(driven):
    transport = driven.transport
    kept = {}
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        answer = None
        if command == "descriptor":
            answer = dict(transport.descriptor(*arguments))
        elif command == "open":
            transport.open_peer(*arguments)
        elif command == "offer":
            link, key, count, dtype = arguments
            kept[key] = pattern(count, dtype)
            transport.offer(link, key, kept[key])
        elif command == "withdraw":
            transport.withdraw(*arguments)
        elif command == "forget":
            transport.forget(*arguments)
            kept.pop(*arguments, None)
        elif command == "pull":
            driven.pull(*arguments)
        elif command == "end":
            answer = [each.value for each in driven.end_of(*arguments)]
        elif command == "same":
            key, count, dtype = arguments
            answer = bool(np.array_equal(np.asarray(transport.collect(key, 0)), pattern(count, dtype)))
            transport.release(key)
        elif command == "idle":
            driven.idle()
        print(json.dumps(answer), flush=True)
    transport.close()


if __name__ == "__main__":
    serve(Driven(**json.loads(sys.argv[1])))
