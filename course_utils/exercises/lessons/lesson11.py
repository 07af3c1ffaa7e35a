"""The exercises of lesson 11, share one loss."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterator

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard
from course_utils.exercises.places import numbers as numbers_in
from course_utils.exercises.source import function, returns
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

# Small whole numbers as float64, and powers of two to divide by: every way to add,
# multiply and divide gives the same bits.
ROWS = ((3,), "float64", None, (2, 0, 2, 4)), ((2,), "float64", None, (1, 3, 4, 0))
EQUAL = (((4,), "float64"), ((2, 3), "float64"))
NO_GRAPH = "does not require grad"
CLOSE = 1e-9  # of a gradient in float64: the order of sums does not matter


def fourth_power(full):
    """Return a number that depends on every pair of elements."""
    return full.square().sum().square()


def shard_and_loss(case: Case, path: str) -> Inputs:
    """Give every rank a shard and the same loss."""
    return [(shard, fourth_power) for (shard,) in one_shard(case, path)]


def pieces_of_gradient(case: Case, inputs: Inputs) -> list:
    """Give every rank its piece of the gradient of one process."""
    import torch

    full = torch.cat([shard for shard, _ in inputs]).requires_grad_()
    fourth_power(full).backward()
    return list(full.grad.chunk(case.world_size))


def weight_and_rows(case: Case, path: str) -> Inputs:
    """Give every rank the same weight, and as many rows as the case says."""
    import torch

    from course_utils.process_group import device

    seed = torch.Generator().manual_seed(zlib.crc32(repr(case).encode()))

    def numbers(*shape):
        drawn = torch.randint(1, 10, shape, generator=seed)
        return drawn.to(getattr(torch, case.dtype)).to(device())

    weight = numbers(*case.shape)
    rows = [numbers(n, *case.shape) for n in case.sizes[: case.world_size]]
    return [(weight, shard) for shard in rows]


def gradient_of_mean(case: Case, inputs: Inputs) -> list:
    """Give every rank the gradient of the mean over the rows of all shards."""
    import torch

    weight, full = inputs[0][0], torch.cat([shard for _, shard in inputs])
    return [2 * (full @ weight) @ full / len(full)] * case.world_size


# --- hints ----------------------------------------------------------------------


def no_history(attempt: Attempt) -> str | None:
    """backward() found nothing to follow."""
    if any(NO_GRAPH in answer.error for answer in attempt.answers):
        if "requires_grad" not in attempt.source:
            return (
                "Nothing requires a gradient, so backward() finds no history: what is "
                "given does not, and a clone of it may with requires_grad_()."
            )
        return (
            "What backward() started from has no history: gathered buffers lead back "
            "to no shard."
        )
    return None


def no_leaf(attempt: Attempt) -> str | None:
    """`.grad` is None."""
    node = function(attempt.source, attempt.function)
    if any(yours is not None for yours in attempt.yours) or node is None:
        return None
    given = [v for v in returns(node) if isinstance(v, ast.Attribute)]
    if any(value.attr == "grad" for value in given):
        return (
            "`.grad` is None: backward() leaves a gradient at leaves that it comes to. "
            "What is computed from one, as by clone(), is no leaf."
        )
    return None


def not_a_number(attempt: Attempt) -> str | None:
    """NaN, of a mean over nothing."""
    for rank in attempt.wrong():
        if any(value != value for value in numbers_in(attempt.yours[rank])):
            empty = [r for r, n in enumerate(attempt.case.sizes) if not n]
            of = f", as of {these_ranks(empty)}" if empty else ""
            return (
                f"Rank {rank} returns NaN: the mean over no rows{of} is 0 / 0, and in "
                "a sum it spoils all others."
            )
    return None


def times(attempt: Attempt) -> str | None:
    """Every rank has the same multiple of the right gradient."""
    size = attempt.case.world_size
    factors = {factor(*pair) for pair in pairs(attempt)} - {None}
    if factors == {float(size)}:
        return (
            f"The gradient is {size} times the right one: the losses of all {size} "
            "ranks sent theirs back."
        )
    if factors == {1 / size}:
        return (
            f"The gradient is a {ORDINALS.get(size, f'{size}th')} of the right one: it "
            "was divided by the number of ranks once too often."
        )
    return None


ORDINALS = {2: "half", 3: "third", 4: "quarter"}


def pairs(attempt: Attempt) -> list[tuple[tuple, tuple]]:
    """Return the values of expected and yours, where both are tensors of one shape."""
    return [
        (want.values, got.values)
        for want, got in zip(attempt.expected, attempt.yours, strict=True)
        if isinstance(got, Snapshot) and isinstance(want, Snapshot)
        if want.shape == got.shape
    ]


def factor(want: tuple, got: tuple) -> float | None:
    """Return f with got == f * want to rounding, None if there is none."""
    found = [g / w for w, g in zip(want, got, strict=True) if w]
    if not found or max(found) - min(found) > 1e-9 * abs(found[0]):
        return None
    return round(found[0], 9)


def added_up(attempt: Attempt) -> str | None:
    """Gradients of different shards, added."""
    columns = zip(*[want.values for want in attempt.expected], strict=True)
    total = [sum(column) for column in columns]
    if len(attempt.expected) > 1 and all(
        isinstance(g, Snapshot) and near(g.values, total) for g in attempt.yours
    ):
        return (
            "The gradients of different shards are added up; each rank keeps the one "
            "of its own shard."
        )
    return None


def own_shard_only(attempt: Attempt) -> str | None:
    """The loss of each rank's own shard, without the others."""
    size = attempt.case.world_size
    if size < 2 or not attempt.wrong():
        return None
    for rank in attempt.wrong():
        own = attempt.inputs[rank][0].values
        alone = tuple(4 * x * sum(y * y for y in own) for x in own)
        yours = attempt.yours[rank]
        if not isinstance(yours, Snapshot) or yours.values != alone:
            return None
    return "That is the gradient of a loss over the rank's own shard alone."


def whole_gradient(attempt: Attempt) -> str | None:
    """The gradient of the full tensor instead of the piece."""
    whole = tuple(v for want in attempt.expected for v in want.values)
    for rank in attempt.wrong():
        yours = attempt.yours[rank]
        if isinstance(yours, Snapshot) and yours.values == whole and len(whole) > 1:
            return (
                f"Rank {rank} returns the gradient of the full tensor; only the piece "
                "for its own shard is asked for."
            )
    return None


def which_mean(attempt: Attempt) -> str | None:
    """Look for the mean of means, the sum, and a rank's own gradient."""
    sizes = attempt.case.sizes[: attempt.case.world_size]
    wrong = attempt.wrong()
    yours = {r: attempt.yours[r] for r in wrong}
    if not wrong or not all(isinstance(g, Snapshot) for g in yours.values()):
        return None
    sums = [gradient_of_sum(*given) for given in attempt.inputs]
    for own, why in (*of_all(attempt, sums), *of_each(sums, sizes)):
        if all(near(yours[rank].values, own[rank]) for rank in wrong):
            return why
    return None


def of_all(attempt: Attempt, sums: list[list[float]]) -> Iterator[tuple[list, str]]:
    """Yield wrong gradients that are the same on every rank, with what they are."""
    sizes = attempt.case.sizes[: len(sums)]
    total = [sum(column) for column in zip(*sums, strict=True)]
    means = [[v / n for v in own] for own, n in zip(sums, sizes, strict=True) if n]
    columns = [*zip(*means, strict=True)]
    for count in (len(sizes), len(means)):
        yield (
            [[sum(column) / count for column in columns]] * len(sizes),
            "That is the mean of the ranks' means: a rank with few rows counts as much "
            "as one with many.",
        )
    rows = [row for _, shard in attempt.inputs for row in rows_of(shard)]
    yield (
        [[sum(column) / len(rows) for column in zip(*rows, strict=True)]] * len(sizes),
        "That is the gradient of the mean of shard @ weight, without the square.",
    )
    yield (
        [total] * len(sizes),
        f"That is the gradient of the sum over all {sum(sizes)} rows, undivided.",
    )
    yield (
        [[v / len(sizes) for v in total]] * len(sizes),
        f"The sum over all rows is divided by {len(sizes)}, the number of ranks; there "
        f"are {sum(sizes)} rows.",
    )
    yield (
        [[v / max(n, 1) for v in total] for n in sizes],
        "Each rank divides the sum by the number of its own rows; there are "
        f"{sum(sizes)} in all.",
    )


def of_each(
    sums: list[list[float]], sizes: tuple[int, ...]
) -> Iterator[tuple[list, str]]:
    """Yield wrong gradients that each rank has of its own rows, with what they are."""
    yield (
        sums,
        "Each rank has the gradient of the sum over its own rows: nothing is added up "
        "over the ranks, nor divided.",
    )
    yield (
        [[v / sum(sizes) for v in own] for own in sums],
        "Each rank has the share of its own rows: the shares are not added up.",
    )
    yield (
        [[v / max(n, 1) for v in own] for own, n in zip(sums, sizes, strict=True)],
        "Each rank has the gradient of its own mean, without the others.",
    )


def gradient_of_sum(weight: Snapshot, shard: Snapshot) -> list[float]:
    """Return the gradient of the sum of squares over the rows of one shard."""
    result = [0.0] * len(weight.values)
    for row in rows_of(shard):
        out = sum(a * b for a, b in zip(row, weight.values, strict=True))
        result = [r + 2 * out * a for r, a in zip(result, row, strict=True)]
    return result


def rows_of(shard: Snapshot) -> list[tuple]:
    """Return the rows of a shard."""
    width = shard.shape[-1]
    return [shard.values[i : i + width] for i in range(0, len(shard.values), width)]


def near(some: tuple, others: list) -> bool:
    """Tell whether two rows of numbers are equal to rounding."""
    return len(some) == len(others) and all(
        abs(a - b) <= 1e-9 * abs(b) for a, b in zip(some, others, strict=True)
    )


EXERCISES = (
    Exercise(
        "11.1",
        "shard_gradient",
        inputs=shard_and_loss,
        oracle=pieces_of_gradient,
        worlds=(4, 2, 1),
        shards=EQUAL,
        stops=(no_history,),
        forms=(no_leaf, whole_gradient),
        hints=(own_shard_only, added_up, times),
        tolerance=CLOSE,
    ),
    Exercise(
        "11.2",
        "mean_gradient",
        inputs=weight_and_rows,
        oracle=gradient_of_mean,
        shards=ROWS,
        stops=(no_history,),
        forms=(no_leaf,),
        hints=(not_a_number, which_mean, times),
        tolerance=CLOSE,
    ),
)
