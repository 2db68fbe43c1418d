"""Messages for tests: strategies made from the struct types themselves, and a few written by hand."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.errors import RemoteProtocolError
from kvpoll.protocol.shape import FieldShape, shape_of
from kvpoll.spec import Cause, KVPoll, schema, wire

ENUMS: dict[str, type[IntEnum]] = {"PartKind": wire.PartKind, "KVPoll": KVPoll}


def of_type(kind: schema.Type) -> st.SearchStrategy[Any]:
    match kind:
        case schema.Integer(min=low, max=high):
            return st.one_of(st.integers(low, high), st.sampled_from((low, high)))
        case schema.Boolean():
            return st.booleans()
        case schema.Text(max_length=most):
            return st.text(max_size=min(most or 12, 12)) | st.just("é" * (most or 1))
        case schema.Bytes(max_length=most):
            return st.binary(max_size=most)
        case schema.Enumerated(open=True):
            return st.integers(0, 0xFFFF)
        case schema.Enumerated(enum=name):
            return st.sampled_from(list(ENUMS[name]))
        case schema.ListOf(items=items, max_length=most):
            return st.lists(of_type(items), max_size=min(most or 3, 3)).map(tuple)
        case schema.TupleOf(items=items):
            return st.tuples(*map(of_type, items))
        case schema.MapOf(keys=keys, values=values):
            return st.dictionaries(of_type(keys), of_type(values), max_size=3)
        case schema.UnionOf(options=options):
            return st.one_of(*map(of_type, options))
    raise TypeError(kind)


def of_field(field: FieldShape) -> st.SearchStrategy[Any]:
    if field.child is None:
        values = of_type(field.takes).map(lambda value: msgspec.convert(value, field.annotation))
    else:
        values = of_struct(field.child)
        values = st.lists(values, max_size=2).map(tuple) if field.many else values
    return st.just(UNSET) | values if field.presence == "optional" else values


def of_struct(cls: type[Struct]) -> st.SearchStrategy[Any]:
    """Any value that the limits allow, with its rows as rows."""
    shape = shape_of(cls)
    required = {f.name: st.deferred(lambda f=f: of_field(f)) for f in shape.fields.values() if f.presence == "required"}
    others = {f.name: st.deferred(lambda f=f: of_field(f)) for f in shape.fields.values() if f.presence != "required"}
    return st.fixed_dictionaries(required, optional=others).map(lambda values: cls(**values))


def messages() -> st.SearchStrategy[wire.Message]:
    return st.one_of(*map(of_struct, wire.KINDS))


def deadlines(**changes: int) -> wire.Deadlines:
    values = {
        "pairing": 30_000,
        "silence": 60_000,
        "total": 600_000,
        "resend": 1_000,
        "lost": 15_000,
        "conclude": 30_000,
    }
    return wire.Deadlines(**(values | changes))


def registration(role: str = "decode", /, **changes: object) -> wire.Registration:
    """One end of a pair that fits; the sender's total deadline is longer, as section 4.8 asks."""
    names = [
        "output_ids",
        "cached_tokens",
        "logprobs_val",
        "logprobs_idx",
        "top_val",
        "top_idx",
        "topk_p",
        "topk_index",
    ]
    aux = [wire.AuxField(n, "int32", (1, 16)) for n in [*names, "hidden", "room", "mm_hash", "grammar"]]
    end = wire.Registration(
        versions=wire.Versions((1, 0), (1, 0)),
        capabilities=("pull", "push"),
        role=role,
        engine=2**62 + 12345,
        model="some-org/some-model-70b",
        weights="3f1c2a9b",
        layers=wire.Layers(80, 0, 80),
        page=wire.Page(64, 262144),
        kv_dtype="bfloat16",
        layout="page,kv,head,token,dim",
        heads=wire.Heads(8, 128),
        tp=wire.Axis(8, 3),
        transports=(
            wire.TransportOffer(name="jax", descriptor={"address": "10.0.3.17:41234", "transfer_nbytes": 8 << 20}),
            wire.TransportOffer(name="zmq", descriptor={"address": "tcp://10.0.3.17:41235", "hwm": 64}),
        ),
        deadlines=deadlines(total=700_000 if role == "prefill" else 600_000),
        aux=wire.AuxSchema.of(aux),
        speculative=wire.Speculative(algorithm="EAGLE", draft_tokens=4, topk=1, hidden_size=8192),
    )
    return msgspec.structs.replace(end, **changes)


ENVELOPE: dict[str, Any] = {"link": 2**61 + 5, "source": 7, "target": 9, "room": 2**62 + 99, "engine": 11, "gen": 41234}


def announce() -> wire.Announce:
    return wire.Announce(**ENVELOPE, fingerprint=wire.Fingerprint(tokens=4096, digest=b"d" * 32), transport="jax")


def part_done(count: int = 2) -> wire.PartDone:
    return wire.PartDone(**ENVELOPE, parts=tuple(wire.Part(no=i, start=64 * i, stop=64 * i + 64) for i in range(count)))


def close() -> wire.Close:
    return wire.Close(**ENVELOPE, total=12)


def abort() -> wire.Abort:
    return wire.Abort(**ENVELOPE, failed=wire.FailureGroup(cause=6, details=(("waited_s", 60),), in_doubt=True))


#: A CLOSE as a peer might write it, and a HELLO.
BASE = {"0": 8, "1": 1, "2": 2, "6": 3, "7": 4, "8": 5, "16": 6}
HELLO = wire.Hello(link=1, source=2, registration=registration())


def refused(frame: bytes, strict: bool = False) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frame, strict)
    assert caught.value.cause is Cause.PROTOCOL
    assert caught.value.expected
    return caught.value


def changed(message: wire.Message, *path: int, to: object) -> bytes:
    """The frame of a message with the value under a path of tags (and indexes) replaced."""
    tree: Any = msgspec.msgpack.decode(encode(message))
    place = tree
    for step in path[:-1]:
        place = place[step] if isinstance(place, list) else place[str(step)]
    if isinstance(place, list):
        place[path[-1]] = to
    else:
        place[str(path[-1])] = to
    return msgspec.msgpack.encode(tree)
