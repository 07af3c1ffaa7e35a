"""Healthy scripts under the watch: nothing is reported, whatever takes its time."""

from collections.abc import Iterator

import pytest
from jobs import Jobs

PATIENCE = 1.0  # seconds
HEAD = """\
import os, sys, time
import torch
from torch import distributed as dist
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
x = torch.ones(1000)
"""
SLOW = {
    "a straggler that sleeps": """
for step in range(3):
    if rank == step:
        time.sleep(2.2)
    dist.all_reduce(x)
""",
    "a straggler that computes": """
if rank == 1:
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        torch.ones(200, 200) @ torch.ones(200, 200)
dist.barrier()
""",
    "a checkpoint that one rank writes": """
if rank == 0:
    for _ in range(24):
        with open("checkpoint", "wb") as file:
            torch.save(torch.ones(100_000), file)
            os.fsync(file.fileno())
        time.sleep(0.1)
    os.remove("checkpoint")
dist.barrier()
""",
    "a compilation before the first step": """
import subprocess
if rank == 2:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(2.5)"])
dist.all_reduce(x)
""",
    "the workers of a DataLoader": """
from torch.utils.data import DataLoader
class Slow:
    def __len__(self):
        return 3
    def __getitem__(self, index):
        time.sleep(1.3)
        return index
for batch in DataLoader(Slow(), num_workers=1):
    dist.all_reduce(x)
""",
    "messages one after the other": """
for turn in range(20):
    time.sleep(0.12 * (rank == 0))
    if rank == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
        dist.send(x, 0)
dist.barrier()
""",
    "ranks that finish one after the other": """
dist.barrier()  # all have come up
time.sleep(1.5 * rank)
""",
    "a sub-group to which a rank comes late": """
time.sleep(1.5 * (rank == 1))
pair = dist.new_group([0, 1])
time.sleep(1.5 * (rank == 0))
if rank < 2:
    dist.all_reduce(x, group=pair)
""",
    "DDP": """
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(torch.nn.Linear(10, 10))
for step in range(3):
    time.sleep(1.5 * (rank == step))
    model(torch.ones(1, 10)).sum().backward()
""",
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory) -> Iterator[Jobs]:
    running = Jobs(tmp_path_factory.mktemp("jobs"))
    yield running
    running.close()


@pytest.mark.parametrize("guard", ["", pytest.param("--guard", marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", SLOW)
def test_nothing_is_reported(jobs, name, guard):
    script = f"{HEAD}{SLOW[name]}dist.destroy_process_group()\nprint('done')\n"
    job = jobs.run(script, 3, f"--patience {PATIENCE} {guard}")
    assert job.codes == [0, 0, 0], job.err
    assert job.out == ["done\n"] * 3
    assert not any("stuck" in text or "[rank" in text for text in job.err)
