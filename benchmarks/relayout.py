"""A hand-off between engines of different shapes, against the dense hand-off of the same bytes to ranks of the same number.

Dense: as many prefill ranks as decode ranks, one to one, each with its share of the bytes; so both sides of the ratio have the
same managers at the decode side, the same bytes for each of them, and nothing to take apart. Everything is in one process,
over zmq. Timed is from the first ``send()`` until the last rank has committed; ratios are medians over rounds of
(dense time / relayout time), so 1 is no loss at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from time import monotonic_ns

import numpy as np
import numpy.typing as npt

from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.plans import Place, Shape, sources_of
from kvpoll.runtime import EngineSpec, KVManager, KVReceiver, KVSender, ManagerConfig, Request
from kvpoll.spec import KVPoll

from .result import Bare, Result

__all__ = ["run"]

_PAGE, _LAYERS, _HEADS, _DIM, _PATIENCE_S = 16, 16, 16, 64, 30.0
Rows = npt.NDArray[np.uint16]


def run(quick: bool = False) -> list[Result]:
    """About ten seconds, one when ``quick``. Raises ``RuntimeError`` when a hand-off fails."""
    tokens, rounds = (64, 2) if quick else (256, 15)
    return [
        _compare("TP 1 to 2, heads", False, Shape(), Shape(tp=2), tokens, rounds),
        _compare("TP 2 to 1, heads", False, Shape(tp=2), Shape(), tokens, rounds),
        _compare("DCP 1 to 4, rows", True, Shape(), Shape(tp=4, dcp=4), tokens, rounds),
    ]


def _compare(name: str, mla: bool, prefill: Shape, decode: Shape, tokens: int, rounds: int) -> Result:
    with ExitStack() as undo:
        split = _Engines(mla, prefill, decode, tokens, undo)
        dense = [_Engines(mla, Shape(), Shape(), tokens // decode.tp, undo, part=decode.tp) for _ in range(decode.tp)]
        ours, plain = list[int](), list[int]()
        for number in range(2 + rounds):
            turns: list[tuple[list[_Engines], list[int]]] = [([split], ours), (dense, plain)]
            for engines, times in turns if number % 2 else reversed(turns):
                times.append(_timed(engines))
        del ours[:2], plain[:2]
    ratio = median(theirs / mine for mine, theirs in zip(ours, plain, strict=True))
    return Result(
        f"{name}, {split.nbytes / (1 << 20):.0f} MiB",
        ratio,
        says="dense hand-off of the same bytes / ours",
        bare=(Bare("ours median", median(ours) / 1e6, "ms"), Bare("dense median", median(plain) / 1e6, "ms")),
    )


def _timed(engines: list[_Engines]) -> int:
    for each in engines:
        each.meet()
    began = monotonic_ns()
    for each in engines:
        each.send()
    for each in engines:
        each.commit()
    took = monotonic_ns() - began
    for each in engines:
        each.end()
    return took


class _Engines:
    """A prefill and a decode engine. ``part``: the dense one has this part of the heads, and of the tokens for a latent."""

    def __init__(self, mla: bool, prefill: Shape, decode: Shape, tokens: int, undo: ExitStack, part: int = 1) -> None:
        self.mla, self.shape, self.room = mla, prefill, 0
        self.tokens = tokens if mla else tokens * part
        heads = 1 if mla else _HEADS // part
        words = _HEADS * _DIM * 2 if mla else 2 * heads * _DIM
        self.nbytes = self.tokens * words * 2 * _LAYERS
        self.p = [_Rank("prefill", mla, prefill, tp, heads, words, self.tokens, 71, undo) for tp in range(prefill.tp)]
        self.d = [_Rank("decode", mla, decode, tp, heads, words, self.tokens, 72, undo) for tp in range(decode.tp)]

    def meet(self) -> None:
        """Everybody has a handle, and every sender knows where its data goes."""
        self.room += 1
        request = Request(self.tokens, 0, self.room.to_bytes(8, "big"))
        for rank in self.p:
            rank.sender = KVSender(rank.manager, self.room, request)
        for rank in self.d:
            sources = sources_of(rank.place, self.shape, rank.spec.shape, mla=self.mla)
            at = [self.p[source.place.tp].manager.address for source in sources]
            rank.receiver = KVReceiver(rank.manager, "", 0, self.room, request, address=at, prefill=self.shape)
            rank.receiver.init(gen=self.room)
            rank.receiver.send_metadata(rank.pages)
        for rank in self.p:
            rank.wait(lambda sender=rank.sender: sender.poll() is not KVPoll.Bootstrapping)

    def send(self) -> None:
        for rank in self.p:
            rank.sender.send(rank.pages, rank.pool)

    def commit(self) -> None:
        for rank in self.d:
            rank.wait(lambda receiver=rank.receiver: receiver.committable)
            rank.pool = rank.receiver.commit(rank.pool)

    def end(self) -> None:
        for rank in self.p:
            rank.wait(lambda sender=rank.sender: sender.poll() is KVPoll.Success)
        for rank in (*self.p, *self.d):
            list(rank.manager.released())


class _Rank:
    sender: KVSender
    receiver: KVReceiver

    def __init__(
        self, role: str, mla: bool, shape: Shape, tp: int, heads: int, words: int, tokens: int, engine: int, undo: ExitStack
    ) -> None:  # fmt: skip
        mine = words if mla else words // shape.tp
        self.spec = EngineSpec(
            page_size=_PAGE, layers=_LAYERS, kv_dtype="uint16", layout="token,latent" if mla else "token,kv,head,dim",
            page_nbytes=_PAGE * mine * 2, kv_heads=1 if mla else heads // shape.tp, head_dim=words if mla else _DIM, mla=mla,
            tp_size=shape.tp, tp_rank=tp, dcp_size=shape.dcp,
        )  # fmt: skip
        self.place = Place(tp=tp)
        self.manager = KVManager(
            ManagerConfig.model_validate(
                {"role": role, "engine": self.spec, "transports": ("zmq",), "bootstrap": "none", "engine_id": engine}
            )
        )
        undo.callback(self.manager.close)
        count = pages_for(0, tokens, self.spec.page_tokens)
        self.pages = np.random.default_rng(tp).permutation(2 * count)[:count].tolist()
        self.pool: list[Rows] = [np.full((2 * count, _PAGE, mine), 1, np.uint16) for _ in range(_LAYERS)]

    def wait(self, until: Callable[[], bool]) -> None:
        if not self.manager.wait(until, _PATIENCE_S):
            raise RuntimeError(f"rank {self.place}: nothing happened for {_PATIENCE_S:g} s")
