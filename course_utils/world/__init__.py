"""A world: real processes that are the ranks of one process group.

`start` launches it and `ranks` is what a notebook holds of it; `px` runs cells.
`setup` makes engines ranks, and `repair` makes them so again; what they then run
is in `rank`, `variables` and `cell_lines`.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "cell_lines": ("error_block", "short_traceback"),
        "rank": ("call",),
        "ranks": ("Ranks",),
        "repair": ("bring_back",),
        "start": ("launch",),
        "stop": ("interrupted_after", "stoppable"),
    },
)
