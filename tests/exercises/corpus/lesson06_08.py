# ruff: noqa: E501
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
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
dist.broadcast(tensor, src)
return tensor
""",
    ),
    (
        "6.1",
        """
sizes = torch.zeros(9, dtype=torch.int64)
kind = torch.zeros(1, dtype=torch.int64)
if rank == src:
    kind[0] = DTYPES.index(tensor.dtype)
    sizes[0] = tensor.dim()
    if tensor.dim():
        sizes[1:1 + tensor.dim()] = torch.tensor(tensor.shape)
for told in sizes, kind:
    dist.broadcast(told, src=src)
shape = sizes[1:1 + int(sizes[0])].tolist()
flat = tensor.flatten() if rank == src else torch.empty(shape, dtype=DTYPES[kind]).flatten()
flat = flat.contiguous()
dist.broadcast(flat, src=src)
return flat.view(shape)
""",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
width = shard[:0].numel() or shard.shape[1:].numel()
parts = [shard.new_empty(n, *shard.shape[1:]) for n in sizes]
works = []
for src, part in enumerate(parts):
    if src == rank:
        part.copy_(shard)
    works.append(dist.broadcast(part, src, async_op=True))
for work in works:
    work.wait()
return parts
""",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
padded = shard.new_zeros(max(sizes), *shard.shape[1:])
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return [p.narrow(0, 0, n).clone() for p, n in zip(parts, sizes)]
""",
    ),
    (
        "8.1",
        """
sizes = [torch.zeros((), dtype=torch.int64) for _ in range(world_size)]
dist.all_gather(sizes, torch.tensor(shard.shape[0]))
parts = [shard.new_empty((int(n), *shard.shape[1:])) for n in sizes]
parts[rank] = shard
works = [dist.isend(shard.contiguous(), peer) for peer in range(world_size) if peer != rank and len(shard)]
for peer in range(world_size):
    if peer != rank and len(parts[peer]):
        dist.recv(parts[peer], peer)
for work in works:
    work.wait()
return parts
""",
    ),
    (
        "8.2",
        """
counts = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(counts, torch.tensor([len(tensors)]))
most = int(counts.max())
lengths = torch.zeros(most, dtype=torch.int64)
lengths[:len(tensors)] = torch.tensor([len(t) for t in tensors], dtype=torch.int64)
every = [torch.empty_like(lengths) for _ in range(world_size)]
dist.all_gather(every, lengths)
every = [row[:n].tolist() for row, n in zip(every, counts.tolist())]
longest = max([sum(row) for row in every] + [0])
flat = torch.zeros(longest, dtype=torch.int64)
own = torch.cat([torch.empty(0, dtype=torch.int64), *tensors])
flat[:len(own)] = own
parts = [torch.empty_like(flat) for _ in range(world_size)]
dist.all_gather(parts, flat)
return [t for row, part in zip(every, parts) for t in part[:sum(row)].split(row)]
""",
    ),
    (
        "8.2",
        """
lengths = concat.all_gather_cat(torch.tensor([len(t) for t in tensors], dtype=torch.int64))
values = concat.all_gather_cat(torch.cat([torch.empty(0, dtype=torch.int64), *tensors]))
return list(values.split(lengths.tolist()))
""",
    ),
    (
        "8.2",
        """
counts = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(counts, torch.tensor([len(tensors)]))
most = int(counts.max())
lengths = torch.zeros(most, dtype=torch.int64)
lengths[:len(tensors)] = torch.tensor([len(t) for t in tensors], dtype=torch.int64)
every = [torch.empty_like(lengths) for _ in range(world_size)]
dist.all_gather(every, lengths)
every = [row[:n].tolist() for row, n in zip(every, counts.tolist())]
longest = max([sum(row) for row in every] + [0])
found = []
for src, row in enumerate(every):
    for i, n in enumerate(row):
        t = tensors[i].clone() if src == rank else torch.empty(n, dtype=torch.int64)
        dist.broadcast(t, src)
        found.append(t)
return found
""",
    ),
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
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
dist.broadcast(tensor, src)
return tensor
""",
        "broadcast copies memory as it lies",
    ),
    (
        "6.1",
        """
if rank == src:
    dist.broadcast(tensor, src)
else:
    dist.broadcast(None, src)
return tensor
""",
        "passed None as tensor of broadcast",
    ),
    (
        "6.1",
        """
dist.broadcast(tensor, src)
return tensor
""",
        "passed None as tensor of broadcast",
    ),
    (
        "6.1",
        """
header = torch.full((6,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
dist.broadcast(tensor, src)
return tensor
""",
        "failed",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
    dist.broadcast(tensor, src)
else:
    tensor = tensor.contiguous()
return tensor
""",
        "so rank 2 never came to broadcast",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, rank)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
dist.broadcast(tensor, src)
return tensor
""",
        "The ranks name different roots for broadcast",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes, dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
dist.broadcast(tensor, src)
return tensor
""",
        "-1",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
dist.broadcast(tensor, src)
return tensor
""",
        "On rank 0 nothing of rank 2 is in the result",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
dist.broadcast(tensor, src)
if rank == src:
    return tensor
""",
        "Ranks 0–1, 3 returned None",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
work = dist.broadcast(tensor, src, async_op=True)
return tensor
""",
        "never waits for the work that broadcast returned",
    ),
    (
        "6.1",
        """
header = torch.full((10,), -1)
if rank == src:
    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()
    for i, size in enumerate(tensor.shape):
        header[2 + i] = size
dist.broadcast(header, src)
code, dims, *sizes = header.tolist()
if rank != src:
    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])
else:
    tensor = tensor.contiguous()
dist.broadcast(tensor, src)
return tensor.tolist()
""",
        "is a list of 2, where a tensor",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
padded = shard.new_zeros(max(sizes), *shard.shape[1:])
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return [p[(p != 0)] for p in parts]
""",
        "every 0 is gone from the result",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
padded = shard.new_full((max(sizes), *shard.shape[1:]), -1)
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return [p[(p != -1)] for p in parts]
""",
        "every -1 is gone from the result",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
padded = shard.new_zeros(max(sizes), *shard.shape[1:])
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return [p[:n] for p, n in zip(parts, sizes[1:] + sizes[:1])]
""",
        "where",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
parts = [shard.new_empty(n, *shard.shape[1:]) for n in sizes]
for src in range(world_size):
    dist.broadcast(parts[src], src)
return parts
""",
        "On rank 0 nothing of ranks 0, 2–3 is in the result",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
parts = [shard.new_empty(n, *shard.shape[1:]) for n in sizes]
parts[rank] = shard
for src in range(world_size):
    if sizes[src] and src == rank:
        dist.broadcast(parts[src], src)
return parts
""",
        "The ranks disagree on the root",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
padded = shard.new_zeros(max(sizes), *shard.shape[1:])
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return [shard[:n] for n in sizes]
""",
        "returned nothing but their own",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
padded = shard.new_zeros(max(sizes), *shard.shape[1:])
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return dist.all_gather(parts, padded)
""",
        "all_gather itself returns None",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([float(len(shard))]))
return sizes
""",
        "fills is int64 and the shard float32",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor(len(shard)))
sizes = sizes.tolist()
padded = shard.new_zeros(max(sizes), *shard.shape[1:])
padded[:len(shard)] = shard
parts = [torch.empty_like(padded) for _ in sizes]
dist.all_gather(parts, padded)
return [p[:n] for p, n in zip(parts, sizes)][:-1]
""",
        "it must have shape (1,), as of torch.tensor([n])",
    ),
    (
        "8.1",
        """
sizes = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(sizes, torch.tensor([len(shard)]))
sizes = sizes.tolist()
full = shard.new_empty((sum(sizes), *shard.shape[1:]))
dist.all_to_all_single(full, shard, sizes, sizes)
return list(full.split(sizes))
""",
        "split_sizes",
    ),
    (
        "8.2",
        """
counts = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(counts, torch.tensor([len(tensors)]))
most = int(counts.max())
lengths = torch.zeros(most, dtype=torch.int64)
lengths[:len(tensors)] = torch.tensor([len(t) for t in tensors], dtype=torch.int64)
every = [torch.empty_like(lengths) for _ in range(world_size)]
dist.all_gather(every, lengths)
every = [row[:n].tolist() for row, n in zip(every, counts.tolist())]
longest = max([sum(row) for row in every] + [0])
flat = torch.full((longest + most,), -1)
own = [x for t in tensors for x in t.tolist() + [-1]]
flat[:len(own)] = torch.tensor(own, dtype=torch.int64)
parts = [torch.empty_like(flat) for _ in range(world_size)]
dist.all_gather(parts, flat)
found = []
for part, row in zip(parts, every):
    current = []
    count = 0
    for x in part.tolist():
        if count == len(row):
            break
        if x == -1:
            found.append(torch.tensor(current, dtype=torch.int64)); current = []; count += 1
        else:
            current.append(x)
return found
""",
        "every -1 is gone",
    ),
    (
        "8.2",
        """
counts = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(counts, torch.tensor([len(tensors)]))
most = int(counts.max())
lengths = torch.zeros(most, dtype=torch.int64)
lengths[:len(tensors)] = torch.tensor([len(t) for t in tensors], dtype=torch.int64)
every = [torch.empty_like(lengths) for _ in range(world_size)]
dist.all_gather(every, lengths)
every = [row[:n].tolist() for row, n in zip(every, counts.tolist())]
longest = max([sum(row) for row in every] + [0])
flat = torch.zeros(longest, dtype=torch.int64)
own = torch.cat([torch.empty(0, dtype=torch.int64), *tensors])
flat[:len(own)] = own
parts = [torch.empty_like(flat) for _ in range(world_size)]
dist.all_gather(parts, flat)
return [part[:sum(row)] for row, part in zip(every, parts)]
""",
        "where each one ends is lost",
    ),
    (
        "8.2",
        """
counts = torch.empty(world_size, dtype=torch.int64)
dist.all_gather_single(counts, torch.tensor([len(tensors)]))
found = []
for i in range(int(counts.max())):
    parts = [torch.empty_like(tensors[i]) for _ in range(world_size)]
    dist.all_gather(parts, tensors[i])
    found += parts
return found
""",
        "Rank 1 failed, where there is nothing to send",
    ),
    (
        "8.2",
        "return [t for t in tensors] * world_size",
        "returned nothing but their own",
    ),
    (
        "8.2",
        """
parts = [torch.empty_like(t) for t in tensors]
for p, t in zip(parts, tensors):
    dist.all_gather([p] * world_size, t)
return parts
""",
        "Rank 1, with nothing to send, returned while the others waited:",
    ),
    (
        "8.2",
        "return concat.all_gather_list(tensors)[0:]  if rank == 0 else concat.all_gather_list(tensors)[::-1]",
        "another order",
    ),
    (
        "8.2",
        "return torch.cat(concat.all_gather_list(tensors))",
        "where a list",
    ),
]
