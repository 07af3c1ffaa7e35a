# ruff: noqa: E501
"""Answers to the exercises of lessons 9 and 10."""

NAMES = {"9.1": "gather_within(shard, budget)", "10.1": "predict(points, size)"}
IMPORTS = "from course_utils import concat\n"

PIECES = (
    "count = 2 * world_size\n"
    "pieces = shard.chunk(count)\n"
    "full = buffers = None\n"
    "if rank == 0:\n"
    "    full = shard.new_empty((world_size, *shard.shape))\n"
    "    slots = full.chunk(count, dim=1)\n"
    "    buffers = [torch.empty_like(pieces[0]) for _ in range(world_size)]\n"
    "for i, piece in enumerate(pieces):\n"
    "    cut = buffers and [b[:len(piece)] for b in buffers]\n"
    "    dist.gather(piece, cut)\n"
    "    if rank == 0:\n"
    "        for row, buffer in zip(slots[i], cut):\n"
    "            row.copy_(buffer)\n"
)
RIGHT_PIECES = PIECES + "return full.flatten(0, 1) if rank == 0 else None"
WHOLE = (
    "buffers = [torch.empty_like(shard) for _ in range(world_size)]\n"
    "dist.{way}\n"
    "return torch.cat(buffers) if rank == 0 else None"
)
STEPS = "steps = world_size - 1\n"
TWO = (
    "(s0, t0), (s1, t1) = points[0], points[-1]\n"
    "slope = (t1 - t0) / (s1 - s0)\n"
    "start = t0 - slope * s0\n"
)


RIGHT = [
    ("9.1", RIGHT_PIECES),
    ("9.1", "return concat.gather_cat(shard)"),
    (
        "9.1",
        "if rank:\n    dist.send(shard, 0)\n    return None\n"
        "full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))\n"
        "parts = full.chunk(world_size)\nparts[0].copy_(shard)\n"
        "for src in range(1, world_size):\n    dist.recv(parts[src], src)\n"
        "return full",
    ),
    ("10.1", TWO + "return round(1e6 * (start + slope * size))"),
    (
        "10.1",
        "data = torch.tensor(points, dtype=torch.float64)\n"
        "rows = torch.stack([torch.ones(len(data)), data[:, 0]], dim=1)\n"
        "line = torch.linalg.lstsq(rows, data[:, 1:]).solution.flatten()\n"
        "return round(1e6 * (line[0] + line[1] * size).item())",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
parts[0].copy_(shard)
works = [dist.irecv(parts[src], src) for src in range(1, world_size)]
for work in works:
    work.wait()
return full
""",
    ),
    (
        "9.1",
        """
full = None
if rank == 0:
    full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
    full[:len(shard)] = shard
    for src in range(1, world_size):
        dist.recv(full[src * len(shard):(src + 1) * len(shard)], src)
else:
    dist.send(shard, 0)
return full
""",
    ),
    (
        "10.1",
        """
import numpy
slope, start = numpy.polyfit(*zip(*points), 1)
return int(round(1e6 * (start + slope * size)))
""",
    ),
    (
        "10.1",
        """
n = len(points)
mx = sum(s for s, _ in points) / n
my = sum(t for _, t in points) / n
slope = sum((s - mx) * (t - my) for s, t in points) / sum((s - mx) ** 2 for s, _ in points)
return round((my + slope * (size - mx)) * 1e6)
""",
    ),
    (
        "10.1",
        """
steps = world_size - 1
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
alpha, B = start / steps, steps / slope
return round(steps * (alpha + size / B) * 1e6)
""",
    ),
]

WRONG = [
    (
        "9.1",
        "buffers = None\nif rank == 0:\n"
        "    buffers = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "dist.gather(shard, buffers)\n"
        "return torch.cat(buffers) if rank == 0 else None",
        "Rank 0 needed 8.0 shards beside the own one, and the budget is 6.",
    ),
    (
        "9.1",
        WHOLE.format(way="all_gather(buffers, shard)"),
        "Ranks 0–3 needed 8.0 shards beside the own one, and the budget is 6.",
    ),
    (
        "9.1",
        PIECES.replace("2 * world_size", "2") + "return full.flatten(0, 1) if rank == 0"
        " else None",
        "Rank 0 needed 8.0 shards beside the own one",
    ),
    (
        "9.1",
        "parts = [None] * world_size if rank == 0 else None\n"
        "dist.gather_object(shard, parts)\n"
        "return torch.cat(parts) if rank == 0 else None",
        "shards beside the own one, and the budget is 6.",
    ),
    ("9.1", "return concat.all_gather_cat(shard)", "Ranks 1–3 return something"),
    (
        "9.1",
        RIGHT_PIECES.replace("full.flatten(0, 1)", "full"),
        "has shape (4, 16384); the whole has shape (65536,)",
    ),
    (
        "9.1",  # all first pieces, then all second ones
        RIGHT_PIECES.replace("slots[i], cut", "slots[-1 - i], cut"),
        "with rows in wrong places",
    ),
    (
        "9.1",
        RIGHT_PIECES.replace(
            "    dist.gather", "    if i == 0 or rank == 0:\n        dist.gather"
        ),
        "Rank 0 waits in gather for ranks that do not call it as often",
    ),
    ("9.1", "if rank == 2:\n    os.kill(os.getpid(), 9)\n" + RIGHT_PIECES, "died"),
    ("10.1", TWO + "return start + slope * size", "is in seconds; asked for are whole"),
    (
        "10.1",
        TWO + "return 1e6 * (start + slope * size)",
        "asked for is a whole number, an int",
    ),
    ("10.1", TWO + "return round(1e6 * slope * size)", "leaves the latency out"),
    (
        "10.1",
        STEPS + TWO + "return round(1e6 * steps * (start + slope * size))",
        "fits one step and predicts W−1 of them",
    ),
    (
        "10.1",
        STEPS + TWO + "return round(1e6 * (start + slope * size) / steps)",
        "fits W−1 steps and predicts one",
    ),
    (
        "10.1",
        "s, t = points[-1]\nreturn round(1e6 * t * size / s)",
        "is the time of 1000000 bytes, scaled up",
    ),
    ("10.1", "return round(1e6 * points[-1][1])", "is one of the measured times"),
    ("10.1", TWO + "return rank + round(1e6 * (start + slope * size))", "different"),
    ("10.1", "while True:\n    pass", "ran until it was interrupted"),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = torch.empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
parts[0].copy_(shard)
for src in range(1, world_size):
    dist.recv(parts[src], src)
return full
""",
        "bytes and receives into",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
for src in range(1, world_size):
    dist.recv(parts[src], src)
return full
""",
        "The shard of rank 0, its own, is not in the result",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_zeros((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
for src in range(1, world_size):
    dist.recv(parts[src], src)
return full
""",
        "The shard of rank 0, its own, is not in the result",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
parts[0].copy_(shard)
for src in range(1, world_size):
    dist.recv(parts[-src], src)
return full
""",
        "rows in wrong places",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
parts[0].copy_(shard)
for src in range(1, world_size):
    dist.irecv(parts[src], src)
return full
""",
        "waits for the work that irecv return",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
parts[0].copy_(shard)
for src in range(world_size):
    dist.recv(parts[src], src)
return full
""",
        "named itself",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
full = shard.new_empty((world_size * len(shard), *shard.shape[1:]))
parts = full.chunk(world_size)
parts[0].copy_(shard)
for src in range(1, world_size):
    dist.recv(parts[src], src)
return full.float()
""",
        "is float32, where float64",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
    return None
parts = [shard]
for src in range(1, world_size):
    part = torch.empty_like(shard)
    dist.recv(part, src)
    parts.append(part)
return torch.cat(parts)
""",
        "shards beside the own one",
    ),
    (
        "9.1",
        """
if rank:
    dist.send(shard, 0)
full = concat.gather_cat(shard)
return full
""",
        "Rank 1 expects that rank 0 receives, but rank 0 waits in",
    ),
    (
        "9.1",
        """
full = concat.gather_cat(shard)
return full if rank == 0 else shard
""",
        "return something; expected is None",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return int(1e6 * (start + slope * size))
""",
        "cut off, as int() does",
    ),
    (
        "10.1",
        """
import math
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return math.floor(1e6 * (start + slope * size))
""",
        "cut off",
    ),
    (
        "10.1",
        """
(t0, s0), (t1, s1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return round(1e6 * (start + slope * size))
""",
        "Bytes and seconds have changed places",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return round(1e3 * (start + slope * size))
""",
        "is in milliseconds",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return round(1e6 * start)
""",
        "latency",
    ),
    (
        "10.1",
        "return round(1e6 * sum(t for _, t in points) / len(points))",
        "is the mean of the measured times",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return str(round(1e6 * (start + slope * size)))
""",
        "is text, where a whole number",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return torch.tensor(round(1e6 * (start + slope * size)))
""",
        "is a tensor of shape (), where a whole number",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
print(round(1e6 * (start + slope * size)))
""",
        "prints instead",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
if rank == 0:
    return round(1e6 * (start + slope * size))
""",
        "Only rank 0 returns",
    ),
    (
        "10.1",
        """
(s0, t0), (s1, t1) = points[0], points[-1]
slope = (t1 - t0) / (s1 - s0)
start = t0 - slope * s0
return round(1e6 * world_size * (start + slope * size))
""",
        "The result is 4 times the expected one; there are 4 ranks.",
    ),
]
