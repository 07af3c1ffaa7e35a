"""The exercise of lesson 9, measure memory."""

from __future__ import annotations

import math

from course_utils.answers import Attempt, Case
from course_utils.exercise import Exercise, Inputs
from course_utils.layout import Snapshot
from course_utils.quantities import show_bytes
from course_utils.text import these_ranks

SHARDS = (((16384,), "float32"), ((2048, 8), "float64"), ((5000,), "int64"))
SLACK = 4096  # bytes for headers, and for a few numbers on the way


def large_shards(case: Case, path: str) -> Inputs:
    """Give every rank a shard, and the bytes that it may need beside it.

    The budget is the whole and one shard more.
    """
    import torch

    from course_utils.process_group import device

    count, arguments = math.prod(case.shape), []
    for rank in range(case.world_size):
        numbers = 100_000 * rank + torch.arange(count)
        shard = numbers.to(getattr(torch, case.dtype)).reshape(case.shape)
        budget = (case.world_size + 1) * shard.nbytes
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
    most = attempt.answers[over[0]].peak
    return (
        f"{these_ranks(over).capitalize()} needed {show_bytes(most)} beside the shard, "
        f"and the budget is {show_bytes(budget)}."
    )


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


def pieces_in_a_row(attempt: Attempt) -> str | None:
    """The right numbers in the wrong places."""
    yours, expected = attempt.yours[0], attempt.expected[0]
    if not isinstance(yours, Snapshot) or attempt.answers[0].right:
        return None
    if yours.shape != expected.shape:
        return (
            f"On rank 0 the result has shape {yours.shape}; the whole has shape "
            f"{expected.shape}."
        )
    return (
        "The result on rank 0 has the right shape, with rows in wrong places: piece i "
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
        hints=(only_the_root_calls, over_budget, whole_elsewhere, pieces_in_a_row),
        measured=True,
    ),
)
