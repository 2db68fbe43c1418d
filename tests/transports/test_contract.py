"""The contract, over every push transport."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from .contract import ANY, PUSH, Case, Rig
from .rigs import InprocRig, SharedRig, ZmqRig

RIGS: dict[str, Callable[[], Rig]] = {
    "inproc": InprocRig,
    "zmq over ipc": ZmqRig,
    "zmq over shared memory": SharedRig,
    "zmq over tcp": lambda: ZmqRig(use_ipc=False),
}


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = RIGS[request.param]()
    yield rig
    rig.finish()
    rig.assert_idle()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kvpoll")] == []


@pytest.mark.parametrize("case", ANY + PUSH, ids=lambda case: case.__name__)
def test_every_push_transport(case: Case, rig: Rig) -> None:
    case(rig)
