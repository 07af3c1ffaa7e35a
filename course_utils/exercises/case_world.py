"""A world for one case of an exercise, in place of the learner's own.

The learner's process groups are set aside, not destroyed, and come back afterwards.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from IPython import get_ipython
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

from course_utils.guard import install, uninstall
from course_utils.process_group import destroy, init, put_groups, take_groups

SIZES = ("WORLD_SIZE", "LOCAL_WORLD_SIZE")


def enter(
    world_size: int, backend: str | None, timeout: float, store: str | tuple[str, int]
) -> None:
    """Set the learner's world aside and join one of the first `world_size` ranks.

    backend: None leaves the process group to the exercise.
    timeout: seconds after which a collective that waits fails, also in groups that
        the exercise makes without one.
    store: as in `init`.
    """
    kernel = get_ipython().kernel
    if getattr(kernel, "set_aside", None):
        leave()
    kernel.set_aside = {
        "groups": take_groups(),
        "environment": {name: os.environ[name] for name in SIZES},
        "guarded": hasattr(dist.all_gather, "unguarded"),
        "timeout": c10d.default_pg_timeout,
    }
    os.environ.update({n: str(min(int(os.environ[n]), world_size)) for n in SIZES})
    install()  # an error, not wrong numbers or an abort
    c10d.default_pg_timeout = timedelta(seconds=timeout)
    if backend is not None:
        init(backend, timeout, store)


def leave() -> None:
    """Leave the world of the case, if there is one, and bring the learner's back."""
    kernel = get_ipython().kernel
    aside: dict[str, Any] | None = getattr(kernel, "set_aside", None)
    if aside is None:
        return
    destroy()
    put_groups(aside["groups"])
    os.environ.update(aside["environment"])
    if not aside["guarded"]:
        uninstall()
    c10d.default_pg_timeout = aside["timeout"]
    kernel.set_aside = None
