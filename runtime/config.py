"""Configuration: everything that a person sets, checked by pydantic. Durations in seconds, sizes in bytes and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from kvpoll.protocol.session import Timing
from kvpoll.spec.wire import AuxField, Deadlines

__all__ = ["AuxBuffer", "Durations", "EngineSpec", "Limits", "ManagerConfig", "Role", "is_loopback"]

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Role(StrEnum):
    """What a process does. ``null`` hands nothing over: every call on it is refused."""

    NULL = "null"
    PREFILL = "prefill"
    DECODE = "decode"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Durations(_Model):
    """Deadlines and intervals (design section 4.8); compared in the handshake."""

    pairing: Seconds = Field(default=30.0, description="from create until both legs have met")
    silence: Seconds = Field(default=30.0, description="a peer that was asked must answer within this")
    total: Seconds = Field(default=300.0, description="one room at a receiver, whatever happens; nothing re-arms it")
    sender_margin: Seconds = Field(
        default=30.0, description="a sender's total deadline is longer than a receiver's by this"
    )
    gate: Seconds = Field(default=60.0, description="a local step that Success waits for")
    resend: Seconds = Field(default=0.5, description="a fact without an answer is said again after this")
    hello: Seconds = Field(default=10.0, description="from dialling a prefill rank until it answers")
    beat: Seconds = Field(default=1.0, description="between two heartbeats on a link")
    lost: Seconds = Field(default=5.0, description="a peer that is not heard for this long is declared lost")
    drain: Seconds = Field(default=30.0, description="close() waits this long for leases to come back")

    @model_validator(mode="after")
    def _inequalities(self) -> Durations:
        if self.lost < 3 * self.beat:
            raise ValueError(f"lost: expected at least three heartbeats ({3 * self.beat:g} s), got {self.lost:g} s")
        for name in ("pairing", "silence", "total"):
            if getattr(self, name) < 4 * self.resend:
                raise ValueError(
                    f"{name}: expected at least four re-sends ({4 * self.resend:g} s), got {getattr(self, name):g} s"
                )
        return self

    def timing(self, role: Role) -> Timing:
        """In milliseconds, as the core wants them."""
        total = self.total + (self.sender_margin if role is Role.PREFILL else 0)
        return Timing(
            pairing=_ms(self.pairing), silence=_ms(self.silence), total=_ms(total), gate=_ms(self.gate), resend=_ms(self.resend),
            hello=_ms(self.hello), beat=_ms(self.beat), lost=_ms(self.lost),
        )  # fmt: skip

    def deadlines(self, role: Role) -> Deadlines:
        """As the handshake carries them."""
        timing = self.timing(role)
        return Deadlines(
            pairing=timing.pairing, silence=timing.silence, total=timing.total, resend=timing.resend, lost=timing.lost,
            conclude=_ms(self.sender_margin),
        )  # fmt: skip


class Limits(_Model):
    """Bounds. Nothing in a process grows past them."""

    rooms: int = Field(default=65_536, ge=1, description="sessions, live and draining")
    links: int = Field(default=1024, ge=1, description="peers")
    half_open: int = Field(
        default=65_536, ge=1, description="announced attempts without a leg; tombstones as many again"
    )
    parts: int = Field(default=4096, ge=1, le=4096, description="parts of one plan of one rank")
    operations: int = Field(default=64, ge=1, description="transport operations in flight")
    quarantine: int = Field(
        default=0, ge=0, description="leases that may wait for a fence before the process drains; needed (above 0) for a "
        "push transport that has no fence"
    )  # fmt: skip
    outbox: int = Field(
        default=4096, ge=16, description="control messages waiting for one link; more are dropped and re-sent later"
    )


class AuxBuffer(_Model):
    """One named buffer of the aux data."""

    name: str = Field(max_length=64)
    dtype: str = Field(max_length=64)
    shape: tuple[int, ...]

    def wire(self) -> AuxField:
        return AuxField(name=self.name, dtype=self.dtype, shape=self.shape)


class EngineSpec(_Model):
    """What an engine is: all of it is compared with the peer's, field by field."""

    model: str = Field(default="", description="name of the model")
    weights: str = Field(default="", description="revision of the weights; empty: not stated")
    page_size: int = Field(ge=1, description="tokens in a page")
    layers: int = Field(ge=1, description="layers of the whole model")
    layer_start: int = Field(default=0, ge=0, description="first layer of this rank")
    layer_stop: int | None = Field(default=None, ge=1, description="one past the last layer of this rank; default: all")
    kv_dtype: str = Field(description="dtype of the KV cache, e.g. bfloat16")
    layout: str = Field(description="axes of one page row, e.g. 'kv,token,head,dim'")
    page_nbytes: int = Field(ge=1, description="bytes of one page of one layer at this rank")
    kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)
    mla: bool = False
    tp_size: int = Field(default=1, ge=1)
    tp_rank: int = Field(default=0, ge=0)
    pp_size: int = Field(default=1, ge=1)
    pp_rank: int = Field(default=0, ge=0)
    cp_size: int = Field(default=1, ge=1)
    cp_rank: int = Field(default=0, ge=0)
    dp_size: int = Field(default=1, ge=1)
    dp_rank: int = Field(default=0, ge=0)
    aux: tuple[AuxBuffer, ...] = ()

    @model_validator(mode="after")
    def _ranks_and_layers(self) -> EngineSpec:
        for axis in ("tp", "pp", "cp", "dp"):
            size, rank = getattr(self, f"{axis}_size"), getattr(self, f"{axis}_rank")
            if rank >= size:
                raise ValueError(f"{axis}_rank: expected below {axis}_size ({size}), got {rank}")
        start, stop = self.layer_range
        if not start < stop <= self.layers:
            raise ValueError(
                f"layer_start, layer_stop: expected a range within [0, {self.layers}), got [{start}, {stop})"
            )
        if len({buffer.name for buffer in self.aux}) != len(self.aux):
            raise ValueError("aux: expected every name once")
        return self

    @property
    def layer_range(self) -> tuple[int, int]:
        return self.layer_start, self.layers if self.layer_stop is None else self.layer_stop


class ManagerConfig(_Model):
    """A process. Everything binds to loopback unless told otherwise."""

    role: Role
    engine: EngineSpec
    engine_id: int | None = Field(
        default=None, ge=1, lt=1 << 63,
        description="shared by the ranks of one engine, another at each start; default: drawn, for an engine of one process",
    )  # fmt: skip
    host: str = Field(default="127.0.0.1", description="address that control and data sockets bind to")
    advertise: str | None = Field(default=None, description="address that peers reach us at; default: host")
    port: int = Field(default=0, ge=0, le=65_535, description="control port of a prefill process; 0: any free one")
    bootstrap: str = Field(
        default="embedded",
        description="where a prefill process registers: 'embedded' (its own service), 'none', or a URL",
    )
    bootstrap_port: int = Field(default=0, ge=0, le=65_535, description="port of the embedded service; 0: any free one")
    namespace: str = Field(default="", description="namespace at the bootstrap service, when several engines share one")
    transports: tuple[str, ...] = Field(
        default=(), description="transports to offer, best first; default: jax then zmq on an accelerator, zmq on a CPU"
    )
    transport_options: Mapping[str, Mapping[str, int | str]] = Field(
        default_factory=dict, description="by transport name"
    )
    secret: SecretStr | None = Field(
        default=None, description="shared secret for the registry and every control message"
    )
    durations: Durations = Durations()
    limits: Limits = Limits()
    trace: str | None = Field(default=None, description="file for the trace, one JSON object a line; default: no trace")


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
