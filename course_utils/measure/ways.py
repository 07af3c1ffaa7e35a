"""The ways to move a tensor, and what each of them holds in memory.

Memory is what a rank needs beside its own shard, in units of one shard. What gloo
really allocates was measured, on 2 to 4 ranks (tests/ranks/test_measure.py): every
gather there receives into a hidden buffer for all and copies from it. For nccl the
figures follow torch's source (ProcessGroupNCCL.cpp: a list of buffers is gathered into
one hidden tensor and copied; the single-tensor form and point-to-point messages are
not). They have not been measured here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BACKENDS = ("gloo", "nccl")
HEADER = 200  # bytes a rank tells the others before `concat` moves data
LENGTH = 8  # bytes of the length of a pickle
PIECES = 8  # of a chunked gather


@dataclass(frozen=True)
class Way:
    """A way to move a tensor.

    holds: who has the whole afterwards: "every rank", "the root", or a part of it.
    memory: peak, kept, root_peak and root_kept in units of S, from W and backend.
    operation: the function of `route`, "" if nothing is sent; algorithms: what gloo
        and nccl use for it. whole: the message is the whole W·S, not one shard.
    before: bytes of an all_gather that tells sizes first; repeat: calls of it.
    """

    holds: str
    memory: Callable[[int, str], tuple[float, float, float, float]]
    operation: str
    algorithms: tuple[str, str]
    when: str
    whole: bool = False
    before: int = 0
    repeat: int = 1


def listed(w: int, backend: str) -> tuple[float, ...]:
    """A list of buffers, and a hidden one of the same size."""
    return 2 * w, w, 2 * w, w


def single(w: int, backend: str) -> tuple[float, ...]:
    """One result; gloo hides another one behind it."""
    return listed(w, backend) if backend == "gloo" else direct(w, backend)


def direct(w: int, backend: str) -> tuple[float, ...]:
    """Nothing but the result, on every rank."""
    return w, w, w, w


def pickled(w: int, backend: str) -> tuple[float, ...]:
    """A pickle on its way out, room for all, and hidden room for all."""
    return 2 * w + 1, w, 2 * w + 1, w


def on_root(w: int, backend: str) -> tuple[float, ...]:
    """Buffers on the root, and on gloo a hidden one of the same size."""
    return (0, 0, 2 * w if backend == "gloo" else w, w)


def root_cat(w: int, backend: str) -> tuple[float, ...]:
    """Buffers on the root, and then the result beside them."""
    return 0, 0, 2 * w, w


def root_pickled(w: int, backend: str) -> tuple[float, ...]:
    """Pickles on the root; each other rank makes its own."""
    hidden = w if backend == "gloo" else 0
    return 1, 0, w + hidden + 1, w


def root_pieces(w: int, backend: str) -> tuple[float, ...]:
    """The result on the root, and buffers for one piece of each shard."""
    buffers = w / PIECES
    return 0, 0, w + (2 if backend == "gloo" else 1) * buffers, w


def root_direct(w: int, backend: str) -> tuple[float, ...]:
    """Nothing but the result, on the root."""
    return 0, 0, w, w


def scattered(w: int, backend: str) -> tuple[float, ...]:
    """One shard; on gloo's root W more, which are allocated and never touched."""
    return 1, 1, w + 1 if backend == "gloo" else 1, 1


def one_each(w: int, backend: str) -> tuple[float, ...]:
    """One shard on every rank."""
    return 1, 1, 1, 1


def received(w: int, backend: str) -> tuple[float, ...]:
    """The whole on every rank but the root, which has it already."""
    return w, w, 0, 0


def unpickled(w: int, backend: str) -> tuple[float, ...]:
    """A pickle of the whole, and on receivers what comes out of it."""
    return 2 * w, w, w, 0


def nothing(w: int, backend: str) -> tuple[float, ...]:
    """No memory beside the shard."""
    return 0, 0, 0, 0


RING, FLAT, TREE = ("ring", "ring"), ("flat", "flat"), ("tree", "ring")
ALL, ROOT, PART = "every rank", "the root", "its part"
WAYS = {
    "all_gather": Way(
        ALL, listed, "all_gather", RING, "every rank needs all, as a list"
    ),
    "all_gather + cat": Way(
        ALL, listed, "all_gather", RING, "equal shards, joined along any dim"
    ),
    "all_gather_single": Way(
        ALL, single, "all_gather", RING, "equal shards, dim 0, nccl"
    ),
    "all_gather_object": Way(
        ALL,
        pickled,
        "all_gather",
        RING,
        "strings and odds and ends",
        before=LENGTH,
    ),
    "all_gather_cat": Way(
        ALL,
        direct,
        "all_gather",
        ("flat", "ring"),
        "shards of any size, and memory is short",
        before=HEADER,
    ),
    "gather": Way(ROOT, on_root, "gather", FLAT, "one rank needs all, as a list"),
    "gather + cat": Way(ROOT, root_cat, "gather", FLAT, "one rank needs the whole"),
    f"gather, {PIECES} pieces": Way(
        ROOT,
        root_pieces,
        "gather",
        FLAT,
        "the same, under a budget",
        repeat=PIECES,
    ),
    "gather_object": Way(
        ROOT,
        root_pickled,
        "gather",
        FLAT,
        "strings, on one rank",
        before=LENGTH,
    ),
    "gather_cat": Way(
        ROOT,
        root_direct,
        "gather",
        FLAT,
        "shards of any size, on one rank",
        before=HEADER,
    ),
    "scatter": Way(PART, scattered, "gather", FLAT, "the way back"),
    "scatter_chunks": Way(
        PART, one_each, "gather", FLAT, "the way back, uneven, any dim", before=HEADER
    ),
    "broadcast": Way(
        ALL,
        received,
        "broadcast",
        TREE,
        "one rank has the whole, all need it",
        whole=True,
    ),
    "broadcast_tensor": Way(
        ALL,
        received,
        "broadcast",
        TREE,
        "receivers do not know the shape",
        whole=True,
        before=HEADER,
    ),
    "broadcast_object_list": Way(
        ALL,
        unpickled,
        "broadcast",
        TREE,
        "settings and names",
        whole=True,
    ),
    "write shards": Way(PART, nothing, "", FLAT, "nobody needs the whole in memory"),
}
