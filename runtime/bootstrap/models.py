"""What travels over the bootstrap service's HTTP: bodies, views and the one error shape.

Rules of this file:

1. A key that we do not know is ignored, never fatal. Released engines build a dataclass from every key of an answer, so
   each key that was ever added to one broke the older decodes (quirk Q33).
2. A key that we know is strict: no ``"8"`` for ``8``, no ``true`` for ``1``, a range on every number, a length on every
   string. A refusal names the field and says what was expected.
3. No HTTP library in here: the registry and the keeper need these types where none is installed.

The H5 names are those of the engines' dialect (released 0.5.10 and later); the native names are the same wherever both
have the field, so that an error reads the same in both.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from ..hosts import host_port

__all__ = [
    "MAX_RANKS_PER_AXIS",
    "TOPOLOGY_FIELDS",
    "BootstrapError",
    "EngineView",
    "ErrorBody",
    "ErrorKind",
    "H5DpRank",
    "H5Put",
    "H5Query",
    "HolderRequest",
    "Lease",
    "NoteRequest",
    "Problem",
    "RankEntry",
    "RankFilter",
    "RankView",
    "RegisterRequest",
    "Topology",
]

#: Largest size along one axis of parallelism: far above any engine, and low enough that a typing error shows.
MAX_RANKS_PER_AXIS = 4096
_MAX_LAYOUT_BYTES, _MAX_LAYOUT_BRACKETS = 4096, 64
_H5_OPTIONAL = (
    "enable_dsa_cache_layer_split",
    "prefill_http_port",
    "dsv41_spec_layout",
    "decode_allocation_policy",
    "kv_layout",
    "enable_kv_cache_sharding",
)

Size: TypeAlias = Annotated[int, Field(ge=1, le=MAX_RANKS_PER_AXIS)]
Rank: TypeAlias = Annotated[int, Field(ge=0, lt=MAX_RANKS_PER_AXIS)]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]
Room: TypeAlias = Annotated[int, Field(ge=0, lt=2**64)]
Label: TypeAlias = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._+/-]+$")]
#: Ids that a native client may choose. No colon: ids with one belong to the dialect, see :meth:`H5Put.to_entry`.
NativeId: TypeAlias = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
AnyId: TypeAlias = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[A-Za-z0-9._:%-]+$")]
Namespace: TypeAlias = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")]
#: 16 characters are the least that can't be guessed within a lease.
Token: TypeAlias = Annotated[str, Field(min_length=16, max_length=128, pattern=r"^[A-Za-z0-9._~+/=-]+$")]

ErrorKind: TypeAlias = Literal["unreachable", "refused", "conflict", "not_ready", "unauthorised", "unknown"]


class Problem(BaseModel):
    """The body of every native error, under the key ``error``: one sentence, and the same facts as fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: ErrorKind
    sentence: str
    field: str | None = None  #: the field that is wrong or that conflicts
    expected: str | None = None
    got: str | None = None
    holder: str | None = None  #: conflict: the instance that holds what was claimed
    remaining_s: float | None = None  #: conflict: seconds until the holder's lease ends, unless it renews; None: never


class ErrorBody(BaseModel):
    """What every error answer of the native routes looks like."""

    error: Problem


class BootstrapError(Exception):
    """A call to the bootstrap service failed. ``kind`` says what to do next, ``problem`` holds the details.

    ``unreachable``: try again later; ``not_ready``: ranks are missing, try again soon; ``conflict``: somebody else
    holds it, see ``problem.holder``; ``unknown``: the registry does not know this instance, register again;
    ``unauthorised``: wrong or missing shared secret; ``refused``: the request itself is wrong, or a table is full.
    """

    def __init__(self, kind: ErrorKind, sentence: str, problem: Problem | None = None) -> None:
        super().__init__(sentence)
        self.kind: ErrorKind = kind
        self.sentence = sentence
        self.problem = problem if problem is not None else Problem(kind=kind, sentence=sentence)


class Topology(BaseModel):
    """What all ranks of one engine must say alike. The registry compares these fields one by one."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    attn_tp_size: Size
    attn_cp_size: Size = 1
    attn_dp_size: Size = 1
    pp_size: Size = 1
    system_dp_size: Size = 1
    page_size: Annotated[int, Field(ge=1, le=1 << 20)]  #: tokens per page
    kv_cache_dtype: Label
    load_balance_method: Label = "follow_bootstrap_room"
    # Fields that single releases of the dialect added. Kept, compared and given back, because they change what the
    # bytes mean; left out of an answer where no rank gave them, because older decodes die of them (rule 1).
    enable_dsa_cache_layer_split: bool | None = None
    dsv41_spec_layout: dict[str, JsonValue] | None = None
    decode_allocation_policy: Label | None = None
    kv_layout: Label | None = None
    enable_kv_cache_sharding: bool | None = None

    @field_validator("dsv41_spec_layout")
    @classmethod
    def _layout_is_short(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        # It is given back to others, so it has to be JSON in the strict sense: no NaN, no lone surrogate.
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            short = (
                len(text.encode()) <= _MAX_LAYOUT_BYTES and text.count("[") + text.count("{") <= _MAX_LAYOUT_BRACKETS
            )
        except (ValueError, RecursionError):
            short = False
        if not short:
            limits = {"bytes": _MAX_LAYOUT_BYTES, "brackets": _MAX_LAYOUT_BRACKETS}
            raise PydanticCustomError("layout", "strict JSON of {bytes} bytes and {brackets} brackets at most", limits)
        return value

    @model_validator(mode="after")
    def _one_kind_of_dp(self) -> Self:
        # The engines key ranks by one dp coordinate: the system's where it has one, else that of dp attention. With
        # both, two ranks would share a key.
        if self.attn_dp_size > 1 and self.system_dp_size > 1:
            raise _wrong("attn_dp_size", "1 when system_dp_size is above 1", self.attn_dp_size)
        return self

    @property
    def dp_size(self) -> int:
        return self.system_dp_size if self.system_dp_size > 1 else self.attn_dp_size

    @property
    def expected_ranks(self) -> int:
        """How many ranks the whole engine has: dp * cp * tp * pp."""
        return self.dp_size * self.attn_cp_size * self.attn_tp_size * self.pp_size


#: Names of the fields that must agree, in the order in which they are compared.
TOPOLOGY_FIELDS: tuple[str, ...] = tuple(Topology.model_fields)


class _Placed(Topology):
    """A topology and one place in it."""

    attn_tp_rank: Rank
    attn_cp_rank: Rank = 0
    attn_dp_rank: Rank = 0
    pp_rank: Rank = 0
    system_dp_rank: Rank = 0
    prefill_http_port: Port | None = None

    @model_validator(mode="after")
    def _place_is_inside(self) -> Self:
        for axis in ("attn_tp", "attn_cp", "attn_dp", "pp", "system_dp"):
            rank, size = getattr(self, f"{axis}_rank"), getattr(self, f"{axis}_size")
            if rank >= size:
                raise _wrong(f"{axis}_rank", f"below {axis}_size, which is {size}", rank)
        return self

    @property
    def dp_rank(self) -> int:
        return self.system_dp_rank if self.system_dp_size > 1 else self.attn_dp_rank


class RankEntry(_Placed):
    """One registered rank: where its control socket is, who it is, and its place in its engine."""

    bootstrap: Namespace = ""  #: engines of different namespaces never meet; the dialect lives in ""
    role: Literal["prefill"] = "prefill"
    engine_id: AnyId
    instance: AnyId  #: one per process start; a process may hold several ranks
    control: Annotated[str, Field(max_length=300)]  #: "tcp://host:port", an IPv6 host in brackets
    transports: Annotated[tuple[Label, ...], Field(strict=False, max_length=16)] = ()
    protocol: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9._/+-]*$")] = ""
    rank_ip: Annotated[str, Field(max_length=255)] | None = None  #: dialect: the host, spelt as the engine spelt it

    @field_validator("control")
    @classmethod
    def _control_is_an_address(cls, value: str) -> str:
        _split_address(value)
        return value

    def h5_topology(self) -> dict[str, JsonValue]:
        """What the dialect answers about this rank's engine: the keys of 0.5.10, and later ones that a rank gave."""
        answer: dict[str, JsonValue] = {
            "attn_tp_size": self.attn_tp_size,
            "attn_cp_size": self.attn_cp_size,
            "dp_size": self.dp_size,
            "pp_size": self.pp_size,
            "page_size": self.page_size,
            "kv_cache_dtype": self.kv_cache_dtype,
            "follow_bootstrap_room": self.load_balance_method == "follow_bootstrap_room",
        }
        return answer | {name: value for name in _H5_OPTIONAL if (value := getattr(self, name)) is not None}

    def address(self) -> tuple[str, int]:
        """Host (an IPv6 one without brackets, unless the engine spelt it with them) and port, for the dialect."""
        host, port = _split_address(self.control)
        return (host if self.rank_ip is None else self.rank_ip), port


class RegisterRequest(RankEntry):
    """PUT /v1/ranks. ``token``: the owner token of this instance. A client that chooses it itself may repeat a call
    whose answer was lost, and keeps its token when the registry restarts; without one the registry makes one."""

    engine_id: NativeId
    instance: NativeId
    token: Token | None = Field(default=None, repr=False)

    @field_validator("control")
    @classmethod
    def _others_can_reach_it(cls, value: str) -> str:
        if _split_address(value)[0] in ("0.0.0.0", "::"):
            raise PydanticCustomError("wildcard", "an address that other hosts can connect to, not a wildcard")
        return value

    def entry(self) -> RankEntry:
        return RankEntry.model_validate(self.model_dump(exclude={"token", "rank_ip"}))


class HolderRequest(BaseModel):
    """POST /v1/ranks/heartbeat and DELETE /v1/ranks: who speaks, and the proof."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    instance: NativeId
    token: Token = Field(repr=False)


class NoteRequest(HolderRequest):
    """POST /v1/notes: this room is served by that dp rank of my engine."""

    bootstrap: Namespace = ""
    room: Room
    dp_rank: Rank


class Lease(BaseModel):
    """The answer to a registration or a heartbeat."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    ttl_s: float  #: seconds from now on that the registration lives
    ranks: int  #: how many ranks this instance holds
    token: str | None = Field(default=None, repr=False)  #: only in the answer to a registration


class RankFilter(BaseModel):
    """The query of GET /v1/ranks: each field that is given narrows the choice."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    bootstrap: str | None = None
    engine_id: str | None = None
    instance: str | None = None
    dp: int | None = None
    cp: int | None = None
    tp: int | None = None
    pp: int | None = None


class RankView(RankEntry):
    """One element of GET /v1/ranks."""

    remaining_s: float | None  #: seconds until the lease ends, unless it is renewed; None: it does not end by itself


class EngineView(Topology):
    """One element of GET /v1/engines. At most one engine of a namespace and role can be ready."""

    bootstrap: Namespace
    role: Literal["prefill"]
    engine_id: AnyId
    live_ranks: int
    needed_ranks: int
    ready: bool  #: every rank of the engine is live
    missing: Annotated[tuple[str, ...], Field(strict=False)]  #: the first few ranks that are not, "dp0 cp0 tp1 pp0"


class H5Put(_Placed):
    """PUT /route of the dialect. The engines always send the sizes and ranks, so they are mandatory here."""

    attn_cp_size: Size
    attn_cp_rank: Rank
    attn_dp_size: Size
    attn_dp_rank: Rank
    pp_size: Size
    pp_rank: Rank
    system_dp_size: Size
    system_dp_rank: Rank
    rank_ip: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._:%\[\]-]+$")]
    rank_port: Port

    def to_entry(self) -> RankEntry:
        """The dialect has neither engine id nor instance: all its ranks are one engine, and the address is the holder.
        Both ids contain a colon, which no native id may, so that neither can pass for the other."""
        host = self.rank_ip.strip("[]")
        return RankEntry.model_validate(
            self.model_dump(exclude={"rank_port"})
            | {
                "engine_id": "sglang:h5",
                "instance": f"addr:{host}:{self.rank_port}",
                "control": f"tcp://{host_port(host, self.rank_port)}",
                "protocol": "sglang-h5",
            }
        )


class H5DpRank(BaseModel):
    """POST /register_dp_rank of the dialect."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    bootstrap_room: Room
    dp_rank: Rank


class H5Query(BaseModel):
    """POST /query_dp_ranks of the dialect."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    bootstrap_rooms: Annotated[list[Room], Field(max_length=4096)]


def _wrong(field: str, expected: str, got: int) -> PydanticCustomError:
    return PydanticCustomError(
        "inconsistent",
        "{field} must be {expected}, got {got}",
        {"field": field, "expected": expected, "got": str(got)},
    )


def _split_address(control: str) -> tuple[str, int]:
    """Host and port of "tcp://host:port"."""
    scheme, _, rest = control.partition("://")
    host, _, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    letters = bare.replace(".", "").replace("-", "").replace("_", "").replace("%", "").replace(":", "")
    good = scheme == "tcp" and letters.isalnum() and letters.isascii() and (bracketed or ":" not in bare)
    if not (good and port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise PydanticCustomError("address", 'an address "tcp://host:port", an IPv6 host in brackets, port 1..65535')
    return bare, int(port)
