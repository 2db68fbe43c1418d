"""An engine as a process of its own: ``python -m demo.worker``. JSON lines, commands on stdin, events on stdout.

It lives no longer than the process that started it: it ends when its stdin does. On Linux the kernel also kills it
when its parent dies, which reaches a stopped process too.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from demo.decode import DecodeEngine
from demo.engine import Engine
from demo.prefill import PrefillEngine
from demo.setting import EngineSetting, Message

__all__ = ["main", "make_engine"]

_PR_SET_PDEATHSIG = 1


def make_engine(setting: EngineSetting, emit: Callable[[Message], None]) -> Engine:
    return (PrefillEngine if setting.role == "prefill" else DecodeEngine)(setting, emit)


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    engine = make_engine(EngineSetting.from_message(json.loads(sys.stdin.readline())), _emit)
    threading.Thread(target=_listen, args=(engine,), name="commands", daemon=True).start()
    engine.run()


def _emit(event: Message) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _listen(engine: Engine) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        engine.push(command)
        if command["do"] == "close":
            return  # the process is about to end, and stdin must not be in use then
    os._exit(1)  # nobody is left to hear anything; an engine that hangs must end too


if __name__ == "__main__":
    main()
