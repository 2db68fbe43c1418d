"""``kvpoll demo``: a router, prefill and decode engines as processes, and proof that every token is right.

The demonstration lies in ``examples/demo`` of a checkout: an installed package does not have it.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer

__all__ = ["Fault", "Transport", "demo"]

_ENOUGH = 12
_EXTRAS = {"jax": "jax", "fastapi": "server", "uvicorn": "server", "httpx": "server", "rich": "cli"}


class Transport(StrEnum):
    """What carries the KV."""

    JAX = "jax"
    ZMQ = "zmq"
    INPROC = "inproc"


class Fault(StrEnum):
    """What goes wrong on purpose."""

    ABORT = "abort"
    KILL_PREFILL = "kill-prefill"
    KILL_DECODE = "kill-decode"
    RESTART_PREFILL = "restart-prefill"
    STOP_DECODE = "stop-decode"
    MISMATCH = "mismatch"


_HELP = (
    "What goes wrong while rooms are in flight. abort: prefill and decode give rooms up. kill-*: SIGKILL of an engine. "
    "restart-prefill: killed, and started again. stop-decode: SIGSTOP. mismatch: a decode engine with another page size."
)


def demo(
    prefill: Annotated[
        int | None, typer.Option(help="Prefill engines; if left out 1, or 2 for a fault of theirs.", min=1, max=8)
    ] = None,
    decode: Annotated[
        int | None, typer.Option(help="Decode engines; if left out 1, or 2 for any fault.", min=1, max=8)
    ] = None,
    prompts: Annotated[int, typer.Option(help="Requests to hand over.", min=1, max=2000)] = 64,
    new_tokens: Annotated[int, typer.Option(help="Tokens that each decode continues for.", min=1, max=64)] = 8,
    transport: Annotated[Transport, typer.Option(help="What carries the KV.")] = Transport.JAX,
    fault: Annotated[Fault | None, typer.Option(help=_HELP)] = None,
    secret: Annotated[
        str, typer.Option(help="Shared secret for the registry and every message.", envvar="KVPOLL_SECRET")
    ] = "",
    trace: Annotated[
        Path | None, typer.Option(help="A folder for trace files.", file_okay=False, exists=True, writable=True)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the prompts and the room ids.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Hand real KV over between processes, and compare every token with a run that hands nothing over."""
    prefill_faults = (Fault.KILL_PREFILL, Fault.RESTART_PREFILL)
    prefill = prefill or (2 if fault in prefill_faults else 1)
    decode = decode or (2 if fault is not None else 1)
    if fault in prefill_faults and prefill < 2:
        raise typer.BadParameter(f"{fault.value} needs two engines, so that one is left", param_hint="--prefill")
    if fault is not None and decode < 2:
        raise typer.BadParameter(f"{fault.value} needs two engines, so that one is left", param_hint="--decode")
    if transport is Transport.INPROC and fault not in (None, Fault.ABORT, Fault.MISMATCH):
        raise typer.BadParameter(
            f"inproc has one process for everything: {fault.value} would end the demonstration",
            param_hint="--transport",
        )
    if fault is not None and prompts < _ENOUGH:
        raise typer.BadParameter(f"a fault needs {_ENOUGH} prompts, so that some are long", param_hint="--prompts")
    examples = _examples()
    sys.path.insert(0, str(examples))
    options = import_module("demo.setting").Options(
        prefill=prefill, decode=decode, prompts=prompts, new_tokens=new_tokens, transport=transport.value,
        fault=fault.value if fault is not None else "", secret=secret, trace=str(trace.resolve()) if trace is not None else "",
        seed=seed, json=json,
    )  # fmt: skip
    try:
        status: int = import_module("demo.main").run(options)
    except RuntimeError as error:
        typer.echo(f"kvpoll: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(status)


def _examples() -> Path:
    """The folder ``examples`` beside the package. Leaves with status 2 and a sentence if it, or an extra, is not there."""
    examples = Path(__file__).resolve().parents[2] / "examples"
    if not (examples / "demo" / "main.py").is_file():
        _refuse(f"the demonstration needs a checkout of kvpoll: there is no {examples / 'demo'}")
    for module, extra in _EXTRAS.items():
        if find_spec(module) is None:
            _refuse(f"the demonstration needs {module}; install it with: pip install 'kvpoll[{extra}]'")
    return examples


def _refuse(sentence: str) -> NoReturn:
    typer.echo(f"kvpoll: {sentence}", err=True)
    raise typer.Exit(2)
