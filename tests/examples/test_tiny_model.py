"""The example model: decode in a second engine, from copied pages, equals one engine doing it all, bit for bit."""

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvpoll.kernels import Layer, gather_pages, scatter_pages

if TYPE_CHECKING:
    import jax
else:
    jax = pytest.importorskip("jax")

EXAMPLES = Path(__file__).parents[2] / "examples"
NUM_PAGES = 96
STEPS = 12


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kvpoll_examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


tiny = load("tiny_model")
text = load("text")
CONFIG = tiny.ModelConfig()
MODEL = tiny.TinyModel(CONFIG, seed=0)
PROMPTS: list[list[int]] = [tiny.encode(prompt) for prompt in text.cut_prompts(8, CONFIG.page_size, seed=1)]
LONG = max(PROMPTS, key=len)


def some_pages(tokens: int, seed: int, num_pages: int = NUM_PAGES) -> list[int]:
    chosen = np.random.default_rng(seed).permutation(num_pages)[: CONFIG.pages_for(tokens)]
    return [int(page) for page in chosen]


def poisoned_pool(num_pages: int = NUM_PAGES) -> list["jax.Array"]:
    """Every word is a NaN: whoever reads a slot that was not written shows it."""
    return [layer | np.uint32(0xFFFFFFFF) for layer in MODEL.empty_pool(num_pages)]


def bits(logits: "jax.Array") -> bytes:
    return np.asarray(logits).tobytes()


def run(model: object, pool: Sequence[Layer], logits: "jax.Array", position: int, pages: list[int]) -> list[bytes]:
    """The logits of every decode step; their bits decide the tokens, so equal bits are equal tokens."""
    seen = [bits(logits)]
    for step in range(STEPS):
        pool, logits = model.decode_step(pool, tiny.greedy(logits), position + step, pages)  # type: ignore[attr-defined]
        seen.append(bits(logits))
    return seen


def in_one_engine(prompt: list[int]) -> list[bytes]:
    pages = some_pages(len(prompt) + STEPS, seed=2)
    pool, logits = MODEL.prefill(MODEL.empty_pool(NUM_PAGES), prompt, pages)
    return run(MODEL, pool, logits, len(prompt), pages)


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: f"{len(prompt)} tokens")
def test_decode_from_pages_copied_to_another_engine_is_bit_exact(prompt: list[int]) -> None:
    prefill, decode = tiny.TinyModel(CONFIG, seed=0), tiny.TinyModel(CONFIG, seed=0)
    sent, landed = some_pages(len(prompt), seed=3), some_pages(len(prompt) + STEPS, seed=4)
    source, logits = prefill.prefill(poisoned_pool(), prompt, sent)
    rows = gather_pages(source, sent)
    pool = scatter_pages(poisoned_pool(), landed[: len(sent)], rows)
    assert run(decode, pool, logits, len(prompt), landed) == in_one_engine(prompt)


def test_a_prompt_that_changes_engines_between_chunks_is_bit_exact() -> None:
    half = 2 * CONFIG.chunk
    sent, landed = some_pages(half, seed=5), some_pages(len(LONG) + STEPS, seed=6)
    source, _ = MODEL.prefill(poisoned_pool(), LONG[:half], sent)
    pool = scatter_pages(poisoned_pool(), landed[: len(sent)], gather_pages(source, sent, path="xla"))
    for start in range(half, len(LONG), CONFIG.chunk):
        pool, logits = MODEL.prefill_chunk(pool, LONG[start : start + CONFIG.chunk], start, landed)
    assert run(MODEL, pool, logits, len(LONG), landed) == in_one_engine(LONG)


def test_unwritten_memory_and_the_place_of_pages_have_no_influence() -> None:
    for num_pages, seed in ((NUM_PAGES, 7), (NUM_PAGES, 8), (NUM_PAGES + 5, 9)):
        pages = some_pages(len(LONG) + STEPS, seed, num_pages)
        pool, logits = MODEL.prefill(poisoned_pool(num_pages), LONG, pages)
        seen = run(MODEL, pool, logits, len(LONG), pages)
        assert seen == in_one_engine(LONG)
        assert np.isfinite(np.frombuffer(b"".join(seen), np.float32)).all()


def test_one_flipped_bit_in_any_layer_of_the_first_page_shows() -> None:
    pages = some_pages(len(LONG) + STEPS, seed=10)
    pool, logits = MODEL.prefill(MODEL.empty_pool(NUM_PAGES), LONG, pages)
    rows = np.array(gather_pages(pool, pages))
    for layer in range(CONFIG.layers):
        damaged = rows.copy()
        damaged[layer, 0, 0] ^= 1 << 22
        broken = scatter_pages(MODEL.empty_pool(NUM_PAGES), pages, damaged)
        assert run(MODEL, broken, logits, len(LONG), pages) != in_one_engine(LONG)


def test_two_pages_that_change_places_change_the_tokens() -> None:
    pages = some_pages(len(LONG) + STEPS, seed=11)
    pool, logits = MODEL.prefill(MODEL.empty_pool(NUM_PAGES), LONG, pages)
    first = tiny.greedy(logits)
    rows = gather_pages(pool, pages)
    _, right = MODEL.decode(pool, first, len(LONG), pages, STEPS)
    swapped = [pages[1], pages[0], *pages[2:]]
    _, wrong = MODEL.decode(scatter_pages(MODEL.empty_pool(NUM_PAGES), swapped, rows), first, len(LONG), pages, STEPS)
    assert right != wrong


def test_prefill_and_decode_are_the_same_model() -> None:
    """Not bit for bit, for the shapes differ; but a slip in positions, masks or pages would be no rounding error."""
    prompt = LONG[:90]
    pages = some_pages(len(prompt), seed=12)
    _, in_chunks = MODEL.prefill(poisoned_pool(), prompt, pages)
    pool = poisoned_pool()
    for position, token in enumerate(prompt):
        pool, one_by_one = MODEL.decode_step(pool, token, position, pages)
    np.testing.assert_allclose(np.asarray(in_chunks), np.asarray(one_by_one), atol=1e-3)


def test_a_chunk_writes_the_slots_of_its_tokens_and_no_other() -> None:
    start, count = 2 * CONFIG.page_size, CONFIG.page_size + 3
    pages = some_pages(start + count, seed=13)
    pool, _ = MODEL.prefill(MODEL.empty_pool(NUM_PAGES), LONG[:start], pages)
    before = [np.array(layer) for layer in pool]
    after, _ = MODEL.prefill_chunk(pool, LONG[start : start + count], start, pages)
    expected = {(pages[t // CONFIG.page_size], t % CONFIG.page_size) for t in range(start, start + count)}
    for old, layer in zip(before, after, strict=True):
        changed = (old != np.asarray(layer)).any(axis=(3, 4))  # [pages, 2, page_size]
        assert {(int(page), int(slot)) for page, _, slot in np.argwhere(changed)} == expected


def test_the_pool_is_updated_in_place_by_two_programs() -> None:
    compiled: list[object] = []

    def listen(event: str, duration_secs: float, **details: str | int) -> None:
        if event.endswith("backend_compile_duration") and details.get("fun_name") == "jit(_forward)":
            compiled.append(details)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        pool = MODEL.empty_pool(NUM_PAGES + 1)  # a size that no other test has compiled
        where = [layer.unsafe_buffer_pointer() for layer in pool]
        for prompt in PROMPTS:
            pages = some_pages(len(prompt) + STEPS, seed=14)
            pool, logits = MODEL.prefill(pool, prompt, pages)
            pool, _ = MODEL.decode(pool, tiny.greedy(logits), len(prompt), pages, STEPS)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(compiled) == 2
    assert [layer.unsafe_buffer_pointer() for layer in pool] == where


def test_another_process_computes_the_same_bits() -> None:
    script = f"""
import sys, hashlib, numpy as np
sys.path.insert(0, {str(EXAMPLES)!r})
import text, tiny_model as tiny
model = tiny.TinyModel(seed=0)
prompt = tiny.encode(text.cut_prompts(8, 16, seed=1)[-1])
pool, logits = model.prefill(model.empty_pool({NUM_PAGES}), prompt, list(range(60)))
print(hashlib.sha256(np.asarray(logits).tobytes()).hexdigest())
"""
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=True)
    _, logits = MODEL.prefill(MODEL.empty_pool(NUM_PAGES), PROMPTS[-1], list(range(60)))
    assert other.stdout.strip() == hashlib.sha256(bits(logits)).hexdigest()


def test_another_seed_is_another_model() -> None:
    _, logits = MODEL.prefill(MODEL.empty_pool(NUM_PAGES), LONG[:20], [0, 1])
    _, other = tiny.TinyModel(CONFIG, seed=1).prefill(MODEL.empty_pool(NUM_PAGES), LONG[:20], [0, 1])
    assert bits(logits) != bits(other)


@pytest.mark.parametrize(
    ("tokens", "start", "pages", "message"),
    [
        ([], 0, [0], "expected 1..64 tokens, got 0"),
        ([1] * 65, 0, list(range(5)), "expected 1..64 tokens, got 65"),
        ([1], 16, [0], "tokens 16..16 do not fit its 16 slots"),
        ([1], -1, [0], "tokens -1..-1 do not fit"),
        ([1], 0, list(range(65)), "expected at most 64 pages, got 65"),
        ([1], 0, [0, NUM_PAGES], "expected pages in 0..95, got"),
        ([1], 0, [-1], "expected pages in 0..95, got"),
    ],
)
def test_calls_that_do_not_fit_are_refused(tokens: list[int], start: int, pages: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MODEL.prefill_chunk(MODEL.empty_pool(NUM_PAGES), tokens, start, pages)


def test_text_becomes_bytes_and_comes_back() -> None:
    assert tiny.decode_text(tiny.encode("naïve")) == "naïve"
    assert tiny.decode_text([0xFF]) == "\N{REPLACEMENT CHARACTER}"


def test_prompts_cover_the_borders_of_pages_and_repeat_for_a_seed() -> None:
    for page_size in (1, 16, 128):
        prompts = text.cut_prompts(20, page_size, seed=3)
        lengths = [len(tiny.encode(prompt)) for prompt in prompts]
        wanted = {1, page_size - 1, page_size, page_size + 1, 2 * page_size, 2 * page_size + 1} - {0}
        assert wanted <= set(lengths)
        assert min(lengths) >= 1
        assert max(lengths) >= 300
        assert all(prompt in text.TEXT for prompt in prompts)
        assert prompts == text.cut_prompts(20, page_size, seed=3)
        assert prompts != text.cut_prompts(20, page_size, seed=4)
    assert [len(text.cut_prompts(n, 16)) for n in (0, 1, 7, 8)] == [0, 1, 7, 8]
