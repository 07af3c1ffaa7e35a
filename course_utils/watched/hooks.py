"""Act as soon as a script has imported torch, and around its process groups."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable

from course_utils.watched import launchers
from course_utils.watched import meeting as meetings
from course_utils.watched.sentry import Sentry


class Finder:
    """Find one module as others do, and call a function once it is imported.

    torch is not imported earlier for it: a script may set environment variables that
    torch reads when it is imported.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def find_spec(self, name: str, path=None, target=None):
        """Return the spec of the module, whose loader calls the function."""
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_call(module) -> None:
            execute(module)
            self._then()

        spec.loader.exec_module = execute_and_call
        return spec


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call a function once a module is imported; now, if it is already."""
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, Finder(name, then))


def around_groups(sentry: Sentry) -> None:
    """Let the watch know of process groups that come and go."""
    from torch import distributed as dist

    if not dist.is_available():
        return
    init, destroy = dist.init_process_group, dist.destroy_process_group
    signature = inspect.signature(init)

    @functools.wraps(init)
    def initialise(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # which torch tells
            given = {}
        launchers.complete(os.environ)
        if lacking := launchers.lacking(given, os.environ):
            raise ValueError(launchers.advice(lacking, os.environ))
        sentry.meet(meetings.of_arguments(given))
        return init(*args, **kwargs)

    @functools.wraps(destroy)
    def leave(*args, **kwargs):
        sentry.remember()
        return destroy(*args, **kwargs)

    for module in (dist, dist.distributed_c10d, dist.device_mesh):
        for name, function in (
            ("init_process_group", initialise),
            ("destroy_process_group", leave),
        ):
            if hasattr(module, name):
                setattr(module, name, function)
