"""The exercises of lesson 12, evaluate uneven shards."""

from __future__ import annotations

from collections.abc import Iterator

from course_utils.exercises.answers import Attempt, Case, alike
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

COUNTS = (9, 8, 7, 5, 1)  # samples, around multiples of the world sizes
NUMBERS = (7, 8, 9, 3, 1, 0)
CLASSES = 3
WORLDS = (5, 4, 3, 2, 1)


def data_sets(counts: tuple[int, ...]) -> tuple[tuple, ...]:
    """Make a case of each number of samples."""
    return tuple((None, "int64", None, (), count) for count in counts)


def truths(count: int) -> list[bool]:
    """Say of every sample whether it was read right.

    So that each way to count wrongly gives another number.
    """
    return [sample in (0, 1, 2, 3, 5, 6) for sample in range(count)]


def dealt(count: int, world_size: int) -> list[list[int]]:
    """Return the samples of every rank, as DistributedSampler deals them."""
    rounds = -(-count // world_size)
    everyone = [sample % count for sample in range(rounds * world_size)]
    return [everyone[rank::world_size] for rank in range(world_size)]


def padded_truths(case: Case, path: str) -> Inputs:
    """Give every rank the truths that it was dealt, padding included."""
    import torch

    from course_utils.process_group import device

    every = truths(case.count)
    return [
        (torch.tensor([every[s] for s in own]).to(device()), case.count)
        for own in dealt(case.count, case.world_size)
    ]


def accuracy(case: Case, inputs: Inputs) -> list:
    """Give every rank the share of samples that were read right."""
    return [sum(truths(case.count)) / case.count] * case.world_size


def labels_and_predictions(case: Case, path: str) -> Inputs:
    """Give every rank the samples of its number, counted by the world size."""
    import torch

    from course_utils.process_group import device

    samples = torch.arange(case.count, device=device())
    labels, predicted = samples**2 % CLASSES, samples * 7 // 4 % CLASSES
    step = case.world_size
    return [
        (labels[rank::step].clone(), predicted[rank::step].clone(), CLASSES)
        for rank in range(step)
    ]


def whole_confusion(case: Case, inputs: Inputs) -> list:
    """Give every rank the matrix over all samples."""
    import torch

    matrix = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
    for labels, predicted, _ in inputs:
        for i, j in zip(labels.tolist(), predicted.tolist(), strict=True):
            matrix[i, j] += 1
    return [matrix.to(inputs[0][0].device)] * case.world_size


# --- 12.1 -----------------------------------------------------------------------


def which_accuracy(attempt: Attempt) -> str | None:
    """Find the samples that were counted instead; the sentence has to fit all ranks."""
    every = truths(attempt.case.count)
    yours = {rank: attempt.yours[rank] for rank in attempt.wrong()}
    if not all(type(value) in (int, float) for value in yours.values()):
        return None
    for shares, why in wrong_shares(attempt, every):
        if yours and all(abs(v - shares[r]) < 1e-6 for r, v in yours.items()):
            return why
    return None


def number(attempt: Attempt) -> str | None:
    """How many, instead of which share."""
    right = sum(truths(attempt.case.count))
    yours = [attempt.yours[rank] for rank in attempt.wrong()]
    share = right / attempt.case.count
    if yours and all(y in (round(share, n) for n in range(1, 5)) for y in yours):
        return "The share is rounded; return it as it is."
    if right > 1 and right in yours and type(yours[0]) in (int, float):
        return "That is the number of right samples, not their share."
    return None


def wrong_shares(
    attempt: Attempt, every: list[bool]
) -> Iterator[tuple[list[float], str]]:
    """Yield what each rank returns that counts wrongly, and how it does."""
    count, size = attempt.case.count, attempt.case.world_size
    deal = dealt(count, size)
    flat = [sample for own in deal for sample in own]
    valid = [own[: len(range(r, count, size))] for r, own in enumerate(deal)]
    more = len(flat) - count

    def right(samples: list[int]) -> int:
        return sum(every[sample] for sample in samples)

    yield (
        [right(own) / count for own in valid],
        "Each rank counts its own samples only: nothing is added up over the ranks.",
    )
    yield (
        [right(own) / len(own) for own in deal],
        "Each rank returns the accuracy of its own shard, padding included.",
    )
    yield (
        [right(own) / max(len(own), 1) for own in valid],
        "Each rank returns the accuracy of its own samples.",
    )
    together = [right(flat) / len(flat)] * size
    yield (
        together,
        f"{len(flat)} samples are counted where the data set has {count}: the padding "
        "is counted, too.",
    )
    if "<=" in attempt.source:
        yield (
            [(sum(every) + right([0])) / count] * size,
            f"Padding is counted: the numbers of the samples go up to {count - 1}.",
        )
    yield (
        [right(flat[:count]) / count] * size,
        f"The last {more} in rank order are cut off, and these are not the padding: "
        "samples are dealt like cards.",
    )
    yield (
        [right(flat) / count] * size,
        "The right ones of the padding are counted, too.",
    )
    means = [right(own) / len(own) for own in valid if own]
    yield (
        [sum(means) / size] * size,
        "That is the mean of the ranks' accuracies: a rank with fewer samples counts "
        "as much as one with more.",
    )
    yield (
        [sum(every) / len(flat)] * size,
        f"The right ones are divided by {len(flat)}, padding included; the data set "
        f"has {count} samples.",
    )


# --- 12.2 -----------------------------------------------------------------------


def only_sums(attempt: Attempt) -> str | None:
    """Nothing is gathered."""
    for answer in attempt.answers:
        for call in answer.calls:
            if "gather" in call.name or "object" in call.name:
                return (
                    f"The function calls {call.name}; this exercise is about doing "
                    "without gathering."
                )
    return None


def unequal_sums(attempt: Attempt) -> str | None:
    """A count for every class that a rank has seen, and no more."""
    if any("disagree on the shape of all_reduce" in a.error for a in attempt.answers):
        return (
            "The ranks reduce tensors of different lengths: each counts only as far as "
            "the largest class that it has seen."
        )
    return None


def which_matrix(attempt: Attempt) -> str | None:
    """Transposed, or of the rank's own samples."""
    for rank in attempt.wrong():
        yours, want = attempt.yours[rank], attempt.expected[rank]
        if not isinstance(yours, Snapshot) or yours.shape != want.shape:
            continue
        if yours.values == transposed(want):
            return "Rows and columns have changed places: the label is the row."
        if yours.values == own_matrix(attempt, rank):
            return f"Rank {rank} returns the matrix of its own samples."
        if yours.dtype == want.dtype and alike(yours.values, doubled(attempt, want)):
            return "Each sample is counted once for every rank."
    return None


def lost_repeats(attempt: Attempt) -> str | None:
    """`matrix[labels, predicted] += 1` counts a pair once, however often it comes."""
    once = [0] * CLASSES**2
    for labels, predicted, classes in attempt.inputs:
        for i, j in set(zip(labels.values, predicted.values, strict=True)):
            once[i * classes + j] += 1
    for rank in attempt.wrong():
        yours = attempt.yours[rank]
        if isinstance(yours, Snapshot) and yours.values == tuple(once):
            return (
                "A pair that a rank has several times is counted once: with an index "
                "that repeats, `m[i, j] += 1` adds once."
            )
    return None


def largest(attempt: Attempt) -> str | None:
    """The ranks' matrices, with another reduction than a sum."""
    owns = [own_matrix(attempt, rank) for rank in range(len(attempt.answers))]
    most = tuple(map(max, zip(*owns, strict=True)))
    wrong = [attempt.yours[rank] for rank in attempt.wrong()]
    if all(isinstance(yours, Snapshot) and yours.values == most for yours in wrong):
        return "Of the ranks' matrices the largest entries are taken, not the sums."
    return None


def transposed(matrix: Snapshot) -> tuple:
    """Return the values of a square matrix, column by column."""
    size = matrix.shape[0]
    return tuple(matrix.values[i * size + j] for j in range(size) for i in range(size))


def own_matrix(attempt: Attempt, rank: int) -> tuple:
    """Return the values of the matrix of one rank's samples."""
    labels, predicted, classes = attempt.inputs[rank]
    pairs = list(zip(labels.values, predicted.values, strict=True))
    every = [(i, j) for i in range(classes) for j in range(classes)]
    return tuple(pairs.count(pair) for pair in every)


def doubled(attempt: Attempt, matrix: Snapshot) -> tuple:
    """Return the values of the matrix times the number of ranks."""
    return tuple(value * attempt.case.world_size for value in matrix.values)


def out_of_step(attempt: Attempt) -> str | None:
    """A rank without samples leaves early."""
    size, count = attempt.case.world_size, attempt.case.count
    empty = [rank for rank in range(size) if rank >= count]
    gone = attempt.ranks("returned")
    if attempt.ranks("waited") and gone and set(gone) <= set(empty):
        return (
            f"{these_ranks(gone).capitalize()}, without samples, returned while the "
            "others waited: who has nothing to count has to take part all the same."
        )
    return None


EXERCISES = (
    Exercise(
        "12.1",
        "exact_accuracy",
        inputs=padded_truths,
        oracle=accuracy,
        worlds=WORLDS,
        shards=data_sets(COUNTS),
        forms=(number,),
        hints=(which_accuracy,),
        tolerance=1e-6,
    ),
    Exercise(
        "12.2",
        "confusion_of",
        inputs=labels_and_predictions,
        oracle=whole_confusion,
        worlds=WORLDS,
        shards=data_sets(NUMBERS),
        rules=(only_sums,),
        stops=(only_sums, out_of_step, unequal_sums),
        hints=(which_matrix, lost_repeats, largest),
    ),
)
