"""What one rank alone does wrong in a call, in words.

The words follow the name of the rank: "rank 1 passed a list that …". They are made
on that rank; `comparison` brings them to the others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed as dist

from course_utils.guard import arguments as of
from course_utils.guard.layout import dense, packed, strideless
from course_utils.guard.pieces import exchange_problem
from course_utils.guard.words import kind, short, whose

ALIASED = (
    "passed a list that names one buffer several times, as [t] * n does; "
    "every rank's piece needs a buffer of its own"
)
LENGTH = "passed a list whose length is not the number of ranks in the group, {count}"
UNLIKE = "passed buffers whose shape or dtype is not that of its tensor"
SIZE = (
    "passed a tensor for the whole that does not hold {count} times as many "
    "elements as the piece"
)
NO_LIST = "is the root and passed no list"
SURPLUS = "passed a list without being the root; only rank {root} passes one"
LAYOUT = (
    "passed a tensor that is not contiguous, which gives wrong values here; "
    "pass .contiguous()"
)
GAPS = (
    "passed a view with gaps or overlaps in memory, so that what lies beside its "
    "elements would be overwritten; {doing} a copy: column = m[:, 1].contiguous(), "
    "then m[:, 1] = column"
)
DOING = {"broadcast": "broadcast", "all_reduce": "reduce", "reduce": "reduce"}
TARGET = (
    "passed a tensor to receive into that is not contiguous, which gives wrong "
    "values here; receive into a new one: column = torch.empty(3), then "
    "m[:, 1] = column"
)
SWAPPED = "passed its list and its tensor in the wrong order; it is {call}"


def problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say what this rank alone does wrong, whatever the root is; "" for nothing.

    name: of the collective; given: its arguments; ranks: the global ranks of the group.
    """
    for look in (root_problem, kind_problem, size_problem, memory_problem):
        found = look(name, given, ranks)
        if found:
            return found
    return exchange_problem(name, given, ranks) if name in of.EXCHANGES else ""


def plain_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say what this rank does wrong, where torch says it plainly by itself.

    So there is no need to, unless the others would wait for this rank.
    """
    parameter = of.root_name(given)
    if parameter and of.root(given, ranks) == of.NONE:
        return peer_problem(parameter, given, ranks)
    if name in of.WHOLE and name.startswith("all_gather"):
        return stack_problem(name, given, len(ranks))
    return ""


def presence_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say that the list which the root alone passes is missing, or one too many."""
    if name not in of.LIST_OF_ROOT:
        return ""
    passed, root = not absent(name, given), of.root(given, ranks)
    if root == dist.get_rank():
        return "" if passed else NO_LIST
    surplus = passed and name not in of.OVERLOOKED
    return SURPLUS.format(root=root) if surplus else ""


def absent(name: str, given: dict[str, Any]) -> bool:
    """Tell whether a call passes no list, or an empty one."""
    listed = given.get(of.BUFFERS.get(name) or of.OBJECTS.get(name))
    return listed is None or isinstance(listed, (list, tuple)) and not listed


def root_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say that a call names no root of its group."""
    parameter = of.root_name(given)
    if not parameter:
        return ""
    if given[parameter] is None and given.get(f"group_{parameter}") is None:
        missing = name in of.NO_DEFAULT
        return f"named no root; add {parameter}=0, or another" if missing else ""
    if given[parameter] is not None and len(ranks) != dist.get_world_size():
        if 0 <= of.whole_number(given[parameter]) < dist.get_world_size():
            return ""  # see plain_problem
    return peer_problem(parameter, given, ranks)


def peer_problem(parameter: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say that `parameter`, or its namesake "group_…", names no rank of the group."""
    peer, place = given.get(parameter), given.get(f"group_{parameter}")
    if peer is not None and place is not None:
        return f"named both {parameter} and group_{parameter}; give one of them"
    if place is not None:
        parameter, peer, ranks = f"group_{parameter}", place, range(len(ranks))
    if of.whole_number(peer) in ranks:
        return ""
    return f"named {parameter}={peer!r}, {whose(parameter, ranks)}"


def kind_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say that there is something else where a tensor or a list belongs."""
    tensors = [n for n in (of.TENSOR[name], of.WHOLE.get(name)) if n]
    parameter = of.BUFFERS.get(name)
    if parameter and isinstance(given[parameter], torch.Tensor):
        if isinstance(given[tensors[0]], (list, tuple)):
            return SWAPPED.format(call=of.call(name, given))
    for n in tensors:
        if not isinstance(given[n], torch.Tensor):
            return f"passed {kind(given[n])} as {n}, where a tensor belongs"
    if parameter is None or listless(name, given, ranks):
        return ""
    return of_tensors(parameter, given[parameter], len(ranks))


def listless(name: str, given: dict[str, Any], ranks: list[int]) -> bool:
    """Tell whether this rank's list, if any, is a matter of who is the root."""
    if name not in of.LIST_OF_ROOT:
        return False
    return of.root(given, ranks) != dist.get_rank() or absent(name, given)


def of_tensors(parameter: str, listed: Any, count: int) -> str:
    """Say that `parameter` is no list of tensors."""
    if not isinstance(listed, list):
        belongs = f"a list of {count} tensors belongs, one for each rank"
        return f"passed {kind(listed)} as {parameter}, where {belongs}"
    for place, item in enumerate(listed):
        if not isinstance(item, torch.Tensor):
            where = f"at index {place} of {parameter}"
            return f"passed {kind(item)} {where}, where a tensor belongs"
    return ""


def size_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say that lists and tensors do not fit one another, or the number of ranks."""
    count = len(ranks)
    if name in of.WHOLE:
        return whole_problem(name, given, count)
    if name in of.BUFFERS and not listless(name, given, ranks):
        tensor = given[of.TENSOR[name]]
        return buffer_problem(name, given[of.BUFFERS[name]], tensor, count)
    if name in of.OBJECTS and not listless(name, given, ranks):
        return objects_problem(of.OBJECTS[name], given, count)
    if name == "broadcast_object_list":
        return no_list("object_list", given)
    if name == "scatter_object_list":
        return no_list("scatter_object_output_list", given)
    return ""


def buffer_problem(name: str, buffers, tensor: torch.Tensor, count: int) -> str:
    """Say that buffers do not fit their tensor, or the number of ranks."""
    if len(buffers) != count:
        return LENGTH.format(count=count)
    if any(b.shape != tensor.shape or b.dtype != tensor.dtype for b in buffers):
        return UNLIKE
    return ALIASED if name in of.FILLED and aliased(buffers) else ""


def aliased(buffers: list[torch.Tensor]) -> bool:
    """Tell whether a list names one piece of memory several times."""
    filled = [b for b in buffers if b.numel() and not strideless(b)]
    return len({(b.data_ptr(), b.stride()) for b in filled}) < len(filled)


def whole_problem(name: str, given: dict[str, Any], count: int) -> str:
    """Say that the whole and the piece do not fit one another."""
    whole, piece = given[of.WHOLE[name]], given[of.TENSOR[name]]
    if whole.numel() != count * piece.numel():
        swapped = piece.numel() == count * whole.numel()
        order = f"; the order is {of.call(name, given)}" if swapped else ""
        return SIZE.format(count=count) + order
    if whole.dtype != piece.dtype:
        return f"passed a {short(whole.dtype)} whole and a {short(piece.dtype)} piece"
    return "" if name.startswith("all_gather") else stack_problem(name, given, count)


def stack_problem(name: str, given: dict[str, Any], count: int) -> str:
    """Say that the whole is not the pieces along dim 0, which gloo needs."""
    whole, piece = given[of.WHOLE[name]], given[of.TENSOR[name]]
    if dist.get_backend(given.get("group")) != "gloo":
        return ""
    if not piece.dim():
        return "passed a piece without a dim 0, along which gloo puts the pieces"
    size, *rest = piece.shape
    if whole.shape == (count * size, *rest):
        return ""
    shapes = f"a whole of {tuple(whole.shape)} for pieces of {tuple(piece.shape)}"
    return (
        f"passed {shapes}; gloo needs {(count * size, *rest)}, the pieces along dim 0"
    )


def objects_problem(parameter: str, given: dict[str, Any], count: int) -> str:
    """Say that there are not as many objects, or places for them, as ranks."""
    exact = parameter == "scatter_object_input_list"
    found = no_list(parameter, given)
    if found:
        return found
    length = len(given[parameter])
    short_of = length != count if exact else length < count
    return LENGTH.format(count=count) if short_of else ""


def no_list(parameter: str, given: dict[str, Any]) -> str:
    """Say that `parameter` is no list, or an empty one."""
    if isinstance(given[parameter], list) and given[parameter]:
        return ""
    return f"passed {kind(given[parameter])} as {parameter}, where a list belongs"


def memory_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say that a tensor does not lie in memory as the backend takes it to."""
    if name in of.RAW:
        tensor = given[of.TENSOR[name]]
        return "" if dense(tensor) else GAPS.format(doing=DOING[name])
    if name == "scatter":
        listed = [] if listless(name, given, ranks) else given["scatter_list"]
        return "" if all(map(packed, [given["tensor"], *listed])) else LAYOUT
    if name == "reduce_scatter":
        return "" if packed(given["output"]) else TARGET
    return ""
