"""Typed records of the aux plane: which fields a pair agreed on, and what they look like in a slot. Pure.

A record is a row of entries, one for each field that was written: tag, dtype, shape, bytes. A reader finds a field by its
tag, skips tags that it does not know, and never takes "was not written" for zero. What a peer sends cannot do more than
raise :class:`RemoteProtocolError`, which names the field, what was expected, and the cause for the room's failure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from kvpoll.spec import Cause
from kvpoll.spec.aux import AUX_DTYPES, AUX_FIELDS, AUX_LIMITS, OWN_TAGS, AuxDtype, Written
from kvpoll.spec.wire import AuxField, AuxSchema, Registration, Speculative

from .errors import LocalProtocolError, RemoteProtocolError

__all__ = [
    "Array", "Attempt", "AuxLayout", "AuxRecord", "aux_duty", "check_aux_duty", "speculative_fields", "speculative_lacks",
    "tag_of",
]  # fmt: skip

Array: TypeAlias = npt.NDArray[np.generic]

_HEAD = struct.Struct("<4sHH")  # magic, version, number of entries
_ENTRY = struct.Struct("<IBBHI")  # tag, dtype, dimensions, nothing, bytes of data
_MAGIC, _VERSION = b"kvAR", 1
_ALIGN, _DIMS = 8, 8
_BY_NUMBER = {dtype.number: dtype for dtype in AUX_DTYPES.values()}


class Attempt(NamedTuple):
    """Whose a slot is, beside room and request. Zeros: not stated, for a prefill that writes before it is paired."""

    engine: int = 0
    gen: int = 0


class AuxRecord:
    """The fields of one slot, by name. Arrays have their declared shape; what numpy has no dtype for comes as unsigned
    integers of the same width (view them as the dtype you have for it)."""

    __slots__ = ("_fields", "skipped")

    def __init__(self, fields: Mapping[str, Array], skipped: tuple[int, ...] = ()) -> None:
        self._fields = dict(fields)
        self.skipped = skipped  #: tags that the peer wrote and this end does not know

    def __getitem__(self, name: str) -> Array:
        """Raises :class:`LocalProtocolError` for a field that was not written: that is not the same as zeros."""
        if name not in self._fields:
            raise LocalProtocolError(f"aux.{name}: was not written", Cause.DATA_MISSING, field=f"aux.{name}")
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


@dataclass(frozen=True, slots=True)
class _Entry:
    tag: int
    field: AuxField
    dtype: AuxDtype
    always: bool

    @property
    def nbytes(self) -> int:
        return prod(self.field.shape) * self.dtype.nbytes

    @property
    def footprint(self) -> int:
        return _ENTRY.size + 4 * len(self.field.shape) + -(-self.nbytes // _ALIGN) * _ALIGN


class AuxLayout:
    """The fields that this end registered. ``optional`` names fields of the engine's own that a slot may lack; declared
    fields say it themselves. Raises :class:`LocalProtocolError` naming a field that is not what is declared of it, comes
    twice, or has an unknown dtype."""

    __slots__ = ("_by_tag", "_entries", "attempt", "nbytes")

    def __init__(self, fields: Iterable[AuxField], *, optional: Iterable[str] = ()) -> None:
        self._entries: dict[str, _Entry] = {}
        self._by_tag: dict[int, _Entry] = {}
        self.attempt = False  #: a slot must say of which attempt it is
        may_lack = frozenset(optional)
        for field in fields:
            _check_declared(field)
            spec = AUX_FIELDS.get(field.name)
            if spec is not None and spec.written is Written.HEAD:
                self.attempt = True
                continue
            always = field.name not in may_lack if spec is None else spec.written is Written.ALWAYS
            entry = _Entry(tag_of(field.name), field, AUX_DTYPES[field.dtype], always)
            if field.name in self._entries or entry.tag in self._by_tag:
                raise _local(field.name, "one field of this name and tag", "two")
            self._entries[field.name] = self._by_tag[entry.tag] = entry
        #: Bytes of a record in which every field is written: what a slot must hold.
        self.nbytes = _HEAD.size + sum(entry.footprint for entry in self._entries.values())

    @classmethod
    def of(cls, schema: AuxSchema) -> AuxLayout:
        """The layout of a registration's schema."""
        return cls(schema.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def encode(self, fields: Mapping[str, Array]) -> bytes:
        """A record, of the fields that are there. Raises :class:`LocalProtocolError` naming a field that is not in the
        layout, has another dtype or shape, or is missing although it is always written."""
        for name in fields:
            if name not in self._entries:
                raise _local(name, f"one of {', '.join(self._entries) or 'none'}", "another name")
        for name, entry in self._entries.items():
            if name in fields:
                _check_array(entry, fields[name])
            elif entry.always:
                raise LocalProtocolError(f"aux.{name}: expected to be written", Cause.DATA_MISSING, field=f"aux.{name}")
        parts = [_HEAD.pack(_MAGIC, _VERSION, len(fields))]
        for name, entry in self._entries.items():
            if name in fields:
                parts += _packed(entry, fields[name])
        return b"".join(parts)

    def decode(self, content: bytes) -> AuxRecord:
        """What a peer (or this end) wrote. Raises :class:`RemoteProtocolError`: DATA_MISSING for a field that is always
        written and is not there, AUX_MISMATCH for one of another dtype or shape, PROTOCOL for bytes that are no record."""
        found: dict[str, Array] = {}
        skipped: list[int] = []
        seen: set[int] = set()
        for tag, number, shape, data in _entries_of(content):
            if tag in seen:
                raise RemoteProtocolError("aux", "every tag once", f"tag {tag} twice")
            seen.add(tag)
            entry = self._by_tag.get(tag)
            if entry is None:
                skipped.append(tag)
                continue
            found[entry.field.name] = _unpacked(entry, number, shape, data)
        for name, entry in self._entries.items():
            if entry.always and name not in found:
                raise RemoteProtocolError(f"aux.{name}", "to be written", "nothing", Cause.DATA_MISSING)
        return AuxRecord({name: found[name] for name in self._entries if name in found}, tuple(skipped))

    def known(self, content: bytes) -> bytes:
        """The same record without what this layout does not know: never larger than :attr:`nbytes`. Raises like
        :meth:`decode`."""
        record = self.decode(content)
        return self.encode({name: record[name] for name in record})


# -- who writes, and what must be there --------------------------------------------------------------------------------
def aux_duty(*, pp_rank: int, pp_size: int, cp_rank: int = 0) -> bool:
    """Does this prefill rank send aux data? Only the last pipeline stage has all of it, and of context parallel ranks the
    first one carries data (Q29)."""
    return pp_rank == pp_size - 1 and cp_rank == 0


def check_aux_duty(slot: int | None, *, pp_rank: int, pp_size: int, cp_rank: int = 0) -> None:
    """Raises :class:`LocalProtocolError` naming the rank when an aux slot is given to a rank that must not send one."""
    if slot is None or aux_duty(pp_rank=pp_rank, pp_size=pp_size, cp_rank=cp_rank):
        return
    name, value, wanted = ("pp_rank", pp_rank, pp_size - 1) if pp_rank != pp_size - 1 else ("cp_rank", cp_rank, 0)
    raise LocalProtocolError(f"aux_index: expected at {name} {wanted} only, got one at {name} {value}", field=name)


def speculative_fields(setting: Speculative, dtype: str, *, tokens: int = 1) -> tuple[AuxField, ...]:
    """The fields that a draft model of this setting starts from. ``dtype``: of the hidden states."""
    wanted = []
    if setting.topk:
        wanted += [
            AuxField("topk_p", "float32", (tokens, setting.topk)),
            AuxField("topk_index", "int64", (tokens, setting.topk)),
        ]
    if setting.hidden_size:
        wanted.append(AuxField("hidden_states", dtype, (tokens, setting.hidden_size)))
    for field in wanted:
        _check_declared(field)
    return tuple(wanted)  # fmt: skip


def speculative_lacks(end: Registration) -> tuple[str, ...]:
    """Names of fields that an end with speculative decoding must have in its aux schema, and has not, or with another size:
    a draft would start from hidden states that were never sent. Never raises."""
    if end.speculative is UNSET:
        return ()
    topk, hidden = end.speculative.topk, end.speculative.hidden_size
    sizes = {"topk_p": topk, "topk_index": topk, "hidden_states": hidden}
    has = {} if end.aux is UNSET else {field.name: field.shape[-1:] for field in end.aux.fields}
    return tuple(name for name, size in sizes.items() if size and has.get(name) != (size,))


def tag_of(name: str) -> int:
    """The tag of a field: the declared one, or one made from the name of an engine's own field."""
    spec = AUX_FIELDS.get(name)
    if spec is not None:
        return spec.tag
    return OWN_TAGS | int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "little") & (OWN_TAGS - 1)


# -- checks --------------------------------------------------------------------------------------------------------------
def _check_declared(field: AuxField) -> None:
    if field.dtype not in AUX_DTYPES:
        raise _local(field.name, f"a dtype of {', '.join(AUX_DTYPES)}", field.dtype)
    if not 0 < len(field.shape) <= _DIMS or min(field.shape) < 1:
        raise _local(field.name, f"1 to {_DIMS} axes, each 1 or longer", str(field.shape))
    spec = AUX_FIELDS.get(field.name)
    if spec is None:
        return
    if field.dtype not in spec.dtypes:
        raise _local(field.name, " or ".join(spec.dtypes), field.dtype)
    if len(field.shape) != len(spec.shape):
        raise _local(field.name, f"axes ({', '.join(spec.shape)})", str(field.shape))
    for axis, length in zip(spec.shape, field.shape, strict=True):
        if AUX_LIMITS[axis] and length > AUX_LIMITS[axis]:
            raise _local(field.name, f"{axis} of at most {AUX_LIMITS[axis]}", str(length))


def _check_array(entry: _Entry, array: Array) -> None:
    name, dtype = entry.field.name, entry.dtype
    if array.dtype.name not in (dtype.name, dtype.carrier):
        raise _local(name, dtype.name, array.dtype.name)
    if array.shape != entry.field.shape:
        raise _local(name, f"shape {entry.field.shape}", str(array.shape))


def _local(name: str, expected: str, got: str) -> LocalProtocolError:
    return LocalProtocolError(f"aux.{name}: expected {expected}, got {got}", Cause.AUX_MISMATCH, field=f"aux.{name}")


# -- bytes ---------------------------------------------------------------------------------------------------------------
def _packed(entry: _Entry, array: Array) -> list[bytes]:
    wire = np.dtype(entry.dtype.carrier).newbyteorder("<")
    bits = np.ascontiguousarray(array).view(entry.dtype.carrier) if array.dtype.name != entry.dtype.carrier else array
    data = bits.astype(wire, copy=False).tobytes()
    shape = entry.field.shape
    head = _ENTRY.pack(entry.tag, entry.dtype.number, len(shape), 0, len(data)) + struct.pack(f"<{len(shape)}I", *shape)
    return [head, data, bytes(-len(data) % _ALIGN)]


def _unpacked(entry: _Entry, number: int, shape: tuple[int, ...], data: bytes) -> Array:
    name, dtype = f"aux.{entry.field.name}", entry.dtype
    if number != dtype.number:
        got = _BY_NUMBER[number].name if number in _BY_NUMBER else f"dtype {number}"
        raise RemoteProtocolError(name, dtype.name, got, Cause.AUX_MISMATCH)
    if shape != entry.field.shape or len(data) != entry.nbytes:
        got = f"{shape} in {len(data)} bytes"
        raise RemoteProtocolError(name, f"shape {entry.field.shape}", got, Cause.AUX_MISMATCH)
    carrier = np.dtype(dtype.carrier)
    return np.frombuffer(data, carrier.newbyteorder("<")).astype(carrier).reshape(shape)


def _entries_of(content: bytes) -> Iterator[tuple[int, int, tuple[int, ...], bytes]]:
    """Tag, dtype, shape and data of each entry, with every length checked before it is used."""
    if len(content) < _HEAD.size:
        raise RemoteProtocolError("aux", f"at least {_HEAD.size} bytes", str(len(content)))
    magic, version, count = _HEAD.unpack_from(content)
    if magic != _MAGIC or version != _VERSION:
        raise RemoteProtocolError("aux", f"a record of version {_VERSION}", f"{magic!r} of version {version}")
    at = _HEAD.size
    for _ in range(count):
        if len(content) - at < _ENTRY.size:
            raise RemoteProtocolError("aux", f"{count} entries", "fewer")
        tag, number, dims, _zero, nbytes = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        if dims > _DIMS or len(content) - at < 4 * dims + nbytes:
            raise RemoteProtocolError("aux", f"tag {tag} within {len(content)} bytes", f"{dims} axes, {nbytes} bytes")
        shape = struct.unpack_from(f"<{dims}I", content, at)
        at += 4 * dims
        yield tag, number, shape, content[at : at + nbytes]
        at += nbytes + -nbytes % _ALIGN
