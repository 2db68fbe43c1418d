"""The plugs for SGLang, as far as they can be looked at without SGLang: small, complete, and honest about settings."""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import zmq

from kvpoll.model_tests.conformance.cases import all_cases
from kvpoll.model_tests.conformance.plug import CAPABILITIES, FAULTS, About, Adapter, Limits, Unsupported
from kvpoll.model_tests.conformance.process import ProcessAdapter

FOLDER = Path(__file__).parents[2] / "examples" / "conformance" / "sglang"
NAMES = ("adapter", "pair", "movers", "wires", "plug", "run", "wire")
MOVERS = ("copy", "nixl", "mooncake")


@pytest.fixture
def sglang(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the example, under their own names for as long as a test lasts."""
    monkeypatch.syspath_prepend(str(FOLDER))
    kept = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


@pytest.mark.parametrize(("name", "most"), [("adapter.py", 60), ("plug.py", 150)])
def test_a_plug_is_as_small_as_promised(name: str, most: int) -> None:
    assert len((FOLDER / name).read_text().splitlines()) <= most


@pytest.mark.parametrize("mover", MOVERS)
def test_the_import_plug_is_an_adapter_and_starts_nothing_before_the_first_case(
    sglang: dict[str, ModuleType], mover: str
) -> None:
    engine = getattr(sglang["adapter"], mover)()
    assert isinstance(engine, Adapter)
    about = engine.about()
    assert isinstance(about, About)
    assert about.capabilities <= set(CAPABILITIES)
    assert about.faults <= set(FAULTS)
    with pytest.raises(Unsupported):
        engine.fault("prefill", 1, "probe-nobody-knows-this")
    engine.close()


def test_both_plugs_have_every_call_of_the_suite(sglang: dict[str, ModuleType]) -> None:
    calls = {name for name in vars(Adapter) if not name.startswith("_")}
    assert calls <= sglang["plug"].CALLS
    assert all(hasattr(sglang["adapter"].Engine, name) for name in calls)


def test_the_process_plug_says_of_itself_what_the_import_plug_says(sglang: dict[str, ModuleType]) -> None:
    child = ProcessAdapter([sys.executable, str(FOLDER / "plug.py"), "nixl"])
    try:
        assert child.about() == sglang["adapter"].nixl().about()
        with pytest.raises(Unsupported):
            child.unknown()
        with pytest.raises(Unsupported):
            child.fault("prefill", 1, "mover_corrupts")  # nixl moves in the background
    finally:
        child.close()


def test_what_the_suite_may_count_on_is_not_less_than_what_sglang_is_set_to(sglang: dict[str, ModuleType]) -> None:
    said, limits = sglang["pair"].SETTINGS, Limits(**sglang["pair"].LIMITS)
    pairing, waiting = limits.pairing, limits.waiting
    assert pairing is not None
    assert waiting is not None
    assert pairing >= float(said["SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT"])
    assert waiting >= float(said["SGLANG_DISAGGREGATION_WAITING_TIMEOUT"])
    assert limits.release >= float(said["SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT"])
    assert limits.error < waiting, "else a time limit passes for a report"


def test_the_environment_is_pinned_to_the_last_package() -> None:
    lines = [line for line in (FOLDER / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert "sglang==0.5.23" in lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.\-]+==[A-Za-z0-9_.+!]+", line)] == []


def test_the_cases_are_dealt_out_once_and_never_without_what_they_build_on(sglang: dict[str, ModuleType]) -> None:
    cases = list(all_cases())
    hands = sglang["run"].dealt(cases, 3)
    for hand in hands:
        ids = [each.id for each in hand]
        assert len(ids) == len(set(ids))
        assert all(ids.index(each.prerequisite) < ids.index(each.id) for each in hand if each.prerequisite)
    assert {each.id for hand in hands for each in hand} == {each.id for each in cases}


# The data movers --------------------------------------------------------------------------------------------------------
class Memory:
    """Two pieces of this process's memory, and a mover that copies from one to the other."""

    def __init__(self, movers: ModuleType) -> None:
        self.source, self.target = ctypes.create_string_buffer(b"abcdefgh", 8), ctypes.create_string_buffer(8)
        self.plan = movers.Plan()
        self.plan.room = 5
        self.mover = movers.Planned(movers.Copier(), self.plan)

    def move(self) -> int:
        session: str = self.mover.get_session_id()
        at = ctypes.addressof(self.source), ctypes.addressof(self.target)
        found: int = self.mover.batch_transfer_sync(session, [at[0], at[0] + 4], [at[1], at[1] + 4], [4, 4])
        return found


def test_the_copier_copies_into_a_process(sglang: dict[str, ModuleType]) -> None:
    memory = Memory(sglang["movers"])
    assert memory.move() == 0
    assert memory.target.raw == b"abcdefgh"


def test_a_copy_that_cannot_be_made_is_an_error_and_no_exception(sglang: dict[str, ModuleType]) -> None:
    copier = sglang["movers"].Copier()
    assert copier.batch_transfer_sync(copier.get_session_id(), [8], [8], [4]) != 0


@pytest.mark.parametrize(
    ("fault", "told", "there"),
    [("mover_error", -1, b"\0" * 8), ("mover_corrupts", 0, b"\x9ebcdefgh"), ("truncate", 0, b"abcdef\0\0")],
)
def test_a_fault_does_what_it_says_and_is_over_after_one_call(
    sglang: dict[str, ModuleType], fault: str, told: int, there: bytes
) -> None:
    memory = Memory(sglang["movers"])
    memory.plan.set(5, fault)
    assert memory.move() == told
    assert memory.target.raw == there
    assert memory.source.raw == b"abcdefgh"
    assert memory.move() == 0
    assert memory.target.raw == b"abcdefgh"


def test_a_mover_that_raises_moves_nothing_and_another_room_is_left_alone(sglang: dict[str, ModuleType]) -> None:
    memory = Memory(sglang["movers"])
    memory.plan.set(6, "mover_error")
    assert memory.move() == 0
    memory.plan.set(5, "mover_raises")
    with pytest.raises(RuntimeError, match="told to raise"):
        memory.move()


def test_an_unresolved_movement_is_told_as_an_error_and_lands_when_it_is_let_go(sglang: dict[str, ModuleType]) -> None:
    memory = Memory(sglang["movers"])
    memory.plan.set(5, "mover_unresolved")
    assert memory.move() == -1
    assert memory.target.raw == b"\0" * 8
    (late,) = (thread for thread in threading.enumerate() if thread.name == "late write")
    memory.plan.let_go()
    late.join(10)
    assert memory.target.raw == b"abcdefgh"


def test_a_stalled_movement_returns_when_it_is_let_go(sglang: dict[str, ModuleType]) -> None:
    memory = Memory(sglang["movers"])
    memory.plan.set(5, "mover_stalls")
    mover = threading.Thread(target=memory.move)
    mover.start()
    assert memory.target.raw == b"\0" * 8
    memory.plan.let_go()
    mover.join(10)
    assert memory.target.raw == b"abcdefgh"


def test_a_fault_that_nobody_knows_is_refused(sglang: dict[str, ModuleType]) -> None:
    with pytest.raises(ValueError, match="expected one of mover_error"):
        sglang["movers"].Plan().set(1, "morse")
    with pytest.raises(ValueError, match="expected one of message_lost"):
        sglang["wires"].Wire.set(object(), "morse")


# Messages ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "before", "after"),
    [
        ("message_lost", [b"2"], []), ("message_copied", [b"1", b"1", b"2"], []), ("message_late", [b"2"], [b"1"]),
        ("peer_silent", [], [b"1", b"2"]),
    ],
)  # fmt: skip
def test_a_message_fault_does_what_it_says(
    sglang: dict[str, ModuleType], fault: str, before: list[bytes], after: list[bytes]
) -> None:
    send, hear = zmq.Socket.send_multipart, zmq.Socket.recv_multipart
    with zmq.Context() as context, context.socket(zmq.PULL) as ear, context.socket(zmq.PUSH) as mouth:
        port = ear.bind_to_random_port("tcp://127.0.0.1")
        mouth.connect(f"tcp://127.0.0.1:{port}")

        def heard(count: int) -> list[bytes]:
            return [hear(ear)[0] for _ in range(count) if ear.poll(5_000)]

        try:
            wire = sglang["wires"].Wire()
            wire.set(fault)
            mouth.send_multipart([b"1"])
            mouth.send_multipart([b"2"])
            assert heard(len(before)) == before
            wire.heal()
            assert heard(len(after)) == after
            send(mouth, [b"end"])
            assert heard(1) == [b"end"], "there was more"
        finally:
            zmq.Socket.send_multipart, zmq.Socket.recv_multipart = send, hear  # type: ignore[method-assign]
