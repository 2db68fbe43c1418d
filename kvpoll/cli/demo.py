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

from kvpoll.protocol.plans.ranks import Shape

__all__ = ["Fault", "Transport", "demo", "read_sizes", "read_tokens", "refused_field"]

_ENOUGH = 12
#: Of the model of the demonstration: what options may ask of it.
_LAYERS, _HEADS, _RANKS, _TOKENS = 4, (12, 24), 16, 1088
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


_PAIR = "Of a prefill and of a decode engine; a decode engine that does not fit is refused."

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
    prompts: Annotated[
        int | None, typer.Option(help="Requests to hand over; if left out 64, or one for each length.", min=1, max=2000)
    ] = None,
    tokens: Annotated[
        str, typer.Option(help="Lengths of the prompts, for example 63,64,65; if left out, lengths of all kinds.")
    ] = "",
    new_tokens: Annotated[int, typer.Option(help="Tokens that each decode continues for.", min=1, max=64)] = 8,
    tp: Annotated[str, typer.Option(help=f"Tensor parallel ranks. {_PAIR}", metavar="P:D")] = "",
    pp: Annotated[str, typer.Option(help=f"Pipeline stages. {_PAIR}", metavar="P:D")] = "",
    cp: Annotated[str, typer.Option(help=f"Context parallel ranks. {_PAIR}", metavar="P:D")] = "",
    dcp: Annotated[
        str,
        typer.Option(
            help=f"Decode context parallel ranks, out of the tensor parallel ones (raised to as many). {_PAIR}",
            metavar="P:D",
        ),
    ] = "",
    mla: Annotated[
        bool, typer.Option("--mla", help="Latent attention: one row of KV for all heads; needed for --dcp.")
    ] = False,
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
    sizes = read_sizes(tp, pp, cp, dcp, mla)
    lengths = read_tokens(tokens)
    odd = refused_field(*sizes)
    prefill = prefill or (2 if fault in prefill_faults else 1)
    decode = decode or (2 if fault is not None or odd else 1)
    prompts = prompts or len(lengths) or 64
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
    if odd and prompts < 2:
        raise typer.BadParameter("sizes that do not fit need two prompts: one is refused", param_hint="--prompts")
    if odd and (fault is not None or decode < 2):
        raise typer.BadParameter(
            "these sizes do not fit together: the refusal is the fault to see, and another decode engine has to serve on",
            param_hint="--fault" if fault is not None else "--decode",
        )
    examples = _examples()
    sys.path.insert(0, str(examples))
    options = import_module("demo.setting").Options(
        prefill=prefill, decode=decode, prompts=prompts, new_tokens=new_tokens, transport=transport.value,
        fault=fault.value if fault is not None else "", secret=secret, trace=str(trace.resolve()) if trace is not None else "",
        seed=seed, json=json, tokens=lengths, mla=mla, prefill_shape=sizes[0], decode_shape=sizes[1],
        refused=odd,
    )  # fmt: skip
    try:
        status: int = import_module("demo.main").run(options)
    except RuntimeError as error:
        typer.echo(f"kvpoll: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(status)


def read_sizes(tp: str, pp: str, cp: str, dcp: str, mla: bool) -> tuple[Shape, Shape]:
    """The shapes of a prefill and of a decode engine. DCP ranks are TP ranks: there are as many of these at least. Raises
    ``typer.BadParameter`` for sizes that no engine of the demonstration can have; a pair that does not fit is not refused here.
    """
    pairs = {name: _pair(name, text) for name, text in (("tp", tp), ("pp", pp), ("cp", cp), ("dcp", dcp))}
    shapes = []
    for side in (0, 1):
        shape = Shape(**{name: pair[side] for name, pair in pairs.items()})
        if shape.dcp > 1 and not mla:
            raise typer.BadParameter(
                "rows can be split by tokens with latent attention only: add --mla", param_hint="--dcp"
            )
        shape = shape._replace(tp=max(shape.tp, shape.dcp))
        if shape.tp % shape.dcp:
            raise typer.BadParameter(f"expected a divisor of --tp ({shape.tp}), got {shape.dcp}", param_hint="--dcp")
        if shape.pp > _LAYERS:
            raise typer.BadParameter(f"the model has {_LAYERS} layers, got {shape.pp} stages", param_hint="--pp")
        if shape.tp * shape.pp * shape.cp > _RANKS:
            raise typer.BadParameter(
                f"expected at most {_RANKS} ranks in an engine, got {shape.tp * shape.pp * shape.cp}", param_hint="--tp"
            )
        shapes.append(shape)
    if not any(all(heads % shape.tp == 0 for shape in shapes) for heads in _HEADS):
        tps = f"{shapes[0].tp}:{shapes[1].tp}"
        raise typer.BadParameter(
            f"the model can have {_HEADS[0]} or {_HEADS[1]} heads; {tps} divide neither", param_hint="--tp"
        )
    return shapes[0], shapes[1]


def refused_field(prefill: Shape, decode: Shape) -> str:
    """The field that the handshake has to name, or nothing for a pair that fits. The rules in few words, a second time: the
    demonstration is to notice when the handshake has others."""
    if prefill.tp % decode.tp and decode.tp % prefill.tp:
        return "tp.size"
    if decode.pp not in (1, prefill.pp):
        return "pp.size"
    if decode.cp not in (1, prefill.cp):
        return "cp.size"
    if decode.dcp > 1 and prefill.cp > 1:
        return "dcp"
    return "dcp" if prefill.dcp > 1 and (prefill.dcp, prefill.tp) != (decode.dcp, decode.tp) else ""


def _pair(name: str, text: str) -> tuple[int, int]:
    """``2:1`` is two at prefill and one at decode."""
    if not text:
        return 1, 1
    numbers = [int(part) if part.isdecimal() and len(part) < 4 else 0 for part in text.split(":")]
    if len(numbers) != 2 or 0 in numbers:
        raise typer.BadParameter(f"expected PREFILL:DECODE, for example 2:1, got {text!r}", param_hint=f"--{name}")
    return numbers[0], numbers[1]


def read_tokens(text: str) -> tuple[int, ...]:
    """``63,64,65``. Raises ``typer.BadParameter`` for a length that no prompt can have."""
    if not text:
        return ()
    numbers = [int(part) if part.strip().isdecimal() and len(part) < 8 else 0 for part in text.split(",")]
    wrong = [part for part, number in zip(text.split(","), numbers, strict=True) if not 1 <= number <= _TOKENS]
    if wrong:
        raise typer.BadParameter(f"expected lengths of 1 to {_TOKENS}, got {wrong[0]!r}", param_hint="--tokens")
    return tuple(numbers)


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
