# ruff: noqa: E501
"""Answers to the exercises of lesson 13."""

NAMES = {"13.1": "ring_order(hosts)", "13.2": "gather_by_host(shard, per_host)"}
IMPORTS = "from course_utils.concat import all_gather_cat\n"

EVERY = "every = range(len(hosts))\n"

GROUPS = (
    "across = [dist.new_group(range(c, world_size, per_host)) for c in range(per_host)]\n"
    "within = [dist.new_group(range(f, f + per_host)) for f in range(0, world_size, per_host)]\n"
    "column, row = across[rank % per_host], within[rank // per_host]\n"
    "count = world_size // per_host\n"
)
ACROSS = (
    "mine = [torch.empty_like(shard) for _ in range(count)]\n"
    "dist.all_gather(mine, shard, group=column)\n"
    "mine = torch.stack(mine)\n"
)
WITHIN = (
    "grid = [torch.empty_like(mine) for _ in range(per_host)]\n"
    "dist.all_gather(grid, mine, group=row)\n"
)
GRID = GROUPS + ACROSS + WITHIN
RIGHT_GRID = GRID + "return torch.stack(grid).transpose(0, 1).flatten(0, 2)"
SINGLE = (
    GROUPS + "mine = shard.new_empty(count, *shard.shape)\n"
    "dist.all_gather_single(mine.view(-1), shard, group=column)\n"
    "grid = shard.new_empty(per_host, *mine.shape)\n"
    "dist.all_gather_single(grid.view(-1), mine.view(-1), group=row)\n"
    "return grid.transpose(0, 1).reshape(-1)"
)
LEADERS = (
    "within = [dist.new_group(range(f, f + per_host)) for f in range(0, world_size, per_host)]\n"
    "leaders = dist.new_group(range(0, world_size, per_host))\n"
    "first = rank - rank % per_host\n"
    "row = within[rank // per_host]\n"
    "mine = [torch.empty_like(shard) for _ in range(per_host)]\n"
    "dist.all_gather(mine, shard, group=row)\n"
    "mine = torch.cat(mine)\n"
    "full = torch.empty(world_size * len(shard), dtype=shard.dtype)\n"
    "if rank == first:\n"
    "    parts = list(full.chunk(world_size // per_host))\n"
    "    dist.all_gather(parts, mine, group=leaders)\n"
    "dist.broadcast(full, src=first, group=row)\n"
    "return full"
)
ROWS_FIRST = (
    GROUPS + "mine = [torch.empty_like(shard) for _ in range(per_host)]\n"
    "dist.all_gather(mine, shard, group=row)\n"
    "mine = torch.cat(mine)\n"
    "parts = [torch.empty_like(mine) for _ in range(count)]\n"
    "dist.all_gather(parts, mine, group=column)\n"
    "return torch.cat(parts)"
)
ALL = (
    "parts = [torch.empty_like(shard) for _ in range(world_size)]\n"
    "dist.all_gather(parts, shard)\n"
    "return torch.cat(parts)"
)


RIGHT = [
    ("13.1", "return sorted(range(len(hosts)), key=lambda rank: hosts[rank])"),
    (
        "13.1",
        EVERY
        + "return [r for h in sorted(set(hosts)) for r in every if hosts[r] == h]",
    ),
    ("13.1", "return [r for _, r in sorted(zip(hosts, range(len(hosts))))]"),
    (
        "13.1",
        "by_host = {}\n"
        "for r, host in enumerate(hosts):\n    by_host.setdefault(host, []).append(r)\n"
        "return sum((by_host[host] for host in sorted(by_host)), [])",
    ),
    ("13.2", RIGHT_GRID),
    ("13.2", SINGLE),
    ("13.2", LEADERS),
    (
        "13.2",
        GROUPS + "mine = all_gather_cat(shard[None], group=column)\n"
        "grid = all_gather_cat(mine[None], group=row)\n"
        "return grid.transpose(0, 1).flatten(0, 2)",
    ),
]

WRONG = [
    ("13.1", "return sorted(hosts)", "The result has hosts in it; asked for are ranks"),
    ("13.1", "return list(range(len(hosts)))", "hops of this ring cross a cable"),
    (
        "13.1",
        EVERY
        + "return [[r for r in every if hosts[r] == h] for h in sorted(set(hosts))]",
        "lists of their own; asked for is one list",
    ),
    (
        "13.1",
        EVERY + "return [str(r) for r in sorted(every, key=lambda r: hosts[r])]",
        "The result has text in it",
    ),
    (
        "13.1",
        EVERY + "return [r + 1 for r in sorted(every, key=lambda r: hosts[r])]",
        "Ranks are counted from 0.",
    ),
    (
        "13.1",
        EVERY + "return sorted(every, key=lambda r: hosts[r], reverse=True)",
        "The hosts stand in reverse.",
    ),
    (
        "13.1",
        EVERY + "return sorted(every, key=lambda r: (hosts[r], -r))",
        "The ranks of one host stand in reverse.",
    ),
    (
        "13.1",
        EVERY + "return sorted(every, key=lambda r: hosts.index(hosts[r]))",
        "as they come first in the list, not by name",
    ),
    (
        "13.1",
        EVERY + "order = sorted(every, key=lambda r: hosts[r])\n"
        "return [order.index(r) for r in every]",
        "Each rank's place in the ring stands there",
    ),
    (
        "13.1",
        EVERY + "return sorted(every, key=lambda r: hosts[r] != hosts[rank])",
        "The ranks have different orders",
    ),
    (
        "13.1",
        "return sorted(range(world_size), key=lambda r: hosts[r])",
        "There are 6 hosts in the list; the result has 3 ranks.",
    ),
    (
        "13.1",
        "return [hosts.index(host) for host in sorted(hosts)]",
        "Not every rank from 0 to 3 is there once.",
    ),
    (
        "13.1",
        "hosts.sort()\nreturn list(range(len(hosts)))",
        "hops of this ring cross a cable",
    ),
    (
        "13.1",
        EVERY + "return torch.tensor(sorted(every, key=lambda r: hosts[r]))",
        "tensor",
    ),
    ("13.2", ALL, "The function gathers over all ranks"),
    (
        "13.2",
        "return all_gather_cat(shard)",
        "all_gather_cat takes all ranks into one group",
    ),
    ("13.2", ROWS_FIRST, "2 times as many elements cross the cables as must"),
    (
        "13.2",
        GRID + "return torch.stack(grid).flatten(0, 2)",
        "The shards stand as they came: first all local ranks 0",
    ),
    (
        "13.2",
        GRID + "return torch.stack(grid).transpose(0, 1)",
        "shape",
    ),
    ("13.2", "return shard", "returned nothing but their own"),
    (
        "13.2",
        GROUPS + ACROSS + "return mine.flatten(0, 1)",
        "the result is (4,), where (8,) is expected",
    ),
    (
        "13.2",
        GROUPS + "mine = [torch.empty_like(shard) for _ in range(per_host)]\n"
        "dist.all_gather(mine, shard, group=row)\n"
        "return torch.cat(mine)",
        "the result is (4,), where (8,) is expected",
    ),
    (
        "13.2",
        "column = dist.new_group(range(rank % per_host, world_size, per_host))\n"
        "row = dist.new_group(range(rank - rank % per_host, rank - rank % per_host + per_host))\n"
        "count = world_size // per_host\n"
        + ACROSS
        + WITHIN
        + "return torch.stack(grid).transpose(0, 1).flatten(0, 2)",
        "The ranks name different groups in one call of new_group",
    ),
    (
        "13.2",
        "if rank % per_host == 0:\n"
        "    leaders = dist.new_group(range(0, world_size, per_host))\n" + ALL,
        "The ranks made different numbers of groups",
    ),
    (
        "13.2",
        GRID + "return torch.stack(grid).transpose(0, 1).flatten(0, 2).tolist()",
        "list",
    ),
    (
        "13.2",
        GRID + "return torch.stack(grid).transpose(0, 1).flatten(0, 2).float()",
        "float32",
    ),
    (
        "13.2",
        "parts = [None] * world_size\n"
        "dist.all_gather_object(parts, shard)\n"
        "return torch.cat(parts)",
        "all_gather_object takes all ranks into one group",
    ),
    (
        "13.2",
        GRID.replace("range(per_host)]\n", "range(2)]\n", 1).replace(
            "[torch.empty_like(mine) for _ in range(per_host)]",
            "[torch.empty_like(mine) for _ in range(2)]",
        )
        + "return torch.stack(grid).transpose(0, 1).flatten(0, 2)",
        "It is right for shards (2,) int64, 2 ranks a host and wrong",
    ),
]
