"""The exercises of lesson 4, gather on one rank and scatter back."""

from __future__ import annotations

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

MEANS = (((2,), "float64"), ((2, 3), "float64"), ((), "float64"))
CLOSE = 1e-6  # of a mean: the way to it does not matter
SORTS = (((3,), "int64"), ((5,), "float32"), ((1,), "int64"))
LISTS = {"gather": "gather_list", "scatter": "scatter_list"}


def mean_on_the_root(case: Case, inputs: Inputs) -> list:
    """Give rank 0 the mean of all elements, and the others None."""
    every = [number for (shard,) in inputs for number in shard.flatten().tolist()]
    return [sum(every) / len(every)] + [None] * (case.world_size - 1)


def mixed_shards(case: Case, path: str) -> Inputs:
    """Give every rank a shard of numbers that belong on any of the ranks."""
    import torch

    whole = torch.cat([shard for (shard,) in one_shard(case, path)])
    seed = torch.Generator().manual_seed(case.world_size + len(whole))
    mixed = whole[torch.randperm(len(whole), generator=seed).to(whole.device)]
    return [(chunk.clone(),) for chunk in mixed.chunk(case.world_size)]


def sorted_chunks(case: Case, inputs: Inputs) -> list:
    """Give rank r the r-th chunk of the sorted whole."""
    import torch

    whole = torch.cat([shard for (shard,) in inputs]).sort().values
    return list(whole.chunk(case.world_size))


# --- how gather and scatter were called -----------------------------------------


def everyone_holds_it(attempt: Attempt) -> str | None:
    """The whole went to every rank."""
    moving = {
        call.name
        for answer in attempt.answers
        for call in answer.calls
        if not call.name.startswith(("get_", "is_", "barrier"))
    }
    if moving and all(name.startswith("all_gather") for name in moving):
        return (
            f"With {min(moving)} every rank holds the whole; here rank 0 alone is to "
            "hold it."
        )
    return None


def list_elsewhere(attempt: Attempt) -> str | None:
    """Another rank than the root passes a list."""
    for name, parameter in LISTS.items():
        for rank, call in attempt.calls(name):
            root = named_root(call.arguments)
            if rank != root and call.arguments[parameter] is not None:
                empty = "" if call.arguments[parameter] else "n empty"
                return (
                    f"Rank {rank} passed a{empty} list to {name}; only the root, here "
                    f"rank {root}, passes one."
                )
    return None


def named_root(given: dict) -> int:
    """Return the root that a call names, 0 if it names none."""
    names = ("dst", "src", "group_dst", "group_src")
    return next((given[n] for n in names if given.get(n) is not None), 0)


def root_elsewhere(attempt: Attempt) -> str | None:
    """The whole is gathered on another rank than 0."""
    for rank, call in attempt.calls("gather"):
        root = named_root(call.arguments)
        if root != 0:
            return f"Rank {rank} gathers on rank {root}; here rank 0 is the root."
    return None


# --- 4.1 ------------------------------------------------------------------------


def which_mean(attempt: Attempt) -> str | None:
    """Rank 0 has a number, but another one."""
    yours, shards = attempt.yours[0], [shard.values for (shard,) in attempt.inputs]
    if type(yours) is not float or attempt.answers[0].right:
        return None
    if near(yours, sum(shards[0]) / len(shards[0])):
        return "Rank 0 returns the mean of its own shard; the others' are left out."
    total, count = sum(map(sum, shards)), sum(map(len, shards))
    for divisor in range(1, count):
        if near(yours * divisor, total):
            by = f"divided by {divisor}" if divisor > 1 else "not divided"
            return f"That is the sum of all elements, {by}; there are {count} of them."
    return None


def near(one: float, other: float) -> bool:
    """Tell whether two numbers are equal to rounding."""
    return abs(one - other) <= CLOSE * abs(other)


def joined_numbers(attempt: Attempt) -> str | None:
    """cat, of tensors without a dimension."""
    if any("zero-dimensional tensor" in answer.error for answer in attempt.answers):
        return (
            "torch.cat refuses tensors without a dimension, and a shard may be one: "
            "it may have any shape."
        )
    return None


def returned_elsewhere(attempt: Attempt) -> str | None:
    """Others than rank 0 return something."""
    more = [r for r in attempt.wrong() if r and attempt.yours[r] is not None]
    if more:
        many = "return" if len(more) > 1 else "returns"
        return (
            f"{these_ranks(more).capitalize()} {many} something, too; None is expected "
            "on every rank but 0."
        )
    return None


# --- 4.2 ------------------------------------------------------------------------


def which_chunks(attempt: Attempt) -> str | None:
    """Look at what every rank has instead of its chunk."""
    size, yours = attempt.case.world_size, attempt.yours
    if not all(isinstance(value, Snapshot) for value in yours):
        return None
    have = [value.values for value in yours]
    given = [shard.values for (shard,) in attempt.inputs]
    want = [value.values for value in attempt.expected]
    whole = tuple(number for chunk in want for number in chunk)
    if whole in have:
        return f"Rank {have.index(whole)} returns the whole, not its chunk of it."
    if have == given:
        return "Every rank has its own shard back, as if nothing had been sorted."
    if have == [tuple(sorted(shard)) for shard in given]:
        return "Every rank has sorted its own shard, without those of the others."
    if have == want[::-1]:
        return "The chunks have gone to the ranks in reverse order."
    if have == [chunk[::-1] for chunk in want[::-1]]:
        return "The whole is sorted from large to small."
    if have == [whole[rank::size] for rank in range(size)]:
        return (
            f"The elements were dealt one by one: rank 0 has numbers 0, {size} and so "
            "on of the sorted whole; a chunk is one stretch of it."
        )
    if len(set(have)) == 1 and have[0] in want:
        return f"Every rank has the same chunk, that of rank {want.index(have[0])}."
    return None


EXERCISES = (
    Exercise(
        "4.1",
        "mean_on_root",
        inputs=one_shard,
        oracle=mean_on_the_root,
        shards=MEANS,
        rules=(everyone_holds_it, list_elsewhere, root_elsewhere),
        stops=(joined_numbers,),
        forms=(returned_elsewhere,),
        hints=(which_mean,),
        tolerance=CLOSE,
    ),
    Exercise(
        "4.2",
        "sort_across_ranks",
        inputs=mixed_shards,
        oracle=sorted_chunks,
        shards=SORTS,
        rules=(everyone_holds_it, list_elsewhere, root_elsewhere),
        forms=(which_chunks,),
    ),
)
