"""A process group over MPI, for the torch of the wheels, which was built without it.

In a script whose ranks mpiexec has started, and which have torchrun's variables::

    from course_utils import mpi_backend

    dist.init_process_group(mpi_backend.register())

`register` returns "mpi" where torch was built with MPI, and else "mpi4py", the name of
a backend of ours: every collective, messages between two ranks and sub-groups, for CPU
tensors of any dtype. It needs mpi4py and an MPI, which requirements-mpi.txt brings. In
a notebook ``launch(4, backend="mpi")`` does all of this.

Every call of MPI's is one that does not block, and is polled: Ctrl-C, a time-out and
the report of a stuck cell end a wait, and the ranks make a new group in the same MPI
world.

What it cannot do:

- Ranks that were forked, and the children that a rank forks, have no MPI. Ranks that
  mpiexec did not start together are in worlds of their own and never meet, so a rank
  that died can be replaced only by starting all of them anew.
- MPI moves data while a rank is in one of its calls. Work with ``async_op=True`` goes
  on in ``wait`` or ``is_completed``, hardly while the rank computes, and ``get_future``
  waits; what nobody waits for may never arrive.
- A group that is left keeps its communicator: MPICH has about 2000 for a process.
- No GPU tensors, no sparse ones; float16 and bfloat16 are summed as float32; torch's
  functional and coalesced collectives are not there.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "registering": ("register",),
        "work": ("give_up",),
    },
)
