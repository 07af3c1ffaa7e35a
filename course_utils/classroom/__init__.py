"""Hand out lessons, and collect what learners made of them.

`handout` writes an archive of lessons, with `twin` for each as plain Python.
`progress` runs submitted notebooks: `collecting` starts a process for each, in which
`worker` runs its cells; `submission` reads it.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "handout": ("handout_command",),
        "progress": ("progress_command",),
    },
)
