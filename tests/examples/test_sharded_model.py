"""The tiny model over several ranks: the same answers as one rank, up to rounding, and the same bits whenever sizes are equal."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from sharded_model import Pools, ShardedModel

pytest.importorskip("jax")

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGES, LENGTH, STEPS = 32, 130, 6
#: (tp, pp, dcp)
HEADS = [(2, 1, 1), (3, 2, 1)]
LATENT = [(2, 3, 1), (4, 1, 4), (4, 2, 2)]
EVERY = [(False, sizes) for sizes in HEADS] + [(True, sizes) for sizes in LATENT]


class Kit:
    """Models by sizes, made once: they compile."""

    def __init__(self, module: ModuleType, prompt: list[int]) -> None:
        self.module, self.prompt = module, prompt
        self._models: dict[tuple[object, ...], ShardedModel] = {}

    def config(self, mla: bool) -> Any:  # noqa: ANN401
        return self.module.ShardedConfig(heads=12, head_dim=8, mla=mla, max_pages=12)

    def model(self, mla: bool, sizes: tuple[int, int, int] = (1, 1, 1)) -> ShardedModel:
        key = (mla, sizes)
        if key not in self._models:
            self._models[key] = self.module.ShardedModel(self.config(mla), self.module.Sizes(*sizes), seed=0)
        return self._models[key]


@pytest.fixture(scope="module")
def kit() -> Iterator[Kit]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        text, tiny = import_module("text"), import_module("tiny_model")
        yield Kit(import_module("sharded_model"), tiny.encode(text.TEXT[:LENGTH]))


def some_pages(model: ShardedModel, tokens: int, seed: int) -> list[int]:
    return [int(page) for page in np.random.default_rng(seed).permutation(PAGES)[: model.pages_for(tokens)]]


def poisoned(model: ShardedModel) -> Pools:
    """Every word is a NaN: whoever reads a slot that was not written shows it."""
    return [[layer | np.uint32(0xFFFFFFFF) for layer in pool] for pool in model.empty_pools(PAGES)]


def run(
    model: ShardedModel, prompt: list[int], seed: int, damage: bool = False
) -> tuple[list[bytes], list[int], Pools]:
    """The logits of the prompt and of every step as bytes, the tokens, and the pools after the prompt."""
    pages = some_pages(model, len(prompt) + STEPS, seed)
    pools, logits = model.prefill(poisoned(model), prompt, pages)
    before = [[np.array(layer) for layer in pool] for pool in pools]
    if damage:
        pools[-1][0] = pools[-1][0].at[pages[0]].set(pools[-1][0][pages[0]] ^ np.uint32(1 << 22))
    seen, tokens = [np.asarray(logits).tobytes()], [int(np.argmax(logits))]
    for step in range(STEPS - 1):
        pools, logits = model.decode_step(pools, tokens[-1], len(prompt) + step, pages)
        seen.append(np.asarray(logits).tobytes())
        tokens.append(int(np.argmax(logits)))
    return seen, tokens, before


def rows(model: ShardedModel, layer: np.ndarray[Any, Any], pages: list[int], count: int) -> np.ndarray[Any, Any]:
    taken = layer[pages]
    if not model.config.mla:
        taken = taken.swapaxes(1, 2)
    return taken.reshape(-1, *taken.shape[2:])[:count]


def values(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(bits).view(np.float32)


def test_one_rank_is_the_tiny_model_bit_for_bit(kit: Kit) -> None:
    tiny = import_module("tiny_model").TinyModel()
    model = kit.module.ShardedModel(kit.module.ShardedConfig(), kit.module.Sizes(), seed=0)
    pages = list(range(model.pages_for(LENGTH)))
    pool, logits = tiny.prefill(tiny.empty_pool(PAGES), kit.prompt, pages)
    pools, own = model.prefill(model.empty_pools(PAGES), kit.prompt, pages)
    assert np.asarray(own).tobytes() == np.asarray(logits).tobytes()
    assert [np.asarray(layer).tobytes() for layer in pools[0]] == [np.asarray(layer).tobytes() for layer in pool]


@pytest.mark.parametrize(("mla", "sizes"), EVERY)
def test_several_ranks_answer_as_one_does_up_to_rounding(kit: Kit, mla: bool, sizes: tuple[int, int, int]) -> None:
    one, expected, _ = run(kit.model(mla), kit.prompt, seed=1)
    several, tokens, _ = run(kit.model(mla, sizes), kit.prompt, seed=2)
    assert tokens == expected
    for a, b in zip(one, several, strict=True):
        np.testing.assert_allclose(np.frombuffer(a, np.float32), np.frombuffer(b, np.float32), atol=1e-3)


@pytest.mark.parametrize(("mla", "sizes"), EVERY)
def test_equal_sizes_give_equal_bits_wherever_the_pages_are(kit: Kit, mla: bool, sizes: tuple[int, int, int]) -> None:
    model = kit.module.ShardedModel(kit.config(mla), kit.module.Sizes(*sizes), seed=0)
    seen, _, _ = run(model, kit.prompt, seed=3)
    assert seen == run(kit.model(mla, sizes), kit.prompt, seed=4)[0]
    assert np.isfinite(np.frombuffer(b"".join(seen), np.float32)).all()


@pytest.mark.parametrize(("mla", "sizes"), EVERY)
def test_one_flipped_bit_at_the_last_rank_shows(kit: Kit, mla: bool, sizes: tuple[int, int, int]) -> None:
    model = kit.model(mla, sizes)
    assert run(model, kit.prompt, seed=5, damage=True)[0] != run(model, kit.prompt, seed=5)[0]


@pytest.mark.parametrize("sizes", HEADS)
def test_a_rank_holds_the_keys_and_values_of_its_heads_in_the_layers_of_its_stage(
    kit: Kit, sizes: tuple[int, int, int]
) -> None:
    model, one = kit.model(False, sizes), kit.model(False)
    whole, split = run(one, kit.prompt, seed=6)[2][0], run(model, kit.prompt, seed=7)[2]
    where, pages = some_pages(one, LENGTH + STEPS, 6), some_pages(model, LENGTH + STEPS, 7)
    width, stages = 12 // sizes[0], [model.layers_of(stage) for stage in range(sizes[1])]
    assert [layer for stage in stages for layer in stage] == list(range(4))
    for stage, layers in enumerate(stages):
        for tp in range(sizes[0]):
            pool = split[stage * sizes[0] + tp]
            assert len(pool) == len(layers)
            for layer, mine in zip(layers, pool, strict=True):
                expected = rows(one, whole[layer], where, LENGTH)[:, :, tp * width : (tp + 1) * width]
                np.testing.assert_allclose(values(rows(model, mine, pages, LENGTH)), values(expected), atol=1e-3)


@pytest.mark.parametrize("sizes", LATENT)
def test_a_rank_holds_the_latent_rows_of_its_tokens(kit: Kit, sizes: tuple[int, int, int]) -> None:
    tp, pp, n = sizes
    model, one = kit.model(True, sizes), kit.model(True)
    whole, split = run(one, kit.prompt, seed=8)[2][0], run(model, kit.prompt, seed=9)[2]
    where, pages = some_pages(one, LENGTH + STEPS, 8), some_pages(model, LENGTH + STEPS, 9)
    for stage in range(pp):
        for rank in range(tp):
            for layer, mine in zip(model.layers_of(stage), split[stage * tp + rank], strict=True):
                expected = rows(one, whole[layer], where, LENGTH)[rank % n :: n]
                got = rows(model, mine, pages, len(expected))
                np.testing.assert_allclose(values(got), values(expected), atol=1e-3)
                if layer == 0:  # nothing was added up yet
                    assert got.tobytes() == expected.tobytes()
                assert got.tobytes() == rows(model, split[stage * tp + rank % n][layer - model.layers_of(stage)[0]], pages,
                                             len(expected)).tobytes()  # fmt: skip


@pytest.mark.parametrize(("length", "counts"), [(63, (16, 16, 16, 15)), (64, (16,) * 4), (65, (17, 16, 16, 16))])
def test_every_token_is_written_at_one_rank_of_the_group_and_nothing_else_is(
    kit: Kit, length: int, counts: tuple[int, ...]
) -> None:
    model = kit.model(True, (4, 1, 4))
    assert model.pages_for(length) == -(-length // 64)
    pages = some_pages(model, length, seed=10)
    before = poisoned(model)
    old = [np.asarray(pool[0]).copy() for pool in before]
    after, _ = model.prefill(before, kit.prompt[:length], pages)
    for rank, (was, pool) in enumerate(zip(old, after, strict=True)):
        changed = {(int(page), int(slot)) for page, slot in np.argwhere((was != np.asarray(pool[0])).any(axis=2))}
        local = [token // 4 for token in range(rank, length, 4)]
        assert len(local) == counts[rank]
        assert changed == {(pages[row // 16], row % 16) for row in local}


def test_the_pools_of_all_ranks_are_updated_in_place(kit: Kit) -> None:
    model = kit.model(True, (4, 1, 4))
    pools = model.empty_pools(PAGES)
    where = [layer.unsafe_buffer_pointer() for pool in pools for layer in pool]
    pools, _ = model.prefill(pools, kit.prompt, some_pages(model, LENGTH, seed=11))
    assert [layer.unsafe_buffer_pointer() for pool in pools for layer in pool] == where


@pytest.mark.parametrize(
    ("mla", "sizes", "message"),
    [
        (False, (5, 1, 1), "tp: expected a divisor of the 12 heads, got 5"),
        (False, (1, 5, 1), "pp: expected 1 to 4 stages"),
        (True, (2, 1, 4), r"dcp: expected a divisor of tp \(2\), got 4"),
        (False, (2, 1, 2), "dcp: expected latent attention"),
        (True, (12, 1, 12), "max_pages: expected a multiple of dcp"),
    ],
)
def test_sizes_that_cannot_be_are_refused(kit: Kit, mla: bool, sizes: tuple[int, int, int], message: str) -> None:
    config = kit.module.ShardedConfig(heads=12, head_dim=8, mla=mla, max_pages=22)
    with pytest.raises(ValueError, match=message):
        kit.module.ShardedModel(config, kit.module.Sizes(*sizes))


def test_a_context_counts_tokens_and_not_pages_of_a_group(kit: Kit) -> None:
    model = kit.model(True, (4, 1, 4))
    with pytest.raises(ValueError, match="expected at most 3 pages, got 4"):
        model.prefill_chunk(model.empty_pools(PAGES), [1], 0, list(range(4)))
    with pytest.raises(ValueError, match=r"tokens 64\.\.64 do not fit its 64 slots"):
        model.prefill_chunk(model.empty_pools(PAGES), [1], 64, [0])
