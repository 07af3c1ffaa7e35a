"""Answers to the exercises of lessons 4 and 5."""

NAMES = {
    "4.1": "mean_on_root(shard)",
    "4.2": "sort_across_ranks(shard)",
    "5.1": "gather_cat_dim(shard, dim)",
    "5.2": "in_dataset_order(part, length)",
}
IMPORTS = "from course_utils import concat\n"

GATHER = (
    "parts = None\n"
    "if rank == 0:\n"
    "    parts = [torch.empty_like(shard) for _ in range(world_size)]\n"
    "dist.gather(shard, parts)\n"
)
EVERYWHERE = (
    "parts = [torch.empty_like(shard) for _ in range(world_size)]\n"
    "dist.all_gather(parts, shard)\n"
)
MEAN = GATHER + "return torch.stack(parts).mean().item() if rank == 0 else None"
WORK = "chunks = None\nif rank == 0:\n    chunks = list({}.chunk(world_size))\n"
SORTED = "torch.cat(parts).sort().values"
SCATTER = "mine = torch.empty_like(shard)\ndist.scatter(mine, chunks)\nreturn mine"
SORT = GATHER + WORK.format(SORTED) + SCATTER
FLAT = (
    "flat = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])\n"
    "dist.all_gather_single(flat, shard)\n"
)
ROWS = FLAT + "rows = flat.view(world_size, *shard.shape)\n"
MOVE = ROWS + "return rows.movedim(0, dim).flatten(dim, dim + 1)"
JOIN = ROWS + (
    "dim = dim % shard.dim()\nreturn rows.movedim(0, dim).flatten(dim, dim + 1)"
)
PARTS = (
    "parts = [torch.empty_like(part) for _ in range(world_size)]\n"
    "dist.all_gather(parts, part)\n"
)
ORDER = PARTS + "return torch.stack(parts, 1).flatten(0, 1)[:length]"


RIGHT = [
    ("4.1", MEAN),
    (
        "4.1",
        "total = shard.sum()\n"
        "dist.reduce(total, 0)\n"
        "return (total / (world_size * shard.numel())).item() if rank == 0 else None",
    ),
    (
        "4.1",
        "full = concat.gather_cat(shard)\n"
        "return None if full is None else full.mean().item()",
    ),
    (
        "4.1",
        "means = [torch.empty(()).double() for _ in range(world_size)]\n"
        "dist.gather(shard.mean(), None if rank else means)\n"
        "if rank == 0:\n    return float(torch.stack(means).mean())",
    ),
    ("4.2", SORT),
    (
        "4.2",
        "full = concat.gather_cat(shard)\n"
        "return concat.scatter_chunks(None if rank else full.sort().values)",
    ),
    (
        "4.2",
        "whole = shard.new_empty(world_size * shard.numel()) if rank == 0 else None\n"
        "mine = torch.zeros_like(shard)\n"
        "dist.gather(shard, list(whole.chunk(world_size)) if rank == 0 else None)\n"
        "if rank == 0:\n"
        "    whole, _ = torch.sort(whole)\n"
        "    dist.scatter(mine, scatter_list=list(whole.split(len(shard))), src=0)\n"
        "else:\n"
        "    dist.scatter(mine, src=0)\n"
        "return mine",
    ),
    ("5.1", JOIN),
    (
        "5.1",
        ROWS + "return torch.cat(rows.unbind(), dim)",
    ),
    (
        "5.1",
        FLAT + "dim = dim % shard.dim()\n"
        "shape = list(shard.shape)\n"
        "order = [*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1)]\n"
        "rows = flat.view(world_size, *shape).permute(order)\n"
        "shape[dim] *= world_size\n"
        "return rows.reshape(shape)",
    ),
    ("5.2", ORDER),
    (
        "5.2",
        "flat = part.new_empty(world_size * len(part), *part.shape[1:])\n"
        "dist.all_gather_single(flat, part)\n"
        "order = torch.arange(len(flat)).view(world_size, -1).T.reshape(-1)\n"
        "return flat[order][:length]",
    ),
    (
        "5.2",
        PARTS + "full = part.new_empty(world_size * len(part), *part.shape[1:])\n"
        "for r in range(world_size):\n"
        "    full[r::world_size] = parts[r]\n"
        "return full[:length].clone()",
    ),
]

WRONG = [
    # 4.1
    (
        "4.1",
        MEAN.replace(" if rank == 0 else None", ""),
        "failed where rank 0 went through",
    ),
    (
        "4.1",
        EVERYWHERE + "return torch.cat(parts).mean().item()",
        "Ranks 1–3 return something, too",
    ),
    (
        "4.1",
        EVERYWHERE + "if rank == 0:\n    return torch.cat(parts).mean().item()",
        "With all_gather every rank holds the whole",
    ),
    ("4.1", "return shard.mean().item() if rank == 0 else None", "its own shard"),
    (
        "4.1",
        MEAN.replace("mean()", "sum()"),
        "sum of all elements, not divided; there are 8 of them",
    ),
    (
        "4.1",
        GATHER + "if rank == 0:\n    return float(torch.cat(parts).sum() / world_size)",
        "divided by 4; there are 8",
    ),
    (
        "4.1",
        MEAN.replace("range(world_size)", "range(4)"),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "4.1",
        MEAN.replace(".item()", ""),
        "is a tensor of shape (), where a float is expected",
    ),
    ("4.1", MEAN.replace("else None", "else 0.0"), "None is expected on every"),
    (
        "4.1",
        GATHER.replace("rank == 0", "rank == 1").replace("parts)\n", "parts, dst=1)\n")
        + "return torch.cat(parts).mean().item() if rank == 1 else None",
        "gathers on rank 1; here rank 0 is the root",
    ),
    (
        "4.1",
        "parts = None\ndist.gather(shard, parts)",
        "Rank 0 is the root of gather and passed no list",
    ),
    ("4.1", GATHER, "The function has no return with a result in it"),
    # 4.2
    (
        "4.2",
        EVERYWHERE + f"return {SORTED}.chunk(world_size)[rank].clone()",
        "With all_gather every rank holds the whole",
    ),
    ("4.2", "return shard.sort().values", "sorted its own shard"),
    (
        "4.2",
        GATHER + WORK.format("torch.cat(parts)") + SCATTER,
        "its own shard back, as if nothing had been sorted",
    ),
    (
        "4.2",
        SORT.replace("sort()", "sort(descending=True)"),
        "sorted from large to small",
    ),
    (
        "4.2",
        SORT.replace("mine = torch", "chunks = chunks and chunks[::-1]\nmine = torch"),
        "in reverse order",
    ),
    (
        "4.2",
        EVERYWHERE + f"return {SORTED}",
        "With all_gather every rank holds the whole",
    ),
    (
        "4.2",
        GATHER
        + "chunks = None\nif rank == 0:\n"
        + f"    full = {SORTED}\n"
        + "    chunks = [full[r::world_size].clone() for r in range(world_size)]\n"
        + SCATTER,
        "dealt one by one",
    ),
    (
        "4.2",
        SORT.replace("range(world_size)", "range(4)"),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "4.2",
        SORT.replace("return mine", "return mine if rank == 0 else None"),
        "Only rank 0 returns the result; ranks 1–3 must, too",
    ),
    (
        "4.2",
        SORT.replace("mine = torch.empty_like(shard)", "mine = shard"),
        "the function changed its input",
    ),
    (
        "4.2",
        SORT.replace("chunk(world_size)", "chunk(world_size - 1)"),
        "must have one tensor for each of the 4 ranks, and has 3",
    ),
    (
        "4.2",
        SORT.replace(".values", ".values.double()"),
        "a tensor to receive into of (3,) int64 and a list with one of (3,) float64",
    ),
    # 5.1
    (
        "5.1",
        FLAT + "shape = list(shard.shape)\nshape[dim] *= world_size\n"
        "return flat.reshape(shape)",
        "still lie rank after rank",
    ),
    (
        "5.1",
        FLAT + "return flat",
        "The shards are joined along dim 0, where dim is 1",
    ),
    (
        "5.1",
        ROWS + "return rows",
        "one dimension more than a shard: stacked, not joined",
    ),
    (
        "5.1",
        ROWS + "return rows.movedim(0, dim)",
        "one dimension more than a shard: stacked, not joined",
    ),
    (
        "5.1",
        ROWS + "return rows.movedim(0, dim).flatten(dim, dim + 1)"
        " if dim >= 0 else rows.movedim(0, -1).flatten(-2, -1)",
        "Along dim -1 the ranks take turns",
    ),
    (
        "5.1",
        ROWS + "return torch.cat(rows.flip(0).unbind(), dim)",
        "from the last rank to the first",
    ),
    (
        "5.1",
        ROWS + "return torch.cat(rows.unbind(), 1 if dim else 0)",
        "joined along dim 1, where dim is -3",
    ),
    (
        "5.1",
        MOVE,
        "right for shards (2, 3) float32, dim 1 and wrong for (2, 3) int64, dim -1",
    ),
    (
        "5.1",
        JOIN.replace("world_size", "4").replace("rank, 4", "rank, world_size"),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "5.1",
        EVERYWHERE + "return torch.cat(parts, dim)",
        "calls all_gather; this exercise is about one buffer",
    ),
    (
        "5.1",
        JOIN.replace("return ", "full = ") + "\nif rank == 0:\n    return full",
        "Only rank 0 returns the result; ranks 1–3 must, too",
    ),
    # 5.2
    ("5.2", PARTS + "return torch.cat(parts)", "stand one behind the other"),
    (
        "5.2",
        PARTS + "return torch.cat(parts)[:length]",
        "stand one behind the other",
    ),
    (
        "5.2",
        ORDER.replace("[:length]", ""),
        "the result has 12 samples and the dataset 9",
    ),
    ("5.2", ORDER.replace("[:length]", "[-length:]"), "cut at the wrong end"),
    ("5.2", PARTS + "return torch.cat(parts).unique()", "sorted by value"),
    ("5.2", "return part.clone()", "Rank 0 returns its own part"),
    (
        "5.2",
        PARTS + "return torch.stack(parts).T.reshape(-1)[:length]",
        "`.T` turns all dimensions around",
    ),
    (
        "5.2",
        ORDER.replace("return ", "full = ") + "\nif rank == 0:\n    return full",
        "Only rank 0 returns the result; ranks 1–3 must, too",
    ),
    (
        "5.2",
        ORDER.replace("range(world_size)", "range(4)"),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "5.2",
        ORDER.replace("[:length]", "[:length].flip(0)"),
        "not in the order of the dataset",
    ),
    (
        "4.1",
        "if rank == 0:\n"
        "    parts = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "    dist.gather(shard, parts)\n"
        "    return torch.cat(parts).mean().item()",
        "Line 9 stands under `if rank == 0:`, so ranks 1–3 never came to gather",
    ),
    (
        "4.1",
        "parts = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "dist.gather(shard, parts)\n"
        "return torch.cat(parts).mean().item() if rank == 0 else None",
        "Ranks 1–3 passed a list to gather; only the root, here rank 0, passes one.",
    ),
    (
        "4.2",
        GATHER + "mine = torch.empty_like(shard)\nif rank == 0:\n"
        f"    dist.scatter(mine, list({SORTED}.chunk(world_size)))\nreturn mine",
        "Line 13 stands under `if rank == 0:`, so ranks 1–3 never came to scatter",
    ),
    (
        "4.2",
        SORT.replace(".values", ""),
        "Rank 0 failed, and so ranks 1–3 waited in scatter in vain.",
    ),
    (
        "5.1",
        "if rank:\n    return None\n" + JOIN,
        "Ranks 1–3 returned before all_gather_single.",
    ),
    (
        "5.2",
        "if rank == 0:\n" + "\n".join(f"    {line}" for line in ORDER.splitlines()),
        "Line 9 stands under `if rank == 0:`, so ranks 1–3 never came to all_gather",
    ),
]
