"""Turn the guards on for one run of pytest."""

from __future__ import annotations

import pytest

from course_utils.nb_guard.left_behind import LeftBehind

NEEDS_NBVAL = "--nb-guard needs nbval: pip install 'course-utils[test]'"


def turn_on(config: pytest.Config) -> None:
    """Register the guards as the options ask.

    Raises pytest.UsageError where nbval is missing or turned off by -p no:nbval.
    """
    if not hasattr(config.option, "nbval_cell_timeout"):
        raise pytest.UsageError(NEEDS_NBVAL)
    from course_utils.nb_guard.cells import Cells
    from course_utils.nb_guard.kernels import watch_kernels

    watch_kernels()
    option = config.option
    cells = Cells(
        unrun=option.nb_guard_unrun,
        skips=option.nb_guard_skips,
        cell_limit=option.nbval_cell_timeout,
        notebook_limit=option.nb_guard_limit,
    )
    config.pluginmanager.register(cells, "nb-guard-cells")
    processes = LeftBehind(option.nb_guard_patience)
    config.pluginmanager.register(processes, "nb-guard-processes")
