"""The exercises of lesson 5, concatenate along a dimension."""

from __future__ import annotations

import ast
import math
import zlib
from collections.abc import Sequence

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard
from course_utils.exercises.source import function
from course_utils.exercises.wording import listed
from course_utils.pictures import Snapshot

JOINS = (  # shape, dtype, dim
    ((2, 3), "int64", 0),
    ((2, 3), "float32", 1),
    ((2, 3), "int64", -1),
    ((2, 2, 3), "float32", 1),
    ((2, 2, 3), "int64", -3),
)
PARTS = (((3,), "int64"), ((2,), "float32"), ((2, 3), "float64"), ((1,), "int64"))
SINGLE = ("all_gather_single", "all_gather_into_tensor")


def shard_and_dim(case: Case, path: str) -> Inputs:
    """Give every rank a shard and the dimension along which to join."""
    return [(shard, case.dim) for (shard,) in one_shard(case, path)]


def joined_along_dim(case: Case, inputs: Inputs) -> list:
    """Give every rank all shards, joined along the dimension."""
    import torch

    return [torch.cat([shard for shard, _ in inputs], case.dim)] * case.world_size


def length_of(case: Case) -> int:
    """Choose the length of the dataset: the rest is padding by the sampler."""
    most = case.world_size - 1
    padding = {(2,): 0, (2, 3): 1}.get(case.shape, most)
    return case.world_size * case.shape[0] - padding


def dataset(case: Case):
    """Make the dataset that is dealt: samples whose order nobody can foresee."""
    import torch

    from course_utils.process_group import device

    shape = (length_of(case), *case.shape[1:])
    seed = torch.Generator().manual_seed(zlib.crc32(repr(case).encode()))
    numbers = 10 + torch.randperm(90, generator=seed)[: math.prod(shape)]
    return numbers.to(getattr(torch, case.dtype)).reshape(shape).to(device())


def dealt_part(case: Case, path: str) -> Inputs:
    """Give every rank what a DistributedSampler deals it, and the length of all."""
    from torch.utils.data import DistributedSampler

    whole, size = dataset(case), case.world_size
    samplers = [
        DistributedSampler(range(len(whole)), size, rank, shuffle=False)
        for rank in range(size)
    ]
    return [(whole[list(sampler)], len(whole)) for sampler in samplers]


def the_dataset(case: Case, inputs: Inputs) -> list:
    """Give every rank the dataset."""
    return [dataset(case)] * case.world_size


# --- 5.1 ------------------------------------------------------------------------


def one_transfer(attempt: Attempt) -> str | None:
    """Nothing moves but by the single-tensor form."""
    for answer in attempt.answers:
        for call in answer.calls:
            asks = call.name.startswith(("get_", "is_"))
            if call.name not in SINGLE and not asks:
                return (
                    f"The function calls {call.name}; this exercise is about one "
                    "buffer and all_gather_single."
                )
    return None


def joined(shards: Sequence[Snapshot], dim: int) -> tuple:
    """Return the values of `torch.cat` along a dimension counted from the front."""
    inner = math.prod(shards[0].shape[dim:])
    outer = math.prod(shards[0].shape[:dim])
    return tuple(
        value
        for i in range(outer)
        for shard in shards
        for value in shard.values[i * inner : (i + 1) * inner]
    )


def alternating(shards: Sequence[Snapshot], dim: int) -> tuple:
    """Return the values where the ranks take turns along a dimension."""
    inner = math.prod(shards[0].shape[dim + 1 :])
    outer = math.prod(shards[0].shape[: dim + 1])
    return tuple(
        value
        for i in range(outer)
        for shard in shards
        for value in shard.values[i * inner : (i + 1) * inner]
    )


def which_shape(attempt: Attempt) -> str | None:
    """Look at the shape of the first result that is not right."""
    found = attempt.difference()
    if found is None or not isinstance(found.yours, Snapshot):
        return None
    shards = [shard for shard, _ in attempt.inputs]
    asked, have = attempt.case.dim, found.yours
    if len(have.shape) == len(attempt.case.shape) + 1:
        return (
            f"The result has shape {have.shape}, one dimension more than a shard: "
            "stacked, not joined."
        )
    if have.shape == found.expected.shape:
        return None
    for dim in range(len(attempt.case.shape)):
        if have.values == joined(shards, dim) and have.shape == shape_of(attempt, dim):
            return f"The shards are joined along dim {dim}, where dim is {asked}."
    return None


def which_join(attempt: Attempt) -> str | None:
    """Look at how the shards lie in the first result that is not right."""
    found = attempt.difference()
    if found is None or not isinstance(found.yours, Snapshot):
        return None
    shards = [shard for shard, _ in attempt.inputs]
    asked, have = attempt.case.dim, found.yours
    front = asked % len(attempt.case.shape)
    if have.shape != found.expected.shape or have.values == joined(shards, front):
        return None
    if have.values == joined(shards, 0):
        return (
            "The flat buffer was reshaped as it was: its elements still lie rank "
            f"after rank, but along dim {asked} the ranks have to lie side by side."
        )
    if have.values == alternating(shards, front):
        return f"Along dim {asked} the ranks take turns, element by element."
    if have.values == joined(shards[::-1], front):
        return "The shards are joined from the last rank to the first."
    return None


def shape_of(attempt: Attempt, dim: int) -> tuple[int, ...]:
    """Return the shape of all shards joined along a dimension."""
    shape = attempt.case.shape
    longer = shape[dim] * attempt.case.world_size
    return (*shape[:dim], longer, *shape[dim + 1 :])


def fixed_dim(attempt: Attempt) -> str | None:
    """Right along other dimensions only."""
    size, asked = attempt.case.world_size, attempt.case.dim
    before = {c.dim for c in attempt.passed if c.world_size == size}
    if not before or asked in before or attempt.ranks("waited"):
        return None
    dims = f"dim{'s' if len(before) > 1 else ''} {listed(before)}"
    return f"It is right along {dims}, and wrong along dim {asked}."


# --- 5.2 ------------------------------------------------------------------------


def which_order(attempt: Attempt) -> str | None:
    """Look at the order of the samples in the first result that is not right."""
    found = attempt.difference()
    if found is None or not isinstance(found.yours, Snapshot):
        return None
    length = attempt.inputs[0][1]
    parts = [samples(part) for part, _ in attempt.inputs]
    dealt = [sample for row in zip(*parts, strict=True) for sample in row]
    by_rank = [sample for part in parts for sample in part]
    have, want = samples(found.yours), samples(found.expected)
    if have in (by_rank, by_rank[:length]) and have != want:
        return (
            "The parts stand one behind the other; the sampler has dealt the dataset "
            "sample by sample, from rank to rank."
        )
    if have == dealt and length < len(dealt):
        return (
            f"The order is right, but the result has {len(have)} samples and the "
            f"dataset {length}: what the sampler added is still there."
        )
    if have == dealt[-length:]:
        return "The result is cut at the wrong end: what the sampler adds comes last."
    if have == parts[found.rank]:
        return f"Rank {found.rank} returns its own part."
    backward = [sample for row in zip(*parts[::-1], strict=True) for sample in row]
    if have == backward[:length] and have != want:
        return "The samples are dealt from the last rank to the first."
    if have in (sorted(want), sorted(dealt)[:length]) and len(want) > 1:
        return "The samples are sorted by value; in the dataset they are not."
    if have != want and sorted(have) == sorted(want):
        return "Every sample is there once, but not in the order of the dataset."
    return None


def all_turned(attempt: Attempt) -> str | None:
    """T turns all dimensions around, where samples have some of their own."""
    node = function(attempt.source, attempt.function)
    turning = (
        [n for n in ast.walk(node) if isinstance(n, ast.Attribute)] if node else []
    )
    if len(attempt.case.shape) < 2 or all(n.attr not in "T" for n in turning):
        return None
    return (
        "`.T` turns all dimensions around, those of a sample as well: only ranks and "
        "samples may change places."
    )


def samples(tensor: Snapshot) -> list[tuple]:
    """Return the values of each sample: the first dimension counts them."""
    each = math.prod(tensor.shape[1:])
    count = tensor.shape[0] if tensor.shape else 0
    return [tensor.values[i * each : (i + 1) * each] for i in range(count)]


EXERCISES = (
    Exercise(
        "5.1",
        "gather_cat_dim",
        inputs=shard_and_dim,
        oracle=joined_along_dim,
        shards=JOINS,
        rules=(one_transfer,),
        forms=(which_shape,),
        hints=(which_join, fixed_dim),
    ),
    Exercise(
        "5.2",
        "in_dataset_order",
        inputs=dealt_part,
        oracle=the_dataset,
        shards=PARTS,
        forms=(all_turned, which_order),
    ),
)
