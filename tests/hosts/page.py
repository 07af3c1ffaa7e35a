"""The blocks of the page "On your cluster", which the tests run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "book" / "on_your_cluster.md"
NAMES = (  # of the blocks, in their order
    "launch",
    "ssh",
    "slurm",
    "mpi",
    "environment",
    "look",
    "name",
    "write",
    "lesson.sbatch",
    "sbatch",
    "as_rank.sh",
    "srun",
    "as_mpi_rank.sh",
    "mpiexec",
    "over MPI",
    "try GPUs",
)
FOUND = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
BLOCKS = {name: code for name, (_, code) in zip(NAMES, FOUND, strict=True)}


def line(name: str, number: int) -> str:
    """Return a line of a block, without its comment."""
    return BLOCKS[name].splitlines()[number].partition("  #")[0]
