"""Answers to the exercises of lessons 6 and 8."""

NAMES = {
    "6.1": "broadcast_any(tensor, src)",
    "8.1": "gather_uneven(shard)",
    "8.2": "gather_lists(tensors)",
}
IMPORTS = (
    "from course_utils import concat\n"
    "DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool]\n"
)

HEADER = (
    "header = torch.full((10,), -1)\n"
    "if rank == src:\n"
    "    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()\n"
    "    for i, size in enumerate(tensor.shape):\n"
    "        header[2 + i] = size\n"
    "dist.broadcast(header, src)\n"
    "code, dims, *sizes = header.tolist()\n"
)
ROOM = "if rank != src:\n    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])\n"
SEND = "dist.broadcast(tensor, src)\nreturn tensor"
PACK = "if rank == src:\n    tensor = tensor.contiguous()\n"
ANY = HEADER + ROOM + PACK + SEND

SIZES = (
    "sizes = torch.empty(world_size, dtype=torch.int64)\n"
    "dist.all_gather_single(sizes, torch.tensor([len(shard)]))\n"
    "sizes = sizes.tolist()\n"
)
PAD = (
    "padded = shard.new_zeros(max(sizes), *shard.shape[1:])\n"
    "padded[:len(shard)] = shard\n"
    "parts = [torch.empty_like(padded) for _ in sizes]\n"
)
PADDED = SIZES + PAD + "dist.all_gather(parts, padded)\n"
TRIM = "return [part[:n] for part, n in zip(parts, sizes)]"
UNEVEN = PADDED + TRIM
RESULT = (
    "full = shard.new_empty((sum(sizes), *shard.shape[1:]))\n"
    "parts = list(full.split(sizes))\n"
)
EVEN = "parts = [torch.empty_like(shard) for _ in range(world_size)]\n"

INNER = (
    "def uneven(shard):\n"
    + "\n".join(f"    {line}" for line in UNEVEN.splitlines())
    + "\n"
)
NOTHING = "nothing = torch.empty(0, dtype=torch.int64)\n"
LENGTHS = "torch.tensor([len(t) for t in tensors], dtype=torch.int64)"
BOTH = (
    INNER
    + NOTHING
    + f"lengths = uneven({LENGTHS})\n"
    + "values = uneven(torch.cat([nothing, *tensors]))\n"
)
LISTS = BOTH + "return list(torch.cat(values).split(torch.cat(lengths).tolist()))"
NESTED = BOTH + "nested = [v.split(n.tolist()) for v, n in zip(values, lengths)]\n"


RIGHT = [
    ("6.1", ANY),
    (
        "6.1",  # number of dimensions, sizes and dtype one after another
        "if rank != src:\n    tensor = torch.empty(())\n"
        "kind = torch.tensor([tensor.dim(), DTYPES.index(tensor.dtype)])\n"
        "dist.broadcast(kind, src)\n"
        "shape = torch.zeros(kind[0], dtype=torch.int64)\n"
        "if rank == src:\n"
        "    shape = torch.tensor(list(tensor.shape), dtype=torch.int64)\n"
        "dist.broadcast(shape, src)\n"
        "out = tensor.contiguous().clone()\n"
        "if rank != src:\n"
        "    out = torch.empty(shape.tolist(), dtype=DTYPES[kind[1]])\n"
        "dist.broadcast(out, src=src)\nreturn out",
    ),
    ("6.1", ANY.replace("(header, src)", "(header, group_src=src)")),
    ("8.1", UNEVEN),
    (
        "8.1",
        SIZES + RESULT + "copies = torch.cat([shard] * world_size)\n"
        "given = [len(shard)] * world_size\n"
        "dist.all_to_all_single(full, copies, sizes, given)\nreturn parts",
    ),
    (
        "8.1",
        SIZES + RESULT + "parts[rank].copy_(shard)\n"
        "for r in range(world_size):\n    dist.broadcast(parts[r], r)\nreturn parts",
    ),
    ("8.1", "return concat.all_gather_list(shard)"),
    ("8.2", LISTS),
    ("8.2", NESTED + "return [t for own in nested for t in own]"),
    ("8.2", "return concat.all_gather_list(tensors)"),
]

WRONG = [
    # 6.1
    (
        "6.1",
        HEADER.replace("(header, src)", "(header, 0)") + ROOM + SEND,
        "broadcasts from rank 0, but here rank 2 holds the tensor",
    ),
    (
        "6.1",
        ANY.replace("== src", "== 0").replace("!= src", "!= 0"),
        "Rank 0 took None for the tensor; here only rank 2 holds it",
    ),
    (
        "6.1",
        "return concat.broadcast_tensor(tensor, src)",
        "calls broadcast_tensor; this exercise allows no collective but broadcast",
    ),
    (
        "6.1",
        "box = [tensor]\ndist.broadcast_object_list(box, src)\nreturn box[0]",
        "calls broadcast_object_list; this exercise",
    ),
    (
        "6.1",
        "if rank != src:\n    tensor = torch.empty(2, 3)\n" + SEND,
        "In the first broadcast, the receivers' buffers do not have the "
        "shape and the dtype of what rank 1 sends",
    ),
    (
        "6.1",
        HEADER + "if rank != src:\n    tensor = torch.empty(sizes[:dims])\n" + SEND,
        "In the second broadcast, the receivers' buffers do not have the "
        "dtype of what rank 1 sends",
    ),
    (
        "6.1",  # a header that is as long as the shape
        "shape = torch.zeros(3, dtype=torch.int64)\n"
        "if rank == src:\n    shape = torch.tensor(tensor.shape)\n"
        "dist.broadcast(shape, src)\nreturn tensor",
        "In the first broadcast, the receivers' buffers do not have the "
        "shape of what rank 2 sends",
    ),
    (
        "6.1",
        HEADER + "if rank != src:\n"
        "    tensor = torch.zeros(sizes[:dims], dtype=DTYPES[code])\nreturn tensor",
        "Every rank broadcasts once, and the values were not in it",
    ),
    (
        "6.1",
        ANY.replace("return tensor", "return tensor.flatten()"),
        "the result is (6,), where (2, 3) is expected",
    ),
    (
        "6.1",
        ANY.replace("return tensor", "return tensor.double()"),
        "the result is float64, where float32",
    ),
    (
        "6.1",
        ANY.replace("return tensor", "return tensor if rank == src else None"),
        "Ranks 0–1, 3 returned None",
    ),
    (
        "6.1",
        HEADER + ROOM + "return dist.broadcast(tensor, src)",
        "broadcast itself returns None: it fills the tensor that it gets",
    ),
    ("6.1", HEADER + ROOM + "tensor += 1\n" + SEND, "changed its input"),
    # 8.1
    (
        "8.1",
        EVEN + "dist.all_gather(parts, shard)\nreturn parts",
        "tensors of different shape: (2,) int64 on rank 0, (0,) int64 on rank 1",
    ),
    (
        "8.1",
        SIZES + RESULT + "dist.all_gather(parts, shard)\nreturn parts",
        "a tensor to send of (2,) int64 and a list with one of (0,) int64",
    ),
    (
        "8.1",
        PADDED + "return parts",
        "On rank 0, item 0 has 3 rows, where 2 are expected: the padding is still",
    ),
    (
        "8.1",
        PADDED + "return [part[:len(shard)] for part in parts]",
        "On rank 0 every item has 2 rows, as many as its own shard",
    ),
    (
        "8.1",
        PADDED + "return [p[:n] for p, n in zip(parts, sizes)][::-1]",
        "in another order; expected are those of the ranks one after another",
    ),
    (
        "8.1",
        PADDED + "return [p[:n] for p, n in zip(parts, sizes) if n]",
        "Rank 0's list lacks the empty shards",
    ),
    (
        "8.1",
        PADDED + "return torch.cat([p[:n] for p, n in zip(parts, sizes)])",
        "is a tensor of shape (6,), where a list of 4 is expected",
    ),
    (
        "8.1",
        SIZES
        + PAD.replace("shard.new_zeros(max(sizes), *shard.shape[1:])", "torch.zeros(3)")
        + "dist.all_gather(parts, padded)\n"
        + TRIM,
        "item 0 is float32, where int64",
    ),
    (
        "8.1",
        SIZES
        + PAD.replace("max(sizes), *shard.shape[1:]", "4 * max(sizes)").replace(
            "padded[:len(shard)] = shard", "padded[:shard.numel()] = shard.ravel()"
        )
        + "dist.all_gather(parts, padded)\n"
        + TRIM,
        "item 0 is (1,), where (1, 2) is expected",
    ),
    (
        "8.1",
        "parts = [None] * world_size\ndist.all_gather_object(parts, shard)\n"
        "return parts",
        "calls all_gather_object; this exercise is about doing without objects",
    ),
    (
        "8.1",
        SIZES
        + "padded = torch.cat([shard, shard[-1:].repeat(max(sizes) - len(shard))])\n"
        + "parts = [torch.empty_like(padded) for _ in sizes]\n"
        + "dist.all_gather(parts, padded)\n"
        + TRIM,
        "tensors of different shape: (3,) int64 on ranks 0, 2–3, (0,) int64 on",
    ),
    (
        "8.1",
        PADDED + "return [p[:n] for p, n in zip(parts, sizes)] if rank == 0 else None",
        "Only rank 0 returns the result",
    ),
    (
        "8.1",
        UNEVEN.replace("range(world_size)", "range(4)").replace(
            "torch.empty(world_size", "torch.empty(4"
        ),
        "right on 4 ranks and wrong on 3",
    ),
    # 8.2
    ("8.2", NESTED + "return nested", "the list holds lists; expected is one flat"),
    ("8.2", "return tensors", "returned no tensor but its own"),
    (
        "8.2",
        BOTH + "return values",
        "Rank 0's list has all numbers, but 4 tensors instead of 6",
    ),
    (
        "8.2",
        NESTED + "return [t for own in nested[::-1] for t in own]",
        "Rank 0's list has every tensor, in another order; expected are those of the "
        "ranks one after another (2, then 0, then 3, then 1)",
    ),
    (
        "8.2",
        NESTED
        + "most = max(map(len, nested))\n"
        + "return [own[i] for i in range(most) for own in nested if i < len(own)]",
        "in another order",
    ),
    (
        "8.2",
        NESTED + "return [t for own in nested for t in own if len(t)]",
        "Rank 0's list lacks the empty tensors",
    ),
    (
        "8.2",
        BOTH.replace("[nothing, *tensors]", "[torch.empty(0), *tensors]")
        + "return list(torch.cat(values).split(torch.cat(lengths).tolist()))",
        "item 0 is float32, where int64",
    ),
    (
        "8.2",
        "parts = [None] * world_size\ndist.all_gather_object(parts, tensors)\n"
        "return sum(parts, [])",
        "calls all_gather_object; this exercise is about doing without objects",
    ),
    (
        "8.2",
        NESTED + "flat = [t for own in nested for t in own]\n"
        "return flat if rank == 0 else []",
        "The list of rank 1 has 0 items; expected are 6",
    ),
    (
        "6.1",
        "if rank == src:\n    dist.broadcast(tensor, src)\nreturn tensor",
        "Line 9 stands under `if rank == src:`, so ranks 0–1, 3 never came to",
    ),
    (
        "6.1",
        HEADER + "if rank != src:\n    tensor = torch.empty(sizes[:dims])\n    "
        "dist.broadcast(tensor, src)\nreturn tensor",
        "Line 17 stands under `if rank != src:`, so rank 2 never came to broadcast",
    ),
    (
        "8.1",
        "if not len(shard):\n    return [shard] * world_size\n" + UNEVEN,
        "Rank 1, with nothing to send, returned while the others waited",
    ),
    (
        "8.1",
        "largest = shard.max()\n" + UNEVEN,
        "Rank 1 failed, where there is nothing to send",
    ),
    (
        "8.1",
        "if rank == 0:\n"
        + "\n".join(f"    {line}" for line in UNEVEN.splitlines())
        + "\nreturn None",
        "Line 10 stands under `if rank == 0:`, so ranks 1–3 never came to",
    ),
    (
        "8.2",
        BOTH.replace("[nothing, *tensors]", "tensors") + "return values",
        "Rank 1 failed, where there is nothing to send",
    ),
]
