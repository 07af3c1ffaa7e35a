# ruff: noqa: E501
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
    (
        "7.1",
        """
total = shard.sum()
dist.all_reduce(total)
return total / (world_size * shard.numel())
""",
    ),
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
mean = torch.zeros(())
if rank == 0:
    mean = torch.cat(buffers).mean()
box = [mean]
dist.broadcast_object_list(box, src=0)
return box[0]
""",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs, key=lambda pair: pair[0]):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return sorted(full.items())
""",
    ),
    (
        "7.2",
        """
mine = dict(pairs)
full = []
for name in sorted(mine):
    whole = mine[name].new_empty(world_size * len(mine[name]))
    dist.all_gather_single(whole, mine[name])
    full.append((name, whole))
return full
""",
    ),
    (
        "7.2",
        """
every = [None] * world_size
dist.all_gather_object(every, dict(pairs))
return [(name, torch.cat([held[name] for held in every])) for name in sorted(every[0])]
""",
    ),
    (
        "7.2",
        """
mine = dict(pairs)
names = sorted(set(mine))
return [(n, torch.cat(p)) for n in names for p in [[torch.empty_like(mine[n]) for _ in range(world_size)]] if not dist.all_gather(p, mine[n])]
""",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    total = batches[i].clone() if i < len(batches) else torch.zeros_like(batches[0])
    dist.all_reduce(total)
    sums.append(total)
return sums
""",
    ),
    (
        "7.3",
        """
count = torch.tensor(len(batches))
dist.all_reduce(count, op=dist.ReduceOp.MAX)
padded = torch.stack(batches + [torch.zeros_like(batches[0])] * (int(count) - len(batches)))
dist.all_reduce(padded)
return list(padded)
""",
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
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
mean = torch.zeros(())
if rank == 0:
    mean = torch.cat(buffers).mean()
dist.broadcast(mean, src=1)
return mean
""",
        "Rank 1 is the root of broadcast, so that every rank has what rank 1 held",
    ),
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
mean = torch.zeros(())
if rank == 0:
    mean = torch.cat(buffers).mean()
return dist.broadcast(mean, src=0)
""",
        "broadcast itself returns None",
    ),
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
mean = torch.zeros(1)
if rank == 0:
    mean = torch.cat(buffers).mean()
dist.broadcast(mean, src=0)
return mean
""",
        "tensors of different shape: () float32 on rank 0, (1,) float32 on ranks 1–3",
    ),
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
mean = None
if rank == 0:
    mean = torch.cat(buffers).mean()
dist.broadcast(mean, src=0)
return mean
""",
        "passed None as tensor of broadcast",
    ),
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
mean = torch.zeros(())
if rank == 0:
    mean = torch.cat(buffers).mean()
dist.broadcast(mean)
return mean
""",
        "named no root",
    ),
    (
        "7.1",
        """
total = shard.sum()
dist.all_reduce(total)
return total / world_size
""",
        "That is the sum of all elements, divided by 4; there are 16.",
    ),
    (
        "7.1",
        """
buffers = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(buffers, shard)
return torch.cat(buffers).mean().double()
""",
        "is float64, where float32",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in ((n, dict(pairs)[n]) for n in set(dict(pairs))):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return sorted(full.items())
""",
        "a set has another order in every process",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in ((n, dict(pairs)[n]) for n in {n for n, _ in pairs}):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return sorted(full.items())
""",
        "a set has another order in every process",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs, key=lambda p: p[1].sum().item()):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return sorted(full.items())
""",
        "the ranks gathered in different orders",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return list(full.values())
""",
        "where a tuple of 2",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return list(full)
""",
        "is text, where a tuple of 2",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs, reverse=True):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return list(full.items())
""",
        "names in another order",
    ),
    (
        "7.2",
        "return sorted(pairs)",
        "Ranks 0–3 returned nothing but their own",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.stack(buffers)
return sorted(full.items())
""",
        "(4, 2), where (8,)",
    ),
    (
        "7.2",
        """
full = {}
for name, shard in sorted(pairs):
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = buffers
return sorted(full.items())
""",
        "is a list of 4, where a tensor",
    ),
    (
        "7.2",
        """
pairs.sort()
full = {}
for name, shard in pairs:
    buffers = [torch.empty_like(shard) for _ in range(world_size)]
    dist.all_gather(buffers, shard)
    full[name] = torch.cat(buffers)
return sorted(full.items())
""",
        "changed its input",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    if i < len(batches):
        total = batches[i].clone()
        dist.all_reduce(total)
        sums.append(total)
return sums
""",
        "never came to all_reduce",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    total = batches[i] if i < len(batches) else torch.zeros_like(batches[0])
    dist.all_reduce(total)
    sums.append(total)
return sums
""",
        "changed its input",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    total = batches[i].clone() if i < len(batches) else torch.ones_like(batches[0])
    dist.all_reduce(total)
    sums.append(total)
return sums
""",
        "In round 1, rank 2 had no batch left and counts as zeros;",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    total = batches[i].clone() if i < len(batches) else torch.zeros_like(batches[0])
    dist.all_reduce(total)
    sums.append(total / world_size)
return sums
""",
        "is float32, where int64",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    total = batches[i].clone() if i < len(batches) else torch.zeros_like(batches[0])
    dist.all_reduce(total)
    sums.append(total)
return torch.stack(sums)
""",
        "where a list of 3",
    ),
    (
        "7.3",
        """
count = torch.tensor(len(batches))
dist.all_reduce(count)
sums = []
for i in range(int(count)):
    total = batches[i].clone() if i < len(batches) else torch.zeros_like(batches[0])
    dist.all_reduce(total)
    sums.append(total)
return sums
""",
        "items; expected are 3",
    ),
    (
        "7.3",
        """
batches += [torch.zeros_like(batches[0])] * (3 - len(batches))
sums = []
for batch in batches:
    buffers = [torch.empty_like(batch) for _ in range(world_size)]
    dist.all_gather(buffers, batch)
    sums.append(torch.stack(buffers).sum(dim=0))
return sums
""",
        "changed the list that it got",
    ),
    (
        "7.3",
        """
counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(counts, torch.tensor([len(batches)]))
most = int(max(counts))
sums = []
for i in range(most):
    total = batches[i].clone() if i < len(batches) else torch.zeros_like(batches[0])
    dist.reduce(total, 0)
    sums.append(total)
return sums
""",
        "Only rank 0 has the right result",
    ),
]
