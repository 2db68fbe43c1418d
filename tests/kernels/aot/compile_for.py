"""Run as a process of its own: compile every TPU kernel for one topology, without a TPU, and print what the compiler says.

``python -m tests.kernels.aot.compile_for v5e:2x2 kernels`` (or ``limits``, ``memory``) prints a JSON list. A process of its
own, because libtpu can end it, and because its environment has to be set before jax is imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator

os.environ.update(
    JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_ACCELERATOR_TYPE="v5litepod-4", TPU_WORKER_HOSTNAMES="localhost",
    TPU_WORKER_ID="0",
)  # fmt: skip

import jax
from jax.experimental import topologies

from kvpoll.kernels import limits, tpu, xla
from kvpoll.kernels.layout import PoolLayout
from kvpoll.kernels.parts import Part

from ..geometries import Geometry, dtype_of

#: As engines have them, and as large: XLA lays small pools out otherwise. 16 tokens a page, 8 heads of 128, or heads in
#: groups, or a latent row that is padded until it fills tiles.
PAGES = 4096
KV_FIRST = Geometry("kv,token,head,dim", (2, 16, 8, 128), 16, 8, pages=PAGES)
TOKENS_FIRST = Geometry("token,kv,head,dim", (16, 2, 8, 128), 16, 8, pages=PAGES)
GROUPED = Geometry("kv,token,head,dim", (2, 16, 2, 4, 128), 16, 8, pages=PAGES)
LATENT = Geometry("token,latent", (16, 4, 256), 16, pages=PAGES)
FLAT = Geometry("kv,token,head,dim", (2, 16, 1024), 16, 8, pages=PAGES)
LATENT_FLAT = Geometry("token,latent", (16, 640), 16, pages=PAGES)
LAYERS, IDS = 2, 64
DTYPES = ("bfloat16", "float32", "int8", "float8_e4m3fn", "uint16")


class Compiler:
    """Compiles for the first device of a topology."""

    def __init__(self, topology: str) -> None:
        found = topologies.get_topology_desc(platform="tpu", topology_name=topology)
        self._device = found.devices[0]

    def spec(self, shape: tuple[int, ...], dtype: str, kind: str | None = None) -> object:
        on = jax.sharding.SingleDeviceSharding(self._device, memory_kind=kind)
        return jax.ShapeDtypeStruct(shape, dtype_of(dtype), sharding=on)

    def ids(self, count: int = IDS) -> object:
        return self.spec((count,), "int32")

    def layers(self, geometry: Geometry, dtype: str) -> list[object]:
        return [self.spec((geometry.pages, *geometry.shape), dtype) for _ in range(LAYERS)]

    def report(self, name: str, jitted: object, *arguments: object) -> dict[str, object]:
        """Bytes that the compiled program needs beside its operands, and that it writes in place; or the error."""
        try:
            memory = jitted.lower(*arguments).compile().memory_analysis()  # type: ignore[attr-defined]
        except Exception as raised:  # noqa: BLE001 - what the compiler says is the result
            return {"name": name, "error": f"{type(raised).__name__}: {raised}"[:400]}
        return {
            "name": name,
            "error": "",
            "temporary": memory.temp_size_in_bytes,
            "aliased": memory.alias_size_in_bytes,
            "host_aliased": memory.host_alias_size_in_bytes,
        }


def pool_of(geometry: Geometry, dtype: str) -> PoolLayout:
    return PoolLayout(LAYERS, geometry.shape, geometry.pages, dtype_of(dtype), True)


def pool_bytes(geometry: Geometry, dtype: str) -> int:
    return LAYERS * geometry.pages * pool_of(geometry, dtype).page_nbytes


def parts_of(geometry: Geometry, dtype: str) -> Iterator[tuple[str, Part]]:
    """The parts that our limits allow."""
    pool, layout = pool_of(geometry, dtype), geometry.layout(dtype)
    if limits.tpu_pages(pool) is None:
        yield "pages", Part.pages(pool)
    if limits.tpu_tokens(pool, layout) is None:
        yield "tokens", Part.tokens_of(pool, layout)
    if "head" in geometry.axes and limits.tpu_heads(pool, layout, 4, 8) is None:
        yield "heads", Part.heads_of(pool, layout, 4, 8)


def kernels(on: Compiler) -> Iterator[dict[str, object]]:
    for dtype in DTYPES:
        for geometry in (KV_FIRST, TOKENS_FIRST, GROUPED, LATENT):
            layers, nbytes = on.layers(geometry, dtype), pool_bytes(geometry, dtype)
            where = f"{geometry.axes} {geometry.shape} {dtype}"
            for what, part in parts_of(geometry, dtype):
                blocks = on.spec((LAYERS, IDS - 3, *part.unit), dtype)
                yield on.report(f"gather {what} {where}", tpu.gather_units, layers, on.ids(), part) | {"pool": 0}
                scatter = on.report(f"scatter {what} {where}", tpu.scatter_units, layers, blocks, on.ids(), part)
                yield scatter | {"pool": nbytes}
                if what == "tokens":
                    operands = (layers, on.layers(geometry, dtype), on.ids(), on.ids(), part, part)
                    yield on.report(f"relayout {where}", tpu.move_units, *operands) | {"pool": nbytes}
            chunks = (layers, on.layers(geometry, dtype), on.ids(), on.ids(), on.ids(), on.ids(1))
            yield on.report(f"chunks {where}", tpu.move_chunks, *chunks) | {"pool": nbytes}


def rules(on: Compiler) -> Iterator[dict[str, object]]:
    """Layouts and ranges at both sides of our limits: `allowed` is what we say."""

    def row(name: str, geometry: Geometry, dtype: str, part: Part, refused: str | None) -> dict[str, object]:
        name = f"{name} of {geometry.shape} {dtype}"
        ids = on.ids() if part.tokens else on.ids(8)
        report = on.report(name, tpu.gather_units, on.layers(geometry, dtype), ids, part)
        return report | {"allowed": refused is None, "pool": 0}

    for dtype in ("bfloat16", "int8", "float32"):
        for geometry in (KV_FIRST, FLAT, LATENT, LATENT_FLAT):
            pool, layout = pool_of(geometry, dtype), geometry.layout(dtype)
            yield row("token", geometry, dtype, Part.tokens_of(pool, layout), limits.tpu_tokens(pool, layout))
        for shape in ((16384,), (16, 2, 256), (16, 5, 256), (16, 12, 256), (16, 2, 192)):
            geometry = Geometry("token,latent", shape, 16, pages=4 * PAGES)
            yield row("page", geometry, dtype, Part(shape), limits.tpu_pages(pool_of(geometry, dtype)))
        ranges = {2: [(0, 1), (0, 2)], 8: [(0, 4), (6, 8), (3, 4), (2, 6)], 16: [(8, 16), (4, 12)]}
        for heads, lo, hi in [(heads, *each) for heads, several in ranges.items() for each in several]:
            geometry = Geometry("kv,token,head,dim", (2, 16, heads, 128), 16, heads, pages=PAGES)
            pool, layout = pool_of(geometry, dtype), geometry.layout(dtype)
            refused = limits.tpu_heads(pool, layout, lo, hi)
            yield row(f"heads {lo}:{hi}", geometry, dtype, Part.heads_of(pool, layout, lo, hi), refused)


def memory(on: Compiler) -> Iterator[dict[str, object]]:
    """Ids in scalar memory, at our limit and at twice that; a layer in the memory of the host; and XLA's own program."""
    layers, part = (
        on.layers(KV_FIRST, "bfloat16"),
        Part.tokens_of(pool_of(KV_FIRST, "bfloat16"), KV_FIRST.layout("bfloat16")),
    )
    for count in (limits.SMEM_IDS, 2 * limits.SMEM_IDS):
        yield on.report(f"{count} ids", tpu.gather_units, layers, on.ids(count), part)
    two, three = [on.ids(limits.SMEM_IDS // 2)] * 2, [on.ids(limits.SMEM_IDS // 4)] * 3
    yield on.report("two lists", tpu.move_units, layers, layers, *two, part, part)
    yield on.report("three lists", tpu.move_chunks, layers, layers, *three, on.ids(1))
    pinned = on.spec((PAGES, *KV_FIRST.shape), "bfloat16", "pinned_host")
    where = pinned.sharding  # type: ignore[attr-defined]
    fill = jax.jit(lambda host, layer: tpu.fill_host(host, layer), donate_argnums=0, out_shardings=where)
    yield on.report("to the host", fill, pinned, layers[0])
    for dtype in ("bfloat16", "uint16"):
        (layer, *_), rows = on.layers(KV_FIRST, dtype), on.spec((IDS, 32768), "uint16")
        yield on.report(f"xla {dtype}", xla._set, layer, on.ids(), rows)


ASKED: dict[str, Callable[[Compiler], Iterator[dict[str, object]]]] = {
    "kernels": kernels,
    "limits": rules,
    "memory": memory,
}

if __name__ == "__main__":
    compiler = Compiler(sys.argv[1])
    print(json.dumps([row for asked in sys.argv[2:] for row in ASKED[asked](compiler)]))
