"""What tags cost: each message against the same message as positional slots, in the same C codec.

The twin of a struct is made from its annotations with ``array_like=True``; nothing else differs, rows and columns
included. ``codec`` rows are our public functions as a caller calls them, so they hold all that we add (frame limit, error
translation, the result object); they carry the targets. ``bare`` rows show what of that is the price of tags alone,
``strict`` what it costs to refuse repeated tags. The twin is always bare.

Rounds of all variants are interleaved, so that a slow moment of the machine hits all of them; the minimum over rounds
is compared, the median is reported beside it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import median
from time import perf_counter_ns
from typing import Annotated, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from kvpoll.protocol.codec import decode, encode
from kvpoll.spec import wire

__all__ = ["Result", "run"]

#: Marks. A registration is sent once per link; small messages are what a room is made of.
ENCODE_RATIO = 1.15
DECODE_RATIO = 1.05
SMALL_EXTRA_NS = 100.0


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison, times in nanoseconds per call. ``value`` is what ``target`` bounds from above; no target, no
    verdict."""

    name: str
    ours_ns: float
    ours_median_ns: float
    slots_ns: float
    slots_median_ns: float
    unit: str  #: of value and target: "x" (ours / slots) or "ns" (ours - slots)
    value: float
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.value <= self.target


def run(rounds: int = 60, calls: int = 2000) -> list[Result]:
    """Measure everything; about two seconds per message with the defaults."""
    results = []
    for name, message, targets in (
        ("registration", _hello(_registration()), Targets("x", ENCODE_RATIO, DECODE_RATIO)),
        ("all groups", _hello(_with_all_groups()), Targets("x")),
        ("close", _close(), Targets("ns", SMALL_EXTRA_NS, SMALL_EXTRA_NS)),
        ("query", _query(), Targets("ns", SMALL_EXTRA_NS, SMALL_EXTRA_NS)),
    ):
        results += _compare(name, message, targets, rounds, calls)
    return results


@dataclass(frozen=True, slots=True)
class Targets:
    """Marks of one message, in ``unit``."""

    unit: str
    encode: float | None = None
    decode: float | None = None


def _compare(name: str, message: wire.Message, targets: Targets, rounds: int, calls: int) -> list[Result]:
    encoder = msgspec.msgpack.Encoder().encode
    tags: msgspec.msgpack.Decoder[object] = msgspec.msgpack.Decoder(Union[wire.KINDS])  # noqa: UP007
    slots: msgspec.msgpack.Decoder[object] = msgspec.msgpack.Decoder(Union[tuple(map(_twin, wire.KINDS))])  # noqa: UP007
    tags_decode, slots_decode = tags.decode, slots.decode
    twin = _twin_value(message)
    frame, twin_frame = encoder(message), encoder(twin)
    assert tags_decode(frame) == message
    assert slots_decode(twin_frame) == twin
    times = _interleave(
        {
            "slots encode": lambda: encoder(twin),
            "slots decode": lambda: slots_decode(twin_frame),
            "codec encode": lambda: encode(message),
            "codec decode": lambda: decode(frame),
            "bare encode": lambda: encoder(message),
            "bare decode": lambda: tags_decode(frame),
            "codec decode strict": lambda: decode(frame, strict=True),
        },
        rounds,
        calls,
    )
    marks = {"codec encode": targets.encode, "codec decode": targets.decode}
    results = []
    for variant in ("codec encode", "codec decode", "bare encode", "bare decode", "codec decode strict"):
        ours, theirs = times[variant], times["slots encode" if "encode" in variant else "slots decode"]
        value = min(ours) / min(theirs) if targets.unit == "x" else min(ours) - min(theirs)
        row = (min(ours), median(ours), min(theirs), median(theirs), targets.unit, value, marks.get(variant))
        results.append(Result(f"{name} {variant}", *row))
    return results


def _interleave(calls_of: dict[str, Callable[[], object]], rounds: int, calls: int) -> dict[str, list[float]]:
    """Nanoseconds per call by round, without what an empty call costs at its best."""
    everything: dict[str, Callable[[], object]] = {**calls_of, "": lambda: None}
    times: dict[str, list[float]] = {name: [] for name in everything}
    for _ in range(rounds):
        for name, call in everything.items():
            start = perf_counter_ns()
            for _ in range(calls):
                call()
            times[name].append((perf_counter_ns() - start) / calls)
    empty = min(times.pop(""))
    return {name: [time - empty for time in row] for name, row in times.items()}


# Twins ----------------------------------------------------------------------------------------------------------------
@cache
def _twin(cls: type[Struct]) -> type[Struct]:
    """The same fields in the same order, as slots; absent is nil there."""
    hints = get_type_hints(cls, include_extras=True)
    fields: list[object] = []
    for info in msgspec.structs.fields(cls):
        kind = _twin_type(hints[info.name])
        fields.append(
            (info.name, kind) if info.required else (info.name, kind, None if info.default is UNSET else info.default)
        )
    tag = cls.__struct_config__.tag
    return msgspec.defstruct(
        f"{cls.__name__}Slots",
        fields,  # type: ignore[arg-type]
        array_like=True,
        frozen=True,
        kw_only=True,
        gc=cls.__struct_config__.gc,
        tag=tag if isinstance(tag, int) else None,
    )


def _twin_type(annotation: object) -> object:
    if annotation is UnsetType:
        return type(None)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _twin(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_twin_type(args[0]), *args[1:])]
    inner = tuple(a if a is Ellipsis else _twin_type(a) for a in args)
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007
    return origin[inner] if origin in (tuple, dict) else annotation


def _twin_value(value: object) -> object:
    if value is UNSET:
        return None
    if isinstance(value, Struct):
        return _twin(type(value))(**{name: _twin_value(getattr(value, name)) for name in value.__struct_fields__})
    return tuple(map(_twin_value, value)) if type(value) is tuple else value  # a row holds no structs: as it is


# Messages -------------------------------------------------------------------------------------------------------------
def _hello(registration: wire.Registration) -> wire.Hello:
    return wire.Hello(link=2**61 + 5, source=2**60 + 7, registration=registration)


def _registration() -> wire.Registration:
    """What one rank of a TP-8 decode engine says: two transports, described as ours describe themselves; twelve aux
    buffers; speculative decoding. No staging, which is for unequal TP sizes, and no DCP, which the support matrix refuses
    together with KV heads."""
    names = (
        "output_ids", "cached_tokens", "token_logprobs_val", "token_logprobs_idx", "top_logprobs_val",
        "top_logprobs_idx", "topk_p", "topk_index", "hidden_states", "bootstrap_room", "mm_hash", "grammar",
    )  # fmt: skip
    jax: dict[str, str | int] = {
        "transport": "jax", "layout": 1, "jax": "0.7.2", "transports": 4, "transfer_size": 8 << 20,
        "address": "10.0.3.17:41234", "bulk_ports": "41240,41241,41242,41243", "instance": "5c1d" * 8,
    }  # fmt: skip
    zmq: dict[str, str | int] = {
        "transport": "zmq", "version": 1, "token": 2**61 + 3, "piece": 1 << 20, "host": "3fa0" * 8,
        "tcp": "tcp://10.0.3.17:41235", "ipc": "ipc:///tmp/kvpoll-k3x9a2bq/push",
    }  # fmt: skip
    return wire.Registration(
        versions=wire.Versions((1, 0), (1, 0)),
        capabilities=("pull", "push"),
        role="decode",
        engine=2**62 + 12345,
        model="some-org/some-model-70b",
        weights="3f1c2a9b",
        layers=wire.Layers(80, 0, 80),
        page=wire.Page(64, 262144),
        kv_dtype="bfloat16",
        layout="page,kv,head,token,dim",
        heads=wire.Heads(8, 128),
        tp=wire.Axis(8, 3),
        transports=(wire.TransportOffer("jax", jax), wire.TransportOffer("zmq", zmq)),
        deadlines=wire.Deadlines(
            pairing=30_000, silence=60_000, total=600_000, resend=1_000, lost=15_000, conclude=30_000
        ),
        aux=wire.AuxSchema.of(wire.AuxField(name, "int32", (1, 16)) for name in names),
        speculative=wire.Speculative(algorithm="EAGLE", draft_tokens=4, topk=1, hidden_size=8192),
    )


def _with_all_groups() -> wire.Registration:
    """No engine can send this (see above); it shows what each further group costs."""
    staging = wire.Staging(buffer_nbytes=1 << 32, grid_tokens=8192)
    return msgspec.structs.replace(_registration(), staging=staging, dcp=wire.Dcp(size=2, rank=1))


def _close() -> wire.Close:
    return wire.Close(**_ROOM, total=12)


def _query() -> wire.Query:
    return wire.Query(**_ROOM, low_water=41200)


_ROOM = {
    "link": 2**61 + 5, "source": 2**60 + 7, "target": 2**59 + 3, "source_rank": 3, "target_rank": 3,
    "room": 2**62 + 99, "engine": 2**62 + 12345, "gen": 41234,
}  # fmt: skip


if __name__ == "__main__":
    for r in run():
        verdict = {None: "", True: "met", False: "MISSED"}[r.met]
        mark = f"<= {r.target:g} {r.unit}" if r.target is not None else ""
        times = f"{r.ours_ns:7.0f} ns  slots {r.slots_ns:7.0f} ns"
        print(f"{r.name:34} {times}  {r.value:7.2f} {r.unit:2} {mark:10} {verdict}")
