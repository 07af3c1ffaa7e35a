"""Exercises that others add: checked for their form, and made known to the ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from course_utils.exercises.answers import Case
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.lessons import LESSONS, own

ID = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+")


def known() -> list[str]:
    """List the ids of all exercises: those of the lessons in order, then others."""
    return [entry.id for lesson in LESSONS for entry in lesson.EXERCISES] + list(own)


def register(exercise: Exercise, *, replace: bool = False) -> None:
    """Let `check` know an exercise of your own.

    Whatever its functions need, they import or define inside: they run on the ranks.

    replace: take the place of an exercise that was registered under this id.

    Raises TypeError or ValueError, saying what was expected, for what is no exercise,
    or has an id that is taken.
    """
    if not isinstance(exercise, Exercise):
        kind = type(exercise).__name__
        raise TypeError(
            f"register: expected an Exercise, as in Exercise(…), got {kind}"
        )
    for name, expected, good in FORM:
        value = getattr(exercise, name)
        if not good(value):
            raise ValueError(f"{name}: expected {expected}, got {value!r}")
    if exercise.id in own and not replace:
        raise ValueError(
            f"id: exercise {exercise.id} is registered already; take another id, or "
            "say register(…, replace=True)"
        )
    if exercise.id in known() and exercise.id not in own:
        raise ValueError(
            f"id: the lessons have an exercise {exercise.id}; take another"
        )
    own[exercise.id] = exercise


def rehearse(exercise: Exercise, world_size: int) -> str:
    """Work out all cases on this rank, without the learner; say what does not fit.

    The ranks then know the exercise. Returns "" if all is well.
    """
    own[exercise.id] = exercise
    for case in exercise.cases(world_size):
        try:
            inputs = exercise.inputs(case, "")
            expected = exercise.oracle(case, inputs)
        except Exception as error:
            return f"{case}: {type(error).__name__}: {error}"
        for name, value in (("inputs", inputs), ("oracle", expected)):
            if not is_one_each(value, case):
                return f"{case}: {name} must return one item for each rank, in a list"
        if not all(isinstance(arguments, tuple) for arguments in inputs):
            return f"{case}: inputs must return a tuple of arguments for each rank"
    return ""


def is_one_each(value: Any, case: Case) -> bool:
    """Tell whether a value is a list with an item for each rank."""
    return isinstance(value, list | tuple) and len(value) == case.world_size


def is_name(value: Any) -> bool:
    """Tell whether a value can be the name of a function."""
    return isinstance(value, str) and value.isidentifier()


def are_functions(value: Any) -> bool:
    """Tell whether a value is a tuple of functions."""
    return isinstance(value, tuple) and all(map(callable, value))


def are_sizes(value: Any) -> bool:
    """Tell whether a value lists world sizes."""
    return is_filled(value, lambda size: type(size) is int and size > 0)


def are_shards(value: Any) -> bool:
    """Tell whether a value lists what cases have beside the world size."""
    most = len(Case._fields) - 1
    return is_filled(value, lambda part: isinstance(part, tuple) and len(part) <= most)


def is_filled(value: Any, good: Callable[[Any], bool]) -> bool:
    """Tell whether a value is a tuple of one good item or more."""
    return isinstance(value, tuple) and bool(value) and all(map(good, value))


def form() -> Sequence[tuple[str, str, Callable[[Any], bool]]]:
    """List the fields of an exercise, what each must be, and how that is seen."""
    named = {
        "id": ('text such as "A.1"', lambda v: isinstance(v, str) and ID.fullmatch(v)),
        "function": ("the name of the function to write", is_name),
        "worlds": ("a tuple of world sizes, such as (4, 2)", are_sizes),
        "shards": ('a tuple of tuples, such as (((2,), "int64"),)', are_shards),
    }
    for name in ("oracle", "inputs"):
        named[name] = ("a function", callable)
    for field in fields(Exercise):
        if field.default == ():
            named[field.name] = ("a tuple of functions", are_functions)
    return [(name, *row) for name, row in named.items()]


FORM = form()
