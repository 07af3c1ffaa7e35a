"""What this machine offers a world: GPUs, memory, a safe fork."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

MB = 2**20
BASE = 350 * MB  # fork parent with torch, controller
PER_FORKED_RANK = 30 * MB  # measured by benchmarks/launch.py, rounded up
PER_ORDINARY_RANK = 200 * MB
SPARE = 100 * MB  # left for everything else
MEMINFO = Path("/proc/meminfo")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def can_fork() -> bool:
    """Tell whether ranks can be forked from one process: Linux only.

    On macOS system libraries break after a fork; Windows has none.
    """
    return sys.platform == "linux"


def find_mpiexec() -> str | None:
    """Return the path of MPI's launcher: this environment's own, or one on PATH.

    A kernel often runs with its environment's Python, but without its PATH.
    """
    own = os.path.dirname(sys.executable)
    return shutil.which("mpiexec", path=own) or shutil.which("mpiexec")


def is_process(pid: int) -> bool:
    """Tell whether there is a process of this number."""
    if sys.platform == "win32":  # where this would end it
        import psutil  # here, so that `doctor` can say that it is missing

        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


def available_memory() -> int:
    """Return the bytes that can be taken without swapping, container included."""
    try:
        free = available_in(MEMINFO.read_text())
    except (OSError, KeyError):  # another system, or a Linux that does not say it
        free = counted_available()
    try:
        limit = CGROUP_LIMIT.read_text().strip()
        if limit.isdigit():
            free = min(free, int(limit) - int(CGROUP_USED.read_text()))
    except OSError:  # no cgroup v2
        pass
    return free


def available_in(meminfo: str) -> int:
    """Return the bytes that Linux says are available; psutil, too, reads them there.

    The ranks begin to start before it is imported.
    """
    lines = dict(line.partition(":")[::2] for line in meminfo.splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def counted_available() -> int:
    """Return the bytes that psutil takes for available."""
    import psutil  # here, so that `doctor` can say that it is missing

    return psutil.virtual_memory().available


def most_ranks(forked: bool) -> int:
    """Return how many ranks fit into the memory that is available."""
    per_rank = PER_FORKED_RANK if forked else PER_ORDINARY_RANK
    return max(0, (available_memory() - BASE - SPARE) // per_rank)


def gpus() -> int:
    """Return how many GPUs torch could use here, without importing torch.

    Counts what nvidia-smi lists, narrowed by CUDA_VISIBLE_DEVICES; 0 if torch
    was built without CUDA.
    """
    torch = importlib.util.find_spec("torch")
    smi = shutil.which("nvidia-smi")
    if torch is None or smi is None:
        return 0
    libraries = Path(torch.origin).parent / "lib"
    if not any(libraries.glob("*torch_cuda.*")):
        return 0
    try:
        listed = subprocess.run(
            [smi, "-L"], capture_output=True, text=True, timeout=20
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    count = sum(line.startswith("GPU ") for line in listed.splitlines())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = min(count, len([v for v in visible.split(",") if v.strip()]))
    return count
