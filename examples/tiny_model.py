"""A small, real decoder-only transformer with a paged KV pool. Untrained: it computes everything and means nothing.

    model = TinyModel(ModelConfig(), seed=0)
    pool = model.empty_pool(num_pages=64)
    pool, logits = model.prefill(pool, encode("Once upon a time"), pages=[7, 3])
    pool, tokens = model.decode(pool, greedy(logits), position=16, pages=[7, 3], steps=10)

What it is for: a second engine that receives the pages into its own pool, at other page ids, must go on exactly where
the first one stopped, bit for bit. Three rules make that true, and any engine that compares bits needs them:

1. Shapes are fixed (chunks and page tables are padded), so both engines run the same two programs. Another shape is
   another order of summation. For the same reason only runs with the same chunks are comparable.
2. Padding and pages that are not written yet may hold anything, NaN included. Masked scores become -inf and masked
   values 0, for 0 * NaN is NaN; what is computed for padding is written nowhere.
3. The pool holds the bits of float32 as uint32. XLA on CPU may rewrite NaN payloads of floats that it only moves, and
   for bfloat16 it converts the whole pool to do so; integers are written in place when the pool is donated.

Keys are cached before their rotary position is applied, and rotated where they are read. Engines mostly do it the other
way round, but then each key carries its position along, attention does not care in which order pages arrived, and
a hand-off that swaps two pages yields the right tokens. Here it yields wrong ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

Pool: TypeAlias = list[jax.Array]
Weights: TypeAlias = dict[str, jax.Array]
Tokens: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes; hashable, so that it can be a static argument of the compiled functions."""

    vocab: int = 256  # a token is a byte
    layers: int = 4
    heads: int = 4
    head_dim: int = 16  # even
    page_size: int = 16  # tokens in a page
    chunk: int = 64  # tokens that one prefill call takes at most
    max_pages: int = 64  # length of a padded page table: at most max_pages * page_size tokens in a sequence

    @property
    def d_model(self) -> int:
        return self.heads * self.head_dim

    @property
    def max_tokens(self) -> int:
        return self.max_pages * self.page_size

    def pages_for(self, tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-tokens // self.page_size)


def encode(text: str) -> list[int]:
    return list(text.encode())


def decode_text(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def greedy(logits: jax.Array) -> int:
    """The most likely token; the lowest id among equals."""
    return int(np.argmax(np.asarray(logits)))


class TinyModel:
    """The weights of one seed, and the calls an engine makes. It holds no pool: pools go in (donated) and come out."""

    def __init__(self, config: ModelConfig | None = None, seed: int = 0) -> None:
        self.config = config or ModelConfig()
        self._weights = random_weights(self.config, seed)

    def empty_pool(self, num_pages: int) -> Pool:
        """One array per layer, uint32 `[num_pages, 2 (k, v), page_size, heads, head_dim]`: the bits of float32."""
        c = self.config
        return [jnp.zeros((num_pages, 2, c.page_size, c.heads, c.head_dim), jnp.uint32) for _ in range(c.layers)]

    def prefill_chunk(
        self, pool: Pool, token_ids: Sequence[int], start: int, page_table: Sequence[int]
    ) -> tuple[Pool, jax.Array]:
        """Compute tokens `[start, start + len(token_ids))`, at most `config.chunk` of them, and write their KV.

        Token t lives in page `page_table[t // page_size]`. Positions before `start` must have been written. Returns the
        pool and the logits `[vocab]` after the last token.
        """
        padded = np.zeros(self.config.chunk, np.int32)
        padded[: len(token_ids)] = self._checked(token_ids, start, page_table, self.config.chunk)
        return self._step(pool, padded, start, len(token_ids), page_table)

    def decode_step(self, pool: Pool, token: int, position: int, page_table: Sequence[int]) -> tuple[Pool, jax.Array]:
        """Compute one token at `position`, write its KV, and return the pool and the logits for the next token."""
        return self._step(pool, self._checked([token], position, page_table, 1), position, 1, page_table)

    def prefill(self, pool: Pool, token_ids: Sequence[int], pages: Sequence[int]) -> tuple[Pool, jax.Array]:
        """A whole prompt, chunk by chunk."""
        if not token_ids:
            raise ValueError("token_ids: expected at least one token, got none")
        for start in range(0, len(token_ids), self.config.chunk):
            chunk = token_ids[start : start + self.config.chunk]
            pool, logits = self.prefill_chunk(pool, chunk, start, pages)
        return pool, logits

    def decode(self, pool: Pool, token: int, position: int, pages: Sequence[int], steps: int) -> tuple[Pool, list[int]]:
        """`steps` tokens, greedily. The first is `token`, which the prefill's logits chose; it sits at `position`."""
        tokens = [token]
        while len(tokens) < steps:
            pool, logits = self.decode_step(pool, tokens[-1], position + len(tokens) - 1, pages)
            tokens.append(greedy(logits))
        return pool, tokens

    def _step(
        self, pool: Pool, tokens: Tokens, start: int, count: int, page_table: Sequence[int]
    ) -> tuple[Pool, jax.Array]:
        if not all(0 <= page < pool[0].shape[0] for page in page_table):
            raise ValueError(f"page_table: expected pages in 0..{pool[0].shape[0] - 1}, got {list(page_table)}")
        table = np.zeros(self.config.max_pages, np.int32)
        table[: len(page_table)] = page_table
        result: tuple[Pool, jax.Array] = _forward(
            self.config, self._weights, pool, tokens, np.int32(start), np.int32(count), table
        )
        return result

    def _checked(self, tokens: Sequence[int], start: int, page_table: Sequence[int], most: int) -> Tokens:
        """XLA clamps an index that is out of range and goes on, with wrong tokens; so look before the call."""
        room = min(len(page_table) * self.config.page_size, self.config.max_tokens)
        if not 1 <= len(tokens) <= most:
            raise ValueError(f"token_ids: expected 1..{most} tokens, got {len(tokens)}")
        if len(page_table) > self.config.max_pages:
            raise ValueError(f"page_table: expected at most {self.config.max_pages} pages, got {len(page_table)}")
        if not 0 <= start <= room - len(tokens):
            raise ValueError(f"page_table: tokens {start}..{start + len(tokens) - 1} do not fit its {room} slots")
        return np.asarray(tokens, np.int32)


def random_weights(c: ModelConfig, seed: int) -> Weights:
    """From numpy, whose generator gives the same numbers in every process and with every jax version."""
    rng = np.random.default_rng(seed)

    def matrix(*shape: int, gain: float = 1.0) -> jax.Array:
        return jnp.asarray(rng.normal(0, gain * shape[-2] ** -0.5, shape).astype(np.float32))

    d, hidden = c.d_model, 4 * c.d_model
    angle = np.arange(c.max_tokens)[:, None, None] / 10000 ** (np.arange(c.head_dim // 2) / (c.head_dim // 2))
    # The gains sharpen attention and let it speak up. Without them an untrained model averages its context away and
    # runs into short cycles, and damaged KV would not show in the tokens.
    return {
        "embed": jnp.asarray(rng.normal(0, 1, (c.vocab, d)).astype(np.float32)),
        "qkv": jnp.concatenate([matrix(c.layers, d, 2 * d, gain=2.0), matrix(c.layers, d, d)], axis=-1),
        "out": matrix(c.layers, d, d, gain=2.0),
        "up": matrix(c.layers, d, hidden),
        "down": matrix(c.layers, hidden, d),
        "logits": matrix(d, c.vocab),
        "turns": jnp.asarray(np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)),  # [2, tokens, 1, half]
    }


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def _forward(
    c: ModelConfig, w: Weights, pool: Pool, tokens: jax.Array, start: jax.Array, count: jax.Array, table: jax.Array
) -> tuple[Pool, jax.Array]:
    """Both steps: T = chunk tokens of which `count` are real, or T = 1. Compiled once for each T and pool size."""
    t = tokens.shape[0]
    position = start + jnp.arange(t)
    real = jnp.arange(t) < count
    # A padding token is written to a page that does not exist, and mode="drop" drops it.
    page = jnp.where(real, table[position // c.page_size], pool[0].shape[0])
    slot = position % c.page_size
    visible = jnp.arange(c.max_tokens)[None, :] <= jnp.minimum(position, start + count - 1)[:, None]  # [T, S]
    written = jnp.arange(c.max_tokens) < start + count
    own_turns = w["turns"][:, jnp.minimum(position, c.max_tokens - 1)]

    x = w["embed"][tokens]
    new_pool = []
    for layer, kv in enumerate(pool):
        q, k, v = jnp.split(normalise(x) @ w["qkv"][layer], 3, axis=-1)
        q, k, v = (part.reshape(t, c.heads, c.head_dim) for part in (q, k, v))
        bits = lax.bitcast_convert_type(jnp.stack([k, v], axis=1), jnp.uint32)  # [T, 2, heads, head_dim]
        kv = kv.at[page, :, slot].set(bits, mode="drop")
        new_pool.append(kv)

        seen = lax.bitcast_convert_type(kv[table], jnp.float32)  # [max_pages, 2, page_size, heads, head_dim]
        seen = seen.swapaxes(1, 2).reshape(c.max_tokens, 2, c.heads, c.head_dim)
        seen = jnp.where(written[:, None, None, None], seen, 0.0)
        scores = jnp.einsum("thd,shd->hts", rotate(q, own_turns), rotate(seen[:, 0], w["turns"])) * c.head_dim**-0.5
        attention = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
        x = x + jnp.einsum("hts,shd->thd", attention, seen[:, 1]).reshape(t, c.d_model) @ w["out"][layer]
        x = x + jax.nn.silu(normalise(x) @ w["up"][layer]) @ w["down"][layer]
    return new_pool, normalise(x[count - 1]) @ w["logits"]


def normalise(x: jax.Array) -> jax.Array:
    """RMSNorm without a gain: an untrained gain is 1."""
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rotate(x: jax.Array, turns: jax.Array) -> jax.Array:
    """Rotary positions: turn channel pairs (i, i + head_dim / 2) of `[T, heads, head_dim]`; turns: cosines, sines."""
    (cos, sin), (a, b) = turns, jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
