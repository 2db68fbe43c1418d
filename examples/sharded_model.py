"""The tiny model over several ranks: tensor and pipeline parallel, latent attention, decode context parallel.

    model = ShardedModel(ShardedConfig(mla=True), Shape(tp=4, dcp=4), seed=0)
    pools = model.empty_pools(num_pages=64)  # one for each rank: its layers, its heads or its token rows
    pools, logits = model.prefill(pools, prompt, pages=[7, 3])

All ranks run in one compiled program a layer, over arrays that are split for good: a rank has its own weights and its own
pool, and what one rank knows another only learns through the sums that a real engine would send around. Hence:

1. Ranks add up in the order of their numbers, so the same sizes give the same bits, run after run. Other sizes add in another
   order and round elsewhere: only runs of the same sizes can be compared bit for bit.
2. With heads, a rank keeps the keys and values of its heads, `[pages, 2, page_size, heads / tp, head_dim]`. With latent
   attention (``mla``) a token is one row for all heads, `[pages, page_size, latent + rope]`, and every TP rank keeps them all.
3. With decode context parallel of n (latent rows only) a rank keeps the rows of the tokens t with t mod n equal to its DCP
   rank. A page id stands for n * page_size tokens then, and token t is local row t div n: same page ids on all ranks.
4. A pipeline stage is a range of layers. Context parallel ranks and replicas hold copies; they are nothing to this file.

Pools hold bits of float32, and keys are cached before they are rotated, for the reasons in ``tiny_model``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tiny_model import ModelConfig, Pool, Tokens, Weights, greedy, normalise, random_weights, rotate

__all__ = ["Pools", "ShardedConfig", "ShardedModel", "Sizes", "layers_of", "page_shape"]

#: Of all ranks, by stage and then by TP rank.
Pools = list[Pool]


class Sizes(NamedTuple):
    """How many ranks there are. ``dcp`` divides ``tp``: neighbouring TP ranks share the tokens of a page."""

    tp: int = 1
    pp: int = 1
    dcp: int = 1


@dataclass(frozen=True)
class ShardedConfig(ModelConfig):
    """``max_pages`` counts pages of ``page_size`` tokens, whatever the sizes: it stands for the context length."""

    mla: bool = False
    latent: int = 24  # values of a token's row that all heads share, and ...
    rope: int = 8  # ... those of its rotated part; even

    @property
    def row_values(self) -> int:
        """Values of one token of one layer over all heads."""
        return self.latent + self.rope if self.mla else 2 * self.heads * self.head_dim


def layers_of(c: ShardedConfig, sizes: Sizes, stage: int) -> range:
    """Of a pipeline stage; the first stages take one more when they do not come out even."""
    each, more = divmod(c.layers, sizes.pp)
    start = stage * each + min(stage, more)
    return range(start, start + each + (stage < more))


def page_shape(c: ShardedConfig, sizes: Sizes) -> tuple[int, ...]:
    """Of one page of one layer at one rank."""
    if c.mla:
        return (c.page_size, c.latent + c.rope)
    return (2, c.page_size, c.heads // sizes.tp, c.head_dim)


class ShardedModel:
    """The weights of one seed for engines of these sizes. It holds no pools: they go in (donated) and come out."""

    def __init__(self, config: ShardedConfig, sizes: Sizes, seed: int = 0) -> None:
        _check_sizes(config, sizes)
        self.config, self.sizes = config, sizes
        whole = _latent_weights(config, seed) if config.mla else random_weights(config, seed)
        self._common = {name: whole[name] for name in ("embed", "logits", "turns")}
        self._ranks = [
            [_of_rank(config, sizes, whole, layer, tp) for layer in self.layers_of(stage)]
            for stage in range(sizes.pp)
            for tp in range(sizes.tp)
        ]

    # -- pages ---------------------------------------------------------------------------------------------------------
    @property
    def page_tokens(self) -> int:
        """Tokens that a page id stands for: over all DCP ranks."""
        return self.config.page_size * self.sizes.dcp

    def pages_for(self, tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-tokens // self.page_tokens)

    def layers_of(self, stage: int) -> range:
        return layers_of(self.config, self.sizes, stage)

    def empty_pools(self, num_pages: int) -> Pools:
        """For each rank one array a layer of its stage, uint32 `[num_pages, *page_shape]`."""
        shape = (num_pages, *page_shape(self.config, self.sizes))
        return [
            [jnp.zeros(shape, jnp.uint32) for _ in self.layers_of(stage)]
            for stage in range(self.sizes.pp)
            for _ in range(self.sizes.tp)
        ]

    # -- computing -----------------------------------------------------------------------------------------------------
    def prefill_chunk(
        self, pools: Pools, token_ids: Sequence[int], start: int, page_table: Sequence[int]
    ) -> tuple[Pools, jax.Array]:
        """Compute tokens `[start, start + len(token_ids))`, at most `config.chunk` of them, and write their KV.

        Token t lives in page `page_table[t // page_tokens]`. Returns the pools and the logits `[vocab]` after the last
        token. Raises ValueError for tokens that do not fit, before anything is computed.
        """
        padded = np.zeros(self.config.chunk, np.int32)
        padded[: len(token_ids)] = self._checked(token_ids, start, page_table, self.config.chunk)
        return self._step(pools, padded, start, len(token_ids), page_table)

    def decode_step(
        self, pools: Pools, token: int, position: int, page_table: Sequence[int]
    ) -> tuple[Pools, jax.Array]:
        """Compute one token at `position`, write its KV, and return the pools and the logits for the next token."""
        return self._step(pools, self._checked([token], position, page_table, 1), position, 1, page_table)

    def prefill(self, pools: Pools, token_ids: Sequence[int], pages: Sequence[int]) -> tuple[Pools, jax.Array]:
        """A whole prompt, chunk by chunk."""
        if not token_ids:
            raise ValueError("token_ids: expected at least one token, got none")
        for start in range(0, len(token_ids), self.config.chunk):
            chunk = token_ids[start : start + self.config.chunk]
            pools, logits = self.prefill_chunk(pools, chunk, start, pages)
        return pools, logits

    def decode(
        self, pools: Pools, token: int, position: int, pages: Sequence[int], steps: int
    ) -> tuple[Pools, list[int]]:
        """`steps` tokens, greedily. The first is `token`, which the prefill's logits chose; it sits at `position`."""
        tokens = [token]
        while len(tokens) < steps:
            pools, logits = self.decode_step(pools, tokens[-1], position + len(tokens) - 1, pages)
            tokens.append(greedy(logits))
        return pools, tokens

    def _step(
        self, pools: Pools, tokens: Tokens, start: int, count: int, page_table: Sequence[int]
    ) -> tuple[Pools, jax.Array]:
        available = pools[0][0].shape[0]
        if not all(0 <= page < available for page in page_table):
            raise ValueError(f"page_table: expected pages in 0..{available - 1}, got {list(page_table)}")
        table = np.zeros(self.pages_for(self.config.max_tokens), np.int32)
        table[: len(page_table)] = page_table
        where = np.int32(start), np.int32(count), table
        x = _embed(self._common["embed"], tokens)
        after: Pools = [[] for _ in pools]
        for stage in range(self.sizes.pp):
            mine = range(stage * self.sizes.tp, (stage + 1) * self.sizes.tp)
            for at in range(len(self.layers_of(stage))):
                weights, layers = [self._ranks[rank][at] for rank in mine], [pools[rank][at] for rank in mine]
                layers, x = _layer(self.config, self.sizes, self._common["turns"], weights, layers, x, *where)
                for rank, layer in zip(mine, layers, strict=True):
                    after[rank].append(layer)
        return after, _logits(self._common["logits"], x, where[1])

    def _checked(self, tokens: Sequence[int], start: int, page_table: Sequence[int], most: int) -> Tokens:
        """XLA clamps an index that is out of range and goes on, with wrong tokens; so look before the call."""
        pages = self.pages_for(self.config.max_tokens)
        if not 1 <= len(tokens) <= most:
            raise ValueError(f"token_ids: expected 1..{most} tokens, got {len(tokens)}")
        if len(page_table) > pages:
            raise ValueError(f"page_table: expected at most {pages} pages, got {len(page_table)}")
        room = min(len(page_table) * self.page_tokens, self.config.max_tokens)
        if not 0 <= start <= room - len(tokens):
            raise ValueError(f"page_table: tokens {start}..{start + len(tokens) - 1} do not fit its {room} slots")
        return np.asarray(tokens, np.int32)


def _check_sizes(c: ShardedConfig, sizes: Sizes) -> None:
    tp, pp, dcp = sizes
    if tp < 1 or c.heads % tp:
        raise ValueError(f"tp: expected a divisor of the {c.heads} heads, got {tp}")
    if not 1 <= pp <= c.layers:
        raise ValueError(f"pp: expected 1 to {c.layers} stages, one layer each at least, got {pp}")
    if dcp < 1 or tp % dcp:
        raise ValueError(f"dcp: expected a divisor of tp ({tp}), got {dcp}")
    if dcp > 1 and not c.mla:
        raise ValueError("dcp: expected latent attention, whose rows belong to tokens; heads are split by tp")
    if c.max_tokens % (c.page_size * dcp):
        raise ValueError(f"max_pages: expected a multiple of dcp ({dcp}), got {c.max_pages}")


def _latent_weights(c: ShardedConfig, seed: int) -> Weights:
    """The same, but for attention: down to one row for all heads, and up from it to each head's keys and values."""
    whole = random_weights(c, seed)
    rng = np.random.default_rng([seed, 1])

    def matrix(*shape: int, inputs: int, gain: float = 1.0) -> jax.Array:
        return jnp.asarray(rng.normal(0, gain * inputs**-0.5, shape).astype(np.float32))

    angle = np.arange(c.max_tokens)[:, None, None] / 10000 ** (np.arange(c.rope // 2) / (c.rope // 2))
    # As in ``tiny_model``: gains, or the context would not show.
    return {name: whole[name] for name in ("embed", "out", "up", "down", "logits")} | {
        "query": matrix(c.layers, c.d_model, c.heads, c.head_dim + c.rope, inputs=c.d_model, gain=2.0),
        "row": matrix(c.layers, c.d_model, c.latent + c.rope, inputs=c.d_model, gain=2.0),
        "key": matrix(c.layers, c.heads, c.latent, c.head_dim, inputs=c.latent),
        "value": matrix(c.layers, c.heads, c.latent, c.head_dim, inputs=c.latent),
        "turns": jnp.asarray(np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)),
    }


def _of_rank(c: ShardedConfig, sizes: Sizes, whole: Weights, layer: int, tp: int) -> Weights:
    """What a TP rank loads of a layer: its heads, and its slice of the hidden layer."""

    def cut(name: str, axis: int, parts: int, rank: int) -> jax.Array:
        width = whole[name].shape[axis + 1] // parts
        return lax.slice_in_dim(whole[name][layer], rank * width, (rank + 1) * width, axis=axis)

    found = {name: cut(name, axis, sizes.tp, tp) for name, axis in (("out", 0), ("up", 1), ("down", 0))}
    if not c.mla:
        width = c.d_model // sizes.tp
        parts = jnp.split(whole["qkv"][layer], 3, axis=-1)
        return found | {"qkv": jnp.concatenate([w[:, tp * width : (tp + 1) * width] for w in parts], axis=-1)}
    # With DCP the ranks that share the tokens look with the queries of all their heads, each at its own rows.
    groups, group = sizes.tp // sizes.dcp, tp // sizes.dcp
    query, key = (cut(name, axis, groups, group) for name, axis in (("query", 1), ("key", 0)))
    return found | {"row": whole["row"][layer], "query": query, "key": key, "value": cut("value", 0, sizes.tp, tp)}


@jax.jit
def _embed(embed: jax.Array, tokens: jax.Array) -> jax.Array:
    return embed[tokens]


@jax.jit
def _logits(logits: jax.Array, x: jax.Array, count: jax.Array) -> jax.Array:
    return normalise(x[count - 1]) @ logits


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(4, 5))
def _layer(
    c: ShardedConfig, sizes: Sizes, turns: jax.Array, weights: list[Weights], layers: list[jax.Array], x: jax.Array,
    start: jax.Array, count: jax.Array, table: jax.Array,
) -> tuple[list[jax.Array], jax.Array]:  # fmt: skip
    """One layer at all TP ranks of its stage: T = chunk tokens of which `count` are real, or T = 1."""
    step = _Step(c, sizes, turns, x.shape[0], start, count, table)
    layers, heads = (_attend_latent if c.mla else _attend_heads)(step, normalise(x), weights, layers)
    x = x + _sum([mixed @ w["out"] for mixed, w in zip(heads, weights, strict=True)])
    return layers, x + _sum([jax.nn.silu(normalise(x) @ w["up"]) @ w["down"] for w in weights])


class _Step:
    """Where the tokens of a call are, and what they may look at."""

    def __init__(
        self, c: ShardedConfig, sizes: Sizes, turns: jax.Array, t: int, start: jax.Array, count: jax.Array, table: jax.Array
    ) -> None:  # fmt: skip
        self.c, self.sizes, self.turns, self.t, self.table = c, sizes, turns, t, table
        self.position = start + jnp.arange(t)
        self.real = jnp.arange(t) < count
        self.last = jnp.minimum(self.position, start + count - 1)
        self.end = start + count
        self.own_turns = turns[:, jnp.minimum(self.position, c.max_tokens - 1)]

    def write(self, layer: jax.Array, rank: int, bits: jax.Array) -> jax.Array:
        """`bits` of the tokens that this DCP rank owns, into their local rows; the others are dropped."""
        n = self.sizes.dcp
        local = self.position // n
        mine = self.real & (self.position % n == rank % n)
        page = jnp.where(mine, self.table[local // self.c.page_size], layer.shape[0])
        slot = local % self.c.page_size
        return layer.at[(page, slot) if self.c.mla else (page, slice(None), slot)].set(bits, mode="drop")

    def read(self, layer: jax.Array, rank: int) -> tuple[jax.Array, jax.Array]:
        """The rows `[S, ...]` of this DCP rank in token order, and what each token may look at, `[T, S]`."""
        seen = lax.bitcast_convert_type(layer[self.table], jnp.float32)
        if not self.c.mla:
            seen = seen.swapaxes(1, 2)
        seen = seen.reshape(-1, *seen.shape[2:])
        token = self.tokens_of(rank)
        written = (token < self.end).reshape(-1, *(1,) * (seen.ndim - 1))
        return jnp.where(written, seen, 0.0), token[None, :] <= self.last[:, None]

    def tokens_of(self, rank: int) -> jax.Array:
        """The positions that the local rows of a rank stand for."""
        return jnp.arange(rank % self.sizes.dcp, self.c.max_tokens, self.sizes.dcp)


def _attend_heads(
    step: _Step, x: jax.Array, weights: list[Weights], layers: list[jax.Array]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Every rank for itself: its heads, its pool. Returns the pools and the heads' outputs, `[T, d_model / tp]` each."""
    new_layers, outputs = [], []
    for rank, (w, layer) in enumerate(zip(weights, layers, strict=True)):
        parts = jnp.split(x @ w["qkv"], 3, axis=-1)
        q, k, v = (part.reshape(step.t, -1, step.c.head_dim) for part in parts)
        new = step.write(layer, rank, lax.bitcast_convert_type(jnp.stack([k, v], axis=1), jnp.uint32))
        seen, visible = step.read(new, rank)
        keys = rotate(seen[:, 0], step.turns)
        scores = jnp.einsum("thd,shd->hts", rotate(q, step.own_turns), keys) * step.c.head_dim**-0.5
        attention = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
        outputs.append(jnp.einsum("hts,shd->thd", attention, seen[:, 1]).reshape(step.t, -1))
        new_layers.append(new)
    return new_layers, outputs


def _attend_latent(
    step: _Step, x: jax.Array, weights: list[Weights], layers: list[jax.Array]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """The ranks of a DCP group look at their own rows with the queries of all heads of the group; their sums are put
    together, and each rank goes on with its own heads."""
    c, n = step.c, step.sizes.dcp
    new_layers = [
        step.write(layer, rank, lax.bitcast_convert_type(x @ w["row"], jnp.uint32))
        for rank, (w, layer) in enumerate(zip(weights, layers, strict=True))
    ]
    outputs = []
    for first in range(0, len(weights), n):
        w = weights[first]  # the queries of the group are the same on all its ranks
        q = jnp.einsum("td,dhe->the", x, w["query"])
        q_row = jnp.einsum("the,hle->thl", q[..., : c.head_dim], w["key"])
        q_turned = rotate(q[..., c.head_dim :], step.own_turns)
        scores, rows = [], []
        for rank in range(first, first + n):
            seen, visible = step.read(new_layers[rank], rank)
            row, turned = seen[:, : c.latent], rotate(seen[:, None, c.latent :], step.turns[:, step.tokens_of(rank)])
            score = jnp.einsum("thl,sl->hts", q_row, row) + jnp.einsum("the,se->hts", q_turned, turned[:, 0])
            scores.append(jnp.where(visible, score * (c.head_dim + c.rope) ** -0.5, -jnp.inf))
            rows.append(row)
        most = _most([score.max(axis=-1, keepdims=True) for score in scores])  # finite: a token sees itself
        weighed = [jnp.exp(score - most) for score in scores]
        total = _sum([part.sum(axis=-1) for part in weighed])
        mixed = _sum([jnp.einsum("hts,sl->thl", part, row) for part, row in zip(weighed, rows, strict=True)])
        mixed = mixed / total.T[..., None]
        each = mixed.shape[1] // n
        for index in range(n):
            own = mixed[:, index * each : (index + 1) * each]
            value = weights[first + index]["value"]
            outputs.append(jnp.einsum("thl,hle->the", own, value).reshape(step.t, -1))
    return new_layers, outputs


def _sum(parts: list[jax.Array]) -> jax.Array:
    """In the order of the ranks."""
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found


def _most(parts: list[jax.Array]) -> jax.Array:
    found = parts[0]
    for part in parts[1:]:
        found = jnp.maximum(found, part)
    return found
