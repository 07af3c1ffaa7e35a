"""What builds on collectives: left alone while healthy, named right once stuck."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from jobs import Job, Jobs

PATIENCE = 1.0  # seconds
HEAD = """\
import os, sys, time
import torch
from torch import distributed as dist
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
x = torch.ones(6)
"""


class Case(NamedTuple):
    """A way to communicate.

    begin: what stands before; step: a line that all ranks have to run; named: the
    call in which those wait that do, where one does not; rarely: whether it is left
    to `make soak`.
    """

    begin: str
    step: str
    named: str
    rarely: bool = True


FSDP = """
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 3))
for layer in model:
    fully_shard(layer)
fully_shard(model)
"""
DTENSOR = """
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
mesh = dist.init_device_mesh("cpu", (world_size,))
sharded = distribute_tensor(torch.arange(6.0), mesh, [Shard(0)])
"""
CASES = {
    "FSDP2, forward": Case(FSDP, "loss = model(x).sum()", "all_gather_single", False),
    "FSDP2, backward": Case(
        f"{FSDP}losses = [model(x).sum() for _ in range(2)]\n",
        "losses.pop().backward()",
        "all_gather_single",
    ),
    "a functional collective": Case(
        "from torch.distributed import _functional_collectives as functional\n",
        "y = functional.all_reduce(x, 'sum', dist.group.WORLD) + 1",
        "wait_tensor",
    ),
    "redistribute of a DTensor": Case(
        DTENSOR,
        "whole = sharded.redistribute(placements=[Replicate()])",
        "redistribute",
    ),
    "async work": Case(
        "",
        "dist.all_reduce(x, async_op=True).wait()",
        "dist.all_reduce(x, async_op=True).wait",
    ),
    "a sub-group": Case(
        "pair = dist.new_group([0, 1])\n",
        "dist.all_reduce(x, group=pair) if rank < 2 else None",
        "all_reduce(group of ranks 0–1)",
    ),
    "a step that is compiled": Case(
        "@torch.compile(backend='aot_eager')\ndef step(x):\n"
        "    dist.all_reduce(x)\n    return x + 1\n",
        "step(x)",
        "wait_tensor",
        False,
    ),
    "the workers of a DataLoader": Case(
        "from torch.utils.data import DataLoader\n",
        "for batch in DataLoader(range(4), num_workers=2): dist.all_reduce(x)",
        "all_reduce",
    ),
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory) -> Iterator[Jobs]:
    running = Jobs(tmp_path_factory.mktemp("jobs"))
    yield running
    running.close()


def cases() -> list:
    """Return the cases; most of them run in `make soak` only."""
    soak = pytest.mark.soak
    return [
        pytest.param(case, id=name, marks=soak if case.rarely else ())
        for name, case in CASES.items()
    ]


def run(jobs: Jobs, case: Case, rest: str) -> Job:
    """Run a script that makes the step, and then the rest, on three ranks."""
    script = f"{HEAD}{case.begin}{case.step}\n{rest}"
    return jobs.run(script, 3, f"--patience {PATIENCE}")


def reports(job: Job) -> list[str]:
    """Return what the ranks reported, each in one line."""
    said = [text[text.find("stuck: ") :] for text in job.err if "stuck: " in text]
    return [" ".join(text.split()) for text in said]


@pytest.mark.parametrize("case", cases())
def test_healthy_with_a_straggler(jobs, case):
    job = run(jobs, case, f"time.sleep(2.2 * (rank == 1))\n{case.step}\n")
    assert job.codes == [0, 0, 0], job.err
    assert reports(job) == []


@pytest.mark.parametrize("case", cases())
def test_left_out_by_a_rank_that_ends(jobs, case):
    job = run(jobs, case, f"if rank != 1:\n    {case.step}\ntime.sleep(0.5)\n")
    found = reports(job)
    assert found and any(job.codes), job.err
    for text in found:
        assert re.search(
            rf"waits? for rank 1 .*waits? in {re.escape(case.named)} at", text
        )
        assert "[rank 1] finished" in text
        assert "of train.py stands under `if rank != 1:`, so rank 1 " in text


@pytest.mark.parametrize("case", cases())
def test_left_out_by_a_rank_that_waits_elsewhere(jobs, case):
    elsewhere = "else:\n    dist.recv(x, src=0)\n"
    job = run(jobs, case, f"if rank != 1:\n    {case.step}\n{elsewhere}")
    found = reports(job)
    assert found and any(job.codes), job.err
    for text in found:
        assert re.search(
            rf"\[rank[^1]*\] waits? in {re.escape(case.named)} at line", text
        )
        assert "[rank 1] waits in recv(src=0) at line" in text
