"""The demonstration from start to end: set up, hand over, compare, put away. Exit status 0 only if all of it was good."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from queue import Empty, Queue
from signal import SIGTERM
from time import monotonic

from rich.console import Console
from text import cut_prompts, prompts_of
from tiny_model import encode

from demo.display import Display
from demo.faults import Fault, make_fault
from demo.processes import BootstrapProcess, BootstrapThread, EngineProcess, EngineThread, Events
from demo.proof import Expected, Reference
from demo.report import show, summarise
from demo.router import EngineView, Router, Side, make_rooms
from demo.setting import PAGE_SIZE, TTL_S, Options
from kvpoll.runtime.bootstrap.client import BootstrapClient
from kvpoll.runtime.bootstrap.models import BootstrapError

__all__ = ["run"]

_START_S = 120.0  #: for a cold start of every engine on a slow machine
_END_S = 30.0


def run(options: Options) -> int:
    """Run it; the exit status. Prints tables, or with ``options.json`` one JSON object and nothing else."""
    console = None if options.json else Console()
    if options.tokens:
        texts = prompts_of([options.tokens[at % len(options.tokens)] for at in range(options.prompts)], options.seed)
    else:
        texts = cut_prompts(options.prompts, PAGE_SIZE, options.seed)
    rooms = make_rooms([encode(text) for text in texts], options.seed)
    router = Router(rooms, options)
    service = _Service(options, router)
    fault = make_fault(options, router, service.start_again)
    with Display(router, console) as display:
        try:
            _run(service, fault, display)
        finally:
            service.kill()
    summary = summarise(options, router, fault, service.expected, service.seconds, service.problems)
    if console is None:
        print(json.dumps(summary))
    else:
        show(summary, console)
    return 0 if summary["ok"] else 1


def _run(service: _Service, fault: Fault, display: Display) -> None:
    began = monotonic()
    display.phase("starting everybody; meanwhile one engine computes every answer alone")
    service.start(fault)
    ready = monotonic()
    display.phase("handing over")
    service.serve(fault, display)
    done = monotonic()
    display.phase("ending: nothing may be left anywhere")
    service.finish()
    service.seconds = {"setup": ready - began, "run": done - ready, "end": monotonic() - done}


class _Service:
    """Everything that runs."""

    def __init__(self, options: Options, router: Router) -> None:
        self.options, self.router = options, router
        self.events: Events = Queue(maxsize=4096)
        self.expected: dict[int, Expected] = {}
        self.seconds = {"setup": 0.0, "run": 0.0, "end": 0.0}
        self.problems: list[str] = []
        self._bootstrap: BootstrapProcess | BootstrapThread | None = None
        self._url = ""

    # -- start -----------------------------------------------------------------------------------------------------------
    def start(self, fault: Fault) -> None:
        inproc = self.options.transport == "inproc"
        self._bootstrap = (BootstrapThread if inproc else BootstrapProcess)(self.options.secret)
        sides: tuple[tuple[Side, int], ...] = (("prefill", self.options.prefill), ("decode", self.options.decode))
        for side, count in sides:
            for index in range(count):
                self._engine(side, f"{side}-{index}", f"{side}-{index}")
        self._url = self._bootstrap.url()
        for view in self.router.engines.values():
            self._tell_setting(view, fault)
        self._compute_answers()
        if not self._until(lambda: all(view.status != "starting" for view in self.router.engines.values()), _START_S):
            raise RuntimeError(f"the engines were not ready after {_START_S:g} s")
        for name, view in self.router.engines.items():
            if view.status != "ready":
                raise RuntimeError(f"{name} did not start: {view.peer.last_words() or view.status}")
        fault.prepare()

    def start_again(self, name: str) -> None:
        """A prefill engine in the place of one that is gone: the same namespace."""
        self._tell_setting(self._engine("prefill", name, name.removesuffix(" again")))

    def _engine(self, side: Side, name: str, namespace: str) -> EngineView:
        kind = EngineThread if self.options.transport == "inproc" else EngineProcess
        view = EngineView(kind(name, self.events), side, namespace)
        self.router.engines[name] = view
        return view

    def _tell_setting(self, view: EngineView, fault: Fault | None = None) -> None:
        options, name = self.options, view.peer.name
        shape = options.prefill_shape if view.side == "prefill" else options.decode_shape
        page_size = PAGE_SIZE
        if fault is not None:
            shape, page_size = fault.shape(name, shape), fault.page_size(name, PAGE_SIZE)
        view.peer.start(
            options.setting(name, view.side, shape, namespace=view.namespace, bootstrap=self._url, page_size=page_size)
        )

    def _compute_answers(self) -> None:
        options = self.options
        decode = options.prefill_shape if options.refused else options.decode_shape
        reference = Reference(
            options.setting("reference", "prefill", options.prefill_shape), options.setting("reference", "decode", decode),
            options.new_tokens,
        )  # fmt: skip
        for room in self.router.rooms:
            self.expected[room.index] = reference.run(room.prompt)

    # -- run -------------------------------------------------------------------------------------------------------------
    def serve(self, fault: Fault, display: Display) -> None:
        """Until every room is over, or one is overdue."""
        bound = self.options.room_bound
        self.router.give_out()
        while not self.router.done:
            self._next_event(fault)
            self.router.give_out()
            display.update()
            late = self.router.overdue(bound)
            if late:
                self.problems.append(f"{len(late)} rooms were not over after {bound:g} s")
                return
            if self.router.stuck:
                self.problems.append("no engine is left that could take the next room")
                return

    def _next_event(self, fault: Fault | None = None, timeout: float = 0.5) -> None:
        try:
            name, event = self.events.get(timeout=timeout)
        except Empty:
            return
        room = self.router.on(name, event)
        if fault is not None:
            fault.on(name, event, room)

    def _until(self, reached: Callable[[], bool], timeout: float) -> bool:
        end = monotonic() + timeout
        while not reached() and monotonic() < end:
            self._next_event()
        return reached()

    # -- end -------------------------------------------------------------------------------------------------------------
    def finish(self) -> None:
        """Ask everybody whether they are idle, and only then close them: an end needs its peer to become idle."""
        running = [view for view in self.router.engines.values() if view.status == "ready"]
        for view in running:
            view.peer.tell({"do": "idle"})
        self._until(lambda: all(view.left is not None or not view.runs for view in running), _END_S)
        for view in running:
            view.peer.tell({"do": "close"})
        self._until(lambda: not any(view.runs for view in running), _END_S)
        for view in running:
            view.exit_status = view.peer.end(10.0)
        assert self._bootstrap is not None
        if not self._registry_is_empty():
            self.problems.append("the bootstrap service still lists an engine")
        if self._bootstrap.end() not in (0, -SIGTERM):
            self.problems.append("the bootstrap service did not end well")

    def _registry_is_empty(self) -> bool:
        """An engine that was killed took nothing back: its entry ends with its lease."""
        pause, end = threading.Event(), monotonic() + TTL_S + 1
        with BootstrapClient(self._url, self.options.secret or None) as client:
            try:
                while client.ranks() and monotonic() < end:
                    pause.wait(0.1)
                return not client.ranks()
            except BootstrapError as error:
                self.problems.append(f"the bootstrap service does not answer: {error}")
                return True

    def kill(self) -> None:
        """Whatever happened: nothing of ours may run after us."""
        for view in self.router.engines.values():
            if self.options.transport != "inproc":
                view.peer.end(0.0)
        if self._bootstrap is not None:
            self._bootstrap.end()
