"""A lesson as a script on two hosts: under torchrun, and as a job of Slurm's."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from lab import ROOT, Lab

LESSON = ROOT / "notebooks" / "03_gather_equal_shards.ipynb"
LIMIT = 120.0  # seconds for one run
TORCHRUN = (
    "export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=fab0; "
    f"{sys.executable} -m torch.distributed.run --nnodes=2 --nproc-per-node=2 "
    "--rdzv-backend=c10d --rdzv-endpoint=node1:29400 --rdzv-id=lesson {script}"
)
SBATCH = """\
#!/bin/sh
#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 --output={folder}/job.out
srun sh -c '{command}'
"""


@pytest.fixture(scope="module")
def script(lab: Lab) -> Path:
    """Return a lesson as a script, in a folder that all hosts see."""
    path = lab.folder / "lesson.py"
    export = [sys.executable, "-m", "course_utils", "export", str(LESSON)]
    subprocess.run([*export, "-o", path], cwd=ROOT, check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def said_by_all() -> list[str]:
    """Return the lines that all four ranks print in the notebook, as it is stored."""
    cells = nbformat.read(LESSON, as_version=4).cells
    printed = [o.text for c in cells for o in c.get("outputs", []) if "text" in o]
    found = re.findall(r"^\[ranks 0–3\] (.+)$", "".join(printed), re.M)
    assert found
    return found


def assert_said(lines: list[str], printed: str) -> None:
    """Assert that four ranks printed each of the lines."""
    for line in lines:
        assert printed.count(line) >= 4, (line, printed)


def test_torchrun_on_two_hosts(lab, script, said_by_all):
    command = TORCHRUN.format(script=script)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(lab.run, n, command, LIMIT) for n in lab.NAMES[1:]]
        printed = "".join(run.result() for run in runs)
    assert_said(said_by_all, printed)


def test_sbatch(lab, script, said_by_all):
    name, conf = next(iter(lab.slurm_up().items()))
    job = lab.folder / "lesson.sbatch"
    command = TORCHRUN.format(script=script)
    job.write_text(SBATCH.format(folder=lab.folder, command=command))
    lab.run("login", f"{name}={conf} sbatch --wait {job}", LIMIT)
    assert_said(said_by_all, (lab.folder / "job.out").read_text())
