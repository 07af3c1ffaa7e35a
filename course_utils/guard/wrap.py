"""Put the guard around the functions of `torch.distributed`, and take it off."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed._functional_collectives import traceable_collective_remaps

from course_utils.guard import known
from course_utils.guard.arguments import OPERATIONS, PEER
from course_utils.guard.comparison import compare, confirm
from course_utils.guard.peers import check_peer

WRAPPER = __file__  # the frames of a guarded call that this package adds
MAKING = ("__new__", "__init__")  # of a P2POp, which wants torch's own isend


def install() -> None:
    """Guard the functions of `torch.distributed` in this process.

    Call it on every rank, before or after `init_process_group`; a second call does
    nothing. From then on a collective on which the ranks disagree raises
    `CollectiveError` on all of them, with a table that names what differs and the line
    of each rank, and the group stays usable. Names that a module has taken by ``from
    torch.distributed import …`` before are not guarded. `uninstall` takes it off.
    """
    for name in (*OPERATIONS, *PEER):
        original = getattr(dist, name, None)
        if original is not None and not hasattr(original, "unguarded"):
            around = guard if name in OPERATIONS else guard_message
            replace(name, original, around(name, original))
    if not hasattr(dist.P2POp.__init__, "unguarded"):
        dist.P2POp.__new__, dist.P2POp.__init__ = guard_operation(dist.P2POp)


def uninstall() -> None:
    """Put torch's own functions back."""
    for name in (*OPERATIONS, *PEER):
        function = getattr(dist, name, None)
        if hasattr(function, "unguarded"):
            traceable_collective_remaps.pop(function, None)
            setattr(dist, name, function.unguarded)
    if hasattr(dist.P2POp.__init__, "unguarded"):
        for name in MAKING:
            setattr(dist.P2POp, name, getattr(dist.P2POp, name).unguarded)


def replace(name: str, original: Callable, guarded: Callable) -> None:
    """Put a guarded function in the place of torch's own, also for torch.compile.

    That knows by identity which functions it can take into a graph, and as what, and
    messages between two ranks by the name in their code.
    """
    guarded.unguarded = original
    guarded.__code__ = guarded.__code__.replace(co_name=name)
    setattr(dist, name, guarded)
    if original in traceable_collective_remaps:
        traceable_collective_remaps[guarded] = traceable_collective_remaps[original]


def guard(name: str, function: Callable) -> Callable:
    """Return a collective that compares before it runs."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if torch.compiler.is_compiling():  # into a graph goes torch's own function
            return function(*args, **kwargs)
        look, group, seen = known.recall(name, args, kwargs)
        if seen is not None:
            if group not in c10d._world.pg_coalesce_state:
                confirm(name, group, seen)
            return function(*args, **kwargs)
        given, misfit = kwargs, ""
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            misfit = str(error)
        else:
            bound.apply_defaults()
            given = bound.arguments
        group = given.get("group") or dist.group.WORLD
        if comparable(given, group):
            told = compare(name, given, group, misfit)
            known.remember(look, group, told, given)
        return function(*args, **kwargs)

    return guarded


def guard_message(name: str, original: Callable) -> Callable:
    """Return a function for messages between two ranks that looks before it runs."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def guarded(*args, **kwargs):
        if torch.compiler.is_compiling():
            return original(*args, **kwargs)
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return original(*args, **kwargs)  # which tells what is wrong
        check_peer(name, given, PEER[name], given.get("group"))
        return original(*args, **kwargs)

    return guarded


def guard_operation(made: type) -> tuple[Callable, Callable]:
    """Return how a P2POp is made of a guarded function: of torch's own.

    torch compares the function with its own isend and irecv.
    """
    new, initialise = (made.__dict__[name] for name in MAKING)

    @functools.wraps(new)
    def renewed(cls, op, *args, **kwargs):
        return new(cls, getattr(op, "unguarded", op), *args, **kwargs)

    @functools.wraps(initialise)
    def initialised(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if not torch.compiler.is_compiling():
            given = {"tensor": tensor, "peer": peer, "group_peer": group_peer}
            check_peer(f"{op.__name__} in P2POp", given, "peer", group)
            op = getattr(op, "unguarded", op)
        more = {} if group_peer is None else {"group_peer": group_peer}  # not in 2.4
        initialise(self, op, tensor, peer, group, tag, **more)

    renewed.unguarded, initialised.unguarded = new, initialise
    return staticmethod(renewed), initialised


def comparable(given: dict[str, Any], group: Any) -> bool:
    """Tell whether this process is in the group, and has peers to compare with."""
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        return False
    if dist.get_world_size(group) == 1 or dist.get_backend(group) == "fake":
        return False
    if group in c10d._world.pg_coalesce_state:
        return False  # torch only notes the call, and makes it later
    return not any(isinstance(v, torch.Tensor) and v.is_meta for v in given.values())
