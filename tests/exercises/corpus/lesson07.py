"""Answers to the exercises of lesson 7: repairs of its programs, good and bad."""

NAMES = {
    "7.1": "mean_of_all(shard)",
    "7.2": "gather_named(pairs)",
    "7.3": "sum_rounds(batches)",
}
IMPORTS = "import time\n"


def mean(body: str) -> str:
    """Return `mean_of_all`; `body` begins with all shards in `buffers`."""
    gather = (
        "buffers = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "dist.all_gather(buffers, shard)\n"
        "mean = torch.zeros(())\n"
    )
    return f"{gather}{body}\nreturn mean"


def named(loop: str, result: str, before: str = "") -> str:
    """Return `gather_named`, which gathers in the order of `loop`."""
    return (
        f"{before}full = {{}}\n"
        f"for name, shard in {loop}:\n"
        "    buffers = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "    dist.all_gather(buffers, shard)\n"
        "    full[name] = torch.cat(buffers)\n"
        f"return {result}"
    )


def rounds(loop: str, before: str = "", after: str = "") -> str:
    """Return `sum_rounds`; `loop` is the head of its loop, with `batch` in it."""
    return (
        f"{before}sums = []\n"
        f"{loop}\n"
        "    buffers = [torch.empty_like(batch) for _ in range(world_size)]\n"
        "    dist.all_gather(buffers, batch)\n"
        "    sums.append(torch.stack(buffers).sum(dim=0))\n"
        f"{after}"
        "return sums"
    )


COUNTS = (
    "counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]\n"
    "dist.all_gather(counts, torch.tensor([len(batches)]))\n"
)
FILLED = "for batch in batches + [{}] * (int(max(counts)) - len(batches)):"
SEND = "dist.broadcast(mean, src=0)"
BRANCH = "if rank == 0:\n    mean = torch.cat(buffers).mean()\n"
BY_NAME = "sorted(full.items())"


RIGHT = [
    ("7.1", mean(f"{BRANCH}{SEND}")),
    ("7.1", mean("mean = torch.cat(buffers).mean()")),
    ("7.1", mean("mean = torch.stack([b.mean() for b in buffers]).mean()")),
    ("7.2", named("sorted(pairs)", "list(full.items())")),
    ("7.2", named("((n, dict(pairs)[n]) for n in sorted(dict(pairs)))", BY_NAME)),
    (
        "7.2",
        named(
            "[(name, dict(pairs)[name]) for name in names]",
            BY_NAME,
            "names = [name for name, _ in pairs]\n"
            "dist.broadcast_object_list(names, src=0)\n",
        ),
    ),
    ("7.3", rounds(FILLED.format("torch.zeros_like(batches[0])"), COUNTS)),
    (
        "7.3",
        rounds(
            "for i in range(max(counts)):\n"
            "    batch = batches[i] if i < len(batches) else batches[0] * 0",
            "counts = [None] * world_size\n"
            "dist.all_gather_object(counts, len(batches))\n",
        ),
    ),
]

WRONG = [
    (
        "7.1",
        mean(f"{BRANCH}    {SEND}"),
        "Line 12 stands under `if rank == 0:`, so ranks 1–3 never came to broadcast",
    ),
    (
        "7.2",
        named("pairs", BY_NAME),
        "On rank 0, 'hits' holds the 'loss' of rank 3: the ranks gathered in "
        "different orders, and the operations, shapes and dtypes fit all the same.",
    ),
    (
        "7.3",
        rounds("for batch in batches:"),
        "The loop at line 8 makes more rounds on ranks 0–1, 3 than on rank 2.",
    ),
    ("7.1", mean(BRANCH), "Only rank 0 has the right result"),
    ("7.1", mean("mean = shard.mean()"), "Ranks 0–3 returned the mean of their own"),
    (
        "7.1",
        mean(f"mean = shard.mean()\n{BRANCH}"),
        "Ranks 1–3 returned the mean of their own shard",
    ),
    (
        "7.1",
        mean("mean = torch.cat(buffers).mean()\ndist.broadcast(mean, src=rank)"),
        "The ranks name different roots",
    ),
    (
        "7.1",
        mean(f"{BRANCH}    {SEND}\nelse:\n    dist.barrier()"),
        "in different calls at the same time: broadcast on rank 0, barrier on",
    ),
    (
        "7.1",
        mean("mean = torch.cat(buffers).sum() / (4 * shard.numel())"),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "7.1",
        mean("mean = torch.cat(buffers).mean().item()"),
        "is a float, where a tensor",
    ),
    (
        "7.1",
        mean(f"if rank == 1:\n    mean[9]\n{BRANCH}{SEND}"),
        "Rank 1 failed, and so",
    ),
    ("7.2", named("pairs", "list(full.items())"), "'hits' holds the 'loss' of rank 3"),
    (
        "7.2",
        named("sorted(pairs)", "[(name, full[name]) for name, _ in pairs]"),
        "Rank 3's list has the names in another order",
    ),
    ("7.2", named("sorted(pairs)", "full"), "is a dict, where a list of 3"),
    ("7.2", named("sorted(pairs)[:2]", BY_NAME), "has 2 items; expected are 3"),
    (
        "7.3",
        rounds("for batch in batches[: int(min(counts))]:", COUNTS),
        "when the first rank has no batch left; the rank with most has 3",
    ),
    (
        "7.3",
        rounds(FILLED.format("batches[-1]"), COUNTS),
        "In round 1, rank 2 had no batch left, and the last one was counted again",
    ),
    (
        "7.3",
        rounds(FILLED.format("torch.zeros(2)"), COUNTS),
        "(2,) int64 on ranks 0–1, 3, (2,) float32 on rank 2",
    ),
    (
        "7.3",
        rounds("for batch in batches[:0]:", after="sums = list(batches)\n"),
        "Ranks 0–3 returned batches, not sums over the ranks",
    ),
    (
        "7.1",
        ("if rank == 1:\n    dist.barrier()"),
        "Line 8 stands under `if rank == 1:`",
    ),
    (
        "7.2",
        named("sorted(pairs)[: 2 + (rank == 0)]", BY_NAME),
        "The loop at line 8 makes more rounds on rank 0 than on ranks 1–3",
    ),
    (
        "7.3",
        rounds(
            "for batch in batches:",
            after="while len(sums) < 3:\n    time.sleep(0.01)\n",
            before="batches = batches[:1]\n",
        ),
        "Ranks 0–3 never came to an end",
    ),
]
