"""Answers to the exercises of lessons 1 to 3: whole functions."""

NAMES = {
    "1.1": "introduce()",
    "2.1": "bring_up(path)",
    "2.2": "pair_group()",
    "3.1": "gather_all(shard)",
    "3.2": "ring_all_gather(shard)",
}
IMPORTS = "import sys, time\n"


def gather(body: str, name: str = "gather_all") -> str:
    """Return a function of a shard, with rank and world size at hand."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        f"def {name}(shard):\n"
        "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
        f"    full = [torch.empty_like(shard) for _ in range(world_size)]\n{lines}\n"
    )


def ring(body: str) -> str:
    """Return a ring with its own shard in place, and `body` for every round."""
    rounds = "\n".join(f"    {line}" for line in body.splitlines())
    return gather(
        "full[rank].copy_(shard)\n"
        "after, before = (rank + 1) % world_size, (rank - 1) % world_size\n"
        f"for i in range(world_size - 1):\n{rounds}\nreturn full",
        "ring_all_gather",
    )


RANK = 'int(os.environ["RANK"])'
SIZE = 'int(os.environ["WORLD_SIZE"])'
BRING_UP = (
    "def bring_up(path):\n"
    '    dist.init_process_group("gloo", {})\n'
    "    return dist.get_rank(), dist.get_world_size()"
)
FILE = f'init_method=f"file://{{path}}", rank={RANK}, world_size={SIZE}'
PAIRS = (
    "def pair_group():\n"
    "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
    "    group = dist.new_group({})\n"
    "    return {}"
)
EVEN = "range(0, world_size, 2)"
PLACE = "(-1, 0) if rank % 2 else (dist.get_rank(group), dist.get_world_size(group))"
ALL = "dist.all_gather(full, shard)\n"
GATHER = gather(ALL + "return full")
SWAP = (
    "sent = dist.isend(full[(rank - i) % world_size], after)\n"
    "dist.recv(full[(rank - i - 1) % world_size], before)\n"
    "sent.wait()"
)


RIGHT = [
    ("1.1", f"def introduce():\n    return {RANK}, os.getpid()"),
    ("1.1", "introduce = lambda: (dist.get_rank(), os.getpid())"),
    ("2.1", BRING_UP.format(FILE)),
    (
        "2.1",
        BRING_UP.format(
            f"store=dist.FileStore(path, {SIZE}), rank={RANK}, world_size={SIZE}"
        ),
    ),
    ("2.2", PAIRS.format(f"list({EVEN})", PLACE)),
    ("2.2", PAIRS.format(f"ranks={EVEN}", PLACE)),
    ("3.1", gather(ALL + "return full")),
    (
        "3.1",
        gather(
            "full = shard.new_empty(world_size * shard.numel())\n"
            "dist.all_gather_single(full, shard.flatten())\n"
            "return [part.reshape(shard.shape) for part in full.chunk(world_size)]"
        ),
    ),
    ("3.2", ring(SWAP)),
    ("3.2", ring(SWAP).replace("full[rank].copy_(shard)", "full[rank] = shard")),
    (
        "3.2",
        ring(
            "send = dist.P2POp(dist.isend, full[(rank - i) % world_size], after)\n"
            "take = dist.P2POp(dist.irecv, full[(rank - i - 1) % world_size], before)\n"
            "for work in dist.batch_isend_irecv([send, take]):\n"
            "    work.wait()"
        ),
    ),
    (
        "3.2",
        ring(
            "def send():\n"
            "    dist.send(full[(rank - i) % world_size], after)\n"
            "if rank:\n"
            "    dist.recv(full[(rank - i - 1) % world_size], before)\n"
            "send()\n"
            "if not rank:\n"
            "    dist.recv(full[(rank - i - 1) % world_size], before)"
        ),
    ),
]

WRONG = [
    # 1.1
    ("1.1", "introduce = lambda: (0, 4242)", "Every rank says the same"),
    ("1.1", f"introduce = lambda: ({RANK}, os.getppid())", "not that of rank 0's"),
    (
        "1.1",
        f"introduce = lambda: ({RANK}, str(os.getpid()))",
        "item 1 is text, where a whole number",
    ),
    (
        "1.1",
        'introduce = lambda: (os.environ["RANK"], os.getpid())',
        "item 0 is text, where a whole number",
    ),
    ("1.1", f"introduce = lambda: (os.getpid(), {RANK})", "in the other order"),
    ("1.1", f"introduce = lambda: ({RANK} + 1, os.getpid())", "rank 0 calls itself 1"),
    ("1.1", f"introduce = lambda: {RANK}", "is a whole number, where a tuple of 2"),
    # 2.1
    ("2.1", BRING_UP.format(""), "not at the path"),
    ("2.1", BRING_UP.format('init_method="env://"'), "not at the path"),
    (
        "2.1",
        BRING_UP.format(FILE).replace("{path}", "{path}-mine"),
        None,  # the path is part of it: an answer as good as any
    ),
    (
        "2.1",
        f"def bring_up(path):\n    return {RANK}, {SIZE}",
        "No process group was initialised on ranks 0–3",
    ),
    (
        "2.1",
        "def bring_up(path):\n    return dist.get_rank(), dist.get_world_size()",
        "No process group was initialised on ranks 0–3",
    ),
    (
        "2.1",
        BRING_UP.format(FILE).replace("dist.get_rank(), dist.get_world_size()", "None"),
        "The function has no return with a result in it",
    ),
    (
        "2.1",
        BRING_UP.format(FILE).replace(
            "dist.get_rank(), dist.get_world_size()",
            "dist.get_world_size(), dist.get_rank()",
        ),
        "Rank and world size are in the other order",
    ),
    (
        "2.1",
        BRING_UP.format(FILE)
        .replace("    return", "    dist.destroy_process_group()\n    return")
        .replace("dist.get_rank(), dist.get_world_size()", f"{RANK}, {SIZE}"),
        "no process group is left after the call",
    ),
    # 2.2
    (
        "2.2",
        "def pair_group():\n"
        "    if dist.get_rank() % 2:\n"
        "        return -1, 0\n"
        "    group = dist.new_group(list(range(0, dist.get_world_size(), 2)))\n"
        "    return dist.get_rank(group), dist.get_world_size(group)",
        "Ranks 1, 3 never called new_group",
    ),
    ("2.2", PAIRS.format("range(world_size)", PLACE), "put ranks 1, 3 into the group"),
    ("2.2", PAIRS.format("", PLACE), "without naming its ranks"),
    (
        "2.2",
        PAIRS.format(f"list({EVEN})", PLACE.replace("get_rank(group)", "get_rank()")),
        "2 is the rank in the whole world",
    ),
    (
        "2.2",
        PAIRS.format(
            f"list({EVEN})", "dist.get_rank(group), dist.get_world_size(group)"
        ),
        "Rank 1 is not in the group and returned (-1, -1)",
    ),
    (
        "2.2",
        "def pair_group():\n"
        "    rank, size = dist.get_rank(), dist.get_world_size()\n"
        "    return (-1, 0) if rank % 2 else (rank // 2, (size + 1) // 2)",
        "No sub-group was made",
    ),
    (
        "2.2",
        PAIRS.format("[0, 2]", PLACE),
        "named rank 2, which a world of 2 does not have",
    ),
    # 3.1
    (
        "3.1",
        gather("full = [torch.empty_like(shard)] * world_size\n" + ALL + "return full"),
        "same buffer",
    ),
    ("3.1", gather(ALL + "return [full[1]] * world_size"), "same buffer"),
    ("3.1", gather(ALL + "full[rank] = shard\nreturn full"), "shares memory with the"),
    ("3.1", gather(ALL + "return torch.stack(full)"), "is a tensor of shape (4, 2)"),
    ("3.1", gather(ALL + "return full[::-1]"), "ranks 3, 2, 1, 0, in this order"),
    (
        "3.1",
        gather(ALL + "return full[rank:] + full[:rank]"),
        "starts with the rank's own shard",
    ),
    ("3.1", gather(ALL + "return full[:-1]"), "has 3 items; expected are 4"),
    ("3.1", gather("return [shard.clone() for _ in full]"), "is rank 0's shard"),
    (
        "3.1",
        gather("return [torch.zeros_like(t) for t in full]"),
        "nothing of ranks 0–3 is in the result: there are zeros",
    ),
    (
        "3.1",
        gather(
            "dist.gather(shard, full if rank == 0 else None)\n"
            "return full if rank == 0 else None"
        ),
        "Only rank 0 returns the result",
    ),
    (
        "3.1",
        gather(
            "full = [torch.zeros_like(shard) for _ in full]\n"
            "dist.gather(shard, full if rank == 0 else None)\nreturn full"
        ),
        "Only rank 0 has the right result",
    ),
    (
        "3.1",
        gather(ALL + "return full if rank != 2 else None"),
        "Rank 2 returned None: not every way",
    ),
    (
        "3.1",
        gather(ALL + "return [t.float() for t in full]"),
        "item 0 is float32, where int64",
    ),
    (
        "3.1",
        gather(ALL + "return [t.reshape(-1, 1) for t in full]"),
        "item 0 is (2, 1), where (2,)",
    ),
    (
        "3.1",
        gather(
            "full = [torch.empty(shard.shape, dtype=torch.int64) for _ in full]\n"
            + ALL
            + "return full"
        ),
        "a tensor to send of (2, 3) float32 and a list with one of (2, 3) int64",
    ),
    ("3.1", gather(ALL + "shard.zero_()\nreturn full"), "changed its input"),
    (
        "3.1",
        gather(
            "full = [torch.empty_like(shard) for _ in range(4)]\n" + ALL + "return full"
        ),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "3.1",
        "n = dist.get_world_size()\n"
        + gather(
            "full = [torch.empty_like(shard) for _ in range(n)]\n" + ALL + "return full"
        ),
        "reads the variable `n` of the ranks, which is 4, but this world has 3",
    ),
    (
        "3.1",
        gather(
            "full = [torch.empty(2 + (rank == 1), dtype=shard.dtype) for _ in full]\n"
            "dist.all_gather(full, full[0].clone())\nreturn full"
        ),
        "tensors of different shape: (2,) int64 on ranks 0, 2–3, (3,) int64 on rank 1",
    ),
    # 3.2
    (
        "3.2",
        gather(ALL + "return full", "ring_all_gather"),
        "calls all_gather; this exercise",
    ),
    (
        "3.2",
        "from torch.distributed import all_gather_object as innocent\n"
        + gather("innocent(full, shard)\nreturn full", "ring_all_gather"),
        "calls all_gather_object",
    ),
    (
        "3.2",
        ring(SWAP.replace("full[(rank - i) % world_size]", "shard")),
        "sent its own again, not the one it had received",
    ),
    (
        "3.2",
        ring(SWAP).replace("return full", "return full[:1] + full[1:][::-1]"),
        "Rank 0's list has every shard",
    ),
    (
        "3.2",
        ring(
            "new = torch.empty_like(shard)\n"
            "sent = dist.isend(last if i else shard, after)\n"
            "dist.recv(new, before)\n"
            "sent.wait()\n"
            "last = full[(rank + i + 1) % world_size] = new"
        ),
        "wrong direction round the ring",
    ),
    (
        "3.2",
        ring(
            "new = torch.empty_like(shard)\n"
            "sent = dist.isend(last if i else shard, after)\n"
            "dist.recv(new, before)\n"
            "sent.wait()\n"
            "last = new\n"
            "full[(rank - i - 2) % world_size] = new"
        ),
        "stored one place off",
    ),
    (
        "3.2",
        ring(
            SWAP.replace("after)", "BEFORE)")
            .replace("before)", "after)")
            .replace("BEFORE", "before")
            .replace("rank - i", "rank + i")
            .replace("- 1)", "+ 1)")
        ),
        "Rank 0 sends to rank 3; the next in the ring is 1",
    ),
    (
        "2.1",
        BRING_UP.format(FILE.replace(SIZE, "4")),
        "right on 4 ranks and wrong on 3",
    ),
    ("2.1", BRING_UP.format(FILE.replace(RANK, "0")), "Rank 1 joined as rank 0"),
    (
        "2.1",
        BRING_UP.format(FILE.replace(SIZE, f"{SIZE} + 1")),
        "The world to join has 4 ranks, not 5",
    ),
    (
        "3.1",
        gather(f"if rank == 0:\n    {ALL}return full"),
        "Line 9 stands under `if rank == 0:`, so ranks 1–3 never came to",
    ),
    (
        "3.1",
        gather(f"if rank == 2:\n    full[9]\n{ALL}return full"),
        "Rank 2 failed, and so ranks 0–1, 3 waited in all_gather in vain",
    ),
    (
        "3.2",
        ring(
            "dist.recv(full[(rank - i - 1) % world_size], before)\n"
            "dist.send(full[(rank - i) % world_size], after)"
        ),
        "Every rank receives first",
    ),
    (
        "3.2",
        ring(
            "dist.send(full[(rank - i) % world_size], after)\n"
            "dist.recv(full[(rank - i - 1) % world_size], before)"
        ),
        "Every rank sends first",
    ),
    (
        "3.1",
        gather("while rank == 1:\n    time.sleep(0.01)\n    rank = 1\n"),
        "Rank 1 never came to an end",
    ),
]
