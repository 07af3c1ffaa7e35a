"""A lesson as a script on two hosts: the commands of the page "On your cluster"."""

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mpi_ranks
import nbformat
import page
import pytest
from lab import ROOT, Lab

LESSON = ROOT / "notebooks" / "03_gather_equal_shards.ipynb"
LIMIT = 120.0  # seconds for one run
TORCHRUN = (
    'eval "$NAME"; export OMP_NUM_THREADS=1; torchrun --nnodes=2 --nproc-per-node=2 '
    "--rdzv-backend=c10d --rdzv-endpoint=node1:29400 --rdzv-id=lesson lesson.py"
)
ALIASED = "127.0.0.1 localhost\n127.0.1.1 {name}\n"  # as Debian has it


@pytest.fixture(scope="module")
def run(lab: Lab) -> Callable[[str, str], str]:
    """Return what runs a shell command on a host, in a folder that all see.

    The environment of the course is active there, as the page asks for.
    """
    (lab.folder / "notebooks").symlink_to(ROOT / "notebooks")
    (lab.folder / "tools").symlink_to(ROOT / "tools")
    path = f"{Path(sys.executable).parent}:$PATH"
    setting = f"cd {lab.folder}; export PATH={path} PYTHONPATH={ROOT}; "

    def run_there(host: str, command: str) -> str:
        return lab.run(host, setting + command, LIMIT)

    for name in ("lesson.sbatch", "as_rank.sh", "as_mpi_rank.sh"):
        (lab.folder / name).write_text(page.BLOCKS[name])
    run_there("login", page.BLOCKS["write"])
    return run_there


@pytest.fixture(scope="module")
def slurm(lab: Lab) -> str:
    """Return the words by which a shell finds Slurm, which comes up now."""
    name, conf = next(iter(lab.slurm_up().items()))
    return f"export {name}={conf}; "


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


def test_torchrun_on_two_hosts(lab, run, said_by_all):
    command = TORCHRUN.replace("$NAME", page.BLOCKS["name"].strip())
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run, name, command) for name in lab.NAMES[1:]]
        printed = "".join(one.result() for one in runs)
    assert_said(said_by_all, printed)


def test_sbatch(lab, run, slurm, said_by_all):
    run("login", slurm + page.BLOCKS["sbatch"])
    assert_said(said_by_all, (lab.folder / "lesson.out").read_text())


def test_srun_alone(run, slurm, said_by_all):
    assert_said(said_by_all, run("login", slurm + page.BLOCKS["srun"]))


@mpi_ranks.NEEDED
def test_mpiexec(run, said_by_all):
    assert_said(said_by_all, run("login", page.BLOCKS["mpiexec"]))


def test_what_the_network_is_called(lab, run):
    said = run("login", page.BLOCKS["look"])
    assert f"{lab.address('login')}" in said and "eth0" in said


def test_lesson_without_the_name_of_the_network_ends_at_once(lab, run):
    """On a host whose own name leads to itself alone, as Debian has it."""
    hosts = lab.folder / "aliased"
    hosts.write_text(ALIASED.format(name="node1"))
    job = "export RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2; python lesson.py"
    with pytest.raises(RuntimeError, match="no other host reaches 127.0.1.1: export"):
        run("node1", f"unshare -m sh -c 'mount --bind {hosts} /etc/hosts; {job}'")


def test_gpus_are_tried_dry(run):
    """On two hosts; `tests/house/test_try_gpus.py` does it on one machine."""
    said = run("login", page.line("try GPUs", 1))
    assert said.count(" ok ") == 5 and "dry run" in said, said
