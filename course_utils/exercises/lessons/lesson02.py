"""The exercises of lesson 2, initialise the process group."""

from __future__ import annotations

from course_utils.exercises.answers import Attempt, Case, alike, is_list
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import no_arguments, the_path
from course_utils.exercises.wording import words
from course_utils.text import these_ranks

MAKING = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")


def rank_and_size(case: Case, inputs: Inputs) -> list:
    """Pair every rank with the world size."""
    return [(rank, case.world_size) for rank in range(case.world_size)]


def joined(attempt: Attempt) -> str | None:
    """Look at how each rank joined the group."""
    calls = [call for _, call in attempt.calls("init_process_group")]
    if len({call.arguments["init_method"] for call in calls}) > 1:
        return "The ranks name different places to meet: all have to name the same one."
    for rank, call in attempt.calls("init_process_group"):
        given, size = call.arguments, attempt.case.world_size
        for name in ("rank", "world_size"):
            if isinstance(given[name], str):
                return (
                    f"Rank {rank} passed {name}={given[name]!r}, which is text: "
                    "os.environ holds text, and a whole number is wanted."
                )
        if given["store"] is None and (given["init_method"] or "env:").startswith(
            "env:"
        ):
            return (
                "The ranks met at MASTER_ADDR and MASTER_PORT (env://, which is what "
                "init_process_group takes if it is told nothing else), not at the path."
            )
        if given["rank"] not in (rank, -1):
            return f"Rank {rank} joined as rank {given['rank']}."
        if given["world_size"] not in (size, -1):
            return f"The world to join has {size} ranks, not {given['world_size']}."
        method = given["init_method"] or ""
        if given["store"] is None and attempt.inputs[rank][0] not in method:
            return "The ranks met at another place than the path that they were given."
        if attempt.answers[rank].after.get("met") is False and attempt.right:
            return (
                f"The ranks met in a {given['store']}, and the path was not used: at "
                "the path there is no file."
            )
    return None


def initialised(attempt: Attempt) -> str | None:
    """No group is up, or none was asked for."""
    without = [
        rank
        for rank, answer in enumerate(attempt.answers)
        if not any(call.name == "init_process_group" for call in answer.calls)
        and answer.state in ("returned", "raised")
    ]
    if without:
        return f"No process group was initialised on {these_ranks(without)}."
    gone = [
        r for r, a in enumerate(attempt.answers) if a.after.get("initialised") is False
    ]
    if gone and not attempt.ranks("raised", "waited"):
        return f"On {these_ranks(gone)} no process group is left after the call."
    return None


def swapped(attempt: Attempt) -> str | None:
    """World size before rank."""
    if attempt.yours == [pair[::-1] for pair in attempt.expected]:
        return "Rank and world size are in the other order."
    return None


def even_ranks(case: Case, inputs: Inputs) -> list:
    """Give rank and size in the group of even ranks; (-1, 0) outside of it."""
    size = (case.world_size + 1) // 2
    return [(-1, 0) if r % 2 else (r // 2, size) for r in range(case.world_size)]


def everyone_calls(attempt: Attempt) -> str | None:
    """new_group is for all ranks, members or not."""
    if not any(next(attempt.calls(name), None) for name in MAKING):
        return None if attempt.ranks("raised") else "No sub-group was made."
    calling = dict(attempt.calls("new_group"))
    absent = [r for r in range(len(attempt.answers)) if r not in calling]
    if (
        calling
        and absent
        and not any(
            call.arguments["use_local_synchronization"] for call in calling.values()
        )
    ):
        return (
            f"{these_ranks(absent).capitalize()} never called new_group: every rank of "
            "the world calls it, members or not."
        )
    return None


def members(attempt: Attempt) -> str | None:
    """Look at who is in the group."""
    size = len(attempt.answers)
    if even_group(attempt):
        return None
    for rank, call in attempt.calls("new_group"):
        named = call.arguments["ranks"]
        if named is None:
            return "The group was made without naming its ranks, so all are in it."
        named = tuple(named) if is_list(named) else ()
        beyond = [r for r in named if isinstance(r, int) and r >= size]
        if beyond:
            return (
                f"Rank {rank} named {these_ranks(beyond)}, which a world of {size} "
                "does not have: the even ranks follow from its size."
            )
        odd = [r for r in named if isinstance(r, int) and r % 2]
        if odd:
            return f"Rank {rank} put {these_ranks(odd)} into the group of even ranks."
        if named and named != tuple(range(0, size, 2)):
            return f"Rank {rank} left even ranks out of the group."
    return None


def even_group(attempt: Attempt) -> bool:
    """Tell whether every even rank is in a group of all even ranks."""
    size = len(attempt.answers)
    evens = tuple(range(0, size, 2))
    named = any(
        is_list(call.arguments["ranks"]) and tuple(call.arguments["ranks"]) == evens
        for _, call in attempt.calls("new_group")
    )
    there = [evens in attempt.answers[r].after.get("groups", ()) for r in evens]
    return all(there) or named and not attempt.ranks("waited")


def nobody_else(attempt: Attempt) -> str | None:
    """The sub-groups that were made are others."""
    if attempt.ranks("raised", "waited") or even_group(attempt):
        return None
    return "There is no group of all even ranks on the even ranks after the call."


def place_in_group(attempt: Attempt) -> str | None:
    """Look at what each rank returned."""
    evens = [r for r in range(len(attempt.answers)) if not r % 2]
    if all(attempt.yours[r] == attempt.expected[r][::-1] for r in evens):
        return "Number and size are in the other order."
    for rank, yours in enumerate(attempt.yours):
        if alike(yours, attempt.expected[rank]) or attempt.ranks("raised", "waited"):
            continue
        if rank % 2:
            return (
                f"Rank {rank} is not in the group and returned {words(yours)} instead "
                "of (-1, 0)."
            )
        if is_list(yours) and yours == (attempt.expected[rank][0], len(attempt.yours)):
            return f"{yours[1]} is the size of the whole world, not of the group."
        if is_list(yours) and len(yours) == 2 and yours[0] == rank:
            return f"{rank} is the rank in the whole world, not in the group."
    return None


EXERCISES = (
    Exercise(
        "2.1",
        "bring_up",
        inputs=the_path,
        oracle=rank_and_size,
        worlds=(4, 3, 2, 1),
        group=False,
        twice=False,
        rules=(initialised, joined),
        stops=(initialised, joined),
        hints=(swapped,),
    ),
    Exercise(
        "2.2",
        "pair_group",
        inputs=no_arguments,
        oracle=even_ranks,
        worlds=(4, 3, 2, 1),
        rules=(everyone_calls, members, nobody_else),
        stops=(everyone_calls, members),
        hints=(place_in_group,),
    ),
)
