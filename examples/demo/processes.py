"""Starting and ending what the demonstration consists of: the bootstrap service and the engines, as processes.

Children are in a session of their own, so that Ctrl-C reaches the router alone, which then ends them; and they end by
themselves when their stdin does, whatever became of the router.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import IO

from demo.setting import TTL_S, EngineSetting, Message
from demo.worker import make_engine
from kvpoll.protocol.errors import KvpollError
from kvpoll.runtime import KVBootstrapServer
from kvpoll.runtime.bootstrap.registry import Limits

__all__ = ["BootstrapProcess", "BootstrapThread", "EngineProcess", "EngineThread", "Events"]

#: (engine, event), from every engine to the one thread of the router.
Events = Queue[tuple[str, Message]]


class EngineProcess:
    """An engine that is a process. Between :meth:`start` and its first event, ``ready``, it is told nothing."""

    def __init__(self, name: str, events: Events) -> None:
        self.name = name
        self._events = events
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - the child's stderr, for as long as there is a child
        self._child = _spawn(["-m", "demo.worker"], self._errors, {})
        self.pid = self._child.pid
        threading.Thread(target=self._listen, name=f"events of {self.name}", daemon=True).start()

    def start(self, setting: EngineSetting) -> None:
        """It has loaded its libraries meanwhile."""
        self.tell(setting.to_message())

    def tell(self, command: Message) -> None:
        """Nothing happens when the engine is gone: an event says so."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(command).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Not dead, and not heard of again."""
        os.kill(self.pid, signal.SIGSTOP)

    def end(self, timeout: float) -> int:
        """Wait for its end, and make it end if need be; the exit status."""
        return _end(self._child, timeout)

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        self._errors.seek(0)
        return "\n".join(self._errors.read().decode(errors="replace").strip().splitlines()[-12:])

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._events.put((self.name, json.loads(line)))
        self._events.put((self.name, {"event": "gone"}))


class EngineThread:
    """An engine in this process, for the transport ``inproc``."""

    def __init__(self, name: str, events: Events) -> None:
        self.name = name
        self.pid = os.getpid()
        self._events = events
        self._error = ""

    def start(self, setting: EngineSetting) -> None:
        self._thread = threading.Thread(target=self._run, args=(setting,), name=self.name, daemon=True)
        self._thread.start()

    def tell(self, command: Message) -> None:
        self._engine.push(command)

    def kill(self) -> None:
        raise AssertionError("an engine that is a thread cannot be killed")

    stop = kill

    def end(self, timeout: float) -> int:
        self._thread.join(timeout)
        return int(self._thread.is_alive() or bool(self._error))

    def last_words(self) -> str:
        return self._error

    def _run(self, setting: EngineSetting) -> None:
        try:
            self._engine = make_engine(setting, lambda event: self._events.put((self.name, event)))
            self._engine.run()
        except (KvpollError, ValueError, AssertionError, LookupError, OSError) as error:
            self._error = f"{type(error).__name__}: {error}"
            self._events.put((self.name, {"event": "gone"}))


class BootstrapProcess:
    """``kvpoll bootstrap`` on a free port."""

    def __init__(self, secret: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as above
        arguments = ["-m", "kvpoll", "bootstrap", "--port", "0", "--ttl", str(TTL_S), "--until-eof"]
        self._child = _spawn(arguments, self._errors, {"KVPOLL_SECRET": secret} if secret else {})
        self._said: Queue[bytes] = Queue()
        threading.Thread(target=self._listen, name="bootstrap", daemon=True).start()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        self._said.put(self._child.stdout.readline())

    def url(self) -> str:
        """Waits until it serves; once. Raises :class:`RuntimeError` when it doesn't."""
        try:
            found: str = json.loads(self._said.get(timeout=60))["url"]
        except (Empty, ValueError) as error:
            self.end()
            self._errors.seek(0)
            reason = self._errors.read().decode(errors="replace").strip()[-500:]
            raise RuntimeError(f"the bootstrap service did not start: {reason or error}") from None
        return found

    def end(self) -> int:
        """Idempotent."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        return _end(self._child, 10)


class BootstrapThread:
    """The same service on a thread, for the transport ``inproc``."""

    def __init__(self, secret: str) -> None:
        self._server = KVBootstrapServer(secret=secret or None, limits=Limits(ttl=TTL_S)).start()

    def url(self) -> str:
        return self._server.url

    def end(self) -> int:
        return int(not self._server.stop())


def _spawn(arguments: list[str], errors: IO[bytes], extra: Mapping[str, str]) -> subprocess.Popen[bytes]:
    examples = Path(__file__).parents[1]
    paths = [str(examples), str(examples.parent), os.environ.get("PYTHONPATH", "")]
    env = os.environ | extra | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    return subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=env,
        start_new_session=True,
    )  # fmt: skip


def _end(child: subprocess.Popen[bytes], timeout: float) -> int:
    try:
        return child.wait(timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
