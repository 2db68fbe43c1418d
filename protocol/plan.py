"""What sender ranks may plan, and when all of it has arrived. Pure functions over a receiver's record."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from msgspec import UnsetType

from kvpoll.spec.receiver_table import push
from kvpoll.spec.wire import Part, PartKind

from .coverage import covers, overlap, pages_for, part_fault
from .records import ReceiverRecord
from .session import Env

__all__ = ["AUX_NBYTES", "DTYPES", "all_here", "plan_fault"]

#: Room for the aux data of one attempt, in bytes.
AUX_NBYTES = 65_536
#: What a part's bytes may be called: unsigned integers, so that no transport or kernel rewrites a bit.
DTYPES = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8}

Fault: TypeAlias = tuple[str, str, str]


def plan_fault(rec: ReceiverRecord, env: Env, index: int, parts: Sequence[Part], total: int | None) -> Fault | None:
    """What cannot be in a plan of this rank: (field, expected, got)."""
    peer = rec.peers[index]
    have = {p.no: p for p in peer.parts}
    known = set(have)
    limit = peer.total if peer.total is not None else total if total is not None else env.max_parts
    if total is not None and peer.total is not None and total != peer.total:
        return ("total", str(peer.total), str(total))
    for part in parts:
        if part.no in have:
            if have[part.no] != part:
                return (f"part {part.no}", "the same as before", "another range, shape or key")
            continue
        if part.no >= limit:
            return ("part.no", f"below {limit}", str(part.no))
        if (
            fault := part_fault(part, rec.fingerprint, env.layers, env.page_size) or _bytes_fault(rec, env, part)
        ) is not None:
            return fault
        others = [p for other in rec.peers for p in other.parts] + [p for p in have.values() if p.no not in known]
        if (twice := overlap(part, others)) is not None:
            return ("part.start", f"tokens not carried by part {twice.no}", f"[{part.start}, {part.stop})")
        have[part.no] = part
    if total is not None and any(no >= total for no in have):
        return ("total", f"at least {max(have) + 1}", str(total))
    return None


def _bytes_fault(rec: ReceiverRecord, env: Env, part: Part) -> Fault | None:
    if part.dtype not in DTYPES:
        return ("part.dtype", "one of " + ", ".join(DTYPES), part.dtype)
    nbytes = prod(part.shape) * DTYPES[part.dtype] if part.shape else 0
    if part.kind is PartKind.KV:
        pages = pages_for(part.start, part.stop, env.page_size)
        expected = pages * env.page_nbytes * (part.layer_stop - part.layer_start)
        if nbytes != expected:
            return ("part.shape", f"{expected} bytes ({pages} pages)", f"{nbytes} bytes")
    elif not 0 < nbytes <= AUX_NBYTES:
        return ("part.shape", f"1 to {AUX_NBYTES} bytes", f"{nbytes} bytes")
    if not rec.node[push] and isinstance(part.key, UnsetType):
        return ("part.key", "the key under which the part can be read", "none")
    return None


def all_here(rec: ReceiverRecord, env: Env) -> bool | str:
    """True: everything planned arrived. False: not yet. Text: every plan is closed, and this is in none of them."""
    peers = rec.peers
    if any(p.total is None or len(p.parts) < p.total for p in peers):
        return False
    if (missing := covers([part for p in peers for part in p.parts], rec.fingerprint, env.layers)) is not None:
        return missing
    return all(len(p.arrived) == p.total for p in peers)
