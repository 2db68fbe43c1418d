"""What is run: the options of the command, and the configuration of each engine that follows from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import SecretStr
from tiny_model import ModelConfig

from kvpoll.runtime import AuxBuffer, Durations, EngineSpec, ManagerConfig, Role

__all__ = ["CHUNK", "PAGE_SIZE", "TTL_S", "EngineSetting", "Message", "Options", "page_nbytes"]

#: A command to an engine or an event from it: one JSON object a line.
Message: TypeAlias = dict[str, Any]

PAGE_SIZE = 16
CHUNK = 64  #: tokens that an engine computes in one go; a long prompt is handed over chunk by chunk
#: Of an entry at the bootstrap service: short, so that a restarted engine gets its place back soon. Not shorter, because an
#: engine that dies leaves an entry of two thirds of it or more, and by then every peer must have declared it lost. One that
#: has not would take the new process's rooms to the dead one.
TTL_S = 4.0

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

    @property
    def room_bound(self) -> float:
        """Seconds within which every room must be over at every end that still runs."""
        return _DURATIONS.total + _DURATIONS.sender_margin + _DURATIONS.lost


@dataclass(frozen=True)
class EngineSetting:
    """What an engine is told when it starts; goes to it as JSON."""

    name: str
    role: Literal["prefill", "decode"]
    namespace: str
    bootstrap: str  #: URL of the service
    transport: str
    secret: str = ""
    trace: str = ""
    page_size: int = PAGE_SIZE
    pages: int = 320

    def to_message(self) -> Message:
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> EngineSetting:
        return cls(**message)

    @property
    def model(self) -> ModelConfig:
        return ModelConfig(page_size=self.page_size, chunk=CHUNK, max_pages=1024 // self.page_size)

    def config(self) -> ManagerConfig:
        model = self.model
        engine = EngineSpec(
            model="tiny", weights="seed 0", page_size=model.page_size, layers=model.layers, kv_dtype="float32",
            layout="kv,token,head,dim", page_nbytes=page_nbytes(model), kv_heads=model.heads, head_dim=model.head_dim,
            aux=(AuxBuffer(name="first_token", dtype="int32", shape=(1,)),),
        )  # fmt: skip
        return ManagerConfig(
            role=Role(self.role), engine=engine, bootstrap=self.bootstrap, namespace=self.namespace,
            transports=(self.transport,), durations=_DURATIONS, trace=self._trace_file(),
            secret=SecretStr(self.secret) if self.secret else None,
        )  # fmt: skip

    def _trace_file(self) -> str | None:
        return str(Path(self.trace) / f"{self.name}-{os.getpid()}.jsonl") if self.trace else None


def page_nbytes(model: ModelConfig) -> int:
    """Bytes of one page of one layer: keys and values of float32."""
    return 2 * model.page_size * model.heads * model.head_dim * 4
