"""The exercises: what each asks, how an answer is tried, and what is said of it.

`lessons` has an entry for each exercise. `checking` and `trial` run in the notebook's
kernel, `attempt` and `case_world` on the ranks; `verdict`, `hints` and `endings` put
what happened into words.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "answers": ("Attempt", "Case"),
        "checking": ("check",),
        "exercise": ("Exercise",),
        "registry": ("known", "register"),
    },
)
