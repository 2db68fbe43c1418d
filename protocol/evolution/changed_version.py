"""What the snapshots say of themselves: versions, the window of versions they talk to, limits, ranges, digests."""

from __future__ import annotations

from collections.abc import Iterator

from kvpoll.spec.schema import Snapshot

from .cause import Cause
from .findings import BOTH, NEW_READS_OLD, OLD_READS_NEW, Direction, Witness
from .snapshots import content_of, digest_of

__all__ = ["edited_since", "meets", "version_causes", "version_of"]


def version_of(text: str) -> tuple[int, ...]:
    """A version as numbers, for comparing: "1.10" is above "1.9". Words in it count as nothing."""
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split("."))


def meets(a: Snapshot, b: Snapshot) -> bool:
    """Would the two ends' version windows let them talk?"""
    (low_a, high_a), (low_b, high_b) = _window(a), _window(b)
    return low_a <= high_b and low_b <= high_a


def _window(snapshot: Snapshot) -> tuple[tuple[int, ...], tuple[int, ...]]:
    low, high = snapshot.window or (snapshot.version, snapshot.version)
    return version_of(low), version_of(high)


def version_causes(old: Snapshot, new: Snapshot) -> Iterator[Cause]:
    if version_of(new.version) <= version_of(old.version) and content_of(old) != content_of(new):
        says = f"the schema changed, its version went from {old.version} to {new.version}"
        made = f"both ends call themselves {new.version}, with digests {digest_of(old)[:12]} and {digest_of(new)[:12]}"
        yield Cause("VERSION_NOT_BUMPED", says, old.version, new.version, f"call it {_next(old.version)} or above",
                    proofs=_proof(NEW_READS_OLD, f"version {old.version}", made))  # fmt: skip
    if (old.window or new.window) and not meets(old, new):
        says = f"{old.version} talks to {_said(old)}, {new.version} to {_said(new)}: they have no version in common"
        proofs = tuple(w for d in BOTH for w in _proof(d, f"window {_said(old)}", "no common version"))
        yield Cause(
            "WINDOW_CLOSED", says, old.version, new.version, f"open the window down to {old.version}", proofs=proofs
        )
    yield from _numbers(old, new)
    lost = [c for c in old.capabilities if c not in new.capabilities]
    if lost:
        says = f"{', '.join(lost)} is not offered any more"
        proofs = tuple(w for d in BOTH for w in _proof(d, f"capabilities {', '.join(old.capabilities)}", says))
        yield Cause("CAPABILITY_REMOVED", says, old.version, new.version, proofs=proofs)


def edited_since(snapshot: Snapshot) -> Iterator[Cause]:
    """A snapshot whose content is not what its digest says."""
    if not snapshot.digest or snapshot.digest == digest_of(snapshot):
        return
    says = f"{snapshot.schema} {snapshot.version} was edited after it was frozen"
    made = f"its digest says {snapshot.digest[:12]}, its content has {digest_of(snapshot)[:12]}"
    yield Cause("BASELINE_EDITED", says, snapshot.version, snapshot.version,
                 proofs=_proof(NEW_READS_OLD, f"version {snapshot.version}", made))  # fmt: skip


def _numbers(old: Snapshot, new: Snapshot) -> Iterator[Cause]:
    for name, limit in old.limits.items():
        now = new.limits.get(name)
        if now == limit:
            continue
        shrunk = now is not None and now < limit
        direction: Direction = NEW_READS_OLD if shrunk else OLD_READS_NEW
        more, less = (limit, now) if shrunk else (now, limit)
        wrote = f"{name} used up to {more if more is not None else 'whatever it takes'}"
        yield Cause("LIMIT_CHANGED", f"{name} was {limit}, now it is {now}", f"limit {name}", f"limit {name}",
                    proofs=_proof(direction, wrote, f"refused beyond {less}"))  # fmt: skip
    for name, span in old.ranges.items():
        if (now_span := new.ranges.get(name)) != span:
            says = f"tags {span[0]} to {span[1]} were {name}, now {'none are' if now_span is None else f'{now_span[0]} to {now_span[1]}'}"  # fmt: skip  # noqa: E501
            yield Cause("RANGE_CHANGED", says, f"range {name}", f"range {name}",
                        proofs=_proof(OLD_READS_NEW, f"a tag at the end of {name}", "another treatment of tags it does not know"))  # fmt: skip  # noqa: E501


def _proof(direction: Direction, wrote: str, made: str) -> tuple[Witness, ...]:
    """Of what is declared, and shows in no single message."""
    return (Witness(direction=direction, message="", wrote=wrote, frame="", made=made, kind="declared"),)


def _next(version: str) -> str:
    numbers = list(version_of(version))
    numbers[-1] += 1
    return ".".join(map(str, numbers))


def _said(snapshot: Snapshot) -> str:
    low, high = snapshot.window or (snapshot.version, snapshot.version)
    return low if low == high else f"{low} to {high}"
