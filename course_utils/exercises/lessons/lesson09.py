"""The exercise of lesson 9, measure memory."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

SHARDS = (((16384,), "float32"), ((2048, 8), "float64"), ((5000,), "int64"))
MOST = 4  # a shard that lacks more than one of so many elements is not there
SLACK = 4096  # bytes for headers, and for a few numbers on the way


def large_shards(case: Case, path: str) -> Inputs:
    """Give every rank a shard, and the bytes that it may need beside it.

    The budget is one and a half times the whole: less than buffers and whole take.
    """
    import torch

    from course_utils.process_group import device

    count, arguments = math.prod(case.shape), []
    for rank in range(case.world_size):
        numbers = 100_000 * rank + torch.arange(count)
        shard = numbers.to(getattr(torch, case.dtype)).reshape(case.shape)
        budget = case.world_size * shard.nbytes * 3 // 2
        arguments.append((shard.to(device()), budget))
    return arguments


def whole_on_the_root(case: Case, inputs: Inputs) -> list:
    """Give rank 0 the whole, and the others None."""
    import torch

    whole = torch.cat([shard for shard, _ in inputs])
    return [whole] + [None] * (case.world_size - 1)


def over_budget(attempt: Attempt) -> str | None:
    """More memory than the budget."""
    budget = attempt.inputs[0][1]
    over = [r for r, a in enumerate(attempt.answers) if a.peak > budget + SLACK]
    if not over:
        return None
    shard = budget / 1.5 / attempt.case.world_size
    most = max(attempt.answers[rank].peak for rank in over)
    text = (
        f"{these_ranks(over).capitalize()} needed {most / shard:.1f} shards beside the "
        f"own one, and the budget is {budget / shard:g}."
    )
    if sum(1 for rank, _ in attempt.calls("gather") if rank == over[0]) > 2:
        text += (
            " Buffers made anew for each piece may overlap with those before, which "
            "gloo has not let go: make them once."
        )
    return text


def whole_elsewhere(attempt: Attempt) -> str | None:
    """Others than rank 0 return something."""
    more = [r for r in attempt.wrong() if r and attempt.yours[r] is not None]
    if more:
        many = "return" if len(more) > 1 else "returns"
        return f"{these_ranks(more).capitalize()} {many} something; expected is None."
    return None


def only_the_root_calls(attempt: Attempt) -> str | None:
    """A gather without the others."""
    if attempt.ranks("waited") == [0] and any(attempt.calls("gather")):
        return (
            "Rank 0 waits in gather for ranks that do not call it as often: every rank "
            "calls it once for each piece."
        )
    return None


def blocks(yours: Any, expected: Any) -> dict[str, Any]:
    """Tell on a rank of which parts of a result a whole is made.

    wrong: the number of elements at the wrong place; absent: the places of those that
    are nowhere in the result.
    """
    import torch

    if not isinstance(yours, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return {}
    if yours.numel() != expected.numel():
        return {}
    flat, want = yours.detach().flatten(), expected.flatten()
    absent = (~torch.isin(want, flat)).nonzero().flatten().tolist()
    return {
        "wrong": int((flat != want).sum()),
        "absent": absent,
    }


def whole_shape(attempt: Attempt) -> str | None:
    """Another shape than the whole's."""
    yours, expected = attempt.yours[0], attempt.expected[0]
    if isinstance(yours, Snapshot) and yours.shape != expected.shape:
        return (
            f"On rank 0 the result has shape {yours.shape}; the whole has shape "
            f"{expected.shape}."
        )
    return None


def not_there(attempt: Attempt) -> str | None:
    """Shards, or parts of them, that are nowhere in the result."""
    absent = attempt.answers[0].seen.get("absent")
    if not absent:
        return None
    each = math.prod(attempt.case.shape)
    lost = Counter(place // each for place in absent)
    ranks = [rank for rank, count in lost.items() if count > each // MOST]
    if ranks:  # what lies in fresh memory may be anything, of a shard as well
        own = ", its own," if ranks == [0] else ""
        return f"The shard of {these_ranks(ranks)}{own} is not in the result of rank 0."
    return (
        f"{len(absent)} elements of the shards of {these_ranks(sorted(lost))} are not "
        "in the result of rank 0."
    )


def pieces_in_a_row(attempt: Attempt) -> str | None:
    """The right numbers in the wrong places."""
    seen = attempt.answers[0].seen
    if not seen.get("wrong") or seen["absent"]:
        return None
    return (
        "The result on rank 0 has every element, with rows in wrong places: piece i "
        "of rank r belongs behind the pieces before it of the same rank."
    )


EXERCISES = (
    Exercise(
        "9.1",
        "gather_within",
        inputs=large_shards,
        oracle=whole_on_the_root,
        shards=SHARDS,
        rules=(over_budget,),
        stops=(only_the_root_calls,),
        forms=(whole_elsewhere, whole_shape),
        hints=(not_there, pieces_in_a_row),
        look=blocks,
        measured=True,
    ),
)
