"""Why a result is wrong: the mistakes that every exercise knows.

A hint looks at an `Attempt` and returns one sentence, or None. It says what is wrong
with the result, not what to type.
"""

from __future__ import annotations

from course_utils.exercises import endings
from course_utils.exercises.answers import (
    Attempt,
    Difference,
    alike,
    is_list,
    kind,
    listed,
)
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks


def fixed_world(attempt: Attempt) -> str | None:
    """Right on other world sizes only."""
    size = attempt.case.world_size
    before = list(dict.fromkeys(case.world_size for case in attempt.passed))
    if not before or size in before:
        return None
    for answer in attempt.answers:
        for name, value in answer.outside.items():
            if value in before:
                return (
                    f"The function reads `{name}`, which is {value} in the notebook, "
                    f"but this world has {size} ranks."
                )
    return (
        f"It is right on {listed(before)} ranks and wrong on {size}: something "
        "in it counts on one world size."
    )


def fixed_shard(attempt: Attempt) -> str | None:
    """Right for other shards only."""
    same = [c for c in attempt.passed if c.world_size == attempt.case.world_size]
    if not same:
        return None
    case = attempt.case
    given = case.given if case.sizes else case.given.removeprefix("shards ")
    return (
        f"It is right for {same[-1].given} and wrong for {given}: something in it "
        "counts on one shape or dtype."
    )


def nothing(attempt: Attempt) -> str | None:
    """None on some ranks, where a result is expected."""
    without = [r for r in attempt.wrong() if attempt.yours[r] is None]
    if not without:
        return None
    if without == list(range(1, len(attempt.answers))) and attempt.answers[0].right:
        return f"Only rank 0 returns the result; {these_ranks(without)} must, too."
    return (
        f"{these_ranks(without).capitalize()} returned None: not every way through "
        "the function returns a result."
    )


def only_root(attempt: Attempt) -> str | None:
    """Right on rank 0 alone."""
    wrong = attempt.wrong()
    if len(wrong) > 1 and wrong == list(range(1, len(attempt.answers))):
        return "Only rank 0 has the right result; every rank must have it."
    return None


def other_type(attempt: Attempt) -> str | None:
    """A tensor instead of a list, and the like."""
    found = attempt.difference()
    if found is None or _family(found.expected) == _family(found.yours):
        return None
    where = "the result" if found.item is None else f"item {found.item}"
    return (
        f"On rank {found.rank} {where} is {kind(found.yours)}, where "
        f"{kind(found.expected)} is expected."
    )


def other_length(attempt: Attempt) -> str | None:
    """Too many or too few items."""
    found = attempt.difference()
    if found is None or not (is_list(found.expected) and is_list(found.yours)):
        return None
    if len(found.expected) == len(found.yours):
        return None
    return (
        f"The list of rank {found.rank} has {len(found.yours)} items; expected are "
        f"{len(found.expected)}."
    )


def one_buffer(attempt: Attempt) -> str | None:
    """`[t] * n` and its kin."""
    for rank in attempt.wrong():
        pairs, items = attempt.answers[rank].aliases, attempt.yours[rank]
        if pairs and len(pairs) == len(items) * (len(items) - 1) // 2:
            return (
                "Every item of the list is the same buffer, so that all of them show "
                "what was written last."
            )
        if pairs:
            one, other = pairs[0]
            return f"On rank {rank}, items {one} and {other} are the same buffer."
    return None


def other_dtype(attempt: Attempt) -> str | None:
    """Tensors of another dtype or shape."""
    found = attempt.difference()
    if not _tensors(found):
        return None
    if found.yours.dtype != found.expected.dtype:
        return (
            f"The dtype has changed: {found.yours.dtype}, where {found.expected.dtype} "
            "is expected."
        )
    if found.yours.shape != found.expected.shape:
        return (
            f"The shape has changed: {found.yours.shape}, where {found.expected.shape} "
            "is expected."
        )
    return None


def one_shard(attempt: Attempt) -> str | None:
    """The same shard in every place."""
    found = attempt.difference()
    if found is None or found.item is None:
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
    if found is None or found.item is None:
        return None
    order = origins(attempt, found.rank)
    if None not in order and sorted(order) == list(range(len(order))):
        return (
            f"Rank {found.rank}'s list has every shard, but those of ranks "
            f"{', '.join(map(str, order))}, in this order, instead of rank order."
        )
    return None


def untouched(attempt: Attempt) -> str | None:
    """A buffer that nothing was written to."""
    found = attempt.difference()
    if _tensors(found) and found.yours.values and not any(found.yours.values):
        where = "the result" if found.item is None else f"item {found.item}"
        return f"On rank {found.rank} {where} is all zeros: nothing was written there."
    return None


def shared(attempt: Attempt) -> str | None:
    """Right values in the memory of the input."""
    sharing = [r for r in attempt.wrong() if attempt.answers[r].shares]
    if sharing and attempt.difference() is None:
        return (
            f"On {these_ranks(sharing)} the result shares memory with the input: a "
            "change to one would change the other."
        )
    return None


def changed(attempt: Attempt) -> str | None:
    """The input is not what it was."""
    changing = [r for r in attempt.wrong() if attempt.answers[r].changed]
    if changing:
        return f"On {these_ranks(changing)} the function changed its input."
    return None


FIRST = (endings.ended, endings.endless, fixed_world)
"""Hints that come before those of the exercise."""

LAST = (
    endings.left_alone,
    endings.deadlock,
    endings.unequal,
    endings.one_name,
    nothing,
    other_type,
    other_length,
    one_buffer,
    changed,
    other_dtype,
    one_shard,
    own_first,
    other_order,
    only_root,
    untouched,
    shared,
    fixed_shard,
)
"""Hints that come after those of the exercise."""


def origins(attempt: Attempt, rank: int) -> list[int | None]:
    """Tell of each item of a rank's list which place it has in the expected one."""
    expected, yours = attempt.expected[rank], attempt.yours[rank]
    if not (is_list(expected) and is_list(yours) and len(expected) == len(yours)):
        return []
    return [
        next((i for i, want in enumerate(expected) if alike(want, item)), None)
        for item in yours
    ]


def _tensors(found: Difference | None) -> bool:
    return (
        found is not None
        and isinstance(found.expected, Snapshot)
        and isinstance(found.yours, Snapshot)
    )


def _family(value: object) -> type:
    return list if is_list(value) else type(value)
