"""Pools that jax splits over a mesh of (virtual) devices, handed over shard by shard between meshes of other sizes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]

#: In a process of its own: the number of devices is chosen before jax starts. Prefill has its heads on two devices in
#: backward order, decode on as many as the argument says; both keep bits of float32.
SCRIPT = """
import secrets, sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from mesh_pool import joined, shards_of
from kvpoll.protocol.plans.ranks import Shape
from kvpoll.runtime import EngineSpec, KVManager, KVReceiver, KVSender, ManagerConfig, Request, Role
from kvpoll.spec import KVPoll

HEADS, SIZE, PAGES, LAYERS, TOKENS = 8, 16, 12, 2, 37
wide = int(sys.argv[1])
devices = jax.devices()
assert len(devices) == 4

def mesh_pool(numbers, devices):
    sharding = NamedSharding(Mesh(np.array(devices), ("tp",)), P(None, None, None, "tp"))
    return [jax.device_put(layer, sharding) for layer in numbers]

def managers(role, tp, bootstrap):
    engine_id = secrets.randbits(60) + 1
    return [
        KVManager(ManagerConfig(
            role=role, engine_id=engine_id, transports=("inproc",), bootstrap="none",
            engine=EngineSpec(page_size=SIZE, layers=LAYERS, kv_dtype="float32", layout="kv,token,head,dim", head_dim=4,
                              page_nbytes=2 * SIZE * HEADS // tp * 4 * 4, kv_heads=HEADS // tp, tp_size=tp, tp_rank=rank)))
        for rank in range(tp)
    ]

rng = np.random.default_rng(0)
numbers = [rng.integers(0, 2**32, (PAGES, 2, SIZE, HEADS, 4), np.uint32) for _ in range(LAYERS)]
source = mesh_pool(numbers, devices[1::-1])
target = mesh_pool([np.zeros_like(layer) for layer in numbers], devices[:wide])
prefill, decode = managers(Role.PREFILL, 2, "none"), managers(Role.DECODE, wide, "none")
request, room = Request.of(list(range(TOKENS))), 7
sent, landed = [5, 0, 9], [2, 11, 4]

pools = shards_of(source)
assert [pool[0].devices() for pool in pools] == [{devices[1]}, {devices[0]}]
senders = [KVSender(manager, room, request) for manager in prefill]
for sender, pool in zip(senders, pools):
    sender.init(3)
    sender.send(sent, pool)
ratio = max(1, 2 // wide)
receivers = []
for rank, manager in enumerate(decode):
    met = [prefill[at].address for at in (range(rank * ratio, (rank + 1) * ratio) if wide < 2 else [rank // (wide // 2)])]
    receivers.append(KVReceiver(manager, "", 0, room, request, address=met, prefill=Shape(tp=2)))
    receivers[-1].init(gen=1)
    receivers[-1].send_metadata(landed)
into = shards_of(target)
for rank, (receiver, manager) in enumerate(zip(receivers, decode)):
    assert manager.wait(lambda: receiver.committable, 20), (rank, receiver.poll(), receiver.failure_exception())
    into[rank] = receiver.commit(into[rank])
    assert [layer.devices() for layer in into[rank]] == [{devices[rank]}] * LAYERS
for handle in senders + receivers:
    assert handle.manager.wait(lambda: handle.poll() is KVPoll.Success, 20), handle.failure_exception()
after = joined(target, into)
for layer, number in zip(after, numbers):
    assert layer.sharding.device_set == set(devices[:wide])
    expected = np.zeros_like(number)
    expected[landed] = number[sent]
    assert (np.asarray(layer) == expected).all()
for manager in decode + prefill:
    assert manager.close() == {}
print("good")
"""


@pytest.mark.parametrize("wide", [1, 2, 4])
def test_a_mesh_of_two_hands_its_shards_to_a_mesh_of_another_size(wide: int) -> None:
    env = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "examples"), str(ROOT)]),
    }  # fmt: skip
    command = [sys.executable, "-c", SCRIPT, str(wide)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert done.stdout.strip().endswith("good"), done.stderr[-3000:]
