"""Configuration: everything that a person sets, checked by pydantic. Durations in seconds, sizes in bytes and tokens.

What an engine may combine is decided by the support matrix (:mod:`kvpoll.spec.support`), not here: the check describes the
engine as the handshake would, and asks for what is wrong with that end by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Literal

from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from kvpoll.protocol.aux import AuxLayout, speculative_lacks
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.one_end import faults
from kvpoll.protocol.plans import Place, Shape
from kvpoll.protocol.session import Timing
from kvpoll.spec.wire import (
    ALONE,
    VERSION,
    AuxField,
    AuxSchema,
    Axis,
    Dcp,
    Deadlines,
    Heads,
    Layers,
    Page,
    Registration,
    Speculative,
    TransportOffer,
    Versions,
)

__all__ = ["AuxBuffer", "Draft", "Durations", "EngineSpec", "Limits", "ManagerConfig", "Role", "is_loopback"]

Seconds = Annotated[float, Field(gt=0, le=86_400)]
#: As the wire takes them: 16 bits.
Size = Annotated[int, Field(ge=1, le=0xFFFF)]
Rank = Annotated[int, Field(ge=0, lt=0xFFFF)]


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
    staging_slots: int = Field(default=0, ge=0, le=65_536, description="staging slots, allocated at the start; 0: none")
    staging_nbytes: int = Field(default=0, ge=0, description="bytes of one staging slot; above 0 when there are slots")
    staging_queue: int = Field(
        default=1024, ge=0, description="requests that may wait for a staging slot; one more is refused (LIMIT)"
    )

    @model_validator(mode="after")
    def _staging(self) -> Limits:
        if bool(self.staging_slots) != bool(self.staging_nbytes):
            raise ValueError(
                "staging_slots, staging_nbytes: expected both above 0, or both 0, "
                f"got {self.staging_slots} and {self.staging_nbytes}"
            )
        return self


class AuxBuffer(_Model):
    """One named buffer of the aux data."""

    name: str = Field(max_length=64)
    dtype: str = Field(max_length=64)
    shape: tuple[int, ...]

    def wire(self) -> AuxField:
        return AuxField(name=self.name, dtype=self.dtype, shape=self.shape)


class Draft(_Model):
    """Speculative decoding: must be the same at both ends."""

    algorithm: str = Field(min_length=1, max_length=64, description="e.g. EAGLE")
    draft_tokens: int = Field(ge=1, le=0xFFFF, description="tokens of one draft")
    topk: int = Field(default=1, ge=1, le=0xFFFF)
    hidden_size: int = Field(ge=1, le=0xFFFFFFFF, description="width of the hidden states that the draft starts from")

    def wire(self) -> Speculative:
        return Speculative(self.algorithm, self.draft_tokens, self.topk, self.hidden_size)


class EngineSpec(_Model):
    """What an engine is: all of it is compared with the peer's, field by field. ``kvpoll tables support`` prints what may
    meet what."""

    model: str = Field(default="", description="name of the model")
    weights: str = Field(default="", description="revision of the weights; empty: not stated")
    page_size: int = Field(ge=1, description="tokens in a page")
    layers: Size = Field(description="layers of the whole model")
    layer_start: int = Field(default=0, ge=0, description="first layer of this rank")
    layer_stop: int | None = Field(default=None, ge=1, description="one past the last layer of this rank; default: all")
    kv_dtype: str = Field(description="dtype of the KV cache, e.g. bfloat16")
    layout: str = Field(
        description="axes of one page row, e.g. 'kv,token,head,dim'; pages are cut along head (unequal TP sizes) or token (DCP)"
    )
    page_nbytes: int = Field(ge=1, description="bytes of one page of one layer at this rank")
    kv_heads: int = Field(ge=1, description="KV heads of this rank: those of the model divided by tp_size, at least 1")
    head_dim: int = Field(ge=1)
    mla: bool = Field(default=False, description="the pool holds latent rows, the same ones at every TP rank")
    hybrid: bool = Field(
        default=False, description="the pool holds state beside the KV rows (sliding window, linear, ...)"
    )
    tp_size: Size = 1
    tp_rank: Rank = 0
    pp_size: Size = 1
    pp_rank: Rank = 0
    cp_size: Size = 1
    cp_rank: Rank = 0
    dp_size: Size = 1
    dp_rank: Rank = 0
    dp_routing: Literal["explicit", "room"] = Field(
        default="explicit",
        description="prefill: who chooses the replica of a room; decode: what stands in for a request that names none. "
        "room: the room modulo prefill's dp_size",
    )
    dcp_size: int = Field(
        default=1,
        ge=1,
        description="decode context parallel ranks, carved out of the TP ranks: rank tp_rank modulo dcp_size",
    )
    dcp_interleave: int = Field(default=1, ge=1, description="consecutive tokens of one decode context parallel rank")
    ep_size: Size = Field(default=1, description="expert parallel size; holds no KV data")
    speculative: Draft | None = Field(default=None, description="default: no speculative decoding")
    cache: Literal["", "chunk", "radix"] = Field(
        default="",
        description="chunk: every request starts empty; radix: prefixes are kept and reused; empty: not stated",
    )
    aux: tuple[AuxBuffer, ...] = ()

    @model_validator(mode="after")
    def _is_possible(self) -> EngineSpec:
        alone = self.describe(Role.NULL, 0, (), Durations().deadlines(Role.NULL), 1)
        for fault in faults(alone):
            raise ValueError(
                f"{_ours(fault.field)}: expected {_ours(fault.expected)}, got {fault.value}: {fault.advice}"
            )
        try:
            AuxLayout(buffer.wire() for buffer in self.aux)
        except LocalProtocolError as error:
            raise ValueError(str(error)) from None
        for name in speculative_lacks(alone):
            raise ValueError(
                f"aux: expected {name} of the size in speculative: a draft starts from it, and zeros will not do"
            )
        return self

    @property
    def shape(self) -> Shape:
        """Sizes of the engine that this rank is one of."""
        return Shape(self.tp_size, self.pp_size, self.cp_size, self.dp_size, self.dcp_size)

    @property
    def place(self) -> Place:
        """Where this rank is in it."""
        return Place(self.tp_rank, self.pp_rank, self.cp_rank, self.dp_rank)

    @property
    def page_tokens(self) -> int:
        """Tokens of one page id: with DCP, ``page_size`` of them at each of ``dcp_size`` ranks."""
        return self.page_size * self.dcp_size

    @property
    def layer_range(self) -> tuple[int, int]:
        return self.layer_start, self.layers if self.layer_stop is None else self.layer_stop

    def describe(
        self, role: Role, engine_id: int, transports: Sequence[TransportOffer], deadlines: Deadlines, max_parts: int
    ) -> Registration:
        """The registration of a process of this engine, as its peers compare it."""
        start, stop = self.layer_range
        stated = {"dp-room": self.dp_routing == "room", "hybrid": self.hybrid, "radix": self.cache == "radix"}
        dcp = Dcp(size=self.dcp_size, rank=self.tp_rank % self.dcp_size, interleave=self.dcp_interleave)
        return Registration(
            versions=Versions(VERSION, VERSION), capabilities=tuple(name for name, on in stated.items() if on),
            role=role.value, engine=engine_id, model=self.model, weights=self.weights, layers=Layers(self.layers, start, stop),
            page=Page(self.page_size, self.page_nbytes), kv_dtype=self.kv_dtype, layout=self.layout,
            heads=Heads(self.kv_heads, self.head_dim), mla=self.mla, tp=_axis(self.tp_size, self.tp_rank),
            pp=_axis(self.pp_size, self.pp_rank), cp=_axis(self.cp_size, self.cp_rank), dp=_axis(self.dp_size, self.dp_rank),
            ep_size=self.ep_size, transports=tuple(transports), deadlines=deadlines, max_parts=max_parts,
            aux=AuxSchema.of(buffer.wire() for buffer in self.aux) if self.aux else UNSET,
            dcp=dcp if self.dcp_size > 1 else UNSET,
            speculative=self.speculative.wire() if self.speculative is not None else UNSET,
        )  # fmt: skip


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


def _axis(size: int, rank: int) -> Axis:
    return Axis(size, rank) if (size, rank) != ALONE else ALONE


#: Names of the registration that are called otherwise here; of the others the dot becomes an underscore.
_NAMES = {
    "layers.start": "layer_start", "layers.stop": "layer_stop", "layers.total": "layers", "heads.kv": "kv_heads",
    "heads.dim": "head_dim", "dcp+heads": "dcp_size, mla", "dcp+cp": "dcp_size, cp_size",
    "pp+speculative": "pp_size, speculative",
}  # fmt: skip


def _ours(text: str) -> str:
    """The same words with the names of this file's fields."""
    return re.sub(
        r"[a-z]+[.+][a-z_]+",
        lambda m: _NAMES.get(m[0]) or ("aux" if m[0].startswith("aux.") else m[0].replace(".", "_")),
        text,
    )


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
