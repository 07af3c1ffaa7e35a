"""Scripts under the watch on two hosts: by torchrun, srun and mpiexec."""

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lab import Lab

from course_utils.engines.machine import find_mpiexec

LIMIT = 120.0  # seconds for one job
RUN = f"{sys.executable} -m course_utils.watched --patience 2 {{script}}"
MEET = "MASTER_ADDR=node1 MASTER_PORT={port}"
NETWORK = "OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0"
TORCHRUN = (
    f"{NETWORK} {sys.executable} -m torch.distributed.run --nnodes=2 "
    "--nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=node1:29410 "
    "--rdzv-id=watched -m course_utils.watched --patience 2 {script}"
)
HEAD = """\
import os, signal, sys, time
import torch
from torch import distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
assert os.environ["LOCAL_RANK"] == str(rank % 2)
assert os.environ["LOCAL_WORLD_SIZE"] == "2"
dist.barrier()
"""
STUCK = "if rank != 2:\n    dist.all_reduce(torch.ones(2))\n"
EARLY = "if rank == 0:\n    sys.exit()\ndist.barrier()\n"
KILLED = "if rank == 3:\n    os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()\n"
FAILED = "if rank == 3:\n    raise ValueError('no data')\ndist.barrier()\n"


@pytest.fixture(scope="module")
def slurm(lab: Lab) -> str:
    """Return the variables of Slurm's commands, which works from now on."""
    return " ".join(f"{name}={value}" for name, value in lab.slurm_up().items())


def script(lab: Lab, fault: str) -> Path:
    """Write a script where all hosts see it."""
    path = lab.folder / "train.py"
    path.write_text(HEAD + fault)
    return path


def on(lab: Lab, host: str, command: str) -> str:
    """Run a command that fails on a host; return what was written."""
    try:
        said = lab.run(host, f"{command} 2>&1", LIMIT)
    except RuntimeError as error:
        return str(error)
    pytest.fail(f"this did not fail:\n{said}")


def srun(lab: Lab, slurm: str, fault: str, port: int) -> str:
    """Run a faulty script as four tasks on two nodes."""
    run = RUN.format(script=script(lab, fault))
    meet = MEET.format(port=port) if port else ""
    step = "srun --nodes=2 --ntasks-per-node=2 --mpi=none"
    return on(lab, "login", f"{slurm} {meet} {NETWORK} {step} {run}")


def assert_stuck(said: str) -> None:
    assert said.count("stuck: ranks 0–1, 3 wait for rank 2, on node2\n") == 3, said
    assert said.count("[rank 2] finished without calling it") == 3
    assert "likely cause: line 10 of train.py stands under `if rank != 2:`" in said


def test_torchrun(lab):
    command = TORCHRUN.format(script=script(lab, STUCK))
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(on, lab, name, command) for name in lab.NAMES[1:]]
        assert_stuck("".join(run.result() for run in runs))


def test_srun_rank_0_leaves_early(lab, slurm):
    """Its process has the store at which the ranks meet."""
    said = srun(lab, slurm, EARLY, 29411)
    assert said.count("stuck: ranks 1–3 wait for rank 0, on node1\n") == 4, said
    assert said.count("[rank 0] finished without calling it") == 4
    assert "Exited with exit code 1" in said


@pytest.mark.parametrize(
    ("fault", "report"),
    [
        (KILLED, "[rank 3] died on node2: signal 9, SIGKILL"),
        (FAILED, "[rank 3] on node2: ValueError at line 10 of train.py"),
    ],
)
def test_srun_one_rank_ends(lab, slurm, fault, report):
    said = srun(lab, slurm, fault, 29412)
    assert said.count(report) >= 3, said


def test_srun_has_to_be_told_where_to_meet(lab, slurm):
    said = srun(lab, slurm, STUCK, 0)
    assert said.count("MASTER_ADDR=$(scontrol show hostnames | head -n 1)") >= 4, said


@pytest.mark.skipif(
    find_mpiexec() is None or importlib.util.find_spec("mpi4py") is None,
    reason="no mpiexec or no mpi4py: pip install -r requirements-mpi.txt",
)
def test_mpiexec(lab):
    run = RUN.format(script=script(lab, STUCK))
    where = "-hosts node1:2,node2:2 -iface eth0"
    meet = MEET.format(port=29413)
    assert_stuck(on(lab, "login", f"{meet} {NETWORK} {find_mpiexec()} {where} {run}"))
