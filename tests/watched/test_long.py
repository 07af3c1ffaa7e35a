"""Healthy jobs that make one another wait for long, many at a time: nothing is said.

`make soak` runs five for each of `SEEDS`; a release takes fifty of them, `SEEDS=10`.
"""

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from jobs import Jobs

pytestmark = pytest.mark.soak

SEEDS = int(os.environ.get("SEEDS", "2"))
AT_ONCE = 5  # jobs; they sleep for most of the time
PATIENCE = 5.0  # seconds; the stragglers take four times as long
SLOW_COMPILER = "inductor" if shutil.which("g++") else "aot_eager"
HEAD = """\
import os, sys, time
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
def block():
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
plain = DDP(block())
compiled = torch.compile(DDP(block()), backend="{compiler}")
def step(model):
    model(torch.rand(4, 16)).sum().backward()
def checkpoint():
    begun = time.monotonic()
    while time.monotonic() < begun + 6:
        with open(f"{__file__}.checkpoint", "wb") as file:
            torch.save(torch.ones(1_000_000), file)
            os.fsync(file.fileno())
        time.sleep(0.2)
    os.remove(file.name)
"""
STRAGGLER = "time.sleep(20 * (rank == {rank}))\n"
OTHERS = (
    "step(compiled)\n",
    "if rank == {rank}:\n    checkpoint()\n",
    "dist.barrier()\n",
    "dist.all_gather_object([None] * world_size, 'loss')\n",
    "time.sleep(3 * rank)\n",
)


def script(seed: int, number: int) -> str:
    """Return a script: steps, and in between what takes its time, in random order.

    number: 0 compiles its first step to machine code, which takes both cores.
    """
    chance = random.Random(AT_ONCE * seed + number)
    head = HEAD.replace("{compiler}", "aot_eager" if number else SLOW_COMPILER)
    parts = [STRAGGLER, *chance.sample(OTHERS, 4)]
    chance.shuffle(parts)
    chosen = [part.format(rank=chance.randrange(3)) for part in parts]
    steps = [f"{part}step(plain)\n" for part in chosen]
    return f"{head}{''.join(steps)}dist.destroy_process_group()\nprint('done')\n"


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_nothing_is_reported(seed, tmp_path):
    def run(number: int):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs = Jobs(folder)
        try:
            source = script(seed, number)
            return source, jobs.run(source, 3, f"--patience {PATIENCE}", limit=150)
        finally:
            jobs.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for source, job in pool.map(run, range(AT_ONCE)):
            assert job.codes == [0, 0, 0], (source, job.err)
            assert job.out == ["done\n"] * 3
            assert "stuck: " not in "".join(job.err), (source, job.err)
