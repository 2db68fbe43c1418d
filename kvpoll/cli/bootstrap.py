"""``kvpoll bootstrap``: the bootstrap service as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Annotated

import typer

__all__ = ["bootstrap"]


def bootstrap(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65_535)] = 0,
    ttl: Annotated[float, typer.Option(help="Seconds that an entry lives without a heartbeat.", min=0.1)] = 15.0,
    secret: Annotated[
        str | None, typer.Option(help="Shared secret that every request must carry.", envvar="KVPOLL_SECRET")
    ] = None,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="End when standard input ends.")] = False,
) -> None:
    """Serve the registry of prefill ranks. Prints one JSON object with its url, then serves until SIGINT or SIGTERM."""
    try:
        from kvpoll.runtime import KVBootstrapServer
        from kvpoll.runtime.bootstrap.registry import Limits
    except ModuleNotFoundError as error:
        typer.echo(f"kvpoll: the service needs {error.name}; install it with: pip install 'kvpoll[server]'", err=True)
        raise typer.Exit(2) from None
    try:
        server = KVBootstrapServer(host, port, secret=secret or None, limits=Limits(ttl=ttl))
    except (OSError, ValueError) as error:
        typer.echo(f"kvpoll: cannot listen on {host} port {port}: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(json.dumps({"url": server.url, "pid": os.getpid()}))
    sys.stdout.flush()
    if until_eof:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    server.run_forever()


def _end_with_stdin() -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock would be held when the process ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
