"""What counts on one world, on one shape, or on a variable of the notebook."""

from __future__ import annotations

from course_utils.exercises import source
from course_utils.exercises.answers import Attempt, Outside
from course_utils.exercises.wording import listed


def sizes_passed(attempt: Attempt) -> list[int]:
    """Return the other world sizes on which cases were right."""
    before = dict.fromkeys(case.world_size for case in attempt.passed)
    return [size for size in before if size != attempt.case.world_size]


def counted_elsewhere(attempt: Attempt) -> str | None:
    """A global, or a number in the function, is the size of another world."""
    before, size = sizes_passed(attempt), attempt.case.world_size
    for found in read_outside(attempt):
        if found.value in before and found.kind == "number":
            reader = whose(found, attempt)
            return (
                f"{reader} reads the variable `{found.name}` of the ranks, which is "
                f"{found.value}, but this world has {size} ranks: ask "
                "dist.get_world_size() inside the function."
            )
    node = source.function(attempt.source, attempt.function)
    if len(before) == 1 and node and before[0] in source.numbers(node):
        return (
            f"There is a {before[0]} in the function: it is right on {before[0]} ranks "
            f"and wrong on {size}."
        )
    return None


def reads_tensor(attempt: Attempt) -> str | None:
    """A tensor of the notebook is read, in the place of an argument."""
    for found in read_outside(attempt):
        if found.kind != "number":
            return (
                f"{whose(found, attempt)} reads the variable `{found.name}` of the "
                "notebook: everything it works on must come from its arguments."
            )
    return None


def reads_number(attempt: Attempt) -> str | None:
    """A number of the notebook is read, which may be another one here."""
    for found in read_outside(attempt):
        if found.kind == "number" and found.name != "rank":
            return (
                f"{whose(found, attempt)} reads the variable `{found.name}` of the "
                f"notebook, which is {found.value}."
            )
    return None


def read_outside(attempt: Attempt) -> list[Outside]:
    """Return what the function reads from the notebook, on any rank."""
    found = {one.name: one for answer in attempt.answers for one in answer.outside}
    return [found[name] for name in sorted(found)]


def whose(found: Outside, attempt: Attempt) -> str:
    """Name the function that reads a variable."""
    if found.reader in (attempt.function, "<lambda>"):
        return "The function"
    return f"`{found.reader}`, which the function calls,"


def fixed_world(attempt: Attempt) -> str | None:
    """Right on other world sizes only."""
    before, size = sizes_passed(attempt), attempt.case.world_size
    if not before or any(case.world_size == size for case in attempt.passed):
        return None
    return f"It is right on {listed(before)} ranks and wrong on {size}."


def fixed_shard(attempt: Attempt) -> str | None:
    """Right for other shards only."""
    same = [c for c in attempt.passed if c.world_size == attempt.case.world_size]
    if not same:
        return None
    case = attempt.case
    given = case.given if case.sizes else case.given.removeprefix("shards ")
    return f"It is right for {same[-1].given} and wrong for {given}."
