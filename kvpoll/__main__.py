"""The ``kvpoll`` command. It needs the extra ``cli``; without it, it says so in one sentence."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = frozenset({"typer", "click", "rich"})


def main() -> None:
    """Run the command line. Exit status: 0 good, 1 a check found something, 2 wrong usage or a missing extra."""
    try:
        from kvpoll.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        print(
            f"kvpoll: the command line needs {error.name}; install it with: pip install 'kvpoll[cli]'", file=sys.stderr
        )
        raise SystemExit(2) from None
    run()


if __name__ == "__main__":
    main()
