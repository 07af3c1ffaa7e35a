"""Put the guard around the collectives of `torch.distributed`, and take it off."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed as dist

from course_utils.guard.comparison import compare
from course_utils.guard.record import OPERATIONS

WRAPPER = __file__  # the frames of a guarded call that this package adds


def install() -> None:
    """Guard the collectives of `torch.distributed` in this process."""
    for name in OPERATIONS:
        function = getattr(dist, name, None)
        if function is not None and not hasattr(function, "unguarded"):
            setattr(dist, name, guard(name, function))


def uninstall() -> None:
    """Put torch's own functions back."""
    for name in OPERATIONS:
        function = getattr(dist, name, None)
        if hasattr(function, "unguarded"):
            setattr(dist, name, function.unguarded)


def guard(name: str, function: Callable) -> Callable:
    """Return a collective that compares before it runs."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # which tells what is wrong
        bound.apply_defaults()
        given = bound.arguments
        group = given.get("group") or dist.group.WORLD
        if comparable(given, group):
            compare(name, given, group)
        return function(*args, **kwargs)

    guarded.unguarded = function
    return guarded


def comparable(given: dict[str, Any], group: Any) -> bool:
    """Tell whether this process is in the group, and has peers to compare with."""
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        return False
    if dist.get_world_size(group) == 1 or dist.get_backend(group) == "fake":
        return False
    return not any(isinstance(v, torch.Tensor) and v.is_meta for v in given.values())
