"""What is wrong with a result before one looks at its values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from course_utils.exercises import source
from course_utils.exercises.answers import Attempt, Difference, is_list
from course_utils.exercises.wording import kind, plural, start
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks


def again(attempt: Attempt) -> str | None:
    """The second call with one input goes wrong."""
    if not attempt.again or attempt.right:
        return None
    why = ", as if something were kept from the first"
    changing = [r for r, a in enumerate(attempt.answers) if a.changed]
    if changing:
        why = f": the first has changed the input on {these_ranks(changing)}"
    what = "gives another result" if attempt.ended else "does not come to its end"
    return f"A second call with the same input {what}{why}."


def nothing(attempt: Attempt) -> str | None:
    """None on some ranks, where a result is expected."""
    without = [
        rank
        for rank in attempt.wrong()
        if attempt.yours[rank] is None and attempt.expected[rank] is not None
    ]
    if not without:
        return None
    node = source.function(attempt.source, attempt.function)
    collective = source.none_of(node) if node else ""
    if collective:
        return (
            f"{collective} itself returns None: it fills {source.FILLS[collective]}. "
            "Return that."
        )
    if node and not source.returns(node):
        prints = ", and prints instead" if source.uses(node, "print") else ""
        return f"The function has no return with a result in it{prints}."
    if without == list(range(1, len(attempt.answers))) and attempt.answers[0].right:
        return f"Only rank 0 returns the result; {these_ranks(without)} must, too."
    return (
        f"{start(without)} returned None: not every way through the function returns "
        "a result."
    )


def pending(attempt: Attempt) -> str | None:
    """Work that nobody waited for."""
    for rank, answer in enumerate(attempt.answers):
        if answer.state == "returned" and answer.pending:
            return (
                f"Rank {rank} never waits for the work that {answer.pending[0]} "
                "returned: until wait() the tensors are not to be used."
            )
    return None


def other_type(attempt: Attempt) -> str | None:
    """A tensor instead of a list, and the like."""
    for rank, place, expected, yours in pairs(attempt):
        if family(expected) != family(yours):
            return (
                f"On rank {rank} {place} is {kind(yours)}, where {kind(expected)} is "
                "expected."
            )
    return None


def pairs(attempt: Attempt) -> Iterator[tuple[int, str, Any, Any]]:
    """Yield what is expected beside what came: whole results, then items of lists."""
    for rank in attempt.wrong():
        yield from nested(
            rank, "the result", attempt.expected[rank], attempt.yours[rank]
        )


def nested(
    rank: int, place: str, expected: Any, yours: Any
) -> Iterator[tuple[int, str, Any, Any]]:
    """Yield a pair, and the pairs inside it."""
    yield rank, place, expected, yours
    if is_list(expected) and is_list(yours) and len(expected) == len(yours):
        for i, pair in enumerate(zip(expected, yours, strict=True)):
            inner = f"item {i}" if place == "the result" else f"{place}[{i}]"
            yield from nested(rank, inner, *pair)


def other_dtype(attempt: Attempt) -> str | None:
    """Tensors of another dtype."""
    for rank, place, expected, yours in pairs(attempt):
        if are_tensors(expected, yours) and expected.dtype != yours.dtype:
            return (
                f"The dtype has changed: on rank {rank} {place} is {yours.dtype}, "
                f"where {expected.dtype} is expected."
            )
    return None


def other_shape(attempt: Attempt) -> str | None:
    """Tensors of another shape."""
    for rank, place, expected, yours in pairs(attempt):
        if are_tensors(expected, yours) and expected.shape != yours.shape:
            return (
                f"The shape has changed: on rank {rank} {place} is {yours.shape}, "
                f"where {expected.shape} is expected."
            )
    return None


def other_length(attempt: Attempt) -> str | None:
    """Too many or too few items."""
    for rank in attempt.wrong():
        expected, yours = attempt.expected[rank], attempt.yours[rank]
        if is_list(expected) and is_list(yours) and len(expected) != len(yours):
            return (
                f"The {type(yours).__name__} of rank {rank} has {len(yours)} items; "
                f"expected are {len(expected)}."
            )
    return None


CHANGES = {
    "values": "changed its input",
    "length": "changed the list that it got as input",
    "grad": "left a gradient in `.grad` of its input",
    "requires_grad": "turned on `requires_grad` of its input",
}
INSTEAD = {
    "grad": "; compute it on a clone",
    "requires_grad": "; call requires_grad_() on a clone",
}


def changed(attempt: Attempt) -> str | None:
    """The input is not what it was."""
    changing = [r for r in attempt.wrong() if attempt.answers[r].changed]
    if not changing:
        return None
    what = attempt.answers[changing[0]].changed
    return (
        f"On {these_ranks(changing)} the function {CHANGES[what]}"
        f"{INSTEAD.get(what, '')}."
    )


def one_buffer(attempt: Attempt) -> str | None:
    """`[t] * n` and its kin."""
    for rank in attempt.wrong():
        found, items = attempt.answers[rank].aliases, attempt.yours[rank]
        if found and len(found) == len(items) * (len(items) - 1) // 2:
            return (
                "Every item of the list is the same buffer, so that all of them show "
                "what was written last."
            )
        if found:
            one, other = found[0]
            return f"On rank {rank}, items {one} and {other} are the same buffer."
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


def are_tensors(*values: object) -> bool:
    """Tell whether all values are tensors."""
    return all(isinstance(value, Snapshot) for value in values)


def both_tensors(found: Difference | None) -> bool:
    """Tell whether a difference is one of two tensors."""
    return found is not None and are_tensors(found.expected, found.yours)


def family(value: object) -> type:
    """Return the type of a value; lists and tuples are one."""
    return list if is_list(value) else type(value)


def only_root(attempt: Attempt) -> str | None:
    """Right on rank 0 alone."""
    wrong = attempt.wrong()
    if wrong and wrong == list(range(1, len(attempt.answers))):
        return "Only rank 0 has the right result; every rank must have it."
    return None


def only_some(attempt: Attempt) -> str | None:
    """Right on some ranks, and nothing known of the others."""
    wrong = attempt.wrong()
    right = [r for r in range(len(attempt.answers)) if r not in wrong]
    if not right or not wrong or any(attempt.expected[r] is None for r in right):
        return None
    verb = plural(right, "has", "have")
    return f"{start(right)} {verb} the right result, {these_ranks(wrong)} not."
