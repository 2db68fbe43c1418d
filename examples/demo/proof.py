"""What must be true: the run of one engine that does everything, and the comparison with what the service did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from tiny_model import ModelConfig, Pool, TinyModel, greedy

from demo.setting import EngineSetting
from kvpoll.kernels import gather_pages

__all__ = ["Expected", "Reference", "digests"]


def digests(pool: Pool, pages: Sequence[int], tokens: int, model: ModelConfig) -> list[list[str]]:
    """Of the KV of ``tokens`` tokens: one digest for each page (in token order) of each layer. Slots past the last token
    are left out: they hold whatever was there before."""
    rows = np.asarray(gather_pages(pool, np.asarray(pages, np.int32)))
    rows = rows.view(np.uint32).reshape(model.layers, len(pages), 2, model.page_size, -1)
    used = [min(model.page_size, tokens - at * model.page_size) for at in range(len(pages))]
    return [
        [blake2b(page[:, :count].tobytes(), digest_size=8).hexdigest() for page, count in zip(layer, used, strict=True)]
        for layer in rows
    ]


@dataclass(frozen=True)
class Expected:
    """What one prompt gives."""

    tokens: list[int]
    digests: list[list[str]]

    def difference(self, tokens: list[int], got: list[list[str]]) -> str:
        """Where the service differs, the earliest page first; empty when it does not."""
        shape = [len(layer) for layer in self.digests]
        if [len(layer) for layer in got] != shape:
            return f"{[len(layer) for layer in got]} pages by layer arrived instead of {shape}"
        for page in range(shape[0]):
            for layer in range(len(shape)):
                if got[layer][page] != self.digests[layer][page]:
                    return f"page {page} of layer {layer} arrived with other bytes"
        if len(tokens) != len(self.tokens):
            return f"every page is right, but there are {len(tokens)} new tokens instead of {len(self.tokens)}"
        for at, (one, other) in enumerate(zip(tokens, self.tokens, strict=True)):
            if one != other:
                return f"every page is right, but new token {at} is {one} instead of {other}"
        return ""


class Reference:
    """The same model, chunks and shapes in one engine, which hands nothing over."""

    def __init__(self, setting: EngineSetting, new_tokens: int) -> None:
        self._model = TinyModel(setting.model, seed=0)
        self._pool = self._model.empty_pool(setting.model.max_pages)
        self._new_tokens = new_tokens

    def run(self, prompt: list[int]) -> Expected:
        config = self._model.config
        # Backwards, so that no page has the id that it has in the service.
        pages = list(range(config.max_pages))[::-1][: config.pages_for(len(prompt) + self._new_tokens)]
        self._pool, logits = self._model.prefill(self._pool, prompt, pages)
        found = digests(self._pool, pages[: config.pages_for(len(prompt))], len(prompt), config)
        self._pool, tokens = self._model.decode(self._pool, greedy(logits), len(prompt), pages, self._new_tokens)
        return Expected(tokens, found)
