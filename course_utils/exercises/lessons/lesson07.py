"""The exercises of lesson 7, get stuck and get out: three broken programs to mend."""

from __future__ import annotations

import ast

from course_utils.exercises.answers import Attempt, Case, alike, is_list
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard
from course_utils.exercises.source import called, function
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

NAMES = ("hits", "loss", "size")
ROUNDS = {4: (2, 3, 1, 3), 3: (1, 2, 4), 2: (2, 1)}  # batches of every rank


def mean_everywhere(case: Case, inputs: Inputs) -> list:
    """Give every rank the mean over the elements of all shards."""
    import torch

    return [torch.cat([shard for (shard,) in inputs]).mean()] * case.world_size


def own_mean(attempt: Attempt) -> str | None:
    """The mean of one shard instead of all."""
    alone = []
    for rank in attempt.wrong():
        yours, (shard,) = attempt.yours[rank], attempt.inputs[rank]
        if isinstance(yours, Snapshot) and len(yours.values) == 1:
            if yours.values[0] == sum(shard.values) / len(shard.values):
                alone.append(rank)
    if not alone:
        return None
    many = len(alone) > 1
    return (
        f"{these_ranks(alone).capitalize()} returned the mean of "
        f"{'their' if many else 'its'} own shard, not that of all shards."
    )


def which_divisor(attempt: Attempt) -> str | None:
    """The sum of all, divided by something else than their number."""
    values = [value for (shard,) in attempt.inputs for value in shard.values]
    for rank in attempt.wrong():
        yours = attempt.yours[rank]
        if not isinstance(yours, Snapshot) or len(yours.values) != 1:
            return None
        for by in range(1, len(values)):
            if abs(yours.values[0] * by - sum(values)) <= 1e-5 * sum(values):
                how = f"divided by {by}" if by > 1 else "not divided"
                return (
                    f"That is the sum of all elements, {how}; there are {len(values)}."
                )
    return None


def empty_root(attempt: Attempt) -> str | None:
    """The root of the broadcast holds no mean."""
    for _, call in attempt.calls("broadcast"):
        src = call.arguments["src"]
        sent = attempt.yours[src] if src in attempt.wrong() else None
        if src and sent is not None and all(sent == yours for yours in attempt.yours):
            return (
                f"Rank {src} is the root of broadcast, so that every rank has what "
                f"rank {src} held before, and not the mean."
            )
    return None


def named_shards(case: Case, path: str) -> Inputs:
    """Give every rank a list of (name, shard); the last rank has another order."""
    import torch

    from course_utils.process_group import device

    generator = torch.Generator().manual_seed(case.world_size)
    every = []
    for rank in range(case.world_size):
        pairs = []
        for place, name in enumerate(NAMES):
            # no order of values is that of the names, or the same on all ranks
            first = 100 * rank + 30 * ((place + rank) % len(NAMES))
            numbers = first + torch.randperm(30, generator=generator)
            shard = numbers[: case.shape[0]].to(getattr(torch, case.dtype))
            pairs.append((name, shard.to(device())))
        every.append((pairs,))
    last = every[-1][0]
    last[0], last[1] = last[1], last[0]
    return every


def joined_by_name(case: Case, inputs: Inputs) -> list:
    """Give every rank the list of (name, all shards of that name), names in order."""
    import torch

    held = [dict(pairs) for (pairs,) in inputs]
    full = [(name, torch.cat([shards[name] for shards in held])) for name in NAMES]
    return [full] * case.world_size


def mixed(attempt: Attempt) -> str | None:
    """A shard of one name stands under another."""
    shards = {
        shard.values: (name, rank)
        for rank, (pairs,) in enumerate(attempt.inputs)
        for name, shard in pairs
    }
    for rank in attempt.wrong():
        for name, held in named(attempt.yours[rank]):
            size = len(held.values) // len(attempt.answers)
            for start in range(0, len(held.values), size or 1):
                part = held.values[start : start + size]
                other, origin = shards.get(part, (name, rank))
                if other != name:
                    if iterates_set(attempt):
                        return (
                            f"On rank {rank}, {name!r} holds the {other!r} of rank "
                            f"{origin}: a set has another order in every process, so "
                            "the ranks gathered in different orders."
                        )
                    return (
                        f"On rank {rank}, {name!r} holds the {other!r} of rank "
                        f"{origin}: the ranks gathered in different orders, and the "
                        "operations, shapes and dtypes fit all the same."
                    )
    return None


def iterates_set(attempt: Attempt) -> bool:
    """Tell whether the function makes a set."""
    node = function(attempt.source, attempt.function)
    return node is not None and any(
        isinstance(n, (ast.Set, ast.SetComp)) or called(n) in ("set", "frozenset")
        for n in ast.walk(node)
    )


def own_order(attempt: Attempt) -> str | None:
    """The names come in the order in which a rank got them."""
    for rank in attempt.wrong():
        names = [name for name, _ in named(attempt.yours[rank])]
        same = len(names) == len(NAMES) and all(name in names for name in NAMES)
        if same and names != list(NAMES):
            return f"Rank {rank}'s list has the names in another order."
    return None


def named(value: object) -> list[tuple[str, Snapshot]]:
    """Return the pairs of a name and a tensor in a result."""
    return [
        tuple(pair)
        for pair in (value if is_list(value) else [])
        if is_list(pair) and len(pair) == 2 and isinstance(pair[1], Snapshot)
    ]


def uneven_batches(case: Case, path: str) -> Inputs:
    """Give every rank a list of batches; some have more than others."""
    import torch

    from course_utils.process_group import device

    generator = torch.Generator().manual_seed(case.world_size)
    every = []
    for rank, rounds in enumerate(ROUNDS[case.world_size]):
        count = case.shape[0]
        numbers = 100 * rank + 10 + torch.randperm(90, generator=generator)
        flat = numbers[: rounds * count].to(getattr(torch, case.dtype)).to(device())
        every.append((list(flat.split(count)),))
    return every


def sums_by_round(case: Case, inputs: Inputs) -> list:
    """Give every rank the list of sums over the ranks' batches, round by round."""
    rounds = max(len(batches) for (batches,) in inputs)
    sums = [
        sum(batches[i] for (batches,) in inputs if i < len(batches))
        for i in range(rounds)
    ]
    return [sums] * case.world_size


def too_few(attempt: Attempt) -> str | None:
    """The loop ends with the rank that has fewest batches."""
    given = ROUNDS[len(attempt.answers)]
    fewest, most = min(given), max(given)
    lengths = {len(attempt.yours[r]) for r in lists(attempt)}
    if attempt.ranks("waited", "raised") or lengths != {fewest}:
        return None
    return (
        f"The loop ends when the first rank has no batch left; the rank with most has "
        f"{most}, so there are {most} rounds."
    )


def last_again(attempt: Attempt) -> str | None:
    """A rank that has no batch left sends its last one again."""
    batches = [given for (given,) in attempt.inputs]
    for rank in lists(attempt):
        for i, yours in enumerate(attempt.yours[rank]):
            late = [r for r, own in enumerate(batches) if i >= len(own)]
            parts = [own[min(i, len(own) - 1)].values for own in batches]
            again = tuple(map(sum, zip(*parts, strict=True)))
            if late and isinstance(yours, Snapshot) and yours.values == again:
                return (
                    f"In round {i}, {these_ranks(late)} had no batch left, and the "
                    "last one was counted again instead of zeros."
                )
    return None


def not_zeros(attempt: Attempt) -> str | None:
    """The first wrong sum is one to which a rank had nothing to add."""
    found = attempt.difference()
    if found is None or found.item is None:
        return None
    batches = [given for (given,) in attempt.inputs]
    late = [rank for rank, own in enumerate(batches) if found.item >= len(own)]
    if not late or len(attempt.wrong()) < len(batches):
        return None
    return (
        f"In round {found.item}, {these_ranks(late)} had no batch left and "
        f"{'count' if len(late) > 1 else 'counts'} as zeros; rounds before it are "
        "right."
    )


def lists(attempt: Attempt) -> list[int]:
    """Return the ranks that returned a wrong list."""
    return [r for r in attempt.wrong() if is_list(attempt.yours[r])]


def alone(attempt: Attempt) -> str | None:
    """A rank adds up nothing but its own batches."""
    own = [r for r in lists(attempt) if alike(attempt.yours[r], attempt.inputs[r][0])]
    if not own or own != attempt.wrong():
        return None
    return f"{these_ranks(own).capitalize()} returned batches, not sums over the ranks."


EXERCISES = (
    Exercise(
        "7.1",
        "mean_of_all",
        inputs=one_shard,
        oracle=mean_everywhere,
        shards=(((4,), "float32"), ((2, 2), "float32")),
        hints=(own_mean, which_divisor, empty_root),
        tolerance=1e-5,
    ),
    Exercise(
        "7.2",
        "gather_named",
        inputs=named_shards,
        oracle=joined_by_name,
        shards=(((2,), "int64"),),
        hints=(mixed, own_order),
        unordered=True,
    ),
    Exercise(
        "7.3",
        "sum_rounds",
        inputs=uneven_batches,
        oracle=sums_by_round,
        shards=(((2,), "int64"),),
        forms=(alone, too_few),
        hints=(last_again, not_zeros),
        may_share=True,
    ),
)
