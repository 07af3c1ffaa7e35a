"""Watch a script under torchrun: ranks that wait in vain are named, and the job ends.

    torchrun --nproc-per-node=4 -m course_utils.watched train.py --epochs 3

Where srun or an mpiexec starts the ranks, they are known by what these tell them
(`launchers`), and you say where rank 0 listens:

    export MASTER_ADDR=$(scontrol show hostnames | head -n 1) MASTER_PORT=29500
    srun --ntasks-per-node=4 python -m course_utils.watched train.py

On each rank `sentry` has a thread that looks at the main thread (`lookout`) and tells
the others, over the store of the process group (`board`, `meeting`), what it is in.
`verdict` decides from that who waits in vain. A small process above each rank
(`supervisor`) sees how it ends. Reports name hosts where there are several.

With nccl, what a GPU waits in is read from torch's flight recorder (`flight`), and a
report says which collective of its group that is, counted from 1. That is written and
tested on recorded dumps; it has not been tried on a GPU yet.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__, {"options": ("Options",), "starting": ("start",)}
)
