"""Words for arguments: what kind of thing came, and which ranks there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed as dist

from course_utils.text import rank_list


def kind(value: Any) -> str:
    """Name the type of an argument, as in "a list" or "None"."""
    if value is None:
        return "None"
    if isinstance(value, (list, tuple)) and not value:
        return f"an empty {type(value).__name__}"
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeio" else f"a {name}"


def short(dtype: torch.dtype) -> str:
    """Write a dtype without "torch."."""
    return str(dtype).removeprefix("torch.")


def whose(parameter: str, ranks: Sequence[int]) -> str:
    """Say which ranks `parameter` could name instead."""
    count = len(ranks)
    if parameter.startswith("group_"):
        return f"but the group has {count} ranks, counted from 0 to {count - 1}"
    if list(ranks) != list(range(dist.get_world_size())):
        return f"but the ranks of the group are {rank_list(ranks)}"
    return f"but the world size is {count} and its ranks are {rank_list(ranks)}"
