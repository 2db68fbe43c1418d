"""What must be true: the run of one engine that does everything, and the comparison with what the service did.

KV is compared row by row. A row is one token of one layer at one rank: its keys and values of the rank's heads, or its latent
row. What the rows of a decode rank must be is cut from the KV of the one engine with plain numpy, which knows nothing of
plans: layers by stage, heads by TP rank, tokens by DCP rank.

New tokens are compared twice. With an engine of the decode engine's sizes that got this very KV: bit for bit the same sums, so
any difference is a fault. And with one of these sizes that computed the prompt itself, which no hand-off has touched; its KV
is rounded elsewhere when prefill has other sizes, so what is equal there is only the tokens, unless two were almost a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from sharded_model import Pools, ShardedModel
from tiny_model import greedy

from demo.setting import EngineSetting, places

__all__ = ["DIGEST", "Expected", "Reference", "digests"]

DIGEST = 12  #: hexadecimal digits for a row
Rows = npt.NDArray[np.uint32]


def digests(model: ShardedModel, pools: Pools, pages: Sequence[int], tokens: int) -> list[list[str]]:
    """Of the KV of ``tokens`` tokens in these pages: by pool, by layer, the digests of the rank's rows in token order, one
    after the other. Rows past the last token are left out: they hold whatever was there before."""
    found = []
    for at, pool in enumerate(pools):
        owned = len(range(at % model.sizes.dcp, tokens, model.sizes.dcp))
        found.append([_digest(rows_of(model, np.asarray(layer), pages)[:owned]) for layer in pool])
    return found


def rows_of(model: ShardedModel, layer: Rows, pages: Sequence[int]) -> Rows:
    """The rows of these pages in a rank's layer, in token order: ``[rows, ...]``."""
    taken = layer[np.asarray(pages, np.intp)]
    if not model.config.mla:
        taken = taken.swapaxes(1, 2)  # [pages, page_size, 2, heads, head_dim]
    return taken.reshape(-1, *taken.shape[2:])


def cut(whole: Sequence[Rows], model: ShardedModel, stage: int, tp: int) -> list[Rows]:
    """What a rank has of the KV of all layers, ``[tokens, 2, heads, head_dim]`` or ``[tokens, latent + rope]`` each."""
    layers = [whole[layer] for layer in model.layers_of(stage)]
    if model.config.mla:
        return [rows[tp % model.sizes.dcp :: model.sizes.dcp] for rows in layers]
    width = model.config.heads // model.sizes.tp
    return [rows[:, :, tp * width : (tp + 1) * width] for rows in layers]


def merged(model: ShardedModel, pools: Pools, pages: Sequence[int], tokens: int) -> list[Rows]:
    """The KV of all layers, put together from all ranks: the other direction of :func:`cut`."""
    found = []
    for stage in range(model.sizes.pp):
        for at in range(len(model.layers_of(stage))):
            ranks = [
                rows_of(model, np.asarray(pools[stage * model.sizes.tp + tp][at]), pages)
                for tp in range(model.sizes.tp)
            ]
            if model.config.mla:
                n = model.sizes.dcp
                whole = np.stack(ranks[:n], axis=1).reshape(-1, ranks[0].shape[-1])
            else:
                whole = np.concatenate(ranks, axis=2)
            found.append(whole[:tokens])
    return found


@dataclass(frozen=True)
class Expected:
    """What one prompt gives. ``alone``: the tokens of the engine that computed the prompt itself, in the decode sizes."""

    tokens: list[int]
    digests: list[list[str]]
    names: list[str] = field(default_factory=lambda: [""])  #: of the pools
    first_layers: list[int] = field(default_factory=lambda: [0])  #: of the pools
    dcp: list[tuple[int, int]] = field(default_factory=lambda: [(0, 1)])  #: rank and size, of the pools
    alone: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(len(layer) // DIGEST for pool in self.digests for layer in pool)

    def difference(self, tokens: list[int], got: list[list[str]]) -> str:
        """Where the service differs, the earliest row first; empty when it does not."""
        shape = [[len(layer) // DIGEST for layer in pool] for pool in self.digests]
        if [[len(layer) // DIGEST for layer in pool] for pool in got] != shape:
            return f"{[[len(layer) // DIGEST for layer in pool] for pool in got]} rows arrived instead of {shape}"
        wrong = [
            (row * self.dcp[at][1] + self.dcp[at][0], self.first_layers[at] + layer, self.names[at])
            for at, pool in enumerate(self.digests)
            for layer, rows in enumerate(pool)
            for row in range(shape[at][layer])
            if rows[row * DIGEST : (row + 1) * DIGEST] != got[at][layer][row * DIGEST : (row + 1) * DIGEST]
        ]
        if wrong:
            token, layer, name = min(wrong)
            where = f" at {name}" if name else ""
            return f"token {token} of layer {layer} arrived with other bytes{where}; {len(wrong)} rows did"
        if len(tokens) != len(self.tokens):
            return f"every row is right, but there are {len(tokens)} new tokens instead of {len(self.tokens)}"
        for at, (one, other) in enumerate(zip(tokens, self.tokens, strict=True)):
            if one != other:
                return f"every row is right, but new token {at} is {one} instead of {other}"
        return ""


class Reference:
    """The same model, chunks and shapes in one process, which hands nothing over."""

    def __init__(self, prefill: EngineSetting, decode: EngineSetting, new_tokens: int) -> None:
        self._decode = ShardedModel(decode.model, decode.sizes, seed=0)
        same = prefill.sizes == decode.sizes
        self._prefill = self._decode if same else ShardedModel(prefill.model, prefill.sizes, seed=0)
        self._new_tokens = new_tokens
        self._pages_of_pool = decode.pages  # as many as an engine has: in one process they share the compiled programs
        self._pools = {model: model.empty_pools(decode.pages) for model in {self._prefill, self._decode}}
        shards = [place for place in places(decode.shape) if place.cp == 0]
        self._names = [" ".join(n for n, size in ((f"tp{p.tp}", decode.shape.tp), (f"pp{p.pp}", decode.shape.pp)) if size > 1)
                       for p in shards]  # fmt: skip
        self._first_layers = [self._decode.layers_of(place.pp).start for place in shards]
        self._dcp = [(place.tp % decode.shape.dcp, decode.shape.dcp) for place in shards]

    def run(self, prompt: list[int]) -> Expected:
        whole, first = self._prefilled(self._prefill, prompt)
        decode = self._decode
        mine = [
            cut(whole, decode, stage, tp) for stage in range(decode.sizes.pp) for tp in range(decode.sizes.tp)
        ]  # fmt: skip
        if self._prefill is decode:
            tokens = alone = self._go_on(first, prompt)
        else:
            _, own_first = self._prefilled(decode, prompt)
            alone = self._go_on(own_first, prompt)
            self._put(mine, prompt)
            tokens = self._go_on(first, prompt)
        found = [[_digest(layer) for layer in pool] for pool in mine]
        return Expected(tokens, found, self._names, self._first_layers, self._dcp, alone)

    def _pages(self, model: ShardedModel, tokens: int) -> list[int]:
        """Backwards, so that no page has the id that it has in the service."""
        return list(range(self._pages_of_pool))[::-1][: model.pages_for(tokens)]

    def _prefilled(self, model: ShardedModel, prompt: list[int]) -> tuple[list[Rows], int]:
        pages = self._pages(model, len(prompt) + self._new_tokens)
        self._pools[model], logits = model.prefill(self._pools[model], prompt, pages)
        return merged(model, self._pools[model], pages, len(prompt)), greedy(logits)

    def _go_on(self, first: int, prompt: list[int]) -> list[int]:
        pages = self._pages(self._decode, len(prompt) + self._new_tokens)
        pools, tokens = self._decode.decode(self._pools[self._decode], first, len(prompt), pages, self._new_tokens)
        self._pools[self._decode] = pools
        return tokens

    def _put(self, shards: list[list[Rows]], prompt: list[int]) -> None:
        """These rows into the decode model's pools, into memory that holds nothing else: with NaN in every other word."""
        model, ids = self._decode, np.asarray(self._pages(self._decode, len(prompt)), np.intp)
        size, fresh = model.config.page_size, model.empty_pools(self._pages_of_pool)
        for pool, mine in zip(fresh, shards, strict=True):
            for at, rows in enumerate(mine):
                layer = np.full(pool[at].shape, 0xFFFFFFFF, np.uint32)
                local = np.arange(len(rows))
                page, slot = ids[local // size], local % size
                if model.config.mla:
                    layer[page, slot] = rows
                else:
                    layer[page, :, slot] = rows
                pool[at] = jnp.array(layer)  # a copy: it will be donated
        self._pools[model] = fresh


def _digest(rows: Rows) -> str:
    """Of each row, one after the other."""
    return "".join(blake2b(row.tobytes(), digest_size=DIGEST // 2).hexdigest() for row in rows)
