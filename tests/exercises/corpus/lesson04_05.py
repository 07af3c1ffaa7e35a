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
    (
        "4.1",
        """
total = shard.sum() / (shard.numel() * world_size)
dist.reduce(total, 0)
return total.item() if rank == 0 else None
""",
    ),
    (
        "4.1",
        """
parts = [None] * world_size if rank == 0 else None
dist.gather_object(shard.tolist(), parts)
if rank:
    return None
return torch.tensor(parts, dtype=torch.float64).mean().item()
""",
    ),
    (
        "4.1",
        """
if rank:
    dist.send(shard.sum(), 0)
    return None
total = shard.sum()
for src in range(1, world_size):
    other = torch.empty((), dtype=shard.dtype)
    dist.recv(other, src)
    total += other
return total.item() / world_size / shard.numel()
""",
    ),
    (
        "4.1",
        """
total = shard.sum()
dist.all_reduce(total)
if rank == 0:
    return float(total) / (world_size * shard.numel())
""",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).msort().chunk(world_size))
mine = torch.empty_like(shard)
dist.scatter(mine, chunks)
return mine
""",
    ),
    (
        "4.2",
        """
if rank:
    dist.send(shard, 0)
    mine = torch.empty_like(shard)
    dist.recv(mine, 0)
    return mine
parts = [shard.clone()] + [torch.empty_like(shard) for _ in range(world_size - 1)]
for src in range(1, world_size):
    dist.recv(parts[src], src)
chunks = torch.cat(parts).sort().values.chunk(world_size)
for dst in range(1, world_size):
    dist.send(chunks[dst], dst)
return chunks[0].clone()
""",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
box = [None]
chunks = list(torch.cat(parts).sort().values.chunk(world_size)) if rank == 0 else None
dist.scatter_object_list(box, chunks)
return box[0].clone()
""",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
if rank == 0:
    full = torch.cat(parts).sort().values
else:
    full = shard.new_empty(world_size * len(shard))
dist.broadcast(full, 0)
return full.chunk(world_size)[rank].clone()
""",
    ),
    (
        "5.1",
        """
flat = torch.empty((world_size * shard.shape[0], *shard.shape[1:]), dtype=shard.dtype)
dist.all_gather_into_tensor(flat, shard)
return torch.cat(flat.chunk(world_size), dim)
""",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size * shard.numel())
dist.all_gather_single(flat, shard.flatten())
return torch.cat(list(flat.view(world_size, *shard.shape)), dim=dim)
""",
    ),
    (
        "5.2",
        """
from course_utils.concat import all_gather_list
parts = all_gather_list(part)
return torch.stack(parts).transpose(0, 1).flatten(0, 1)[:length]
""",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.stack([parts[i % world_size][i // world_size] for i in range(length)])
""",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
rows = [row for deal in zip(*parts) for row in deal]
return torch.stack(rows[:length])
""",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.cat([torch.stack(rows) for rows in zip(*parts)])[:length]
""",
    ),
]

WRONG = [
    # 4.1
    (
        "4.1",
        MEAN.replace(" if rank == 0 else None", ""),
        "Ranks 1–3 failed on None where rank 0 went through",
    ),
    (
        "4.1",
        EVERYWHERE + "return torch.cat(parts).mean().item()",
        "With all_gather every rank holds the whole",
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
        "Ranks 1–3 returned before all_gather_single",
    ),
    (
        "5.2",
        "if rank == 0:\n" + "\n".join(f"    {line}" for line in ORDER.splitlines()),
        "Line 9 stands under `if rank == 0:`, so ranks 1–3 never came to all_gather",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts if rank == 0 else [])
return torch.stack(parts).mean().item() if rank == 0 else None
""",
        "Rank 1 passed an empty list to gather; only the root",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
return torch.cat(parts).mean().item() if rank == 0 else None
""",
        "torch.cat refuses tensors without a dimension",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(parts, shard)
return torch.stack(parts).mean().item() if rank == 0 else None
""",
        "list and tensor the wrong way round",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
return torch.stack(parts).mean()
""",
        "failed on None where rank 0 went through",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
return dist.gather(shard, parts)
""",
        "gather itself returns None",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty(shard.shape) for _ in range(world_size)]
dist.gather(shard, parts)
return torch.stack(parts).mean().item() if rank == 0 else None
""",
        "a tensor to send of (2,) float64 and a list with one of (2,) float32",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
return int(torch.stack(parts).mean()) if rank == 0 else None
""",
        "is a whole number, where a float",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
return torch.stack(parts).median().item() if rank == 0 else None
""",
        "No known cause fits",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
return torch.stack(parts).mean(0).tolist() if rank == 0 else None
""",
        "is a list of 2, where a float",
    ),
    (
        "4.1",
        """
dist.reduce(shard, 0)
return shard.mean().item() / world_size if rank == 0 else None
""",
        "changed its input",
    ),
    (
        "4.1",
        """
parts = None
if rank == world_size - 1:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts, dst=world_size - 1)
if rank == world_size - 1:
    return torch.stack(parts).mean().item()
""",
        "here rank 0 is the root",
    ),
    (
        "4.1",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size - 1)]
dist.gather(shard, parts)
return torch.stack(parts).mean().item() if rank == 0 else None
""",
        "one tensor for each of the 4 ranks, and has 3",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
mine = torch.empty(len(shard))
dist.scatter(mine, chunks)
return mine
""",
        "to receive into of (3,) float32 and a list with one of (3,) int64",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
mine = torch.empty_like(shard)
return dist.scatter(mine, chunks)
""",
        "scatter itself returns None",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
chunks = chunks or []
mine = torch.empty_like(shard)
dist.scatter(mine, chunks)
return mine
""",
        "Rank 1 passed an empty list to scatter",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
dist.scatter(shard, chunks)
return shard
""",
        "changed its input",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
mine = torch.empty_like(shard)
dist.scatter(chunks, mine)
return mine
""",
        "list and tensor the wrong way round",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = [p.sort().values for p in parts]
mine = torch.empty_like(shard)
dist.scatter(mine, chunks)
return mine
""",
        "Every rank has sorted its own shard",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().indices.chunk(world_size))
mine = torch.empty_like(shard)
dist.scatter(mine, chunks)
return mine
""",
        "On rank 0 nothing of ranks 0, 2–3 is in the result, but other",
    ),
    (
        "4.2",
        """
parts = None
if rank == 1:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts, dst=1)
chunks = None
if rank == 1:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
mine = torch.empty_like(shard)
dist.scatter(mine, chunks, src=1)
return mine
""",
        "gathers on rank 1; here rank 0 is the root",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
return chunks[rank]
""",
        "failed on None where rank 0 went through",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
mine = torch.zeros_like(shard)
dist.scatter(mine, chunks, async_op=True)
return mine
""",
        "never waits for the work that scatter returned",
    ),
    (
        "4.2",
        """
parts = None
if rank == 0:
    parts = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, parts)
chunks = None
if rank == 0:
    chunks = list(torch.cat(parts).sort().values.chunk(world_size))
mine = torch.zeros_like(shard)
if rank == 0:
    mine = chunks[0].clone()
return mine
""",
        "Only rank 0 has the right result",
    ),
    (
        "5.1",
        """
flat = torch.empty(world_size * shard.shape[0], *shard.shape[1:])
dist.all_gather_single(flat, shard)
return torch.cat(flat.chunk(world_size), dim)
""",
        "fills is float32 and the shard int64",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size, *shard.shape)
dist.all_gather_single(flat, shard)
return torch.cat(list(flat), dim)
""",
        "has shape (4, 2, 3); for 4 shards (2, 3) it must be (8, 3)",
    ),
    (
        "5.1",
        """
flat = torch.empty_like(shard)
dist.all_gather_single(flat, shard)
return flat
""",
        "has shape (2, 3); for 4 shards (2, 3) it must be (8, 3)",
    ),
    (
        "5.1",
        """
shape = list(shard.shape)
shape[dim] *= world_size
flat = shard.new_empty(shape)
dist.all_gather_single(flat, shard)
return flat
""",
        "has shape (2, 12); for 4 shards (2, 3) it must be (8, 3)",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
dist.all_gather_single(shard, flat)
return torch.cat(flat.chunk(world_size), dim)
""",
        "the order is all_gather_single(output_tensor, input_tensor)",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
return dist.all_gather_single(flat, shard)
""",
        "all_gather_single itself returns None",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
dist.all_gather_single(flat, shard)
return torch.stack(flat.chunk(world_size), dim)
""",
        "stacked, not joined",
    ),
    (
        "5.1",
        "return concat.all_gather_cat(shard, dim)",
        "calls all_gather_cat; this exercise",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
work = dist.all_gather_single(flat, shard, async_op=True)
return torch.cat(flat.chunk(world_size), dim)
""",
        "never waits for the work that all_gather_single returned",
    ),
    (
        "5.1",
        """
flat = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
dist.all_gather_single(flat, shard)
return torch.cat(flat.chunk(world_size), dim).float()
""",
        "is float32, where int64",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.stack(parts).T.flatten(0, 1)[:length]
""",
        "`.T` turns all dimensions around",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.stack(parts, 1)[:length]
""",
        "The shape has changed",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return [row for deal in zip(*parts) for row in deal][:length]
""",
        "is a list of 9, where a tensor",
    ),
    (
        "5.2",
        """
full = torch.empty(length, *part.shape[1:])
for r in range(world_size):
    full[r::world_size] = part[:len(full[r::world_size])]
return full
""",
        "is float32, where int64",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.stack(parts, 1).flatten()[:length]
""",
        "The shape has changed: on rank 0 the result is (7,), where (7,",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
return dist.all_gather(parts, part)
""",
        "all_gather itself returns None",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.cat(parts).sort(0).values[:length]
""",
        "The samples are sorted by value; in the dataset they are not.",
    ),
    (
        "5.2",
        """
parts = [torch.empty_like(part) for _ in range(world_size)]
dist.all_gather(parts, part)
return torch.stack(parts[::-1], 1).flatten(0, 1)[:length]
""",
        "The samples are dealt from the last rank to the first.",
    ),
]
