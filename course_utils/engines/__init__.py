"""The processes behind the ranks: ipyparallel's engines, started, held and stopped.

`forked` starts them by `fork` and `fork_parent`, `handed_over` by one of
ipyparallel's own launchers; `control` addresses them by rank.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "control": ("Control",),
        "forked": ("Forked",),
        "handed_over": ("HandedOver",),
        "leash": ("follow",),
        "machine": (),
        "starting": ("LOOPBACK", "StartError"),
    },
)
