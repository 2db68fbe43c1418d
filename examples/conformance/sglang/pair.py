"""The two processes of a pair: started, told, killed, replaced. Standard library only; no SGLang and no kvpoll.

    pair = Pair("copy")                       # or "nixl", or "mooncake"
    pair.tell("decode", "create", 1, 2)       # room, pages: see ``side.py`` for the commands

Starting takes as long as importing SGLang does, once; a new pair after that takes less than a second.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

__all__ = ["LIMITS", "SETTINGS", "Pair", "Raised", "Refused", "about", "program"]

HERE = Path(__file__).resolve().parent
VERSION, PAGES = "0.5.23", 64
#: SGLang's own settings, shortened so that its limits end within seconds; and the transports, over TCP.
SETTINGS = {
    "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": "2",
    "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": "2",
    "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT": "0.5",
    "SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL": "2",
    "SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE": "1",
    "SGLANG_HOST_IP": "127.0.0.1",
    "MC_FORCE_TCP": "1",
    "MOONCAKE_PROTOCOL": "tcp",
    "UCX_TLS": "tcp,self",
    "OMP_NUM_THREADS": "1",
}
#: What the suite may count on with these settings, in seconds. SGLang promises two of them in so many words (``pairing`` is its
#: bootstrap timeout, ``waiting`` its waiting timeout); the rest is what its users may expect of the code as it is.
LIMITS = {
    "react": 0.15, "transfer": 2.0, "abort": 0.6, "error": 0.6, "pairing": 2.3, "waiting": 2.3, "silence": 3.5, "total": 4.0,
    "release": 0.8, "late": 0.2,
}  # fmt: skip
CAPABILITIES = ("push", "chunks", "abort", "clear", "memory", "released", "reuse", "early-metadata", "why")
MOVER_FAULTS = ("mover_error", "mover_raises", "mover_stalls", "mover_unresolved", "mover_corrupts", "truncate")
#: NIXL moves in the background: what it moves cannot be changed or cut from outside.
_NIXL_FAULTS = ("mover_error", "mover_raises", "mover_stalls")
_OTHERS = ("peer_silent", "peer_killed", "message_lost", "message_copied", "message_late")
START_S, CALL_S, TRIES = 180.0, 30.0, 3  #: longest import; longest call; how often a pair is begun


def program(name: str, python: str = "") -> tuple[list[str], dict[str, str]]:
    """How to start one of the programs beside this file where SGLang is: command and environment."""
    found = Path(python or os.environ.get("SGLANG_PYTHON") or HERE.parents[2] / ".venv-sglang" / "bin" / "python")
    libraries = [
        str(found.parents[1] / "debian" / place) for place in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
    ]
    path = ":".join([*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return [str(found), "-W", "ignore", str(HERE / name)], {**os.environ, **SETTINGS, "LD_LIBRARY_PATH": path}


def about(mover: str) -> dict[str, Any]:
    """What the pair says of itself, as the suite's ``About`` has it, except the limits."""
    faults = (*(_NIXL_FAULTS if mover == "nixl" else MOVER_FAULTS), *_OTHERS)
    return {
        "name": f"sglang ({mover})", "version": VERSION, "capabilities": frozenset(CAPABILITIES), "faults": frozenset(faults),
        "pages": PAGES, "page_bytes": 128, "environment": {"mover": mover, **SETTINGS},
    }  # fmt: skip


class Raised(RuntimeError):
    """The engine raised."""


class Refused(Exception):
    """There is no such room, no such command, or no process, because it was killed on purpose."""


class Pair:
    """A prefill and a decode process. ``python``: of the environment that ``setup.sh`` builds."""

    def __init__(self, mover: str = "copy", python: str = "") -> None:
        self.mover, self._python = mover, python
        self._folder = tempfile.TemporaryDirectory(prefix="sglang-pair-")
        self._path = f"{self._folder.name}/socket"
        self.log = open(f"{self._folder.name}/log", "w+b")  # noqa: SIM115 - of all processes, as long as there are any
        self._parent: subprocess.Popen[bytes] | None = None
        self._ends: dict[str, socket.socket] = {}
        self._files: dict[str, TextIO] = {}
        self.pids: dict[str, int] = {}
        self._port, self._faulty = 0, False

    def renew(self) -> None:
        """Both processes anew. Without it, the first command does it. Raises ``OSError`` when there is no such Python."""
        if self._parent is None:
            command, environment = program("side.py", self._python)
            self._parent = subprocess.Popen(
                [*command, self._path], env=environment, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log
            )
        for left in range(TRIES, 0, -1):
            self.kill("prefill")
            self.kill("decode")
            self._port, self._faulty = _free_port(), False
            try:
                for role in ("prefill", "decode"):
                    self._begin(role)
                for role in ("prefill", "decode"):
                    self._ready(role)
                return
            except ConnectionError:  # somebody else took the port first
                if left == 1 or self._parent.poll() is not None:
                    raise

    def begin(self, fresh: bool) -> None:
        """Work from here on is not to suffer from what was before: a new pair, if that was asked for, or if a fault was made
        since the last time (it may have left a peer on SGLang's black list, or a dead worker)."""
        if fresh or self._faulty:
            self.renew()

    def fault(self, role: str, room: int, name: str) -> None:
        """Faults of the data mover are faults of the prefill process, which writes."""
        self._faulty = True
        if name == "peer_killed":
            self.kill(role)
        else:
            self.tell("prefill" if name in MOVER_FAULTS else role, "fault", room, name)

    def tell(self, role: str, do: str, *said: object) -> object:
        """One command, and its answer. Raises :class:`Raised`, :class:`Refused`, ``TimeoutError`` when the call does not
        return, ``ConnectionError`` when the process is gone."""
        if self._port == 0:
            self.renew()
        if role not in self._files:
            raise Refused(f"the {role} process was killed")
        try:
            self._ends[role].sendall(json.dumps([do, *said]).encode() + b"\n")
        except BrokenPipeError:
            raise ConnectionError(f"the {role} process is gone") from None
        return self._answer(role)

    def kill(self, role: str) -> None:
        """The process is gone without a word."""
        if role in self.pids:
            os.kill(self.pids.pop(role), 9)
        if role in self._files:
            self._files.pop(role).close()
            self._ends.pop(role).close()

    def heal(self) -> None:
        """Every fault is over; a process that was killed is replaced, a prefill at its old address."""
        if self._port == 0:
            return
        for role in ("prefill", "decode"):
            if role in self.pids:
                self.tell(role, "heal")
            else:
                self._begin(role)
                self._ready(role)

    def close(self) -> None:
        self.kill("prefill")
        self.kill("decode")
        if self._parent is not None:
            self._parent.kill()
            self._parent.communicate()
        self.log.close()
        self._folder.cleanup()

    def last_words(self) -> str:
        """The end of what the processes wrote to stderr."""
        self.log.seek(0)
        return "\n".join(self.log.read().decode(errors="replace").strip().splitlines()[-15:])

    def _begin(self, role: str) -> None:
        end = time.monotonic() + START_S
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                if self._parent is None or self._parent.poll() is not None or time.monotonic() > end:
                    raise ConnectionError(f"SGLang did not start: {self.last_words()}") from None
                time.sleep(0.05)
        connection.settimeout(START_S)
        self._ends[role], self._files[role] = connection, connection.makefile("r")
        first = {"role": role, "mover": self.mover, "port": self._port, "pages": PAGES}
        connection.sendall(json.dumps(first).encode() + b"\n")

    def _ready(self, role: str) -> None:
        self.pids[role] = int(str(self._answer(role)))
        self._ends[role].settimeout(CALL_S)

    def _answer(self, role: str) -> object:
        line = self._files[role].readline()
        if not line:
            raise ConnectionError(f"the {role} process is gone: {self.last_words()}")
        answer = json.loads(line)
        if "raised" in answer:
            raise Raised(answer["raised"])
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer["ok"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
