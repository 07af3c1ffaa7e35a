"""What the parameters of each collective are for, by their names."""

from __future__ import annotations

import operator
from typing import Any

NONE = -1
# The tensor whose shape and dtype every rank must share; None where there is none.
TENSOR = {
    "all_gather": "tensor",
    "all_gather_single": "input_tensor",
    "all_gather_into_tensor": "input_tensor",
    "all_reduce": "tensor",
    "broadcast": "tensor",
    "gather": "tensor",
    "scatter": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_single": "output",
    "reduce_scatter_tensor": "output",
    "all_to_all": None,
    "all_to_all_single": None,
    "barrier": None,
    "all_gather_object": None,
    "gather_object": None,
    "broadcast_object_list": None,
    "scatter_object_list": None,
}
OPERATIONS = list(TENSOR)
BUFFERS = {  # the list that holds a tensor for every rank
    "all_gather": "tensor_list",
    "gather": "gather_list",
    "scatter": "scatter_list",
    "reduce_scatter": "input_list",
}
WHOLE = {  # the one tensor that holds a piece for every rank
    "all_gather_single": "output_tensor",
    "all_gather_into_tensor": "output_tensor",
    "reduce_scatter_single": "input",
    "reduce_scatter_tensor": "input",
}
OBJECTS = {  # the list that holds an object for every rank
    "all_gather_object": "object_list",
    "gather_object": "object_gather_list",
    "scatter_object_list": "scatter_object_input_list",
}
LIST_OF_ROOT = ("gather", "scatter", "gather_object", "scatter_object_list")
OVERLOOKED = ("scatter_object_list",)  # a list of others than the root does no harm
FILLED = ("all_gather", "gather")  # these write to their buffers
RAW = ("broadcast", "all_reduce", "reduce")  # copy memory as it lies, in place
EXCHANGES = {  # what is received, and what is sent, a piece from and to every rank
    "all_to_all": ("output_tensor_list", "input_tensor_list"),
    "all_to_all_single": ("output", "input"),
}
NO_DEFAULT = ("broadcast", "reduce")  # these have no root unless one is named
PEER = {  # point to point: the parameter that names the other rank
    "send": "dst",
    "isend": "dst",
    "recv": "src",
    "irecv": "src",
    "send_object_list": "dst",
    "recv_object_list": "src",
}


def root_name(given: dict[str, Any]) -> str:
    """Return the name under which a call knows its root; "" if it has none."""
    return next((name for name in ("src", "dst") if name in given), "")


def root(given: dict[str, Any], ranks: list[int]) -> int:
    """Return the global rank that the call names as its root, or NONE.

    ranks: the global ranks of the group. What names no rank of them counts as NONE.
    """
    name = root_name(given)
    if not name:
        return NONE
    if given[name] is not None:
        named = whole_number(given[name])
        return named if named in ranks else NONE
    if given.get(f"group_{name}") is None:
        return 0
    place = whole_number(given[f"group_{name}"])
    return ranks[place] if 0 <= place < len(ranks) else NONE


def whole_number(value: Any) -> int:
    """Return a rank as an int, or NONE for what is none."""
    try:
        return operator.index(value)
    except TypeError:
        return NONE


def call(name: str, given: dict[str, Any]) -> str:
    """Write how a collective is called, as in "gather(tensor, gather_list)"."""
    return f"{name}({', '.join([*given][:2])})"
