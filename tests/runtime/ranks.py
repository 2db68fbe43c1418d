"""Engines of several ranks, as far as hand-offs see them: every rank has a manager and a pool shard of its own.

The truth of a request is one array: for a model with heads ``[layers, tokens, kv, heads, dim]``, for a latent one
``[layers, tokens, latent]``. Each prefill rank holds its part of it; each decode rank must end with exactly its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.plans import Place, Shape, sources_of
from kvpoll.runtime import (
    AuxBuffer,
    AuxSlots,
    EngineSpec,
    KVManager,
    KVReceiver,
    KVSender,
    Limits,
    ManagerConfig,
    Request,
)
from kvpoll.spec import KVPoll
from tests.runtime.engines import PATIENCE, SHORT, Pool, eventually

PAGE, LAYERS, HEADS, DIM, LATENT, POOL = 4, 4, 4, 2, 6, 40
Truth = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Model:
    """What is handed over."""

    mla: bool = False
    page: int = PAGE  #: tokens

    def truth(self, tokens: int, seed: int = 1) -> Truth:
        shape = (LAYERS, tokens, LATENT) if self.mla else (LAYERS, tokens, 2, HEADS, DIM)
        return np.random.default_rng(seed).integers(1, 1 << 16, shape, np.uint16)

    def spec(self, shape: Shape, place: Place) -> EngineSpec:
        heads = 1 if self.mla else HEADS // shape.tp
        words = LATENT if self.mla else 2 * heads * DIM
        stage = LAYERS // shape.pp
        return EngineSpec(
            page_size=self.page, layers=LAYERS, layer_start=place.pp * stage, layer_stop=(place.pp + 1) * stage,
            kv_dtype="uint16", layout="token,latent" if self.mla else "token,kv,head,dim",
            page_nbytes=self.page * words * 2, kv_heads=heads, head_dim=LATENT if self.mla else DIM, mla=self.mla,
            tp_size=shape.tp, tp_rank=place.tp, pp_size=shape.pp, pp_rank=place.pp, cp_size=shape.cp, cp_rank=place.cp,
            dcp_size=shape.dcp, aux=(AuxBuffer(name="first_token", dtype="int32", shape=(1,)),),
        )  # fmt: skip

    def part_of(self, truth: Truth, spec: EngineSpec) -> Truth:
        """What the rank holds of it: its layers, its heads; with DCP, its tokens."""
        mine = truth[spec.layer_start : spec.layer_stop]
        if not self.mla:
            mine = mine[:, :, :, spec.tp_rank * spec.kv_heads : (spec.tp_rank + 1) * spec.kv_heads]
        return mine[:, spec.tp_rank % spec.dcp_size :: spec.dcp_size]


def places(shape: Shape) -> list[Place]:
    return [Place(tp, pp, cp) for tp in range(shape.tp) for pp in range(shape.pp) for cp in range(shape.cp)]


class Rank:
    """One rank of one engine."""

    def __init__(
        self, role: str, model: Model, shape: Shape, place: Place, transport: str, engine_id: int,
        spec: EngineSpec | None = None, limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.place, self.model = spec or model.spec(shape, place), place, model
        self.aux = AuxSlots(4, 64)
        config = ManagerConfig.model_validate(
            {
                "role": role, "engine": self.spec, "transports": (transport,), "bootstrap": "none", "durations": SHORT,
                "engine_id": engine_id, "limits": limits or Limits(),
            }
        )  # fmt: skip
        self.manager = KVManager(config, aux=self.aux)
        layers = self.spec.layer_range[1] - self.spec.layer_range[0]
        words = self.spec.page_nbytes // 2 // PAGE
        self.pool: Pool = [np.zeros((POOL, PAGE, words), np.uint16) for _ in range(layers)]
        self.handle: KVSender | KVReceiver

    def pages(self, request: Request) -> list[int]:
        """Backwards, so that no page has the place that it has in the request."""
        size = self.spec.page_tokens
        count = pages_for(request.prefix, request.tokens, size)
        return list(range(POOL))[::-1][:count]

    def rows(self, truth: Truth, request: Request) -> Iterator[tuple[int, int, int, int, Truth]]:
        """Every token row that this rank holds: layer and token, page and slot, and what must be there."""
        mine, pages = self.model.part_of(truth, self.spec), self.pages(request)
        first, count = request.prefix // self.spec.page_tokens * self.spec.page_tokens, self.spec.dcp_size
        owned = [t for t in range(request.prefix, request.tokens) if t % count == self.spec.tp_rank % count]
        for layer, rows in enumerate(mine):
            for token in owned:
                local = (token - first) // count
                yield layer, token, pages[local // PAGE], local % PAGE, rows[token // count].reshape(-1)

    def fill(self, truth: Truth, request: Request) -> None:
        for layer, _, page, slot, row in self.rows(truth, request):
            self.pool[layer][page, slot] = row

    def differs(self, truth: Truth, request: Request) -> str:
        """The first token row that is not what it must be; empty when all are."""
        for layer, token, page, slot, row in self.rows(truth, request):
            if not np.array_equal(self.pool[layer][page, slot], row):
                return f"{self.place}: layer {layer}, token {token}"
        return ""


class Engines:
    """A prefill and a decode engine of these shapes."""

    def __init__(
        self, model: Model, prefill: Shape, decode: Shape, transport: str, undo: ExitStack, limits: Limits | None = None
    ) -> None:
        self.model, self.prefill, self.decode = model, prefill, decode
        self.p, self.d = list[Rank](), list[Rank]()
        for role, shape, ranks, engine in (("prefill", prefill, self.p, 71), ("decode", decode, self.d, 72)):
            for place in places(shape):
                own = limits if role == "decode" else None
                ranks.append(Rank(role, model, shape, place, transport, engine, limits=own))
                undo.callback(ranks[-1].manager.close)

    def addresses(self, rank: Rank) -> list[str]:
        """Of the prefill ranks that a decode rank meets."""
        at = {one.place: one.manager.address for one in self.p}
        return [at[s.place] for s in sources_of(rank.place, self.prefill, self.decode, mla=self.model.mla)]

    def receive(self, room: int, request: Request, gen: int) -> None:
        for rank in self.d:
            handle = self.announce(rank, room, request, gen)
            brought = any(s.aux for s in sources_of(rank.place, self.prefill, self.decode, mla=self.model.mla))
            handle.send_metadata(rank.pages(request), rank.aux.allocate() if brought else None)

    def announce(self, rank: Rank, room: int, request: Request, gen: int) -> KVReceiver:
        at = self.addresses(rank)
        rank.handle = handle = KVReceiver(rank.manager, "127.0.0.1", 1, room, request, address=at, prefill=self.prefill)
        handle.init(gen=gen)
        return handle

    def send(self, room: int, request: Request, truth: Truth, chunk: int) -> None:
        for rank in self.p:
            rank.fill(truth, request)
            last = rank.place.pp == self.prefill.pp - 1
            slot = rank.aux.allocate() if last else None
            rank.handle = KVSender(rank.manager, room, request)
            rank.handle.init(aux_index=slot)
            if slot is not None:
                rank.aux.write(slot, room, request.fingerprint(), b"first token")
            pages = rank.pages(request)
            for start in range(0, max(1, len(pages)), chunk):
                rank.handle.send(pages[start : start + chunk], rank.pool)

    def commit(self) -> None:
        for rank in self.d:
            handle = rank.handle
            assert isinstance(handle, KVReceiver)
            assert eventually(rank.manager, lambda h=handle: h.committable or h.poll() is KVPoll.Failed), rank.place
            assert handle.committable, handle.failure_exception()
            rank.pool = list(handle.commit(rank.pool))

    def hand_over(self, gen: int, tokens: int, chunk: int) -> None:
        """A whole hand-off, in chunks of so many pages: every row is where it belongs, and nothing is left."""
        request, truth = Request(tokens, 0, b"%d" % gen), self.model.truth(tokens, seed=gen)
        self.receive(gen, request, gen)
        self.send(gen, request, truth, chunk)
        self.commit()
        self.states(KVPoll.Success)
        assert [rank.differs(truth, request) for rank in self.d if rank.differs(truth, request)] == []
        self.returned([*self.p, *self.d])

    def states(self, wanted: KVPoll) -> None:
        for rank in (*self.d, *self.p):
            handle = rank.handle
            assert eventually(rank.manager, lambda h=handle: h.poll() is wanted), (
                rank.place, handle.poll(), handle.failure_exception()
            )  # fmt: skip

    def returned(self, ranks: Sequence[Rank]) -> None:
        """Every page and slot comes back, and nothing is left."""
        for rank in ranks:

            def idle(rank: Rank = rank) -> bool:
                for released in rank.manager.released():
                    if released.slot is not None:
                        rank.aux.free(released.slot)
                return not rank.manager.busy() and not rank.aux.lent

            assert eventually(rank.manager, idle), (rank.place, rank.manager.busy(), rank.aux.lent)


@contextmanager
def engines(
    model: Model, prefill: Shape, decode: Shape, transport: str = "zmq", limits: Limits | None = None
) -> Iterator[Engines]:
    """``limits``: of the decode ranks."""
    with ExitStack() as undo:
        yield Engines(model, prefill, decode, transport, undo, limits)


__all__ = ["PATIENCE", "Engines", "Model", "Rank", "engines"]
