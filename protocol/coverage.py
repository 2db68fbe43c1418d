"""Absolute token ranges: what a plan must cover, what has arrived, and what is wrong with a part."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from kvpoll.spec.wire import Fingerprint, Part, PartKind

__all__ = ["Owner", "covers", "overlap", "pages_for", "part_fault"]


class Owner(NamedTuple):
    """Which tokens a rank holds: t with t mod size == rank (DCP), all of them by default."""

    size: int = 1
    rank: int = 0

    def first(self, token: int) -> int:
        """The first token from ``token`` on that this rank holds."""
        return token + (self.rank - token) % self.size

    def held(self, start: int, stop: int) -> int:
        """How many of [start, stop) this rank holds."""
        return max(0, -(-(stop - self.first(start)) // self.size))


def pages_for(start: int, stop: int, page_size: int) -> int:
    """Pages that hold tokens [start, stop); a page that is shared with an earlier token counts."""
    return -(-stop // page_size) - start // page_size if stop > start else 0


def part_fault(
    part: Part, request: Fingerprint, layers: tuple[int, int], page_size: int
) -> tuple[str, str, str] | None:
    """Why a part cannot belong to this request: (field, expected, got), or ``None``. Every number is checked against
    what was registered, before anything is started for it (Q15, Q26)."""
    if part.kind is PartKind.AUX or part.kind is PartKind.STATE:
        return None
    if not request.prefix <= part.start < part.stop <= request.tokens:
        return ("part.start, part.stop", f"within [{request.prefix}, {request.tokens})", f"[{part.start}, {part.stop})")
    if part.start != request.prefix and part.start % page_size:
        return ("part.start", f"a multiple of {page_size}, or the prefix", str(part.start))
    if part.stop != request.tokens and part.stop % page_size:
        return ("part.stop", f"a multiple of {page_size}, or the last token", str(part.stop))
    if not layers[0] <= part.layer_start < part.layer_stop <= layers[1]:
        return ("part.layers", f"within [{layers[0]}, {layers[1]})", f"[{part.layer_start}, {part.layer_stop})")
    return None


def overlap(part: Part, others: Iterable[Part]) -> Part | None:
    """A part of ``others`` that carries a token of a layer that ``part`` carries too: each once (CompleteOrNotSuccess)."""
    for other in others:
        if (
            other.kind is part.kind is PartKind.KV
            and other.start < part.stop
            and part.start < other.stop
            and other.layer_start < part.layer_stop
            and part.layer_start < other.layer_stop
        ):
            return other
    return None


_ALL = Owner()


def covers(parts: Iterable[Part], request: Fingerprint, layers: tuple[int, int], owner: Owner = _ALL) -> str | None:
    """What is missing of the tokens of [prefix, N) that ``owner`` holds, in ``layers``, as text; ``None`` when nothing is.
    Parts do not overlap."""
    begin = owner.first(request.prefix)
    if begin >= request.tokens:
        return None
    kv = sorted((p for p in parts if p.kind is PartKind.KV), key=lambda p: (p.layer_start, p.start))
    cuts = sorted({layers[0], layers[1], *(p.layer_start for p in kv), *(p.layer_stop for p in kv)})
    for low, high in pairwise(cuts):
        at = begin
        for part in sorted((p for p in kv if p.layer_start <= low and high <= p.layer_stop), key=lambda p: p.start):
            if part.start > at:
                break
            at = owner.first(max(at, part.stop))
        if at < request.tokens:
            return f"layers [{low}, {high}) tokens from {at}"
    return None
