"""Watch a script under torchrun: ranks that wait in vain are named, and the job ends.

    torchrun --nproc-per-node=4 -m course_utils.watched train.py --epochs 3

On each rank `sentry` has a thread that looks at the main thread (`lookout`) and tells
the others, over the store of the process group (`board`, `meeting`), what it is in.
`verdict` decides from that who waits in vain. A small process above each rank
(`supervisor`) sees how it ends.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__, {"options": ("Options",), "starting": ("start",)}
)
