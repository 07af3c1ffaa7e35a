"""The exercises of lesson 3, gather equal shards everywhere."""

from __future__ import annotations

from collections.abc import Callable

from course_utils.exercises.answers import Attempt, Case, alike, is_list
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard

SHARDS = (((2,), "int64"), ((2, 3), "float32"), ((), "float64"))
TURNED = ((3, 2), "int64", None, (), None, True)
NEIGHBOURLY = {
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "P2POp",
    "barrier",
}


def every_shard(case: Case, inputs: Inputs) -> list:
    """Give every rank the list of all shards."""
    return [[shard for (shard,) in inputs]] * case.world_size


def only_neighbours(attempt: Attempt) -> str | None:
    """Nothing but messages between two ranks is allowed."""
    for answer in attempt.answers:
        for call in answer.calls:
            asks = call.name.startswith(("get_", "is_"))
            if call.name not in NEIGHBOURLY and not asks:
                return (
                    f"The function calls {call.name}; this exercise is about doing "
                    "without."
                )
    return None


def round_the_ring(attempt: Attempt) -> str | None:
    """Every rank sends to the next rank and receives from the one before."""
    size = len(attempt.answers)
    for rank, answer in enumerate(attempt.answers):
        for call in answer.calls:
            given = call.arguments
            name = given.get("op") if call.name == "P2POp" else call.name
            after, before = (rank + 1) % size, (rank - 1) % size
            to = given.get("dst", given.get("peer"))
            source = given.get("src", given.get("peer"))
            if name in ("send", "isend") and to not in (after, None):
                return (
                    f"Rank {rank} sends to rank {to}; the next in the ring is {after}."
                )
            if name in ("recv", "irecv") and source not in (before, None):
                return (
                    f"Rank {rank} receives from rank {source}; the one before it in "
                    f"the ring is {before}."
                )
    return None


def more_rounds(attempt: Attempt) -> str | None:
    """One round too many brings every shard back to its own rank."""
    size = attempt.case.world_size
    for rank, answer in enumerate(attempt.answers):
        sent = sum(
            call.name in ("send", "isend")
            or (call.name == "P2POp" and call.arguments.get("op") == "isend")
            for call in answer.calls
        )
        if sent > size - 1 and attempt.right:
            return (
                f"Rank {rank} sends {sent} times; in a ring of {size} all shards are "
                f"everywhere after {size - 1} rounds."
            )
    return None


def rounds(attempt: Attempt) -> str | None:
    """Look at which shard arrived in which round."""
    size = len(attempt.answers)
    if size < 3 or attempt.ranks("raised", "waited"):
        return None
    if _placed(attempt, lambda rank, item: (rank - 1) % size):
        return (
            "In every round the shard of the rank before arrived: each rank sent its "
            "own again, not the one it had received."
        )
    if _placed(attempt, lambda rank, item: (2 * rank - item) % size):
        return (
            "The shards are stored in the wrong direction round the ring: round 1 "
            "brings that of the rank before, round 2 that of the one before this."
        )
    for step in (1, -1):
        if _placed(attempt, lambda rank, item, step=step: (item + step) % size, but=1):
            return "What arrives is stored one place off."
    return None


def added(attempt: Attempt) -> str | None:
    """The sum of all shards, where one of them should be."""
    shards = [shard.values for (shard,) in attempt.inputs]
    total = tuple(map(sum, zip(*shards, strict=True)))
    for rank in attempt.wrong():
        yours = attempt.yours[rank]
        for item, held in enumerate(yours if is_list(yours) else []):
            if len(shards) > 1 and total and getattr(held, "values", ()) == total:
                return (
                    f"On rank {rank} item {item} is the sum of all shards: a reduction "
                    "adds, and does not gather."
                )
    return None


def _placed(attempt: Attempt, origin: Callable[[int, int], int], but: int = 0) -> bool:
    """Tell whether the items of every rank are the shards of ``origin(rank, item)``.

    Its own is left out, and as many others as `but` says.
    """
    size = len(attempt.answers)
    for rank, yours in enumerate(attempt.yours):
        if not is_list(yours) or len(yours) != size:
            return False
        others = [item for item in range(size) if item != rank]
        fitting = [
            item
            for item in others
            if alike(yours[item], attempt.expected[rank][origin(rank, item)])
        ]
        if len(fitting) < len(others) - but:
            return False
    return True


EXERCISES = (
    Exercise(
        "3.1",
        "gather_all",
        inputs=one_shard,
        oracle=every_shard,
        shards=(*SHARDS, TURNED),
        hints=(added,),
    ),
    Exercise(
        "3.2",
        "ring_all_gather",
        inputs=one_shard,
        oracle=every_shard,
        worlds=(4, 3, 2, 1),
        shards=SHARDS,
        rules=(only_neighbours, round_the_ring, more_rounds),
        stops=(only_neighbours, round_the_ring),
        hints=(rounds,),
        may_share=True,
    ),
)
