# ruff: noqa: E501
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


LEAVE = "dist.barrier()\n    dist.destroy_process_group()"  # once all are up
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
    (
        "2.1",
        BRING_UP.format(FILE).replace("{path}", "{path}-mine"),
    ),
    (
        "1.1",
        "return [rank, os.getpid()]",
    ),
    (
        "1.1",
        """
import multiprocessing
return rank, multiprocessing.current_process().pid
""",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group(backend="gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank(), dist.get_world_size()
""",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", store=dist.PrefixStore("x", dist.FileStore(path, int(os.environ["WORLD_SIZE"]))), rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank(), dist.get_world_size()
""",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    evens = [r for r in range(world_size) if r % 2 == 0]
    odds = [r for r in range(world_size) if r % 2]
    groups = [dist.new_group(evens)]
    if odds:
        groups.append(dist.new_group(odds))
    if rank % 2:
        return -1, 0
    return dist.get_rank(groups[0]), dist.get_world_size(groups[0])
""",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    lists = [list(range(0, world_size, 2)), list(range(1, world_size, 2))]
    mine, _ = dist.new_subgroups_by_enumeration([ranks for ranks in lists if ranks])
    if rank % 2:
        return -1, 0
    return mine.rank(), mine.size()
""",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    evens = list(range(0, world_size, 2))
    group = dist.new_group(evens, use_local_synchronization=True)
    return (-1, 0) if rank not in evens else (evens.index(rank), len(evens))
""",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(0, world_size, 2))
    place = dist.get_rank(group), dist.get_world_size(group)
    dist.barrier()  # else it could go while another rank is still making it
    if rank % 2 == 0:
        dist.destroy_process_group(group)
        return place
    return -1, 0
""",
    ),
    (
        "3.1",
        """
full = shard.new_empty(world_size, *shard.shape)
buffers = list(full.unbind())
dist.all_gather(buffers, shard)
return buffers
""",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
work = dist.all_gather(full, shard, async_op=True)
work.wait()
return full
""",
    ),
    (
        "3.1",
        """
full = [None] * world_size
dist.all_gather_object(full, shard)
return full
""",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
for src in range(world_size):
    if src == rank:
        full[src].copy_(shard)
    full[src] = full[src].contiguous()
    dist.broadcast(full[src], src)
return full
""",
    ),
    (
        "3.1",
        """
from course_utils.concat import all_gather_list
return all_gather_list(shard)
""",
    ),
    (
        "3.2",
        """
parts = [None] * world_size
parts[rank] = last = shard.clone()
for step in range(1, world_size):
    new = torch.empty_like(shard)
    ops = [dist.P2POp(dist.isend, last, (rank + 1) % world_size), dist.P2POp(dist.irecv, new, (rank - 1) % world_size)]
    [work.wait() for work in dist.batch_isend_irecv(ops)]
    parts[(rank - step) % world_size] = last = new
return parts
""",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(world_size - 1):
    s, r = (rank - i) % world_size, (rank - i - 1) % world_size
    take = dist.irecv(full[r], (rank - 1) % world_size)
    dist.send(full[s], (rank + 1) % world_size)
    take.wait()
return full
""",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size):
    works = [dist.isend(full[(rank - i + 1) % world_size], (rank + 1) % world_size),
             dist.irecv(full[(rank - i) % world_size], (rank - 1) % world_size)]
    for work in works:
        work.wait()
return full
""",
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
        .replace("    return", f"    {LEAVE}\n    return")
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
    (
        "3.1",
        gather("return [shard.clone() for _ in full]"),
        "Ranks 0–3 returned nothing but their own",
    ),
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
    ("2.1", BRING_UP.format(FILE.replace(RANK, "0")), "joined as rank 0"),
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
    (
        "1.1",
        "print(rank, os.getpid())",
        "has no return with a result in it, and prints instead",
    ),
    (
        "1.1",
        'return rank, int(os.environ["WORLD_SIZE"])',
        "The second number is the number of ranks, not a process id",
    ),
    (
        "1.1",
        'return os.environ["RANK"], os.environ["WORLD_SIZE"]',
        "item 0 is text, where a whole number",
    ),
    (
        "1.1",
        "return rank, rank",
        "The rank stands there twice",
    ),
    (
        "1.1",
        "return rank, os.getpid(), world_size",
        "has 3 items; expected are 2",
    ),
    (
        "1.1",
        'return {"rank": rank, "pid": os.getpid()}',
        "is a dict, where a tuple of 2",
    ),
    (
        "1.1",
        'return f"{rank} {os.getpid()}"',
        "is text, where a tuple of 2",
    ),
    (
        "1.1",
        "return rank, os.getpid",
        "where a whole number is expected",
    ),
    (
        "1.1",
        """
if rank == 0:
    return rank, os.getpid()
""",
        "Only rank 0 returns the result",
    ),
    (
        "1.1",
        """
def introduce():
    return sistem.getpid()
""",
        "know nothing called sistem: run the imports again",
    ),
    (
        "1.1",
        "return float(rank), os.getpid()",
        "item 0 is a float, where a whole number",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", store=dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"]), os.environ["RANK"] == "0"), rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank(), dist.get_world_size()
""",
        "The ranks met in a TCPStore, and the path was not used",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=os.environ["RANK"], world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank(), dist.get_world_size()
""",
        "passed rank='0', which is text",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]), world_size=os.environ["WORLD_SIZE"])
    return dist.get_rank(), dist.get_world_size()
""",
        "passed world_size='4', which is text",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank(), dist.get_world_size()
""",
        "met at another place than the path",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"file://{path}")
    return dist.get_rank(), dist.get_world_size()
""",
        "rank parameter missing",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=path, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank(), dist.get_world_size()
""",
        "No rendezvous handler",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return rank, world_size
""",
        "know nothing called rank",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return dist.get_rank()
""",
        "is a whole number, where a tuple of 2",
    ),
    (
        "2.1",
        """
def bring_up(path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return os.environ['RANK'], os.environ['WORLD_SIZE']
""",
        "item 0 is text",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 0:
        return rank // 2, (world_size + 1) // 2
    return -1, 0
""",
        "No sub-group was made",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(1, world_size, 2))
    return (-1, 0) if rank % 2 else (dist.get_rank(group), dist.get_world_size(group))
""",
        "into the group of even ranks",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(0, world_size, 2))
    return (-1, 0) if rank % 2 else (rank, world_size)
""",
        "is the size of the whole world",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(0, world_size, 2))
    if rank % 2 == 0:
        return dist.get_rank(group), dist.get_world_size(group)
""",
        "Ranks 1, 3 returned None",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(0, world_size, 2))
    return (0, -1) if rank % 2 else (dist.get_rank(group), dist.get_world_size(group))
""",
        "Rank 1 is not in the group and returned (0, -1)",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(0, world_size // 2))
    return (-1, 0) if rank % 2 else (dist.get_rank(group), dist.get_world_size(group))
""",
        "of even ranks",
    ),
    (
        "2.2",
        """
def pair_group():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(0, world_size, 2))
    return (-1, 0) if rank % 2 else (dist.get_world_size(group), dist.get_rank(group))
""",
        "in the other order",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
return dist.all_gather(full, shard)
""",
        "all_gather itself returns None: it fills the list that it gets",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full = dist.all_gather(full, shard)
return full
""",
        "all_gather itself returns None",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full = dist.all_gather(full, shard)
return list(full)
""",
        "all_gather returns None, and so `full` is None",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(full, shard, async_op=True)
return full
""",
        "never waits for the work that all_gather returned",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(shard, full)
return full
""",
        "list and tensor the wrong way round",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard, dtype=torch.float32) for _ in range(world_size)]
dist.all_gather(full, shard)
return full
""",
        "a tensor to send of (2,) int64 and a list with one of (2,) float32",
    ),
    (
        "3.1",
        """
full = []
dist.all_gather(full, shard)
return full
""",
        "must have one tensor for each of the 4 ranks, and has 0",
    ),
    (
        "3.1",
        """
full = [None] * world_size
dist.all_gather(full, shard)
return full
""",
        "passed None at index 0",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(full, shard)
return torch.cat(full)
""",
        "is a tensor of shape (8,), where a list of 4",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(full, shard)
""",
        "has no return with a result in it",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.gather(shard, full if rank == 0 else None)
return full
""",
        "Only rank 0 has the right result",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(full, shard)
full[rank] = full[rank] * 0
return full
""",
        "its own part is missing from the result: there are zeros",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(full, shard)
return [t + 0.0 for t in full]
""",
        "is float32, where int64",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
shard.requires_grad_() if shard.is_floating_point() else None
dist.all_gather(full, shard.detach())
return full
""",
        "turned on `requires_grad` of its input",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
buffers = [torch.empty_like(shard)] * world_size
dist.all_gather(buffers, shard)
return full
""",
        "same buffer several times",
    ),
    (
        "3.1",
        """
full = [torch.empty(2, dtype=shard.dtype) for _ in range(world_size)]
dist.all_gather(full, shard)
return full
""",
        "(2, 3) float32 and a list with one of (2,) float32",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
dist.all_gather(full, shard)
return tuple(t.tolist() for t in full)
""",
        "is a list of 2, where a tensor",
    ),
    (
        "3.1",
        """
def gather_all(shard):
    full = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dits.all_gather(full, shard)
    return full
""",
        "know nothing called dits",
    ),
    (
        "3.1",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
for r in range(world_size):
    dist.broadcast(full[r], r)
return full
""",
        "is in the result",
    ),
    (
        "3.2",
        """
if world_size == 1:
    return None
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size):
    w = dist.isend(full[(rank - i + 1) % world_size], (rank + 1) % world_size)
    dist.recv(full[(rank - i) % world_size], (rank - 1) % world_size)
    w.wait()
return full
""",
        "a world of 1 rank",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size + 1):
    w = dist.isend(full[(rank - i + 1) % world_size], (rank + 1) % world_size)
    dist.recv(full[(rank - i) % world_size], (rank - 1) % world_size)
    w.wait()
return full
""",
        "sends 4 times; in a ring of 4 all shards are everywhere after 3 rounds",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size):
    dist.isend(full[(rank - i + 1) % world_size], (rank + 1) % world_size)
    dist.recv(full[(rank - i) % world_size], (rank - 1) % world_size)
return full
""",
        "waits for the work that isend return",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size):
    w = dist.isend(full[(rank - i + 1) % world_size], (rank + 1) % world_size)
    r = dist.irecv(full[(rank - i) % world_size], (rank - 1) % world_size)
    w.wait()
return full
""",
        "waits for the work that irecv return",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size - 1):
    w = dist.isend(full[(rank - i + 1) % world_size], (rank + 1) % world_size)
    dist.recv(full[(rank - i) % world_size], (rank - 1) % world_size)
    w.wait()
return full
""",
        "nothing of rank 1 is in the result",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
for i in range(1, world_size):
    w = dist.isend(shard if i == 1 else full[(rank - i + 1) % world_size], (rank + 1) % world_size)
    dist.recv(full[(rank - i) % world_size], (rank - 1) % world_size)
    w.wait()
full[rank].zero_()
return full
""",
        "its own part is missing from the result: there are zeros",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for i in range(1, world_size):
    w = dist.isend(full[(rank - i + 1) % world_size], rank + 1)
    dist.recv(full[(rank - i) % world_size], (rank - 1) % world_size)
    w.wait()
return full
""",
        "named dst=4",
    ),
    (
        "3.2",
        """
full = [torch.empty_like(shard) for _ in range(world_size)]
full[rank].copy_(shard)
for peer in range(world_size):
    if peer != rank:
        w = dist.isend(shard, peer)
        dist.recv(full[peer], peer)
        w.wait()
return full
""",
        "the one before it in the ring is",
    ),
]
