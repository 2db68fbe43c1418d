"""A pool that is split over the devices of a mesh, as a jax engine has it: kvpoll gets it shard by shard.

    layers = [jax.device_put(layer, NamedSharding(mesh, P(None, None, None, "tp"))) for layer in layers]
    pools = shards_of(layers)  # one pool for each rank, on the rank's own device: no copy
    ...  # every rank hands over or receives in its own pool
    layers = joined(layers, pools)  # the global arrays again: no copy

A global array is never handed to kvpoll. What a sharding means is the business of the engine that made it; that rank r has
the r-th piece, in the order of the pieces along the split axis, is said here, once.
"""

from collections.abc import Sequence

import jax

__all__ = ["joined", "shards_of"]

Pool = list[jax.Array]


def shards_of(layers: Sequence[jax.Array]) -> list[Pool]:
    """For each rank the single-device arrays of its shard, a layer each. Raises ValueError for layers that are split along
    more than one axis, unevenly, or not all alike."""
    by_layer = [_pieces(layer) for layer in layers]
    if len({tuple(piece.device for piece in pieces) for pieces in by_layer}) != 1:
        raise ValueError("layers: expected the same devices, in the same order, for every layer")
    return [list(pool) for pool in zip(*([piece.data for piece in pieces] for pieces in by_layer), strict=True)]


def joined(layers: Sequence[jax.Array], pools: Sequence[Pool]) -> list[jax.Array]:
    """The global arrays of these shards; ``layers`` are the ones that they were taken from, for shape and sharding (they may
    have been donated since)."""
    return [
        jax.make_array_from_single_device_arrays(layer.shape, layer.sharding, [pool[at] for pool in pools])
        for at, layer in enumerate(layers)
    ]


def _pieces(layer: jax.Array) -> list[jax.Shard]:
    split = [axis for axis, size in enumerate(layer.sharding.shard_shape(layer.shape)) if size != layer.shape[axis]]
    if len(split) > 1:
        raise ValueError(f"layers: expected one split axis, got {split}")
    pieces = layer.addressable_shards
    if not split:
        return sorted(pieces, key=lambda piece: piece.device.id)  # copies
    starts = [piece.index[split[0]].start or 0 for piece in pieces]
    if len(set(starts)) != len(pieces):
        raise ValueError("layers: expected each piece on one device, got copies of it too")
    return [piece for _, piece in sorted(zip(starts, pieces, strict=True), key=lambda entry: entry[0])]
