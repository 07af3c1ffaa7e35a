"""How far data travels in a collective: messages and bytes, one after another.

The model: a message of n bytes takes α + n/B seconds, and a rank sends one and
receives one at a time (Hockney, "The communication challenge for MPP", 1994). A
collective then takes steps · α + volume / B, and these functions count its steps and
its volume on the longest way. W is the number of ranks, S the bytes of one shard,
L = ⌈log2 W⌉. What leaves this out: messages that share a link, and memory.
"""

from __future__ import annotations

from typing import NamedTuple

ALGORITHMS = ("ring", "tree", "flat")


class Route(NamedTuple):
    """Messages and bytes on the longest way; bytes that all ranks together send."""

    steps: int
    volume: float
    sent: float
    formula: str


def levels(world_size: int) -> int:
    """Return ⌈log2 W⌉, the depth of a binomial tree."""
    return (world_size - 1).bit_length()


def all_gather(algorithm: str, world_size: int, shard: float) -> Route:
    """Count an all_gather of shards of `shard` bytes.

    ring: W-1 times, every rank passes on what came last. tree: recursive doubling,
    in which pairs exchange all they have. Both from Thakur, Rabenseifner and Gropp,
    "Optimization of collective communication operations in MPICH", 2005, section 4.1.
    flat: every rank sends its shard to every other one.
    """
    check(algorithm, world_size, shard)
    w, all_others = world_size, (world_size - 1) * shard
    if algorithm == "tree":
        return Route(levels(w), all_others, w * all_others, "L·α + (W−1)·S/B")
    return Route(w - 1, all_others, w * all_others, "(W−1)·(α + S/B)")


def gather(algorithm: str, world_size: int, shard: float) -> Route:
    """Count a gather on one rank, or a scatter, which is the same way back.

    flat: the root takes W-1 messages, one after another. tree: binomial, in which
    inner ranks pass on what they collected (Chan, Heimlich, Purkayastha and van de
    Geijn, "Collective communication: theory, practice, and experience", 2007,
    section 4). ring: from neighbour to neighbour, towards the root.
    """
    check(algorithm, world_size, shard)
    w, all_others = world_size, (world_size - 1) * shard
    if algorithm == "tree":
        subtrees = sum(min(rank & -rank, w - rank) for rank in range(1, w))
        return Route(levels(w), all_others, subtrees * shard, "L·α + (W−1)·S/B")
    sent = all_others if algorithm == "flat" else w * all_others / 2
    return Route(w - 1, all_others, sent, "(W−1)·(α + S/B)")


def broadcast(algorithm: str, world_size: int, size: float) -> Route:
    """Count a broadcast of `size` bytes.

    tree: binomial, the whole on each level. flat: the root sends W-1 times. ring:
    scatter along a tree, then all_gather around a ring (van de Geijn; Thakur et al.,
    2005, section 4.2), for large messages.
    """
    check(algorithm, world_size, size)
    w, depth = world_size, levels(world_size)
    if algorithm == "ring":
        first = gather("tree", w, size / w)
        second = all_gather("ring", w, size / w)
        return Route(
            first.steps + second.steps,
            first.volume + second.volume,
            first.sent + second.sent,
            "(L + W−1)·α + 2·(W−1)/W·S/B",
        )
    steps, formula = (depth, "L") if algorithm == "tree" else (w - 1, "(W−1)")
    sent = (w - 1) * size
    return Route(steps, steps * size, sent, f"{formula}·(α + S/B)")


def check(algorithm: str, world_size: int, size: float) -> None:
    """Raise ValueError for an unknown algorithm, no ranks, or fewer than 0 bytes."""
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"algorithm: expected one of {', '.join(ALGORITHMS)}, got {algorithm!r}"
        )
    if world_size < 1:
        raise ValueError(f"world_size: expected 1 rank or more, got {world_size}")
    if size < 0:
        raise ValueError(f"shard_bytes: expected 0 bytes or more, got {size}")
