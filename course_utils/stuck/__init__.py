"""Notice ranks that wait in vain, say who waits where for whom, and free them.

On a rank `watch` answers from a thread of its own, with what `stacks` and
`connections` see. In the notebook `stall` decides when a cell can no longer end,
`states` and `causes` put into words what its ranks do, and `report` writes it down.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "causes": ("likely_cause",),
        "looking": ("Eyes", "arguments", "members", "sequences"),
        "report": (),
        "stacks": ("idle_call", "seconds_of", "waiting_call"),
        "stall": ("Watched", "ask"),
        "states": ("POINT_TO_POINT", "RankState", "having", "lines", "wants"),
        "watch": ("REQUEST", "Watch"),
    },
)
