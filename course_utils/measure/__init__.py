"""Memory and time: measured on the ranks, predicted from formulas, planned for.

`peak`, `resident`, `timing` and `network` measure; `ways`, `route` and `prediction` say
what each way to concatenate costs; `link` fits latency and bandwidth; `planning` and
`summary` put measured and predicted together; `rehearsal` runs thousands of ranks
in one process.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "link": ("Link", "bus_bandwidth", "fit"),
        "network": ("sent_bytes", "sockets", "traffic"),
        "peak": ("Memory", "peak_memory"),
        "planning": ("plan", "plan_command"),
        "prediction": ("cost", "peak_formula"),
        "rehearsal": ("rehearse",),
        "resident": ("memory_limit", "resident_memory", "return_freed_memory"),
        "summary": ("Summary",),
        "timing": ("Timing", "in_turns", "seconds"),
        "ways": ("WAYS",),
    },
)
