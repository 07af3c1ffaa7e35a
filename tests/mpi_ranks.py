"""Ranks that mpiexec starts, and why tests that need them may have to be skipped."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.engines.machine import find_mpiexec

LIMIT = 120.0  # seconds for one script
LACKING = [
    what
    for lacks, what in (
        (find_mpiexec() is None, "mpiexec"),
        (importlib.util.find_spec("mpi4py") is None, "mpi4py"),
    )
    if lacks
]
NEEDED = pytest.mark.skipif(
    bool(LACKING),
    reason=f"no {' and no '.join(LACKING)}: pip install -r requirements-mpi.txt",
)


def run(script: Path, *arguments: object, ranks: int = 4) -> str:
    """Run a script on ranks that mpiexec starts; return what they printed."""
    done = subprocess.run(
        [find_mpiexec(), "-n", str(ranks), sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
