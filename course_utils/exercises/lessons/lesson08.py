"""The exercises of lesson 8, join lists and uneven shards."""

from __future__ import annotations

import math
import zlib

from course_utils.exercises import endings
from course_utils.exercises.answers import Attempt, Case, alike, is_list
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.places import numbers as elements
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

ROWS = (  # shape of one row, dtype, dim, rows of every rank
    ((), "int64", None, (2, 0, 3, 1)),
    ((2,), "float32", None, (1, 3, 2, 0)),
    ((), "float64", None, (2, 2, 2, 2)),
    ((2,), "int64", None, (0, 0, 5, 1)),
    ((3,), "int64", None, (0, 0, 0, 0)),
)
LISTS = (  # how many tensors each rank has
    (None, "int64", None, (2, 0, 3, 1)),
    (None, "int64", None, (1, 1, 1, 1)),
    (None, "int64", None, (0, 2, 0, 1)),
    (None, "int64", None, (0, 0, 0, 0)),
)
SENTINELS = (0, -1)  # stand in the data, so that no value can mark its end


def sizes_of(case: Case) -> tuple[int, ...]:
    """Give the number of rows, or of tensors, of every rank."""
    return case.sizes[: case.world_size]


def numbers(case: Case, rank: int, count: int, place: int = 0):
    """Return `count` numbers that nobody can foresee, from 100 * rank + 10.

    The last one is 0 on even ranks, -1 on odd ones.
    """
    import torch

    from course_utils.process_group import device

    seed = zlib.crc32(repr((case, rank, place)).encode())
    drawn = torch.randperm(90, generator=torch.Generator().manual_seed(seed))
    dtype = getattr(torch, case.dtype)
    found = (100 * rank + 10 + drawn[:count]).to(dtype)
    found[count - 1 :] = SENTINELS[rank % 2]
    return found.to(device())


def uneven_shards(case: Case, path: str) -> Inputs:
    """Give every rank a shard of as many rows as the case says."""
    row = math.prod(case.shape)
    return [
        (numbers(case, rank, size * row).reshape(size, *case.shape),)
        for rank, size in enumerate(sizes_of(case))
    ]


def lists_of_tensors(case: Case, path: str) -> Inputs:
    """Give every rank a list of tensors with none to three numbers."""
    return [
        ([numbers(case, rank, (rank + 2 * i + 1) % 4, i) for i in range(size)],)
        for rank, size in enumerate(sizes_of(case))
    ]


def every_shard(case: Case, inputs: Inputs) -> list:
    """Give every rank the list of all shards."""
    return [[shard for (shard,) in inputs]] * case.world_size


def every_tensor(case: Case, inputs: Inputs) -> list:
    """Give every rank all tensors in one list."""
    return [[tensor for (own,) in inputs for tensor in own]] * case.world_size


def only_tensors(attempt: Attempt) -> str | None:
    """No pickles."""
    for answer in attempt.answers:
        for call in answer.calls:
            if "object" in call.name:
                return (
                    f"The function calls {call.name}; this exercise is about doing "
                    "without objects."
                )
    return None


def empty_handed(attempt: Attempt) -> str | None:
    """A rank that holds nothing fails, or does not take part."""
    empty = [r for r, size in enumerate(sizes_of(attempt.case)) if not size]
    failed = attempt.ranks("raised")
    if failed and set(failed) <= set(empty):
        return (
            f"{these_ranks(failed).capitalize()} failed, where there is nothing to "
            "send: an empty shard or list needs a way through the function, too."
        )
    waiting, gone = attempt.ranks("waited"), attempt.ranks("returned")
    calls = {endings.state(attempt.answers[rank]).name for rank in waiting}
    if len(calls) == 1 and gone and set(gone) <= set(empty):
        return (
            f"{these_ranks(gone).capitalize()}, with nothing to send, returned while "
            "the others waited: who holds nothing has to take part all the same."
        )
    return None


def taken_for_padding(attempt: Attempt) -> str | None:
    """A value of the data marks an end, or what is padding."""
    for rank in attempt.wrong():
        have = list(elements(attempt.yours[rank]))
        want = list(elements(attempt.expected[rank]))
        for value in SENTINELS:
            if have and have != want and have == [v for v in want if v != value]:
                return (
                    f"On rank {rank} every {value} is gone from the result: a shard "
                    "may hold any value, so none can mark padding or an end."
                )
    return None


def own_size(attempt: Attempt) -> str | None:
    """Every item cut to the size of the rank that cuts."""
    sizes, wrong = sizes_of(attempt.case), attempt.wrong()
    counts = {rank: row_counts(attempt.yours[rank]) for rank in wrong}
    own = all(set(counts[rank]) == {sizes[rank]} for rank in wrong)
    if wrong and own and len(set(sizes)) > 1:
        first = wrong[0]
        return (
            f"On rank {first} every item has {sizes[first]} rows, as many as its own "
            "shard; each must have as many as the shard of the rank it came from."
        )
    return None


def padding_kept(attempt: Attempt) -> str | None:
    """The right rows, and more of them."""
    found = attempt.difference()
    if found is None or found.item is None:
        return None
    want, got = found.expected, found.yours
    if not (isinstance(want, Snapshot) and isinstance(got, Snapshot)):
        return None
    if not (want.shape and got.shape) or want.shape[1:] != got.shape[1:]:
        return None
    right = got.values[: len(want.values)] == want.values
    if right and got.shape[0] > want.shape[0]:
        return (
            f"On rank {found.rank}, item {found.item} has {got.shape[0]} rows, where "
            f"{want.shape[0]} are expected: the padding is still there."
        )
    return None


def row_counts(value: object) -> list[int]:
    """Return the number of rows of each item of a list of tensors."""
    if not is_list(value):
        return []
    return [v.shape[0] for v in value if isinstance(v, Snapshot) and v.shape]


def empty_left_out(attempt: Attempt) -> str | None:
    """A list without the empty shards."""
    sizes = sizes_of(attempt.case)
    for rank in attempt.wrong():
        yours, expected = attempt.yours[rank], attempt.expected[rank]
        if not (is_list(yours) and is_list(expected)):
            continue
        filled = [item for item in expected if not empty(item)]
        if len(filled) < len(expected) and alike(list(yours), filled):
            what = "shards" if len(expected) == len(sizes) else "tensors"
            return (
                f"Rank {rank}'s list lacks the empty {what}: an empty one is an item "
                "as well."
            )
    return None


def empty(value: object) -> bool:
    """Tell whether a value is a tensor without elements."""
    return isinstance(value, Snapshot) and not value.values and 0 in value.shape


def nested(attempt: Attempt) -> str | None:
    """A list of lists."""
    for rank in attempt.wrong():
        yours = attempt.yours[rank]
        if is_list(yours) and any(map(is_list, yours)):
            return (
                f"On rank {rank} the list holds lists; expected is one flat list of "
                "tensors."
            )
    return None


def own_list(attempt: Attempt) -> str | None:
    """Nothing from the other ranks."""
    same = [
        rank
        for rank in attempt.wrong()
        if attempt.yours[rank] and alike(attempt.yours[rank], attempt.inputs[rank][0])
    ]
    if same:
        return f"{these_ranks(same).capitalize()} returned no tensor but its own."
    return None


def joined(attempt: Attempt) -> str | None:
    """One tensor a rank, or one in all: where each ends is lost."""
    for rank in attempt.wrong():
        yours, expected = attempt.yours[rank], attempt.expected[rank]
        if not is_list(yours) or len(yours) >= len(expected):
            continue
        if flat(yours) == flat(expected):
            return (
                f"Rank {rank}'s list has all numbers, but {len(yours)} tensors instead "
                f"of {len(expected)}: where each one ends is lost."
            )
    return None


def flat(items: object) -> list:
    """Return the elements of a list of tensors, one after another."""
    return [v for i in items if isinstance(i, Snapshot) for v in i.values]


def other_order(attempt: Attempt) -> str | None:
    """All tensors are there, in another order."""
    for rank in attempt.wrong():
        yours, expected = attempt.yours[rank], attempt.expected[rank]
        if not is_list(yours) or len(yours) != len(expected):
            continue
        left = list(yours)
        for item in expected:
            match = next((i for i, x in enumerate(left) if alike(x, item)), None)
            if match is None:
                break
            left.pop(match)
        if not left:
            counts = listed_in_order(sizes_of(attempt.case))
            return (
                f"Rank {rank}'s list has every tensor, in another order; expected are "
                f"those of the ranks one after another ({counts})."
            )
    return None


def listed_in_order(counts: tuple[int, ...]) -> str:
    """Write numbers as they come, as in "2, then 0, then 1"."""
    return ", then ".join(map(str, counts))


EXERCISES = (
    Exercise(
        "8.1",
        "gather_uneven",
        inputs=uneven_shards,
        oracle=every_shard,
        shards=ROWS,
        rules=(only_tensors,),
        stops=(only_tensors, empty_handed),
        forms=(
            empty_left_out,
            taken_for_padding,
            own_size,
            padding_kept,
            other_order,
        ),
        may_share=True,
    ),
    Exercise(
        "8.2",
        "gather_lists",
        inputs=lists_of_tensors,
        oracle=every_tensor,
        shards=LISTS,
        rules=(only_tensors,),
        stops=(only_tensors, empty_handed),
        forms=(
            nested,
            own_list,
            empty_left_out,
            joined,
            taken_for_padding,
            other_order,
            padding_kept,
        ),
        may_share=True,
    ),
)
