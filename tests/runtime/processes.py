"""A prefill or decode process of its own, driven line by line: what tests kill, stop and restart.

The parent writes a command a line and reads an answer a line, both JSON. Run as a script this file is the child.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engines import Engine, Room

PATIENCE = 30.0


class Child:
    """One process. Ends for certain when the block does."""

    def __init__(self, role: str, transport: str = "zmq", port: int = 0) -> None:
        command = [sys.executable, __file__, role, transport, str(port)]
        env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._ready = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._ready.register(self._process.stdout, selectors.EVENT_READ)
        self.address: str = self._answer()["address"]

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    def ask(self, name: str, **arguments: object) -> dict[str, Any]:
        """Run a command in the child and wait for its answer."""
        self.tell(name, **arguments)
        return self._answer()

    def tell(self, name: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": name, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        assert self._ready.select(PATIENCE), "the child does not answer"
        line = self._process.stdout.readline()
        assert line, f"the child has ended with {self._process.wait(PATIENCE)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """As a debugger or a frozen machine does: it is there, and does nothing."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Without a word to anybody. Idempotent."""
        if self._process.poll() is None:
            self._process.kill()
            self.resume()
        self._process.wait(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                with suppress(BrokenPipeError):
                    stream.close()
        self._ready.close()

    def close(self) -> dict[str, int]:
        """In good order; what was cut off."""
        cut: dict[str, int] = self.ask("close")["cut"]
        assert self._process.wait(PATIENCE) == 0
        return cut


def child(role: str, transport: str, port: int) -> None:
    from engines import LOSING, Engine  # as a script, this file has its folder on the path

    engine = Engine(role, transport, port=port, durations=LOSING)
    rooms: dict[int, Room] = {}
    answer({"address": engine.manager.address})
    for line in sys.stdin:
        message = json.loads(line)
        answer(run(engine, rooms, message))  # an error ends the child, and the parent sees it on stderr
        if message["do"] == "close":
            return


def run(engine: Engine, rooms: dict[int, Room], message: dict[str, Any]) -> dict[str, Any]:
    from engines import Room, cause

    no = message.get("room", 0)
    match message["do"]:
        case "prefill":
            rooms[no] = Room(engine, None, no)
            rooms[no].prefill(2)
            return {"source": rooms[no].source}
        case "decode":
            rooms[no] = Room(None, engine, no, address=message["address"])
            rooms[no].decode()
            return {}
        case "arrives":
            rooms[no].arrives()
            return {}
        case "commit":
            rooms[no].arrives()
            rooms[no].commit()
            return {"state": rooms[no].receiver.poll().name}
        case "end":
            handle = rooms[no].sender or rooms[no].receiver
            assert engine.manager.wait(lambda: handle.poll().name in ("Success", "Failed"), PATIENCE)
            return {"state": handle.poll().name, "cause": cause(handle)}
        case "idle":
            engine.becomes_idle()
            return {}
        case "close":
            return {"cut": engine.manager.close()}
    raise ValueError(message["do"])


def answer(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
