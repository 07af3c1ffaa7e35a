"""The members of a process group find each other in MPI's world."""

from __future__ import annotations

from uuid import uuid4

from mpi4py import MPI

TAGS = 2**14  # for making a communicator; few, so that every MPI has them
APART = (
    "mpi: rank {} is not in one MPI world with rank 0: mpiexec has to start all ranks "
    'together, as in launch({}, backend="mpi") or `mpiexec -n {}`'
)


def communicator(options) -> MPI.Intracomm:
    """Return a communicator of the members of a group, who meet in its store.

    options: what torch tells a backend about the group. Raises RuntimeError on all of
    them if one mpiexec has not started them all.
    """
    world, store = MPI.COMM_WORLD, options.store
    me, size = options.group_rank, options.group_size
    store.set(f"mpi/{me}", f"{world.size} {world.rank}")
    told = [store.get(f"mpi/{rank}").decode().split() for rank in range(size)]
    members = [int(rank) for _, rank in told]
    for rank, (count, _) in enumerate(told):
        if count != told[0][0] or members.index(members[rank]) != rank:
            raise RuntimeError(APART.format(rank, size, size))
    if me == 0:  # and all are here: nobody is left waiting in what follows
        store.set("mpi/tag", str(uuid4().int % TAGS))
    tag = int(store.get("mpi/tag"))
    return world.Create_group(world.group.Incl(members), tag)
