"""What every rank sends to, and expects from, every other in an all to all.

The pieces of all ranks do not fit into a record. Each rank adds up a number for every
piece that it sends, and takes away one for every piece that it expects; over all
ranks that gives 0, unless a piece that is sent is not the one that is expected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed as dist

from course_utils.guard import arguments as of
from course_utils.guard.layout import packed
from course_utils.guard.words import kind, short
from course_utils.text import indent

Piece = tuple[tuple[int, ...], str]  # shape, and dtype without "torch."
MODULUS = 2**62
MOST = 4  # pieces that an error names
UNPACKED = (
    "passed an {parameter} that is not contiguous, which gives wrong values here; "
    "pass a contiguous one, and copy from it"
)
CURE = {
    "all_to_all": "input_tensor_list[j] on rank i must have the shape and dtype of "
    "output_tensor_list[i] on rank j",
    "all_to_all_single": "input_split_sizes[j] on rank i must be "
    "output_split_sizes[i] on rank j, and dtype and other dims the same",
}
UNEVEN = (
    "passed tensors of several shapes or dtypes, which gloo does not take; use "
    "all_to_all_single with split sizes"
)
SHARED = (
    "passed the same memory to receive into and to send from, which gives wrong "
    "values; receive into a new tensor"
)


def exchange_problem(name: str, given: dict[str, Any], ranks: list[int]) -> str:
    """Say what this rank alone does wrong in an all to all; "" for nothing."""
    if name == "all_to_all":
        return lists_problem(name, given, len(ranks))
    found = single_problem(name, given, len(ranks))
    into, out = (given[n] for n in of.EXCHANGES[name])
    if not found and into.numel() and into.data_ptr() == out.data_ptr():
        return SHARED
    return found


def lists_problem(name: str, given: dict[str, Any], count: int) -> str:
    """Say what is wrong with the two lists of all_to_all."""
    for parameter in of.EXCHANGES[name]:
        listed = given[parameter]
        if not isinstance(listed, list):
            belongs = f"a list of {count} tensors belongs, one for each rank"
            return f"passed {kind(listed)} as {parameter}, where {belongs}"
        for place, item in enumerate(listed):
            if not isinstance(item, torch.Tensor):
                where = f"at index {place} of {parameter}"
                return f"passed {kind(item)} {where}, where a tensor belongs"
        if len(listed) != count:
            return f"passed {len(listed)} tensors as {parameter}, to {count} ranks"
    kinds = {(t.shape, t.dtype) for n in of.EXCHANGES[name] for t in given[n]}
    if len(kinds) > 1 and dist.get_backend(given.get("group")) == "gloo":
        return UNEVEN
    return ""


def single_problem(name: str, given: dict[str, Any], count: int) -> str:
    """Say what is wrong with a tensor of all_to_all_single, or how it is split."""
    for parameter in of.EXCHANGES[name]:
        tensor = given[parameter]
        if not isinstance(tensor, torch.Tensor):
            return f"passed {kind(tensor)} as {parameter}, where a tensor belongs"
        if not packed(tensor):
            return UNPACKED.format(parameter=parameter)
        if not tensor.dim():
            return f"passed an {parameter} without a dim 0 that could be split"
        found = split_problem(parameter, tensor, given, count)
        if found:
            return found
    return ""


def split_problem(parameter: str, tensor: torch.Tensor, given: dict, count: int) -> str:
    """Say that dim 0 of a tensor cannot be split as the call says."""
    splits, rows = given[f"{parameter}_split_sizes"], tensor.shape[0]
    if not splits:
        if rows % count:
            shared = f"which {count} ranks cannot share equally"
            return f"passed an {parameter} of {rows} rows, {shared}, and no split sizes"
        return ""
    said = f"passed {parameter}_split_sizes={list(splits)}"
    if len(splits) != count:
        return f"{said}, not a size for each of {count} ranks"
    if min(map(of.whole_number, splits)) < 0:
        return f"{said}, which are not all whole numbers from 0"
    if sum(splits) != rows:
        return f"{said}, which is {sum(splits)} rows, for an {parameter} of {rows}"
    return ""


def pieces(name: str, given: dict[str, Any], count: int) -> tuple[list, list]:
    """Return the pieces that this rank expects, and those it sends, by group rank."""
    received, sent = of.EXCHANGES[name]
    if name == "all_to_all":
        return [piece(t) for t in given[received]], [piece(t) for t in given[sent]]
    return split(received, given, count), split(sent, given, count)


def piece(tensor: torch.Tensor) -> Piece:
    """Return the shape and dtype of a tensor."""
    return tuple(tensor.shape), short(tensor.dtype)


def split(parameter: str, given: dict[str, Any], count: int) -> list[Piece]:
    """Return the pieces into which dim 0 of a tensor is split."""
    (rows, *rest), dtype = piece(given[parameter])
    splits = given[f"{parameter}_split_sizes"] or [rows // count] * count
    return [((of.whole_number(size), *rest), dtype) for size in splits]


def balance(expected: Sequence[Piece], sent: Sequence[Piece], mine: int) -> int:
    """Return what this rank sends less what it expects, as a number.

    mine: this rank's number in the group. Over all ranks it adds up to a multiple of
    MODULUS.
    """
    total = 0
    for peer, (given, wanted) in enumerate(zip(sent, expected, strict=True)):
        total += weight(mine, peer, given) - weight(peer, mine, wanted)
    return total % MODULUS


def weight(source: int, target: int, sent: Piece) -> int:
    """Return a number for a piece on its way, the same in every process.

    Of pieces without elements shape and dtype do not matter.
    """
    shape, dtype = sent
    if math.prod(shape) == 0:
        return 0
    letters = tuple(dtype.encode())
    return hash((source, target, len(shape), *shape, *letters)) % MODULUS


def unbalanced(name: str, every: dict[int, tuple[list, list]]) -> str:
    """Say which pieces are not what their receivers expect, the first few.

    every: the pieces that each rank expects and sends, by global rank.
    """
    unlike = [
        (source, target, sent[j], expected[i])
        for i, (source, (_, sent)) in enumerate(every.items())
        for j, (target, (expected, _)) in enumerate(every.items())
        if weight(i, j, sent[j]) != weight(i, j, expected[i])
    ]
    lines = [f"{name} did not run: pieces are not what their receivers expect"]
    for source, target, sent, expected in unlike[:MOST]:
        what = f"rank {source} sends {written(sent)} to rank {target}"
        lines += indent(f"{what}, which expects {written(expected)}")
    if len(unlike) > MOST:
        lines += indent(f"and {len(unlike) - MOST} more")
    return "\n".join([*lines, CURE[name]])


def written(sent: Piece) -> str:
    """Write a piece, as in "(2, 4) int64"."""
    return f"{sent[0]} {sent[1]}"


def group_rank(ranks: list[int]) -> int:
    """Return this rank's number among the ranks of a group."""
    return ranks.index(dist.get_rank())
