"""Sizes of a prefill engine, asked at its bootstrap service without ever waiting."""

from __future__ import annotations

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import Shape
from tests.runtime.engines import PATIENCE, Engine


def test_the_sizes_of_a_registered_engine_are_found_in_the_background() -> None:
    decode = Engine("decode")
    prefill = Engine("prefill", bootstrap="embedded")
    try:
        assert prefill.manager.wait_registered(PATIENCE)
        where = prefill.manager.bootstrap
        assert where is not None
        ask = decode.manager.try_ensure_parallel_info
        assert ask(*where) is None, "nobody has answered yet"
        assert decode.manager.wait(lambda: ask(*where) is not None, PATIENCE)
        assert ask(*where) == Shape()
        assert ask(*where, "another namespace") is None
    finally:
        decode.manager.close()
        prefill.manager.close()


def test_a_host_that_cannot_be_one_is_refused_by_name() -> None:
    decode = Engine("decode")
    try:
        with pytest.raises(LocalProtocolError, match="bootstrap_host"):
            decode.manager.try_ensure_parallel_info("no host", 1)
    finally:
        decode.manager.close()
