"""Make torch know the backend; MPI starts here, and not before."""

from __future__ import annotations

from torch import distributed as dist

NAME = "mpi4py"  # torch keeps "mpi" for itself
MISSING = (
    "backend: mpi needs torch built with MPI, or mpi4py and an MPI, which were not "
    "found ({}): `pip install -r requirements-mpi.txt` brings both"
)


def register() -> str:
    """Return the name under which this torch has a backend for MPI.

    "mpi" where torch was built with it; else "mpi4py", which is made known to torch,
    and MPI is started in this process.
    Raises RuntimeError where mpi4py or an MPI is missing.
    """
    if dist.is_mpi_available():
        return "mpi"
    try:
        from course_utils.mpi_backend.group import MPIGroup
    except (ImportError, RuntimeError) as error:  # mpi4py without a library of MPI's
        reason = str(error).partition("\n")[0]
        raise RuntimeError(MISSING.format(reason)) from None
    dist.Backend.register_backend(NAME, MPIGroup, extended_api=True, devices=["cpu"])
    return NAME
