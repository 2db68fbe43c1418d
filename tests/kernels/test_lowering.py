"""Every kernel is lowered for the platforms it is for, with plain jax and none of the hardware.

That finds copies between unequal shapes, operations a platform lacks, and block shapes it refuses. Tiles, memory sizes and
temporaries are only seen by a compiler: tests/kernels/aot.
"""

from collections.abc import Callable

import numpy as np
import pytest

from kvpoll.kernels import tpu, triton, xla, xla_parts
from kvpoll.kernels.layout import layout_of
from kvpoll.kernels.parts import Part

from .geometries import GROUPED, HEADS_LAST, LATENT, dtype_of

jax = pytest.importorskip("jax")


def spec(shape: tuple[int, ...], dtype: str) -> object:
    return jax.ShapeDtypeStruct(shape, dtype_of(dtype))


def text_for(platform: str, function: Callable[..., object], *arguments: object) -> str:
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,))
    text: str = lowered.as_text()
    return text


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float8_e4m3fn", "float32"])
def test_tpu_kernels_lower_to_mosaic(dtype: str) -> None:
    for geometry in (HEADS_LAST, GROUPED, LATENT) if dtype == "bfloat16" else (HEADS_LAST,):
        found = layout_of(geometry.pool(dtype))
        layers = [spec((6, *geometry.shape), dtype)] * 2
        ids = spec((16,), "int32")
        parts = [Part.pages(found), Part.tokens_of(found, geometry.layout(dtype))]
        if "head" in geometry.axes:
            parts.append(Part.heads_of(found, geometry.layout(dtype), 2, 4))
        for part in parts:
            blocks = spec((2, 11, *part.unit), dtype)
            assert "tpu_custom_call" in text_for("tpu", lambda a, b, p=part: tpu.gather_units(a, b, p), layers, ids)
            scatter = text_for("tpu", lambda a, b, c, p=part: tpu.scatter_units(a, b, c, p), layers, blocks, ids)
            assert "output_operand_aliases" in scatter
        rows = text_for(
            "tpu", lambda a, b, c, d, p=parts[1]: tpu.move_units(a, b, c, d, p, p), layers, layers, ids, ids
        )
        assert "tpu_custom_call" in rows
        chunks = text_for("tpu", tpu.move_chunks, layers, layers, ids, ids, ids, spec((1,), "int32"))
        assert "tpu_custom_call" in chunks


def test_the_host_copy_lowers_to_mosaic() -> None:
    layer = spec((6, 2, 4, 4, 8), "bfloat16")
    assert "tpu_custom_call" in text_for("tpu", lambda a, b: tpu.fill_host(a, b), layer, layer)


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "uint8"])
def test_triton_kernels_lower_for_both_kinds_of_gpu(platform: str, dtype: str) -> None:
    layer = spec((6, 2, 4, 4, 8), dtype)
    runs = spec((16,), "int32")
    for width in (32, 256):
        gather = text_for(platform, lambda a, b, w=width: triton.gather_runs(a, b, w), layer, runs)
        assert "triton" in gather
        rows = spec((11, width), dtype)
        assert "triton" in text_for(platform, lambda a, b, c: triton.scatter_runs(a, b, c), layer, rows, runs)


@pytest.mark.parametrize("platform", ["tpu", "cuda", "rocm"])
def test_xla_programs_lower_everywhere(platform: str) -> None:
    layer, ids = spec((6, 2, 4, 4, 8), "bfloat16"), spec((4,), "int32")
    layout = HEADS_LAST.layout("bfloat16")
    block = spec((4, 256), "uint16")
    text_for(platform, lambda a, b: xla._gather([a], b, "uint16"), layer, ids)
    text_for(platform, lambda a, b, c: xla._set(a, b, c), layer, ids, block)
    runs, half = spec((8, 2), "int32"), spec((4, 128), "uint16")
    text_for(platform, lambda a, b: xla_parts._gather_runs([a], b, "uint16", 32), layer, runs)
    text_for(platform, lambda a, b, c: xla_parts._scatter_runs(a, b, c), layer, runs, spec((8, 64), "uint16"))
    text_for(platform, lambda a, b: xla_parts._gather_heads([a], b, "uint16", 0, 2, layout), layer, ids)
    text_for(platform, lambda a, b, c: xla_parts._scatter_heads(a, b, c, 0, 2, layout), layer, ids, half)


def test_a_copy_between_unequal_shapes_is_found_by_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: the unit of a token keeps its token axis."""
    found = layout_of(HEADS_LAST.pool("bfloat16"))
    part = Part.tokens_of(found, HEADS_LAST.layout("bfloat16"))
    monkeypatch.setattr(Part, "unit", property(lambda self: self.page_shape))
    layers = [spec((6, *HEADS_LAST.shape), "bfloat16")]
    with pytest.raises(Exception, match=r"(?i)shape|verif|mismatch"):
        text_for("tpu", lambda a, b: tpu.gather_units(a, b, part), layers, spec((16,), "int32"))


def test_lists_of_ids_are_padded_to_powers_of_two_that_are_skipped() -> None:
    padded = tpu._padded(np.arange(5))
    assert padded.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]
    assert padded.dtype == np.int32
