"""Each rule: sources that it flags, at a line, and right twins that it must not."""

import ast
from textwrap import dedent

import pytest

from course_utils.read import read_notebook, read_source
from course_utils.read.rules import RULES

pytestmark = pytest.mark.unit

HEAD = """\
import os
import torch
import torch.distributed as dist
rank, world_size = dist.get_rank(), dist.get_world_size()
"""
LINES = HEAD.count("\n")

WRONG = {  # by rule: sources, and the line that is flagged, counted behind HEAD
    "branch": [
        ("if rank == 0:\n    dist.broadcast(x, src=0)", 2),
        ("if dist.get_rank() == 0:\n    dist.barrier()", 2),
        ("first = rank == 0\nif first and ready:\n    dist.all_reduce(x)", 3),
        ("if rank == 0:\n    y = 1\nelse:\n    dist.barrier()", 4),
        ("if rank == 0:\n    dist.new_group([0, 1])", 2),
        ("if int(os.environ['RANK']) == 0:\n    dist.barrier()", 2),
        ("if args.rank == 0:\n    if ready:\n        dist.barrier()", 3),
        ("def save():\n    if is_main_process():\n        dist.barrier()", 3),
        ("if rank:\n    dist.gather(x, dst=0)", 2),
    ],
    "order": [
        (
            "if rank == 0:\n    dist.all_reduce(x)\n    dist.barrier()\n"
            "else:\n    dist.barrier()\n    dist.all_reduce(x)",
            1,
        ),
        (
            "def f():\n    if is_main_process():\n        dist.broadcast(x, 0)\n"
            "        dist.gather(x, room)\n    else:\n        dist.gather(x)\n"
            "        dist.broadcast(x, 0)",
            2,
        ),
    ],
    "loop": [
        ("for step in range(2 + (rank == 0)):\n    dist.all_reduce(x)", 1),
        ("while steps < 3 - rank:\n    dist.barrier()\n    steps += 1", 1),
        ("mine = data[rank::world_size]\nfor item in mine:\n    dist.all_reduce(x)", 2),
        ("for n in range(len(data[rank::world_size])):\n    dist.barrier()", 1),
    ],
    "leaving": [
        ("def f():\n    if rank != 0:\n        return\n    dist.barrier()", 3),
        (
            "for x in xs:\n    if rank == 1:\n        continue\n    dist.all_reduce(x)",
            3,
        ),
        (
            "try:\n    if rank == 1:\n        raise ValueError\n    dist.barrier()\n"
            "except ValueError:\n    pass",
            3,
        ),
    ],
    "alias": [
        ("dist.all_gather([torch.zeros(2)] * world_size, x)", 1),
        ("out = [torch.empty_like(x)] * 4\ndist.all_gather(out, x)", 1),
        ("room = world_size * [y]\ndist.gather(x, room, dst=0)", 1),
    ],
    "uneven": [
        (
            "shard = data[rank::world_size]\n"
            "out = [torch.empty_like(shard) for _ in range(world_size)]\n"
            "dist.all_gather(out, shard)",
            2,
        ),
        (
            "shard = torch.arange(2 * rank)\n"
            "out = [torch.zeros(len(shard)) for _ in range(world_size)]\n"
            "dist.all_gather(out, shard)",
            2,
        ),
        (
            "shard = torch.tensor_split(data, world_size)[rank]\n"
            "out = [torch.empty_like(shard) for _ in range(world_size)]\n"
            "dist.all_gather(out, shard)",
            2,
        ),
    ],
    "device": [
        ("model.to(rank)", 1),
        ("torch.cuda.set_device(dist.get_rank())", 1),
        ("n = int(os.environ['RANK'])\nx.cuda(n)", 2),
        ("x.to(f'cuda:{rank}')", 1),
    ],
    "wait": [
        ("dist.all_reduce(x, async_op=True)", 1),
        ("def f(x):\n    work = dist.all_reduce(x, async_op=True)\n    return x", 2),
        ("dist.isend(x, dst=1)", 1),
    ],
    "root": [
        ("pair = dist.new_group([2, 3])\ndist.broadcast(x, src=0, group=pair)", 2),
        ("dist.reduce(x, dst=dist.get_rank(pair), group=pair)", 1),
    ],
    "objects": [
        ("import requests\ndist.broadcast_object_list([requests.get(url)], src=0)", 2),
        ("import pickle\no = pickle.load(f)\ndist.all_gather_object(out, o)", 3),
        ("text = input()\ndist.all_gather_object(out, eval(text))", 2),
    ],
    "gradient": [
        (
            "dist.all_gather(out, z)\nfull = torch.cat(out)\n"
            "loss = contrast(full)\nloss.backward()",
            1,
        ),
        ("dist.all_gather(out, z)\ncontrast(torch.cat(out), z).backward()", 1),
    ],
    "padded": [
        ("s = DistributedSampler(test_set, shuffle=False)\ndist.all_reduce(right)", 1),
        ("s = DistributedSampler(val_ds)\ndist.all_reduce(right)", 1),
    ],
}
RIGHT = {
    "branch": [
        "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(y, 0)",
        "if rank == 0:\n    print('here')\ndist.barrier()",
        "if world_size > 1:\n    dist.barrier()",
        "if args.local_rank != -1:\n    dist.barrier()",
        "if rank >= 0:\n    dist.barrier()",
        "if rank is not None:\n    dist.barrier()",
        "if rank == 0:\n    dist.send(x, 1)\nelif rank == 1:\n    dist.recv(x, 0)",
        "if rank in (0, 1):\n    dist.all_reduce(x, group=pair)",
        "if rank > 0:\n    dist.barrier()\nfetch()\nif rank == 0:\n    dist.barrier()",
        "if rank == 0:\n    dist.gather(x, room, dst=0)\nelif rank > 0:\n"
        "    dist.gather(x, None, dst=0)",
        "def meet():\n    dist.barrier()\nif rank == 0:\n    dist.barrier()\n"
        "else:\n    meet()",
        "def f():\n    if rank == 0:\n        dist.barrier()\n        return\n"
        "    dist.barrier()",
        "if step % 10 == 0:\n    dist.all_reduce(x)",
        "if rank == 0 or world_size > 1:\n    dist.barrier()",
        "if rank == 0:\n    def later():\n        dist.barrier()",
        "if __name__ == '__main__':\n    dist.barrier()",
    ],
    "order": [
        "if rank == 0:\n    dist.all_reduce(x)\n    dist.barrier()\n"
        "else:\n    dist.all_reduce(y)\n    dist.barrier()",
        "if rank == 0:\n    dist.send(x, 1)\n    dist.recv(x, 1)\n"
        "else:\n    dist.recv(x, 0)\n    dist.send(x, 0)",
        "if rank == 0:\n    dist.all_reduce(x, group=a)\n    dist.barrier()\n"
        "else:\n    dist.barrier()\n    dist.all_reduce(x, group=b)",
        "if world_size > 2:\n    dist.barrier()\n    dist.all_reduce(x)\n"
        "else:\n    dist.all_reduce(x)\n    dist.barrier()",
    ],
    "loop": [
        "for src in range(world_size):\n    dist.broadcast(x, src=src)",
        "for batch in loader:\n    dist.all_reduce(x)",
        "for n in data[rank::world_size]:\n    print(n)",
        "part = data[rank * 4 : rank * 4 + 4]\nfor n in part:\n    dist.all_reduce(n)",
        "for n in range(rank):\n    dist.all_reduce(x, group=mine)",
    ],
    "leaving": [
        "def f():\n    if not dist.is_available():\n        return\n    dist.barrier()",
        "def f():\n    if rank is None:\n        return\n    dist.barrier()",
        "def f():\n    dist.barrier()\n    if rank != 0:\n        return\n    print(x)",
        "def f():\n    if rank != 0:\n        dist.barrier()\n        return\n"
        "    dist.barrier()",
        "if rank == 1:\n    raise ValueError\ndist.barrier()",
        "def f():\n    if world_size == 1:\n        return x\n    dist.all_reduce(x)",
    ],
    "alias": [
        "out = [torch.empty_like(x) for _ in range(4)]\ndist.all_gather(out, x)",
        "objects = [None] * world_size\ndist.all_gather_object(objects, x)",
        "sizes = [2] * world_size\ndist.all_gather(out, x)",
        "out = [x] * 4\nout = [x.clone() for _ in out]\ndist.all_gather(out, x)",
    ],
    "uneven": [
        "shard = data[rank * 4 : (rank + 1) * 4]\n"
        "out = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "dist.all_gather(out, shard)",
        "shard = data[rank::world_size]\nshard = pad(shard, most)\n"
        "out = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "dist.all_gather(out, shard)",
        "shard = data[rank::world_size]\n"
        "out = [torch.empty(n) for n in sizes]\ndist.all_gather(out, shard)",
    ],
    "device": [
        "model.to(int(os.environ['LOCAL_RANK']))",
        "local_rank = int(os.environ['LOCAL_RANK'])\nmodel.to(local_rank)",
        "def demo(rank, world_size):\n    model.to(rank)",
        "model.to(rank % torch.cuda.device_count())",
        "import torch.multiprocessing as mp\ndef main(index):\n"
        "    torch.cuda.set_device(dist.get_rank())\nmp.spawn(main, nprocs=4)",
        "x.to(torch.float32)",
    ],
    "wait": [
        "dist.all_reduce(x, async_op=True).wait()",
        "work = dist.all_reduce(x, async_op=True)\nwork.wait()",
        "works.append(dist.isend(x, dst=1))",
        "def f(x):\n    return dist.all_reduce(x, async_op=True)",
        "dist.all_reduce(x)",
        "dist.all_reduce(x, async_op=False)",
        "class A:\n    def f(self, x):\n"
        "        self.work = dist.all_reduce(x, async_op=True)",
    ],
    "root": [
        "pair = dist.new_group([2, 3])\ndist.broadcast(x, src=2, group=pair)",
        "pair = dist.new_group(ranks)\ndist.broadcast(x, src=0, group=pair)",
        "pair = dist.new_group([2, 3])\ndist.broadcast(x, group_src=0, group=pair)",
        "dist.broadcast(x, src=0)",
    ],
    "objects": [
        "dist.all_gather_object(out, {'loss': 1.0})",
        "import requests\nr = requests.get(url)\ndist.broadcast(torch.tensor(3), 0)",
        "import requests\nr = requests.get(url).text\ndist.all_gather_object(out, r)",
        "line = input()\ndist.broadcast_object_list([len(line)], src=0)",
    ],
    "gradient": [
        "dist.all_gather(out, z)\nout[rank] = z\nloss = f(torch.cat(out))\n"
        "loss.backward()",
        "dist.all_gather(out, loss.detach())\nmean = torch.stack(out).mean()\n"
        "loss.backward()",
        "loss.backward()\ndist.all_gather(out, z)\nprint(torch.cat(out))",
    ],
    "padded": [
        "s = DistributedSampler(train_set)\ndist.all_reduce(right)",
        "s = DistributedSampler(test_set, drop_last=True)\ndist.all_reduce(right)",
        "s = DistributedSampler(test_set)\ndist.all_reduce(right)\n"
        "n = len(loader.dataset)",
        "s = DistributedSampler(test_set)",
    ],
}


def flagged(source: str, rule: str) -> list[int]:
    """Return the lines, behind HEAD, that a rule flags."""
    return [f.line - LINES for f in read_source(HEAD + source) if f.rule == rule]


def all_of(table: dict) -> list:
    return [(rule, one) for rule, sources in table.items() for one in sources]


@pytest.mark.parametrize(("rule", "case"), all_of(WRONG))
def test_it_is_flagged(rule, case):
    source, line = case
    assert flagged(source, rule) == [line]


@pytest.mark.parametrize(("rule", "source"), all_of(RIGHT))
def test_its_twin_is_not(rule, source):
    assert flagged(source, rule) == []


def test_every_rule_has_both():
    assert list(WRONG) == list(RIGHT)
    assert all(len(twins) >= 3 for twins in RIGHT.values())
    assert len(WRONG) == len(RULES)


def test_what_it_says():
    (found,) = read_source(HEAD + "if rank == 0:\n    dist.barrier()")
    assert str(found) == (
        "6: branch: this stands under `if rank == 0:`, so the other ranks never came "
        "to barrier; every rank of the group has to call it; put the barrier behind "
        "the branch, where every rank comes by"
    )


@pytest.mark.parametrize(
    "head",
    [
        "from torch import distributed as dist\n",
        "import torch.distributed as dist\n",
        "import torch\nfrom torch.distributed import barrier as meet\n",
        "import torch\n",
    ],
)
def test_names_of_torch_distributed(head):
    call = {"meet": "meet()", "dist": "dist.barrier()"}
    name = next((text for key, text in call.items() if key in head), "")
    name = name or "torch.distributed.barrier()"
    (found,) = read_source(f"{head}if rank == 0:\n    {name}")
    assert found.rule == "branch"


def test_other_libraries_are_left_alone():
    assert read_source("import other\nif rank == 0:\n    other.barrier()") == []


def test_a_line_that_is_known_is_silent():
    source = "if rank == 0:\n    dist.barrier()  # read: ignore"
    assert flagged(source, "branch") == []


def test_cells_are_read_with_the_imports_of_those_before():
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["%%px\n", "import torch.distributed as dist"]},
        {"cell_type": "code", "source": ["%%bash\n", "ls -l | wc"]},
        {"cell_type": "code", "source": ["%%px\n", "if rank:\n", "    dist.barrier()"]},
    ]
    text = __import__("json").dumps({"cells": cells})
    ((cell, found),) = read_notebook(text)
    assert (cell, found.line, found.rule) == (3, 3, "branch")


def test_rules_only_read():
    """No rule changes the tree that the others read."""
    for sources in WRONG.values():
        for source, _ in sources:
            tree = ast.parse(dedent(HEAD + source))
            before = ast.dump(tree)
            read_source(HEAD + source)
            assert ast.dump(tree) == before
