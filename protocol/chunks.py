"""How long the next chunk of a prompt is: fixed, or dynamic so that every chunk takes about as long as the first.

Attention makes a chunk dearer the more tokens stand before it. The time of a prefill of l tokens is fitted as
f(l) = a*l^2 + b*l + c; a chunk of x tokens after L others then takes f(L + x) - f(L), and x is chosen so that this is
f(base) - f(0), the time of a first chunk of ``base`` tokens.

1. Measured once, on one rank; the model is six plain numbers that are broadcast; from then on :func:`next_chunk` is a pure
   function, so all ranks cut a prompt at the same tokens without talking. It uses only operations that IEEE 754 rounds in
   one way (+ - * / and square root). Broadcast as float64, and let the measuring rank read its own broadcast.
2. In this order: solve for x; smooth, base + 0.75 * (x - base); round to a token; at least base / 4; align down; at least
   one alignment; at most what the context leaves, context - L - 100, aligned down; at most base.
3. What cannot be dynamic is fixed: fewer than 8 samples to fit, a <= 0 or a first chunk that takes no time in the fit
   (measured on noise), and a place so near the end of the context that not one alignment is left.
4. Every chunk but the last is whole pages, and none is empty. The alignment is max(page, 64), for a page size that divides
   64 or is larger; otherwise the whole pages that hold 64 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from itertools import pairwise
from math import isfinite, sqrt

from .plans.checks import fault, whole

__all__ = ["MARGIN", "SAMPLES_MIN", "SMOOTHING", "ChunkModel", "next_chunk", "prompt_chunks"]

#: How far from the base to the solution a chunk goes.
SMOOTHING = 0.75
#: Fewer samples than this, the first one not counted, are not fitted.
SAMPLES_MIN = 8
#: Tokens at the end of the context that dynamic chunks stay away from.
MARGIN = 100
_ALIGN = 64
_FLOOR = 4  #: a dynamic chunk is at least base / 4


@dataclass(frozen=True, slots=True)
class ChunkModel:
    """What all ranks must agree on. ``a`` <= 0: every chunk is fixed. Raises ``LocalProtocolError`` naming the field.

    ``base``: tokens of a fixed chunk and of the first dynamic one, a multiple of ``page``. ``page``: tokens of a page.
    ``context``: the most tokens that a request can have. ``a``, ``b``, ``c``: seconds per token^2, per token, and per prefill.
    """

    base: int
    page: int
    context: int
    a: float = 0.0
    b: float = 0.0
    c: float = 0.0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            object.__setattr__(self, name, whole(name, getattr(self, name), 1))
        if self.base % self.page:
            raise fault("base", f"a multiple of the page size {self.page}", self.base)
        for name in ("a", "b", "c"):
            value = getattr(self, name)
            if type(value) is not float or not isfinite(value):
                raise fault(name, "a finite float", repr(value))

    @classmethod
    def measured(
        cls, lengths: Sequence[int], seconds: Sequence[float], *, base: int, page: int, context: int
    ) -> ChunkModel:
        """The least squares fit to prefills of ``lengths[i]`` tokens that took ``seconds[i]``.

        The first sample pays for warming up and is left out. Falls back to a fixed model as the top of this file says.
        Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` for lists of different lengths, for lengths below 1 or not
        in increasing order, and for times that are not finite or not positive; the first sample must be sound too.
        """
        if len(lengths) != len(seconds):
            raise fault("seconds", f"one for each of {len(lengths)} lengths", len(seconds))
        tokens = [whole(f"lengths[{i}]", length, 1) for i, length in enumerate(lengths)]
        for i, (before, length) in enumerate(pairwise(tokens), 1):
            if length <= before:
                raise fault(f"lengths[{i}]", f"above {before}, the one before", length)
        times = [_seconds(f"seconds[{i}]", time) for i, time in enumerate(seconds)]
        fixed = cls(base, page, context)
        if len(tokens) - 1 < SAMPLES_MIN:
            return fixed
        a, b, c = _fit(tokens[1:], times[1:])
        if not all(map(isfinite, (a, b, c))) or a <= 0 or _target(a, b, base) <= 0:
            return fixed
        return cls(base, page, context, a, b, c)

    @property
    def dynamic(self) -> bool:
        return self.a > 0

    @property
    def alignment(self) -> int:
        """Tokens that a dynamic chunk is a multiple of: whole pages, 64 tokens or more."""
        return -(-_ALIGN // self.page) * self.page

    def numbers(self) -> tuple[int, int, int, float, float, float]:
        """``base, page, context, a, b, c``: what to broadcast."""
        return astuple(self)

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> ChunkModel:
        """The model again. Whole floats are taken for counts, as a broadcast of one float64 array makes them.

        Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` for anything that is no model.
        """
        if len(numbers) != 6:
            raise fault("numbers", "base, page, context, a, b, c", f"{len(numbers)} numbers")
        base, page, context = (_count(name, value) for name, value in zip(_COUNTS, numbers, strict=False))
        a, b, c = (_float(name, value) for name, value in zip("abc", numbers[3:], strict=True))
        return cls(base, page, context, a, b, c)


def next_chunk(model: ChunkModel, *, at: int, remaining: int, most: int | None = None) -> int:
    """Tokens of the chunk that starts at token ``at`` of a request that has ``remaining`` more: 1 to ``remaining``.

    ``at``: absolute, a multiple of the page size (what a cache already had counts). ``most``: a limit besides, such as what
    a buffer takes, at least one page; the same at every rank. Raises
    :class:`~kvpoll.protocol.errors.LocalProtocolError`, with the field, for numbers that cannot be and for a request that
    is longer than the context.
    """
    at = whole("at", at, 0)
    if at % model.page:
        raise fault("at", f"a multiple of the page size {model.page}", at)
    remaining = whole("remaining", remaining, 1)
    if at + remaining > model.context:
        raise fault("remaining", f"at most {model.context - at}, up to the context of {model.context}", remaining)
    size = _dynamic(model, at) or model.base
    if most is not None:
        size = min(size, whole("most", most, model.page) // model.page * model.page)
    return min(size, remaining)


def prompt_chunks(model: ChunkModel, start: int, stop: int, *, most: int | None = None) -> Iterator[tuple[int, int]]:
    """The absolute token ranges that ``[start, stop)`` is cut into, in order. Raises what :func:`next_chunk` raises."""
    whole("start", start, 0)
    whole("stop", stop, start)
    while start < stop:
        size = next_chunk(model, at=start, remaining=stop - start, most=most)
        yield start, start + size
        start += size


_COUNTS = ("base", "page", "context")


def _dynamic(model: ChunkModel, at: int) -> int | None:
    """``None``: take a fixed chunk."""
    if not model.dynamic:
        return None
    solved = _solve(model.a, 2 * model.a * at + model.b, _target(model.a, model.b, model.base))
    if solved is None:
        return None
    align = model.alignment
    smooth = round(model.base + SMOOTHING * (solved - model.base))
    size = max(max(smooth, model.base // _FLOOR) // align * align, align)
    left = (model.context - at - MARGIN) // align * align
    if left < align:
        return None
    return min(size, left, model.base)


def _target(a: float, b: float, base: int) -> float:
    """f(base) - f(0)."""
    return (a * base + b) * base


def _solve(a: float, slope: float, target: float) -> float | None:
    """The positive x with a*x^2 + slope*x = target; ``None`` where floats have none."""
    root = slope * slope + 4 * a * target
    if not 0 < root < float("inf") or target <= 0:
        return None
    # Two forms of one root: neither takes nearly equal numbers from each other.
    x = 2 * target / (slope + sqrt(root)) if slope > 0 else (sqrt(root) - slope) / (2 * a)
    return x if isfinite(x) else None


def _fit(lengths: Sequence[int], seconds: Sequence[float]) -> tuple[float, float, float]:
    """a, b, c of the least squares. In exact fractions: l^4 of long prompts would eat the digits of floats."""
    rows = [(Fraction(n * n), Fraction(n), Fraction(1), Fraction(t)) for n, t in zip(lengths, seconds, strict=True)]
    table = [[sum((row[i] * row[j] for row in rows), Fraction(0)) for j in range(4)] for i in range(3)]
    for i in range(3):  # elimination; different lengths make every pivot positive
        table[i] = [value / table[i][i] for value in table[i]]
        for j in range(3):
            if j != i:
                table[j] = [value - table[j][i] * pivot for value, pivot in zip(table[j], table[i], strict=True)]
    a, b, c = (_rounded(row[3]) for row in table)
    return a, b, c


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _seconds(field: str, value: float) -> float:
    time = _float(field, value)
    if time <= 0:
        raise fault(field, "a time above 0", time)
    return time


def _float(field: str, value: float) -> float:
    try:
        number = float("nan") if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise fault(field, "a finite number", repr(value))
    return number


def _count(field: str, value: float) -> int:
    if isinstance(value, int) or not float(_float(field, value)).is_integer():
        return whole(field, value, 1)  # type: ignore[arg-type]  # a fraction is refused there
    return int(value)
