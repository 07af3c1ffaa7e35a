"""Who a process is under srun and mpiexec, and what is said where nobody knows."""

import pytest

from course_utils.watched import launchers

pytestmark = pytest.mark.unit

MEET = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
HYDRA = {
    "PMI_RANK": "2",
    "PMI_SIZE": "4",
    "MPI_LOCALRANKID": "0",
    "MPI_LOCALNRANKS": "2",
}
CASES = {  # variables, and RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
    "srun": (SLURM, ("3", "5", "1", "2")),
    "Open MPI": (OPEN_MPI, ("1", "4", "0", "2")),
    "MPICH": (HYDRA, ("2", "4", "0", "2")),
    "MPICH on one machine": (
        {"PMI_RANK": "2", "PMI_SIZE": "4"},
        ("2", "4", None, None),
    ),
    "MPICH inside a job of Slurm's": (
        {**SLURM, "SLURM_PROCID": "0", **HYDRA},
        ("2", "4", "0", "2"),
    ),
    "torchrun inside a job of Slurm's": (
        {**SLURM, "RANK": "7", "WORLD_SIZE": "8"},
        ("7", "8", None, None),
    ),
    "one task": ({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, (None,) * 4),
    "a script of sbatch": ({"SLURM_PROCID": "0"}, (None,) * 4),
    "nobody": ({}, (None,) * 4),
}
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@pytest.mark.parametrize(("variables", "expected"), CASES.values(), ids=CASES)
def test_ranks_are_told_as_torchrun_does(variables, expected):
    found = {**variables, **MEET}
    launchers.complete(found)
    assert tuple(map(found.get, NAMES)) == expected


def test_a_script_that_meets_elsewhere_sees_what_it_saw():
    found = {**SLURM}
    launchers.complete(found)
    assert found == SLURM


@pytest.mark.parametrize(
    ("written", "node", "expected"),
    [("2", 0, "2"), ("2(x2),1", 2, "1"), ("1,3", 1, "3"), ("2", 1, ""), ("", 0, "")],
)
def test_tasks_on_a_node(written, node, expected):
    assert launchers.tasks_of(written, node) == expected


@pytest.mark.parametrize(
    ("given", "variables", "expected"),
    [
        ({}, {}, ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"]),
        ({}, {**MEET, "RANK": "0", "WORLD_SIZE": "2"}, []),
        ({"rank": 0, "world_size": 2}, MEET, []),
        ({"init_method": "env://"}, MEET, ["RANK", "WORLD_SIZE"]),
        ({"init_method": "tcp://a:1"}, {}, []),
        ({"store": object()}, {}, []),
    ],
)
def test_what_is_lacking(given, variables, expected):
    assert launchers.lacking(given, variables) == expected


def test_advice_under_srun_is_a_command():
    names = ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"]
    assert launchers.advice(names, SLURM) == (
        "init_process_group needs MASTER_ADDR and MASTER_PORT, which srun does not "
        "set: before it, export MASTER_ADDR=$(scontrol show hostnames | head -n 1) "
        "MASTER_PORT=29500"
    )
