"""`course_utils.concat` in scripts: memory, debug levels and compiled code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import worlds

START = """
import json
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from course_utils import concat

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, world_size = dist.get_rank(), dist.get_world_size()
seen = {}


def said(call):
    '''Return the error of a call; "" where there is none.'''
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


"""
END = """
with open(f"rank-{rank}.json", "w") as file:
    json.dump(seen, file)
dist.barrier()
dist.destroy_process_group()
"""


def run(folder: Path, size: int, script: str, **env: str) -> list[dict]:
    """Run a script under torchrun; return what each rank has seen."""
    (folder / "script.py").write_text(START + script + END)
    env = worlds.environment(folder, OMP_NUM_THREADS="1", **env)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    try:
        done = subprocess.run(
            [*torchrun, f"--nproc-per-node={size}", "script.py"],
            cwd=folder,
            env=env,
            timeout=worlds.LIMIT,
            capture_output=True,
            text=True,
        )
    finally:
        worlds.end(env[worlds.MARK])
    assert done.returncode == 0, done.stderr[-3000:]
    assert "recompile_limit" not in done.stderr
    return [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(size)]


MEMORY = """
import resource

MIB = 2**20
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def attempt(name, ranks, more, call):
    '''Make a call while some ranks may take only `more` MiB.'''
    concat.all_gather_cat(torch.ones(1))
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    if rank in ranks:
        resource.setrlimit(resource.RLIMIT_AS, (taken + more * MIB, NO_LIMIT[1]))
    begun = time.monotonic()
    try:
        text = said(call)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, NO_LIMIT)
    seen[name] = (text, time.monotonic() - begun)
    assert concat.all_gather_cat(torch.ones(1)).numel() == 2


def backward(shard, call):
    '''Return a call of the backward pass; its forward pass has memory enough.'''
    full = call(shard.requires_grad_())
    grad = torch.ones_like(full)
    return lambda: full.backward(grad)


shard = torch.ones(40 * MIB)  # 160 MiB
wide = shard.view(2, -1)
first = lambda tensor: tensor if rank == 0 else None
attempt("root", [0], 150, lambda: concat.gather_cat(shard))
attempt("one", [1], 150, lambda: concat.all_gather_cat(shard))
attempt("all", [0, 1], 150, lambda: concat.all_gather_cat(shard))
attempt("columns", [0], 450, lambda: concat.gather_cat(wide, dim=1))
attempt("copy", [1], 100, lambda: concat.gather_cat(wide.t()))
attempt("told", [1], 100, lambda: concat.broadcast_tensor(first(shard)))
attempt("chunk", [1], 50, lambda: concat.scatter_chunks(first(shard)))
attempt("chunks", [0], 50, lambda: concat.scatter_chunks(first(wide), dim=1))
attempt("list", [1], 100, lambda: concat.all_gather_list([shard]))
attempt("listed", [0], 200, lambda: concat.gather_list([shard]))
attempt("little", [0], 12, lambda: concat.all_gather_cat(torch.ones(3)))
leaf = lambda: torch.ones(25 * MIB)  # 100 MiB
attempt("back 1", [0], 50, backward(leaf(), concat.all_gather_cat))
attempt("back 2", [1], 50, backward(leaf(), concat.gather_cat))
attempt("back 3", [0], 50, backward(leaf(), concat.broadcast_tensor))
attempt("back 4", [0], 50, backward(leaf(), concat.scatter_chunks))
"""
SHORT = {  # who lacks the memory
    "root": "rank 0",
    "one": "rank 1",
    "all": "ranks 0–1",
    "columns": "rank 0",
    "copy": "rank 1",
    "told": "rank 1",
    "chunk": "rank 1",
    "chunks": "rank 0",
    "list": "rank 1",
    "listed": "rank 0",
    "back 1": "rank 0",
    "back 2": "rank 1",
    "back 3": "rank 0",
    "back 4": "rank 0",
}


@pytest.mark.soak  # it fills its memory first
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_who_has_not_the_memory_is_told_to_all_at_once(tmp_path):
    left, right = run(tmp_path, 2, MEMORY)
    assert left.pop("little")[0] == right.pop("little")[0] == ""
    assert left.keys() == SHORT.keys()
    for name, who in SHORT.items():
        (text, seconds), (other, more) = left[name], right[name]
        assert text == other, name
        assert f"{who} cannot get the memory for this call" in text, (name, text)
        assert "join smaller pieces" in text and max(seconds, more) < 10


COUNTED = """
pair = dist.new_group([0, 2])
x = torch.arange(2.0 * rank).reshape(rank, 2)  # rank 0 holds no row


def even():
    '''Use collectives of torch, which compare how much the ranks have sent.'''
    dist.barrier()
    total = torch.ones(1)
    dist.all_reduce(total)
    dist.all_gather_object([None] * world_size, rank)
    if rank != 1:
        dist.all_reduce(total, group=pair)
    return total.item() == (3 if rank == 1 else 6)


def good(name, right):
    seen[name] = bool(right) and even()


def summed(call):
    leaf = torch.ones(5, requires_grad=True)
    found = call(leaf)
    sum(t.sum() for t in (found if isinstance(found, list) else [found])).backward()
    return leaf.grad if leaf.grad is None else leaf.grad.sum().item()


def both(name, call):
    '''Compare a call in the world and in the group of two with one process.'''
    for group, members in ((None, [0, 1, 2]), (pair, [0, 2])):
        rows = [torch.arange(2.0 * r).reshape(r, 2) for r in members]
        right = rank not in members or call(group, torch.cat(rows), len(members))
        good(f"{name} of {len(members)}", right)


c = concat
both("all", lambda g, full, n: torch.equal(c.all_gather_cat(x, 0, g), full))
both("columns", lambda g, full, n: torch.equal(c.all_gather_cat(x.t(), 1, g), full.t()))
both("none", lambda g, full, n: c.all_gather_cat(x[:0], 0, g).shape == (0, 2))
both("root", lambda g, full, n: (c.gather_cat(x, 2, 0, g) is None) == (rank != 2))
both("told", lambda g, full, n: torch.equal(c.broadcast_tensor(full, 2, g), full))
both("chunk", lambda g, full, n: len(c.scatter_chunks(full.t(), 0, 1, g)) == 2)
both("list", lambda g, full, n: len(c.all_gather_list([x, x[0:0]], g)) == 2 * n)
both("listed", lambda g, full, n: (c.gather_list([x], 0, g) is None) == (rank != 0))
both("grad", lambda g, full, n: summed(lambda t: c.all_gather_cat(t, 0, g)) == 5 * n)
both("grads", lambda g, full, n: summed(lambda t: c.all_gather_list([t], g)) == 5 * n)
both("part", lambda g, full, n: summed(lambda t: c.gather_cat(t, 0, 0, g)) == 5)
both("error", lambda g, full, n: said(lambda: c.gather_cat(x if rank else 0, 0, 0, g)))
both("roots", lambda g, full, n: said(lambda: c.gather_cat(x, rank, 0, g)))
"""


@pytest.mark.soak
def test_the_debug_level_makes_no_difference(tmp_path):
    for seen in run(tmp_path, 3, COUNTED, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        assert len(seen) == 26
        assert [name for name, right in seen.items() if not right] == []


COMPILED = """
seen["loaded"] = "torch._dynamo" in sys.modules


def joined(x):
    full = concat.all_gather_cat(x * 2)
    return full.sum() + full[-1]


def all_ways(x):
    told = concat.broadcast_tensor(x if rank == 0 else None)
    some = concat.all_gather_list([concat.scatter_chunks(told), x])
    return told.sum() + sum(t.sum() for t in some), concat.gather_cat(x)


fast, ways = (torch.compile(f, backend="aot_eager") for f in (joined, all_ways))
for size in (1, 2, 3, 6, 5):
    shards = [torch.arange(float(size + r)) + 1 for r in range(world_size)]
    x = shards[rank].requires_grad_(size % 2 == 0)
    right = torch.cat([2 * s for s in shards]).detach()
    value = fast(x)
    seen[f"value {size}"] = torch.equal(value, right.sum() + right[-1])
    if x.requires_grad:
        value.backward()
        last = 4.0 * world_size if rank == world_size - 1 else 2.0 * world_size
        seen[f"grad {size}"] = x.grad[-1].item() == last
    (value, full), (other, plain) = ways(x.detach()), all_ways(x.detach())
    same = full is plain if full is None else torch.equal(full, plain)
    seen[f"ways {size}"] = torch.equal(value, other) and same
seen["error"] = said(lambda: fast(torch.ones(2, 1 + rank)))
whole = torch.compile(lambda x: concat.all_gather_cat(x), fullgraph=True)
seen["whole"] = said(lambda: whole(torch.ones(2)))
seen["after"] = concat.all_gather_cat(torch.ones(1)).numel()
"""


@pytest.mark.soak
def test_compiled_code_joins_sizes_that_change(tmp_path):
    for seen in run(tmp_path, 2, COMPILED):
        assert seen.pop("loaded") is False  # for the compiler takes seconds to load
        assert "disagree on the shape apart from dim 0" in seen.pop("error")
        assert "it waits for the other ranks" in seen.pop("whole")
        assert seen.pop("after") == 2
        assert [name for name, right in seen.items() if not right] == []
