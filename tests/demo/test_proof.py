"""What the demonstration calls right, by itself: KV of all ranks together, cut to what one rank has, and run on from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kvpoll.protocol.plans.ranks import Shape

pytest.importorskip("jax")

PROMPT = [int(value) for value in np.random.default_rng(0).integers(0, 256, 70)]
ALONE, SPREAD = Shape(), Shape(tp=4, pp=2, dcp=2)


@pytest.fixture(scope="module")
def demo() -> Iterator[SimpleNamespace]:
    before = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
        names = ("proof", "setting")
        yield SimpleNamespace(model=import_module("sharded_model"), **{n: import_module(f"demo.{n}") for n in names})
    os.environ.clear()
    os.environ.update(before)


def setting(demo: SimpleNamespace, shape: Shape, mla: bool) -> object:
    return demo.setting.EngineSetting("", "decode", pages=24, heads=12, head_dim=8, context=128, mla=mla, shape=shape)


@pytest.mark.parametrize(("mla", "shape"), [(False, Shape(tp=3, pp=2)), (True, SPREAD), (True, Shape(tp=4, dcp=4))])
def test_what_is_put_together_from_all_ranks_and_cut_for_one_is_what_that_rank_has(
    demo: SimpleNamespace, mla: bool, shape: Shape
) -> None:
    engine = setting(demo, shape, mla)
    model = demo.model.ShardedModel(engine.model, engine.sizes)  # type: ignore[attr-defined]
    pages = [9, 5, 2, 7, 1][: model.pages_for(len(PROMPT))]
    pools, _ = model.prefill(model.empty_pools(24), PROMPT, pages)
    whole = demo.proof.merged(model, pools, pages, len(PROMPT))
    assert [len(layer) for layer in whole] == [len(PROMPT)] * 4
    found = demo.proof.digests(model, pools, pages, len(PROMPT))
    for stage in range(shape.pp):
        for tp in range(shape.tp):
            rows = demo.proof.cut(whole, model, stage, tp)
            assert [demo.proof._digest(layer) for layer in rows] == found[stage * shape.tp + tp]
    bits = np.array(pools[-1][-1])
    bits[pages[0], ..., 0] ^= 1
    pools[-1][-1] = bits
    assert demo.proof.digests(model, pools, pages, len(PROMPT)) != found


@pytest.mark.parametrize(("prefill", "decode"), [(ALONE, ALONE), (ALONE, SPREAD), (Shape(tp=2), Shape(tp=4, dcp=4))])
def test_one_process_gives_the_tokens_and_rows_that_a_service_of_these_sizes_must_give(
    demo: SimpleNamespace, prefill: Shape, decode: Shape
) -> None:
    reference = demo.proof.Reference(setting(demo, prefill, True), setting(demo, decode, True), 4)
    expected = reference.run(PROMPT)
    assert expected == reference.run(PROMPT)  # the pools hold another request's KV by now
    assert len(expected.tokens) == 4
    assert expected.tokens == expected.alone
    assert expected.rows == 4 * len(PROMPT) * decode.tp // decode.dcp
    assert expected.difference(expected.tokens, expected.digests) == ""
    other = reference.run([*PROMPT[:-1], PROMPT[-1] ^ 1])
    said = expected.difference(expected.tokens, other.digests)
    assert said.startswith("token 69 of layer 0 arrived with other bytes")  # the first row that depends on it
