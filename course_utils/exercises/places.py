"""Where the values of a result came from, and where they should stand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from course_utils.exercises.answers import Attempt, alike, is_list
from course_utils.exercises.forms import both_tensors
from course_utils.exercises.wording import plural, start
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

MOST = 1000  # times the right result, to be named


def as_given(attempt: Attempt) -> str | None:
    """The input, as it was."""
    wrong = attempt.wrong()
    if wrong and all(attempt.yours[r] in attempt.inputs[r] for r in wrong):
        got = plural(wrong, "it", "they")
        return f"{start(wrong)} returned what {got} got, as it was."
    return None


def missing_block(attempt: Attempt) -> str | None:
    """Nothing of some rank's input is in the result, and should be."""
    owner = owners(attempt)
    for rank in attempt.wrong():
        values = list(numbers(attempt.yours[rank]))
        want = ranks_of(numbers(attempt.expected[rank]), owner)
        have = ranks_of(values, owner)
        if not values or None in want or not want - have:
            continue
        missing = want - have
        foreign = {value for value in values if value not in owner}
        zeros = ""
        if foreign:
            zeros = (
                ": there are zeros instead" if foreign == {0} else ", but other numbers"
            )
        if missing == {rank}:
            return f"On rank {rank} its own part is missing from the result{zeros}."
        return (
            f"On rank {rank} nothing of {these_ranks(missing)} is in the result{zeros}."
        )
    return None


def only_own(attempt: Attempt) -> str | None:
    """Nothing of other ranks is in the results, and should be."""
    owner, wrong = owners(attempt), attempt.wrong()
    for rank in wrong:
        own = {rank} & set(owner.values())  # nothing, of an empty shard
        want = ranks_of(numbers(attempt.expected[rank]), owner)
        have = ranks_of(numbers(attempt.yours[rank]), owner)
        if have != own or want <= have or None in want:
            return None
        if attempt.yours[rank] is None:
            return None
    if not wrong:
        return None
    return f"{start(wrong)} returned nothing but {plural(wrong, 'its', 'their')} own."


def multiple(attempt: Attempt) -> str | None:
    """All ranks have one multiple of what is right."""
    factors = {factor(attempt, rank) for rank in attempt.wrong()}
    found = factors.pop() if len(factors) == 1 else None
    if found is None:
        return None
    what = f"{found:g} times" if found > 1 else f"1 / {1 / found:g} of"
    size = attempt.case.world_size
    ranks = f"; there are {size} ranks" if size in (found, round(1 / found, 9)) else ""
    return f"The result is {what} the expected one{ranks}."


def factor(attempt: Attempt, rank: int) -> float | None:
    """Return f with yours == f * expected on a rank, None if there is none."""
    pair = attempt.expected[rank], attempt.yours[rank]
    want, have = (list(numbers(v)) or [v] for v in pair)
    if len(want) != len(have) or not all(map(is_finite, [*want, *have])):
        return None
    found = [h / w for w, h in zip(want, have, strict=True) if w]
    if not found or max(found) - min(found) > 1e-6 * abs(found[0]) or found[0] <= 0:
        return None
    whole = found[0] if found[0] > 1 else 1 / found[0]
    near = round(whole)
    if not 2 <= near <= MOST or abs(whole - near) > 1e-5 * near:
        return None
    return float(near) if found[0] > 1 else 1 / near


def is_finite(value: Any) -> bool:
    """Tell whether a value is a number that one can divide; no truth."""
    return type(value) in (int, float) and math.isfinite(value)


def owners(attempt: Attempt) -> dict[Any, int | None]:
    """Return whose input holds each value; None for a value of several ranks."""
    found: dict[Any, int | None] = {}
    for rank, given in enumerate(attempt.inputs):
        for value in numbers(given):
            found[value] = rank if found.get(value, rank) == rank else None
    return found


def ranks_of(values: Any, owner: dict[Any, int | None]) -> set[int | None]:
    """Return the ranks that values came from; None among them: not from an input."""
    foreign = object()
    found = {owner.get(value, foreign) for value in values}
    return {None if rank is foreign else rank for rank in found - {None}}


def numbers(value: Any) -> Iterator[Any]:
    """Yield the elements of all tensors in a value."""
    if isinstance(value, Snapshot):
        yield from value.values
    elif is_list(value):
        for item in value:
            yield from numbers(item)


def one_shard(attempt: Attempt) -> str | None:
    """The same shard in every place."""
    found = attempt.difference()
    if not both_tensors(found) or found.item is None:
        return None
    order = origins(attempt, found.rank)
    if len(order) > 1 and len(set(order)) == 1 and order[0] is not None:
        return f"Every item of rank {found.rank}'s list is rank {order[0]}'s shard."
    return None


def own_first(attempt: Attempt) -> str | None:
    """Lists in the order of arrival round a ring."""
    size = len(attempt.answers)
    orders = [origins(attempt, rank) for rank in range(size)]
    turned = all(
        sorted(o, key=str) == list(range(size)) and o[0] == rank
        for rank, o in enumerate(orders)
    )
    if size > 1 and turned:
        return (
            "Every list starts with the rank's own shard; item i must be rank i's "
            "shard on every rank."
        )
    return None


def other_order(attempt: Attempt) -> str | None:
    """All shards are there, in another order."""
    found = attempt.difference()
    if not both_tensors(found) or found.item is None:
        return None
    order = origins(attempt, found.rank)
    if None not in order and sorted(order) == list(range(len(order))):
        return (
            f"Rank {found.rank}'s list has every shard, but those of ranks "
            f"{', '.join(map(str, order))}, in this order, instead of rank order."
        )
    return None


def untouched(attempt: Attempt) -> str | None:
    """A buffer of zeros."""
    found = attempt.difference()
    if not both_tensors(found) or any(found.yours.values):
        return None
    if not found.yours.values:
        return None
    where = "the result" if found.item is None else f"item {found.item}"
    return f"On rank {found.rank} {where} is all zeros."


def reordered(attempt: Attempt) -> str | None:
    """The right elements in other places."""
    for rank in attempt.wrong():
        want = list(numbers(attempt.expected[rank]))
        have = list(numbers(attempt.yours[rank]))
        if (
            len(want) > 1
            and want != have
            and sorted(want, key=str) == sorted(have, key=str)
        ):
            return f"Rank {rank}'s result has the right elements in another order."
    return None


def origins(attempt: Attempt, rank: int) -> list[int | None]:
    """Tell of each item of a rank's list which place it has in the expected one."""
    expected, yours = attempt.expected[rank], attempt.yours[rank]
    if not (is_list(expected) and is_list(yours) and len(expected) == len(yours)):
        return []
    return [
        next((i for i, want in enumerate(expected) if alike(want, item)), None)
        for item in yours
    ]
