"""Which path makes a copy: one decision, before anything is launched.

| path     | makes the copy                                 | takes                                          |
|----------|------------------------------------------------|------------------------------------------------|
| "numpy"  | on the host                                    | numpy pools; reads jax pools on the CPU too    |
| "xla"    | programs that XLA writes                       | jax pools on one device, any platform          |
| "tpu"    | Pallas: direct memory access from and to HBM   | jax pools on a TPU, layouts that tiles allow   |
| "triton" | Pallas: one program instance per run of words  | jax pools on a GPU, widths that blocks allow   |

"auto": numpy pools by numpy; on the CPU jax pools are read by numpy and written by xla; on a TPU by "tpu" where the layout
allows it, else by xla, whose programs need a temporary as large as the pool there to read or write 8-bit and 16-bit floats
(compiled ahead of time, see tests/kernels/aot; a pool of uint16 needs none for whole pages); on a GPU by xla. What a path
cannot do is refused by name when that path was asked for; "auto" goes on to xla. No TPU and no GPU has run any of this yet.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from kvpoll.kernels.layout import Pool, PoolLayout

if TYPE_CHECKING:
    import jax

Path: TypeAlias = Literal["auto", "numpy", "xla", "tpu", "triton"]
"""How the copy is made: "auto" or one by name."""
Chosen: TypeAlias = Literal["numpy", "xla", "tpu", "triton"]

_GPUS = ("gpu", "cuda", "rocm")


def choose(
    pool: Pool,
    layout: PoolLayout,
    path: Path,
    host_can: Literal["read", "write"],
    *,
    tpu: str | None = None,
    triton: str | None = "path: 'triton' moves rows and pages only",
) -> Chosen:
    """The path for this pool. `tpu` and `triton` say why that path cannot (starting with the argument), None if it can.

    The host can read a jax pool that lives on the CPU, but never write one: jax arrays are immutable. Raises ValueError.
    """
    if path not in get_args(Path):
        raise ValueError(f"path: expected one of {', '.join(map(repr, get_args(Path)))}, got {path!r}")
    if not layout.is_jax:
        if path not in ("auto", "numpy"):
            raise ValueError(f"path: {path!r} needs a jax pool, got a numpy one")
        return "numpy"
    platform = platform_of(pool)
    if path == "numpy" and (platform != "cpu" or host_can == "write"):
        raise ValueError(
            f"path: 'numpy' cannot {host_can} this jax pool; it writes numpy pools, and reads jax pools on CPU"
        )
    if path == "tpu":
        _refuse(path, platform, ("tpu",), tpu)
    if path == "triton":
        _refuse(path, platform, _GPUS, triton)
    if path != "auto":
        return path
    if platform == "cpu":
        return "numpy" if host_can == "read" else "xla"
    return "tpu" if platform == "tpu" and tpu is None else "xla"


def platform_of(pool: Pool) -> str:
    """Where a jax pool lives; ValueError for deleted layers, and for pools that are spread over devices."""
    from kvpoll.kernels import xla  # jax is an extra: it is imported when the first jax pool arrives, not before

    platform: str = xla.device_of(cast("Sequence[jax.Array]", pool)).platform
    return platform


def on_host(pool: Pool) -> bool:
    """Whether numpy can read the pool without a copy."""
    return all(isinstance(layer, np.ndarray) for layer in pool) or platform_of(pool) == "cpu"


def apart(source: Pool, target: Pool, path: Path) -> str | None:
    """Why one kernel cannot copy from the one pool to the other: they are not on one device. None if they are.

    Raises ValueError for a path that needs jax pools and does not get two.
    """
    numpy_ones = [isinstance(pool[0], np.ndarray) for pool in (source, target)]
    if any(numpy_ones):
        if path not in ("auto", "numpy") and not all(numpy_ones):
            raise ValueError(f"path: {path!r} needs jax pools on both sides")
        return "source: path 'tpu' needs jax pools"
    from kvpoll.kernels import xla

    devices = [xla.device_of(cast("Sequence[jax.Array]", pool)) for pool in (source, target)]
    return None if devices[0] == devices[1] else f"source: path 'tpu' needs both pools on one device, got {devices}"


def check_writable(name: str, pool: Pool, layout: PoolLayout) -> None:
    """ValueError for one array twice, and for a read-only numpy layer: all before the first byte is written."""
    if len({id(layer) for layer in pool}) != len(pool):
        raise ValueError(f"{name}: expected a different array for each layer, got one array twice")
    if layout.is_jax:
        return
    for index, layer in enumerate(cast("Sequence[npt.NDArray[np.generic]]", pool)):
        if not layer.flags.writeable:
            raise ValueError(f"{name}[{index}]: expected a writable array, got a read-only one")


def _refuse(path: str, platform: str, expected: tuple[str, ...], reason: str | None) -> None:
    if platform not in expected:
        raise ValueError(f"path: {path!r} needs a pool on {' or '.join(expected)}, got one on {platform}")
    if reason is not None:
        raise ValueError(reason)
