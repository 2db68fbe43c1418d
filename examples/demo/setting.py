"""What is run: the options of the command, and the configuration of each engine and rank that follows from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import SecretStr
from sharded_model import ShardedConfig, Sizes, layers_of, page_shape

from kvpoll.protocol.plans.ranks import Place, Shape
from kvpoll.runtime import AuxBuffer, Durations, EngineSpec, ManagerConfig, Role

__all__ = ["CHUNK", "PAGE_SIZE", "TTL_S", "EngineSetting", "Message", "Options", "places"]

#: A command to an engine or an event from it: one JSON object a line.
Message: TypeAlias = dict[str, Any]

PAGE_SIZE = 16
CHUNK = 64  #: tokens that an engine computes in one go; a long prompt is handed over chunk by chunk
#: Of an entry at the bootstrap service: short, so that a restarted engine gets its place back soon. Not shorter, because an
#: engine that dies leaves an entry of two thirds of it or more, and by then every peer must have declared it lost. One that
#: has not would take the new process's rooms to the dead one.
TTL_S = 4.0
ALONE = Shape()

#: Short, for a demonstration; still far above what a busy machine with two cores makes a process wait.
_DURATIONS = Durations(
    beat=0.25, lost=2.5, hello=5, pairing=8, silence=6, total=25, sender_margin=5, gate=5, resend=0.25, drain=10
)


@dataclass(frozen=True)
class Options:
    """What the command was told."""

    prefill: int = 1
    decode: int = 1
    prompts: int = 64
    new_tokens: int = 8
    transport: str = "jax"
    fault: str = ""
    secret: str = ""
    trace: str = ""
    seed: int = 0
    json: bool = False
    tokens: tuple[int, ...] = ()  #: lengths of the prompts; empty: lengths of all kinds
    mla: bool = False
    prefill_shape: Shape = ALONE
    decode_shape: Shape = ALONE
    refused: str = ""  #: the field that makes these two a pair that cannot be; empty: they fit

    @property
    def room_bound(self) -> float:
        """Seconds within which every room must be over at every end that still runs."""
        return _DURATIONS.total + _DURATIONS.sender_margin + _DURATIONS.lost

    @property
    def plain(self) -> bool:
        """One rank a side, and the usual prompts: the smallest model will do."""
        return not self.tokens and not self.mla and self.prefill_shape == self.decode_shape == ALONE

    def setting(
        self, name: str, role: Literal["prefill", "decode"], shape: Shape, *, namespace: str = "", bootstrap: str = "",
        page_size: int = PAGE_SIZE,
    ) -> EngineSetting:  # fmt: skip
        """Of an engine of this run."""
        heads, head_dim, context = (
            (4, 16, 1024) if self.plain else (_heads(self.prefill_shape, self.decode_shape), 8, 1152)
        )
        return EngineSetting(
            name, role, namespace, bootstrap, self.transport, self.secret, self.trace, page_size, heads=heads,
            head_dim=head_dim, context=context, mla=self.mla, shape=shape, prefill=self.prefill_shape,
        )  # fmt: skip


@dataclass(frozen=True)
class EngineSetting:
    """What an engine is told when it starts; goes to it as JSON."""

    name: str
    role: Literal["prefill", "decode"]
    namespace: str = ""
    bootstrap: str = ""  #: URL of the service
    transport: str = "inproc"
    secret: str = ""
    trace: str = ""
    page_size: int = PAGE_SIZE
    pages: int = 320
    heads: int = 4
    head_dim: int = 16
    context: int = 1024  #: tokens of a sequence at most
    mla: bool = False
    shape: Shape = ALONE
    prefill: Shape = ALONE  #: of the engines that a decode engine reads from

    def to_message(self) -> Message:
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> EngineSetting:
        shapes = {name: Shape(*message[name]) for name in ("shape", "prefill")}
        return cls(**{**message, **shapes})

    @property
    def model(self) -> ShardedConfig:
        return ShardedConfig(
            heads=self.heads, head_dim=self.head_dim, page_size=self.page_size, chunk=CHUNK,
            max_pages=self.context // self.page_size, mla=self.mla,
        )  # fmt: skip

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.shape.tp, self.shape.pp, self.shape.dcp)

    def config(self, place: Place, engine_id: int) -> ManagerConfig:
        """Of one rank."""
        model, shape = self.model, self.shape
        layers, page = layers_of(model, self.sizes, place.pp), page_shape(model, self.sizes)
        engine = EngineSpec(
            model="tiny, latent" if self.mla else "tiny", weights="seed 0", page_size=model.page_size, layers=model.layers,
            layer_start=layers.start, layer_stop=layers.stop, kv_dtype="float32", mla=self.mla,
            layout="token,latent" if self.mla else "kv,token,head,dim", page_nbytes=4 * prod(page),
            kv_heads=1 if self.mla else model.heads // shape.tp, head_dim=page[-1],
            tp_size=shape.tp, tp_rank=place.tp, pp_size=shape.pp, pp_rank=place.pp, cp_size=shape.cp, cp_rank=place.cp,
            aux=(AuxBuffer(name="first_token", dtype="int32", shape=(1,)),),
            dcp_size=shape.dcp,
        )  # fmt: skip
        return ManagerConfig(
            role=Role(self.role), engine=engine, engine_id=engine_id, bootstrap=self.bootstrap, namespace=self.namespace,
            transports=(self.transport,), durations=_DURATIONS, trace=self._trace_file(place),
            secret=SecretStr(self.secret) if self.secret else None,
        )  # fmt: skip

    def _trace_file(self, place: Place) -> str | None:
        rank = "".join(f".{axis}{at}" for axis, at in zip(("tp", "pp", "cp"), place[:3], strict=True) if at)
        return str(Path(self.trace) / f"{self.name}{rank}-{os.getpid()}.jsonl") if self.trace else None


def places(shape: Shape) -> list[Place]:
    """Every rank of an engine: by stage, then by TP rank, then by CP rank."""
    return [Place(tp, pp, cp) for pp in range(shape.pp) for tp in range(shape.tp) for cp in range(shape.cp)]


def _heads(prefill: Shape, decode: Shape) -> int:
    """So many that both engines can split them."""
    return next(heads for heads in (12, 24) if not heads % prefill.tp and not heads % decode.tp)
