# ruff: noqa: E501
"""Answers to the exercises of lessons 11 and 12."""

NAMES = {
    "11.1": "shard_gradient(shard, loss)",
    "11.2": "mean_gradient(weight, shard)",
    "12.1": "exact_accuracy(right, count)",
    "12.2": "confusion_of(labels, predicted, classes)",
}
IMPORTS = "from course_utils.concat import all_gather_cat, all_gather_list\n"

LEAF = "leaf = shard.clone().requires_grad_()\n"
PIECES = (
    "pieces = [torch.empty_like(shard) for _ in range(world_size)]\n"
    "dist.all_gather(pieces, shard)\n"
)
OWN = LEAF + PIECES + "pieces[rank] = leaf\n"
SENT = LEAF + "loss(all_gather_cat(leaf)).backward()\n"

WEIGHT = "leaf = weight.clone().requires_grad_()\n"
SQUARES = "((shard @ leaf) ** 2)"
ADDED = WEIGHT + f"{SQUARES}.sum().backward()\n"
COUNT = "rows = torch.tensor(len(shard))\n"
BOTH = "dist.all_reduce(leaf.grad)\ndist.all_reduce(rows)\n"
MEAN = ADDED + COUNT + BOTH + "return leaf.grad / rows"

NUMBERS = "numbers = rank + world_size * torch.arange(len(right))\n"
TOTAL = "total = right[numbers < count].sum()\n"
ACCURACY = NUMBERS + TOTAL + "dist.all_reduce(total)\nreturn total.item() / count"
FLAT = (
    "flat = torch.empty(world_size * len(right), dtype=torch.bool)\n"
    "dist.all_gather_single(flat, right)\n"
)
DEAL = "flat.view(world_size, -1).t().reshape(-1)"
NAIVE = (
    "counts = torch.tensor([right.sum(), len(right)])\n"
    "dist.all_reduce(counts)\n"
    "return counts[0].item() / counts[1].item()"
)
COUNTS = "counts = torch.bincount(classes * labels + predicted, minlength=classes**2)\n"
SQUARE = "return counts.view(classes, classes)"
CONFUSION = COUNTS + "dist.all_reduce(counts)\n" + SQUARE


RIGHT = [
    ("11.1", OWN + "loss(torch.cat(pieces)).backward()\nreturn leaf.grad"),
    ("11.1", SENT + "return leaf.grad / world_size"),
    (
        "11.1",
        LEAF + "(loss(all_gather_cat(leaf)) / world_size).backward()\nreturn leaf.grad",
    ),
    (
        "11.1",
        PIECES + "full = torch.cat(pieces).requires_grad_()\n"
        "loss(full).backward()\nreturn full.grad.chunk(world_size)[rank].clone()",
    ),
    ("11.2", MEAN),
    (
        "11.2",
        COUNT
        + "dist.all_reduce(rows)\n"
        + WEIGHT
        + f"({SQUARES}.sum() * world_size / rows).backward()\n"
        "dist.all_reduce(leaf.grad)\nreturn leaf.grad / world_size",
    ),
    (
        "11.2",
        WEIGHT + "full = all_gather_cat(shard)\n"
        "((full @ leaf) ** 2).mean().backward()\nreturn leaf.grad",
    ),
    ("12.1", ACCURACY),
    ("12.1", FLAT + f"return {DEAL}[:count].sum().item() / count"),
    (
        "12.1",  # an object from every rank
        "parts = [None] * world_size\n"
        "dist.all_gather_object(parts, right.tolist())\n"
        "every = [one for deal in zip(*parts) for one in deal]\n"
        "return sum(every[:count]) / count",
    ),
    ("12.2", CONFUSION),
    (
        "12.2",
        "matrix = torch.zeros(classes, classes, dtype=torch.int64)\n"
        "for i, j in zip(labels.tolist(), predicted.tolist()):\n"
        "    matrix[i, j] += 1\n"
        "dist.all_reduce(matrix)\nreturn matrix",
    ),
    (
        "12.2",
        "one = torch.nn.functional.one_hot\n"
        "matrix = one(labels, classes).t() @ one(predicted, classes)\n"
        "dist.all_reduce(matrix)\nreturn matrix",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
leaf = shard.clone().requires_grad_()
pieces[rank] = leaf
g, = torch.autograd.grad(loss(torch.cat(pieces)), leaf)
return g
""",
    ),
    (
        "11.1",
        """
full = all_gather_cat(shard).requires_grad_()
loss(full).backward()
n = len(shard)
return full.grad[rank * n:(rank + 1) * n].clone()
""",
    ),
    (
        "11.2",
        """
with torch.no_grad():
    total = 2 * (shard @ weight) @ shard
    rows = torch.tensor([len(shard)])
    dist.all_reduce(total)
    dist.all_reduce(rows)
    return total / rows
""",
    ),
    (
        "11.2",
        """
both = torch.cat([2 * (shard @ weight) @ shard, torch.tensor([float(len(shard))]).double()])
dist.all_reduce(both)
return both[:-1] / both[-1]
""",
    ),
    (
        "11.2",
        """
full = torch.cat(all_gather_list(shard))
w = weight.detach().clone().requires_grad_()
loss = ((full @ w) ** 2).mean()
return torch.autograd.grad(loss, w)[0]
""",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) * world_size + rank
total = (right & (n < count)).sum()
dist.all_reduce(total)
return (total / count).item()
""",
    ),
    (
        "12.1",
        """
valid = len(range(rank, count, world_size))
pair = torch.tensor([right[:valid].sum(), valid], dtype=torch.float64)
dist.all_reduce(pair)
return (pair[0] / pair[1]).item()
""",
    ),
    (
        "12.1",
        """
parts = all_gather_list(right)
every = torch.stack(parts, 1).flatten()[:count]
return every.double().mean().item()
""",
    ),
    (
        "12.2",
        """
matrix = torch.zeros(classes, classes, dtype=torch.int64)
matrix.index_put_((labels, predicted), torch.ones_like(labels), accumulate=True)
dist.all_reduce(matrix)
return matrix
""",
    ),
    (
        "12.2",
        """
matrix = torch.stack([torch.stack([((labels == i) & (predicted == j)).sum() for j in range(classes)]) for i in range(classes)])
dist.all_reduce(matrix)
return matrix
""",
    ),
    (
        "12.2",
        """
counts = torch.bincount(classes * labels + predicted, minlength=classes**2)
dist.reduce(counts, 0)
dist.broadcast(counts, 0)
return counts.reshape(classes, classes)
""",
    ),
]

WRONG = [
    (
        "11.1",
        SENT + "return leaf.grad",
        "The gradient is 4 times the right one: the losses of all 4 ranks sent theirs",
    ),
    (
        "11.1",
        OWN + "loss(torch.cat(pieces)).backward()\nreturn leaf.grad / world_size",
        "a quarter of the right one: it was divided by the number of ranks once too",
    ),
    (
        "11.1",
        PIECES + LEAF + "loss(torch.cat(pieces)).backward()\nreturn leaf.grad",
        "has no history: gathered buffers lead back to no shard",
    ),
    (
        "11.1",
        LEAF + "loss(leaf).backward()\nreturn leaf.grad",
        "a loss over the rank's own shard alone",
    ),
    (
        "11.1",
        PIECES + "full = torch.cat(pieces).requires_grad_()\n"
        "loss(full).backward()\nreturn full.grad",
        "returns the gradient of the full tensor",
    ),
    (
        "11.1",
        SENT.replace("loss(all_gather_cat(leaf))", "(0 * loss(all_gather_cat(leaf)))")
        + "return leaf.grad",
        "all zeros",
    ),
    ("11.1", SENT + "return leaf.grad / 4", "right on 4 ranks and wrong on 2"),
    (
        "11.1",
        OWN + "loss(torch.cat(pieces)).backward()\n"
        "return leaf.grad if rank == 0 else None",
        "Only rank 0 returns",
    ),
    (
        "11.1",
        OWN + "loss(torch.cat(pieces)).backward()\nshard -= leaf.grad\n"
        "return leaf.grad",
        "changed its input",
    ),
    (
        "11.2",
        WEIGHT + f"{SQUARES}.mean().backward()\n"
        "dist.all_reduce(leaf.grad)\nreturn leaf.grad / world_size",
        "the mean of the ranks' means",
    ),
    (
        "11.2",
        WEIGHT + f"({SQUARES}.sum() / max(len(shard), 1)).backward()\n"
        "dist.all_reduce(leaf.grad)\nreturn leaf.grad / world_size",
        "the mean of the ranks' means",
    ),
    (
        "11.2",
        ADDED + "dist.all_reduce(leaf.grad)\nreturn leaf.grad",
        "the sum over all 8 rows, undivided",
    ),
    (
        "11.2",
        ADDED + "dist.all_reduce(leaf.grad)\nreturn leaf.grad / world_size",
        "is divided by 4, the number of ranks; there are 8 rows",
    ),
    (
        "11.2",
        ADDED + COUNT + "dist.all_reduce(rows)\nreturn leaf.grad / rows",
        "the shares are not added up",
    ),
    (
        "11.2",
        WEIGHT + f"({SQUARES}.sum() / max(len(shard), 1)).backward()\nreturn leaf.grad",
        "Each rank has the gradient of its own mean",
    ),
    ("11.2", MEAN + " / world_size", "a quarter of the right one"),
    ("11.2", MEAN + " * world_size", "4 times the right one"),
    ("12.1", NAIVE, "12 samples are counted where the data set has 9: the padding"),
    (
        "12.1",
        FLAT + "return flat[:count].sum().item() / count",
        "The last 3 in rank order are cut off, and these are not the padding",
    ),
    ("12.1", "return right.float().mean().item()", "the accuracy of its own shard"),
    (
        "12.1",
        "total = right.sum()\ndist.all_reduce(total)\nreturn total.item() / count",
        "The right ones of the padding are counted, too",
    ),
    (
        "12.1",
        FLAT + f"return {DEAL}[:count].sum().item()",
        "the number of right samples, not their share",
    ),
    (
        "12.1",
        FLAT + f"return {DEAL}[:count].float().mean()",
        "the result is a tensor of shape (), where a float is expected",
    ),
    (
        "12.1",
        ACCURACY.replace("all_reduce(total)", "reduce(total, 0)")
        + " if rank == 0 else None",
        "Only rank 0 returns the result",
    ),
    (
        "12.1",
        FLAT + f"return {DEAL}[:count].sum().item() / count".replace("world_size", "4"),
        "right on 4 ranks and wrong on 3",
    ),
    ("12.2", COUNTS + SQUARE, "the matrix of its own samples"),
    ("12.2", CONFUSION + ".t().contiguous()", "Rows and columns have changed places"),
    (
        "12.2",
        CONFUSION.replace(", minlength=classes**2", ""),
        "The ranks reduce tensors of different lengths",
    ),
    (
        "12.2",
        "labels, predicted = all_gather_cat(labels), all_gather_cat(predicted)\n"
        + COUNTS
        + SQUARE,
        "this exercise is about doing without gathering",
    ),
    (
        "12.2",
        CONFUSION.replace("counts.view", "counts.float().view"),
        "the result is float32, where int64",
    ),
    (
        "12.2",
        CONFUSION + " * world_size",
        "Each sample is counted once for every rank",
    ),
    (
        "12.2",
        CONFUSION.replace(SQUARE, "return counts"),
        "the result is (9,), where (3, 3)",
    ),
    (
        "11.1",
        "if rank == 0:\n    parts = [torch.empty_like(shard)] * 1\n"
        "    dist.barrier()\nreturn shard",
        "Line 9 stands under `if rank == 0:`, so ranks 1–3 never came to barrier",
    ),
    (
        "11.1",
        LEAF + "full = loss(all_gather_cat(leaf))\n"
        "if rank:\n    full.backward()\nreturn leaf.grad",
        "Line 10 stands under `if rank:`, so rank 0 never came to backward",
    ),
    (
        "11.2",
        "if not len(shard):\n    return torch.zeros_like(weight)\n" + MEAN,
        "Rank 1 returned before all_reduce",
    ),
    (
        "12.1",
        "if rank == world_size - 1:\n    return right.float().mean().item()\n"
        + ACCURACY,
        "Rank 3 returned before all_reduce",
    ),
    (
        "12.2",
        "if not len(labels):\n"
        "    return torch.zeros(classes, classes, dtype=torch.int64)\n" + CONFUSION,
        "Rank 3, without samples, returned while the others waited",
    ),
    (
        "11.1",
        """
shard.requires_grad_()
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard.detach())
pieces[rank] = shard
loss(torch.cat(pieces)).backward()
return shard.grad
""",
        "left a gradient in `.grad` of its input",
    ),
    (
        "11.1",
        """
shard.requires_grad_()
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard.detach())
pieces[rank] = shard
return torch.autograd.grad(loss(torch.cat(pieces)), shard)[0]
""",
        "turned on `requires_grad` of its input",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
leaf = shard.clone().requires_grad_()
moved = leaf * 1
pieces[rank] = moved
loss(torch.cat(pieces)).backward()
return moved.grad
""",
        "`.grad` is None",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
pieces[rank] = shard
loss(torch.cat(pieces)).backward()
return shard.grad
""",
        "Nothing requires a gradient",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
leaf = shard.clone().requires_grad_()
pieces[rank] = leaf
return loss(torch.cat(pieces)).backward()
""",
        "backward itself returns None: it fills `.grad` of the leaves.",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
leaf = shard.clone().requires_grad_()
pieces[rank] = leaf
return loss(torch.cat(pieces))
""",
        "where",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
leaf = shard.clone().requires_grad_()
pieces[rank] = leaf
loss(torch.cat(pieces)).backward()
dist.all_reduce(leaf.grad)
return leaf.grad
""",
        "The gradients of different shards are added up; each rank keeps",
    ),
    (
        "11.1",
        """
pieces = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(pieces, shard)
leaf = shard.clone().requires_grad_()
pieces[0] = leaf
loss(torch.cat(pieces)).backward()
return leaf.grad
""",
        "Only rank 0 has the right result; every rank must have it.",
    ),
    (
        "11.1",
        """
world_size = dist.get_world_size()
rank = dist.get_rank()
def plain(part):
    pieces = [torch.empty_like(part) for _ in range(world_size)]
    dist.all_gather(pieces, part.detach())
    return torch.cat(pieces)
def own_piece(part):
    pieces = list(plain(part).chunk(world_size))
    pieces[rank] = part
    return torch.cat(pieces)
def shard_gradient(shard, loss):
    leaf = shard.clone().requires_grad_()
    loss(own_piece(leaf)).backward()
    return leaf.grad
""",
        "`own_piece`, which the function calls, reads the variable `world_size` of the ranks, which is 4",
    ),
    (
        "11.2",
        """
weight.requires_grad_()
full = all_gather_cat(shard)
((full @ weight) ** 2).mean().backward()
return weight.grad
""",
        "left a gradient in `.grad` of its input",
    ),
    (
        "11.2",
        """
full = all_gather_cat(shard)
((full @ weight) ** 2).mean().backward()
return weight.grad
""",
        "Nothing requires a gradient",
    ),
    (
        "11.2",
        """
leaf = weight.clone().requires_grad_()
((shard @ leaf) ** 2).sum().backward()
dist.all_reduce(leaf.grad)
return leaf.grad / max(len(shard), 1)
""",
        "Each rank divides the sum by the number of its own rows; there are",
    ),
    (
        "11.2",
        """
leaf = weight.clone().requires_grad_()
((shard @ leaf) ** 2).sum().backward()
rows = len(shard)
dist.all_reduce(rows)
return leaf.grad / rows
""",
        "passed an int as tensor",
    ),
    (
        "11.2",
        """
leaf = weight.clone().requires_grad_()
((shard @ leaf) ** 2).sum().backward()
rows = torch.tensor(len(shard))
dist.all_reduce(rows)
dist.all_reduce(leaf.grad)
return rows / leaf.grad
""",
        "No known cause fits",
    ),
    (
        "11.2",
        """
leaf = weight.clone().requires_grad_()
out = shard @ leaf
out.sum().backward()
rows = torch.tensor(len(shard))
dist.all_reduce(rows)
dist.all_reduce(leaf.grad)
return leaf.grad / rows
""",
        "That is the gradient of the mean of shard @ weight, without the",
    ),
    (
        "11.2",
        """
leaf = weight.clone().requires_grad_()
((shard @ leaf) ** 2).sum().backward()
rows = torch.tensor(len(shard))
dist.all_reduce(rows)
return dist.all_reduce(leaf.grad)
""",
        "all_reduce itself returns None",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) * world_size + rank
total = right[n < count].sum()
dist.all_reduce(total)
return total.item() // count
""",
        "On rank 0 the result is a whole number, where a float is",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) + rank * len(right)
total = right[n < count].sum()
dist.all_reduce(total)
return total.item() / count
""",
        "The last 3 in rank order are cut off, and these are not the",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) * world_size + rank
total = right[n < count].sum()
return total.item() / count
""",
        "Each rank counts its own samples only: nothing is added up over",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) * world_size + rank
total = right[n < count].sum()
return dist.all_reduce(total)
""",
        "all_reduce itself returns None",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) * world_size + rank
own = right[n < count].double().mean()
dist.all_reduce(own)
return own.item() / world_size
""",
        "That is the mean of the ranks' accuracies: a rank with fewer",
    ),
    (
        "12.1",
        """
own = right.double().mean()
dist.all_reduce(own)
return own.item() / world_size
""",
        "12 samples are counted where the data set has 9: the padding is",
    ),
    (
        "12.1",
        """
n = torch.arange(len(right)) * world_size + rank
total = right[n <= count].sum()
dist.all_reduce(total)
return total.item() / count
""",
        "Padding is counted: the numbers of the samples go up to 8.",
    ),
    (
        "12.1",
        """
dist.all_reduce(right)
return right.sum().item() / count
""",
        "On ranks 0, 3 the function changed its input.",
    ),
    (
        "12.2",
        """
matrix = torch.zeros(classes, classes, dtype=torch.int64)
matrix[labels, predicted] += 1
dist.all_reduce(matrix)
return matrix
""",
        "is counted once",
    ),
    (
        "12.2",
        """
counts = torch.bincount(classes * labels + predicted, minlength=classes**2)
return dist.all_reduce(counts)
""",
        "all_reduce itself returns None",
    ),
    (
        "12.2",
        """
matrix = torch.zeros(classes, classes)
for i, j in zip(labels, predicted):
    matrix[i, j] += 1
dist.all_reduce(matrix)
return matrix
""",
        "is float32, where int64",
    ),
    (
        "12.2",
        """
counts = torch.bincount(classes * labels + predicted, minlength=classes**2)
dist.reduce(counts, 0)
return counts.view(classes, classes)
""",
        "Only rank 0 has the right result; every rank must have it.",
    ),
    (
        "12.2",
        """
counts = torch.bincount(classes * labels + predicted, minlength=classes**2)
work = dist.all_reduce(counts, async_op=True)
return counts.view(classes, classes)
""",
        "never waits for the work that all_reduce returned",
    ),
    (
        "12.2",
        """
counts = torch.bincount(classes * labels + predicted, minlength=classes**2)
dist.all_reduce(counts, op=dist.ReduceOp.MAX)
return counts.view(classes, classes)
""",
        "Of the ranks' matrices the largest entries are taken, not the",
    ),
    (
        "12.2",
        """
counts = torch.bincount(classes * labels + predicted, minlength=classes**2)
dist.all_reduce(counts)
return counts.view(classes, classes).tolist()
""",
        "where a tensor",
    ),
]
