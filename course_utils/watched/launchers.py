"""Who a process is where no torchrun says so: under srun, and under an mpiexec."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

MEETING = ("MASTER_ADDR", "MASTER_PORT")
ANYWHERE = "start the script with torchrun, or export them for every process"


class Launcher(NamedTuple):
    """What starts processes, and the variables in which it tells them who they are.

    cure: how to say where rank 0 listens, which it does not.
    """

    name: str
    rank: str
    world_size: str
    local_rank: str
    local_world_size: str
    cure: str


BY_MPI = (
    "before it, export MASTER_ADDR=HOST MASTER_PORT=29500, HOST being that of rank 0"
)
BY_SLURM = (
    "before it, export MASTER_ADDR=$(scontrol show hostnames | head -n 1) "
    "MASTER_PORT=29500"
)
LAUNCHERS = (  # MPI first: within a job of Slurm's its ranks see Slurm's variables, too
    Launcher(
        "mpiexec",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        BY_MPI,
    ),
    Launcher(
        "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", BY_MPI
    ),
    Launcher(
        "srun",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
        BY_SLURM,
    ),
)


def started_by(variables: Mapping[str, str]) -> Launcher | None:
    """Return the launcher of this process; None for torchrun, or where it is alone."""
    if "RANK" in variables:
        return None
    for launcher in LAUNCHERS:
        size = variables.get(launcher.world_size, "1")
        if launcher.rank in variables and size != "1":
            return launcher
    return None


def complete(variables: MutableMapping[str, str]) -> None:
    """Set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE as torchrun does.

    Only where a launcher tells them under other names, and somebody has said where
    rank 0 listens: a script that meets in another way sees what it saw before.
    """
    launcher = started_by(variables)
    if launcher is None or not all(name in variables for name in MEETING):
        return
    told = {
        "RANK": variables.get(launcher.rank),
        "WORLD_SIZE": variables.get(launcher.world_size),
        "LOCAL_RANK": variables.get(launcher.local_rank),
        "LOCAL_WORLD_SIZE": variables.get(launcher.local_world_size),
    }
    if launcher.name == "srun":
        node = int(variables.get("SLURM_NODEID", "0"))
        told["LOCAL_WORLD_SIZE"] = tasks_of(told["LOCAL_WORLD_SIZE"] or "", node)
    for name, value in told.items():
        if value:
            variables.setdefault(name, value)


def tasks_of(written: str, node: int) -> str:
    """Return the tasks on a node, as Slurm writes them: "2(x3),1"; "" if unknown."""
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", written):
        node -= int(times or 1)
        if node < 0:
            return count
    return ""


def lacking(given: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """Return the variables by which a process group meets, and which are not set.

    given: the arguments of init_process_group.
    """
    method = given.get("init_method") or "env://"
    if given.get("store") is not None or method != "env://":
        return []
    needed = [*MEETING]
    needed += ["RANK"] if given.get("rank", -1) < 0 else []
    needed += ["WORLD_SIZE"] if given.get("world_size", -1) < 0 else []
    return [name for name in needed if name not in variables]


def advice(names: Iterable[str], variables: Mapping[str, str]) -> str:
    """Say how to set what init_process_group lacks."""
    launcher = started_by(variables)
    needed = ", ".join(names)
    if launcher is None:
        return f"init_process_group needs {needed}, which are not set: {ANYWHERE}"
    needed = " and ".join(name for name in names if name in MEETING)
    return (
        f"init_process_group needs {needed}, which {launcher.name} does not set: "
        f"{launcher.cure}"
    )
