"""The Pallas kernels of static shape under `interpret=True`: the bits of the reference, for TPU and for Triton.

This interpreter knows no time (a missing wait goes unseen), clamps ids, and makes XLA move floats, which on the CPU rewrites
NaNs of bfloat16 and float8_e5m2: test_tpu_modes.py looks for all that. It is fast, so that layouts are tried here. Dynamic
sizes and host memory: see there too.
"""

import numpy as np
import pytest

from kvpoll.kernels import limits, tpu, triton
from kvpoll.kernels.layout import layout_of

from .geometries import (
    DTYPES,
    GROUPED,
    HEADS_LAST,
    LATENT,
    ON_TPU,
    Array,
    Geometry,
    bits,
    dtype_of,
    finite,
    gathered,
    scattered,
    some,
)

jax = pytest.importorskip("jax")
#: Runs of 48 and pages of 96 elements are no powers of two, and odd numbers of pages and tokens.
ODD = Geometry("token,head,dim", (3, 2, 48), 3, 2, pages=5)
POWERS = Geometry("kv,token,head,dim", (2, 4, 4, 8), 4, 4, pages=5)


def on_device(pool: list[Array]) -> list[object]:
    return [jax.numpy.copy(jax.numpy.asarray(layer)) for layer in pool]


def new_rows(like: Array, dtype: str) -> Array:
    elements = like.nbytes // (like.shape[0] * like.shape[1]) // dtype_of(dtype).itemsize
    return finite(some(like.shape[0], (like.shape[1], elements), dtype, 5)).view(like.dtype)


def check_tpu(geometry: Geometry, what: str, dtype: str) -> None:
    pool, layout = [finite(layer) for layer in geometry.pool(dtype)], geometry.layout(dtype)
    found, rng = layout_of(pool), np.random.default_rng(3)
    count = geometry.pages * (geometry.page_size if what == "rows" else 1)
    ids = rng.permutation(count)[: min(count - 1, 11)]
    more: tuple[object, ...] = {"pages": (found,), "rows": (found, layout), "heads": (0, 4, found, layout)}[what]
    lo, hi = (0, 4) if what == "heads" else (0, 0)
    expected = gathered(geometry, pool, what, ids.tolist(), lo, hi)
    words = getattr(tpu, f"gather_{what}")(on_device(pool), ids, *more, interpret=True)
    np.testing.assert_array_equal(words, expected)
    new = new_rows(expected, dtype)
    if what != "heads":
        ids[2] = -1
    after = scattered(geometry, pool, what, ids.tolist(), new, lo, hi)
    written = getattr(tpu, f"scatter_{what}")(on_device(pool), ids, new, *more, interpret=True)
    np.testing.assert_array_equal(bits(written), bits(after))


def check_triton(geometry: Geometry, what: str, dtype: str) -> None:
    pool, layout = [finite(layer) for layer in geometry.pool(dtype)], geometry.layout(dtype)
    found, rng = layout_of(pool), np.random.default_rng(4)
    count = geometry.pages * (geometry.page_size if what == "rows" else 1)
    ids = rng.permutation(count)[: count - 1]
    more: tuple[object, ...] = (found,) if what == "pages" else (found, layout)
    expected = gathered(geometry, pool, what, ids.tolist(), 0, 0)
    words = getattr(triton, f"gather_{what}")(on_device(pool), ids, *more, interpret=True)
    np.testing.assert_array_equal(words, expected)
    new = new_rows(expected, dtype)
    ids[1] = -1
    after = scattered(geometry, pool, what, ids.tolist(), new, 0, 0)
    written = getattr(triton, f"scatter_{what}")(on_device(pool), ids, new, *more, interpret=True)
    np.testing.assert_array_equal(bits(written), bits(after))


@pytest.mark.parametrize(
    ("geometry", "what", "dtype"),
    [
        (HEADS_LAST, "pages", "bfloat16"),
        (HEADS_LAST, "rows", "bfloat16"),
        (LATENT, "rows", "float8_e5m2"),
        (HEADS_LAST, "heads", "int8"),
        (GROUPED, "heads", "uint16"),
    ],
)
def test_tpu_kernels_keep_every_bit(geometry: Geometry, what: str, dtype: str) -> None:
    check_tpu(geometry, what, dtype)


@pytest.mark.parametrize(
    ("geometry", "what", "dtype"),
    [(POWERS, "rows", "bfloat16"), (POWERS, "pages", "float8_e4m3fn")],
)
def test_triton_kernels_keep_every_bit(geometry: Geometry, what: str, dtype: str) -> None:
    check_triton(geometry, what, dtype)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", DTYPES)
def test_pallas_kernels_keep_every_bit_of_every_dtype_and_layout(dtype: str) -> None:
    for geometry in ON_TPU:
        for what in ("pages", "rows", "heads"):
            if what != "heads" or "head" in geometry.axes:
                check_tpu(geometry, what, dtype)
    for geometry in (POWERS, ODD):
        for what in ("pages", "rows"):
            check_triton(geometry, what, dtype)


def test_an_odd_width_moves_in_blocks_that_divide_it() -> None:
    assert limits.triton_block(96) == 32
    check_triton(ODD, "rows", "int8")


def test_two_layers_overlap_and_a_ring_bounds_the_copies_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of starts and waits, as the loop would run: `fori_loop` and `when` in plain Python."""
    seen: list[tuple[str, int, int, int]] = []

    class Copy:
        def __init__(self, *place: int) -> None:
            self.place = place

        def start(self) -> None:
            seen.append(("start", *self.place))

        def wait(self) -> None:
            seen.append(("wait", *self.place))

    class Sems:
        at = {(layer, slot): layer * 100 + slot for layer in (0, 1) for slot in range(tpu.RING)}

    def loop(first: int, last: int, body: object, _: None) -> None:
        for i in range(first, last):
            body(i, None)  # type: ignore[operator]

    monkeypatch.setattr(tpu.lax, "fori_loop", loop)
    monkeypatch.setattr(tpu.lax, "rem", lambda i, n: int(i) % int(n))
    monkeypatch.setattr(tpu.pl, "when", lambda yes: lambda body: body() if yes else None)
    monkeypatch.setattr(tpu.jnp, "maximum", max)
    count, skipped = tpu.RING + 3, 4
    tpu._stream(3, count, Sems(), lambda *place: Copy(*place), lambda i: i != skipped)  # type: ignore[arg-type]

    copies = [(layer, i) for layer in range(3) for i in range(count) if i != skipped]
    assert [e[1:3] for e in seen if e[0] == "start"] == copies
    assert sorted(e[1:3] for e in seen if e[0] == "wait") == copies
    under_way: set[tuple[int, ...]] = set()
    most = 0
    for what, layer, i, sem in seen:
        if what == "start":
            assert sem not in {s for _, _, s in under_way}, "a semaphore has one copy at a time"
            under_way.add((layer, i, sem))
            assert len({one for one, _, _ in under_way}) <= 2
            most = max(most, len({one for one, _, _ in under_way}))
        else:
            under_way.remove((layer, i, sem))
    assert not under_way
    assert most == 2, "the next layer begins before the last copies of this one are waited for"
