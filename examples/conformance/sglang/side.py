"""One side of SGLang in a process of its own: prefill or decode, told by lines of JSON what to do.

Runs in the environment that ``setup.sh`` builds; everything else runs outside of it. What is real here: SGLang's manager,
sender, receiver and bootstrap server, their threads, their HTTP and their ZeroMQ messages, over loopback. What is not: there
is no model, no scheduler and no GPU. So this file does what SGLang's scheduler does around the calls (it says when pages may
be used again, and how a room is cleared), and the memory is ordinary memory.

``python side.py SOCKET`` imports SGLang once and then forks a side for every connection to that socket: a pair can be
replaced within a second. The first line of a connection says which side; every other is a command, a list of its name and
its arguments, answered by ``{"ok": value}``, by ``{"raised": "Type: text"}`` when the engine raised, or by ``{"refused":
text}``. A side ends when its connection does.
"""

# ruff: noqa: ANN401 - what comes from SGLang has no types here

from __future__ import annotations

import ctypes
import importlib.machinery
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from movers import FAULTS, Copier, Plan, Planned
from wires import Wire

ENTRIES, ITEM, AUX = 2, 64, 64  #: K and V of one layer; bytes of one page in each; bytes of an aux row
MAX_ROOMS = 4096
FAILED, SUCCESS = 0, 4
#: SGLang's decode scheduler asks the bootstrap server 15 times, a second apart, before it gives a request up: written into its
#: code, and shortened here like the settings are.
TRIES, PAUSE_S = 3, 0.3


class NotNow(Exception):
    """SGLang's scheduler would not make this call now."""


class _Absent(type):
    """A class of a package that is not there: whatever attribute it is asked for, it has."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Stub:
    """Stands in for ``torchvision``, which importing SGLang asks for and none of this uses. It is last on the path, so
    that a real one wins."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        mine = name.split(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if mine else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []

        def attribute(name: str) -> type:
            if name.startswith("__"):
                raise AttributeError(name)
            return _Absent(name, (), {})

        module.__getattr__ = attribute  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def load() -> None:
    """Import what every side needs, and nothing that starts a thread."""
    from transformers.utils.import_utils import is_torchvision_available

    if not is_torchvision_available():  # asked first: it remembers the answer and must not find the stub
        sys.meta_path.append(_Stub())
    import sglang.srt.disaggregation.mooncake.conn
    import sglang.srt.disaggregation.nixl.conn  # noqa: F401


class Side:
    """The manager of one role, its rooms and its memory."""

    def __init__(self, role: str, mover: str, port: int, pages: int) -> None:
        self.role, self.address, self.wire, self.plan = role, f"127.0.0.1:{port}", Wire(), Plan()
        self.kv = np.zeros((ENTRIES, pages, ITEM), dtype=np.uint8)
        self.aux = np.zeros((pages, AUX), dtype=np.uint8)
        self.rooms: dict[int, Any] = {}
        self.sizes: dict[int, tuple[int, int]] = {}  #: pages in all, aux row
        self.told: set[int] = set()  #: rooms whose destinations the prefill was given
        self.pending: dict[int, tuple[int, float]] = {}  #: rooms whose prefill is looked for: tries, time of the next
        self.until: dict[int, float] = {}  #: when the pages of a failed room may be used again at the latest
        self.hold_s = float(os.environ["SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT"])
        self._classes(mover)
        self.manager = self._manager(mover, port)

    def _classes(self, mover: str) -> None:
        from sglang.srt.disaggregation.common.utils import FastQueue
        from sglang.srt.disaggregation.mooncake import conn as mooncake
        from sglang.srt.disaggregation.nixl import conn as nixl

        if mover == "nixl":
            self._make = nixl.NixlKVManager, nixl.NixlKVBootstrapServer
            self._room = nixl.NixlKVSender if self.role == "prefill" else nixl.NixlKVReceiver
            _plan_nixl(self.plan)
        else:
            self._make = mooncake.MooncakeKVManager, mooncake.MooncakeKVBootstrapServer
            self._room = mooncake.MooncakeKVSender if self.role == "prefill" else mooncake.MooncakeKVReceiver
            from sglang.srt.distributed.device_communicators import mooncake_transfer_engine as shared

            real = Copier() if mover == "copy" else shared.MooncakeTransferEngine("127.0.0.1")
            shared._mooncake_transfer_engine = Planned(real, self.plan)
        take = FastQueue.get

        def get(queue: Any) -> Any:  # a transfer worker takes up a chunk: the calls that follow are for its room
            chunk = take(queue)
            self.plan.room = getattr(chunk, "room", -1)
            self.wire.open.wait()
            return chunk

        FastQueue.get = get

    def _manager(self, mover: str, port: int) -> Any:
        from sglang.srt.disaggregation.utils import DisaggregationMode
        from sglang.srt.runtime_context import get_context, get_parallel

        said = {"host": "127.0.0.1", "disaggregation_bootstrap_port": port, "disaggregation_mode": self.role}
        arguments = get_context().override_server_args(device="cpu", **said).install()
        alone = {"attn_tp_rank": 0, "attn_cp_rank": 0, "attn_dcp_rank": 0, "attn_dp_rank": 0, "pp_group": None}
        get_parallel().override_permanently(**alone)
        manager, server = self._make
        if self.role == "prefill":
            self._server = server("127.0.0.1", port)
            _until(lambda: _answers(port))
        return manager(self._arguments(), DisaggregationMode(self.role), arguments)

    def _arguments(self) -> Any:
        from sglang.srt.disaggregation.base.conn import KVArgs

        pages, start, args = self.kv.shape[1], self.kv.ctypes.data, KVArgs()
        args.kv_data_ptrs = [start + entry * pages * ITEM for entry in range(ENTRIES)]
        args.kv_data_lens, args.kv_item_lens = [pages * ITEM] * ENTRIES, [ITEM] * ENTRIES
        args.kv_data_mem_kinds = ["DRAM"] * ENTRIES
        args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens = [self.aux.ctypes.data], [pages * AUX], [AUX]
        args.kv_layer_ids, args.kv_cache_dtype_str = [0, 0], "uint8"
        for name in ("types", "data_ptrs", "data_lens", "item_lens", "layer_ids", "dim_per_tensor"):
            setattr(args, f"state_{name}", [])
        args.state_slice_outer_counts, args.state_conv_shard_groups = [], []
        args.engine_rank = args.gpu_id = args.pp_rank = args.prefill_start_layer = args.system_dp_rank = 0
        args.kv_head_num = args.total_kv_head_num = args.page_size = args.prefill_end_layer = 1
        args.is_hybrid_mla_backend, args.swa_kv_cache_layout, args.ib_device = False, None, ""
        args.rust_http_port, args.mla_compression_ratios = None, None
        args.kv_buf_groups = args.hidden_kv_layers = args.draft_kv_layers = 0
        return args

    # What a room is told ------------------------------------------------------------------------------------------------
    def create(self, room: int, pages: int) -> None:
        if len(self.rooms) >= MAX_ROOMS:
            raise ValueError(f"rooms: expected at most {MAX_ROOMS}")
        self.told.discard(room)
        self.until.pop(room, None)
        self.pending.pop(room, None)
        self.sizes[room] = pages, len(self.rooms) % self.aux.shape[0]
        self.rooms[room] = self._room(self.manager, self.address, room)

    def init(self, room: int) -> None:
        if self.role == "prefill":
            self.rooms[room].init(*self.sizes[room])
        else:
            self.pending[room] = 0, 0.0
            self._resolve(room)

    def _resolve(self, room: int) -> None:
        """The decode scheduler looks for the prefill, and gives up after so many times."""
        tries, due = self.pending.get(room, (0, float("inf")))
        if time.monotonic() < due:
            return
        del self.pending[room]
        if self.manager.try_ensure_parallel_info(self.address):
            self.rooms[room].init(0)
        elif tries + 1 >= TRIES:
            self.rooms[room].abort()
        else:
            self.pending[room] = tries + 1, time.monotonic() + PAUSE_S

    def metadata(self, room: int, pages: list[int]) -> None:
        if room in self.pending:
            raise NotNow("the prefill has not been found yet")
        self.told.add(room)
        self.rooms[room].send_metadata(np.array(pages, dtype=np.int32), self.sizes[room][1])

    def send(self, room: int, pages: list[int]) -> None:
        self.rooms[room].send(np.array(pages, dtype=np.int32))

    def poll(self, room: int) -> int:
        one = self.rooms[room]
        self._resolve(room)
        state = int(one.poll())
        if state == FAILED and self.role == "decode" and room in self.told and room not in self.until:
            # The decode scheduler: a failed transfer keeps its pages until the prefill acknowledged the ABORT, or for so long.
            one.ensure_abort_notified(force_arm=True)
            self.until[room] = time.monotonic() + (self.hold_s if one.abort_notified else 0)
        return state

    def abort(self, room: int) -> None:
        self.pending.pop(room, None)
        self.rooms[room].abort()

    def clear(self, room: int) -> None:
        """As the scheduler ends a room: a failed one by asking for its exception, which clears it too."""
        one = self.rooms[room]
        if one.conclude_state != FAILED:
            return one.clear()
        try:
            one.failure_exception()
        except Exception as error:
            if type(error).__name__ != "KVTransferError":
                raise

    # What can be seen ---------------------------------------------------------------------------------------------------
    def released(self, room: int) -> bool:
        """Does the scheduler let go the pages? Prefill: at once when the room is over. Decode: see ``poll``."""
        if self.poll(room) not in (FAILED, SUCCESS):
            return False
        if room not in self.until or time.monotonic() >= self.until[room]:
            return True
        return bool(self.manager.is_abort_release_safe(room, len(self.rooms[room].bootstrap_infos or ())))

    def why(self, room: int) -> str:
        return str(self.manager.failure_records.get(room, ""))

    def rooms_known(self) -> list[int]:
        """Rooms that the manager's tables still name."""
        return sorted({*self.manager.request_status, *getattr(self.manager, "transfer_infos", ())})

    def port(self) -> int:
        """Where this side hears control messages."""
        return int(self.manager.rank_port)

    def workers(self) -> int:
        """Transfer workers that are alive."""
        return sum("transfer_worker" in thread.name for thread in threading.enumerate())

    def fill(self, pages: list[int], data: str) -> None:
        found = np.frombuffer(bytes.fromhex(data), dtype=np.uint8).reshape(len(pages), ENTRIES, ITEM)
        self.kv[:, pages] = found.transpose(1, 0, 2)

    def read(self, pages: list[int]) -> str:
        return self.kv[:, pages].transpose(1, 0, 2).tobytes().hex()

    def fault(self, room: int, name: str) -> None:
        self.plan.set(room, name) if name in FAULTS else self.wire.set(name)

    def heal(self) -> None:
        self.plan.let_go()
        self.wire.heal()


def _plan_nixl(plan: Plan) -> None:
    """Put the plan between SGLang and NIXL: the start of a transfer is what fails, raises or waits."""
    from nixl._api import nixl_agent

    real = nixl_agent.transfer

    def transfer(agent: Any, handle: Any, *rest: Any, **named: Any) -> Any:
        begun: list[Any] = []

        def write() -> int:
            begun.append(real(agent, handle, *rest, **named))
            return 0

        return begun[0] if plan.run(plan.take(), write) == 0 else "ERR"

    nixl_agent.transfer = transfer


def _answers(port: int) -> bool:
    import requests

    try:
        return bool(requests.get(f"http://127.0.0.1:{port}/health", timeout=1).ok)
    except requests.ConnectionError:
        return False


def _until(true: Callable[[], bool], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the bootstrap server did not come up")
        time.sleep(0.01)


#: Commands about a room that was created here.
OF_A_ROOM = frozenset({"init", "metadata", "send", "poll", "abort", "clear", "released"})
COMMANDS = OF_A_ROOM | {"create", "why", "rooms_known", "workers", "port", "fill", "read", "fault", "heal"}


def serve(lines: IO[str], out: IO[str]) -> None:
    """Be a side until the connection ends."""
    side = Side(**json.loads(next(lines)))
    _say(out, {"ok": os.getpid()})
    for line in lines:
        name, *said = json.loads(line)
        if name not in COMMANDS:
            _say(out, {"refused": f"no command {name}"})
        elif name in OF_A_ROOM and said[0] not in side.rooms:
            _say(out, {"refused": "no such room"})
        else:
            _say(out, _answer(getattr(side, name), said))


def _answer(command: Callable[..., object], said: list[object]) -> dict[str, object]:
    try:
        return {"ok": command(*said)}
    except NotNow as no:
        return {"refused": str(no)}
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is an answer
        return {"raised": f"{type(error).__name__}: {error}"[:500]}


def _say(out: IO[str], answer: dict[str, object]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


def _gone(gone: Any) -> None:
    sys.stderr.write(f"thread {gone.thread and gone.thread.name}: {gone.exc_value}\n")


def main() -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(sys.argv[1])
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries them
    threading.excepthook = _gone
    listening.listen()
    threads = [t.name for t in threading.enumerate()]
    assert threads == ["MainThread"], f"a fork would lose {threads}"
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:  # the end of its input is the end of it
        connection, _ = listening.accept()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # do not outlive the one who forked
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            try:
                serve(connection.makefile("r"), connection.makefile("w"))
            finally:
                os._exit(0)  # the engine's threads do not end by themselves
        connection.close()
    os._exit(0)


if __name__ == "__main__":
    main()
