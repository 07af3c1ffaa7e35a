"""The exercises: what each asks, how an answer is tried, and what is said of it.

`lessons` has an entry for each exercise. `checking` and `trial` run in the notebook's
kernel, `attempt`, `evidence` and `case_world` on the ranks. `verdict` puts what
happened into words; `hints` has the order in which a cause is looked for: `endings` and
`refusals` of calls that did not return, `forms`, `places` and `worlds` of results.
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
