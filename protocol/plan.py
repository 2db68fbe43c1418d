"""What sender ranks may plan, and when all of it has arrived. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from msgspec import UnsetType

from kvpoll.spec.receiver_table import push
from kvpoll.spec.wire import Fingerprint, Part, PartKind

from .coverage import Owner, covers, overlap, pages_for, part_fault
from .errors import LocalProtocolError
from .records import ReceiverPeer, ReceiverRecord
from .session import Env

__all__ = ["AUX_NBYTES", "DTYPES", "all_here", "check_chunk", "plan_fault"]

#: Room for the aux data of one attempt, in bytes.
AUX_NBYTES = 65_536
#: What a part's bytes may be called: unsigned integers, so that no transport or kernel rewrites a bit.
DTYPES = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8}

Fault: TypeAlias = tuple[str, str, str]


def check_chunk(parts: Sequence[Part], known: Sequence[Part], last: bool, request: Fingerprint, env: Env) -> None:
    """Sender: may these parts follow the ``known`` ones? Raises :class:`LocalProtocolError` naming the field for ranges outside
    the request, tokens that were sent before, and a last chunk that leaves some out."""
    have = list(known)
    if len(known) + len(parts) > env.max_parts:
        raise LocalProtocolError(f"parts: expected at most {env.max_parts} in one plan", field="parts")
    for part in parts:
        fault = part_fault(part, request, env.layers, env.page_tokens)
        if fault is None and (twice := overlap(part, have)) is not None:
            taken = f"tokens not sent before (part {twice.no} has [{twice.start}, {twice.stop}))"
            fault = ("part.start", taken, str(part.start))
        if fault is not None:
            raise LocalProtocolError(f"{fault[0]}: expected {fault[1]}, got {fault[2]}", field=fault[0])
        have.append(part)
    if last and have and (missing := covers(have, request, env.layers)) is not None:
        raise LocalProtocolError(f"last: the plan leaves out {missing}", field="last")


def plan_fault(rec: ReceiverRecord, env: Env, index: int, parts: Sequence[Part], total: int | None) -> Fault | None:
    """What cannot be in a plan of this rank: (field, expected, got)."""
    peer = rec.peers[index]
    share = _share(peer)
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
            fault := part_fault(part, rec.fingerprint, env.layers, _page(peer, env))
            or _bytes_fault(rec, env, peer, part)
        ) is not None:
            return fault
        others = [p for other in rec.peers if _share(other) == share for p in other.parts] + [
            p for p in have.values() if p.no not in known
        ]
        if (twice := overlap(part, others)) is not None:
            return ("part.start", f"tokens not carried by part {twice.no}", f"[{part.start}, {part.stop})")
        have[part.no] = part
    if total is not None and any(no >= total for no in have):
        return ("total", f"at least {max(have) + 1}", str(total))
    return None


def _share(peer: ReceiverPeer) -> int:
    """Which part of this rank's heads a sender rank brings."""
    return 0 if peer.cut is None else peer.cut.share


def _page(peer: ReceiverPeer, env: Env) -> int:
    """Tokens of a page as the sender rank cuts its chunks: as ours, unless it knows nothing of our DCP."""
    return env.page_tokens if peer.cut is None else env.page_size


def _bytes_fault(rec: ReceiverRecord, env: Env, peer: ReceiverPeer, part: Part) -> Fault | None:
    cut = peer.cut
    if cut is not None and not cut.takes(part):
        return ("part.kind", "nothing that another sender rank brings", f"a part of {part.kind.name.lower()} data")
    if part.dtype not in DTYPES:
        return ("part.dtype", "one of " + ", ".join(DTYPES), part.dtype)
    nbytes = prod(part.shape) * DTYPES[part.dtype] if part.shape else 0
    if part.kind is PartKind.KV:
        pages = pages_for(part.start, part.stop, _page(peer, env))
        dense = pages * env.page_nbytes * (part.layer_stop - part.layer_start)
        expected = dense if cut is None else cut.nbytes(part)
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
    cut = peers[0].cut
    shares, owner = (1, Owner()) if cut is None else (cut.shares, cut.owner)
    for share in range(shares):
        parts = [part for p in peers if _share(p) == share for part in p.parts]
        if (missing := covers(parts, rec.fingerprint, env.layers, owner)) is not None:
            return missing if shares == 1 else f"{missing} of head share {share}"
    return all(len(p.arrived) == p.total for p in peers)
